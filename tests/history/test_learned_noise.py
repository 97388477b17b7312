"""The noise between remembered runs, and the runs since the baseline, of histories in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from histories import at, column, in_memory, run_at, steps
from scipy import stats

from perfgate.core import CalibratedPrior, Key, RememberedRuns
from perfgate.core.remembered_runs import HistoryRun, SeriesName
from perfgate.history import noise
from perfgate.history.noise import LearnedNoise, learned_priors, noise_between_runs, runs_since
from perfgate.history.store import StoredHistory
from perfgate.stats.history import DEFAULT, learned_prior

NORMAL = stats.zscore(np.random.default_rng(7).standard_normal(100))
NAN = math.nan
FORWARD = SeriesName(Key("forward"), "median")


# --- one series ------------------------------------------------------------------------------------------------------

BLOCKS = [
    ((0, 4), 20, []),
    ((0, 5), 20, [(0, 5)]),
    ((30, 34), 20, []),
    ((0, 29), 20, [(0, 29)]),
    ((0, 31), 20, [(0, 15), (15, 31)]),
    ((10, 61), 20, [(10, 27), (27, 44), (44, 61)]),
    ((7, 32), 10, [(7, 19), (19, 32)]),
]


@pytest.mark.parametrize(("level", "length", "blocks"), BLOCKS)
def test_a_level_is_cut_into_blocks_of_like_lengths(
    level: tuple[int, int], length: int, blocks: list[tuple[int, int]]
) -> None:
    assert list(noise._blocks(level, length)) == blocks


def test_a_block_has_twenty_runs_and_a_level_of_four_runs_shows_no_noise() -> None:
    assert [len(list(noise._blocks((0, count)))) for count in (4, 5, 29, 31)] == [0, 1, 1, 2]
    assert noise._BLOCK == 20
    assert LearnedNoise(DEFAULT, 10).wander == 0.0


def expected(values: Any, *bounds: int, within: float = 0.0) -> tuple[float, float]:
    """The noise and its degrees of freedom by the steps of the module, for blocks between these bounds."""
    logs = np.log(np.array(values))
    parts = [logs[start:end] for start, end in pairwise(bounds)]
    left = [part - stats.theilslopes(part).slope * np.arange(len(part)) for part in parts]
    residuals = np.concatenate([part - np.median(part) for part in left])
    freedom = len(residuals) - 2 * len(parts)
    scale = max(stats.median_abs_deviation(residuals, center=lambda x, axis: 0.0, scale="normal"), 0)
    scale = max(scale, stats.iqr(residuals, rng=(10, 90)) / 2.563)
    reach = 3 * scale * math.sqrt(len(residuals) / freedom)
    variance = float(np.square(np.clip(residuals, -reach, reach)).sum()) / freedom
    prior = learned_prior(variance, freedom, within, DEFAULT, 16.0)
    return prior.s0, prior.d0


QUIET = np.exp(0.02 * NORMAL)
STALL = np.where(np.arange(100) == 7, 3.0, QUIET)
STEP = np.where(np.arange(100) < 47, QUIET, 1.5 * QUIET)
ESTIMATES: list[tuple[Any, tuple[int, ...], float]] = [
    # values        bounds of the blocks  degrees of freedom: runs - 2 a block + 2, at most 16
    (QUIET[:10], (0, 10), 10.0),
    (QUIET[:15], (0, 15), 15.0),
    (QUIET[:17], (0, 17), 16.0),
    (QUIET[:29], (0, 29), 16.0),
    (QUIET[:31], (0, 15, 31), 16.0),
    (STALL[:20], (0, 20), 16.0),
    (STEP[:75], (0, 23, 47, 75), 16.0),
]


@pytest.mark.parametrize(("values", "bounds", "freedom"), ESTIMATES)
def test_the_noise_is_that_of_the_residuals_of_all_blocks(
    values: Sequence[float], bounds: tuple[int, ...], freedom: float
) -> None:
    found = noise_between_runs(np.array(values))
    assert found is not None
    assert (found.prior.s0, found.prior.d0) == pytest.approx(expected(values, *bounds), rel=1e-6)
    assert (found.prior.d0, found.runs) == (freedom, len(values))


def test_the_usual_noise_within_the_runs_is_subtracted() -> None:
    relative = np.array([0.01, 0.012, NAN, 0.5] * 5)
    for unit in (1.0, 1e-3, 1e3):
        values = unit * QUIET[:20]
        found = noise_between_runs(np.array([NAN, *values]), np.array([NAN, *(relative * values)]))
        assert found is not None
        assert found.prior.s0 == pytest.approx(expected(values, 0, 20, within=0.012**2)[0], rel=1e-6)
    unknown = noise_between_runs(QUIET[:20], np.full(20, NAN))
    assert unknown == noise_between_runs(QUIET[:20])


FEW: list[tuple[Sequence[float], int | None]] = [
    (QUIET[:10], 10),
    (QUIET[:9], None),
    ([*QUIET[:12], 0.0], None),
    ([*QUIET[:12], -1.0], None),
    ([1.0] * 12, None),
    ([*QUIET[:9], NAN, math.inf], None),
    ([*QUIET[:10], NAN], 10),
]


@pytest.mark.parametrize(("values", "runs"), FEW)
def test_ten_positive_numbers_that_differ_show_noise(values: Sequence[float], runs: int | None) -> None:
    found = noise_between_runs(np.array(values))
    assert (found.runs if found else None) == runs


@pytest.mark.parametrize(
    ("points", "runs"),
    [((4,), 26), ((5,), 30), ((4, 8, 12), 18), ((4, 8, 12, 16, 20), 10), ((4, 8, 12, 16, 20, 21), None)],
)
def test_runs_of_short_levels_do_not_count(
    points: tuple[int, ...], runs: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = [SimpleNamespace(index=one) for one in points]
    monkeypatch.setattr(noise, "find_change_points", lambda values, errors: ends)
    found = noise_between_runs(QUIET[:30])
    assert (found.runs if found else None) == runs


def test_a_run_with_a_large_error_makes_no_level() -> None:
    """The errors reach the search: a level of runs that say little is not a level."""
    values = 1e3 * np.where(np.arange(60) < 50, QUIET[:60], 1.08 * QUIET[:60])
    errors = np.where(np.arange(60) < 50, 0.001, 0.5) * values
    known, unknown = noise_between_runs(values, errors), noise_between_runs(values)
    assert known is not None
    assert unknown is not None
    assert known.prior.s0 > unknown.prior.s0
    same = noise_between_runs(values / 1e3, errors / 1e3)
    assert same is not None
    assert same.prior.s0 == pytest.approx(known.prior.s0)


# --- the wander of a level -------------------------------------------------------------------------------------------

MEANS = [0.0, 0.03, 0.05, 0.04, 0.02, 0.07, 0.09, 0.06]


def wander(means: Sequence[float], variance: float) -> float:
    """The wander of half blocks with these means."""
    steps_of_two = np.array(means)[2:] - np.array(means)[:-2]
    deviation = stats.median_abs_deviation(steps_of_two, scale="normal") / math.sqrt(2)
    return math.sqrt(max(deviation**2 - variance / 10, 0.0))


@pytest.mark.parametrize("variance", [0.0, 1e-4, 0.9])
def test_the_wander_is_that_of_means_at_a_distance_of_twenty_runs(variance: float) -> None:
    logs = np.repeat(MEANS, 10)
    assert noise._wander(logs, variance) == pytest.approx(wander(MEANS, variance), rel=1e-4)
    assert (wander(MEANS, variance) > 0) == (variance < 0.1)


def test_a_stall_counts_little_in_the_wander_on_either_side() -> None:
    variance = 4e-4  # values are clipped at 3 x 0.02 from the median of their half block
    for stall, mean in ((5.0, 0.006), (-5.0, -0.006), (0.05, 0.005)):
        logs = np.repeat(MEANS, 10)
        logs[[3, 13, 23, 73]] += stall
        moved = [one + mean * (i in (0, 1, 2, 7)) for i, one in enumerate(MEANS)]
        assert noise._wander(logs, variance) == pytest.approx(wander(moved, variance), rel=1e-4)


@pytest.mark.parametrize(("runs", "is_known"), [(74, False), (76, True), (80, True)])
def test_eight_half_blocks_show_the_wander(runs: int, is_known: bool) -> None:
    logs = np.repeat(MEANS, 10)[:runs]
    assert (noise._wander(logs, 1e-6) > 0) is is_known


def test_creep_is_no_wander() -> None:
    assert noise._wander(np.linspace(0.0, 1.0, 100), 0.0) == pytest.approx(0.0, abs=1e-9)
    found = noise_between_runs(np.exp(np.repeat(MEANS, 10) + 1e-3 * NORMAL[:80]))
    assert found is not None
    assert found.wander > 0.01


# --- the priors of a history -----------------------------------------------------------------------------------------


def history(values: Sequence[float], hosts: str = "", error: float = 0.0, **about: Any) -> StoredHistory:
    """Runs of main an hour apart, each on the host of its letter."""
    runs = [run_at(i, hosts[i] if hosts else "") for i in range(len(values))]
    return in_memory(runs, column(values, error=error, **about))


def priors(of: StoredHistory, **options: Any) -> tuple[CalibratedPrior, ...]:
    return learned_priors(of, **({"wanted": [FORWARD], "ref": "main"} | options))


def test_the_prior_of_a_series_has_its_name_and_branch() -> None:
    values = 0.1 * QUIET[:40]
    (found,) = priors(history(values, error=0.001))
    known = noise_between_runs(values, 0.001 * values)
    assert known is not None
    assert found == CalibratedPrior(
        Key("forward"), "median", "worst", known.prior.s0, known.prior.d0, 40, learned_from="main"
    )


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ({}, [40]),
        ({"ref": None}, [40]),
        ({"ref": "fix"}, []),
        ({"wanted": []}, []),
        ({"is_judged": lambda run: run.time < at(10)}, [30]),
        ({"is_judged": lambda run: run.time < at(31)}, []),
    ],
)
def test_the_wanted_series_of_a_branch_have_priors(options: dict[str, Any], runs: list[int]) -> None:
    assert [one.runs for one in priors(history(QUIET[:40]), **options)] == runs


def test_bytes_have_no_noise_and_a_series_without_any_is_left_out() -> None:
    assert priors(history(QUIET[:40], unit="B")) == ()
    assert priors(history([1.0] * 40)) == ()
    two = in_memory([run_at(i) for i in range(40)], column([1.0] * 40), column(QUIET[:20], range(20, 40)))
    assert [one.runs for one in priors(two)] == [20]
    assert priors(in_memory([]), ref=None) == ()


#: Two of five runs on host `b`, which is 6 % slower.
HOSTS = "abaab" * 20
MIXED = 0.1 * np.exp(0.01 * NORMAL + 0.06 * (np.array(list(HOSTS)) == "b"))


def test_the_differences_of_known_hosts_are_taken_out() -> None:
    both = history(MIXED, HOSTS)
    (mixed,), (apart,) = priors(both), priors(both, hosts=["a"])
    assert (mixed.hosts, apart.hosts) == (0, 1)
    assert mixed.s0 > 0.025
    assert apart.s0 == pytest.approx(0.01, rel=0.2)
    assert priors(both, hosts=["b"]) == (apart,)
    assert priors(both, hosts=["a", "c"])[0].hosts == 0
    assert priors(history(MIXED), hosts=["a"])[0].hosts == 0


def test_the_errors_are_relative_to_the_numbers_of_the_usual_host() -> None:
    (apart,) = priors(history(MIXED, HOSTS, error=0.008), hosts=["a"])
    (whole,) = priors(history(MIXED, HOSTS), hosts=["a"])
    assert apart.s0**2 == pytest.approx(whole.s0**2 - 0.008**2, rel=0.05)


@pytest.mark.parametrize("number", [0.0, -0.1])
def test_a_series_with_a_number_that_is_not_positive_has_no_prior(number: float) -> None:
    assert priors(history([*MIXED[:-1], number], HOSTS), hosts=["a"]) == ()
    assert len(priors(history(MIXED, HOSTS), hosts=["a"])) == 1


@pytest.mark.parametrize(
    ("stored", "wanders"), [(at(79), True), (at(80), False), (at(-1), True), (at(99), False), (None, False)]
)
def test_the_wander_counts_if_the_branch_has_twenty_newer_runs(stored: str | None, wanders: bool) -> None:
    waves = np.exp(0.03 * np.sin(np.arange(100) / 12) + 0.005 * NORMAL)
    (found,) = priors(history(waves), stored=stored)
    assert (found.wander > 0) is wanders
    runs = [run_at(i, ref="main" if i % 5 else "fix") for i in range(125)]
    on_main = in_memory(runs, column(np.exp(0.03 * np.sin(np.arange(125) / 12) + 0.005 * np.resize(NORMAL, 125))))
    assert [priors(on_main, stored=at(hour))[0].wander > 0 for hour in (99, 101)] == [True, False]


# --- the runs since the baseline -------------------------------------------------------------------------------------


def since(
    of: StoredHistory, hour: float, measured: bool = False, asked: list[str] | None = None, **options: Any
) -> list[RememberedRuns]:
    """The runs after this hour, and that git is asked at most once."""
    asked = [] if asked is None else asked

    def is_measured(branch: str) -> bool:
        asked.append(branch)
        return measured

    usual: dict[str, Any] = {"wanted": [FORWARD], "ref": "main", "is_judged": lambda run: False}
    found = runs_since(of, time=at(hour), is_measured=is_measured, **(usual | options))
    assert asked in ([], ["main"])
    assert asked or not found
    return list(found)


def test_the_runs_after_a_time_have_their_numbers_and_labels() -> None:
    commits = [run_at(i, commit=f"{i:040}" if i % 2 else None) for i in range(14)]
    one = column(0.1 * QUIET[:12], range(2, 14), error=0.01)
    one = column(0.1 * QUIET[:12], range(2, 14), errors=np.where(np.arange(12) == 11, NAN, one.errors))
    (found,) = since(in_memory(commits, one), 10, measured=True)
    assert found == RememberedRuns(
        *(Key("forward"), "median", "worst", "main"),
        tuple((0.1 * QUIET[9:12]).tolist()),
        found.variances,
        (f"{11:040}"[:10], at(12), f"{13:040}"[:10]),
        True,
    )
    assert found.variances == pytest.approx((1e-4, 1e-4, 0.0))


def test_only_runs_of_the_branch_that_are_not_judged_count() -> None:
    runs = [run_at(i, ref="fix" if i in (12, 15) else "main") for i in range(20)]
    of = in_memory(runs, column(QUIET[:20]))
    assert [len(one.values) for one in since(of, 9)] == [8]
    assert [len(one.values) for one in since(of, 9, is_judged=lambda run: run.time == at(11))] == [7]
    assert since(of, 9, ref="release") == []
    assert since(of, 19) == []
    asked: list[str] = []
    only_other = in_memory([run_at(i, ref="main" if i < 15 else "fix") for i in range(20)], column(QUIET[:20]))
    assert since(only_other, 14, asked=asked) == []
    assert asked == []
    nameless = in_memory([run_at(i, ref=None) for i in range(20)], column(QUIET[:20]))
    assert since(nameless, 9, ref=None) == []


@pytest.mark.parametrize(
    ("columns", "lengths"),
    [
        ([column(QUIET[:20])], [10]),
        ([column(QUIET[:20], unit="B")], []),
        ([column(QUIET[:20], name=SeriesName(Key("backward"), "median")), column(QUIET[:20])], [10]),
        ([column([]), column(QUIET[:20])], [10]),
        ([column([*QUIET[:19], 0.0])], []),
        ([column([*QUIET[:19], -1.0])], []),
        ([column(QUIET[:10]), column(QUIET[:12], range(3, 15))], [5]),
    ],
)
def test_wanted_series_with_positive_numbers_have_runs(columns: list[Any], lengths: list[int]) -> None:
    of = in_memory([run_at(i) for i in range(20)], *columns)
    assert [len(one.values) for one in since(of, 9)] == lengths


@pytest.mark.parametrize(
    ("levels", "hour", "first"),
    [
        (((20, 0.1), (15, 0.11)), 4, 20),
        (((20, 0.1), (15, 0.11)), 24, 25),
        (((20, 0.1), (15, 0.11), (15, 0.12)), 4, 35),
        (((20, 0.1), (15, 0.11), (15, 0.12), (15, 0.13)), 4, 50),
        (((20, 0.1),), -1, 0),
    ],
)
def test_the_runs_begin_with_the_last_level(levels: tuple[tuple[int, float], ...], hour: float, first: int) -> None:
    values = steps(*levels, noise=0.002)
    (found,) = since(history(values), hour)
    assert found.values == tuple(values[first:])


CUT = [
    # newest runs that are read, hour of the baseline, is the commit of main, are the runs known
    (20, -1, True, False),
    (20, -1, False, True),
    (21, -1, True, True),
    (20, 0, True, True),
]


@pytest.mark.parametrize(("newest", "hour", "measured", "known"), CUT)
def test_runs_whose_first_was_not_read_are_not_judged(
    newest: int, hour: float, measured: bool, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that were read are since the baseline, and there may be more; a change point begins the runs anew."""
    monkeypatch.setattr(noise, "NEWEST_RUNS", newest)
    assert bool(since(history(QUIET[:20]), hour, measured)) is known
    levels = steps((10, 0.1), (10, 0.12), noise=0.002)
    assert [len(one.values) for one in since(history(levels), hour, measured)] == [10]


def test_a_later_series_is_read_after_one_whose_first_run_was_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "NEWEST_RUNS", 20)
    two = [column(QUIET[:20]), column(steps((10, 0.1), (10, 0.12), noise=0.002))]
    runs: list[HistoryRun] = [run_at(i) for i in range(20)]
    assert [len(one.values) for one in since(in_memory(runs, *two), -1, True)] == [10]
