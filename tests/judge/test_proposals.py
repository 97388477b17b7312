"""First rules: the tolerance that the noise allows, which metrics come first, and why others have no rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import steady
from stories import TODAY, series

from perfgate.analysis.proposals import Proposals, propose
from perfgate.core import Key, Kind, Location, Run, Series, read_only


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
    assert [(one.metric, one.tolerance) for one in found.rules] == [(row[0], row[3]) for row in rows if row[3]]
    assert [one.sentence for one in found.rules] == [f"{m} within {t}% of baseline" for m, _, _, t in rows if t]
    assert [[(plan.rule, plan.at) for plan in one.plans] for one in found.rules] == [
        [(one.sentence, Location("rules"))] for one in found.rules
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
    assert found.sentence == sentence


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
