"""`perfgate check`: read rules, runs and the baseline, judge, and return one report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from difflib import get_close_matches

import click
from msgspec.structs import replace

from perfgate.analysis.stored_runs import FEWEST_FOR_DRIFT, drifts
from perfgate.baselines.files import FULL_SHA
from perfgate.baselines.repository import LoadedBaseline, joined_sha256
from perfgate.cli.entry import ShortHelp, help_all_option
from perfgate.cli.printing import progress, publish, tell
from perfgate.cli.shared import JUDGING, OPTIONAL_RUNS, POLICY, Publication, command_options, files, report_options
from perfgate.commands import preparing
from perfgate.core import Fact, Key, Location, MissingBaseline, Policy, Problem, Report, Run, UnruledChange, Verdict
from perfgate.core.causes import CauseReport
from perfgate.core.details import ReportDetails
from perfgate.core.verdicts import MOST_UNRULED
from perfgate.core.wording import plural
from perfgate.judge.derived import component_names
from perfgate.judge.doubts.copies import measured_twice
from perfgate.judge.evidence import Case
from perfgate.judge.report import fact_changes, with_outcome
from perfgate.judge.subjects import JudgedRuns, naming
from perfgate.judge.verdicts import judge, judge_with_details
from perfgate.rules.syntax.sentence import glob_matches
from perfgate.workspace import surroundings
from perfgate.workspace.env_facts import merge_facts
from perfgate.workspace.options import CommandOptions, Refused, acceptance, shown_path
from perfgate.workspace.rule_source import policy_source


@click.command("check", cls=ShortHelp)
@command_options(*OPTIONAL_RUNS, *JUDGING, *POLICY)
@click.option("--looks", type=click.IntRange(1, 100), metavar="N", help="Plan at most N new runs. [default: 3]")
@click.option("--propose", metavar="DIR", shell_complete=files, help="Write the files that an approval would add.")
@click.option("--causes", is_flag=True, help="Look for what changed, even if everything passes.")
@report_options
@help_all_option
def command(
    options: CommandOptions,
    missing_baseline: MissingBaseline,
    only: tuple[str, ...],
    strict: bool,
    looks: int | None,
    propose: str | None,
    causes: bool,
    publication: Publication,
) -> int:
    """Judge new runs by the rules and the stored baseline. The exit code is the answer.

    Without RUN, they are the newest runs that `perfgate run` kept.

    \b
    Example: perfgate check train.log --junit perfgate.xml
    """
    plan = None if looks is None else tuple(range(1, looks + 1))
    with publication.replaced_if_refused((*options.runs, *options.rules, options.baselines, *options.env)):
        if not options.runs:
            from perfgate.measuring.kept_runs import with_kept_runs

            options = with_kept_runs(options, "judging", tell)
        if propose is not None:  # the check and the proposal must use the same commit
            commit = policy_source(options.policy_ref, options.policy_commit).commit
            options = options if commit is None else replace(options, policy_commit=commit.sha)
        request = preparing.CheckRequest(
            options, missing_baseline, only, strict, plan, with_details=publication.with_details, causes=causes
        )
        with progress():
            report = check(request)
        code = publish(report, publication)
        if options.is_of_a_job:
            from perfgate.commands.ledger import record_report

            record_report(report, options, tell)
    if propose is not None:
        from perfgate.baselines.approvals import propose as write

        for line in write(options, propose, report.inputs):
            tell(line)
    return code


def check(request: preparing.CheckRequest) -> Report:
    """Judge new runs by the rules; mistakes in them become a report, too. Raises Refused for usage errors."""
    prepared = preparing.prepare(request)
    if isinstance(prepared, Report):
        return prepared
    return judged(prepared, preparing.read_new(prepared, request.options.runs))


def judged(prepared: preparing.Prepared, runs: tuple[Run, ...]) -> Report:
    """Judge new runs by the rules. Raises Refused for usage errors."""
    request, ruleset = prepared.request, prepared.ruleset
    facts, clashes = merge_facts(runs, prepared.facts(), ruleset.identity)
    if ruleset.model is not None:
        from perfgate.judge.utilization import with_utilization

        runs = with_utilization(runs, ruleset.model, facts)
    case, loaded, unpaired = _case(prepared, runs, facts)
    case, verdicts, noticed, details = _judged(prepared, case, loaded)
    is_named, (coverage, unread) = naming(ruleset), preparing.coverage_of(runs, ruleset.unread)
    read = preparing.reading_problems(preparing.with_unread_machine(case, runs), is_named)
    problems = [*prepared.problems, *read, *clashes, *loaded.problems, *unpaired]
    problems += [*unread, *measured_twice(case, verdicts, loaded.baseline.runs)]
    problems += [*_only_problems(request.only, request.options.rules[0], case, verdicts), *noticed]
    causes, unruled, unexplained = _explained(case, verdicts, is_named, wanted=request.causes)
    found = Report(
        verdicts=verdicts,
        problems=(*problems, *unexplained),
        inputs=tuple(dict.fromkeys(file for run in runs for file in run.files)),
        environment=facts,
        policy=_policy(prepared, case, loaded, verdicts),
        suite=ruleset.suite,
        baseline=case.baseline.place,
        details=details,
        unruled=unruled[:MOST_UNRULED],
        unruled_count=len(unruled),
        unknown_facts=case.baseline.unknown_facts if case.baseline.runs else (),
        fact_changes=fact_changes(case),
        causes=causes,
        coverage=coverage,
    )
    # Pairs have a base of their own, which no command changes.
    if case.baseline.pairing is None and any(verdict.next_step.command for verdict in verdicts):
        from perfgate.words.steps import to_accept

        found = replace(found, accept=to_accept(case.accept, verdicts))
    return with_outcome(found)


def _policy(prepared: preparing.Prepared, case: Case, loaded: LoadedBaseline, verdicts: tuple[Verdict, ...]) -> Policy:
    """Return the source of rules and baselines, and how those of the working tree differ from a ref."""
    source, baselines_sha256 = prepared.source, joined_sha256(loaded.sha256, case.baseline.history_sha256)
    policy = Policy(source.ref, prepared.rules_sha256, baselines_sha256, commit=source.sha)
    if source.ref is None:
        return policy
    from perfgate.commands.rule_changes import policy_changes

    changes, own = policy_changes(prepared.own_policy(), prepared.request.options, case, verdicts)
    return replace(policy, changes=changes, own_outcome=own)


def _case(
    prepared: preparing.Prepared, runs: tuple[Run, ...], facts: dict[str, Fact]
) -> tuple[Case, LoadedBaseline, list[Problem]]:
    """Return everything that is judged, the loaded baseline, and the problems of pairs.

    Raises Refused if there are more runs than planned looks.
    """
    request, ruleset, ref = prepared.request, prepared.ruleset, prepared.source.ref
    today, accept = surroundings.today(), acceptance(request.options)
    if ref is not None:  # an allowance is for a whole hash; the message proposes 30 days
        head = prepared.head()
        whole = head if head and FULL_SHA.fullmatch(head) else None
        accept = replace(accept, ref=ref, head=whole, expires=today + timedelta(days=30))
    loaded = prepared.baselines.load(facts, accept, prepared.head)
    new, baseline, unpaired = runs, loaded.baseline, list[Problem]()
    if any(series.key.label("pairing") for run in runs for series in run.series):
        # Pairs that this command made itself are always accepted; files of others may bring an easy base.
        refusal = None if request.own_pairs else preparing.refusal_of_pairs(ruleset, ref)
        new, baseline, unpaired = preparing.with_pairs(runs, baseline, refusal)
    if request.looks and len(new) > request.looks[-1]:
        given = plural(len(new), "run")
        raise Refused(f"--looks {request.looks[-1]}: {given} given, more than planned: give fewer runs, or plan more")
    case = Case(
        ruleset,
        new,
        baseline,
        today,
        facts,
        claimed=frozenset(facts) - frozenset(prepared.facts()),
        strict=request.strict,
        missing_baseline=request.missing_baseline,
        only=request.only,
        accept=accept,
        limits=surroundings.limits(),
        looks=request.looks,
    )
    return case, loaded, unpaired


def _judged(
    prepared: preparing.Prepared, case: Case, loaded: LoadedBaseline
) -> tuple[Case, tuple[Verdict, ...], list[Problem], ReportDetails]:
    """Return the case with what is known from its history, its verdicts, problems, and the runs behind the verdicts."""
    with_details, noticed = prepared.request.with_details, list[Problem]()
    if with_details:
        from perfgate.commands.report_details import collected, levels, past_runs

        case = replace(case, baseline=replace(case.baseline, past=past_runs(loaded)))
    runs = JudgedRuns.of(case.new, case.baseline, case.ruleset.metrics, case.ruleset.conditions)
    base = case.baseline
    if base.pairing is None and base.place is not None and (read_history := prepared.history(base.place)):
        from perfgate.commands.remembered import with_remembered

        # `loaded.history` has the stored levels, and `read_history` reads the runs that main remembers.
        compared = {run.source for run in base.runs}
        times = [one.head.time for level in loaded.history.levels.values() for one in level if one.path in compared]
        ref, head, since = prepared.source.ref, prepared.head(), max(times, default=None)
        case, noticed = with_remembered(case, runs, read_history, ref, head, since)
    if "host" in prepared.facts():  # warn if the machine is not what it was when `doctor --qualify` measured it
        from perfgate.baselines.runners import runner_problems

        noticed += runner_problems(prepared.baselines.store, prepared.facts())
    if base.pairing is None and len(runs.base) + len(runs.anchor) + len(runs.new) >= FEWEST_FOR_DRIFT:
        noticed += drifts(case, runs)
    if not with_details:
        return case, judge(case, runs), noticed, ReportDetails()
    verdicts, found = judge_with_details(case, runs)
    metrics = {name for rule in case.ruleset.rules for name in component_names(rule.sentence.subject, runs.metrics)}
    lost_time = min((rule.settings.lost_time for rule in case.ruleset.rules), default=1.0)
    shown = collected(verdicts, found, base.runs, case.new, levels(loaded), metrics, lost_time)
    return case, verdicts, noticed, shown


def _explained(
    case: Case, verdicts: tuple[Verdict, ...], is_named: Callable[[Key], bool], *, wanted: bool
) -> tuple[CauseReport | None, tuple[UnruledChange, ...], list[Problem]]:
    """Return the causes, the changes of metrics without a rule that no cause explains, and problems of the causes.

    `wanted`: look for causes even if everything passes.
    """
    moved: tuple[UnruledChange, ...] = ()
    if not all(is_named(series.key) for run in case.baseline.runs for series in run.series):
        from perfgate.analysis.unruled import unruled_changes

        moved, _ = unruled_changes(case.baseline.runs, case.new, is_named, most=None)
    if not wanted and all(one.outcome in ("pass", "skipped") for one in verdicts):
        return None, moved, []
    from perfgate.commands.report_details import explained

    causes, problems = explained(case, verdicts, [one.metric for one in moved])
    return causes, tuple(one for one in moved if causes is None or one.metric not in causes.explained), problems


def _only_problems(only: Sequence[str], rules: str, case: Case, verdicts: tuple[Verdict, ...]) -> list[Problem]:
    """Return an error if nothing was judged, and a warning for each `--only` that matches nothing."""
    if verdicts and not only:
        return []
    at = Location(shown_path(rules))
    why = f"--only {' '.join(only)} matches no rule" if only else "no rule gave a verdict"
    found = [] if verdicts else [Problem("error", f"nothing was judged: {why}", at)]
    known = {name for rule in case.ruleset.rules for name in (rule.name, rule.sentence.subject_text)}
    # A glob in a rule may match any metric of the runs.
    known |= {name for run in case.new for name in run.metrics}
    for glob in dict.fromkeys(only):
        if not any(glob_matches(glob, name) for name in known):
            near = get_close_matches(glob.strip("*?"), sorted(known), n=1)
            hint = f"did you mean {near[0]!r}?" if near else "`perfgate rules` shows their names"
            found.append(Problem("warning", f"--only {glob} matches no rule and no metric: {hint}", at))
    return found
