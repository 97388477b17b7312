"""JSON token by token: for texts that may be cut off, or whose beginning is enough."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator

#: A string, complete or cut off; or a bracket.
STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)
#: A string, a bracket, a number or a word.
TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]|[^\s,:\[\]{}"]+', re.DOTALL)


def cut_back(text: str) -> str | None:
    """Close a document that was cut off, after the last complete item of its outermost list or object.

    Only items that are lists or objects count. Returns None if no item is complete.
    """
    depth = end = 0
    for match in STRUCTURE.finditer(text):
        token = text[match.start()]
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
            if depth == 1:
                end = match.end()
    opener = text.lstrip()[:1]
    return text[:end] + ("]" if opener == "[" else "}") if end else None


def walk(text: str, deepest: int = sys.maxsize) -> Iterator[tuple[tuple[str | int, ...], int, str]]:
    """Yield (path, offset, first token) of every value whose path has at most `deepest` parts, in order.

    It does not recurse. In a text that is cut off, it finds the values before the cut.
    """
    path: list[str | int | None] = []  # for each open list or object the index or key; None: the next string is a key
    for match in TOKEN.finditer(text):
        token = match[0]
        if token in "]}":
            del path[-1:]
        elif path and path[-1] is None:
            path[-1] = _key(token)
            continue
        else:
            if path and isinstance(path[-1], int):
                path[-1] += 1
            if len(path) <= deepest:
                yield tuple(path), match.start(), token  # type: ignore[arg-type]
        if token in "[{":
            path.append(-1 if token == "[" else None)  # -1: its first item will have the index 0
        elif path and isinstance(path[-1], str):  # the value of a key has ended
            path[-1] = None


def _key(token: str) -> str:
    """Return the key of a printed string, or its text if it cannot be read."""
    if "\\" not in token and token.endswith('"'):
        return token[1:-1]
    try:
        return str(json.loads(token))
    except ValueError:
        return token
