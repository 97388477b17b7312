"""The times of a run that `perfgate.Recorder` and the callbacks recorded: every part is what was spent in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from time import sleep
from types import SimpleNamespace

import pytest
from conftest import Done, write_rules
from test_job_times import goodput, times

from perfgate import Recorder
from perfgate.core import Run
from perfgate.integrations.callback import RecordingCallback
from perfgate.readers import Source, read


def recorded(path: str) -> Run:
    (run,) = read(Source(path, [Path(path).read_bytes()]))
    return run


def write(path: Path, *series: dict[str, object]) -> Run:
    path.write_text(json.dumps({"schema": "perfgate.results/1", "series": series}))
    return recorded(str(path))


def samples(metric: str, *values: float, unit: str = "s", **labels: str) -> dict[str, object]:
    return {"metric": metric, "unit": unit, "values": [*values], "labels": labels}


def whole(seconds: float, **labels: str) -> dict[str, object]:
    return {"metric": "time.total", "unit": "s", "value": seconds, "labels": labels}


def test_a_recorder_splits_the_time_of_the_whole_run(folder: Path) -> None:
    with Recorder("run.json", goodput=True) as recorder:
        for _ in range(3):
            with recorder.span("data_time"):
                sleep(0.002)
            with recorder.step_span():
                sleep(0.004)
        sleep(0.005)
    found = times(recorded("run.json"))
    assert found.keys() == {"data", "step", "other", "total"}
    for part, seconds in {"data": 0.006, "step": 0.012, "other": 0.005}.items():
        assert found[part] >= seconds
    assert sum(found.values()) == pytest.approx(2 * found["total"], abs=1e-5)


def test_a_recorder_tells_nothing_without_being_asked_and_without_a_close(folder: Path) -> None:
    with Recorder("plain.json") as recorder, recorder.step_span():
        pass
    failed = Recorder("failed.json", goodput=True)
    with failed.step_span():
        pass
    failed.abort()
    assert times(recorded("plain.json")) == times(recorded("failed.json")) == {}


def test_compilation_is_taken_from_the_steps(folder: Path) -> None:
    parts = [samples("step.time", 30, 1, 1), samples("compile_time", 28), samples("evaluation_time", 3000, unit="ms")]
    run = write(folder / "run.json", whole(40), *parts)
    assert times(run) == {"compile": 28, "step": 4, "evaluation": 3, "other": 5, "total": 40}
    assert goodput(run) == pytest.approx(0.1)


def test_each_rank_has_its_own_times(folder: Path) -> None:
    ranks = [(whole(10.0 + rank, rank=str(rank)), samples("step.time", 8, rank=str(rank))) for rank in range(2)]
    run = write(folder / "run.json", *(series for rank in ranks for series in rank))
    other = {one.key.label("rank"): one.values.tolist() for one in run.series if one.key.metric == "time.other"}
    assert other == {"0": [2], "1": [3]}


@pytest.mark.parametrize(
    "series",
    [
        [whole(10)],
        [whole(10), samples("step.time", 4, 7)],  # longer than the whole
        [whole(10), samples("step.time", 4), samples("compile_time", 5)],
        [whole(10), samples("step.time", 4, unit="1")],
    ],
)
def test_times_that_contradict_each_other_are_not_split(series: list[dict[str, object]], folder: Path) -> None:
    run = write(folder / "run.json", *series)
    assert times(run) == {"total": 10}
    assert not [problem for problem in run.problems if problem.severity == "error"]


def test_a_callback_records_what_torch_compiled_in_a_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    took = {"_compile.compile_inner": [50.0], "bytecode_tracing": [40.0]}
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", SimpleNamespace(compilation_time_metrics=took))
    callback = RecordingCallback("run.json")
    callback._open(0, 1, ())
    callback._begin_at(0)
    for seconds in (0.001, 0.0):
        callback._begin_step()
        sleep(0.003)
        took["_compile.compile_inner"] += [seconds] if seconds else []
        callback._change(end=("step.time",))
        callback._record_compilation()
        callback.recorder.step()
    took["_compile.compile_inner"].append(7.0)  # in an evaluation
    callback._pass_over_compilation()
    callback._close()
    run = recorded("run.json")
    (series,) = (one for one in run.series if one.key.metric == "compile_time")
    assert series.values.tolist() == pytest.approx([0.001])
    found = times(run)
    assert found.keys() == {"start", "compile", "step", "other", "total"}
    assert found["step"] >= 0.005


def test_a_rule_on_the_goodput_of_a_recording(folder: Path, perfgate: Callable[..., Done]) -> None:
    write(folder / "run.json", whole(100), samples("step.time", *[9.7] * 10))
    write_rules(folder, "goodput at least 95%", "time.other / time.total under 5%")
    assert perfgate("check", "run.json").code == 0
