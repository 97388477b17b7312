"""Where values stand in a JSON text, looking only at strings and brackets: between them commas are counted.

A list of a million numbers costs one `str.count`, and one walk finds any number of paths.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

#: Where a value stands: keys and indices from the top, as in ("series", 0, "values", 3).
Path = tuple[str | int, ...]

#: A string, closed or cut off, or a bracket.
STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)

#: So many characters are counted at once, rather than comma by comma.
_STRIDE = 1 << 12

_BLANKS = re.compile(r"\s*")
_COLON = re.compile(r"\s*:?\s*")


def key_of(token: str) -> str:
    """The key that a printed string is; of one that cannot be read, its text."""
    if "\\" not in token and token.endswith('"'):
        return token[1:-1]
    try:
        return str(json.loads(token))
    except ValueError:
        return token


def offsets_of(text: str, paths: Iterable[Path]) -> dict[Path, int]:
    """Where the value at each path begins, and the values around it; of duplicate keys the last counts.

    A path at which nothing stands is left out. Nothing recurses or raises, whatever the text is.
    """
    found: dict[Path, int] = {(): _after(_BLANKS, text, 0)}
    on_the_way: list[_Container] = []
    skipped = 0  # how many containers are open in which nothing is looked for
    for match in STRUCTURE.finditer(text):
        start = match.start()
        first = text[start]
        if skipped:
            skipped += (first in "[{") - (first in "]}")
            if not skipped:
                on_the_way[-1].read_until = match.end()
            continue
        if first in "]}":
            if len(on_the_way) < 2:
                if on_the_way:
                    on_the_way[-1].read(text, start, found)
                break
            on_the_way.pop().read(text, start, found)
            on_the_way[-1].read_until = match.end()
        elif first == '"':
            if on_the_way:
                on_the_way[-1].string(text, match, found)
        else:
            inner = on_the_way[-1].child(text, start, found) if on_the_way else (_tree(paths), ())
            if inner[0]:
                on_the_way.append(_Container(text, start, *inner, found))
            else:
                skipped = 1
            if not on_the_way:
                break
    return found


def _tree(paths: Iterable[Path]) -> dict[Any, Any]:
    """The paths as nested mappings."""
    tree: dict[Any, Any] = {}
    for path in paths:
        node = tree
        for key in path:
            node = node.setdefault(key, {})
    return tree


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _nth_comma(text: str, at: int, n: int) -> int:
    """Where the n-th comma from here on stands, which exists."""
    while (found := text.count(",", at, at + _STRIDE)) < n:
        n -= found
        at += _STRIDE
    for _ in range(n):
        at = text.find(",", at) + 1
    return at - 1


class _Container:
    """A list or object on the way to a value that is looked for."""

    __slots__ = ("inner", "is_list", "key", "path", "read_until", "waiting")

    def __init__(self, text: str, start: int, inner: dict[Any, Any], path: Path, found: dict[Path, int]) -> None:
        #: What is looked for in it, by key or index.
        self.inner = inner
        self.path = path
        self.is_list = text[start] == "["
        #: The index or key of the value that is being read; None before the first key.
        self.key: int | str | None = 0 if self.is_list else None
        self.read_until = start + 1
        #: Of a list, the indices that are looked for and still to come, the next one last.
        self.waiting = sorted((key for key in inner if isinstance(key, int)), reverse=True) if self.is_list else []
        if self.waiting and self.waiting[-1] == 0:
            self._element(text, start, found)

    def _element(self, text: str, comma: int, found: dict[Path, int]) -> None:
        """The next index that is looked for begins behind this comma, or bracket."""
        index = self.waiting.pop()
        at = _after(_BLANKS, text, comma + 1)
        if text[at : at + 1] != "]":
            path = (*self.path, index)
            found[path] = at

    def read(self, text: str, until: int, found: dict[Path, int]) -> None:
        """Go on to an offset; between there and the last one are no strings and no brackets."""
        if not isinstance(self.key, int):
            return
        last = self.key + text.count(",", self.read_until, until)
        comma = self.read_until - 1
        while self.waiting and self.waiting[-1] <= last:
            comma = _nth_comma(text, comma + 1, self.waiting[-1] - self.key)
            self.key = self.waiting[-1]
            self._element(text, comma, found)
        self.key = last

    def string(self, text: str, match: re.Match[str], found: dict[Path, int]) -> None:
        """A string: a value, or the key of an object's next member."""
        if self.is_list:
            self.read(text, match.start(), found)
        elif self.key is None or text.find(",", self.read_until, match.start()) >= 0:
            self.key = key_of(match[0])
            if self.key in self.inner:
                path = (*self.path, self.key)
                found[path] = _after(_COLON, text, match.end())
        self.read_until = match.end()

    def child(self, text: str, start: int, found: dict[Path, int]) -> tuple[dict[Any, Any], Path]:
        """What is looked for in the list or object that begins here, and its path."""
        self.read(text, start, found)
        self.read_until = start
        return self.inner.get(self.key, {}), (*self.path, self.key) if self.key is not None else self.path
