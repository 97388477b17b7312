"""The axis of the loads of a sweep: doubled loads are at equal distances, counted loads at their own."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from perfgate.reporters.html import plots


@pytest.mark.parametrize(
    ("loads", "is_log"),
    [((1, 2, 4, 8, 16, 32), True), ((1, 2, 4, 8), False), ((4, 5, 6, 12), False), ((0, 1, 16), False)],
)
def test_loads_over_more_than_a_factor_of_eight_have_a_logarithmic_axis(loads: tuple[float, ...], is_log: bool) -> None:
    picture = plots.curves([("new", [(float(load), 0.5 + load) for load in loads])], 1.0, "s", "request rate")
    lines = [path for path in re.findall(r'd="(M[^"]*)"', picture) if path.count("L") == len(loads) - 1]
    line = next(path for path in lines if "Z" not in path.upper())
    places = [float(x) for x, _ in re.findall(r"([\d.]+) ([\d.]+)", line)]
    steps = [after - before for before, after in pairwise(places)]
    assert len(places) == len(loads)
    assert (max(steps) - min(steps) < 0.1) is is_log
