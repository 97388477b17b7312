"""Test the rules: unchanged runs pass, worse runs fail, and missing metrics are noticed.

The judge is the same as in `check`. `distortions` makes runs worse on purpose, in several ways and by several amounts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from perfgate.analysis.distortions import AMOUNTS, TELLING, Way, reading, ways
from perfgate.analysis.plan import PAIRS, seen_changes
from perfgate.core import Key, Run, Verdict
from perfgate.core.results import LOOKS
from perfgate.core.summaries import Proof
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.rules.ruleset import Rule
from perfgate.rules.syntax.sentence import ChangeClause

#: The metric, labels and clause of a verdict, without the rank.
_Name = tuple[str, tuple[tuple[str, str], ...], str]


def self_test(case: Case) -> tuple[Proof, ...]:
    """Return a proof for each clause of each rule and each metric, in the order of the rules.

    `case.new` are runs that should pass. Allowances are ignored.
    """
    times = 1 if case.baseline.pairing is None else math.ceil(PAIRS / max(len(case.new), 1))
    baseline = replace(case.baseline, allowances=(), runs=case.baseline.runs * times)
    case = replace(case, new=case.new * times, baseline=baseline)  # as many pairs as a gate makes
    rules = case.ruleset.rules
    seen = seen_changes(case) if case.baseline.pairing is None else {}
    tests = [_RuleTest(rule, replace(case, ruleset=replace(case.ruleset, rules=(rule,))), seen) for rule in rules]
    return tuple(test.proof(name, verdict) for test in tests for name, verdict in test.unchanged.items())


def exit_code(proofs: Sequence[Proof]) -> int:
    """Return 1 if a rule cannot fail or no rule can block; otherwise the exit code of the unchanged runs."""
    codes = {proof.exit_code for proof in proofs if proof.state == "blocked"}
    if any(proof.state == "unable" for proof in proofs) or 1 in codes:
        return 1
    return 3 if codes else int(all(proof.state == "by-choice" for proof in proofs))


class _RuleTest(Struct, frozen=True, dict=True):
    """One rule, and a case with this rule only."""

    rule: Rule
    case: Case
    #: By rule, metric and clause: the smallest change that is detected in the noise between runs. Worse runs are made
    #: from the same runs, so they have no such noise.
    seen: Mapping[tuple[str, str, str], float]

    @cached_property
    def unchanged(self) -> dict[_Name, Verdict]:
        return _by_name(judge(self.case))

    @cached_property
    def failing(self) -> dict[_Name, Verdict]:
        """For each verdict that some worse runs fail: the failing verdict at the smallest amount.

        The ways are tried in order, each only if it makes a verdict fail that the ways before it did not.
        """
        found: dict[_Name, Verdict] = {}
        for way in self.all_ways():
            if len(found) == len(self.unchanged):
                break
            if not any(self.failed(way, amount).keys() - found.keys() for amount in TELLING):
                continue  # this way makes no further verdict fail
            wanted = {name for name in self.unchanged if way.clause in (None, name[2])}
            for amount in AMOUNTS:  # in ascending order, so that a verdict stays at the first amount that it fails
                found = self.failed(way, amount) | found
                if wanted <= found.keys():
                    break
        return found

    def failed(self, way: Way, amount: float) -> dict[_Name, Verdict]:
        """Return the verdicts that fail on worse runs, only of the clause that the way is for."""
        own = ((name, v) for name, v in self.worse(way, amount).items() if way.clause in (None, name[2]))
        return {name: v for name, v in own if _fails(v)}

    def worse(self, way: Way, amount: float) -> dict[_Name, Verdict]:
        """Return the verdicts on worse runs."""
        new = tuple(way.applied(run, amount) for run in self.measured)
        found = judge(replace(self.case, new=new))
        if self.compares_with("anchor") and (stored := self.case.baseline.runs):
            # one run does not fail against the anchor, so all runs of the level are made worse
            level = tuple(way.applied(run, amount) for run in stored)
            drifted = replace(self.case, new=new, baseline=replace(self.case.baseline, runs=level))
            found = tuple(v for v in found if v.against != "anchor")
            found += tuple(v for v in judge(drifted) if v.against == "anchor")
        return _by_name(found)

    @cached_property
    def measured(self) -> tuple[Run, ...]:
        """The new runs. For a rule about a change from the baseline they are repeated, as in a gate; pairs are not."""
        if self.case.baseline.pairing is not None or not self.compares_with("baseline"):
            return self.case.new
        return self.case.new * math.ceil(LOOKS / max(len(self.case.new), 1))

    def compares_with(self, reference: str) -> bool:
        asks = (clause.asks for clause in self.rule.clauses)
        return any(isinstance(one, ChangeClause) and one.reference == reference for one in asks)

    @cached_property
    def notices_absence(self) -> bool:
        """True if runs without the metrics of the rule block."""
        reads = reading(self.rule, self.case.ruleset)
        new = (replace(run, series=tuple(s for s in run.series if not reads(s.key))) for run in self.case.new)
        return any(v.exit_code for v in judge(replace(self.case, new=tuple(new))))

    def proof(self, name: _Name, verdict: Verdict) -> Proof:
        """Return the proof for one verdict on unchanged runs, with the first state of `Proof` that is true."""
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
        )
        if verdict.outcome == "skipped" and verdict.reason in ("when", "expected-failure"):
            return replace(proof, state="by-choice", reason=verdict.message)
        as_is = "" if verdict.outcome == "pass" else f"unchanged, it is {verdict.outcome}: {verdict.message}"
        if verdict.exit_code:
            return replace(proof, state="blocked", reason=as_is)
        failing = self.failing.get(name)
        if failing is None:
            return replace(proof, reason=self.why_not(name, verdict))
        return self.proof_of_failing(replace(proof, reason=as_is), failing)

    def proof_of_failing(self, proof: Proof, failing: Verdict) -> Proof:
        """Return the proof of a clause whose verdict fails on worse runs."""
        side = failing.change if failing.kind == "change" else failing.new  # for a limit, the value moves
        moved = side.estimate if side else None
        seen = self.seen.get((self.rule.name, str(Key.of(failing.metric, **failing.labels)), failing.asks))
        # noise hides smaller changes than `seen`, unless an undecided verdict fails, too
        if seen is not None and moved is not None and self.rule.settings.on_inconclusive != "fail":
            moved = math.copysign(max(seen, abs(moved)), moved)
        proof = replace(proof, fails_at=moved, misses=self.notices_absence)
        if not failing.exit_code:
            reason = "severity: warning: a failure is reported but does not block"
            if failing.quarantine and failing.is_quarantined:
                reason = f"quarantined until {failing.quarantine.until} ({failing.quarantine.reason})"
            return replace(proof, state="by-choice", reason=reason)
        if not proof.misses:
            on_missing = self.rule.settings.on_missing
            reason = f"on_missing: {on_missing}: a missing {proof.metric} does not block"
            return replace(proof, state="by-choice" if on_missing != "error" else "unable", reason=reason)
        return replace(proof, state="proven")

    def why_not(self, name: _Name, verdict: Verdict) -> str:
        """Return the reason why no change makes a rule fail, if the rule or its verdicts show one."""
        if verdict.reason == "metric-absent":
            return f"it is never judged (on_missing: {self.rule.settings.on_missing}): {verdict.message}"
        if verdict.outcome == "skipped":
            return f"it is not judged: {verdict.message}"
        if verdict.kind == "limit" and verdict.comparator in ("over", "at least") and (verdict.bound or 0) <= 0:
            return f"{verdict.metric} is never below 0, so this limit cannot fail"
        if verdict.better == "higher" and verdict.tolerance is not None and verdict.tolerance >= 1:
            return "no metric can decrease by more than 100%: a tolerance of 100% or more allows every decrease"
        answers = [self.worse(way, AMOUNTS[-1]).get(name) for way in self.all_ways()]
        unsure = next((a for a in answers if a and (a.outcome == "undecided" or a.reason == "thin-tail")), None)
        if unsure is not None:
            result = "passes" if unsure.outcome == "pass" else f"is {unsure.outcome}"
            setting = self.rule.settings.on_inconclusive or "warn"
            return f"even 1000 times worse, it {result} (on_inconclusive: {setting}): {unsure.message}"
        return "no change of its metrics makes it fail"

    def all_ways(self) -> list[Way]:
        return list(ways(self.rule, self.case.ruleset, self.case.new, list(self.unchanged.values())))


def _by_name(verdicts: Sequence[Verdict]) -> dict[_Name, Verdict]:
    """Return the verdicts by name; the worst one, if several ranks have one name."""
    found: dict[_Name, Verdict] = {}
    for verdict in verdicts:
        name = (verdict.metric, tuple(sorted(verdict.labels.items())), verdict.asks)
        if name not in found or _badness(verdict) > _badness(found[name]):
            found[name] = verdict
    return found


def _fails(verdict: Verdict) -> bool:
    return verdict.outcome == "fail"


def _badness(verdict: Verdict) -> tuple[bool, bool]:
    """Return a value to sort by: a failure is worse than an answer that only blocks."""
    return _fails(verdict), verdict.exit_code > 0
