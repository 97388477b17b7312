"""Stored baselines for people: `baseline list` and `baseline show`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.model import RunSummary, SourceFile
from perfgate.reporters.inspection import render_text
from perfgate.reporters.text import one_line, without_commands


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """One level: where it is, how many runs it holds from when to when, and the decision that opened it."""

    place: str
    runs: int
    first: str
    last: str
    by: str
    reason: str
    pr: int | None
    anchor: bool


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """One stored run, the level it belongs to, and the files it was read from."""

    run: RunSummary
    level: LevelSummary
    files: tuple[SourceFile, ...]


def render_levels(levels: Sequence[LevelSummary]) -> str:
    """One line a level, oldest first: where, how many runs, who approved it, and why."""
    return without_commands("\n".join(_level(level) for level in levels)) or "no baselines are stored"


def _level(level: LevelSummary) -> str:
    count = "1 run" if level.runs == 1 else f"{level.runs} runs"
    when = level.first[:10] if level.first[:10] == level.last[:10] else f"{level.first[:10]} to {level.last[:10]}"
    request = f" in #{level.pr}" if level.pr else ""
    mark = ", the anchor" if level.anchor else ""
    return one_line(f"{level.place}: {count}{mark}, {when}, approved by {level.by}{request}: {level.reason}")


def render_runs(runs: Sequence[StoredSummary], *, ascii_only: bool = False) -> str:
    """Each stored run with its decision, its environment and the statistics of its metrics."""
    return without_commands("\n".join(_run(run, ascii_only) for run in runs))


def _run(stored: StoredSummary, ascii_only: bool) -> str:
    files = [one_line(f"read from {file.path} (sha256 {file.sha256[:12]})") for file in stored.files]
    return "\n".join([render_text([stored.run], ascii_only=ascii_only), _level(stored.level), *files]) + "\n"
