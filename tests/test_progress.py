"""The line on a terminal that says how far reading is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, steady, write_log

Command = Callable[..., Done]


@pytest.fixture
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which two seconds pass whenever it is read."""
    ticks = iter(range(0, 10**6, 2))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(ticks)))


@pytest.mark.usefixtures("slow_clock")
def test_a_terminal_sees_how_far_reading_is(perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(folder / "new.log", forward=steady(100))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    done = perfgate("inspect", "new.log")
    assert done.err.startswith("\rreading 100% of new.log\x1b[K")
    assert done.err.endswith("\r\x1b[K")
    assert "reading" not in done.out


@pytest.mark.usefixtures("slow_clock")
def test_nobody_else_sees_it(perfgate: Command, folder: Path) -> None:
    write_log(folder / "new.log", forward=steady(100))
    assert perfgate("inspect", "new.log").err == ""
