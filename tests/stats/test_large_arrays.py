"""Values in temporary files: numpy's functions and the statistics of a run give what they give in memory."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pytest

from perfgate.large_values import array, numpy_functions
from perfgate.large_values.array import Spool
from perfgate.stats import large_runs
from perfgate.stats.bounds import quantile_limit
from perfgate.stats.statistics import describe, parse_statistic
from perfgate.stats.steady import kept_for_drawing, stalls, steady_run, two_modes
from perfgate.workspace.output_files import open_scratch

RNG = np.random.default_rng(5)
SMOOTH = RNG.lognormal(-1, 0.1, 3000) * (1 + np.exp(-np.arange(3000) / 20))
RUNS = {
    "continuous": SMOOTH,
    "a clock with ticks": np.round(SMOOTH, 2),
    "one value nearly always": np.where(RNG.random(3000) < 0.9, 0.25, SMOOTH),
    "equal": np.full(3000, 0.5),
    "two modes": np.where(np.arange(3000) % 7 < 3, SMOOTH, 3 + SMOOTH),
    "negative": SMOOTH - 0.4,
    "one slow value": np.where(np.arange(3000) == 1777, 1e6, SMOOTH),
    "drift": SMOOTH + np.arange(3000) / 3000,
    "a block and a bit": SMOOTH[:65],
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array, "BLOCK", 128)
    monkeypatch.setattr(numpy_functions, "CHUNK", 500)
    monkeypatch.setattr(numpy_functions, "_SAMPLES", 16)
    monkeypatch.setattr(large_runs, "_TRANSFORM", 1 << 9)


def outside(values: np.ndarray) -> np.ndarray:
    """The same values in a temporary file."""
    spool = Spool(values.dtype, open_scratch)
    spool.add(values)
    return spool.array(0, len(values))  # type: ignore[return-value]


@pytest.mark.parametrize("name", RUNS)
def test_numpy_functions_have_the_same_bits(name: str) -> None:
    x, y = RUNS[name], outside(RUNS[name])
    for function in (
        *(np.sort, np.median, np.diff, np.cumsum, np.mean, np.sum, np.var, np.min, np.max, np.argmin, np.argmax),
        *(np.unique, np.count_nonzero, np.abs, np.isfinite, lambda v: np.min(v, initial=0.0), lambda v: v.var(ddof=1)),
        *(lambda v: np.quantile(v, (0.001, 0.5, 0.99)), lambda v: np.clip(v, 0.3, 0.4), lambda v: v[v > 0.3]),
        *(lambda v: v[1:] - 2 * v[:-1], lambda v: (v <= 0.3).astype(np.float64).mean(), lambda v: 1 / v[7:]),
        *(lambda v: v[np.array([3, -1, 40])], lambda v: v[-1], lambda v: v[::-1], lambda v: (v > 9).any()),
        *(lambda v: (v > 0.35).max(), lambda v: (v > 0.35).min(), lambda v: (v > 0.35).all(), lambda v: (v > 9).max()),
        *(lambda v: (np.arange(len(x)) == len(x) - 1).max() and (v == x[-1]).max(), lambda v: (v == x[0]).min()),
        *(lambda v: np.isin(x[5:9], v), lambda v: np.isin(v, x[5:9]), lambda v: np.array_equal(v, x)),
        *(lambda v: v[x > 0.3], lambda v: v[np.array(5)]),  # a mask in memory, and one position
        *(lambda v: np.sort(v[11:]), lambda v: np.median(v[11:]), lambda v: np.concatenate([v, x[:3]])),
        *(lambda v: np.bincount((v * 10).clip(0).astype(np.int64), minlength=3)[:3], lambda v: v.tolist()),
    ):
        assert np.array_equal(np.asarray(function(y)), np.asarray(function(x)))


@pytest.mark.parametrize("size", [2999, 3000])
def test_the_median_of_whole_numbers_is_a_float(size: int) -> None:
    counts = np.arange(size)
    found = np.median(outside(counts))
    assert (found, found.dtype) == (np.median(counts), np.float64)


def test_infinities_and_nan_are_sorted_last() -> None:
    values = np.where(np.arange(3000) % 3 == 0, [np.nan, np.inf, -np.inf] * 1000, SMOOTH)
    assert np.array_equal(np.asarray(np.sort(outside(values))), np.sort(values), equal_nan=True)


def test_another_process_has_its_own_file() -> None:
    found = pickle.loads(pickle.dumps(outside(SMOOTH)[5:]))
    assert isinstance(found, array.LargeArray)
    assert np.array_equal(np.asarray(found), SMOOTH[5:])


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_measured_alike(name: str) -> None:
    x, y = RUNS[name], outside(RUNS[name])
    for better in ("lower", "higher", "neither"):
        run, other = steady_run(x, "auto", better), steady_run(y, "auto", better)
        assert (other.dropped, other.settled, other.clock_variance) == (run.dropped, run.settled, run.clock_variance)
    for statistic in ("mean", "median", "p99.9", "p5", "min", "max", "total", "count", "stddev", "cv", "trimmed_mean"):
        one, two = (describe(each, parse_statistic(statistic)) for each in (run, other))
        assert (two.value, two.n) == (one.value, one.n)
        for noise, same in ((one.n_effective, two.n_effective), (one.within_variance, two.within_variance)):
            assert same == (noise if noise is None else pytest.approx(noise, rel=1e-9))
    assert two_modes(y) == two_modes(x)
    assert kept_for_drawing(y, 40).tolist() == kept_for_drawing(x, 40).tolist()
    assert np.array_equal(np.asarray(stalls(y, "lower")), stalls(x, "lower"))


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("upper", [True, False])
def test_a_percentile_is_compared_with_a_bound_alike(name: str, upper: bool) -> None:
    bound = float(np.quantile(RUNS[name], 0.93))
    one, two = (
        quantile_limit([each, RUNS["drift"]], 0.95, bound, upper=upper, inclusive=True, confidence=0.95)
        for each in (RUNS[name], outside(RUNS[name]))
    )
    assert (two.estimate, two.low, two.high, two.n, two.share) == (one.estimate, one.low, one.high, one.n, one.share)
    assert two.n_effective == pytest.approx(one.n_effective, rel=1e-9)


def test_ranks_of_very_many_values_are_nearly_right(monkeypatch: pytest.MonkeyPatch) -> None:
    x = RUNS["a clock with ticks"]
    exact = np.asarray(large_runs.middle_ranks(outside(x)))
    monkeypatch.setattr(large_runs, "_KNOTS", 100)
    assert np.abs(np.asarray(large_runs.middle_ranks(outside(x))) - exact).max() <= 1.5 * len(x) / 99


def test_few_files_are_open_at_once() -> None:
    """A run may have a thousand long series, and a process only a thousand files."""
    many = [outside(SMOOTH) for _ in range(20)]
    before = len(os.listdir("/dev/fd"))
    sizes = [len(np.sort(one)) for one in many for _ in range(2)]
    assert set(sizes) == {3000}
    assert len(os.listdir("/dev/fd")) - before <= 8
