"""New runs of one program that disagree beyond noise are undecided, however good their middle is; rarely by chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import answer_of
from stories import bare, run_of, series

from perfgate.core import CalibratedPrior, Key, Run, Verdict
from perfgate.judge.verdicts import judge
from perfgate.stats.moderated import runs_disagree
from perfgate.stats.statistics import RunMeasure

QUIET = (0.999, 1.0, 1.001, 1.0, 1.0005)
#: Base runs at 5 % noise.
NOISY = (0.95, 1.0, 1.06, 1.02, 0.97)


def runs(*values: float, spread: float = 0.001) -> list[Run]:
    pattern = np.resize([-1.0, 1.0, 0.5, -0.5], 40) * spread
    return [run_of(series("x", "s", list(value * (1 + pattern)))) for value in values]


def of(rule: str, new: list[Run], base: list[Run], noise: float | None = None) -> Verdict:
    prior = () if noise is None else (CalibratedPrior(Key("x"), "median", "worst", noise, 8.0, 9),)
    (found,) = judge(bare(f"x within {rule} of baseline", new, base, priors=prior))
    return found


CASES: list[tuple[str, tuple[float, ...], tuple[float, ...], float | None, bool]] = [
    # a tolerance, the new runs, the stored ones, the calibrated noise, and whether the new runs disagree
    ("5%", (1.0, 1.0, 2.0), QUIET, None, True),
    ("5%", (1.0, 1.0, 2.0), QUIET[:1], None, True),
    ("5%", (1.0, 1.0, 2.0), QUIET[:3], None, True),
    ("5%", (1.0, 1.0, 2.0), NOISY, None, True),
    ("5%", (1.0, 2.0), QUIET, None, True),
    ("5%", (1.0, 1.0, 1.0, 1.0, 2.0), NOISY, None, True),
    ("5%", (1.0, 1.0, 1.1), QUIET, None, True),
    ("5%", (1.0, 1.0, 1.1), QUIET[:2], None, False),  # two runs tell little of the noise
    ("5%", (1.0, 1.0, 1.1), QUIET, 0.002, True),
    ("5%", (1.0, 1.0, 1.5), NOISY, 0.05, True),
    ("5%", (1.0, 1.0, 1.3), NOISY[:3], None, False),
    ("5%", (1.0, 1.02, 1.01), QUIET, 0.0001, False),  # within the tolerance they hide nothing
    ("150%", (1.0, 1.0, 2.0), QUIET, None, False),
    ("5%", (1.0,), QUIET, None, False),
]


@pytest.mark.parametrize(("tolerance", "new", "base", "noise", "disagree"), CASES)
def test_new_runs_that_disagree_do_not_pass(
    tolerance: str, new: tuple[float, ...], base: tuple[float, ...], noise: float | None, disagree: bool
) -> None:
    found = of(tolerance, runs(*new), runs(*base), noise)
    said = [text for text in (found.message, *found.notes) if "runs disagree" in text]
    assert bool(said) == disagree
    if disagree:
        assert answer_of(found) in ("suspect", "fail")
        assert found.exit_code in (1, 3)


def test_it_says_between_which_values_and_what_to_do() -> None:
    found = of("60%", runs(1.0, 1.0, 2.0), runs(*QUIET))
    assert (answer_of(found), found.reason, found.exit_code) == ("suspect", "runs-disagree", 3)
    assert found.message.startswith("the new runs disagree: from 1 s to 2.001 s, which is more than noise explains; x ")
    assert found.next_step.text == "the new runs disagree: run again; if they do again, see what one did differently"


def test_stored_runs_that_disagree_are_only_noted() -> None:
    found = of("60%", runs(1.0), runs(1.0, 1.0, 2.0, 1.0, 1.0))
    assert "the base runs disagree: from 1 s to 2.001 s, which is more than noise explains" in found.notes
    assert found.reason == "interval"


def test_noise_within_the_runs_explains_their_spread() -> None:
    noisy = [run_of(series("x", "s", [v, 4 * v] * 6)) for v in (1.0, 1.0, 1.9)]
    assert "disagree" not in of("5%", noisy, runs(*QUIET)).message


@pytest.mark.parametrize("base_runs", [1, 3, 5, 10])
def test_unchanged_runs_rarely_disagree(base_runs: int) -> None:
    """At most .5 % at any noise up to 10 %; of 20,000 draws a cell, the most were .41 %."""
    source, draws = np.random.default_rng(base_runs), 1500
    for noise in (0.01, 0.03, 0.05, 0.1):
        sides = np.exp(noise * source.standard_normal((draws, 3 + base_runs)))
        measures = [[RunMeasure(value, 40, 40.0, 0.0, 0, True) for value in row] for row in sides.tolist()]
        alarms = sum(runs_disagree(row[:3], row[3:], (0.01, 2.0), calibrated=False) for row in measures)
        assert alarms <= 0.005 * draws + 2.33 * math.sqrt(0.005 * draws)
