"""The handler for torch.profiler cannot hurt a training: tested with a stand-in of the profiler."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from recorded import recorded

from perfgate import Recorder, RecorderWarning
from perfgate.integrations.torch_profiler import trace_handler

pytestmark = pytest.mark.usefixtures("folder")


class Profiler:
    """As torch.profiler.profile after one cycle with two steps of 3 ms."""

    step_num = 2

    def export_chrome_trace(self, path: str) -> None:
        Path(path).write_bytes(b"")

    def events(self) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(
                trace_name=f"ProfilerStep#{number}",
                device_type=SimpleNamespace(name="CPU"),
                time_range=SimpleNamespace(elapsed_us=lambda: 3000.0),
            )
            for number in range(2)
        ]


class FailingProfiler(Profiler):
    """Its events cannot be read."""

    def events(self) -> list[SimpleNamespace]:
        raise RuntimeError("no events")


def test_a_folder_that_cannot_be_made_costs_the_trace_only() -> None:
    Path("traces").write_text("dear diary")
    with Recorder("results.json") as rec:
        handle = trace_handler(rec, "traces")
        with pytest.warns(RecorderWarning, match=r"results\.json: a trace is not written: FileExistsError"):
            handle(Profiler())
        handle(Profiler())  # a second warning would be an error
    run = recorded()
    assert [series.key.metric for series in run.series] == ["profiled_step"]
    assert len(run.problems) == 2
    assert "the recording is incomplete: a trace is not written: FileExistsError" in run.problems[0].message


def test_events_that_cannot_be_read_are_said_even_if_warnings_are_errors(capsys: pytest.CaptureFixture[str]) -> None:
    with Recorder("results.json") as rec:
        rec.record("a", 1, unit="1")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            trace_handler(rec, "traces")(FailingProfiler())
    assert "perfgate: results.json: profiled steps are not recorded: RuntimeError: no events" in capsys.readouterr().err
    assert [path.name for path in Path("traces").iterdir()] == ["trace-step2.json.gz"]
    assert "profiled steps are not recorded" in recorded().problems[0].message


def test_a_closed_recorder_is_a_warning() -> None:
    with Recorder("results.json") as rec:
        rec.record("a", 1, unit="1")
    with pytest.warns(RecorderWarning, match="profiled steps are not recorded: RecorderError"):
        trace_handler(rec, "traces")(Profiler())
