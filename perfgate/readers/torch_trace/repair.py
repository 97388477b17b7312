"""The slow way through a list of events: element by element with `json`, and the broken JSON of real traces repaired.

What Kineto and torch have written: control characters in names, backslashes of Windows, quotes that are not escaped
(torch 146900), bare `inf`, `nan` and `N/A`, keys that lack a quote (torch 33961), trailing commas, bytes that are no
UTF-8. Nothing is repaired silently, and what cannot be repaired is left out and said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice

from perfgate.core import Severity
from perfgate.readers.torch_trace.events import Event, from_json

#: (severity, what, line, detail), as `RunBuilder.say_some` takes them.
Fault = tuple[Severity, str, int, str]


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) < 300 else Decimal(text)  # int() refuses thousands of digits


_LENIENT = json.JSONDecoder(strict=False, parse_float=Decimal, parse_int=_integer)
_BETWEEN = re.compile(r"[\s,]*")
#: Where an element may end: before the next one, or at the end of the list.
_END = re.compile(r"\}(?=\s*(?:,\s*[\]{]|\]))")
_NEXT = re.compile(r"\}\s*,\s*(?=\{)")
#: How many such places are tried for one element, and for a broken one, which is not longer than this.
_TRIES, _REPAIR_TRIES, _LONGEST = 8, 2, 1 << 20
#: A text with more events that cannot be read is no trace; repairing more takes too long.
MOST_UNREADABLE, MOST_REPAIRED = 1000, 50_000


@dataclass(slots=True)
class Found:
    """What a text held: its events, the line of each, and how many bytes of it are dealt with."""

    events: list[Event] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    consumed: int = 0
    #: Whether the list ended in this text.
    closed: bool = False
    #: How many elements could not be read, and how many had to be repaired.
    unreadable: int = 0
    repaired: int = 0


def read(data: bytes, line: int, *, ended: bool) -> Found:
    """The elements of a list whose beginning, or rest, is `data`; its first byte stands on `line`.

    Unless the document has `ended`, an element that may go on behind the text is left for the next call.
    """
    text = data.decode("utf-8", "surrogateescape")
    found, position, counted = Found(), 0, 0
    while True:
        at = _BETWEEN.match(text, position).end()  # type: ignore[union-attr]
        line, counted = line + text.count("\n", counted, at), at
        if text.startswith("]", at):
            found.closed, position = True, at + 1
            break
        element, end, repairs = _element(text, at, ended)
        if end is None:
            position = at
            break
        position = end
        _keep(found, element, line, repairs)
        if found.unreadable > MOST_UNREADABLE or found.repaired > MOST_REPAIRED:
            break
    found.consumed = len(text[:position].encode("utf-8", "surrogateescape"))
    return found


def _keep(found: Found, element: object, line: int, repairs: str | None) -> None:
    event = from_json(element)
    if event is None:
        found.unreadable += 1
        found.faults.append(("error", "unreadable event, left out", line, f": {repairs}" if repairs else ""))
        return
    if repairs:
        found.repaired += 1
        found.faults.append(("warning", "repaired JSON", line, f": {repairs}"))
    found.events.append(event)
    found.lines.append(line)


def _element(text: str, at: int, ended: bool) -> tuple[object, int | None, str | None]:
    """The element at a place, where it ends (None: beyond the text), and what had to be repaired or is wrong."""
    ends = [match.end() for match in islice(_END.finditer(text, at, at + _LONGEST), _TRIES)]
    try:
        element, end = _whole(text, at, ends)
        return element, end if ended or end < len(text) else None, None
    except (ValueError, RecursionError) as error:
        if not ended and _is_incomplete(error):
            return None, None, None
    for end in ends[:_REPAIR_TRIES]:
        for repairs, repaired in _repaired(text[at:end], quotes=end == ends[0]):
            with suppress(ValueError, RecursionError):
                return _LENIENT.decode(repaired), end, repairs
    after = _NEXT.search(text, at)
    return None, after.end() if after else None, "not JSON"


def _whole(text: str, at: int, ends: list[int]) -> tuple[object, int]:
    """The element at a place, and where it ends, if it is JSON. Raises ValueError or RecursionError.

    It is looked for in pieces first, because an error of `json` counts the lines of all the text before it.
    """
    for end in ends if text.startswith("{", at) else ():
        try:
            element, length = _LENIENT.raw_decode(text[at:end])
            return element, at + length
        except json.JSONDecodeError as error:
            if not _is_incomplete(error):
                raise
    return _LENIENT.raw_decode(text, at)


def _is_incomplete(error: Exception) -> bool:
    """Whether what `json` missed may stand behind the text."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos > len(error.doc) - 10 or error.msg.startswith("Unterminated string")


def _repaired(text: str, *, quotes: bool) -> Iterator[tuple[str, str]]:
    """The text after one repair, two, and so on, and what was repaired.

    Quotes only in the shortest piece: in a longer one, a string could swallow the beginning of the next element.
    """
    done = []
    for what, repair in [*_REPAIRS.items()][: None if quotes else -1]:
        changed = repair(text)
        if changed != text:
            text = changed
            done.append(what)
            yield ", ".join(done), text


_WORD = re.compile(r"([:\[,]\s*)([+-]?(?:inf(?:inity)?|nan)|N/A)(?=\s*[,\]}])", re.IGNORECASE)
_KEY = re.compile(r"([{,]\s*)([A-Za-z_]\w*\"\s*:)")
_BACKSLASH = re.compile(r'\\(?:\\|(?!["/bfnrtu])|u(?![0-9a-fA-F]{4}))')
_ESCAPE = re.compile(r'\\(["\\]?)')
_COMMA = re.compile(r",(\s*[\]}])")
_QUOTE = re.compile(r'"')
#: What stands before a quote that opens a value, and before one that opens the name of an event.
_VALUE, _NAME = re.compile(r":\s*$"), re.compile(r'"name"\s*:\s*$')
#: What follows a quote that closes a key or an item of a list; a value; and the name of an event, where anything may
#: stand that looks like JSON.
_AFTER_ITEM = re.compile(r"\s*[:,\]]")
_AFTER_VALUE = re.compile(r'\s*(?:,\s*["{\[\-\d]|[}\]]\s*(?:[,}\]]|$))')
_AFTER_NAME = re.compile(r'\s*(?:,\s*"(?:ph|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:|\}\s*$)')


def _double_backslashes(text: str) -> str:
    """All but those before quotes: where one escapes nothing, the others stand in the same path of Windows."""
    if not any(match[0] != "\\\\" for match in _BACKSLASH.finditer(text)):
        return text
    return _ESCAPE.sub(lambda match: match[0] if match[1] else "\\\\", text)


def _escape_quotes(text: str) -> str:
    """Quotes within strings, escaped: those that are not followed by what follows the end of such a string."""
    pieces, last, closing = [], 0, None
    for match in _QUOTE.finditer(text):
        at = match.start()
        if closing is None:
            before = text[max(0, at - 80) : at]
            value = _AFTER_NAME if _NAME.search(before) else _AFTER_VALUE
            closing = value if _VALUE.search(before) else _AFTER_ITEM
        elif text[at - 1] != "\\":
            if closing.match(text, at + 1):
                closing = None
            else:
                pieces += [text[last:at], "\\"]
                last = at
    return "".join([*pieces, text[last:]])


_REPAIRS: dict[str, Callable[[str], str]] = {
    "a bare word for a number": lambda text: _WORD.sub(r"\1null", text),
    "a backslash that escapes nothing": _double_backslashes,
    "a comma too many": lambda text: _COMMA.sub(r"\1", text),
    "a key that lacks a quote": lambda text: _KEY.sub(r'\1"\2', text),
    "quotes that are not escaped": _escape_quotes,
}
