"""One series in numbers, and a metric of many ranks in one row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from stories import series

from perfgate.core import Key, Series, read_only
from perfgate.core.summaries import RankSpread, SeriesSummary
from perfgate.judge.series_summary import rank_spreads, summary

INF, NAN = math.inf, math.nan
#: 0 to 100 in another order.
HUNDRED = [float((37 * i) % 101) for i in range(101)]


def values(*numbers: float, **fields: Any) -> Series:
    return Series(Key("x"), "s", fields.pop("kind", "samples"), read_only(np.array(numbers, np.float64)), **fields)


def printed(kind: Any = "aggregate", **statistics: float) -> Series:
    return Series(Key("x"), "s", kind, read_only(np.empty(0)), aggregate=statistics, printed_as="x_old")


STATISTICS: list[tuple[Series, int | None, dict[str, float]]] = [
    # a series, the number of its values, and its statistics
    (
        values(*HUNDRED),
        101,
        {"mean": 50.0, "median": 50.0, "p95": 95.0, "p99": 99.0, "min": 0.0, "max": 100.0, "total": 5050.0},
    ),
    (values(4.0), 1, {"mean": 4, "median": 4, "p95": 4, "p99": 4, "min": 4, "max": 4, "total": 4}),
    (values(1.0, NAN), 2, dict.fromkeys(("mean", "median", "p95", "p99", "min", "max", "total"), NAN)),
    (values(), 0, {}),
    (values(7.0, kind="value"), 1, {"value": 7.0}),
    (printed(mean=2.0, count=3.0), 3, {"mean": 2.0, "count": 3.0}),
    (printed(mean=2.0), None, {"mean": 2.0}),
    (printed("summary", median=2.0, count=3.0), 3, {"median": 2.0, "count": 3.0}),
]


@pytest.mark.parametrize(("one", "n", "statistics"), STATISTICS)
def test_the_statistics_of_a_series(one: Series, n: int | None, statistics: dict[str, float]) -> None:
    found = summary(one)
    assert (found.key, found.unit, found.kind, found.n, found.values) == (Key("x"), "s", one.kind, n, None)
    assert found.printed_as == one.printed_as
    assert dict(found.statistics) == pytest.approx(statistics, nan_ok=True)


def test_the_values_are_there_if_they_are_asked_for() -> None:
    assert summary(values(3.0, 1.0), with_values=True).values == (3.0, 1.0)
    assert summary(values(printed_as="x_old")) == SeriesSummary(Key("x"), "s", "samples", 0, {}, printed_as="x_old")


HISTOGRAMS: list[tuple[list[float], list[int]]] = [
    # values, and how many of them are in each of the sixteen bins that have any, by the place of the bin
    ([1.0, 2.0], [1, *[0] * 14, 1]),
    ([100.0, 132.0], [1, *[0] * 14, 1]),
    ([*map(float, range(160)), *[159.0] * 100], [10] * 15 + [110]),
    ([*[0.0, 1.0] * 100, 1e6], [100, *[0] * 14, 101]),
    ([5.0], []),
    ([5.0, 5.0, 5.0], []),
    ([1.0, 2.0, NAN], []),
    ([1.0, INF], []),
    ([-1.7e308, 1.7e308], []),
    ([0.0, 5e-324], []),
]


@pytest.mark.parametrize(("numbers", "bins"), HISTOGRAMS)
def test_a_histogram_has_sixteen_equal_bins_up_to_p99(numbers: list[float], bins: list[int]) -> None:
    assert summary(values(*numbers)).histogram == tuple(bins)


def test_a_histogram_counts_all_of_many_values() -> None:
    many = values(*np.tile(np.arange(16.0), 20_000))
    assert summary(many).histogram == (20_000,) * 16


def ranks(statistics: dict[str, list[float]], unit: str = "s", **labels: str) -> list[SeriesSummary]:
    """A series for each rank; each has one of the numbers of each statistic."""
    count = len(next(iter(statistics.values())))
    return [
        SeriesSummary(
            Key.of("x", rank=str(rank), **labels),
            unit,
            "samples",
            9,
            {name: numbers[rank] for name, numbers in statistics.items() if not math.isnan(numbers[rank])},
        )
        for rank in range(count)
    ]


NINE = [1.0, 9.0, 2.0, 8.0, 3.0, 7.0, 4.0, 6.0, 5.0]
TEN = [*NINE, 10.0]

SPREADS: list[tuple[list[SeriesSummary], tuple[Any, ...] | None]] = [
    # series; the number of ranks, the statistic, and the median, the slowest and the fastest rank
    (ranks({"median": NINE}), (9, "median", 5.0, 9.0, "rank 1", 1.0, "rank 0")),
    (ranks({"median": NINE}, "1/s"), (9, "median", 5.0, 1.0, "rank 0", 9.0, "rank 1")),
    (ranks({"median": NINE}, "1"), (9, "median", 5.0, 9.0, "rank 1", 1.0, "rank 0")),
    (ranks({"median": TEN}), (10, "median", 5.0, 10.0, "rank 9", 1.0, "rank 0")),
    (ranks({"median": NINE[:8]}), None),
    (ranks({"value": NINE, "median": [0.0] * 9}), (9, "value", 5.0, 9.0, "rank 1", 1.0, "rank 0")),
    (ranks({"mean": [0.0] * 9, "median": NINE}), (9, "median", 5.0, 9.0, "rank 1", 1.0, "rank 0")),
    (ranks({"total": [0.0] * 9, "mean": NINE}), (9, "mean", 5.0, 9.0, "rank 1", 1.0, "rank 0")),
    (ranks({"total": NINE}), (9, "total", 5.0, 9.0, "rank 1", 1.0, "rank 0")),
    (ranks({"median": [NAN, *NINE[1:]], "mean": NINE}), (9, "mean", 5.0, 9.0, "rank 1", 1.0, "rank 0")),
    (ranks({"max": NINE}), None),
    ([*ranks({"median": NINE[:8]}), *ranks({"median": NINE[:8]}, "B")], None),
    ([SeriesSummary(Key.of("x", kind=str(i)), "s", "samples", 9, {"median": 1.0}) for i in range(9)], None),
]


@pytest.mark.parametrize(("rows", "row"), SPREADS)
def test_the_row_of_many_ranks(rows: list[SeriesSummary], row: tuple[Any, ...] | None) -> None:
    assert rank_spreads(rows) == (() if row is None else (RankSpread(Key("x"), rows[0].unit, *row),))


def test_each_metric_has_a_row_in_the_order_of_the_series() -> None:
    rows = [*ranks({"median": NINE}, kind="b"), *ranks({"median": NINE}, kind="a"), *ranks({"max": NINE}, kind="c")]
    assert [dict(row.key.labels) for row in rank_spreads(rows)] == [{"kind": "b"}, {"kind": "a"}]


def test_a_member_is_named_by_device_and_rank() -> None:
    keys = [Key.of("x", rank="7", device=str(device)) for device in range(9)]
    (row,) = rank_spreads([SeriesSummary(key, "s", "samples", 1, {"mean": float(i)}) for i, key in enumerate(keys)])
    assert (row.slowest_rank, row.fastest_rank) == ("device 8 rank 7", "device 0 rank 7")


def test_a_series_without_a_rank_is_left_out() -> None:
    one = summary(series("x", "s", [1.0]))
    assert rank_spreads([one, *ranks({"median": NINE})])[0].ranks == 9
