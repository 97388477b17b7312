"""`perfgate baseline approve` and `add`, and `check --propose`: store runs as baselines."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct

from perfgate.baselines.candidates import Candidates, read_candidates
from perfgate.baselines.files import StoredLevel
from perfgate.baselines.fill_in import fill_in
from perfgate.baselines.ledger import has_history, record_check, record_evidence
from perfgate.baselines.levels import RUNS_KEPT, History
from perfgate.baselines.stores import locked, open_store
from perfgate.core import Baseline, SourceFile, Verdict
from perfgate.core.history_events import LedgerEntry
from perfgate.core.results import RUNS_THAT_SHOW_NOISE
from perfgate.core.runs import unhealthy
from perfgate.core.wording import plural, utf8_text
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.rules.syntax.sentence import glob_matches
from perfgate.workspace import surroundings
from perfgate.workspace.options import CommandOptions, Refused, acceptance
from perfgate.workspace.rule_source import policy_source


class Approval(Struct, frozen=True):
    """An approval of runs as the new normal."""

    reason: str
    by: str | None = None
    pr: int | None = None
    #: The metrics that are approved; empty means all.
    adopt: tuple[str, ...] = ()
    reset_anchor: bool = False
    keep_all: bool = False


def approve(options: CommandOptions, approval: Approval) -> list[str]:
    """Open a new level with these runs; returns the lines to print. Raises Refused."""
    if not approval.reason.strip():
        raise Refused('an approval needs a reason: --reason "..."')
    return open_level(read_candidates(options), approval)


def open_level(found: Candidates, approval: Approval) -> list[str]:
    """Open a new level with runs that were read; returns the lines to print. Raises Refused."""
    with locked(found.store):
        found = found.reloaded()
        level = _level(found, approval)
        lines = found.write(level, found.store, keep_all=approval.keep_all, only=level.adopts)
        if level.parent is not None:
            shown = LedgerEntry("approved", [], level.adopts, found.environment, level.reason)
            record_evidence(found.store, found.ruleset.suite, shown)
        return [*lines, *_fewer_runs(found, level)]


def _fewer_runs(found: Candidates, level: StoredLevel) -> list[str]:
    """Return a warning if a level shows less of the noise than the one before it, which is no longer used."""
    before, now = len(found.loaded.history.levels.get(level.parent or "", ())), len(found.runs)
    if now >= min(before, RUNS_THAT_SHOW_NOISE) or found.loaded.baseline.priors:
        return []
    has = f"the new level has {plural(now, 'run')}, and the level before it had {before}"
    add = "add more runs of this code with `perfgate baseline add`"
    return [f"warning: {has}: the next checks know less about the noise between runs; {add}"]


def propose(options: CommandOptions, folder: str, judged: Collection[SourceFile]) -> list[str]:
    """Write the files of an approval to another folder; returns the lines to print. Raises Refused.

    The level follows the one of the policy, so the files fit into the base. The runs are read again.

    `folder`: the folder to write to. `judged`: the files that the check judged; nothing is written if one of them has
    changed.
    """
    if "-" in options.runs:
        raise Refused("--propose reads the runs twice, which standard input does not allow: give a file")
    source = policy_source(options.policy_ref, options.policy_commit)
    found, target = read_candidates(options, source).reloaded(), open_store(folder)
    changed = [file.path for run in found.runs for file in run.files if file not in judged]
    if changed:
        raise Refused(f"{changed[0]} has changed since it was judged: nothing was proposed; check it again", 3)
    commit = options.head or surroundings.head_commit()
    level = _level(found, Approval(f"as measured at {commit[:12]}" if commit else "as measured"))
    with locked(target):
        return found.write(level, target)


def add(
    options: CommandOptions,
    by: str | None = None,
    *,
    rotate: bool = False,
    keep_all: bool = False,
    merged: str | None = None,
) -> list[str]:
    """Add runs to the current level; returns the lines to print. Raises Refused, also if the runs fail their rules.

    Runs that are stored already are completed instead: see `fill_in`.

    Parameters:
        by: the user who adds the runs.
        rotate: remove the oldest runs of a full level.
        keep_all: store the samples of every metric, not only of those that a rule reads.
        merged: the head of the pull request whose merge was measured; its allowances open a new level.
    """
    found = read_candidates(options, head=merged)
    with locked(found.store):
        found, lines = fill_in(found.reloaded(), keep_all=keep_all)
        if not found.runs:
            return lines
        history, baseline = found.loaded.history, found.loaded.baseline
        if len(history.heads()) > 1:
            raise Refused("\n".join(map(str, found.loaded.problems)), 3)
        if baseline.place is None:
            raise Refused(f"{baseline.missing}; open a level first: {acceptance(options).approve}", 3)
        found.refuse_known(history)
        if reasons := unhealthy(found.facts):
            raise Refused(f"not added: the GPU was throttled ({', '.join(reasons)}): measure again when it is cool", 1)
        verdicts = _recorded(found, judge(_case(found, found.loaded.baseline)))
        eased = [verdict for verdict in verdicts if verdict.allowed_by is not None]
        if eased:
            return lines + found.write(_allowed_level(found, eased), found.store, keep_all=keep_all, by=by)
        return [*lines, *_widening(verdicts), *_add(found, history, by, rotate, keep_all)]


def _add(found: Candidates, history: History, by: str | None, rotate: bool, keep_all: bool) -> list[str]:
    head = history.heads()[0]
    held = history.levels[head]
    room = RUNS_KEPT - len(held)
    if len(found.runs) > room and not rotate:
        raise Refused(f"level {head} has {len(held)} of {RUNS_KEPT} runs: replace the oldest with --rotate", 1)
    lines = found.write(history.level(head), found.store, keep_all=keep_all, by=by)
    anchored = {run.stored.path for run in history.anchor(head)}
    for run in held[: max(0, len(found.runs) - room)]:
        if run.path not in anchored:  # budgets are counted from these
            found.store.remove(run.path)
            lines.append(f"removed {found.store.location(run.path)}")
    return lines


def _level(found: Candidates, approval: Approval) -> StoredLevel:
    """Return the level that an approval opens. Raises Refused if the runs are too far from the anchor."""
    history = found.loaded.history
    heads = history.heads()
    parent = heads[-1] if heads else None
    adopts = _adopted(found, approval.adopt)
    if adopts and parent is None:
        raise Refused("no level exists yet: approve the first one without --adopt", 1)
    if parent is not None and not approval.reset_anchor:
        _refuse_beyond_anchor(found, parent, adopts)
    name, reason = found.level_name(parent, approval.reason), utf8_text(approval.reason)
    who = utf8_text(approval.by or surroundings.who())
    anchor = parent is None or approval.reset_anchor
    return StoredLevel(name, parent, reason, who, approval.pr, anchor, heads[:-1], adopts)


def _adopted(found: Candidates, names: Iterable[str]) -> list[str]:
    held = {series.key.metric for run in found.runs for series in run.series}
    adopted: set[str] = set()
    for name in names:
        matching = {metric for metric in held if metric == name or glob_matches(name, metric)}
        if not matching:
            raise Refused(f"--adopt {name}: no run has such a metric; see `perfgate inspect`", 1)
        adopted |= matching
    return sorted(adopted)


def _refuse_beyond_anchor(found: Candidates, parent: str, adopts: list[str]) -> None:
    """Raise Refused if the runs are further from the anchor than the rules allow, for a chain of small steps."""
    anchor = tuple(run.run() for run in found.loaded.history.anchor(parent))
    verdicts = judge(_case(found, Baseline(anchor=anchor)))
    beyond = [v for v in verdicts if v.against == "anchor" and (v.metric in adopts or not adopts) and _is_beyond(v)]
    if beyond:
        words = "\n".join(f"  {verdict.rule}: {verdict.message}" for verdict in beyond)
        step = "to move the anchor itself, approve with --reset-anchor and the reason"
        raise Refused(f"not approved: the runs are further from the anchor than the rules allow\n{words}\n{step}", 1)


def _is_beyond(verdict: Verdict) -> bool:
    """Return whether runs are beyond a tolerance, whatever their noise: doubtful steps add up, too."""
    estimate = verdict.change.estimate if verdict.change else None
    if estimate is None or verdict.tolerance is None:
        return verdict.outcome == "fail"
    worse = abs(estimate) if verdict.two_sided else -estimate if verdict.better == "higher" else estimate
    return verdict.outcome == "fail" or worse > verdict.tolerance


def _recorded(found: Candidates, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """Return the verdicts about a commit of main, which its ledger records. Raises Refused if the runs fail."""
    if has_history(found.store, found.ruleset.suite):
        commit, files = (
            found.options.head or surroundings.head_commit(),
            [file for run in found.runs for file in run.files],
        )
        record_check(found.store, found.ruleset.suite, found.loaded.baseline.place, commit, files, verdicts)
    bad = [verdict for verdict in verdicts if _refuses(verdict)]
    if bad:
        words = "\n".join(f"  {verdict.outcome}: {verdict.rule}: {verdict.message}" for verdict in bad)
        command = acceptance(found.options).approve
        raise Refused(f"not added: the runs do not pass their own rules\n{words}\nto accept them: {command}", 1)
    return verdicts


def _refuses(verdict: Verdict) -> bool:
    """Return whether a verdict keeps a run out of the baseline.

    Doubt about the noise does not, unless the rule calls doubt a failure: the store needs more runs to show the noise.
    """
    if verdict.reason == "cannot-exclude":
        return verdict.exit_code == 1
    return verdict.exit_code != 0 and verdict.reason not in ("no-baseline", "noise-unknown")


def _widening(verdicts: Iterable[Verdict]) -> list[str]:
    """Return a warning for each comparison that noise leaves open: such runs leave later ones open, too."""
    return [
        f"warning: {v.message}: this run widens every later interval; if it was disturbed, remove its file"
        for v in verdicts
        if v.kind == "change" and v.outcome == "undecided" and not v.suspect and v.reason != "noise-unknown"
    ]


def _allowed_level(found: Candidates, eased: list[Verdict]) -> StoredLevel:
    parent = found.loaded.history.heads()[0]
    metrics = sorted({verdict.metric for verdict in eased})
    used = [
        allowance
        for allowance in found.loaded.baseline.allowances
        if any(glob_matches(allowance.metric, metric) or allowance.metric == metric for metric in metrics)
    ]
    reason = "; ".join(dict.fromkeys(f"allowed up to {100 * a.up_to:g}%: {a.reason}" for a in used))
    who = ", ".join(dict.fromkeys(a.by for a in used))
    return StoredLevel(found.level_name(parent, reason), parent, reason, who, adopts=metrics)


def _case(found: Candidates, baseline: Baseline) -> Case:
    return Case(found.ruleset, found.runs, baseline, surroundings.today(), found.facts)
