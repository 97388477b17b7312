"""A rule file held against `rules.schema.json`; each violation is said in words, where it stands."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from perfgate.model import Location, Problem
from perfgate.rules.document import Document, Path
from perfgate.schemas import schema

#: A `jsonschema.exceptions.ValidationError`; its stubs make every attribute optional.
Violation = Any

_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}


def problem_at(document: Document, message: str, path: Path, start: int = 0, end: int | None = None) -> Problem:
    """A problem at a value, or at columns `start` to `end` of the text it holds, with the word underlined."""
    place = document.values.get(path)
    if place is None:
        return Problem("error", message, document.location(path))
    text = document.value(path)
    shift = 0
    if isinstance(text, str) and end is not None:
        if place.rest.startswith(text):
            shift = start
        elif place.rest[1:].startswith(text):  # in quotes, without escapes
            shift = start + 1
        else:
            end = None
    width = (end - start) if end is not None else len(str(text)) if isinstance(text, (str, int, float)) else 1
    return _underlined(document, message, place.line, place.column + shift, width)


def problem_at_key(document: Document, message: str, path: Path) -> Problem:
    """A problem at a key."""
    place = document.keys.get(path)
    if place is None:
        return Problem("error", message, document.location(path))
    return _underlined(document, message, place.line, place.column, len(str(path[-1])))


def _underlined(document: Document, message: str, line: int, column: int, width: int) -> Problem:
    text = document.lines[line - 1] if line <= len(document.lines) else ""
    visible = text.replace("\t", " ")
    marks = "^" * max(1, min(width, len(visible) - column + 2))
    excerpt = f"    {visible}\n    {' ' * (column - 1)}{marks}"
    return Problem("error", message, Location(document.name, line, column), excerpt=excerpt)


def schema_problems(document: Document) -> list[Problem]:
    """Every violation of the schema."""
    from jsonschema import Draft7Validator

    if document.data is None:
        return [Problem("error", "is empty: it needs `version: 1` and `rules`", Location(document.name, 1, 1))]
    errors = Draft7Validator(schema("rules")).iter_errors(document.data)
    return [_problem(document, specific) for error in errors for specific in _specific(error)]


def _specific(error: Violation) -> list[Violation]:
    """Of an `anyOf`, the errors of the branch that the author meant: the one whose type fits."""
    if error.validator != "anyOf" or not error.context:
        return [error]
    branches: dict[Any, list[Violation]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    fitting = [
        b
        for b in branches.values()
        if not any(e.validator in ("type", "const") and e.path == error.context[0].path for e in b)
    ]
    return [leaf for inner in fitting[0] for leaf in _specific(inner)] if len(fitting) == 1 else [error]


def _problem(document: Document, error: Violation) -> Problem:
    path: Path = tuple(error.absolute_path)
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = list(error.schema["properties"])
        unknown = next(key for key in error.instance if key not in known)
        near = get_close_matches(unknown, known, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
        return problem_at_key(document, f"unknown field {unknown!r}; {hint}", (*path, unknown))
    if error.validator == "required":
        missing = next(key for key in error.validator_value if key not in error.instance)
        return problem_at(document, f"the field {missing!r} is missing", path)
    return problem_at(document, _words(error, path), path)


def _words(error: Violation, path: Path) -> str:
    name = next((str(part) for part in reversed(path) if isinstance(part, str)), "the file")
    if path and path[-1] != name:
        name = f"an item of {name}"
    found = _shown(error.instance)
    if error.validator == "type":
        wanted: list[str] = (
            error.validator_value if isinstance(error.validator_value, list) else [error.validator_value]
        )
        return f"{name} is {' or '.join(_TYPES.get(kind, kind) for kind in wanted)}, not {found}"
    if error.validator == "enum":
        near = get_close_matches(str(error.instance), [str(v) for v in error.validator_value], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"{name} is one of {', '.join(map(str, error.validator_value))}, not {found}{hint}"
    if error.validator == "const":
        return f"{name} is {error.validator_value}, not {found}"
    if error.validator == "anyOf":
        examples = " or ".join(
            str(example) for example in error.schema.get("examples", ()) if not isinstance(example, dict)
        )
        return f"{name} is {found}; write for example {examples}" if examples else f"{name} does not fit: {found}"
    if error.validator == "pattern":
        example = error.schema.get("examples", [""])[0]
        return f"{name} is {found}, which has the wrong form" + (f"; write for example {example}" if example else "")
    return f"{name}: {error.message}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else repr(value) if isinstance(value, str) else str(value)
