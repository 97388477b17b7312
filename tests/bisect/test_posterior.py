"""The posterior against two other computations: normal distributions of all values at once, and plain integration."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from perfgate.bisect import measurements
from perfgate.bisect import posterior as module
from perfgate.bisect.measurements import STORED, Measurement, Model
from perfgate.bisect.posterior import posterior

RANDOM = np.random.default_rng(3)
GAP = 3
MEASURED = [0, 5, 5, 0, 2, 4, 3, 1]
VALUES = [
    Measurement(place, 1.0 + 0.05 * (place >= GAP) + float(RANDOM.normal(0, 0.02)), 0.5 * i, i // 5, 1e-4 * (i % 2))
    for i, place in enumerate(MEASURED)
]


def by_normal_distributions(model: Model, values: list[Measurement]) -> dict[tuple[int, ...], float]:
    """The probability of each set of gaps: under each the values are one draw of a normal distribution."""
    values = [*model.stored, *values]
    y, hours = np.array([one.log_value for one in values]), np.array([one.hours for one in values])
    places, sessions = np.array([one.position for one in values]), np.array([one.session for one in values])
    known = np.diag([one.within for one in values])
    if model.paired:
        known = known + measurements._ORDER**2
    else:
        y = y - y[places == 0].mean()
        known = (
            known
            + measurements._LEVEL**2
            + measurements._DRIFT**2 * np.outer(hours - hours.mean(), hours - hours.mean())
        )
        known = known + measurements.MACHINE**2 * np.outer(sessions == STORED, sessions == STORED)
        for session in np.unique(sessions[sessions >= 0])[1:]:
            known = known + measurements._SESSION**2 * np.outer(sessions == session, sessions == session)
    gaps = range(1, model.positions)
    found: dict[tuple[int, ...], float] = {}
    noises = np.array([0.003, 0.01, 0.03])
    density = np.exp(module._log_noise_prior(model, noises))
    sizes = module._sizes(model.tolerance)
    parts = np.diag([1 / one.runs for one in values])
    for noise, weight in zip(noises, density, strict=True):
        base = known + noise**2 * parts
        found[()] = found.get((), 0) + weight * module._NOTHING * multivariate_normal.pdf(y, None, base)
        for gap_list in [(g,) for g in gaps] + list(permutations(gaps, 2)):
            steps = [(places >= gap).astype(float) for gap in gap_list]
            prior = (1 - module._NOTHING) / len(gaps) / len(sizes) * weight
            prior *= 1 - module._ANOTHER if len(steps) == 1 else module._ANOTHER / (len(gaps) - 1)
            for size in sizes:
                spread = base + (module._SIZE_SPREAD * size) ** 2 * np.outer(steps[0], steps[0])
                if len(steps) == 2:
                    spread = spread + (module._OTHER_SPREAD * size) ** 2 * np.outer(steps[1], steps[1])
                likelihood = multivariate_normal.pdf(y, size * steps[0], spread)
                found[gap_list] = found.get(gap_list, 0) + prior * likelihood
    total = sum(found.values())
    return {gap: weight / total for gap, weight in found.items()}


@pytest.mark.parametrize("kind", ["runs", "pairs", "stored", "few"])
def test_it_is_the_mixture_of_all_hypotheses(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "noises_of", lambda model: np.array([0.003, 0.01, 0.03]))
    stored = (Measurement(0, 0.99, session=STORED, runs=5), Measurement(5, 1.06, session=STORED, runs=2))
    model = Model(6, 0.05, paired=kind == "pairs", tails=math.inf, stored=stored if kind == "stored" else ())
    values = [one for one in VALUES if kind != "few" or one.position in (0, 2, 5)]
    if model.paired:
        values = [Measurement(v.position, v.log_value - 1, within=v.within) for v in VALUES if v.position]
    wanted = by_normal_distributions(model, values)
    found = posterior(model, values)
    assert found.nothing == pytest.approx(wanted[()], rel=1e-6)
    largest, changed = np.zeros(5), np.zeros(5)
    for gaps, probability in wanted.items():
        for number, gap in enumerate(gaps):
            changed[gap - 1] += probability
            largest[gap - 1] += probability * (number == 0)
    first = np.bincount(found.hypotheses.cells[1:, 0], found.hypotheses.weight[1:])
    assert first == pytest.approx(np.add.reduceat(largest, found.edges[:-1]), rel=1e-6)
    if kind == "few":  # two changes in one cell are counted once
        twice = sum(p for gaps, p in wanted.items() if len(gaps) == 2 and max(gaps) <= 2)
        assert found.changed[0] == pytest.approx(changed[:2].sum() - twice, rel=1e-6)
    else:
        assert found.changed == pytest.approx(changed, rel=1e-6)
        assert found.gap_probabilities() == pytest.approx(found.cells, rel=1e-6)
    assert found.cells.sum() + found.nothing == pytest.approx(1)


def test_a_change_is_what_plain_integration_gives() -> None:
    """Level and change on a grid, for one noise and one place."""
    values = [Measurement(p, v, within=4e-4) for p, v in ((0, 0.01), (1, 0.06), (1, 0.09), (0, -0.02))]
    model = Model(2, s0=1e-6, d0=1e6, tails=math.inf)  # only the noise within the runs is left
    found = posterior(model, values)
    noise = math.sqrt(4e-4 + 1e-12)
    levels, changes = np.linspace(-0.15, 0.15, 301), np.linspace(-0.5, 0.5, 2001)
    grid = np.ones((301, 2001))
    y0 = np.mean([0.01, -0.02])
    for one in values:
        grid *= norm.pdf(one.log_value - y0, levels[:, None] + one.position * changes, noise)
    grid *= norm.pdf(levels, 0, 1)[:, None]
    nothing = module._NOTHING * grid[:, 1000].sum() * (levels[1] - levels[0])
    prior = np.mean([norm.pdf(changes, s, module._SIZE_SPREAD * abs(s)) for s in module._sizes(0.02)], axis=0)
    weight = (1 - module._NOTHING) * (grid * prior).sum(axis=0) * (levels[1] - levels[0])
    step = changes[1] - changes[0]
    assert found.nothing == pytest.approx(nothing / (nothing + weight.sum() * step), rel=0.01)
    mean, low, high = found.change(0)
    cumulated = weight.cumsum() / weight.sum()
    assert mean == pytest.approx((weight * changes).sum() / weight.sum(), abs=2e-4)
    assert (low, high) == pytest.approx([changes[np.searchsorted(cumulated, p)] for p in (0.025, 0.975)], abs=2e-3)


@pytest.mark.parametrize(("first", "second"), [(0.06, 0.03), (0.03, 0.06), (-0.06, 0.03), (0.03, -0.06)])
def test_the_larger_of_two_changes_is_named_not_the_more_usual_one(first: float, second: float) -> None:
    values = [Measurement(p, first * (p >= 3) + second * (p >= 6), within=1e-5) for p in (0, 8, 2, 3, 5, 6) * 2]
    found = posterior(Model(9), values)
    cells = [int(edge) for edge in found.edges[1:]]
    assert found.cells[cells.index(3 if abs(first) > abs(second) else 6)] > 0.99
    assert min(found.changed[cells.index(3)], found.changed[cells.index(6)]) > 0.99


@given(st.lists(st.tuples(st.integers(0, 12), st.floats(-0.2, 0.2)), max_size=12), st.booleans(), st.floats(0.001, 0.1))
def test_the_probabilities_of_all_places_and_of_no_change_add_up_to_one(
    measured: list[tuple[int, float]], paired: bool, tolerance: float
) -> None:
    values = [Measurement(p, v, 0.1 * i) for i, (p, v) in enumerate([(0, 0.0), (12, 0.05), *measured])]
    found = posterior(Model(13, tolerance, paired=paired), [one for one in values if one.position or not paired])
    for cell in (None, *range(len(found.cells))):
        gaps = found.gap_probabilities(cell)
        assert gaps.sum() + found.nothing == pytest.approx(1)
        assert (gaps >= -1e-12).all()
        if cell is not None:
            assert gaps[found.edges[cell] : found.edges[cell + 1]].sum() == pytest.approx(found.changed[cell])


def test_drift_is_told_from_a_change() -> None:
    """2 % an hour, and the ends measured by turns: nothing changed."""
    values = [Measurement(place, 0.02 * i, float(i)) for i, place in enumerate((0, 9, 9, 0, 0, 9, 9, 0))]
    found = posterior(Model(10), values)
    assert found.nothing > 0.8
    assert found.drift == pytest.approx(0.02, abs=0.002)


def test_a_long_list_is_as_cheap_as_a_short_one() -> None:
    values = [Measurement(place, 0.0 if place < 7000 else 0.1) for place in (0, 9999, 4999, 7499)]
    found = posterior(Model(10_000), values)
    assert len(found.cells) == 3
    assert found.cells.argmax() == 1
    assert len(found.gap_probabilities()) == 9999


def test_the_ends_must_be_measured() -> None:
    with pytest.raises(ValueError, match="measure the first and the last position first"):
        posterior(Model(3), [Measurement(0, 0.0), Measurement(1, 0.0)])
