"""The posterior against two other computations: normal distributions of all values at once, and plain integration."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_posterior import ROWS, first_is_larger, hypotheses, made
from msgspec.structs import replace
from scipy.special import logsumexp
from scipy.stats import chi2, norm

from perfgate.bisect import measurements
from perfgate.bisect import posterior as module
from perfgate.bisect.measurements import STORED, Measurement, Model
from perfgate.bisect.posterior import Posterior, posterior
from perfgate.stats.distributions import FloatArray

RANDOM = np.random.default_rng(3)
GAP = 3
MEASURED = [0, 5, 5, 0, 2, 4, 3, 1]
VALUES = [
    Measurement(place, 1.0 + 0.05 * (place >= GAP) + float(RANDOM.normal(0, 0.02)), 0.5 * i, i // 5, 1e-4 * (i % 2))
    for i, place in enumerate(MEASURED)
]


#: The prior of no change, that of a second one, and the spreads of both sizes, relative to the larger one.
NOTHING, ANOTHER, SPREADS = 0.15, 0.15, (0.35, 0.5)


class Moments:
    """The weight of hypotheses, and its products with the mean and the second moment of two changes."""

    def __init__(self) -> None:
        self.weight, self.first, self.second = 0.0, np.zeros(2), np.zeros((2, 2))

    def add(self, weight: float, mean: FloatArray, covariance: FloatArray) -> None:
        count = len(mean)
        self.weight += weight
        self.first[:count] += weight * mean
        self.second[:count, :count] += weight * (covariance + np.outer(mean, mean))


def by_normal_distributions(
    model: Model, values: list[Measurement], noises: FloatArray
) -> tuple[dict[tuple[int, ...], Moments], float]:
    """The hypotheses by their gaps: each is one normal distribution of all values; and weight * noise^2."""
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
    found: dict[tuple[int, ...], Moments] = defaultdict(Moments)
    sizes, squares = module._sizes(model.tolerance), 0.0
    for noise, log_prior in zip(noises, module._log_noise_prior(model, noises), strict=True):
        base = known + noise**2 * np.diag([1 / one.runs for one in values])
        for gap_list in [(), *((g,) for g in gaps), *permutations(gaps, 2)]:
            steps = np.array([(places >= gap).astype(float) for gap in gap_list]).reshape(-1, len(y)).T
            prior = NOTHING if not gap_list else (1 - NOTHING) / len(gaps) / len(sizes)
            if len(gap_list) == 1 and len(gaps) > 1:
                prior *= 1 - ANOTHER
            if len(gap_list) == 2:
                prior *= ANOTHER / (len(gaps) - 1)
            for size in sizes if gap_list else [0.0]:
                spread = np.diag([(share * size) ** 2 for share in SPREADS[: len(gap_list)]])
                centre = np.array([size, 0.0])[: len(gap_list)]
                whole = base + steps @ spread @ steps.T
                rest, inverse = y - steps @ centre, np.linalg.inv(whole)
                log_density = -(rest @ inverse @ rest + np.linalg.slogdet(2 * math.pi * whole)[1]) / 2
                weight, gain = prior * math.exp(log_prior + log_density), spread @ steps.T @ inverse
                found[gap_list].add(weight, centre + gain @ rest, spread - gain @ steps @ spread)
                squares += weight * noise**2
    return found, squares


@pytest.mark.parametrize("kind", ["runs", "pairs", "stored", "few", "one gap", "two gaps"])
def test_it_is_the_mixture_of_all_hypotheses(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    noises = np.array([0.008, 0.03])
    monkeypatch.setattr(measurements, "noises_of", lambda model: noises)
    monkeypatch.setattr(module, "_sizes", lambda tolerance: np.array([tolerance, 3 * tolerance, -tolerance]))
    stored = (Measurement(0, 0.99, session=STORED, runs=5), Measurement(5, 1.06, session=STORED, runs=2))
    model = Model(6, 0.05, paired=kind == "pairs", tails=math.inf, stored=stored if kind == "stored" else ())
    values = [one for one in VALUES if kind != "few" or one.position in (0, 2, 5)]
    if model.paired:
        values = [Measurement(v.position, v.log_value - 1, within=v.within) for v in VALUES if v.position]
    if last := {"one gap": 1, "two gaps": 2}.get(kind):
        model = Model(last + 1, 0.05, tails=math.inf)
        values = [Measurement(min(v.position, last), v.log_value) for v in VALUES]
    by_gaps, squares = by_normal_distributions(model, values, noises)
    found = posterior(model, values)
    total = sum(one.weight for one in by_gaps.values())
    cell_of = np.searchsorted(found.edges, range(model.positions)) - 1
    by_cells: dict[tuple[int, ...], Moments] = defaultdict(Moments)
    for gaps, one in by_gaps.items():
        here = by_cells[(*(int(cell_of[gap]) for gap in gaps), -1, -1)[:2]]
        here.weight += one.weight
        here.first, here.second = here.first + one.first, here.second + one.second
    rows = found.hypotheses
    assert [tuple(cells) for cells in rows.cells.tolist()] == sorted(by_cells, key=lambda c: (c[0] >= 0, c[1] >= 0, c))
    largest, changed = np.zeros(len(found.cells)), np.zeros(len(found.cells))
    for number, cells in enumerate(tuple(cells) for cells in rows.cells.tolist()):
        wanted = by_cells[cells]
        mean, weight = wanted.first / wanted.weight, wanted.weight / total
        assert rows.weight[number] == pytest.approx(weight, rel=1e-5)
        assert rows.mean[number] == pytest.approx(mean, rel=1e-5, abs=1e-9)
        covariance = wanted.second / wanted.weight - np.outer(mean, mean)
        assert rows.covariance[number] == pytest.approx(covariance, rel=1e-4, abs=1e-9)
        if cells[0] >= 0:
            first = first_is_larger(mean, covariance)
            np.add.at(largest, list(cells), [weight * first, weight * (1 - first)] if cells[1] >= 0 else [weight, 0])
            changed[list({*cells} - {-1})] += weight  # two changes in one cell are counted once
    assert found.nothing == pytest.approx(by_gaps[()].weight / total, rel=1e-5)
    assert found.another == pytest.approx(sum(m.weight for g, m in by_gaps.items() if len(g) == 2) / total, rel=1e-5)
    assert found.changed == pytest.approx(changed, rel=1e-5)
    assert found.cells == pytest.approx(largest, rel=1e-3)
    assert found.noise == pytest.approx(math.sqrt(squares / total), rel=1e-5)
    assert found.log_density == pytest.approx(math.log(total), abs=1e-5)


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


# --- priors ----------------------------------------------------------------------------------------------------------

SIZES = [
    (0.05, 6),  # 0.098 doubled until a factor of 20 is reached, e^3
    (0.02, 8),
    (0.0, 12),  # as for 0.001
    (0.001, 12),
    (10.0, 1),  # above a factor of 20 at once
    (1000.0, 1),
]


@pytest.mark.parametrize(("tolerance", "count"), SIZES)
def test_sizes_begin_at_twice_the_tolerance_and_double_up_to_a_factor_of_20(tolerance: float, count: int) -> None:
    sizes = module._sizes(tolerance).tolist()
    up = [2 * math.log1p(tolerance or 0.001) * 2**i for i in range(count)]
    assert sizes == pytest.approx([*up, *(-size for size in up)])
    assert max(up) >= 3 > up[-2] if count > 1 else up[0] > 3


@pytest.mark.parametrize(("s0", "d0", "far"), [(0.01, 3.0, 1.0), (0.02, 30.0, 1.0), (0.01, 1e6, 2.0)])
def test_the_prior_of_the_noise_is_a_scaled_inverse_chi_square(s0: float, d0: float, far: float) -> None:
    """d0 s0^2 / noise^2 is chi-square, on a grid of logarithms; also where the grid is far from s0."""
    noises = far * s0 * np.exp(np.linspace(-0.3, 1.5, 9))
    ratios = d0 * (s0 / noises) ** 2
    wanted = chi2.logpdf(ratios, d0) + np.log(ratios)
    found = module._log_noise_prior(Model(2, s0=s0, d0=d0), noises)
    assert found == pytest.approx(wanted - logsumexp(wanted), rel=1e-6, abs=1e-6)


# --- the parts of the computation ------------------------------------------------------------------------------------


def test_the_moments_of_a_group_are_those_of_a_mixture() -> None:
    random = np.random.default_rng(1)
    shape = (2, 3, 2)
    log_weight, mean = random.normal(size=shape), random.normal(size=(*shape, 2))
    log_weight[..., 1] -= 2000  # so improbable that its weight is 0
    covariance = np.einsum("szhab,szhcb->szhac", *[random.normal(size=(*shape, 2, 2))] * 2)
    noises, log_total = np.array([0.1, 0.4]), 0.7
    group = module._Group(np.array([[0, 1], [1, 0]]), noises, log_weight, mean, covariance)
    weight, found_mean, found_covariance, squares = group.moments(log_total)
    share = np.exp(log_weight[..., 0] - log_total)
    points = [(share[i], mean[i][0], covariance[i][0]) for i in np.ndindex(2, 3)]
    total = sum(one for one, _, _ in points)
    first = sum(one * m for one, m, _ in points) / total
    second = sum(one * (c + np.outer(m, m)) for one, m, c in points) / total
    assert weight.tolist() == pytest.approx([total, 0])
    assert found_mean == pytest.approx(np.array([first, [0, 0]]))
    assert found_covariance[0] == pytest.approx(second - np.outer(first, first))
    assert squares == pytest.approx(share[0].sum() * 0.01 + share[1].sum() * 0.16)


def test_two_changes_are_computed_for_the_noises_that_are_probable_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    one: list[FloatArray] = []
    two: list[list[int]] = []
    one_change, two_changes = module._one_change, module._two_changes

    def keep_one(*words: Any) -> Any:
        group = one_change(*words)
        one.append(group.log_weight)
        return group

    def keep_two(*words: Any) -> Any:
        two.append(words[-1].tolist())
        return two_changes(*words)

    monkeypatch.setattr(module, "_one_change", keep_one)
    monkeypatch.setattr(module, "_two_changes", keep_two)
    posterior(Model(40, s0=0.05, tails=math.inf), [Measurement(0, 0.0), Measurement(39, 0.03), Measurement(20, 0.01)])
    share = np.exp(logsumexp(one[0], axis=(1, 2)) - logsumexp(one[0]))
    assert two == [[number for number, probability in enumerate(share) if probability > 1e-6]]
    assert (share < 1e-6).any()


def test_no_number_is_too_small_for_a_change_of_a_thousand_standard_deviations() -> None:
    values = [Measurement(p, 0.5 * (p > 1)) for p in (0, 2, 2, 0, 1)]
    model = Model(3, s0=5e-4, d0=1e5, tails=math.inf)
    found = posterior(model, values)
    assert found.nothing == 0
    assert found.cells == pytest.approx([0, 1], abs=1e-6)
    values.append(Measurement(1, 0.3))  # neither no change nor one is as probable as e^-1000
    assert posterior(model, values).another == pytest.approx(1)


@pytest.mark.parametrize("is_stored", [False, True])
def test_values_far_off_have_less_weight_twice(is_stored: bool) -> None:
    """(tails + 1) / (tails + r^2), from the posterior before; the means of stored runs keep theirs."""
    stored = (Measurement(0, 0.02, session=STORED, runs=9), Measurement(4, 0.07, session=STORED, runs=4))
    model = Model(5, 0.05, s0=0.01, d0=20.0, tails=6.0, stored=stored if is_stored else ())
    new = [Measurement(p, 0.06 * (p > 1) + off) for p, off in ((0, 0.0), (4, 0.2), (4, 0.01), (0, -0.01), (2, 0.0))]
    values, edges = [*model.stored, *new], np.array([0, 2, 4])
    wanted, design = module._weighed(model, values, edges, np.ones(len(values)))
    for _ in range(2):
        squares = design.squares(wanted.noise, wanted.hypotheses).tolist()
        weights = [1.0 if one.session == STORED else 7 / (6 + r) for one, r in zip(values, squares, strict=True)]
        wanted, design = module._weighed(model, values, edges, np.array(weights))
    found = posterior(model, new)
    assert min(weights) < 0.3
    assert (found.noise, found.nothing) == pytest.approx((wanted.noise, wanted.nothing), rel=1e-9)
    assert found.changed == pytest.approx(wanted.changed, rel=1e-9)


@pytest.mark.parametrize(
    ("positions", "measured"),
    [
        (3, ()),
        (3, (0, 1)),
        (3, (1, 2)),
        (3, (0, 1, 3)),
        (3, (-1, 2)),
        (3, (0, 2, 3)),
        (1, (0,)),
        (4, (0, 2)),
        (2, (0, 3)),
    ],
)
def test_the_ends_must_be_measured(positions: int, measured: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="measure the first and the last position first, and no position outside of"):
        posterior(Model(positions), [Measurement(place, 0.0) for place in measured])


@pytest.mark.parametrize(("paired", "measured"), [(False, (0, 1)), (False, (0, 1, 2)), (True, (1,)), (True, (3, 2))])
def test_of_pairs_the_last_position_is_enough(paired: bool, measured: tuple[int, ...]) -> None:
    found = posterior(Model(max(measured) + 1, paired=paired), [Measurement(place, 0.0) for place in measured])
    assert found.edges.tolist() == sorted({0, *measured})


def test_two_gaps_in_one_cell_may_have_two_changes_and_one_gap_may_not() -> None:
    for last, is_possible in ((1, False), (2, True)):
        found = posterior(Model(last + 1), [Measurement(0, 0.0), Measurement(last, 0.0)])
        assert (found.another > 0) == is_possible


# --- what a posterior answers ----------------------------------------------------------------------------------------


def test_the_larger_of_two_changes_is_that_of_an_integral() -> None:
    rows = [*ROWS, ((1, 2), 0.2, (0.04, 0.03), (0, 0, 0)), ((1, 2), 0.3, (-0.02, 0.03), (0, 0, 0))]
    wanted = np.array([0.0, 0.2, 0.3])  # sizes that are known
    for (first, second), weight, mean, (a, b, c) in ROWS[1:]:
        share = first_is_larger(np.array(mean), np.array([[a, c], [c, b]]))
        wanted[first] += weight * share
        wanted[second] += weight * (1 - share)
    found = hypotheses(rows)
    assert module._largest(found, found.weight, 3) == pytest.approx(wanted, rel=1e-5)


def test_without_a_cell_each_gap_has_its_part_of_its_cell() -> None:
    assert made().gap_probabilities() == pytest.approx([0.15, 0.15, 0.15, *[0.1125] * 4])


@pytest.mark.parametrize("cell", [0, 1, 2])
def test_with_a_cell_other_changes_count_if_there_is_none_in_it(cell: int) -> None:
    wanted = np.zeros(3)
    for cells, weight, mean, (a, b, c) in ROWS[1:]:
        share = first_is_larger(np.array(mean), np.array([[a, c], [c, b]]))
        for place, part in zip(cells, (share, 1 - share), strict=True):
            wanted[place] += weight * part * (cell not in cells)
    wanted[cell] = made().changed[cell]
    assert made().gap_probabilities(cell) == pytest.approx(np.repeat(wanted / [2, 1, 4], [2, 1, 4]))


@pytest.mark.parametrize(("cell", "words"), [(0, ()), (1, (0.9,)), (2, (0.95,))])
def test_the_change_in_a_cell_is_the_mixture_of_its_hypotheses(cell: int, words: tuple[float, ...]) -> None:
    parts = []
    for cells, weight, mean, (a, b, c) in ROWS:
        if cells[0] == cell:
            is_both = cells[1] == cell
            parts.append((weight, sum(mean), a + b + 2 * c) if is_both else (weight, mean[0], a))
    total = sum(weight for weight, _, _ in parts)
    found = made().change(cell, *words)
    assert found[0] == pytest.approx(sum(weight * mean for weight, mean, _ in parts) / total)
    for end, below in zip(found[1:], (0.05, 0.95) if words == (0.9,) else (0.025, 0.975), strict=True):
        at_end = sum(weight * norm.cdf(end, mean, math.sqrt(square)) for weight, mean, square in parts) / total
        assert at_end == pytest.approx(below, abs=1e-9)


@pytest.mark.parametrize("bound", [0.001, 0.02, 0.06])
def test_the_ends_differ_by_the_sum_of_the_changes(bound: float) -> None:
    wanted = 0.0
    for _, weight, mean, (a, b, c) in ROWS[1:]:
        ends = norm(sum(mean), math.sqrt(a + b + 2 * c))
        wanted += weight * (ends.sf(bound) + ends.cdf(-bound))
    assert made().exceeds(bound) == pytest.approx(wanted, rel=1e-6)


def mixed(*parts: tuple[float, float, float], confidence: float) -> tuple[float, float, float]:
    weight, mean, variance = np.array(parts).T
    return module._mixture(weight, mean, variance, confidence)


def test_the_interval_of_a_mixture() -> None:
    assert mixed((0.2, 3.0, 4.0), confidence=0.9) == pytest.approx((3, *norm.ppf((0.05, 0.95), 3, 2)))
    assert mixed((2, -3.0, 0.0), confidence=0.9) == pytest.approx((-3, -3, -3), abs=1e-7)  # known exactly
    # the least value that is exceeded with 75 %, and with 25 %
    assert mixed((1, 0, 0), (2, 1, 0), (1, 2, 0), confidence=0.5) == pytest.approx((1, 0, 1), abs=1e-7)
    assert mixed((1, -5, 1), (3, 5, 1), confidence=1.0) == pytest.approx((2.5, -14, 14))  # never wider than 9 spreads
    # each half in its own normal distribution, as far apart as they are
    assert mixed((1, -50, 1), (1, 50, 9), confidence=0.9) == pytest.approx(
        (0, -50 + norm.ppf(0.1), 50 + 3 * norm.ppf(0.9))
    )


# --- another machine -------------------------------------------------------------------------------------------------

#: On another machine, a stored mean has the density of the middle of a normal distribution of 10 %. Odds: 1 to 10.
OTHER = math.log(norm.pdf(0, 0, 0.1))
AGREED = [
    (1, OTHER + math.log(0.1 * 3) + 1e-6, True),  # 75 % for the same machine
    (1, OTHER + math.log(0.1 * 3) - 1e-6, False),
    (2, 2 * OTHER + math.log(0.1 * 3) + 1e-6, True),
    (2, 2 * OTHER + math.log(0.1 * 3) - 1e-6, False),
    (1, -1e5, False),
    (1, 1e5, True),
    (0, 1e5, False),
]


@pytest.mark.parametrize(("count", "log_density", "is_same"), AGREED)
def test_stored_runs_are_used_if_the_machine_is_the_same_with_75_percent(
    count: int, log_density: float, is_same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_density(model: Model, new: Any) -> Posterior:
        assert new == "new"
        return replace(made(), model=model, log_density=2.0 + (log_density if model.stored else 0))

    monkeypatch.setattr(module, "posterior", with_density)
    model = Model(8, stored=(Measurement(0, 0.0, session=STORED),) * count)
    assert module.agreed_posterior(model, "new").model.stored == (model.stored if is_same else ())  # type: ignore[arg-type]
    if log_density == 1e5 and count:
        monkeypatch.setattr(module, "_SAME", 1.0)  # it is 1 to the last digit, and that is at least 1
        assert module.agreed_posterior(model, "new").model.stored  # type: ignore[arg-type]
