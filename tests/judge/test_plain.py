"""Plain numbers: which runs give an answer, and the doubts that the judge has about them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from perfgate import judge_change, judge_limit
from perfgate.core.results import Result

judge = partial(judge_change, tolerance=0.05)


def times(seed: int, n: int = 80, slow: int = 0) -> list[float]:
    """A run of about 1 s a step, of which the first ones are three times as slow."""
    values = np.exp(0.01 * np.random.default_rng(seed).standard_normal(n))
    return [float(value) for value in np.concatenate([3 * values[:slow], values[slow:]])]


def rates(values: Sequence[float]) -> list[float]:
    return [1 / value for value in values]


def doubts(found: Result) -> list[tuple[str, float | str, float | str, bool]]:
    """What is doubted, with both amounts, and whether that may decide."""
    return [(one.what, one.base, one.new, one.decides) for one in found.doubts if one.what != "mean"]


BASE = [times(1), times(2), times(3)]
#: The times of the first 16 steps, and of the first step of a usual run.
SLOW, USUAL = sum(times(4, slow=16)[:16]), max(run[0] for run in BASE)
DOUBTED: list[tuple[list[Any], list[Any], dict[str, Any], list[Any]]] = [
    # base, new, options, and what is doubted
    (BASE, [times(4)], {}, []),
    (BASE, [times(4, slow=16)], {}, [("warm-up time", USUAL, SLOW, True)]),
    (
        BASE,
        [times(4, slow=30)],
        {},
        [("warm-up time", USUAL, sum(times(4, slow=30)[:20]), True), ("quarter", 80, 20, True)],
    ),
    ([rates(run) for run in BASE], [rates(times(4, slow=16))], {"better": "higher"}, [("warm-up steps", 1, 16, True)]),
    (BASE, [times(4, n=30)], {}, [("values", 80, 30.0, True)]),
    ([1.0] * 3, [1.0], {}, []),
    ([1.0] * 3, [0.05], {}, [("gain", 1.0, 0.05, True)]),
    ([1.0] * 3, [1.0, 2.0], {}, [("new-runs", 1.0, 2.0, True)]),
    # of pairs, the ratios have to agree, and two have no slow start
    (BASE, [times(4, slow=16)] * 3, {"pairing": "in-turn"}, [("warm-up time", USUAL, SLOW, True)]),
    (BASE[:2], [times(4, slow=16)] * 2, {"pairing": "in-turn"}, []),
    ([1.0] * 3, [1.0, 1.1, 1.0], {"pairing": "in-turn"}, []),
    ([1.0] * 3, [1.0, 1.1, 1.0], {"pairing": "in-turn", "prior": (0.003, 10.0)}, [("new-runs", 1.0, 1.1, True)]),
]


@pytest.mark.parametrize(("base", "new", "options", "doubted"), DOUBTED)
def test_plain_numbers_are_doubted_like_those_of_a_file(
    base: list[Any], new: list[Any], options: dict[str, Any], doubted: list[Any]
) -> None:
    found = doubts(judge(base, new, **options))
    assert [one[0] for one in found] == [one[0] for one in doubted]
    assert [amount for one in found for amount in one[1:]] == pytest.approx([x for one in doubted for x in one[1:]])


def test_the_mean_of_all_values_is_noted_beside_a_median() -> None:
    (*_, doubt) = judge(BASE, [times(4, slow=16)]).doubts
    assert (doubt.what, doubt.decides) == ("mean", False)


@pytest.mark.parametrize(
    ("base", "new", "answer"),
    [
        ([], [1.0], "error no-baseline"),
        ([1.0], [], "error no-new-run"),
        ([], [], "error no-baseline"),
        ([[5.0]], [[5.0]], "undecided noise-unknown"),
        ([[]], [[5.0]], "error too-few-samples"),
    ],
)
def test_a_change_needs_a_run_of_both_sides(base: list[Any], new: list[Any], answer: str) -> None:
    found = judge(base, new)
    assert f"{found.outcome} {found.reason}" == answer


def test_bad_options_of_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^pairing is one of one-process, in-turn, whole-runs, not 'other'$"):
        judge([1.0], [1.0], pairing="other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^pairs have two sides: there are 1 base runs and 2 new ones$"):
        judge([1.0], [1.0, 1.0], pairing="in-turn")
    assert judge([1.0] * 3, [1.0, 1.0]).outcome == "pass"


def test_a_limit_is_an_upper_one_and_counts_few_values() -> None:
    assert [judge_limit([value], bound=1.0).outcome for value in (0.5, 1.0, 2.0)] == ["pass", "fail", "fail"]
    assert judge_limit([[0.5]], bound=1.0).outcome == "pass"
    assert judge_limit([], bound=1.0).reason == "no-new-run"


def test_the_prior_of_a_limit_weighs_as_two_degrees_of_freedom() -> None:
    limit = partial(judge_limit, [times(1), times(2)], bound=1.1, statistic="mean")
    assert limit() == limit(prior=(5.0, 2.0)) != limit(prior=(0.01, 3.0))


def test_a_slow_start_that_hides_a_broken_limit_is_doubted() -> None:
    """The mean of all values is 1.75 s."""
    run = times(4, slow=30)
    for bound, hides in ((1.5, True), (2.0, False)):
        assert doubts(judge_limit([run], bound=bound)) == [("quarter", 80, 20, hides)]
    assert doubts(judge_limit([2.0], bound=1.5)) == []
