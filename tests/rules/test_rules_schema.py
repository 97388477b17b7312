"""The schema of rule files, which editors and documentation use, agrees with the loader."""

import re
from typing import get_args, get_type_hints

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from perfgate.core import Better
from perfgate.core.wording import STATISTICS, is_statistic
from perfgate.documents.yaml import load_document
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import DEFAULT_IDENTITY, Rule, Settings
from perfgate.schemas import schema
from perfgate.stats.statistics import ESTIMATORS, parse_statistic

SCHEMA = schema("rules")
RULE = SCHEMA["definitions"]["mapping"]["properties"]
DEFINED = SCHEMA["definitions"]


def described(node, path="rules"):
    """Every subschema that describes something an author writes, with its path."""
    yield path, node
    for group in ("properties", "definitions"):
        for name, inner in node.get(group, {}).items():
            if "$ref" not in inner:
                yield from described(inner, f"{path}.{name}")


NODES = dict(described(SCHEMA))


def test_the_schema_is_draft_7():
    Draft7Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize("path", NODES)
def test_every_field_is_described_with_examples_that_are_valid(path):
    node = NODES[path]
    assert node["description"].endswith(".")
    assert node["examples"]
    resolving = Draft7Validator({**node, "definitions": DEFINED})
    for example in [*node["examples"], *([node["default"]] if "default" in node else [])]:
        assert not list(resolving.iter_errors(example))


@pytest.mark.parametrize("path", [path for path, node in NODES.items() if "properties" in node])
def test_unknown_fields_are_refused_everywhere(path):
    assert NODES[path]["additionalProperties"] is False


def test_every_reference_leads_somewhere():
    names = re.findall(r"'#/definitions/(\w+)'", str(SCHEMA))
    assert set(names) == set(DEFINED)


def test_the_example_of_a_whole_file_loads():
    ruleset, problems = load_rules([("r.yaml", yaml.safe_dump(SCHEMA["examples"][0]).encode())])
    assert not problems
    assert len(ruleset.rules) == 2


@pytest.mark.parametrize("example", [*DEFINED["rule"]["examples"], *DEFINED["mapping"]["examples"]])
def test_the_examples_of_rules_load(example):
    assert not load_rules([("r.yaml", yaml.safe_dump({"version": 1, "rules": [example]}).encode())])[1]


SETTINGS = list(Settings.__struct_fields__)


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_have_the_defaults_of_the_schema(name):
    default = DEFINED[name].get("default")
    if name == "on_inconclusive":  # None leaves the choice to the verdict: a pass, but not for a thin tail
        assert (default, Settings().on_inconclusive) == ("warn", None)
    else:
        text = f"version: 1\nrules: [{{assert: x < 1, {name}: {default}}}]".encode()
        written = load_rules([("r", text)])[0].rules[0].settings if default is not None else Settings()
        assert written == Settings()


def test_the_fields_are_those_of_rules():
    written = set(RULE) - {"assert"}
    assert written == set(SETTINGS) | set(Rule.__struct_fields__) - {"sentence", "at", "settings"}
    assert list(SCHEMA["properties"]["defaults"]["properties"]) == SETTINGS


@pytest.mark.parametrize("name", ["severity", "on_missing", "on_inconclusive", "on_improvement"])
def test_choices_are_those_of_the_types(name):
    hint = get_type_hints(Settings)[name]
    choices = {choice for part in (hint, *get_args(hint)) for choice in get_args(part) if isinstance(choice, str)}
    assert set(DEFINED[name]["enum"]) == choices


def test_other_defaults_and_choices():
    assert set(RULE["better"]["enum"]) == set(get_args(Better))
    identity = SCHEMA["properties"]["environment"]["properties"]["identity"]
    assert tuple(identity["default"]) == DEFAULT_IDENTITY
    assert load_rules([("r", b"version: 1\nrules: [x < 1]")])[0].suite == SCHEMA["properties"]["suite"]["default"]


# --- statistics ------------------------------------------------------------------------------------------------------


def is_measured(word):
    try:
        parse_statistic(word)
    except ValueError:
        return False
    return True


def test_the_language_names_every_statistic_that_is_measured():
    assert set(STATISTICS) == set(ESTIMATORS)


WORDS = ["p", "p0", "p00", "p050", "p99.9", "p99.", "p100", "p100.0", "p100.1", "p101", "p1000", "p-1", "p1e1", "P95"]
WORDS += ["p95 ", " p95", "p٩٥", "p9٥", "p95\n", "p9_5", "Mean", "avg", "average", "sum", "std", "variance", "", "pp"]
WORDS += ["p99.99999999999999999999", "p0.0", *STATISTICS]


@pytest.mark.parametrize("word", WORDS)
def test_the_language_and_the_measurement_agree_on_names(word):
    assert is_statistic(word) == is_measured(word)


@given(st.one_of(st.text(max_size=6), st.from_regex(r"p\d{0,4}(\.\d{0,4})?\n?", fullmatch=True)))
def test_they_agree_on_any_name(word):
    assert is_statistic(word) == is_measured(word)


def test_the_document_limit_leaves_room_for_the_largest_ruleset():
    items = b"- {assert: x < 1, id: a, severity: error}\n" * 10_000
    assert not load_document("r", b"version: 1\nrules:\n" + items).problems
