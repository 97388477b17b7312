"""Put each violation of `rules.schema.json` by a rule file into words, as a problem at its place.

`fits` recognises most valid files by itself, because the import of jsonschema is slow. For all others, jsonschema
decides and finds the violations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypeAlias

from perfgate.core import Problem
from perfgate.documents.yaml import Path, YamlDocument, YamlSpan, misread_start

#: How many violations of one file are reported.
_MOST_VIOLATIONS = 200
Schema: TypeAlias = Mapping[str, Any]
#: The check of a keyword: value, operand of the keyword, the schema with the keyword, the whole schema -> is it valid?
_Check: TypeAlias = Callable[[Any, Any, Schema, Schema], bool]
_TYPES_OF_PYTHON: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
#: Keywords that only describe.
_NOTES = {
    *("$id", "$schema", "title", "description", "default", "examples", "definitions"),
    *("errorMessage", "patternErrorMessage"),
}
#: The checks by keyword. A schema with another keyword is left to jsonschema.
_CHECKS: dict[str, _Check] = {
    "$ref": lambda value, name, _, root: fits(value, root["definitions"][name.removeprefix("#/definitions/")], root),
    "anyOf": lambda value, branches, _, root: any(fits(value, branch, root) for branch in branches),
    "type": lambda value, names, *_: any(
        type(value) in _TYPES_OF_PYTHON.get(name, ()) for name in ([names] if isinstance(names, str) else names)
    ),
    "const": lambda value, wanted, *_: type(value) is type(wanted) and value == wanted,
    "enum": lambda value, words, *_: isinstance(value, str) and value in words,
    "required": lambda value, names, *_: all(name in value for name in names),
    "properties": lambda value, known, _, root: all(
        fits(item, known[name], root) for name, item in value.items() if name in known
    ),
    "additionalProperties": lambda value, others, schema, root: all(
        others is not False and fits(item, others, root)
        for name, item in value.items()
        if name not in schema.get("properties", ())
    ),
    "propertyNames": lambda value, names, _, root: all(fits(name, names, root) for name in value),
    "items": lambda value, each, _, root: all(fits(item, each, root) for item in value),
    "uniqueItems": lambda value, *_: all(isinstance(item, str) for item in value) and len(set(value)) == len(value),
    "pattern": lambda value, pattern, *_: isinstance(value, str) and re.search(pattern, value) is not None,
    "minimum": lambda value, least, *_: value >= least,
    "maximum": lambda value, most, *_: value <= most,
    "exclusiveMinimum": lambda value, least, *_: value > least,
    "exclusiveMaximum": lambda value, most, *_: value < most,
    **dict.fromkeys(("minItems", "minLength", "minProperties"), lambda value, least, *_: len(value) >= least),
    **dict.fromkeys(("maxItems", "maxLength", "maxProperties"), lambda value, most, *_: len(value) <= most),
}


def fits(value: object, schema: Schema, root: Schema) -> bool:
    """Return True if a value is valid; False means that it is not, or that this function cannot tell.

    `root`: the whole schema, which has the definitions. In each schema, `type` is before the keywords that need this
    type, and the checks stop at the first that fails.
    """
    for keyword, operand in schema.items():
        if keyword not in _NOTES:
            check = _CHECKS.get(keyword)
            if check is None or not check(value, operand, schema, root):
                return False
    return True


#: A `jsonschema.exceptions.ValidationError`. Its type stubs make every attribute optional.
Violation = Any
_TYPES = {
    "object": "a mapping",
    "array": "a list",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}
#: What a value must do, for each keyword of the schema; {} is the operand.
_LIMITS = {
    "minItems": "have at least {} item(s)",
    "maxItems": "have at most {} items",
    "minLength": "have at least {} character(s)",
    "maxLength": "have at most {} characters",
    "minProperties": "have at least {} field(s)",
    "maxProperties": "have at most {} fields",
    "minimum": "be at least {}",
    "maximum": "be at most {}",
    "exclusiveMinimum": "be over {}",
    "exclusiveMaximum": "be under {}",
    "uniqueItems": "not contain a value twice",
}


def problem_at(document: YamlDocument, message: str, path: Path, start: int = 0, end: int | None = None) -> Problem:
    """Return a problem at a value, or at the columns `start` to `end` of its text, with the word underlined."""
    place = document.values.get(path)
    if place is None:
        return Problem("error", message, document.location(path))
    text = document.value(path)
    if isinstance(text, str) and end is not None:
        line, column = _position(document, place, text, start, end)
        return document.underlined(message, line, column, end - start)
    width = len(str(text)) if isinstance(text, (str, int, float)) else 1
    return document.underlined(message, place.line, place.column, width)


def proposing(message: str, text: str, metrics: Collection[str] = ()) -> str:
    """Return the message of a wrong sentence with a sentence that works instead, if the author's meaning is clear.

    `metrics` are the names of the stored metrics, if they are known.
    """
    from perfgate.rules.repair import in_yaml, repaired

    if "write `" in message or (sentence := repaired(text, metrics)) is None:
        return message
    return f"{message.partition('; did you mean')[0]}; did you mean `{in_yaml(sentence)}`?"


def _position(document: YamlDocument, place: YamlSpan, text: str, start: int, end: int) -> tuple[int, int]:
    """Return the line and column of `text[start:end]`, where `text` is the scalar at `place`."""
    if place.rest.startswith(text):
        return place.line, place.column + start
    quoted, block = place.rest[:1] in ("'", '"'), place.rest[:1] in ("|", ">")
    if place.rest[1:].startswith(text):  # in quotes, without escapes
        return place.line, place.column + start + 1
    word = text[start:end].strip()
    if not word:
        # It is missing at the end: its place is the closing quote, or after the last word.
        line, column = place.end  # of a block, usually the beginning of the next line
        if not block:
            return line, column + (not quoted)
        last = next(number for number in range(line - (column == 0), 0, -1) if document.lines[number - 1].strip())
        return last, len(document.lines[last - 1].rstrip()) + 1
    # The text has several lines or escapes: search for the same occurrence of the word.
    before = text.count(word, 0, start)
    for number in range(place.line + block, place.end[0] + 1):
        column = place.column - (not quoted) if number == place.line else 0  # an index from 0, behind a quote
        while (column := document.lines[number - 1].find(word, column)) >= 0:
            if before == 0:
                return number, column + 1
            before, column = before - 1, column + len(word)
    return place.line, place.column


def _problem_at_key(document: YamlDocument, message: str, path: Path) -> Problem:
    place = document.keys.get(path)
    if place is None:
        return Problem("error", message, document.location(path))
    return document.underlined(message, place.line, place.column, len(str(path[-1])))


def violation_problems(document: YamlDocument, schema: Schema) -> list[Problem]:
    """Return the problems of the violations of a schema in a file of rules or mappings."""
    for name, value in document.data.items() if isinstance(document.data, dict) else ():
        most = schema["properties"].get(name, {}).get("maxItems")
        if isinstance(value, list) and most is not None and len(value) > most:  # to check each of them takes too long
            return [problem_at(document, f"{name} must have at most {most} items", (name,))]
    if fits(document.data, schema, schema):
        return []
    from jsonschema import Draft7Validator

    violations: Iterable[Violation] = Draft7Validator(schema).iter_errors(document.data)
    found = (p for error in violations for specific in _specific(error) for p in _problems(document, specific))
    # jsonschema reports each missing field, and _problems names all.
    return list(dict.fromkeys(islice(found, _MOST_VIOLATIONS)))


def _specific(error: Violation) -> list[Violation]:
    """Return the errors of the only branch of an `anyOf` whose type fits, which the author meant; else the error."""
    if error.validator != "anyOf" or not error.context:
        return [error]
    branches: dict[Any, list[Violation]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    at = error.context[0].path
    fitting = [
        errors
        for errors in branches.values()
        if not any(inner.validator in ("type", "const") and inner.path == at for inner in errors)
    ]
    return [leaf for inner in fitting[0] for leaf in _specific(inner)] if len(fitting) == 1 else [error]


def _problems(document: YamlDocument, error: Violation) -> list[Problem]:
    """Return the problems of one violation: one for each unknown or missing field."""
    path: Path = tuple(error.absolute_path)
    if sentence := _meant_sentence(error, path):
        return [problem_at(document, f"a rule is a sentence: write `{sentence}`", path)]
    if error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        unknown = [key for key in error.instance if key not in known]
        found = []
        for key in unknown:
            near = _nearest(key, known)
            advice = f"did you mean {near!r}?" if near else f"known fields are {', '.join(known)}"
            found.append(_problem_at_key(document, f"unknown field {key!r}; {advice}", (*path, key)))
        return found
    if "propertyNames" in error.absolute_schema_path:
        message = f"the name {_shown(error.instance)} is not valid: use letters, digits, _ . and -"
        return [_problem_at_key(document, message, (*path, error.instance))]
    advice = _advice(document, error, path)
    if error.validator == "required":
        # A field that is only misspelt is in the problem of the unknown field.
        fields, is_closed = error.schema.get("properties", {}), error.schema.get("additionalProperties") is False
        meant = {_nearest(key, fields) for key in error.instance if is_closed and key not in fields}
        missing = [key for key in error.validator_value if key not in error.instance and key not in meant]
        return [problem_at(document, f"the field {key!r} is missing" + advice, path) for key in missing]
    return [problem_at(document, _words(error, path) + advice, path)]


def _meant_sentence(error: Violation, path: Path) -> str | None:
    """Return the sentence for a rule that is written as a mapping without `assert`; None if it is not clear."""
    if path[:1] != ("rules",) or len(path) != 2 or not isinstance(error.instance, dict) or "assert" in error.instance:
        return None
    from perfgate.rules.repair import in_yaml, sentence_of_mapping

    sentence = sentence_of_mapping(error.instance, error.schema.get("properties", ()))
    return None if sentence is None else in_yaml(sentence)


def _nearest(key: str, known: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(key, known, n=1, cutoff=0.6)), None)


def _advice(document: YamlDocument, error: Violation, path: Path) -> str:
    """Return advice if YAML read the sentence of a rule as something else; empty otherwise."""
    found, rest = error.instance, document.excerpt(path).lstrip()
    known = error.schema.get("properties", {})
    if path[:1] != ("rules",) or not (len(path) == 2 or path[-1] == "assert") or isinstance(found, str):
        return ""
    if rest[:1] == "#":
        return "; YAML ignores text after ` #`: wrap the whole sentence in single quotes"
    if isinstance(found, dict) and (not found or any(key in known for key in found)):
        return ""
    if rest[:1] in ("[", "{"):
        return "; " + misread_start(rest)
    colon = "; YAML reads `: ` inside a sentence as a mapping: wrap the whole sentence in single quotes"
    return colon if isinstance(found, dict) else ""


def _words(error: Violation, path: Path) -> str:
    """Return the message of a violation: the name of the value at `path`, and what it must be."""
    name = next((str(part) for part in reversed(path) if isinstance(part, str)), "the file")
    if path and path[-1] != name:
        name = f"an item of {name}"
    found, wanted = _shown(error.instance), error.validator_value
    if error.validator == "type":
        kinds: list[str] = wanted if isinstance(wanted, list) else [wanted]
        examples = error.schema.get("examples", ()) if kinds == ["string"] else ()
        shown = f": write, for example, {examples[0]}" if examples else ""
        return f"{name} must be {' or '.join(_TYPES.get(kind, kind) for kind in kinds)}, not {found}{shown}"
    if error.validator == "enum":
        near = get_close_matches(str(error.instance), [str(v) for v in wanted], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"{name} must be one of {', '.join(map(str, wanted))}, not {found}{hint}"
    if error.validator == "const":
        return f"{name} must be {wanted}, not {found}"
    if error.validator in ("anyOf", "pattern"):
        parent = error.parent.schema if error.validator == "pattern" and error.parent else {}
        examples = error.schema.get("examples") or parent.get("examples", ())
        shown = " or ".join(str(example) for example in examples if not isinstance(example, dict))
        return f"{name} cannot be {found}" + (f": write, for example, {shown}" if shown else "")
    number = f", not {found}" if isinstance(error.instance, (int, float)) else ""
    return f"{name} must {_LIMITS[error.validator].format(wanted)}{number}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "...")
    return "nothing" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
