"""Steps of a panel against a second source: the same steps in plain Python, one series and one run at a time."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cache
from statistics import median

import numpy as np
import pytest
from msgspec.structs import astuple

from perfgate.stats.panel_steps import PanelStep, panel_steps

NAN = math.nan
Column = Sequence[float]


def known(values: Sequence[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def differences(column: Column) -> list[float]:
    """Each known value less the known one before it."""
    found, before = [], NAN
    for value in column:
        found.append(value - before)
        before = before if math.isnan(value) else value
    return found


def noise_before(columns: Sequence[Column], end: int) -> tuple[list[float], list[float], float]:
    """The noise of each series before a run, its degrees of freedom, and how alike the series move."""
    noise, freedom, z = [], [], []
    begin = max(0, end - 60)
    for column in columns:
        own = differences(column)[begin:end]
        sizes = sorted(map(abs, known(own)))
        if not sizes:
            noise, freedom = [*noise, NAN], [*freedom, 0.0]
            continue
        last = len(sizes) - 1
        usual = max(1.4826 * sizes[last // 2], sizes[9 * last // 10] / 1.645)
        one = max(math.sqrt(sum(min(size, 3 * usual) ** 2 for size in sizes) / 2 / len(sizes)), 5e-4)
        noise.append(one if len(sizes) >= 5 else NAN)
        freedom.append(0.6 * len(sizes))
        z.append([min(max(value / one / math.sqrt(2), -3), 3) for value in own])
    rows = [of_row for at in range(end - begin) if (of_row := known([column[at] for column in z]))]
    alike = median(sum(row) ** 2 / len(row) for row in rows) / 0.455 if rows else 1.0
    return noise, freedom, max(1.0, alike)


def z_of(old: Column, new: Column, noise: float, freedom: float, least: int) -> float:
    """The difference of two means as a normal quantile (Wallace 1959); 0 if too few runs are known."""
    old, new = known(old), known(new)
    if len(old) < least or len(new) < least or math.isnan(noise):
        return 0.0
    change = sum(new) / len(new) - sum(old) / len(old)
    t_squared = change**2 / (noise**2 * (1 / len(old) + 1 / len(new)))
    z = (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log(1 + t_squared / freedom))
    return math.copysign(z, change)


def evidence_of(z: Sequence[float], alike: float) -> float:
    """The evidence of a step in one series or in a tenth of all, less what is enough."""
    own = [math.log(0.9 + 0.1 * math.exp(one * one / 2)) for one in z]
    m = sum(one != 0 for one in z)
    return max(*own, (sum(own) - 0.106 * m) / alike) - 7 - math.log(1 + 0.1 * m)


def located(columns: Sequence[Column], end: int, place: int, floor: int) -> PanelStep | None:
    """The step without outliers: values are at most 3 times the noise outside of both medians."""
    noise, freedom, alike = noise_before(columns, end // 10 * 10)
    start = max(floor, place - 30)
    clipped = []
    for column, one in zip(columns, noise, strict=True):
        reach = 0.0 if math.isnan(one) else 3 * one
        middles = [median(part) for part in (known(column[start:place]), known(column[place:end])) if part]
        low, high = min(middles, default=NAN) - reach, max(middles, default=NAN) + reach
        clipped.append([value if math.isnan(value) else min(max(value, low), high) for value in column[start:end]])
    places = range(1, end - start)
    z = [
        [z_of(c[:at], c[at:], *of_column, 1) for c, *of_column in zip(clipped, noise, freedom, strict=True)]
        for at in places
    ]
    here = z[place - start - 1]
    if evidence_of(here, alike) <= 0:
        return None
    share = [math.exp(min(one * one / 2, 100)) for one in here]
    affected = [0.1 * one / (0.9 + 0.1 * one) for one in share]
    effect = 1 + (alike - 1) * sum(affected) / len(affected)
    fit = [sum(w * one * one / 2 for w, one in zip(affected, row, strict=True)) / effect for row in z]
    likely, best = [at for at in places if fit[at - 1] >= max(fit) - 3], fit.index(max(fit)) + 1
    if start + best > end - 5:
        return None
    return PanelStep(end - 1, start + best, start + likely[0], start + likely[-1], np.array(z[best - 1]))


def plain_steps(columns: Sequence[Column]) -> list[PanelStep]:
    """Look at the panel after each run, from the tenth on."""
    found: list[PanelStep] = []
    floor, noise_at = 0, cache(lambda tens: noise_before(columns, 10 * tens))
    for end in range(10, len(columns[0]) + 1):
        noise, freedom, alike = noise_at(end // 10)
        strengths = {}
        for span in (5, 7, 10, 14, 20):
            place = end - span
            start = max(place - 30, floor)
            if place - start >= 5:
                z = [z_of(c[start:place], c[place:end], *n, 4) for c, *n in zip(columns, noise, freedom, strict=True)]
                strengths[place] = evidence_of(z, alike)
        strongest = max(strengths, key=strengths.__getitem__, default=0)
        if strengths.get(strongest, 0) > 0 and (step := located(columns, end, strongest, floor)) is not None:
            found.append(step)
            floor = step.index
    return found


def panel(seed: int) -> list[list[float]]:
    """A panel of 1 to 12 series with steps, stalls, missing runs, and noise that the series share."""
    rng = random.Random(seed)
    n, m = rng.choice([10, 40, 60, 90]), rng.choice([1, 2, 4, 8])
    size, shares = rng.choice([1e-5, 0.01, 0.05]), rng.choice([0, 0, 0, 2])
    common = [shares * rng.gauss(0, size) for _ in range(n)]
    columns = [[rng.gauss(0, size) + one for one in common] for _ in range(m)]
    for _ in range(rng.choice([0, 1, 2, 2])):
        at, change = rng.randrange(n), rng.choice([4, -6, 20]) * max(size * (1 + shares), 1e-3)
        for column in rng.sample(columns, rng.randint(1, m)):
            column[at:] = [value + change for value in column[at:]]
    for column in columns:
        for at in range(n):
            if rng.random() < 0.01:
                column[at] += rng.choice([0.5, -3])
            if rng.random() < 0.05:
                column[at] = NAN
    if m > 2:
        columns[-1][: n // 2] = [NAN] * (n // 2)  # a new metric
    return columns


def compare(columns: list[list[float]]) -> list[PanelStep]:
    """Return the steps, which are those of plain Python."""
    found, expected = panel_steps(np.array(columns).T), plain_steps(columns)
    assert [astuple(s)[:4] for s in found] == [astuple(s)[:4] for s in expected]
    for step, plain in zip(found, expected, strict=True):
        assert step.z == pytest.approx(plain.z, rel=1e-6, abs=1e-9)
    return expected


@pytest.mark.parametrize(
    "seed",
    [
        *range(40),
        95,  # series that did not change decide where the step is
        887,  # two steps are clear with the same run, and the second is found with the next one
    ],
)
def test_steps_are_those_of_plain_python(seed: int) -> None:
    compare(panel(seed))


def test_the_panels_have_steps() -> None:
    assert sum(len(panel_steps(np.array(panel(seed)).T)) for seed in range(40)) >= 20


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_small_step_of_several_series_is_clear_with_the_same_run(share: float) -> None:
    """All or some of eight series change by one to two standard deviations; half of the panels lack one series."""
    rng = random.Random(9)
    seen = set()
    for number in range(12):
        columns = [[rng.gauss(0, 0.01) for _ in range(50)] for _ in range(8)]
        size = 0.01 * rng.uniform(1, 2) / share**0.2
        for column in columns[: int(8 * share)]:
            column[25:] = [value + size for value in column[25:]]
        if number % 2:
            columns[-1][18:] = [NAN] * 32
        seen.update(step.seen for step in compare(columns))
    assert len(seen) > 3


def quiet(n: int, *changes: tuple[int, float]) -> list[float]:
    """A series of little noise, with changes of its level."""
    rng = random.Random(n)
    return [rng.gauss(0, 0.01) + sum(size for at, size in changes if i >= at) for i in range(n)]


def lacking(column: list[float], *missing: int) -> list[float]:
    return [NAN if i in missing else value for i, value in enumerate(column)]


CASES = [
    # series, and the rows in which steps are seen
    ([quiet(10, (5, 1.0))], [9]),
    ([quiet(9, (5, 1.0))], []),
    ([quiet(90, (69, 1.0))], [73]),
    ([quiet(90, (70, 1.0))], [74]),
    # four known runs on each side are enough, and three are not
    ([lacking(quiet(50, (30, 1.0)), 31)], [34]),
    ([lacking(quiet(50, (30, 1.0)), *range(29))], []),
    # the noise is that of five differences before a tenth run
    ([lacking(quiet(50, (30, 1.0)), *range(24))], [34]),
    ([lacking(quiet(50, (30, 1.0)), *range(25))], [39]),
    # two series that are clear with the same run, one after the other
    ([lacking(quiet(60, (30, 2.0)), *range(31, 41)), lacking(quiet(60, (38, 1.0)), 39, 40)], [41, 42]),
    # a step needs five runs after the one before
    ([quiet(60, (30, 1.0), (34, 1.0))], [34, 39]),
    ([quiet(60, (30, 1.0), (36, -1.0))], [34, 40]),
    # a metric that is new, and has five differences in the row whose noise counts
    ([[NAN] * 14 + quiet(40, (12, 1.0)), quiet(54)], [30]),
    ([[NAN] * 15 + quiet(40, (12, 1.0)), quiet(55)], [31]),
    # no metric is known at first
    ([[NAN] * 25 + quiet(60, (30, 1.0))], [59]),
    ([[NAN] * 25], []),
]


@pytest.mark.parametrize(("columns", "seen"), CASES)
def test_the_run_with_which_a_step_is_clear(columns: list[list[float]], seen: list[int]) -> None:
    assert [step.seen for step in compare(columns)] == seen


def test_a_constant_on_top_changes_nothing() -> None:
    """Levels of 2^30, of which only the differences count, to the last digit."""
    column = np.round(np.array(quiet(60, (30, 0.05))) * 2**20) / 2**20
    found = [[(*astuple(s)[:4], s.z.tolist()) for s in panel_steps((column + top)[:, None])] for top in (0.0, 2.0**30)]
    assert found[0] == found[1] != []
