"""The tolerance and the limit that fit a metric of some runs, and warnings about impossible limits of shares.

A tolerance fits if it is the smallest of `TOLERANCES` with which one new run of an unchanged program ends in exit 0
with 80 % probability (`plans`), and with which these runs themselves do, each alone and all together.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from perfgate.analysis.plan import plans
from perfgate.core import Baseline, Better, Location, Problem, Run, Series
from perfgate.core.advice import ProposedRule, Purpose
from perfgate.core.results import RUNS_FOR_A_PROMISE
from perfgate.core.summaries import Plan
from perfgate.core.units import display_unit, format_number
from perfgate.judge.evidence import Case, direction
from perfgate.judge.measure import Method, NotAvailable, default_statistic
from perfgate.judge.pairs import PRIORS, Pairs, pair_ratios
from perfgate.judge.stalls import STALL_METRICS
from perfgate.judge.verdicts import judge
from perfgate.rules.ruleset import Rule, Ruleset, Settings
from perfgate.rules.syntax.grammar import parse_sentence
from perfgate.rules.syntax.sentence import ChangeClause, Clause, Selector

#: Usual tolerances, in percent. From 3 % on, rules need no correction for multiple comparisons.
TOLERANCES = (3, 5, 8, 10, 15, 20, 25, 30, 40, 50)
#: The reason of a metric without a tolerance.
TOO_NOISY = f"their noise is more than {TOLERANCES[-1]}%: give more runs, or quieter ones"
#: If there are too few runs to see the noise, a tolerance is at least this many standard deviations of one run.
_SPREADS_OF_ONE_RUN = 4.0
#: Returns the sentence with this end, such as `within 5% of baseline`; None if no sentence can name the metric.
Writer = Callable[[str], str | None]
_AS_USUAL = Settings()
#: A limit is proposed only if no run leaves it undecided.
_SURELY = Settings(on_inconclusive="error")


class Fit(Struct, frozen=True):
    """A sentence with its tolerance in percent, and its plans, one for each set of labels."""

    sentence: str
    tolerance: int
    plans: tuple[Plan, ...]

    @property
    def noisiest(self) -> Plan | None:
        """The plan with the most noise; None if the metric is compared without noise."""
        known = [plan for plan in self.plans if plan.noise_between is not None]
        return max(known, key=noise_of, default=None)

    @property
    def fails_from(self) -> float | None:
        """The smallest change that fails in 8 of 10 cases: the largest one of all labels; 0 without noise.

        None if, for some labels, no change fails so often.
        """
        if self.noisiest is None:
            return 0.0
        found = [plan.fails_from for plan in self.plans if plan.noise_between is not None]
        return None if None in found else max(change for change in found if change is not None)

    def proposed(self, purpose: Purpose, subject: str, limit: str | None = None) -> ProposedRule:
        """Return the rule of a gate with stored runs."""
        noise = None if self.noisiest is None else noise_of(self.noisiest)
        asks = f"within {self.tolerance}%"
        return ProposedRule(purpose, self.sentence, subject, asks, self.fails_from, self.tolerance, noise, limit=limit)


class Trial(Struct, frozen=True):
    """The runs that a rule is tried on, with the metrics that it reads, and today's date."""

    runs: tuple[Run, ...]
    today: date
    #: The direction of the metric, if the user said it.
    better: Better | None = None

    @classmethod
    def of(cls, runs: Iterable[Run], metrics: Collection[str], today: date, better: Better | None = None) -> Trial:
        """The runs with only these metrics, and those that show which steps of a trace stalled."""
        names = {*metrics, *STALL_METRICS}
        kept = (replace(run, series=tuple(s for s in run.series if s.key.metric in names)) for run in runs)
        return cls(tuple(kept), today, better)

    def fitted(self, write: Writer, among: Sequence[int] = TOLERANCES) -> Fit | str:
        """Return the sentence with the smallest tolerance in percent that fits, or the reason why none does."""
        sentences = {percent: write(f"within {percent}% of baseline") for percent in among}
        tolerances = {sentence: percent for percent, sentence in sentences.items() if sentence is not None}
        if not tolerances:
            return "a rule cannot name them"
        planned = plans(self._case(tolerances, self.runs))
        for sentence, percent in tolerances.items():
            own = tuple(plan for plan in planned if plan.rule == sentence)  # a rule is named by its sentence
            if all(map(_passes_with_one_run, own)) and self.passes(sentence):
                return Fit(sentence, percent, own)
        return self._why_none_fits(planned, sentence)

    def _why_none_fits(self, planned: Sequence[Plan], widest: str) -> str:
        """The reason why no sentence fits. `widest` is the one with the largest tolerance."""
        trouble = next((plan.trouble for plan in planned if plan.trouble and not _is_exact(plan)), None)
        if trouble is not None:
            return trouble
        verdicts = judge(self._case([widest], self.runs))
        error = next((one.reason for one in verdicts if one.outcome == "error"), None)
        return TOO_NOISY if error is None else f"{error.replace('-', ' ')} in a run"

    def passes(self, sentence: str, settings: Settings = _AS_USUAL) -> bool:
        """Return whether a rule passes with these runs, all together and each alone; they are also its baseline."""
        sides = [self.runs, *((run,) for run in self.runs if len(self.runs) > 1)]
        verdicts = (verdict for new in sides for verdict in judge(self._case([sentence], new, settings)))
        # a change is also fine if only more runs would show its noise
        return all(verdict.outcome == "pass" or verdict.reason == "noise-unknown" for verdict in verdicts)

    def limit(self, write: Writer, series: Sequence[Series], statistic: str, upper: bool, room: float) -> str | None:
        """Return a limit `room` times beyond the worst run, which all runs pass; None if there is none."""
        values = _values(series, statistic, "lower" if upper else "higher")
        if not values:
            return None
        bound = _quantity(max(values) * room if upper else min(values) / room, series[0].unit, upper)
        sentence = write(f"{'under' if upper else 'over'} {bound}")
        return sentence if sentence is not None and self.passes(sentence, _SURELY) else None

    def _case(self, sentences: Iterable[str], new: Sequence[Run], settings: Settings = _AS_USUAL) -> Case:
        """Return a case with a rule for each sentence, new runs, and the runs of the trial as its baseline."""
        rules = tuple(Rule(parse_sentence(one), Location("rules"), settings, better=self.better) for one in sentences)
        # problems of other metrics do not matter for these rules
        judged = tuple(replace(run, problems=()) for run in new)
        return Case(Ruleset("proposed", rules, {}), judged, Baseline(runs=self.runs), self.today)


def noise_of(plan: Plan) -> float:
    """Return the relative standard deviation of one run: noise between runs and inside the run."""
    return math.hypot(plan.noise_between or 0.0, plan.noise_within or 0.0)


def spread_of(series: Sequence[Series], statistic: str) -> float | None:
    """Return largest / smallest - 1 of a statistic of these series; None for fewer than two values."""
    values = _values(series, statistic, "lower")
    return max(values) / min(values) - 1 if len(values) > 1 else None


def _quantity(value: float, base: str, upper: bool) -> str:
    """Return a quantity with two digits, rounded away from the measured value."""
    unit = display_unit(value, base)
    scaled = value / unit.factor
    step = 10.0 ** (math.floor(math.log10(scaled)) - 1)
    rounded = (math.ceil if upper else math.floor)(scaled / step) * step
    symbol = "%" if base == "1" else unit.symbol
    number = format_number(100 * rounded if base == "1" else rounded)
    return f"{number}{symbol}" if symbol == "%" else f"{number} {symbol}"


def _passes_with_one_run(plan: Plan) -> bool:
    """Return whether one new run of an unchanged program is enough; with too few stored runs, by the assumed noise."""
    if _is_exact(plan):
        return True
    if (plan.base_runs or 0) < RUNS_FOR_A_PROMISE:
        return plan.tolerance is not None and _SPREADS_OF_ONE_RUN * noise_of(plan) <= plan.tolerance
    return plan.runs_needed is not None and plan.runs_needed <= 1


def _is_exact(plan: Plan) -> bool:
    """Return whether a metric has no plan because it is compared without noise; only the text of the plan says so."""
    return plan.trouble is not None and "without noise" in plan.trouble


def value_of(series: Series, statistic: str) -> float | None:
    """Return a statistic of one series; None if it does not have it."""
    try:
        return Method(statistic, better="lower").measure(series).value
    except NotAvailable:
        return None


def _values(series: Sequence[Series], statistic: str, better: Better) -> list[float]:
    """Return the positive values of a statistic of these series; none if one of them does not have it.

    `better`: values on the other side at the start of a run may be its warm-up.
    """
    method = Method(statistic, better=better)
    try:
        values = [method.measure(one).value for one in series]
    except NotAvailable:
        return []
    return [value for value in values if value is not None and math.isfinite(value) and value > 0]


#: A smaller limit without a unit is probably intended: a scaling efficiency can be 1.05.
_LEAST_LIMIT = 2


def impossible_shares(ruleset: Ruleset) -> list[Problem]:
    """Return a warning for each tolerance of 100 points or more, and each limit of 200 % or more without a unit.

    It checks only rules about shares that should be high, as their names say: `mfu`, `gpu.utilization`, `goodput`.
    """
    found = []
    for rule in ruleset.rules:
        subject = rule.sentence.subject
        if isinstance(subject, Selector) and direction(subject.pattern, "1", None) == "higher":
            texts = map(_impossible, rule.sentence.clauses)
            found += [Problem("warning", text, rule.at) for text in texts if text]
    return found


def _impossible(clause: Clause) -> str | None:
    """Return the warning about a clause about a share that always has the same answer; None for other clauses."""
    asks, size = clause.asks, clause.quantity
    if size is None or size.base != "1":
        return None
    percent = f"{100 * size.value:g}"
    if isinstance(asks, ChangeClause) and size.value >= 1:
        step = f"write {size} pp or {size}%" if size.unit is None else "write fewer"
        return f"`{clause.text}` never fails: {percent} percentage points of a share; {step}"
    if not isinstance(asks, ChangeClause) and size.unit is None and size.value >= _LEAST_LIMIT:
        return f"`{clause.text}` is a limit of {percent} % for a share: write {size}%"
    return None


def spread_of_pairs(pairs: Pairs | None, metric: str) -> float | None:
    """Return the relative standard deviation of new / base around 1, the largest of all labels; None if unknown.

    The program is the same on both sides, so the true ratio is 1. A few pairs may agree by chance, so the variance is
    averaged with the judge's prior (Smyth 2004, doi:10.2202/1544-6115.1027).
    """
    if pairs is None:
        return None
    scale, freedom = PRIORS[pairs.pairing]
    squares = defaultdict[tuple[tuple[str, str], ...], list[float]](list)
    for base, new in zip(pairs.base, pairs.new, strict=True):
        known = {one.key: one for one in new.series}
        shared = [(one, known[one.key]) for one in base.series if one.key.metric == metric and one.key in known]
        for one, other in shared:
            ratio = _ratio(one, other, pairs)
            if ratio is not None and ratio > 0:
                squares[one.key.labels].append(math.log(ratio) ** 2)
    found = [(freedom * scale**2 + sum(own)) / (freedom + len(own)) for own in squares.values()]
    return math.sqrt(max(found)) if found else None


def _ratio(base: Series, new: Series, pairs: Pairs) -> float | None:
    """Return new / base of the statistic of a pair, by steps if these took turns; None if one side does not have it."""
    statistic = default_statistic(base)
    try:
        sides = [Method(statistic, better="lower").measure(series) for series in (base, new)]
    except NotAvailable:
        return None
    by_turns = [base.values] if pairs.pairing != "whole-runs" else []
    return pair_ratios(sides[:1], sides[1:], by_turns, [new.values], statistic)[0].value
