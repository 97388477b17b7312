"""Recording cannot hurt a training: whatever happens, it trains to its end, with one warning at most.

Every case is tested with stand-ins of the frameworks, and for real with `pytest -m frameworks`.
"""

from __future__ import annotations

import copy
import errno
import os
import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from frameworks import FRAMEWORKS, SAMPLES, SAVE_EVERY, SAVING, STAND_INS, STEPS, TOKENS, Framework
from recorded import recorded

from perfgate import RecorderWarning
from perfgate.core import Run
from perfgate.recorder import journal, writer
from perfgate.recorder.recorder import Recorder

pytestmark = pytest.mark.filterwarnings("ignore")  # the framework's own

ALL = [*STAND_INS, *(pytest.param(name, marks=pytest.mark.frameworks) for name in FRAMEWORKS)]


@pytest.fixture(params=ALL)
def framework(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Framework:
    return {**STAND_INS, **FRAMEWORKS}[request.param](monkeypatch)


def warned(work: Callable[[], object]) -> list[str]:
    """The warnings of the recorder; what the framework itself warns of is not ours."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    return [str(warning.message) for warning in found if issubclass(warning.category, RecorderWarning)]


def steps_of(run: Run, metric: str = "step.time") -> list[int]:
    (series,) = [series for series in run.series if series.key.metric == metric]
    assert series.steps is not None
    return series.steps.tolist()


def said(run: Run) -> list[str]:
    return [problem.message for problem in run.problems]


def test_a_training_is_recorded(framework: Framework) -> None:
    assert warned(lambda: framework.train(framework.callback("run.json"))) == []
    run = recorded("run.json")
    assert said(run) == []
    assert steps_of(run) == [*range(STEPS)]


def test_rates_and_checkpoints(framework: Framework) -> None:
    warned(lambda: framework.train(framework.callback("run.json")))
    found = {series.key.metric: series for series in recorded("run.json").series}
    assert {found[metric].unit for metric in ("samples_per_second", "tokens_per_second")} == {"1/s"}
    tokens, samples = found["tokens_per_second"], found["samples_per_second"]
    assert tokens.steps is not None
    assert tokens.steps.tolist() == [*range(STEPS)]
    assert samples.steps is not None
    assert len(samples.steps) in (STEPS - 1, STEPS)  # transformers does not show the size of the last batch
    measured = []
    for step, rate in zip(samples.steps, samples.values, strict=True):
        seconds = found["step.time"].values[step] + found["data_time"].values[step]
        measured.append(rate * seconds / SAMPLES)
        assert tokens.values[step] == pytest.approx(TOKENS * rate)
    assert max(measured) <= 1.01
    assert np.median(measured) >= 0.3  # a busy machine may stop one step between two readings of the clock
    assert len(found["checkpoint_time"].values) == STEPS // SAVE_EVERY
    assert found["checkpoint_time"].values.min() >= SAVING / 1000
    assert found["data_time"].values[SAVE_EVERY] < SAVING / 1000  # saving is not loading of data


def test_evaluation_before_training(framework: Framework) -> None:
    def work() -> None:
        framework.train_again(framework.evaluate(framework.callback("run.json")))

    assert warned(work) == []
    run = recorded("run.json")
    assert (said(run), steps_of(run)) == ([], [*range(STEPS)])


def test_evaluation_alone_makes_no_file(framework: Framework) -> None:
    assert warned(lambda: framework.evaluate(framework.callback("run.json"))) == []
    assert not Path("run.json").exists()


def test_evaluation_after_training(framework: Framework) -> None:
    callback = framework.callback("run.json")
    framework.train(callback)
    before = Path("run.json").read_bytes()
    assert warned(lambda: framework.evaluate(callback)) == []
    assert Path("run.json").read_bytes() == before


@pytest.mark.parametrize("another", [False, True], ids=["same callback", "another callback"])
def test_a_second_training_is_not_recorded_and_the_first_says_so(framework: Framework, another: bool) -> None:
    callback = framework.callback("run.json")
    trainer = framework.train(callback)

    def work() -> None:
        if another:
            framework.train(framework.callback("run.json"))
        else:
            framework.train_again(trainer)
            framework.train_again(trainer)

    (warning,) = warned(work)
    assert "this training is not recorded: run.json: this process has already recorded this file" in warning
    run = recorded("run.json")
    assert said(run) == ["the recording is incomplete: a later training of the same program is not recorded"]
    assert steps_of(run) == [*range(STEPS)]


def test_a_second_training_is_not_recorded_although_the_first_was_resumed(framework: Framework) -> None:
    callback = framework.callback("run.json")
    (resumed,) = warned(lambda: framework.resume(callback))
    assert "the training began at step" in resumed
    (second,) = warned(lambda: framework.resume(callback))
    assert "this training is not recorded" in second
    assert "a later training of the same program is not recorded" in " ".join(said(recorded("run.json")))


def test_a_training_after_a_failed_one_replaces_its_recording(framework: Framework) -> None:
    callback = framework.callback("run.json")
    with pytest.raises(KeyError, match="the model failed"):
        framework.train(callback, fail_at=2)
    assert warned(lambda: framework.train(callback)) == []
    run = recorded("run.json")
    assert (said(run), steps_of(run)) == ([], [*range(STEPS)])


def test_a_resumed_training_says_what_is_missing(framework: Framework) -> None:
    (warning,) = warned(lambda: framework.resume(framework.callback("run.json")))
    reason = f"the recording is incomplete: the training began at step {SAVE_EVERY}, so earlier steps are missing"
    assert warning == f"run.json: {reason}"
    run = recorded("run.json")
    assert said(run) == [reason]
    assert steps_of(run) == [*range(SAVE_EVERY, STEPS)]


@pytest.mark.parametrize("path", ["file/run.json", "file", "folder"])
def test_a_path_that_cannot_be_written(framework: Framework, path: str) -> None:
    Path("file").write_text("dear diary")
    Path("folder").mkdir()

    class Mine(framework.callback):  # type: ignore[name-defined, misc]
        """The user's own values do not fail either."""

        def on_train_batch_end(self, *rest: Any) -> None:
            self.recorder.record("mine", 1, unit="1")
            super().on_train_batch_end(*rest)

        def on_step_end(self, *rest: Any, **options: Any) -> None:
            self.recorder.record("mine", 1, unit="1")
            super().on_step_end(*rest, **options)

    (warning,) = warned(lambda: framework.train(Mine(path)))
    assert warning.startswith(f"this training is not recorded: {path}: ")
    assert Path("file").read_text() == "dear diary"


def test_a_full_disk(framework: Framework, monkeypatch: pytest.MonkeyPatch) -> None:
    write, calls = os.write, iter(range(10**9))

    def full(file: int, data: bytes) -> int:
        if next(calls) < 3:
            return write(file, data)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(writer, "_WRITE_EVERY", 0)
        patch.setattr(journal.os, "write", full)
        (warning,) = warned(lambda: framework.train(framework.callback("run.json")))
    assert "run.json: cannot be written, so values may be missing; the program continues: No space left" in warning
    assert "the recording was not closed" in said(recorded("run.json"))[0]


@pytest.mark.skipif(sys.platform == "win32", reason="no locks")
def test_a_file_that_another_process_records(framework: Framework) -> None:
    import fcntl

    with open("run.json", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        (warning,) = warned(lambda: framework.train(framework.callback("run.json")))
        assert "this training is not recorded: run.json: another Recorder writes this file" in warning
        assert Path("run.json").read_text() == ""


def test_a_fault_of_the_recorder_ends_the_recording_only(framework: Framework, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Recorder.step

    def fails(recorder: Recorder, number: int | None = None) -> None:
        step(recorder, number)
        if recorder.current_step == 4:
            raise ZeroDivisionError("a fault")

    monkeypatch.setattr(Recorder, "step", fails)
    (warning,) = warned(lambda: framework.train(framework.callback("run.json")))
    assert warning == "run.json: the training continues, but its recording has ended: ZeroDivisionError: a fault"
    run = recorded("run.json")
    assert said(run)[0] == "the recording is incomplete: the recording ended at step 4: ZeroDivisionError: a fault"
    assert steps_of(run) == [0, 1, 2, 3]


def test_warnings_that_are_errors_do_not_stop_it(framework: Framework, capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("dear diary")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RecorderWarning)
        framework.train(framework.callback("file"))
    assert "perfgate: this training is not recorded: file: the file is not a recording" in capsys.readouterr().err


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))], ids=["copy", "pickle"])
def test_a_copy_has_no_recording_and_can_record(framework: Framework, copied: Callable[[Any], Any]) -> None:
    callback = framework.callback("run.json", environment={"machine": "ours"})
    assert warned(lambda: framework.train(copied(callback))) == []
    assert recorded("run.json").environment["machine"] == "ours"


def test_a_copy_of_an_open_callback_leaves_its_recording_alone(framework: Framework) -> None:
    copies = []

    class Mine(framework.callback):  # type: ignore[name-defined, misc]
        def on_train_epoch_start(self, *rest: Any) -> None:
            copies.append(copy.deepcopy(self))
            super().on_train_epoch_start(*rest)

        def on_epoch_begin(self, *rest: Any, **options: Any) -> None:
            copies.append(copy.deepcopy(self))
            super().on_epoch_begin(*rest, **options)

    assert warned(lambda: framework.train(Mine("run.json"))) == []
    assert [type(each).__name__ for each in copies] == ["Mine"]
    copies[0].recorder.record("mine", 1, unit="1")
    run = recorded("run.json")
    assert (said(run), steps_of(run)) == ([], [*range(STEPS)])
    assert "mine" not in {series.key.metric for series in run.series}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_does_not_record(framework: Framework) -> None:
    class Mine(framework.callback):  # type: ignore[name-defined, misc]
        def fork(self) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                child = os.fork()
            if child == 0:
                try:
                    self.recorder.record("mine", 1, unit="1")
                    with self.recorder.step_span():
                        pass
                    os._exit(0)
                finally:
                    os._exit(1)
            assert os.waitpid(child, 0)[1] == 0

        def on_train_epoch_start(self, *rest: Any) -> None:
            self.fork()
            super().on_train_epoch_start(*rest)

        def on_epoch_begin(self, *rest: Any, **options: Any) -> None:
            self.fork()
            super().on_epoch_begin(*rest, **options)

    assert warned(lambda: framework.train(Mine("run.json"))) == []
    assert "mine" not in {series.key.metric for series in recorded("run.json").series}


@pytest.mark.parametrize("wrong", [{"environment": {"gpu": None}}, {"commit": 3}])
def test_wrong_facts_are_refused_before_the_training(framework: Framework, wrong: dict) -> None:
    with pytest.raises(ValueError, match=r"fact|commit"):
        framework.callback("run.json", **wrong)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", STAND_INS)
def test_peak_memory_of_the_gpu(name: str, fails: bool, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    framework = STAND_INS[name](monkeypatch)

    def most() -> int:
        if fails:
            raise RuntimeError("CUDA error")
        return 3 << 30

    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        get_device_name=lambda: "NVIDIA H200",
        max_memory_allocated=most,
        max_memory_reserved=lambda: 4 << 30,
    )
    torch = SimpleNamespace(cuda=cuda, __version__="2.13.0", version=SimpleNamespace(cuda="13.0"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    assert warned(lambda: framework.train(framework.callback("run.json"))) == []
    found = {series.key.metric: series for series in recorded("run.json").series}
    memory = {metric: series.values.tolist() for metric, series in found.items() if metric.startswith("memory")}
    expected = {"memory.peak_allocated": [float(3 << 30)], "memory.peak_reserved": [float(4 << 30)]}
    assert memory == ({} if fails else expected)


def test_work_that_cannot_be_profiled_is_one_warning(framework: Framework) -> None:
    (warned_of,) = warned(lambda: framework.train(framework.callback("run.json", work=True)))
    assert "the work of a step is not recorded" in warned_of  # six steps are too few, and stand-ins have no torch
    assert steps_of(recorded("run.json"))
