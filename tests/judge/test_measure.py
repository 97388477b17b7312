"""A series as one number: of samples, of what a source printed, of a stored summary, of ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from perfgate.core import Key, Series, Summary, read_only
from perfgate.judge import measure
from perfgate.judge.measure import (
    Member,
    Method,
    NotAvailable,
    OnlySummary,
    by_slowness,
    choose,
    default_statistic,
    has_unit_of,
    is_exact,
    number_of_run,
    outlined,
    pooled,
    single_number,
    statistic_unit,
)
from perfgate.stats.statistics import RunMeasure

NAN = math.nan


def samples(*values: float, unit: str = "s", **more: Any) -> Series:
    labels = {"rank": more.pop("rank")} if "rank" in more else {}
    return Series(Key.of("x", **labels), unit, "samples", read_only(np.array(values, np.float64)), **more)


def lone(value: float) -> Series:
    return Series(Key("x"), "s", "value", read_only(np.array([value])))


def printed(unit: str = "s", rank: str = "", **statistics: float) -> Series:
    key = Key.of("x", **({"rank": rank} if rank else {}))
    return Series(key, unit, "aggregate", read_only(np.empty(0)), aggregate=statistics)


def stored(rows: Mapping[str, Sequence[float | None]], rank: str = "", unit: str = "s", **more: Any) -> Series:
    """A series of which only a summary is stored."""
    fields: dict[str, Any] = {"n": 40, "dropped": 4, "settled": True, "warmup": "auto", "better": ("lower",)}
    summary = Summary(tuple(rows), tuple(rows.values()), **(fields | {"sources": ("base.log",)} | more))
    aggregate = {name: row[0] for name, row in rows.items() if row[0] is not None}
    key = Key.of("x", **({"rank": rank} if rank else {}))
    return Series(key, unit, "summary", read_only(np.empty(0)), aggregate=aggregate, summary=summary)


LOWER, HIGHER = ("s", "B", "J", "W", "$", "count"), ("1/s", "B/s", "FLOP/s", "1/J")


# --- what a source printed -------------------------------------------------------------------------------------------

NUMBERS: list[tuple[Series, str, float | str]] = [
    *((lone(7.0), statistic, 7.0) for statistic in ("mean", "median", "min", "max", "total")),
    (lone(7.0), "p95", "p95 is not available: x is a single number"),
    (printed(mean=2.0, total=9.0, count=3), "mean", 2.0),
    (printed(total=9.0, count=3), "mean", 3.0),
    (printed(total=9.0, count=1), "mean", 9.0),
    (printed(total=9.0), "total", 9.0),
    (printed(total=9.0), "mean", "mean is not available: the source prints only total of x"),
    (printed(count=3), "mean", "mean is not available: the source prints only count of x"),
    (printed(total=9.0, count=3), "max", "max is not available: the source prints only count, mean, total of x"),
    (printed(total=0.0, count=0), "total", "x was never called: its count is 0"),
    (printed(median=2.0, min=1.0, max=3.0), "p50", 2.0),
    (printed(median=2.0, min=1.0, max=3.0), "p0", 1.0),
    (printed(median=2.0, min=1.0, max=3.0), "p100", 3.0),
    (stored({"mean": [2.0]}), "max", "the stored runs have only a summary of x, with no max of it"),
]


@pytest.mark.parametrize(("series", "statistic", "found"), NUMBERS)
def test_the_number_of_a_source(series: Series, statistic: str, found: float | str) -> None:
    if isinstance(found, float):
        assert single_number(series, statistic) == found
    else:
        with pytest.raises(NotAvailable) as raised:
            single_number(series, statistic)
        assert str(raised.value) == found


DEFAULTS = [
    (samples(1, 2), "median"),
    (stored({"mean": [1.0]}), "median"),
    (lone(1), "mean"),
    (printed(mean=1, total=2), "mean"),
    (printed(total=2, count=1), "mean"),
    (printed(total=2, count=1, max=2), "mean"),
    (printed(median=2), "median"),
    (printed(median=2, count=1), "median"),
    (printed(median=2, total=9), "total"),
    (printed(total=9), "total"),
    (printed(max=9), "total"),
]


@pytest.mark.parametrize(("series", "statistic"), DEFAULTS)
def test_the_statistic_of_a_rule_that_names_none(series: Series, statistic: str) -> None:
    assert default_statistic(series) == statistic


def test_counts_and_spreads_have_no_unit_and_each_unit_has_a_direction() -> None:
    assert dict.fromkeys(LOWER, "lower") | dict.fromkeys(HIGHER, "higher") == measure.BETTER_BY_UNIT
    assert sorted(measure.PICKS_EXTREME) == ["fastest", "slowest", "worst"]
    assert [statistic_unit(samples(1), name) for name in ("count", "cv", "max")] == ["1", "1", "s"]
    assert [has_unit_of(samples(1), name) for name in ("count", "cv", "max")] == [False, False, True]


# --- a whole run -----------------------------------------------------------------------------------------------------

OF_RUNS: list[tuple[Series, str, float | str]] = [
    (samples(*[1.0] * 21), "p95", 1.0),
    (samples(*[1.0] * 20), "p95", "p95 of x needs 20 values after warm-up, and there are 19"),
    (samples(*[1.0] * 20), "p5", "p5 of x needs 20 values after warm-up, and there are 19"),
    (samples(1.0), "count", 1.0),
    (samples(1.0), "max", 1.0),
    (lone(3.0), "p50", "p50 is not available: x is a single number"),
    (lone(3.0), "max", 3.0),
    (printed(mean=1.0, p99=4.0), "p99", 4.0),
    (samples(1.0, NAN), "max", NAN),
    (samples(), "p95", NAN),
]


@pytest.mark.parametrize(("series", "statistic", "found"), OF_RUNS)
def test_the_number_of_a_run(series: Series, statistic: str, found: float | str) -> None:
    if isinstance(found, float):
        assert number_of_run(series, statistic) == pytest.approx(found, nan_ok=True)
    else:
        with pytest.raises(NotAvailable) as raised:
            number_of_run(series, statistic)
        assert str(raised.value) == found


def test_stalled_steps_count_in_no_middle_and_nothing_of_a_trace_is_warm_up() -> None:
    stalled = np.array([False, False, True, False])
    trace = samples(9.0, 1.0, 50.0, 1.0, stalled=stalled)
    for name in ("mean", "median", "p50", "trimmed_mean"):
        assert Method(name).measure(trace) == Method(name, warmup=0).measure(samples(9.0, 1.0, 1.0))
    assert Method("max").measure(trace).value == 50.0
    assert Method("mean", warmup=1).measure(trace).value == 1.0
    slow_start = [5.0] * 10 + [1.0] * 70
    assert Method("median").measure(samples(*slow_start)).dropped == 10
    assert Method("median").measure(samples(*slow_start, stalled=np.zeros(80, np.bool_))).dropped == 0


def test_a_thinned_run_counts_and_sums_all_its_values() -> None:
    thinned = samples(1.0, 3.0, thinned_from=20)
    found = {name: Method(name, warmup=0).measure(thinned) for name in ("count", "total", "mean", "max")}
    assert {name: one.value for name, one in found.items()} == {"count": 20, "total": 40, "mean": 2, "max": 3}
    assert {one.n for one in found.values()} == {20}
    assert Method("total", warmup=0).measure(samples(1.0, NAN, thinned_from=20)).value is None


def test_a_measured_series_is_measured_once() -> None:
    method, series = Method("median"), samples(1, 2, 3)
    assert method.measure(series) is method.measure(series)
    assert method.steady(series) is method.steady(series)
    assert method.cache.measures
    other = Method("median")
    other.measure(lone(1.0))
    assert not other.cache.measures


def test_the_values_of_a_run() -> None:
    assert Method("median").value(samples(1, 2, 3)) == 2.0
    assert math.isnan(Method("median").value(samples(1, NAN)))
    assert Method("max").value(stored({"max": [3.0]})) == 3.0
    assert math.isnan(Method("max").value(stored({"max": [None]})))


# --- a stored summary ------------------------------------------------------------------------------------------------


def test_a_summary_gives_what_was_measured() -> None:
    series = stored(
        {"mean": [2.0, 30.0, 0.01], "min": [1.0, 20.0, None, 7.0, 0.0], "max": [3.0, 20.0, None, None, 1.0]}
    )
    assert Method("mean").measure(series) == RunMeasure(2.0, 36, 30.0, 0.01, 4, settled=True)
    assert Method("p0").measure(series) == RunMeasure(1.0, 33, 20.0, None, 7, settled=False)
    assert Method("max").measure(series) == RunMeasure(3.0, 40, 20.0, None, 0, settled=True)


MISSING: list[tuple[Series, Method, str]] = [
    (stored({"mean": [2.0]}), Method("mean"), "no noise of its mean, because other ranks represent it"),
    (stored({"mean": [2.0, 3.0, None]}), Method("max"), "no max; it has mean"),
    (stored({"mean": [2.0, 3.0, None]}, warmup=5), Method("mean"), "warm-up 5, and the rule has auto"),
    (
        stored({"mean": [2.0, 3.0, None]}, better=("lower", "neither")),
        Method("mean", better="higher"),
        "the warm-up of `better: lower or neither`, and the rule has higher",
    ),
    (stored({"count": [2.0, 3.0, None]}), Method("count"), "the warm-up of `better: neither`, and the rule has lower"),
]


@pytest.mark.parametrize(("series", "method", "lacks"), MISSING)
def test_a_summary_that_lacks_something_names_it_and_the_samples(series: Series, method: Method, lacks: str) -> None:
    with pytest.raises(OnlySummary) as raised:
        method.measure(series)
    assert str(raised.value) == f"the stored runs have only a summary of x, with {lacks}"
    assert raised.value.sources == ("base.log",)


def test_a_count_has_a_direction_of_its_own() -> None:
    """The warm-up of a count is that of `neither`, whichever values of the metric are better."""
    series = stored({"count": [2.0, 3.0, None]})
    assert Method("count", better="neither").measure(series).value == 2.0
    both = stored({"count": [2.0, 3.0, None]}, better=("lower", "neither"))
    assert Method("count", better="lower").measure(both).value == 2.0


def test_each_direction_has_a_warm_up_of_its_own() -> None:
    """Two rules about one metric share what was measured, but not if other values are slow."""
    rate, cache = samples(1, 2, 4, *[10.0, 10.05, 10.1] * 10, unit="1/s"), measure.MeasureCache()
    found = [Method("stddev", "auto", "lower", cache, values).measure(rate) for values in ("higher", "lower", None)]
    assert [one.n for one in found] == [30, 32, 32]
    found = [Method("mean", "auto", better, cache).measure(rate) for better in ("higher", "lower")]
    assert [one.n for one in found] == [30, 32]


def test_a_summary_of_a_rate_gives_its_spread() -> None:
    """Its warm-up is that of high values, although less spread is better."""
    series = stored({"stddev": [2.0, 3.0, None]}, unit="1/s", better=("higher",))
    assert Method("stddev", better_value="higher").measure(series).value == 2.0
    with pytest.raises(OnlySummary, match="the warm-up of `better: higher`, and the rule has lower"):
        Method("stddev").measure(series)


def test_a_summary_is_no_steady_run() -> None:
    with pytest.raises(OnlySummary, match="with no samples, which this needs"):
        Method("mean").steady(stored({"mean": [2.0]}))


# --- ranks -----------------------------------------------------------------------------------------------------------


def test_ranks_are_pooled_step_by_step() -> None:
    marks = np.array([False, True])
    found = pooled([samples(1, 2, rank="0", stalled=marks, joined=0.5), samples(3, 4, rank="1", stalled=~marks)])
    assert (str(found.key), found.unit, found.kind, found.joined) == ("x", "s", "samples", 0.5)
    assert found.values.tolist() == [1, 3, 2, 4]
    assert found.stalled is not None
    assert found.stalled.tolist() == [False, True, True, False]


def test_ranks_of_other_lengths_or_without_marks_are_pooled_without_marks() -> None:
    marks = np.array([False, True])
    uneven = pooled([samples(1, 2, stalled=marks), samples(3, 4, 5, stalled=np.zeros(3, np.bool_))])
    assert (uneven.kind, uneven.values.tolist(), uneven.stalled) == ("samples", [1, 2, 3, 4, 5], None)
    assert pooled([samples(1, 2, stalled=marks), samples(3, 4)]).stalled is None
    assert pooled([samples(1, 2), samples(3, 4)]).stalled is None


@pytest.mark.parametrize(("other", "whole"), [(20, 40), (None, 22)])
def test_pooled_ranks_that_were_stored_thinned_count_and_sum_all_values(other: int | None, whole: int) -> None:
    found = pooled([samples(1.0, 3.0, thinned_from=20), samples(1.0, 3.0, thinned_from=other)])
    assert found.thinned_from == whole
    assert Method("count", warmup=0).measure(found).value == whole
    assert Method("total", warmup=0).measure(found).value == 2 * whole
    uneven = pooled([samples(1.0, 3.0, thinned_from=20), samples(1.0, 3.0, 5.0, thinned_from=other)])
    assert uneven.thinned_from == 20 + (other or 3)
    assert pooled([samples(1.0, 3.0), samples(1.0, 3.0)]).thinned_from is None


def test_printed_ranks_are_pooled_by_their_sums() -> None:
    found = pooled([printed(total=6.0, count=3, rank="0"), printed(total=2.0, count=1, rank="1")])
    assert (str(found.key), found.unit, found.kind, len(found.values)) == ("x", "s", "aggregate", 0)
    assert found.aggregate == {"total": 8.0, "count": 4, "mean": 2.0}
    assert math.isnan(pooled([printed(total=0.0, count=0)] * 2).aggregate["mean"])


@pytest.mark.parametrize("other", [printed(mean=1.0), printed(total=1.0), printed(count=1), lone(1.0), samples(1.0)])
def test_ranks_without_sums_are_not_pooled(other: Series) -> None:
    with pytest.raises(NotAvailable) as raised:
        pooled([printed(total=6.0, count=3), other])
    assert str(raised.value) == "x cannot be pooled across ranks: it has neither samples nor total and count"


def test_a_summary_is_not_pooled_and_a_lone_rank_needs_no_pool() -> None:
    with pytest.raises(OnlySummary, match="with no samples, which `across ranks` needs"):
        pooled([samples(1, 2), stored({"mean": [2.0]})])
    alone = stored({"mean": [2.0]})
    assert pooled([alone]) is alone


def members(*values: float) -> dict[Member, Series]:
    return {(("rank", str(at)),): samples(*[value] * 4) for at, value in enumerate(values)}


CHOICES = [
    # choice     better    the rank of four with 2, 4, 1 and 3 s
    ("worst", "lower", 1),
    ("slowest", "lower", 1),
    ("fastest", "lower", 2),
    ("median", "lower", 0),
    ("worst", "higher", 2),
    ("fastest", "higher", 1),
    ("median", "higher", 3),
    ("worst", "neither", 1),
]


@pytest.mark.parametrize(("choice", "better", "rank"), CHOICES)
def test_the_rank_that_represents_a_run(choice: Any, better: Any, rank: int) -> None:
    four = members(2, 4, 1, 3)
    assert choose(four, choice, Method("median", better=better)) == ((("rank", str(rank)),), [*four.values()][rank])


def test_a_lone_rank_represents_its_run_and_two_are_pooled() -> None:
    assert choose(members(7), "across", Method("median"))[0] == (("rank", "0"),)
    member, found = choose(members(7, 8), "across", Method("median"))
    assert (member, len(found.values)) == ((), 8)
    assert choose(members(7, 8), "worst", Method("median"))[0] == (("rank", "1"),)


def test_a_rank_without_a_number_is_the_slowest() -> None:
    values: dict[Member, float] = {
        (("rank", name),): value for name, value in {"a": 3.0, "b": NAN, "c": 0.0, "d": -1.0}.items()
    }
    order = {better: [member[0][1] for member in by_slowness(values, better)] for better in ("lower", "higher")}
    assert order == {"lower": ["b", "a", "c", "d"], "higher": ["b", "d", "c", "a"]}


def test_ranks_beside_outlined_ones_are_compared_by_seven_digits() -> None:
    """The first of two that are equal to seven digits is chosen, as when only these digits were stored."""
    first, second = stored({"median": [1.00000001]}, is_outlined=True), stored({"median": [1.00000002]})
    ranks: dict[Member, Series] = {(("rank", "0"),): first, (("rank", "1"),): second}
    assert choose(ranks, "worst", Method("median"))[0] == (("rank", "0"),)
    ranks[(("rank", "0"),)] = stored({"median": [1.00000001]})
    assert choose(ranks, "worst", Method("median"))[0] == (("rank", "1"),)
    assert choose(members(1.00000001, 1.00000002), "worst", Method("median"))[0] == (("rank", "1"),)
    assert [outlined(value) for value in (123456789.0, 1.23456789)] == [123456789.0, 1.234568]


EXACT = [
    # unit     statistic  values       exact
    ("B", "median", [1.5], True),
    ("FLOP", "mean", [1.5], True),
    ("count", "mean", [1.5], True),
    ("s", "count", [1.5], True),
    ("s", "mean", [2.0], False),
    ("1", "mean", [2.0, 3.0], True),
    ("1", "mean", [2.0, 0.5], False),
    ("1", "mean", [2.0, None], False),
    ("1", "mean", [], True),
]


@pytest.mark.parametrize(("unit", "statistic", "values", "exact"), EXACT)
def test_bytes_operations_and_counts_are_exact(
    unit: str, statistic: str, values: list[float | None], exact: bool
) -> None:
    assert is_exact(unit, statistic, [RunMeasure(one, 1, None, 0.0, 0, settled=True) for one in values]) is exact
