"""The speed of the host as a whole, from operators whose own times are known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from made_alignments import Row, aligned
from msgspec.structs import replace

from perfgate.causes import host
from perfgate.causes.align import Finding
from perfgate.causes.host import HostSpeed, find_host, host_speed, is_slower_itself, note_of, with_host_error
from perfgate.causes.noise import Noise
from perfgate.stats.distributions import t_quantile


def speed(shift: float = 0.0, scatter: float = 0.0, effect: float = 0.0, **more: Any) -> HostSpeed:
    runs = more.pop("runs", ([0.0, 0.0], [0.0, 0.0]))
    base, new = more.pop("base", [0.0]), more.pop("new", [0.0])
    pair = np.array(runs[0]), np.array(runs[1])
    return HostSpeed(np.array(base), np.array(new), shift, scatter, pair, effect)


# --- clear or not ----------------------------------------------------------------------------------------------------

#: The 99.75 % quantiles of Student's t by degrees of freedom, from a table.
T = {2: 14.0890, 3: 7.4533}
SAME, APART = [0.0, 0.0], [0.0, 0.2]
LEAST: list[tuple[Sequence[float], Sequence[float], float]] = [
    (SAME, SAME, T[2] * 0.03),
    (APART, APART, T[2] * math.sqrt(0.02)),  # each side has 0.02 and one degree of freedom
    (APART, [0.0, 0.1, 0.2], T[3] * math.sqrt(0.04 / 3 * (1 / 2 + 1 / 3))),
    ([1.0, 1.0, 1.0], SAME, T[3] * 0.03 * math.sqrt(1 / 2 + 1 / 3)),
]


@pytest.mark.parametrize(("base", "new", "least"), LEAST)
def test_another_speed_is_clear_if_it_differs_by_more_than_the_runs(
    base: Sequence[float], new: Sequence[float], least: float
) -> None:
    shifts = (0.999 * least, 1.001 * least, -0.999 * least, -1.001 * least)
    assert [speed(shift, runs=(base, new)).is_clear for shift in shifts] == [False, True, False, True]


@pytest.mark.parametrize("runs", [([0.0], [0.0]), ([0.0], [0.0, 0.0, 0.0]), ([0.0, 0.0, 0.0], [0.0])])
def test_one_run_of_a_side_does_not_show_the_speed(runs: tuple[list[float], list[float]]) -> None:
    assert not speed(9.0, runs=runs).is_clear


def test_a_difference_of_exactly_the_bound_is_not_clear() -> None:
    bound = t_quantile(2, 1 - 0.005 / 2) * math.sqrt(0.03**2 * 1.0)
    assert [speed(bound).is_clear, speed(math.nextafter(bound, 1)).is_clear] == [False, True]


# --- the speed -------------------------------------------------------------------------------------------------------

#: The runs of six steps, and how long a step takes: the median of the second run is that of the first.
RUNS, STEPS = [0, 0, 0, 1, 1, 1], np.array([1.0, 1.0, 9.0, 0.1, 1.0, 1.0])


def program(*logs: float, more: Sequence[Row] = (), new_runs: Sequence[int] = RUNS) -> list[Row]:
    """Operators with an own time of 10 ms, and these logarithms of new / base; each calls a runtime and a kernel."""
    rows: list[Row] = []
    for at, log in enumerate(logs):
        own = 0.010 * STEPS, 0.010 * STEPS[: len(new_runs)] * math.exp(log)
        whole = (own[0] + 0.5).tolist(), (own[1] + 0.7).tolist()
        rows += [
            Row(f"op {at}", "operator", 0, 0.002, 0.003, busy=whole),
            Row("cudaLaunchKernel", "runtime", 3 * at + 1, 0.001, 0.001, busy=(0.5, 0.7)),
            Row("gemm", "kernel", 3 * at + 1, 0.1, 0.1, busy=(0.3, 0.3)),
        ]
    return [*rows, *more]


def measured(*logs: float, more: Sequence[Row] = ()) -> HostSpeed:
    return host_speed(aligned(program(*logs, more=more), RUNS, RUNS))


SEVEN = (0.2,) * 7


def test_the_speed_of_eight_operators() -> None:
    found = measured(0.0, 0.1, *(0.2,) * 5, 0.5)
    assert found.shift == pytest.approx(0.2)
    assert found.scatter == pytest.approx(0.0, abs=1e-9)
    assert found.base[1] == pytest.approx(0.010)
    assert found.new[1] == pytest.approx(0.010)
    assert found.new[4] == pytest.approx(0.010 * math.exp(0.1))
    assert (found.base[2], found.base[3]) == (0.5, 0.0)
    total = sum(math.exp(log) for log in (0.0, 0.1, *(0.2,) * 5, 0.5))
    assert found.runs[0] == pytest.approx([math.log(0.080)] * 2)
    assert found.runs[1] == pytest.approx([math.log(0.010 * total)] * 2)
    # the part of the step in which the host runs alone is 3 ms for each operator and its call
    assert found.effect == pytest.approx(8 * 0.003 * math.expm1(0.2))
    assert measured(*(0.2,) * 8).shift == pytest.approx(0.2)


def test_single_operators_scatter_around_the_speed() -> None:
    found = measured(-0.3, -0.1, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7)
    assert found.shift == pytest.approx(0.2)
    assert found.scatter == pytest.approx(1.4826 * 0.2)


def test_larger_operators_count_more() -> None:
    more = [Row("aten::mm", "operator", 0, 5.0, 5.0)]
    assert measured(*SEVEN, more=more).shift == 0.0


def eighth(busy: tuple[float, float], calls: tuple[float, float] = (1.0, 1.0), kind: Any = "operator") -> Row:
    return Row("aten::mm", kind, 0, 0.002, 0.002, calls, busy)


TRUE = (0.010, 0.010 * math.exp(0.2))
EIGHTHS: list[tuple[Row, bool]] = [
    (eighth(TRUE), True),
    (eighth(TRUE, (1.0, 2.0)), False),
    (eighth(TRUE, (2.0, 1.0)), False),
    (eighth(TRUE, (1.0, 1.5)), False),
    (eighth(TRUE, (0.0, 1e-9)), False),
    (eighth(TRUE, (0.0, 1e-10)), True),
    (eighth((0.0, 0.010)), False),
    (eighth((0.010, 0.0)), False),
    (eighth(TRUE, kind="range"), False),
    (eighth(TRUE, kind="kernel"), False),
]


@pytest.mark.parametrize(("row", "counts"), EIGHTHS)
def test_seven_operators_are_too_few_to_show_the_speed(row: Row, counts: bool) -> None:
    found = measured(*SEVEN, more=[row])
    if counts:
        assert found.shift == pytest.approx(0.2)
        assert len(found.runs[0]) == 2
    else:
        assert (found.shift, found.scatter, found.effect) == (0.0, 0.0, 0.0)
        assert [len(side) for side in found.runs] == [1, 1]
        assert found.base[1] == pytest.approx(0.010)
        assert found.new[1] == pytest.approx(0.010 * math.exp(0.2))


def test_the_time_of_a_run_is_the_median_of_its_steps() -> None:
    of_runs = aligned([], [0, 0, 0, 1, 2, 2]).base
    found = host._by_run(np.array([0.1, 0.9, 0.2, 0.5, 0.0, 0.0]), of_runs)
    assert found == pytest.approx(np.log([0.2, 0.5, 1e-12]))


# --- one call, or the whole host -------------------------------------------------------------------------------------

ITSELF = [
    # base, new, shift, change: slower by itself
    (1.0, 2.0, 0.0, 1.9, True),
    (1.0, 2.0, 0.0, 2.0, False),
    (1.0, 2.0, 0.0, 2.5, False),
    (1.0, 2.0, 0.0, 0.6, True),
    (1.0, 2.0, 0.0, 0.0, False),
    (1.0, 2.0, 0.0, -1.0, False),
    (2.0, 1.0, 0.0, -1.0, True),
    (2.0, 1.0, 0.0, 1.0, False),
    (1.0, 3.0, math.log(2), 2.5, False),
    (1.0, 3.0, math.log(2), 1.5, True),
    (1.0, 2.0, math.log(2), 1.0, False),
]


@pytest.mark.parametrize(("base", "new", "shift", "change", "is_itself"), ITSELF)
def test_a_call_is_slower_by_itself_if_more_than_half_of_it_is(
    base: float, new: float, shift: float, change: float, is_itself: bool
) -> None:
    found = speed(shift, base=[9.0, base / 1000], new=[9.0, new / 1000])
    assert is_slower_itself(1, change / 1000, found) is is_itself


#: A step of 10 ms.
STEP = aligned(
    [
        Row("forward", "range", 0, 0.001, 0.002),
        Row("aten::mm", "operator", 1, 0.003, 0.005),
        Row("gemm", "kernel", 2, 0.005, 0.009),
        Row("aten::add", "operator", 1, 0.001, 0.002),
    ]
)
OWN = {"base": [0.0, 0.001, 0.003, 0.009, 0.002], "new": [0.0] * 5}
HOSTS: list[tuple[HostSpeed, set[int], set[int]]] = [
    # the speed, claimed nodes, and those of the finding
    (speed(0.5, 0.0, 0.001, **OWN), set(), {0, 1, 2, 4}),
    (speed(-0.5, 0.0, -0.001, **OWN), {1}, {0, 2, 4}),
    (speed(0.5, 0.5, 0.001, **OWN), {0, 1}, {2, 4}),
    (speed(-0.5, 0.51, -0.001, **OWN), set(), set()),
    (speed(0.5, 0.0, 0.03 * float(STEP.base.times.sum()), **OWN), {0, 1}, {2, 4}),
    (speed(0.5, 0.0, 0.00029, **OWN), set(), set()),
    (speed(0.5, 0.0, -0.00029, **OWN), set(), set()),
    (speed(0.4, 0.0, 0.001, **OWN), set(), set()),  # it is not clear
    (speed(0.5, 0.0, 0.001, **OWN), {0, 1, 2, 4}, set()),
]


@pytest.mark.parametrize(("measured_speed", "claimed", "nodes"), HOSTS)
def test_the_host_as_a_whole(measured_speed: HostSpeed, claimed: set[int], nodes: set[int]) -> None:
    noise = Noise(STEP, np.full(5, 0.1), np.zeros(5))
    found = find_host(STEP, noise, measured_speed, claimed)
    if not nodes:
        assert found is None
        return
    change, error = noise.change(nodes)
    factor = math.exp(measured_speed.shift)
    assert found == Finding("host", frozenset(nodes), 2, (0,), change=change, error=error, factor=factor)


def test_a_part_of_a_change_may_come_from_another_speed() -> None:
    more = [Row("thread", "thread", 0, 0.020, 0.010)]
    alignment = aligned(program(*(0.2,) * 8, more=more), RUNS, RUNS)
    # 2 ms of the base, and 3 ms of the new side; the kernel does not count
    one = Finding("slower", frozenset({1, 3}), 1, (0,), error=0.004)
    found = with_host_error(one, alignment)
    assert found.error == pytest.approx(math.hypot(0.004, 0.003 * 0.2 / math.sqrt(2)))
    assert replace(found, error=0.004) == one
    other = with_host_error(Finding("slower", frozenset({25}), 1, (0,)), alignment)
    assert other.error == pytest.approx(0.020 * 0.2 / math.sqrt(2))


def test_the_side_with_fewer_runs_has_the_larger_error() -> None:
    alignment = aligned(program(*(0.2,) * 8, new_runs=[0]), RUNS, [0])
    assert with_host_error(Finding("slower", frozenset({1}), 1, (0,)), alignment).error == pytest.approx(0.003 * 0.2)


NOTE = (
    "all operators of the host took {} times as long: other programs or clocks can do that. To tell, measure both "
    "sides by turns (`perfgate run --paired`), or give several runs a side"
)
ALONE = ([0.0], [0.0])
NOTES = [
    (speed(math.log(1.25), 0.0, 0.4, runs=ALONE), [NOTE.format("1.25")]),
    (speed(math.log(0.5), 0.0, -0.4, runs=ALONE), [NOTE.format("0.50")]),
    (speed(math.log(1.25), 0.0, 0.03 * 10.0, runs=ALONE), [NOTE.format("1.25")]),
    (speed(math.log(1.25), 0.0, 0.29, runs=ALONE), []),
    (speed(0.5, 0.0, 0.4), []),
    (speed(0.4, 0.0, 0.4), [NOTE.format("1.49")]),
]


@pytest.mark.parametrize(("found", "note"), NOTES)
def test_a_note_says_that_the_host_seems_to_have_another_speed(found: HostSpeed, note: list[str]) -> None:
    assert note_of(found, 10.0) == note
