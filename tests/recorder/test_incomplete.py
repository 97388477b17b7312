"""A recording says what it lacks, and readers warn with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perfgate import Recorder, RecorderError, RecorderWarning
from perfgate.core import Run
from perfgate.integrations.measures import IdleRecorder
from perfgate.recorder import journal, writer
from perfgate.workspace.inputs import read_runs

pytestmark = pytest.mark.usefixtures("folder")
LATE = "the training began at step 500, so earlier steps are missing"


def read(path: str = "run.json") -> Run:
    (run,) = read_runs([path])
    return run


def record(*reasons: str) -> None:
    with Recorder("run.json", commit="4f2a9c1") as rec:
        rec.record("a", 1, unit="1")
        for reason in reasons:
            rec.mark_incomplete(reason)


def test_a_document_says_what_it_lacks(perfgate) -> None:
    record(LATE, 'the "disk" was full')
    document = json.loads(Path("run.json").read_text())
    assert document["incomplete"] == [LATE, 'the "disk" was full']
    assert [str(problem).split(": ", 1)[1] for problem in read().problems] == [
        f"warning: the recording is incomplete: {LATE}",
        'warning: the recording is incomplete: the "disk" was full',
    ]
    said = perfgate("inspect", "run.json").out
    assert "a" in said
    assert f"warning: the recording is incomplete: {LATE}" in said


def test_a_recording_that_was_not_closed_says_it_too() -> None:
    rec = Recorder("run.json")
    rec.record("a", 1, unit="1")
    rec.mark_incomplete(LATE)
    rec.abort()
    assert read().problems[0].message == f"the recording is incomplete: {LATE}"


def test_a_reason_is_text_and_a_closed_recorder_takes_none() -> None:
    with Recorder("run.json") as rec:
        rec.record("a", 1, unit="1")
        for wrong in ("", 3):
            with pytest.raises(ValueError, match="the reason is"):
                rec.mark_incomplete(wrong)  # type: ignore[arg-type]
    with pytest.raises(RecorderError, match="is closed"):
        rec.mark_incomplete(LATE)


def test_a_document_of_several_runs_has_reasons_in_each() -> None:
    series = [{"metric": "a", "unit": "1", "value": 1}]
    runs = [{"series": series}, {"series": series, "incomplete": [LATE]}]
    Path("run.json").write_text(json.dumps({"schema": "perfgate.results/1", "runs": runs}))
    assert [len(run.problems) for run in read_runs(["run.json"])] == [0, 1]


@pytest.mark.parametrize("largest", [56 << 20, 10], ids=["document", "lines"])
def test_a_reason_is_added_to_a_closed_file(monkeypatch: pytest.MonkeyPatch, largest: int) -> None:
    monkeypatch.setattr(journal, "MAX_DOCUMENT", largest)
    record()
    for reason in (LATE, 'a "second" one'):
        journal.add_reason("run.json", reason)
    run = read()
    assert (run.commit, [series.values.tolist() for series in run.series]) == ("4f2a9c1", [[1.0]])
    assert sorted(problem.message.split(": ", 1)[1] for problem in run.problems) == ['a "second" one', LATE]


@pytest.mark.parametrize("text", ["dear diary", "", '{"schema": "perfgate.baseline/1"}\n'])
def test_no_other_file_is_changed(text: str) -> None:
    Path("run.json").write_text(text)
    journal.add_reason("run.json", LATE)
    assert Path("run.json").read_text() == text


def test_a_file_that_is_being_recorded_is_not_changed() -> None:
    with Recorder("run.json") as rec:
        rec.record("a", 1, unit="1")
        journal.add_reason("run.json", LATE)
    assert read().problems == ()


def test_a_file_can_be_recorded_again_if_its_training_has_failed() -> None:
    first = Recorder("run.json")
    first.record("a", 1, unit="1")
    first.abort()
    writer.forget("./run.json")
    with Recorder("run.json") as rec:
        rec.record("a", 2, unit="1")
    assert [series.values.tolist() for series in read().series] == [[2.0]]


def test_an_idle_recorder_takes_everything_and_writes_nothing(tmp_path: Path) -> None:
    rec = IdleRecorder()
    with rec, rec.step_span(), rec.span("a"), rec.cuda_span("b"):
        rec.record("c", 1, unit="s")
        rec.value("d", 1, unit="B")
        rec.mark_incomplete(LATE)
        with pytest.raises(ValueError, match="unknown unit"):
            rec.record("e", 1, unit="mss")
    rec.abort()
    rec.record("c", 1, unit="s")
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_for_the_document_leaves_a_closed_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(journal, "_document", too_large)
    rec = Recorder("run.json")
    rec.record("a", 1, unit="1")
    with pytest.warns(RecorderWarning, match="could not become a results document; perfgate reads it as it is: too li"):
        rec.close()
    assert (read().problems, [series.values.tolist() for series in read().series]) == ((), [[1.0]])
