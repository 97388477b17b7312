"""The details of a report: the runs behind its verdicts, the approvals and machines of the base, and the causes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from perfgate.baselines.repository import LoadedBaseline
from perfgate.causes.find import find_causes
from perfgate.causes.merged import without_stalls
from perfgate.causes.table_trees import trees_of_runs
from perfgate.core import Fact, Location, Problem, Run, Verdict, fact_text
from perfgate.core.causes import CauseReport
from perfgate.core.details import LevelDetails, MachineChannel, ReportDetails, VerdictDetails
from perfgate.core.wording import is_machine_metric
from perfgate.judge.breakdown import breakdown, movers
from perfgate.judge.derived import component_names
from perfgate.judge.details import sweep_curves, within_budget
from perfgate.judge.evidence import Case
from perfgate.judge.subjects import name_of
from perfgate.rules.syntax.sentence import Selector
from perfgate.words.steps import complete_base, sources_of


def causes_of(
    base: Sequence[Run],
    new: Sequence[Run],
    verdicts: Sequence[Verdict] = (),
    components: Mapping[str, Collection[str]] | None = None,
    metrics: Sequence[str] = (),
    *,
    paired: bool = False,
) -> CauseReport | None:
    """Return the causes of the change, with the verdicts that each explains; None if a side has no trees to align.

    `components`: the metrics in the derived metrics of verdicts. `metrics`: those that changed without a rule.
    `paired`: run i of both sides took its steps by turns; stalled steps stay then. A `partial` base run, whose other
    metrics come from another level, counts only if it has the time of the step.
    """
    whole = [run for run in base if not run.partial or any(one.key.metric == "step.time" for one in run.series)]
    devices = [{run.environment["gpu"] for run in side if "gpu" in run.environment} for side in (base, new)]
    other = bool(devices[0] and devices[1] and devices[0] != devices[1])
    first: CauseReport | None = None  # of the trees that tell most, if none shows a cause
    for sides in trees_of_runs(whole, new, paired=paired):
        kept, notes = (sides, ()) if paired else without_stalls(sides)
        found = find_causes(
            *kept, other_device=other, verdicts=verdicts, components=components, metrics=metrics, paired=paired
        )
        found = replace(found, notes=(*notes, *found.notes))
        if found.causes:
            return found
        first = first or found
    return first


def explained(
    case: Case, verdicts: tuple[Verdict, ...], metrics: Sequence[str] = ()
) -> tuple[CauseReport | None, list[Problem]]:
    """Return the causes of a case, and a warning if its stored traces have no trees. `metrics`: as in `causes_of`."""
    base, ruleset = case.baseline, case.ruleset
    components: dict[str, Collection[str]] = {}  # of derived metrics and expressions, by the name of their verdicts
    for rule in ruleset.rules:
        subject = rule.sentence.subject
        if not isinstance(subject, Selector) or subject.pattern in ruleset.metrics:
            name = name_of(subject, rule.sentence.subject_text)
            components[name] = component_names(subject, ruleset.metrics) - {name}
    found = causes_of(base.runs, case.new, verdicts, components, metrics)
    if not any(run.call_trees for run in case.new):
        return found, []
    if found is not None or base.place is None or not any("torch-trace" in run.format for run in base.runs):
        return found, []
    step = complete_base(case.accept, sources_of(base.runs))
    message = f"no causes: the stored runs have no call tree; to give them one, {step.text}: {step.command}"
    return None, [Problem("warning", message, Location(base.place))]


#: The most older runs, and the most levels, that a report shows.
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

    `found`: the runs behind each verdict. `history`: the stored levels. `metrics`: the metrics whose curves are kept
    if the runs are a load sweep. `lost_time`: the smallest share of lost time that a rule doubts.
    """
    kept, left_out = within_budget(verdicts, found)
    facts = merged_facts(run.environment for run in base)
    curves = sweep_curves(metrics, base, new)
    parts, moved = breakdown(base, new), movers(base, new)
    machine: tuple[MachineChannel, ...] = ()
    if any(is_machine_metric(series.key.metric) for run in new for series in run.series):
        from perfgate.judge.machine_channels import machine_channels

        machine = machine_channels(base, new, lost_time)
    return ReportDetails(kept, left_out, tuple(history), facts, parts, moved, curves, machine)


def merged_facts(environments: Iterable[Mapping[str, Fact]]) -> dict[str, Fact]:
    """Return the facts of several runs or reports, sorted by name. A fact that differs lists all its values."""
    values: dict[str, dict[str, Fact]] = {}
    for environment in environments:
        for name, fact in environment.items():
            values.setdefault(name, {}).setdefault(fact_text(fact), fact)
    return {
        name: next(iter(facts.values())) if len(facts) == 1 else ", ".join(facts)
        for name, facts in sorted(values.items())
    }


def past_runs(loaded: LoadedBaseline) -> tuple[Run, ...]:
    """Return the newest 50 of the stored runs that new ones are not compared with, oldest first."""
    compared = {run.source for run in loaded.baseline.runs}
    stored = sorted((run for runs in loaded.history.levels.values() for run in runs), key=lambda run: run.age)
    older = [run for run in stored if run.path not in compared]
    return tuple(run.run for run in older[-MOST_PAST:])


def levels(loaded: LoadedBaseline) -> tuple[LevelDetails, ...]:
    """Return the approvals of the newest 50 stored levels, oldest first."""
    place = loaded.baseline.place or ""
    found = []
    for name, runs in list(loaded.history.levels.items())[-MOST_PAST:]:
        level, paths = runs[0].head.level, tuple(run.path for run in runs)
        current = place.rpartition("/")[2] == name
        date = runs[0].head.time[:10]
        found.append(LevelDetails(name, level.by, level.reason, date, paths, level.pr, level.anchor, current))
    return tuple(found)
