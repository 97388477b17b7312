"""Which timer runs inside which, and which one is the whole step."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pytest

from perfgate.causes.nesting import (
    LIGHTNING_NESTING,
    NESTING,
    Nesting,
    Timer,
    _fit_into,
    _table,
    around,
    hook_of,
    is_known,
    is_redundant,
    kind_of_timer,
    may_be_whole,
    nesting_of,
    whole_timer,
    without_domain,
)
from perfgate.core.call_trees import NodeKind

# --- names -----------------------------------------------------------------------------------------------------------


def test_a_table_names_the_timers_around_each_timer_the_nearest_first() -> None:
    found = _table("# engine.py: a comment, too\nstep: swap, copy\nforward, step: copy")
    assert found == {"swap": ["step"], "copy": ["step", "forward", "step"]}


HOOKS = [
    ("[Strategy]DDPStrategy.backward", "backward"),
    ("[LightningModule]model.Net.optimizer_step", "optimizer_step"),
    ("[Callback]Slow\n.on_train_end", "on_train_end"),
    ("run_training_batch", "run_training_batch"),
    ("step.time", "step.time"),
    ("[Strategy]backward", "[Strategy]backward"),
    ("[].backward", "[].backward"),
]


@pytest.mark.parametrize(("name", "hook"), HOOKS)
def test_the_hook_of_an_action(name: str, hook: str) -> None:
    assert hook_of(name) == hook


RANGES = [
    (":forward", "forward"),
    ("train:forward", "forward"),
    (":aten::mm", "aten::mm"),
    ("train:aten::mm", "aten::mm"),
    ("aten::mm", "aten::mm"),
    ("MmBackward0", "MmBackward0"),
    (":layer 1: attention", "layer 1: attention"),
    ("my.domain:a.b", "a.b"),
    (":two\nlines", "two\nlines"),
    ("", ""),
]


@pytest.mark.parametrize(("name", "plain"), RANGES)
def test_the_name_of_an_nvtx_range_without_its_domain(name: str, plain: str) -> None:
    assert without_domain(name) == plain


SETUP = (
    *("model-and-optimizer-setup", "train/valid/test-data-iterators-setup", "load-checkpoint", "save-checkpoint"),
    *("train/valid/test data iterators", "model and optimizer", "save checkpoint", "load checkpoint", "evaluate"),
    *("interval-time", "eval-time", "checkpoint_time", "evaluation_time", "epoch", "compile_time"),
)
REDUNDANT = [
    *((name, {"forward"}, True) for name in SETUP),
    ("forward_microstep", {"forward"}, True),
    ("forward_microstep", {"backward", "microstep"}, False),
    ("forward", {"forward", "backward"}, False),
    ("[Callback]Slow.on_train_end", {"[Callback]Slow"}, True),
    ("[Callback]my.Slow.on_train_end", {"[Callback]my.Slow"}, True),
    ("[Callback]Slow.on_train_end", {"[Callback]Slow.on_train_end", "Slow", "on_train_end"}, False),
    ("forward.attention", {"forward"}, False),
    ("forward.[0]", {"forward"}, False),
]


@pytest.mark.parametrize(("name", "names", "redundant"), REDUNDANT)
def test_setup_micro_steps_and_functions_of_an_action_are_redundant(
    name: str, names: Collection[str], redundant: bool
) -> None:
    assert is_redundant(name, names) is redundant


@pytest.mark.parametrize(
    ("format", "nesting"),
    [
        ("lightning", LIGHTNING_NESTING),
        ("lightning+nvidia-smi", LIGHTNING_NESTING),
        ("deepspeed", NESTING),
        ("deepspeed+nvidia-smi", NESTING),
    ],
)
def test_lightning_has_a_nesting_of_its_own(format: str, nesting: Nesting) -> None:
    assert nesting_of(format) is nesting


KNOWN = [
    *((name, True) for name in ("iteration_time", "train_batch", "batch_time", "step.time")),
    *((name, True) for name in ("run_training_epoch", "chat.e2e_latency", "swap", "[Optimizer]Swapper.swap")),
    *((name, False) for name in ("step", "other", "[Optimizer]swap.other")),
]


@pytest.mark.parametrize(("name", "known"), KNOWN)
def test_the_place_of_a_timer_is_known(name: str, known: bool) -> None:
    assert is_known(name, _table("step: swap")) is known


PERHAPS = [
    ("step", "perfgate", True),
    ("step", "perfgate+nvidia-smi", True),
    *(("step", format, False) for format in ("deepspeed", "megatron", "lightning", "deepspeed+nvidia-smi")),
    *((name, "deepspeed", True) for name in ("train_step", "training-loop", "iter_time", "total.batch.time", "loop")),
    *((name, "perfgate", False) for name in ("forward", "step_forward", "eval_step", "batch_times")),
]


@pytest.mark.parametrize(("name", "format", "perhaps"), PERHAPS)
def test_a_likely_name_of_a_whole_step(name: str, format: str, perhaps: bool) -> None:
    assert may_be_whole(name, format) is perhaps


AROUND: list[tuple[str, set[str], Nesting, str | None]] = [
    ("forward", {"train_batch", "batch_time"}, NESTING, "train_batch"),
    ("forward", {"batch_time", "forward"}, NESTING, "batch_time"),
    ("forward", {"backward", "step"}, NESTING, None),
    ("other", {"train_batch"}, NESTING, None),
    ("[Strategy]DDPStrategy.backward", {"optimizer_step"}, LIGHTNING_NESTING, "optimizer_step"),
    ("backward", {"optimizer_step", "training_step_and_backward"}, LIGHTNING_NESTING, "training_step_and_backward"),
    # never the timer itself
    ("optimizer_step", {"optimizer_step", "step.time"}, LIGHTNING_NESTING, "step.time"),
    ("model_forward", {"model_forward"}, LIGHTNING_NESTING, None),
]


@pytest.mark.parametrize(("name", "present", "nesting", "outer"), AROUND)
def test_the_nearest_timer_around(name: str, present: set[str], nesting: Nesting, outer: str | None) -> None:
    assert around(name, present, nesting) == outer


TIMER_KINDS: list[tuple[NodeKind, tuple[str, ...]]] = [
    ("communication", ("backward_allreduce", "ALL-GATHER", "1st_a2a", "pipe_send_output", "forward-recv", "comm_time")),
    ("loader", ("data_time", "batch-generator", "load", "Load", "my\nDataLoader", "[Fetcher]Train.get_train_batch")),
    ("range", ("forward", "backward", "batch_norm", "communicate", "load_weights", "_forward-recv")),
]


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in TIMER_KINDS for name in names])
def test_the_kind_of_a_timer(kind: NodeKind, name: str) -> None:
    assert kind_of_timer(name) == kind


# --- the whole step --------------------------------------------------------------------------------------------------


def timer(values: Sequence[float] | float, count: float | None = None) -> Timer:
    """A timer of these values in s, or of this mean alone."""
    array = np.atleast_1d(np.array(values, np.float64))
    return Timer("", float(array.mean()), 0.0, len(array) if count is None else count, array)


CALLS = [(10.0, 1.0), (9.0, 1.0), (11.0, 1.0), (12.0, 1.2), (8.0, 0.8), (25.0, 2.5)]


@pytest.mark.parametrize(("count", "calls"), CALLS)
def test_the_calls_of_a_step(count: float, calls: float) -> None:
    found = timer(0.5, count)
    assert (found.calls(10.0), found.per_step(10.0)) == (calls, 0.5 * calls)


#: Times that rise and fall, in s: 8 steps.
WAVE = [0.01, 0.03, 0.02, 0.05, 0.01, 0.04, 0.02, 0.03]
#: And 20.
LONG = [*WAVE, *WAVE, 0.01, 0.02, 0.03, 0.04]


def plus(values: Sequence[float], more: float) -> list[float]:
    return [value + more for value in values]


#: Their correlation is exactly 0.5.
HALF = [14.0, 6.0, *[10.0] * 7], [12.0, 8.0, 12.0, 8.0, 12.0, 8.0, 12.0, 8.0, 10.0]
FITTING: list[tuple[Timer, list[Timer], bool]] = [
    (timer(plus(WAVE, 0.01)), [timer(WAVE)], True),
    (timer(plus(WAVE, 0.06)), [timer(WAVE), timer([0.05] * 8)], True),
    (timer(plus(WAVE, 0.04)), [timer(WAVE), timer([0.05] * 8)], False),
    # as many calls, and at least 8 values
    (timer(plus(WAVE, 0.01)), [timer(WAVE), timer([0.001] * 8, 9)], False),
    (timer(plus(WAVE[:7], 0.01)), [timer(WAVE[:7])], False),
    # the last steps of all
    (timer(plus(WAVE, 0.01), 10), [timer([9.0, 9.0, *WAVE], 10)], True),
    (timer([0.2, *plus(WAVE, 0.01)], 10), [timer([9.0, 0.1, *WAVE], 10)], True),
    (timer([9.0, *WAVE[1:], 0.01]), [timer(WAVE[1:], 8)], False),
    # at most 2 % more, in 95 % of the steps
    (timer([1.0, 2.0] * 4), [timer([1.02, 2.04] * 4)], True),
    (timer([1.0, 2.0] * 4), [timer([1.03, 2.06] * 4)], False),
    (timer([1.0, *plus(LONG[1:], 0.01)]), [timer([1.1, *LONG[1:]])], True),
    (timer([1.0, 1.0, *plus(LONG[2:], 0.01)]), [timer([1.1, 1.1, *LONG[2:]])], False),
    # long in steps with long parts
    (timer([0.1] * 8), [timer(WAVE)], False),
    (timer(plus(WAVE, 0.1)), [timer([0.05] * 8)], False),
    (timer([0.1 - value for value in WAVE]), [timer(WAVE)], False),
    (timer(plus(HALF[0], 10.0)), [timer(HALF[1])], False),
    (timer(plus(HALF[0], 10.0)), [timer([12.1, 7.9, *HALF[1][2:]])], True),
]


@pytest.mark.parametrize(("whole", "parts", "fits"), FITTING)
def test_parts_fit_into_a_whole_step(whole: Timer, parts: list[Timer], fits: bool) -> None:
    assert _fit_into(whole, parts) is fits


STEP = timer(plus(WAVE, 0.03))
FORWARD, OPTIMIZER = timer(WAVE), timer([0.01] * 8)
WHOLE: list[tuple[dict[str, Timer], str, str | None]] = [
    ({"forward": FORWARD, "batch_time": STEP, "train_batch": OPTIMIZER}, "deepspeed", "train_batch"),
    ({"a": STEP, "[Loop]TrainingEpoch.run_training_epoch": STEP}, "x", "[Loop]TrainingEpoch.run_training_epoch"),
    ({"forward": FORWARD, "train_step": STEP, "optimizer": OPTIMIZER}, "perfgate", "train_step"),
    ({"step": STEP, "forward": FORWARD, "optimizer": OPTIMIZER}, "perfgate", "step"),
    ({"step": STEP, "forward": FORWARD, "optimizer": OPTIMIZER}, "deepspeed", None),
    ({"other": STEP, "forward": FORWARD, "optimizer": OPTIMIZER}, "perfgate", None),
    # at least two parts, which are shorter and fit in each step
    ({"step": STEP, "forward": FORWARD}, "perfgate", None),
    ({"step": timer(plus(WAVE, 0.01)), "forward": FORWARD, "optimizer": timer([0.015] * 8)}, "perfgate", None),
    ({"step": timer(0.5), "forward": timer(0.2), "optimizer": timer(0.1)}, "perfgate", None),
    # the forward pass has a timer inside
    ({"step": STEP, "optimizer": OPTIMIZER, "forward": FORWARD, "moe": timer([0.02] * 8)}, "perfgate", "step"),
    ({"step": STEP, "moe": OPTIMIZER, "forward": FORWARD}, "perfgate", None),
]


@pytest.mark.parametrize(("timers", "format", "whole"), WHOLE)
def test_the_timer_of_the_whole_step(timers: dict[str, Timer], format: str, whole: str | None) -> None:
    assert whole_timer(timers, 8.0, format) == whole


def test_parts_as_long_as_the_step_are_not_inside_it() -> None:
    parts = {"forward": timer([0.25, 0.5] * 4), "optimizer": timer([0.25, 0.125] * 4)}
    whole = timer([0.5, 0.625] * 4)
    assert whole_timer({"step": whole, **parts}, 8.0, "perfgate") is None
    assert whole_timer({"step": timer([0.5, 0.75] * 4), **parts}, 8.0, "perfgate") == "step"
