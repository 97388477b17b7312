"""The quick check by a schema agrees with jsonschema, which has the last word."""

import copy
import math
import sys

import pytest
from jsonschema import Draft7Validator

from perfgate.documents.yaml import load_document
from perfgate.rules.validate import fits, violation_problems
from perfgate.schemas import schema

SCHEMAS = {name: schema(name) for name in ("rules", "mappings")}
ODD = (None, True, 0, 1, 1.0, -1, 0.95, math.nan, "", "a b", "95%", "auto\n", [], ["a", "a"], [["a"]], {}, {"a": 1})


def nodes(node):
    """Every subschema with examples."""
    for group in ("properties", "definitions"):
        for inner in node.get(group, {}).values():
            yield from [inner] if "examples" in inner else []
            yield from nodes(inner)


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_example_is_recognised_and_nothing_wrong_is(name):
    root = SCHEMAS[name]
    for node in nodes(root):
        validator = Draft7Validator({**node, "definitions": root["definitions"]})
        assert all(fits(example, node, root) for example in node["examples"])
        changed = [value for example in node["examples"] for value in (example, *mutants(example))]
        wrong = [value for value in (*ODD, *changed) if fits(value, node, root) and not validator.is_valid(value)]
        assert wrong == []


def mutants(example):
    """The example with each of its parts replaced, one at a time, and with one more field or item."""
    for key in example if isinstance(example, dict) else range(len(example)) if isinstance(example, list) else ():
        for odd in ODD:
            yield from (with_part(example, key, value) for value in (odd, *mutants(example[key])))
    if isinstance(example, dict):
        yield {**example, "no_such_field": 1}


def with_part(whole, key, value):
    changed = copy.copy(whole)
    changed[key] = value
    return changed


@pytest.mark.parametrize("keyword", ["not", "oneOf", "format"])
def test_a_keyword_that_it_does_not_know_is_left_to_jsonschema(keyword):
    assert not fits("text", {"type": "string", keyword: {}}, {})


def test_a_valid_file_does_not_need_jsonschema(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema", None)  # an import fails
    valid, wrong = (load_document("r.yaml", b"version: %d\nrules: [a under 1 s]\n" % version) for version in (1, 2))
    assert violation_problems(valid, SCHEMAS["rules"]) == []
    with pytest.raises(ImportError):
        violation_problems(wrong, SCHEMAS["rules"])
