"""JSON documents and printed Python objects in the lines of a log.

Only one document is open at a time. It ends at its last bracket, and a line that cannot belong to it breaks it off, so
one stray bracket never swallows a log. Printed objects are `Name(field=literal, ...)` as pydantic, dataclasses and rich
print them; they are parsed with `ast`, never evaluated. Only those with `times` are kept, which
`benchmarks.timeit` reads.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from perfgate.core.resource_limits import Limits

#: JSON at the beginning of a line, or behind `: `, `= ` or `> `.
_JSON = re.compile(r'(?:^|[:=>]\s)\s*(?=\{\s*(?:"|$)|\[\s*(?:\{|$))')
#: JSON behind another document on the same line.
_NEXT_JSON = re.compile(r'\s*(?=\{\s*(?:"|$)|\[\s*(?:\{|$))')
#: A printed object: a capitalised name, a bracket, and a field or the end of the line.
_CALL = re.compile(r"\b(?=[A-Z]\w*\((?:\s*$|\s*\w+=))")
#: A part of JSON, or of a printed object, that is not a bracket.
_JSON_WORD = r'\s*(?:"(?:[^"\\]|\\.)*"|[:,]|-?(?:\d[\d.eE+-]*|Infinity|inf)\b|NaN\b|nan\b|true\b|false\b|null\b)'
_CALL_WORD = (
    r"""\s*(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[:,]|[-+]?(?:\d[\d.eE+-]*|nan\b|inf\b)"""
    r"""|True\b|False\b|None\b|[A-Za-z_]\w*(?:=|(?=\()))"""
)
#: Words up to and including the next bracket. There is no backtracking, because a look-ahead is atomic. At most 64
#: words are matched at once, in case no bracket comes.
_JSON_WORDS = re.compile(rf"(?:(?=({_JSON_WORD}))\1){{0,64}}(?:\s*[\[\]{{}}])?")
_CALL_WORDS = re.compile(rf"(?:(?=({_CALL_WORD}))\1){{0,64}}(?:\s*[\[\](){{}}])?")
#: A printed object whose fields are neither lists nor objects.
_FLAT_CALL = re.compile(rf"[A-Z]\w*\((?:(?=({_CALL_WORD}))\1){{0,64}}\s*\)")
#: The times of a printed object; source code has names there, not numbers.
_PRINTED_TIMES = re.compile(r"\btimes=\[\s*[-+.\d]")
#: A document begins with one of these.
_MARKS = re.compile(r"[\[{(]")
_BLANKS = re.compile(r"\s*")
_CUT = "the document that begins here is cut off at the end of the file"
_UNREADABLE = "the printed result that begins here cannot be read"
BROKEN = "the document that begins here is broken off by another line"


class Call(Struct, frozen=True):
    """A printed object: its fields, and the lines of the values in its field `times`, from 1."""

    fields: dict[str, Any]
    lines: list[int]


class Embedded(Struct, frozen=True):
    """A document in a log, whole or broken off."""

    #: The line on which it begins, from 1.
    line: int
    text: str
    #: The parsed object, if the document is a printed one.
    call: Call | None = None
    #: Why the document is not whole; None if it is.
    fault: str | None = None

    def fault_matters(self, field: str) -> bool:
        """Return whether the broken document has this field, or may have it: it is too large, or the log ends in it."""
        if self.fault not in (_CUT, _UNREADABLE, BROKEN):
            return True
        shown = re.search(rf'"{field}"\s*:|\b{field}=\[', self.text)
        return bool(shown) or (self.fault == _CUT and self.text[:1] in "{[")


#: A document, or a line with a match of another pattern.
Found = Embedded | tuple[int, re.Match[str]]


class _Open:
    """A document whose end has not been found yet: `feed` it the lines until `depth` is 0, then take its `result`."""

    def __init__(self, line: int, is_json: bool, limits: Limits) -> None:
        self.line = line
        self._words = _JSON_WORDS if is_json else _CALL_WORDS
        self._is_json = is_json
        self._limits = limits
        self._parts: list[str] = []
        #: The characters so far, and the number of open brackets.
        self._size = self.depth = 0
        #: Why the document is given up, if it is too large.
        self.beyond: str | None = None

    @property
    def text(self) -> str:
        return "\n".join(self._parts)

    def feed(self, line: str, begin: int) -> int | None:
        """Take what belongs to the document from `begin` on, and return its end; None if the line breaks it off."""
        end = self._end_of_words(line, begin)
        self._size += end - begin
        limit = "document_bytes" if self._is_json else "printed_bytes"
        if self.depth > self._limits.depth:
            self.beyond = self._limits.beyond("depth", "the document that begins here is nested deeper")
        elif self._size > getattr(self._limits, limit):
            self.beyond = self._limits.beyond(limit, "the document that begins here is larger")
        is_foreign = self.depth > 0 and not _BLANKS.fullmatch(line, end)
        if is_foreign and self._parts:
            return None
        self._parts.append(line[begin:end])  # also of a first line that breaks it off, for `fault_matters`
        return None if is_foreign or self.beyond else end

    def _end_of_words(self, line: str, begin: int) -> int:
        """Count the brackets from `begin` on; return the end of the document, or of the words that may belong to it."""
        end = begin
        while (words := self._words.match(line, end)) and words.end() > end:
            end = words.end()
            last = line[end - 1]
            if last in "[{(":
                self.depth += 1
            elif last in "]})":
                self.depth -= 1
            is_whole = last in "]})" and self.depth == 0
            if is_whole or self.depth > self._limits.depth:
                break
        return end

    def result(self) -> Embedded | None:
        """Return the whole document; None for an object without times, or for source code."""
        if self._is_json:
            return Embedded(self.line, self.text)
        if "times" not in self.text:
            return None
        call = parse_call(self.text)
        if call is None and _PRINTED_TIMES.search(self.text):
            return self.broken(_UNREADABLE)
        return Embedded(self.line, self.text, call) if call else None

    def broken(self, why: str) -> Embedded:
        """Return what was read of the document, with the reason why it is not whole."""
        return Embedded(self.line, self.text, fault=self.beyond or why)


class _Line:
    """A line that is searched for documents, from left to right; nothing is searched twice."""

    __slots__ = ("at", "found", "number", "text")

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text.replace("\u2502", " ")  # rich's indent guides
        #: The end of the part that has been read.
        self.at = 0
        #: By pattern: the match that was found last; None if there is no more.
        self.found: dict[re.Pattern[str], re.Match[str] | None] = {}

    def next(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Return the next match of a pattern in the part that has not been read."""
        known = self.found.get(pattern)
        if pattern not in self.found or (known and known.start() < self.at):
            known = self.found[pattern] = pattern.search(self.text, self.at)
        return known

    def begin(self, limits: Limits) -> _Open | None:
        """Return the next document that begins in the line; the line is then read up to its first bracket or name."""
        json = _NEXT_JSON.match(self.text, self.at) if self.at else None
        json = json or self.next(_JSON)
        call = self.next(_CALL)
        # Most printed objects have no times, and are skipped quickly. `embedded` searches what is skipped for `also`,
        # which must not match inside of an object: so one with a colon is not skipped, but opened as a document.
        while call and (json is None or call.start() < json.start()):
            flat = _FLAT_CALL.match(self.text, call.start())
            if flat is None or "times" in flat[0] or ":" in flat[0]:
                break
            self.at = flat.end()
            if self.at == len(self.text):
                return None
            json, call = _NEXT_JSON.match(self.text, self.at) or self.next(_JSON), self.next(_CALL)
        found = call if call and (json is None or call.start() < json.start()) else json
        if found is None:
            return None
        self.at = found.end()
        return _Open(self.number, found is json, limits)


def embedded(lines: Iterable[tuple[int, str]], limits: Limits, also: re.Pattern[str] | None = None) -> Iterator[Found]:
    """Yield the documents in numbered lines, and between them the matches of `also`; each match has a colon."""
    search = _Search(limits, also)
    for number, text in lines:
        yield from search.broken_off(BROKEN)  # only now: the last line may be cut, see below
        if search.document or _MARKS.search(text) or (also and also.search(text)):  # few lines of a log
            yield from search.line(_Line(number, text))
    if search.document:
        search.broken.append(search.document)
    yield from search.broken_off(_CUT)  # the last line may be cut itself, so the documents may be whole


class _Search:
    """The search for documents in lines: the open document, and those that the last line broke off."""

    def __init__(self, limits: Limits, also: re.Pattern[str] | None) -> None:
        self._limits, self._also = limits, also
        self.document: _Open | None = None
        self.broken: list[_Open] = []

    def line(self, line: _Line) -> Iterator[Found]:
        """Yield the documents that end on a line, and the matches of `also` outside of documents."""
        while line.at < len(line.text):
            if self.document is None:
                begin = line.at
                self.document = line.begin(self._limits)
                if self.document is None:
                    line.at = len(line.text)
                if self._also:
                    yield from ((line.number, match) for match in self._also.finditer(line.text, begin, line.at))
            else:
                yield from self._continued(self.document, line)

    def _continued(self, document: _Open, line: _Line) -> Iterator[Embedded]:
        """Feed the open document, and yield it if it ends on the line."""
        end = document.feed(line.text, line.at)
        if end is None:
            self.document = None
            self.broken.append(document)
            if line.number == document.line:  # skip the rest; a later line may begin a document itself
                line.at = len(line.text)
        elif document.depth > 0:
            line.at = len(line.text)
        else:
            self.document = None
            line.at = end
            if whole := document.result():
                yield whole

    def broken_off(self, why: str) -> Iterator[Embedded]:
        """Yield the documents that were broken off, and forget them."""
        yield from (document.broken(why) for document in self.broken)
        self.broken.clear()


def parse_call(text: str) -> Call | None:
    """Parse `Name(field=literal, ...)`; return None for anything else."""
    fields: dict[str, Any] = {}
    lines: list[int] = []
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if not isinstance(node, ast.Call) or node.args:
            return None
        for keyword in node.keywords:
            if keyword.arg is None or keyword.arg in fields:
                return None
            fields[keyword.arg] = _literal(keyword.value)
            if keyword.arg == "times" and isinstance(keyword.value, ast.List):
                lines = [element.lineno for element in keyword.value.elts]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return Call(fields, lines)


def _literal(node: ast.expr) -> object:
    """Return the value of a literal; for anything else, which is not a measurement, its source."""
    if isinstance(node, ast.List):
        return [_literal(element) for element in node.elts]
    if isinstance(node, ast.Name) and node.id in ("nan", "inf"):
        return float(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _literal(node.operand)
        return -value if isinstance(value, int | float) else ast.unparse(node)
    return node.value if isinstance(node, ast.Constant) else ast.unparse(node)
