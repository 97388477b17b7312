"""One clause of a rule applied to one metric: the statistic, the units, the direction and the runs of both sides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cached_property
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core import (
    Acceptance,
    Baseline,
    Better,
    CalibratedPrior,
    Fact,
    HostDifference,
    MissingBaseline,
    NextStep,
    RememberedRuns,
    Run,
    Series,
)
from perfgate.core.resource_limits import DEFAULT as DEFAULT_LIMITS
from perfgate.core.resource_limits import Limits
from perfgate.core.units import format_number, printed_base
from perfgate.core.wording import series_name
from perfgate.judge import measure
from perfgate.judge.derived import WARMUP_METRICS, RunView
from perfgate.judge.pairs import PRIORS
from perfgate.judge.question import MeasuredSide, NotJudged
from perfgate.judge.subjects import JudgedRuns, Subject
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.grammar import COUNTS
from perfgate.rules.syntax.sentence import ChangeClause, Clause, LargestLoad, LimitClause, RankChoice
from perfgate.stats.history import DEFAULT
from perfgate.stats.moderated import runs_contradict
from perfgate.words.steps import error_step


class Case(Struct, frozen=True):
    """The rules, the runs of both sides, and the settings of the command line about them."""

    ruleset: Ruleset
    new: tuple[Run, ...]
    baseline: Baseline
    today: date
    facts: Mapping[str, Fact] = field(default_factory=dict)
    #: The names of facts that only the judged files state.
    claimed: frozenset[str] = frozenset()
    strict: bool = False
    missing_baseline: MissingBaseline = "error"
    #: Globs of rule ids and metrics; empty means all.
    only: tuple[str, ...] = ()
    #: The commands that accept these runs.
    accept: Acceptance = field(default_factory=Acceptance)
    limits: Limits = DEFAULT_LIMITS
    #: The numbers of new runs at which they are judged; None is `check`, where a change has up to three looks.
    looks: tuple[int, ...] | None = None


#: The ends of the names of metrics that are shares of the hardware's possible speed: higher is better.
_HIGHER_IS_BETTER = ("utilization", "efficiency", "occupancy", "overlap", "tensor_core_share", "mfu", "hfu", "goodput")
#: The statistics that measure spread: less is better, whatever the metric.
_SPREADS = ("stddev", "cv")
KnownOfSeries = TypeVar("KnownOfSeries", HostDifference, RememberedRuns)


class CannotJudge(Exception):
    """A clause that cannot be judged: the message, the reason in one word, and the next step.

    If the next step is only a sentence, the reason decides its action.
    """

    def __init__(self, reason: str, message: str, next_step: NextStep | str, new: MeasuredSide | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.next_step = error_step(reason, next_step)
        #: The new runs if they could be measured.
        self.new = new

    def as_answer(self, *, is_of_runs: bool = False) -> NotJudged:
        """Return the error that the verdict shows; `is_of_runs` is True if a report can draw the runs."""
        return NotJudged(
            outcome="error",
            reason=self.reason,
            message=str(self),
            next_step=self.next_step,
            new=self.new,
            is_of_runs=is_of_runs,
        )


class Evidence(Struct, frozen=True, dict=True):
    """One clause about one metric, with the rule, the case and the runs that they belong to; `of` makes it."""

    rule: Rule
    clause: Clause
    subject: Subject
    case: Case
    runs: JudgedRuns
    #: The series of each run by member (rank or device); with `on each rank`, only that of `member`.
    new: tuple[measure.Members, ...]
    base: tuple[measure.Members, ...]
    member: measure.Member = ()

    @classmethod
    def of(cls, rule: Rule, clause: Clause, subject: Subject, case: Case, runs: JudgedRuns) -> Evidence:
        """Return the evidence about a metric, with the base runs that the clause refers to."""
        asks = clause.asks
        reference = None if isinstance(asks, LimitClause) else asks.reference
        base = {"baseline": subject.base, "anchor": subject.anchor}.get(reference or "", ())
        return cls(rule, clause, subject, case, runs, subject.new, base)

    def each_rank(self) -> Iterator[Evidence]:
        """Yield the same evidence for each rank of either side, one after the other."""
        for member in sorted(self.subject.members((*self.new, *self.base))):
            new, base = (
                tuple({member: run[member]} if member in run else {} for run in side) for side in (self.new, self.base)
            )
            yield replace(self, new=new, base=base, member=member)

    @property
    def rank(self) -> RankChoice:
        """The choice of the rank that represents a run."""
        return self.rule.sentence.rank or "worst"

    def calibrated(self, pairing: str | None = None, *, is_believed: bool = False) -> CalibratedPrior | None:
        """Return the known noise between single runs, or between pairs that were made in one way; None if unknown.

        A calibration is preferred to the noise that a history shows. The latter counts only if the runs do not
        contradict it, or with `is_believed`.
        """
        wanted = (self.subject.key, self.method.statistic, self.rank, pairing)
        priors = self.case.baseline.priors
        found = next((p for p in priors if (p.key, p.statistic, p.rank, p.pairing) == wanted), None)
        if found is None or found.learned_from is None or is_believed:
            return found
        try:
            sides = [self.measured(side).measures for side in (self.base, self.new) if all(side)]
        except measure.NotAvailable:  # the verdict says why
            return found
        return None if runs_contradict(sides, (found.s0, found.d0)) else found

    def of_series(self, known: Iterable[KnownOfSeries]) -> KnownOfSeries | None:
        """Return the item about the judged series from facts of the history about many series; None without one."""
        wanted = (self.subject.key, self.method.statistic, self.rank)
        return next((one for one in known if (one.key, one.statistic, one.rank) == wanted), None)

    def prior(self, pairing: str | None = None) -> tuple[float, float]:
        """Return the prior (s0, d0) of the noise between runs or pairs: calibrated, or the default of their kind."""
        known = self.calibrated(pairing)
        if known is None:
            return (DEFAULT.s0, DEFAULT.d0) if pairing is None else PRIORS[pairing]
        return known.s0, known.d0

    @cached_property
    def series(self) -> Series:
        """One series of the metric, of a new run if one has it; all have its unit, but not always its kind."""
        return next(series for run in (*self.new, *self.base) for series in run.values())

    @cached_property
    def method(self) -> measure.Method:
        """The method that measures each run: statistic, warm-up and direction. Raises CannotJudge."""
        written, asks = self.rule.sentence.statistic, self.clause.asks
        statistic = written or measure.default_statistic(self.series)
        better: Better = "lower"
        if isinstance(asks, LimitClause):
            better = "lower" if asks.upper else "higher"
            if written is None and self.series.kind == "samples" and self.subject.key.metric in COUNTS:
                statistic = "max" if asks.upper else "min"  # every step: the median would hide some
        elif isinstance(asks, ChangeClause):
            better = self._better(asks, statistic)
        better_value: Better | None = None
        if statistic in _SPREADS:  # less spread of a rate is better, but its low values are slow
            unit = measure.statistic_unit(self.series, statistic)
            better_value = direction(self.subject.key.metric, unit, self.rule.better)
        return measure.Method(statistic, self.rule.settings.warmup, better, self.runs.cache, better_value)

    def _better(self, asks: ChangeClause, statistic: str) -> Better:
        """Return the better direction of a change. Raises CannotJudge if the clause bounds only the better side."""
        key, expression, own = self.subject.key, self.subject.expression, self.rule.better
        metric = key.metric
        if isinstance(expression, LargestLoad):
            metric = expression.of.pattern
            own = own or ("higher" if expression.is_condition else None)
        known = direction(metric, measure.statistic_unit(self.series, statistic), own, statistic)
        if asks.side == "worse":
            return known or "neither"
        if asks.side == "both":  # only the warm-up and the worst rank need a direction
            return known or "lower"
        better: Better = "lower" if asks.side == "upper" else "higher"
        if known in ("lower", "higher") and known != better:
            message = f"`{self.clause.text}` bounds the improving side of {key}: {known} is better"
            raise CannotJudge("improving-side", message, "write `within 5% of baseline`, or set `better:`")
        return better

    @property
    def shown_statistic(self) -> str | None:
        """The statistic as reports name it; None for a metric that is a single number, if the rule names none."""
        is_value = self.series.kind == "value" and self.rule.sentence.statistic is None
        return None if is_value else self.method.statistic

    @cached_property
    def unit(self) -> str:
        """The base unit of the statistic."""
        return measure.statistic_unit(self.series, self.method.statistic)

    @cached_property
    def shown_unit(self) -> str | None:
        """The unit to print values in: the one that the rule uses; % for shares, MHz for clocks.

        None for the unit that suits each value.
        """
        quantity = self.clause.quantity
        symbol = quantity.unit.symbol if quantity is not None and quantity.unit is not None else None
        if symbol is None and self.unit == "1/s" and printed_base(self.subject.key.metric, self.unit) == "Hz":
            return "MHz"
        is_share = self.unit == "1" and direction(self.subject.key.metric, "1", None) == "higher"
        return "%" if symbol == "pp" or (symbol is None and is_share) else symbol

    def measured(self, runs: Sequence[measure.Members], views: Sequence[RunView] = ()) -> MeasuredSide:
        """Return these runs, each measured on its chosen rank; `views` are the whole runs. Raises NotAvailable."""
        chosen = [measure.choose(members, self.rank, self.method) for members in runs]
        return MeasuredSide(
            views=tuple(views),
            members=tuple(member for member, _ in chosen),
            series=tuple(series for _, series in chosen),
            measures=tuple(self.method.measure(series) for _, series in chosen),
        )

    def shown_member(self, side: MeasuredSide) -> measure.Member:
        """Return the rank that the verdict names: the one that represents the worst run."""
        if not any(side.members):
            return ()
        sign = -1 if self.method.better == "higher" else 1
        values = [math.nan if run.value is None else sign * run.value for run in side.measures]
        worst = next((i for i, value in enumerate(values) if math.isnan(value)), values.index(max(values)))
        return side.members[worst]

    def name(self, member: measure.Member, statistic: str | None = None) -> str:
        """Return the name of the judged series: `forward p95 on rank 3`."""
        return series_name(self.subject.key.metric, self.subject.key.labels, statistic, member)

    def bad_values(self, reason: str, name: str, tolerance: float | None = None) -> CannotJudge:
        """Return the error for values that cannot be judged."""
        least = self.rule.settings.min_samples
        few = f"fewer than {least} values after warm-up" if least > 1 else "no value after warm-up"
        texts = {
            "too-few-samples": (f"{name} has {few}", "run more steps" + (", or set min_samples" if least > 1 else "")),
            "not-a-number": (f"{name} has values that are not finite numbers", "see `perfgate inspect`"),
            "not-positive": (
                f"{name} has values of zero or less, so a relative change does not exist",
                "use a limit, or an absolute tolerance, such as `within 1 ms of baseline`",
            ),
            "tolerance-too-small": (
                f"{self.subject.key}: a tolerance of {format_number(100 * (tolerance or 0.0))}% is too small for "
                "pairs: order and memory layout alone move unchanged code by up to 0.6%",
                "write `within 1% of baseline` or more",
            ),
        }
        message, step = texts.get(reason, (f"{name} cannot be judged: {reason}", "see `perfgate inspect`"))
        return CannotJudge(reason, message, step)


def direction(metric: str, unit: str, override: Better | None, statistic: str | None = None) -> Better | None:
    """Return the better direction of a metric: of the rule, else of the name or the unit; None if it is unknown.

    Less spread is better, also of a rate: `statistic` is the measured one, with `unit`, or None for the metric itself.
    """
    if override is not None:
        return override
    if metric in WARMUP_METRICS:
        return "lower"
    is_share = unit == "1" and metric.endswith(_HIGHER_IS_BETTER)
    known = "higher" if is_share else measure.BETTER_BY_UNIT.get(unit)
    return "lower" if known == "higher" and statistic in _SPREADS else known
