"""A program is ended with all that it started, whenever the signal comes."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perfgate.measuring.kept_runs import ProgramSide
from perfgate.measuring.paired_run import whole_runs
from perfgate.measuring.programs import Program, Stopped, stopped_by_signals
from perfgate.measuring.until_settled import MeasuringOptions


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_program_starts_leaves_no_process(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    class Signalled(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            started.append(self)
            signal.raise_signal(number)

    monkeypatch.setattr(subprocess, "Popen", Signalled)
    before = signal.getsignal(number)
    with stopped_by_signals() as seen, pytest.raises(Stopped):
        Program(("sleep", "60"), Path.cwd(), {})
    assert [one.exit_code for one in seen] == [128 + number]
    assert [one.returncode for one in started] == [-signal.SIGTERM]
    assert signal.getsignal(number) == before


def test_a_signal_before_a_program_starts_starts_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "open", lambda *_: signal.raise_signal(signal.SIGTERM))
    with stopped_by_signals() as seen, pytest.raises(Stopped):
        Program(("sleep", "60"), Path.cwd(), {}, tmp_path / "log")
    assert [one.exit_code for one in seen] == [128 + signal.SIGTERM]


def test_the_users_variables_stay_in_a_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KMP_BLOCKTIME", raising=False)
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "30")
    words = ("sh", "-c", "echo $KMP_BLOCKTIME $OPENBLAS_THREAD_TIMEOUT")
    sides = {"base": ProgramSide(words), "new": ProgramSide(words, environment={"KMP_BLOCKTIME": "200"})}
    found = whole_runs(tmp_path / "pair", sides, 1, MeasuringOptions(), print)
    assert {name: path.read_text() for name, path in found.items()} == {"base": "1 30\n", "new": "200 30\n"}
