"""The slow path through a list of events: decode each element with `json`, and repair the broken JSON of real traces.

Kineto and torch have written control characters in names, Windows backslashes, unescaped quotes (torch 146900), bare
`inf`, `nan` and `N/A`, keys without their opening quote (torch 33961), trailing commas and invalid UTF-8. Every repair
and every element that cannot be repaired is reported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct, field

from perfgate.core import Severity
from perfgate.readers.torch_trace.event_fields import Args, Event

#: The severity, message, line and detail of a problem.
Fault = tuple[Severity, str, int, str]

_LENIENT = json.JSONDecoder(
    strict=False,
    parse_float=Decimal,
    parse_int=lambda text: int(text) if len(text) < 300 else Decimal(text),  # int() refuses thousands of digits
)
#: The field of `Args` for each argument in the file.
_ARGS = {field.encode_name: field.name for field in msgspec.structs.fields(Args)}
_BETWEEN = re.compile(r"[\s,]*")
#: Where an element may end: before the next one, or at the end of the list.
_END = re.compile(r"\}(?=\s*(?:,\s*[\]{]|\]))")
_NEXT = re.compile(r"\}\s*,\s*(?=\{)")
#: The number of such places to try for an element and for a broken element, and the greatest length of an element.
_TRIES, _REPAIR_TRIES, _LONGEST = 8, 2, 1 << 20
#: With more unreadable events the text is not a trace; with more repairs reading takes too long.
MOST_UNREADABLE, MOST_REPAIRED = 1000, 50_000


class Found(Struct):
    """The events of a text, the line of each, and the number of bytes that are done."""

    events: list[Event] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    consumed: int = 0
    #: True if the list ended in this text.
    closed: bool = False
    #: The numbers of elements that could not be read and that were repaired.
    unreadable: int = 0
    repaired: int = 0

    def keep(self, element: object, line: int, repairs: str | None) -> None:
        """Add an element as an event, without fields of an unknown type, or report it; `repairs` is the detail."""
        if not isinstance(element, dict):
            self.unreadable += 1
            self.faults.append(("error", "unreadable event, left out", line, f": {repairs}" if repairs else ""))
            return
        if repairs:
            self.repaired += 1
            self.faults.append(("warning", "repaired JSON", line, f": {repairs}"))
        args = element.get("args")
        args = args if isinstance(args, dict) else {}
        known = {_ARGS[name]: _loose(args[name]) for name in args if name in _ARGS}
        if isinstance(grid := args.get("grid"), list):
            known["grid"] = tuple(number if type(number) is int else None for number in grid)
        for name in ("Input Dims", "Concrete Inputs"):  # `flops` checks their items
            known[_ARGS[name]] = args.get(name) if isinstance(args.get(name), list) else None
        fields: dict[str, Any] = {name: _loose(element.get(name)) for name in ("ph", "cat", "name", "tid", "ts", "dur")}
        self.events.append(Event(**fields, args=Args(**known)))
        self.lines.append(line)


def read(data: bytes, line: int, *, ended: bool) -> Found:
    """Read the elements of a list from `data`, which begins on `line` inside the list.

    Unless the document has `ended`, an element that may continue after the text is left for the next call.
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
        found.keep(element, line, repairs)
        if found.unreadable > MOST_UNREADABLE or found.repaired > MOST_REPAIRED:
            break
    found.consumed = len(text[:position].encode("utf-8", "surrogateescape"))
    return found


def _loose(value: object) -> Any:
    """Return a number or a text, and None for any other value."""
    return value if isinstance(value, int | float | str | Decimal) and not isinstance(value, bool) else None


def _element(text: str, at: int, ended: bool) -> tuple[object, int | None, str | None]:
    """Return the element at a place, its end (None: maybe after the text), and what was repaired or is wrong."""
    ends = [match.end() for match in islice(_END.finditer(text, at, at + _LONGEST), _TRIES)]
    try:
        element, end = _whole(text, at, ends)
        is_complete = ended or end < len(text)
        return element, end if is_complete else None, None
    except (ValueError, RecursionError) as error:
        if not ended and _is_incomplete(error):
            return None, None, None
    for end in ends[:_REPAIR_TRIES]:
        for repairs, repaired in _repaired(text[at:end], quotes=end == ends[0]):
            with suppress(ValueError, RecursionError):
                return _LENIENT.decode(repaired), end, repairs
    after = _NEXT.search(text, at)  # leave the element out: go on with the next one
    return None, after.end() if after else None, "not JSON"


def _whole(text: str, at: int, ends: list[int]) -> tuple[object, int]:
    """Return the element at a place and its end. Raises ValueError or RecursionError if it is not JSON.

    Short pieces are tried first, because a `json` error counts the lines of all the text before it.
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
    """Return whether the text that `json` misses may follow after the end."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    # a word or an escape that is cut off (`-Infinit`, `\u00e`) is reported at its first character
    return error.pos > len(error.doc) - 10 or error.msg.startswith("Unterminated string")


def _repaired(text: str, *, quotes: bool) -> Iterator[tuple[str, str]]:
    """Yield (the repairs, the text after them) with one repair, with two, and so on.

    Repair `quotes` only in the shortest piece: in a longer one, a string could swallow the start of the next element.
    """
    done = []
    for what, repair in [*_REPAIRS.items()][: None if quotes else -1]:  # the last repair is that of quotes
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
#: The text before a quote that opens a value, and before one that opens the name of an event.
_VALUE, _NAME = re.compile(r":\s*$"), re.compile(r'"name"\s*:\s*$')
#: The text after a quote that closes a key or a list item, a value, and the name of an event. A name may itself contain
#: text that looks like JSON.
_AFTER_ITEM = re.compile(r"\s*[:,\]]")
_AFTER_VALUE = re.compile(r'\s*(?:,\s*["{\[\-\d]|[}\]]\s*(?:[,}\]]|$))')
_AFTER_NAME = re.compile(r'\s*(?:,\s*"(?:ph|cat|pid|tid|ts|dur|args|id|bp|s)"\s*:|\}\s*$)')


def _double_backslashes(text: str) -> str:
    """Double all backslashes that are not double or before a quote, if one escapes nothing, as in a Windows path."""
    if not any(match[0] != "\\\\" for match in _BACKSLASH.finditer(text)):
        return text
    return _ESCAPE.sub(lambda match: match[0] if match[1] else "\\\\", text)


def _escape_quotes(text: str) -> str:
    """Escape the quotes inside strings: those that no text follows as after the end of a key, a value or a name."""
    pieces, last = [], 0
    closing = None  # inside a string: the pattern of the text after its end
    for match in _QUOTE.finditer(text):
        at = match.start()
        if closing is None:
            before = text[max(0, at - 80) : at]  # enough for `"name" : `
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
    "an extra comma": lambda text: _COMMA.sub(r"\1", text),
    "a key without its opening quote": lambda text: _KEY.sub(r'\1"\2', text),
    "unescaped quotes": _escape_quotes,
}
