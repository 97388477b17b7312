"""Compare the numbers that a reader read with all numbers of a file.

`RunBuilder` marks each value that it takes: in a JSON document by its path, in a text by its line. Whatever a reader
does, `Recognition.read` compares the marks with the numbers of the file (`unread_numbers`).

A reader of binary files says by itself what it leaves out: `file.coverage.leave`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core.coverage import Coverage, Unread
from perfgate.core.runs import Key, Location, Problem, Run, Series, Severity
from perfgate.documents.json import JsonDocument, Path
from perfgate.readers.unlabelled import unlabelled_fields
from perfgate.readers.unread_numbers import UnreadFields, UnreadLines, digits

#: The most paths of a document that are marked. Beyond that, a field counts as read if one of its numbers is marked.
MOST_MARKS = 20_000
#: The most names of unread numbers that a reader may give, and how many names the coverage has.
_MOST_LEFT, _MOST_NAMES = 50_000, 100
#: Adds a problem to the run that it belongs to: `RunBuilder.report`.
Report = Callable[[Severity, str, Location, Key | None], None]


class JsonSource:
    """A JSON document in a file, and the problems at its paths until their lines are known.

    To find the line of a path costs a walk through the text, so all lines are found in one walk, when a run is
    finished. A document in a log may begin in the middle of a line, so its columns are wrong: then `columns` is False.
    """

    def __init__(self, loaded: JsonDocument, line: int = 1, *, columns: bool = True) -> None:
        self.loaded = loaded
        #: The paths of the values that were read, or that a problem reports.
        self.read: set[Path] = set()
        self._line, self._columns = line, columns
        self._waiting: list[tuple[Report, Severity, str, Path, Key | None]] = []

    @property
    def lines(self) -> range:
        """The lines of the file that the document is on."""
        return range(self._line, self._line + self.loaded.text.count("\n") + 1)

    def report(self, report: Report, severity: Severity, message: str, path: Path, key: Key | None) -> int:
        """Keep a problem until its line is known; return how many wait."""
        self._waiting.append((report, severity, message, path, key))
        return len(self._waiting)

    def report_waiting(self) -> None:
        """Report every problem so far to its run, with its line. Raises OverLimit if there are too many."""
        waiting, self._waiting = self._waiting, []
        places = self.loaded.locate_all(path for _, _, _, path, _ in waiting)
        for report, severity, message, path, key in waiting:
            report(severity, message, self.moved(places[path]), key)

    def moved(self, at: Location) -> Location:
        """Return a place in the document as a place in its file."""
        return replace(at, line=(at.line or 1) + self._line - 1, column=at.column if self._columns else None)

    def problems(self, *, numbers: bool) -> Iterator[Problem]:
        """Yield the faults of the document, at their lines.

        Without `numbers`, those of NaN and infinity are left out: the reader reports them with the metric.
        """
        for fault in self.loaded.faults:
            if numbers or not _is_not_finite(self.loaded.data, fault.path):
                yield replace(fault.problem, at=self.moved(fault.problem.at))


def _is_not_finite(data: Any, path: Path) -> bool:
    """Return whether the value at a path is NaN or infinite."""
    for key in path:
        if isinstance(data, dict):
            data = data.get(key)
        else:
            data = data[key] if isinstance(data, list) and isinstance(key, int) and key < len(data) else None
    return isinstance(data, float) and not math.isfinite(data)


class FileCoverage(Struct):
    """The marks of one file while it is read."""

    lines: UnreadLines = field(default_factory=UnreadLines)
    _documents: dict[JsonSource, None] = field(default_factory=dict)  # each once, in order
    #: The names of numbers that the reader says it leaves out, with how many there are.
    _left: Counter[str] = field(default_factory=Counter)

    def add_document(self, document: JsonSource) -> None:
        """Keep a document, whose numbers are compared at the end; a reader may come back to one."""
        self._documents[document] = None

    def leave(self, name: str, count: int = 1) -> None:
        """Note that the reader leaves out numbers of this name."""
        if len(self._left) < _MOST_LEFT or name in self._left:
            self._left[name] += count

    def mark(self, document: JsonSource | None, at: int | Path | Location | None, *values: object) -> None:
        """Note that values were read, or that a problem reports one."""
        if isinstance(at, tuple):
            if document is not None and len(document.read) < MOST_MARKS:
                document.read.add(at)
            return
        line = at.line if isinstance(at, Location) else at
        read = self.lines.read.get(line) if line is not None else None
        if read is not None:
            read += [value for value in values if isinstance(value, int | float)]

    def fields(self, runs: Sequence[Run], known: Collection[str]) -> dict[str, str]:
        """Return the fields that may be conditions of the measurement, unless they are in `known`.

        Empty if there are several documents or runs, or if the reader has given such fields to the run by itself.
        """
        data = next(iter(self._documents)).loaded.data if len(self._documents) == 1 else None
        if len(runs) != 1 or runs[0].unlabelled or not isinstance(data, dict):
            return {}
        return {name: value for name, value in unlabelled_fields(data) if name not in known}

    def found(self, file: str, runs: Sequence[Run], beside: str) -> Coverage:
        """Return how many numbers were read, and which were not.

        `file`: its name. `runs`: what the reader made of it. `beside`: a pattern of names that are no measurements in
        this format.
        """
        series = [one for run in runs for one in run.series]
        in_documents = [one.lines for one in self._documents]  # lines that are not compared as text
        counts = self._left + self.lines.found(cache(lambda: set(_known(series, runs))), beside, in_documents)
        is_estimate = self.lines.is_estimate
        for document in self._documents:
            fields = UnreadFields(document.read, beside, MOST_MARKS)
            fields.walk(document.loaded.data)
            counts, is_estimate = counts + fields.found, is_estimate or fields.is_estimate
        read = sum(len(one.aggregate if one.kind == "aggregate" else one.values) for one in series)
        unread = tuple(Unread(name, count) for name, count in counts.most_common(_MOST_NAMES))
        return Coverage(read, unread, is_estimate and bool(unread), file)


def coverage_of_unknown(file: str, beginning: bytes) -> Coverage:
    """Return the coverage of a text that no reader knows, from its beginning."""
    coverage = FileCoverage()
    coverage.lines.keep(beginning, range(1, beginning.count(b"\n") + 2))
    return coverage.found(file, (), "")


def _known(series: Iterable[Series], runs: Sequence[Run]) -> Iterator[str]:
    """Yield the digits of numbers whose line a reader need not mark: statistics, single values, labels, facts.

    A series may have been read from one line: its first values are enough to recognise that line.
    """
    for one in series:
        values = one.aggregate.values() if one.kind == "aggregate" else one.values[:8].tolist()
        yield from map(digits, values)
        for _, text in one.key.labels:
            if text.replace(".", "", 1).isdecimal():
                yield digits(float(text))
    for run in runs:
        for fact in run.environment.values():
            if isinstance(fact, int | float):
                yield digits(fact)
