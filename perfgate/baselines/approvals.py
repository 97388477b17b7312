"""`perfgate baseline approve` and `add`, and `check --propose`: store runs as baselines, or complete stored ones.

A level is the runs of one approval. A chain of small changes is limited by its distance from a level, the anchor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from perfgate.baselines.candidates import Candidates, read_candidates
from perfgate.baselines.condensed import stored_series
from perfgate.baselines.files import StoredLevel, StoredSource
from perfgate.baselines.ledger import concerns, has_history, record_check, record_evidence
from perfgate.baselines.levels import RUNS_KEPT, History, StoredRun
from perfgate.baselines.stores import locked, open_store
from perfgate.core import Baseline, Run, SourceFile, Verdict
from perfgate.core.history_events import LedgerEntry
from perfgate.core.results import RUNS_THAT_SHOW_NOISE
from perfgate.core.runs import unhealthy
from perfgate.core.wording import plural, utf8_text
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.workspace import surroundings
from perfgate.workspace.options import CommandOptions, Refused, acceptance
from perfgate.workspace.rule_source import policy_source


class Approval(Struct, frozen=True):
    """An approval of runs as the new baseline. `reset_anchor`: its level becomes the anchor; `keep_all`: see `add`."""

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
            shown = LedgerEntry("approved", metrics=level.adopts, environment=found.environment, reason=level.reason)
            record_evidence(found.store, found.ruleset.suite, shown)
    before, now = len(found.loaded.history.levels.get(level.parent or "", ())), len(found.runs)
    if now >= min(before, RUNS_THAT_SHOW_NOISE) or found.loaded.baseline.priors:
        return lines
    has = f"the new level has {plural(now, 'run')}, and the level before it had {before}"
    add = "add more runs of this code with `perfgate baseline add`"
    return [*lines, f"warning: {has}: the next checks know less about the noise between runs; {add}"]


def propose(options: CommandOptions, folder: str, judged: Collection[SourceFile]) -> list[str]:
    """Write the files of an approval to another folder; returns the lines to print. Raises Refused.

    The level follows the newest one of the policy's baselines, so its files can be added to them.
    `folder`: the folder to write to. `judged`: the files that the check judged. They are read again, and nothing is
    written if one of them has changed.
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

    Runs that are stored already get the data that they lack instead; see `_filled_in`.

    Parameters:
        by: the user who adds the runs.
        rotate: remove the oldest runs of a full level, but not those of the anchor.
        keep_all: store the samples of every metric that has room, not only of those that a rule reads.
        merged: the head of the measured pull request. If only its allowances let the runs pass, they open a new level.
    """
    found = read_candidates(options, head=merged)
    with locked(found.store):
        found, lines = _filled_in(found.reloaded(), keep_all=keep_all)
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
        case = Case(found.ruleset, found.runs, baseline, surroundings.today(), found.facts)
        verdicts = _recorded(found, judge(case))
        eased = [verdict for verdict in verdicts if verdict.allowed_by is not None]
        if eased:
            return lines + found.write(_allowed_level(found, eased), found.store, keep_all=keep_all, by=by)
        return [*lines, *_widening(verdicts), *_add(found, history, by, rotate, keep_all)]


def _add(found: Candidates, history: History, by: str | None, rotate: bool, keep_all: bool) -> list[str]:
    """Write the runs into the newest level. With `rotate`, its oldest runs are removed, but not the anchor's."""
    head = history.heads()[0]
    held = history.levels[head]
    room = RUNS_KEPT - len(held)
    if len(found.runs) > room and not rotate:
        raise Refused(f"level {head} has {len(held)} of {RUNS_KEPT} runs: replace the oldest with --rotate", 1)
    lines = found.write(history.level(head), found.store, keep_all=keep_all, by=by)
    anchored = {run.stored.path for run in history.anchor(head)}
    for run in held[: max(0, len(found.runs) - room)]:
        if run.path not in anchored:  # later levels are compared with these
            found.store.remove(run.path)
            lines.append(f"removed {found.store.location(run.path)}")
    return lines


def _level(found: Candidates, approval: Approval) -> StoredLevel:
    """Return the level that an approval opens. Raises Refused if the runs are too far from the anchor."""
    heads = found.loaded.history.heads()
    parent = heads[-1] if heads else None
    adopts = _adopted(found, approval.adopt)
    if adopts and parent is None:
        raise Refused("no level exists yet: approve the first one without --adopt", 1)
    if parent is not None and not approval.reset_anchor:
        _refuse_beyond_anchor(found, parent, adopts)
    name, reason = found.level_name(parent, approval.reason), utf8_text(approval.reason)
    who = utf8_text(approval.by or surroundings.who())
    anchor = parent is None or approval.reset_anchor
    return StoredLevel(name, parent, reason, who, approval.pr, anchor, settles=heads[:-1], adopts=adopts)


def _adopted(found: Candidates, names: Iterable[str]) -> list[str]:
    """Return the metrics of the runs that have these names, or match these globs. Raises Refused if one has none."""
    measured = {series.key.metric for run in found.runs for series in run.series}
    adopted: set[str] = set()
    for name in names:
        matching = {metric for metric in measured if concerns([name], [metric])}
        if not matching:
            raise Refused(f"--adopt {name}: no run has such a metric; see `perfgate inspect`", 1)
        adopted |= matching
    return sorted(adopted)


def _refuse_beyond_anchor(found: Candidates, parent: str, adopts: list[str]) -> None:
    """Raise Refused if the runs are further from the anchor than the rules allow. `adopts` are the approved metrics."""
    anchor = tuple(run.run() for run in found.loaded.history.anchor(parent))
    verdicts = judge(Case(found.ruleset, found.runs, Baseline(anchor=anchor), surroundings.today(), found.facts))
    about_anchor = (verdict for verdict in verdicts if verdict.against == "anchor")
    approved = (verdict for verdict in about_anchor if not adopts or verdict.metric in adopts)
    beyond = [f"  {verdict.rule}: {verdict.message}" for verdict in approved if _is_beyond(verdict)]
    if beyond:
        words = "\n".join(beyond)
        step = "to move the anchor itself, approve with --reset-anchor and the reason"
        raise Refused(f"not approved: the runs are further from the anchor than the rules allow\n{words}\n{step}", 1)


def _is_beyond(verdict: Verdict) -> bool:
    """Return whether a verdict fails, or its estimate alone is beyond the tolerance.

    Small steps that noise may explain add up, too, so the estimate counts without its noise.
    """
    if verdict.outcome == "fail":
        return True
    change = None if verdict.change is None else verdict.change.estimate
    if change is None or verdict.tolerance is None:
        return False
    if verdict.two_sided:
        return abs(change) > verdict.tolerance
    return (-change if verdict.better == "higher" else change) > verdict.tolerance


def _recorded(found: Candidates, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
    """Record the verdicts about a commit of main in the ledger, and return them. Raises Refused if the runs fail."""
    suite, commit = found.ruleset.suite, found.options.head or surroundings.head_commit()
    if has_history(found.store, suite):
        files = [file for run in found.runs for file in run.files]
        record_check(found.store, suite, found.loaded.baseline.place, commit, files, verdicts)
    bad = [verdict for verdict in verdicts if _refuses(verdict)]
    if bad:
        words = "\n".join(f"  {verdict.outcome}: {verdict.rule}: {verdict.message}" for verdict in bad)
        command = acceptance(found.options).approve
        raise Refused(f"not added: the runs do not pass their own rules\n{words}\nto accept them: {command}", 1)
    return verdicts


def _refuses(verdict: Verdict) -> bool:
    """Return whether a verdict keeps a run out of the baseline; not if it only lacks runs, or a base of its metric."""
    if verdict.reason == "cannot-exclude":
        return verdict.exit_code == 1  # the rule says that undecided is a failure
    return verdict.exit_code != 0 and verdict.reason not in ("no-baseline", "noise-unknown")


def _widening(verdicts: Iterable[Verdict]) -> list[str]:
    """Return a warning for each change that is undecided because of noise: such runs make later ones undecided, too."""
    # Not for a suspect one, which is probably worse, and not for `noise-unknown`, which only means too few runs.
    return [
        f"warning: {v.message}: this run widens every later interval; if it was disturbed, remove its file"
        for v in verdicts
        if v.kind == "change" and v.outcome == "undecided" and not v.suspect and v.reason != "noise-unknown"
    ]


def _allowed_level(found: Candidates, eased: list[Verdict]) -> StoredLevel:
    """Return the level of runs that pass only by allowances: it adopts the metrics of these verdicts."""
    parent = found.loaded.history.heads()[0]
    metrics = sorted({verdict.metric for verdict in eased})
    used = [allowance for allowance in found.loaded.baseline.allowances if concerns([allowance.metric], metrics)]
    reason = "; ".join(dict.fromkeys(f"allowed up to {100 * a.up_to:g}%: {a.reason}" for a in used))
    who = ", ".join(dict.fromkeys(a.by for a in used))
    return StoredLevel(found.level_name(parent, reason), parent, reason, who, adopts=metrics)


# --- stored runs that lack something --------------------------------------------------------------------------------


def _filled_in(found: Candidates, *, keep_all: bool = False) -> tuple[Candidates, list[str]]:
    """Complete the stored runs that were read from the same files as some candidates.

    A run that was stored by an older perfgate, or with older rules, may lack summaries, or the samples of a metric that
    a rule names now. Its source files have them. The approval of the run does not change.

    Returns the candidates that are not stored yet, and a line for each stored run. Raises Refused if a file gives other
    values now than when it was stored, and if all runs are stored and complete.
    """
    known: dict[tuple[str, ...], list[StoredRun]] = {}  # by the hashes of the source files
    for level in found.loaded.history.levels.values():
        for stored in level:
            known.setdefault(_hashes(stored.head.sources), []).append(stored)
    new: list[Run] = []
    lines: list[str] = []
    complete: list[str] = []
    for run in found.runs:
        if _hashes(run.files) not in known:
            new.append(run)
            continue
        stored = _equal_run(known[_hashes(run.files)], run)
        line = found.complete(stored, run, keep_all=keep_all)
        if line is None:
            complete.append(f"{run.name} is stored already, as {stored.path}, and lacks nothing")
        else:
            lines.append(line)
    if complete and not lines and not new:
        raise Refused(f"{complete[0]}: the same run counts once", 1)
    remaining = replace(found, runs=tuple(new))
    return remaining.reloaded() if lines else remaining, [*lines, *complete]


def _hashes(files: Iterable[SourceFile | StoredSource]) -> tuple[str, ...]:
    return tuple(sorted(file.sha256 for file in files))


def _equal_run(stored: Sequence[StoredRun], run: Run) -> StoredRun:
    """Return the first stored run whose series have the same values in `run`, which may have many more series.

    Raises Refused if no stored run is equal.
    """
    read = {series.key: series for series in run.series}
    for one in stored:
        if all(row.key in read and stored_series(read[row.key]) == row for row in one.file.series):
            return one
    step = "read it with the same --format and --trace-mode, or measure again and add that run"
    raise Refused(f"{run.name} reads differently now than in {stored[0].path}: nothing was filled in; {step}", 1)
