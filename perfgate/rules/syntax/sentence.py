"""A parsed sentence: a subject, a statistic, a choice of rank, and one or more clauses.

`forward_backward p95 on the worst rank within 5% and 2 ms of baseline` has the subject `forward_backward`, the
statistic `p95`, the rank choice `worst`, and one `ChangeClause`. `grammar` parses the text.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from perfgate.core import Comparator, Key
from perfgate.core.units import Quantity
from perfgate.core.wording import synonyms

Reference = Literal["baseline", "anchor", "median rank", "fastest rank", "slowest rank"]
RankChoice = Literal["worst", "each", "slowest", "fastest", "median", "across"]
#: The side on which a change is judged: `worse` depends on the metric, `both` includes improvements.
ToleratedSide = Literal["worse", "upper", "lower", "both"]


@lru_cache(maxsize=4096)
def _compiled(glob: str, flags: int = 0) -> re.Pattern[str]:
    return re.compile(translate(glob), flags)


def glob_matches(pattern: str, text: str) -> bool:
    """Return whether a glob (`*`, `?`, `[..]`, case-sensitive) matches the whole text."""
    return _compiled(pattern).match(text) is not None


class LabelTest(Struct, frozen=True):
    """One condition in braces: `rank="0"`, `name!="warmup*"`."""

    name: str
    pattern: str
    negated: bool

    def accepts(self, key: Key) -> bool:
        """Return whether a series with this key meets the condition; an absent label equals nothing."""
        value = key.label(self.name)
        return (value is not None and glob_matches(self.pattern, value)) != self.negated


class Selector(Struct, frozen=True):
    """The series that a rule applies to: a name or a glob, and conditions on labels."""

    pattern: str
    quoted: bool = False
    labels: tuple[LabelTest, ...] = ()

    @property
    def is_glob(self) -> bool:
        """True if the name may match several metrics; a quoted name never does."""
        return not self.quoted and any(mark in self.pattern for mark in "*?[")

    def matches_metric(self, metric: str) -> bool:
        """Return whether the name or one of its synonyms matches, whatever the labels are."""
        names = (self.pattern, *synonyms(self.pattern))
        if not self.is_glob:
            return metric in names
        # Kernels and operators are named by many libraries: `SoftMax` in one is `softmax` in another.
        flags = ((name, re.IGNORECASE if name.startswith(("kernel.", "op.")) else 0) for name in names)
        return any(_compiled(name, flag).match(metric) for name, flag in flags)

    def accepts_labels(self, key: Key) -> bool:
        """Return whether the labels match, whatever the name is."""
        return all(test.accepts(key) for test in self.labels)

    def matches(self, key: Key) -> bool:
        """Return whether a series with this key is selected."""
        return self.matches_metric(key.metric) and self.accepts_labels(key)


class Number(Struct, frozen=True):
    """A constant in an expression."""

    value: float


class Arithmetic(Struct, frozen=True):
    """Two expressions and an operator, computed step by step or, between statistics, run by run."""

    operator: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression


class StatisticOf(Struct, frozen=True):
    """`p99(step.time)`: one number per run."""

    statistic: str
    of: Expression


class KeptLimit(Struct, frozen=True):
    """`p99_ttft under 500 ms` after `with`: a limit that a load has to keep."""

    of: Selector
    statistic: str | None
    limit: LimitClause

    def keeps(self, value: float) -> bool:
        """Return whether a value, in base units, is on the good side; NaN is not."""
        bound, comparator = self.limit.bound.value, self.limit.comparator
        keeps = {"under": value < bound, "at most": value <= bound, "over": value > bound, "at least": value >= bound}
        return keeps[comparator]


class LargestLoad(Struct, frozen=True):
    """`the largest request_rate with p99_ttft under 500 ms`: one number per run, from a server under several loads.

    With `is_condition`, `of` names a condition, otherwise a metric. The number is its value at the largest load that
    keeps the limits, as all smaller ones do; 0 if the smallest load does not.
    """

    of: Selector
    is_condition: bool
    limits: tuple[KeptLimit, ...]


Expression = Selector | Number | Arithmetic | StatisticOf | LargestLoad


class LimitClause(Struct, frozen=True):
    """`under 50 ms`: a limit at a quantity."""

    comparator: Comparator
    bound: Quantity

    @property
    def upper(self) -> bool:
        """True if large values are bad."""
        return self.comparator in ("under", "at most")


class ChangeClause(Struct, frozen=True):
    """`within 5% and 2 ms of baseline`: a comparison with a reference, with a tolerance.

    `relative` is a share (0.05), `absolute` a quantity in the metric's unit. With both, a change fails only if it
    exceeds both.
    """

    reference: Reference
    side: ToleratedSide
    relative: float | None = None
    absolute: Quantity | None = None

    @property
    def is_stored(self) -> bool:
        """True if the reference is stored runs, not another rank of the same run."""
        return self.reference in ("baseline", "anchor")


class WorkClause(Struct, frozen=True):
    """`no more work than baseline`, or with `is_same`: `same work as baseline`. `device` leaves out what hosts do."""

    is_same: bool
    device: bool
    reference: Literal["baseline"] = "baseline"


class Clause(Struct, frozen=True):
    """One requirement of a sentence, and its words."""

    asks: LimitClause | ChangeClause | WorkClause
    text: str

    @property
    def quantity(self) -> Quantity | None:
        """The bound of a limit, or the absolute tolerance of a change; None without one."""
        if isinstance(self.asks, LimitClause):
            return self.asks.bound
        return self.asks.absolute if isinstance(self.asks, ChangeClause) else None


class Sentence(Struct, frozen=True):
    """A whole sentence; each clause gives a verdict for each metric."""

    text: str
    subject: Expression
    #: The subject as written, for display: `forward`, `p99(step.time) / p50(step.time)`.
    subject_text: str
    #: As written. None means the median of samples, the mean of an aggregate, or the single value; for a limit of a
    #: count of work, the worst step.
    statistic: str | None
    #: As written. None means the worst rank.
    rank: RankChoice | None
    clauses: tuple[Clause, ...]


def selectors(expression: Expression) -> tuple[Selector, ...]:
    """Return the selector of every metric in an expression, from left to right, without that of a condition."""
    if isinstance(expression, Selector):
        return (expression,)
    if isinstance(expression, StatisticOf):
        return selectors(expression.of)
    if isinstance(expression, Arithmetic):
        return selectors(expression.left) + selectors(expression.right)
    if isinstance(expression, LargestLoad):
        metric = () if expression.is_condition else (expression.of,)
        return (*metric, *(kept.of for kept in expression.limits))
    return ()


def is_per_run(expression: Expression) -> bool:
    """Return whether an expression gives one number per run, because it contains statistics or a largest load."""
    if isinstance(expression, Arithmetic):
        return is_per_run(expression.left) or is_per_run(expression.right)
    return isinstance(expression, StatisticOf | LargestLoad)
