"""Each kind of answer as golden files: text, Markdown and page, and the schema of the JSON.

`UPDATE_GOLDEN=1 pytest tests/bisect` writes the files anew.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from answers import ANSWERS, TwoChanges
from jsonschema import Draft7Validator
from msgspec.structs import replace

from perfgate.bisect.ranges import SearchedRange
from perfgate.bisect.search import SearchResult
from perfgate.bisect.session import BisectFolder
from perfgate.commands.bisect_answer import AnswerParts, answer
from perfgate.core.causes import BisectReport
from perfgate.reporters import bisect_text
from perfgate.reporters.html.page import render_bisect
from perfgate.schemas import schema

GOLDEN = Path(__file__).parent / "golden"


def check_golden(name: str, text: str) -> None:
    """Compare with a golden file; UPDATE_GOLDEN=1 writes it instead."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; UPDATE_GOLDEN=1 writes it anew"


def test_stored_runs_that_nothing_was_compared_with_are_not_called_different() -> None:
    fault = "an end cannot be measured: a ended with exit code 1"
    result = SearchResult.unknown(fault, runs=1)
    folder = BisectFolder(Path("kept"), [])
    parts = AnswerParts(SearchedRange(("a", "b")), folder, result, 0.02, None, "kept", stored=True)
    assert answer(parts).notes == ()


@pytest.fixture(scope="module", params=sorted(ANSWERS))
def made(request: pytest.FixtureRequest) -> tuple[str, BisectReport]:
    return request.param, ANSWERS[request.param]()


def test_text_and_markdown(made: tuple[str, BisectReport]) -> None:
    name, report = made
    check_golden(f"{name}.txt", bisect_text.terminal(report, width=100))
    check_golden(f"{name}.md", bisect_text.markdown(report))


def test_the_page(made: tuple[str, BisectReport]) -> None:
    name, report = made
    page = re.sub(r"<style>.*?</style>", "<style>...</style>", render_bisect(report), flags=re.DOTALL)
    check_golden(f"{name}.html", re.sub(r"<svg.*?</svg>", "<svg>...</svg>", page, flags=re.DOTALL))


def test_the_json_is_what_its_schema_says(made: tuple[str, BisectReport]) -> None:
    name, report = made
    document = json.loads(bisect_text.json(report))
    assert [error.message for error in Draft7Validator(schema("bisect")).iter_errors(document)] == []
    assert document["outcome"] == {
        "found-pairs": "found",
        "found-two-items": "found",
        "shared-blame": "found",
        "broken-end": "undecided",
    }.get(name, name)
    if document["commits"]:
        total = sum(one["probability"] for one in document["commits"]) + document["others"] + document["no_change"]
        assert total == pytest.approx(1)
    changed = {**document, "outcome": "maybe", "runs": -1}
    assert len(list(Draft7Validator(schema("bisect")).iter_errors(changed))) == 2


def test_a_second_change_has_the_options_of_its_search() -> None:
    (note,) = TwoChanges(12, 8, 0.1, also_from=3, also=0.05).report().notes
    assert note.startswith("there may be another, smaller change (")
    assert note.endswith(
        "; to search before torch==2.8.0, repeat the command with --over torch==2.0.0 torch==2.1.0 ... torch==2.7.0 "
        "--keep perfgate-bisect-before; to search after torch==2.8.0, with --over torch==2.8.0 torch==2.9.0 "
        "torch==2.10.0 torch==2.11.0 --keep perfgate-bisect-after"
    )
    (note,) = TwoChanges(12, 11, 0.1, also_from=3, also=0.05).report().notes
    assert ("to search before torch==2.11.0" in note, "to search after" in note) == (True, False)


def test_a_cell_of_the_table_shows_a_zero_and_keeps_its_bars() -> None:
    report = ANSWERS["found"]()
    first = report.suspects[0]
    estimate = replace(first.estimate, value=0.0)
    odd = replace(first, item=replace(first.item, subject=r"a\|b | c"), estimate=estimate)
    (row,) = [line for line in bisect_text.markdown(replace(report, suspects=(odd,))).splitlines() if " c |" in line]
    assert row.count("|") - row.count(r"\|") == 6
    assert "| 0" in row
