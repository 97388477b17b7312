"""Judge remembered runs by a rule, and count its false alarms; from these, a quarantine of the rule is proposed.

Within a level of a metric nothing changed, so a red verdict there is a false alarm. From the sixth run of a level on,
each run is judged alone: against a limit, or against at most ten runs before it. Red runs in a row count as
one alarm: they may be a real change that was taken back before it made a level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from perfgate.core import Better
from perfgate.core.results import RUNS_THAT_SHOW_NOISE
from perfgate.history.noise import noise_between_runs
from perfgate.history.store import HistoryColumn, is_exact
from perfgate.judge.decide.change import judge_runs
from perfgate.judge.terms import ChangeTerms, LimitTerms
from perfgate.rules.ruleset import Rule
from perfgate.rules.syntax.sentence import ChangeClause, LimitClause
from perfgate.stats.change_points import find_change_points
from perfgate.stats.distributions import normal_quantile
from perfgate.stats.statistics import RunMeasure

#: A quarantine is proposed if the rate of false alarms is above this share at 95 % confidence; rules promise less.
MOST_FALSE = 0.02
#: A run is compared with at most this many runs before it.
_BASE_RUNS = 10


def false_alarms(rule: Rule, column: HistoryColumn, rows: Sequence[int]) -> tuple[int, int]:
    """Return the number of false alarms of a rule about a series, and the number of runs that were judged.

    `rows`: the positions in the column of the runs that count, oldest first. A level whose judged runs are mostly red
    does not count. (0, 0) if no clause of the rule can be replayed, or if the noise, which is relative, cannot be
    known, because a value is not positive.
    """
    values, errors = column.values[rows], column.errors[rows]
    if not len(values) or not np.isfinite(values).all() or values.min() <= 0:
        return 0, 0
    points = find_change_points(values, errors=errors, better=column.better)
    noise = noise_between_runs(values, errors)
    prior = None if noise is None else (noise.prior.s0, noise.prior.d0)
    relative = np.square(np.nan_to_num(errors / values))  # the variance of the logarithm
    measures = [
        RunMeasure(value, n=1, n_effective=None, within_variance=error, dropped=0, settled=True)
        for value, error in zip(values, relative, strict=True)
    ]
    alarms = runs = 0
    for start, end in pairwise([0, *(point.index for point in points), len(values)]):
        red = _red_runs(rule, column, measures[start:end], prior)
        if 2 * sum(red) <= len(red):  # a limit that most runs of a level break is not a false alarm
            runs += len(red)
            alarms += sum(now and not before for before, now in pairwise([False, *red]))  # each row of red runs once
    return alarms, runs


def _red_runs(
    rule: Rule, column: HistoryColumn, level: Sequence[RunMeasure], prior: tuple[float, float] | None
) -> list[bool]:
    """Return for each judged run of a level whether any clause of the rule is red."""
    # exact work is not replayed, because a history has one number of a metric, not its counts on each rank; comparisons
    # with the anchor or with other ranks are not replayed, either
    replayed = [
        asks
        for asks in (clause.asks for clause in rule.clauses)
        if isinstance(asks, LimitClause) or (isinstance(asks, ChangeClause) and asks.reference == "baseline")
    ]
    clauses = [_red(rule, asks, column, level, prior) for asks in replayed]
    return [any(of_run) for of_run in zip(*clauses, strict=True)]


def _red(
    rule: Rule,
    asks: LimitClause | ChangeClause,
    column: HistoryColumn,
    level: Sequence[RunMeasure],
    prior: tuple[float, float] | None,
) -> Iterator[bool]:
    """Yield for each run of a level, from the sixth on, whether a clause is red."""
    if isinstance(asks, LimitClause):
        # red if the confidence bound of the run on the good side is beyond the limit
        reach = (-1 if asks.upper else 1) * normal_quantile(rule.settings.confidence)
        limit = LimitTerms(bound=asks.bound.value, comparator=asks.comparator)
        for run in level[RUNS_THAT_SHOW_NOISE:]:
            assert run.value is not None
            yield limit.is_bad(run.value * (1 + reach * math.sqrt(run.within_variance or 0.0)))
        return
    terms = _terms(rule, asks, column, prior)
    for i in range(RUNS_THAT_SHOW_NOISE, len(level)):
        base = level[max(i - _BASE_RUNS, 0) : i]
        yield judge_runs(base, [level[i]], terms).outcome == "fail"


def _terms(rule: Rule, asks: ChangeClause, column: HistoryColumn, prior: tuple[float, float] | None) -> ChangeTerms:
    """Return the terms by which the judge decides a clause about a change; `prior` is the noise between runs."""
    sides: dict[str, Better] = {"upper": "lower", "lower": "higher"}  # on the upper side, lower is better
    terms = ChangeTerms(
        statistic=column.name.statistic,
        tolerance=asks.relative,
        tolerance_absolute=asks.absolute.value if asks.absolute else None,
        better=sides.get(asks.side) or rule.better or column.better,
        two_sided=asks.side == "both",
        confidence=rule.settings.confidence,
        exact=is_exact(column),
    )
    return terms if prior is None else replace(terms, prior=prior, noise_known=True)
