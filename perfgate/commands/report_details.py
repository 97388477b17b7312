"""The details of a report: the runs behind its verdicts, and the approvals and machines of the base."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from perfgate.baselines.repository import LoadedBaseline
from perfgate.core import Fact, Run, Verdict, fact_text
from perfgate.core.details import LevelDetails, MachineChannel, ReportDetails, VerdictDetails
from perfgate.core.wording import is_machine_metric
from perfgate.judge.breakdown import breakdown, movers
from perfgate.judge.details import within_budget
from perfgate.judge.sweeps import sweep_curves

#: How many older runs, and how many levels, a report shows.
MOST_PAST = 50


def collected(
    verdicts: Sequence[Verdict],
    found: Sequence[VerdictDetails],
    base: Sequence[Run],
    new: Sequence[Run],
    history: Sequence[LevelDetails] = (),
    metrics: Collection[str] = (),
    lost_time: float = 1.0,
) -> ReportDetails:
    """Return the details of a report, within its size limit.

    Parameters
    ----------
    metrics: the metrics whose curves are kept, if the runs are a load sweep.
    lost_time: the smallest share of lost time that a rule doubts.
    """
    kept, left_out = within_budget(verdicts, found)
    facts = merged_facts(run.environment for run in base)
    curves = sweep_curves(metrics, base, new)
    parts, moved = breakdown(base, new), movers(base, new)
    machine = _machine(base, new, lost_time)
    return ReportDetails(kept, left_out, tuple(history), facts, parts, moved, curves, machine)


def _machine(base: Sequence[Run], new: Sequence[Run], lost_time: float) -> tuple[MachineChannel, ...]:
    if not any(is_machine_metric(series.key.metric) for run in new for series in run.series):
        return ()
    from perfgate.judge.machine_channels import machine_channels

    return machine_channels(base, new, lost_time)


def merged_facts(environments: Iterable[Mapping[str, Fact]]) -> dict[str, Fact]:
    """Return the facts of several runs or reports, sorted by name; a fact that differs has all its values."""
    values: dict[str, dict[str, Fact]] = {}
    for environment in environments:
        for name, fact in environment.items():
            values.setdefault(name, {}).setdefault(fact_text(fact), fact)
    return {
        name: next(iter(facts.values())) if len(facts) == 1 else ", ".join(facts)
        for name, facts in sorted(values.items())
    }


def past_runs(loaded: LoadedBaseline) -> tuple[Run, ...]:
    """Return the stored runs that new ones are not compared with, oldest first."""
    compared = {run.source for run in loaded.baseline.runs}
    stored = sorted((run for runs in loaded.history.levels.values() for run in runs), key=lambda run: run.age)
    older = [run for run in stored if run.path not in compared]
    return tuple(run.run for run in older[-MOST_PAST:])


def levels(loaded: LoadedBaseline) -> tuple[LevelDetails, ...]:
    """Return the approvals of the stored levels, oldest first."""
    place = loaded.baseline.place or ""
    found = []
    for name, runs in list(loaded.history.levels.items())[-MOST_PAST:]:
        level, paths = runs[0].head.level, tuple(run.path for run in runs)
        current = place.rpartition("/")[2] == name
        date = runs[0].head.time[:10]
        found.append(LevelDetails(name, level.by, level.reason, date, paths, level.pr, level.anchor, current))
    return tuple(found)
