"""JSON documents of benchmark tools: numbers -> series, and what is wrong with a number at its own line.

Positions cost a walk through the whole text, so they are worked out once, at the end, and only where something is
wrong. Units: base units, from numbers in whatever unit the tool writes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfgate.core import Key, Run, Series, Severity, read_only
from perfgate.documents.json import JsonDocument, Path, load_json
from perfgate.readers.builder import RunBuilder, fault_of
from perfgate.readers.complaints import Complaints
from perfgate.readers.sniffing import console
from perfgate.readers.text import Document

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_LONGEST_FACT = 200


@dataclass(frozen=True, slots=True)
class Target:
    """The series that numbers are for."""

    run: RunBuilder
    key: Key
    unit: str = "s"
    #: How many of the unit in the document are one base unit: 1e9 for ns.
    per: float = 1.0

    def part(self, name: str, unit: str = "s", per: float = 1.0) -> Target:
        """Another series of the same benchmark: `NAME.cpu_time`."""
        return Target(self.run, Key(f"{self.key.metric}.{name}", self.key.labels), unit, per)


class Reading:
    """A document while it is read."""

    def __init__(self, document: Document, format_name: str) -> None:
        self.document = document
        self.format = format_name
        text = document.whole()
        self._json = JsonDocument(document.name, "", None)
        if text is not None:
            # A bad number is refused with its series.
            self._json = load_json(text, document.name, document.limits, finite=False)
        self._complaints = Complaints(self._json)
        #: How often each benchmark stood in the document.
        self._names: dict[Key, int] = {}

    @property
    def data(self) -> Mapping[str, Any]:
        """The object that the document is; empty if it is none."""
        return mapping(self._json.data)

    def run(self) -> RunBuilder:
        """A run of this document."""
        self.document.count("runs")
        return RunBuilder(self.document, self.format)

    def rows(self, run: RunBuilder, data: Mapping[str, Any], *path: str | int) -> Iterator[tuple[Path, dict[str, Any]]]:
        """The objects in a list of the document, `path` being where the list stands; anything else is an error."""
        rows = data.get(str(path[-1]))
        if not isinstance(rows, list):
            if self._json.data is not None:
                self.say(run, "error", f"{path[-1]!r} is no list", path)
            return
        for index, row in enumerate(rows):
            if isinstance(row, dict):
                yield (*path, index), row
            else:
                self.say(run, "error", f"{shown(row)} is no object; left out", (*path, index))

    def name(self, run: RunBuilder, row: Mapping[str, Any], path: Path, *fields: str) -> str | None:
        """The first of these fields that is a name; None, and an error, if none is."""
        found = next((row[field] for field in fields if isinstance(row.get(field), str) and row[field]), None)
        if found is None:
            self.say(run, "error", f"a benchmark without {fields[0]!r}; left out", path)
        return found

    def unique(self, run: RunBuilder, key: Key, path: Path) -> Key:
        """The key, or `NAME#2` and so on if the run has it already, with a warning for the first of them."""
        found = key
        while found in self._names:
            self._names[found] += 1
            if self._names[found] == 2:
                self.say(run, "warning", f"{found} stands here again; this one is {found.metric}#2", path)
            found = Key(f"{found.metric}#{self._names[found]}", found.labels)
        self._names[found] = 1
        return found

    def say(self, run: RunBuilder, severity: Severity, message: str, path: Path) -> None:
        """A problem of the whole run at a place of the document."""
        self._complaints.say(run, severity, message, path)

    def refuse(self, run: RunBuilder, key: Key, why: str, path: Path) -> None:
        """Why numbers of this series are left out or cannot be trusted."""
        self._complaints.refuse(run, key, why, path)

    def samples(self, to: Target, values: Sequence[object], path_of: Callable[[int], Path]) -> None:
        """Samples in order, one alone being a single number; what is no measurement is refused."""
        if len(values) == 1:
            self.value(to, values[0], path_of(0))
            return
        usual = {*map(type, values)} == {float}  # at once, which is ten times as fast
        numbers = np.array(values if usual else [number_of(value) for value in values], np.float64)
        good = np.isfinite(numbers) & ((numbers >= 0) | (to.unit != "s"))
        for index in map(int, np.flatnonzero(~good)):
            self.refuse(to.run, to.key, _why(values[index]), path_of(index))
        if good.any():
            kept = read_only(numbers[good] / to.per)
            to.run.finish(Series(to.key, to.unit, "samples", kept))

    def value(self, to: Target, value: object, path: Path) -> None:
        """One number, of which nobody knows how it spreads: no statistic but itself is to be had of it."""
        if self._possible(to, value, path):
            array = read_only(np.array([number_of(value) / to.per]))
            to.run.finish(Series(to.key, to.unit, "value", array))

    def aggregate(self, to: Target, statistics: Mapping[str, object], path_of: Callable[[str], Path]) -> None:
        """Statistics of values that the document does not hold; None is not available, `count` has no unit."""
        kept = {}
        for name, value in statistics.items():
            if value is not None and self._possible(to, value, path_of(name)):
                kept[name] = number_of(value) / (1.0 if name == "count" else to.per)
        if kept:
            empty = read_only(np.empty(0))
            to.run.finish(Series(to.key, to.unit, "aggregate", empty, aggregate=kept))

    def _possible(self, to: Target, value: object, path: Path) -> bool:
        number = number_of(value)
        good = bool(np.isfinite(number)) and (number >= 0 or to.unit != "s")
        if not good:
            self.refuse(to.run, to.key, _why(value), path)
        return good

    def finish(self, runs: Sequence[RunBuilder]) -> tuple[Run, ...]:
        """The finished runs, numbered where there are several; faults of the JSON itself are said in the first."""
        first = runs[0]
        for problem in self._json.problems:
            first.add_problem(problem)
        if self._json.data is None and (printed := console(self._json.text)):
            first.say("error", printed)
        self._complaints.settle()
        return tuple(run.run(part if len(runs) > 1 else None) for part, run in enumerate(runs, 1))


def mapping(value: object) -> Mapping[str, Any]:
    """A JSON object; an empty one instead of anything else."""
    return value if isinstance(value, dict) else {}


def number_of(value: object) -> float:
    """A JSON number as float64; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > sys.float_info.max:
        return float("nan")
    return float(value)


def fact(run: RunBuilder, name: str, value: object) -> None:
    """An environment fact, if the document holds it."""
    if isinstance(value, str) and 0 < len(value.strip()) <= _LONGEST_FACT:
        run.facts[name] = value.strip()


def commit_of(value: object) -> str | None:
    """A commit that is one: tools write words, too, where there is none."""
    return value if isinstance(value, str) and _COMMIT.fullmatch(value) else None


def shown(value: object) -> str:
    """A wrong value as a message shows it."""
    if isinstance(value, dict | list):
        return "a list or object"
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _why(value: object) -> str:
    printed = shown(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return (is_number and fault_of(printed)) or f"{printed} is no number; left out"
