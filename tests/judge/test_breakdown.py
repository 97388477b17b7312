"""The time a step of parts, kernels and operators: from what each kind of series holds, over ranks and runs."""

from __future__ import annotations

import numpy as np
import pytest
from stories import series

from perfgate.core import Key, Run, Series, read_only
from perfgate.core.details import Part
from perfgate.core.outlines import Outline, Outlines
from perfgate.judge.breakdown import breakdown, movers


def run(*held: Series) -> Run:
    return Run("run", "test", held)


def printed(metric: str, **statistics: float) -> Series:
    return Series(Key(metric), "s", "aggregate", read_only(np.array([])), aggregate=statistics)


def thinned(metric: str, values: list[float], whole: int, **labels: str) -> Series:
    return Series(Key.of(metric, **labels), "s", "samples", read_only(np.array(values)), thinned_from=whole)


THREE = series("step.time", "s", [9.0] * 3)
TIMES = [
    # what a run holds, and the time a step of its part
    ([THREE, series("step.kernel", "s", [1.0, 2.0, 3.0, 6.0])], 4.0),
    ([THREE, series("step.kernel", "s", [6.0])], 2.0),
    ([THREE, series("step.kernel", "s", [])], 0.0),
    ([THREE, Series(Key("step.kernel"), "s", "value", read_only(np.array([6.0])))], 2.0),
    ([THREE, printed("step.kernel", total=6.0, mean=5.0, count=4.0)], 2.0),
    ([THREE, printed("step.kernel", mean=3.0, count=5.0)], 5.0),
    ([THREE, printed("step.kernel", mean=3.0)], None),
    ([THREE, printed("step.kernel", count=3.0)], None),
    ([THREE, thinned("step.kernel", [1.0, 3.0], 6)], 4.0),
    ([thinned("step.time", [9.0] * 2, 4), series("step.kernel", "s", [1.0, 3.0])], 1.0),
    ([series("step.time", "s", [9.0]), series("step.kernel", "s", [1.0, 3.0])], 4.0),
    ([series("step.time", "s", []), series("step.kernel", "s", [1.0, 3.0])], 4.0),
    ([series("step.kernel", "s", [1.0, 3.0])], 4.0),
    ([series("step.kernel", "B", [1.0, 3.0])], None),
    ([series("step.kernel", "s", [1.0, float("inf")])], None),
    ([series("step.kernel", "s", [1.0, float("nan")])], None),
]


@pytest.mark.parametrize(("held", "time"), TIMES)
def test_the_time_a_step(held: list[Series], time: float | None) -> None:
    expected = () if time is None else (Part("step.kernel", {}, None, time),)
    assert breakdown([], [run(*held)]) == expected


def test_ranks_count_alike_and_so_do_runs() -> None:
    def rank(number: str, steps: int, time: float) -> list[Series]:
        return [
            series("step.time", "s", [9.0] * steps, rank=number, kind="a"),
            series("step.kernel", "s", [time], rank=number, kind="a"),
        ]

    first = run(*rank("0", 1, 3.0), *rank("1", 2, 2.0))
    second = run(*rank("0", 1, 4.0))
    assert breakdown([first, second], [second]) == (Part("step.kernel", {"kind": "a"}, 3.0, 4.0),)


def test_a_metric_without_values_has_the_time_a_step_of_each_rank() -> None:
    labels = (("kind", "a"),)
    outlines = Outlines(
        {
            ("step.kernel", labels, "s"): Outline(per_step=(3.0, 7.0)),
            ("step.other", (), "B"): Outline(totals=(9.0,)),
            ("loss", (), "s"): Outline(per_step=(9.0,)),
        }
    )
    one = Run("run", "test", (), outlines=outlines)
    assert breakdown([], [one]) == (Part("step.kernel", {"kind": "a"}, None, 5.0),)
    beside = Run("run", "test", (series("step.kernel", "s", [2.0], kind="a", rank="9"),), outlines=outlines)
    assert breakdown([], [beside]) == (Part("step.kernel", {"kind": "a"}, None, 4.0),)


def test_at_most_twenty_movers_are_named() -> None:
    base, new = (run(*(series(f"op.{i}", "s", [time]) for i in range(21))) for time in (1.0, 2.0))
    assert len(movers([base], [new])) == 20


SIDES = {"a": (0.5, None), "b": (None, 0.7), "c": (0.9, 0.1), "d": (0.2, 0.8), "e": (0.9, 0.9)}


def side(of: int, prefix: str) -> Run:
    held = {name: values[of] for name, values in SIDES.items()}
    return run(*(series(prefix + name, "s", [time]) for name, time in held.items() if time is not None))


def test_the_largest_part_on_either_side_comes_first() -> None:
    found = breakdown([side(0, "step.")], [side(1, "step.")])
    assert [(part.metric[-1], part.base, part.new) for part in found] == [(n, *SIDES[n]) for n in "cedba"]


def test_what_moved_most_comes_first_and_what_stayed_is_left_out() -> None:
    found = movers([side(0, "op.")], [side(1, "op.")])
    assert [(part.metric[-1], part.base, part.new) for part in found] == [(n, *SIDES[n]) for n in "cbda"]
    assert movers([run()], [side(1, "op.")]) == ()
    assert [part.metric for part in movers([side(0, "op.")], [run()])] == ["op.c", "op.e", "op.a", "op.d"]


@pytest.mark.parametrize(
    ("metric", "part", "mover"),
    [
        ("step.time", False, False),
        ("step.timer", True, False),
        ("step.kernel.a", False, False),
        ("kernel.a", False, True),
        ("memcpy.\n", False, True),
        ("api.x", False, True),
        ("range.x", False, False),
        ("mm.self_device_time", False, True),
        ("mm.self_cpu_time", False, True),
        ("mm.cpu_time", False, False),
    ],
)
def test_names_of_parts_and_of_movers(metric: str, part: bool, mover: bool) -> None:
    base, new = run(series(metric, "s", [1.0])), run(series(metric, "s", [2.0]))
    assert bool(breakdown([base], [new])) == part
    assert bool(movers([base], [new])) == mover
