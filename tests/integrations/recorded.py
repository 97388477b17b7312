"""Helpers that the tests of the integrations share."""

from __future__ import annotations

from pathlib import Path

from perfgate.core import Run
from perfgate.workspace.inputs import read_runs


def recorded(path: str | Path = "results.json") -> Run:
    """Read the one run of a file."""
    (run,) = read_runs([str(path)])
    return run
