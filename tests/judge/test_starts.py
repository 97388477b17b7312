"""Doubts about the start of runs, of values in which every number is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from perfgate.core import Key, Series, Summary, read_only
from perfgate.core.results import Doubt
from perfgate.judge.doubts.starts import mean_doubts, start_doubts
from perfgate.judge.measure import Members, Method
from perfgate.judge.question import MeasuredSide
from perfgate.judge.terms import ChangeTerms


def samples(values: Sequence[float], **fields: Any) -> Series:
    return Series(Key("x"), "s", "samples", read_only(np.array(values, np.float64)), **fields)


def slow(n: int, first: int) -> Series:
    """Values of which the first ones are twice as large."""
    return samples([2.0 + at / 1000 if at < first else 1.0 + at % 3 / 1000 for at in range(n)])


def ranks(*series: Series) -> Members:
    return {(("rank", str(rank)),): one for rank, one in enumerate(series)}


def quarter(*new: Members, base: Sequence[Members] = (), **method: Any) -> list[Doubt]:
    doubts = start_doubts(new, base, Method(**{"statistic": "median", **method}), hides=True)
    return [one for one in doubts if one.what == "quarter"]


def found(count: int, first: int, *, decides: bool = True, of: str = "") -> list[Doubt]:
    return [Doubt("warm-up", "quarter", count, first, decides=decides, of=of)]


def test_a_slow_quarter_counts_if_half_of_the_runs_have_it() -> None:
    late, quick = ranks(slow(40, 12)), ranks(slow(40, 0))
    assert quarter(late) == quarter(late, quick) == quarter(ranks(slow(40, 12), slow(40, 0))) == found(40, 10)
    assert quarter(late, quick, quick) == found(40, 10, decides=False)
    assert quarter(late, late, late) == found(40, 10)
    assert quarter(ranks(slow(40, 12), slow(80, 30))) == found(80, 20)
    assert quarter(quick) == []


@pytest.mark.parametrize(
    ("n", "named", "doubts"),
    [
        (6, 0, []),
        (8, 0, found(8, 2, decides=False)),
        (16, 0, found(16, 4, decides=False)),
        (20, 0, found(20, 5)),
        (26, 20, []),
        (48, 40, found(48, 42, of="rule")),
        (60, 40, found(60, 45, of="rule")),
    ],
)
def test_few_slow_values_decide_nothing(n: int, named: int, doubts: list[Doubt]) -> None:
    series = slow(n, named + (n - named) // 2)
    assert quarter(ranks(series), warmup=named or "auto") == doubts
    assert quarter(ranks(series), warmup=named, statistic="p95") == []


def test_a_trace_has_no_start_after_a_named_warm_up() -> None:
    series = replace(slow(60, 50), stalled=np.zeros(60, np.bool_))
    assert quarter(ranks(series), warmup=40) == []


def test_a_base_that_starts_so_too_makes_it_usual() -> None:
    late, quick = ranks(slow(40, 12)), ranks(slow(40, 0))
    assert quarter(late, base=[quick]) == found(40, 10)
    assert quarter(late, base=[quick, late]) == found(40, 10, decides=False)
    of_base = (("median",), ((1.0, 20.0, 0.0),), 40)
    for dropped, decides in ((10, False), (9, True), (40, True)):
        kept = replace(samples([]), kind="summary", summary=Summary(*of_base, dropped, True, "auto", ("lower",)))
        assert quarter(late, base=[ranks(kept)]) == found(40, 10, decides=decides)
    only_mean = replace(samples([]), kind="aggregate", aggregate={"mean": 1.0, "median": 1.0})
    assert quarter(late, base=[ranks(only_mean)]) == found(40, 10)


def grown(new: Series, *base: Series) -> bool:
    doubts = start_doubts([ranks(new)], [ranks(one) for one in base], Method("median"), hides=True)
    return any(one.what == "warm-up time" for one in doubts)


def test_a_warm_up_has_grown_if_no_other_stretch_is_as_slow() -> None:
    stretch = samples([3.0 if 40 <= at < 60 else 1.0 + at % 3 / 1000 for at in range(80)])
    start = samples([3.0 if at < 10 else 1.0 + at % 3 / 1000 for at in range(80)])
    assert grown(start, slow(80, 0))
    assert not grown(start, stretch)
    assert grown(start, slow(8, 0))  # too short to have such a stretch


def side(*runs: Sequence[float]) -> MeasuredSide:
    return MeasuredSide((), (), tuple(map(samples, runs)), ())


MEANS = [
    # the base runs, the new runs, the warm-up, the doubt
    ([[1.0] * 9, [1.25] * 9], [[1.125] * 9], "auto", None),
    ([[1.0] * 9, [1.25] * 9], [[1.25] * 9], "auto", None),
    ([[1.0] * 9, [1.25] * 9], [[1.0] * 9], "auto", None),
    ([[1.0] * 9, [1.5] * 9], [[1.75] * 9], "auto", (1.25, 1.75, "")),
    ([[1.0] * 9, [1.5] * 9], [[0.5] * 9, [1.0] * 9], "auto", (1.25, 0.75, "")),
    ([[1.0] * 9 + [9.0] * 9], [[1.0] * 9], "auto", None),
    ([[1.0] * 9], [[1.0] * 9 + [9.0] * 9], "auto", None),
    ([[9.0] + [1.0] * 9], [[1.0] + [3.0] * 9], 1, (1.0, 3.0, "rule")),
    ([[1.0] * 9], [[9.0] + [1.0] * 9], 1, None),
    ([[0.0] * 9], [[1.0] * 9], "auto", None),
    ([[1.0] * 9], [[0.0] * 9], "auto", None),
    ([[1.0] * 9], [], "auto", None),
    ([], [[1.0] * 9], "auto", None),
    ([[]], [[1.0] * 9], "auto", None),
]


@pytest.mark.parametrize(("base", "new", "warmup", "doubt"), MEANS)
def test_a_mean_moved_if_it_is_outside_of_all_base_runs(
    base: list[list[float]], new: list[list[float]], warmup: Any, doubt: tuple[float, float, str] | None
) -> None:
    expected = [] if doubt is None else [Doubt("mean-moved", "mean", *doubt[:2], decides=False, of=doubt[2])]
    for statistic in ("median", "p50"):
        assert [
            *mean_doubts(side(*base), side(*new), ChangeTerms(statistic=statistic, tolerance=0.05, warmup=warmup))
        ] == expected
    assert [*mean_doubts(side(*base), side(*new), ChangeTerms(statistic="p95", tolerance=0.05, warmup=warmup))] == []
