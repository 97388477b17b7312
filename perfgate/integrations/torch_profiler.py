"""A handler for torch.profiler: writes the trace of every rank to a file, and records the profiler's steps.

from perfgate import Recorder
from perfgate.integrations.torch_profiler import trace_handler

with Recorder("run/results.json") as rec:
    with torch.profiler.profile(schedule=..., on_trace_ready=trace_handler(rec, "traces")) as profiler:
        ...
        profiler.step()
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from perfgate.recorder.recorder import Recorder
from perfgate.recorder.writer import warn_safely

#: The metric: the time of each profiled step on the host, which includes the profiler's own work.
PROFILED_STEP = "profiled_step"
#: The names that `torch.profiler.profile.step` gives to its steps.
_STEP = re.compile(r"ProfilerStep#(\d+)")


def trace_handler(recorder: Recorder, folder: str | os.PathLike[str]) -> Callable[[Any], None]:
    """Return a function for `on_trace_ready`.

    For each cycle of the profiler's schedule it writes a Chrome trace, `folder/trace-rank0-step12.json.gz`, with the
    rank (none in a job of one process) and the next step in its name. It also records `profiled_step` in seconds, with
    the profiler's step numbers. Without a schedule the profiler has no steps, so only the trace is written.

    The function never raises: if a trace cannot be written, that is a RecorderWarning, and the recording says so.
    """
    labels = () if recorder.rank is None or recorder.world_size == 1 else (f"rank{recorder.rank}",)
    said: set[str] = set()

    def export(profiler: Any) -> None:
        os.makedirs(folder, exist_ok=True)
        name = "-".join(("trace", *labels, f"step{profiler.step_num}"))
        profiler.export_chrome_trace(os.path.join(folder, f"{name}.json.gz"))

    def record(profiler: Any) -> None:
        for number, seconds in sorted(_finished_steps(profiler).items()):
            recorder.record(PROFILED_STEP, seconds, unit="s", step=number)

    def handle(profiler: Any) -> None:
        for part, what in ((export, "a trace is not written"), (record, "profiled steps are not recorded")):
            try:
                part(profiler)
            except Exception as error:
                problem = f"{what}: {type(error).__name__}: {error}"
                with suppress(Exception):  # the recorder may be closed
                    recorder.mark_incomplete(problem)
                if what not in said:
                    said.add(what)
                    warn_safely(f"{recorder.path}: {problem}")

    return handle


def _finished_steps(profiler: Any) -> dict[int, float]:
    """Return the seconds of each finished step of a cycle, from the events of the host."""
    steps: dict[int, float] = {}
    for event in profiler.events():
        step = _STEP.fullmatch(event.trace_name or "")
        if step and event.device_type.name == "CPU" and int(step[1]) < profiler.step_num:
            steps.setdefault(int(step[1]), event.time_range.elapsed_us() / 1e6)
    return steps
