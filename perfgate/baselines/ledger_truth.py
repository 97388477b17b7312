"""Count how often each rule was wrong: its answers on main against what happened later.

An answer is right or wrong only if something other than the answer itself shows it. Everything else is unknown: unknown
answers are counted apart, and never as right.

| evidence | shows | about |
|---|---|---|
| `found`: a bisect found the commit | the commits from it on are worse | reds and greens |
| `cleared`: the same bisect | the commits before it are not | reds and greens |
| `not-reproduced`: a bisect | the commit is not worse | reds and greens |
| `approved`: a person accepted the change as the new level | the change was real | reds |
| `reverted`: a revert brought the metric back | the change was real | reds and greens |
| `false-alarm`: a person closed the ticket as one | the commit is not worse | reds and greens |
| `event`: the history has a change that begins there | the commits are worse | reds and greens |
| the same commit was measured again, and was green from then on | the first red was wrong | reds |
| the next two commits with an answer were green | a change would have stayed, so the green was right | greens |

A measurement of both sides (bisect) outranks a person, a person the history, and all of them the last two rows. Two
kinds of one rank that contradict each other leave the answer unknown. Evidence of a change ends with the next approval,
because later checks compare with the new level. A red that is followed by a fix proves nothing: a fix of something that
was not broken looks the same. A green that is followed by a red of the same commit is unknown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from perfgate.core.history_events import EvidenceKind, LedgerAnswer, LedgerEntry, RuleRecord
from perfgate.rules.syntax.sentence import glob_matches
from perfgate.stats.distributions import rate_bounds

#: The rank of each kind of evidence, whether it shows a change, and the answers that it is about.
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


class _Check(Struct, frozen=True):
    """One answer of a rule."""

    time: str
    commit: str
    answer: LedgerAnswer
    metrics: list[str]


def ledger_of(entries: Iterable[LedgerEntry]) -> Mapping[str, RuleRecord]:
    """Return the record of each rule that answered red or green at least once, by its name."""
    ordered = sorted({one.id: one for one in entries}.values(), key=lambda one: (one.time, one.id))
    checks: dict[tuple[str, str], list[_Check]] = {}
    for entry in ordered:
        for one in entry.answers:
            commit = entry.commits[0][:_DIGITS] if entry.commits else ""
            own = checks.setdefault((one.rule, entry.environment), [])
            own.append(_Check(entry.time, commit, one.answer, one.metrics))
    counts: dict[str, Counter[tuple[LedgerAnswer, bool | None]]] = {}
    for (rule, environment), own in checks.items():
        evidence = [one for one in ordered if one.kind != "check" and one.environment in ("", environment)]
        truths = _truths(own, evidence)
        found = counts.setdefault(rule, Counter())
        found.update((one.answer, truth) for one, truth in zip(own, truths, strict=True) if one.answer != "open")
    return {rule: _record(found) for rule, found in sorted(counts.items()) if found}


def _record(found: Counter[tuple[LedgerAnswer, bool | None]]) -> RuleRecord:
    right = found["red", True] + found["green", True]
    wrong = found["red", False], found["green", False]
    highest = rate_bounds(sum(wrong), right + sum(wrong))[1]
    return RuleRecord(right, *wrong, found["red", None] + found["green", None], highest)


def _truths(own: Sequence[_Check], evidence: Sequence[LedgerEntry]) -> list[bool | None]:
    """Return for each check whether its answer was right; None if nothing shows it."""
    places: dict[str, list[int]] = {}
    for at, one in enumerate(own):
        places.setdefault(one.commit, []).append(at)
    shown: list[dict[int, set[bool]]] = [{} for _ in own]
    approved = [one.time for one in evidence if one.kind == "approved" and _concerns(one.metrics, own[0].metrics)]
    for entry in evidence:
        rank, changed, about = _SHOWS[entry.kind]  # type: ignore[index]
        concerned = _checks_about(entry, own, places)
        began = min((own[at].time for at in concerned), default="")
        over = min((time for time in approved if time > began), default="~") if changed and entry.commits else "~"
        for at in concerned:
            if own[at].answer in about and own[at].time < over and _concerns(entry.metrics, own[at].metrics):
                shown[at].setdefault(rank, set()).add(changed)
    return [
        _by_evidence(one.answer, shown[at]) if shown[at] else _by_later_checks(at, own, places)
        for at, one in enumerate(own)
    ]


def _checks_about(entry: LedgerEntry, own: Sequence[_Check], places: Mapping[str, list[int]]) -> Sequence[int]:
    if entry.commits:
        return [at for commit in entry.commits for at in places.get(commit[:_DIGITS], ())]
    end = start = bisect_right(own, entry.time, key=lambda one: one.time)
    while start and own[start - 1].answer != "green":
        start -= 1
    return range(start, end)


def _concerns(named: Sequence[str], metrics: Sequence[str]) -> bool:
    return not named or any(metric == name or glob_matches(name, metric) for name in named for metric in metrics)


def _by_evidence(answer: LedgerAnswer, shown: Mapping[int, set[bool]]) -> bool | None:
    changed = shown[max(shown)]
    return None if len(changed) > 1 else changed == {answer == "red"}


def _by_later_checks(at: int, own: Sequence[_Check], places: Mapping[str, list[int]]) -> bool | None:
    if own[at].answer == "red":
        again = {own[i].answer for i in places[own[at].commit] if i > at} - {"open"} if own[at].commit else set()
        return False if again == {"green"} else None
    following: set[str] = set()
    for i in range(at + 1, len(own)):
        if own[i].answer == "red" or len(following) == _CONFIRMING:
            break
        following |= {own[i].commit} - {"", own[at].commit} if own[i].answer == "green" else set()
    return True if len(following) == _CONFIRMING else None
