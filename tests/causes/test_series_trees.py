"""The call trees of the timers of a run: which series are timers, what each measures, and which ranks have a tree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from perfgate.causes import series_trees as module
from perfgate.causes.nesting import Timer
from perfgate.causes.series_trees import _peak, _timer, _tree, mean_error, range_trees, timer_trees
from perfgate.core import Key, Run, Series
from perfgate.core.call_trees import CallTree
from perfgate.core.runs import Kind, Summary


def timer(
    metric: str,
    values: Sequence[float] = (1.0, 1.0),
    unit: str = "s",
    kind: Kind = "samples",
    thinned_from: int | None = None,
    **labels: str,
) -> Series:
    return Series(Key.of(metric, **labels), unit, kind, np.array(values, float), thinned_from=thinned_from)


def printed(metric: str, unit: str = "s", labels: Mapping[str, str] | None = None, **statistics: float) -> Series:
    return Series(Key.of(metric, **(labels or {})), unit, "aggregate", np.empty(0), aggregate=statistics)


def run_of(*series: Series, format: str = "deepspeed") -> Run:
    return Run("run", format, series)


def shown(trees: Sequence[CallTree]) -> dict[str, list[str]]:
    """The timers of each rank."""
    return {tree.rank: [node.name for node in tree.nodes[1:]] for tree in trees}


# --- the series that are timers --------------------------------------------------------------------------------------

FORMATS = [
    # the formats with timers of steps, and some of benchmarks
    (("deepspeed", "megatron", "lightning", "perfgate", "recording", "nsys", "tensorboard", "wandb", "mlflow"), True),
    (("nanogpt", "torchtitan", "nemo", "maxtext", "levanter", "hf-trainer"), True),
    (("pytest-benchmark+megatron", "megatron+nsys"), True),
    (("pytest-benchmark", "google-benchmark", "torch-trace", "torch-table+pyperf"), False),
]


@pytest.mark.parametrize(("formats", "are_steps"), FORMATS)
def test_the_formats_with_timers_of_steps(formats: Sequence[str], are_steps: bool) -> None:
    for format in formats:
        trees = timer_trees(run_of(timer("iteration_time", [2, 2]), timer("backward"), format=format))
        assert shown(trees) == ({"": ["backward", "not timed"]} if are_steps else {}), format
        assert isinstance(trees, tuple)


IS_TIMER: list[tuple[Series, bool]] = [
    (timer("custom"), True),
    (timer("custom", stage="fit"), True),
    (timer("custom", ranks="max"), True),
    (timer("custom", ranks="max", stage="fit", rank=""), True),
    (timer("custom", ranks="min"), False),
    (timer("custom", stage="validate"), False),
    (timer("custom", batch_size="8"), False),
    (timer("custom", device="0"), False),
    (timer("custom", unit="B"), False),
    (timer("custom", unit="1", kind="aggregate"), False),
    (timer("custom", kind="value"), False),
    (printed("custom", total=1.0), True),
    (printed("custom", unit="1", total=1.0), False),
    *((timer(f"{family}custom"), False) for family in ("collective.", "flops_profiler.", "kernel.", "op.", "range.")),
    *((timer(f"{family}custom"), False) for family in ("api.", "os.", "memcpy.", "warmup.")),
    (timer("operator"), True),
]


@pytest.mark.parametrize(("series", "is_timer"), IS_TIMER)
def test_the_series_that_are_timers(series: Series, is_timer: bool) -> None:
    found = timer_trees(run_of(timer("forward"), timer("backward"), series))
    assert shown(found) == {"": ["forward", "backward", *([series.key.metric] if is_timer else [])]}


def passes(rank: str | None, *names: str) -> list[Series]:
    return [timer(name) if rank is None else timer(name, rank=rank) for name in names]


RANKS: list[tuple[list[Series], dict[str, list[str]]]] = [
    ([], {}),
    (passes(None, "forward", "step"), {"": ["forward", "step"]}),
    (passes("0", "forward", "step"), {"0": ["forward", "step"]}),
    (passes(None, "step") + passes("0", "forward"), {"0": ["forward", "step"]}),
    (
        passes("1", "forward", "step") + passes("0", "step", "forward"),
        {"0": ["step", "forward"], "1": ["forward", "step"]},
    ),
    # lines without a rank belong to none of several ranks
    (
        passes(None, "step") + passes("0", "forward", "backward") + passes("1", "forward", "backward"),
        {"0": ["forward", "backward"], "1": ["forward", "backward"]},
    ),
    (passes("0", "forward", "step") + passes("1", "forward"), {"0": ["forward", "step"]}),
    # single values are no timers
    (
        [timer("startup", kind="value", rank=rank) for rank in "01"] + passes(None, "forward", "step"),
        {"": ["forward", "step"]},
    ),
]


@pytest.mark.parametrize(("series", "ranks"), RANKS)
def test_every_rank_has_a_tree(series: list[Series], ranks: dict[str, list[str]]) -> None:
    found = timer_trees(run_of(*series))
    assert shown(found) == ranks
    assert [tree.rank for tree in found] == sorted(ranks)


PEAKS: list[tuple[list[Series], float | None]] = [
    ([], None),
    ([timer("memory.peak_allocated", [3, 5, 4], "B")], 5.0),
    ([timer("memory.peak_allocated", [3, 5, 4], "B", rank=rank) for rank in "01"], 5.0),
    ([timer("memory.peak_allocated", [size], "B", rank="0", device=str(size)) for size in (7, 9, 8)], 9.0),
    ([timer("memory.peak_allocated", [9], "B", place="after the model")], None),
    ([timer("memory.peak_allocated", [9], "MB"), timer("memory.allocated", [9], "B")], None),
    ([printed("memory.peak_allocated", "B", mean=3.0, max=6.0)], 6.0),
    ([printed("memory.peak_allocated", "B", mean=3.0)], None),
    ([timer("memory.peak_allocated", [math.inf, 1], "B"), timer("memory.peak_allocated", [2], "B", rank="1")], 2.0),
]


@pytest.mark.parametrize(("series", "peak"), PEAKS)
def test_the_peak_of_a_run_is_that_of_its_ranks_and_devices(series: list[Series], peak: float | None) -> None:
    assert _peak(run_of(*series)) == peak
    (tree,) = timer_trees(run_of(timer("forward"), timer("step"), *series))
    assert tree.peak == peak


def test_the_tree_of_nvtx_ranges() -> None:
    """Other timers are not in it."""
    series = [timer(f"range.{name}", rank="3") for name in (":aten::mm", "train:step", "MmBackward0", ":backward")]
    others = [timer("forward-compute", rank="3"), timer("arrange.:x", rank="3")]
    found = range_trees(run_of(*others, *series, format="nsys"))
    assert shown(found) == {"3": ["aten::mm", "step", "MmBackward0", "backward"]}


def test_ranges_of_several_domains_with_one_name_keep_their_domains() -> None:
    ranges = {"0": ("data:forward", "data:backward", ":forward", ":step"), "1": ("data:forward", "data:backward")}
    series = [timer(f"range.{name}", rank=rank) for rank, names in ranges.items() for name in names]
    assert shown(range_trees(run_of(*series, format="nsys"))) == {
        "0": ["data:forward", "backward", ":forward", "step"],
        "1": ["forward", "backward"],
    }


def test_a_run_without_nvtx_ranges_has_no_tree_of_them() -> None:
    assert range_trees(run_of(timer("forward"), timer("backward"), format="nsys")) == ()


# --- what a timer measures -------------------------------------------------------------------------------------------


def stored(mean: float | None, *rows: Sequence[float | None], names: Sequence[str] = ("max", "mean")) -> Series:
    """A stored timer of 30 steps."""
    summary = Summary(names, rows, 30, 2, True, "auto", ("lower",))
    statistics = {} if mean is None else {"mean": mean}
    return Series(Key("load"), "s", "summary", np.empty(0), aggregate=statistics, summary=summary)


#: Warm-up is the first value.
STEADY = [9.0, 2.0, 4.0, 2.0, 4.0]
TIMERS: list[tuple[Series, tuple[float, float, float] | None]] = [
    # a series; the mean, its standard error and the count
    (timer("load", [5.0]), (5.0, 0.0, 1.0)),
    (timer("load", STEADY), (3.0, math.sqrt(4 / 3 / 4), 5.0)),
    (timer("load", STEADY, thinned_from=70), (3.0, math.sqrt(4 / 3 / 4), 70.0)),
    (timer("load", []), None),
    (timer("load", [1.0, math.nan, 1.0]), None),
    (timer("load", [1.0, 1.0, math.inf]), None),
    (printed("load", mean=3.0, count=40.0), (3.0, 0.0, 40.0)),
    (printed("load", total=8.0, count=40.0), (0.2, 0.0, 40.0)),
    (printed("load", mean=3.0, total=8.0, count=40.0), (0.2, 0.0, 40.0)),  # a printed mean has fewer digits
    (printed("load", total=8.0), (8.0, 0.0, 1.0)),
    (printed("load", total=8.0, mean=3.0), (8.0, 0.0, 1.0)),
    (printed("load", mean=3.0), None),
    (printed("load", count=40.0), None),
    (printed("load", median=3.0), None),
    (printed("load", mean=3.0, count=0.0), None),
    (stored(3.0, (9.0, 30.0, 4.0), (3.0, 30.0, 0.25)), (3.0, 1.5, 30.0)),
    (stored(-3.0, (3.0, 30.0, 0.25, 4.0), names=["mean"]), (-3.0, 1.5, 30.0)),
    (stored(3.0, (9.0, 30.0, 4.0), (3.0, 30.0, None)), (3.0, 0.0, 30.0)),
    (stored(3.0, (9.0,), (3.0,)), (3.0, 0.0, 30.0)),
    (stored(None, (9.0, 30.0, 4.0), names=["max"]), None),
]


@pytest.mark.parametrize(("series", "measured"), TIMERS)
def test_what_a_timer_measures(series: Series, measured: tuple[float, float, float] | None) -> None:
    found = _timer(series)
    if measured is None:
        assert found is None
    else:
        assert found is not None
        assert (found.name, found.mean, found.error, found.count) == ("load", *map(pytest.approx, measured))
        assert found.values.tolist() == series.values[len(series.values) > 1 :].tolist()


ERRORS: list[tuple[Sequence[float], float]] = [
    ([], 0.0),
    ([7.0], 0.0),
    ([1.0, 3.0], 1.0),
    ([1.0, 3.0, 5.0], math.sqrt(4 / 3)),
    ([2.0] * 9, 0.0),
    # the values are correlated for 2 steps, as many as 6 values can show
    ([1.0, 1.0, 1.0, 4.0, 4.0, 4.0], math.sqrt(2.7 * 2 / 6)),
]


@pytest.mark.parametrize(("values", "error"), ERRORS)
def test_the_standard_error_of_a_mean(values: Sequence[float], error: float) -> None:
    assert mean_error(np.array(values, float)) == pytest.approx(error)


# --- which ranks have a tree -----------------------------------------------------------------------------------------

_BACKWARD = "[Strategy]DDP.backward"
#: The calls of each timer, the format, and the calls a step of each node; None if there is no tree.
TREES: list[tuple[dict[str, float], str, dict[str, float] | None]] = [
    ({"forward": 24, "backward": 24}, "deepspeed", {"forward": 1, "backward": 1}),
    ({"forward": 24}, "deepspeed", None),
    ({"forward": 24, "custom": 24}, "deepspeed", None),
    ({"custom": 24, "other": 24}, "deepspeed", None),
    ({"data_loader": 24, "custom": 24}, "deepspeed", None),
    ({"data_loader": 24, "forward": 24}, "deepspeed", {"data_loader": 1, "forward": 1}),
    ({"step.time": 24, "forward": 24}, "perfgate", {"forward": 1, "not timed": 1}),
    ({"step.time": 24, "custom": 24}, "perfgate", {"custom": 1, "not timed": 1}),
    ({"step.time": 24}, "perfgate", None),
    # set-up, and micro steps beside their sum
    (
        {"forward": 24, "forward_microstep": 96, "step_microstep": 48, "step": 24, "compile_time": 24},
        "deepspeed",
        {"forward": 1, "step": 1},
    ),
    ({"forward_microstep": 24, "forward": 24}, "deepspeed", None),
    # timers of fewer than half of the steps; one call may be missing
    (
        {"forward": 24, "step": 24, "half": 12, "rare": 11.9, "last": 23, "often": 48},
        "deepspeed",
        {"forward": 1, "step": 1, "half": 0.5, "last": 1, "often": 2},
    ),
    ({"forward": 24, "step": 24, "backward": 6}, "deepspeed", {"forward": 1, "step": 1}),
    ({"forward": 0.5, "step": 0.5}, "deepspeed", {"forward": 1, "step": 1}),
    # Lightning counts its batches; the epoch is a single call
    (
        {"run_training_epoch": 1, "run_training_batch": 200, _BACKWARD: 400, "training_step": 400, "on_train_end": 1},
        "lightning",
        {"run_training_batch": 1, _BACKWARD: 2, "training_step": 2, "not timed": 1},
    ),
    (
        {"[_TrainingEpochLoop].run_training_epoch": 1, "backward": 200, "optimizer_step": 200, "training_step": 200},
        "lightning",
        {"backward": 1, "optimizer_step": 1, "training_step": 1, "not timed": 1},
    ),
]


@pytest.mark.parametrize(("counts", "format", "calls"), TREES)
def test_the_timers_of_a_step(
    monkeypatch: pytest.MonkeyPatch, counts: dict[str, float], format: str, calls: dict[str, float] | None
) -> None:
    times = {"run_training_epoch": 1000.0, "[_TrainingEpochLoop].run_training_epoch": 1000.0, "step.time": 2.0}
    timers = {name: Timer(name, times.get(name, 1.0), 0.0, count, np.empty(0)) for name, count in counts.items()}
    monkeypatch.setattr(module, "_timer", lambda one: timers[one.key.metric])
    found = _tree("0", [timer(name) for name in counts], format, 5.0)
    if calls is None:
        assert found is None
    else:
        assert found is not None
        assert (found.rank, found.peak) == ("0", 5.0)
        names = [node.name for node in found.nodes]
        assert dict(zip(names[1:-1], found.counts[1:-1, 0].tolist(), strict=True)) == calls
        assert names[-1] == "memory.peak_allocated"
        assert found.has_steps is (max(counts.values()) > 1)


def test_series_without_a_mean_are_no_timers() -> None:
    assert _tree("", [timer("forward"), timer("step", [])], "deepspeed", None) is None
    found = _tree("", [timer("forward"), timer("step"), timer("custom", [])], "deepspeed", None)
    assert found is not None
    assert shown([found]) == {"": ["forward", "step"]}
