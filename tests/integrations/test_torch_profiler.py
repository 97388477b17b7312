"""The handler in a real torch.profiler, on the CPU."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from time import sleep

import pytest
from recorded import recorded

from perfgate import Recorder

torch = pytest.importorskip("torch", reason="needs torch")
pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore"),  # the framework's own
]


def profile(recorder: Recorder, cycles: int) -> None:
    """Two profiled steps a cycle, after one that is waited for; each step takes 3 ms at least."""
    from perfgate.integrations.torch_profiler import trace_handler

    schedule = torch.profiler.schedule(wait=1, warmup=0, active=2, repeat=cycles)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=schedule,
        on_trace_ready=trace_handler(recorder, "traces"),
    ) as profiler:
        for _ in range(3 * cycles + 1):
            torch.mm(torch.ones(8, 8), torch.ones(8, 8))
            sleep(0.003)
            profiler.step()


def test_a_trace_a_cycle_and_a_value_a_step(folder: Path) -> None:
    with Recorder("results.json") as rec:
        profile(rec, cycles=2)
    run = recorded()
    (series,) = run.series
    assert (run.problems, series.key.metric, series.unit) == ((), "profiled_step", "s")
    assert series.steps is not None
    assert series.steps.tolist() == [1, 2, 4, 5]
    assert series.values.min() >= 0.003
    traces = sorted(path.name for path in Path("traces").iterdir())
    assert traces == ["trace-step3.json.gz", "trace-step6.json.gz"]
    events = json.loads(gzip.decompress(Path("traces/trace-step3.json.gz").read_bytes()))["traceEvents"]
    assert {event.get("name") for event in events} >= {"aten::mm", "ProfilerStep#1", "ProfilerStep#2"}


def test_ranks_have_traces_of_their_own(folder: Path) -> None:
    with Recorder("results.json", rank=3, world_size=4) as rec:
        profile(rec, cycles=1)
    assert [path.name for path in Path("traces").iterdir()] == ["trace-rank3-step3.json.gz"]


def test_the_step_in_which_the_profile_ends_is_none(folder: Path) -> None:
    from perfgate.integrations.torch_profiler import trace_handler

    with Recorder("results.json") as rec:
        schedule = torch.profiler.schedule(wait=0, warmup=0, active=9)
        with torch.profiler.profile(schedule=schedule, on_trace_ready=trace_handler(rec, "traces")) as profiler:
            for _ in range(3):
                torch.ones(3).sum()
                profiler.step()
    (series,) = recorded().series
    assert len(series.values) == 3


def test_without_a_schedule_there_is_a_trace_and_no_step(folder: Path) -> None:
    from perfgate.integrations.torch_profiler import trace_handler

    with Recorder("results.json") as rec:
        rec.value("a", 1, unit="1")
        with torch.profiler.profile(on_trace_ready=trace_handler(rec, "traces")):
            torch.ones(3).sum()
    assert len(list(Path("traces").iterdir())) == 1
    assert [series.key.metric for series in recorded().series] == ["a"]
