"""The causes of the verdicts of a command: what changed between the call trees of the base and the new runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from perfgate.causes.find import find_causes
from perfgate.causes.merged import RunTrees
from perfgate.causes.stalls import stall_note, step_count, without_stalls
from perfgate.causes.trees_of_runs import trees_of_runs
from perfgate.core import Location, NextStep, Problem, Run, Verdict
from perfgate.core.causes import Cause, CauseReport
from perfgate.core.verdicts import verdict_ids
from perfgate.judge.case import Case
from perfgate.judge.derived import component_names
from perfgate.judge.subjects import name_of
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.syntax.sentence import Selector
from perfgate.words import cause_words
from perfgate.words.steps import complete_base, sources_of


def causes_of(
    base: Sequence[Run],
    new: Sequence[Run],
    verdicts: Sequence[Verdict] = (),
    components: Mapping[str, Collection[str]] | None = None,
    *,
    paired: bool = False,
) -> CauseReport | None:
    """Return the causes of the change, with the verdicts that each explains; None if the runs have no trees alike.

    A base run that is compared in some metrics only counts if the time of the step is one of them. `paired` says that
    run i of both sides took its steps by turns.
    """
    whole = [run for run in base if not run.partial or any(one.key.metric == "step.time" for one in run.series)]
    devices = [{run.environment["gpu"] for run in side if "gpu" in run.environment} for side in (base, new)]
    other = bool(devices[0] and devices[1] and devices[0] != devices[1])
    first: CauseReport | None = None
    for sides in trees_of_runs(whole, new, paired=paired):
        kept, notes = (list(sides), []) if paired else _without_stalls(sides)
        found = find_causes(*kept, other_device=other, verdicts=verdicts, components=components, paired=paired)
        found = replace(found, notes=(*notes, *found.notes))
        if found.causes:
            return found
        first = first or found
    return first


def _without_stalls(sides: tuple[list[RunTrees], list[RunTrees]]) -> tuple[list[list[RunTrees]], list[str]]:
    """Return the trees of both sides without stalled steps, and a note about those of each side."""
    kept, notes = [], []
    for name, runs in zip(("base", "new"), sides, strict=True):
        steady, times = without_stalls(runs)
        kept.append(steady)
        notes += [stall_note(name, times, step_count(runs))] if times else []
    return kept, notes


def explained(
    case: Case, verdicts: tuple[Verdict, ...]
) -> tuple[CauseReport | None, tuple[Verdict, ...], list[Problem]]:
    """Return the causes of a case, its verdicts with steps that name them, and a warning if its base has no trees."""
    base = case.baseline
    found = causes_of(base.runs, case.new, verdicts, components_of(case.ruleset))
    if not any(run.call_trees for run in case.new):
        return found, verdicts, []
    if found is not None or base.place is None or not any("torch-trace" in run.format for run in base.runs):
        return found, advised(verdicts, found), []
    step = complete_base(case.accept, sources_of(base.runs))
    message = f"no causes: the stored runs have no call tree; to give them one, {step.text}: {step.command}"
    return None, verdicts, [Problem("warning", message, Location(base.place))]


def components_of(ruleset: Ruleset) -> dict[str, Collection[str]]:
    """Return what derived metrics and expressions are computed from, by the name that their verdicts have."""
    found: dict[str, Collection[str]] = {}
    for rule in ruleset.rules:
        subject = rule.sentence.subject
        if not isinstance(subject, Selector) or subject.pattern in ruleset.metrics:
            name = name_of(subject, rule.sentence.subject_text)
            found[name] = component_names(subject, ruleset.metrics) - {name}
    return found


def advised(verdicts: Sequence[Verdict], found: CauseReport | None) -> tuple[Verdict, ...]:
    """Return the verdicts; of one that lacks a metric because of a cause, the next step names the cause.

    The steps that such a verdict has alone, to look for the metric or to complete the base, lead nowhere.
    """
    causes = {name: cause for cause in (found.causes if found else ()) for name in cause.verdicts}
    return tuple(
        replace(verdict, next_step=_step(verdict, causes[name]))
        if verdict.outcome == "error" and name in causes
        else verdict
        for verdict, name in zip(verdicts, verdict_ids(verdicts), strict=True)
    )


def _step(verdict: Verdict, cause: Cause) -> NextStep:
    """Return the step of a verdict on calls that came or went, or that are made less often."""
    text = f"find what changed the calls at {cause_words.where(cause)}"
    if verdict.reason != "measured-less":
        text += "; if the change is intended, approve a run of main after the merge"
    return NextStep("find-cause", text)
