"""Pairs of several short processes a side: how they are split, ended, joined and ordered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import steady, write_results
from msgspec.structs import replace
from programs import hooked

from perfgate.core import Key, Run
from perfgate.measuring.kept_runs import ProgramSide
from perfgate.measuring.lockstep import listening
from perfgate.measuring.paired_run import read_sides, steps_by_turns
from perfgate.measuring.programs import RunFailed
from perfgate.measuring.short_processes import Split, orders, short_processes, split_of


def first_pair(folder: Path, count: int, warmup: int = 0, more: dict[str, object] | None = None) -> dict[str, Path]:
    values = [0.05] * warmup + steady(0.01, n=count - warmup)
    series = {"metric": "step.time", "unit": "s", "values": values, "steps": list(range(count))}
    return {side: write_results(folder / f"{side}.json", series, *([more] if more else [])) for side in ("base", "new")}


def first_runs(folder: Path, count: int, warmup: int = 0, more: dict[str, object] | None = None) -> list[Run]:
    return [*read_sides(first_pair(folder, count, warmup, more), None).values()]


@pytest.mark.parametrize(
    ("count", "start", "seconds", "most", "split"),
    [
        (201, 0.2, 4.2, 8, Split(8, 24, 2)),
        (201, 0.2, 4.2, 4, Split(4, 50, 2)),
        # The start takes a fourth and nearly a half of the time.
        (201, 1.5, 6.0, 8, Split(4, 50, 2)),
        (201, 2.5, 6.0, 8, Split(2, 100, 2)),
        (41, 0.1, 4.1, 8, Split(4, 10, 2)),
        (12, 0.1, 4.1, 8, None),
    ],
)
def test_a_pair_is_split_within_twice_its_time(
    tmp_path: Path, count: int, start: float, seconds: float, most: int, split: Split | None
) -> None:
    assert split_of(first_runs(tmp_path, count), start, seconds, most) == split


def test_each_process_repeats_the_warm_up(tmp_path: Path) -> None:
    found = split_of(first_runs(tmp_path, 201, warmup=11), 0.2, 4.2, 8)
    assert found is not None
    assert found.warmup >= 12
    assert found.steps >= found.warmup


@pytest.mark.parametrize(
    "more",
    [
        {"metric": "memory.peak", "unit": "B", "value": 5},
        {"metric": "total", "unit": "s", "values": [1.0]},
        {"metric": "forward", "unit": "s", "aggregate": {"mean": 1.0, "count": 9}},
    ],
)
def test_a_program_that_ends_with_a_result_is_never_ended_early(tmp_path: Path, more: dict[str, object]) -> None:
    assert split_of(first_runs(tmp_path, 201, more=more), 0.2, 4.2, 8) is None


def test_ranks_of_one_side_do_not_stand_for_the_steps_of_the_other(tmp_path: Path) -> None:
    one = first_runs(tmp_path, 201)[0]
    two_ranks = replace(one, series=one.series * 2)
    other = replace(one, series=tuple(replace(series, key=Key("forward")) for series in one.series))
    assert split_of([two_ranks, other], 0.2, 4.2, 8) is None


def test_each_side_goes_first_in_half_of_the_processes_in_a_random_order() -> None:
    found = [orders(8, number) for number in range(1, 20)]
    assert all(sum(one) == 4 for one in found)
    assert len({tuple(one) for one in found}) > 10
    assert found == [orders(8, number) for number in range(1, 20)]


def test_short_processes_end_early_and_are_one_pair(tmp_path: Path) -> None:
    side = ProgramSide(tuple(hooked(tmp_path)), tmp_path, {"STEPS": "100000"})
    split = Split(2, 8, 2)
    with listening() as listener:

        def make(place: int, base_first: bool, steps: int) -> dict[str, Path]:
            top = tmp_path / "pair" / str(place)
            return steps_by_turns(listener, top, {"base": side, "new": side}, 2, (), (30, 30), steps, base_first)

        found = short_processes(tmp_path / "pair", split, 2, make)
    order = json.loads((tmp_path / "pair" / "order.json").read_text())
    assert sorted(order["first"]) == ["base", "new"]
    for path in found.values():
        (series,) = json.loads(path.read_text())["series"]
        assert (series["metric"], len(series["values"])) == ("step.time", 16)
        # The second pair has new first in even steps; a process that begins with base has its steps moved by one.
        one, other = (3, 12) if order["first"] == ["new", "base"] else (4, 13)
        assert series["steps"] == [*range(one, one + 8), *range(other, other + 8)]


@pytest.mark.parametrize("number", [1, 2])
def test_base_goes_first_in_the_even_steps_of_every_second_pair(tmp_path: Path, number: int) -> None:
    side = ProgramSide(tuple(hooked(tmp_path)), tmp_path, {"STEPS": "12"})
    with listening() as listener:
        steps_by_turns(listener, tmp_path / "pair", {"base": side, "new": side}, number, (), (30, 30))
    # A side writes that a step has ended when it begins the next one.
    begun = [f"{turn[0]}{int(turn[1:]) + 1}" for turn in (tmp_path / "turns.txt").read_text().split()]
    for step in range(2, 11):
        is_base_first = begun.index(f"b{step}") < begun.index(f"n{step}")
        assert is_base_first == ((step % 2 == 0) == (number == 1)), (step, begun)


def test_a_series_without_a_counted_step_is_left_out(tmp_path: Path) -> None:
    made = first_pair(tmp_path, 11, more={"metric": "machine.elapsed", "unit": "s", "values": [0.5], "steps": [0]})
    found = short_processes(tmp_path, Split(2, 8, 2), 1, lambda place, base_first, steps: made)
    for path in found.values():
        assert [one["metric"] for one in json.loads(path.read_text())["series"]] == ["step.time"]


def test_a_process_that_ends_too_soon_is_said(tmp_path: Path) -> None:
    made = first_pair(tmp_path, 9)
    with pytest.raises(RunFailed, match="a short process took 9 steps instead of 11"):
        short_processes(tmp_path, Split(2, 8, 2), 1, lambda place, base_first, steps: made)
