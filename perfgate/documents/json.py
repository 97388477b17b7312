"""Strict JSON with line and column.

`load_json` also reports mistakes that the module `json` accepts: duplicate keys, NaN and infinity, numbers beyond
float64, deep nesting. A position is found only if it is needed: then the text is read again.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Location, Problem
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.documents.json_tokens import STRUCTURE, TOKEN

#: The path of a value: keys and indices from the top, as in ("series", 0, "values", 3).
Path = tuple[str | int, ...]
#: The most faults of a document that are reported one by one.
_MAX_FAULTS = 20
#: Messages; `{}` is the key or the number.
_TWICE = "the key {} occurs twice; the last one counts"
_NOT_FINITE = "{} is not a finite number"
#: A number beyond float64 has 200 digits, or three digits in its exponent. In a hash, other letters follow the digits.
HUGE = re.compile(r"[0-9]{200}|[eE]\+?[0-9]{3,}(?:[\s,\]}]|$)")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_BLANKS = re.compile(r"[ \t\n\r]*")
#: The number of list items that are skipped at once, if they are numbers or words.
_STRIDE = 1024
_PLAIN_ITEMS = re.compile(rf'(?:[^,"\[\]{{}}]*,){{{_STRIDE}}}')
#: Finds the end of a value, in C. It reads integers as floats, because `int` refuses thousands of digits.
_DECODER = json.JSONDecoder(parse_int=float)


class Fault(Struct, frozen=True):
    """A problem, and the path of its value."""

    path: Path
    problem: Problem


class JsonDocument(Struct, frozen=True):
    """A JSON text, its data, and what is wrong with it."""

    name: str
    text: str
    #: The data, with the last of duplicate keys, NaN and infinity. None if the text cannot be read.
    data: Any
    faults: tuple[Fault, ...] = ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The faults without their paths."""
        return tuple(fault.problem for fault in self.faults)

    def locate(self, path: Path) -> Location:
        """Return the beginning of the value at `path`; if there is none, that of its nearest parent."""
        return self.locate_all([path])[path]

    def locate_all(self, paths: Iterable[Path]) -> dict[Path, Location]:
        """Return the beginning of each value; of duplicate keys the last counts."""
        nearest = _nearest_offsets(self, paths)
        places = self._places(nearest.values())
        return {path: places[offset] for path, offset in nearest.items()}

    def _places(self, offsets: Iterable[int]) -> dict[int, Location]:
        """Return the line and column of each offset; the text is read once for all."""
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
    """Parse a whole JSON text (RFC 8259). Every mistake becomes a fault with its place; nothing is raised.

    `name`: the name of the document in messages. `limits`: the largest depth, and the largest number of lists and
    objects. `finite`: report NaN and infinity as faults.
    """
    noted = _Noted()
    document = _parsed(JsonDocument(name, text, None), limits, noted)
    if document.faults or not (noted.doubled or (finite and noted.has_infinite)):
        return document
    return replace(document, faults=_faults(document, _faulty_paths(document.data, noted.doubled, finite)))


class _Noted:
    """Makes objects and numbers for the module `json`, and notes the mistakes that it accepts."""

    def __init__(self) -> None:
        #: The objects with duplicate keys, and these keys.
        self.doubled: list[tuple[dict[str, Any], list[str]]] = []
        self.has_infinite = False

    def unique(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            self.doubled.append((members, [key for key, count in counts.items() if count > 1]))
        return members

    def decimal(self, printed: str) -> float:
        value = float(printed)
        self.has_infinite = self.has_infinite or not math.isfinite(value)
        return value

    def integer(self, printed: str) -> int | float:
        return int(printed) if len(printed) < 300 else self.decimal(printed)  # int() refuses thousands of digits


def _parsed(document: JsonDocument, limits: Limits, noted: _Noted) -> JsonDocument:
    """Return a document with its data, or with the reason why it cannot be read."""
    text = document.text
    brackets = text.count("{") + text.count("[")  # a fast count; brackets in strings are left out only if they matter
    if brackets > limits.containers and sum(one[0] in "{[" for one in STRUCTURE.finditer(text)) > limits.containers:
        return _refused(document, limits.beyond("containers", "this document has more lists and objects"))
    # a call for each number would cost more than all else, so there is one only if a number may be huge
    numbers: Any = {"parse_float": noted.decimal, "parse_int": noted.integer} if HUGE.search(text) else {}
    try:
        data = json.loads(text, object_pairs_hook=noted.unique, parse_constant=noted.decimal, **numbers)
        if not _within(data, limits.depth):
            return _too_deep(document, limits)
        if _SURROGATE.search(text):
            json.dumps(data, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        cut = error.msg.startswith("Unterminated string") or not text[error.pos :].strip()
        message = "the JSON document is cut off" if cut else f"this is not JSON: {error.msg}"
        return _refused(document, message, error.pos)
    except RecursionError:
        return _too_deep(document, limits)
    except UnicodeEncodeError:
        return _refused(document, "a string has half a surrogate pair")
    return replace(document, data=data)


def _refused(document: JsonDocument, message: str, offset: int = 0) -> JsonDocument:
    """Return a document that cannot be read, with the reason."""
    return replace(document, faults=(document._fault((), offset, message),))


def _too_deep(document: JsonDocument, limits: Limits) -> JsonDocument:
    """Return a document that is nested too deep, with the place where that begins."""
    depth = offset = 0
    for match in STRUCTURE.finditer(document.text):
        offset = match.start()
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(document.text[offset], 0)
        if depth > limits.depth:
            break
    return _refused(document, limits.beyond("depth", "lists and objects are nested deeper"), offset)


def _within(data: object, max_depth: int) -> bool:
    """Return whether lists and objects are nested at most that deep. It does not recurse."""
    level = [data] if isinstance(data, dict | list) else []
    for _ in range(max_depth):
        members = (parent.values() if isinstance(parent, dict) else parent for parent in level)
        level = [child for children in members for child in children if isinstance(child, dict | list)]
        if not level:
            return True
    return not level


def _faulty_paths(
    data: Any, doubled: list[tuple[dict[str, Any], list[str]]], finite: bool
) -> Iterator[tuple[Path, str]]:
    """Yield the path and the message of each duplicate key and, if `finite`, of each number that is not finite."""
    twice = {id(members): keys for members, keys in doubled}  # the list keeps them alive, so each id is unique
    # A depth-first walk without recursion: for each open list or object, the members that are left.
    waiting = [_suspects((), {"": data}, finite)]
    while waiting:
        path, value = next(waiting[-1], (None, None))
        if path is None:
            waiting.pop()
        elif isinstance(value, float):
            yield path[1:], _NOT_FINITE  # without the name "" of the document
        else:
            yield from (((*path[1:], key), _TWICE) for key in twice.get(id(value), ()))
            waiting.append(_suspects(path, value, finite))


def _suspects(path: Path, parent: Any, finite: bool) -> Iterator[tuple[Path, Any]]:
    """Yield the path and the value of each member that is a fault or may contain one."""
    for key, value in parent.items() if isinstance(parent, dict) else enumerate(parent):
        if isinstance(value, float):
            is_suspect = finite and not math.isfinite(value)
        elif isinstance(value, list):  # faster than a loop over its numbers
            are_numbers = {*map(type, value)} <= {int, float}
            is_suspect = not are_numbers or (finite and not all(map(math.isfinite, value)))
        else:
            is_suspect = isinstance(value, dict)
        if is_suspect:
            yield (*path, key), value


def _faults(document: JsonDocument, paths: Iterator[tuple[Path, str]]) -> tuple[Fault, ...]:
    """Return the first faults, each at its place, and one fault that says how many more there are."""
    shown = [*islice(paths, _MAX_FAULTS)]
    offsets = _nearest_offsets(document, [path for path, _ in shown])
    faults = []
    for path, message in shown:
        offset = offsets[path]
        token = TOKEN.match(document.text, offset)
        about = repr(path[-1]) if message is _TWICE else token[0][:40] if token else ""
        faults.append(document._fault(path, offset, message.format(about)))
    more = sum(1 for _ in paths)
    return (*faults, document._fault((), 0, f"and {more} more faults of this kind")) if more else tuple(faults)


def _nearest_offsets(document: JsonDocument, paths: Iterable[Path]) -> dict[Path, int]:
    """Return the offset at which the value of each path begins, or that of its nearest parent."""
    wanted = set(paths)
    # Without data, the text may not be JSON, and only its beginning is known.
    offsets = _offsets(document.text, wanted if document.data is not None else ()) if wanted else {}

    def nearest(path: Path) -> int:
        return next((offsets[path[:length]] for length in range(len(path), -1, -1) if path[:length] in offsets), 0)

    return {path: nearest(path) for path in wanted}


def _offsets(text: str, paths: Iterable[Path]) -> dict[Path, int]:
    """Return the offsets at which the values of paths, and those of their parents, begin in a valid JSON text.

    Values that are not on a path are skipped by the scanner of the standard library, which returns their ends.
    """
    tree: dict[Any, Any] = {}  # the wanted keys, in each the wanted keys below it
    for path in paths:
        node = tree
        for key in path:
            node = node.setdefault(key, {})
    found: dict[Path, int] = {}
    waiting: list[tuple[Path, int, dict[Any, Any]]] = [((), _next(text, 0), tree)]
    while waiting:
        path, at, inner = waiting.pop()
        found[path] = at
        if inner and text[at] in "{[":
            with suppress(RecursionError):  # the stack may be deeper here than where the text was read
                members = _keys(text, at, inner) if text[at] == "{" else _items(text, at, inner)
                # `dict`, because the last of duplicate keys counts
                waiting += [((*path, key), place, inner[key]) for key, place in dict(members).items()]
    return found


def _keys(text: str, at: int, wanted: Mapping[Any, Any]) -> Iterator[tuple[str | int, int]]:
    """Yield the wanted keys of the object at an offset, and the offsets of their values."""
    at = _next(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _next(text, _next(text, at) + 1)
        if key in wanted:
            yield key, at
        at = _after(text, at)


def _items(text: str, at: int, wanted: Mapping[Any, Any]) -> Iterator[tuple[str | int, int]]:
    """Yield the wanted indices of the list at an offset, and the offsets of their values."""
    index, at = 0, _next(text, at + 1)
    for target in sorted(key for key in wanted if isinstance(key, int)):
        while index < target and text[at] != "]":
            many = _PLAIN_ITEMS.match(text, at) if target - index >= _STRIDE else None
            index, at = (index + _STRIDE, _next(text, many.end())) if many else (index + 1, _after(text, at))
        if text[at] == "]":
            return
        yield index, at


def _after(text: str, at: int) -> int:
    """Return the offset of the next member after the value at an offset, or of the closing bracket."""
    at = _next(text, _DECODER.raw_decode(text, at)[1])
    return _next(text, at + 1) if text[at] == "," else at


def _next(text: str, at: int) -> int:
    """Return the offset after blanks."""
    return _BLANKS.match(text, at).end()  # type: ignore[union-attr]
