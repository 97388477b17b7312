"""JSON documents of a fixed form: their errors in plain words, and files that contain their own hash.

msgspec's messages look like "Expected `float`, got `str` - at `$.series[0].values[3]`". A message of another form stays
as it is.

The bytes of a signed file are deterministic: fields in a fixed order, the shortest text of every number.
`content_sha256` is the SHA-256 of the file's own JSON in which that field is empty.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct

from perfgate.core import Location, Problem
from perfgate.documents.json import Path, load_json

_AT = re.compile(r" - at (?P<key>`key` in )?`\$(?P<path>.*)`$", re.DOTALL)
#: `[...]` is any value of an object: msgspec does not say its key.
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
    """Return the message about one value in plain words: its type, its choice, or its size is wrong."""
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


Content = TypeVar("Content", bound=msgspec.Struct)
Outline = TypeVar("Outline", bound=msgspec.Struct)
#: The end of a file with its hash: that of all other bytes, if nobody changed the layout of the file.
_LAST_FIELD = re.compile(rb'"content_sha256": "([0-9a-f]{64})"\n}\n\Z')
#: `_LAST_FIELD` is in this many last bytes.
_LONGEST_END = 128
#: The last bytes of a file that `encode` wrote: its hash (64), and the end of the JSON (4).
END_BYTES = 68


class SignedFile(Struct, Generic[Content], frozen=True):
    """A kind of file that contains its own hash."""

    schema: str
    form: type[Content]
    #: Returns the mistake in the content of a file that was not altered, or None.
    fault: Callable[[Content], str | None]
    #: The advice about a damaged file.
    remedy: str
    #: The last fields before the hash: lists whose items are written on one line each, so that a diff is short.
    rows: tuple[str, ...] = ()

    def encode(self, content: Content) -> bytes:
        """Return the bytes of the file, with its hash."""
        return self._json(content, self._digest(content))

    def decode(self, name: str, data: bytes) -> tuple[Content | None, list[Problem]]:
        """Read a file; returns None and a problem that names it if it is damaged, altered, or of a newer version."""
        content = self.outline(data, self.form)
        content, why = self._decode_carefully(name, data) if content is None else (content, self.fault(content))
        if why is None:
            return content, []
        return None, [Problem("error", f"{why}; restore it from git, or {self.remedy}", Location(name))]

    def outline(self, data: bytes, form: type[Outline]) -> Outline | None:
        """Read the fields of `form` in a file whose hash is right; None for any other file, which `decode` explains."""
        if not self.is_whole(data):
            return None
        try:
            outline = msgspec.json.decode(data, type=form)
        except msgspec.MsgspecError:
            return None
        return outline if getattr(outline, "schema", None) == self.schema else None

    def is_whole(self, data: bytes) -> bool:
        """Return True if the hash at the end is that of all other bytes, as `encode` wrote it.

        False can also mean another layout, such as other line breaks: `decode` compares the content itself.
        """
        found = _LAST_FIELD.search(data, max(len(data) - _LONGEST_END, 0))
        if found is None:
            return False
        digest = hashlib.sha256(memoryview(data)[: found.start(1)])
        digest.update(data[found.end(1) :])
        return digest.hexdigest().encode() == found[1]

    def _decode_carefully(self, name: str, data: bytes) -> tuple[Content | None, str | None]:
        """Return the content of a file in any layout, or None; and the reason why it cannot be used, or None."""
        try:
            document = load_json(data.decode("utf-8"), name)
        except UnicodeDecodeError:
            return None, "is not UTF-8 text"
        if document.problems:
            return None, f"is damaged: {document.problems[0].message}"
        schema = document.data.get("schema") if isinstance(document.data, dict) else None
        if schema != self.schema:
            return None, f"has the schema {schema!r}; this perfgate reads {self.schema}: use the version that wrote it"
        try:
            content = msgspec.convert(document.data, self.form)
        except msgspec.ValidationError as error:
            return None, f"does not have the form of {self.schema}: {violation(error).message}"
        if document.data.get("content_sha256") != self._digest(content):
            return None, "was altered after it was written: its content does not have the hash that it states"
        return content, self.fault(content)

    def _digest(self, content: Content) -> str:
        return hashlib.sha256(self._json(content, "")).hexdigest()

    def _json(self, content: Content, digest: str) -> bytes:
        """Return the bytes of the file with this hash; each item of `rows` is on one line."""
        fields = {**msgspec.to_builtins(content), "content_sha256": digest}
        if not self.rows:
            return msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"
        lists = {name: fields.pop(name) for name in self.rows if name in fields}
        tail = msgspec.json.encode(fields.pop("content_sha256"))
        text = msgspec.json.format(msgspec.json.encode(fields), indent=2)[:-2]  # without its end, a line with `}`
        for name, items in lists.items():
            lines = b",\n    ".join(map(msgspec.json.encode, items))
            text += b",\n  %b: [\n    %b\n  ]" % (msgspec.json.encode(name), lines)
        return b'%b,\n  "content_sha256": %b\n}\n' % (text, tail)
