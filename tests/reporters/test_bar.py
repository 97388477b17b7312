"""Bars: what is drawn for an interval, an estimate and a tolerance."""

import pytest
from any_report import briefly, verdicts
from hypothesis import given
from sample_verdicts import (
    ABSENT,
    FAILED_CHANGE,
    FAILED_LIMIT,
    PASSED_BOTH_WAYS,
    SKIPPED,
    SUSPECT,
    WARNED_CHANGE,
    change,
    limit,
)

from perfgate.core import Estimate, RelativeChange
from perfgate.reporters.terminal_page import BAR_WIDTH, bar

BARS = [
    # beyond the tolerance, within it, around it
    (FAILED_CHANGE, "·│·····━━━●━━━━·"),
    (change(), "·━━●━·········│·"),
    (SUSPECT, "·━━━━━━●━━│━━━━·"),
    (FAILED_LIMIT, "·│━━━●━━━━━━━━━·"),
    (limit(), "·━●━━·········│·"),
    # values without noise, and a tolerance to both sides
    (WARNED_CHANGE, "·│············●·"),
    (PASSED_BOTH_WAYS, "·│······●·····│·"),
    (limit(new=Estimate(0.5, 0.5, 0.5, None, None, 1)), "········●·······"),
    # bounds that do not exist
    (change(change=RelativeChange(0.1, 0.05, None)), "·│━━━━━━━━━━━━●▶"),
    (change(change=RelativeChange(0.1, None, 0.2)), "◀│━━━●━━━━━━━━━·"),
    (limit(new=Estimate(0.4, None, None, 3, None, 1)), "◀●━━━━━━━━━━━━│▶"),
    # nothing to draw
    (change(change=None), ""),
    (change(change=RelativeChange(None, None, None)), ""),
    (change(tolerance=None), ""),
    (limit(bound=None), ""),
    (ABSENT, ""),
    (SKIPPED, ""),
]


@pytest.mark.parametrize(("verdict", "drawn"), BARS)
def test_what_is_drawn(verdict, drawn):
    assert bar(verdict) == drawn


def test_in_ascii():
    assert bar(FAILED_CHANGE, ascii_only=True) == ".|.....===o====."
    assert bar(change(change=RelativeChange(0.1, None, None)), ascii_only=True) == "<|============o>"


@briefly
@given(verdicts)
def test_any_bar_has_its_width_and_one_estimate(verdict):
    drawn = bar(verdict)
    assert not drawn or (len(drawn) == BAR_WIDTH and drawn.count("●") == 1)
