"""Rules that compare the sides of pairs: the least tolerance, and what is noted beside the numbers."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import steady
from stories import bare, series

from perfgate import judge_change
from perfgate.core import CalibratedPrior, Key, Run, Verdict
from perfgate.judge.pairs import Pairing
from perfgate.judge.verdicts import judge

RULE = "x within 5% of baseline"


def side(which: str, values: list[float], pair: int = 1, unit: str = "s") -> Run:
    return Run(f"p.json, pair {pair}, {which}", "test", (series("x", unit, values),))


def pairs(count: int, *, slower: float = 1.0, order: float = 1.0, n: int = 40) -> tuple[list[Run], list[Run]]:
    """New and base sides of pairs, of which base goes first in the even steps of odd pairs."""

    def values(pair: int, which: str) -> list[float]:
        first = [(i % 2 == 0) == ((pair % 2 == 1) == (which == "base")) for i in range(n)]
        return [(slower if which == "new" else 1.0) * (1.0 if one else order) for one in first]

    new, base = ([side(which, values(i + 1, which), i + 1) for i in range(count)] for which in ("new", "base"))
    return new, base


def verdict(rule: str, new: list[Run], base: list[Run], pairing: str = "in-turn", **fields: Any) -> Verdict:
    (found,) = judge(bare(rule, new, base, pairing=pairing, **fields))
    return found


TOLERANCES = [
    # a rule, the unit and the values of both sides; the reason, and what is said of the tolerance
    ("x within 0% of baseline", "s", [1.0] * 40, "tolerance-too-small", "0%"),
    ("x within 0.99% of baseline", "s", [1.0] * 40, "tolerance-too-small", "0.99%"),
    ("x within 0.2% and 4 ms of baseline", "s", [1.0] * 40, "tolerance-too-small", "0.4%"),
    ("x within 1% of baseline", "s", [1.0] * 40, "noise-unknown", None),
    ("x within 0% of baseline", "B", [4e9] * 40, "exact", None),
    ("x within 0.2% of baseline", "s", [0.0] * 40, "equal", None),
]


@pytest.mark.parametrize(("rule", "unit", "values", "reason", "told"), TOLERANCES)
def test_a_tolerance_that_the_order_alone_may_use_up_is_refused(
    rule: str, unit: str, values: list[float], reason: str, told: str | None
) -> None:
    found = verdict(rule, [side("new", values, unit=unit)], [side("base", values, unit=unit)], "one-process")
    assert found.reason == reason
    if told:
        assert (found.outcome, found.message, found.next_step.text) == (
            "error",
            f"x: a tolerance of {told} is too small for pairs: "
            "order and memory layout alone move unchanged code by up to 0.6%",
            "write `within 1% of baseline` or more",
        )


IN_TURN, BY_TURNS = "steps by turns in two processes", "steps by turns in one process"
ONE = "one pair: the random memory layout of its processes does not average out"

NOTES: list[tuple[int, dict[str, Any], str, list[str]]] = [
    # how many pairs, what they are like, how they were made, and all that is noted
    (1, {}, "one-process", [f"1 pair, {BY_TURNS}", "order effect: 0% (removed)"]),
    (1, {}, "in-turn", [f"1 pair, {IN_TURN}", "order effect: 0% (removed)", ONE]),
    (2, {"order": 1.002}, "in-turn", [f"2 pairs, {IN_TURN}", "order effect: 0.2% (removed)"]),
    (
        2,
        {"order": 1.06},
        "in-turn",
        [
            f"2 pairs, {IN_TURN}",
            "order effect: 6% (more than the tolerance, so look at what a step leaves to the next)",
        ],
    ),
    (2, {"order": 0.998}, "in-turn", [f"2 pairs, {IN_TURN}", "order effect: 0.2% (removed)"]),
    (2, {"order": 1.06}, "whole-runs", ["2 pairs, whole runs by turns"]),
    (1, {}, "whole-runs", ["1 pair, whole runs by turns", ONE]),
    (2, {"n": 7}, "one-process", [f"2 pairs, {BY_TURNS}"]),
]


@pytest.mark.parametrize(("count", "like", "pairing", "notes"), NOTES)
def test_what_is_noted(count: int, like: dict[str, Any], pairing: str, notes: list[str]) -> None:
    found = verdict(RULE, *pairs(count, **like), pairing=pairing)
    assert list(found.notes) == [f"judged against the paired base: {notes[0]}", *notes[1:]]


def test_an_improvement_is_noted() -> None:
    found = verdict(RULE, *pairs(3, slower=0.5), pairing="one-process")
    assert found.notes[0] == "an improvement beyond the tolerance"


def test_noise_between_pairs_is_that_of_their_making() -> None:
    """Calibrated in the same way it is told and believed; between single runs, or other pairs, it says nothing."""
    priors = [CalibratedPrior(Key("x"), "median", "worst", 0.2, 8.0, 12, way) for way in ("in-turn", None)]
    told = "; noise measured on 12 pairs"
    held = [verdict(RULE, *pairs(2), pairing=way, priors=tuple(priors)) for way in ("in-turn", "one-process")]
    assert [found.notes[0].endswith(told) for found in held] == [True, False]
    assert [found.outcome for found in held] == ["undecided", "pass"]


def test_pairs_are_told_by_their_own_words() -> None:
    found = verdict(RULE, *pairs(3, slower=1.3), pairing="one-process")
    assert found.message.startswith("x median went from 1 s in the paired base to 1.3 s: +30.0% [")
    assert found.next_step.text == "if the change is intended, merge it: later pairs compare with it"
    anchor = verdict("x within 5% of anchor", *pairs(3), pairing="one-process", missing="no anchor in pairs")
    assert (anchor.outcome, anchor.message) == ("error", "no anchor in pairs")


def test_whole_runs_are_compared_by_their_medians() -> None:
    """Only steps that were taken by turns belong together: of whole runs, what both sides share does not cancel."""
    shared = [1.0 + 0.1 * ((7 * i) % 5) for i in range(40)]
    new, base = [side("new", shared)], [side("base", shared)]
    prior = tuple(
        CalibratedPrior(Key("x"), "median", "worst", 0.001, 8.0, 12, way) for way in ("in-turn", "whole-runs")
    )
    turns, whole = (verdict(RULE, new, base, way, priors=prior).change for way in ("in-turn", "whole-runs"))
    assert turns is not None
    assert whole is not None
    assert turns.high is not None
    assert whole.high is not None
    assert turns.high < 0.003 < whole.high


ORDERS = [
    # the values of new and base, and what is said of their order
    ([4e9, 5e9] * 20, [5e9, 4e9] * 20, "20% (more than the tolerance, so look at what a step leaves to the next)"),
    ([4e9] * 40, [4e9] * 40, "0% (removed)"),
]


@pytest.mark.parametrize(("new", "base", "said"), ORDERS)
def test_what_the_order_does_to_equal_bytes_is_told_against_no_tolerance(
    new: list[float], base: list[float], said: str
) -> None:
    """The medians are equal, whichever side goes first."""
    rule = "{assert: x within 0% of baseline, warmup: 0}"
    found = verdict(rule, [side("new", new, unit="B")], [side("base", base, unit="B")])
    assert (found.outcome, found.reason) == ("pass", "exact")
    assert found.notes[1] == f"order effect: {said}"


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("base", "new", "reason"), [(1e-300, 1e300, "not-positive"), (1e300, 1e-300, "implausible")])
def test_pairs_without_a_ratio_are_no_crash_and_no_pass(count: int, base: float, new: float, reason: str) -> None:
    """The ratio is too large or too small for a number, in every pair."""
    found = judge_change([[base] * 20] * count, [[new] * 20] * count, tolerance=0.05, pairing="in-turn")
    assert (found.outcome in ("error", "undecided"), found.reason) == (True, reason)


#: The part of the steps that is slower at the start, and how many times: at most half of those that are not dropped.
SLOW_STARTS = [(0.25, 10.0), (0.52, 1.17), (0.56, 1.25), (0.62, 1.17), (0.62, 1.5), (0.62, 10.0)]


@pytest.mark.parametrize("pairing", ["one-process", "in-turn", "whole-runs"])
@pytest.mark.parametrize("count", [3, 5])
@pytest.mark.parametrize(("part", "times"), SLOW_STARTS)
def test_a_slow_start_of_the_new_code_is_never_green(part: float, times: float, count: int, pairing: Pairing) -> None:
    def started(seed: int, part: float) -> list[float]:
        values = steady(0.1, n=200, spread=0.01, seed=seed)
        return [value * (times if i < part * 200 else 1) for i, value in enumerate(values)]

    base, new = [started(i, 0) for i in range(count)], [started(50 + i, part) for i in range(count)]
    found = judge_change(base, new, tolerance=0.05, pairing=pairing, looks=count)
    assert found.outcome in ("undecided", "fail")
    sides = [[side(name, values) for values in runs] for name, runs in (("new", new), ("base", base))]
    assert verdict(RULE, sides[0], sides[1], pairing).exit_code in (1, 3)
    unchanged = judge_change(base, base, tolerance=0.05, pairing=pairing, looks=count)
    assert (unchanged.outcome, unchanged.reason) == ("pass", "interval")
