"""A program is ended with all that it started, whenever the signal comes."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from perfgate.measuring.programs import Program, Stopped, stopped_by_signals


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
