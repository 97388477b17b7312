"""The effects of two factors against the least squares of a design matrix, and against simulated histories."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from perfgate.stats.sequential import nominal_levels
from perfgate.stats.two_factors import CELLS, LogEffect, two_factors

CODE, ENVIRONMENT = {"new-code", "new"}, {"new-environment", "new"}


def drawn(
    rng: np.random.Generator, noise: float, repetitions: int, code: float = 0.05, environment: float = 0.0
) -> dict[str, list[float]]:
    """Logarithms of a metric; each repetition has a level of its own."""
    shared = rng.normal(0, 0.1, repetitions)
    levels = {cell: code * (cell in CODE) + environment * (cell in ENVIRONMENT) for cell in CELLS}
    return {cell: (level + shared + rng.normal(0, noise, repetitions)).tolist() for cell, level in levels.items()}


@pytest.mark.parametrize("missing", ["", "new-code", "new-environment"])
def test_effects_are_those_of_least_squares(missing: str) -> None:
    logs = {cell: row for cell, row in drawn(np.random.default_rng(1), 0.02, 5).items() if cell != missing}
    rows = [(cell, at) for cell in logs for at in range(5)]
    blocks = [[float(at == place) for place in range(5)] for _, at in rows]
    factors = [[float(cell in CODE), float(cell in ENVIRONMENT)] for cell, _ in rows]
    if missing:  # without an interaction, the mean of both effects of each factor
        design = np.array([[*block, *factor] for block, factor in zip(blocks, factors, strict=True)])
    else:
        design = np.array([[*b, *f, (f[0] - 0.5) * (f[1] - 0.5)] for b, f in zip(blocks, factors, strict=True)])
    expected, rest, *_ = np.linalg.lstsq(design, np.array([logs[cell][at] for cell, at in rows]), rcond=None)
    found = two_factors(logs, 5)
    assert found is not None
    assert [found.code.estimate, found.environment.estimate] == pytest.approx(expected[5:7])
    assert (found.interaction is None) == bool(missing)
    if found.interaction is not None:
        assert found.interaction.estimate == pytest.approx(expected[7])
        freedom = len(rows) - design.shape[1]
        deviation = math.sqrt(rest[0] / freedom)
        ratio = (found.interaction.high - found.interaction.low) / (found.code.high - found.code.low)
        assert ratio == pytest.approx(2)  # its weights are twice as large
        assert 2 < (found.code.high - found.code.low) / 2 / (deviation / math.sqrt(5)) < 8


def test_what_a_repetition_shares_cancels() -> None:
    logs = {"base": [0.0, 9.0], "new-code": [0.1, 9.1], "new-environment": [0.02, 9.02], "new": [0.12, 9.12]}
    found = two_factors(logs, 10)
    assert found is not None
    assert (found.code.low, found.code.high) == (pytest.approx(0.1), pytest.approx(0.1))
    assert (found.environment.estimate, found.code.is_clear) == (pytest.approx(0.02), True)


@pytest.mark.parametrize(("low", "high", "is_clear"), [(0.1, 0.2, True), (-2, -1, True), (0, 1, False), (-1, 0, False)])
def test_an_effect_is_clear_if_its_interval_excludes_0(low: float, high: float, is_clear: bool) -> None:
    assert LogEffect((low + high) / 2, low, high).is_clear is is_clear


def test_an_exact_program_that_did_not_change_has_no_clear_effect() -> None:
    found = two_factors({cell: [math.log(0.1)] * 3 for cell in CELLS}, 10)
    assert found is not None
    assert not found.code.is_clear
    assert not found.environment.is_clear


@pytest.mark.parametrize(
    "logs",
    [
        {},
        {cell: [0.0] for cell in CELLS},  # one repetition has no noise
        {cell: [0.0, 0.0] for cell in CELLS[1:]},
        {cell: [0.0, 0.0] for cell in CELLS[:3]},
        {"base": [0.0, 0.0], "new": [0.1, 0.1]},
    ],
)
def test_too_few_cells_or_repetitions_tell_nothing(logs: dict[str, list[float]]) -> None:
    assert two_factors(logs, 10) is None


def test_the_intervals_of_all_looks_keep_their_error_rate() -> None:
    rng, wrong, histories = np.random.default_rng(7), 0, 600
    for _ in range(histories):
        logs = drawn(rng, 0.01, 6, code=0.0)
        looks = [two_factors({cell: row[:count] for cell, row in logs.items()}, 6) for count in range(2, 7)]
        wrong += any(found is not None and found.code.is_clear for found in looks)
    assert wrong <= 15  # 1 % of them are 6; a Poisson variable with this mean is above 15 in .05 % of cases


@pytest.mark.parametrize(("count", "most"), [(2, 2), (2, 6), (5, 6), (6, 6), (7, 6)])
@pytest.mark.parametrize("missing", ["", "new-code", "new-environment"])
@pytest.mark.parametrize("error_rate", [0.01, 0.1])
def test_the_intervals_are_those_of_a_t_at_the_level_of_the_look(
    missing: str, count: int, most: int, error_rate: float
) -> None:
    """The noise is what repetition and cell do not explain; a look spends its share of half the error rate."""
    logs = {cell: row for cell, row in drawn(np.random.default_rng(count), 0.02, count).items() if cell != missing}
    found = two_factors(logs, most, error_rate)
    assert found is not None
    y = np.array(list(logs.values()))
    residuals = y - y.mean(axis=0) - y.mean(axis=1)[:, None] + y.mean()
    freedom = (len(y) - 1) * (count - 1)
    deviation = math.sqrt(float((residuals**2).sum()) / freedom)
    levels = nominal_levels(tuple(map(float, range(2, max(most, count) + 1))), error_rate / 2, 1.0)
    half = stats.t.isf(levels[count - 2], freedom) * deviation / math.sqrt(count)
    code, environment = (1.0, 1.0) if not missing else (math.sqrt(2), math.sqrt(2))
    for effect, wide in ((found.code, code), (found.environment, environment), (found.interaction, 2.0)):
        if effect is not None:
            assert (effect.high - effect.low) / 2 == pytest.approx(half * wide, rel=1e-6)
            assert effect.high + effect.low == pytest.approx(2 * effect.estimate, abs=1e-12)
            assert effect.is_clear == (abs(effect.estimate) > half * wide)
    assert two_factors(logs, most) == two_factors(logs, most, 0.01)
