"""Records of results: rows of CSV, the metrics of known fields, their conditions, and the runs that they make."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from perfgate.core import Key, Run
from perfgate.core.conditions import Labels, conditions_of
from perfgate.readers.builder import Place, RunBuilder
from perfgate.readers.coverage import JsonSource
from perfgate.readers.text import InputFile
from perfgate.readers.unlabelled import differences, mixed, unlabelled_fields
from perfgate.readers.values import Field, cells_of


def csv_rows(
    run: RunBuilder, delimiter: str, is_header: Callable[[list[str]], bool]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each row below a header as its line and its cells by column; problems go to the run.

    A line with another number of cells is an error, unless it has a single cell, as the lines of a log around it have.
    A header without a row is an error. The last row counts only if its line ends.
    """
    header: list[str] = []
    begun = 0
    rows = 0
    for number, line, _, ended in run.file.lines():
        cells = cells_of(line.strip("\r\n"), delimiter)
        if cells and is_header(cells):
            header, begun = cells, begun or number
            run.file.coverage.lines.headers[number] = header, delimiter
        elif not header or not line.strip():
            continue
        elif not ended:
            run.say("warning", "the last record is cut off; left out", number)
        elif cells is not None and len(cells) == len(header):
            rows += 1
            yield number, dict(zip(header, cells, strict=True))
        elif cells is None or len(cells) > 1:
            have = "an open quote" if cells is None else f"{len(cells)} cells"
            run.say("error", f"a row has {have}, and its header has {len(header)} cells; left out", number)
    if begun and not rows:
        run.say("error", "this table has a header and no row", begun)


def add_fields(
    run: RunBuilder, known: Mapping[str, Field], fields: Iterable[tuple[str, object, Place]], labels: Labels = ()
) -> None:
    """Add those fields that are known, each with its value and its place, as one value; None was not measured."""
    for name, value, at in fields:
        if value is not None and (field := known.get(name)):
            run.value(Key(field.metric, labels), field.unit, value, at, per=field.per)


def labels_of(file: InputFile, format_name: str, record: Mapping[str, Any]) -> Labels:
    """Return the conditions in a record, which are labels of its metrics."""
    more = file.source.conditions
    record = {"heading": file.heading(), **record} if "heading" in more else record
    return tuple(sorted(conditions_of(record, format_name, more).items()))


class RecordRuns:
    """The runs of a file while its records are read.

    A record is known by what must be equal in a repetition: its conditions. The n-th record with equal conditions
    belongs to the n-th run. So a sweep over seven loads is one run with seven series of each metric, and a sweep that
    was made twice is two runs.
    """

    def __init__(self, file: InputFile, format_name: str) -> None:
        self._file, self._format = file, format_name
        self._runs: list[tuple[RunBuilder, set[Hashable]]] = []
        #: The fields of the first record with each conditions.
        self._first: dict[Hashable, dict[str, str]] = {}

    def run_of(
        self, record: Hashable, json: JsonSource | None = None, fields: Mapping[str, Any] | None = None
    ) -> RunBuilder:
        """Return the run that this record belongs to. A record that cannot be read (None) gets its own run.

        A record with equal conditions and unequal `fields` that may be conditions is an error, and so is one below
        another heading.
        """
        run = self._run_of(record, json)
        known = self._file.source.conditions
        heading = "" if json else self._file.heading()
        own = {name: value for name, value in unlabelled_fields(fields or {}) if name not in known}
        own |= {"heading": heading} if heading and "heading" not in known else {}
        if not own:
            return run
        first = self._first.setdefault(record, own)
        if names := differences(first, own):
            problem = mixed(names[0], first[names[0]], own[names[0]], "a record before", self._file.name)
            if problem.message not in {one.message for one in run.problems}:
                run.report(problem.severity, problem.message, None)
        about = f" with {record}" if len(self._first) > 1 else ""  # fields of a sweep are compared load by load
        run.unlabelled |= {f"{name}{about}": value for name, value in own.items()}
        return run

    def _run_of(self, record: Hashable, json: JsonSource | None) -> RunBuilder:
        for run, known in self._runs if record is not None else ():
            if record not in known:
                known.add(record)
                run.json = json
                return run
        self._file.count("runs", before=self._runs[0][0].problems if self._runs else ())
        run = RunBuilder(self._file, self._format, json)
        self._runs.append((run, {record}))
        return run

    @property
    def first(self) -> RunBuilder:
        """The first run, which has the problems of no record, too."""
        if not self._runs:
            self._runs.append((RunBuilder(self._file, self._format), set()))
        return self._runs[0][0]

    def finish(self) -> tuple[Run, ...]:
        """Return the finished runs; one that lacks records of another is judged only in those that it has."""
        every = {record for _, known in self._runs for record in known if record is not None}
        several = len(self._runs) > 1
        return tuple(
            replace(run.run(part if several else None), partial=several and not every <= known)
            for part, (run, known) in enumerate(self._runs, 1)
        )
