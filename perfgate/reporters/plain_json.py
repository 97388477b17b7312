"""Values of `perfgate.core` as JSON text that is safe on screens and in logs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec
from msgspec import Struct

from perfgate.core import Problem

#: A list of numbers over several lines. It is never inside a string, because JSON strings have no line breaks.
_NUMBERS = re.compile(r"\[\n([-+.,\deE\s]*)\]")


def encode(document: Mapping[str, Any]) -> str:
    """Return indented JSON with a final newline. Fields keep their order, and structs become objects.

    A list of numbers is on one line, which halves the text. Numbers are rounded by `stable`.
    """
    text = msgspec.json.format(msgspec.json.encode(_plain(document)), indent=2).decode()
    text = _NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)
    # Unprintable characters, and `##[`, which starts a command on GitHub, occur only in strings, where an escape has
    # the same meaning.
    if not text.isascii() or "\x7f" in text:
        text = re.sub(
            r"[^\x00-\x7e]", lambda found: found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1], text
        )
    return text.replace("##[", "#\\u0023[") + "\n"


def stable(value: float) -> float:
    """Return a number with 12 significant digits, or as a whole number from 1e12 on (bytes).

    Later digits differ between versions of numpy, which add numbers in different orders.
    """
    if not isfinite(value):
        return value
    return float(f"{value:.12g}") if abs(value) < 1e12 else float(round(value))


def problem(found: Problem) -> dict[str, Any]:
    """Return a problem as an object; all JSON documents use this form."""
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
    """Return a mapping sorted by its names as JSON writes them, so that the order survives reading and writing."""
    return dict(sorted(mapping.items(), key=lambda item: item[0].encode("utf-8", "backslashreplace")))


def members_of(value: Struct, *last: str) -> dict[str, Any]:
    """Return the fields of a struct by name, with the fields `last` at the end."""
    first = [name for name in value.__struct_fields__ if name not in last]
    return {name: getattr(value, name) for name in (*first, *last)}


def _plain(value: Any) -> Any:
    """The value as dicts, lists and scalars. Lone surrogates become visible escapes, because UTF-8 has none."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float):
        return stable(value)
    if isinstance(value, Mapping):
        return {_plain(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):  # nearly all items are samples or their steps
        return [stable(item) if type(item) is float else item if type(item) is int else _plain(item) for item in value]
    if isinstance(value, Struct):
        members = {name: in_order(m) if isinstance(m, Mapping) else m for name, m in members_of(value).items()}
        return {name: _plain(member) for name, member in members.items()}
    return value
