"""The rules of a suite with their settings, ready for the judge."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field

from perfgate.core import Better, Fact, Location, Severity, fact_text
from perfgate.core.coverage import UnreadPolicy
from perfgate.core.file_mappings import FileMapping, RunCommand
from perfgate.core.units import NUMBER, Quantity
from perfgate.rules.syntax.sentence import (
    ChangeClause,
    Clause,
    Expression,
    LimitClause,
    Sentence,
    WorkClause,
    glob_matches,
)

if TYPE_CHECKING:
    from perfgate.rules.model_section import TrainedModel

PairsChoice = Literal["accept", "refuse"]
#: The facts by which environments are told apart, if a suite does not say it.
DEFAULT_IDENTITY = ("gpu", "gpu_count", "world_size")
_COMPARED = re.compile(r"\s*(<=|>=|==|<|>|!=)\s*(.+?)\s*")


class Condition(Struct, frozen=True):
    """One line of `when`: a fact and its required value, such as `world_size` `>= 8` or `gpu` `*H100*`."""

    fact: str
    operator: Literal["<", "<=", ">", ">=", "!=", "=="]
    operand: str

    def __str__(self) -> str:
        return f"{self.fact} {self.operator} {self.operand}"

    def holds(self, facts: Mapping[str, Fact]) -> bool | None:
        """Return whether the condition is true; None if the fact is unknown, or not a number where one is needed."""
        value = facts.get(self.fact)
        if value is None:
            return None
        if self.operator in ("==", "!="):
            return glob_matches(self.operand, fact_text(value)) == (self.operator == "==")
        try:
            number, bound = float(fact_text(value)), float(self.operand)
        except ValueError:
            return None
        if math.isnan(number):
            return None
        return {"<": number < bound, "<=": number <= bound, ">": number > bound, ">=": number >= bound}[self.operator]


def parse_condition(fact: str, text: str) -> Condition:
    """Parse one line of `when`. Raises ValueError, with the reason, for a comparison without a value or a number."""
    found = _COMPARED.fullmatch(text)
    value = found[2] if found else text.strip()
    if value.startswith(("<", ">", "=", "!")):
        raise ValueError("is not a comparison: write <, <=, >, >=, == or != and then a value")
    if not found:
        return Condition(fact, "==", value)
    if found[1] not in ("==", "!=") and not NUMBER.fullmatch(value):
        raise ValueError("must compare with a number")
    return Condition(fact, found[1], value)  # type: ignore[arg-type]


class DatedReason(Struct, frozen=True):
    """The reason why a rule does not block, and the last day on which this reason counts."""

    reason: str
    until: date


class AtWorst(Struct, frozen=True):
    """The setting `at_worst`: the size of change, or the value beyond a limit, that a pass must exclude.

    `relative` is a share, for relative tolerances and for limits in % or as a factor. `absolute` is a quantity, for
    absolute tolerances and limits. Either may be None.
    """

    relative: float | None
    absolute: Quantity | None
    text: str

    def beyond(self, asks: LimitClause) -> float | None:
        """Return the setting as a value beyond the limit `asks`, in base units; None if their units differ."""
        if self.absolute is not None and self.absolute.base == asks.bound.base:
            return self.absolute.value
        # A share fits a limit in % or as a factor; a bound without a unit has the base 1, too, but is a plain number.
        return self.relative if asks.bound.base == "1" and asks.bound.unit is not None else None


def is_narrower(at_worst: AtWorst, asks: LimitClause | ChangeClause | WorkClause) -> bool:
    """Return whether `at_worst` is below a tolerance of a change from stored runs, or not beyond a limit."""
    if isinstance(asks, LimitClause):
        value = at_worst.beyond(asks)
        return value is not None and (value <= asks.bound.value if asks.upper else value >= asks.bound.value)
    if isinstance(asks, WorkClause) or not asks.is_stored:
        return False
    if at_worst.relative is not None and asks.relative is not None and at_worst.relative < asks.relative:
        return True
    one, other = at_worst.absolute, asks.absolute
    return one is not None and other is not None and one.base == other.base and one.value < other.value


class Settings(Struct, frozen=True):
    """The settings of a rule; the defaults are those of the rule language."""

    severity: Severity = "error"
    #: The number of values to drop at the start of a run; `auto` finds it from the data.
    warmup: Literal["auto"] | int = "auto"
    #: The confidence of each one-sided bound, as a share.
    confidence: float = 0.95
    #: The wanted probability of seeing a change, for plans of runs.
    power: float = 0.8
    min_runs: int = 1
    min_samples: int = 1
    on_missing: Literal["error", "warn", "skip"] = "error"
    #: None is the default: `warn`, or `error` if there are too few values to compare a percentile (not for a limit).
    on_inconclusive: Literal["warn", "fail", "error"] | None = None
    on_improvement: Literal["note", "fail"] = "note"
    on_throttled: Literal["note", "error"] = "note"
    #: None means twice each part of the tolerance; for a limit, no promise.
    at_worst: AtWorst | None = None
    #: The allowed total change from the anchor, as a share: 0.1 is 10 %.
    budget: float | None = None
    #: How much more of the time one side may lose to throttling or steal than the other, as a share.
    lost_time: float = 0.05
    #: The person or team that looks after the rule, such as `@team/kernels`.
    owner: str | None = None


class Rule(Struct, frozen=True):
    """One rule: a sentence, its settings, and its place in a file."""

    sentence: Sentence
    at: Location
    settings: Settings = field(default_factory=Settings)
    id: str | None = None
    why: str | None = None
    when: tuple[Condition, ...] = ()
    better: Better | None = None
    #: The rule is known to fail: it is skipped up to the last day.
    expect_fail: DatedReason | None = None
    tags: tuple[str, ...] = ()
    #: The rule has false alarms: it is judged, but does not block up to the last day.
    quarantine: DatedReason | None = None

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The clauses of the sentence, and the clause of the budget if there is one."""
        budget = self.settings.budget
        if budget is None:
            return self.sentence.clauses
        asks = ChangeClause("anchor", "worse", relative=budget)
        return (*self.sentence.clauses, Clause(asks, f"within {100 * budget:g}% of anchor"))

    @property
    def comparisons(self) -> tuple[tuple[Clause, ChangeClause], ...]:
        """The clauses that compare with stored runs by a tolerance (not exact work), each with its change clause."""
        asked = ((clause, clause.asks) for clause in self.clauses)
        return tuple((c, asks) for c, asks in asked if isinstance(asks, ChangeClause) and asks.is_stored)

    @property
    def name(self) -> str:
        """The id, or the sentence on one line if there is no id."""
        return self.id or " ".join(self.sentence.text.splitlines())


class DerivedMetric(Struct, frozen=True):
    """A metric that is computed from other metrics, step by step."""

    name: str
    expression: Expression
    text: str
    at: Location


class Ruleset(Struct, frozen=True):
    """All rules of one suite."""

    suite: str
    rules: tuple[Rule, ...]
    #: The derived metrics by name.
    metrics: Mapping[str, DerivedMetric]
    #: The facts that are equal in one environment.
    identity: tuple[str, ...] = DEFAULT_IDENTITY
    #: The files, for messages.
    files: tuple[str, ...] = ()
    #: Whether a results file may contain its own base, as pairs; None is the default.
    pairs: PairsChoice | None = None
    #: More fields of results that are conditions of a measurement, such as its load; `core.conditions` has the others.
    conditions: tuple[str, ...] = ()
    #: What to do about numbers of a file that its reader does not read.
    unread: UnreadPolicy = "warn"
    #: The new name of each renamed metric, by its old one: the history joins them.
    renames: Mapping[str, str] = field(default_factory=dict)
    #: The mappings of files of the team's own tools, from `perfgate.yaml`.
    mappings: tuple[FileMapping, ...] = ()
    #: The command that measures, from the same file.
    command: RunCommand | None = None
    #: The trained model, from which `mfu` and `hfu` are computed.
    model: TrainedModel | None = None

    @property
    def better(self) -> Mapping[str, Better]:
        """The direction of each metric whose mapping says it."""
        return {one.name.text: one.better for mapping in self.mappings for one in mapping.metrics if one.better}
