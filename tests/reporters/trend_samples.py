"""A small history for the page of trends: a change that nobody approved, one that is approved, and a steady metric."""

from __future__ import annotations

from itertools import pairwise
from math import nan

import numpy as np
from msgspec.structs import replace

from perfgate.core import Key, Location, Problem
from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun, SeriesName
from perfgate.core.run_history import (
    ApprovedLevel,
    ChangePoint,
    EnvironmentHistory,
    HistoryChange,
    HistorySeries,
    LoadedHistory,
)

COMMITS = [f"{number:02}c0ffee{number:02}" + "0" * 30 for number in range(16)]
LINE = CommitLine.of(
    "main",
    [
        CommitNote(commit, f"2026-01-{1 + at:02}T09:00:00Z", "ada", f"Change {at}", ("v1.1",) if at == 6 else ())
        for at, commit in enumerate(COMMITS)
    ],
)
RUNS = tuple(
    HistoryRun(
        f"run{at}",
        f"2026-01-{1 + at:02}T10:00:00Z",
        commit,
        "main",
        ("v1.0",) if at == 2 else (),
        {"driver": "580.65" if at >= 10 else "570.86", "host": f"node{at % 3}"},
    )
    for at, commit in enumerate(COMMITS)
)
#: The offsets of the runs from their level, in percent.
OFFSETS = (0.2, -0.3, 0.1, 0.4, -0.1, -0.4, 0.3, 0, 0.1, -0.2, 0.2, -0.1, 0.3, -0.3, 0.1, 0)


def series(
    metric: str, *levels: tuple[int, float], unit: str = "s", runs: tuple[HistoryRun, ...] = RUNS
) -> HistorySeries:
    """A metric with levels, each given as its first run and its value; each change is one point."""
    values = [
        next(level for start, level in reversed(levels) if at >= start) * (1 + OFFSETS[at % 16] / 100)
        for at in range(len(runs))
    ]
    numbers = np.array(values)
    changes = tuple(change(runs, start, before, after) for (_, before), (start, after) in pairwise(levels))
    name = SeriesName(Key(metric), "median")
    columns = (numbers, 0.002 * numbers, numbers * 0 + 50, numbers * 0 + 60)
    return HistorySeries("gpt", "h200-1234", name, unit, "lower", "samples", runs, *columns, changes, 0, 0.003)


def change(runs: tuple[HistoryRun, ...], at: int, before: float, after: float) -> HistoryChange:
    """A change that is surely in the commit of the run `at`."""
    by = after / before - 1
    point = ChangePoint(at, by, by - 0.01, by + 0.01, 0.999, before, after, at, at, after > before)
    facts = (("driver", "570.86", "580.65"),) if at == 10 else ()
    return HistoryChange(point, runs[at], runs[at - 1], runs[at], 1, None, None, facts)


APPROVAL = ApprovedLevel("1", RUNS[7].time, COMMITS[6], "carol", "rotary embeddings", 7, (), False)


def history(*found: HistorySeries, **about: object) -> LoadedHistory:
    """A history of one environment with these metrics."""
    names = tuple(one.name.key.metric for one in found)
    place = EnvironmentHistory("gpt", "h200-1234", {"gpu": "H200", "world_size": 8}, RUNS, found, (), names)
    return LoadedHistory((replace(place, **about),), (), LINE)  # type: ignore[arg-type]


def approved(one: HistorySeries) -> HistorySeries:
    """The metric with its first change approved."""
    return replace(one, changes=(replace(one.changes[0], approval=APPROVAL), *one.changes[1:]))


def went_away(one: HistorySeries) -> HistorySeries:
    """The metric whose first change went away with its second."""
    back = one.changes[1].likely
    return replace(one, changes=(replace(one.changes[0], went_away=back), *one.changes[1:]))


SMALL = replace(
    history(
        approved(series("forward", (0, 0.1), (6, 0.11))),
        series("backward", (0, 0.2), (10, 0.21)),
        replace(series("loading", (0, 0.05)), noise=nan),
        went_away(series("memory", (0, 8e9), (4, 9e9), (8, 8e9), unit="B")),
    ),
    problems=(Problem("error", "is damaged: its hash is another one", Location("baselines/_history/gpt/x.json")),),
)
