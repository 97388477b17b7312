"""Two ranks of known ratio held against each other, one row a case; more of them are among the stories."""

from __future__ import annotations

import pytest
from conftest import answer_of
from stories import case, series

from perfgate.core import Run
from perfgate.judge.verdicts import judge

RATIOS = [
    # a statistic, how much slower the slow rank is in each run; what is said of at most 1.1 times
    ("", [1.0], "pass exact"),
    ("", [1.2], "fail exact"),
    ("", [1.0, 1.2], "pass interval"),
    ("max", [1.2, 1.2], "fail interval"),
    ("max", [1.0, 1.2], "pass interval"),  # the mean of two ratios, not the larger of them
    ("count", [1.0, 1.2], "pass interval"),
]


def waits(ratios: list[float]) -> list[Run]:
    """Runs of two ranks, the second of which waits this much longer."""
    return [
        Run(f"{i}.json", "test", tuple(series("wait", "s", [1 + r * (ratio - 1)] * 20, rank=str(r)) for r in range(2)))
        for i, ratio in enumerate(ratios)
    ]


@pytest.mark.parametrize(("statistic", "ratios", "expected"), RATIOS)
def test_the_ratio_is_one_number_a_run(statistic: str, ratios: list[float], expected: str) -> None:
    rule = f"  - wait {statistic} on the slowest rank at most 1.1x the median rank\n"
    (found,) = judge(case(rule, *waits(ratios), runs=0))
    assert f"{answer_of(found)} {found.reason}" == expected


@pytest.mark.parametrize(("statistic", "better"), [("", "lower"), ("p90", "lower"), ("count", "neither")])
def test_what_is_better_is_asked_of_the_statistic_and_not_of_the_ratio(statistic: str, better: str) -> None:
    (found,) = judge(case(f"  - wait {statistic} on the slowest rank within 5% of the median rank\n", *waits([1.0])))
    assert found.better == better


SIDES = [
    # unit, what the rule says of the fastest rank, its ratio to the median rank; the outcome
    ("s", "within 5% of the median rank", 0.5, "pass"),
    ("1", "within 5% of the median rank", 0.5, "fail"),  # nobody knows which direction is better: both are judged
    ("1", "within 5% of the median rank", 1.0, "pass"),
    ("s", "within ±5% of the median rank", 0.5, "fail"),
]
SLOWEST = [("s", 1.5, "fail"), ("1", 1.5, "fail"), ("1", 1.0, "pass"), ("1/s", 1.5, "pass")]


@pytest.mark.parametrize(("unit", "asks", "ratio", "outcome"), SIDES)
def test_both_sides_are_judged_where_no_direction_is_known(unit: str, asks: str, ratio: float, outcome: str) -> None:
    values = (ratio, 1.0, 1.0)
    ranks = tuple(series("blob", unit, [value] * 20, rank=str(r)) for r, value in enumerate(values))
    (found,) = judge(case(f"  - blob on the fastest rank {asks}\n", Run("new.json", "test", ranks), runs=0))
    assert found.outcome == outcome


@pytest.mark.parametrize(("unit", "ratio", "outcome"), SLOWEST)
def test_the_largest_of_what_has_no_direction_is_judged_too(unit: str, ratio: float, outcome: str) -> None:
    ranks = tuple(series("blob", unit, [value] * 20, rank=str(r)) for r, value in enumerate((ratio, 1.0, 1.0)))
    (found,) = judge(
        case("  - blob on the slowest rank within 5% of the median rank\n", Run("new.json", "test", ranks))
    )
    assert found.outcome == outcome
