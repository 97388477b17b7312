"""Two steps by turns in one process: where both versions can be called, nothing sees smaller changes."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from perfgate.recorder.recorder import STEP_TIME, Recorder
from perfgate.recorder.turns import wait_for_gpu


@dataclass(frozen=True, slots=True)
class Pair:
    """The seconds of each step of both sides, in order; the i-th steps of both were taken next to each other."""

    base: tuple[float, ...]
    new: tuple[float, ...]


def pair(
    base_step: Callable[[], Any],
    new_step: Callable[[], Any],
    *,
    steps: int = 100,
    number: int = 1,
    results: str | os.PathLike[str] | None = None,
    metric: str = STEP_TIME,
) -> Pair:
    """Call two functions by turns, base new, new base, ..., so often each, and time every call.

    Where torch uses a GPU, each call ends when the GPU is done. `number` says which pair this is: base goes first in
    the even steps of pairs with odd numbers, new in those of the others. `results` is a file to write, which
    `perfgate check` and `perfgate compare --paired` read. Judge several pairs with `perfgate.judge_pairs`.

    Raises ValueError for fewer than 8 steps, RecorderError for a file that cannot be had, and what the steps raise.
    """
    if steps < 8:
        raise ValueError(f"steps is 8 or more, not {steps!r}: fewer tell nothing of 1 %")
    recorder = None if results is None else Recorder(results)
    try:
        found = timed_by_turns(base_step, new_step, steps, number)
    except BaseException:
        if recorder is not None:
            recorder.abort()
        raise
    if recorder is not None:
        record_pair(recorder, metric, found, number)
        recorder.close()
    return found


def timed_by_turns(base_step: Callable[[], Any], new_step: Callable[[], Any], steps: int, number: int = 1) -> Pair:
    """The seconds of so many calls of each function, by turns. The garbage collector rests, as it does in timeit."""
    times: tuple[list[float], list[float]] = ([], [])
    functions = (base_step, new_step)
    was_on = gc.isenabled()
    gc.disable()
    try:
        for step in range(steps):
            first = (step + number + 1) % 2
            for side in (first, 1 - first):
                began = perf_counter_ns()
                functions[side]()
                wait_for_gpu()
                times[side].append((perf_counter_ns() - began) / 1e9)
    finally:
        if was_on:
            gc.enable()
    return Pair(tuple(times[0]), tuple(times[1]))


def record_pair(recorder: Recorder, metric: str, pair: Pair, number: int = 1) -> None:
    """Both sides as series of a recording, with the labels by which they are known."""
    for side, seconds in (("base", pair.base), ("new", pair.new)):
        labels = {"side": side, "pair": str(number), "pairing": "one-process"}
        for step, value in enumerate(seconds):
            recorder.record(metric, value, unit="s", labels=labels, step=step)
