"""`perfgate check`: read rules, runs and the baseline, judge, and return one report."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import cache, partial

from msgspec import Struct
from msgspec.structs import replace

from perfgate.analysis.drift import FEWEST_RUNS, drifts
from perfgate.baselines.files import FULL_SHA
from perfgate.baselines.places import HISTORY
from perfgate.baselines.policy_stores import store_of
from perfgate.baselines.repository import LoadedBaseline, joined_sha256, load_baseline
from perfgate.baselines.stores import Store
from perfgate.commands.check_problems import only_problems, reading_problems
from perfgate.core import (
    NO_STEP,
    Acceptance,
    Baseline,
    Fact,
    Key,
    MissingBaseline,
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
from perfgate.rules.load import readable_suite
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.syntax.sentence import ChangeClause
from perfgate.workspace import inputs, surroundings
from perfgate.workspace.env_facts import merge_facts, read_facts
from perfgate.workspace.inputs import Shorten
from perfgate.workspace.options import CommandOptions, Refused, acceptance
from perfgate.workspace.rule_source import WORKING_TREE, PolicySource, policy_source, read_rules


class CheckRequest(Struct, frozen=True):
    """A request to judge runs by rules."""

    options: CommandOptions
    missing_baseline: MissingBaseline = "error"
    only: tuple[str, ...] = ()
    strict: bool = False
    #: The numbers of new runs at which they are judged; None is one look at limits, and up to three at changes.
    looks: tuple[int, ...] | None = None
    #: True if this command itself made the pairs.
    own_pairs: bool = False
    #: True if a report shows the runs behind the verdicts.
    with_details: bool = False
    #: The rules and baselines as they were before a program was measured; None to read them now.
    source: PolicySource | None = None


def check(request: CheckRequest) -> Report:
    """Judge new runs by the rules. Mistakes in rules give a report, too. Raises Refused for usage errors."""
    options = request.options
    source = request.source or policy_source(options.policy_ref, options.policy_commit)
    head = cache(lambda: options.head or surroundings.head_commit())  # git is only asked if something depends on it
    if source.ref is not None:
        head()  # the commit that is measured, even if the branch moves meanwhile
    ruleset, problems, rules_sha256 = read_rules(source, options.rules, options.suite)
    if ruleset is None:
        return _of_mistakes(source, options, problems, rules_sha256)
    store = store_of(source, options.baselines)
    runs, facts, clashes = _read(options, ruleset, partial(_shortening, ruleset, source, store, options))
    accept = acceptance(options) if source.ref is None else _acceptance(options, source.ref, head())
    loaded = load_baseline(store, ruleset, facts, accept, head)
    case, unpaired = _case(request, ruleset, runs, facts, loaded.baseline, accept, source.ref)
    case, verdicts, noticed, details = _judged(case, loaded, source, request, head)
    is_named = naming(ruleset)
    problems += [*reading_problems(runs, is_named), *clashes, *loaded.problems, *unpaired]
    problems += measured_twice(case, verdicts, loaded.baseline.runs)
    problems += [*only_problems(request.only, options.rules[0], case, verdicts), *noticed]
    unruled, count = _unruled(case, is_named)
    causes, verdicts, unexplained = _explained(case, verdicts)
    changes, own = _changes(source.ref, store, options, case, verdicts)
    baselines_sha256 = joined_sha256(loaded.sha256, case.baseline.history_sha256)
    found = Report(
        verdicts=verdicts,
        problems=(*problems, *unexplained),
        inputs=tuple(dict.fromkeys(file for run in runs for file in run.files)),
        environment=facts,
        policy=Policy(source.ref, rules_sha256, baselines_sha256, changes, own, source.sha),
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


def _of_mistakes(source: PolicySource, options: CommandOptions, problems: Sequence[Problem], sha256: str) -> Report:
    """Return the report on rules with mistakes."""
    policy = Policy(source.ref, sha256, hashlib.sha256().hexdigest(), commit=source.sha)
    suite = options.suite or readable_suite(source.files(options.rules))
    return with_outcome(Report(problems=tuple(problems), policy=policy, suite=suite), at_least=2)


def _shortening(ruleset: Ruleset, source: PolicySource, store: Store, options: CommandOptions) -> Shorten | None:
    """Return how runs are made shorter: without the values that no rule needs, neither of the ref nor of the tree."""
    from perfgate.analysis.needed_values import needed_by

    own = None
    if source.ref:
        with suppress(Refused):  # `policy_changes` says it
            own = read_rules(WORKING_TREE, options.rules, options.suite)[0]
    is_stored = bool(store.paths(ruleset.suite)[0])
    needed = needed_by((ruleset, own) if own else (ruleset,), with_sizes=is_stored)
    return needed.shortened if needed else None


def _unruled(case: Case, is_named: Callable[[Key], bool]) -> tuple[tuple[UnruledChange, ...], int]:
    """Return the changes of metrics that no rule reads, as far as they are shown, and their number."""
    if all(is_named(series.key) for run in case.baseline.runs for series in run.series):
        return (), 0
    from perfgate.analysis.unruled import unruled_changes

    return unruled_changes(case.baseline.runs, case.new, is_named)


def _changes(
    ref: str | None, store: Store, options: CommandOptions, case: Case, verdicts: tuple[Verdict, ...]
) -> tuple[tuple[PolicyChange, ...], Outcome | None]:
    """Return the differences between the working tree and the ref, and the outcome with the working tree."""
    if ref is None:
        return (), None
    from perfgate.commands.rule_changes import policy_changes

    return policy_changes(ref, store, options, case, verdicts)


def _explained(
    case: Case, verdicts: tuple[Verdict, ...]
) -> tuple[CauseReport | None, tuple[Verdict, ...], list[Problem]]:
    """Return the causes, the verdicts with the causes that explain them, and a warning if the base has no trees."""
    if not any(one.exit_code or one.outcome == "fail" for one in verdicts):
        return None, verdicts, []
    from perfgate.commands.causes import explained

    return explained(case, verdicts)


def _read(
    options: CommandOptions, ruleset: Ruleset, shortening: Callable[[], Shorten | None]
) -> tuple[tuple[Run, ...], dict[str, Fact], list[Problem]]:
    """Read the new runs; return them, the facts of their machine, and the facts that contradict each other.

    Traces are read with their calls, if they are compared with stored runs and may need a cause.
    """
    asked = [clause.asks for rule in ruleset.rules for clause in rule.clauses]
    compares = any(isinstance(asks, ChangeClause) and asks.is_stored for asks in asked)
    runs = inputs.read_runs(
        options.runs,
        options.format,
        options.trace_mode,
        conditions=ruleset.conditions,
        with_calls=compares,
        mappings=ruleset.mappings,
        shortening=shortening,
    )
    facts, clashes = merge_facts(runs, read_facts(options.env), ruleset.identity)
    if ruleset.model is not None:
        from perfgate.judge.utilization import with_utilization

        runs = with_utilization(runs, ruleset.model, facts)
    return runs, facts, clashes


def _case(
    request: CheckRequest,
    ruleset: Ruleset,
    runs: Sequence[Run],
    facts: Mapping[str, Fact],
    stored: Baseline,
    accept: Acceptance,
    policy_ref: str | None,
) -> tuple[Case, list[Problem]]:
    """Return everything that is judged, and the problems of pairs. Raises Refused for more runs than planned looks."""
    new, baseline, unpaired = tuple(runs), stored, list[Problem]()
    if any(series.key.label("pairing") for run in runs for series in run.series):
        from perfgate.commands.given_pairs import refusal_of_pairs, with_pairs

        new, baseline, unpaired = with_pairs(
            runs, stored, None if request.own_pairs else refusal_of_pairs(ruleset, policy_ref)
        )
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


def _acceptance(options: CommandOptions, ref: str, head: str | None) -> Acceptance:
    """Return how these runs can be accepted under a ref: only a whole commit can be allowed, for 30 days."""
    whole = head if head and FULL_SHA.fullmatch(head) else None
    return replace(acceptance(options), ref=ref, head=whole, expires=surroundings.today() + timedelta(days=30))


def with_history(
    case: Case,
    runs: JudgedRuns,
    source: PolicySource,
    baselines: str,
    head: Callable[[], str | None] = lambda: None,
    since: str | None = None,
) -> tuple[Case, list[Problem]]:
    """Return the case with what the history of its baseline teaches, and its problems. Pairs need no history.

    Later runs of the branch are those after the time `since`; None leaves them out.
    """
    place = (case.baseline.place or "").split("/")
    if case.baseline.pairing is not None or len(place) < 2:
        return case, []
    store = store_of(source, baselines, "/".join(place[:2]))
    if not any(store.paths("/".join((HISTORY, *place[:2])))):
        return case, []
    from perfgate.commands.remembered import with_remembered

    return with_remembered(case, runs, store, source.ref, head(), since)


def _judged(
    case: Case, loaded: LoadedBaseline, source: PolicySource, request: CheckRequest, head: Callable[[], str | None]
) -> tuple[Case, tuple[Verdict, ...], list[Problem], ReportDetails]:
    """Return the case with what its history teaches, its verdicts, warnings, and the runs behind the verdicts."""
    if request.with_details:
        from perfgate.commands.report_details import collected, levels, past_runs

        case = replace(case, baseline=replace(case.baseline, past=past_runs(loaded)))
    runs = JudgedRuns.of(case.new, case.baseline, case.ruleset.metrics, case.ruleset.conditions)
    base = case.baseline
    compared = {run.source for run in base.runs}
    times = [one.head.time for level in loaded.history.levels.values() for one in level if one.path in compared]
    case, noticed = with_history(case, runs, source, request.options.baselines, head, max(times, default=None))
    if base.pairing is None and len(runs.base) + len(runs.anchor) + len(runs.new) >= FEWEST_RUNS:
        noticed += drifts(case, runs)
    if not request.with_details:
        return case, judge(case, runs), noticed, ReportDetails()
    verdicts, found = judge_with_details(case, runs)
    metrics = {name for rule in case.ruleset.rules for name in component_names(rule.sentence.subject, runs.metrics)}
    lost_time = min((rule.settings.lost_time for rule in case.ruleset.rules), default=1.0)
    shown = collected(verdicts, found, base.runs, case.new, levels(loaded), metrics, lost_time)
    return case, verdicts, noticed, shown


def _to_accept(case: Case, verdicts: tuple[Verdict, ...]) -> NextStep:
    """Return how the result can be accepted. Pairs have a base of their own, which no command changes."""
    if case.baseline.pairing is not None or not any(verdict.next_step.command for verdict in verdicts):
        return NO_STEP
    from perfgate.words.steps import to_accept

    return to_accept(case.accept, verdicts)
