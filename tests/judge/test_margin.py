"""The rule by which an interval passes or fails, one row a case."""

import math

import pytest

from perfgate.stats.margin import SLACK, Margin

OUTCOMES = [
    # worse     low    high   outcome        improved
    ("up", 0.06, 0.09, "fail", False),
    ("up", 0.05, 0.09, "undecided", False),
    ("up", 0.04, 0.06, "undecided", False),
    ("up", 0.00, 0.05, "pass", False),
    ("up", -0.20, -0.04, "pass", False),
    ("up", -0.20, -0.06, "pass", True),
    ("down", -0.20, -0.06, "fail", False),
    ("down", -0.06, -0.04, "undecided", False),
    ("down", -0.05, 0.09, "pass", False),
    ("down", 0.06, 0.20, "pass", True),
    ("either", 0.06, 0.09, "fail", False),
    ("either", -0.20, -0.06, "fail", False),
    ("either", -0.04, 0.04, "pass", False),
    ("either", -0.06, 0.04, "undecided", False),
    ("either", -0.04, 0.06, "undecided", False),
    ("either", math.nan, math.nan, "undecided", False),
]


@pytest.mark.parametrize(("worse", "low", "high", "outcome", "improved"), OUTCOMES)
def test_outcome(worse, low, high, outcome, improved):
    margin = Margin(0.05, -0.05, worse)
    assert margin.compare(low, high) == outcome
    assert margin.is_improved(low, high) is improved


@pytest.mark.parametrize(("worse", "sign"), [("up", 1), ("down", -1)])
def test_the_room_itself_still_passes(worse, sign):
    margin, edge = Margin(0.05, -0.05, worse), sign * (0.05 + SLACK)
    assert margin.compare(edge, edge) == "pass"
    assert margin.compare(*sorted([edge, sign])) == "undecided"


def test_rounding_has_room():
    assert Margin(0.3, -0.3, "down").compare(-0.1 - 0.2, -0.1 - 0.2) == "pass"
    assert Margin(0.3, -0.1 - 0.2, "down").compare(-0.3, -0.3) == "pass"
    assert Margin(0.1 + 0.2, -0.3, "up").compare(0.3, 0.3) == "pass"
    assert Margin(0.3, -0.3, "up").compare(0.1 + 0.2, 0.1 + 0.2) == "pass"


def test_a_ratio_of_five_percent():
    margin = Margin.of_ratio(0.05, "down")
    assert (margin.up, margin.down) == pytest.approx((math.log(1.05), math.log(0.95)))
    assert margin.room == -margin.down


def test_no_fall_exceeds_a_hundred_percent():
    margin = Margin.of_ratio(1.0, "down")
    assert margin.down == -math.inf
    assert margin.compare(-1e6, -1e5) == "pass"
