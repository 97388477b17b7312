"""Tables that programs print: cells between blanks or bars, below a header."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from perfgate.readers.builder import RunBuilder

#: The signs between the cells of printed tables, which have no quotes.
PRINTED = (" ", "|")
#: A line between the header and the rows.
_RULE = re.compile(r"[-=+|: \t]*")


def printed_cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line; none of a line that only separates others."""
    if _RULE.fullmatch(line):
        return []
    if delimiter == " ":
        return line.split()
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip() for cell in inner.split("|")] if "|" in line else [line.strip()]


def printed_rows(
    run: RunBuilder, delimiter: str, is_header: Callable[[list[str]], bool]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each row below a header as its line and its cells by column; problems go to the run.

    The table ends at an empty line, and may begin again with its header. A row with another number of cells is an
    error.
    """
    header: list[str] = []
    for number, line, _, ended in run.file.lines():
        cells = printed_cells(line, delimiter)
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
