"""The rules by which other tools decide, from their documented formulas: True is an alarm.

A rule sees base runs, oldest first, and new runs; a run is an array of step times; smaller is better. Tools
that compare single numbers are given the mean of each run, tools that compare samples are given the steps. None is run
with anything but its documented defaults.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

FloatArray: TypeAlias = npt.NDArray[np.float64]
Runs: TypeAlias = Sequence[FloatArray]


def benchstat_steps(base: Runs, new: Runs) -> bool:
    """Mann-Whitney U, two-sided at .05, with every step a sample, and a larger median.

    golang.org/x/perf, `benchmath.AssumeNothing` ("alpha 0.05"); Google Benchmark's `tools/compare.py` is the same.
    """
    b, x = np.concatenate(base), np.concatenate(new)
    return bool(stats.mannwhitneyu(x, b).pvalue < 0.05 and np.median(x) > np.median(b))


def benchstat_runs(base: Runs, new: Runs) -> bool:
    """The same with one number a run, as its manual advises: ten or more of each side are wanted."""
    b, x = _means(base), _means(new)
    return bool(stats.mannwhitneyu(x, b).pvalue < 0.05 and np.median(x) > np.median(b))


def pyperf(base: Runs, new: Runs) -> bool:
    """Student's t of all values, two-sided at 95 %: `pyperf compare_to`, documentation, "Compare two results"."""
    b, x = np.concatenate(base), np.concatenate(new)
    return bool(stats.ttest_ind(x, b).pvalue < 0.05 and x.mean() > b.mean())


def pytest_benchmark(base: Runs, new: Runs) -> bool:
    """`--benchmark-compare-fail=mean:5%` against the latest stored run: documentation, "Comparing past runs"."""
    return bool(new[0].mean() > 1.05 * base[-1].mean())


def github_action_benchmark(base: Runs, new: Runs) -> bool:
    """`alert-threshold`, 200 % of the latest stored run: its README."""
    return bool(new[0].mean() > 2 * base[-1].mean())


def criterion(base: Runs, new: Runs, resamples: int = 400) -> bool:
    """Bootstrap t below .05, and the 95 % interval of the change of the mean above the noise threshold of 1 %.

    criterion.rs, book, "Analysis process", and the defaults of its `Config`; it compares with the previous run only.
    """
    b, x = base[-1], new[0]
    rng = np.random.default_rng(zlib.crc32(np.concatenate([x, b]).tobytes()))
    pool = np.concatenate([x, b])
    mixed = pool[rng.integers(0, len(pool), (resamples, len(pool)))]
    observed, chance = _welch(x, b), _welch(mixed[:, : len(x)], mixed[:, len(x) :])
    p = float(np.mean(np.abs(chance) >= abs(observed)))
    means = [v[rng.integers(0, len(v), (resamples, len(v)))].mean(axis=1) for v in (x, b)]
    return bool(p < 0.05 and np.quantile(means[0] / means[1] - 1, 0.025) > 0.01)


def bencher(base: Runs, new: Runs) -> bool:
    """A t-test threshold with an upper boundary of .99: bencher.dev, "Thresholds & Alerts", its own example."""
    history = _means(base)
    if len(history) < 2:
        return False  # too few for a boundary, and no boundary is no alert
    return bool(_means(new)[0] > history.mean() + stats.t.ppf(0.99, len(history) - 1) * history.std(ddof=1))


def conbench(base: Runs, new: Runs) -> bool:
    """A lookback z-score beyond 5: conbench, "Lookback z-score method"."""
    history = _means(base)
    return bool(len(history) > 2 and _means(new)[0] - history.mean() > 5 * history.std(ddof=1))


def otava(base: Runs, new: Runs) -> bool:
    """A change point for the worse at the first new run: E-divisive splits, Student's t at p < .001.

    Fleming and others, "Hunter: Using change point detection to hunt for performance regressions" (2023), as
    apache-otava 0.7 computes it for a series shorter than its window of 50: weak points at ten times the p, then merged
    from the weakest on. Its standard deviations divide by n.
    """
    series = _means([*base, *new])
    points: list[int] = []
    while (candidate := _next_split(series, points)) is not None:
        if not _p_at(series, candidate, points) < 0.01:
            break
        points = sorted([*points, candidate])
    while points and max(_p_at(series, point, points) for point in points) >= 0.001:
        points.remove(max(points, key=lambda point: _p_at(series, point, points)))
    first = len(base)
    if first not in points:
        return False
    left, right = _sides(series, first, points)
    return bool(right.mean() > left.mean())


def medians(base: Runs, new: Runs) -> bool:
    """The plain rule that teams write themselves: 5 % over the median of the medians of all base runs."""
    b, x = (float(np.median([np.median(run) for run in runs])) for runs in (base, new))
    return x > 1.05 * b


#: Every rule by its name in the table.
PEERS: dict[str, Callable[[Runs, Runs], bool]] = {
    "benchstat, steps": benchstat_steps,
    "benchstat, one number a run": benchstat_runs,
    "pyperf compare_to": pyperf,
    "criterion": criterion,
    "pytest-benchmark mean:5%": pytest_benchmark,
    "github-action-benchmark 200%": github_action_benchmark,
    "Bencher t .99": bencher,
    "Conbench z 5": conbench,
    "Otava p .001": otava,
    "5% on medians": medians,
}
#: Those that take more than one new run, and are asked with three, too.
OF_SEVERAL_RUNS = ("benchstat, one number a run", "5% on medians")


def _means(runs: Runs) -> FloatArray:
    return np.array([run.mean() for run in runs])


def _welch(x: FloatArray, b: FloatArray) -> FloatArray:
    variance = x.var(axis=-1, ddof=1) / x.shape[-1] + b.var(axis=-1, ddof=1) / b.shape[-1]
    difference: FloatArray = (x.mean(axis=-1) - b.mean(axis=-1)) / np.sqrt(variance)
    return difference


def _sides(series: FloatArray, point: int, points: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    """The stretches before and after a point, up to the neighbouring points."""
    before = max((p for p in points if p < point), default=0)
    after = min((p for p in points if p > point), default=len(series))
    return series[before:point], series[point:after]


def _p_at(series: FloatArray, point: int, points: Sequence[int]) -> float:
    left, right = _sides(series, point, points)
    if len(left) + len(right) < 3:
        return 1.0
    found = stats.ttest_ind_from_stats(left.mean(), left.std(), len(left), right.mean(), right.std(), len(right))
    return float(found.pvalue)


def _next_split(series: FloatArray, points: Sequence[int]) -> int | None:
    """The split of any stretch with the largest divergence of Matteson and James (2014), with exponent 1."""
    edges = [0, *points, len(series)]
    found = [
        (_divergence(series[start:split], series[split:end]), split)
        for start, stop in pairwise(edges)
        for split in range(start + 1, stop)
        for end in range(split + 1, stop + 1)
    ]
    return max(found, default=(0.0, None), key=lambda row: row[0])[1]


def _divergence(x: FloatArray, y: FloatArray) -> float:
    n, m = len(x), len(y)
    between = np.abs(x[:, None] - y[None, :]).sum()
    inside_x = np.abs(x[:, None] - x[None, :]).sum() / 2
    inside_y = np.abs(y[:, None] - y[None, :]).sum() / 2
    value = 2 / (n + m) * between
    value -= 2 * m / (n + m) / (n - 1) * inside_x if n > 1 else 0
    value -= 2 * n / (n + m) / (m - 1) * inside_y if m > 1 else 0
    return float(value)
