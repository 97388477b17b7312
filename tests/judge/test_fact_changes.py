"""The facts of the environment that differ between base and new runs, one row a case."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from stories import bare

from perfgate.core import Run
from perfgate.judge.report import fact_changes


def runs(*environments: dict[str, Any]) -> list[Run]:
    return [Run(f"run{i}", "test", (), environment=facts) for i, facts in enumerate(environments)]


def told(base: list[Run], new: list[Run], pairing: Any = None, **case: Any) -> list[str]:
    """Each fact with its values on both sides, and whether only the files claim it."""
    asked = replace(bare("x under 1 s", new, base, pairing=pairing), **case)
    return [
        f"{one.name}: {', '.join(one.base)} -> {', '.join(one.new)}{' claimed' * one.claimed}"
        for one in fact_changes(asked)
    ]


HEAT, SM, MEMORY = "gpu_temperature_c", "sm_clock_mhz", "memory_clock_mhz"
CHANGES: list[tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]] = [
    # the facts of the base runs and of the new runs, and those that differ
    ([{"a": 1}], [{"a": 1}], []),
    ([{"a": 1}], [{"a": 2}], ["a: 1 -> 2 claimed"]),
    ([{"a": 1}], [{}], []),
    ([{}], [{"a": 1}], []),
    ([{"a": True}], [{"a": False}], ["a: true -> false claimed"]),
    ([{"a": 1}, {"a": 2}], [{"a": 2}], []),
    ([{"a": 1}, {"a": 1}], [{"a": 2}, {"a": 2}], ["a: 1 -> 2 claimed"]),
    ([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 3}], ["a: 1, 2 -> 2, 3 claimed"]),
    ([{"b": 1, "a": 1}], [{"b": 2, "a": 2}], ["a: 1 -> 2 claimed", "b: 1 -> 2 claimed"]),
    ([{"torch": "2.11.0"}], [{"torch": "2.11.0+cu130"}], []),
    ([{"torch": "2.11.0"}], [{"torch": "2.11.1"}], ["torch: 2.11.0 -> 2.11.1 claimed"]),
    ([{"throttle_reasons": "none"}], [{"throttle_reasons": "hw_slowdown"}], []),
    # readings of a moment
    ([{SM: 100}], [{SM: 91}], []),
    ([{SM: 91}], [{SM: 100}], []),
    ([{SM: 100}], [{SM: 90}], [f"{SM}: 100 -> 90 claimed"]),
    ([{SM: 90}], [{SM: 100}], [f"{SM}: 90 -> 100 claimed"]),
    ([{HEAT: 50}], [{HEAT: 46}], []),
    ([{HEAT: 50}], [{HEAT: 40}], [f"{HEAT}: 50 -> 40 claimed"]),
    ([{HEAT: 0.5}], [{HEAT: 0.4}], [f"{HEAT}: 0.5 -> 0.4 claimed"]),
    ([{HEAT: -10}], [{HEAT: 10}], [f"{HEAT}: -10 -> 10 claimed"]),
    ([{MEMORY: 0}], [{MEMORY: 0}], []),
    ([{MEMORY: 2000}], [{MEMORY: 1900}], []),
    ([{SM: "100, 50"}], [{SM: 20}], []),
    ([{SM: 20}], [{SM: "100, 50"}], []),
    ([{SM: "100, 50"}], [{SM: "10, 5"}], []),
]


@pytest.mark.parametrize(("base", "new", "found"), CHANGES)
def test_the_facts_that_differ(base: list[dict[str, Any]], new: list[dict[str, Any]], found: list[str]) -> None:
    assert told(runs(*base), runs(*new)) == found


GIVEN: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    # the facts of a new run, the settings of the command, and the facts that differ from a base run with a = 1
    ({}, {"facts": {"a": 2}}, ["a: 1 -> 2"]),
    ({"a": 1}, {"facts": {"a": 2}}, ["a: 1 -> 2"]),
    ({"a": 2}, {"facts": {"a": 1}}, []),
    ({"a": 2}, {"facts": {"b": 1}}, ["a: 1 -> 2 claimed"]),
    ({"a": 2}, {"facts": {"a": 2}, "claimed": frozenset("a")}, ["a: 1 -> 2 claimed"]),
    ({"a": 1}, {"facts": {"a": 2}, "claimed": frozenset("a")}, []),
    ({"a": 1}, {"facts": {"a": 2}, "pairing": "in-turn"}, []),
    ({"a": 2}, {"facts": {"a": 2}, "pairing": "in-turn"}, ["a: 1 -> 2 claimed"]),
    ({"a": 1}, {"facts": {"a": 2}, "claimed": frozenset("a"), "pairing": "in-turn"}, []),
]


@pytest.mark.parametrize(("own", "settings", "found"), GIVEN)
def test_facts_of_the_command_belong_to_the_new_runs(
    own: dict[str, Any], settings: dict[str, Any], found: list[str]
) -> None:
    assert told(runs({"a": 1}), runs(own), **settings) == found
