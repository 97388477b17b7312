"""Slow ranks, and the times of places and ranks, from numbers that are worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from made_alignments import Row, aligned
from msgspec.structs import replace

from perfgate.causes import ranks as module
from perfgate.causes.align import Alignment, Finding
from perfgate.causes.noise import Noise, SeriesNoise
from perfgate.causes.ranks import (
    _clear_growth,
    _growth_of_awaited,
    _limits,
    _shared_ranks,
    communication,
    find_slow_ranks,
    find_slow_timers,
    not_timed,
    place_times,
    rank_times,
)
from perfgate.core.causes import Cause, CauseMetric, RankTime
from perfgate.stats.distributions import t_quantile


def of_ranks(alignment: Alignment, base: Mapping[str, Any], new: Mapping[str, Any]) -> Alignment:
    """The alignment with the times of each rank, by node; those of each run, too, if there are several."""
    sides = []
    for side, ranks in zip(alignment.sides, (base, new), strict=True):
        runs = {rank: np.array(times, np.float64).reshape(len(alignment.nodes), -1) for rank, times in ranks.items()}
        walls = {rank: times.mean(axis=1) for rank, times in runs.items()}
        sides.append(replace(side, rank_wall=walls, rank_runs=runs))
    return replace(alignment, base=sides[0], new=sides[1])


# --- small functions -------------------------------------------------------------------------------------------------


def test_ranks_are_in_the_order_of_their_numbers() -> None:
    walls = {rank: [1] for rank in ["10", "2", "0", "11", "7"]}
    assert _shared_ranks(of_ranks(aligned([]), walls, {**walls, "7": [0], "5": [1]})) == ["0", "2", "7", "10", "11"]


def test_communication_includes_all_below_it() -> None:
    rows = [
        Row("forward", "range", 0),
        Row("nccl:all_reduce", "operator", 1),
        Row("record", "operator", 2),
        Row("all_reduce", "collective", 0),
        Row("ncclDevKernel", "communication", 1),
        Row("c10d::all_reduce_", "operator", 1),
        Row("gloo:broadcast", "range", 0),
        Row("mm", "operator", 1),
        Row("mm", "operator", 8),
    ]
    assert np.flatnonzero(communication(aligned(rows))).tolist() == [2, 3, 4, 5, 6, 7]
    first = [Row("nccl:all_reduce", "operator", 0), Row("record", "operator", 1)]
    assert communication(aligned(first)).tolist() == [False, True, True]


def test_only_one_side_times_some_timers() -> None:
    calls = [(1, 0), (0, 0.5), (0.5, 0.5), (0, 0), (2, 0)]
    alignment = aligned([Row(str(at), "operator", 0, calls=pair) for at, pair in enumerate(calls)])
    assert not_timed(alignment, []) == {1, 2, 5}
    assert not_timed(alignment, [Finding("slower", frozenset({2, 3}), 2, ())]) == {1, 5}


# --- places of a picture ---------------------------------------------------------------------------------------------

#: The step is 10 s, then 20 s: places are shown from 0.1 s on.
PLACES = [
    Row("forward", "range", 0, 4.0, 12.0),
    Row("mm", "operator", 1, 0.1, 0.0),
    Row("add", "operator", 1, 0.0625, 0.03125),
    Row("mul", "operator", 1, 0.03125, 0.0625),
    Row("sub", "operator", 1, 0.0078125, 0.0),
    Row("backward", "range", 0, 5.5, 7.5),
    Row("tiny", "operator", 6, 0.05, 0.03125),
    Row("small", "operator", 6, 0.05, 0.03125),
    Row("sum", "operator", 0, 0.0, 0.0625),
    Row("max", "operator", 0, 0.0, 0.0625),
]
SHOWN = [("", 0, 2), ("forward", 0, 0), ("", 2, 3), ("mm", 2, 0), ("backward", 0, 0), ("", 5, 2)]
TINY = [*SHOWN[:5], ("tiny", 5, 0)]  # a single small place is no pool


def cause(*where: str, metric: CauseMetric = "time", places: tuple[tuple[str, ...], ...] = ()) -> Cause:
    return Cause("slower", where, metric, 0, 0, 0, None, places=places)


SMALL: list[tuple[list[Cause], set[int], list[tuple[str, int, int]]]] = [
    ([], set(), SHOWN),
    ([], {2, 6}, SHOWN[:3]),
    ([cause("backward", "tiny")], set(), TINY),
    ([cause(places=(("backward",), ("backward", "tiny")))], set(), TINY),
    ([cause("backward", "tiny", metric="memory"), cause("backward", "nowhere", "tiny")], set(), SHOWN),
    (
        [cause("sum"), cause("max")],
        set(),
        [("forward", 0, 0), ("", 1, 3), ("mm", 1, 0), ("backward", 0, 0), ("", 4, 2), ("sum", 0, 0), ("max", 0, 0)],
    ),
]


@pytest.mark.parametrize(("causes", "hidden", "shown"), SMALL)
def test_small_places_are_pooled_and_those_of_causes_are_shown(
    causes: list[Cause], hidden: set[int], shown: list[tuple[str, int, int]]
) -> None:
    alignment = aligned(PLACES)
    alignment.base.wall[0], alignment.new.wall[0] = (
        whole - sum(getattr(row, side) for row in PLACES) for side, whole in (("base", 10.0), ("new", 20.0))
    )
    swapped = replace(alignment, base=alignment.new, new=alignment.base)
    for seen in (alignment, swapped):
        found = place_times(seen, causes, hidden)
        assert [(one.name, one.parent, one.pooled) for one in found[1:]] == shown
        assert (found[0].name, found[0].parent, found[0].pooled) == ("step", -1, 0)
        assert (found[0].base, found[0].new) == pytest.approx((seen.base.step, seen.new.step))


def test_a_picture_has_at_most_150_places() -> None:
    rows = [Row(f"op{at:03}", "operator", 0, 1.0, 1.0 + at / 1024) for at in range(module._MOST_PLACES + 1)]
    found = place_times(aligned(rows), [])
    assert len(found) == 151  # the step, 149 of its places, and a pool
    assert [one.pooled for one in found if one.pooled] == [2]
    assert {row.name for row in rows} - {one.name for one in found} == {"op000", "op001"}


def test_the_work_and_the_communication_of_ranks() -> None:
    alignment = aligned([Row("mm", "operator", 0), Row("all_reduce", "communication", 0)])
    base, new = {"10": [1, 2, 4], "2": [1, 3, 5], "7": [0, 0, 0]}, {"10": [1, 8, 16], "2": [2, 4, 6]}
    found = of_ranks(alignment, base, new)
    assert rank_times(found) == (RankTime("2", 4, 5, 6, 6), RankTime("10", 3, 4, 9, 16))
    assert rank_times(found, frozenset({2}))[0] == RankTime("2", 9, 0, 12, 0)
    assert rank_times(of_ranks(alignment, base, {"2": [2, 4, 6]})) == ()


# --- slow ranks of traces --------------------------------------------------------------------------------------------

#: An error of 0.25 s of both operators, and 1 us / 4 of one that the base lacks.
QUARTER = 0.25 / math.sqrt(2)
GROWN = [
    # the growth of a rank beyond the others: of the step, two operators, a new one, and communication; the clear growth
    ((0, 1.0, 0, 0, 9), 0.0),
    ((0, 1.01, 0, 0, 9), 1.01),
    ((0, 1.01, -5, 0, 9), 1.01),
    ((0, 0.5, 0.75, 0, 9), 0.0),
    ((0, 0.71, 0.71, 0, -9), 1.42),
    ((0, 0.70, 0.70, 0, -9), 0.0),
    ((0, 0, 0, 1.1e-6, 0), 1.1e-6),
    ((0, 0, 0, 0.9e-6, 0), 0.0),
]


@pytest.mark.parametrize(("beyond", "clear"), GROWN)
def test_the_growth_that_noise_does_not_explain(beyond: tuple[float, ...], clear: float) -> None:
    rows = [
        Row("mm", "operator", 0, 1.0, 5.0),
        Row("add", "operator", 0, 1.0, 5.0),
        Row("new", "operator", 0, 0.0, 5.0),
        Row("all_reduce", "communication", 0, 1.0, 5.0),
    ]
    alignment = aligned(rows)
    noise = Noise(alignment, np.full(5, QUARTER), np.zeros(5))
    found = _clear_growth(np.array([beyond, [0.0] * 5]), communication(alignment), alignment, noise)
    assert found == pytest.approx([clear, 0.0], abs=1e-12)


def test_growth_at_the_edge_of_noise_is_noise() -> None:
    alignment = aligned([Row("mm", "operator", 0, 1.0, 5.0), Row("all_reduce", "communication", 0)])
    noise = Noise(alignment, np.array([0.0, QUARTER, 0.0]), np.zeros(3))
    beyond = np.array([[0, 1.0, 0], [0, 1.0000001, 0]])
    assert math.sqrt(2) * QUARTER == 0.25
    assert _clear_growth(beyond, communication(alignment), alignment, noise).tolist() == [0.0, 1.0000001]


def test_steps_that_vary_hide_more_of_the_growth_of_one_rank() -> None:
    alignment = aligned([Row("mm", "operator", 0, (1.0, 3.0), (2.0, 2.0))], (0, 0), (0, 0))  # a standard error of 1 s
    noise = Noise(alignment, np.zeros(2), np.zeros(2))
    beyond = np.array([[0, 7.9], [0, 8.1]])
    assert _clear_growth(beyond, np.zeros(2, bool), alignment, noise).tolist() == [0, 8.1]


TRACE = [
    Row("forward", "range", 0),
    Row("gemm", "kernel", 1, 5.0, 5.0),
    Row("mlp", "kernel", 0, 5.0, 5.0),
    Row("ncclDevKernel", "communication", 1),
]


def traced(*changes: Sequence[float], names: Sequence[str] = "0123456789", level: float = 0.0) -> Finding | None:
    """What is found if the kernels, the communication and the step of each rank change like this; a step is 10 s."""
    base = {name: [level * int(name)] * 5 for name in names}
    new = {
        name: [level * int(name) + one for one in (step, 0, gemm, mlp, comm)]
        for name, (gemm, mlp, comm, *more) in zip(names, changes, strict=False)
        for step in [more[0] if more else 0]
    }
    alignment = of_ranks(aligned(TRACE), base, new)
    noise = Noise(alignment, np.zeros(5), np.zeros(5))
    found = find_slow_ranks(alignment, noise)
    if found is not None:
        assert (found.kind, (found.change, found.error)) == ("slow rank", noise.change(found.nodes))
    return found


W, Q = (0, 0, 1), (0, 0, 0)  # a rank that waits, one that does nothing
SLOW_RANKS: list[tuple[Sequence[Sequence[float]], tuple[str, ...]]] = [
    ([W, W, (1, 0, 0), W], ("2",)),
    ([(1, 0, 0), W], ("0",)),
    ([W, (1, 0, 0), W], ("1",)),
    ([W], ()),
    ([W, Q], ()),
    ([Q, Q, Q], ()),
    ([(1, 0, 0), (0, 1, 0)], ()),
    ([W, (1, 0, 0), W, (1, 0, 0)], ("1", "3")),
    ([(1, 0, 0), (1, 0, 0), W], ()),
    ([(1, 0, 0), (1, 0, 0), (1, 0, 0), W, W], ()),
    ([W, (1, 0, 0), (0.5, 0, 0), W], ("1", "2")),
    ([W, (1, 0, 0), (0.4375, 0, 0), W], ("1",)),
    # at least 0.015 of the step; the others wait for at least 0.4 of it
    ([W, W, (0.15, 0, 0), W], ("2",)),
    ([W, W, (0.1499, 0, 0), W], ()),
    ([W, W, (2.5, 0, 0), W], ("2",)),
    ([W, W, (2.51, 0, 0), W], ()),
    ([(0, 0, 0.5), (0, 0, 0.5), (0.125, 0, 0)], ()),
    ([(0, 0, 0.2), (0, 0, 0.2), (0.4, 0, 0), (0, 0, 0.2)], ("2",)),
    ([(0, 0, 0.2), (0, 0, 0.2), (1, 0, -0.3), (0, 0, 0.2)], ("2",)),
    ([(0, 0, 0.3), (1, 0, 0), (0.5, 0, 0), (0, 0, 0.3)], ("1", "2")),
]


@pytest.mark.parametrize(("changes", "slow"), SLOW_RANKS)
def test_the_ranks_that_others_wait_for(changes: Sequence[Sequence[float]], slow: tuple[str, ...]) -> None:
    found = traced(*changes)
    assert (found.ranks if found else ()) == slow
    assert found is None or (set(found.nodes), found.lead, found.parents) == ({2, 4}, 2, (1,))


def test_the_nodes_of_a_slow_rank() -> None:
    found = [
        traced(W, W, change, W)
        for change in ((0.95, 0.05, 0), (0.90, 0.10, 0), (0.47, 0.03, 0), (0.2, 0.8, 0), (0, 0, 0, 1))
    ]
    assert [one and (set(one.nodes), one.lead, one.parents) for one in found] == [
        ({2, 4}, 2, (1,)),
        ({2, 3, 4}, 2, (1,)),
        ({2, 3, 4}, 2, (1,)),
        ({2, 3, 4}, 3, (0,)),
        ({0, 4}, 0, (0,)),
    ]


def test_ranks_of_both_sides_are_compared_by_their_change() -> None:
    grown = traced(W, (1, 0, 0), (1, 0, 0), W, level=8.0, names=["0", "10", "2", "1", "77"])
    assert grown is not None
    assert grown.ranks == ("2", "10")


def test_a_program_without_communication_has_no_slow_rank() -> None:
    alignment = of_ranks(
        aligned([Row("mm", "operator", 0, 1, 1)]), {"0": [0, 1], "1": [0, 1]}, {"0": [0, 1], "1": [0, 5]}
    )
    assert find_slow_ranks(alignment, Noise(alignment, np.zeros(2), np.zeros(2))) is None


# --- slow ranks of timers --------------------------------------------------------------------------------------------


def limits(base: Any, new: Any, beyond: Any, errors: tuple[Any, Any] = ((0, 0), (0, 0))) -> list[float]:
    """The limits of the first rank."""
    base_runs, new_runs = (range(np.shape(side)[2]) for side in (base, new))
    alignment = aligned([Row("skipped", "operator", 0), Row("mm", "operator", 0)], base_runs, new_runs, errors)
    shape, work = np.array(base).shape, [2]
    found = _limits(np.array(base, float), np.array(new, float), np.array(beyond, float), alignment, work * shape[1])
    assert found.shape == np.array(beyond).shape
    assert (found == found[0]).all()
    return [float(one) for one in found[0]]


def test_the_growth_of_one_rank_that_noise_explains() -> None:
    one = [[[1.0]], [[3.0]]], [[[2.0]], [[6.0]]]  # the mean of the slower side is 4 s: 0.12 s is the prior
    assert limits(*one, [[1], [-1]]) == pytest.approx([0.24 * t_quantile(20, 1 - 0.001)])
    assert limits(*one[::-1], [[1], [-1]]) == pytest.approx([0.24 * t_quantile(20, 1 - 0.001)])
    within = (0.3**2 + 0.4**2) * 2
    spread = math.sqrt((2 * 0.12**2 + within) * 2)
    assert limits(*one, [[1], [-1]], ((9, 0.3), (9, 0.4))) == pytest.approx([spread * t_quantile(20, 1 - 0.001)])
    two = [[[1.0], [4.0]], [[3.0], [4.0]]], [[[2.0], [4.0]], [[6.0], [4.0]]]
    assert limits(*two, [[1, 0], [-1, 0]]) == pytest.approx([0.24 * t_quantile(20, 1 - 0.0005)] * 2)


def test_the_spread_of_ranks_shows_noise_with_four_and_one_run() -> None:
    four = [[[4.0]]] * 4
    narrow = math.sqrt(0.12**2 / 2 * 2 * 4 / 3)
    assert limits(four, four, [[1]] * 4) == pytest.approx([narrow * t_quantile(20, 1 - 0.0005)])
    wide = 1.4826 * 2 * math.sqrt(5 / 4)  # 2 s is the median distance from 1 s
    grown = limits([[[4.0]]] * 5, [[[4.0]]] * 5, [[0], [1], [3], [-2], [50]])
    assert grown == pytest.approx([wide * t_quantile(20, 1 - 0.0004)])
    three = [[[4.0]]] * 3
    assert limits(three, three, [[0], [1], [9]]) == pytest.approx(
        [math.sqrt(0.12**2 * 2 * 1.5) * t_quantile(20, 1 - 0.002 / 3)]
    )


def test_several_runs_show_their_noise() -> None:
    base, new = [[[1.0, 3.0]], [[2.0, 2.0]]], [[[4.0, 4.0, 4.0]], [[3.0, 4.0, 5.0]]]
    prior, squares, freedom = 0.12**2, 2 + 2, (2 + 3 - 2) * 2
    variance = (6 * prior / 4 + squares) / (6 + freedom)
    within = (0.3**2 + 0.1**2) * 2 / 4 + (3 * 0.2**2) * 2 / 9
    spread = math.sqrt((variance * (1 / 2 + 1 / 3) + within) * 2)
    found = limits(base, new, [[1], [-1]], ((9, [0.3, 0.1]), (9, 0.2)))
    assert found == pytest.approx([spread * t_quantile(6 + freedom, 1 - 0.001)])


#: A step of 40 s: a timer is worth 0.6 s. The time of `optimizer` is a rest beside that of `adam`.
TIMERS = [
    Row("forward", "operator", 0, 10, 10),
    Row("backward", "operator", 0, 10, 10),
    Row("all_reduce", "communication", 0, 10, 10),
    Row("optimizer", "operator", 0),
    Row("adam", "operator", 4, 10, 10),
]


def timed(
    monkeypatch: pytest.MonkeyPatch,
    *changes: Sequence[float],
    limit: float = 0.1,
    rows: Sequence[Row] = TIMERS,
    level: float = 0.0,
    more: tuple[str, str] = ("98", "99"),
    claimed: Sequence[int] = (),
) -> Finding | None:
    """What is found if the timers of each rank change like this, and noise explains less than `limit` s.

    Each side has one rank `more` that the other one lacks.
    """
    monkeypatch.setattr(module, "_limits", lambda base, new, beyond, *_: np.full(beyond.shape, limit))
    base = {str(at): [at * level] * 6 for at in range(len(changes))}
    new = {
        str(at): [at * level + one for one in (0, forward, backward, comm, rest[0] if rest else 0, adam)]
        for at, (forward, backward, comm, adam, *rest) in enumerate(changes)
    }
    alignment = of_ranks(aligned(rows), {more[0]: [9] * 6, **base}, {**new, more[1]: [9] * 6})
    noise = SeriesNoise(alignment)
    found = find_slow_timers(alignment, noise, claimed)
    if found is not None:
        assert (found.kind, (found.change, found.error)) == ("slow rank", noise.change(found.nodes))
    return found


WAITS, IDLE = (0, 0, 3, 0), (0, 0, 0, 0)
SLOW_TIMERS: list[tuple[Sequence[Sequence[float]], tuple[str, ...], set[int], int]] = [
    ([WAITS, WAITS, (0, 3, 0, 0), WAITS], ("2",), {2, 3, 4}, 2),
    ([WAITS, WAITS, (3, 0, 0, 0), WAITS], ("2",), {1, 3, 4}, 1),
    ([WAITS, WAITS, (0, 0, 0, 3), WAITS], ("2",), {3, 4, 5}, 5),
    ([WAITS, WAITS, (0, 0, 3, 0), WAITS], (), set(), 0),
    ([WAITS, WAITS, (0, 0, 0, 0, 3), WAITS], (), set(), 0),
    ([WAITS], (), set(), 0),
    ([IDLE, IDLE], (), set(), 0),
    # worth: 0.6 s in all, more than 0.3 s in each timer
    ([WAITS, WAITS, (0, 0.6, 0, 0), WAITS], ("2",), {2, 3, 4}, 2),
    ([WAITS, WAITS, (0, 0.5999, 0, 0), WAITS], (), set(), 0),
    ([WAITS, WAITS, (0.31, 0.31, 0, 0), WAITS], ("2",), {1, 2, 3, 4}, 1),
    ([WAITS, WAITS, (0.3, 0.35, 0, 0), WAITS], (), set(), 0),
    ([WAITS, WAITS, (0.25, 0.25, 0, 0.25), WAITS], (), set(), 0),
    # at least half as slow as the slowest, and at most half of the ranks
    ([WAITS, (0, 3, 0, 0), (0, 1.5, 0, 0), WAITS, WAITS], ("1", "2"), {2, 3, 4}, 2),
    ([WAITS, (0, 3, 0, 0), (0, 1.4, 0, 0), WAITS, WAITS], ("1",), {2, 3, 4}, 2),
    ([(0, 3, 0, 0), (0, 3, 0, 0), WAITS, WAITS], ("0", "1"), {2, 3, 4}, 2),
    ([(0, 3, 0, 0), (0, 3, 0, 0), WAITS], (), set(), 0),
    ([(0, 3, 0, 0), (0, 3, 0, 0), (0, 3, 0, 0), WAITS, WAITS], (), set(), 0),
    # the others wait for at least half of it
    ([(0, 0, 2, 0), (0, 0, 2, 0), (0, 4, 0, 0)], ("2",), {2, 3, 4}, 2),
    ([(0, 0, 1.9, 0), (0, 0, 1.9, 0), (0, 4, 0, 0)], (), set(), 0),
    ([(0, 4, 0, 0), (0, 2, 0, 0), *[(0, 0, 1.5, 0)] * 3], ("0", "1"), {2, 3, 4}, 2),
    # more than a tenth of its growth
    ([WAITS, (1, 9, 0, 0), (0, 0, 9, 0)], ("1",), {2, 3, 4}, 2),
    ([WAITS, (2, 8, 0, 0), (0, 0, 9, 0)], ("1",), {1, 2, 3, 4}, 2),
    # waiting in a timer of work
    ([(0, 0, 0, 2), (0, 3, 0, 0), (0, 0, 0, 2), (0, 0, 0, 2)], ("1",), {2, 3, 4, 5}, 2),
    ([(0, 0, 0, 2), (0, 3, 0, 0), (0, 3, 0, 2), *[(0, 0, 0, 2)] * 2], ("1", "2"), {2, 3, 4, 5}, 2),
    # of two ranks, the one that grew first
    ([(8, 0, 0, 0), (0, 0, 0, 8)], ("0",), {1, 3, 4, 5}, 1),
    ([(0, 0, 0, 8), (0, 8, 0, 0)], ("1",), {2, 3, 4, 5}, 2),
    ([(0, 0, 0, 0.9), (0, 0.8, 0, 0)], ("1",), {2, 3, 4, 5}, 2),
    ([(0, 0.8, 0, 0), (0, 0, 0, 0.9)], ("0",), {2, 3, 4, 5}, 2),
    ([(1, 0, 3, 0), (0, 4, 0, 0), (0, 0, 3, 0)], ("1",), {2, 3, 4, 1}, 2),
]


@pytest.mark.parametrize(("changes", "slow", "nodes", "lead"), SLOW_TIMERS)
def test_the_ranks_that_are_slow_by_their_timers(
    changes: Sequence[Sequence[float]],
    slow: tuple[str, ...],
    nodes: set[int],
    lead: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for level in (0.0, 8.0) if (0, 3, 0, 0) in changes else (0.0,):
        found = timed(monkeypatch, *changes, level=level)
        assert (found.ranks if found else ()) == slow
        assert (found.nodes if found else set()) == nodes
        assert found is None or (found.lead, found.parents) == (lead, (4 if lead == 5 else 0,))


def test_growth_at_the_limit_of_noise_is_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = [(0, 0, 3, 2), (0, 3, 0, 0), (0, 0, 3, 2)]
    assert timed(monkeypatch, *ranks, limit=3.0) is None
    nodes = [getattr(timed(monkeypatch, *ranks, limit=limit), "nodes", None) for limit in (2.0, 1.99)]
    assert nodes == [{2, 3, 4}, {2, 3, 4, 5}]


def test_the_one_rank_that_all_others_wait_for(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [*TIMERS[:2], Row("all_reduce", "communication", 0, 10, 14), *TIMERS[3:]]
    found = timed(monkeypatch, WAITS, (0, 2, 0, 0), WAITS, WAITS, limit=99.0, rows=rows)
    assert found is not None
    assert (found.ranks, set(found.nodes), found.lead) == (("1",), {2, 3, 4}, 2)


def test_waiting_in_a_timer_of_another_cause_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = [WAITS, WAITS, (0, 1.2, 0, 0), WAITS]
    assert timed(monkeypatch, *ranks) is not None
    assert timed(monkeypatch, *ranks, claimed=[3]) is None


def test_communication_alone_shows_no_slow_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [Row("all_reduce", "communication", 0, 10, 14)]
    alignment = of_ranks(aligned(rows), {"0": [0, 1], "1": [0, 1]}, {"0": [0, 5], "1": [0, 1]})
    assert find_slow_timers(alignment, SeriesNoise(alignment)) is None


def test_timers_without_any_time_have_no_slow_rank() -> None:
    rows = [Row("forward", "operator", 0), Row("backward", "operator", 0)]
    alignment = of_ranks(aligned(rows), {"0": [0, 0, 0], "1": [0, 0, 0]}, {"0": [0, 0, 0], "1": [0, 0, 0]})
    assert find_slow_timers(alignment, SeriesNoise(alignment)) is None


@pytest.mark.parametrize(("ranks", "called"), [(32, 1), (33, 0)])
def test_of_many_ranks_the_median_is_that_of_all(ranks: int, called: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, real = list[int](), module._median_of_others

    def counted(values: Any) -> Any:
        calls.append(len(values))
        return real(values)

    monkeypatch.setattr(module, "_median_of_others", counted)
    found = timed(monkeypatch, *[WAITS] * (ranks - 1), (0, 3, 0, 0))
    assert (found and found.ranks, len(calls)) == ((str(ranks - 1),), called)


class Measured:
    """The noise of one node of communication."""

    def __init__(self, total: float, error: float) -> None:
        self.found = total, error, 20.0

    def measured(self, nodes: Sequence[int]) -> tuple[float, float, float]:
        assert nodes == [2]
        return self.found


T = t_quantile(20, 1 - 0.002)
AWAITED: list[tuple[float, float, float, float, bool]] = [
    # growth of the rank, its waiting (the others: 4 s), how much more communication takes, its error; is it awaited
    (2.0, 0.0, 4.0, 0.5, True),
    (1.9, 0.0, 4.0, 0.5, False),
    (9.0, 2.0, 4.0, 0.5, True),
    (9.0, 2.1, 4.0, 0.5, False),
    (2.0, 0.0, 0.6, 0.0, True),
    (2.0, 0.0, 0.59, 0.0, False),
    (2.0, 0.0, T, 1.0, True),
    (2.0, 0.0, T - 0.01, 1.0, False),
    (2.0, 0.0, T * 2, 2.0, True),
    (2.0, 0.0, T * 1.9, 2.0, False),
]


@pytest.mark.parametrize(("growth", "waiting", "total", "error", "awaited"), AWAITED)
def test_the_growth_of_the_rank_that_is_awaited(
    growth: float, waiting: float, total: float, error: float, awaited: bool
) -> None:
    rows = [
        Row("forward", "operator", 0, 20, 20),
        Row("all_reduce", "communication", 0, 20, 20),
        Row("broadcast", "communication", 0),
        Row("backward", "operator", 0),
    ]
    change = np.array([[0, 0, 4, 1, 0], [0, 0, waiting, 1, 0], [0, 0, 4, 1, 0]])
    beyond = np.array([[0.0] * 5, [0, growth + 0.25, 0, 0, -0.25], [0.0] * 5])
    noise: Any = Measured(total, error)
    found = _growth_of_awaited(change, beyond, aligned(rows), noise, [1, 4])
    assert found.tolist() == [[0, 0], [growth + 0.25 if awaited else 0, 0], [0, 0]]


def test_without_communication_no_rank_is_awaited() -> None:
    alignment = aligned([Row("forward", "operator", 0, 1, 1)])
    beyond = np.array([[0.0, 0.0], [0.0, 1.0]])
    assert not _growth_of_awaited(beyond, beyond, alignment, SeriesNoise(alignment), [1]).any()
