"""Doubts about the start of runs, of values in which every number is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from perfgate.core import Key, Series, Summary, read_only
from perfgate.core.results import Doubt
from perfgate.judge.doubts.starts import _start, breaks_with_start, mean_doubts, start_doubts
from perfgate.judge.measure import Members, Method
from perfgate.judge.question import MeasuredSide
from perfgate.judge.terms import ChangeTerms, LimitTerms


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
    assert quarter(ranks(slow(40, 12)), ranks(slow(80, 30))) == found(80, 20)
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
    assert quarter(ranks(only_mean)) == quarter(ranks(samples([]))) == []
    assert quarter(late, base=[ranks(samples([]))]) == found(40, 10)
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


def begun(
    n: int, *head: float, usual: float = 1.0, stretch: tuple[int, float] | None = None, unit: str = "s"
) -> Series:
    """A run of a value after the first ones; a stretch of ten values may begin later."""
    values = np.full(n, usual)
    values[: len(head)] = head
    if stretch is not None:
        values[stretch[0] : stretch[0] + 10] = stretch[1]
    return replace(samples(list(values)), unit=unit)


def warmup(*new: Members | Series, base: Sequence[Members | Series], **method: Any) -> list[Doubt]:
    sides = ([one if isinstance(one, dict) else ranks(one) for one in runs] for runs in (new, base))
    found = start_doubts(*sides, Method(**{"statistic": "median", **method}), hides=True)
    return [one for one in found if one.what in ("warm-up time", "warm-up steps")]


def time(base: float, new: float) -> list[Doubt]:
    return [Doubt("warm-up", "warm-up time", base, new, decides=True)]


def steps(base: int, new: int) -> list[Doubt]:
    return [Doubt("warm-up", "warm-up steps", base, new, decides=True)]


FLAT = begun(40)
#: A stretch of 2 in the first half, after a start of 4.
AFTER = {"stretch": (10, 2.0)}
GROWN: list[tuple[list[Any], list[Any], list[Doubt]]] = [
    # new runs, stored runs, the doubt: the seconds of the largest stored warm-up and of the new one
    ([begun(40, *[3.0] * 8)], [FLAT], time(1.0, 24.0)),
    ([FLAT], [FLAT], []),
    ([begun(40, *[3.0] * 8)], [], []),
    ([begun(40, *[3.0] * 8)], [begun(40, *[3.0] * 8)], []),
    # five steps are the fewest
    ([begun(40, *[3.0] * 5)], [FLAT], time(1.0, 15.0)),
    ([begun(40, *[3.0] * 4)], [FLAT], []),
    # it costs more than a tenth of the steady steps: 5 steps at twice the time, of 50 others
    ([begun(54, *[2.0] * 5)], [FLAT], time(1.0, 10.0)),
    ([begun(55, *[2.0] * 5)], [FLAT], []),
    ([begun(55, *[4.0] * 5, usual=2.0)], [FLAT], []),
    ([begun(55, *[2.25] * 5)], [FLAT], time(1.0, 11.25)),
    ([begun(54, *[1.5] * 5)], [FLAT], []),
    ([begun(540, *[20.0] * 5, usual=10.0)], [FLAT], []),
    # three quarters of its steps are as slow: of 2, 3, 4, 5 and 6 those from 3 on
    ([begun(104, 2.0, 3.0, 4.0, 5.0, 6.0)], [FLAT], time(1.0, 20.0)),
    ([begun(105, 2.0, 3.0, 4.0, 5.0, 6.0)], [FLAT], []),
    ([begun(104, 6.0, 5.0, 4.0, 3.0, 2.0)], [FLAT], time(1.0, 20.0)),
    # it is three times slower than any other stretch of as many steps, on both sides
    ([begun(60, *[4.25] * 5, **AFTER)], [FLAT], time(1.0, 21.25)),
    ([begun(60, *[4.0] * 5, **AFTER)], [FLAT], []),
    ([begun(60, *[8.5] * 5, usual=2.0, stretch=(10, 4.0))], [FLAT], time(1.0, 42.5)),
    ([begun(60, *[4.25] * 5)], [begun(60, **AFTER)], time(1.0, 21.25)),
    ([begun(60, *[4.0] * 5)], [begun(60, **AFTER)], []),
    ([begun(60, *[4.0] * 5)], [FLAT, begun(60, **AFTER)], []),
    ([begun(60, *[4.0] * 5)], [begun(4)], time(0.0, 20.0)),  # a run that is too short has no such stretch
    # its cost is three times that of any stored run: 6 steps of 7 against 2
    ([begun(60, *[7.0] * 6)], [begun(60, 7.0, 7.0)], []),
    ([begun(60, *[7.0] * 6)], [begun(60, 6.75, 6.75)], time(13.5, 42.0)),
    ([begun(60, *[7.0] * 6)], [begun(60, 7.0, 7.0), FLAT], []),
    # the largest stored warm-up is named
    ([begun(40, *[1.5] * 8, usual=0.5)], [begun(4, usual=0.5), begun(40, usual=0.5)], time(0.5, 12.0)),
    ([begun(60, *[9.0] * 6)], [FLAT, begun(60, 5.0, 5.0), begun(60, 6.0)], time(10.0, 54.0)),
    ([begun(60, *[12.0] * 6)], [begun(60, 5.0, 5.0), begun(60, 20.0)], time(20.0, 72.0)),
    # of several new runs the middle one decides, of two the worse
    ([begun(40, *[3.0] * 8), FLAT], [FLAT], time(1.0, 24.0)),
    ([begun(40, *[3.0] * 8), begun(40, *[1.02] * 8)], [FLAT], time(1.0, 24.0)),
    ([begun(40, *[3.0] * 8), FLAT, FLAT], [FLAT], []),
    ([begun(40, *[3.0] * 8), begun(40, *[4.0] * 8), FLAT], [FLAT], time(1.0, 24.0)),
    ([begun(40, *[3.0] * 6), begun(40, *[4.0] * 8), begun(40, *[3.0] * 8)], [FLAT], time(1.0, 24.0)),
    # of the ranks of a run the one with the largest warm-up
    ([ranks(FLAT, begun(40, *[3.0] * 8), begun(40, *[3.0] * 6))], [FLAT], time(1.0, 24.0)),
    ([ranks(begun(40, *[3.0] * 8))], [ranks(FLAT, begun(40, *[3.0] * 8))], []),
    # a start beyond the first quarter, of which only the quarter is dropped
    ([begun(40, *[1.2] * 15)], [FLAT], time(1.0, 12.0)),
    # rates
    ([begun(40, *[0.25] * 8, unit="1/s")], [replace(FLAT, unit="1/s")], []),
    # what has no steady step to compare with
    ([begun(40, *[3.0] * 8)], [begun(40, usual=0.0)], []),
    ([begun(40, *[3.0] * 8, usual=0.0)], [FLAT], []),
]  # fmt: skip


@pytest.mark.parametrize(("new", "base", "doubts"), GROWN)
def test_a_warm_up_that_grew(new: list[Any], base: list[Any], doubts: list[Doubt]) -> None:
    found = warmup(*new, base=base)
    assert found == [replace(one, base=pytest.approx(one.base), new=pytest.approx(one.new)) for one in doubts]


def test_rates_have_steps_of_warm_up() -> None:
    """A rate of a quarter is four times the time of a step."""
    rates = begun(40, *[0.25] * 8, unit="1/s"), begun(40, unit="1/s")
    assert warmup(rates[0], base=[rates[1]], better="higher") == steps(1, 8)
    slower = begun(60, *[0.25] * 5, unit="1/s"), begun(60, stretch=(10, 0.5), unit="1/s")
    assert warmup(slower[0], base=[slower[1]], better="higher") == []
    assert warmup(rates[0], base=[begun(40, usual=0.0, unit="1/s")], better="higher") == []
    assert warmup(begun(40, *[3.0] * 8, unit="B"), base=[begun(40, unit="B")]) == []
    energies = begun(40, *[4.0] * 8, unit="J"), begun(40, unit="J")
    assert warmup(energies[0], base=[energies[1]]) == steps(1, 8)


def test_a_named_warm_up_grows_too() -> None:
    long = begun(40, *[3.0] * 8)
    assert warmup(long, base=[FLAT], warmup=8) == time(8.0, 24.0)
    assert warmup(long, base=[FLAT], warmup=4) == []
    assert warmup(long, base=[begun(8)], warmup=8) == []  # no step is left


def limits(comparator: Any, warmup: Any, *runs: Sequence[float]) -> bool:
    return breaks_with_start(side(*runs), LimitTerms(bound=2.0, comparator=comparator, warmup=warmup))


def test_the_mean_with_the_start_may_break_a_limit() -> None:
    assert limits("at most", "auto", [1.0], [1.0, 4.0])
    assert not limits("at most", "auto", [1.0], [1.0, 3.0])
    assert limits("under", "auto", [1.0, 3.0], [])
    assert limits("over", "auto", [1.0, 3.0])
    assert not limits("at least", "auto", [1.0, 3.0])
    assert not limits("under", 1, [9.0, 1.0])
    assert limits("under", 1, [0.0, 2.0])
    assert not limits("under", "auto", [], [1.0])


@pytest.mark.parametrize("statistic", ["mean", "median", "p50", "trimmed_mean", "p95", "max", "total", "count"])
def test_a_stalled_step_of_a_trace_moves_no_middle(statistic: str) -> None:
    series = samples([1.0] * 9 + [9.0], stalled=np.array([False] * 9 + [True]))
    is_middle = statistic in ("mean", "median", "p50", "trimmed_mean")
    assert Method(statistic).measure(series).n == (9 if is_middle else 10)


def test_only_a_median_is_blind_for_a_slow_start() -> None:
    late = slow(48, 44)
    for statistic in ("median", "p50"):
        assert quarter(ranks(late), warmup=40, statistic=statistic) == found(48, 42, of="rule")
    for statistic in ("mean", "p95", "max"):
        assert quarter(ranks(late), warmup=40, statistic=statistic) == []


def test_fast_values_after_a_long_slow_start_are_not_a_part_of_it() -> None:
    times = [2.0] * 12 + [0.5] * 4 + [1.0 + at % 3 / 1000 for at in range(24)]
    start = _start(samples(times), Method("median"))
    assert start is not None
    assert start.dropped == 12


def test_what_hides_nothing_decides_nothing() -> None:
    (one,) = [*start_doubts([ranks(slow(40, 12))], (), Method("median"), hides=False)]
    assert one == found(40, 10, decides=False)[0]
