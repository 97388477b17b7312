"""Stored baselines for people: `baseline list` and `baseline show`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from perfgate.core import CalibratedPrior, Key, RunSummary, SourceFile
from perfgate.core.wording import one_line, plural, without_commands
from perfgate.reporters.inspection import render_text

#: How many metrics a line of the ledger names.
_SHOWN = 4


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
    #: The metrics that the level adopts; empty means all.
    adopts: tuple[str, ...] = ()
    #: Whether new runs are compared with it.
    current: bool = False
    #: How its metrics differ from what it replaced and from the anchor, as shares.
    since_parent: Mapping[Key, float] = field(default_factory=dict)
    since_anchor: Mapping[Key, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """One stored run, the level it belongs to, and the files it was read from."""

    run: RunSummary
    level: LevelSummary
    files: tuple[SourceFile, ...]


@dataclass(frozen=True, slots=True)
class PriorSummary:
    """Calibrated noise of one environment: where it is stored, and when it was measured."""

    place: str
    time: str
    priors: tuple[CalibratedPrior, ...]


def render_priors(found: Sequence[PriorSummary], *, in_full: bool = False) -> list[str]:
    """One line for each file of calibrated noise, `in_full` with one for each metric."""
    lines = []
    for one in found:
        lines.append(one_line(f"{one.place}: noise of {plural(len(one.priors), 'metric')}, measured {one.time[:10]}"))
        lines += [f"  {prior_line(prior)}" for prior in one.priors] if in_full else []
    return lines


def prior_line(prior: CalibratedPrior) -> str:
    """A prior in words: `forward median: 2.31% from run to run (measured on 8 runs, worth 8)`."""
    ranks = {"worst": "", "each": " on each rank", "across": " across ranks"}
    rank = ranks.get(prior.rank, f" on the {prior.rank} rank")
    unit = "pair" if prior.pairing else "run"
    noise = f"{100 * prior.s0:.3g}% from {unit} to {unit} (measured on {plural(prior.runs, unit)}, worth {prior.d0:g})"
    return one_line(f"{prior.key} {prior.statistic}{rank}: {noise}")


def render_levels(levels: Sequence[LevelSummary]) -> str:
    """The history, oldest first: where, how many runs, who approved it and why, and what it changed."""
    lines = [line for level in levels for line in (_level(level), *_ledger(level))]
    return without_commands("\n".join(lines)) or "no baselines are stored"


def _ledger(level: LevelSummary) -> list[str]:
    """What a level changed, and the total since the anchor: the metrics that moved most."""
    rows = [("changed", level.since_parent), ("since the anchor", level.since_anchor)]
    return [one_line(f"    {words}: {_moves(changes)}") for words, changes in rows if changes]


def _moves(changes: Mapping[Key, float]) -> str:
    order = sorted(changes, key=lambda key: (-abs(changes[key]), key))
    moves = [f"{key} {100 * changes[key]:+.1f} %" for key in order[:_SHOWN]]
    return ", ".join(moves) + (f" and {len(order) - _SHOWN} more" if len(order) > _SHOWN else "")


def _level(level: LevelSummary) -> str:
    count = "1 run" if level.runs == 1 else f"{level.runs} runs"
    when = level.first[:10] if level.first[:10] == level.last[:10] else f"{level.first[:10]} to {level.last[:10]}"
    request = f" in #{level.pr}" if level.pr else ""
    mark = (", current" if level.current else "") + (", the anchor" if level.anchor else "")
    mark += f", adopts {', '.join(level.adopts)}" if level.adopts else ""
    return one_line(f"{level.place}: {count}{mark}, {when}, approved by {level.by}{request}: {level.reason}")


def render_runs(runs: Sequence[StoredSummary], *, ascii_only: bool = False) -> str:
    """Each stored run with its decision, its environment and the statistics of its metrics."""
    return without_commands("\n".join(_run(run, ascii_only) for run in runs))


def _run(stored: StoredSummary, ascii_only: bool) -> str:
    files = [one_line(f"read from {file.path} (sha256 {file.sha256[:12]})") for file in stored.files]
    return "\n".join([render_text([stored.run], ascii_only=ascii_only), _level(stored.level), *files]) + "\n"
