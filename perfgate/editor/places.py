"""Classify a place in a rule file: in a sentence, in the expression of a derived metric, or elsewhere.

A file that is being written is often no valid YAML, so a place is found by lines, not by the structure of the document.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

_SECTION = re.compile(r"([A-Za-z_]\w*):")
#: The text before a sentence in its line: `- `, `assert: `, or both, and a quote.
_BEFORE_SENTENCE = re.compile(r"""\s*(?:-\s+(?:\{?\s*assert:\s+)?|assert:\s+)(['"]?)""")
_BEFORE_EXPRESSION = re.compile(r"""\s+[^\s:#][^:#]*:\s+(['"]?)""")
_OTHER_FIELD = re.compile(r"[a-z_]+:(?:\s|$)")


class Written(Struct, frozen=True):
    """The part of a sentence or expression before a place, and the column at which the sentence begins."""

    kind: Literal["sentence", "expression"]
    text: str
    column: int


def written_before(text: str, line: int, column: int) -> Written | None:
    """Return what is written of the sentence at a place, up to the place; None for a place outside of one."""
    lines = text.splitlines()
    before = lines[line][:column] if line < len(lines) else ""
    kinds: dict[str, Literal["sentence", "expression"]] = {"rules": "sentence", "metrics": "expression"}
    kind = kinds.get(_section(lines, line))
    found = (_BEFORE_SENTENCE if kind == "sentence" else _BEFORE_EXPRESSION).match(before) if kind else None
    if kind is None or found is None:
        return None
    rest = before[found.end() :]
    if kind == "sentence" and not found[1] and _OTHER_FIELD.match(rest):
        return None  # `- id: ...`
    return Written(kind, rest.replace("''", "'") if found[1] == "'" else rest, found.end())


def _section(lines: list[str], line: int) -> str:
    """Return the field of the file that a line belongs to."""
    for above in range(min(line, len(lines) - 1), -1, -1):
        if found := _SECTION.match(lines[above]):
            return found[1]
    return ""
