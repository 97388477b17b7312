"""Calibration: which runs and pairs show their noise, and why others do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import steady
from stories import bare, run_of, series

from perfgate import calibrate_prior
from perfgate.analysis.stored_runs import calibrate
from perfgate.core import Run


def drawn(count: int, *ranks: str, spread: float = 0.03, metric: str = "x", unit: str = "s") -> list[Run]:
    """Runs that differ by chance, each rank by itself."""
    rng = np.random.default_rng(4)
    return [
        run_of(
            *(
                series(metric, unit, steady(1 + spread * rng.standard_normal(), n=30, seed=100 * i + j), **labels)
                for j, labels in enumerate([{"rank": rank} for rank in ranks] or [{}])
            )
        )
        for i in range(count)
    ]


NONE = run_of(series("y", "s", [1.0] * 9))
COUNTS = [run_of(series("x", "1", [7.0] * 9)) for _ in range(6)]
FEW = "{} of {} can be used, and 5 are needed"

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    # a rule, the new runs (and the other sides of pairs), and why there is no noise
    ("x within 5% of baseline", {"new": drawn(4)}, "x: " + FEW.format("4 runs", 4)),
    ("x within 5% of baseline", {"new": [*drawn(4), NONE]}, "x: " + FEW.format("4 runs", 5)),
    ("x within 5% of baseline", {"new": COUNTS}, "x: it is a number of bytes or a count, compared without noise"),
    ("x within 5% of baseline", {"new": [NONE]}, "no run has a metric of `x within 5% of baseline`"),
    ("x within 5% of baseline", {"new": [*drawn(3), *drawn(3, unit="1/s")]}, "x: it has different units: 1/s and s"),
    (
        "x within 5% of baseline",
        {"new": drawn(4), "base": drawn(4), "pairing": "in-turn"},
        "x: " + FEW.format("4 pairs", 4),
    ),
    (
        "x within 5% of baseline",
        {"new": drawn(5), "base": [*drawn(4), NONE], "pairing": "in-turn"},
        "x: " + FEW.format("4 pairs", 5),
    ),
    (
        "x within 5% of baseline",
        {"new": [*drawn(1), *[NONE] * 4], "base": drawn(5), "pairing": "in-turn"},
        "x: " + FEW.format("1 pair", 5),
    ),
    (
        "x on each rank within 5% of baseline",
        {"new": [NONE] * 5, "base": drawn(5, "0", "1"), "pairing": "in-turn"},
        "x: " + FEW.format("0 pairs", 5),
    ),
    (
        "x on each rank within 5% of baseline",
        {"new": [*drawn(4, "0", "1"), *drawn(2, "0")]},
        "x: " + FEW.format("4 runs", 6),
    ),
    (
        "x on each rank within 5% of baseline",
        {"new": [*drawn(2, "0", "1"), *drawn(2, "0")]},
        "x: " + FEW.format("2 runs", 4),
    ),
]


@pytest.mark.parametrize(("rule", "held", "said"), REFUSED)
def test_what_shows_no_noise_is_said(rule: str, held: dict[str, Any], said: str) -> None:
    assert calibrate(bare(rule, **held)) == ([], [said])


def values(runs: list[Run], of: int = 0) -> list[Any]:
    return [run.series[of].values for run in runs]


def test_noise_is_that_of_the_runs_that_hold_the_metric() -> None:
    runs = drawn(7)
    (prior,), complaints = calibrate(bare("x within 5% of baseline", [*runs, NONE]))
    expected = calibrate_prior(values(runs))
    assert (prior.s0, prior.d0, prior.runs, prior.rank, prior.pairing) == (expected.s0, expected.d0, 7, "worst", None)
    assert not complaints


def test_ranks_share_their_mean_variance_and_the_least_weight() -> None:
    """Six runs of rank 0 and five of rank 1: what is pooled is worth as much as the fewer."""
    runs = [*drawn(5, "0", "1"), *drawn(1, "0", spread=0.1)]
    (prior,), _ = calibrate(bare("x on each rank within 5% of baseline", runs))
    one, two = calibrate_prior(values(runs)), calibrate_prior(values(runs[:5], 1))
    assert (one.d0, two.d0) == (7, 6)
    assert (prior.d0, prior.runs, prior.rank) == (6, 5, "each")
    assert prior.s0 == pytest.approx(((one.s0**2 + two.s0**2) / 2) ** 0.5)


def test_levels_are_no_noise() -> None:
    """Five runs at 1 s and five at 2 s, by turns, show eight differences of runs of one code."""
    runs = [
        run_of(series("x", "s", [value * factor for value in one.series[0].values]))
        for one in drawn(5, spread=0.01)
        for factor in (1, 2)
    ]
    rule = "x within 5% of baseline"
    ((apart,), _), ((together,), _) = calibrate(bare(rule, runs), ["a", "b"] * 5), calibrate(bare(rule, runs))
    assert (apart.d0, apart.runs, together.runs) == (8, 10, 10)
    assert apart.s0 < 0.02 < 0.2 < together.s0


@pytest.mark.parametrize("count", [5, 6])
@pytest.mark.parametrize(("pairing", "s0"), [("in-turn", 0.02), ("one-process", 0.003)])
def test_pairs_are_judged_by_their_ratios(pairing: str, s0: float, count: int) -> None:
    """What both sides share is no noise, and what is believed of pairs keeps its say."""
    base = drawn(count)
    (prior,), _ = calibrate(bare("x within 5% of baseline", base, base, pairing=pairing))
    assert (prior.runs, prior.d0, prior.pairing) == (count, count + 2, pairing)
    assert prior.s0 == pytest.approx(s0 * (2 / (count + 2)) ** 0.5)


def test_a_metric_has_one_prior_for_each_statistic_and_rank_whatever_its_rules_are() -> None:
    rules = "x within 9% of baseline\nx within 5% of baseline\nx p90 within 5% of baseline\na within 5% of baseline"
    runs = [run_of(*one.series, *other.series) for one, other in zip(drawn(5), drawn(5, metric="a"), strict=True)]
    priors, complaints = calibrate(bare(rules, runs))
    assert [(str(prior.key), prior.statistic) for prior in priors] == [("a", "median"), ("x", "median"), ("x", "p90")]
    assert not complaints


def test_each_level_needs_one_run_more() -> None:
    """The first run of a level shows its level, and only the others show the noise."""
    runs = [run_of(series("x", "s", steady(1 + 0.01 * i, n=20, seed=i)), source=str(i)) for i in range(6)]
    _, (said,) = calibrate(bare("x within 5% of baseline", runs), list("aabbcc"))
    assert said == "x: 6 runs of 6 can be used, and 7 are needed"
    assert calibrate(bare("x within 5% of baseline", runs), list("aaabbb"))[1] == []
