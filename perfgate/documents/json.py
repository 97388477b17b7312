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
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from perfgate.core import Location, Problem
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.documents.json_offsets import STRUCTURE, Path, key_of, offsets_of

__all__ = ["Fault", "JsonDocument", "Path", "cut_back", "load_json", "walk"]

_MAX_FAULTS = 20

#: A string, closed or cut off; a bracket; a number or word.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]|[^\s,:\[\]{}"]+', re.DOTALL)

_TWICE = "the key {} stands twice; the last one counts"
_NO_NUMBER = "{} is no finite number"

#: What a number beyond float64 must hold.
_HUGE = re.compile(r"[0-9]{300}|[eE]\+?[0-9]{3}")

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
        offsets = offsets_of(self.text, wanted)
        nearest = {path: _nearest(offsets, path) for path in wanted}
        places = self._places(nearest.values())
        return {path: places[offset] for path, offset in nearest.items()}

    def _places(self, offsets: Iterable[int]) -> dict[int, Location]:
        """The line and column of each offset; the text is read once, whatever their number."""
        places: dict[int, Location] = {}
        line, line_start, last = 1, 0, 0
        for offset in sorted(set(offsets)):
            line += self.text.count("\n", last, offset)
            line_start = max(line_start, self.text.rfind("\n", last, offset) + 1)
            last = offset
            places[offset] = Location(self.name, line, offset - line_start + 1)
        return places

    def _fault(self, path: Path, offset: int, message: str) -> Fault:
        return Fault(path, Problem("error", message, self._places([offset])[offset]))


def load_json(text: str, name: str, limits: Limits = DEFAULT, *, finite: bool = True) -> JsonDocument:
    """Parse a whole JSON text (RFC 8259); whatever is wrong is an error-level fault with its place, never raised.

    Without `finite`, NaN and infinity are no faults: for documents that hold them beside what is read.
    """
    doubled: list[tuple[dict[str, Any], list[str]]] = []
    has_infinite = False

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            seen: set[str] = set()
            twice = dict.fromkeys(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            doubled.append((members, [*twice]))
        return members

    def decimal(printed: str) -> float:
        nonlocal has_infinite
        value = float(printed)
        has_infinite = has_infinite or not math.isfinite(value)
        return value

    def integer(printed: str) -> int | float:
        return int(printed) if len(printed) < 300 else decimal(printed)  # int() refuses thousands of digits

    # Numbers that are all within reach need no second look, which would cost more than all else.
    numbers: Any = {"parse_float": decimal, "parse_int": integer} if _HUGE.search(text) else {}
    document = JsonDocument(name, text, None)
    if text.count("{") + text.count("[") > limits.containers:
        return _refused(document, limits.beyond("containers", "this document holds more lists and objects"))
    try:
        data = json.loads(text, object_pairs_hook=unique, parse_constant=decimal, **numbers)
    except json.JSONDecodeError as error:
        return _unreadable(document, error)
    except RecursionError:
        return _too_deep(document, limits)
    if not _within(data, limits.depth):
        return _too_deep(document, limits)
    if _SURROGATE.search(text) and not _encodable(data):
        return _refused(document, "a string holds half a surrogate pair")
    paths = _faulty_paths(data, doubled, finite) if doubled or (finite and has_infinite) else iter(())
    return replace(document, data=data, faults=_faults(document, paths))


def cut_back(text: str) -> str | None:
    """A document that was cut off, closed after the last whole list or object in its outermost; None without one."""
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


def _refused(document: JsonDocument, message: str, offset: int = 0) -> JsonDocument:
    return replace(document, faults=(document._fault((), offset, message),))


def _unreadable(document: JsonDocument, error: json.JSONDecodeError) -> JsonDocument:
    cut = error.msg.startswith("Unterminated string") or not document.text[error.pos :].strip()
    return _refused(document, "the JSON document is cut off" if cut else f"this is not JSON: {error.msg}", error.pos)


def _too_deep(document: JsonDocument, limits: Limits) -> JsonDocument:
    depth = offset = 0
    for match in STRUCTURE.finditer(document.text):
        offset = match.start()
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(document.text[offset], 0)
        if depth > limits.depth:
            break
    return _refused(document, limits.beyond("depth", "lists and objects are nested deeper"), offset)


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
            path[-1] = key_of(token)
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


def _faulty_paths(
    data: Any, doubled: list[tuple[dict[str, Any], list[str]]], finite: bool
) -> Iterator[tuple[Path, str]]:
    """Where keys stand twice and, where they count, numbers are not finite; with what is to be said, in order."""
    twice = {id(members): keys for members, keys in doubled}  # the list keeps them alive, so that ids are their own
    path: list[str | int] = []
    waiting: list[Iterator[tuple[str | int, Any]]] = [iter([("", data)])]
    while waiting:
        for key, value in waiting[-1]:
            kind = type(value)
            if kind is float:
                if finite and not math.isfinite(value):
                    yield ((*path[1:], key) if path else ()), _NO_NUMBER
            elif kind is dict or kind is list:
                if kind is list and _is_plain(value, finite):
                    continue
                path.append(key)
                yield from (((*path[1:], name), _TWICE) for name in twice.get(id(value), ()))
                waiting.append(iter(value.items() if kind is dict else enumerate(value)))
                break
        else:
            waiting.pop()
            del path[-1:]


def _is_plain(values: list[Any], finite: bool) -> bool:
    """Whether a list holds numbers alone, all finite where that counts: at once, which is ten times as fast."""
    kinds = {*map(type, values)}
    return kinds <= {int, float} and (not finite or float not in kinds or all(map(math.isfinite, values)))


def _faults(document: JsonDocument, paths: Iterator[tuple[Path, str]]) -> tuple[Fault, ...]:
    """The first faults, each at its place, and how many more there are."""
    shown = [*islice(paths, _MAX_FAULTS)]
    offsets = offsets_of(document.text, [path for path, _ in shown]) if shown else {}
    faults = []
    for path, message in shown:
        offset = _nearest(offsets, path)
        token = _TOKEN.match(document.text, offset)
        said = message.format(repr(path[-1]) if message is _TWICE else token[0][:40] if token else "")
        faults.append(document._fault(path, offset, said))
    more = sum(1 for _ in paths)
    return (*faults, document._fault((), 0, f"and {more} more faults of this kind")) if more else tuple(faults)


def _nearest(offsets: dict[Path, int], path: Path) -> int:
    """The offset of the path, or of the nearest one above it."""
    return next((offsets[path[:length]] for length in range(len(path), -1, -1) if path[:length] in offsets), 0)
