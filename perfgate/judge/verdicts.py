"""A ruleset against runs and a baseline: every rule becomes verdicts, and no rule disappears."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from perfgate.core import Baseline, Fact, MissingBaseline, Run, Verdict, fact_text, show_labels
from perfgate.core.details import VerdictDetails
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.core.wording import listed
from perfgate.judge import health
from perfgate.judge.clauses import findings
from perfgate.judge.evidence import Evidence, Members, Subject, find_subjects, name_of
from perfgate.judge.families import corrected
from perfgate.judge.finding import Finding
from perfgate.judge.measure import default_statistic, statistic_unit
from perfgate.judge.question import Question
from perfgate.judge.report import verdict_exit_code
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.sentence import Clause, LimitClause, Selector, glob_matches


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that a check is decided from."""

    ruleset: Ruleset
    new: tuple[Run, ...]
    baseline: Baseline
    today: date
    facts: Mapping[str, Fact] = field(default_factory=dict)
    strict: bool = False
    missing_baseline: MissingBaseline = "error"
    only: tuple[str, ...] = ()
    #: The command that approves these runs, for messages.
    approve_command: str = "perfgate baseline approve RUN... --reason ..."
    limits: Limits = DEFAULT
    #: Whether a report will show the runs behind each verdict.
    with_evidence: bool = False


def judge(case: Case, evidence: Evidence | None = None) -> tuple[Verdict, ...]:
    """Judge every rule of a case, in the order of the rule files; `evidence` is that of the case, if there is any."""
    return tuple(verdict for verdict, _ in _judged(case, evidence))


def judge_with_evidence(
    case: Case, evidence: Evidence | None = None
) -> tuple[tuple[Verdict, ...], tuple[VerdictDetails, ...]]:
    """The verdicts, and the runs behind each that can be shown, in the same order."""
    judged = list(_judged(replace(case, with_evidence=True), evidence))
    shown = (replace(found.evidence, verdict=i) for i, (_, found) in enumerate(judged) if found.evidence)
    return tuple(verdict for verdict, _ in judged), tuple(shown)


def _judged(case: Case, evidence: Evidence | None) -> Iterator[tuple[Verdict, Finding]]:
    evidence = evidence or Evidence.of(case.new, case.baseline, case.ruleset.metrics)
    count = 0
    for one in (_RuleJudge(rule, case, evidence) for rule in case.ruleset.rules):
        for judged in one.verdicts():
            if count == case.limits.verdicts:
                found = one.too_many()
                yield one.verdict(one.clauses[0], None, found), found
                return
            count += 1
            yield judged


class _RuleJudge:
    """One rule: what it applies to, and a verdict for each clause and each metric."""

    def __init__(self, rule: Rule, case: Case, evidence: Evidence) -> None:
        self.rule = rule
        self.case = case
        self.evidence = evidence
        self.clauses = rule.clauses

    def verdicts(self) -> Iterator[tuple[Verdict, Finding]]:
        """The verdicts of the rule, and why: none when `--only` does not ask for it, at least one otherwise."""
        subjects = find_subjects(self.rule.sentence, self.evidence)
        if not self.asked_for_by_name():
            subjects = [subject for subject in subjects if self.asked_for(subject.key.metric)]
            if not subjects:
                return
        excuse = self.excuse()
        if excuse or not subjects:
            found = excuse or self.absent()
            yield self.verdict(self.clauses[0], None, found), found
            return
        for clause in self.clauses:
            fitting, left_out = self.fitting(clause, subjects)
            answers = [(s, finding) for s in fitting for finding in findings(self.question(clause, s))]
            for (subject, _), finding in zip(answers, self.corrected(clause, [f for _, f in answers]), strict=True):
                yield self.verdict(clause, subject, _with_left_out(finding, left_out)), finding

    def too_many(self) -> Finding:
        """What stands for all the others: beyond the limit nothing is judged, and nothing passes."""
        message = self.case.limits.beyond("verdicts", "judging stops here, for the rules ask for more verdicts")
        step = "name the metrics, or narrow the glob"
        return Finding("error", "too-many", message, step)

    def asked_for_by_name(self) -> bool:
        """Whether `--only` lets the whole rule through."""
        sentence = self.rule.sentence
        names = (self.rule.name, name_of(sentence.subject, sentence.subject_text))
        return not self.case.only or any(self.asked_for(name) for name in names)

    def asked_for(self, name: str) -> bool:
        """Whether `--only` names a rule or a metric."""
        return any(glob_matches(glob, name) for glob in self.case.only)

    def question(self, clause: Clause, subject: Subject) -> Question:
        asks = clause.asks
        stored: dict[str, tuple[Members, ...]] = {"baseline": subject.base, "anchor": subject.anchor}
        base = () if isinstance(asks, LimitClause) else stored.get(asks.reference, ())
        return Question(clause, subject, self.rule, self.case, self.evidence, subject.new, base)

    def excuse(self) -> Finding | None:
        """Why `when` keeps the rule from being judged, if it does; a fact that is not known is an error."""
        for condition in self.rule.when:
            holds, value = condition.holds(self.case.facts), self.case.facts.get(condition.fact)
            asks = f"`when` asks for {condition}"
            if value is None:
                step = f"give it with --env {condition.fact}=VALUE"
                return Finding("error", "unknown-fact", f"{asks}, and {condition.fact} is not known", step)
            if holds is None:
                message = f"{asks}, and {condition.fact} is {fact_text(value)!r}, which is no number"
                return Finding("error", "unknown-fact", message, "correct the fact or the rule")
            if not holds:
                return Finding("skipped", "when", f"{asks}; here it is {fact_text(value)}", "")
        slowed = health.throttling(self.case.facts)
        if slowed and self.rule.settings.on_throttled == "error":
            message = f"not judged, for the GPU was throttled: {', '.join(slowed)}"
            return Finding("error", "throttled", message, "let it cool down, lock its clocks, and measure again")
        return None

    def corrected(self, clause: Clause, found: list[Finding]) -> list[Finding]:
        """The findings of a clause; those of a glob allow for their number."""
        subject = self.rule.sentence.subject
        if not (isinstance(subject, Selector) and subject.is_glob):
            return found
        return corrected(found, clause, self.rule.settings.confidence, self.case.strict)

    def absent(self) -> Finding:
        """The rule matches nothing in any run."""
        name = name_of(self.rule.sentence.subject, self.rule.sentence.subject_text)
        if not self.evidence.names:
            problems = [problem for run in self.case.new for problem in run.problems if problem.severity == "error"]
            why = f": {problems[0].at}: {problems[0].message}" if problems else ""
            return Finding("error", "no-data", f"not judged, for the runs hold no metrics{why}", "settle that first")
        if name in self.evidence.names:
            labels = sorted({show_labels(key.labels) for key in self.evidence.keys(name)})
            message = f"no run holds {name} with these labels: it is there with {listed(labels)}"
            return Finding("error", "metric-absent", message, "correct the labels")
        near = self.evidence.nearest(name)
        held = (
            f"the nearest are {listed(near)}" if near else f"the runs hold {listed(self.evidence.names) or 'nothing'}"
        )
        step = "correct the name, or see `perfgate inspect` for what the runs hold"
        return Finding("error", "metric-absent", f"no run holds {name}: {held}", step)

    def fitting(self, clause: Clause, subjects: list[Subject]) -> tuple[list[Subject], list[str]]:
        """Of a glob, the metrics whose unit fits the clause's quantity, and the names of the rest."""
        subject = self.rule.sentence.subject
        wanted = clause.asks.bound if isinstance(clause.asks, LimitClause) else clause.asks.absolute
        if not (isinstance(subject, Selector) and subject.is_glob) or wanted is None:
            return subjects, []
        fitting = [s for s in subjects if not s.all_series() or wanted.base in self.units_of(s)]
        fit = {id(s) for s in fitting}
        return fitting or subjects, [s.key.metric for s in subjects if id(s) not in fit] if fitting else []

    def units_of(self, subject: Subject) -> set[str]:
        """The units of a subject's statistic in every run of either side; more than one is judged to be an error."""
        statistic = self.rule.sentence.statistic
        return {statistic_unit(series, statistic or default_statistic(series)) for series in subject.all_series()}

    def verdict(self, clause: Clause, subject: Subject | None, found: Finding) -> Verdict:
        """A finding with the rule it belongs to, after the policies of the rule and of the command."""
        finding = self.after_policies(found)
        rule, sentence, asks = self.rule, self.rule.sentence, clause.asks
        fields = {
            "unit": None,
            "statistic": sentence.statistic,
            "confidence": rule.settings.confidence,
            **finding.fields,
        }
        return Verdict(
            rule=rule.name,
            metric=subject.key.metric if subject else name_of(sentence.subject, sentence.subject_text),
            labels=dict(subject.key.labels) if subject else {},
            outcome=finding.outcome,
            reason=finding.reason,
            severity=rule.settings.severity,
            exit_code=verdict_exit_code(finding.outcome, finding.reason, rule.settings),
            kind="limit" if isinstance(asks, LimitClause) else "change",
            message=finding.message,
            next_step=finding.next_step,
            at=rule.at,
            against=None if isinstance(asks, LimitClause) else asks.reference,
            asks=clause.text,
            why=rule.why,
            notes=(*finding.notes, *health.notes(self.case.facts)),
            **fields,
        )

    def after_policies(self, finding: Finding) -> Finding:
        """`on_missing`, `--missing-baseline`, `on_improvement` and `expect_fail`: what somebody said beforehand."""
        policies = {"metric-absent": self.rule.settings.on_missing, "no-baseline": self.case.missing_baseline}
        policy = policies.get(finding.reason, "error")
        if policy != "error":
            prefix = "warning: not judged: " if policy == "warn" else "not judged: "
            finding = replace(finding, outcome="skipped", message=prefix + finding.message)
        if finding.fields.get("improved") and self.rule.settings.on_improvement == "fail":
            finding = replace(finding, outcome="fail", reason="improved")
        return self.after_expectation(finding)

    def after_expectation(self, finding: Finding) -> Finding:
        """A rule that is known to fail is skipped until its date, and says what it would have said."""
        expected = self.rule.expect_fail
        if expected is None or self.case.today > expected.until or finding.outcome in ("error", "skipped"):
            return finding
        known = f"expected to fail until {expected.until} ({expected.reason})"
        step = "it passes now: remove expect_fail" if finding.outcome == "pass" else ""
        message = f"{known}; now: {finding.outcome}: {finding.message}"
        return replace(finding, outcome="skipped", reason="expected-failure", message=message, next_step=step)


def _with_left_out(finding: Finding, names: list[str]) -> Finding:
    """A finding of a glob, with the metrics that the glob matches and the quantity does not fit."""
    if not names:
        return finding
    note = f"the unit of {listed(list(dict.fromkeys(names)))} does not fit: not judged by this rule"
    return replace(finding, notes=(*finding.notes, note))
