"""What a rule's sentence says, once parsed: a subject, a statistic, which rank, and one or more clauses.

`forward_backward p95 on the worst rank within 5% and 2 ms of baseline` has the subject `forward_backward`, the
statistic `p95`, the rank choice `worst`, and one `ChangeClause`. The text form is parsed in `grammar`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from functools import lru_cache
from typing import Literal

from perfgate.core import Comparator, Key
from perfgate.core.aliases import synonyms
from perfgate.core.units import Quantity

Reference = Literal["baseline", "anchor", "median rank", "fastest rank", "slowest rank"]
RankChoice = Literal["worst", "each", "slowest", "fastest", "median", "across"]
#: Which side of a change is judged: `worse` follows from the metric, `both` judges improvements too.
ToleratedSide = Literal["worse", "upper", "lower", "both"]


@lru_cache(maxsize=4096)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))


def glob_matches(pattern: str, text: str) -> bool:
    """Whether a glob (`*`, `?`, `[..]`, letter case counts) matches the whole text."""
    return _compiled(pattern).match(text) is not None


@dataclass(frozen=True, slots=True)
class LabelTest:
    """One condition in braces: `rank="0"`, `name!="warmup*"`."""

    name: str
    pattern: str
    negated: bool

    def accepts(self, key: Key) -> bool:
        """Whether a series with this key meets the condition; a label that is absent equals nothing."""
        value = key.label(self.name)
        return (value is not None and glob_matches(self.pattern, value)) != self.negated


@dataclass(frozen=True, slots=True)
class Selector:
    """The series that a rule speaks of: a name or a glob, and conditions on labels."""

    pattern: str
    quoted: bool = False
    labels: tuple[LabelTest, ...] = ()

    @property
    def is_glob(self) -> bool:
        """Whether the name may match several metrics; a quoted name is always one."""
        return not self.quoted and any(mark in self.pattern for mark in "*?[")

    def matches_metric(self, metric: str) -> bool:
        """Whether the name alone matches."""
        names = (self.pattern, *synonyms(self.pattern))
        return any(glob_matches(name, metric) for name in names) if self.is_glob else metric in names

    def accepts_labels(self, key: Key) -> bool:
        """Whether the labels alone match."""
        return all(test.accepts(key) for test in self.labels)

    def matches(self, key: Key) -> bool:
        """Whether a series belongs to the selection."""
        return self.matches_metric(key.metric) and self.accepts_labels(key)


@dataclass(frozen=True, slots=True)
class Number:
    """A constant in an expression."""

    value: float


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two expressions and what is done with them, step by step or, between statistics, run by run."""

    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class StatisticOf:
    """`p99(step.time)`: one number of a run."""

    statistic: str
    of: Expression


Expression = Selector | Number | Arithmetic | StatisticOf


@dataclass(frozen=True, slots=True)
class LimitClause:
    """`under 50 ms`: held against a quantity."""

    comparator: Comparator
    bound: Quantity

    @property
    def upper(self) -> bool:
        """Whether large values are bad."""
        return self.comparator in ("under", "at most")


@dataclass(frozen=True, slots=True)
class ChangeClause:
    """`within 5% and 2 ms of baseline`: held against a reference, with a tolerance.

    `relative` is a share (0.05), `absolute` a quantity in the metric's unit; with both, a change fails only when
    it exceeds both.
    """

    reference: Reference
    side: ToleratedSide
    relative: float | None = None
    absolute: Quantity | None = None

    @property
    def is_stored(self) -> bool:
        """Whether the reference is stored runs, not another rank of the same run."""
        return self.reference in ("baseline", "anchor")


@dataclass(frozen=True, slots=True)
class Clause:
    """One judgement of a sentence, and the words that ask for it."""

    asks: LimitClause | ChangeClause
    text: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A whole sentence; each clause gives a verdict of its own."""

    text: str
    subject: Expression
    #: The subject's own words, for display: `forward`, `p99(step.time) / p50(step.time)`.
    subject_text: str
    statistic: str | None
    rank: RankChoice | None
    clauses: tuple[Clause, ...]


def selectors(expression: Expression) -> tuple[Selector, ...]:
    """Every selector in an expression, from left to right."""
    if isinstance(expression, Selector):
        return (expression,)
    if isinstance(expression, StatisticOf):
        return selectors(expression.of)
    if isinstance(expression, Arithmetic):
        return selectors(expression.left) + selectors(expression.right)
    return ()


def is_per_run(expression: Expression) -> bool:
    """Whether an expression gives one number a run, because it holds statistics: `p99(x) / p50(x)`."""
    if isinstance(expression, Arithmetic):
        return is_per_run(expression.left) or is_per_run(expression.right)
    return isinstance(expression, StatisticOf)
