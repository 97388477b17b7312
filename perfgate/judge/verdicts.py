"""Make the verdicts: every rule becomes at least one verdict, and no rule disappears.

    evidence -> ask -> decide -> verdict

`_clause` shows the first three steps for one clause of a rule, and `_worded` makes the verdicts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import NO_STEP, Key, NextStep, Verdict, fact_text
from perfgate.core.details import VerdictDetails
from perfgate.core.results import Result
from perfgate.core.runs import throttling
from perfgate.core.wording import TIMES_OF_RUN, WHOLE_TIME, listed, show_labels
from perfgate.judge.ask import ask
from perfgate.judge.decide.outcome import decide
from perfgate.judge.details import verdict_details
from perfgate.judge.evidence import CannotJudge, Case, Evidence
from perfgate.judge.exact_work import ask_work, work_evidence
from perfgate.judge.measure import NotAvailable, OnlySummary, default_statistic, statistic_unit
from perfgate.judge.presence import check_presence
from perfgate.judge.question import NotJudged, Question, WorkQuestion
from perfgate.judge.subjects import JudgedRuns, Subject, find_subjects, name_of
from perfgate.judge.verdict import verdict_of, worsening
from perfgate.rules.ruleset import Rule
from perfgate.rules.syntax.sentence import Clause, Selector, WorkClause, glob_matches, selectors
from perfgate.words.steps import complete_base, error_step

_GIVE_MODEL = "give the rule file a `model` with parameters, tokens_per_step and dtype: perfgate computes it from these"
_GIVE_TIMES = (
    "give a log of torchtitan or of Megatron-LM with dates, or measure with `perfgate.Recorder(goodput=True)` or a "
    "callback: the page `efficiency` of the documentation lists what tells it"
)
#: The next step for metrics that perfgate computes, if no run has the numbers that they are computed from.
COMPUTED = {
    "mfu": _GIVE_MODEL,
    "hfu": _GIVE_MODEL,
    "goodput": _GIVE_TIMES,
    **dict.fromkeys(sorted(TIMES_OF_RUN), _GIVE_TIMES),
}
#: The parts of the time of a run that some logs do not have beside the other parts: the activity, and its metric.
_UNTOLD = {
    "time.checkpoint": ("saving checkpoints", "checkpoint_time"),
    "time.evaluation": ("evaluation", "evaluation_time"),
}


class _Answer(Struct, frozen=True):
    """An answer, with its question and its evidence."""

    evidence: Evidence
    question: Question
    found: Result
    #: The metrics that a glob names, but whose unit does not fit the clause.
    left_out: Sequence[str] = ()

    @property
    def can_be_drawn(self) -> bool:
        """True if the runs have the metric, so that a report can draw their values; work is counted, not drawn."""
        if isinstance(self.question, NotJudged):
            return self.question.is_of_runs
        return not isinstance(self.question, WorkQuestion)


def judge(case: Case, runs: JudgedRuns | None = None) -> tuple[Verdict, ...]:
    """Return the verdicts of every rule of a case, in the order of the rule files.

    `runs` are the runs of the case if they were prepared already.
    """
    return tuple(_worded(list(_answers(case, runs))))


def judge_with_details(
    case: Case, runs: JudgedRuns | None = None
) -> tuple[tuple[Verdict, ...], tuple[VerdictDetails, ...]]:
    """Return the verdicts, and the runs behind each verdict that a report can draw."""
    answers = list(_answers(case, runs))
    verdicts = tuple(_worded(answers))
    pairs = enumerate(zip(answers, verdicts, strict=True))
    details = [verdict_details(one.evidence, verdict, i) for i, (one, verdict) in pairs if one.can_be_drawn]
    return verdicts, tuple(found for found in details if found)


def _worded(answers: Sequence[_Answer]) -> Iterator[Verdict]:
    """Yield the verdicts. An allowance covers a whole metric, so it is proposed for the metric's worst failure."""
    worst: dict[str, float] = defaultdict(float)
    for one in answers:
        if one.found.outcome == "fail":
            metric = one.evidence.subject.key.metric
            worst[metric] = max(worst[metric], worsening(one.found))
    for one in answers:
        yield verdict_of(one.evidence, one.question, one.found, one.left_out, worst[one.evidence.subject.key.metric])


def _answers(case: Case, runs: JudgedRuns | None) -> Iterator[_Answer]:
    """Yield every answer up to the limit on verdicts; one error replaces the rest, so that the check cannot pass."""
    runs = runs or JudgedRuns.of(case.new, case.baseline, case.ruleset.metrics, case.ruleset.conditions)
    count = 0
    for rule in case.ruleset.rules:
        for answer in _rule(rule, case, runs):
            if count == case.limits.verdicts:
                message = case.limits.beyond("verdicts", "judging stops here, because the rules need more verdicts")
                step = "name the metrics, or use a narrower glob"
                yield _of_rule(rule, case, runs, _error("too-many", message, step))
                return
            count += 1
            yield answer


def _rule(rule: Rule, case: Case, runs: JudgedRuns) -> Iterator[_Answer]:
    """Yield the answers to one rule: none if `--only` leaves it out, at least one otherwise."""
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


def _clause(rule: Rule, clause: Clause, subjects: Sequence[Subject], case: Case, runs: JudgedRuns) -> Iterator[_Answer]:
    """Yield the answers to one clause: gather the evidence of each metric, ask, and decide."""
    if isinstance(clause.asks, WorkClause):
        yield _of_work(rule, clause, subjects, case, runs)
        return
    subject = rule.sentence.subject
    is_glob = isinstance(subject, Selector) and subject.is_glob
    fitting, left_out = _fitting(rule, clause, subjects) if is_glob else (subjects, [])
    asked = [one for subject in fitting for one in _asked(Evidence.of(rule, clause, subject, case, runs))]
    answers = decide([question for _, question in asked])
    for (evidence, question), answer in zip(asked, answers, strict=True):
        yield _Answer(evidence, question, answer, left_out)


def _of_work(rule: Rule, clause: Clause, subjects: Sequence[Subject], case: Case, runs: JudgedRuns) -> _Answer:
    """Return the answer to a clause about exact work: one for all counts."""
    evidence = work_evidence(rule, clause, subjects, case, runs)
    question: Question
    try:
        question = ask_work(evidence, subjects)
    except CannotJudge as error:
        question = _accepted(evidence, error.as_answer())
    return _Answer(evidence, question, decide([question])[0])


def _asked(evidence: Evidence) -> Iterator[tuple[Evidence, Question]]:
    """Yield the question about one metric with its evidence; with `on each rank`, one for each rank."""
    try:
        check_presence(evidence)
    except CannotJudge as error:
        yield evidence, _accepted(evidence, error.as_answer())
        return
    for one in evidence.each_rank() if evidence.rank == "each" else (evidence,):
        question: Question
        try:
            question = ask(one)
        except CannotJudge as error:
            question = error.as_answer(is_of_runs=True)
        except OnlySummary as error:  # the baseline was stored without the values that the rule needs
            step = complete_base(one.case.accept, [error.sources])
            question = CannotJudge("not-available", str(error), step).as_answer(is_of_runs=True)
        except NotAvailable as error:
            refused = CannotJudge("not-available", str(error), "use a statistic that the source has")
            question = refused.as_answer(is_of_runs=True)
        yield one, _accepted(one, question) if isinstance(question, NotJudged) else question


def _accepted(evidence: Evidence, found: NotJudged) -> NotJudged:
    """Return the answer, skipped if `on_missing` accepts the absent metric, or `--missing-baseline` the absent base."""
    policies = {"metric-absent": evidence.rule.settings.on_missing, "no-baseline": evidence.case.missing_baseline}
    policy = policies.get(found.reason, "error")
    return found if policy == "error" else replace(found, outcome="skipped", accepted_missing=policy)


def _of_rule(rule: Rule, case: Case, runs: JudgedRuns, answer: NotJudged) -> _Answer:
    """Return the answer to a whole rule without a judged metric."""
    sentence = rule.sentence
    subject = Subject(Key(name_of(sentence.subject, sentence.subject_text)), sentence.subject, ())
    evidence = Evidence.of(rule, rule.clauses[0], subject, case, runs)
    found = _accepted(evidence, answer)
    return _Answer(evidence, found, found)


def _error(reason: str, message: str, next_step: str) -> NotJudged:
    return NotJudged(outcome="error", reason=reason, message=message, next_step=error_step(reason, next_step))


def _obstacle(rule: Rule, case: Case) -> NotJudged | None:
    """Return why `when` or a throttled GPU prevents a judgement, or None.

    The first condition that does not hold decides. A condition about an unknown fact does not hold, and is an error.
    """
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
            claimed = _claimed_by(condition.fact, case)
            stated = NextStep("fix-input", f"state it with --env {condition.fact}=VALUE") if claimed else NO_STEP
            message = f"{asks}; here it is {fact_text(value)}{claimed}"
            return NotJudged(outcome="skipped", reason="when", message=message, next_step=stated)
    slowed = throttling(case.facts)
    if slowed and rule.settings.on_throttled == "error":
        message = f"not judged, because the GPU was throttled: {', '.join(slowed)}"
        return _error("throttled", message, "let it cool down, lock its clocks, and measure again")
    return None


def _claimed_by(fact: str, case: Case) -> str:
    """Return in words which of the new files claim a fact, if nothing else states it; empty for other facts."""
    files = [run.source for run in case.new if fact in run.environment] if fact in case.claimed else []
    return f", claimed only by {listed(files)}" if files else ""


def _absent(name: str, case: Case, runs: JudgedRuns) -> NotJudged:
    """Return the error of a rule that matches nothing in any run."""
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
    words = name.replace("/", " ").replace("(", " ").replace(")", " ").split()  # an expression has several
    part = next((word for word in words if word in TIMES_OF_RUN and word not in runs.names), name)
    if part in _UNTOLD and WHOLE_TIME in runs.names:
        what, metric = _UNTOLD[part]
        message = f"no run has {part}: the log does not say how long {what} took"
        return _error("metric-absent", message, f"turn the timers on (Megatron-LM), or record `{metric}`")
    if lacking := _lacking_part(name, case, runs):
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
    """Follow derived metrics from `name` down to the metric that no run has; None if nothing is missing."""
    found, metrics = None, case.ruleset.metrics
    while name in metrics:
        parts = (selector.pattern for selector in selectors(metrics[name].expression))
        name = next((part for part in parts if not any(view.may_have(part) for view in runs.new)), "")
        found = name or None
    return found


def _fitting(rule: Rule, clause: Clause, subjects: Sequence[Subject]) -> tuple[Sequence[Subject], list[str]]:
    """Return the metrics of a glob whose unit fits the quantity of the clause, and the names of the other metrics.

    If none fits, all are returned, so that each verdict says so.
    """
    sentence = rule.sentence
    wanted = clause.quantity
    if wanted is None:
        return subjects, []

    bases = {wanted.base} if wanted.unit is not None else {wanted.base, "count"}  # as `check_terms` accepts

    def fits(subject: Subject) -> bool:
        found = subject.all_series()
        units = {statistic_unit(series, sentence.statistic or default_statistic(series)) for series in found}
        return not found or not bases.isdisjoint(units)

    fitting = [subject for subject in subjects if fits(subject)]
    if not fitting:
        return subjects, []
    return fitting, [subject.key.metric for subject in subjects if subject not in fitting]
