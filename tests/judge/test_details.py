"""The runs behind a verdict as a report draws them, what is left out of a large report, and curves of load sweeps."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from conftest import steady
from msgspec.structs import replace
from stories import bare, run_of, series

from perfgate.core import NO_STEP, Key, Location, Outcome, Run, Series, Verdict, read_only
from perfgate.core.details import QUANTILES, RunDetails, SweepCurve, VerdictDetails
from perfgate.judge.details import _quantiles, sweep_curves, within_budget
from perfgate.judge.verdicts import judge_with_details
from perfgate.large_values.array import Spool
from perfgate.workspace.output_files import open_scratch


def shown(rule: str, new: list[Run], base: list[Run] | None = None, **baseline: Any) -> list[list[RunDetails]]:
    """The drawn runs of each verdict."""
    return [list(one.runs) for one in judge_with_details(bare(rule, new, base or [], **baseline))[1]]


# --- one run ---------------------------------------------------------------------------------------------------------

DESCRIBED = [
    # a statistic with its limit, and whether quantiles of the values describe it
    ("median under 9 s", True),
    ("max under 9 s", True),
    ("p95 under 9 s", True),
    ("count under 99", False),
    ("total under 99 s", False),
    ("stddev under 9 s", False),
    ("cv under 9", False),
]


@pytest.mark.parametrize(("asked", "described"), DESCRIBED)
def test_quantiles_describe_a_statistic_that_is_a_place_among_the_values(asked: str, described: bool) -> None:
    (((one),),) = shown(f"x {asked}", [run_of(series("x", "s", [float(1 + i % 41) for i in range(41)]))])
    assert len(one.quantiles) == 9 * described


def test_quantiles_are_rounded_to_five_digits() -> None:
    (((one),),) = shown("x max under 99 s", [run_of(series("x", "s", [i * 1.000001 for i in range(1, 42)]))])
    assert one.quantiles == (1, 1.4, 3, 11, 21, 31, 39, 40.6, 41)


@pytest.mark.parametrize("values", [[1.0, math.nan, 2.0], []])
def test_values_that_are_no_numbers_have_no_quantiles(values: list[float]) -> None:
    (((one),),) = shown("x under 9 s", [run_of(series("x", "s", values))])
    assert (one.estimate, one.quantiles, one.values) == (None, (), tuple(x for x in values if x > 0))


def test_a_stall_of_a_rate_is_a_low_value_of_its_spread_too() -> None:
    rate = series("x", "1/s", [*[10.0] * 20, 3.0, *[10.0] * 19])
    for asked in ("x stddev under 9", "x at least 1 /s"):
        (((one),),) = shown(asked, [run_of(rate)])
        assert (asked, one.stalls) == (asked, (20,))


def test_each_bound_of_a_rate_has_stalls_of_its_own() -> None:
    rate = series("x", "1/s", [*[10.0] * 20, 3.0, *[10.0] * 19])
    runs = shown("x at least 1 /s and under 99 /s", [run_of(rate)])
    assert [[one.stalls for one in drawn] for drawn in runs] == [[(20,)], [()]]


def test_a_stall_that_a_trace_marks_is_drawn() -> None:
    values = np.array([*[1.0] * 20, 3.0, *[1.0] * 19])
    held = replace(series("x", "s", list(values)), stalled=read_only(values > 2))
    (((one),),) = shown("x under 9 s", [run_of(held)])
    assert (len(one.values), one.n, one.stalled, one.stalls, one.quantiles[-1]) == (40, 39, 1, (20,), 3.0)


def test_values_in_a_file_have_the_quantiles_of_those_in_memory() -> None:
    values = np.array(steady(1.0, n=999, spread=0.1))
    spool = Spool(np.float64, open_scratch)
    spool.add(values)
    large: Any = spool.array(0, 999)
    assert _quantiles(large) == pytest.approx(np.quantile(values, QUANTILES))
    assert _quantiles(large) == pytest.approx(_quantiles(values))


# --- the runs of a verdict -------------------------------------------------------------------------------------------


def one_run(source: str) -> Run:
    return run_of(series("x", "s", [1.0] * 9), source=source)


SIDES = [
    # a rule, and the standing of each run if the level is b and c, its anchor is a and b, and a is history
    ("x within 5% of baseline", "a past, b base, c base, new new"),
    ("x within 5% of anchor", "a base, b base, c past, new new"),
    ("x under 9 s", "a past, b base, c base, new new"),
]


@pytest.mark.parametrize(("rule", "sides"), SIDES)
def test_the_standing_of_each_run(rule: str, sides: str) -> None:
    a, b, c, new = map(one_run, ("a", "b", "c", "new"))
    (found,) = shown(rule, [new], [b, c], anchor=(a, b), past=(a,))
    assert ", ".join(f"{one.run} {one.standing}" for one in found) == sides


def test_an_anchor_older_than_all_drawn_history_is_drawn_first() -> None:
    a, b, c, new = map(one_run, ("a", "b", "c", "new"))
    (found,) = shown("x within 5% of anchor", [new], [c], anchor=(a,), past=(b,))
    assert [(one.run, one.standing) for one in found] == [("a", "base"), ("b", "past"), ("c", "past"), ("new", "new")]


def test_a_verdict_about_one_rank_draws_this_rank() -> None:
    ranks = run_of(*(series("x", "s", [1.0 + rank] * 9, rank=str(rank)) for rank in range(3)))
    found = shown("x on each rank within 5% of baseline", [ranks], [ranks])
    assert [[(one.member["rank"], one.standing) for one in runs] for runs in found] == [
        [(rank, "base"), (rank, "new")] for rank in "012"
    ]


# --- a large report --------------------------------------------------------------------------------------------------


def details(index: int, *lengths: int) -> VerdictDetails:
    """Details with a run of each number of values."""
    runs = [RunDetails("run", "new", True, 1.0, {}, n, 7, 8, (9.0,), (1.0,) * n, (2,) * n, 3, (4,)) for n in lengths]
    return VerdictDetails(index, "s", tuple(runs), 5, 1.0, 2.0)


def verdicts(*outcomes: Outcome) -> list[Verdict]:
    return [
        Verdict("r", "m", {}, None, outcome, "interval", "error", 0, "limit", "s", "", NO_STEP, Location("r.yaml"))
        for outcome in outcomes
    ]


BUDGETS: list[tuple[int, dict[Outcome, tuple[int, ...]], str, int]] = [
    # the most values; outcomes with the numbers of values of their runs; what each keeps; how many lose something
    (130, {"pass": (10, 80)}, "10+80", 0),
    (129, {"pass": (10, 80)}, "0+0", 1),
    (40, {"pass": (10, 80)}, "0+0", 1),
    (39, {"pass": (10, 80)}, "-", 1),
    (60, {"pass": (10,), "fail": (10,)}, "10 10", 0),
    (59, {"pass": (10,), "fail": (10,)}, "0 10", 1),
    (49, {"pass": (10,), "fail": (10,)}, "- 10", 1),
    (40, {"pass": (10,), "fail": (10,)}, "- 10", 1),
    (29, {"pass": (10,), "fail": (10,)}, "- 0", 2),
    (19, {"pass": (10,), "fail": (10,)}, "- -", 2),
    (50, {"fail": (99,), "pass": (10,)}, "0 10", 1),
    (150, {"pass": (10,), "skipped": (10,), "undecided": (10,), "error": (10,), "fail": (10,)}, "10 10 10 10 10", 0),
    (119, {"pass": (10,), "skipped": (10,), "undecided": (10,), "error": (10,), "fail": (10,)}, "- 0 10 10 10", 2),
]


@pytest.mark.parametrize(("most", "held", "kept", "left_out"), BUDGETS)
def test_the_worst_verdicts_keep_their_values(
    most: int, held: dict[Outcome, tuple[int, ...]], kept: str, left_out: int
) -> None:
    given = [details(index, *lengths) for index, lengths in enumerate(held.values())]
    found, count = within_budget(verdicts(*held), given, most)
    lengths = {one.verdict: "+".join(str(len(run.values)) for run in one.runs) for one in found}
    assert " ".join(lengths.get(index, "-") for index in range(len(held))) == kept
    assert count == left_out
    assert list(lengths) == sorted(lengths)


def test_a_run_without_its_values_keeps_its_numbers() -> None:
    (found,), _ = within_budget(verdicts("pass"), [details(0, 10)], 29)
    (run,) = details(0, 10).runs
    assert found == replace(details(0, 10), runs=(replace(run, values=(), steps=(), warmup=0, stalls=()),))


@pytest.mark.parametrize(("values", "left_out"), [(219_980, 0), (219_981, 1)])
def test_the_most_values_of_a_report(values: int, left_out: int) -> None:
    assert within_budget(verdicts("fail"), [details(0, values)])[1] == left_out


# --- load sweeps -----------------------------------------------------------------------------------------------------


def at(value: float, metric: str = "x", unit: str = "s", **labels: Any) -> Series:
    texts = {name: str(text) for name, text in labels.items()}
    return Series(Key.of(metric, **texts), unit, "value", read_only(np.array([value])))


def curve(*new: tuple[float, float], base: tuple[tuple[float, float], ...] = (), **fields: Any) -> SweepCurve:
    labels = {name: str(text) for name, text in fields.pop("labels", {}).items()}
    return SweepCurve(
        fields.get("metric", "x"), labels, fields.get("over", "concurrency"), fields.get("unit", "s"), base, new
    )


def loads(*sizes: Any, over: str = "concurrency", **more: Any) -> list[Series]:
    """A value for each load, which is a tenth of the load."""
    return [at(float(size) / 10, **more, **{over: size}) for size in sizes]


THREE = ((1.0, 0.1), (2.0, 0.2), (4.0, 0.4))
COUNTED = Series(Key.of("x", concurrency="8"), "s", "aggregate", read_only(np.empty(0)), aggregate={"count": 3.0})

SWEEPS: list[tuple[list[Series], list[Series], list[SweepCurve]]] = [
    # the series of the base and of the new run, and the curves
    ([], loads(1, 2, 4), [curve(*THREE)]),
    ([], loads(4, 1, 2), [curve(*THREE)]),
    ([], loads(1, 2), []),
    ([], [*loads("1", "1.0"), *loads(2)], []),
    (loads(1, 2, 4), loads(1, 2, 4), [curve(*THREE, base=THREE)]),
    (loads(1), loads(1, 2, 4), [curve(*THREE, base=THREE[:1])]),
    (loads(1, 2, 4, kind="a"), loads(1, 2, 4), [curve(*THREE)]),
    (loads(1, 2, 4), [], []),
    ([], loads(1, 2, 4, unit="B"), [curve(*THREE, unit="B")]),
    ([], loads(1, 2, 4, metric="y"), []),
    ([], [*loads(1, 2, 4), *loads(1, 2, 4, metric="y")], [curve(*THREE)]),
    # other labels
    (
        [],
        [*loads(1, 2, 4, kind="b"), *loads(1, 2, 4, kind="a"), *loads(1, 2, kind="c")],
        [curve(*THREE, labels={"kind": "a"}), curve(*THREE, labels={"kind": "b"})],
    ),
    ([], loads(1, 2, 4, kind="rank"), [curve(*THREE, labels={"kind": "rank"})]),
    ([], loads(1, 2, 4, over="kind"), []),
    ([], loads(1, 2, 4, model="concurrency"), [curve(*THREE, labels={"model": "concurrency"})]),
    # loads without a number
    ([], [*loads(1, 2, 4), at(9.0, concurrency="max"), at(9.0)], [curve(*THREE)]),
    ([], [*loads(1, 2), at(9.0, concurrency="max")], []),
    ([], [at(9.0, concurrency="max")], []),
    # values that are no numbers
    ([], [*loads(1, 2, 4), COUNTED, at(math.nan, concurrency=8)], [curve(*THREE)]),
    ([], [*loads(1, 2), at(math.nan, concurrency=8)], []),
    # the condition with the most loads, and the first of two with as many
    (
        [],
        [at(0.1, request_rate=r, concurrency=c) for r, c in ((1, 1), (2, 1), (4, 1), (1, 2), (2, 2), (4, 2))],
        [
            curve((1, 0.1), (2, 0.1), (4, 0.1), over="request_rate", labels={"concurrency": 1}),
            curve((1, 0.1), (2, 0.1), (4, 0.1), over="request_rate", labels={"concurrency": 2}),
        ],
    ),
    ([], [at(0.1, request_rate=r, concurrency=r) for r in (1, 2, 4)], []),
    (
        [],
        [at(0.1, request_rate=r, concurrency=c) for r in (1, 2, 4) for c in (1, 2, 4)],
        [curve((1, 0.1), (2, 0.1), (4, 0.1), labels={"request_rate": r}) for r in (1, 2, 4)],
    ),
]


@pytest.mark.parametrize(("base", "new", "curves"), SWEEPS)
def test_the_curves_of_a_load_sweep(base: list[Series], new: list[Series], curves: list[SweepCurve]) -> None:
    assert list(sweep_curves({"x"}, [run_of(*base)], [run_of(*new)])) == curves


def test_a_point_is_the_mean_over_runs_and_ranks() -> None:
    ranks = [
        run_of(*(at(value + size, rank=rank, concurrency=size) for size in (1, 2, 4) for rank in (0, 1)))
        for value in (1, 4)
    ]
    rates = [run_of(*(at(value + size, concurrency=size) for size in (1, 2, 4))) for value in (0, 2)]
    (found,) = sweep_curves({"x"}, rates, ranks)
    assert (found.base, found.new) == (((1, 2), (2, 3), (4, 5)), ((1, 3.5), (2, 4.5), (4, 6.5)))


def test_a_rule_file_may_name_more_conditions() -> None:
    runs = [run_of(*loads(1, 2, 4, over="kind"))]
    assert [one.condition for one in sweep_curves({"x"}, [], runs, {"kind"})] == ["kind"]


def test_at_most_twelve_curves_are_drawn() -> None:
    held = [one for kind in range(13) for one in loads(1, 2, 4, kind=kind)]
    assert len(sweep_curves({"x"}, [], [run_of(*held)])) == 12
    names = [f"m{i:02}" for i in range(13)]
    held = [one for name in reversed(names) for one in loads(1, 2, 4, metric=name)]
    assert [one.metric for one in sweep_curves(set(names), [], [run_of(*held)])] == names[:12]
