"""Make the verdicts: every rule becomes at least one verdict, and no rule disappears.

    compile -> decide -> adjust -> word

`_clause` shows these steps for one clause of a rule, top to bottom.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from perfgate.core import NO_STEP, Key, Verdict, fact_text
from perfgate.core.runs import throttling
from perfgate.core.wording import TIMES_OF_RUN, WHOLE_TIME, listed, show_labels
from perfgate.judge.adjust import (
    accept_missing,
    apply_allowance,
    correct_for_many,
    doubt_machine,
    doubt_start,
    expect_failure,
    fail_on_improvement,
    keep_anchor_suspect,
    refuse_bad_values,
    refuse_impossible,
    set_aside,
)
from perfgate.judge.case import Case
from perfgate.judge.compile import check_presence, compile_question
from perfgate.judge.decisions import Decision, NotJudged, decide
from perfgate.judge.inquiry import CannotJudge, Inquiry
from perfgate.judge.measure import NotAvailable, OnlySummary, default_statistic, statistic_unit
from perfgate.judge.measured_alike import compare_measured
from perfgate.judge.messages import error_step
from perfgate.judge.subjects import JudgedRuns, Subject, find_subjects, name_of
from perfgate.judge.word import word
from perfgate.rules.ruleset import Rule
from perfgate.rules.syntax.sentence import Clause, LimitClause, Selector, glob_matches, selectors

if TYPE_CHECKING:
    from perfgate.core.details import VerdictDetails


class _Answer(Struct, frozen=True):
    """A decision, the inquiry that it answers, and whether its runs can be drawn."""

    inquiry: Inquiry
    decision: Decision
    can_be_drawn: bool


_GIVE_MODEL = "give the rule file a `model` with parameters, tokens_per_step and dtype: perfgate computes it from these"
_GIVE_TIMES = (
    "give a log of torchtitan or of Megatron-LM with dates, or measure with `perfgate.Recorder(goodput=True)` or a "
    "callback: the page `efficiency` of the documentation lists what tells it"
)
#: The next step for metrics that perfgate computes, if no run has what they need.
COMPUTED = {
    "mfu": _GIVE_MODEL,
    "hfu": _GIVE_MODEL,
    "goodput": _GIVE_TIMES,
    **dict.fromkeys(sorted(TIMES_OF_RUN), _GIVE_TIMES),
}
#: Parts of the time of a run that a log may not tell although it tells the others: why, and the next step.
_UNTOLD = {
    "time.checkpoint": (
        "the log does not say how long saving checkpoints took",
        "turn the timers on (Megatron-LM), or record `checkpoint_time`",
    ),
    "time.evaluation": (
        "the log does not say how long evaluation took",
        "turn the timers on (Megatron-LM), or record `evaluation_time`",
    ),
}
#: The adjustments of the decision about one metric, in this order.
_ADJUSTMENTS = (
    refuse_impossible,
    refuse_bad_values,
    keep_anchor_suspect,
    doubt_start,
    doubt_machine,
    apply_allowance,
    compare_measured,
)
#: A verdict, and the inquiry behind it if its runs can be drawn.
_Judged: TypeAlias = tuple[Verdict, Inquiry | None]


def judge(case: Case, runs: JudgedRuns | None = None) -> tuple[Verdict, ...]:
    """The verdicts of every rule of a case, in the order of the rule files.

    `runs` are the runs of the case if they were prepared already.
    """
    return _completed(case, [verdict for verdict, _ in _judged(case, runs)])


def judge_with_details(
    case: Case, runs: JudgedRuns | None = None
) -> tuple[tuple[Verdict, ...], tuple[VerdictDetails, ...]]:
    """The verdicts, and the runs behind each verdict that a report can draw."""
    from perfgate.judge.details import verdict_details

    judged = list(_judged(case, runs))
    details = [verdict_details(inquiry, verdict, i) for i, (verdict, inquiry) in enumerate(judged) if inquiry]
    return _completed(case, [verdict for verdict, _ in judged]), tuple(found for found in details if found)


def _completed(case: Case, verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts; those of a pull request with the commands that need all verdicts of a metric."""
    if case.accept.ref is None:
        return tuple(verdicts)
    from perfgate.judge.acceptance import with_allow_commands

    return with_allow_commands(case.accept, verdicts)


def _judged(case: Case, runs: JudgedRuns | None) -> Iterator[_Judged]:
    """Every verdict up to the limit; one error replaces the rest, so that nothing passes unseen."""
    runs = runs or JudgedRuns.of(case.new, case.baseline, case.ruleset.metrics, case.ruleset.conditions)
    count = 0
    for rule in case.ruleset.rules:
        for judged in _rule(rule, case, runs):
            if count == case.limits.verdicts:
                message = case.limits.beyond("verdicts", "judging stops here, because the rules need more verdicts")
                step = "name the metrics, or use a narrower glob"
                yield _of_rule(rule, case, runs, _error("too-many", message, step))
                return
            count += 1
            yield judged


def _rule(rule: Rule, case: Case, runs: JudgedRuns) -> Iterator[_Judged]:
    """The verdicts of one rule: none if `--only` leaves it out, at least one otherwise."""
    subjects = find_subjects(rule.sentence, runs)
    name = name_of(rule.sentence.subject, rule.sentence.subject_text)
    if case.only and not any(glob_matches(glob, text) for glob in case.only for text in (rule.name, name)):
        subjects = [s for s in subjects if any(glob_matches(glob, s.key.metric) for glob in case.only)]
        if not subjects:
            return
    obstacle = _obstacle(rule, case) or (None if subjects else _absent(name, case, runs))
    if obstacle:
        yield _of_rule(rule, case, runs, obstacle)
        return
    for clause in rule.clauses:
        yield from _clause(rule, clause, subjects, case, runs)


def _clause(rule: Rule, clause: Clause, subjects: Sequence[Subject], case: Case, runs: JudgedRuns) -> Iterator[_Judged]:
    """The verdicts of one clause: compile each question, decide it, adjust the decisions, put them into words."""
    subject = rule.sentence.subject
    is_glob = isinstance(subject, Selector) and subject.is_glob
    fitting, left_out = _fitting(rule, clause, subjects) if is_glob else (subjects, [])
    answers = [one for subject in fitting for one in _answers(Inquiry.of(rule, clause, subject, case, runs))]
    decisions = correct_for_many([one.inquiry for one in answers], [one.decision for one in answers])
    for answer, decided in zip(answers, decisions, strict=True):
        decision = decided
        for adjustment in (accept_missing, fail_on_improvement, expect_failure):
            decision = adjustment(answer.inquiry, decision)
        if rule.quarantine is not None:
            decision = set_aside(answer.inquiry, decision)
        yield word(answer.inquiry, decision, left_out), answer.inquiry if answer.can_be_drawn else None


def _answers(inquiry: Inquiry) -> Iterator[_Answer]:
    """The decision about one metric; with `on each rank`, one for each rank."""
    try:
        check_presence(inquiry)
    except CannotJudge as error:
        yield _Answer(inquiry, error.decision(), can_be_drawn=False)
        return
    for one in inquiry.each_rank() if inquiry.rank == "each" else (inquiry,):
        try:
            decision: Decision = decide(compile_question(one))
            for adjustment in _ADJUSTMENTS:
                decision = adjustment(one, decision)
            if one.case.baseline.remembered:
                from perfgate.judge.pooled import pool_doubt

                decision = pool_doubt(one, decision)
        except CannotJudge as error:
            decision = error.decision()
        except OnlySummary as error:
            from perfgate.judge.cures import complete_base

            step = complete_base(one.case.accept, [error.sources])
            decision = NotJudged(outcome="error", reason="not-available", message=str(error), next_step=step)
        except NotAvailable as error:
            decision = _error("not-available", str(error), "use a statistic that the source has")
        yield _Answer(one, decision, can_be_drawn=True)


def _of_rule(rule: Rule, case: Case, runs: JudgedRuns, decision: NotJudged) -> _Judged:
    """One verdict for a whole rule without a judged metric."""
    sentence = rule.sentence
    subject = Subject(Key(name_of(sentence.subject, sentence.subject_text)), sentence.subject, ())
    inquiry = Inquiry.of(rule, rule.clauses[0], subject, case, runs)
    return word(inquiry, expect_failure(inquiry, accept_missing(inquiry, decision))), None


def _error(reason: str, message: str, next_step: str) -> NotJudged:
    return NotJudged(outcome="error", reason=reason, message=message, next_step=error_step(reason, next_step))


def _obstacle(rule: Rule, case: Case) -> NotJudged | None:
    """Return why `when` or a throttled GPU prevents a judgement, or None. An unknown fact is an error."""
    for condition in rule.when:
        holds, value = condition.holds(case.facts), case.facts.get(condition.fact)
        asks = f"`when` needs {condition}"
        if value is None:
            step = f"give it with --env {condition.fact}=VALUE"
            return _error("unknown-fact", f"{asks}, and {condition.fact} is unknown", step)
        if holds is None:
            message = f"{asks}, and {condition.fact} is {fact_text(value)!r}, which is not a number"
            return _error("unknown-fact", message, "correct the fact or the rule")
        if not holds:
            message = f"{asks}; here it is {fact_text(value)}"
            return NotJudged(outcome="skipped", reason="when", message=message, next_step=NO_STEP)
    slowed = throttling(case.facts)
    if slowed and rule.settings.on_throttled == "error":
        message = f"not judged, because the GPU was throttled: {', '.join(slowed)}"
        return _error("throttled", message, "let it cool down, lock its clocks, and measure again")
    return None


def _absent(name: str, case: Case, runs: JudgedRuns) -> NotJudged:
    """The error of a rule that matches nothing in any run."""
    if not runs.names:
        problems = [problem for run in case.new for problem in run.problems if problem.severity == "error"]
        why = f": {problems[0].at}: {problems[0].message}" if problems else ""
        return _error("no-data", f"not judged, because the runs have no metrics{why}", "fix that first")
    if known := runs.why_absent(name):
        return _error("metric-absent", f"no run has {name}: {known[0]}", known[1])
    if name in runs.names or runs.keys(name):
        labels = listed(sorted({show_labels(key.labels) for key in runs.keys(name)}))
        message = f"no run has {name} with these labels; it has {labels}"
        return _error("metric-absent", message, "correct the labels")
    words = name.replace("/", " ").replace("(", " ").replace(")", " ").split()  # of an expression
    part = next((word for word in words if word in TIMES_OF_RUN and word not in runs.names), name)
    if part in _UNTOLD and WHOLE_TIME in runs.names:
        return _error("metric-absent", f"no run has {part}: {_UNTOLD[part][0]}", _UNTOLD[part][1])
    if part not in COMPUTED and (lacking := _lacking_part(name, case, runs)):
        message = f"no run has {lacking}, which {name} is computed from: {_nearest(lacking, runs)}"
        return _error("metric-absent", message, "correct `metrics` of the rule file, or measure it")
    names = f"the runs have {listed(runs.names)}" if part in TIMES_OF_RUN else _nearest(name, runs)
    step = COMPUTED.get(part, "correct the name, or list the metrics of a run with `perfgate inspect`")
    return _error("metric-absent", f"no run has {name}: {names}", step)


def _nearest(name: str, runs: JudgedRuns) -> str:
    """Return the names that an absent metric probably means, in words."""
    near = runs.nearest(name)
    return f"the nearest names are {listed(near)}" if near else f"the runs have {listed(runs.names)}"


def _lacking_part(name: str, case: Case, runs: JudgedRuns) -> str | None:
    """Return the first metric that a derived one is computed from and that no run has; None of another metric."""
    found, metrics = None, case.ruleset.metrics
    while name in metrics:
        parts = (selector.pattern for selector in selectors(metrics[name].expression))
        name = next((part for part in parts if not any(view.may_hold(part) for view in runs.new)), "")
        found = name or None
    return found


def _fitting(rule: Rule, clause: Clause, subjects: Sequence[Subject]) -> tuple[Sequence[Subject], list[str]]:
    """The metrics of a glob whose unit fits the clause's quantity, and the names of the others."""
    sentence = rule.sentence
    wanted = clause.asks.bound if isinstance(clause.asks, LimitClause) else clause.asks.absolute
    if wanted is None:
        return subjects, []

    def fits(subject: Subject) -> bool:
        found = subject.all_series()
        units = {statistic_unit(series, sentence.statistic or default_statistic(series)) for series in found}
        return not found or wanted.base in units

    fitting = [subject for subject in subjects if fits(subject)]
    if not fitting:
        return subjects, []
    return fitting, [subject.key.metric for subject in subjects if subject not in fitting]
