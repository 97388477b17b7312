"""Paths to values in JSON: `results[*].times`, `$.device`, `ops.{op}.ms`.

    name            a key; the first one needs no dot: results.times
    "tok/s p99.9"   a key with dots, brackets, braces or quotes: stats."p99.9"
    [2]             an item of a list, from 0
    [*]  .*         every item of a list, every member of an object
    .{op}           every member, whose key is kept under the name `op`
    $               the whole document; other paths begin at the record

A path has neither filters nor a search in all depths, so it visits each value once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from perfgate.core.file_mappings import EachMember, FieldPath, FieldText, FileMapping, PathStep
from perfgate.documents.json import Path
from perfgate.rules.syntax.cursor import SentenceError

#: The longest path, in steps.
_MOST_STEPS = 20
_NAME = r"[^.\[\]{}\"'*$][^.\[\]{}\"']*"
_STEP = re.compile(
    rf"""(?P<dot>\.)?(?:
        \[(?:(?P<index>\d{{1,9}})|(?P<items>\*))\]
      | (?P<any>\*)
      | \{{(?P<kept>[A-Za-z_][\w-]{{0,49}})\}}
      | "(?P<double>[^"]+)" | '(?P<single>[^']+)'
      | (?P<name>{_NAME})
    )""",
    re.VERBOSE,
)
#: A field in braces, in a text or a pattern of lines.
BRACES = re.compile(r"\{([^{}]*)\}")


class PathError(SentenceError):
    """A path that cannot be read: why, and where in its text."""


class FoundValue(Struct, frozen=True):
    """A value that a path leads to, or the place where the path ends too early."""

    path: Path
    value: Any
    #: The keys that the path keeps, by name.
    kept: Mapping[str, str]
    #: The step that is missing here, in words.
    missing: str | None = None


def parse_path(text: str) -> FieldPath:
    """Return a path. Raises PathError."""
    at = start = len(text) - len(text.lstrip())
    end = len(text.rstrip())
    is_from_top = text.startswith("$", at)
    at += is_from_top
    steps: list[PathStep] = []
    while at < end:
        found = _STEP.match(text, at, end)
        is_first = not steps and not is_from_top  # it has no dot; every other step has one, or is in brackets
        if found is None or not (found["dot"] is None if is_first else found["dot"] or found[0][0] == "["):
            raise PathError(_fault(text, at, is_first=is_first), at, end)
        if found["items"] or found["any"] or found["kept"]:
            steps.append(EachMember(found["kept"]))
        elif found["index"] is not None:
            steps.append(int(found["index"]))
        else:
            steps.append(str(found["double"] or found["single"] or found["name"].rstrip()))
        at = found.end()
    if at == start or len(steps) > _MOST_STEPS:
        raise PathError("a path is empty" if at == start else f"a path has more than {_MOST_STEPS} steps", start, end)
    return FieldPath(text.strip(), tuple(steps), is_from_top)


def _fault(text: str, at: int, *, is_first: bool) -> str:
    if text.startswith("..", at):
        return "`..` is not a step: write each key on the way"
    if text.startswith("[?", at) or text.startswith("[(", at):
        return "filters are not steps: choose records with `where`"
    if is_first and text[at] == ".":
        return "a path begins with a key, or with `$` for the whole document"
    return 'this is not a step: write a key, [0], [*], .* or .{name}; a key with dots or brackets needs quotes: "p99.9"'


def parse_text(text: str, *, is_flat: bool) -> FieldText:
    """Return a text with fields in braces. Raises PathError.

    `is_flat`: fields are columns or groups, whose names are taken as they are.
    """
    parts: list[str | FieldPath] = []
    at = 0
    for found in BRACES.finditer(text):
        parts += [text[at : found.start()]] if found.start() > at else []
        try:
            parts.append(column(found[1]) if is_flat else parse_path(found[1]))
        except PathError as error:
            raise PathError(error.message, found.start(1) + error.start, found.start(1) + error.end) from None
        at = found.end()
    rest = text[at:]
    if brace := re.search(r"[{}]", rest):
        raise PathError("this brace has no partner", at + brace.start(), at + brace.end())
    fields = tuple(part for part in parts if isinstance(part, FieldPath))
    return FieldText(text, (*parts, rest) if rest else tuple(parts), fields)


def column(name: str) -> FieldPath:
    """Return the path to a column or a group of this name. Raises PathError."""
    if not name.strip():
        raise PathError("a name is empty", 0, len(name))
    return FieldPath(name.strip(), (name.strip(),))


def find(
    data: Any, steps: tuple[PathStep, ...], path: Path = (), kept: Mapping[str, str] = MappingProxyType({})
) -> Iterator[FoundValue]:
    """Yield each value that steps lead to, in order, and each place where a step is missing.

    `path`, `kept`: the way to `data`, and the keys that it keeps.
    """
    for number, step in enumerate(steps, 1):
        if isinstance(step, EachMember):
            yield from _find_in_members(data, step.name, steps[number:], path, kept)
            return
        if not _has(data, step):
            yield FoundValue(path, None, kept, f"item {step}" if isinstance(step, int) else repr(step))
            return
        data, path = data[step], (*path, step)
    yield FoundValue(path, data, kept)


def _find_in_members(
    data: Any, name: str | None, steps: tuple[PathStep, ...], path: Path, kept: Mapping[str, str]
) -> Iterator[FoundValue]:
    """Yield what `find` does for the steps below each member; its key is kept under `name` if there is one."""
    if isinstance(data, dict):
        members: Iterable[tuple[Any, Any]] = data.items()
    elif isinstance(data, list):
        members = enumerate(data)
    else:
        yield FoundValue(path, None, kept, "a list or an object")
        return
    for key, member in members:
        yield from find(member, steps, (*path, key), {**kept, name: str(key)} if name else kept)


def _has(data: Any, step: str | int) -> bool:
    if isinstance(data, list):
        return isinstance(step, int) and step < len(data)
    return isinstance(data, dict) and step in data


def used_paths(mapping: FileMapping, *, with_optional: bool = True) -> Iterator[FieldPath]:
    """Yield each path of a mapping to a field of its records; the values of optional metrics only if asked for."""
    for metric in mapping.metrics:
        yield from (*metric.name.fields, *metric.unit.fields)
        if metric.value and (with_optional or not metric.is_optional):
            yield metric.value
    yield from (path for path in (mapping.step, mapping.commit) if path)
    yield from (path for _, path in (*mapping.labels, *mapping.facts))
    yield from (path for path, _ in mapping.where)


def keys_of(path: FieldPath) -> Path:
    """Return the keys and indices of a path, without the steps to every member."""
    return tuple(step for step in path.steps if not isinstance(step, EachMember))
