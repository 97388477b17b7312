"""Time two functions by turns in one process: the most sensitive comparison, if both versions can be called."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from contextlib import nullcontext
from time import perf_counter_ns
from typing import Any

from msgspec import Struct

from perfgate.recorder.process import wait_for_gpu
from perfgate.recorder.recorder import STEP_TIME, Recorder


class Pair(Struct, frozen=True):
    """The seconds of each step of both sides, in order. The i-th steps of both were taken one after the other."""

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
    """Time two functions in turn: base new, new base, and so on. Judge several pairs with `perfgate.judge_change`.

    If torch uses a GPU, each call ends when the GPU has finished.

    Parameters
    ----------
    base_step, new_step : functions without arguments that do the same work.
    steps : how often to call each function, at least 8.
    number : the number of this pair, from 1. Base goes first in the even steps of odd pairs, and new in those of even
        pairs.
    results : a file to write, for `perfgate check` and `perfgate compare --paired`.
    metric : the name of the metric in that file.

    Returns
    -------
    The times of all calls in seconds, `base` and `new`; both have `steps` values.

    Raises
    ------
    ValueError : for fewer than 8 steps.
    RecorderError : if the file cannot be written.

    Exceptions of the two functions pass through.
    """
    if steps < 8:
        raise ValueError(f"steps is 8 or more, not {steps!r}: fewer cannot show a change of 1 %")
    with nullcontext() if results is None else Recorder(results) as recorder:
        found = timed_by_turns(base_step, new_step, steps, number)
        if recorder is not None:
            record_pair(recorder, metric, found, number)
    return found


def timed_by_turns(base_step: Callable[[], Any], new_step: Callable[[], Any], steps: int, number: int = 1) -> Pair:
    """Return the seconds of each call of both functions, by turns, without garbage collection (as in timeit)."""
    times: tuple[list[float], list[float]] = ([], [])
    functions = (base_step, new_step)
    was_on = gc.isenabled()
    gc.disable()
    try:
        for step in range(steps):
            first = (step + number + 1) % 2  # 0 is base
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
    """Record both sides as series, with the labels side, pair and pairing."""
    for side, seconds in (("base", pair.base), ("new", pair.new)):
        labels = {"side": side, "pair": str(number), "pairing": "one-process"}
        for step, value in enumerate(seconds):
            recorder.record(metric, value, unit="s", labels=labels, step=step)
