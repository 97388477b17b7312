"""Cells of one line of a table in the output of a tool: CSV (RFC 4180), or columns below a ruler."""

from __future__ import annotations

import csv
import re
from itertools import pairwise

_RULER = re.compile(r"-{2,}(?:[ |+]+-{2,}){2,}[ |+]*")

#: How to split a row into cells: by a delimiter, or at columns; the last column may be open.
Split = str | tuple[tuple[int, int | None], ...]


def cells_of(line: str, delimiter: str = ",") -> list[str] | None:
    """Return the cells of a line; None if a quoted cell does not end in it, or text follows a closing quote."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return None


def cells_before_cut(line: str) -> list[str]:
    """Return the whole cells of a line whose last, quoted cell continues after the line; none for another line."""
    return (cells_of(line + '"') or [])[:-1]


def header_of(previous: str, line: str) -> tuple[list[str], Split] | None:
    """Return the names of the columns, and how to split the rows below; None if the line is not below a header."""
    start = line.find("--")
    if start >= 0 and (ruler := _RULER.fullmatch(line, start)):
        spans = [match.span() for match in re.finditer("-+", line[: ruler.end()]) if match.start() >= start]
        closed = line.rstrip()[-1] in "|+"
        split = (*spans[:-1], (spans[-1][0], spans[-1][1] if closed else None))
        return split_row(previous, split) or [], split
    if "Total" not in line:
        return None
    delimiter = "\t" if "\t" in line else ","
    cells = cells_of(line, delimiter) or []
    return (cells, delimiter) if len(cells) > 2 else None


def split_row(line: str, split: Split) -> list[str] | None:
    """Return the cells of a row; None if it has text between columns, as other lines have."""
    if isinstance(split, str):
        return cells_of(line, split)
    if any(line[one[1] : other[0]].strip(" |+") for one, other in pairwise(split)):
        return None
    return [line[start:end].strip() for start, end in split]
