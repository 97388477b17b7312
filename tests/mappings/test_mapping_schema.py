"""The schema of mappings, for editors and `perfgate schema mappings`, and what an editor marks."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from perfgate.editor.rule_text import is_rule_file, marks
from perfgate.mappings.mapping_item import DELIMITERS, KINDS
from perfgate.schemas import schema

SCHEMA = schema("mappings")
FIELDS = SCHEMA["definitions"]["mapping"]["properties"]
PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/home-made-files.md"


def test_the_schema_is_draft_7() -> None:
    Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_described_with_examples_that_are_valid_and_is_on_the_page(name: str) -> None:
    found = SCHEMA["definitions"]["better"] if name == "better" else FIELDS[name]
    assert found["description"].endswith(".")
    assert found["examples"]
    for example in found["examples"]:
        Draft7Validator({**found, "definitions": SCHEMA["definitions"]}).validate(example)
    assert f"`{name}`" in PAGE.read_text(encoding="utf-8")


def test_the_schema_has_what_is_read() -> None:
    assert set(KINDS) < set(FIELDS)
    assert FIELDS["csv"]["enum"] == [*DELIMITERS]


def test_an_editor_marks_mistakes_in_mappings() -> None:
    text = "mappings:\n  - files: a.json\n    json: $..x\n    metrics: {x: furlong}\n"
    found = [(mark.line, text.splitlines()[mark.line][mark.start : mark.end]) for mark in marks("perfgate.yaml", text)]
    assert found == [(2, "..x"), (3, "furlong")]
    assert not is_rule_file("rules/perfgate.yaml", text)
    assert is_rule_file("rules/perfgate.yaml", "version: 1\nrules:\n  - x under 1 s\n")
