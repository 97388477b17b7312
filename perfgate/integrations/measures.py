"""Helpers of callbacks beside spans: peak memory, the size of a batch, and a recorder without a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from perfgate.recorder.process import Turns
from perfgate.recorder.profiled_work import LoopWork
from perfgate.recorder.recorded_series import Entry, SeriesTable
from perfgate.recorder.recorder import Recorder
from perfgate.recorder.writer import Writer

#: The time that torch.compile took in a step.
COMPILE_TIME = "compile_time"
SAMPLES_PER_SECOND, TOKENS_PER_SECOND = "samples_per_second", "tokens_per_second"
#: The ends of the names of torch's times of compilation.
_COMPILED = ("compile_inner", "_backward_impl")
#: Deeper batches are not searched.
_DEEPEST = 4


def record_peak_memory(recorder: Recorder) -> None:
    """Record the peak of torch's memory on this process's GPU, in bytes, since the process began; without CUDA nothing.

    torch's counters are only read: resetting them would change the numbers of the user's own code.
    """
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda"):
        return
    with suppress(RuntimeError):  # CUDA has failed
        if torch.cuda.is_initialized():
            recorder.value("memory.peak_allocated", torch.cuda.max_memory_allocated(), unit="B")
            recorder.value("memory.peak_reserved", torch.cuda.max_memory_reserved(), unit="B")


def compile_seconds() -> float:
    """Return the time that torch.compile has taken in this process: whole frames, and backward passes compiled later.

    Source: pytorch/pytorch `torch/_dynamo/utils.py`, `compilation_time_metrics` (2.2 to 2.14).
    """
    times = getattr(sys.modules.get("torch._dynamo.utils"), "compilation_time_metrics", None)
    if not isinstance(times, Mapping):
        return 0.0
    now = [*times.items()]  # a copy: another thread may compile
    return sum(sum(seconds) for name, seconds in now if name.endswith(_COMPILED))


def record_rates(
    recorder: Recorder, nanoseconds: int, *, samples: int | None = None, tokens: int | None = None
) -> None:
    """Record samples and tokens per second of the current step, as far as they are known."""
    for metric, count, unit in ((SAMPLES_PER_SECOND, samples, "samples/s"), (TOKENS_PER_SECOND, tokens, "tokens/s")):
        if nanoseconds > 0 and count:
            recorder.record(metric, count * 1e9 / nanoseconds, unit=unit)


def samples_in(batch: object) -> int | None:
    """Return the first dimension of the tensors in a batch; None if they differ or there are none."""
    sizes = {int(shape[0]) for shape in _shapes(batch, _DEEPEST)}
    return sizes.pop() if len(sizes) == 1 else None


def tokens_in(batch: object) -> int | None:
    """Return the number of tokens in `input_ids`, padding included; None if a batch has none."""
    shape: Any = getattr(batch.get("input_ids"), "shape", ()) if isinstance(batch, Mapping) else ()
    return int(shape[0]) * int(shape[1]) if len(shape) == 2 else None


def _shapes(batch: Any, depth: int) -> Iterator[Any]:
    """Yield the shape of each tensor in a batch that has a dimension."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        if len(shape):
            yield shape
    elif depth:
        parts = batch.values() if isinstance(batch, Mapping) else batch if isinstance(batch, list | tuple) else ()
        for part in parts:
            yield from _shapes(part, depth - 1)


class IdleRecorder(Recorder):
    """Checks its arguments as a Recorder does, and keeps nothing. It is never closed and never refuses a value."""

    def __init__(self) -> None:
        self.rank = self.world_size = None
        self.path = os.devnull
        self._given, self._written = {}, {}
        self._series = SeriesTable({})
        self._times = self._series.times
        self._doubted = set()
        self._writer = _IdleWriter()
        self._turns = Turns(rank=None, world_size=None, join=False)
        self._counters = None
        self._watch = None
        self._work = LoopWork(self._writer, is_wanted=False)
        self._began = None


class _IdleWriter(Writer):
    """A writer that drops everything."""

    def __init__(self) -> None:
        self.path = os.devnull
        self.step = 0
        self.pending = _Nothing()
        self.due = sys.maxsize

    def _drop(self, *_: object, **__: object) -> None:
        """Drop a value, a span, a reason, or anything else to write."""

    add = add_cuda = cuda_event = mark_incomplete = write = finish = abort = check_open = _drop


class _Nothing(list[Entry]):
    """A list that stays empty."""

    def append(self, entry: Entry) -> None:
        """Drop it."""
