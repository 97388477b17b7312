"""Data of the wrong form, in the words of whoever wrote the data: what `msgspec.ValidationError` says, said again.

The texts are those of msgspec, such as "Expected `float`, got `str` - at `$.series[0].values[3]`"; one that is not
known here is passed on as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

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


@dataclass(frozen=True, slots=True)
class Violation:
    """What is wrong with a document, and the path of the value; of a field that is unknown, the path of that field."""

    message: str
    path: Path


def violation(error: Exception, known: Sequence[str] = ()) -> Violation:
    """A `msgspec.ValidationError` in words; `known` are the fields that a misspelt one may have meant."""
    text = str(error)
    at = _AT.search(text)
    text = text[: at.start()] if at else text
    path, name = _place(at["path"], is_key=at["key"] is not None) if at else ((), "the document")
    field = _FIELD.fullmatch(text)
    if field and field["what"] == "contains unknown":
        near = get_close_matches(field["name"], known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return Violation(f"unknown field {field['name']!r}{hint}", (*path, field["name"]))
    if field:
        return Violation(f"the field {field['name']!r} is missing", path)
    return Violation(_of_value(text, name), path)


def _place(text: str, *, is_key: bool) -> tuple[Path, str]:
    """A path as far as it is told, and what to call the value there."""
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
    """What is wrong with one value: its type, its choice, or its size."""
    if found := _TYPE.fullmatch(text):
        wanted = [_WORDS.get(kind, kind) for kind in found["wanted"].split(" | ")]
        return f"{name} is {_WORDS.get(found['found'], found['found'])}, not {' or '.join(wanted)}"
    if found := _VALUE.fullmatch(text):
        return f"{name} is {found['value']}, which is not known here"
    if found := _BOUND.fullmatch(text):
        if found["length"] and found["number"] == "1":
            return f"{name} is empty"
        bound = "at least" if found["sign"] == ">=" else "at most"
        return f"{name} must be {bound} {found['number']}"
    return text.replace("`", "'")
