"""Compare the numbers that a reader read with all numbers of a file.

`RunBuilder` marks each value that it takes: in a JSON document by its path, in a text by its line. Whatever a reader
does, `Recognition.read` compares the marks with the numbers of the file (`unread_numbers`).

A reader of binary files says by itself what it leaves out: `file.coverage.leave`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol

from perfgate.core.coverage import Coverage, Unread
from perfgate.core.runs import Location, Run, Series
from perfgate.documents.json import JsonDocument, Path
from perfgate.readers.unread_numbers import UnreadFields, UnreadLines, digits

#: The most paths of a document that are marked; more are known by their fields.
MOST_MARKS = 20_000
#: The most names of numbers that a reader leaves out.
_MOST = 50_000
_NAMES = 100


class Document(Protocol):
    """A JSON document in a file."""

    loaded: JsonDocument
    #: The paths of the values that were read; below them nothing is left.
    read: set[Path]

    @property
    def lines(self) -> range:
        """The lines that it is on."""


class FileCoverage:
    """The marks of one file while it is read."""

    def __init__(self) -> None:
        self.lines = UnreadLines()
        self._documents: list[Document] = []
        self._left: Counter[str] = Counter()

    def add_document(self, document: Document) -> None:
        """Let a document be examined."""
        if not any(one is document for one in self._documents[-2:]):
            self._documents.append(document)

    def leave(self, name: str, count: int = 1) -> None:
        """Take it from the reader that it leaves numbers out."""
        if len(self._left) < _MOST or name in self._left:
            self._left[name] += count

    def mark(self, document: Document | None, at: int | Path | Location | None, *values: object) -> None:
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
        """Return the fields of the document of the only run that may be conditions; the reader may say it better."""
        if not self._documents:
            return {}
        from perfgate.readers.unlabelled import unlabelled_fields

        data = self._documents[0].loaded.data if len(self._documents) == 1 else None
        if len(runs) != 1 or runs[0].unlabelled or not isinstance(data, dict):
            return {}
        return {name: value for name, value in unlabelled_fields(data) if name not in known}

    def found(self, file: str, runs: Sequence[Run], beside: str) -> Coverage:
        """Return what was read.

        `file`: its name. `runs`: what the reader made of it. `beside`: a pattern of names that are no measurements in
        this format.
        """
        series = [one for run in runs for one in run.series]
        spoken = [one.lines for one in self._documents]
        counts = self._left + self.lines.found(lambda: set(_known(series, runs)), beside, spoken)
        is_estimate = self.lines.is_estimate
        for document in self._documents:
            fields = UnreadFields(document.read, beside, MOST_MARKS)
            fields.walk(document.loaded.data)
            counts, is_estimate = counts + fields.found, is_estimate or fields.is_estimate
        read = sum(len(one.aggregate if one.kind == "aggregate" else one.values) for one in series)
        unread = tuple(Unread(name, count) for name, count in counts.most_common(_NAMES))
        return Coverage(read, unread, is_estimate and bool(unread), file)


def coverage_of_unknown(file: str, beginning: bytes) -> Coverage:
    """Return the coverage of a text that no reader knows, from its beginning."""
    coverage = FileCoverage()
    coverage.lines.keep(beginning, range(1, beginning.count(b"\n") + 2))
    return coverage.found(file, (), "")


def _known(series: Iterable[Series], runs: Sequence[Run]) -> Iterator[str]:
    """Yield the digits of numbers that are in the runs without a line: statistics, single values, labels, facts."""
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
