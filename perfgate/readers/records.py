"""Read records of results (JSON documents, rows of CSV, known fields), and make series of them in base units."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from perfgate.core import Fact, Key, TimeAndPlace
from perfgate.core.conditions import Labels
from perfgate.documents.json import JsonDocument, Path, load_json
from perfgate.readers.builder import Place, RunBuilder
from perfgate.readers.coverage import JsonSource
from perfgate.readers.not_recognised import console
from perfgate.readers.text import InputFile
from perfgate.readers.values import Field, cells_of, fault_in, in_base, items, mapping, measured, shown

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_LONGEST_FACT = 200
#: The names that tools give to statistics, and perfgate's names.
_STATISTICS = {
    **dict.fromkeys(("avg", "average", "mean"), "mean"),
    **dict.fromkeys(("std", "std_dev", "stddev"), "stddev"),
    **dict.fromkeys(("min", "minimum"), "min"),
    **dict.fromkeys(("max", "maximum"), "max"),
    **dict.fromkeys(("median", "p50", "p50.00"), "median"),
    **dict.fromkeys(("total_sum", "total"), "total"),
    "count": "count",
    "p001": "p0.1",
    "p01": "p1",
    "p05": "p5",
    "p999": "p99.9",
}
_PERCENTILE = re.compile(r"p(\d{1,2})(\.\d{1,3})?")

# --- JSON -------------------------------------------------------------------------------------------------------------


def _load(file: InputFile, format_name: str) -> tuple[JsonDocument, RunBuilder]:
    """Return the JSON document in a file, without data if it is too large, and a run with its problems."""
    text, loaded = file.whole(), JsonDocument(file.name, "", None)
    if text is not None:
        loaded = load_json(text, file.name, file.limits, finite=False)  # NaN and infinity are refused with their series
    file.count("runs")  # against the limit on the runs of a file; readers of several runs count each themselves
    run = RunBuilder(file, format_name, JsonSource(loaded))
    run.report_problems()
    return loaded, run


def load(file: InputFile, format_name: str) -> tuple[Mapping[str, Any], RunBuilder]:
    """Return the JSON object in a file (empty if there is none), and a run with the problems of the JSON."""
    loaded, run = _load(file, format_name)
    if loaded.data is None and (advice := console(loaded.text)):  # the text that a tool prints, not its JSON
        run.say("error", advice)
    return mapping(loaded.data), run


def documents(file: InputFile) -> Iterator[JsonSource]:
    """Yield the JSON documents of a file: one, or one on each line.

    Problems at paths of a document wait in its `JsonSource`: their lines are looked up together, after the document.
    """
    text = file.whole()
    whole = load_json("{}" if text is None else text, file.name, file.limits, finite=False)  # None: too large
    # More than one document: one on each line, if the first line ends as JSON does; otherwise the text is damaged.
    lines: list[tuple[int, str]] = []
    if text and any("Extra data" in problem.message for problem in whole.problems):
        lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    sources = iter([JsonSource(whole)])
    if lines and lines[0][1].rstrip().endswith(("}", "]")):
        sources = (JsonSource(load_json(line, file.name, file.limits, finite=False), number) for number, line in lines)
    for source in sources:
        yield source
        source.report_waiting()


def records(file: InputFile) -> Iterator[tuple[JsonSource, Path, dict[str, Any]]]:
    """Yield the objects of a file with their documents and paths: one, a list, or one on each line.

    For a document without objects, an empty object is yielded: its reader makes a run, which says what is wrong.
    """
    for source in documents(file):
        data = source.loaded.data
        listed = [((at,), one) for at, one in enumerate(data)] if isinstance(data, list) else [((), data)]
        objects = [(path, one) for path, one in listed if isinstance(one, dict)]
        for path, one in objects or [((), {})]:
            yield source, path, one
            source.report_waiting()  # so that problems are in the order of the records


def load_rows(file: InputFile, format_name: str) -> tuple[RunBuilder, list[tuple[Path, dict[str, Any]]]]:
    """Return a run, and the objects of the JSON array in a file with their paths; anything else in it is an error."""
    loaded, run = _load(file, format_name)
    return run, [*_objects(run, items(loaded.data), ())]


def rows(run: RunBuilder, data: Mapping[str, Any], *path: str | int) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the objects in the list `data[path[-1]]`, and their paths; anything else in the list is an error."""
    listed = data.get(str(path[-1]))
    if isinstance(listed, list):
        yield from _objects(run, listed, path)
    elif run.json and run.json.loaded.data is not None:
        run.say("error", f"{path[-1]!r} is not a list", path)


def _objects(run: RunBuilder, listed: Sequence[object], path: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for index, row in enumerate(listed):
        if isinstance(row, dict):
            yield (*path, index), row
        else:
            run.say("error", f"{shown(row)} is not an object; left out", (*path, index))


def name_of(run: RunBuilder, row: Mapping[str, Any], path: Path, *fields: str) -> str | None:
    """Return the first of these fields that is a name; None, and an error, if there is none."""
    found = next((row[field] for field in fields if isinstance(row.get(field), str) and row[field]), None)
    if found is None:
        run.say("error", f"a benchmark has no {fields[0]!r}; left out", path)
    return found


def fact(run: RunBuilder, name: str, value: object) -> None:
    """Keep an environment fact, if the document has it as a text of at most 200 characters."""
    if isinstance(value, str) and 0 < len(value.strip()) <= _LONGEST_FACT:
        run.facts[name] = value.strip()


def keep_time_and_place(run: RunBuilder, data: Mapping[str, Any], field: str, place: Mapping[str, Fact]) -> None:
    """Keep the time of the measurement, from a field of the document, and the facts that distinguish machines."""
    if run.json and run.json.loaded.data is not None:
        run.measured = TimeAndPlace(data.get(field), field, place)


def commit_of(value: object) -> str | None:
    """Return a commit, 7 to 64 lowercase hexadecimal digits; None for anything else, such as `unknown`."""
    return value if isinstance(value, str) and _COMMIT.fullmatch(value) else None


def statistic_of(name: str) -> str | None:
    """Return perfgate's name of a statistic that a tool names, such as `p99` for `P99.00`; None for another name."""
    name = name.strip().lower()
    if name in _STATISTICS:
        return _STATISTICS[name]
    found = _PERCENTILE.fullmatch(name)
    short = f"p{int(found[1])}{(found[2] or '').rstrip('0').rstrip('.')}" if found else ""
    return _STATISTICS.get(short, short) or None


class Target(Struct, frozen=True):
    """A series to which numbers of a JSON document are added; a number in quotes is refused."""

    run: RunBuilder
    key: Key
    unit: str = "s"
    #: How many units of the document are one base unit: 1e9 for ns.
    per: float = 1.0

    def part(self, name: str, unit: str = "s", per: float = 1.0) -> Target:
        """Return another series of the same benchmark: `NAME.cpu_time`."""
        return Target(self.run, Key(f"{self.key.metric}.{name}", self.key.labels), unit, per)

    def refuse(self, why: str, path: Place) -> None:
        """Report why numbers of this series are left out or cannot be trusted."""
        self.run.refuse(self.key, why, path)

    def samples(self, values: Sequence[object], path: Path) -> None:
        """Add the samples of the list at a path in order; a single one is a value."""
        self.samples_at(values, lambda index: (*path, index))

    def samples_at(self, values: Sequence[object], path_of: Callable[[int], Path]) -> None:
        """Add samples in order, each with a path of its own; a single one is a value."""
        if len(values) == 1:
            self.value(values[0], path_of(0))
        else:
            self.run.samples(self.key, self.unit, values, path_of, per=self.per)

    def value(self, value: object, path: Place) -> None:
        """Add one number. Its spread is unknown, so it has no other statistics."""
        for number in self._checked(value, path):
            self.run.one_value(self.key, self.unit, in_base(number, self.per))

    def aggregate(self, statistics: Mapping[str, tuple[object, Place]]) -> None:
        """Add statistics, each with its path, of values that the document does not contain; None is left out."""
        kept = {
            name: number if name == "count" else in_base(number, self.per)
            for name, (value, path) in statistics.items()
            if value is not None
            for number in self._checked(value, path)
        }
        self.run.aggregate(self.key, self.unit, kept)

    def statistics(self, printed: Mapping[str, object], path: Path) -> None:
        """Add a JSON object of statistics as one aggregate; other fields of the object are passed over."""
        found: dict[str, tuple[object, Place]] = {}
        for name, value in printed.items():
            if (statistic := statistic_of(name)) and not isinstance(value, dict | list):
                found.setdefault(statistic, (value, (*path, name)))
        self.aggregate(found)

    def _checked(self, value: object, path: Place) -> list[float]:
        """Return a list of one number; if it is not a measurement, an empty list, and a problem is reported."""
        numbers, good = measured([value], self.unit)
        self.run.file.coverage.mark(self.run.json, path, value)  # so it is not reported as a number that nobody read
        if not good[0]:
            self.refuse(fault_in(value, self.unit), path)
        return [float(number) for number in numbers[good]]


# --- CSV and fields ---------------------------------------------------------------------------------------------------


def csv_rows(
    run: RunBuilder, delimiter: str, is_header: Callable[[list[str]], bool]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each row below a header as its line and its cells by column; problems go to the run.

    A line with another number of cells is an error, unless it has a single cell, as the lines of a log around it have.
    If no header has a row, that is an error. The last row counts only if its line ends.
    """
    header: list[str] = []
    begun, has_row = 0, False  # the line of the first header
    wrong = "a row has {}, and its header has {} cells; left out"
    for number, line, _, ended in run.file.lines():
        cells = cells_of(line.strip("\r\n"), delimiter)
        if cells and is_header(cells):
            header, begun = cells, begun or number
            run.file.coverage.lines.headers[number] = header, delimiter  # names the cells that are not read
        elif not header or not line.strip():
            continue
        elif not ended:
            run.say("warning", "the last record is cut off; left out", number)
        elif cells is None:
            run.say("error", wrong.format("an open quote", len(header)), number)
        elif len(cells) == len(header):
            has_row = True
            yield number, dict(zip(header, cells, strict=True))
        elif len(cells) > 1:
            run.say("error", wrong.format(f"{len(cells)} cells", len(header)), number)
    if begun and not has_row:
        run.say("error", "this table has a header and no row", begun)


def field_of(patterns: Mapping[str, Field], name: str) -> Field | None:
    """Return the field of a printed name: that of the first pattern in a table that matches it, or None.

    A field without a metric gets one: what the last group of its pattern matched, or the whole name without a group.
    """
    for pattern, field in patterns.items():
        if found := re.fullmatch(pattern, name):
            return field if field.metric else field._replace(metric=found[found.lastindex or 0])
    return None


def add_fields(
    run: RunBuilder, known: Mapping[str, Field], fields: Iterable[tuple[str, object, Place]], labels: Labels = ()
) -> None:
    """Add each field (name, value, place) whose name is known as one value; a value None was not measured."""
    for name, value, at in fields:
        if value is not None and (field := known.get(name)):
            run.value(Key(field.metric, labels), field.unit, value, at, per=field.per)
