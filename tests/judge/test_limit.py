"""judge_limit: its answers row by row, and its properties for any data."""

import math
from statistics import fmean

import pytest
from conftest import answer_of
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from perfgate import judge_limit
from perfgate.core.results import LimitResult
from perfgate.judge.decide.limit import judge_steady_limit
from perfgate.judge.terms import LimitTerms
from perfgate.stats.steady import steady_run

#: 101 values that forget at once, the first one warm-up: 10, 11, 12, 13 in turn.
FOUR = [10.0] + [10.0 + (7 * i) % 4 for i in range(100)]
WARM = [90.0] * 5 + FOUR
#: 200 step times that only grow, from 160 ms to 1000 s: worth about four independent ones.
DRIFTING = [0.16 * 10 ** (3.796 * i / 199) for i in range(200)]

OUTCOMES = [
    # what             runs       statistic bound  comparator  outcome, reason
    ("median below", [FOUR], "median", 20, "under", "pass interval"),
    ("median beyond", [FOUR], "median", 5, "under", "fail interval"),
    ("median at the bound", [FOUR], "median", 11.5, "under", "pass interval"),
    ("all on the bound, under", [[10.0] * 60], "median", 10, "under", "fail interval"),
    ("all on the bound, at most", [[10.0] * 60], "median", 10, "at most", "pass interval"),
    ("all on the bound, over", [[10.0] * 60], "median", 10, "over", "fail interval"),
    ("all on the bound, at least", [[10.0] * 60], "median", 10, "at least", "pass interval"),
    ("the largest value may be warm-up", [WARM], "max", 14, "under", "fail exact"),
    ("the largest value from below", [WARM], "max", 80, "over", "pass exact"),
    ("the count of the whole run", [WARM], "count", 105, "over", "pass exact"),
    ("all values beyond, whatever they remember", [DRIFTING], "median", 0.15, "under", "fail every-value"),
    ("all values beyond a mean", [DRIFTING], "mean", 0.15, "under", "fail every-value"),
    ("all rates beyond", [[1 / v for v in DRIFTING[:8]]], "p90", 7, "at least", "fail every-value"),
    ("all numbers beyond", [10.0, 90.0], "mean", 9, "under", "fail every-value"),
    ("most values beyond, drifting", [[*DRIFTING, 0.14]], "median", 0.15, "under", "suspect interval"),
    ("estimate beyond", [[9.0, 12.0] * 9], "mean", 10.4, "under", "suspect interval"),
    ("estimate below a lower bound", [[9.0, 12.0] * 9], "mean", 10.6, "over", "suspect interval"),
    ("total beyond", [[9.0, 12.0] * 9], "total", 188, "under", "suspect interval"),
    ("estimate within", [[9.0, 12.0] * 9], "mean", 10.6, "under", "pass interval"),
    ("too few for a p99", [FOUR], "p99", 20, "under", "pass interval"),
    ("p10 from below", [FOUR], "p10", 9, "over", "pass interval"),
    ("mean below", [FOUR], "mean", 12, "under", "pass interval"),
    ("mean beyond", [FOUR], "mean", 11, "under", "fail interval"),
    ("mean at the bound", [FOUR], "mean", 11.5, "under", "pass interval"),
    ("a constant mean on the bound", [[10.0] * 20], "mean", 10, "at most", "pass interval"),
    ("a mean of negatives", [[-v for v in FOUR]], "mean", -11, "under", "pass interval"),
    ("a mean of zeros", [[0.0] * 20], "mean", 0, "at most", "pass interval"),
    ("the largest of all runs", [FOUR, [*FOUR, 99.0]], "max", 50, "under", "fail exact"),
    ("the smallest of all runs", [FOUR, [*FOUR, 1.0]], "min", 5, "over", "fail exact"),
    ("the larger count", [FOUR, FOUR[:50]], "count", 60, "under", "fail exact"),
    ("the smaller count", [FOUR, FOUR[:50]], "count", 60, "over", "fail exact"),
    ("one number", [12.0], "p95", 13, "under", "pass exact"),
    ("three numbers", [12.0, 12.1, 12.2], "p95", 13, "under", "pass interval"),
    ("a number among runs", [FOUR, 11.5], "mean", 99, "under", "pass interval"),
    ("no run", [], "median", 1, "under", "error no-new-run"),
    ("an empty run", [FOUR, []], "median", 1, "under", "error too-few-samples"),
    ("nan", [FOUR, [math.nan]], "median", 1, "under", "error not-a-number"),
    ("four samples", [[1.0] * 4], "mean", 2, "under", "pass interval"),
    ("three samples", [FOUR[:3]], "median", 1, "under", "fail every-value"),
    ("a sum beyond floats", [[1e308] * 9], "total", 1, "under", "error not-a-number"),
]


@pytest.mark.parametrize(
    ("runs", "statistic", "bound", "comparator", "expected"), [r[1:] for r in OUTCOMES], ids=[r[0] for r in OUTCOMES]
)
def test_outcome(runs, statistic, bound, comparator, expected):
    found = judge_limit(runs, statistic=statistic, bound=bound, comparator=comparator)
    assert f"{answer_of(found)} {found.reason}" == expected


BAD = [
    ({"bound": math.nan}, "bound is"),
    ({"bound": 1.0, "comparator": "below"}, "comparator is"),
    ({"bound": 1.0, "statistic": "p200"}, "unknown statistic"),
    ({"bound": 1.0, "confidence": 0.3}, "confidence is"),
    ({"bound": 1.0, "warmup": "none"}, "warmup must be"),
    ({"bound": 1.0, "confidence": 1.0}, "confidence is"),
    ({"bound": 1.0, "prior": (0.0, 1.0)}, "prior is"),
    ({"bound": math.inf}, "bound is"),
    ({"bound": 1.0, "min_samples": 0}, "min_samples is"),
    ({"bound": 1.0, "at_worst": 0.9}, "at_worst is beyond"),
    ({"bound": 1.0, "at_worst": math.nan}, "at_worst is beyond"),
    ({"bound": 1.0, "comparator": "at least", "at_worst": 1.0}, "at_worst is beyond"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_bad_options_are_refused_even_without_data(options, message):
    with pytest.raises(ValueError, match=message):
        judge_limit([], **options)


def test_what_nobody_says_is_that_of_the_contract():
    said = {
        "statistic": "median",
        "comparator": "under",
        "confidence": 0.95,
        "warmup": "auto",
        "prior": (0.01, 2.0),
        "min_samples": 1,
        "strict": False,
        "at_worst": None,
    }
    assert judge_limit([WARM, FOUR], bound=12.0) == judge_limit([WARM, FOUR], bound=12.0, **said)
    assert LimitTerms(bound=12.0) == LimitTerms(bound=12.0, **said)
    assert judge_limit([WARM], bound=12.0) != judge_limit([WARM], bound=12.0, warmup=0)
    assert judge_limit([WARM], bound=12.0) != judge_limit([WARM], bound=12.0, confidence=0.9)
    assert judge_limit([[10.0] * 20], bound=10.0).outcome == "fail"
    runs = [FOUR, WARM[:60], FOUR[3:40]]
    several = judge_limit(runs, bound=12.0, statistic="mean")
    assert several == judge_limit(runs, bound=12.0, statistic="mean", prior=(9.0, 2.0))
    assert several != judge_limit(runs, bound=12.0, statistic="mean", prior=(0.01, 3.0))


def test_the_numbers_of_a_percentile():
    found = judge_limit([FOUR, FOUR[:51]], statistic="p90", bound=12.5, comparator="at most")
    assert (found.n, found.runs, found.outcome) == (150, 2, "fail")
    assert found.share == pytest.approx(0.25, abs=0.01)
    assert found.share_low < found.share < found.share_high
    assert found.low <= found.estimate == 13.0


def test_a_number_among_runs_leaves_them_numbers():
    """What a single number hides inside is unknown, so the spread between runs has to speak for all of them."""
    found = judge_limit([FOUR, 11.5], statistic="p95", bound=99.0)
    assert (found.n, found.n_effective, found.share, found.runs) == (100, None, None, 2)
    assert found.estimate == (13.0 + 11.5) / 2
    assert judge_limit([12.0, 11.5], statistic="p95", bound=99.0).n is None
    mean = judge_limit([FOUR, 11.5], statistic="mean", bound=99.0)
    numbers = judge_limit([fmean(FOUR[1:]), 11.5], statistic="mean", bound=99.0)
    assert (mean.low, mean.high, mean.n_effective) == (numbers.low, numbers.high, None)
    assert judge_limit([12.0], statistic="mean", bound=99.0).low == 12.0


@pytest.mark.parametrize(
    ("comparator", "low", "high", "outcome"),
    [
        ("under", 11.5, 12.5, "pass"),
        ("under", 12.5, 12.5, "fail"),
        ("at most", 12.5, 12.5, "pass"),
        ("over", 12.5, 12.5, "fail"),
        ("at least", 12.5, 12.5, "pass"),
        ("over", 12.5, 13.5, "pass"),
        ("at most", 11.5, 12.5, "pass"),
        ("under", 12.5, 13.5, "fail"),
        ("at least", 11.5, 12.5, "fail"),  # both numbers are beyond it
        ("over", 11.5, 12.5, "fail"),
    ],
)
def test_an_interval_that_ends_on_the_bound(comparator, low, high, outcome):
    runs = [(low + high) / 2] * 2 if low == high else [low, high]
    found = judge_limit(runs, statistic="mean", bound=12.5, comparator=comparator)
    if low == high:
        assert (found.low, found.high, found.outcome) == (low, high, outcome)
    else:
        wide = judge_limit(runs, statistic="mean", bound=12.5, comparator=comparator)
        at = wide.high if high == 12.5 else wide.low
        assert judge_limit(runs, statistic="mean", bound=at, comparator=comparator).outcome == outcome


def test_a_suspicion_fails_if_strict():
    loose, strict = (judge_limit([[9.0, 12.0] * 9], statistic="mean", bound=10.4, strict=s) for s in (False, True))
    assert (loose.outcome, loose.suspect) == ("undecided", True)
    assert (strict.outcome, strict.suspect) == ("fail", True)
    assert judge_limit([[9.0, 12.0] * 9], statistic="mean", bound=10.6, strict=True).outcome == "pass"


@pytest.mark.parametrize(
    ("comparator", "bound", "at_worst", "expected"),
    [
        ("under", 10.6, None, "pass interval None"),
        ("under", 10.6, 11.0, "undecided cannot-exclude False"),  # the interval is 10.5 +- .64
        ("under", 10.6, 11.3, "pass interval True"),
        ("under", 12.0, 12.5, "pass interval True"),
        ("under", 10.4, 10.9, "suspect interval False"),
        ("under", 9.0, 9.1, "fail interval False"),
        ("at least", 10.4, 10.0, "undecided cannot-exclude False"),
        ("at least", 10.4, 9.5, "pass interval True"),
    ],
)
def test_a_value_that_must_be_excluded(comparator, bound, at_worst, expected):
    runs = [[9.0, 12.0] * 9]
    found = judge_limit(runs, statistic="mean", bound=bound, comparator=comparator, at_worst=at_worst)
    assert f"{answer_of(found)} {found.reason} {found.excluded}" == expected


def test_a_percentile_without_an_end_excludes_nothing():
    found = judge_limit([FOUR[:20]], statistic="p99", bound=20, at_worst=1e9)
    assert (found.outcome, found.reason, found.high) == ("undecided", "cannot-exclude", None)


def test_the_fields_are_those_of_the_contract():
    names = "outcome reason estimate low high n n_effective runs share share_low share_high suspect excluded"
    assert set(names.split()) <= set(LimitResult.__struct_fields__)


def test_steady_runs_are_judged_alike():
    runs = [steady_run(FOUR), steady_run(WARM)]
    assert judge_steady_limit(runs, LimitTerms(bound=12.5)) == judge_limit([FOUR, WARM], bound=12.5)


ANY_RUN = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=12),
    st.lists(st.floats(-1.7e308, 1.7e308), min_size=4, max_size=12),
    st.lists(st.integers(-2, 2), min_size=4, max_size=40),
)
STATISTICS = st.sampled_from(["median", "mean", "p95", "p10", "max", "min", "cv", "stddev", "total", "count"])
COMPARATORS = st.sampled_from(["under", "at most", "over", "at least"])
RUNS = st.lists(st.lists(st.integers(1, 20), min_size=4, max_size=60), min_size=1, max_size=3)


@given(st.lists(ANY_RUN, max_size=4), STATISTICS, COMPARATORS, st.floats(-10, 10))
def test_no_data_raise_and_no_result_is_infinite(runs, statistic, comparator, bound):
    found = judge_limit(runs, statistic=statistic, bound=bound, comparator=comparator)
    numbers = [v for v in astuple(found) if isinstance(v, float)]
    assert all(math.isfinite(v) for v in numbers)


@given(RUNS, STATISTICS, COMPARATORS, st.floats(0, 21))
def test_outcome_and_interval_never_disagree(runs, statistic, comparator, bound):
    found = judge_limit(runs, statistic=statistic, bound=bound, comparator=comparator)
    low = -math.inf if found.low is None else found.low
    high = math.inf if found.high is None else found.high
    if comparator in ("over", "at least"):
        low, high, bound = -high, -low, -bound
    strict = comparator in ("under", "over")
    assert (found.of_numbers.outcome == "pass") == (high < bound if strict else high <= bound)
    certain = low >= bound if strict else low > bound
    assert (found.outcome == "fail") == (certain or found.reason == "every-value")


@given(RUNS, STATISTICS, st.sampled_from(["under", "at most"]), st.floats(0, 21), st.floats(0, 5))
def test_a_wider_bound_never_turns_pass_into_fail(runs, statistic, comparator, bound, more):
    """A percentile may become open: what the values remember is asked at the bound."""
    narrow = judge_limit(runs, statistic=statistic, bound=bound, comparator=comparator)
    wide = judge_limit(runs, statistic=statistic, bound=bound + more, comparator=comparator)
    if narrow.of_numbers.outcome == "pass":
        assert wide.outcome == "pass"
        assert wide.of_numbers.outcome == "pass" or wide.share is not None


@given(RUNS, STATISTICS, st.booleans(), st.floats(0, 21), st.integers(-60, 60))
def test_units_do_not_enter(runs, statistic, strict, bound, exponent):
    unit = 1.0 if statistic in ("count", "cv") else 2.0**exponent
    comparator = "under" if strict else "at most"
    one = judge_limit(runs, statistic=statistic, bound=bound, comparator=comparator)
    scaled = [[v * 2.0**exponent for v in run] for run in runs]
    other = judge_limit(scaled, statistic=statistic, bound=bound * unit, comparator=comparator)
    assert (one.outcome, one.n_effective, one.share_high) == (other.outcome, other.n_effective, other.share_high)


def test_no_interval_of_a_time_is_negative():
    """The noise of three small times reaches below 0, where no time is."""
    found = judge_limit([0.001, 0.0001, 0.002], bound=0.01, comparator="under", statistic="mean")
    assert found.low == 0.0
    assert judge_limit([-0.001, 0.0001, 0.002], bound=0.01, comparator="under", statistic="mean").low < 0
