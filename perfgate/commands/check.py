"""`perfgate check`: rules, runs and the baseline in, one report out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from perfgate.analysis.drift import drifts
from perfgate.baselines.allow import allow_command
from perfgate.baselines.repository import LoadedBaseline, load_baseline, naming
from perfgate.baselines.stores import store_of
from perfgate.commands.details import collected, levels, past_runs
from perfgate.commands.pairs import refusal_of_pairs, with_pairs
from perfgate.commands.rule_changes import own_baseline, policy_changes
from perfgate.core import Baseline, Fact, Key, Location, MissingBaseline, Policy, Problem, Report, Run, Verdict
from perfgate.core.details import ReportDetails
from perfgate.judge.case import Case
from perfgate.judge.report import with_outcome
from perfgate.judge.subjects import JudgedRuns
from perfgate.judge.verdicts import judge, judge_with_details
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.sentence import glob_matches
from perfgate.workspace import inputs, surroundings
from perfgate.workspace.options import CommandOptions, approve_command, shown_path
from perfgate.workspace.rule_source import policy_source, read_rules


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Everything that `perfgate check` is told."""

    options: CommandOptions
    missing_baseline: MissingBaseline = "error"
    only: tuple[str, ...] = ()
    strict: bool = False
    #: How often these rules are asked while runs are added: each look has its share of the false alarms.
    looks: int = 1
    #: Whether the pairs were made by this very command, and not brought along.
    own_pairs: bool = False
    #: Whether a report is asked for that shows the runs behind the verdicts.
    with_evidence: bool = False


def check(request: CheckRequest) -> Report:
    """Judge new runs by the rules. Raises Refused for usage errors; mistakes in rules make a report, too."""
    options = request.options
    source = policy_source(options.policy_ref)
    ruleset, problems, rules_sha256 = read_rules(source, options.rules, options.suite)
    if ruleset is None:
        policy = Policy(source.ref, rules_sha256, hashlib.sha256().hexdigest())
        return with_outcome(
            Report(problems=tuple(problems), policy=policy, suite=options.suite or "default"), at_least=2
        )
    runs = inputs.read_runs(options.runs, options.format, options.trace_mode)
    facts, clashes = inputs.merge_facts(runs, inputs.read_facts(options.env), ruleset.identity)
    head = options.head or surroundings.head_commit()
    approve = approve_command(options) + (f" (on {source.ref})" if source.ref else "")
    loaded = load_baseline(store_of(source, options.baselines), ruleset, facts, approve, head)
    refusal = None if request.own_pairs else refusal_of_pairs(ruleset, source.ref)
    new, baseline, unpaired = with_pairs(runs, loaded.baseline, refusal)
    case = _case(request, ruleset, new, baseline, facts, approve)
    verdicts, drifting, evidence = _judged(case, loaded, with_evidence=request.with_evidence)
    is_named = naming(ruleset)
    problems += _of_runs(runs, is_named) + clashes + loaded.problems + unpaired
    problems += _compared_with_itself(runs, loaded) + _nothing_judged(verdicts, request)
    problems += _only_nothing(request, case)
    problems += drifting
    changes, own = policy_changes(source, options, ruleset, case, verdicts, own_baseline(options, case))
    found = Report(
        verdicts=verdicts,
        problems=tuple(problems),
        inputs=tuple(dict.fromkeys(file for run in runs for file in run.files)),
        environment=facts,
        policy=Policy(source.ref, rules_sha256, loaded.sha256, changes, own),
        suite=ruleset.suite,
        baseline=case.baseline.place,
        approve_command=_to_accept(case, verdicts, options, head),
        evidence=evidence,
    )
    return with_outcome(found)


def _case(
    request: CheckRequest,
    ruleset: Ruleset,
    new: tuple[Run, ...],
    baseline: Baseline,
    facts: dict[str, Fact],
    approve: str,
) -> Case:
    """What is judged, and how."""
    return Case(
        ruleset=shared_among(ruleset, request.looks) if request.looks > 1 else ruleset,
        new=new,
        baseline=baseline,
        today=surroundings.today(),
        facts=facts,
        strict=request.strict,
        missing_baseline=request.missing_baseline,
        only=request.only,
        approve_command=approve,
        limits=surroundings.limits(),
    )


def shared_among(ruleset: Ruleset, looks: int) -> Ruleset:
    """The same rules, each with the share of its error rate that one of several looks may use (Bonferroni)."""

    def share(rule: Rule) -> Rule:
        confidence = 1 - (1 - rule.settings.confidence) / looks
        return replace(rule, settings=replace(rule.settings, confidence=confidence))

    return replace(ruleset, rules=tuple(map(share, ruleset.rules)))


def _judged(
    case: Case, loaded: LoadedBaseline, *, with_evidence: bool
) -> tuple[tuple[Verdict, ...], list[Problem], ReportDetails]:
    """The verdicts, warnings of slow drift, and the runs behind both where they are to be shown, with older levels."""
    if with_evidence:
        case = replace(case, baseline=replace(case.baseline, past=past_runs(loaded)))
    runs = JudgedRuns.of(case.new, case.baseline, case.ruleset.metrics)
    drifting = drifts(case, runs) if case.baseline.pairing is None else []
    if not with_evidence:
        return judge(case, runs), drifting, ReportDetails()
    verdicts, found = judge_with_details(case, runs)
    shown = collected(verdicts, found, case.baseline.runs, case.new, levels(loaded))
    return verdicts, drifting, shown


def _of_runs(runs: Sequence[Run], is_named: Callable[[Key], bool]) -> list[Problem]:
    """What reading complained of, once for each series; of a series that no rule reads it is a warning."""
    found: dict[tuple[str, str, Key | None, str], list[Problem]] = {}
    for problem in dict.fromkeys(problem for run in runs for problem in run.problems):
        about = "" if problem.key else problem.message + str(problem.at)
        found.setdefault((problem.at.file, problem.severity, problem.key, about), []).append(problem)
    return [_summed(problems, is_named) for problems in found.values()]


def _summed(problems: Sequence[Problem], is_named: Callable[[Key], bool]) -> Problem:
    first, more = problems[0], len(problems) - 1
    unread = first.key is not None and not is_named(first.key)
    message = first.message + (f" (and {more} more of {first.key})" if more else "")
    return replace(first, message=message, severity="warning" if unread else first.severity)


def _compared_with_itself(runs: Sequence[Run], loaded: LoadedBaseline) -> list[Problem]:
    """A run that is stored already says nothing new."""
    stored = {file.sha256 for run in loaded.baseline.runs for file in run.files}
    return [
        Problem("warning", "this very file is in the baseline: it is compared with itself", Location(file.path))
        for run in runs
        for file in run.files
        if file.sha256 in stored
    ]


def _to_accept(case: Case, verdicts: tuple[Verdict, ...], options: CommandOptions, head: str | None) -> str | None:
    """The command that would accept what was seen; None where none would change any answer.

    A new level does, but for limits, and pairs have a base of their own. What another commit's policy judges cannot
    approve itself: who may write there can allow it.
    """
    if case.baseline.pairing is not None:
        return None
    changes = [verdict for verdict in verdicts if verdict.kind == "change"]
    failed = [verdict for verdict in changes if verdict.outcome == "fail"]
    if options.policy_ref is not None and failed:
        return allow_command(options, head, [verdict for verdict in failed if verdict.against == "baseline"])
    would_help = failed or any(verdict.improved or verdict.reason == "no-baseline" for verdict in changes)
    return approve_command(options) if would_help else None


def _nothing_judged(verdicts: tuple[Verdict, ...], request: CheckRequest) -> list[Problem]:
    if verdicts:
        return []
    why = f"--only {' '.join(request.only)} lets no rule through" if request.only else "no rule gave a verdict"
    return [Problem("error", f"nothing was judged: {why}", Location(shown_path(request.options.rules[0])))]


def _only_nothing(request: CheckRequest, case: Case) -> list[Problem]:
    """A warning for each `--only` that lets nothing through, with the nearest rule or metric."""
    rules = case.ruleset.rules
    known = {name for rule in rules for name in (rule.name, rule.sentence.subject_text)}
    # A glob of a rule may stand for any metric of the runs.
    known |= {series.key.metric for run in case.new for series in run.series}
    found = []
    for glob in dict.fromkeys(request.only):
        if not any(glob_matches(glob, name) for name in known):
            near = get_close_matches(glob.strip("*?"), sorted(known), n=1)
            hint = f"did you mean {near[0]!r}?" if near else "see `perfgate rules explain` for their names"
            message = f"--only {glob} is no rule and no metric: {hint}"
            found.append(Problem("warning", message, Location(shown_path(request.options.rules[0]))))
    return found
