"""A quick check by a JSON Schema, without the jsonschema package, whose import takes longer than a small check.

It only recognises values that are surely valid. For all others jsonschema has the last word and finds the violations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
#: Checks a value by the operand of a keyword; the schema has the other keywords, and the last is the whole document's.
_Check: TypeAlias = Callable[[Any, Any, Schema, Schema], bool]

_TYPES: dict[str, tuple[type, ...]] = {
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
_CHECKS: dict[str, _Check] = {
    "$ref": lambda value, name, _, root: fits(value, root["definitions"][name.removeprefix("#/definitions/")], root),
    "anyOf": lambda value, branches, _, root: any(fits(value, branch, root) for branch in branches),
    "type": lambda value, names, *_: any(
        type(value) in _TYPES.get(name, ()) for name in ([names] if isinstance(names, str) else names)
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
    """Return True if a value is valid; False means that it is not, or that this check does not know.

    Parameters
    ----------
    root: the whole schema, which has the definitions.

    A keyword about one type of values comes after the `type` in its schema: the checks stop at the first that fails.
    """
    for keyword, operand in schema.items():
        if keyword not in _NOTES:
            check = _CHECKS.get(keyword)
            if check is None or not check(value, operand, schema, root):
                return False
    return True
