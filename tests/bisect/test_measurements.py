"""Stored runs of the ends, and the regression against normal distributions of all values at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from perfgate.bisect.measurements import (
    STORED,
    Design,
    Hypotheses,
    Measurement,
    Model,
    StoredEnds,
    ends_of_history,
    noises_of,
    stored_ends,
)
from perfgate.core import Key
from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun, SeriesName
from perfgate.core.run_history import ChangePoint, HistoryChange, HistorySeries
from perfgate.stats.history import DEFAULT


def test_a_measurement_and_a_model_that_say_no_more() -> None:
    """A lone run of the first session, and noise that only the default knows."""
    assert Measurement(3, 0.5) == Measurement(3, 0.5, hours=0.0, session=0, within=0.0, runs=1)
    assert Model(9) == Model(9, tolerance=0.02, s0=DEFAULT.s0, d0=DEFAULT.d0, paired=False, tails=10.0, stored=())
    assert noises_of(Model(9))[16] == pytest.approx(DEFAULT.s0)


# --- stored runs of the ends -----------------------------------------------------------------------------------------


def level(position: int, *logs: float) -> Measurement:
    mean: Any = pytest.approx(sum(logs) / len(logs))
    return Measurement(position, mean, session=STORED, runs=len(logs))


#: The logarithms of the stored values by position; the measurements; the sum of squares and its degrees of freedom.
ENDS: list[tuple[dict[int, list[float]], list[Measurement], tuple[float, int] | None]] = [
    ({0: [0.0, 0.2], 9: [1.0, 1.1, 1.3, 1.4]}, [level(0, 0.0, 0.2), level(9, 1.0, 1.1, 1.3, 1.4)], (0.02 + 0.1, 4)),
    ({0: [0.0, 0.2], 9: [1.0, 1.1, 1.3]}, [level(0, 0.0, 0.2), level(9, 1.0, 1.1, 1.3)], None),
    ({0: [-1.0, -1.1, -1.3, -1.4, -1.2], 9: []}, [level(0, -1.0, -1.1, -1.3, -1.4, -1.2)], (0.1, 4)),
    ({0: [], 9: [0.3] * 3}, [level(9, *[0.3] * 3)], None),
    ({0: [0.3] * 9, 9: []}, [level(0, *[0.3] * 9)], None),
    ({0: [0.1, 0.3] * 15, 9: [5.0]}, [level(0, *[0.1, 0.3] * 15), level(9, 5.0)], (0.3, 29)),
    ({0: [0.1, 0.3] * 16, 9: [5.0]}, [level(0, *[0.1, 0.3] * 16), level(9, 5.0)], (0.32, 31)),
    ({0: [], 9: []}, [], None),
]


@pytest.mark.parametrize(("logs", "levels", "noise"), ENDS)
def test_stored_values_are_a_mean_at_each_end_and_the_noise_around_both(
    logs: dict[int, list[float]], levels: list[Measurement], noise: tuple[float, int] | None
) -> None:
    found = stored_ends({place: [math.exp(one) for one in ones] for place, ones in logs.items()})
    assert found.levels == tuple(levels)
    if noise is None:
        assert found.noise is None
    else:
        assert found.noise == pytest.approx((math.sqrt(noise[0] / noise[1]), min(noise[1], 30)))


def test_values_without_a_logarithm_do_not_count() -> None:
    assert stored_ends({0: [0.0, -1.0, math.nan, 0.5]}) == StoredEnds((Measurement(0, math.log(0.5), session=STORED),))


@pytest.mark.parametrize(("value", "runs"), [(743146660.4250664, 28), (786444385.4446641, 15), (0.1, 6)])
def test_equal_runs_do_not_show_the_noise(value: float, runs: int) -> None:
    """Whatever their mean is rounded to."""
    assert stored_ends({0: [value] * runs}).noise is None


def history(commits: Sequence[int | None], values: Sequence[float], changes: Sequence[int]) -> HistorySeries:
    """Runs of these commits, and the runs that begin a new level."""
    runs = tuple(
        HistoryRun(str(at), "2026-01-01T00:00:00Z", None if one is None else f"c{one}")
        for at, one in enumerate(commits)
    )
    numbers, name = np.array(values), SeriesName(Key("forward"), "median")
    points = [ChangePoint(at, 0.1, 0.1, 0.1, 1.0, 1.0, 1.1, at, at, worse=True) for at in changes]
    found = tuple(
        HistoryChange(one, runs[one.index], runs[one.index - 1], runs[one.index], 1, None, None, ()) for one in points
    )
    return HistorySeries("gpt", "h200", name, "s", "lower", "samples", runs, *(numbers,) * 4, found, 0, 0.003)


#: The commits of the runs, the runs that begin a level, good, bad, and the runs that count for each.
RANGES: list[tuple[Sequence[int | None], list[int], int, int, list[int], list[int]]] = [
    ([*range(10)], [], 4, 7, [0, 1, 2, 3, 4], [7, 8, 9]),
    ([*range(10)], [6], 5, 6, [0, 1, 2, 3, 4, 5], [6, 7, 8, 9]),
    ([*range(10)], [2, 6, 9], 4, 7, [2, 3, 4], [7, 8]),
    ([*range(10)], [6], 6, 7, [6], [7, 8, 9]),
    ([*range(10)], [6], 4, 5, [0, 1, 2, 3, 4], [5]),
    ([0, 1, None, 99, 4, 6, None, 8], [5], 5, 7, [0, 1, 4], [7]),
    ([0, 1, 8, 9], [2], 77, 6, [], [2, 3]),
    ([0, 1, 8, 9], [2], 3, 77, [0, 1], []),
    ([2, 3, 4], [], 1, 5, [], []),
    ([4] * 40 + [6] * 40, [40], 4, 6, [*range(10, 40)], [*range(40, 70)]),
]


@pytest.mark.parametrize(("commits", "changes", "good", "bad", "before", "after"), RANGES)
def test_the_runs_of_the_levels_of_the_ends_count(
    commits: Sequence[int | None], changes: list[int], good: int, bad: int, before: list[int], after: list[int]
) -> None:
    """Those that are nearest to the range. 77 and 99 are on another branch; 5 was not measured."""
    values = [1.0 + 0.1 * at**2 for at in range(len(commits))]
    line = CommitLine.of("main", [CommitNote(f"c{at}", "", "ada", "") for at in range(10)])
    found = ends_of_history(history(commits, values, changes), line, f"c{good}", f"c{bad}", 12)
    wanted = {0: [values[at] for at in before], 12: [values[at] for at in after]}
    assert found == stored_ends(wanted)
    assert [(one.position, one.runs) for one in found.levels] == [
        (at, len(ones)) for at, ones in wanted.items() if ones
    ]


# --- the regression --------------------------------------------------------------------------------------------------

NOISES = [
    # s0, d0, the largest and the smallest noise as a factor: exp(12 standard errors), of at most .35 each
    (0.02, 50.0, 1.2),
    (0.01, 8.0, 3.0),
    (0.01, 2.0, 4.2),
    (0.01, 0.0, 4.2),
]


@pytest.mark.parametrize(("s0", "d0", "reach"), NOISES)
def test_the_noises_that_are_tried(s0: float, d0: float, reach: float) -> None:
    found = noises_of(Model(9, s0=s0, d0=d0))
    assert np.log(found / s0) == pytest.approx(np.linspace(-reach, reach, 33))


VALUES = [
    Measurement(place, 1.0 + 0.05 * (place >= 3) + offset, hours, session, within)
    for place, offset, hours, session, within in (
        (0, 0.01, 0.2, 0, 1e-4),
        (5, -0.02, 0.5, 0, 0.0),
        (5, 0.015, 1.0, 2, 3e-4),
        (0, 0.0, 2.5, 2, 0.0),
        (2, -0.01, 4.0, 3, 2e-4),
        (4, 0.03, 4.5, 3, 0.0),
    )
]
WEIGHTS = np.array([1.0, 0.5, 1.1, 0.9, 0.7, 1.0])
EDGES = np.array([0, 2, 4, 5])
KINDS = ("runs", "pairs", "stored")


def made(kind: str) -> tuple[Model, list[Measurement], Any]:
    """A model, the measurements, and their weights."""
    if kind == "pairs":
        return Model(6, paired=True), [one for one in VALUES if one.position], WEIGHTS[[1, 2, 4, 5]]
    if kind == "stored":
        stored = [
            Measurement(0, 0.99, session=STORED, runs=5, within=2e-5), Measurement(5, 1.06, session=STORED, runs=2)
        ]  # fmt: skip
        return Model(6, stored=tuple(stored)), [*stored, *VALUES], np.append([1.0, 1.0], WEIGHTS)
    return Model(6), VALUES, WEIGHTS


def prior_covariance(kind: str, one: Measurement, other: Measurement, hours: float) -> float:
    """The covariance of the level under which one measurement was made with that of another."""
    if kind == "pairs":
        return 0.006**2  # the order of the two programs
    same_session = one.session == other.session and one.session > 0
    return (
        1.0
        + 0.008**2 * (one.hours - hours) * (other.hours - hours)
        + (0.02**2 if same_session else 0.0)
        + (0.004**2 if one.session == other.session == STORED else 0.0)
    )


class Joint:
    """All measurements and the next one as a single draw of a normal distribution."""

    def __init__(self, kind: str, noise: float) -> None:
        self.model, values, weights = made(kind)
        self.design = Design.of(self.model, values, EDGES, weights)
        hours = sum(one.hours for one in values) / len(values)
        next_one = Measurement(1, 0.0, max(one.hours for one in values), max(one.session for one in values))
        everything = [*values, next_one]
        full = np.array([[prior_covariance(kind, a, b, hours) for b in everything] for a in everything])
        self.prior, self.to_next, self.of_next = full[:-1, :-1], full[-1, :-1], full[-1, -1]
        self.own = np.array([(noise**2 / one.runs + one.within) for one in values])
        self.covariance = self.prior + np.diag(self.own / weights)
        firsts = [one.log_value for one in values if one.position == 0]
        self.shift = sum(firsts) / len(firsts) if firsts else 0.0
        self.y = np.array([one.log_value for one in values]) - self.shift
        places = np.array([one.position for one in values])
        self.steps = np.stack([places >= low for low in (1, 3, 5)], axis=1).astype(float)
        self.hours = np.array([one.hours for one in values]) - hours

    def fitted(self, change: Any) -> Any:
        """The expected level at each measurement, for known changes."""
        return self.prior @ np.linalg.solve(self.covariance, self.y - self.steps @ change)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", [(0.0, 0.0, 0.0), (0.05, 0.0, 0.0), (-0.02, 0.0, 0.3), (0.01, 0.04, 0.07)])
def test_the_likelihood_is_that_of_a_normal_distribution(kind: str, change: tuple[float, ...]) -> None:
    design = Joint(kind, 1.0).design
    for at in (0, 8, 16, 30):
        joint, d = Joint(kind, float(design.noises[at])), np.array(change)
        wanted = multivariate_normal.logpdf(joint.y, joint.steps @ d, joint.covariance)
        found = design.constant[at] + design.products[at] @ d - d @ design.gram[at] @ d / 2
        assert found - len(joint.y) / 2 * math.log(2 * math.pi) == pytest.approx(wanted, rel=1e-6)
    assert design.shift == pytest.approx(joint.shift)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [0.003, 0.05])
def test_a_prediction_is_the_conditional_distribution_of_the_next_measurement(kind: str, noise: float) -> None:
    joint = Joint(kind, noise)
    found, gain = joint.design.predict(noise), np.linalg.solve(joint.covariance, joint.to_next)
    assert found.centre == pytest.approx(joint.shift + gain @ joint.y, rel=1e-6)
    assert found.pull == pytest.approx(gain @ joint.steps, rel=1e-6)
    single = [one.within for one in made(kind)[1] if one.runs == 1]
    variance = joint.of_next - gain @ joint.to_next + noise**2 + sum(single) / len(single)
    assert found.variance == pytest.approx(variance, rel=1e-6)


def test_a_prediction_from_stored_runs_alone_knows_no_noise_within_a_run() -> None:
    values = [Measurement(place, 0.1, session=STORED, within=1e-2, runs=4) for place in (0, 1)]
    design, noise = Design.of(Model(2), values, np.array([0, 1]), np.ones(2)), 0.01
    of_mean = 1.0 + 0.004**2 + (noise**2 / 4 + 1e-2) / 2
    assert design.predict(noise).variance == pytest.approx(1 - 1 / of_mean + noise**2)


def test_a_prediction_from_one_pair() -> None:
    design = Design.of(Model(2, paired=True), [Measurement(1, 0.1, within=4e-4)], np.array([0, 1]), np.ones(1))
    noise = 0.01
    order = 1 / (1 / 0.006**2 + 1 / (noise**2 + 4e-4))
    assert design.predict(noise).variance == pytest.approx(order + noise**2 + 4e-4)


#: No change, one in each cell, and two changes of which the second is smaller.
FOUND = Hypotheses(
    cells=np.array([[-1, -1], [0, -1], [1, -1], [2, -1], [1, 2]]),
    weight=np.array([0.1, 0.2, 0.3, 0.15, 0.25]),
    mean=np.array([[0.0, 0.0], [0.04, 0.0], [0.05, 0.0], [-0.03, 0.0], [0.06, 0.02]]),
    covariance=np.zeros((5, 2, 2)),
)


def changes() -> list[tuple[float, Any]]:
    """The probability of each hypothesis, and the change of each cell."""
    sizes = np.zeros((5, 3))
    for row, (cells, mean) in enumerate(zip(FOUND.cells, FOUND.mean, strict=True)):
        for cell, size in zip(cells, mean, strict=True):
            sizes[row, cell] += size * (cell >= 0)
    return list(zip(FOUND.weight.tolist(), sizes, strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [0.003, 0.05])
def test_the_squares_of_the_residuals_are_the_means_over_all_hypotheses(kind: str, noise: float) -> None:
    joint = Joint(kind, noise)
    wanted = sum(weight * (joint.y - joint.steps @ d - joint.fitted(d)) ** 2 for weight, d in changes()) / joint.own
    assert joint.design.squares(noise, FOUND) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_drift_is_the_mean_over_all_hypotheses(kind: str) -> None:
    joint = Joint(kind, 0.01)
    means = [(weight, np.linalg.solve(joint.covariance, joint.y - joint.steps @ d)) for weight, d in changes()]
    wanted = sum(weight * 0.008**2 * float(joint.hours @ by) for weight, by in means)
    assert joint.design.drift(0.01, FOUND) == pytest.approx(0.0 if kind == "pairs" else wanted, rel=1e-6)


def test_the_first_position_alone_sets_the_origin_of_the_values() -> None:
    """Level 1 % around 20 000 s: nothing is lost by a prior that expects about 1."""
    values = [Measurement(place, 9.9 + 0.1 * (place > 1)) for place in (0, 1, 2)]
    design = Design.of(Model(3), values, np.array([0, 1, 2]), np.ones(3))
    assert design.y == pytest.approx([0.0, 0.0, 0.1])
    assert design.shift == pytest.approx(9.9)
    assert Design.of(Model(3, paired=True), values, np.array([0, 1, 2]), np.ones(3)).shift == 0.0
