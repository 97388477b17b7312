"""One line of a table -> its cells: CSV (RFC 4180), or columns below a ruler, in the output of a tool."""

from __future__ import annotations

import csv
import re
from itertools import pairwise

_RULER = re.compile(r"-{2,}(?:[ |+]+-{2,}){2,}[ |+]*")

#: How a row is split into cells: by a delimiter, or at columns, the last of which may be open.
Split = str | tuple[tuple[int, int | None], ...]


def cells_of(line: str, delimiter: str = ",") -> list[str] | None:
    """The cells of a line; None where a quoted cell does not end in it, or text follows a closing quote."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return None


def cells_before_cut(line: str) -> list[str]:
    """The whole cells of a line whose last cell is quoted and goes on after the line; none if it is not so."""
    return (cells_of(line + '"') or [])[:-1]


def header_of(previous: str, line: str) -> tuple[list[str], Split] | None:
    """The names of the columns that a line may give, and how the rows below are split."""
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
    """The cells of a row; None if it has text between columns, as other lines have."""
    if isinstance(split, str):
        return cells_of(line, split)
    if any(line[one[1] : other[0]].strip(" |+") for one, other in pairwise(split)):
        return None
    return [line[start:end].strip() for start, end in split]
