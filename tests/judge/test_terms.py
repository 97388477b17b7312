"""The terms of a question: the good side of a bound, margins, and what is refused; one row a case."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scipy import stats

from perfgate.judge.terms import ChangeTerms, LimitTerms
from perfgate.stats.margin import Margin

SIDES = [
    # comparator, values that are bad beside a bound of 2, and those that are not
    ("under", (2.0, 2.1), (1.9,)),
    ("at most", (2.1,), (1.9, 2.0)),
    ("over", (1.9, 2.0), (2.1,)),
    ("at least", (1.9,), (2.0, 2.1)),
]


@pytest.mark.parametrize(("comparator", "bad", "good"), SIDES)
def test_the_good_side_of_a_bound(comparator: Any, bad: tuple[float, ...], good: tuple[float, ...]) -> None:
    terms = LimitTerms(bound=2.0, comparator=comparator)
    assert [terms.is_bad(value) for value in (*bad, *good)] == [True] * len(bad) + [False] * len(good)
    upper = comparator in ("under", "at most")
    assert (terms.upper, terms.better) == (upper, "lower" if upper else "higher")


@pytest.mark.parametrize(
    ("statistic", "share"), [("median", True), ("p95", True), ("mean", False), ("max", False), ("count", False)]
)
def test_only_a_percentile_has_a_share_of_values_beyond_the_bound(statistic: str, share: bool) -> None:
    assert LimitTerms(bound=2.0, statistic=statistic).has_share is share


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_a_run_is_near_a_bound_that_noise_may_reach(confidence: float) -> None:
    terms = LimitTerms(bound=3.0, noise=0.02, confidence=confidence)
    reach = 0.02 * stats.norm.ppf(confidence)
    for sign in (1, -1):
        assert terms.is_near(3.0 * math.exp(sign * 0.999 * reach))
        assert not terms.is_near(3.0 * math.exp(sign * 1.001 * reach))
    small = LimitTerms(bound=3e-3, noise=0.02, confidence=confidence)
    assert small.is_near(3e-3 * math.exp(0.999 * reach))
    assert not terms.is_near(0.0)
    assert not terms.is_near(-3.0)
    assert not LimitTerms(bound=3.0).is_near(3.0)
    assert not LimitTerms(bound=0.0, noise=0.02).is_near(0.001)


def test_an_interval_may_reach_what_has_to_be_excluded() -> None:
    upper, lower = LimitTerms(bound=2.0, at_worst=3.0), LimitTerms(bound=2.0, comparator="over", at_worst=1.0)
    assert [upper.may_reach(end) for end in (None, 3.0, 2.9)] == [True, True, False]
    assert [lower.may_reach(end) for end in (None, 1.0, 1.1)] == [True, True, False]
    assert [LimitTerms(bound=2.0).may_reach(end) for end in (None, 9.0)] == [False, False]


REFUSED_LIMITS = [
    ({"bound": math.inf}, "bound is a finite number"),
    ({"bound": math.nan}, "bound is a finite number"),
    ({"at_worst": 1.0}, "at_worst is beyond the bound"),
    ({"at_worst": math.inf}, "at_worst is beyond the bound"),
    ({"comparator": "below"}, "comparator is"),
    ({"warmup": -1}, "warmup must be"),
    ({"statistic": "average"}, "unknown statistic"),
]
REFUSED = [
    ({"confidence": 0.5}, "confidence is between"),
    ({"confidence": 1.0}, "confidence is between"),
    ({"prior": (0.0, 2.0)}, "prior is a positive"),
    ({"prior": (0.01, 0.0)}, "prior is a positive"),
    ({"prior": (1e-100, 2.0)}, "prior is a positive"),
    ({"prior": (0.01, 1e-100)}, "prior is a positive"),
    ({"prior": (1e100, 2.0)}, "prior is a positive"),
    ({"prior": (0.01, 1e100)}, "prior is a positive"),
    ({"min_samples": 0}, "min_samples is at least 1"),
]
REFUSED_CHANGES = [
    ({"tolerance": None}, "a change needs a tolerance"),
    ({"tolerance": -0.01}, "tolerance must be a finite number"),
    ({"tolerance": math.inf}, "tolerance must be a finite number"),
    ({"tolerance_absolute": math.nan}, "tolerance_absolute must be a finite number"),
    ({"at_worst": -1.0}, "at_worst must be a finite number"),
    ({"at_worst_absolute": math.inf}, "at_worst_absolute must be a finite number"),
    ({"power": 0.0}, "power is between"),
    ({"power": 1.0}, "power is between"),
    ({"looks": ()}, "looks is 1 or more"),
    ({"looks": (0, 2)}, "looks is 1 or more"),
    ({"better": "up"}, "better must be"),
    ({"statistic": "p101"}, "unknown statistic"),
]


@pytest.mark.parametrize(("options", "message"), [*REFUSED_LIMITS, *REFUSED])
def test_a_bad_option_of_a_limit_is_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        LimitTerms(**({"bound": 2.0} | options))


@pytest.mark.parametrize(("options", "message"), [*REFUSED_CHANGES, *REFUSED])
def test_a_bad_option_of_a_change_is_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        ChangeTerms(**({"tolerance": 0.05} | options))


def test_the_last_options_that_are_taken() -> None:
    LimitTerms(bound=-2.0, confidence=0.501, prior=(1e-99, 1e99), min_samples=1, at_worst=-1.9)
    LimitTerms(bound=2.0, prior=(0.01, 0.5))
    ChangeTerms(tolerance=0.0, tolerance_absolute=0.0, at_worst=0.0, at_worst_absolute=0.0, looks=(1,))
    assert ChangeTerms(tolerance_absolute=1.0, looks=None).looks is None
    assert ChangeTerms(tolerance=0.05).looks == (1, 2, 3)


@pytest.mark.parametrize(
    ("options", "worse"),
    [
        ({}, "up"),
        ({"better": "higher"}, "down"),
        ({"better": "neither"}, "either"),
        ({"two_sided": True}, "either"),
        ({"better": "higher", "two_sided": True}, "either"),
    ],
)
def test_the_direction_of_a_change_for_the_worse(options: Any, worse: str) -> None:
    assert ChangeTerms(tolerance=0.05, **options).worse == worse


def test_exact_values_that_differ_have_little_noise() -> None:
    assert ChangeTerms(tolerance=0.05, prior=(0.02, 5.0)).noise == (0.02, 5.0)
    assert ChangeTerms(tolerance=0.05, prior=(0.02, 5.0), exact=True).noise == (0.001, 5.0)


TOLERANCES = [
    # the terms, a base value; the relative tolerance, and what a green answer excludes
    ({"tolerance": 0.05}, 10.0, 0.05, 0.1),
    ({"tolerance": 0.05, "tolerance_absolute": 2.0}, 10.0, 0.2, 0.4),
    ({"tolerance": 0.05, "tolerance_absolute": 2.0}, 100.0, 0.05, 0.1),
    ({"tolerance_absolute": 2.0}, 10.0, 0.2, 0.4),
    ({"tolerance": 0.05, "at_worst": 0.07}, 10.0, 0.05, 0.07),
    ({"tolerance": 0.05, "at_worst": 0.02}, 10.0, 0.05, 0.05),
    ({"tolerance": 0.05, "at_worst_absolute": 3.0}, 10.0, 0.05, 0.3),
    ({"tolerance_absolute": 2.0, "at_worst_absolute": 3.0}, 10.0, 0.2, 0.3),
    ({"tolerance": 0.8}, 10.0, 0.8, 1.6),
    # a fall is smaller than 100 %
    ({"tolerance": 0.4, "better": "higher"}, 10.0, 0.4, 0.8),
    ({"tolerance": 0.5, "better": "higher"}, 10.0, 0.5, 0.75),
    ({"tolerance": 0.8, "better": "higher"}, 10.0, 0.8, 0.9),
    ({"tolerance": 0.8, "better": "neither"}, 10.0, 0.8, 0.9),
    ({"tolerance": 1.5, "better": "higher"}, 10.0, 1.5, 1.0),
]


@pytest.mark.parametrize(("options", "base", "tolerance", "excluded"), TOLERANCES)
def test_what_is_tolerated_and_what_is_excluded(options: Any, base: float, tolerance: float, excluded: float) -> None:
    terms = ChangeTerms(**options)
    assert terms.applied_tolerance(base) == pytest.approx(tolerance)
    for found, size in ((terms.tolerated(base), tolerance), (terms.doubted(base), excluded)):
        expected = Margin.of_ratio(size, terms.worse)
        assert (found.up, found.down, found.worse) == (
            pytest.approx(expected.up),
            pytest.approx(expected.down),
            expected.worse,
        )


def test_what_nobody_says() -> None:
    usual: dict[str, Any] = {
        "statistic": "median",
        "confidence": 0.95,
        "warmup": "auto",
        "prior": (0.01, 2.0),
        "min_samples": 1,
        "strict": False,
        "at_worst": None,
        "exact": False,
    }
    assert LimitTerms(bound=2.0) == LimitTerms(bound=2.0, comparator="under", noise=0.0, **usual)
    usual |= {"tolerance_absolute": None, "at_worst_absolute": None, "better": "lower", "two_sided": False}
    usual |= {"power": 0.8, "noise_known": False, "wander": 0.0, "looks": (1, 2, 3)}
    assert ChangeTerms(tolerance=0.05) == ChangeTerms(tolerance=0.05, **usual)
