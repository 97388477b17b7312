"""Everything that may go wrong in a command has its exit code and its message."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from conftest import Done, write_rules

from perfgate.cli import entry
from perfgate.cli.entry import VARIABLE
from perfgate.workspace.options import Refused


@contextmanager
def given_back() -> Iterator[None]:
    """A command may put another stdout in place of one that is broken."""
    before = sys.stdout
    try:
        yield
    finally:
        replaced, sys.stdout = sys.stdout, before
        if replaced not in (before, None):
            replaced.close()


ENDS = [
    # what a command does, the exit code, what stderr says
    (0, 0, ""),
    (1, 1, ""),
    (3, 3, ""),
    (None, 0, ""),
    (click.exceptions.Exit(0), 0, ""),
    (click.exceptions.Exit(3), 3, ""),
    (Refused("no such run"), 2, "error: no such run"),
    (Refused("no baseline", 3), 3, "error: no baseline"),
    (Refused("it is worse", 1), 1, "error: it is worse"),
    (click.UsageError("no such option"), 2, "Error: no such option"),
    (click.ClickException("bad value"), 2, "Error: bad value"),
    (click.Abort(), 130, ""),
    (KeyboardInterrupt(), 130, ""),
    (SystemExit(1), 2, ""),
    (SystemExit(0), 2, ""),
    (OSError(28, "No space left on device"), 2, "error: the output could not be written"),
    (BrokenPipeError(), 2, "error: the output could not be written"),
    (ValueError("a fault"), 4, "internal error: ValueError"),
    (MemoryError(), 3, "error: there is not enough memory"),
    (RecursionError(), 4, "internal error: RecursionError"),
]


@pytest.mark.parametrize(("does", "code", "said"), ENDS, ids=lambda value: repr(value)[:40])
def test_how_a_command_ends(
    does: Any, code: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(words: Any, name: str, variable: str, *, standalone_mode: bool) -> Any:
        assert (words, name, variable, standalone_mode) == (["check"], "perfgate", VARIABLE, False)
        if isinstance(does, BaseException):
            raise does
        return does

    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(entry.main, "main", command)
    with given_back():
        assert entry.run(["check"]) == code
    err = capsys.readouterr().err
    assert err.startswith(said)
    assert bool(err) == bool(said)


def test_words_are_those_of_the_process_unless_they_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry.main, "main", lambda words, *_, **__: 0 if words is None else 3)
    assert (entry.run(), entry.run([]), entry.run(["check"])) == (0, 3, 3)


def test_completion_ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def complete(*_: Any, **__: Any) -> None:
        raise SystemExit(1)

    monkeypatch.setattr(entry.main, "main", complete)
    monkeypatch.setenv(VARIABLE, "bash_complete")
    assert entry.run([]) == 0


def test_without_a_stdout_nobody_would_see_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry.main, "main", lambda *_, **__: 0)
    with given_back():
        sys.stdout = None  # type: ignore[assignment]
        assert entry.run([]) == 2


def test_what_cannot_be_flushed_was_not_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full:
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(entry.main, "main", lambda *_, **__: 0)
    with given_back():
        sys.stdout = Full()  # type: ignore[assignment]
        assert entry.run([]) == 2
        sys.stdout.flush()  # as the interpreter does at its end
    assert "No space left on device" in capsys.readouterr().err


def test_what_cannot_even_be_said_has_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: str) -> None:
        raise OSError(9, "Bad file descriptor")

    def refuse(*_: Any, **__: Any) -> None:
        raise Refused("no", 3)

    monkeypatch.setattr(entry, "tell", closed)
    monkeypatch.setattr(entry.main, "main", refuse)
    assert entry.run([]) == 3


def test_the_details_of_a_fault_are_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    def fault(*_: Any, **__: Any) -> None:
        raise ValueError("what \udce9 was wrong")

    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(entry.main, "main", fault)
    assert entry.run([]) == 4
    (kept,) = tmp_path.iterdir()
    assert str(kept) in capsys.readouterr().err
    assert re.fullmatch(r"perfgate-\w+\.txt", kept.name)
    assert "ValueError: what \\udce9 was wrong" in kept.read_text(encoding="utf-8")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    assert entry.run([]) == 4
    assert "its details could not be written anywhere" in capsys.readouterr().err


STOPPED = ["sh", "-c", "kill -{} $PPID; sleep 60"]
MEASURING = [
    # a command that measures a program, and the code in its report
    (["run", "--json", "r.json", "--"], 3),
    (["run", "--paired", "--base", "true", "--json", "r.json", "--"], 3),
    (["record", "--results", "results.json", "--"], None),
    (["doctor", "--"], None),
]


@pytest.mark.parametrize("signal", [(130, "INT"), (143, "TERM")], ids=["INT", "TERM"])
@pytest.mark.parametrize(("words", "in_report"), MEASURING, ids=lambda value: repr(value)[:12])
def test_a_signal_while_a_program_is_measured(
    perfgate: Callable[..., Done],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    in_report: int | None,
    signal: tuple[int, str],
) -> None:
    number, name = signal
    monkeypatch.setattr("perfgate.commands.doctor._IDLE_S", 0.01)
    write_rules(folder, "forward under 1 s")
    done = perfgate(*words, *(word.format(name) for word in STOPPED))
    assert (done.code, f"stopped by SIG{name}" in done.said) == (number, True), done.said
    if in_report is not None:
        assert json.loads((folder / "r.json").read_text())["exit_code"] == in_report
    assert not [path for path in folder.iterdir() if path.name.startswith("results.json")]
