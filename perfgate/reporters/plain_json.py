"""Domain values as JSON text that is safe wherever it is shown; shared by the report and by `inspect`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec

from perfgate.core import Problem

#: A list of numbers over several lines; no string holds a line break.
_NUMBERS = re.compile(r"\[\n([-+.,\deE\s]*)\]")


def encode(document: Mapping[str, Any]) -> str:
    """Indented JSON with a final newline, fields in the order given; dataclasses become objects.

    A list of numbers stands on one line: the text is shorter by half, and still readable.
    """
    text = msgspec.json.format(msgspec.json.encode(_plain(document)), indent=2).decode()
    return _harmless(_NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)) + "\n"


def problem(found: Problem) -> dict[str, Any]:
    """A problem as every JSON document shows it."""
    return {
        "severity": found.severity,
        "message": found.message,
        "file": found.at.file,
        "line": found.at.line,
        "column": found.at.column,
        "metric": found.key.metric if found.key else None,
        "labels": in_order(dict(found.key.labels)) if found.key else {},
    }


def in_order(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping by its names as they are written, so that it has the same order when it is read and written again."""
    return dict(sorted(mapping.items(), key=lambda item: item[0].encode("utf-8", "backslashreplace")))


def _plain(value: Any) -> Any:
    """The value in terms of JSON; lone surrogates, which UTF-8 cannot hold, become visible escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {_plain(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        members = {field.name: getattr(value, field.name) for field in fields(value)}
        return {
            name: _plain(in_order(member) if isinstance(member, Mapping) else member)
            for name, member in members.items()
        }
    return value


def _harmless(json_text: str) -> str:
    """The same JSON for screens and logs: what is not printable is escaped, and so is `##[`, a command of GitHub's.

    Both occur only within strings, where an escape means the same.
    """
    escaped = re.sub(r"[^\x00-\x7e]", _escape_unprintable, json_text)
    return escaped.replace("##[", "#\\u0023[")


def _escape_unprintable(match: re.Match[str]) -> str:
    char = match[0]
    return char if char.isprintable() else json.dumps(char)[1:-1]
