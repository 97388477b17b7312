"""Put each violation of a schema by a file of rules or mappings into words, as a problem at its place.

`fits` recognises most valid files by itself, because the import of jsonschema is slow. For all others, jsonschema
decides and finds the violations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, TypeAlias

from perfgate.core import Problem
from perfgate.documents.yaml import Path, YamlDocument, YamlSpan
from perfgate.documents.yaml_advice import misread_start

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


def problem_at(
    document: YamlDocument, message: str, path: Path, start: int = 0, end: int | None = None, *, key: bool = False
) -> Problem:
    """Return a problem that underlines a value, the columns `start` to `end` of its text, or with `key` its key."""
    place = (document.keys if key else document.values).get(path)
    if place is None:
        return Problem("error", message, document.location(path))
    text = path[-1] if key else document.value(path)
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
    if place.rest[1:].startswith(text):  # in quotes, without escapes
        return place.line, place.column + start + 1
    word = text[start:end].strip()
    if not word:
        return _end(document, place)
    # The text has several lines or escapes: search for the same occurrence of the word.
    occurrences = _occurrences(document, place, word)
    return next(islice(occurrences, text.count(word, 0, start), None), (place.line, place.column))


def _end(document: YamlDocument, place: YamlSpan) -> tuple[int, int]:
    """Return the line and column of the closing quote of a scalar, or those after its last word."""
    line, column = place.end  # of a block, usually the beginning of the next line
    before = document.lines[line - 1][:column].rstrip() if column else ""
    while not before:
        line -= 1
        before = document.lines[line - 1].rstrip()
    is_quoted = place.rest[:1] in ("'", '"')
    return line, len(before) if is_quoted else len(before) + 1


def _occurrences(document: YamlDocument, place: YamlSpan, word: str) -> Iterator[tuple[int, int]]:
    """Yield the line and column of each occurrence of a word in a scalar, which may have several lines."""
    first, begin = place.line, place.column - 1
    if place.rest[:1] in ("'", '"'):
        begin += 1
    if place.rest[:1] in ("|", ">"):  # the text of a block begins on the next line
        first, begin = first + 1, 0
    for number, line in enumerate(document.lines[first - 1 : place.end[0]], first):
        for found in re.compile(re.escape(word)).finditer(line, begin):
            yield number, found.start() + 1
        begin = 0


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
    inner = error.context  # their paths begin at the value
    other_types = {one.schema_path[0] for one in inner if one.validator in ("type", "const") and not one.path}
    fitting = {one.schema_path[0] for one in inner} - other_types
    if len(fitting) != 1:
        return [error]
    return [leaf for one in inner if one.schema_path[0] in fitting for leaf in _specific(one)]


def _problems(document: YamlDocument, error: Violation) -> list[Problem]:
    """Return the problems of one violation: one for each unknown or missing field."""
    path: Path = tuple(error.absolute_path)
    if sentence := _meant_sentence(error, path):
        return [problem_at(document, f"a rule is a sentence: write `{sentence}`", path)]
    if error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        found = []
        for key in (key for key in error.instance if key not in known):
            near = _nearest(key, known)
            advice = f"did you mean {near!r}?" if near else f"known fields are {', '.join(known)}"
            found.append(problem_at(document, f"unknown field {key!r}; {advice}", (*path, key), key=True))
        return found
    if "propertyNames" in error.absolute_schema_path:
        message = f"the name {_shown(error.instance)} is not valid: use letters, digits, _ . and -"
        return [problem_at(document, message, (*path, error.instance), key=True)]
    advice = _advice(document, error, path)
    if error.validator == "required":
        missing = [f"the field {key!r} is missing" for key in _missing_fields(error)]
        return [problem_at(document, message + advice, path) for message in missing]
    return [problem_at(document, f"{_name(path)} {_requirement(error)}{advice}", path)]


def _missing_fields(error: Violation) -> list[str]:
    """Return the required fields that are missing. One that is only misspelt is in the problem of the unknown field."""
    fields, given = error.schema.get("properties", {}), error.instance
    unknown = [key for key in given if key not in fields] if error.schema.get("additionalProperties") is False else []
    meant = {_nearest(key, fields) for key in unknown}
    return [key for key in error.validator_value if key not in given and key not in meant]


def _meant_sentence(error: Violation, path: Path) -> str | None:
    """Return the sentence for a rule that is written as a mapping without `assert`; None if it is not clear."""
    if path[:1] != ("rules",) or len(path) != 2 or not isinstance(error.instance, dict) or "assert" in error.instance:
        return None
    from perfgate.rules.repair import in_yaml, sentence_of_mapping

    sentence = sentence_of_mapping(error.instance, error.schema.get("properties", ()))
    return None if sentence is None else in_yaml(sentence)


def _nearest(key: str, known: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(key, [*known], n=1)), None)


def _advice(document: YamlDocument, error: Violation, path: Path) -> str:
    """Return advice if YAML read the sentence of a rule as something else; empty otherwise."""
    found, place = error.instance, document.values.get(path)
    rest = place.rest.lstrip() if place else ""
    if path[:1] != ("rules",) or not (len(path) == 2 or path[-1] == "assert") or isinstance(found, str):
        return ""
    if rest[:1] == "#":
        return "; YAML ignores text after ` #`: wrap the whole sentence in single quotes"
    if isinstance(found, dict) and (not found or found.keys() & error.schema.get("properties", {}).keys()):
        return ""  # the author meant a mapping
    if rest[:1] in ("[", "{"):
        return misread_start(rest)
    colon = "; YAML reads `: ` inside a sentence as a mapping: wrap the whole sentence in single quotes"
    return colon if isinstance(found, dict) else ""


def _name(path: Path) -> str:
    """Return the name of the value at a path, for messages."""
    name = next((str(part) for part in reversed(path) if isinstance(part, str)), "the file")
    return f"an item of {name}" if path and path[-1] != name else name


def _requirement(error: Violation) -> str:
    """Return what a value must be, and what it is."""
    found, wanted = _shown(error.instance), error.validator_value
    if error.validator == "type":
        kinds: list[str] = wanted if isinstance(wanted, list) else [wanted]
        examples = error.schema.get("examples", ()) if kinds == ["string"] else ()
        shown = f": write, for example, {examples[0]}" if examples else ""
        return f"must be {' or '.join(_TYPES.get(kind, kind) for kind in kinds)}, not {found}{shown}"
    if error.validator == "enum":
        near = _nearest(str(error.instance), map(str, wanted))
        hint = f"; did you mean {near!r}?" if near else ""
        return f"must be one of {', '.join(map(str, wanted))}, not {found}{hint}"
    if error.validator == "const":
        return f"must be {wanted}, not {found}"
    if error.validator in ("anyOf", "pattern"):
        parent = error.parent.schema if error.validator == "pattern" and error.parent else {}
        examples = error.schema.get("examples") or parent.get("examples", ())
        shown = " or ".join(str(example) for example in examples if not isinstance(example, dict))
        return f"cannot be {found}" + (f": write, for example, {shown}" if shown else "")
    number = f", not {found}" if isinstance(error.instance, (int, float)) else ""
    return f"must {_LIMITS[error.validator].format(wanted)}{number}"


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "...")
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "true", False: "false"}[value]
    return str(value)
