"""Spans on the GPU, against a torch whose GPU is a list: what is waited for, and when."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from perfgate import Recorder, RecorderError, RecorderWarning
from perfgate.recorder import writer
from perfgate.workspace.inputs import read_runs


class Gpu:
    """A GPU that has worked off its queue as far as `done`, 2 ms an event; `calls` is what it was asked."""

    def __init__(self) -> None:
        self.queued = self.done = 0
        self.calls: list[str] = []
        self.broken = False

    def event(self, *, enable_timing: bool) -> Event:
        assert enable_timing
        return Event(self)


class Event:
    """As torch.cuda.Event."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu = gpu

    def record(self) -> None:
        self.gpu.queued += 1
        self.place = self.gpu.queued

    def query(self) -> bool:
        return self.place <= self.gpu.done

    def synchronize(self) -> None:
        self.gpu.calls.append("synchronize")
        if self.gpu.broken:
            raise RuntimeError("CUDA error: device-side assert triggered")
        self.gpu.done = max(self.gpu.done, self.place)

    def elapsed_time(self, end: Event) -> float:
        assert end.query()
        return 2.0 * (end.place - self.place)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Gpu:
    gpu = Gpu()
    cuda = SimpleNamespace(
        Event=gpu.event,
        is_available=lambda: True,
        is_initialized=lambda: gpu.queued > 0,
        get_device_name=lambda: "NVIDIA H200",
    )
    torch = SimpleNamespace(cuda=cuda, __version__="2.13.0+cu130", version=SimpleNamespace(cuda="13.0"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    monkeypatch.setattr(writer, "_WRITE_EVERY", 0)
    return gpu


def test_nothing_waits_for_the_gpu_before_the_end(gpu: Gpu) -> None:
    rec = Recorder("run.json")
    for _ in range(3):
        with rec.cuda_span("forward"), rec.cuda_span("attention"):
            pass
        rec.step()
    assert "forward" not in Path("run.json").read_text()
    gpu.done = 4
    rec.step()
    assert Path("run.json").read_text().splitlines()[-1] == ('{"metric":"forward","unit":"ns","values":[6000000.0]}')
    assert gpu.calls == []
    rec.close()
    assert "synchronize" in gpu.calls
    (run,) = read_runs(["run.json"])
    found = {series.key.metric: (series.values.tolist(), list(series.steps)) for series in run.series}
    assert found == {"forward": ([0.006] * 3, [0, 1, 2]), "attention": ([0.002] * 3, [0, 1, 2])}


def test_the_gpu_is_named_once_it_is_in_use(gpu: Gpu) -> None:
    with Recorder("run.json", environment={"torch": "mine"}) as rec:
        assert '"gpu"' not in Path("run.json").read_text()
        with rec.cuda_span("forward"):
            pass
    (run,) = read_runs(["run.json"])
    assert run.environment == {"gpu": "NVIDIA H200", "torch": "mine", "cuda": "13.0"}


def test_work_that_raised_is_not_recorded(gpu: Gpu) -> None:
    with Recorder("run.json") as rec:
        rec.record("a", 1, unit="1")
        with pytest.raises(KeyError), rec.cuda_span("forward"):
            raise KeyError
    (run,) = read_runs(["run.json"])
    assert [series.key.metric for series in run.series] == ["a"]


def test_a_program_that_failed_does_not_wait_for_the_gpu(gpu: Gpu) -> None:
    rec = Recorder("run.json")
    for metric in ("forward", "backward"):
        with rec.cuda_span(metric):
            pass
    gpu.done = 2
    rec.abort()
    assert gpu.calls == []
    (run,) = read_runs(["run.json"])
    assert [series.key.metric for series in run.series] == ["forward"]


def test_a_gpu_that_fails_costs_its_spans_alone(gpu: Gpu) -> None:
    rec = Recorder("run.json")
    rec.record("a", 1, unit="1")
    with rec.cuda_span("forward"):
        pass
    gpu.broken = True
    with pytest.warns(RecorderWarning) as warned:
        rec.close()
    assert "CUDA failed, so 1 spans on the GPU are lost: CUDA error" in str(warned[0].message)
    (run,) = read_runs(["run.json"])
    assert [series.key.metric for series in run.series] == ["a"]
    assert "the recording is incomplete: CUDA failed, so 1 spans on the GPU are lost: CUDA error" in str(run.problems)


@pytest.mark.parametrize("torch", [None, SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))])
def test_without_a_gpu_there_is_no_span_on_one(torch: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch)
    with Recorder(tmp_path / "run.json", rank=0, world_size=1) as rec:
        rec.record("a", 1, unit="1")
        with pytest.raises(RecorderError, match=r"needs torch \(imported\) and a CUDA device: use span on the CPU"):
            rec.cuda_span("forward").start()
