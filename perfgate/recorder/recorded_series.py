"""The series of a recording. Names, units, labels, numbers and facts are checked when the program gives them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsFloat

from perfgate.core.units import BASE_UNITS, UNITS

if TYPE_CHECKING:
    from perfgate.core.runs import Fact

Labels = Mapping[str, str]
#: The unit of spans. Whole nanoseconds are exact, and are written twice as fast as seconds.
SPAN_UNIT = "ns"
_LARGEST_STEP = 2**63 - 1
_Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedSeries:
    """A metric with its unit and labels; a `single` series has one value, others have samples."""

    metric: str
    unit: str
    labels: Labels
    single: bool

    def head(self) -> dict[str, Any]:
        """Return the fields that every piece of the series has in the file."""
        labels = {"labels": dict(self.labels)} if self.labels else {}
        return {"metric": self.metric, **labels, "unit": self.unit}

    def accepts(self, number: float) -> bool:
        """True if perfgate can read the number: it is finite, and a time is not negative."""
        unit = UNITS.get(self.unit)
        is_time = unit is not None and unit.base == "s"
        return math.isfinite(number) and not (is_time and number < 0)


#: A recorded value: its series, its step, and the number in the unit of the series.
Entry = tuple[RecordedSeries, int, float]


class SeriesTable:
    """All series of one recording. Each of them also has the labels `labels`, such as the rank."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        #: By metric and the labels that the program gave. Two keys can mean one series, because it may give the rank.
        self._given: dict[_Key, RecordedSeries] = {}
        #: By metric and all labels.
        self.all: dict[_Key, RecordedSeries] = {}
        #: The series of spans without labels, for a fast look-up.
        self.times: dict[str, RecordedSeries] = {}

    def find(self, metric: str, unit: str, labels: Labels | None = None, *, single: bool = False) -> RecordedSeries:
        """Return a series, and add it if it is new. Raises ValueError for invalid or contradictory arguments."""
        key = metric, tuple((labels or {}).items())
        try:
            series = self._given.get(key)
        except TypeError:  # a label that is a list: it is refused below
            series = None
        if series is None:
            _check_text("the name of a metric", metric, can_be_empty=False)
            for name, value in (labels or {}).items():
                _check_text("the name of a label", name, can_be_empty=False)
                _check_text(f"the label {name}", value)
            _check_unit(unit)
            new = RecordedSeries(metric, unit, {**self._labels, **(labels or {})}, single)
            series = self._given[key] = self.all.setdefault((metric, tuple(sorted(new.labels.items()))), new)
        if series.unit != unit:
            _check_unit(unit)  # it may only be misspelled
            raise ValueError(f"{metric} is recorded in {series.unit}, so it cannot have the unit {unit!r}")
        if series.single != single:
            raise ValueError(f"{metric} is used in both record() and value(): a metric has samples or a single value")
        if unit == SPAN_UNIT and labels is None and not single:
            self.times[metric] = series
        return series


def as_number(value: SupportsFloat) -> float:
    """Return a value as a number; for a tensor on a GPU this waits for the GPU. Raises TypeError."""
    if isinstance(value, str | bytes):
        raise TypeError(f"{value!r} is text, not a number")
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):  # an array or tensor of several elements
        raise TypeError(f"a value of type {type(value).__name__} is not a number") from None
    except OverflowError:
        return math.inf


def check_step(number: int) -> None:
    """Raise ValueError for an invalid step number."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _LARGEST_STEP:
        raise ValueError(f"{number!r} is not a step number: use a whole number from 0")


def check_facts(facts: Mapping[str, Fact], commit: str | None) -> None:
    """Raise ValueError for an invalid fact or commit."""
    for name, value in facts.items():
        _check_text("the name of a fact", name, can_be_empty=False)
        if isinstance(value, str):
            _check_text(f"the fact {name}", value)
        elif not isinstance(value, int) and not (isinstance(value, float) and math.isfinite(value)):
            raise ValueError(f"the fact {name} is {value!r}: a fact is text, a finite number or a boolean")
    if commit is not None:
        _check_text("the commit", commit)


def check_reason(reason: str) -> None:
    """Raise ValueError for an invalid reason why a recording is incomplete."""
    _check_text("the reason", reason, can_be_empty=False)


def _check_unit(unit: str) -> None:
    _check_text("the unit", unit)
    if unit != "1" and unit not in UNITS:
        near = difflib.get_close_matches(unit, [*UNITS, *BASE_UNITS], n=1)
        raise ValueError(f"unknown unit {unit!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _check_text(what: str, text: str, *, can_be_empty: bool = True) -> None:
    if not isinstance(text, str):
        raise ValueError(f"{what} is {text!r}, not text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} is {text!r}, which contains half a surrogate pair") from None
    if not (text or can_be_empty):
        raise ValueError(f"{what} is empty")
