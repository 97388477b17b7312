"""Rules put to the test: what is unchanged passes, what is worse fails, what is gone is noticed: `perfgate selftest`.

The judge that decides here is the one that decides in `check`; only the runs are made worse on purpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from perfgate.analysis.distortions import AMOUNTS, TELLING, Way, reading, ways
from perfgate.core import Proof, Run, Verdict
from perfgate.core.units import format_change
from perfgate.judge.case import Case
from perfgate.judge.verdicts import judge
from perfgate.rules.ruleset import Rule
from perfgate.rules.syntax.sentence import ChangeClause

#: What tells the verdicts of a rule apart, whichever rank they speak of.
_Name = tuple[str, tuple[tuple[str, str], ...], str]


def self_test(case: Case) -> tuple[Proof, ...]:
    """A proof for each clause of each rule and each metric, in the order of the rules.

    `case.new` are runs that are meant to pass. What somebody allowed beforehand counts for nothing here.
    """
    case = replace(case, baseline=replace(case.baseline, allowances=()))
    tests = (
        _RuleTest(rule, replace(case, ruleset=replace(case.ruleset, rules=(rule,)))) for rule in case.ruleset.rules
    )
    return tuple(proof for test in tests for proof in test.proofs())


def exit_code(proofs: Sequence[Proof]) -> int:
    """1 where a rule is unable to fail, or none can block; else what the unchanged runs exit with."""
    codes = {proof.exit_code for proof in proofs if proof.state == "blocked"}
    if any(proof.state == "unable" for proof in proofs) or 1 in codes:
        return 1
    return 3 if codes else int(all(proof.state == "by-choice" for proof in proofs))


@dataclass(frozen=True)
class _RuleTest:
    """One rule, and a case that holds no other."""

    rule: Rule
    case: Case

    def proofs(self) -> Iterator[Proof]:
        """One for each verdict that the rule gives on unchanged runs; of several ranks, for all together."""
        for name, verdict in self.unchanged.items():
            yield self.of(name, verdict)

    @cached_property
    def unchanged(self) -> dict[_Name, Verdict]:
        return _by_name(judge(self.case))

    @cached_property
    def failing(self) -> dict[_Name, Verdict]:
        """The first verdict that blocks, or would but for its severity, on the way to worse and worse."""
        found: dict[_Name, Verdict] = {}
        judged = list(self.unchanged.values())
        for way in ways(self.rule, self.case.ruleset, self.case.new, judged):
            if len(found) == len(self.unchanged):
                break
            if any(self.fails(way, amount).keys() - found.keys() for amount in TELLING):
                self.climb(way, found)
        return found

    def climb(self, way: Way, found: dict[_Name, Verdict]) -> None:
        """Step by step, so that the smallest change that fails is known."""
        wanted = {name for name in self.unchanged if way.clause in (None, name[2])}
        for amount in AMOUNTS:
            for name, verdict in self.fails(way, amount).items():
                found.setdefault(name, verdict)
            if wanted <= found.keys():
                return

    def fails(self, way: Way, amount: float) -> dict[_Name, Verdict]:
        """The verdicts that fail on runs that were made worse, of the clause that the way is made for."""
        failed = _failed(self.worse(way, amount))
        return {name: verdict for name, verdict in failed.items() if way.clause in (None, name[2])}

    def worse(self, way: Way, amount: float) -> dict[_Name, Verdict]:
        """The verdicts on runs that were made worse."""
        new, stored = (tuple(way.applied(run, amount) for run in runs) for runs in (self.case.new, self.base))
        found = judge(replace(self.case, new=new))
        if stored:
            # One run is no creep: what is held against the anchor is a whole level that went astray.
            drifted = replace(self.case, new=new, baseline=replace(self.case.baseline, runs=stored))
            found = tuple(v for v in found if v.against != "anchor")
            found += tuple(v for v in judge(drifted) if v.against == "anchor")
        return _by_name(found)

    @property
    def base(self) -> tuple[Run, ...]:
        """The stored runs, where the rule holds them against the anchor, too."""
        asks = (clause.asks for clause in self.rule.clauses)
        anchored = any(isinstance(one, ChangeClause) and one.reference == "anchor" for one in asks)
        return self.case.baseline.runs if anchored else ()

    @cached_property
    def notices_absence(self) -> bool:
        """Whether runs without what the rule reads block."""
        reads = reading(self.rule, self.case.ruleset)

        def without(run: Run) -> Run:
            return replace(run, series=tuple(series for series in run.series if not reads(series.key)))

        return any(v.exit_code for v in judge(replace(self.case, new=tuple(map(without, self.case.new)))))

    def of(self, name: _Name, verdict: Verdict) -> Proof:
        """The proof for one verdict on unchanged runs."""
        excused = verdict.outcome == "skipped" and verdict.reason in ("when", "expected-failure")
        proof = Proof(
            rule=verdict.rule,
            metric=verdict.metric,
            labels=verdict.labels,
            statistic=verdict.statistic,
            asks=verdict.asks,
            at=verdict.at,
            state="unable",
            exit_code=verdict.exit_code,
            reason="",
            unit=verdict.unit,
            shown_unit=verdict.shown_unit,
            kind=verdict.kind,
            tolerance=verdict.tolerance,
        )
        if excused:
            return replace(proof, state="by-choice", reason=verdict.message)
        if verdict.exit_code:
            return replace(proof, state="blocked", reason=f"unchanged it is {verdict.outcome}: {verdict.message}")
        failing = self.failing.get(name)
        if failing is None:
            return replace(proof, reason=self.why_not(name, verdict))
        unsure = "" if verdict.outcome == "pass" else f"unchanged it is {verdict.outcome}: {verdict.message}"
        return self.of_failing(replace(proof, reason=unsure), failing)

    def of_failing(self, proof: Proof, failing: Verdict) -> Proof:
        """The proof of a verdict that was made to fail."""
        proof = replace(proof, fails_at=_value(failing), misses=self.notices_absence)
        if not failing.exit_code:
            reason = "severity: warning: a failure is said, and does not block"
            return replace(proof, state="by-choice", reason=reason)
        if not proof.misses:
            on_missing = self.rule.settings.on_missing
            reason = f"on_missing: {on_missing}: without {proof.metric} it would not block"
            return replace(proof, state="by-choice" if on_missing != "error" else "unable", reason=reason)
        tolerance, change = proof.tolerance, proof.fails_at
        if proof.kind == "change" and tolerance and change is not None and abs(change) > 2 * tolerance:
            unsure = f"between {100 * tolerance:g}% and {format_change(abs(change))}"
            return replace(proof, state="proven", reason=f"{unsure} the data cannot tell: see `perfgate plan`")
        return replace(proof, state="proven")

    def why_not(self, name: _Name, verdict: Verdict) -> str:
        """Why no change makes a rule fail, as far as its words or the last answer say it."""
        if verdict.reason == "metric-absent":
            return f"it is never judged (on_missing: {self.rule.settings.on_missing}): {verdict.message}"
        if verdict.outcome == "skipped":
            return f"it is not judged: {verdict.message}"
        if verdict.kind == "limit" and verdict.comparator in ("over", "at least") and (verdict.bound or 0) <= 0:
            return f"{verdict.metric} is never below 0, so that nothing breaks this limit"
        if verdict.better == "higher" and verdict.tolerance is not None and verdict.tolerance >= 1:
            return "nothing can fall by more than all of it: a tolerance of 100% or more allows everything"
        answers = [self.worse(way, AMOUNTS[-1]).get(name) for way in self.all_ways()]
        unsure = next((a for a in answers if a is not None and a.outcome in ("inconclusive", "suspect")), None)
        if unsure is not None:
            asked = self.rule.settings.on_inconclusive or "warn"
            return f"even a thousandfold it is {unsure.outcome} (on_inconclusive: {asked}): {unsure.message}"
        return "no change of what it reads makes it fail"

    def all_ways(self) -> list[Way]:
        """Every way to be worse."""
        return list(ways(self.rule, self.case.ruleset, self.case.new, list(self.unchanged.values())))


def _by_name(verdicts: Sequence[Verdict]) -> dict[_Name, Verdict]:
    """The verdicts by what they are about; of several ranks the worst answer."""
    found: dict[_Name, Verdict] = {}
    for verdict in verdicts:
        name = (verdict.metric, tuple(sorted(verdict.labels.items())), verdict.asks)
        if name not in found or _blocks(verdict) > _blocks(found[name]):
            found[name] = verdict
    return found


def _blocks(verdict: Verdict) -> tuple[bool, bool]:
    return verdict.exit_code == 1 or verdict.outcome == "fail", verdict.exit_code > 0


def _failed(verdicts: dict[_Name, Verdict]) -> dict[_Name, Verdict]:
    return {name: v for name, v in verdicts.items() if v.exit_code == 1 or v.outcome == "fail"}


def _value(verdict: Verdict) -> float | None:
    if verdict.kind == "change":
        return verdict.change.estimate if verdict.change else None
    return verdict.new.estimate if verdict.new else None
