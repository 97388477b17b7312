"""What is printed where: documents, reports, problems, colours by the environment, and how far a command is."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from perfgate.cli import printing
from perfgate.cli.printing import Screen
from perfgate.cli.shared import Publication
from perfgate.core import Location, Problem
from perfgate.workspace import inputs

Captured = pytest.CaptureFixture[str]
CLEARED = "\r\x1b[K"


class Stream(io.StringIO):
    """A stream that is a terminal or not, in an encoding."""

    encoding: Any = None

    def __init__(self, is_terminal: bool, encoding: str | None = "utf-8") -> None:
        super().__init__()
        self.is_terminal, self.encoding = is_terminal, encoding

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the surroundings says how to print."""
    for name in ("CI", "FORCE_COLOR", "NO_COLOR", "TERM", "COLUMNS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)


# --- lines, documents and problems -----------------------------------------------------------------------------------


def test_lines_end_once_and_command_nothing(capsys: Captured) -> None:
    assert printing.say(["a", "b\n", "::error::c"]) == 0
    assert capsys.readouterr() == ("a\nb\n\\:error::c\n", "")


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "cp1252"])
def test_a_document_is_utf_8_whatever_stdout_is(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    printing.write_document("→ \udce9")
    sys.stdout.flush()
    assert raw.getvalue() == "→ ".encode() + b"\\udce9"


def test_a_document_may_go_to_a_stdout_without_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    printing.write_document("→")
    assert out.getvalue() == "→"


def test_problems_go_to_stderr_and_cannot_be_judged(capsys: Captured) -> None:
    assert (printing.complain([]), printing.complain([Problem("error", "a\x1bb", Location("f.log", 2))])) == (0, 3)
    out, err = capsys.readouterr()
    assert (out, err.startswith("f.log:2: error: a"), "\x1b" in err, err.endswith("\n")) == ("", True, False, True)


# --- what stdout can show --------------------------------------------------------------------------------------------

WIDTHS = [("59", 60), ("60", 60), ("61", 61), ("200", 200), ("201", 200), ("", 100)]


@pytest.mark.parametrize(("columns", "width"), WIDTHS)
def test_the_width_is_between_60_and_200(columns: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_terminal(*_: int) -> os.terminal_size:
        raise OSError

    monkeypatch.setattr(os, "get_terminal_size", no_terminal)
    monkeypatch.setenv("COLUMNS", columns)
    assert printing.screen().width == width


COLOURS: list[tuple[bool, dict[str, str], bool]] = [
    # is stdout a terminal, the environment, are there colours
    (True, {}, True),
    (False, {}, False),
    (True, {"TERM": "xterm"}, True),
    (True, {"TERM": "dumb"}, False),
    (True, {"CI": "1"}, False),
    (True, {"CI": ""}, True),
    (True, {"NO_COLOR": "1"}, False),
    (True, {"NO_COLOR": ""}, True),
    (False, {"FORCE_COLOR": "1"}, True),
    (False, {"FORCE_COLOR": "0"}, False),
    (False, {"FORCE_COLOR": ""}, False),
    (True, {"FORCE_COLOR": "0"}, True),
    (True, {"FORCE_COLOR": "1", "CI": "1", "TERM": "dumb"}, True),
    (True, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
]


@pytest.mark.parametrize(("terminal", "environment", "colour"), COLOURS)
def test_colours(terminal: bool, environment: dict[str, str], colour: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Stream(terminal))
    assert printing.screen() == Screen(100, colour, ascii_only=False)


@pytest.mark.parametrize(
    ("encoding", "ascii_only"),
    [("utf-8", False), ("UTF-16", False), ("cp65001", False), ("cp1252", True), ("ascii", True), (None, True)],
)
def test_only_unicode_has_all_characters(
    encoding: str | None, ascii_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", Stream(is_terminal=False, encoding=encoding))
    assert printing.screen().ascii_only is ascii_only


WATCHED = [
    (Stream(is_terminal=True), "", True),
    (Stream(is_terminal=True), "true", False),
    (Stream(is_terminal=False), "", False),
    (None, "", False),
]


@pytest.mark.parametrize(("stderr", "ci", "watched"), WATCHED)
def test_a_person_watches_a_terminal_that_is_not_of_a_ci_job(
    stderr: Stream | None, ci: str, watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setenv("CI", ci)
    assert printing.is_watched() is watched


# --- how far reading is ----------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as `clock[0]`."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def terminals(monkeypatch: pytest.MonkeyPatch) -> tuple[Stream, Stream]:
    """Let stdout and stderr be terminals, and return them."""
    out, err = Stream(is_terminal=True), Stream(is_terminal=True)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    return out, err


def watcher() -> Callable[[str, int, int], None]:
    found = inputs._watcher.get()
    assert found is not None
    return found


def test_reading_is_shown_after_a_second_and_then_ten_times_a_second(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = terminals(monkeypatch)
    shown = []
    with printing.progress():
        for at, read in ((100.0, 1), (100.99, 2), (101.0, 3), (101.09, 4), (101.1, 5), (101.15, 6)):
            clock[0] = at
            watcher()("a.log", read, 10)
            shown.append(err.getvalue().count("reading"))
    assert shown == [0, 0, 1, 1, 2, 2]
    assert err.getvalue() == f"\rreading 30% of a.log\x1b[K\rreading 50% of a.log\x1b[K{CLEARED}"
    assert out.getvalue() == ""


def test_a_pipe_has_no_size_and_a_long_name_fits_into_the_line(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out, err = terminals(monkeypatch)
    with printing.progress():
        clock[0] = 110.0
        watcher()("n" * 99, 5 << 20, 0)
    line = "reading 5 MiB of " + "n" * 99
    assert (out.getvalue(), err.getvalue()) == ("", f"\r{line[:59]}\x1b[K{CLEARED}")  # one column is for the cursor


def test_a_fast_command_draws_nothing_even_if_it_fails(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = terminals(monkeypatch)
    with printing.progress():
        watcher()("a.log", 1, 10)
    with suppress(ValueError), printing.progress():
        watcher()("a.log", 1, 10)
        raise ValueError("bad")
    assert out.getvalue() == err.getvalue() == ""


def test_a_ci_job_is_shown_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminals(monkeypatch)
    monkeypatch.setenv("CI", "true")
    with printing.progress():
        assert inputs._watcher.get() is None


LINES: list[tuple[float, float | None, str]] = [
    (0.4, None, "run 1: 0 s so far"),
    (99.4, None, "run 1: 99 s so far"),
    (99.9, None, "run 1: 100 s so far"),
    (100.0, None, "run 1: 2 min so far"),
    (3029.0, None, "run 1: 50 min so far"),
    (5969.0, None, "run 1: 99 min so far"),
    (5971.0, None, "run 1: 1.7 h so far"),
    (12.0, 42.0, "run 1: 12 s so far, at most 30 s left"),
    (12.0, 10.0, "run 1: 12 s so far, at most 0 s left"),
]


@pytest.mark.parametrize(("spent", "left", "line"), LINES)
def test_the_line_of_a_measurement(spent: float, left: float | None, line: str) -> None:
    assert printing.line("run 1", spent, left) == line


def test_a_measurement_is_shown_each_second_until_it_ends(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    ends: list[bool] = []
    drawing = threading.Event()

    class Ended(threading.Event):
        """The third wait is over when the measurement ends, and after it one line more is drawn."""

        def wait(self, timeout: float | None = None) -> bool:
            if timeout is None:  # a thread that starts
                return super().wait()
            waits.append(timeout)
            clock[0] += 1
            if len(waits) == 3:
                drawing.set()
                ends.append(super().wait(2))
                time.sleep(0.05)
            return len(waits) == 4

    out, err = terminals(monkeypatch)
    threads: list[threading.Thread] = []

    class Thread(threading.Thread):
        def start(self) -> None:
            threads.append(self)
            super().start()

    monkeypatch.setattr(threading, "Event", Ended)
    monkeypatch.setattr(threading, "Thread", Thread)
    with suppress(KeyboardInterrupt), printing.shown("run 1", 9.0):
        assert drawing.wait(10)
        raise KeyboardInterrupt
    lines = [f"\rrun 1: {at} s so far, at most {9 - at} s left\x1b[K" for at in range(4)]
    assert err.getvalue() == "".join([*lines, CLEARED])
    assert (waits, ends, [one.daemon for one in threads]) == ([1.0] * 4, [True], [True])
    assert out.getvalue() == ""


# --- reports ---------------------------------------------------------------------------------------------------------


class Judged:
    """A report, of which only the exit code is used."""

    exit_code = 1


@pytest.fixture
def renderers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Reporters whose texts are their names."""
    from perfgate.reporters import RENDERERS

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(RENDERERS, "json", lambda _: "json→")
    monkeypatch.setitem(RENDERERS, "html", lambda _: "html→")
    monkeypatch.setattr("perfgate.reporters.terminal.render", lambda _, **how: f"\x1b[1mterminal {how['width']}")
    monkeypatch.setattr("perfgate.reporters.github.render", lambda _: "::error::x\n")
    monkeypatch.setattr("perfgate.reporters.markdown.render", lambda _, limit: f"markdown {limit > 1000}")


def publish(outputs: dict[str, str], *, github: bool = False) -> int:
    report: Any = Judged()
    return printing.publish(report, Publication(outputs, github=github, quiet=False, verbose=False))


TERMINAL, NOTE = "\x1b[1mterminal 100\n", "::error::x\n"
PUBLISHED = [
    # outputs, github, the exit code, stdout, stderr, the files
    ({}, False, 1, TERMINAL, "", {}),
    ({"json": "r.json"}, False, 1, TERMINAL, "", {"r.json": "json→"}),
    ({"json": "-"}, False, 1, "json→", "", {}),
    ({"json": "-", "html": "r.html"}, False, 1, "json→", "", {"r.html": "html→"}),
    ({"json": "no/r.json"}, False, 2, TERMINAL, "error: the json report could not be written to no/r.json", {}),
    ({}, True, 1, TERMINAL + NOTE, "", {}),
    ({"json": "-"}, True, 1, "json→", NOTE, {}),
]


@pytest.mark.usefixtures("renderers")
@pytest.mark.parametrize(("outputs", "github", "code", "out", "err", "files"), PUBLISHED)
def test_reports_go_where_they_are_wanted(
    outputs: dict[str, str],
    github: bool,
    code: int,
    out: str,
    err: str,
    files: dict[str, str],
    tmp_path: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert publish(outputs, github=github) == code
    found = capsys.readouterr()
    assert found.out == out
    assert found.err.startswith(err)
    assert bool(found.err) == bool(err)
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == files


@pytest.mark.usefixtures("renderers")
def test_a_report_that_ends_its_last_line_ends_once(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setattr("perfgate.reporters.terminal.render", lambda _, **how: "done\n")
    publish({})
    assert capsys.readouterr().out == "done\n"


@pytest.mark.usefixtures("renderers")
@pytest.mark.parametrize(
    ("name", "warning"), [("summary.md", ""), ("no/summary.md", "warning: the step summary could")]
)
def test_the_summary_of_a_step(
    name: str, warning: str, tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", name)
    assert publish({}, github=True) == 1
    assert capsys.readouterr().err.startswith(warning)
    written = tmp_path / name
    assert (written.read_text() if written.exists() else "") == ("" if warning else "markdown True")
