"""Strict YAML: plain data with the position of every value, without YAML's surprises.

Anchors, aliases, merge keys, tags, several documents, non-string and duplicate keys are refused. Plain scalars follow
JSON: `1e-3` is a number; `on`, `017`, `12:30` and `2026-01-01` are text. Depth is counted on the event stream, before
anything is built, because deep nesting would crash YAML's C loader.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import yaml
from msgspec import Struct, field

from perfgate.core import Location, Problem
from perfgate.core.resource_limits import DEFAULT, Limits

Path = tuple[str | int, ...]
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: The error of libyaml 0.2.6 about deep nesting. It looks ahead, so it raises this before our own check of the depth.
_NESTED_TOO_DEEP = "exceeded maximum nesting depth"
#: The part of a word that is underlined.
_WORD = re.compile(r"[^\s:,\]}]+")
_TAB_INDENT = re.compile(r" *\t")
#: The most characters of a line that are shown, and the most values of a file that are refused with a message.
_SHOWN, _MOST_REFUSED = 160, 200
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}
#: How YAML reads the first character of a sentence that is not in single quotes.
_MISREAD_STARTS = {
    "*": "an alias",
    "&": "an anchor",
    "!": "a tag",
    "[": "a list",
    "{": "a mapping",
    "%": "a directive",
    **dict.fromkeys("'\"", "a quoted string that ends before the sentence does"),
    **dict.fromkeys("@`", "a reserved character"),
    **dict.fromkeys("|>", "a block of text"),
}
#: Correct uses of these characters: a sentence in quotes, the header of a block, a list or mapping in brackets.
_WHOLE = re.compile(r"""(?:'(?:[^']|'')*'|"(?:[^"\\]|\\.)*"|[|>][-+0-9]*|\{.*\}|\[.*\])\s*(?:#.*)?""")
#: A field of the rule file: the text after its colon is not part of a sentence.
_FIELD = re.compile(
    r"(?:id|why|severity|when|better|warmup|confidence|power|min_\w+|on_\w+|budget|expect_fail|owner|quarantine|tags):"
)
#: The column of a field or of a list item, from 1, and the field's name; `-` for an item.
_Start: TypeAlias = tuple[int, str]
_ITEM = re.compile(r" *(-)(?: +|$)")
_FIELD_STARTS = re.compile(r""" *([^\s#'"{\[][^:#]*):(?:\s|$)""")


class YamlSpan(Struct, frozen=True):
    """The place of a value: line and column from 1, the text of its line, and its end."""

    line: int
    column: int
    text: str
    #: The line of the last character of a scalar, and its column.
    end: tuple[int, int]

    @property
    def rest(self) -> str:
        """The text of the line from the value on; if it was stored, the values of a long line would need gigabytes."""
        return self.text[self.column - 1 :]


class YamlDocument(Struct):
    """A YAML file as plain data, with the places of its values and keys by their paths."""

    name: str
    data: Any = None
    values: dict[Path, YamlSpan] = field(default_factory=dict)
    keys: dict[Path, YamlSpan] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def location(self, path: Path, *, key: bool = False) -> Location:
        """Return the place of a path; if it does not exist, that of its nearest parent."""
        places = self.keys if key else self.values
        while path and path not in places:
            path = path[:-1]
        place = places.get(path) or self.values.get(())
        return Location(self.name, place.line, place.column) if place else Location(self.name)

    def underlined(self, message: str, line: int, column: int, width: int | None = None) -> Problem:
        """Return a problem that shows its line with `width` characters underlined, or the word that begins there."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        word = _WORD.match(text, column - 1)
        width = width or (len(word[0]) if word else 1)
        start = max(0, column - _SHOWN // 2) if len(text) > _SHOWN else 0
        visible = text[start : start + _SHOWN].replace("\t", " ")
        marks = "^" * max(1, min(width, len(visible) - (column - start) + 2))  # at most one beyond the line
        excerpt = f"    {visible}\n    {' ' * (column - start - 1)}{marks}" if text else None
        return Problem("error", message, Location(self.name, line, column), excerpt=excerpt)

    def excerpt(self, path: Path) -> str:
        """Return the text of the line from the beginning of the value."""
        place = self.values.get(path)
        return place.rest if place else ""

    def value(self, path: Path) -> Any:
        """Return the value at a path that exists."""
        found = self.data
        for part in path:
            found = found[part]
        return found


class _BeyondLimit(Exception):
    """The file is beyond a limit: reading stops, and nothing is built from it."""


def load_document(name: str, data: bytes, limits: Limits = DEFAULT, *, loader: Any = _LOADER) -> YamlDocument:
    """Read one YAML file; everything wrong with it is in `problems`, with line and column."""
    document = YamlDocument(name)
    if len(data) > limits.rule_bytes:
        document.problems.append(_problem(name, limits.beyond("rule_bytes", "this rule file is larger")))
        return document
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        document.problems.append(_problem(name, "is not UTF-8 text: save it as UTF-8", line, 1))
        return document
    document.lines = lines = text.splitlines()
    try:
        document.data = _Builder(document, yaml.parse(text, Loader=loader), limits).build()
    except _BeyondLimit:
        pass  # the problem is in the document
    except RecursionError:  # only if a user raised the limit
        document.problems.append(_problem(document.name, "is nested too deep for this Python: lower rule_depth", 1, 1))
    except yaml.MarkedYAMLError as error:
        if error.problem == _NESTED_TOO_DEEP:
            return load_document(name, data, limits, loader=yaml.SafeLoader)  # so that `rule_depth` refuses it
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        cause, advice = str(error.problem or error.context), _indentation_advice(lines[:line])
        cause = f"{advice} ({cause})" if advice else cause + _hint(lines, line, column)
        document.problems.append(document.underlined(f"is not valid YAML: {cause}", line, column))
    except yaml.reader.ReaderError as error:
        code = error.character if isinstance(error.character, int) else ord(str(error.character)[:1] or "\0")
        before = text[: max(0, text.find(chr(code)))]  # PyYAML counts bytes or characters, depending on its build
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        message = f"has a character that YAML does not allow (U+{code:04X})"
        document.problems.append(document.underlined(message, line, column, 1))
    return document


def _problem(name: str, message: str, line: int | None = None, column: int | None = None) -> Problem:
    return Problem("error", message, Location(name, line, column))


def _hint(lines: list[str], line: int, column: int) -> str:
    """Return advice for a value at the error, or for a sentence that YAML misreads in its line or the one before."""
    before, at = (lines[line - 1][: column - 1], lines[line - 1][column - 1 :]) if 1 <= line <= len(lines) else ("", "")
    if at[:1] in ("@", "`") and re.search(r"(?<!assert):\s*$", before):
        return f"; YAML reserves a leading {at[0]}: put the text in quotes"
    if 1 <= line <= len(lines) and _TAB_INDENT.match(lines[line - 1]):
        return "; YAML does not allow tabs as indentation: use spaces"
    for text in (lines[number - 1] for number in (line, line - 1) if 1 <= number <= len(lines)):
        sentence = re.sub(r"^\s*(?:- +)?(?:assert:\s+)?", "", text)
        if _WHOLE.fullmatch(sentence) or _FIELD.match(sentence):
            continue
        if sentence[:1] in _MISREAD_STARTS:
            return "; " + misread_start(sentence)
        if text.lstrip().startswith(("- ", "assert:")) and ": " in sentence:
            return "; YAML reads `: ` inside a sentence as a mapping: wrap the whole sentence in single quotes"
    return ""


def _indentation_advice(lines: Sequence[str]) -> str:
    """Return advice if the last line begins a field or item in a column without others of its kind; or nothing."""
    *above, last = lines or [""]
    open_starts: list[_Start] = []
    before = ""
    for text in above:
        if text.strip() and not text.lstrip().startswith("#"):
            before = text
        if starts := list(_starts(text)):
            # a line ends the fields and items that begin at its column or later, but an item may be below its field
            at, first = starts[0]
            around = (one for one in open_starts if one[0] < at or (one[0] == at and first == "-" != one[1]))
            open_starts = [*around, *starts]
    column, name = next(_starts(last), (0, ""))
    columns = sorted({at for at, other in open_starts if (other == "-") == (name == "-")})
    item = _ITEM.match(before)
    sentence = before[item.end() :].strip() if item else ""  # the text of the item, if a field begins below it
    is_below_text = name not in ("", "-") and item is not None and column == item.end() + 1
    if is_below_text and sentence and not _FIELD_STARTS.match(sentence) and sentence[:1] not in "'\"[{|>&*":
        return f"`{name}` needs a field above it: write `- assert: {sentence}`"
    is_first_in_field = before.rstrip().endswith(":") and bool(open_starts) and column > open_starts[-1][0]
    if not column or not columns or column in columns or is_first_in_field:
        return ""
    others = f"the {'items' if name == '-' else 'fields'} above it in column {' or '.join(map(str, columns))}"
    return f"check the indentation: `{name}` begins in column {column}, {others}"


def _starts(text: str) -> Iterator[_Start]:
    """Yield the items and the field that begin in a line."""
    at = 0
    while found := _ITEM.match(text, at):
        yield found.start(1) + 1, "-"
        at = found.end()
    if found := _FIELD_STARTS.match(text, at):
        yield found.start(1) + 1, found[1]


def misread_start(text: str) -> str:
    """Return how YAML reads a sentence with this first character, and what to do about it."""
    what = _MISREAD_STARTS[text[0]]
    return f"YAML reads a leading {text[0]} as {what}: wrap the whole sentence in single quotes"


class _Builder(Struct):
    """Builds plain data from YAML's events; a refused value becomes a problem, and building goes on."""

    document: YamlDocument
    events: Iterator[Any]
    limits: Limits

    def build(self) -> Any:
        data: Any = None
        starts = (event for event in self.events if isinstance(event, yaml.DocumentStartEvent))
        for number, event in enumerate(starts):
            if number:
                self.refuse("a second YAML document begins here: one file is one document", event)
                break
            data = self.value(next(self.events), ())
        return data

    def value(self, event: Any, path: Path) -> Any:
        """Return the data of the value that begins with an event, and record its place."""
        if len(path) >= self.limits.rule_depth and isinstance(event, yaml.CollectionStartEvent):
            self.refuse(self.limits.beyond("rule_depth", "lists and mappings are nested deeper"), event)
            raise _BeyondLimit
        if len(self.document.values) >= self.limits.rule_values:
            self.refuse(self.limits.beyond("rule_values", "this rule file has more values"), event)
            raise _BeyondLimit
        is_alias = isinstance(event, yaml.AliasEvent)  # the same text must always mean the same
        anchor = "aliases (*name)" if is_alias else "anchors (&name)" if event.anchor is not None else ""
        if refused := anchor or ("tags (!name)" if event.tag is not None else ""):
            self.refuse(f"{refused} are not used in rule files" + self.advice(event), event)
        self.document.values[path] = self.span(event)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
                items.append(self.value(event, (*path, len(items))))
            return items
        if isinstance(event, yaml.MappingStartEvent):
            fields: dict[str, Any] = {}
            while not isinstance(event := next(self.events), yaml.MappingEndEvent):
                key = self.key(event, path)
                value = self.value(next(self.events), (*path, key))
                fields.setdefault(key, value)
            return fields
        return None if is_alias else self.scalar(event)

    def key(self, event: Any, path: Path) -> str:
        """Return a key of the mapping at `path`, and record its place. It is read as a value at the path ""."""
        name = self.value(event, (*path, "")) if not isinstance(event, yaml.AliasEvent) else None
        if not isinstance(name, str):
            self.refuse("a key must be text" + self.advice(event), event)
            name = str(name)
        if name == "<<":
            self.refuse("merge keys (<<) are not used in rule files: write the fields out", event)
        if first := self.document.keys.get((*path, name)):
            self.refuse(f"the key {name!r} occurs twice, first on line {first.line}", event)
        self.document.keys.setdefault((*path, name), self.span(event))
        return name

    def refuse(self, message: str, event: Any) -> None:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        self.document.problems.append(self.document.underlined(message, line, column))
        if len(self.document.problems) >= _MOST_REFUSED:
            raise _BeyondLimit

    def advice(self, event: Any) -> str:
        """Return what to do if the refused text is the beginning of a sentence."""
        rest = self.span(event).rest
        return "; " + misread_start(rest) if rest[:1] in _MISREAD_STARTS else ""

    def scalar(self, event: Any) -> Any:
        if event.style:  # quoted or a block: always text
            return event.value
        if event.value in _WORDS:
            return _WORDS[event.value]
        if not _JSON_NUMBER.fullmatch(event.value):
            return event.value
        number = float(event.value)  # beyond float64 it stays text, which the schema refuses as a number
        whole = re.fullmatch(r"-?[0-9]{1,18}", event.value)
        return event.value if math.isinf(number) else int(event.value) if whole else number

    def span(self, event: Any) -> YamlSpan:
        line, column = event.start_mark.line, event.start_mark.column
        text = self.document.lines[line] if line < len(self.document.lines) else ""
        return YamlSpan(line + 1, column + 1, text, (event.end_mark.line + 1, event.end_mark.column))
