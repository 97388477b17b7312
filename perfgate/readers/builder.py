"""Values as they are read -> one Run: what every reader does in the same way. CONTRIBUTING.md has an example.

A value is a printed text or comes from JSON. Values that cannot be true (not a number, not finite, a negative time) are
left out, and a problem that names their series says so: then no rule on that series can pass. A place is a line number,
a `Location`, or a path in the JSON document of the run. Of problems that are alike, the first 20 are reported and the
others are counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from perfgate.core import Fact, Key, Location, Problem, Run, Series, Severity, TimeAndPlace, read_only
from perfgate.documents.json import Path
from perfgate.readers.coverage import JsonSource
from perfgate.readers.digit_runs import Ints
from perfgate.readers.text import InputFile
from perfgate.readers.values import Column, Items, checked, fault_in, in_base, measured

MAX_FAULTS = 20
AGAIN = "occurs twice; using the first"

#: A line of the file from 1, a path in the JSON document of the run, a place, or the whole file.
Place = int | Path | Location | None
_EMPTY = read_only(np.empty(0))


class RunBuilder:
    """One run while it is read."""

    def __init__(self, file: InputFile, format_name: str, json: JsonSource | None = None) -> None:
        self.file, self.format = file, format_name
        self.json = json
        self.commit: str | None = None
        self.measured: TimeAndPlace | None = None  # when, and on which machine
        self.facts: dict[str, Fact] = {}
        #: Fields that may be conditions and are no labels.
        self.unlabelled: dict[str, str] = {}
        #: Series that grow by samples.
        self.columns: dict[Key, Column] = {}
        #: Series that are complete: aggregates, single values, whole lists of samples.
        self.finished: dict[Key, Series] = {}
        self.problems: list[Problem] = []
        #: For each series: how many values `refuse` got, and how many more of its lists `refuse_items` only counted.
        self._refused: Counter[Key] = Counter()
        self._refused_more: Counter[Key] = Counter()
        self._said: Counter[tuple[Severity, str]] = Counter()
        self._other_facts: set[tuple[str, Fact]] = set()
        #: The keys that `unique` has returned, and for each printed key the number in its last new name.
        self._names: set[Key] = set()
        self._numbers: dict[Key, int] = {}
        #: The table that has begun and has no row so far: what it is, and its line.
        self._rowless: tuple[str, int] | None = None
        self._kept_lines = file.coverage.lines.read  # by line, for lines that `UnreadLines` keeps: the numbers read

    @property
    def json(self) -> JsonSource | None:
        """The JSON document that paths are in."""
        return self._json

    @json.setter
    def json(self, source: JsonSource | None) -> None:
        self._json = source
        if source is not None:
            self.file.coverage.add_document(source)

    @property
    def has_measured(self) -> bool:
        """Return whether any series has begun."""
        return bool(self.columns or self.finished)

    # --- series that grow -------------------------------------------------------------------------------------------

    def column(self, key: Key, unit: str, per: float = 1.0, printed_as: str | None = None) -> Column:
        """Return the series of this key, new or known; `per` printed units are one base unit."""
        if key not in self.columns:
            self.file.count("series", before=self.problems)
            self.columns[key] = Column(key, unit, per, printed_as)
        return self.columns[key]

    def add(self, column: Column, text: str, line: int, step: int | None = None) -> None:
        """Add a printed value to a series, or a problem; either all values of a series have a step, or none has."""
        value, fault = checked(text, "s")  # negative values are refused in every unit
        if fault:
            self.refuse(column.key, fault, line)
            return
        column.values.append(value)
        if line in self._kept_lines:  # as `coverage.mark`, with the step
            self._kept_lines[line] += (value,) if step is None else (value, step)
        if step is not None:
            column.steps.append(step)

    def sample(
        self,
        key: Key,
        unit: str,
        value: object,
        at: Place,
        *,
        per: float = 1,
        step: int | None = None,
        printed_as: str | None = None,
    ) -> Column | None:
        """Add a value to the series of this key, and return the series; None, and a problem, if it cannot be true.

        In units "1" and "B" a value may be negative.
        """
        parsed, fault = checked(value, unit)
        if fault:
            self.refuse(key, fault, at)
            return None
        column = self.column(key, unit, per, printed_as)
        self.file.coverage.mark(self.json, at, parsed)
        column.values.append(parsed)
        if step is not None:
            column.steps.append(step)
        return column

    # --- series that are complete -----------------------------------------------------------------------------------

    def finish(self, series: Series) -> None:
        """Add a series that is complete, in base units."""
        self.file.is_odd = True  # so lines like this one are not read many at once
        if series.key not in self.finished:
            self.file.count("series", before=self.problems)
        self.finished[series.key] = series

    def samples(
        self,
        key: Key,
        unit: str,
        values: Items,
        at: Callable[[int], Place],
        *,
        per: float = 1.0,
        steps: Sequence[int] = (),
    ) -> None:
        """Add a series from a whole JSON list; items that are not measurements are refused.

        Parameters:
            key, unit: the series and its base unit; only values in s must not be negative.
            values, at: the items of the list, and the function that returns the place of the item with an index.
            per: how many units of the list are one base unit.
            steps: the step of each value; empty if the format has no steps.
        """
        numbers, good = measured(values, unit)
        first, last = (at(0), at(len(values) - 1)) if len(values) else (None, None)
        if isinstance(first, tuple) and isinstance(last, tuple) and first[:-1] == last[:-1] != ():
            self.file.coverage.mark(self.json, first[:-1], None)  # all of the list; () would be the whole document
        else:
            for index, value in enumerate(values):
                self.file.coverage.mark(self.json, at(index), value)
        bad: list[int] = np.flatnonzero(~good).tolist()
        self.refuse_items(key, [(fault_in(values[index], unit), at(index)) for index in bad[:MAX_FAULTS]], len(bad))
        if good.any():
            numbered = read_only(np.array(steps, np.int64)[good]) if len(steps) else None
            self.finish(Series(key, unit, "samples", read_only(in_base(numbers[good], per)), numbered))

    def refuse_items(self, key: Key, first: Sequence[tuple[str, Place]], count: int) -> None:
        """Report the first items of a list that are left out, with their places; `count` is the number of all."""
        for why, at in first:
            self.refuse(key, why, at)
        self._refused_more[key] += count - len(first)

    def value(self, key: Key, unit: str, value: object, at: Place, *, per: float = 1.0) -> None:
        """Add a series that is one number, or a problem; a series is added once."""
        parsed, fault = checked(value, unit)
        if fault or key in self.finished:
            self.refuse(key, fault or AGAIN, at)
        else:
            self.file.coverage.mark(self.json, at, parsed)
            self.one_value(key, unit, in_base(parsed, per))

    def one_value(self, key: Key, unit: str, value: float, printed_as: str | None = None) -> None:
        """Add a series that is one number, in base units."""
        other = printed_as if printed_as != key.metric else None
        self.finish(Series(key, unit, "value", read_only(np.array([value])), printed_as=other))

    def aggregate(self, key: Key, unit: str, statistics: Mapping[str, float], printed_as: str | None = None) -> None:
        """Add statistics, in base units, of values that the file does not contain; nothing if there are none."""
        if statistics:
            other = printed_as if printed_as != key.metric else None
            self.finish(Series(key, unit, "aggregate", _EMPTY, aggregate=statistics, printed_as=other))

    def single_values(self, names: re.Pattern[str]) -> None:
        """Make each series with one sample a value, of which no warm-up is dropped, if `names` matches its metric."""
        for key in [key for key in self.columns if names.match(key.metric)]:
            column = self.columns[key]
            if len(column.values) == 1:
                del self.columns[key]
                self.one_value(key, column.unit, in_base(column.values[0], column.per), column.printed_as)

    def unique(self, key: Key, at: Place) -> Key:
        """Return the key, or `NAME#2` and so on if the file has it again, with a warning for the first of them."""
        if key not in self._names:
            self._names.add(key)
            return key
        number = self._numbers.get(key, 1) + 1
        while (renamed := Key(f"{key.metric}#{number}", key.labels)) in self._names:
            number += 1
        if key not in self._numbers:
            self.say("warning", "a name occurs again", at, f": {key.metric} is named {renamed.metric} here")
        self._numbers[key] = number
        self._names.add(renamed)
        return renamed

    # --- tables and problems ----------------------------------------------------------------------------------------

    def table(self, what: str, line: int) -> None:
        """Note that a table begins; it is a warning if the next table or the end comes before `table_row`."""
        self._end_table()
        self._rowless = (what, line)

    def table_row(self) -> None:
        """Note that the table has a row, even if its values are refused."""
        self._rowless = None

    def _end_table(self) -> None:
        if self._rowless:
            what, line = self._rowless
            self._rowless = None
            self.say("warning", "a table has a header, but no row that can be read", line, f": {what}")

    def refuse(self, key: Key, why: str, at: Place = None) -> None:
        """Report why a value of this series is left out."""
        self.file.is_odd = True
        self.file.coverage.mark(self.json, at, None)
        self._refused[key] += 1
        if self._refused[key] <= MAX_FAULTS:
            self.report("error", f"{key}: {why}", at, key)

    def say(self, severity: Severity, message: str, at: Place = None, detail: str = "") -> None:
        """Report a problem of the whole run; problems with the same message, whatever their detail, are alike."""
        self.file.is_odd = True
        if severity == "error" and at:
            self.file.coverage.mark(self.json, at, None)
        self._said[severity, message] += 1
        if self._said[severity, message] <= MAX_FAULTS:
            self.report(severity, message + detail, at)

    def report(self, severity: Severity, message: str, at: Place, key: Key | None = None) -> None:
        """Report a problem, without counting how many are alike."""
        if isinstance(at, tuple) and self.json:
            if self.json.report(self.report, severity, message, at, key) > self.file.limits.problems:
                self.json.report_waiting()  # raises OverLimit
            return
        place = at if isinstance(at, Location) else Location(self.file.name, at if isinstance(at, int) else None)
        self.file.count("problems", place.line, self.problems)
        self.problems.append(Problem(severity, message, place, key))

    def report_problems(self, *, numbers: bool = True) -> None:
        """Report what is wrong with the JSON document. Without `numbers`, those that are not finite are left out."""
        for problem in self.json.problems(numbers=numbers) if self.json else ():
            self.say(problem.severity, problem.message, problem.at)

    def fact(self, name: str, value: Fact, line: int) -> None:
        """Keep a fact of the environment; the first value counts. Up to 20 other values are reported, each once."""
        self.file.is_odd = True
        known = self.facts.setdefault(name, value)
        if known != value and (name, value) not in self._other_facts and len(self._other_facts) < MAX_FAULTS:
            self._other_facts.add((name, value))
            self.say("warning", f"{name} is {value} here but was {known} before; using {known}", line)

    def close(self) -> None:
        """Report at the end: the places of problems, and the number of alike ones that were not listed."""
        self._end_table()
        if self.json:
            self.json.report_waiting()
        for key, count in self._refused.items():
            if more := max(count - MAX_FAULTS, 0) + self._refused_more[key]:
                self.report("error", f"{key}: and {more} more values left out", None, key)
        for (severity, message), count in [*self._said.items()]:
            if count > MAX_FAULTS:
                self.report(severity, f"{message}: and {count - MAX_FAULTS} more", None)

    def run(self, part: int | None = None) -> Run:
        """Return the finished run, with the problems of its file; it is an error if nothing was measured."""
        self.close()
        series, steps = [*self.finished.values()], list[tuple[Column, Ints]]()
        for key in [*self.columns]:
            column = self.columns.pop(key)  # drops its values, which the finished series has, too
            if column.values or column.whole:
                series.append(column.series(steps))
        if not series:
            self.say("error", "no measurements")
        facts = MappingProxyType(dict(sorted(self.facts.items())))
        return Run(
            *(self.file.name, self.format, tuple(series), (*self.file.problems, *self.problems), facts),
            commit=self.commit,
            measured=self.measured,
            part=part,
            unlabelled=MappingProxyType(dict(self.unlabelled)),
        )
