"""The comparisons that decided an answer, so that a person can repeat them."""

from __future__ import annotations

from collections.abc import Iterator

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
    """Yield the comparisons that decided: of red for a failure or a suspicion, otherwise of green and of a pass."""
    tolerated, doubted = margins
    d = bounds.change.log_change
    is_up = tolerated.worse == "up" or (tolerated.worse == "either" and d >= 0)

    def comparison(asks: Asks, bound: Reach, margin: Margin | None, *, red: bool) -> Comparison:
        edge = 0.0 if margin is None else margin.up if is_up else margin.down
        change = bound.change
        # Red compares the end of the interval that is nearer to no change with the edge, and green the farther end.
        reach = bound.distance if red != is_up else -bound.distance
        end = change.log_change + reach
        # A lucky estimate must not exclude more than an estimate of no change would.
        if asks == "excluded" and not (end < 0 if is_up else end > 0):
            end = max(end, reach) if is_up else min(end, reach)
        is_above = red == is_up
        holds = end > edge if is_above else end < edge
        error, df = change.standard_error, change.degrees_of_freedom or 1.0
        numbers = (change.log_change, error, df, bound.error_rate, bound.distance / error)
        return Comparison(asks, *numbers, edge, is_above, holds)

    if found.reason == "thin-tail":
        return
    if found.outcome != "fail" and not found.suspect:
        if promises:
            yield comparison("excluded", bounds.green, doubted, red=False)
        yield comparison("within", bounds.interval, tolerated, red=False)
    elif bounds.sharp is not None and bounds.is_sharp(tolerated):
        yield comparison("beyond", bounds.sharp, bounds.sharp_edge(tolerated), red=True)
    else:
        if promises:
            yield comparison("a-change", Reach.of(bounds.red.change, bounds.no_change), None, red=True)
        beyond = comparison("beyond", bounds.red, tolerated, red=True)
        if found.outcome == "fail" and not found.suspect and not beyond.holds:
            # At the last look `_is_alarm` (`change.py`) compares the estimate itself: a bound without distance.
            yield comparison("beyond-at-worst", Reach(bounds.red.change, 0.5, 0.0), doubted, red=True)
        else:
            yield beyond
