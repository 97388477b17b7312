"""Strict YAML: plain data with the position of every value, without YAML's surprises.

Anchors, aliases, merge keys, tags, several documents, non-string and duplicate keys are refused. Plain scalars follow
JSON: `1e-3` is a number; `on`, `017`, `12:30` and `2026-01-01` are text. As in YAML, `~` and an empty value are null.
Depth is counted on the event stream, before anything is built, because deep nesting would crash YAML's C loader.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml
from msgspec import Struct, field

from perfgate.core import Location, Problem
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.documents.yaml_advice import misread_start, with_advice

Path = tuple[str | int, ...]
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: The error of libyaml 0.2.6 about deep nesting. It looks ahead, so it raises this before our own check of the depth.
_NESTED_TOO_DEEP = "exceeded maximum nesting depth"
#: The part of a word that is underlined.
_WORD = re.compile(r"[^\s:,\]}]+")
#: The most characters of a line that are shown, and the most values of a file that are refused with a message.
_SHOWN, _MOST_REFUSED = 160, 200
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}


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
        message = limits.beyond("rule_bytes", "this rule file is larger")
        document.problems.append(Problem("error", message, Location(name)))
        return document
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        document.problems.append(Problem("error", "is not UTF-8 text: save it as UTF-8", Location(name, line, 1)))
        return document
    document.lines = text.splitlines()
    try:
        document.data = _Builder(document, yaml.parse(text, Loader=loader), limits).build()
    except _BeyondLimit:
        pass  # the problem is in the document
    except RecursionError:  # only if a user raised the limit
        message = "is nested too deep for this Python: lower rule_depth"
        document.problems.append(Problem("error", message, Location(name, 1, 1)))
    except yaml.MarkedYAMLError as error:
        if error.problem == _NESTED_TOO_DEEP:
            return load_document(name, data, limits, loader=yaml.SafeLoader)  # so that `rule_depth` refuses it
        document.problems.append(_syntax_problem(document, error))
    except yaml.reader.ReaderError as error:
        document.problems.append(_character_problem(document, text, error.character))
    return document


def _syntax_problem(document: YamlDocument, error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    cause = with_advice(str(error.problem or error.context), document.lines, line, column)
    return document.underlined(f"is not valid YAML: {cause}", line, column)


def _character_problem(document: YamlDocument, text: str, character: int | str) -> Problem:
    code = character if isinstance(character, int) else ord(str(character)[:1] or "\0")
    before = text[: max(0, text.find(chr(code)))]  # PyYAML counts bytes or characters, depending on its build
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return document.underlined(f"has a character that YAML does not allow (U+{code:04X})", line, column, 1)


class _Builder(Struct):
    """Builds plain data from YAML's events; a refused value becomes a problem, and building goes on."""

    document: YamlDocument
    events: Iterator[Any]
    limits: Limits

    def build(self) -> Any:
        data: Any = None
        # `value` takes the events of a document from the same iterator, so this loop sees only the events between them.
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
        is_alias = isinstance(event, yaml.AliasEvent)  # an alias repeats a text from another place
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
        return misread_start(self.span(event).rest)

    def scalar(self, event: Any) -> Any:
        if event.style:  # quoted or a block: always text
            return event.value
        if event.value in _WORDS:
            return _WORDS[event.value]
        # A number beyond float64 stays text, which the schema refuses as a number.
        if not _JSON_NUMBER.fullmatch(event.value) or math.isinf(float(event.value)):
            return event.value
        return int(event.value) if re.fullmatch(r"-?[0-9]{1,18}", event.value) else float(event.value)

    def span(self, event: Any) -> YamlSpan:
        line, column = event.start_mark.line, event.start_mark.column
        text = self.document.lines[line] if line < len(self.document.lines) else ""
        return YamlSpan(line + 1, column + 1, text, (event.end_mark.line + 1, event.end_mark.column))
