"""The warm-up rule, one row a case."""

import numpy as np
import pytest

from perfgate.stats.steady import WarmUp, slow_start, steady_run, warmup_length

FLAT = [10.0, 10.2, 10.1] * 14

LENGTHS = [
    # what                          values                                    better     dropped settled
    ("nothing", [], "lower", 0, True),
    ("one value", [99.0], "lower", 0, True),
    ("two values", [99.0, 1.0], "lower", 0, True),
    ("a cold start of three", [1.21, 1.0, 1.0], "lower", 1, True),
    ("a mild start of three", [1.19, 1.0, 1.0], "lower", 0, True),
    ("a factor of 1.2 is no start", [12.0, 10.0, 10.0, 10.0], "lower", 0, True),
    ("a low start, higher is better", [0.8, 1.0, 1.0, 1.0], "higher", 1, True),
    ("a low start, lower is better", [0.8, 1.0, 1.0, 1.0], "lower", 0, True),
    ("a low start, neither", [0.8, 1.0, 1.0, 1.0], "neither", 1, True),
    ("a high start, higher is better", [9.0, 1.0, 1.0, 1.0], "higher", 0, True),
    ("a normal start, higher is better", [1.0, 1.0, 1.0], "higher", 0, True),
    ("a factor of 1.2 is no start, higher is better", [10.0, 12.0, 12.0, 12.0], "higher", 0, True),
    ("a cold start of five", [9.0, 1.0, 1.0, 1.0, 1.0], "lower", 1, True),
    ("the median of all others counts", [1.3, 1.2, 1.0], "lower", 0, True),
    ("six values", [1.0] * 6, "lower", 1, True),
    ("seven values", [9.0, 9.0, 9.0, 1.0, 1.0, 1.0, 1.0], "lower", 1, True),
    ("eight values", [50.0, 50.0, 10.0, 10.2, 10.1, 10.0, 10.2, 10.1], "lower", 2, True),
    ("flat", FLAT, "lower", 1, True),
    ("five slow steps", [50.0] * 5 + FLAT, "lower", 5, True),
    ("five slow steps, higher is better", [50.0] * 5 + FLAT, "higher", 1, True),
    ("five fast steps, higher is better", [1.0] * 5 + FLAT, "higher", 5, True),
    ("five fast steps, neither", [1.0] * 5 + FLAT, "neither", 5, True),
    ("a stall right after the start", [50.0, 10.0, 10.0, 50.0, *FLAT], "lower", 4, True),
    ("settles at the last moment", [50.0] * 5 + FLAT[:15], "lower", 5, True),
    ("settles too late", [50.0] * 6 + FLAT[:14], "lower", 5, False),
    ("never settles", [50.0] * 20 + FLAT, "lower", 15, False),
    ("a later stall is no warm-up", [*FLAT[:20], 500.0, *FLAT[20:]], "lower", 1, True),
    ("all equal", [7.0] * 20, "lower", 1, True),
    ("a thousandth is rounding", [7.02, 7.02, 7.02] + [7.0] * 17, "lower", 1, True),
    ("a thousandth is rounding, higher is better", [6.98, 6.98, 6.98] + [7.0] * 17, "higher", 1, True),
    ("four is the most that is", [1004.0] * 3 + [1000.0] * 17, "lower", 1, True),
    ("four is the most that is, higher is better", [996.0] * 3 + [1000.0] * 17, "higher", 1, True),
    ("more than four is not, higher is better", [6.97, 6.97, 6.97] + [7.0] * 17, "higher", 3, True),
    ("the second half is usual", [20.0] * 3 + [10.0] * 5 + [30.0] * 4 + [9.0, 11.0] * 6, "lower", 3, True),
    ("four deviations are usual", [15.93] * 3 + [9.0, 10.0, 11.0] * 11, "lower", 1, True),
    ("more than four are not", [15.94] * 3 + [9.0, 10.0, 11.0] * 11, "lower", 3, True),
    ("four deviations are usual, higher is better", [4.07] * 3 + [9.0, 10.0, 11.0] * 11, "higher", 1, True),
    ("more than four are not, higher is better", [4.06] * 3 + [9.0, 10.0, 11.0] * 11, "higher", 3, True),
    ("more than four thousandths is not", [7.03, 7.03, 7.03] + [7.0] * 17, "lower", 3, True),
]


@pytest.mark.parametrize(
    ("values", "better", "dropped", "settled"), [r[1:] for r in LENGTHS], ids=[r[0] for r in LENGTHS]
)
def test_warmup_length(values, better, dropped, settled):
    assert warmup_length(values, better) == WarmUp(dropped, settled)


def test_what_nobody_says_is_that_small_values_are_better():
    slow, fast = [50.0] * 5 + FLAT, [1.0] * 5 + FLAT
    assert [warmup_length(run).dropped for run in (slow, fast)] == [5, 1]
    assert [steady_run(run).dropped for run in (slow, fast)] == [5, 1]


def test_a_count_is_dropped_as_it_is():
    run = steady_run([9.0, 8.0, 7.0, 6.0], warmup=2)
    assert run.values.tolist() == [7.0, 6.0]
    assert (run.dropped, run.settled) == (2, True)


def test_a_count_beyond_the_run_leaves_nothing():
    run = steady_run([9.0, 8.0], warmup=5)
    assert (len(run.values), run.dropped) == (0, 2)


@pytest.mark.parametrize("number", [12.5, 12, np.float64(12.5), np.array(12.5)])
def test_a_single_number_has_no_warm_up(number):
    run = steady_run(number, warmup=3)
    assert run.single
    assert (run.values.tolist(), run.dropped, run.finite) == ([float(number)], 0, True)


@pytest.mark.parametrize("values", [[1.0, float("nan")], [float("inf")] * 9, [1, 10**2000], [None, 1.0], "abc"])
def test_what_is_no_finite_number_is_marked(values):
    run = steady_run(values)
    assert not run.finite
    assert run.dropped == 0


@pytest.mark.parametrize("warmup", ["AUTO", -1, 1.5, True, None])
def test_a_bad_warm_up_is_refused(warmup):
    with pytest.raises(ValueError, match="warmup must be"):
        steady_run([1.0], warmup)


def test_a_bad_direction_is_refused():
    with pytest.raises(ValueError, match="better must be"):
        warmup_length([1.0], "up")


def test_a_table_is_refused():
    with pytest.raises(ValueError, match="2-dimensional"):
        steady_run([[1.0, 2.0], [3.0, 4.0]])


STARTS = [
    # values, the better direction, and how many there are before the run settles
    ([50.0] * 5 + FLAT, "lower", 5),
    ([50.0] * 15 + FLAT, "lower", 15),
    ([50.0] * 15 + FLAT, "higher", 1),
    ([1.0] * 15 + FLAT, "higher", 15),
    ([50.0, 10.0, 10.0] * 14, "lower", 42),  # never three in a row
    ([50.0, 10.0, 10.0] * 3 + [10.0], "lower", 7),
    ([1.3, 1.0, 1.0], "lower", 1),
    ([9.0] * 7, "lower", 1),
    ([9.0, 1.0], "lower", 0),
]


@pytest.mark.parametrize(("values", "better", "length"), STARTS)
def test_a_slow_start_may_be_longer_than_a_quarter(values, better, length):
    assert slow_start(np.array(values), better) == length
