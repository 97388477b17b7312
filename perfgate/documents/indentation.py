"""Advice for YAML that is not valid because a line begins in the wrong column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

#: The column of a field or of a list item, from 1, and the field's name; `-` for an item.
_Start: TypeAlias = tuple[int, str]
_ITEM = re.compile(r" *(-)(?: +|$)")
_FIELD = re.compile(r""" *([^\s#'"{\[][^:#]*):(?:\s|$)""")


def indentation_advice(lines: Sequence[str]) -> str:
    """Return advice if the last line begins a field or an item beside none of the lines above; otherwise nothing."""
    if not lines:
        return ""
    *above, last = lines
    open_starts: list[_Start] = []
    before = ""
    for text in above:
        if text.strip() and not text.lstrip().startswith("#"):
            before = text
        if starts := list(_starts(text)):
            open_starts = [*_around(open_starts, starts[0]), *starts]
    column, name = next(_starts(last), (0, ""))
    columns = sorted({at for at, other in open_starts if (other == "-") == (name == "-")})
    if sentence := _sentence_above(before, column, name):
        return f"`{name}` needs a field above it: write `- assert: {sentence}`"
    is_child = before.rstrip().endswith(":") and bool(open_starts) and column > open_starts[-1][0]
    if not column or not columns or column in columns or is_child:
        return ""
    others = "items" if name == "-" else "fields"
    return (
        f"check the indentation: `{name}` begins in column {column}, "
        f"the {others} above it in column {' or '.join(map(str, columns))}"
    )


def _sentence_above(before: str, column: int, name: str) -> str:
    """Return the text of the item in the line before if a field is below its text; empty if it is a field itself."""
    found = _ITEM.match(before)
    text = before[found.end() :].strip() if found else ""
    is_below = name not in ("", "-") and found is not None and column == found.end() + 1
    return text if is_below and not _FIELD.match(text) and text[:1] not in "'\"[{|>&*" else ""


def _starts(text: str) -> Iterator[_Start]:
    """Yield the items and the field that begin in a line."""
    at = 0
    while found := _ITEM.match(text, at):
        yield found.start(1) + 1, "-"
        at = found.end()
    if found := _FIELD.match(text, at):
        yield found.start(1) + 1, found[1]


def _around(open_starts: Sequence[_Start], start: _Start) -> list[_Start]:
    """Return the lists and mappings that a line inside them leaves open; an item may be below its field."""
    column, name = start
    return [one for one in open_starts if one[0] < column or (one[0] == column and name == "-" != one[1])]
