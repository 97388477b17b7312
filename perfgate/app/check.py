"""`perfgate check`: rules, runs and the baseline in, one report out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from perfgate.app import inputs, surroundings
from perfgate.app.baselines import Options, approve_command, load_baseline, open_store
from perfgate.judge.policy import report_exit_code, report_outcome
from perfgate.judge.verdicts import Case, MissingBaseline, judge
from perfgate.model import Location, Policy, Problem, Report, Verdict


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """Everything that `perfgate check` is told."""

    options: Options
    missing_baseline: MissingBaseline = "error"
    only: tuple[str, ...] = ()
    strict: bool = False


def check(request: CheckRequest) -> Report:
    """Judge new runs by the rules. Raises Refused for usage errors; mistakes in rules make a report, too."""
    options = request.options
    ruleset, problems, rules_sha256 = inputs.read_rules(options.rules, options.suite)
    if ruleset is None:
        policy = Policy(None, rules_sha256, hashlib.sha256().hexdigest())
        return Report("error", 2, (), tuple(problems), (), {}, policy, options.suite or "default")
    runs = inputs.read_runs(options.runs, options.format)
    facts, clashes = inputs.merge_facts(runs, inputs.read_facts(options.env), ruleset.identity)
    command = approve_command(options)
    loaded = load_baseline(open_store(options.baselines), ruleset, facts, command)
    case = Case(
        ruleset=ruleset,
        new=runs,
        baseline=loaded.baseline,
        today=surroundings.today(),
        facts=facts,
        strict=request.strict,
        missing_baseline=request.missing_baseline,
        only=request.only,
        approve_command=command,
    )
    verdicts = judge(case)
    problems += [problem for run in runs for problem in run.problems] + clashes + loaded.problems
    problems += _nothing_judged(verdicts, request)
    code = report_exit_code(verdicts, problems)
    return Report(
        outcome=report_outcome(code, verdicts),
        exit_code=code,
        verdicts=verdicts,
        problems=tuple(problems),
        inputs=tuple(dict.fromkeys(file for run in runs for file in run.files)),
        environment=facts,
        policy=Policy(None, rules_sha256, loaded.sha256),
        suite=ruleset.suite,
        baseline=loaded.baseline.place,
        approve_command=command if _approval_would_help(verdicts) else None,
    )


def _approval_would_help(verdicts: tuple[Verdict, ...]) -> bool:
    """Whether a new level would change any answer: limits do not ask it."""
    return any(
        v.kind == "change" and (v.improved or v.reason == "no-baseline" or v.outcome == "fail") for v in verdicts
    )


def _nothing_judged(verdicts: tuple[Verdict, ...], request: CheckRequest) -> list[Problem]:
    if verdicts:
        return []
    why = f"--only {' '.join(request.only)} lets no rule through" if request.only else "no rule gave a verdict"
    return [Problem("error", f"nothing was judged: {why}", Location(request.options.rules[0]))]
