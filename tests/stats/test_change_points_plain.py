"""Change points against a second source: the steps of the search in plain Python, one level at a time."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from statistics import median, pstdev
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import t as student

from perfgate.stats.change_point_search import candidates_of, partition, place, possible_places, prepare, refine
from perfgate.stats.change_points import _enough_runs, _excursions, _strengths, find_change_points

NAN = math.nan


class History(NamedTuple):
    """The runs that have a value: where they are, unclipped and clipped, their weights and their noise."""

    at: list[int]
    x: list[float]
    y: list[float]
    weights: list[float]
    noise: float
    unit: float
    offset: float
    logs: bool


def deciles(values: Sequence[float]) -> tuple[float, float]:
    low, high = np.quantile(values, (0.1, 0.9)).tolist()
    return low, high


def spread(values: Sequence[float]) -> float:
    """A standard deviation that outliers do not move."""
    low, high = deciles(values)
    return max(1.4826 * median(map(abs, values)), (high - low) / 2.563)


def prepared(values: Sequence[float], errors: Sequence[float]) -> History | None:
    at = [i for i, value in enumerate(values) if math.isfinite(value)]
    x, known = [values[i] for i in at], [errors[i] for i in at]
    if len(x) < 10 or min(x) == max(x):
        return None
    unit = median(map(abs, x)) or max(map(abs, x))
    logs = min(x) > 0
    scaled = [math.log(one / unit) if logs else one / unit for one in x]
    centres = [median(scaled[max(0, i - 4) : i + 5]) for i in range(len(x))]
    noise = 1.1 * spread([one - centre for one, centre in zip(scaled, centres, strict=True)])
    y = [min(max(one, c - 3 * noise), c + 3 * noise) for one, c in zip(scaled, centres, strict=True)]
    noise = max(noise or pstdev(y), 1e-9)
    squares = [
        (error / (one if logs else unit)) ** 2 if error > 0 else NAN for one, error in zip(x, known, strict=True)
    ]
    usual = median([one for one in squares if one == one] or [0.0])
    weights = [1.0 if one != one else noise**2 / (noise**2 + max(one - usual, 0.0)) for one in squares]
    offset = median(y)
    centred = ([one - offset for one in row] for row in (scaled, y))
    return History(at, *centred, [max(one, 1e-9) for one in weights], noise, unit, offset, logs)


def level(h: History, start: int, end: int) -> tuple[float, float, float]:
    """The weight, the mean and the variance of the clipped runs from one to before another."""
    w, y = h.weights[start:end], h.y[start:end]
    mean = sum(a * b for a, b in zip(w, y, strict=True)) / sum(w)
    return sum(w), mean, sum(a * (b - mean) ** 2 for a, b in zip(w, y, strict=True)) / sum(w)


def squares_of(h: History, start: int, end: int) -> float:
    weight, _, variance = level(h, start, end)
    return weight * variance


def candidates(h: History) -> list[int]:
    n, found = len(h.y), set()
    for reach in (3, 6, 12, 24):
        z = {}
        for i in range(reach, n - reach + 1):
            (w, before, _), (v, after, _) = level(h, i - reach, i), level(h, i, i + reach)
            z[i] = abs(after - before) / (h.noise * math.sqrt(1 / w + 1 / v))
        near = max(reach // 2, 1)
        found |= {i for i in z if z[i] > 2 and z[i] >= max(z.get(i + d, 0.0) for d in range(-near, near + 1))}
    return sorted(found)


def cheapest(h: History, places: Sequence[int]) -> list[int]:
    """The segmentation with the least squared error and penalty, of levels of 5 runs and a newest of 3."""
    n = len(h.y)
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for end in [*places, n]:
        ways = [
            (cost + squares_of(h, start, end) + 3 * h.noise**2 * math.log(n), [*points, start])
            for start, (cost, points) in best.items()
            if end - start >= (3 if end == n else 5)
        ]
        if ways:
            best[end] = min(ways, key=lambda way: way[0])
    return best[n][1][1:]


def split(h: History, start: int, place: int, end: int) -> float:
    return squares_of(h, start, place) + squares_of(h, place, end)


def refined(h: History, points: Sequence[int]) -> list[int]:
    bounds = [0, *points, len(h.y)]
    for _ in range(2):
        for j in range(1, len(bounds) - 1):
            start, own, end = bounds[j - 1 : j + 2]
            places = range(max(start + 1, own - 8), min(end - 1, own + 8) + 1)
            bounds[j] = min(places, key=lambda place: split(h, start, place, end))
    return bounds[1:-1]


def possible(h: History, start: int, point: int, end: int, below: float) -> tuple[int, int]:
    most = split(h, start, point, end) + 2 * below * h.noise**2
    places = range(max(start + 1, point - 8), min(end - 1, point + 8) + 1)
    close = [place for place in places if split(h, start, place, end) <= most + 1e-12]
    return close[0], close[-1]


def enough(h: History, points: Sequence[int]) -> bool:
    n, point = len(h.y), points[-1]
    first, _ = possible(h, points[-2] if len(points) > 1 else 0, point, n, 1)
    return n - point >= 4 and n - first >= 5


def inflation(residuals: Sequence[float]) -> float:
    n, square = len(residuals), sum(r * r for r in residuals) / len(residuals)
    if square <= 0:
        return 1.0
    total = 1.0
    for lag in range(1, 6):
        products = [a * b for a, b in zip(residuals[lag:], residuals[:-lag], strict=True)]
        total += 2 * (1 - lag / 6) * sum(products) / len(products) / square
    return max(total - 0.5 * 2.47 / math.sqrt(n), 1.0)


def strengths(h: History, points: Sequence[int]) -> list[tuple[float, float, float]]:
    """Of each point its t, the shift, and the smaller of both over what it must be."""
    bounds = [0, *points, len(h.y)]
    means = [level(h, start, end)[1] for start, end in itertools.pairwise(bounds)]
    of_run = [mean for mean, start, end in zip(means, bounds, bounds[1:], strict=False) for _ in range(start, end)]
    residuals = [y - mean for y, mean in zip(h.y, of_run, strict=True)]
    variance = sum(w * r * r for w, r in zip(h.weights, residuals, strict=True)) / sum(h.weights)
    variance, factor = max(variance, (0.3 * h.noise) ** 2), inflation(residuals)

    def pooled(side: tuple[float, float, float], prior: float) -> float:
        return (side[0] * side[2] + 5 * prior) / (side[0] + 5)

    found = []
    for start, point, end in zip(bounds, points, bounds[2:], strict=False):
        old, new = level(h, max(start, point - 90), point), level(h, point, min(end, point + 90))
        own, its = pooled(old, pooled(new, variance)), pooled(new, pooled(old, variance))
        error = factor * (own / old[0] + its / new[0]) + 2 * 0.15**2 * variance
        shift = new[1] - old[1]
        t, freedom = abs(shift) / math.sqrt(error), (old[0] + new[0]) / 2 - 1
        least = student.isf(2.5e-4, freedom) if freedom > 0 else math.inf
        found.append((t, shift, min(t / least, abs(shift) / math.sqrt((own + its) / 2))))
    return found


def excursions(h: History, points: Sequence[int], lasting: int) -> list[int]:
    bounds, found = [0, *points, len(h.y)], []
    for j in range(len(points) - 1):
        before, begin, end, after = bounds[j : j + 4]
        old = level(h, max(before, begin - 30), begin)[1]
        short, new = level(h, begin, end)[1], level(h, end, min(after, end + 30))[1]
        if end - begin < lasting and abs(new - old) < 0.5 * abs(short - old):
            found.append(j)
    return found


def pruned(h: History, points: list[int], lasting: int) -> list[int]:
    while points and not enough(h, points):
        points = points[:-1]
    while points:
        passes = [one[2] for one in strengths(h, points)]
        short = excursions(h, points, lasting)
        weakest = min(short or range(len(points)), key=lambda j: passes[j])
        if passes[weakest] >= 1 and not short:
            break
        points = points[:weakest] + points[weakest + 1 :]
        points = refined(h, points) if short else points
    return points


def newest_t(h: History, first: int, old: int) -> float:
    x, w = h.x[first:], h.weights[first:]
    centre = median(x[:old])
    size = spread([one - centre for one in x[:old]])
    if not size:
        return 0.0
    clipped = [min(max((one - centre) / size, -2.5), 2.5) for one in x]

    def of(part: slice) -> tuple[float, float, float]:
        weight = sum(w[part])
        mean = sum(a * b for a, b in zip(w[part], clipped[part], strict=True)) / weight
        return mean, sum(a * (b - mean) ** 2 for a, b in zip(w[part], clipped[part], strict=True)) / weight, weight

    (before, usual, runs), (after, own, few) = of(slice(old)), of(slice(old, None))
    pooled = (own * few + 5 * usual) / (few + 5)
    factor = inflation([one - before for one in clipped[:old]])
    return abs(after - before) / math.sqrt(factor * (pooled / few + usual / runs))


def with_newest(h: History, points: list[int]) -> list[int]:
    n = len(h.x)
    older = [point for point in points if n - point >= 9]
    if older != points and strengths(h, points)[-1][0] >= 7:
        return points
    best = (1.0, 0)
    for count in (5, 6, 7, 8):
        first = max(older[-1] if older else 0, n - count - 150)
        if (old := n - count - first) < 15:
            break
        p = 1e-4 if count == 5 else 1e-5
        best = max(best, (newest_t(h, first, old) / student.isf(p / 2, old / 2), n - count))
    if not best[1]:
        return older
    found = [*older, refined(h, [*older, best[1]])[-1]]
    return found if enough(h, found) else older


def off(h: History, points: Sequence[int], j: int, place: int) -> float:
    """The absolute deviations of the unclipped runs around a point from its two levels, if it were in another place."""
    bounds = [0, *points, len(h.y)]
    old, new = level(h, bounds[j], bounds[j + 1])[1], level(h, bounds[j + 1], bounds[j + 2])[1]
    near = range(max(bounds[j] + 1, points[j] - 3), min(bounds[j + 2] - 1, points[j] + 3))
    return sum(h.weights[i] * abs(h.x[i] - (new if i >= place else old)) for i in near)


def placed(h: History, points: Sequence[int]) -> list[int]:
    bounds, found = [0, *points, len(h.y)], [0]
    for j, point in enumerate(points):
        places = range(max(bounds[j] + 1, point - 3), min(bounds[j + 2] - 1, point + 3) + 1)
        found.append(max(min(places, key=lambda place, j=j: off(h, points, j, place)), found[-1] + 1))
    return found[1:]


def plain_points(values: Sequence[float], errors: Sequence[float], lasting: int = 9) -> list[tuple[float, ...]]:
    """Index, first, last; change, low, high, probability, before and after of each point."""
    h = prepared(values, errors)
    if h is None:
        return []
    points = pruned(h, refined(h, cheapest(h, candidates(h))), lasting)
    points = placed(h, with_newest(h, points))
    bounds, found = [0, *points, len(h.y)], []
    for j, (t, shift, _) in enumerate(strengths(h, points)):
        start, point, end = bounds[j : j + 3]
        old = level(h, max(start, point - 90), point)[1]
        half = 1.959963984540054 * abs(shift) / t
        before, after = (h.unit * (math.exp(y + h.offset) if h.logs else y + h.offset) for y in (old, old + shift))
        sizes = [math.expm1(d) if h.logs else d * h.unit / abs(before) for d in (shift, shift - half, shift + half)]
        odds = math.log(0.01 / 0.99) + t * t / 2 - math.log(1 + 1 / (1 / (point - start) + 1 / (end - point))) / 2
        places = (h.at[i] for i in (point, *possible(h, start, point, end, 3)))
        found.append((*places, *sizes, 1 / (1 + math.exp(-odds)), before, after))
    return found


def history(seed: int) -> tuple[list[float], list[float]]:
    """A history with levels, short levels, outliers, drift, correlation, missing runs, and errors of some runs."""
    rng = random.Random(seed)
    n, size = rng.choice([9, 12, 25, 40, 60, 60, 90, 230]), rng.choice([0.002, 0.01, 0.03])
    changes = [0.0] * n
    for _ in range(rng.choice([0, 1, 1, 2, 4])):
        at, change = rng.randrange(n), rng.choice([2.5, 4, -5, 8]) * size
        length = rng.choice([3, 7, 8, 9, 12, n, n])
        for i in range(at, min(n, at + length)):
            changes[i] += change
    if seed % 4 == 1:  # a newest level of a few runs
        newest = rng.choice([4, 6]) * size
        for i in range(n - rng.randint(3, 9), n):
            changes[i] += newest
    wander, remembers, level = 0.0, rng.choice([0, 0, 0.6]), rng.choice([250.0, 1.0, 0.0, -3.0])
    values = []
    for change in changes:
        wander = remembers * wander + rng.gauss(0, size)
        outlier = rng.choice([1, -0.5]) if rng.random() < 0.04 else 0.0
        log = change + wander + outlier
        values.append(level * math.exp(log) if level > 0 else level + log)
    errors = [abs(value) * size * rng.choice([0.3, 0.3, 4.0]) if rng.random() < 0.8 else 0.0 for value in values]
    values = [NAN if rng.random() < 0.05 else value for value in values]
    return values, errors if seed % 3 == 0 else [NAN] * n


@pytest.mark.parametrize("seeds", [range(at, at + 4) for at in range(0, 120, 4)], ids=str)
def test_points_are_those_of_plain_python(seeds: range) -> None:
    for seed in set(seeds) - {11}:  # of which two places are equally good, but for rounding
        values, errors = history(seed)
        lasting = 9 if seed % 5 else 6
        found = find_change_points(values, errors=errors, lasting=lasting)
        expected = plain_points(values, errors, lasting)
        assert [(p.index, p.first, p.last) for p in found] == [one[:3] for one in expected], seed
        for p, plain in zip(found, expected, strict=True):
            numbers = (p.change, p.low, p.high, p.before, p.after)
            assert numbers == pytest.approx((*plain[3:6], *plain[7:]), rel=1e-6, abs=1e-9)
            assert 1 - p.probability == pytest.approx(1 - plain[6], rel=1e-6, abs=1e-13)


def test_the_histories_have_points() -> None:
    """Many have several, and some a newest level of a few runs."""
    points = [(len(history(seed)[0]), find_change_points(history(seed)[0])) for seed in range(120)]
    assert sum(bool(one) for _, one in points) > 45
    assert sum(len(one) > 1 for _, one in points) > 15
    assert sum(bool(one) and n - one[-1].index < 9 for n, one in points) > 10


@pytest.mark.parametrize("seed", range(24))
def test_each_step_of_the_search_is_that_of_plain_python(seed: int) -> None:
    """From any points, not only good ones: nothing later heals what an earlier step misses."""
    for number in range(5):
        rng = random.Random(100 * seed + number)
        values, errors = history(200 + 5 * seed + number)
        plain, found = prepared(values, errors), prepare(values, errors)
        assert (plain is None) == (found is None)
        if plain is None or found is None:
            continue
        n = len(plain.y)
        assert candidates_of(found).tolist() == candidates(plain)
        some = sorted(rng.sample(range(1, n), min(n - 1, 20)))
        assert partition(found, np.array(some)) == cheapest(plain, some)
        for points in (
            sorted(rng.sample(range(1, n), rng.choice([1, 2, 3]))),
            sorted({n // 2, n - rng.randint(1, 4)}),
            sorted({*rng.sample(range(1, min(n - 1, 8)), 2), n - 4}),
        ):
            assert refine(found, points) == refined(plain, points)
            bounds = [0, *points, n]
            for start, point, end in zip(bounds, points, bounds[2:], strict=False):
                for below in (1, 3):
                    places = possible_places(found, start, point, end, below)
                    assert places == possible(plain, start, point, end, below)
            places, expected = place(found, points), placed(plain, points)
            for j, (one, other) in enumerate(zip(places, expected, strict=True)):  # two may be equally good
                deviations = [off(plain, points, j, at) for at in (one, other)]
                assert one == other or deviations[0] == pytest.approx(deviations[1], rel=1e-12)
            assert _enough_runs(found, points) == enough(plain, points)
            assert _excursions(found, points, 9).tolist() == excursions(plain, points, 9)
            for noise in (found.noise, 9 * found.noise):  # with much noise, a small variance is not believed
                t, shift, passes = _strengths(found._replace(noise=noise), points)
                of_points = strengths(plain._replace(noise=noise), points)
                for one in zip(t, shift, passes, of_points, strict=True):
                    assert one[:3] == pytest.approx(one[3], rel=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_ten_runs_may_have_a_point(seed: int) -> None:
    rng = random.Random(seed)
    values = [100 + rng.gauss(0, 1) + (80 if at > 4 else 0) for at in range(10 + seed % 3)]
    expected = plain_points(values, [NAN] * len(values))
    found = find_change_points(values)
    assert [(p.index, p.first, p.last) for p in found] == [one[:3] for one in expected] == [(5, 5, 5)]
    assert [(p.low, p.high) for p in found] == [pytest.approx(one[4:6]) for one in expected]
    assert [p.worse for p in found] == [True]  # if nobody says what is better, small values are


def test_most_values_may_be_zero() -> None:
    rng = random.Random(3)
    values = [0.0 if at % 5 else rng.gauss(0, 1) for at in range(30)] + [rng.gauss(9, 1) for _ in range(12)]
    expected = plain_points(values, [NAN] * len(values))
    assert [(p.index, p.first, p.last) for p in find_change_points(values)] == [one[:3] for one in expected]
    assert [one[0] for one in expected] == [30]
