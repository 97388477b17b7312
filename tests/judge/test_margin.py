"""The rule by which an interval passes or fails, one row a case."""

import math

import pytest

from perfgate.stats.margin import SLACK, Margin, as_ratio, finite

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


@pytest.mark.parametrize(("worse", "size"), [("up", 0.05), ("down", 0.08), ("either", 0.05)])
def test_the_size_and_the_room_are_those_of_the_worse_side(worse, size):
    margin = Margin(math.log(1.05), math.log(0.92), worse)
    assert margin.size == pytest.approx(size)
    assert margin.room == pytest.approx(-math.log(0.92) if worse == "down" else math.log(1.05))


def test_a_fall_is_smaller_than_the_tolerance_says_only_from_a_hundred_percent_on():
    assert Margin.of_ratio(0.99, "up").down == pytest.approx(math.log(0.01))
    assert Margin.of_ratio(1.5, "up") == Margin(math.log1p(1.5), -math.inf, "up")


INSIDE = [
    # worse     low    high   is within the margin, and does not reach it
    ("up", 0.00, 0.049, True),
    ("up", 0.00, 0.05, False),
    ("up", -0.09, 0.049, True),
    ("down", -0.049, 0.09, True),
    ("down", -0.05, 0.09, False),
    ("either", -0.049, 0.049, True),
    ("either", -0.05, 0.049, False),
    ("either", -0.049, 0.05, False),
    ("up", 0.00, math.nan, False),
]


@pytest.mark.parametrize(("worse", "low", "high", "inside"), INSIDE)
def test_an_interval_that_reaches_the_margin_is_not_inside(worse, low, high, inside):
    assert Margin(0.05, -0.05, worse).includes(low, high) is inside


@pytest.mark.parametrize(
    ("worse", "change", "beyond"),
    [("up", 0.06, True), ("up", 0.05, False), ("up", -0.06, False), ("down", -0.06, True), ("either", -0.06, True)],
)
def test_a_change_is_beyond_the_margin(worse, change, beyond):
    assert Margin(0.05, -0.05, worse).exceeds(change) is beyond


def test_what_is_detectable_is_a_change_for_the_worse():
    margin = Margin(math.log(1.05), math.log(0.95), "up")
    assert margin.detectable(math.log(1.1)) == pytest.approx(1.05 * 1.1 - 1)
    assert Margin(margin.up, margin.down, "either").detectable(math.log(1.1)) == pytest.approx(1.05 * 1.1 - 1)
    assert Margin(margin.up, margin.down, "down").detectable(math.log(1.1)) == pytest.approx(1 - 0.95 / 1.1)
    assert margin.detectable(1e4) is None


def test_ratios_and_numbers_that_do_not_fit_into_a_float_are_none():
    assert as_ratio(math.log(3)) == pytest.approx(2)
    assert [as_ratio(one) for one in (1e4, math.inf, math.nan)] == [None, None, None]
    assert [finite(one) for one in (2.0, -math.inf, math.nan)] == [2.0, None, None]
