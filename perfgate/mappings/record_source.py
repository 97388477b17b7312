"""The records of a data file: objects of JSON, rows of CSV and of printed tables, lines of text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from functools import partial
from typing import Any, NoReturn

from msgspec import Struct

from perfgate.core import Location
from perfgate.core.file_mappings import EachMember, FieldPath, FileMapping
from perfgate.core.resource_limits import Limits
from perfgate.documents.json import HUGE, JsonDocument, Path, load_json
from perfgate.mappings.line_patterns import LineMatch, mark_of, matches
from perfgate.mappings.mapping_item import DELIMITERS
from perfgate.mappings.paths import FoundValue, find
from perfgate.readers.alike_lines import AlikeLines
from perfgate.readers.builder import Place, RunBuilder
from perfgate.readers.coverage import JsonSource
from perfgate.readers.records import csv_rows
from perfgate.readers.text import InputFile
from perfgate.readers.values import cells_of

#: The longest JSON text that is read without places, and the most names that a message lists.
_LONGEST, _NAMES_SHOWN = 1 << 16, 8
_NOTHING: Mapping[str, str] = {}
#: The signs between the cells of printed tables, which have no quotes.
_PRINTED = (" ", "|")
#: A line between the header and the rows.
_RULE = re.compile(r"[-=+|: \t]*")


def plain_json(text: str, limits: Limits) -> Any:
    """Return the data of a JSON text; None if it may have a fault, which `load_json` then reports with its place."""
    opened = text.count("{") + text.count("[")  # no text is nested deeper than that
    if len(text) > _LONGEST or opened > min(limits.depth, limits.containers) or "\\u" in text or HUGE.search(text):
        return None
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError
    return members


def _not_finite(word: str) -> NoReturn:
    raise ValueError(word)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_not_finite)


class Record(Struct):
    """One record, and the places of its parts."""

    data: Any
    #: The whole document; for rows and lines the record itself.
    top: Any
    #: The way from the top to the record.
    path: Path
    #: The keys that `{name}` in the path to the records keeps, by name.
    kept: Mapping[str, str]
    #: Returns the place of a value by its path from the top.
    place: Callable[[Path], Place]
    json: JsonSource | None = None
    #: The fields that this kind of record can have; None if each record may have others.
    fields: frozenset[str] | None = None
    #: The line on which its document begins.
    line: int = 1

    def report(self, run: RunBuilder, message: str, path: Path) -> None:
        """Report an error at a path of the record."""
        run.json = self.json
        run.say("error", message, self.place(path))

    def is_elsewhere(self, path: FieldPath) -> bool:
        """Return whether only other patterns of lines have this field."""
        return self.fields is not None and path.steps[0] not in self.data

    def find(self, path: FieldPath | None) -> list[FoundValue]:
        """Return each value that a path leads to; None is the record itself."""
        if path is None:
            return [FoundValue(self.path, self.data, {})]
        if path.is_from_top:
            return list(find(self.top, path.steps))
        if len(path.steps) == 1 and path.steps[0] in self.kept:
            return [FoundValue(self.path, self.kept[str(path.steps[0])], {})]
        first = path.steps[0]
        if len(path.steps) == 1 and isinstance(self.data, dict) and first in self.data:  # the usual case, and fast
            return [FoundValue((*self.path, first), self.data[first], _NOTHING)]  # type: ignore[arg-type]
        return list(find(self.data, path.steps, self.path))


class FileRecords(Struct):
    """The records of one file, and what is wrong with the file itself."""

    file: InputFile
    mapping: FileMapping
    #: Gets the problems that do not belong to a record.
    whole: RunBuilder
    #: Adds a record that is like an earlier one, given its line; returns False for any other, which `read` yields.
    take: Callable[[Any, int], bool]
    #: Gets the match of a line whose record `take` added.
    note: Callable[[AlikeLines, LineMatch], None] | None
    #: The number of records that `take` added.
    taken: int = 0

    def read(self) -> Iterator[Record]:
        """Yield the records that `take` does not add, in the order of the file."""
        if self.mapping.kind != "json":
            yield from {"jsonl": self._json_lines, "csv": self._rows, "lines": self._lines}[self.mapping.kind]()
        elif (text := self.file.whole()) is not None:
            yield from self._of_document(load_json(text.removeprefix("\ufeff"), self.file.name, self.file.limits), 1)

    def _takes(self, data: Any, line: int) -> bool:
        is_taken = data is not None and self.take(data, line)
        self.taken += is_taken
        return is_taken

    def _json_lines(self) -> Iterator[Record]:
        steps = self.mapping.records.steps if self.mapping.records else ()
        for number, line, _, ended in self.file.lines():
            if line.strip():
                if self._takes(plain_json(line, self.file.limits) if not steps else None, number):
                    continue
                loaded = load_json(line, self.file.name, self.file.limits)
                if loaded.data is None and loaded.faults and not ended:
                    self.whole.say("warning", "the last record is cut off; left out", number)
                else:
                    yield from self._of_document(loaded, number)

    def _of_document(self, loaded: JsonDocument, line: int) -> Iterator[Record]:
        """Yield the records of a JSON document that begins on a line."""
        json = self.whole.json = JsonSource(loaded, line)
        self.whole.report_problems(numbers=False)
        if loaded.faults and loaded.data is None:
            return
        records = self.mapping.records
        steps = records.steps if records else ()
        paths = (*(metric.value for metric in self.mapping.metrics if metric.value), *_paths(self.mapping))
        used = [tuple(step for step in path.steps if not isinstance(step, EachMember)) for path in paths]
        for one in find(loaded.data, steps):
            if one.missing:
                here = _names(loaded.data, one.path)
                message = f"{self.mapping.title}: `{records.text if records else ''}` needs {one.missing} here; {here}"
                self.whole.say("error", message, one.path)
            elif one.path and type(one.path[-1]) is int and self._takes(one.value, line):  # `ignore` may name a member
                for field in used:  # they have been read, although no reader asked for them
                    self.file.coverage.mark(json, (*one.path, *field))
            else:
                yield Record(one.value, loaded.data, one.path, one.kept, lambda path: path, json, line=line)
        json.report_waiting()

    def _rows(self) -> Iterator[Record]:
        """Yield the rows below the header, which is the first line with all columns that the mapping needs."""
        needed = {path.text for path in _paths(self.mapping)}
        delimiter = self.mapping.delimiter
        seen: list[str] = []
        header: list[str] = []
        separators: list[str] = []

        def is_header(cells: list[str]) -> bool:
            # For the message about a missing header: the first line, and delimiters with which there would be one.
            if header or not needed <= {*cells}:
                seen.extend(() if seen or len(cells) < 2 else cells)
                line = delimiter.join(cells)
                others = [name for name, sign in DELIMITERS.items() if not header and sign not in _PRINTED]
                separators.extend(name for name in others if needed <= {*(cells_between(line, DELIMITERS[name]) or ())})
                return False
            header.extend(cells)
            return True

        twice: set[str] = set()
        fields = frozenset[str]()
        rows = _printed_rows if delimiter in _PRINTED else csv_rows
        for number, row in rows(self.whole, delimiter, is_header):
            fields = fields or frozenset(header)
            if len(header) > len(fields) and not twice:
                twice = {name for name in header if header.count(name) > 1}
                self.whole.say("error", f"the column {sorted(twice)[0]!r} occurs twice in the header", number)
            if not self._takes(row, number):
                place = partial(_cell_place, self.file.name, number, row, delimiter)
                yield Record(row, row, (), {}, place, fields=fields, line=number)
        if not header:
            missing = sorted(needed - {*seen})
            near = get_close_matches(missing[0], seen, n=1) if missing else []
            hint = f"did you mean {near[0]!r}?" if near else f"the first row has {_names_here(seen)}"
            what = ", ".join(map(repr, missing or sorted(needed)))
            if separators:
                hint = f"they are there with {DELIMITERS[separators[0]]!r} between them: write `csv: {separators[0]}`"
            self.whole.say("error", f"{self.mapping.title}: no line has the columns {what}; {hint}")

    def _lines(self) -> Iterator[Record]:
        """Yield the matches of the patterns. A pattern with only labels is a heading of the records below it."""
        patterns = self.mapping.patterns
        fields = frozenset(name for pattern in patterns for name in pattern.names)
        labels = {"", *(path.text for _, path in self.mapping.labels)}  # "" is the name of `{}`
        headings = [pattern for pattern in patterns if labels.issuperset(pattern.names)] if len(patterns) > 1 else []
        heading: dict[str, str] = {}
        for number, line, _, ended in self.file.lines([mark_of(pattern) for pattern in patterns]):
            for pattern in patterns:
                for found in matches(pattern, line):
                    if found.end >= len(line) and not ended:
                        self.whole.say("warning", "the last record is cut off; left out", number)
                    elif pattern in headings:
                        heading |= found.fields
                    elif not headings and self._takes(found.fields, number):  # below a heading, labels are missing
                        if self.note and self.file.alike:
                            self.note(self.file.alike, found)
                    else:
                        self.file.is_odd = True  # so the next line like this one is not read by its digits alone
                        place = partial(_field_place, self.file.name, number, found.column)
                        record = heading | found.fields
                        yield Record(record, record, (), {}, place, fields=fields, line=number)
            if self.file.alike:
                self.file.alike.plain()  # nothing else was done with this line


def _paths(mapping: FileMapping) -> Iterator[FieldPath]:
    """Yield the fields that every row must have."""
    for metric in mapping.metrics:
        yield from metric.name.fields
        yield from metric.unit.fields
        if metric.value and not metric.is_optional:
            yield metric.value
    yield from (path for path in (mapping.step, mapping.commit) if path)
    yield from (path for _, path in (*mapping.labels, *mapping.facts))
    yield from (path for path, _ in mapping.where)


def _field_place(name: str, line: int, column: Callable[[str], int | None], path: Path) -> Place:
    return Location(name, line, column(str(path[0])) if path else None)


def _cell_place(name: str, line: int, row: Mapping[str, str], delimiter: str, path: Path) -> Place:
    """Return the place of a cell; its column is unknown if a cell may have been in quotes."""
    at, columns = 1, dict[str, int]()
    for key, cell in row.items():
        if delimiter in cell or '"' in cell or cells_of(cell, delimiter) != [cell]:
            return Location(name, line)
        columns[key] = at
        at += len(cell) + 1
    return Location(name, line, columns.get(str(path[0])) if path else None)


def _names(data: Any, path: Path) -> str:
    """Return the names at a path, in words."""
    for part in path:
        data = data[part]
    if isinstance(data, dict):
        return f"the names here are {_names_here([*data])}" if data else "this object is empty"
    return f"here is a list of {len(data)}" if isinstance(data, list) else "here is a single value"


def _names_here(names: list[str]) -> str:
    shown = ", ".join(name[:60] for name in names[:_NAMES_SHOWN])
    return shown + (f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else "") or "no names"


def cells_between(line: str, delimiter: str) -> list[str] | None:
    """Return the cells of a line: None if a quote is open, an empty list for a rule between the rows of a table."""
    if delimiter not in _PRINTED:
        return cells_of(line, delimiter)
    if _RULE.fullmatch(line):
        return []
    if delimiter == " ":
        return line.split()
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in inner.split("|")] if "|" in line else [line.strip()]


def _printed_rows(
    run: RunBuilder, delimiter: str, is_header: Callable[[list[str]], bool]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the line and the cells of each row of a printed table, which ends at an empty line; headers may repeat."""
    header: list[str] = []
    for number, line, _, ended in run.file.lines():
        cells = cells_between(line, delimiter)
        if cells and is_header(cells):
            header = cells
        elif not line.strip():
            header = []
        elif not header or not cells or cells == header:
            continue
        elif not ended:
            run.say("warning", "the last record is cut off; left out", number)
        elif len(cells) == len(header):
            yield number, dict(zip(header, cells, strict=True))
        else:
            message = f"a row has {len(cells)} cells, and its header has {len(header)} cells; left out"
            run.say("error", message, number)
