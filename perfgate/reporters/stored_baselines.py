"""The text of `baseline list` and `baseline show`."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core import CalibratedPrior
from perfgate.core.summaries import LevelSummary, PriorSummary, StoredRunSummary
from perfgate.core.wording import listed, one_line, plural, without_commands
from perfgate.reporters.inspection import render_text

#: The largest number of metrics in one line.
_SHOWN = 4


def render_priors(found: Sequence[PriorSummary], *, in_full: bool = False) -> list[str]:
    """Return a line per file of calibrated noise, and with `in_full` also a line per metric."""
    lines = []
    for one in found:
        lines.append(one_line(f"{one.place}: noise of {plural(len(one.priors), 'metric')}, measured {one.time[:10]}"))
        lines += [f"  {prior_line(prior)}" for prior in one.priors] if in_full else []
    return lines


def prior_line(prior: CalibratedPrior) -> str:
    """Return a prior as a line: metric, statistic, rank, noise, number of runs and prior degrees of freedom."""
    ranks = {"worst": "", "each": " on each rank", "across": " across ranks"}  # `worst` is the default
    rank = ranks.get(prior.rank, f" on the {prior.rank} rank")
    unit = "pair" if prior.pairing else "run"
    noise = f"{100 * prior.s0:.3g}% from {unit} to {unit}"
    basis = f"measured on {plural(prior.runs, unit)}, prior degrees of freedom {prior.d0:g}"
    return one_line(f"{prior.key} {prior.statistic}{rank}: {noise} ({basis})")


def render_levels(levels: Sequence[LevelSummary]) -> str:
    """Return the levels, oldest first: the place, the runs, who approved it and why, and the changes."""
    lines = [line for level in levels for line in (_level(level), *_changes(level))]
    return without_commands("\n".join(lines)) or "no baselines are stored"


def _changes(level: LevelSummary) -> list[str]:
    """Return the metrics with the largest changes, since the level before and since the anchor."""
    lines = []
    for words, changes in (("changed", level.since_parent), ("since the anchor", level.since_anchor)):
        order = sorted(changes, key=lambda key: (-abs(changes[key]), key))
        moves = listed([f"{key} {100 * changes[key]:+.1f} %" for key in order], _SHOWN)
        lines += [one_line(f"    {words}: {moves}")] if moves else []
    return lines


def _level(level: LevelSummary) -> str:
    when = level.first[:10] if level.first[:10] == level.last[:10] else f"{level.first[:10]} to {level.last[:10]}"
    request = f" in #{level.pr}" if level.pr else ""
    mark = (", current" if level.current else "") + (", the anchor" if level.anchor else "")
    mark += f", adopts {', '.join(level.adopts)}" if level.adopts else ""
    return one_line(
        f"{level.place}: {plural(level.runs, 'run')}{mark}, {when}, approved by {level.by}{request}: {level.reason}"
    )


def render_runs(runs: Sequence[StoredRunSummary], *, ascii_only: bool = False) -> str:
    """Return each stored run with its environment, the statistics of its metrics, its decision and its files."""
    texts = []
    for run in runs:
        lines = [render_text([run.run], ascii_only=ascii_only)]
        if run.left_out:
            lines.append(f"left out, because there was no room: {plural(run.left_out, 'metric')} with the least time")
        lines.append(_level(run.level))
        lines += [one_line(f"read from {file.path} (sha256 {file.sha256[:12]})") for file in run.files]
        texts.append("\n".join(lines) + "\n")
    return without_commands("\n".join(texts))
