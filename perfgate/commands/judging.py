"""Judge runs that were read, by what was prepared: the only way from runs and rules to the report of a check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from msgspec.structs import replace

from perfgate.analysis.drift import FEWEST_RUNS, drifts
from perfgate.baselines.files import FULL_SHA
from perfgate.baselines.repository import LoadedBaseline, joined_sha256
from perfgate.commands.check_problems import only_problems, reading_problems
from perfgate.commands.preparing import Prepared
from perfgate.core import (
    NO_STEP,
    Acceptance,
    Baseline,
    Fact,
    Key,
    NextStep,
    Outcome,
    Policy,
    PolicyChange,
    Problem,
    Report,
    Run,
    UnruledChange,
    Verdict,
)
from perfgate.core.causes import CauseReport
from perfgate.core.details import ReportDetails
from perfgate.core.wording import plural
from perfgate.judge.case import Case
from perfgate.judge.derived import component_names
from perfgate.judge.doubts.copies import measured_twice
from perfgate.judge.naming import naming
from perfgate.judge.report import with_outcome
from perfgate.judge.subjects import JudgedRuns
from perfgate.judge.verdicts import judge, judge_with_details
from perfgate.workspace import surroundings
from perfgate.workspace.env_facts import merge_facts
from perfgate.workspace.options import Refused, acceptance

if TYPE_CHECKING:
    from perfgate.commands.remembered import ReadHistory


def judged(prepared: Prepared, runs: tuple[Run, ...]) -> Report:
    """Judge new runs by the rules. Raises Refused for usage errors."""
    request, ruleset, source, head = prepared.request, prepared.ruleset, prepared.source, prepared.head
    facts, clashes = merge_facts(runs, prepared.facts(), ruleset.identity)
    if ruleset.model is not None:
        from perfgate.judge.utilization import with_utilization

        runs = with_utilization(runs, ruleset.model, facts)
    accept = acceptance(request.options) if source.ref is None else _acceptance(prepared, source.ref)
    loaded = prepared.baselines.load(facts, accept, head)
    case, unpaired = _case(prepared, runs, facts, loaded.baseline, accept)
    case, verdicts, noticed, details = _judged(prepared, case, loaded)
    is_named = naming(ruleset)
    problems = [*prepared.problems, *reading_problems(runs, is_named), *clashes, *loaded.problems, *unpaired]
    problems += measured_twice(case, verdicts, loaded.baseline.runs)
    problems += [*only_problems(request.only, request.options.rules[0], case, verdicts), *noticed]
    unruled, count = _unruled(case, is_named)
    causes, verdicts, unexplained = _explained(case, verdicts)
    changes, own = _changes(prepared, case, verdicts)
    baselines_sha256 = joined_sha256(loaded.sha256, case.baseline.history_sha256)
    found = Report(
        verdicts=verdicts,
        problems=(*problems, *unexplained),
        inputs=tuple(dict.fromkeys(file for run in runs for file in run.files)),
        environment=facts,
        policy=Policy(source.ref, prepared.rules_sha256, baselines_sha256, changes, own, source.sha),
        suite=ruleset.suite,
        baseline=case.baseline.place,
        accept=_to_accept(case, verdicts),
        details=details,
        unruled=unruled,
        unruled_count=count,
        unknown_facts=case.baseline.unknown_facts if case.baseline.runs else (),
        causes=causes,
    )
    return with_outcome(found)


def _acceptance(prepared: Prepared, ref: str) -> Acceptance:
    """Return how these runs can be accepted under a ref: only a whole commit can be allowed, for 30 days."""
    head = prepared.head()
    whole = head if head and FULL_SHA.fullmatch(head) else None
    expires = surroundings.today() + timedelta(days=30)
    return replace(acceptance(prepared.request.options), ref=ref, head=whole, expires=expires)


def _case(
    prepared: Prepared, runs: tuple[Run, ...], facts: Mapping[str, Fact], stored: Baseline, accept: Acceptance
) -> tuple[Case, list[Problem]]:
    """Return everything that is judged, and the problems of pairs. Raises Refused for more runs than planned looks."""
    request, ruleset = prepared.request, prepared.ruleset
    new, baseline, unpaired = runs, stored, list[Problem]()
    if any(series.key.label("pairing") for run in runs for series in run.series):
        from perfgate.commands.given_pairs import refusal_of_pairs, with_pairs

        refusal = None if request.own_pairs else refusal_of_pairs(ruleset, prepared.source.ref)
        new, baseline, unpaired = with_pairs(runs, stored, refusal)
    if request.looks and len(new) > request.looks[-1]:
        given = plural(len(new), "run")
        raise Refused(f"--looks {request.looks[-1]}: {given} given, more than planned: give fewer runs, or plan more")
    case = Case(
        ruleset,
        new,
        baseline,
        surroundings.today(),
        facts,
        strict=request.strict,
        missing_baseline=request.missing_baseline,
        only=request.only,
        accept=accept,
        limits=surroundings.limits(),
        looks=request.looks,
    )
    return case, unpaired


def _judged(
    prepared: Prepared, case: Case, loaded: LoadedBaseline
) -> tuple[Case, tuple[Verdict, ...], list[Problem], ReportDetails]:
    """Return the case with what its history teaches, its verdicts, warnings, and the runs behind the verdicts."""
    with_details = prepared.request.with_details
    if with_details:
        from perfgate.commands.report_details import collected, levels, past_runs

        case = replace(case, baseline=replace(case.baseline, past=past_runs(loaded)))
    runs = JudgedRuns.of(case.new, case.baseline, case.ruleset.metrics, case.ruleset.conditions)
    base = case.baseline
    compared = {run.source for run in base.runs}
    times = [one.head.time for level in loaded.history.levels.values() for one in level if one.path in compared]
    since = max(times, default=None)
    case, noticed = with_history(case, runs, prepared.history, prepared.source.ref, prepared.head, since)
    if base.pairing is None and len(runs.base) + len(runs.anchor) + len(runs.new) >= FEWEST_RUNS:
        noticed += drifts(case, runs)
    if not with_details:
        return case, judge(case, runs), noticed, ReportDetails()
    verdicts, found = judge_with_details(case, runs)
    metrics = {name for rule in case.ruleset.rules for name in component_names(rule.sentence.subject, runs.metrics)}
    lost_time = min((rule.settings.lost_time for rule in case.ruleset.rules), default=1.0)
    shown = collected(verdicts, found, base.runs, case.new, levels(loaded), metrics, lost_time)
    return case, verdicts, noticed, shown


def with_history(
    case: Case,
    runs: JudgedRuns,
    history: Callable[[str], ReadHistory | None],
    ref: str | None = None,
    head: Callable[[], str | None] = lambda: None,
    since: str | None = None,
) -> tuple[Case, list[Problem]]:
    """Return the case with what the history of its baseline teaches, and its problems. Pairs need no history.

    Parameters
    ----------
    history: returns what reads the history of SUITE/ENVIRONMENT; None without one.
    ref: the ref that the baseline was read from; None for the working tree.
    head: returns the measured commit.
    since: the time after which runs of the branch are later ones; None leaves them out.
    """
    place = (case.baseline.place or "").split("/")
    if case.baseline.pairing is not None or len(place) < 2:
        return case, []
    read_history = history("/".join(place[:2]))
    if read_history is None:
        return case, []
    from perfgate.commands.remembered import with_remembered

    return with_remembered(case, runs, read_history, ref, head(), since)


def _unruled(case: Case, is_named: Callable[[Key], bool]) -> tuple[tuple[UnruledChange, ...], int]:
    """Return the changes of metrics that no rule reads, as far as they are shown, and their number."""
    if all(is_named(series.key) for run in case.baseline.runs for series in run.series):
        return (), 0
    from perfgate.analysis.unruled import unruled_changes

    return unruled_changes(case.baseline.runs, case.new, is_named)


def _explained(
    case: Case, verdicts: tuple[Verdict, ...]
) -> tuple[CauseReport | None, tuple[Verdict, ...], list[Problem]]:
    """Return the causes, the verdicts with the causes that explain them, and a warning if the base has no trees."""
    if not any(one.exit_code or one.outcome == "fail" for one in verdicts):
        return None, verdicts, []
    from perfgate.commands.causes import explained

    return explained(case, verdicts)


def _changes(
    prepared: Prepared, case: Case, verdicts: tuple[Verdict, ...]
) -> tuple[tuple[PolicyChange, ...], Outcome | None]:
    """Return the differences between the working tree and the ref, and the outcome with the working tree."""
    policy = prepared.own_policy()
    if policy is None:
        return (), None
    from perfgate.commands.rule_changes import policy_changes

    return policy_changes(policy, prepared.request.options, case, verdicts)


def _to_accept(case: Case, verdicts: tuple[Verdict, ...]) -> NextStep:
    """Return how the result can be accepted. Pairs have a base of their own, which no command changes."""
    if case.baseline.pairing is not None or not any(verdict.next_step.command for verdict in verdicts):
        return NO_STEP
    from perfgate.words.steps import to_accept

    return to_accept(case.accept, verdicts)
