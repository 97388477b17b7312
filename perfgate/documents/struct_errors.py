"""Data of the wrong form, in words for the author of the data instead of those of `msgspec.ValidationError`.

msgspec's messages look like "Expected `float`, got `str` - at `$.series[0].values[3]`". An unknown one is not changed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from msgspec import Struct

from perfgate.documents.json import Path

_AT = re.compile(r" - at (?P<key>`key` in )?`\$(?P<path>.*)`$", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\[(?P<index>\d+)\]|(?P<any>\[\.\.\.\])")
_FIELD = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<name>.*)`", re.DOTALL)
_VALUE = re.compile(r"Invalid enum value (?P<value>.*)", re.DOTALL)
_TYPE = re.compile(r"Expected `(?P<wanted>[^`]+)`, got `(?P<found>[^`]+)`")
_BOUND = re.compile(r"Expected `\w+` (?P<length>of length )?(?P<sign>>=|<=) (?P<number>\S+)")

_WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}


class Violation(Struct, frozen=True):
    """A fault of a document, with the path of the value or of the unknown field."""

    message: str
    path: Path


def violation(error: Exception, known: Sequence[str] = ()) -> Violation:
    """Return a `msgspec.ValidationError` in plain words; `known` fields are suggested for a misspelt one."""
    text = str(error)
    at = _AT.search(text)
    text = text[: at.start()] if at else text
    path, name = _path_and_name(at["path"], is_key=at["key"] is not None) if at else ((), "the document")
    field = _FIELD.fullmatch(text)
    if field and field["what"] == "contains unknown":
        near = get_close_matches(field["name"], known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return Violation(f"unknown field {field['name']!r}{hint}", (*path, field["name"]))
    if field:
        return Violation(f"the field {field['name']!r} is missing", path)
    return Violation(_of_value(text, name), path)


def _path_and_name(text: str, *, is_key: bool) -> tuple[Path, str]:
    """Return a path, as far as the message contains it, and a name for the value there."""
    path: list[str | int] = []
    prefix = "a name in " if is_key else ""
    for step in _STEP.finditer(text):
        if step["any"]:
            prefix = "a value of "
            break
        path.append(step["name"] if step["name"] is not None else int(step["index"]))
    names = [part for part in path if isinstance(part, str)]
    if path and isinstance(path[-1], int):
        prefix = "an item of "
    return tuple(path), prefix + (repr(names[-1]) if names else "the document")


def _of_value(text: str, name: str) -> str:
    """Return what is wrong with one value: its type, its choice, or its size."""
    if found := _TYPE.fullmatch(text):
        wanted = [_WORDS.get(kind, kind) for kind in found["wanted"].split(" | ")]
        return f"{name} is {_WORDS.get(found['found'], found['found'])}, not {' or '.join(wanted)}"
    if found := _VALUE.fullmatch(text):
        return f"{name} is {found['value']}, which is not one of the known values"
    if found := _BOUND.fullmatch(text):
        if found["length"] and found["number"] == "1":
            return f"{name} is empty"
        bound = "at least" if found["sign"] == ">=" else "at most"
        return f"{name} must be {bound} {found['number']}"
    return text.replace("`", "'")
