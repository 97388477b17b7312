"""Values as they are read -> one Run: what every reader of samples does in the same way.

Values that cannot be true (NaN, infinity, negative, garbled) are left out and said in a problem that names their
series, so that no rule on that series can pass. Of one series the first 20 are said one by one, then counted.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from perfgate.core import Fact, Key, Location, Problem, Run, Series, Severity, read_only
from perfgate.readers.text import Document

MAX_FAULTS = 20


_NUMBER = re.compile(
    r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)", re.ASCII | re.IGNORECASE
)


def number(text: str) -> float | None:
    """A printed number, NaN and infinity included; None for anything else (`float` also takes `1_0`)."""
    return float(text) if _NUMBER.fullmatch(text) else None


def fault_of(text: str) -> str | None:
    """Why a printed value cannot be a measurement, or None if it can."""
    value = number(text)
    if value is None:
        return f"{text!r} is no number; left out"
    if 0 <= value < float("inf"):
        return None
    return f"{text} is no measurement, which is finite and not negative; left out"


Scaled = TypeVar("Scaled", float, npt.NDArray[np.float64])


def in_base(printed: Scaled, per: float) -> Scaled:
    """Printed numbers in base units; of GB and TFLOP multiplied, for dividing by 1e-9 is not exact."""
    return printed / per if per >= 1 else printed * round(1 / per)


class Column:
    """One series while it is read."""

    __slots__ = ("key", "per", "printed_as", "steps", "unit", "values")

    def __init__(self, key: Key, unit: str, per: float, printed_as: str | None) -> None:
        self.key = key
        self.unit = unit
        #: How many of the printed unit are one base unit: 1000 for ms.
        self.per = per
        self.printed_as = printed_as if printed_as != key.metric else None
        #: The values as printed.
        self.values = array("d")
        #: The step of each value; empty where a format has no steps.
        self.steps = array("q")

    def series(self) -> Series:
        """The finished series."""
        values = read_only(in_base(np.frombuffer(self.values, np.float64), self.per))
        steps = read_only(np.array(self.steps, np.int64)) if self.steps else None
        return Series(self.key, self.unit, "samples", values, steps, printed_as=self.printed_as)


class RunBuilder:
    """One run while it is read."""

    def __init__(self, document: Document, format_name: str) -> None:
        self.document = document
        self.format = format_name
        self.columns: dict[Key, Column] = {}
        #: Series that were whole when they were read: aggregates, single values, lists of a JSON document.
        self.finished: dict[Key, Series] = {}
        self.commit: str | None = None
        self._faults: dict[Key, int] = {}
        self._more_faults: Counter[Key] = Counter()
        self._said_of: Counter[tuple[Severity, str]] = Counter()
        self._alike: Counter[tuple[Severity, str]] = Counter()
        self._other_facts: set[tuple[str, Fact]] = set()
        self.problems: list[Problem] = []
        self.facts: dict[str, Fact] = {}

    def column(self, key: Key, unit: str, per: float = 1.0, printed_as: str | None = None) -> Column:
        """The series of this key, begun now if it is new; `per` printed units are one base unit."""
        if key not in self.columns:
            self.document.count("series", before=self.problems)
            self.columns[key] = Column(key, unit, per, printed_as)
        return self.columns[key]

    def add(self, column: Column, text: str, line: int, step: int | None = None) -> None:
        """The next value of a series, as printed, or a problem; all values of a series have a step, or none has."""
        fault = fault_of(text)
        if fault:
            self.refuse(column.key, fault, line)
        else:
            column.values.append(float(text))
            if step is not None:
                column.steps.append(step)

    @property
    def has_measured(self) -> bool:
        """Whether any series has begun."""
        return bool(self.columns or self.finished)

    def one_value(self, key: Key, unit: str, value: float, printed_as: str | None = None) -> None:
        """The one number of a series, in base units."""
        printed_as = printed_as if printed_as != key.metric else None
        self.finish(Series(key, unit, "value", read_only(np.array([value])), printed_as=printed_as))

    def finish(self, series: Series) -> None:
        """A series that was whole when it was read."""
        if series.key not in self.finished:
            self.document.count("series", before=self.problems)
        self.finished[series.key] = series

    def refuse(self, key: Key, why: str, line: int | None, column: int | None = None) -> None:
        """Why a value of this series is left out."""
        self._faults[key] = self._faults.get(key, 0) + 1
        if self._faults[key] <= MAX_FAULTS:
            self._accuse(key, why, line, column)

    def refuse_more(self, key: Key, count: int = 1) -> None:
        """So many more values of this series are left out, for reasons like those that were said."""
        self._more_faults[key] += count

    def _accuse(self, key: Key, why: str, line: int | None = None, column: int | None = None) -> None:
        at = Location(self.document.name, line, column)
        self.add_problem(Problem("error", f"{key}: {why}", at, key))

    def say(self, severity: Severity, message: str, line: int | None = None) -> None:
        """A problem of the whole run."""
        self.add_problem(self.document.problem(severity, message, line))

    def add_problem(self, problem: Problem) -> None:
        """A problem that has its place already; of those with the same words the first 20 are said, then counted."""
        if problem.key is None:
            self._alike[problem.severity, problem.message] += 1
            if self._alike[problem.severity, problem.message] > MAX_FAULTS:
                return
        self.document.count("problems", problem.at.line, self.problems)
        self.problems.append(problem)

    def say_some(self, severity: Severity, what: str, line: int, detail: str = "") -> None:
        """A problem of a kind that a damaged file has on every line: the first 20 are said, then counted."""
        self._said_of[severity, what] += 1
        if self._said_of[severity, what] <= MAX_FAULTS:
            self.say(severity, what + detail, line)

    def fact(self, name: str, value: Fact, line: int) -> None:
        """An environment fact; the first one counts, and another is said once."""
        known = self.facts.setdefault(name, value)
        if known != value and (name, value) not in self._other_facts and len(self._other_facts) < MAX_FAULTS:
            self._other_facts.add((name, value))
            self.say("warning", f"{name} is {value} here and {known} before; {known} is used", line)

    def run(self, part: int | None = None) -> Run:
        """The finished run, with the problems of its document; an error if nothing was measured."""
        measured = (column.series() for column in self.columns.values() if column.values)
        series = (*self.finished.values(), *measured)
        for key, count in self._faults.items():
            if more := max(count - MAX_FAULTS, 0) + self._more_faults[key]:
                self._accuse(key, f"and {more} more values left out")
        for (severity, what), count in (self._said_of | self._alike).items():
            if count > MAX_FAULTS:
                self.say(severity, f"{what}: and {count - MAX_FAULTS} more")
        if not series:
            self.say("error", "no measurements")
        return Run(
            self.document.name,
            self.format,
            series,
            (*self.document.problems, *self.problems),
            _frozen(self.facts),
            commit=self.commit,
            part=part,
        )


def _frozen(facts: dict[str, Fact]) -> Mapping[str, Fact]:
    return MappingProxyType(dict(sorted(facts.items())))
