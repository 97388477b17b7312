"""The next step of every outcome, one row a case, and how words are counted."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from single import compare_once

from perfgate import judge_limit
from perfgate.core import NO_STEP, Acceptance
from perfgate.core.wording import listed, plural
from perfgate.words.answer import next_step
from perfgate.words.change import change_message, change_next_step, paired_next_step
from perfgate.words.limit import limit_message, limit_next_step

ACCEPT = Acceptance(runs=("x.json",))
PASSED = compare_once([100.0] * 5, [100.0], tolerance=0.05)
LIMIT = judge_limit([[1.0, 2.0, 1.5] * 20], bound=9.0)

STEPS: list[tuple[dict[str, Any], str, str]] = [
    # a result's fields; what is said of a change, and of one between pairs
    ({}, "", ""),
    ({"improved": True}, "approve it to hold the gain: perfgate baseline approve x.json", ""),
    ({"outcome": "fail"}, "find what made it worse", "find what made it worse"),
    ({"outcome": "suspect"}, "run the new code twice more", "make two more pairs"),
    (
        {"outcome": "inconclusive", "reason": "thin-tail", "runs_needed": 3},
        "run longer, or compare",
        "make 3 pairs in all",
    ),
    ({"outcome": "inconclusive", "runs_needed": 3}, "give 3 new runs in all", "make 3 pairs in all"),
    ({"outcome": "inconclusive", "runs_needed": 2}, "give 2 new runs in all", "make 2 pairs in all"),
    ({"outcome": "inconclusive", "runs_needed": 1}, "not enough evidence", "not enough evidence"),
    ({"outcome": "inconclusive", "runs_needed": 2, "new_runs": 3}, "not enough evidence", "not enough evidence"),
    ({"outcome": "inconclusive", "runs_needed": None}, "add base runs", "take more steps"),
]


@pytest.mark.parametrize(("fields", "alone", "paired"), STEPS)
def test_the_next_step_of_a_change(fields: dict[str, Any], alone: str, paired: str) -> None:
    result = replace(PASSED, **fields)
    for said, expected in ((change_next_step(result, ACCEPT), alone), (paired_next_step(result), paired)):
        assert next_step(said).startswith(expected)
        assert (said == NO_STEP) == (not expected)


def test_a_change_from_the_anchor_is_accepted_only_with_a_new_anchor() -> None:
    failed = replace(PASSED, outcome="fail")
    at_home = change_next_step(failed, ACCEPT, "anchor")
    assert at_home.command == 'perfgate baseline approve x.json --reason "..." --reset-anchor'
    on_a_ref = change_next_step(failed, replace(ACCEPT, ref="main"), "anchor")
    assert (on_a_ref.command, on_a_ref.where) == (None, "on main")
    assert on_a_ref.text.endswith("someone who may write to main can move the anchor there after the merge")


RELATIONS: list[tuple[dict[str, Any], str]] = [
    ({}, "0% [-1.2%, +1.2%], within the tolerance of 5%; 5 base runs, 1 new run"),
    ({"improved": True}, "an improvement beyond the tolerance of 5%"),
    ({"outcome": "fail", "improved": False}, "beyond the tolerance of 5%"),
    ({"outcome": "suspect"}, "but one run is not proof"),
    ({"outcome": "inconclusive"}, "so it is not known whether it is within 5%"),
    ({"outcome": "inconclusive", "reason": "thin-tail"}, "too few values beyond this percentile"),
    ({"reason": "exact"}, "100 s: 0%, within"),
    ({"estimate": None}, "x is 100 s, as in the base"),
]


@pytest.mark.parametrize(("fields", "words"), RELATIONS)
def test_what_is_said_of_a_change(fields: dict[str, Any], words: str) -> None:
    said = change_message("x", replace(PASSED, **fields), "base", ("s", "s"), "5%")
    assert words in said.replace("+0%", "0%")


LIMITS: list[tuple[dict[str, Any], str, str]] = [
    ({}, "it meets `under 9 s`; 59 values (effective sample size", ""),
    ({"outcome": "fail"}, "it breaks `under 9 s`", "bring it under 9 s, or change the rule at r.yaml:1"),
    ({"outcome": "inconclusive"}, "not known whether it is under 9 s", "run longer or give more runs: about 7 "),
    ({"low": 2.0, "high": 2.0}, "x is 1.5 s: it meets", ""),
    ({"low": None, "high": None}, "[unbounded, unbounded] at 95% confidence", ""),
    ({"n": None}, "it meets `under 9 s`; 1 run", ""),
    ({"n_effective": None}, "; 59 values, 1 run", ""),
]


@pytest.mark.parametrize(("fields", "words", "step"), LIMITS)
def test_what_is_said_of_a_limit(fields: dict[str, Any], words: str, step: str) -> None:
    result = replace(LIMIT, **fields)
    assert words in limit_message("x", result, "under 9 s", ("s", "s"), confidence=0.95)
    said = limit_next_step(result, "under 9 s", "r.yaml:1", 7)
    assert said.text.startswith(step)
    assert bool(said.text) == bool(step)


def test_without_a_number_of_values_the_step_names_none() -> None:
    unsure = replace(LIMIT, outcome="inconclusive")
    assert limit_next_step(unsure, "under 9 s", "r.yaml:1", None).text == "run longer or give more runs"


def test_a_limit_that_is_met_at_a_value_is_a_place_to_go_to() -> None:
    steps = [
        limit_next_step(replace(LIMIT, outcome="fail"), asks, "r.yaml:1", 7) for asks in ("at least 95%", "over 2")
    ]
    assert [step.text.partition(",")[0] for step in steps] == ["bring it to at least 95%", "bring it over 2"]


def test_words_are_counted() -> None:
    assert [plural(n, "run") for n in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]
    assert listed(["a", "b"]) == "a, b"
    assert listed(list("abcde")) == "a, b, c, d, e"
    assert listed(list("abcdef")) == "a, b, c, d, e and 1 more"
    assert listed(list("abcdef"), most=2) == "a, b and 4 more"
    assert listed([]) == ""


def test_warm_up_is_said_if_there_was_some() -> None:
    said = limit_message("x", LIMIT, "under 9 s", ("s", "s"), confidence=0.95, dropped=1)
    assert said.endswith(", 1 run, 1 value dropped as warm-up")
    assert change_message("x", PASSED, "base", ("s", "s"), "5%", 3).endswith(", 3 values dropped as warm-up")
    assert "warm-up" not in change_message("x", PASSED, "base", ("s", "s"), "5%", 0)
