"""Decide about exact work: the counts of every step, compared as they are.

Equal counts need no statistics, so one run decides, red and green. Steps that are not alike (gradient accumulation, an
evaluation in every fourth step) are compared in sorted order if both sides recorded the same number of steps. Otherwise
they are compared step by step, from the place in their repeating pattern that fits best. Counts that differ between
base runs are samples: their means are compared, as a change with noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np
from msgspec.structs import replace

from perfgate.core import Outcome
from perfgate.core.details import WorkDifference
from perfgate.core.results import ChangeResult, WorkResult
from perfgate.judge.decide.change import judge_runs
from perfgate.judge.question import WorkCount, WorkQuestion
from perfgate.judge.terms import ChangeTerms
from perfgate.stats.distributions import FloatArray
from perfgate.stats.statistics import measure_run

#: A mean of counts that vary is compared with this tolerance.
_TOLERANCE = 0.01

Relation: TypeAlias = Literal["same", "more", "less", "varied"]


def judge_work(question: WorkQuestion) -> WorkResult:
    """Return the answer about all counts: which grew, which shrank, and which vary without a pattern.

    It fails if a count grew beyond its allowance, or with `is_same` if one shrank. Otherwise it is undecided if the
    mean of a varying count probably grew, or if all counts vary and none of their means has an answer.
    """
    counts: dict[Relation, list[WorkCount]] = {"same": [], "more": [], "less": [], "varied": []}
    for count in question.counts:
        counts[compared(count.base, count.new)].append(count)
    varied = [(count, _judged_by_mean(count)) for count in counts["varied"]]
    more = [_exact_difference(count, 1) for count in counts["more"]]
    more += [_difference(count, varies=True) for count, answer in varied if answer.outcome == "fail"]
    suspects = [_difference(count, varies=True) for count, answer in varied if answer.suspect]
    grown = [one for one in more if not question.allows(one)]
    shrunk = [_exact_difference(count, -1) for count in counts["less"]]
    unclear = [one for one in suspects if not question.allows(one)]
    # A pass has to promise something: an equal count, or a mean that did not grow.
    is_open = len(varied) == len(question.counts) and all(answer.outcome == "undecided" for _, answer in varied)
    outcome: Outcome = "pass"
    reason = "exact"
    if grown:
        outcome, reason = "fail", "more-work"
    elif question.is_same and shrunk:
        outcome, reason = "fail", "less-work"
    elif unclear or is_open:
        outcome, reason = "undecided", "varied-work"
    return WorkResult(
        outcome=outcome,
        reason=reason,
        suspect=outcome == "undecided",
        grown=tuple(sorted(grown, key=lambda one: question.order(one.metric))),
        shrunk=tuple(shrunk),
        allowed=tuple(one for one in more if question.allows(one)),
        varied=tuple(dict.fromkeys(count.key.metric for count in counts["varied"])),
        unclear=tuple(unclear),
        counts=len(question.counts) - len(varied),
        base_runs=question.base_runs,
        new_runs=question.new_runs,
    )


def compared(base: Sequence[FloatArray], new: Sequence[FloatArray]) -> Relation:
    """Return how the steps of new runs differ from those of base runs, at least one on each side.

    Each array is (steps,), with one step or more. The answer is `varied` if the runs of one side do not agree.
    """
    relations = {_relation(base, one) for one in new}
    return relations.pop() if len(relations) == 1 else "varied"


def _relation(base: Sequence[FloatArray], new: FloatArray) -> Relation:
    """Return how the steps of one new run differ from the longest base run; `varied` if the base runs differ."""
    reference = max(base, key=len)
    if any(_change(reference, one).any() for one in base if one is not reference):
        return "varied"
    change = _change(reference, new)
    if (change > 0).any():
        return "more"
    return "less" if (change < 0).any() else "same"


def _change(reference: FloatArray, run: FloatArray) -> FloatArray:
    """Return the difference of each step of a run from the reference, in the order of steps that fits best.

    The differences are in the order of the run's steps, or of its sorted counts if both sides have equally many steps.
    """
    if len(reference) == len(run):
        return np.asarray(np.sort(run) - np.sort(reference))
    if (reference == reference[0]).all():
        return np.asarray(run - reference[0])
    found = list(_alignments(reference, run))
    # The last step of a recording may lack the calls between steps: compare it with either of the last two.
    last = min(run[-1] - reference[-1], run[-1] - reference[-2], key=abs)
    found += [np.append(change, last) for change in _alignments(reference[:-1], run[:-1])]
    return min(found, key=lambda change: (int(np.count_nonzero(change)), float(np.abs(change).sum())))


def _alignments(reference: FloatArray, run: FloatArray) -> Iterator[FloatArray]:
    """Yield the differences of a run from the pattern of the reference, from each of its steps on."""
    pattern = reference[: _period(reference)]
    for start in range(len(pattern)):
        yield run - np.resize(np.roll(pattern, -start), len(run))


def _period(values: FloatArray) -> int:
    """Return the number of steps after which the values repeat, at least once; if they do not, the number of values."""
    for period in range(1, len(values) // 2 + 1):
        if np.array_equal(values[period:], values[:-period]):
            return period
    return len(values)


def _judged_by_mean(count: WorkCount) -> ChangeResult:
    """Return the answer about the means of counts that vary. A mean of 0 has no ratio: then any call is more work."""
    base, new = ([measure_run(one, "mean", warmup=0) for one in side] for side in (count.base, count.new))
    found = judge_runs(base, new, ChangeTerms(statistic="mean", tolerance=_TOLERANCE))
    if found.outcome != "error":
        return found
    grew = not any(one.any() for one in count.base) and any(one.any() for one in count.new)
    return replace(found, outcome="fail" if grew else "undecided", suspect=False)


def _exact_difference(count: WorkCount, sign: int) -> WorkDifference:
    """Return the mean counts of both sides; if these hide the change, the counts of the step that changed most.

    `sign` is 1 for a count that grew and -1 for one that shrank. The means hide that if other steps changed the other
    way, or if the run ends within its pattern of steps.
    """
    found = _difference(count)
    if sign * (found.new - found.base) > 0:
        return found
    reference = max(count.base, key=len)
    steps = []
    for run in count.new:
        change = _change(reference, run)
        at = int((sign * change).argmax())
        new = float((np.sort(run) if len(run) == len(reference) else run)[at])
        steps.append((sign * float(change[at]), new - float(change[at]), new))
    _, base, new = max(steps)
    return replace(found, base=base, new=new)


def _difference(count: WorkCount, *, varies: bool = False) -> WorkDifference:
    base, new = (float(np.mean([one.mean() for one in side])) for side in (count.base, count.new))
    return WorkDifference(count.key.metric, dict(count.key.labels), dict(count.member), base, new, varies)
