"""JSON documents and printed Python objects in the lines of a log.

One document is open at a time. A document ends where its brackets do, and a line that cannot belong to it breaks it
off, so that one stray bracket never swallows a log. Printed objects are `Name(field=literal, ...)` as pydantic,
dataclasses and rich print them; they are taken apart by `ast`, never evaluated.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

MAX_JSON = 64 << 20
#: `ast` needs some hundred times the memory of its text.
MAX_CALL = 4 << 20
_MAX_DEPTH = 64

#: JSON stands at the beginning of a line or behind `: `, `= ` and `> `.
_JSON = re.compile(r'(?:^|[:=>]\s)\s*(?=\{\s*(?:"|$)|\[\s*(?:\{|$))')
_CALL = re.compile(r"\b(?=[A-Z]\w*\((?:\s*$|\s*\w+=))")

_JSON_TOKEN = re.compile(
    r'\s*(?:"(?:[^"\\]|\\.)*"|[\[\]{}:,]|-?(?:\d[\d.eE+-]*|Infinity|inf)\b|NaN\b|nan\b|true\b|false\b|null\b)'
)
_CALL_TOKEN = re.compile(
    r"""\s*(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[\[\](){}:,]|[-+]?(?:\d[\d.eE+-]*|nan\b|inf\b)"""
    r"""|True\b|False\b|None\b|[A-Za-z_]\w*(?:=|(?=\()))"""
)


#: Numbers that were printed; source code has names there.
_PRINTED_TIMES = re.compile(r"\btimes=\[\s*[-+.\d]")


@dataclass(frozen=True, slots=True)
class Call:
    """A printed object: its fields, and the lines of the values in its field `times`, from 1."""

    fields: dict[str, Any]
    lines: list[int]


@dataclass(frozen=True, slots=True)
class Embedded:
    """A document in a log, whole or broken off."""

    line: int
    text: str
    call: Call | None = None
    fault: str | None = None

    def fault_matters(self, field: str) -> bool:
        """Whether the broken document held this field, or might have: a log that ends in it."""
        shown = re.search(rf'"{field}"\s*:|\b{field}=\[', self.text)
        return bool(shown) or (self.fault == _CUT and self.text[:1] in "{[")


_CUT = "a document that begins here is cut off at the end of the file"
_UNREADABLE = "a printed result begins here that cannot be read"
_BROKEN = "a document that begins here is broken off by another line"


class _Open:
    """A document that has begun."""

    def __init__(self, line: int, is_json: bool) -> None:
        self.line = line
        self._token = _JSON_TOKEN if is_json else _CALL_TOKEN
        self._is_json = is_json
        self._parts: list[str] = []
        self._size = 0
        self._depth = 0

    @property
    def text(self) -> str:
        return "\n".join(self._parts)

    def feed(self, line: str) -> int | None:
        """How much of a line belongs to the document: all of it, or up to its end; None if the line breaks it off."""
        at = 0
        while token := self._token.match(line, at):
            at = token.end()
            if line[at - 1] in "[{(":
                self._depth += 1
            elif line[at - 1] in "]})":
                self._depth -= 1
                if self._depth == 0:
                    break
            if self._depth > _MAX_DEPTH:
                break
        self._size += at
        foreign = self._depth > _MAX_DEPTH or (self._depth and line[at:].strip())
        if foreign and self._parts:
            return None
        self._parts.append(line[:at])  # of the first line, which may be the cut one, in any case
        return None if foreign or self._size > (MAX_JSON if self._is_json else MAX_CALL) else at

    @property
    def ended(self) -> bool:
        return self._depth == 0

    def result(self) -> Embedded | None:
        """The whole document; None for a call that is source code rather than a printed object."""
        if self._is_json:
            return Embedded(self.line, self.text)
        call = parse_call(self.text)
        if call is None and _PRINTED_TIMES.search(self.text):
            return self.broken(_UNREADABLE)
        return Embedded(self.line, self.text, call) if call else None

    def broken(self, why: str) -> Embedded:
        return Embedded(self.line, self.text, fault=why)


def embedded(
    lines: Iterable[tuple[int, str]], also: re.Pattern[str] | None = None
) -> Iterator[Embedded | tuple[int, re.Match[str]]]:
    """The documents in numbered lines, in order, and between them the lines in which `also` is found."""
    document: _Open | None = None
    broken: list[_Open] = []
    for number, line in lines:
        yield from (each.broken(_BROKEN) for each in broken)
        broken.clear()
        rest = line.replace("\u2502", " ")  # rich's indent guides
        while rest:
            if document is None:
                if also and (found := also.search(rest)):
                    yield number, found
                document, rest = _begin(number, rest)
                if document is None:
                    break
            used = document.feed(rest)
            if used is None:
                broken.append(document)
                rest = "" if number == document.line else rest
                document = None
            elif document.ended:
                if whole := document.result():
                    yield whole
                rest, document = rest[used:], None
            else:
                break
    if document:
        broken.append(document)
    yield from (each.broken(_CUT) for each in broken)  # what the last line breaks off may be cut in that line


def _begin(number: int, line: str) -> tuple[_Open | None, str]:
    """The document that begins in a line, and the line from there on."""
    found = _JSON.search(line) if "{" in line or "[" in line else None
    call = _CALL.search(line) if "(" in line else None
    if call and (found is None or call.start() < found.start()):
        return _Open(number, is_json=False), line[call.end() :]
    return (_Open(number, is_json=True), line[found.end() :]) if found else (None, "")


def parse_call(text: str) -> Call | None:
    """`Name(field=literal, ...)` taken apart; None for anything else."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(node, ast.Call) or node.args:
        return None
    fields: dict[str, Any] = {}
    lines: list[int] = []
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in fields:
            return None
        try:
            fields[keyword.arg] = _literal(keyword.value)
        except RecursionError:
            return None
        if keyword.arg == "times" and isinstance(keyword.value, ast.List):
            lines = [element.lineno for element in keyword.value.elts]
    return Call(fields, lines)


def _literal(node: ast.expr) -> object:
    """The value of a literal; of anything else, which no measurement is, its source."""
    if isinstance(node, ast.List):
        return [_literal(element) for element in node.elts]
    if isinstance(node, ast.Name) and node.id in ("nan", "inf"):
        return float(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _literal(node.operand)
        return -value if isinstance(value, int | float) else ast.unparse(node)
    return node.value if isinstance(node, ast.Constant) else ast.unparse(node)
