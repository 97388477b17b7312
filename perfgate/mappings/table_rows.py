"""The header and the rows of a table: CSV, or a table that a program printed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct, field

from perfgate.core import Location
from perfgate.core.wording import listed
from perfgate.documents.json import Path
from perfgate.mappings.mapping_item import DELIMITERS, did_you_mean
from perfgate.readers.builder import Place, RunBuilder
from perfgate.readers.values import cells_of

#: The signs between the cells of printed tables, which have no quotes.
PRINTED = (" ", "|")
#: A line between the header and the rows.
_RULE = re.compile(r"[-=+|: \t]*")


class HeaderSearch(Struct):
    """Finds the header of a table: the first line with all needed columns."""

    needed: set[str]
    delimiter: str
    #: The header; empty until it is found.
    header: list[str] = field(default_factory=list)
    #: The first line that has columns.
    first_row: list[str] = field(default_factory=list)
    #: The name of a delimiter with which a line would be the header.
    other_delimiter: str = ""

    def is_header(self, cells: list[str]) -> bool:
        """Return whether a line is the header, given its cells."""
        if self.header:
            return False
        if self.needed <= {*cells}:
            self.header = cells
            return True
        if not self.first_row and len(cells) > 1:
            self.first_row = cells
        line = self.delimiter.join(cells)
        others = {name: {*(cells_of(line, sign) or ())} for name, sign in DELIMITERS.items() if sign not in PRINTED}
        fitting = (name for name, columns in others.items() if self.needed <= columns)
        self.other_delimiter = self.other_delimiter or next(fitting, "")
        return False

    def fault(self) -> str:
        """Return why there is no header, and what to do."""
        missing = sorted(self.needed - {*self.first_row})
        found = f"the first row has {names_shown(self.first_row)}"
        hint = did_you_mean(missing[0] if missing else "", self.first_row, found)
        if name := self.other_delimiter:
            hint = f"they are there with {DELIMITERS[name]!r} between them: write `csv: {name}`"
        return f"no line has the columns {', '.join(map(repr, missing))}; {hint}"


def printed_rows(
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


def cells_between(line: str, delimiter: str) -> list[str] | None:
    """Return the cells of a line: None if a quote is open, an empty list for a rule between the rows of a table."""
    if delimiter not in PRINTED:
        return cells_of(line, delimiter)
    if _RULE.fullmatch(line):
        return []
    if delimiter == " ":
        return line.split()
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in inner.split("|")] if "|" in line else [line.strip()]


def cell_place(name: str, line: int, row: Mapping[str, str], delimiter: str, path: Path) -> Place:
    """Return the place of a cell; its column is unknown if a cell may have been in quotes."""
    at, columns = 1, dict[str, int]()
    for key, cell in row.items():
        if delimiter in cell or '"' in cell or cells_of(cell, delimiter) != [cell]:
            return Location(name, line)
        columns[key] = at
        at += len(cell) + 1
    return Location(name, line, columns.get(str(path[0])) if path else None)


def names_shown(names: list[str]) -> str:
    """Return the first names; the others are only counted."""
    return listed([name[:60] for name in names], most=8) or "no names"
