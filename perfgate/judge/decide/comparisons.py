"""The comparisons that decided an answer, so that a person can repeat them."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from perfgate.core.calculations import Asks, Comparison
from perfgate.core.results import ChangeResult
from perfgate.judge.decide.bounds import Bounds, Reach
from perfgate.judge.terms import LimitTerms
from perfgate.stats.bounds import ValueLimit
from perfgate.stats.distributions import t_quantile
from perfgate.stats.margin import Margin


def of_limit(limit: ValueLimit, terms: LimitTerms, *, is_broken: bool) -> tuple[Comparison, ...]:
    """Return the comparison of a mean with its bound; none for a value without noise."""
    if limit.degrees_of_freedom is None:
        return ()
    # The low end above the bound breaks an upper limit and keeps a lower one; the high end below it does the opposite.
    is_above = is_broken == terms.upper
    end = limit.low if is_above else limit.high
    holds = end > terms.bound if is_above else end < terms.bound
    error, rate = limit.standard_error, 1 - terms.confidence
    numbers = (limit.estimate, error, limit.degrees_of_freedom, rate, t_quantile(limit.degrees_of_freedom, 1 - rate))
    return (Comparison("broken" if is_broken else "kept", *numbers, terms.bound, is_above, holds),)


def of_change(
    found: ChangeResult, bounds: Bounds, margins: tuple[Margin, Margin], *, promises: bool
) -> Iterator[Comparison]:
    """Yield the comparisons that decided: of red for a failure or a suspicion, otherwise of green and of a pass.

    `margins`: the tolerance and `at_worst`. `promises` is False for a comparison with the anchor, where a pass does not
    exclude `at_worst`, and red does not exclude "no change".
    """
    if found.reason == "thin-tail":
        return
    tolerated, d = margins[0], bounds.change.log_change
    is_up = tolerated.worse == "up" or (tolerated.worse == "either" and d >= 0)
    tolerance, at_worst = (margin.up if is_up else margin.down for margin in margins)
    if found.outcome != "fail" and not found.suspect:
        if promises:
            excluded = _compared("excluded", bounds.green, at_worst, is_up=is_up)
            # As `Bounds.not_excluded`: an estimate of no change would be green, too, or the gain is beyond the noise.
            holds = excluded.holds and bounds.green.distance < max(abs(excluded.estimate), abs(at_worst))
            yield replace(excluded, holds=holds)
        yield _compared("within", bounds.interval, tolerance, is_up=is_up)
        return
    if bounds.sharp is not None and bounds.is_sharp(tolerated):
        sharp = bounds.sharp_edge(tolerated)
        yield _compared("beyond", bounds.sharp, sharp.up if is_up else sharp.down, is_up=is_up)
        return
    if promises:
        yield _compared("a-change", Reach.of(bounds.red.change, bounds.no_change), 0.0, is_up=is_up)
    beyond = _compared("beyond", bounds.red, tolerance, is_up=is_up)
    if found.outcome == "fail" and not found.suspect and not beyond.holds:
        # At the last look `_is_alarm` (`change.py`) compares the estimate itself: a bound without distance.
        beyond = _compared("beyond-at-worst", Reach(bounds.red.change, 0.5, 0.0), at_worst, is_up=is_up)
    yield beyond


def _compared(asks: Asks, bound: Reach, edge: float, *, is_up: bool) -> Comparison:
    """Return the comparison of an edge with the end of the interval that decides. `is_up`: larger is worse.

    Red needs the end nearer to no change beyond the edge, and green the farther end within it.
    """
    is_above = not is_up if asks in ("excluded", "within") else is_up
    change = bound.change
    low, high = change.log_change - bound.distance, change.log_change + bound.distance
    holds = low > edge if is_above else high < edge
    error, df = change.standard_error, change.degrees_of_freedom or 1.0
    numbers = (change.log_change, error, df, bound.error_rate, bound.distance / error)
    return Comparison(asks, *numbers, edge, is_above, holds)
