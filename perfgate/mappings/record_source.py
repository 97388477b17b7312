"""The records of a data file: objects of JSON, rows of CSV and of printed tables, lines of text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NoReturn

from msgspec import Struct

from perfgate.core import Location
from perfgate.core.file_mappings import FieldPath, FileMapping, LinePattern
from perfgate.core.resource_limits import Limits
from perfgate.documents.json import HUGE, JsonDocument, Path, load_json
from perfgate.mappings.line_patterns import LineMatch, mark_of, matches
from perfgate.mappings.paths import FoundValue, find, keys_of, used_paths
from perfgate.mappings.table_rows import PRINTED, HeaderSearch, cell_place, names_shown, printed_rows
from perfgate.readers.builder import Place, RunBuilder
from perfgate.readers.coverage import JsonSource
from perfgate.readers.records import csv_rows
from perfgate.readers.text import InputFile

#: The longest JSON text that is read without places.
_LONGEST = 1 << 16
_NOTHING: Mapping[str, str] = {}


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
        """Return whether a row or line may lack this field: another pattern has it, or it is an optional column."""
        return self.fields is not None and path.steps[0] not in self.data

    def find(self, path: FieldPath | None) -> list[FoundValue]:
        """Return each value that a path leads to; None is the record itself."""
        if path is None:
            return [FoundValue(self.path, self.data, {})]
        if path.is_from_top:
            return list(find(self.top, path.steps))
        if len(path.steps) == 1 and path.steps[0] in self.kept:  # the name of a kept key is used like a field
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
    #: Gets the match of a line whose record `take` added; None if lines are never read many at once.
    note: Callable[[LineMatch], None] | None
    #: The number of records that `take` added.
    taken: int = 0

    def read(self) -> Iterator[Record]:
        """Yield the records that `take` does not add, in the order of the file."""
        if self.mapping.kind != "json":
            yield from {"jsonl": self._json_lines, "csv": self._rows, "lines": self._lines}[self.mapping.kind]()
        elif (text := self.file.whole()) is not None:
            yield from self._of_document(load_json(text.removeprefix("\ufeff"), self.file.name, self.file.limits), 1)

    def _takes(self, data: Any, line: int) -> bool:
        if data is None or not self.take(data, line):
            return False
        self.taken += 1
        return True

    def _json_lines(self) -> Iterator[Record]:
        are_lines = not (self.mapping.records and self.mapping.records.steps)  # each record is a whole line
        for number, line, _, ended in self.file.lines():
            if not line.strip() or (are_lines and self._takes(plain_json(line, self.file.limits), number)):
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
        fields = [keys_of(path) for path in used_paths(self.mapping)]
        for found in find(loaded.data, records.steps if records else ()):
            is_item = found.path and type(found.path[-1]) is int  # only `_MappedFile.is_wanted` checks names of members
            if found.missing:
                needs = f"`{records.text if records else ''}` needs {found.missing} here"
                message = f"{self.mapping.title}: {needs}; {_names(loaded.data, found.path)}"
                self.whole.say("error", message, found.path)
            elif is_item and self._takes(found.value, line):
                for keys in fields:  # they have been read, although no reader asked for them
                    self.file.coverage.mark(json, (*found.path, *keys))
            else:
                yield Record(found.value, loaded.data, found.path, found.kept, lambda path: path, json, line=line)
        json.report_waiting()

    def _rows(self) -> Iterator[Record]:
        """Yield the rows below the header, which is the first line with all columns that the mapping needs."""
        needed = {path.text for path in used_paths(self.mapping, with_optional=False)}
        delimiter = self.mapping.delimiter
        search = HeaderSearch(needed, delimiter)
        fields = frozenset[str]()
        rows = printed_rows if delimiter in PRINTED else csv_rows
        for number, row in rows(self.whole, delimiter, search.is_header):
            if not fields:
                fields = frozenset(search.header)
                if twice := sorted(name for name in fields if search.header.count(name) > 1):
                    self.whole.say("error", f"the column {twice[0]!r} occurs twice in the header", number)
            if not self._takes(row, number):
                place = partial(cell_place, self.file.name, number, row, delimiter)
                yield Record(row, row, (), {}, place, fields=fields, line=number)
        if not search.header:
            self.whole.say("error", f"{self.mapping.title}: {search.fault()}")

    def _lines(self) -> Iterator[Record]:
        """Yield the matches of the patterns. A pattern with only labels is a heading of the records below it."""
        patterns = self.mapping.patterns
        fields = frozenset(name for pattern in patterns for name in pattern.names)
        labels = {"", *(path.text for _, path in self.mapping.labels)}  # "" is the name of `{}`
        headings = [pattern for pattern in patterns if labels.issuperset(pattern.names)] if len(patterns) > 1 else []
        heading: dict[str, str] = {}
        for number, pattern, match in self._line_matches():
            if pattern in headings:
                heading |= match.fields
            elif not headings and self._takes(match.fields, number):  # below headings, a line lacks their labels
                if self.note:
                    self.note(match)
            else:
                self.file.is_odd = True  # so the next line like this one is not read by its digits alone
                place = partial(_field_place, self.file.name, number, match.column)
                record = heading | match.fields
                yield Record(record, record, (), {}, place, fields=fields, line=number)

    def _line_matches(self) -> Iterator[tuple[int, LinePattern, LineMatch]]:
        """Yield each match of a pattern, with the number of its line, unless the match may be cut off with the file."""
        patterns = self.mapping.patterns
        for number, line, _, ended in self.file.lines([mark_of(pattern) for pattern in patterns]):
            for pattern in patterns:
                for match in matches(pattern, line):
                    if match.end >= len(line) and not ended:
                        self.whole.say("warning", "the last record is cut off; left out", number)
                    else:
                        yield number, pattern, match
            if self.file.alike:
                self.file.alike.plain()  # nothing else was done with this line


def _field_place(name: str, line: int, column: Callable[[str], int | None], path: Path) -> Place:
    return Location(name, line, column(str(path[0])) if path else None)


def _names(data: Any, path: Path) -> str:
    """Return the names at a path, in words."""
    for part in path:
        data = data[part]
    if isinstance(data, dict):
        return f"the names here are {names_shown([*data])}" if data else "this object is empty"
    return f"here is a list of {len(data)}" if isinstance(data, list) else "here is a single value"
