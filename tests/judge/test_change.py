"""One comparison of two sides: its answers row by row, its properties for any data, its level on simulated runs."""

import math

import numpy as np
import pytest
from conftest import answer_of
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple
from scipy import stats
from single import compare_once

from perfgate import calibrate_prior, measure_run
from perfgate.core.results import ChangeResult
from perfgate.judge.decide import change
from perfgate.judge.terms import ChangeTerms

STEADY = [100.0 + 0.1 * (i % 7) for i in range(30)]
NUMBERS = [100.0, 101.0, 99.0, 100.5, 99.5]


def scaled(factor, run=STEADY):
    return [factor * v for v in run]


OUTCOMES = [
    # what               base     new                  options                          outcome, reason
    ("the same", [STEADY] * 5, [STEADY], {"tolerance": 0.05}, "pass interval"),
    ("slower", [STEADY] * 5, [scaled(1.2)], {"tolerance": 0.05}, "fail interval"),
    ("faster", [STEADY] * 5, [scaled(0.8)], {"tolerance": 0.05}, "pass interval"),
    ("less, higher", [STEADY] * 5, [scaled(0.8)], {"tolerance": 0.05, "better": "higher"}, "fail interval"),
    ("less, neither", [STEADY] * 5, [scaled(0.8)], {"tolerance": 0.05, "better": "neither"}, "fail interval"),
    ("less, both sides", [STEADY] * 5, [scaled(0.8)], {"tolerance": 0.05, "two_sided": True}, "fail interval"),
    ("one against one", [STEADY], [scaled(1.02)], {"tolerance": 0.05}, "undecided interval"),
    ("suspect", NUMBERS, [106.5], {"tolerance": 0.05}, "suspect interval"),
    ("suspect, strict", NUMBERS, [106.5], {"tolerance": 0.05, "strict": True}, "fail interval"),
    ("suspect, three runs", NUMBERS, [107.0, 105.0, 106.0], {"tolerance": 0.055}, "suspect interval"),
    ("both kept", NUMBERS, [120.0], {"tolerance": 0.05, "tolerance_absolute": 30}, "pass interval"),
    ("both exceeded", NUMBERS, [120.0], {"tolerance": 0.05, "tolerance_absolute": 3}, "fail interval"),
    ("absolute alone", NUMBERS, [120.0], {"tolerance_absolute": 3}, "fail interval"),
    ("thin tail", [STEADY], [STEADY], {"tolerance": 0.5, "statistic": "p95"}, "undecided thin-tail"),
    ("p95 of numbers", NUMBERS, [100.0], {"tolerance": 0.05, "statistic": "p95"}, "pass interval"),
    ("exact, same", [8, 8], [8], {"tolerance": 0, "exact": True}, "pass exact"),
    ("exact, one more", [8, 8], [9], {"tolerance": 0, "exact": True}, "fail exact"),
    ("exact, they differ", [8, 9], [9], {"tolerance": 0, "exact": True}, "undecided interval"),
    ("both 0", [0, 0], [0], {"tolerance": 0.05}, "pass equal"),
    ("both -3", [-3], [-3], {"tolerance": 0.05}, "pass equal"),
    ("from 0", [0, 0], [3], {"tolerance": 0.05}, "error not-positive"),
    ("to 0", [3], [0], {"tolerance": 0.05, "exact": True}, "error not-positive"),
    ("0 to 3", [0], [3], {"tolerance_absolute": 2, "exact": True}, "fail exact"),
    ("0 to 2", [0], [2], {"tolerance_absolute": 2, "exact": True}, "pass exact"),
    ("0 to 1 or 3", [0], [1, 3], {"tolerance_absolute": 2, "exact": True}, "undecided exact"),
    ("0 to -3", [0], [-3], {"tolerance_absolute": 2, "exact": True, "better": "higher"}, "fail exact"),
    ("0 to -1", [0], [-1], {"tolerance_absolute": 2, "exact": True, "better": "higher"}, "pass exact"),
    ("-5 to -4 or -2", [-5], [-4, -2], {"tolerance_absolute": 2, "exact": True}, "undecided exact"),
    ("-6 or -5 to -4", [-6, -5], [-4], {"tolerance_absolute": 2, "exact": True}, "pass exact"),
    ("-6 or -5 to -4, less", [-6, -5], [-4], {"tolerance_absolute": 1.5, "exact": True}, "undecided exact"),
    ("-6 or -5 to -2", [-6, -5], [-2], {"tolerance_absolute": 2, "exact": True}, "fail exact"),
    ("5 to 0", [5], [0], {"tolerance_absolute": 2, "exact": True, "better": "higher"}, "fail exact"),
    ("-100 to -96", [-100], [-96], {"tolerance": 0.05, "tolerance_absolute": 2, "exact": True}, "pass exact"),
    ("no baseline, no run", [], [], {"tolerance": 0.05}, "error no-baseline"),
    ("no new run", [STEADY], [], {"tolerance": 0.05}, "error no-new-run"),
    ("empty before nan", [[]], [[math.nan]], {"tolerance": 0.05}, "error too-few-samples"),
    ("nan before few", [[1.0]], [[math.nan, 1.0]], {"tolerance": 0.05}, "error not-a-number"),
    ("infinite warm-up", [[math.inf, *STEADY]], [STEADY], {"tolerance": 0.05}, "error not-a-number"),
    ("few left", [STEADY], [[1.0, 1.0, 1.0]], {"tolerance": 0.05, "min_samples": 4}, "error too-few-samples"),
    ("few", [STEADY] * 3, [[1.0, 1.0]], {"tolerance": 0.05}, "pass interval"),
    ("few allowed", [STEADY], [STEADY[:3]], {"tolerance": 0.05, "min_samples": 3}, "pass interval"),
    ("half skipped", [STEADY] * 5, [STEADY], {"tolerance": 0.05, "warmup": 15}, "pass interval"),
    ("all skipped", [STEADY], [STEADY], {"tolerance": 0.05, "warmup": 30}, "error too-few-samples"),
    ("a sum beyond floats", [[1e308] * 9], [STEADY], {"tolerance": 1, "statistic": "total"}, "error not-a-number"),
]


@pytest.mark.parametrize(
    ("base", "new", "options", "expected"), [r[1:] for r in OUTCOMES], ids=[r[0] for r in OUTCOMES]
)
def test_outcome(base, new, options, expected):
    found = compare_once(base, new, **options)
    assert f"{answer_of(found)} {found.reason}" == expected


BAD = [
    ({}, "needs a tolerance"),
    ({"tolerance": -0.01}, "tolerance must be"),
    ({"tolerance": math.nan}, "tolerance must be"),
    ({"tolerance_absolute": math.inf}, "tolerance_absolute must be"),
    ({"tolerance": 0.05, "statistic": "average"}, "unknown statistic"),
    ({"tolerance": 0.05, "confidence": 0.5}, "confidence is"),
    ({"tolerance": 0.05, "confidence": 1.0}, "confidence is"),
    ({"tolerance": 0.05, "power": 1.0}, "power is"),
    ({"tolerance": 0.05, "better": "less"}, "better must be"),
    ({"tolerance": 0.05, "warmup": -1}, "warmup must be"),
    ({"tolerance": 0.05, "prior": (0.0, 2.0)}, "prior is"),
    ({"tolerance": 0.05, "prior": (0.01, math.nan)}, "prior is"),
    ({"tolerance": 0.05, "prior": (0.01, 0.0)}, "prior is"),
    ({"tolerance": 0.05, "prior": (math.inf, 2.0)}, "prior is"),
    ({"tolerance": 0.05, "prior": (0.01, math.inf)}, "prior is"),
    ({"tolerance": 0.05, "power": 0.0}, "power is"),
    ({"tolerance": math.inf}, "tolerance must be"),
    ({"tolerance": 0.05, "tolerance_absolute": -1}, "tolerance_absolute must be"),
    ({"tolerance": 0.05, "min_samples": 0}, "min_samples is"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options_are_refused_even_without_data(options, message):
    with pytest.raises(ValueError, match=message):
        compare_once([], [], **options)


GOOD = [
    {"tolerance": 0.0},
    {"tolerance_absolute": 0.0},
    {"tolerance": 2.0, "confidence": 0.501, "power": 0.01, "prior": (1e-9, 0.1), "min_samples": 1},
    {"tolerance": 0.5, "confidence": 0.999, "power": 0.99, "prior": (9.0, 99.0), "warmup": 0},
]


@pytest.mark.parametrize("options", GOOD)
def test_good_options_are_accepted(options):
    assert compare_once([], [], **options).reason == "no-baseline"


def test_what_nobody_says_is_that_of_the_contract():
    said = {
        "statistic": "median",
        "better": "lower",
        "two_sided": False,
        "confidence": 0.95,
        "power": 0.8,
        "warmup": "auto",
        "prior": (0.01, 2.0),
        "strict": False,
        "exact": False,
        "min_samples": 1,
    }
    base, new = [[300.0, *STEADY], [300.0, *STEADY[1:]]], [[300.0, 300.0, *scaled(1.03)]]
    unsaid = compare_once(base, new, tolerance=0.05)
    assert unsaid == compare_once(base, new, tolerance=0.05, **said)
    assert ChangeTerms(tolerance=0.05) == ChangeTerms(tolerance=0.05, tolerance_absolute=None, **said)
    for name, value in {"statistic": "mean", "better": "higher", "confidence": 0.9, "power": 0.9, "warmup": 0}.items():
        assert unsaid != compare_once(base, new, tolerance=0.05, **{name: value})
    assert compare_once([[8] * 4], [[9] * 4], tolerance=0, warmup=0).reason == "interval"
    assert compare_once([[8] * 3], [[9] * 4], tolerance=0, warmup=0, min_samples=4).reason == "too-few-samples"
    assert answer_of(compare_once(NUMBERS, [106.5], tolerance=0.05)) == "suspect"


def test_the_fields_are_those_of_the_contract():
    names = (
        "outcome reason suspect improved estimate low high log_change standard_error degrees_of_freedom "
        "p_no_change base_value new_value base_runs new_runs tolerance minimum_detectable_change runs_needed "
        "at_worst not_excluded excluded"
    )
    assert set(names.split()) <= set(ChangeResult.__struct_fields__)


def test_what_no_float_can_hold_is_none():
    found = compare_once([1e-300], [1e300], tolerance=0.05)
    assert (found.outcome, found.estimate, found.high) == ("fail", None, None)


def test_a_suspicion_that_fails_with_strict_is_still_told():
    assert compare_once(NUMBERS, [106.5], tolerance=0.05, strict=True).suspect


def test_the_applied_tolerance_is_the_wider_one():
    assert compare_once(NUMBERS, [100.0], tolerance=0.01, tolerance_absolute=5).tolerance == pytest.approx(
        5 / np.exp(np.log(NUMBERS).mean())
    )


def test_measured_runs_are_judged_alike():
    terms = ChangeTerms(tolerance=0.05, looks=None)
    base, new = [measure_run(r) for r in [STEADY] * 3], [measure_run(scaled(1.1))]
    assert change.judge_runs(base, new, terms) == compare_once([STEADY] * 3, [scaled(1.1)], tolerance=0.05)


# Properties for any data.

ANY_RUN = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=12),
    st.lists(st.integers(-3, 3), min_size=4, max_size=12),
    st.lists(st.floats(min_value=1e-320, max_value=1.7e308), min_size=4, max_size=12),
)
SAMPLE = st.lists(st.floats(90, 130), min_size=8, max_size=30)
SAMPLES = st.lists(SAMPLE, min_size=1, max_size=4)
RUNS = st.lists(st.one_of(st.floats(90, 130), SAMPLE), min_size=1, max_size=5)
STATISTICS = st.sampled_from(["median", "mean", "p90", "max", "min", "cv", "trimmed_mean", "total", "count"])
DIRECTIONS = st.sampled_from(["lower", "higher", "neither"])


@given(st.lists(ANY_RUN, max_size=5), st.lists(ANY_RUN, max_size=3), STATISTICS, DIRECTIONS, st.booleans())
def test_no_data_raise_and_no_result_is_infinite(base, new, statistic, better, exact):
    found = compare_once(
        base, new, statistic=statistic, tolerance=0.05, tolerance_absolute=1.0, better=better, exact=exact
    )
    numbers = [v for v in astuple(found) if isinstance(v, float)]
    assert all(math.isfinite(v) for v in numbers)


@given(RUNS, RUNS, STATISTICS, DIRECTIONS, st.floats(0, 0.5))
def test_outcome_and_interval_never_disagree(base, new, statistic, better, tolerance):
    found = compare_once(base, new, statistic=statistic, tolerance=tolerance, better=better)
    if found.reason != "interval":
        return
    low, high = found.low, math.inf if found.high is None else found.high
    worse = (better != "higher" and low > tolerance + 1e-9, better != "lower" and high < -tolerance - 1e-9)
    fine = (better == "higher" or high <= tolerance - 1e-9, better == "lower" or low >= -tolerance + 1e-9)
    assert found.outcome == "fail" or not any(worse)
    assert found.outcome == "pass" or not all(fine)
    if found.outcome == "fail" and not found.suspect:
        assert low > tolerance - 1e-9 or high < -tolerance + 1e-9
    if found.outcome == "pass":
        assert better == "higher" or high <= tolerance + 1e-9
        assert better == "lower" or low >= -tolerance - 1e-9


@given(RUNS, RUNS, STATISTICS, st.floats(0, 0.2), st.floats(0, 0.2))
def test_a_wider_tolerance_never_turns_pass_into_fail(base, new, statistic, tolerance, more):
    order = ["fail", "suspect", "undecided", "pass"]
    narrow = compare_once(base, new, statistic=statistic, tolerance=tolerance)
    wide = compare_once(base, new, statistic=statistic, tolerance=tolerance + more)
    if narrow.outcome in order:
        assert order.index(answer_of(wide)) >= order.index(answer_of(narrow))


@given(SAMPLES, SAMPLES, st.integers(-60, 60), STATISTICS)
def test_units_do_not_enter(base, new, exponent, statistic):
    def in_unit(runs):
        return [np.multiply(run, 2.0**exponent) for run in runs]

    one = compare_once(base, new, statistic=statistic, tolerance=0.05)
    other = compare_once(in_unit(base), in_unit(new), statistic=statistic, tolerance=0.05)
    assert (one.reason, one.runs_needed) == (other.reason, other.runs_needed)
    if one.reason != "not-positive":
        for name in ("estimate", "low", "standard_error", "degrees_of_freedom", "p_no_change"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=1e-12)


@given(st.lists(st.floats(90, 130), min_size=1, max_size=5), st.lists(st.floats(90, 130), min_size=1, max_size=3))
def test_better_higher_is_better_lower_of_the_reciprocals(base, new):
    """On numbers, where nothing is trimmed, only the tolerance differs: 1 - T is not 1 / (1 + T)."""
    up = compare_once(base, new, tolerance=0.05)
    down = compare_once([1 / v for v in base], [1 / v for v in new], tolerance=1 - 1 / 1.05, better="higher")
    assert down.log_change == pytest.approx(-up.log_change, abs=1e-12)
    assert down.p_no_change == pytest.approx(up.p_no_change, abs=1e-9)
    assert 1 + down.low == pytest.approx(1 / (1 + up.high), rel=1e-9)
    assert down.suspect == up.suspect or abs(up.p_no_change - 0.05) < 1e-9


@given(RUNS, RUNS, STATISTICS)
def test_the_same_input_gives_the_same_answer(base, new, statistic):
    first, second = (compare_once(base, new, statistic=statistic, tolerance=0.05) for _ in range(2))
    assert repr(first) == repr(second)


# Simulated levels; fixed seeds.


def simulated(seed, runs, spread=0.02, n=40):
    rng = np.random.default_rng(seed)
    return [100 * math.exp(rng.normal(0, spread)) * rng.lognormal(0, 0.03, n) for _ in range(runs)]


def test_false_alarms_at_tolerance_0_are_at_the_level():
    """500 comparisons of the same code with a calibrated prior: 5 % fail, within 3 binomial errors."""
    prior = calibrate_prior(simulated(10**6, 40))
    failed = 0
    for seed in range(500):
        *base, new = simulated(seed, 6)
        failed += compare_once(base, [new], tolerance=0, prior=(prior.s0, prior.d0)).outcome == "fail"
    assert failed / 500 == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / 500))


def test_a_change_as_large_as_detectable_is_found_with_the_promised_power():
    """Base runs of a calibrated noise, the new run slower by the minimum detectable change: 80 % fail."""
    prior = (0.02, 8.0)
    detectable = compare_once(simulated(1, 5), simulated(2, 1), tolerance=0.05, prior=prior)
    factor = 1 + detectable.minimum_detectable_change
    failed = 0
    for seed in range(300):
        *base, new = simulated(seed, 6)
        failed += compare_once(base, [factor * new], tolerance=0.05, prior=prior).outcome == "fail"
    assert 0.7 < failed / 300 < 0.92


# What is printed beside an outcome, against the formulas written out.

SIDES = [("lower", False), ("higher", False), ("neither", False), ("lower", True)]


@pytest.mark.parametrize(("better", "two_sided"), SIDES)
@pytest.mark.parametrize("tolerance", [0.0, 0.05, 0.2])
def test_what_would_be_seen_and_what_would_settle_it(better, two_sided, tolerance):
    found = compare_once(NUMBERS, [103.0], tolerance=tolerance, better=better, two_sided=two_sided)
    assert (found.base_runs, found.new_runs, found.degrees_of_freedom) == (5, 1, 6)
    t = stats.t.ppf(0.95, 6) + stats.t.ppf(0.8, 6)
    up, down = math.log(1 + tolerance), math.log(1 - tolerance)
    falls = better == "higher" and not two_sided
    seen = 1 - math.exp(down - t * found.standard_error) if falls else math.exp(up + t * found.standard_error) - 1
    assert found.minimum_detectable_change == pytest.approx(seen)
    spread = found.standard_error / math.sqrt(1 / 5 + 1)
    reach = {m: stats.t.ppf(0.95, 5 + m) + stats.t.ppf(0.8, 5 + m) for m in range(1, 21)}
    room = -down if falls else up
    enough = [m for m, sum_of_t in reach.items() if sum_of_t * spread * math.sqrt(1 / 5 + 1 / m) <= room]
    assert found.runs_needed == (enough[0] if enough else None)


def test_an_interval_is_that_of_the_logarithm():
    found = compare_once(NUMBERS, [103.0, 104.0], tolerance=0.05, confidence=0.9)
    reach = stats.t.ppf(0.9, found.degrees_of_freedom) * found.standard_error
    bounds = [math.exp(found.log_change + sign * reach) - 1 for sign in (-1, 0, 1)]
    assert [found.low, found.estimate, found.high] == pytest.approx(bounds)
    assert found.p_no_change == pytest.approx(stats.t.sf(found.log_change / found.standard_error, 7))


def test_equal_numbers_without_a_ratio_have_not_changed():
    found = compare_once([0, 0], [0], tolerance=0.05)
    assert (found.estimate, found.low, found.high, found.log_change, found.standard_error) == (0, 0, 0, 0, 0)
    assert (found.base_value, found.new_value) == (0, 0)


def test_equal_values_that_their_runs_say_nothing_of_are_no_answer():
    """The maximum is positive, and what it could as well have been is not."""
    run = [-1.0, 0.0, 0.25, 0.5]
    found = compare_once([run], [run], tolerance=0.05, statistic="max", warmup=0)
    assert (found.outcome, found.reason, found.base_value) == ("error", "not-positive", 0.5)


def test_what_has_no_ratio_still_has_its_values():
    found = compare_once([-2, -4], [6, 8, 10], tolerance=0.05)
    assert (found.outcome, found.base_value, found.new_value) == ("error", -3, 8)
    assert (found.base_runs, found.new_runs, found.standard_error) == (2, 3, None)
    assert (found.suspect, found.improved) == (False, False)


def test_what_is_compared_without_noise_has_no_error():
    exact = compare_once([0], [3], tolerance_absolute=2, exact=True)
    assert (exact.reason, exact.base_value, exact.new_value, exact.standard_error) == ("exact", 0, 3, 0)


def test_a_probability_of_one_in_twenty_is_no_suspicion_yet(monkeypatch):
    found = compare_once(NUMBERS, [106.5], tolerance=0.05)
    monkeypatch.setattr(change, "SUSPICIOUS", found.p_no_change)
    assert answer_of(compare_once(NUMBERS, [106.5], tolerance=0.05)) == "undecided"


def test_exact_values_below_one_are_exact():
    assert compare_once([0.5, 0.5], [0.5], tolerance=0, exact=True).reason == "exact"


IMPROVED = [
    # new, better, outcome, improved
    ([80.0], "lower", "pass", True),
    ([80.0], "higher", "fail", False),
    ([125.0], "higher", "pass", True),
    ([98.0], "lower", "pass", False),
    ([80.0], "neither", "fail", False),
]


@pytest.mark.parametrize(("new", "better", "outcome", "improved"), IMPROVED)
def test_an_improvement_beyond_the_tolerance_is_noted(new, better, outcome, improved):
    found = compare_once(NUMBERS, new, tolerance=0.05, better=better)
    assert (found.outcome, found.improved) == (outcome, improved)


def test_nothing_is_concluded_from_a_thin_tail():
    slower = compare_once([STEADY] * 3, [scaled(3)], tolerance=0.05, statistic="p95")
    faster = compare_once([STEADY] * 3, [scaled(0.3)], tolerance=0.05, statistic="p95")
    assert [(x.outcome, x.reason, x.suspect, x.improved) for x in (slower, faster)] == [
        ("undecided", "thin-tail", False, False)
    ] * 2
    assert slower.low > 0.05


@pytest.mark.parametrize(("n", "reason"), [(39, "thin-tail"), (40, "interval")])
@pytest.mark.parametrize(("statistic", "turn"), [("p95", 1), ("p5", -1)])
def test_a_p95_wants_forty_independent_values(n, reason, statistic, turn):
    """The values beyond it are spread evenly over the run, so that each counts for itself."""
    run = [100.0 + turn * (i % 20 == 10) + 0.01 * turn * ((7 * i) % 20) for i in range(n)]
    assert measure_run(run, statistic, warmup=0).n_effective == n
    assert compare_once([run], [run], tolerance=0.5, statistic=statistic, warmup=0).reason == reason


def test_the_middle_needs_no_tail():
    assert compare_once([STEADY], [STEADY[:5]], tolerance=0.5, warmup=0).reason == "interval"
    assert compare_once([STEADY], [STEADY[:5]], tolerance=0.5, warmup=0, statistic="p50").reason == "interval"


def test_counts_that_differ_are_compared_with_a_tenth_of_a_percent():
    exact = compare_once([1000, 1001], [1002], tolerance=0.05, exact=True)
    assert exact.standard_error == compare_once([1000, 1001], [1002], tolerance=0.05, prior=(0.001, 2)).standard_error
    assert exact.standard_error < compare_once([1000, 1001], [1002], tolerance=0.05).standard_error


@pytest.mark.parametrize("new", [[106.5], [106.5] * 2, [106.0] * 3])
def test_a_suspicion_stays_one_however_many_runs_show_it(new):
    base = [100.0, 104.0, 96.0, 102.0, 98.0]
    found = compare_once(base, new, tolerance=0.05)
    assert (answer_of(found), found.reason) == ("suspect", "interval")
