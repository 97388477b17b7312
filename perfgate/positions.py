"""Strict JSON with line and column.

`load_json` says what `json` lets pass: duplicate keys, NaN and infinity, numbers beyond float64, deep nesting.
Positions are worked out only when one is asked for.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from perfgate.model import Location, Problem

#: Where a value stands: keys and indices from the top, as in ("series", 0, "values", 3).
Path = tuple[str | int, ...]

MAX_DEPTH = 64
_MAX_FAULTS = 20

#: A string, closed or cut off; a bracket; a number or word.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]|[^\s,:\[\]{}"]+', re.DOTALL)

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong at one place of a document."""

    path: Path
    problem: Problem


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """A JSON text, what it holds, and what is wrong with it."""

    name: str
    text: str
    #: The data; of duplicate keys the last, NaN and infinity as they are. None if the text cannot be read.
    data: Any
    faults: tuple[Fault, ...] = ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The faults without their paths."""
        return tuple(fault.problem for fault in self.faults)

    def locate(self, path: Path) -> Location:
        """Where the value at `path` begins; where nothing stands there, its nearest parent."""
        return self.locate_all([path])[path]

    def locate_all(self, paths: Iterable[Path]) -> dict[Path, Location]:
        """Where each value begins, in one walk through the text; of duplicate keys the last counts."""
        wanted = set(paths)
        if not wanted:
            return {}
        parents = {path[:length] for path in wanted for length in range(len(path) + 1)}
        offsets = {path: offset for path, offset, _ in walk(self.text) if path in parents}
        return {path: self._place(_nearest(offsets, path)) for path in wanted}

    def _place(self, offset: int) -> Location:
        line_start = self.text.rfind("\n", 0, offset) + 1
        return Location(self.name, self.text.count("\n", 0, offset) + 1, offset - line_start + 1)

    def _fault(self, path: Path, offset: int, message: str) -> Fault:
        return Fault(path, Problem("error", message, self._place(offset)))


def load_json(text: str, name: str, max_depth: int = MAX_DEPTH, *, finite: bool = True) -> JsonDocument:
    """Parse a whole JSON text (RFC 8259); whatever is wrong is an error-level fault with its place, never raised.

    Without `finite`, NaN and infinity are no faults: for documents that hold them beside what is read.
    """
    suspicious = False

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal suspicious
        members = dict(pairs)
        suspicious = suspicious or len(members) < len(pairs)
        return members

    def decimal(printed: str) -> float:
        nonlocal suspicious
        value = float(printed)
        suspicious = suspicious or (finite and not math.isfinite(value))
        return value

    def integer(printed: str) -> int | float:
        return int(printed) if len(printed) < 300 else decimal(printed)  # int() refuses thousands of digits

    document = JsonDocument(name, text, None)
    try:
        data = json.loads(
            text, object_pairs_hook=unique, parse_float=decimal, parse_int=integer, parse_constant=decimal
        )
    except json.JSONDecodeError as error:
        return _unreadable(document, error)
    except RecursionError:
        return _too_deep(document, max_depth)
    if not _within(data, max_depth):
        return _too_deep(document, max_depth)
    if _SURROGATE.search(text) and not _encodable(data):
        return JsonDocument(name, text, None, (document._fault((), 0, "a string holds half a surrogate pair"),))
    return JsonDocument(name, text, data, tuple(_faults(document, finite)) if suspicious else ())


def cut_back(text: str) -> str | None:
    """A document that was cut off, closed after the last whole list or object in its outermost; None without one."""
    depth = end = 0
    for match in _TOKEN.finditer(text):
        if match[0] in "[{":
            depth += 1
        elif match[0] in "]}":
            depth -= 1
            if depth == 1:
                end = match.end()
    opener = text.lstrip()[:1]
    return text[:end] + ("]" if opener == "[" else "}") if end else None


def _unreadable(document: JsonDocument, error: json.JSONDecodeError) -> JsonDocument:
    cut = not document.text[error.pos :].strip() or error.msg.startswith("Unterminated string")
    message = "the JSON document is cut off" if cut else f"this is not JSON: {error.msg}"
    fault = document._fault((), error.pos, message)
    return JsonDocument(document.name, document.text, None, (fault,))


def _too_deep(document: JsonDocument, max_depth: int) -> JsonDocument:
    offset = next((offset for path, offset, _ in walk(document.text) if len(path) >= max_depth), 0)
    fault = document._fault((), offset, f"nested deeper than {max_depth} levels, which is not read")
    return JsonDocument(document.name, document.text, None, (fault,))


def _encodable(data: object) -> bool:
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _within(data: object, max_depth: int) -> bool:
    """Whether lists and objects are nested at most that deep; level by level, without recursion."""
    level = [data]
    for _ in range(max_depth):
        level = [child for parent in level for child in _children(parent) if isinstance(child, dict | list)]
        if not level:
            return True
    return False


def _children(parent: object) -> Iterable[object]:
    if isinstance(parent, dict):
        return parent.values()
    return parent if isinstance(parent, list) else ()


def walk(text: str, deepest: int = sys.maxsize) -> Iterator[tuple[Path, int, str]]:
    """(path, offset, first token) of every value whose path is not longer than `deepest`, in order.

    Nothing recurses, and a text that is cut off yields what it has.
    """
    path: list[str | int | None] = []  # of each open container: the index, or the key, None while one is awaited
    for match in _TOKEN.finditer(text):
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
                path.append(-1 if token == "[" else None)
                continue
        if path and isinstance(path[-1], str):
            path[-1] = None


def _key(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token


def _faults(document: JsonDocument, finite: bool) -> Iterator[Fault]:
    """Duplicate keys and, where they count, numbers that are not finite."""
    seen: set[Path] = set()
    twice: set[Path] = set()
    count = 0
    for path, offset, token in walk(document.text):
        message = None
        if path in seen and not any(path[:length] in twice for length in range(len(path) + 1)):
            twice.add(path)
            message = f"the key {path[-1]!r} stands twice; the last one counts"
        elif finite and token[0] in "-0123456789NI" and not math.isfinite(float(token)):
            message = f"{token[:40]} is no finite number"
        if path and isinstance(path[-1], str):
            seen.add(path)
        if message:
            count += 1
            if count <= _MAX_FAULTS:
                yield document._fault(path, offset, message)
    if count > _MAX_FAULTS:
        yield document._fault((), 0, f"and {count - _MAX_FAULTS} more faults of this kind")


def _nearest(offsets: dict[Path, int], path: Path) -> int:
    """The offset of the path, or of the nearest one above it."""
    return next((offsets[path[:length]] for length in range(len(path), -1, -1) if path[:length] in offsets), 0)
