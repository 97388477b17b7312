"""The folder of a search: what it keeps, what it gives back, and which folders and files it refuses."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from perfgate.bisect import session as module
from perfgate.bisect.measurements import Measurement
from perfgate.bisect.search import Measurements
from perfgate.bisect.session import BisectFolder, StoredMeasurement, open_folder
from perfgate.workspace.options import Refused


def kept(number: int, **fields: Any) -> StoredMeasurement:
    """A measurement as it is kept: of position 3, in the first session, at time 0."""
    return StoredMeasurement(number, **{"position": 3, "item": "x", "session": 0, "at": 0.0, "paired": False, **fields})


def test_what_an_older_file_does_not_say() -> None:
    """A run, or a pair with the first position, that started the command once."""
    said = {"results": "", "value": None, "log_value": 0.0, "within": 0.0, "skipped": None, "beside": 0, "started": 1}
    assert kept(1) == kept(1, **said)
    assert BisectFolder(Path(), [kept(1)]).started == 1


@pytest.mark.parametrize(("sessions", "next_one"), [([], 0), ([0], 1), ([0, 0, 2, 1], 3)])
def test_each_start_is_a_session(sessions: list[int], next_one: int) -> None:
    assert BisectFolder(Path(), [kept(1, session=one) for one in sessions]).session == next_one


@pytest.mark.parametrize(
    ("numbers", "files", "next_one"),
    [
        ([], (), 1),
        ([1, 4, 2], (), 5),
        ([2], ("003", "001"), 4),
        ([5], ("003-base", "notes", "12", "x004"), 6),
        ([], ("012-base.json", "0011"), 13),
        ([999], ("999-new", "1000-base"), 1001),
    ],
)
def test_a_run_gets_the_number_after_all_files_and_measurements(
    tmp_path: Path, numbers: list[int], files: tuple[str, ...], next_one: int
) -> None:
    (tmp_path / "runs").mkdir()
    for name in files:
        (tmp_path / "runs" / name).write_text("")
    assert BisectFolder(tmp_path, [kept(one) for one in numbers]).next_number() == next_one


def test_a_measurement_is_written_and_read_again(tmp_path: Path) -> None:
    folder = open_folder(tmp_path, "kept", {}, 9)
    full = kept(7, results="runs/007", value=0.5, log_value=-0.7, within=1e-4, beside=2, started=2)
    for one in (full, kept(12, skipped="does not build")):
        folder.add(one)
    files = sorted((tmp_path / "measurements").iterdir())
    assert [one.name for one in files] == ["007.json", "012.json"]
    assert files[0].read_text().startswith('{\n "number": 7,\n "position": 3,\n "item": "x",\n')
    assert files[0].read_text().endswith("\n}\n")
    assert folder.stored == open_folder(tmp_path, "kept", {}, 9).stored == [full, kept(12, skipped="does not build")]


def test_time_is_counted_in_hours_from_the_first_measurement() -> None:
    found = kept(2, at=9000.0, log_value=0.1, session=1, within=1e-4)
    assert BisectFolder(Path(), []).measurement(found) == Measurement(3, 0.1, 0.0, 1, 1e-4)
    alone = BisectFolder(Path(), [kept(1, at=1800.0)])
    assert alone.measurement(found) == Measurement(3, 0.1, 2.0, 1, 1e-4)
    assert BisectFolder(Path(), [*alone.stored, kept(2, at=5400.0)]).measurement(found).hours == 2.0


def test_the_search_uses_all_measurements_but_those_that_only_look_for_the_cause() -> None:
    stored = [
        kept(1, position=0, at=3600.0),
        kept(2, position=9, log_value=0.1, at=7200.0, started=2),
        kept(3, position=4, skipped="does not build", started=0),
        kept(4, position=5, log_value=0.2, beside=4),
        kept(5, position=6, skipped="its program failed", beside=5),
    ]
    folder = BisectFolder(Path(), stored)
    assert folder.searched == stored[:3]
    assert folder.started == 5
    skipped = {4: "does not build", 6: "its program failed"}
    assert folder.evidence() == Measurements([Measurement(0, 0.0, 0.0), Measurement(9, 0.1, 1.0)], skipped)


# --- the folder ------------------------------------------------------------------------------------------------------

QUESTION: Mapping[str, object] = {"metric": "step_time", "items": ["a", "b"], "paired": False}
AS_WRITTEN = '{\n "metric": "step_time",\n "items": [\n  "a",\n  "b"\n ],\n "paired": false\n}\n'


def test_a_new_folder_has_the_question_and_is_ignored_by_git(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "kept"
    folder = open_folder(path, "deep/kept", QUESTION, 9)
    assert (folder.path, folder.stored, folder.runs) == (path, [], {})
    files = {one.name: one.read_text() for one in path.iterdir()}
    assert files == {"question.json": AS_WRITTEN, ".gitignore": "*\n"}


def test_a_folder_is_opened_again_in_the_order_of_its_measurements(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")  # a folder with nothing else is as good as a new one
    folder = open_folder(tmp_path, "kept", QUESTION, 9)
    for number in (10, 2, 1):
        folder.add(kept(number))
    (tmp_path / "measurements" / "notes.txt").write_text("")
    assert open_folder(tmp_path, "kept", QUESTION, 9).stored == [kept(1), kept(2), kept(10)]
    assert (tmp_path / "question.json").read_text() == AS_WRITTEN


def test_another_question_takes_a_folder_without_measurements(tmp_path: Path) -> None:
    open_folder(tmp_path, "kept", {"metric": "loss"}, 9)
    assert open_folder(tmp_path, "kept", QUESTION, 9).stored == []
    assert (tmp_path / "question.json").read_text() == AS_WRITTEN


OTHERS = [
    ({**QUESTION, "metric": "loss"}, "metric"),
    ({**QUESTION, "metric": "loss", "paired": True}, "metric, paired"),
    ({**QUESTION, "build": "make"}, "build"),
    ({"metric": "step_time", "items": ["a", "b"]}, "other options"),
]


@pytest.mark.parametrize(("question", "differing"), OTHERS)
def test_another_question_is_refused_with_what_differs_and_a_free_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: dict[str, object], differing: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = open_folder(Path("kept"), "kept", QUESTION, 9)
    folder.add(kept(1))
    for name in ("kept-2", "kept-3"):
        with pytest.raises(Refused) as raised:
            open_folder(Path("kept"), "kept", question, 9)
        assert str(raised.value) == (
            f"--keep kept: has a search that asks something else ({differing}): use another folder (--keep {name}), "
            "or remove kept"
        )
        Path(name).mkdir()
    assert Path("kept/question.json").read_text() == AS_WRITTEN


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    for name in ("z.txt", "a.txt"):
        (tmp_path / name).write_text("")
    with pytest.raises(Refused) as raised:
        open_folder(tmp_path, "kept", QUESTION, 9)
    why = "is not empty: it has a.txt, which `perfgate bisect` did not write"
    assert str(raised.value) == f"--keep kept: {why}; name another folder"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.txt", "z.txt"]


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")
    with pytest.raises(Refused) as raised:
        open_folder(tmp_path / "kept", "kept", QUESTION, 9)
    assert str(raised.value) == "--keep kept: cannot be used: File exists"


@pytest.mark.parametrize("text", ["[1]", "null", "{", '"\ufffd"', '{"a": "\xe4"}'.encode("latin-1")])
def test_a_damaged_question_is_refused(tmp_path: Path, text: str | bytes) -> None:
    open_folder(tmp_path, "kept", QUESTION, 9)
    (tmp_path / "question.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(Refused, match=r"question\.json: is damaged.*: remove it, and measure again"):
        open_folder(tmp_path, "kept", QUESTION, 9)


def test_a_file_is_read_as_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "1.json"
    file.write_bytes('{"item": "größer"}'.encode())
    assert module._read(file) == {"item": "größer"}


# --- a measurement in a file -----------------------------------------------------------------------------------------

COUNTS, PLACES, NUMBERS, TEXTS = (
    *(("number", "session", "started"), ("position", "beside"), ("log_value", "within", "at", "value")),
    ("item", "results", "skipped"),
)
#: For each field of a search with 9 items: values that are possible, and values that are not.
FIELDS: list[tuple[Sequence[str], Sequence[object], Sequence[object]]] = [
    (COUNTS, (0, 999_999), (-1, 1_000_000, 1.0, True, "1", None)),
    (PLACES, (0, 8), (-1, 9, 1.0, True, "1", None)),
    (NUMBERS, (0, 0.5, 7), ("1", [], math.nan, math.inf)),
    (("log_value",), (709.8, -749.9), (750, -750.0, 10**400, None)),
    (("within",), (999_999.0,), (-1e-9, 1e6, None)),
    (("at",), (0.99e11,), (-1, 1e11, None)),
    (("value",), (None, 1e-300, 0.99e308), (-1.0, 1e308, 10**400, "")),
    (TEXTS, ("a b", "größer"), ("a\0b", 7)),
    (("more",), (), (1,)),
]
CASES = [
    ({name: value}, is_possible)
    for names, *both in FIELDS
    for name in names
    for is_possible, values in zip((True, False), both, strict=True)
    for value in values
]


@pytest.mark.parametrize(("fields", "is_possible"), CASES)
def test_a_measurement_with_impossible_values_is_damaged(
    tmp_path: Path, fields: dict[str, Any], is_possible: bool
) -> None:
    file = tmp_path / "001.json"
    sound = {"number": 1, "position": 3, "item": "x", "session": 0, "at": 0.0, "paired": False}
    file.write_text(json.dumps(sound | fields))
    if is_possible:
        assert module._stored(file, 9) == kept(**{"number": 1} | fields)
    else:
        with pytest.raises(Refused, match=r"001\.json: is damaged: remove it, and measure again"):
            module._stored(file, 9)
