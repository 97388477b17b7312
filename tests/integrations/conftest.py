"""What the tests of integrations share: this process is alone, and runs where nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from perfgate.app.inputs import read_runs
from perfgate.model import Run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, in a job of one process without a GPU."""
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def recorded() -> Callable[[str], Run]:
    """Read the one run of a file."""

    def read(path: str) -> Run:
        (run,) = read_runs([path])
        return run

    return read
