"""What the upper levels of each JSON format look like: why a document of this shape is one, or None."""

from __future__ import annotations

from perfgate.readers.sniffing import Shape


def none(shape: Shape) -> None:
    """For formats that are no JSON."""


def results(shape: Shape) -> str | None:
    """`{"schema": "perfgate.results/1", ...}`; a later version, too, so that it can be refused by name."""
    schema = shape.text("schema")
    return f"a JSON document of schema {schema}" if schema and schema.startswith("perfgate.results/") else None


def timing(shape: Shape) -> str | None:
    """An object with `times`, or objects with `times` under names or in a list."""
    found = any(path[-1:] == ("times",) and len(path) <= 2 and token == "[" for path, token in shape.tokens.items())
    return "a JSON document with 'times'" if found else None
