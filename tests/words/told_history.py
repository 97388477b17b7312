"""The sentences of the history of a metric; one case for each branch."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan

import numpy as np
from msgspec.structs import replace
from said import Said, say

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
from perfgate.words import history_words

COMMITS = [f"{at:02}c0ffee{at:02}" for at in range(16)]
LINE = CommitLine.of(
    "main", [CommitNote(commit, "2026-01-01T09:00:00Z", "ada", f"Change {at}") for at, commit in enumerate(COMMITS)]
)
RUNS = tuple(
    HistoryRun(commit, f"2026-01-{1 + at:02}T10:00:00Z", commit, "main", (), {"host": f"node{at % 2}"})
    for at, commit in enumerate(COMMITS)
)


def change(at: int, before: float, after: float) -> HistoryChange:
    """A change that is surely in the commit of the run `at`."""
    by = after / before - 1
    point = ChangePoint(at, by, by - 0.01, by + 0.01, 0.999, before, after, at, at, after > before)
    return HistoryChange(point, RUNS[at], RUNS[at - 1], RUNS[at], 1, None, None, ())


WORSE = change(4, 0.1, 0.11)
BETTER = change(4, 0.11, 0.1)
APPROVED = replace(
    WORSE, approval=ApprovedLevel("1", RUNS[7].time, None, "carol", "rotary embeddings", 7, (), is_first=False)
)
CHANGES: dict[str, HistoryChange] = {
    "worse": WORSE,
    "better": BETTER,
    "neither": replace(WORSE, point=replace(WORSE.point, worse=None)),
    "unsure": replace(WORSE, point=replace(WORSE.point, probability=0.83)),
    "approved": APPROVED,
    "machine": replace(WORSE, facts=(("driver", "570.86", "580.65"),)),
    "went away": replace(WORSE, went_away=RUNS[9]),
    "several commits": replace(WORSE, commits=4, first_bad=RUNS[7]),
    "unknown commits": replace(WORSE, commits=None),
    "one commit": replace(WORSE, last_good=RUNS[4]),
    "no commit": replace(WORSE, last_good=replace(RUNS[3], commit=None)),
}


def series(*changes: HistoryChange, values: tuple[float, ...] = (0.1,) * 16, noise: float = 0.003) -> HistorySeries:
    """A metric with these values and changes."""
    numbers, runs = np.array(values), RUNS[: len(values)]
    about = ("gpt", "h200", SeriesName(Key("forward"), "median"), "s", "lower", "samples")
    return HistorySeries(*about, runs, *(numbers,) * 4, changes, 0, noise)  # type: ignore[arg-type]


CREEP = [change(at, 0.1 * 1.1**number, 0.1 * 1.1 ** (number + 1)) for number, at in enumerate((2, 6, 10))]
SERIES: dict[str, HistorySeries] = {
    "steady": series(),
    "few runs": series(values=(0.1,) * 3),
    "newest apart": series(values=(*(0.1,) * 15, 0.12)),
    "newest three apart": series(values=(*(0.1,) * 13, *(0.08,) * 3)),
    "one change": series(WORSE),
    "creep": series(*CREEP),
    "a better one last": series(WORSE, change(9, 0.11, 0.1)),
    "two, the last approved": series(WORSE, replace(APPROVED, point=replace(APPROVED.point, index=9))),
}
PLACE = EnvironmentHistory("gpt", "h200", {"gpu": "H200", "world_size": 8}, RUNS, (series(WORSE),), (), ())
DAMAGED = Problem("error", "is damaged", Location("x.json"))


def of_the_history() -> Iterator[Said]:
    """Yield the words of words/history_words."""
    yield say(history_words.about, "", PLACE)
    yield say(history_words.about, "nothing known", replace(PLACE, identity={"gpu": None}, runs=()))
    yield say(history_words.identity, "", PLACE)
    yield say(history_words.days, "", RUNS)
    for case, problems in {"complete": (), "one file": (DAMAGED, DAMAGED)}.items():
        yield say(history_words.incomplete, case, LoadedHistory((PLACE,), problems))
    yield say(history_words.level_now, "", series(WORSE))
    yield say(history_words.level_now, "no runs", series(values=()))
    yield say(history_words.noise, "", series())
    yield say(history_words.noise, "unknown", series(noise=nan))
    for case, one in SERIES.items():
        yield say(history_words.summary, case, one)
        yield say(history_words.creeping, case, one)
    for case in ("steady", "newest apart", "newest three apart"):
        yield say(history_words.newest_apart, case, SERIES[case])
    for case, found in CHANGES.items():
        yield say(history_words.sentences, case, found, series(found), None)
    yield say(history_words.search, "one commit", series(WORSE))
    several = CHANGES["several commits"]
    yield say(history_words.search, "several commits", series(several))
    yield say(history_words.search, "a later change", series(several, replace(WORSE, approval=APPROVED.approval)))
    yield say(history_words.often_changed, "", PLACE)
    yield say(history_words.often_changed, "no changes", replace(PLACE, series=(series(),)))
    yield say(history_words.commits, "author", WORSE, LINE)
    yield say(history_words.commits, "likely", replace(several, likely=RUNS[5]), LINE)
    for case in ("worse", "better", "approved", "went away"):
        yield say(history_words.is_open, case, CHANGES[case])
    yield say(history_words.interval, "", WORSE.point)
    yield say(history_words.doubt, "unsure", CHANGES["unsure"])
    yield say(history_words.levels, "", WORSE, series(WORSE))
    yield say(history_words.circumstances, "", CHANGES["machine"])
