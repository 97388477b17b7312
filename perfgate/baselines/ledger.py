"""The error ledger, beside the history: what rules answered on main, and what later showed the truth.

    _history/_ledger/SUITE/2026-11/TIME-ID.json    one entry: a check, or a piece of evidence
    _history/_ledger/SUITE/2026-11-HASH.json       the entries of a month

No file is rewritten, as in the history. `compact_ledger` writes the entries of a month into one file, reads them there,
and then removes the single files. Two entries with the same id count once.

`ledger_of` counts how often each rule was wrong. An answer is right or wrong only if something other than the answer
itself shows it. Unknown answers are counted apart, and never as right.

| evidence | what it shows | it counts for |
|---|---|---|
| `found`: a bisect found the commit | the commits from it on are worse | reds and greens |
| `cleared`: the same bisect | the commits before it are not worse | reds and greens |
| `not-reproduced`: a bisect | the commit is not worse | reds and greens |
| `approved`: a person accepted the change as the new level | the change was real | reds |
| `reverted`: a revert brought the metric back | the change was real | reds and greens |
| `false-alarm`: a person closed the ticket as one | the commit is not worse | reds and greens |
| `event`: the history has a change that begins there | the commits are worse | reds and greens |
| the same commit was measured again, and was green from then on | the last red was wrong | reds |
| the next two commits with an answer were green | a change would have stayed, so the green was right | greens |

Evidence has a rank: a bisect, which measures both sides, is above a person, a person is above the history, and the last
two rows are below all others. If two kinds of one rank contradict each other, the answer is unknown. Evidence of a
change ends with the next approval, because later checks compare with the new level. A fix after a red proves nothing: a
fix of something that was not broken looks the same. A green that is followed by a red of the same commit is unknown.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from perfgate.baselines.places import HISTORY, LEDGER, MONTH_FILE, kind_of
from perfgate.baselines.stores import Store, WritableStore, each_signed, write_file
from perfgate.core import Problem, SourceFile, Verdict
from perfgate.core.history_events import EvidenceKind, LedgerAnswer, LedgerEntry, RuleAnswer, RuleRecord
from perfgate.core.wording import plural
from perfgate.documents.structs import SignedFile
from perfgate.rules.syntax.sentence import glob_matches
from perfgate.stats.distributions import share_bounds
from perfgate.version import __version__
from perfgate.workspace.surroundings import now

#: For each kind of evidence: its rank, True if it shows a change, and the answers that it counts for.
_SHOWS: Mapping[EvidenceKind, tuple[int, bool, tuple[LedgerAnswer, ...]]] = {
    "found": (3, True, ("red", "green")),
    "cleared": (3, False, ("red", "green")),
    "not-reproduced": (3, False, ("red", "green")),
    "approved": (2, True, ("red",)),
    "reverted": (2, True, ("red", "green")),
    "false-alarm": (2, False, ("red", "green")),
    "event": (1, True, ("red", "green")),
}
#: The number of later green commits that confirm a green.
_CONFIRMING = 2
#: Commits are compared by this many digits: some tools shorten them.
_DIGITS = 12


class LedgerFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a file of the ledger."""

    schema: str
    tool: str
    suite: str
    entries: list[LedgerEntry]
    content_sha256: str = ""


LEDGER_FILE = SignedFile(
    "perfgate.ledger/1", LedgerFile, lambda file: None, "remove it: its entries are then forgotten", ("entries",)
)


def has_history(store: Store, suite: str) -> bool:
    """Return whether there is a history of main; without one, its checks are not recorded."""
    return any(store.paths(f"{HISTORY}/{suite}")[0])


def record_check(
    store: WritableStore,
    suite: str,
    place: str | None,
    commit: str | None,
    files: Iterable[SourceFile],
    verdicts: Sequence[Verdict],
) -> str | None:
    """Record the answer of each rule; returns the path, or None if nothing new was answered. Raises Refused.

    `place`: the level that the runs were compared with, SUITE/ENVIRONMENT/LEVEL. `files`: the files of the runs. If the
    same runs are judged again, they are not recorded again.
    """
    by_rule: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.outcome != "skipped":
            by_rule.setdefault(verdict.rule, []).append(verdict)
    if not by_rule:
        return None
    answers = [RuleAnswer(rule, _answer(own), sorted({v.metric for v in own})) for rule, own in by_rule.items()]
    environment = place.split("/")[1] if place else ""
    commits = [commit] if commit else []
    entry = LedgerEntry("check", commits, environment=environment, answers=answers)
    return _write(store, suite, entry, [environment, commits, sorted(file.sha256 for file in files)])


def _answer(verdicts: Iterable[Verdict]) -> LedgerAnswer:
    """The answer of a rule: red if one of its verdicts failed, green if all passed, else open."""
    outcomes = {verdict.outcome for verdict in verdicts}
    if "fail" in outcomes:
        return "red"
    return "green" if outcomes == {"pass"} else "open"


def record_evidence(store: WritableStore, suite: str, found: LedgerEntry) -> str | None:
    """Record evidence about checks; returns the path, or None if it is known or there are no checks. Raises Refused."""
    if not any(store.paths(f"{LEDGER}/{suite}")[0]):
        return None
    # evidence without commits is about the checks before it, so its time distinguishes it
    identity = [found.kind, found.environment, found.commits or f"{now():%Y-%m-%dT%H:%M:%SZ}", found.metrics]
    return _write(store, suite, found, identity)


def _write(store: WritableStore, suite: str, entry: LedgerEntry, identity: Sequence[object]) -> str | None:
    """Write an entry with the time and an id, the hash of `identity`; returns the path, or None if it is known."""
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    entry = replace(entry, time=f"{now():%Y-%m-%dT%H:%M:%SZ}", id=digest)
    if any(entry.id in path for path in store.paths(f"{LEDGER}/{suite}")[0]):
        return None
    path = f"{LEDGER}/{suite}/{entry.time[:7]}/{entry.time.replace('-', '').replace(':', '')}-{entry.id}.json"
    write_file(store, path, _data(suite, [entry]))
    return path


def _data(suite: str, entries: Sequence[LedgerEntry]) -> bytes:
    return LEDGER_FILE.encode(LedgerFile(LEDGER_FILE.schema, f"perfgate {__version__}", suite, [*entries]))


def read_ledger(store: Store, suite: str) -> tuple[tuple[LedgerEntry, ...], list[Problem]]:
    """Return the entries of a suite, and a problem for each file that cannot be used."""
    paths, problems = store.paths(f"{LEDGER}/{suite}")
    return tuple(_entries(store, paths, problems).values()), problems


def _entries(store: Store, paths: Iterable[str], problems: list[Problem]) -> dict[str, LedgerEntry]:
    """Return the entries in these files by id, the oldest of each; adds a problem for each damaged file."""
    found: dict[str, LedgerEntry] = {}
    for _, file in each_signed(store, paths, "history", LEDGER_FILE, problems):
        for entry in file.entries:
            if entry.id not in found or entry.time < found[entry.id].time:
                found[entry.id] = entry
    return found


def suites_of_ledger(store: Store) -> list[str]:
    """Return the suites that have a ledger."""
    return sorted({suite for suite, _ in _months(store)})


def _months(store: Store) -> dict[tuple[str, str], list[str]]:
    """Return the files of all ledgers by suite and month. Other files beside them are left out."""
    months: dict[tuple[str, str], list[str]] = {}
    for path in store.paths(LEDGER)[0]:
        if kind_of(path) == "history":  # the ledger is a part of the history
            suite, name = path.split("/")[2:4]
            months.setdefault((suite, name[:7]), []).append(path)
    return months


def compact_ledger(store: WritableStore, before: str | None = None) -> tuple[list[str], list[Problem]]:
    """Write the entries of each month as one file; returns a line for each new file, and problems. Raises Refused.

    `before`: the first month that is not compacted, `YYYY-MM`; None to compact all months.
    """
    lines, problems = list[str](), list[Problem]()
    for (suite, month), paths in sorted(_months(store).items()):
        if (before is not None and month >= before) or (len(paths) == 1 and MONTH_FILE.search(paths[0])):
            continue
        damaged: list[Problem] = []
        entries = _entries(store, paths, damaged)
        data = _data(suite, sorted(entries.values(), key=lambda entry: (entry.time, entry.id)))
        target = f"{LEDGER}/{suite}/{month}-{hashlib.sha256(data).hexdigest()[:16]}.json"
        problems += damaged
        if damaged:
            continue
        if target not in paths:
            write_file(store, target, data)
        if _entries(store, [target], problems).keys() == entries.keys():
            for path in sorted({*paths} - {target}):
                store.remove(path)
            lines.append(f"ledger of {suite}, {month}: {plural(len(entries), 'record')} in one file")
    return lines, problems


# --- how often each rule was wrong ----------------------------------------------------------------------------------


class _Check(Struct, frozen=True):
    """One answer of a rule about one commit, and the metrics that the rule judged."""

    time: str
    commit: str
    answer: LedgerAnswer
    metrics: list[str]


def ledger_of(entries: Iterable[LedgerEntry]) -> Mapping[str, RuleRecord]:
    """Return the record of each rule that answered red or green at least once, by its name."""
    ordered = sorted({entry.id: entry for entry in entries}.values(), key=lambda entry: (entry.time, entry.id))
    checks: dict[tuple[str, str], list[_Check]] = {}  # by rule and environment
    for entry in ordered:
        commit = entry.commits[0][:_DIGITS] if entry.commits else ""
        for answer in entry.answers:
            check = _Check(entry.time, commit, answer.answer, answer.metrics)
            checks.setdefault((answer.rule, entry.environment), []).append(check)
    counts: dict[str, Counter[tuple[LedgerAnswer, bool | None]]] = {}  # by rule: how often an answer was right
    for (rule, environment), judged in checks.items():
        evidence = [entry for entry in ordered if entry.kind != "check" and entry.environment in ("", environment)]
        counts.setdefault(rule, Counter()).update(_truths(judged, evidence))
    return {rule: _record(counted) for rule, counted in sorted(counts.items()) if counted}


def _record(counted: Counter[tuple[LedgerAnswer, bool | None]]) -> RuleRecord:
    right, unknown = (counted["red", truth] + counted["green", truth] for truth in (True, None))
    wrong = counted["red", False], counted["green", False]
    return RuleRecord(right, *wrong, unknown, highest=share_bounds(sum(wrong), right + sum(wrong))[1])


def _truths(checks: Sequence[_Check], evidence: Sequence[LedgerEntry]) -> list[tuple[LedgerAnswer, bool | None]]:
    """Return each red and green of one rule, by time: True if right, False if wrong, None if nothing shows it."""
    places: dict[str, list[int]] = {}  # by commit: the indices of its checks
    for i, check in enumerate(checks):
        places.setdefault(check.commit, []).append(i)
    # for each check, by rank: True if evidence shows a change, False if evidence shows none
    shown: list[dict[int, set[bool]]] = [{} for _ in checks]
    metrics = sorted({metric for check in checks for metric in check.metrics})
    approved = [e.time for e in evidence if e.kind == "approved" and concerns(e.metrics, metrics)]
    for entry in evidence:
        rank, is_change, about = _SHOWS[entry.kind]  # type: ignore[index]
        for i in _checks_about(entry, checks, places, approved if is_change else ()):
            if checks[i].answer in about and concerns(entry.metrics, checks[i].metrics):
                shown[i].setdefault(rank, set()).add(is_change)
    truths = _by_later_checks(checks)
    for i, known in enumerate(shown):
        if known:  # evidence counts more than later checks
            highest = known[max(known)]
            # a red is right if there is a change, a green if there is none; evidence of one rank may contradict itself
            truths[i] = highest == {checks[i].answer == "red"} if len(highest) == 1 else None
    return [(check.answer, truth) for check, truth in zip(checks, truths, strict=True) if check.answer != "open"]


def _checks_about(
    entry: LedgerEntry, checks: Sequence[_Check], places: Mapping[str, Sequence[int]], approved: Sequence[str]
) -> Iterable[int]:
    """Return the indices of the checks that evidence is about.

    Evidence without commits is about the checks before it, back to the last green one, which is not included.
    Evidence with commits ends at the next approval; `approved`: their times. `places`: by commit, indices of checks.
    """
    if not entry.commits:
        end = start = bisect_right(checks, entry.time, key=lambda check: check.time)
        while start and checks[start - 1].answer != "green":
            start -= 1
        return range(start, end)
    about = [i for commit in entry.commits for i in places.get(commit[:_DIGITS], ())]
    began = min((checks[i].time for i in about), default="")
    over = min((time for time in approved if time > began), default="~")  # `~` is after every time
    return [i for i in about if checks[i].time < over]


def concerns(named: Sequence[str], metrics: Sequence[str]) -> bool:
    """Return whether one of the metrics has one of these names, which may be globs; no names mean every metric."""
    return not named or any(metric == name or glob_matches(name, metric) for name in named for metric in metrics)


def _by_later_checks(checks: Sequence[_Check]) -> list[bool | None]:
    """Return for each check whether its answer was right by the last two rows of the table above; None if unknown."""
    truths: list[bool | None] = []
    again: dict[str, set[LedgerAnswer]] = {}  # by commit: the answers of later checks
    confirming: set[str] = set()  # the commits of later green checks, up to the next red one
    for check in reversed(checks):
        truth = None
        if check.answer == "red":
            truth = False if again.get(check.commit) == {"green"} else None
            confirming.clear()
        elif check.answer == "green":
            truth = True if len(confirming) - (check.commit in confirming) >= _CONFIRMING else None
            confirming |= {check.commit} - {""}
        truths.append(truth)
        if check.commit and check.answer != "open":
            again.setdefault(check.commit, set()).add(check.answer)
    return truths[::-1]
