"""Advice about a YAML file that cannot be parsed: its lines near the error show what is probably wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

_TAB_INDENT = re.compile(r" *\t")
#: How YAML reads the first character of a sentence that is not in single quotes.
_MISREAD_STARTS = {
    "*": "an alias",
    "&": "an anchor",
    "!": "a tag",
    "[": "a list",
    "{": "a mapping",
    "%": "a directive",
    **dict.fromkeys("'\"", "a quoted string that ends before the sentence does"),
    **dict.fromkeys("@`", "a reserved character"),
    **dict.fromkeys("|>", "a block of text"),
}
#: Correct uses of these characters: a sentence in quotes, the header of a block, a list or mapping in brackets.
_WHOLE = re.compile(r"""(?:'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|[|>][-+0-9]*|\{.*\}|\[.*\])\s*(?:#.*)?""")
#: A field of the rule file: the text after its colon is not part of a sentence.
_FIELD = re.compile(
    r"(?:id|why|severity|when|better|warmup|confidence|power|min_\w+|on_\w+|budget|expect_fail|owner|quarantine|tags):"
)
#: The column of a field or of a list item, from 1, and the field's name; `-` for an item.
_Start: TypeAlias = tuple[int, str]
_ITEM = re.compile(r" *(-)(?: +|$)")
_FIELD_STARTS = re.compile(r""" *([^\s#'"{\[][^:#]*):(?:\s|$)""")


def with_advice(cause: str, lines: Sequence[str], line: int, column: int) -> str:
    """Return the cause of an error with advice, if there is any. `line`, `column`: the place of the error, from 1."""
    advice = _indentation_advice(lines[:line])
    return f"{advice} ({cause})" if advice else cause + _hint(lines, line, column)


def _hint(lines: Sequence[str], line: int, column: int) -> str:
    """Return advice for a value at the error, or for a sentence that YAML misreads in its line or the one before."""
    near = lines[max(line - 2, 0) : line]
    text = near[-1] if len(lines) >= line else ""
    before, value = text[: column - 1], text[column - 1 :]
    if value[:1] in ("@", "`") and re.search(r"(?<!assert):\s*$", before):
        return f"; YAML reserves a leading {value[0]}: put the text in quotes"
    if _TAB_INDENT.match(text):
        return "; YAML does not allow tabs as indentation: use spaces"
    for text in reversed(near):
        sentence = re.sub(r"^\s*(?:- +)?(?:assert:\s+)?", "", text)
        if _WHOLE.fullmatch(sentence) or _FIELD.match(sentence):
            continue
        if advice := misread_start(sentence):
            return advice
        if text.lstrip().startswith(("- ", "assert:")) and ": " in sentence:
            return "; YAML reads `: ` inside a sentence as a mapping: wrap the whole sentence in single quotes"
    return ""


def _indentation_advice(lines: Sequence[str]) -> str:
    """Return advice if the last line begins a field or item in a column without others of its kind; or nothing.

    There is other advice for a field below the text of an item.
    """
    *above, last = lines or [""]
    column, name = next(_starts(last), (0, ""))
    before = next((text for text in reversed(above) if text.strip() and not text.lstrip().startswith("#")), "")
    item = _ITEM.match(before)
    sentence = before[item.end() :].strip() if item else ""  # the text of the item, if a field begins below it
    is_below_text = name not in ("", "-") and item is not None and column == item.end() + 1
    if is_below_text and sentence and not _FIELD_STARTS.match(sentence) and sentence[:1] not in "'\"[{|>&*":
        return f"`{name}` needs a field above it: write `- assert: {sentence}`"
    open_starts = _open_starts(above)
    columns = sorted({start for start, other in open_starts if (other == "-") == (name == "-")})
    # Directly below `name:`, a field or an item may begin in a new column.
    is_first_in_field = before.rstrip().endswith(":") and bool(open_starts) and column > open_starts[-1][0]
    if not column or not columns or column in columns or is_first_in_field:
        return ""
    others = f"the {'items' if name == '-' else 'fields'} above it in column {' or '.join(map(str, columns))}"
    return f"check the indentation: `{name}` begins in column {column}, {others}"


def _open_starts(lines: Sequence[str]) -> list[_Start]:
    """Return the fields and items that have not ended before the next line."""
    found: list[_Start] = []
    for starts in filter(None, (list(_starts(text)) for text in lines)):
        # A line ends the fields and items that begin at its column or later, but an item may be below its field.
        column, name = starts[0]
        while found and (found[-1][0] > column or (found[-1][0] == column and (name != "-" or found[-1][1] == "-"))):
            found.pop()
        found += starts
    return found


def _starts(text: str) -> Iterator[_Start]:
    """Yield the items and the field that begin in a line."""
    at = 0
    while found := _ITEM.match(text, at):
        yield found.start(1) + 1, "-"
        at = found.end()
    if found := _FIELD_STARTS.match(text, at):
        yield found.start(1) + 1, found[1]


def misread_start(text: str) -> str:
    """Return advice if YAML reads the first character of a sentence as more than text; else an empty string."""
    what = _MISREAD_STARTS.get(text[:1])
    return f"; YAML reads a leading {text[0]} as {what}: wrap the whole sentence in single quotes" if what else ""
