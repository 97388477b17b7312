"""The arithmetic behind a verdict, small enough that a person can repeat it with a calculator."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

#: What is asked: is a change of `at_worst` excluded, is the change within the tolerance, is there a change at all, is
#: it beyond the tolerance, is its estimate beyond `at_worst`, is a value on the good or the bad side of its bound?
Asks = Literal["excluded", "within", "a-change", "beyond", "beyond-at-worst", "kept", "broken"]


class Comparison(Struct, frozen=True):
    """A one-sided bound beside its edge: estimate ± quantile * standard_error.

    `quantile` is that of t at 1 - error_rate, with the degrees of freedom.

    `estimate` and `edge` are ln(new / base) for a change, and in the unit of the metric for a limit. With `is_above`,
    the answer is yes if the lower bound (-) is above the edge; else, if the upper bound (+) is below it.
    """

    asks: Asks
    estimate: float
    standard_error: float
    degrees_of_freedom: float
    error_rate: float
    quantile: float
    edge: float
    is_above: bool
    holds: bool


class Calculation(Struct, frozen=True):
    """The comparisons that decided, and what the numbers alone say: an outcome with its reason in one word."""

    comparisons: tuple[Comparison, ...]
    outcome: str
    reason: str
    suspect: bool = False
