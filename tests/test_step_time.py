"""Which metric is the time of a step, when its noise hides it, and which steadier metric replaces a wall time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
from small_runs import proposals, proposed, runs_of, samples, value

from perfgate.analysis import step_time as module
from perfgate.analysis.proposals import Proposals
from perfgate.analysis.step_time import is_unsteady, main_time, step_time, unsteadiness, use_steadier, whole_step
from perfgate.analysis.tolerances import TOO_NOISY
from perfgate.core import Run, Series
from perfgate.core.advice import StepTime

NO_RULES = proposals()
CALM = [1.0] * 12


def uneven(factor: float, scale: float = 1.0, n: int = 12) -> list[float]:
    """Steps whose slow tenth takes `factor` times as long as the fast one, against even steps; the first do not count.

    Nine steps have the tenths at 0.8 and 7.2 of 8 equal parts.
    """
    part = math.sqrt(2) * math.log(factor) / 6.4
    return [9.0 * scale, 0.1 * scale, 7.0 * scale, *(scale * math.exp(part * (1 + i)) for i in range(n - 3))]


# --- steps that vary on a machine that others use ---------------------------------------------------------------------

FACTORS: list[tuple[list[Series], float]] = [
    ([samples("t", "s", uneven(2)), samples("t", "s", CALM)], 2.0),
    ([samples("t", "s", CALM), samples("t", "s", uneven(2))], 2.0),
    ([samples("t", "s", uneven(2, 0.001)), samples("t", "s", [0.001] * 12)], 2.0),
    ([samples("t", "s", uneven(2)), samples("t", "s", [*CALM, 50.0, 0.1, 50.0])], 2.0),
    ([samples("t", "s", CALM), samples("t", "s", CALM), samples("t", "s", uneven(3)), samples("t", "s", CALM)], 3.0),
    ([samples("t", "s", CALM), samples("t", "s", CALM)], 1.0),
    # every third step has more work, in each run
    ([samples("t", "s", [1.0, 1.0, 3.0] * 4), samples("t", "s", [2.0, 2.0, 6.0] * 4)], 1.0),
    # too few steps, one run, other labels, a step of no time, and a single number
    ([samples("t", "s", uneven(2, n=11)), samples("t", "s", CALM)], 1.0),
    ([samples("t", "s", uneven(2)), samples("t", "s", CALM[1:])], 1.0),
    ([samples("t", "s", uneven(2))], 1.0),
    ([samples("t", "s", uneven(2), rank="0"), samples("t", "s", CALM, rank="1")], 1.0),
    ([samples("t", "s", [*uneven(2)[:-1], 0.0]), samples("t", "s", CALM)], 1.0),
    ([value("t", "s", 1.0), value("t", "s", 9.0)], 1.0),
]


@pytest.mark.parametrize(("rows", "factor"), FACTORS)
def test_equal_steps_of_two_runs_vary(rows: list[Series], factor: float) -> None:
    assert unsteadiness(rows) == pytest.approx(factor)
    assert is_unsteady(rows) is (factor > 1.5)


def test_a_machine_is_busy_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [samples("step.time", "s", uneven(2)), samples("step.time", "s", CALM)]
    monkeypatch.setattr(module, "_UNSTEADY", unsteadiness(rows))
    assert not is_unsteady(rows)
    assert step_time({"step.time": rows}, proposals("step.time"), 2) == StepTime("step.time")


# --- the metric of a step ---------------------------------------------------------------------------------------------

NAMES = [
    *("step.time", "step.cpu_time", "step.instructions"),
    *("step_time", "iteration_time", "batch_time", "train_batch", "run_training_batch", "train_runtime", "run_time"),
]


@pytest.mark.parametrize("name", NAMES)
def test_the_usual_names_of_a_step(name: str) -> None:
    """The first of them that the runs have; no other name is one."""
    later = NAMES[NAMES.index(name) :]
    assert whole_step({one: [] for one in ["forward", *reversed(later)]}) == name
    assert whole_step({f"my.{name}": []}) is None


MAIN = [
    # rules, the time of a step, and the metric for costs
    (["a"], None, "a"),
    (["rate", "op.a", "b", "a"], None, "b"),
    (["b", "a"], StepTime("a"), "a"),
    (["b"], StepTime("a"), "b"),
    (["b", "rate"], StepTime("rate"), "b"),
    (["b"], StepTime(None), "b"),
    (["rate", "op.a"], StepTime("a"), None),
]


@pytest.mark.parametrize(("rules", "step", "main"), MAIN)
def test_the_time_for_costs(rules: list[str], step: StepTime | None, main: str | None) -> None:
    known = {name: [value(name, "1/s" if name == "rate" else "s", 1.0)] for name in ("a", "b", "op.a", "rate")}
    assert main_time(known, proposals(*rules), step) == main


BUSY = [uneven(2), CALM]
NOISE = "the time of equal steps varies by a factor of 2.0 within a run"
WIDE = "stored runs would show only +60.0% and more"


def noisy(*metrics: str, **more: Sequence[str]) -> Proposals:
    """No rule, because of the noise."""
    return Proposals((), {**more, TOO_NOISY: metrics})


STEPS: list[tuple[dict[str, list[Any]], Proposals, int, StepTime]] = [
    # the values of metrics in each run, what was proposed, the number of runs, and what is known of the step
    ({"step.time": [1.0], "fwd": [9.0]}, proposals("fwd", "step.time"), 1, StepTime("step.time")),
    ({"step.time": BUSY}, proposals("step.time"), 5, StepTime("step.time", NOISE, is_noisy=True)),
    ({"step.time": BUSY}, proposals("step.time"), 6, StepTime("step.time")),
    ({"step.time": [1.0], "fwd": BUSY}, proposals("fwd", "step.time"), 2, StepTime("step.time")),
    ({"fwd": BUSY}, proposals("fwd"), 2, StepTime("fwd", NOISE, is_noisy=True)),
    # a time or a rate sees steps
    ({"fwd": [1.0], "size B": [1.0]}, proposals("size B", "fwd"), 1, StepTime("fwd")),
    ({"rate 1/s": [1.0], "size B": [1.0]}, proposals("rate 1/s", "size B"), 1, StepTime(None)),
    ({"size B": [1.0]}, proposals("size B"), 1, StepTime(None, "these runs have no time")),
    ({"rate 1/s": [1.0]}, NO_RULES, 1, StepTime(None, "these runs have no time")),
    # no rule is about a time: the longest
    (
        {"rate 1/s": [9.0], "fwd": [1.0], "bwd": [2.0]},
        Proposals((), {"x": ["fwd"], "y": ["bwd"]}),
        1,
        StepTime("bwd", "y"),
    ),
    ({"fwd": [1.0], "size B": [1.0]}, proposals("size B", why=["fwd"]), 1, StepTime("fwd", "why")),
    ({"step.time": [1.0], "fwd": [1.0]}, proposals("fwd", why=["step.time"]), 1, StepTime("step.time", "why")),
    (
        {"step.time": [1.0]},
        Proposals((), {"within 2% of a metric that has a rule": ["step.time"]}),
        1,
        StepTime("step.time"),
    ),
    ({"step.time": [1.0]}, NO_RULES, 1, StepTime("step.time")),
    # the rules see only large changes
    ({"step.time": [1.0] * 3}, proposals(proposed("step.time", 0.6)), 3, StepTime("step.time", WIDE, is_noisy=True)),
    ({"step.time": [1.0] * 2}, proposals(proposed("step.time", 0.6)), 2, StepTime("step.time")),
    ({"step.time": [1.0] * 3}, proposals(proposed("step.time", 0.5)), 3, StepTime("step.time")),
    ({"step.time": [1.0] * 3}, proposals(proposed("step.time", None)), 3, StepTime("step.time")),
    (
        {"step.time": [1.0] * 3, "fwd": [1.0] * 3},
        proposals("step.time", proposed("fwd", 0.6)),
        3,
        StepTime("step.time"),
    ),
    # noise between runs, or within one
    (
        {"step.time": [1.0, 2.0, 1.5]},
        noisy("step.time"),
        3,
        StepTime("step.time", "these runs of one program differ by 100%", is_noisy=True),
    ),
    (
        {"step.time": [1.0]},
        noisy("step.time", other=["fwd"]),
        1,
        StepTime("step.time", "the noise within a run is more than 50%", is_noisy=True),
    ),
]


@pytest.mark.parametrize(("held", "found", "runs", "step"), STEPS)
def test_the_time_of_a_step(held: dict[str, list[Any]], found: Proposals, runs: int, step: StepTime) -> None:
    """A name may end in its unit."""

    def series(name: str, one: Any) -> Series:
        unit = name.partition(" ")[2] or "s"
        return value(name, unit, one) if isinstance(one, float) else samples(name, unit, one)

    assert step_time({name: [series(name, one) for one in rows] for name, rows in held.items()}, found, runs) == step


def test_runs_differ_by_what_the_same_labels_differ() -> None:
    rows = [value("run_time", "s", number, size=size) for number, size in ((1.0, "1"), (9.0, "2"), (1.5, "1"))]
    found = step_time({"run_time": rows}, noisy("run_time"), 2)
    assert found == StepTime("run_time", "these runs of one program differ by 50.0%", is_noisy=True)


# --- CPU time or instructions in place of a wall time -----------------------------------------------------------------

#: The logarithm of each is exactly twice as noisy as that of the next.
WILD, WIDER, HALF, EVEN = (1.0, 16.0, 256.0), (1.0, 4.0, 16.0), (1.0, 2.0, 4.0), (1.0, 1.0, 1.0)
#: A little noisier than half.
OVER_HALF = (1.0, 2.1, 4.41)
#: Steps of one median, which vary much within a run, and steps that do not.
VARYING = (uneven(2, 0.7), [1.0001] * 12, [1.0002] * 12)
STILL = ([1.0] * 12, [1.0] * 12, [1.0] * 12)

Held = dict[str, Sequence[Any]]
CHOSEN: list[tuple[Held, str | None]] = [
    # the metrics of three runs, and the one that replaces the wall time
    ({"a.time": WIDER, "a.cpu_time": HALF}, "a.cpu_time"),
    ({"a.time": WIDER, "a.cpu_time": OVER_HALF}, None),
    ({"a": WIDER, "a.cpu_time": EVEN}, "a.cpu_time"),
    # the time computes for 80 % in the run that waits least
    ({"a.time": WIDER, "a.cpu_time": (0.8, 0.8, 0.8)}, "a.cpu_time"),
    ({"a.time": WIDER, "a.cpu_time": (0.79, 0.79, 0.79)}, None),
    ({"a.time": WIDER, "a.cpu_time": (0.0, 0.0, 0.0), "a.instructions": EVEN}, None),
    # of two, the instructions only if they are clearly steadier
    ({"a.time": WILD, "a.cpu_time": WIDER, "a.instructions": HALF}, "a.instructions"),
    ({"a.time": WILD, "a.cpu_time": WIDER, "a.instructions": OVER_HALF}, "a.cpu_time"),
    ({"a.time": WIDER, "a.cpu_time": WIDER, "a.instructions": HALF}, "a.instructions"),
    ({"a.time": WIDER, "a.cpu_time": WIDER[:2], "a.instructions": HALF}, "a.instructions"),
    ({"a.time": WIDER, "a.cpu_time": EVEN[:2]}, None),
    ({"a.time": WIDER, "a.cpu_time": EVEN[:2], "a.instructions": WIDER}, None),
    # the noise of the time is small, or unknown
    ({"a.time": (1.0, math.exp(0.004), math.exp(0.008)), "a.cpu_time": EVEN}, None),
    ({"a.time": (1.0, math.exp(0.006), math.exp(0.012)), "a.cpu_time": EVEN}, "a.cpu_time"),
    ({"a.time": WIDER[:2], "a.cpu_time": EVEN}, None),
    ({"a.time": (0.0, 4.0, 16.0), "a.cpu_time": EVEN}, None),
    # steps vary within a run
    ({"a.time": VARYING, "a.cpu_time": STILL}, "a.cpu_time"),
    ({"a.time": WIDER, "a.cpu_time": VARYING}, None),
]


def runs(held: Held, **fields: Any) -> list[Run]:
    """Three runs; a metric with fewer values is missing in the last."""

    def row(number: int) -> list[Series]:
        there = {name: of[number] for name, of in held.items() if number < len(of)}
        return [value(n, "s", one) if isinstance(one, float) else samples(n, "s", one) for n, one in there.items()]

    return runs_of(*(row(number) for number in range(max(map(len, held.values())))), **fields)


@pytest.mark.parametrize(("held", "chosen"), CHOSEN)
def test_a_steadier_metric_replaces_a_wall_time(held: Held, chosen: str | None) -> None:
    left, found = use_steadier(runs(held))
    wall = next(iter(held))
    assert [(one.metric, one.instead_of) for one in found] == ([(chosen, wall)] if chosen else [])
    assert set.union(*(run.metrics for run in left)) == {chosen or wall}


def test_the_least_noise_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LEAST_NOISE", math.log(4))
    (found,) = use_steadier(runs({"a.time": WIDER, "a.cpu_time": EVEN}))[1]
    assert found.noise_of_wall == math.log(4)


KEPT: list[tuple[Held, list[str]]] = [
    # what the runs have, and what is left of it
    ({"a.time": EVEN, "a.cpu_time": EVEN, "a.instructions": EVEN, "a.cycles": EVEN}, ["a.time"]),
    ({"a.time": WIDER, "a.cpu_time": EVEN, "a.instructions": EVEN, "a.cycles": EVEN}, ["a.instructions"]),
    ({"a.time": EVEN, "a": EVEN, "a.cpu_time": EVEN}, ["a.time", "a"]),
    ({"a.cpu_time": EVEN, "b.time": EVEN, "b.cpu_time": EVEN}, ["a.cpu_time", "b.time"]),
    ({"b.cpu_time": EVEN, "a.time": EVEN, "a.cpu_time": EVEN}, ["b.cpu_time", "a.time"]),
    ({"a.time": EVEN, "a.instructions": EVEN}, ["a.time", "a.instructions"]),
    # a whole command
    (
        {"command.time": EVEN, "command.cpu_time": EVEN, "command.instructions": EVEN},
        ["command.time", "command.cpu_time"],
    ),
    ({"command.time": WIDER, "command.cpu_time": EVEN, "command.cycles": EVEN}, ["command.cpu_time"]),
]


@pytest.mark.parametrize(("held", "left"), KEPT)
def test_one_metric_of_each_span_is_left(held: Held, left: list[str]) -> None:
    assert [[one.key.metric for one in run.series] for run in use_steadier(runs(held))[0]] == [left] * 3


def test_a_program_with_a_gpu_waits_for_it() -> None:
    one, *others = runs({"a.time": WIDER, "a.cpu_time": EVEN})
    with_gpu = runs({"a.time": WIDER, "a.cpu_time": EVEN}, environment={"gpu": "H200"})[0]
    assert use_steadier([with_gpu, *others])[1] == ()
    assert use_steadier([one, *others])[1] != ()


def test_two_runs_do_not_show_their_noise() -> None:
    assert use_steadier(runs({"a.time": WIDER, "a.cpu_time": EVEN})[:2])[1] == ()


def test_the_noise_of_ranks_is_not_known() -> None:
    rows = [[value(name, "s", 4.0**i, rank=r) for r in "01" for name in ("a.time", "a.cpu_time")] for i in range(3)]
    assert use_steadier(runs_of(*rows))[1] == ()
