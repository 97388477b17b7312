"""Rows of a CSV table in a text: the header that a format knows, and the rows below it."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator

from perfgate.readers.builder import RunBuilder


def cells_of(line: str, delimiter: str = ",") -> list[str] | None:
    """Return the cells of a line; None if a quoted cell does not end in it, or text follows a closing quote."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return None


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
