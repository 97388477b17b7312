"""One value of each window: means of levels, growth of totals."""

import math

import pytest

from perfgate.machine.channels import Channel, ChannelWindow, growth


@pytest.mark.parametrize(
    ("before", "after", "most", "grown"),
    [
        (10, 25, math.inf, 15),
        (10, 10, math.inf, 0),
        (2**32 - 5, 3, math.inf, 8),  # a counter of 32 bits begins again at 0
        (1000, 3, math.inf, math.nan),  # the driver was loaded again
        (2**40, 3, math.inf, math.nan),
        (0, 10_000, 100, math.nan),  # more than can be
        (0, 100, 100, 100),
    ],
)
def test_growth_of_a_counter(before, after, most, grown):
    assert growth(before, after, 1.0, most) == pytest.approx(grown, nan_ok=True)


def test_a_level_is_a_mean_and_a_total_is_a_rate():
    clock = ChannelWindow(Channel("clock.sm", "MHz"))
    energy = ChannelWindow(Channel("power", "W", "total", scale=1e-3, whole="machine.energy"))
    for at, mhz, mj in [(0.0, 1900, 0), (0.5, 1800, 250_000), (1.0, 1700, 600_000)]:
        clock.add(at, mhz)
        energy.add(at, mj)
    assert clock.close() == 1800
    assert energy.close() == 600
    assert energy.whole == 600
    assert math.isnan(clock.close())
    energy.add(1.5, 900_000)
    assert energy.close() == 600
    assert energy.whole == 900


def test_a_reading_that_fails_is_left_out():
    window = ChannelWindow(Channel("power", "W", "total"))
    for at, reading in [(0.0, 0.0), (1.0, math.nan), (2.0, 800.0)]:
        window.add(at, reading)
    assert window.close() == 400
