"""One clause of a rule, put to one metric: everything that an answer is computed from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from perfgate.core import Better, CalibratedPrior, RunEstimate, Series
from perfgate.core.units import UNITS, format_value
from perfgate.core.wording import listed, plural
from perfgate.judge import messages
from perfgate.judge.derived import RunView
from perfgate.judge.directions import direction
from perfgate.judge.evidence import Evidence, Member, Members, Subject
from perfgate.judge.finding import Undecidable
from perfgate.judge.measure import default_statistic, statistic_unit
from perfgate.judge.ranks import Reading, choose
from perfgate.rules.ruleset import Rule, Settings
from perfgate.rules.syntax.sentence import ChangeClause, Clause, LimitClause, RankChoice
from perfgate.stats.history import DEFAULT
from perfgate.stats.steady import two_modes

if TYPE_CHECKING:
    from perfgate.judge.verdicts import Case


@dataclass(frozen=True, slots=True)
class Side:
    """The runs of one side, each spoken for by one rank."""

    views: tuple[RunView, ...]
    members: tuple[Member, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Question:
    """A clause and a subject, with the rule, the case and the runs that they belong to.

    `new` and `base` are the runs to be judged; with `on each rank` they hold one rank alone.
    """

    clause: Clause
    subject: Subject
    rule: Rule
    case: Case
    evidence: Evidence
    new: tuple[Members, ...]
    base: tuple[Members, ...]
    #: Whether the runs hold numbers that were computed from them, as ratios of ranks are.
    of_numbers: bool = False

    @property
    def settings(self) -> Settings:
        """The rule's settings."""
        return self.rule.settings

    @property
    def rank(self) -> RankChoice:
        """Which rank speaks for a run."""
        return self.rule.sentence.rank or "worst"

    @cached_property
    def calibrated(self) -> CalibratedPrior | None:
        """The run-to-run noise that was measured for what is judged here, if it was."""
        return self.calibrated_for(None)

    def calibrated_for(self, pairing: str | None) -> CalibratedPrior | None:
        """The noise that was measured between pairs that were made in a way, or between single runs (None)."""
        wanted = (self.subject.key, self.reading.statistic, self.rank, pairing)
        priors = self.case.baseline.priors
        return next((p for p in priors if (p.key, p.statistic, p.rank, p.pairing) == wanted), None)

    @property
    def prior(self) -> tuple[float, float]:
        """What is believed of run-to-run noise before the runs are seen: calibrated, or 1 % worth two runs."""
        known = self.calibrated or DEFAULT
        return known.s0, known.d0

    @cached_property
    def series(self) -> Series:
        """Some series of the subject: its unit and kind are those of all."""
        return next(series for run in (*self.new, *self.base) for series in run.values())

    @cached_property
    def reading(self) -> Reading:
        """The statistic, the warm-up, and which direction is bad. Raises Undecidable."""
        statistic = self.rule.sentence.statistic or default_statistic(self.series)
        asks = self.clause.asks
        if isinstance(asks, LimitClause):
            better: Better = "lower" if asks.upper else "higher"
        else:
            better = self._change_direction(statistic, asks)
        return Reading(statistic, self.settings.warmup, better, self.evidence.measurer)

    @property
    def shown_statistic(self) -> str | None:
        """The statistic as reports name it; a subject that is one number a run has none."""
        is_value = self.series.kind == "value" and self.rule.sentence.statistic is None
        return None if self.of_numbers or is_value else self.reading.statistic

    @property
    def unit(self) -> str:
        """The base unit of what is judged."""
        return statistic_unit(self.series, self.reading.statistic)

    @property
    def shown(self) -> str | None:
        """The unit to print values in: the author's own; a share that is held to points or known as one is in %."""
        asks = self.clause.asks
        quantity = asks.bound if isinstance(asks, LimitClause) else asks.absolute
        symbol = quantity.unit.symbol if quantity is not None and quantity.unit is not None else None
        is_share = self.unit == "1" and direction(self.subject.key.metric, "1", None) == "higher"
        return "%" if symbol == "pp" or (symbol is None and is_share) else symbol

    def _change_direction(self, statistic: str, asks: ChangeClause) -> Better:
        """Which values are better; `neither` where both directions are judged because nobody said it."""
        known = direction(self.subject.key.metric, statistic_unit(self.series, statistic), self.rule.better)
        if asks.side == "worse":
            return known or "neither"
        if asks.side == "both":
            return known or "lower"
        wanted: Better = "lower" if asks.side == "upper" else "higher"
        if known in ("lower", "higher") and known != wanted:
            message = f"`{self.clause.text}` bounds the improving side of {self.subject.key}: {known} is better"
            raise Undecidable("improving-side", message, "write `within 5% of baseline`, or set `better:`")
        return wanted

    def check_terms(self) -> None:
        """Refuse a bound on the improving side, and a quantity that does not fit the metric. Raises Undecidable."""
        asks = self.clause.asks
        self.reading  # noqa: B018  (raises for a bound on the improving side)
        quantity = asks.bound if isinstance(asks, LimitClause) else asks.absolute
        if quantity is None or (quantity.base == self.unit and (quantity.unit is not None or self.unit == "1")):
            return
        examples = [known.symbol for symbol, known in UNITS.items() if known.base == self.unit and symbol != "\u03bcs"]
        step = f"write a quantity in {listed(examples, most=20)}"
        if quantity.unit is None:
            message = f"{quantity} has no unit, and {self.subject.key} is measured in {self.unit}"
            raise Undecidable("no-unit", message, f"{step}, such as {quantity} {examples[len(examples) // 2]}")
        message = f"{quantity} does not fit {self.subject.key}, which is measured in {self.unit}"
        raise Undecidable("unit-mismatch", message, step)

    def check_runs(self, runs: int, which: str) -> None:
        """Refuse fewer runs than `min_runs`. Raises Undecidable."""
        needed = self.settings.min_runs
        if runs < needed:
            message = f"the rule asks for {plural(needed, 'run')}; the {which} side has {runs}"
            raise Undecidable("too-few-runs", message, f"give {needed - runs} more")

    def new_side(self) -> Side:
        """Which rank speaks for each new run. Raises NotAvailable."""
        return self.side(self.new, self.evidence.new)

    def side(self, runs: Sequence[Members], views: Sequence[RunView] = ()) -> Side:
        """Which rank speaks for each of these runs, which `views` show whole. Raises NotAvailable."""
        chosen = [choose(members, self.rank, self.reading) for members in runs]
        return Side(tuple(views), tuple(member for member, _ in chosen), tuple(series for _, series in chosen))

    def speaker(self, side: Side) -> Member:
        """The rank that the verdict names: that of the worst run."""
        if not any(side.members):
            return ()
        sign = -1 if self.reading.better == "higher" else 1
        values = [sign * self.reading.value(series) for series in side.series]
        worst = next((i for i, value in enumerate(values) if math.isnan(value)), values.index(max(values)))
        return side.members[worst]

    def words(self, member: Member) -> str:
        """The subject of a message: `p95 of forward on rank 3`."""
        return messages.what(self.subject.key, self.shown_statistic, dict(member))

    def mode_notes(self, series: Sequence[Series]) -> list[str]:
        """A warning where a run has two modes: its median can jump between them."""
        if self.reading.statistic != "median":
            return []
        for one in series:
            modes = two_modes(self.reading.steady(one).values) if one.kind == "samples" else None
            if modes is not None:
                low, high = format_value(modes.low_centre, one.unit), format_value(modes.high_centre, one.unit)
                shares = f"{100 * modes.low_share:.0f}% near {low}, {100 * modes.high_share:.0f}% near {high}"
                return [f"two modes: {shares}; the median can jump: use p90 or mean"]
        return []

    def data_error(self, reason: str, subject: str) -> Undecidable:
        """What it means when the values themselves cannot be judged."""
        few = f"{subject}: fewer than {self.settings.min_samples} values are left after warm-up"
        words = {
            "too-few-samples": (few, "run more steps, or set min_samples"),
            "not-a-number": (f"{subject} holds values that are no finite numbers", "see `perfgate inspect`"),
            "not-positive": (
                f"{subject} has values of zero or less, which have no relative change",
                "hold it to a limit instead, such as `under 1 ms`",
            ),
        }
        message, step = words.get(reason, (f"{subject} cannot be judged: {reason}", "see `perfgate inspect`"))
        return Undecidable(reason, message, step)


def run_estimates(question: Question, which: Literal["base", "new"], side: Side) -> tuple[RunEstimate, ...]:
    """Each run of a side by itself, as reports list them. Raises NotAvailable."""
    measures = [question.reading.measure(series) for series in side.series]
    return tuple(
        RunEstimate(which, view.run.name, run.value, run.n, run.dropped, run.settled)
        for view, run in zip(side.views, measures, strict=True)
    )
