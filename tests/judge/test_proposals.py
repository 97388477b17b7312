"""First rules: the tolerance that the noise allows, which metrics come first, and why others have no rule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from conftest import steady
from small_runs import printed, samples, value
from stories import TODAY, series

from perfgate.analysis import proposals as module
from perfgate.analysis.proposals import Proposals, measured_metrics, propose, ranked
from perfgate.analysis.work_advice import work_rules
from perfgate.core import Better, Key, Kind, Location, Run, Series, read_only
from perfgate.core.advice import MeasuredMetric, ProposedRule


def held(metric: str, kind: Kind, unit: str, *values: float, **printed: float) -> Series:
    return Series(Key(metric), unit, kind, read_only(np.array(values)), aggregate=printed)


def runs(*rows: list[Series]) -> list[Run]:
    return [Run(f"run{i}", "test", tuple(row)) for i, row in enumerate(rows)]


def left_out(found: Proposals) -> dict[str, list[str]]:
    return {reason: list(names) for reason, names in found.left_out.items()}


LESS = "smaller than the metrics that have a rule"
NOISE = "their noise is more than 50%: give more runs, or quieter ones"
HELD = [
    # metric, unit, how far two of four runs are from the others, and the tolerance: twice it is excluded
    [
        *[("a", "s", 0.0, 3), ("b", "s", 0.015, 3), ("c", "s", 0.026, 5)],
        *[("d", "s", 0.036, 8), ("e", "s", 0.05, 10), ("f", "s", 0.067, 15), ("g", "s", 0.0, None)],
        *[("h", "1/s", 0.1, 15), ("i", "1/s", 0.13, 20), ("j", "1/s", 0.0, None)],
    ],
    [("a", "s", 0.12, 30), ("b", "s", 0.15, 40), ("c", "s", 0.3, None)],
]


@pytest.mark.parametrize(("rows", "others"), [(HELD[0], {LESS: ["g", "j"]}), (HELD[1], {NOISE: ["c"]})])
def test_the_smallest_tolerance_that_the_runs_hold(
    rows: list[tuple[str, str, float, int | None]], others: dict[str, list[str]]
) -> None:
    """At most eight rules, six of a unit, each with the plan that it rests on."""

    def values(sign: int) -> list[Series]:
        centres = zip(range(len(rows), 0, -1), rows, strict=True)
        return [held(name, "value", unit, centre * math.exp(sign * far)) for centre, (name, unit, far, _) in centres]

    found = propose(runs(*map(values, (-1, 0, 0, 1))), TODAY)
    assert [(one.metric, one.fit.tolerance) for one in found.rules] == [(row[0], row[3]) for row in rows if row[3]]
    assert [one.fit.sentence for one in found.rules] == [f"{m} within {t}% of baseline" for m, _, _, t in rows if t]
    assert [[(plan.rule, plan.at) for plan in one.fit.plans] for one in found.rules] == [
        [(one.fit.sentence, Location("rules"))] for one in found.rules
    ]
    assert left_out(found) == others


def test_what_a_rule_is_proposed_for_first() -> None:
    """Samples before single values before what is printed; times, rates, then sizes; calls last; each by its sum."""
    same = [held(f"same{i:02}", "samples", "s", *[900.0 + i / 10] * 9) for i in range(24)]
    later = [
        held("time", "samples", "s", *[0.1] * 9),
        held("more.time", "samples", "s", *[0.05] * 19),
        held("endless", "samples", "s", 1.0, math.inf),
        held("rate", "samples", "1/s", *[0.2] * 9),
        held("bandwidth", "samples", "B/s", *[0.3] * 9),
        held("flops", "samples", "FLOP/s", *[0.4] * 9),
        held("memory", "samples", "B", *[0.5] * 9),
        held("gpu.utilization", "samples", "1", *[0.6] * 9),
        held("single", "value", "s", 1.0),
        held("totalled", "aggregate", "s", mean=0.1, count=2.0, total=7.0),
        held("counted", "aggregate", "s", mean=0.2, count=3.0),
        held("mean", "aggregate", "s", mean=0.5),
        held("nothing", "aggregate", "s", max=9.0),
        held("op.a", "samples", "s", *[8.0] * 9),
        held("kernel.a", "samples", "s", *[7.0] * 9),
        held("range.a", "samples", "s", *[6.0] * 9),
        held("collective.a", "samples", "s", *[5.0] * 9),
    ]
    ranked = ["more.time", "time", "endless", *(one.key.metric for one in later[3:])]
    found = propose(runs([*later[::-1], *same]), TODAY)
    assert [one.metric for one in found.rules] == ["same23"]
    names = [one.key.metric for one in same]
    assert left_out(found) == {"within 2% of a metric that has a rule": names[-2::-1], LESS: ranked}


NO_RULE = [
    # the runs, and why there is no rule
    ([[held('a"b`c', "value", "s", 1.0)]], "a rule cannot name them"),
    ([[held("a", "value", "s", 0.0)]], "the stored values have no relative change: use a limit instead"),
    ([[held("a", "value", "B", 1e9)], [held("a", "value", "B", 9e9)]], NOISE),
    ([[held("a", "value", "s", 1.0)], [held("a", "value", "1/s", 1.0)]], "not in the same unit and kind in all runs"),
    ([[held("a", "value", "s", 1.0)], [held("b", "value", "s", 1.0)]], "not in every run"),
    ([[held("goodput", "value", "1", 0.8)]], "longer runs have more: set a limit, such as `goodput at least 90%`"),
]


@pytest.mark.parametrize(("rows", "reason"), NO_RULE)
def test_why_there_is_no_first_rule(rows: list[list[Series]], reason: str) -> None:
    found = propose(runs(*rows), TODAY)
    assert (found.rules, left_out(found)) == ((), {reason: sorted({one.key.metric for row in rows for one in row})})


HARDLY = [
    # runs, and the first rule, which is that of the least that all of them hold
    ([[held("a", "value", "s", 1.0)]], "a within 5% of baseline"),
    ([[held("a", "value", "B", 1.0)], [held("a", "value", "B", 1.1)]], "a within 10% of baseline"),
    (
        [[series("a", "s", [1.0] * 40, kind="x"), series("a", "s", steady(1.0, n=40, spread=0.065), kind="y")]],
        "a within 8% of baseline",
    ),
]


@pytest.mark.parametrize(("rows", "sentence"), HARDLY)
def test_a_tolerance_is_planned_and_kept_by_every_run(rows: list[list[Series]], sentence: str) -> None:
    (found,) = propose(runs(*rows), TODAY).rules
    assert found.fit.sentence == sentence


STEADY = steady(1.0, n=100, spread=0.05)
SOMETIMES_0 = [0.0 if i % 12 == 5 else x for i, x in enumerate(STEADY)]
LIMITS = [
    # unit, a run of which the first values may be warm-up, and the limit that is proposed
    ("s", [5.0] * 6 + STEADY, "a p95 under 1.3 s"),
    ("1/s", [0.2] * 6 + STEADY, "a p5 over 0.76 /s"),
    ("1/s", SOMETIMES_0, "a median over 0.83 /s"),
    ("s", STEADY[:40], "a median under 1.3 s"),
]


@pytest.mark.parametrize(("unit", "values", "limit"), LIMITS)
def test_a_limit_has_room_beyond_the_tail_or_the_median(unit: str, values: list[float], limit: str) -> None:
    (found,) = propose(runs([held("a", "samples", unit, *values)]), TODAY).rules
    assert found.limit == limit


# --- which metrics have a rule ----------------------------------------------------------------------------------------

LEARNS = "they show if a model learns, not how fast the program is"
UNKNOWN = "unknown which direction is better (set `better:` in a rule)"
NEITHER = "their mapping says that neither direction is better"
GROWS = "they grow with the length of the run: limit a share, such as `time.lost / time.total under 5%`"
MACHINE = "what the machine did, which explains the others"
COMPARED: list[tuple[str, str, Better | None, str | None]] = [
    # metric, unit, its better direction if the user gave it, and why no rule compares it
    ("took", "s", None, None),
    ("took", "s", "neither", NEITHER),
    ("score", "1", None, UNKNOWN),
    ("score", "1", "higher", None),
    ("train.Loss", "1", None, UNKNOWN),
    ("train.Loss", "1", "lower", LEARNS),
    ("perplexity", "1", "lower", LEARNS),
    ("eval_ppl", "1", "lower", LEARNS),
    ("loss.time", "s", None, None),
    ("machine.load", "1", "lower", MACHINE),
    ("clock.sm", "1/s", None, MACHINE),
    ("time.lost", "s", None, GROWS),
    ("work.ops", "count", None, ""),  # it has a rule of another kind
]


@pytest.mark.parametrize(("metric", "unit", "better", "why"), COMPARED)
def test_why_no_rule_compares_a_metric(metric: str, unit: str, better: Better | None, why: str | None) -> None:
    left: dict[str, list[str]] = {}
    order = ranked({metric: [value(metric, unit, 1.0)]}, left, {metric: better} if better else {})
    assert (order, left) == ([metric] if why is None else [], {why: [metric]} if why else {})


def test_a_summary_comes_after_samples_and_is_as_large_as_its_total() -> None:
    known = {
        "value": [value("value", "s", 9.0)],
        "less": [held("less", "summary", "s", total=4.0)],
        "more": [held("more", "summary", "s", mean=1.0, count=5.0)],
        "samples": [samples("samples", "s", [1.0])],
    }
    assert ranked(known, {}) == ["samples", "more", "less", "value"]


EVEN, TURNS, TURNED = [1.0] * 10, [0.1, 0.3] * 5, [0.3, 0.1] * 5
NEAR: list[tuple[list[list[float]], list[list[float]], bool]] = [
    # the values of two metrics in each run, and if they are probably the same
    ([EVEN], [[1.01] * 10], True),
    ([EVEN], [[1.03] * 10], False),
    ([TURNS], [TURNS], True),
    ([TURNS], [TURNED], False),
    ([TURNS, TURNS], [TURNS, TURNED], False),
    ([TURNS, TURNS], [TURNED, TURNS], False),
    ([TURNS], [[0.1] * 20], True),  # as much in all, in twice as many steps
    ([EVEN], [[*EVEN[:9], 1.1]], True),
    ([EVEN], [[*EVEN[:8], 1.05, 1.05]], False),
]


@pytest.mark.parametrize(("one", "other", "near"), NEAR)
def test_metrics_that_are_probably_the_same(one: list[list[float]], other: list[list[float]], near: bool) -> None:
    first, second = ([samples("x", "s", values) for values in rows] for rows in (one, other))
    assert module._is_nearly(first, second) is near
    assert module._is_nearly(second, first) is near


def test_single_numbers_are_the_same_if_they_are_near() -> None:
    assert module._is_nearly([value("a", "s", 1.0)], [value("b", "s", 1.01)])
    assert not module._is_nearly([value("a", "s", 1.0)], [value("b", "s", 1.03)])


def test_three_rules_are_about_the_calls_in_a_step() -> None:
    """They are judged by their sum in a step, have no limit, and come after all others."""
    names = ["op.a", "kernel.b", "range.c", "collective.d"]
    rows = [samples("step.time", "s", [9.0] * 9), samples("fwd", "s", [0.5] * 9)]
    rows += [samples(name, "s", [4.0 - i] * 9) for i, name in enumerate(names)]
    found = propose(runs(rows, rows, rows), TODAY)
    sums = [f"total({name}) / count(step.time) within 3% of baseline" for name in names[:3]]
    assert [one.fit.sentence for one in found.rules] == [
        *("step.time within 3% of baseline", "fwd within 3% of baseline"),
        *sums,
    ]
    assert [(one.is_sum, one.limit is None) for one in found.rules] == [(False, False)] * 2 + [(True, True)] * 3
    assert left_out(found) == {LESS: ["collective.d"]}
    assert found.rules[0].fit.tolerance == 3


DETAIL = [
    # a metric of a single function, beside other metrics, and its rule
    ([samples("op.a", "s", [1.0] * 9)], "op.a within 5% of baseline"),
    ([value("op.a", "s", 1.0), samples("step.time", "s", [9.0] * 9)], "op.a within 5% of baseline"),
    ([samples("op.a", "B", [1.0] * 9), samples("step.time", "s", [9.0] * 9)], "op.a within 3% of baseline"),
    (
        [samples("op.a", "s", [1.0] * 9), samples("step.time", "s", [9.0] * 9)],
        "total(op.a) / count(step.time) within 5% of baseline",
    ),
]


@pytest.mark.parametrize(("row", "sentence"), DETAIL)
def test_only_the_samples_of_calls_in_known_steps_are_summed(row: list[Series], sentence: str) -> None:
    assert propose(runs(row), TODAY).rules[-1].fit.sentence == sentence


# --- the metrics that are shown ---------------------------------------------------------------------------------------

MEASURED: list[tuple[list[list[Series]], list[MeasuredMetric], int]] = [
    # runs, the metrics that are shown, and the number of others
    ([[value("a", "s", 1.0)]], [MeasuredMetric("a", "s", (1.0,), 1)], 0),
    (
        [[samples("a", "s", [1.0, 2.0, 6.0])], [samples("a", "s", [3.0])]],
        [MeasuredMetric("a median", "s", (2.0, 3.0), 3)],
        0,
    ),
    (
        [[value("a", "s", 1.0, of="x"), value("a", "s", 2.0, of="y"), value("b", "s", 9.0)]],
        [
            MeasuredMetric("b", "s", (9.0,), 1),
            MeasuredMetric('a{of="x"}', "s", (1.0,), 1),
            MeasuredMetric('a{of="y"}', "s", (2.0,), 1),
        ],
        0,
    ),
    # of some runs a number is not known
    (
        [[printed("a", "s", mean=2.0)], [printed("a", "s", max=9.0)], [printed("a", "s", mean=3.0)]],
        [MeasuredMetric("a", "s", (2.0, 3.0), 0)],
        0,
    ),
    # those that no rule can compare come last, and the machine is not shown
    (
        [[value("score", "1", 1.0), value("a", "s", 1.0), value("machine.load", "1", 1.0)]],
        [MeasuredMetric("a", "s", (1.0,), 1), MeasuredMetric("score", "1", (1.0,), 1)],
        0,
    ),
    # the whole command and single functions are shown if there is nothing else
    ([[value("a", "s", 1.0), value("command.time", "s", 2.0)]], [MeasuredMetric("a", "s", (1.0,), 1)], 0),
    ([[value("command.time", "s", 2.0)]], [MeasuredMetric("command.time", "s", (2.0,), 1)], 0),
    (
        [[value("a", "s", 1.0), value("op.b", "s", 2.0), value("work.ops", "count", 3.0)]],
        [MeasuredMetric("a", "s", (1.0,), 1)],
        2,
    ),
    ([[value("op.b", "s", 2.0)]], [MeasuredMetric("op.b", "s", (2.0,), 1)], 0),
]


@pytest.mark.parametrize(("rows", "shown", "others"), MEASURED)
def test_the_metrics_that_are_shown(rows: list[list[Series]], shown: list[MeasuredMetric], others: int) -> None:
    assert measured_metrics(runs(*rows)) == (tuple(shown), others)


def test_at_most_16_metrics_are_shown() -> None:
    found, others = measured_metrics(runs([value(f"m{i:02}", "s", 100.0 - i) for i in range(17)]))
    assert ([one.name for one in found], others) == ([f"m{i:02}" for i in range(16)], 1)


# --- exact work -------------------------------------------------------------------------------------------------------


def traced(**more: Any) -> list[Series]:
    """A run of a trace: its step, the time of its device, its input and its work."""
    of: dict[str, Any] = {"step": [1.0], "device": [0.7], "wait": [], "kernels": 251.0} | more
    rows = [samples("work.kernels", "count", [of["kernels"]] * 4, device="0")]
    rows += [samples("work.ops", "count", [9.0] * 4)]
    for name, metric in (("step", "step.time"), ("device", "work.device_time"), ("wait", "step.dataloader")):
        rows += [samples(metric, "s", [one] * 4, rank=str(rank)) for rank, one in enumerate(of[name])]
    return rows


def test_exact_work_needs_counts_in_every_run() -> None:
    assert work_rules([], TODAY) == []
    assert work_rules(runs([value("work.ops", "count", 1.0)], [value("a", "s", 1.0)]), TODAY) == []
    assert work_rules(runs([value("working", "s", 1.0)]), TODAY) == []
    run = traced(wait=[0.06])
    assert work_rules(runs(run, [one for one in run if one.key.metric.startswith("step.")]), TODAY) == []


def of_work(sentence: str, subject: str, warns: bool = False) -> ProposedRule:
    return ProposedRule("work", sentence, subject, "no more than baseline", 0.0, 0, warns=warns)


ALL = "no more work than baseline"
BUSY = [of_work("no more device work than baseline", "device work"), of_work(ALL, "work", warns=True)]
WAITS = [of_work(ALL, "work")]
IN_NUMBER = [value("work.device_time", "s", 0.9), *traced(device=[])]
COUNTED: list[tuple[list[list[Series]], list[ProposedRule]]] = [
    # runs, and the rules about counts
    ([traced(), traced()], BUSY),
    ([traced(device=[0.69])] * 2, WAITS),
    ([traced(device=[0.2, 0.9])] * 2, BUSY),
    ([traced(device=[0.9], step=[0.5, 2.0])] * 2, WAITS),
    ([traced(device=[0.9], step=[2.0, 0.5])] * 2, WAITS),
    ([traced(device=[0.9]), traced(device=[0.71]), traced(device=[0.1])], BUSY),
    ([traced(device=[0.9]), traced(device=[])], WAITS),
    ([traced(device=[0.9]), traced(device=[0.9], step=[])], WAITS),
    ([IN_NUMBER, IN_NUMBER], WAITS),
    ([traced(), traced(kernels=260.0)], BUSY[1:]),
]


@pytest.mark.parametrize(("rows", "rules"), COUNTED)
def test_counts_of_the_host_only_warn_if_the_device_is_busy(
    rows: list[list[Series]], rules: list[ProposedRule]
) -> None:
    assert [one for one in work_rules(runs(*rows), TODAY) if one.subject.endswith("work")] == rules


DEVICE = [(0.005, 1), (0.009, 2), (0.015, 3), (0.025, 5), (0.04, 8), (0.05, 10), (0.06, None)]


@pytest.mark.parametrize(("far", "tolerance"), DEVICE)
def test_the_time_of_the_device_has_small_tolerances(far: float, tolerance: int | None) -> None:
    rows = [[value("work.device_time", "s", math.exp(far * sign))] for sign in (-1, 0, 0, 1)]
    found = [(one.purpose, one.subject, one.tolerance) for one in work_rules(runs(*rows), TODAY)]
    assert found == ([("work", "work.device_time", tolerance)] if tolerance else [])
    without = [[value("work.ops", "count", 1.0)], *rows]
    assert "work.device_time" not in [one.subject for one in work_rules(runs(*without), TODAY)]


INPUTS: list[tuple[list[list[Series]], int | None]] = [
    # runs, and the limit in percent of a step
    ([traced(wait=[0.01])], 10),
    ([traced(wait=[0.06])], 20),
    ([traced(wait=[0.06]), traced(wait=[0.01])], 20),
    ([traced(wait=[0.01, 0.06], step=[1.0, 1.0])], 20),
    ([traced(wait=[0.06, 0.01], step=[1.0, 0.5])], 20),
    ([traced(wait=[0.01, 0.06], step=[0.1, 1.0])], 20),
    ([traced(wait=[0.06, 0.01], step=[0.1, 1.0])], None),  # a rank waits longer
    ([traced(wait=[0.03], step=[0.5])], 20),
    ([traced(wait=[0.31])], 95),
    ([traced(wait=[0.32])], None),
    ([traced(wait=[0.06], step=[])], None),
    ([traced(wait=[0.06]), traced()], None),
]


@pytest.mark.parametrize(("rows", "percent"), INPUTS)
def test_a_limit_of_the_wait_for_input(rows: list[list[Series]], percent: int | None) -> None:
    found = [one for one in work_rules(runs(*rows), TODAY) if one.purpose not in ("work", "usual")]
    asks = f"under {percent}%"
    rule = f"median(step.dataloader) / median(step.time) {asks}"
    assert found == ([ProposedRule("input", rule, "wait for input", f"{asks} of a step")] if percent else [])
