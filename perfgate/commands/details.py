"""The evidence of a report: the runs behind its verdicts, and the decisions and machines behind the runs."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.baselines.repository import LoadedBaseline
from perfgate.core import Fact, Run, Verdict, fact_text
from perfgate.core.details import LevelDetails, ReportDetails, VerdictDetails
from perfgate.judge.breakdown import breakdown, movers
from perfgate.judge.details import within_budget

#: How many older runs, and how many levels, a report shows.
MOST_PAST = 50


def collected(
    verdicts: Sequence[Verdict],
    found: Sequence[VerdictDetails],
    base: Sequence[Run],
    new: Sequence[Run],
    history: Sequence[LevelDetails] = (),
) -> ReportDetails:
    """All that a report shows of the runs, within its budget."""
    kept, left_out = within_budget(verdicts, found)
    facts = _merged(base)
    return ReportDetails(kept, left_out, tuple(history), facts, breakdown(base, new), movers(base, new))


def _merged(runs: Sequence[Run]) -> dict[str, Fact]:
    """The facts of several runs; one that differs among them names all its values."""
    values: dict[str, dict[str, Fact]] = {}
    for run in runs:
        for name, fact in run.environment.items():
            values.setdefault(name, {})[fact_text(fact)] = fact
    single = {name: next(iter(facts.values())) for name, facts in values.items() if len(facts) == 1}
    return dict(sorted({**{name: ", ".join(facts) for name, facts in values.items()}, **single}.items()))


def past_runs(loaded: LoadedBaseline) -> tuple[Run, ...]:
    """The stored runs that new ones are not compared with, oldest first."""
    compared = {run.source for run in loaded.baseline.runs}
    stored = sorted((run for runs in loaded.history.levels.values() for run in runs), key=lambda run: run.age)
    older = [run for run in stored if run.path not in compared]
    return tuple(run.file.run(run.path) for run in older[-MOST_PAST:])


def levels(loaded: LoadedBaseline) -> tuple[LevelDetails, ...]:
    """The decisions behind the stored runs, oldest first."""
    place = loaded.baseline.place or ""
    found = []
    for name, runs in list(loaded.history.levels.items())[-MOST_PAST:]:
        level, paths = runs[0].file.level, tuple(run.path for run in runs)
        current = place.rpartition("/")[2] == name
        date = runs[0].file.time[:10]
        found.append(LevelDetails(name, level.by, level.reason, date, paths, level.pr, level.anchor, current))
    return tuple(found)
