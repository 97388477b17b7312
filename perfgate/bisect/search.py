"""The search for the position at which the level changed: measure, update, choose, until the answer is probable enough.

Both ends are measured first, in the order first, last, last, first, so that a linear drift cancels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from statistics import fmean
from typing import Protocol, TypeAlias

from msgspec import Struct, field

from perfgate.bisect.choose import best, candidates, entropy, information
from perfgate.bisect.measurements import Measurement, Model
from perfgate.bisect.posterior import Posterior, agreed_posterior
from perfgate.core.causes import BisectOutcome
from perfgate.stats.distributions import t_quantile

#: Only the ends are measured until a change between them has this probability, or is excluded.
_REPRODUCED = 0.6
#: If the ends show no change, at most this part of the runs is used for them.
_ENDS = 0.5
#: A change is excluded if the ends differ by more than the tolerance with a smaller probability than this, and if their
#: interval excludes twice the tolerance, as that of a pass of `check` does.
_EXCLUDED = 0.008
#: If the noise is unknown, each end is measured this many times before a change is excluded.
_FEWEST_ENDS = 4
#: A change is found only if the probability of no change is below this part of 1 - confidence. This is strict, because
#: a search goes on only between ends that differ, and some of these differ by chance.
_THERE = 0.6
#: A change is found if it is the largest one with this probability. To show which of two changes of similar size is
#: larger would need many more runs, and both are answers.
_LARGEST = 0.9
#: With at least these degrees of freedom the noise is known. With fewer, the answer and the position before it are
#: measured this many times.
_KNOWN, _VERIFIED = 14.0, 2
#: The logarithm of the largest relative change that is shown: more may be too large for a number.
_LARGEST_LOG = 700.0
#: The fault if the search ended before it began.
USED_UP = "runs or time were used up before both ends were measured"
#: The most positions that the answer lists.
_MOST_SUSPECTS = 100


class NotMeasurable(Exception):
    """A position cannot be measured: it does not build, or its program fails. The message says why."""


class Measurer(Protocol):
    """Measures positions; the loop knows nothing of commits and programs."""

    def measure(self, position: int) -> Measurement:
        """Measure a position once. Raises NotMeasurable."""

    def cost(self, position: int) -> float:
        """Return the expected seconds of a measurement of a position: less if it is built already."""

    def may_go_on(self) -> bool:
        """Return whether there is time for one more measurement."""


class Terms(Struct, frozen=True):
    """When a search ends: the answer has this probability, or this many measurements were made."""

    confidence: float = 0.95
    most_runs: int = 50


class Measurements(Struct):
    """All measurements so far, in order of time."""

    measurements: list[Measurement] = field(default_factory=list)
    #: By position that cannot be measured: the reason.
    skipped: dict[int, str] = field(default_factory=dict)


class Suspect(Struct, frozen=True):
    """A position that may have changed the level, with its probability."""

    position: int
    probability: float


class SearchResult(Struct, frozen=True):
    """The answer of `search`.

    `suspects` are the positions that changed the level with a probability of .1 % or more, the most probable first. The
    probabilities of all positions and that of no change add up to 1; see `Posterior.gap_probabilities`.
    `blamed` are the positions of the answer: one, or several that cannot be distinguished because those between them
    cannot be measured. `change` is relative, with its two-sided interval at the confidence of the terms: that of the
    blamed positions if there are any, else that of the ends. `more_runs` is the approximate number of runs that are
    still needed, if the search ended too early.
    """

    outcome: BisectOutcome
    suspects: tuple[Suspect, ...]
    blamed: tuple[int, ...]
    change: float
    low: float
    high: float
    runs: int
    more_runs: int | None
    #: The posterior; None if an end was not measured, or can no longer be measured.
    posterior: Posterior | None
    #: The reason why an end was not measured, or can no longer be measured.
    fault: str | None = None

    @classmethod
    def unknown(cls, fault: str, runs: int) -> SearchResult:
        """Return the answer without a posterior: nobody is blamed, and the change is from -1 to infinity."""
        return cls("undecided", (), (), 0.0, -1.0, math.inf, runs, more_runs=None, posterior=None, fault=fault)


#: Is called before each measurement with the chosen position, and the posterior so far.
Watcher: TypeAlias = Callable[[int, Posterior | None], None]


def search(
    model: Model, terms: Terms, measurer: Measurer, evidence: Measurements, watch: Watcher | None = None
) -> SearchResult:
    """Measure until one position is probable enough, a change is excluded, an end fails, or runs or time are used up.

    `evidence`: the earlier measurements; new ones are added to it. `watch`: is called before each measurement.
    """
    last = model.positions - 1
    ends = {last} if model.paired else {0, last}
    while True:
        is_known = ends <= {one.position for one in evidence.measurements}
        found = agreed_posterior(model, evidence.measurements) if is_known else None
        answer = _answer(found, last, terms, measurer, evidence)
        if answer is not None:
            return answer
        again = _unverified(found, terms, evidence) if found else None
        position = _next(found, model, measurer, evidence) if again is None else again
        if watch:
            watch(position, found)
        try:
            evidence.measurements.append(measurer.measure(position))
        except NotMeasurable as why:
            evidence.skipped[position] = str(why)


def _answer(
    found: Posterior | None, last: int, terms: Terms, measurer: Measurer, evidence: Measurements
) -> SearchResult | None:
    """Return the answer if it is probable enough, if an end has a fault, or if runs or time are used up; else None."""
    outcome = _outcome(found, terms, evidence) if found else None
    if found and outcome:
        return _result(outcome, found, terms, evidence)
    fault = next((evidence.skipped[end] for end in (0, last) if end in evidence.skipped), None)
    runs = len(evidence.measurements)
    if not fault and runs < terms.most_runs and measurer.may_go_on():
        return None
    if fault or found is None:
        return SearchResult.unknown(fault or USED_UP, runs)
    if _is_found(found, terms, evidence, largest=0.5):  # of two certain changes, the one that seems larger
        return _result("found", found, terms, evidence)
    outcome = "not-reproduced" if found.nothing > 1 - _REPRODUCED else "undecided"
    return _result(outcome, found, terms, evidence)


def _next(found: Posterior | None, model: Model, measurer: Measurer, evidence: Measurements) -> int:
    """Return the position to measure next: an end while a change is not probable, then the most informative one."""
    last = model.positions - 1
    if found is None or found.nothing > 1 - _REPRODUCED:
        ends = sum(one.position in (0, last) for one in evidence.measurements)
        return last if model.paired or ends % 4 in (1, 2) else 0  # first, last, last, first
    positions = [place for place in candidates(found, evidence.skipped) if not (model.paired and place == 0)]
    return best(found, positions, measurer.cost)[0]


def _outcome(found: Posterior, terms: Terms, evidence: Measurements) -> BisectOutcome | None:
    """Return the outcome if the evidence is enough, or None."""
    bound = math.log1p(found.model.tolerance)
    counts = Counter(one.position for one in evidence.measurements)
    ends = {found.model.positions - 1} if found.model.paired else {0, found.model.positions - 1}
    freedom = found.model.d0 + len(evidence.measurements)
    is_enough = freedom >= _KNOWN or all(counts[end] >= _FEWEST_ENDS for end in ends)
    # the last two numbers of `_ends` are the interval
    if is_enough and found.exceeds(bound) <= _EXCLUDED and max(map(abs, _ends(found, terms, evidence)[1:])) < 2 * bound:
        return "not-reproduced"
    only_ends = counts.keys() <= ends
    if only_ends and found.nothing > 1 - _REPRODUCED and len(evidence.measurements) >= _ENDS * terms.most_runs:
        return "not-reproduced"
    return "found" if _is_found(found, terms, evidence) and _unverified(found, terms, evidence) is None else None


def _is_found(found: Posterior, terms: Terms, evidence: Measurements, largest: float = _LARGEST) -> bool:
    """Return whether one change is probable enough, and no position between the ends of its cell can be measured."""
    cell, doubt = int(found.cells.argmax()), 1 - terms.confidence
    low, high = int(found.edges[cell]), int(found.edges[cell + 1])
    is_last = all(position in evidence.skipped for position in range(low + 1, high))
    is_there = found.nothing <= _THERE * doubt and found.cells[cell] >= largest
    # the last condition: the probability of a change in this cell, if there is a change at all
    return bool(is_last and is_there and found.changed[cell] >= (1 - doubt) * (1 - found.nothing))


def _unverified(found: Posterior, terms: Terms, evidence: Measurements) -> int | None:
    """Return the end of the answer's cell to measure again, or None: few runs may make the noise look too small."""
    freedom = found.model.d0 + len(evidence.measurements)
    if freedom >= _KNOWN or not _is_found(found, terms, evidence):
        return None
    cell = int(found.cells.argmax())
    counts = Counter(one.position for one in evidence.measurements)
    neighbours = [int(edge) for edge in found.edges[cell : cell + 2] if edge or not found.model.paired]
    few = [edge for edge in neighbours if counts[edge] < _VERIFIED and edge not in evidence.skipped]
    return min(few, key=lambda edge: counts[edge], default=None)


def _result(outcome: BisectOutcome, found: Posterior, terms: Terms, evidence: Measurements) -> SearchResult:
    """Return the answer with this outcome."""
    cell = int(found.cells.argmax())
    blamed: tuple[int, ...] = ()
    if outcome == "found":
        blamed = tuple(range(int(found.edges[cell]) + 1, int(found.edges[cell + 1]) + 1))
    gaps = found.gap_probabilities(cell if outcome == "found" else None)
    order = sorted(range(len(gaps)), key=lambda gap: (-gaps[gap], gap))
    suspects = tuple(Suspect(gap + 1, float(gaps[gap])) for gap in order[:_MOST_SUSPECTS] if gaps[gap] >= 0.001)
    change, more = _ends(found, terms, evidence), None
    if outcome == "found":
        change = found.change(cell, terms.confidence)
    elif outcome == "undecided":
        # the bits that are missing, divided by the bits of the next run
        bits = float(information(found, candidates(found, evidence.skipped)).max())
        more = max(1, math.ceil(entropy(found, evidence.skipped) / max(bits, 1e-3)))
    relative = [math.expm1(min(value, _LARGEST_LOG)) for value in change]
    return SearchResult(
        outcome, suspects, blamed, relative[0], relative[1], relative[2], len(evidence.measurements), more, found
    )


def _ends(found: Posterior, terms: Terms, evidence: Measurements) -> tuple[float, float, float]:
    """Return the logarithm of last / first position from their own measurements, with its two-sided interval."""
    values: dict[int, list[float]] = {0: [], found.model.positions - 1: []}
    for one in evidence.measurements:
        if one.position in values:
            values[one.position].append(one.log_value - found.drift * one.hours)
    first, last = values.values()
    base = fmean(first) if not found.model.paired else 0.0
    parts = 1 / len(last) + (0.0 if found.model.paired else 1 / len(first))
    within = fmean(one.within for one in evidence.measurements)
    error = math.sqrt((found.noise**2 + within) * parts)
    freedom = found.model.d0 + max(len(evidence.measurements) - 2, 0)
    margin = t_quantile(freedom, (1 + terms.confidence) / 2) * error
    change = fmean(last) - base
    return change, change - margin, change + margin
