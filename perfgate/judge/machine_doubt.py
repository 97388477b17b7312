"""Doubt a comparison of times if the machine was in another state on one side.

Two kinds of evidence from `perfgate.machine`, beside that of the history about hosts (`host_doubt`):

* The clock. Times are judged again in cycles: the time of each run times its clock. If the slower clock could explain a
  failure, or hide a regression, and cycles tell another story, the verdict is suspect. Both views must agree, because
  work that waits for memory does not follow the clock.
* Lost time: the share of the run in which the GPU was throttled, the hypervisor ran others, or the control group had
  used up its CPU time. If one side has more of it than `lost_time` allows, the change is judged again as if both sides
  had lost as much. A share p of lost time makes a program at most 1 / (1 - p) times slower, so it explains no more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean

from msgspec.structs import replace

from perfgate.core import Series
from perfgate.core.wording import CPU_METRICS
from perfgate.judge.decisions import ChangeDecision, ChangeQuestion, Decision, Doubt, MeasuredSide, decide
from perfgate.judge.derived import RunView
from perfgate.judge.host_doubt import doubt_host
from perfgate.judge.inquiry import Inquiry
from perfgate.stats.statistics import RunMeasure

#: Clocks that differ by less are equal.
LEAST_CLOCK = 0.01
#: Pressure is noted from this difference on; it does not decide, because waiting tasks need not be those of the run.
NOTED_PRESSURE = 0.1
#: The clock of the program. That of the CPU does not count: idle processors lower it, and it says too little.
_CLOCK = "clock.sm"
_LOST = {
    "machine.gpu.throttled.": "throttling of the GPU ({})",
    "machine.cpu.steal": "steal: the hypervisor ran other machines",
    "machine.cgroup.throttled": "the CPU limit of the control group",
}
#: More lost time than this explains any change: a program that never ran took no time.
_MOST_LOST = 0.99
_PRESSURE = {f"machine.pressure.{kind}": f"pressure on {kind}" for kind in ("cpu", "memory", "io")}
#: The units whose values follow the speed of the machine, and whether a faster machine makes them larger.
_FOLLOWS = {"s": False, "1/s": True, "B/s": True, "FLOP/s": True}


def doubt_machine(inquiry: Inquiry, decision: Decision) -> Decision:
    """The decision about a change, doubted if the state of the machine can explain it, or can hide a regression."""
    if not isinstance(decision, ChangeDecision) or decision.question.reference != "baseline":
        return decision
    if inquiry.unit not in _FOLLOWS or decision.question.ratios is not None or decision.reason == "exact":
        return decision  # pairs share the machine
    if inquiry.subject.key.metric.endswith(CPU_METRICS):
        return decision  # neither the clock of the GPU nor lost time changes them much
    hosts = doubt_host(inquiry, decision, grows=_FOLLOWS[inquiry.unit])
    doubts = (*_clock(inquiry, decision), *_lost_time(inquiry, decision), *hosts)
    if not doubts:
        return decision
    decided = replace(decision, doubts=(*decision.doubts, *doubts))
    if any(doubt.decides for doubt in doubts) and decision.outcome in ("pass", "inconclusive", "fail", "suspect"):
        return replace(decided, outcome="suspect", reason="machine")
    return decided


def _clock(inquiry: Inquiry, decision: ChangeDecision) -> Iterator[Doubt]:
    base, new = decision.question.base, decision.question.new
    clocks = _of_both(_CLOCK, base, new)
    if clocks is None or min(*clocks[0], *clocks[1]) <= 0:  # no clock stands still
        return
    if abs(math.log(fmean(clocks[1]) / fmean(clocks[0]))) < LEAST_CLOCK:
        return
    before, now = fmean(clocks[0]), fmean(clocks[1])
    in_cycles = decide(_in_cycles(decision.question, *clocks, grows=_FOLLOWS[inquiry.unit]))
    if not isinstance(in_cycles, ChangeDecision) or in_cycles.outcome == "error":
        return
    agrees = {"fail": in_cycles.outcome == "fail", "suspect": True}.get(
        decision.outcome, in_cycles.outcome in ("pass", "inconclusive")
    )
    is_slower = now < before
    can_explain = decision.outcome in ("fail", "suspect") and is_slower
    can_hide = decision.outcome in ("pass", "inconclusive") and not is_slower
    yield Doubt("machine", "clock", before, now, decides=not agrees and (can_explain or can_hide))
    change = in_cycles.result.log_change
    if change is not None:
        yield Doubt("machine", "cycles", 0.0, math.expm1(change), decides=False)


def _in_cycles(question: ChangeQuestion, base: Sequence[float], new: Sequence[float], *, grows: bool) -> ChangeQuestion:
    """The same question with every run as it would be at the mean clock of the base."""
    reference = fmean(base)
    sides = (
        replace(
            side,
            measures=tuple(
                _scaled(one, _factor(clock, reference, grows)) for one, clock in zip(side.measures, clocks, strict=True)
            ),
        )
        for side, clocks in ((question.base, base), (question.new, new))
    )
    one, other = sides
    return replace(question, base=one, new=other)


def _factor(clock: float, reference: float, grows: bool) -> float:
    return reference / clock if grows else clock / reference


def _scaled(measure: RunMeasure, factor: float) -> RunMeasure:
    return measure if measure.value is None else replace(measure, value=measure.value * factor)


def _lost_time(inquiry: Inquiry, decision: ChangeDecision) -> Iterator[Doubt]:
    """The kinds of time that one side lost more of than the other."""
    base, new = decision.question.base, decision.question.new
    names = sorted({one.key.metric for view in (*base.views, *new.views) for one in view.run.series})
    lost: dict[str, list[tuple[str, float, float]]] = {}
    for name in names:
        prefix = next((known for known in _LOST if name.startswith(known)), None)
        words = _PRESSURE.get(name) if prefix is None else _LOST[prefix].format(name.rpartition(".")[2])
        found = _of_both(name, base, new) if words else None
        if words is None or found is None:
            continue
        before, now = fmean(found[0]), fmean(found[1])
        if prefix is not None:
            lost.setdefault(prefix, []).append((words, before, now))
        elif abs(now - before) >= NOTED_PRESSURE:
            yield Doubt("machine", "lost", before, now, decides=False, of=words)
    several = [one for kind in lost.values() for one in kind]
    if not any(abs(now - before) > inquiry.rule.settings.lost_time for _, before, now in several):
        return
    decides = _is_explained(inquiry, decision, lost.values())
    is_red = decision.outcome in ("fail", "suspect")
    for words, before, now in several:
        if abs(now - before) > inquiry.rule.settings.lost_time:
            yield Doubt("machine", "lost", before, now, decides=decides and (now > before) == is_red, of=words)


def _is_explained(
    inquiry: Inquiry, decision: ChangeDecision, lost: Iterable[Sequence[tuple[str, float, float]]]
) -> bool:
    """Return whether the verdict is another one if both sides had lost as much time.

    `lost` are the kinds of lost time, each with its reasons. Reasons of one kind overlap, so the largest counts.
    """
    kinds = list(lost)
    before = min(sum(max(share for _, share, _ in kind) for kind in kinds), _MOST_LOST)
    now = min(sum(max(share for _, _, share in kind) for kind in kinds), _MOST_LOST)
    slower = (1 - before) / (1 - now)
    factor = slower if _FOLLOWS[inquiry.unit] else 1 / slower
    measures = tuple(_scaled(one, factor) for one in decision.question.new.measures)
    alike = decide(replace(decision.question, new=replace(decision.question.new, measures=measures)))
    if decision.outcome == "fail":
        return alike.outcome != "fail"
    is_open = alike.reason == "cannot-exclude" and decision.reason != "cannot-exclude"  # it promises less
    is_calm = alike.outcome in ("pass", "inconclusive") and not is_open
    return is_calm if decision.outcome == "suspect" else not is_calm


def _of_both(name: str, base: MeasuredSide, new: MeasuredSide) -> tuple[list[float], list[float]] | None:
    """The mean of a metric of the machine in each run, over its devices; None if a run lacks it."""
    found = [[_mean_of(name, view) for view in side.views] for side in (base, new)]
    if not all(found) or any(value is None for side in found for value in side):
        return None
    one, other = ([value for value in side if value is not None] for side in found)
    return one, other


def _mean_of(name: str, view: RunView) -> float | None:
    means = [mean for series in view.run.series if series.key.metric == name and (mean := _mean(series)) is not None]
    return fmean(means) if means else None


def _mean(series: Series) -> float | None:
    if len(series.values):
        return float(series.values.mean())
    return series.aggregate.get("mean")
