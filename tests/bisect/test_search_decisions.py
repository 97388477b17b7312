"""What a search does with a posterior: whether it ends, how, what it measures next, and the numbers of its answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from made_posterior import hypotheses, made
from msgspec.structs import replace
from scipy import stats

from perfgate.bisect import search as module
from perfgate.bisect.choose import candidates, entropy, information
from perfgate.bisect.measurements import Measurement, Model
from perfgate.bisect.posterior import Posterior
from perfgate.bisect.search import (
    USED_UP,
    Measurements,
    NotMeasurable,
    SearchResult,
    Suspect,
    Terms,
    _ends,
    _is_found,
    _next,
    _outcome,
    _result,
    _unverified,
    search,
)

#: Numbers that are exact: doubt 1/4, no change with at most .6 / 4, and any change in the cell with at least .75.
TERMS = Terms(confidence=0.75)
UP, DOWN = math.inf, -math.inf


def seen(*positions: int, values: Mapping[int, float] | None = None, skipped: Sequence[int] = ()) -> Measurements:
    """Measurements of these positions, an hour apart."""
    known = values or {}
    rows = [Measurement(place, known.get(place, 0.0), float(hour)) for hour, place in enumerate(positions)]
    return Measurements(rows, dict.fromkeys(skipped, "does not build"))


def found_in(
    cell: int = 1,
    largest: float = 0.9,
    changed: float = 0.75,
    nothing: float = 0.0,
    edges: Sequence[int] = (0, 3, 4, 6, 9),
    **model: Any,
) -> Posterior:
    """A posterior with a change in a cell, by these probabilities; the position before the last one is of no cell."""
    cells, every = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    cells[cell], every[cell] = largest, changed
    basis = replace(made(), model=Model(edges[-1] + 1, **model), edges=np.array(edges))
    return replace(basis, cells=cells, changed=every, nothing=nothing)


def test_a_search_ends_at_95_percent_or_after_50_measurements() -> None:
    assert Terms() == Terms(confidence=0.95, most_runs=50)
    certain = found_in(largest=1.0, changed=0.951)
    assert _is_found(certain, Terms(), seen())
    assert not _is_found(replace(certain, changed=certain.changed - 0.002), Terms(), seen())


# --- whether the change is found -------------------------------------------------------------------------------------

FOUND: list[tuple[dict[str, Any], Sequence[int], bool]] = [
    # the posterior, the positions that cannot be measured, and whether its cell is the answer
    ({}, (), True),
    ({"largest": np.nextafter(0.9, DOWN)}, (), False),
    ({"changed": np.nextafter(0.75, DOWN)}, (), False),
    ({"nothing": 0.15}, (), True),
    ({"nothing": np.nextafter(0.15, UP)}, (), False),
    ({"nothing": 0.125, "changed": 0.75 * 0.875}, (), True),
    ({"nothing": 0.125, "changed": np.nextafter(0.75 * 0.875, DOWN)}, (), False),
    ({"edges": (0, 3, 5, 9)}, (), False),
    ({"edges": (0, 3, 5, 9)}, (4,), True),
    ({"edges": (0, 3, 6, 9)}, (4,), False),
    ({"edges": (0, 3, 6, 9)}, (5,), False),
    ({"edges": (0, 3, 6, 9)}, (4, 5), True),
    ({"edges": (0, 3, 6, 9), "cell": 2}, (7, 8), True),
    ({"edges": (0, 3, 6, 9), "cell": 2}, (7, 4, 5), False),
]


@pytest.mark.parametrize(("parts", "skipped", "is_found"), FOUND)
def test_a_change_is_found_if_it_is_there_is_the_largest_and_has_one_place(
    parts: dict[str, Any], skipped: Sequence[int], is_found: bool
) -> None:
    assert _is_found(found_in(**parts), TERMS, seen(skipped=skipped)) is is_found


@pytest.mark.parametrize(("least", "is_found"), [(0.5, True), (0.8, True), (0.9, False)])
def test_the_share_of_the_largest_change_may_be_smaller(least: float, is_found: bool) -> None:
    assert _is_found(found_in(largest=0.8), TERMS, seen(), least) is is_found


VERIFIED: list[tuple[dict[str, Any], Sequence[int], Sequence[int], int | None]] = [
    # the posterior of a change from 3 to 4, the measured positions, those that cannot be measured, what is measured
    ({}, (0, 9, 3, 4), (), 3),
    ({}, (0, 9, 3, 4, 3), (), 4),
    ({}, (0, 9, 4, 3, 4), (), 3),
    ({}, (0, 9, 3, 4, 3, 4), (), None),
    ({}, (0, 9, 4), (), 3),
    ({}, (0, 9, 3), (), 4),
    ({}, (0, 9, 3, 4), (3,), 4),
    ({}, (0, 9, 3, 4), (3, 4), None),
    ({"d0": 10.0}, (0, 9, 3, 4), (), None),
    ({"d0": np.nextafter(10.0, 0.0)}, (0, 9, 3, 4), (), 3),
    ({"largest": 0.8}, (0, 9, 3, 4), (), None),
    ({"cell": 0, "edges": (0, 1, 9)}, (9, 1), (), 0),
    ({"cell": 0, "edges": (0, 1, 9), "paired": True}, (9, 1), (), 1),
    ({"cell": 0, "edges": (0, 1, 9), "paired": True}, (9, 1, 1), (), None),
    ({"paired": True}, (9, 3, 4), (), 3),
]


@pytest.mark.parametrize(("parts", "positions", "skipped", "position"), VERIFIED)
def test_both_sides_of_the_answer_are_measured_twice_while_the_noise_is_unknown(
    parts: dict[str, Any], positions: Sequence[int], skipped: Sequence[int], position: int | None
) -> None:
    found = found_in(**({"d0": 2.0} | parts))
    assert _unverified(found, TERMS, seen(*positions, skipped=skipped)) == position


# --- how it ends -----------------------------------------------------------------------------------------------------

BOUND = math.log1p(0.02)


def unclear(beyond: float, noise: float = 0.0, nothing: float = 0.0, **model: Any) -> Posterior:
    """No answer yet: the ends differ by more than the tolerance with this probability, else by nothing."""
    rows = hypotheses([((-1, -1), 1 - beyond, (0, 0), (0, 0, 0)), ((0, -1), beyond, (0.5, 0), (0, 0, 0))])
    return replace(found_in(0, 0.6, nothing=nothing, **model), hypotheses=rows, noise=noise)


EXCLUDED: list[tuple[dict[str, Any], Sequence[int], float, bool]] = [
    # the posterior, the measured positions, the logarithm of the last one, and whether a change is excluded
    ({"beyond": 0.008}, (0, 9, 9, 0), 0.0, True),
    ({"beyond": np.nextafter(0.008, 1.0)}, (0, 9, 9, 0), 0.0, False),
    ({}, (0, 9, 9, 0), np.nextafter(2 * BOUND, 0.0), True),
    ({}, (0, 9, 9, 0), 2 * BOUND, False),
    ({}, (0, 9, 9, 0), -2 * BOUND, False),
    ({}, (0, 9, 9, 0), 2.5 * BOUND, False),
    ({"noise": 0.005}, (0, 9, 9, 0), 0.01, True),
    ({"noise": 0.02}, (0, 9, 9, 0), 0.01, False),
    ({"noise": 0.02}, (0, 9, 9, 0), -0.01, False),
    ({"d0": np.nextafter(10.0, 0.0)}, (0, 9, 9, 0), 0.0, False),
    ({"d0": 2.0}, (0, 9, 9, 0, 0, 9, 9, 0), 0.0, True),
    ({"d0": 2.0}, (0, 9, 9, 0, 0, 9, 9), 0.0, False),
    ({"d0": 2.0}, (0, 9, 9, 0, 0, 9, 9, 3), 0.0, False),
    ({"d0": 2.0}, (0, 9, 9, 9, 9, 9), 0.0, False),
    ({"d0": 2.0, "paired": True}, (9, 9, 9, 9), 0.0, True),
    ({"d0": 2.0, "paired": True}, (9, 9, 9), 0.0, False),
    ({"d0": 2.0, "paired": True}, (9, 9, 9, 8), 0.0, False),
]


@pytest.mark.parametrize(("parts", "positions", "last", "is_excluded"), EXCLUDED)
def test_a_change_between_the_ends_is_excluded(
    parts: dict[str, Any], positions: Sequence[int], last: float, is_excluded: bool
) -> None:
    found = unclear(**({"beyond": 0.0, "d0": 10.0} | parts))
    outcome = _outcome(found, Terms(), seen(*positions, values={9: last}))
    assert outcome == ("not-reproduced" if is_excluded else None)


LIMITED: list[tuple[float, Sequence[int], int, bool, bool]] = [
    # the probability of no change, the measured positions, the most runs, pairs, and whether it ends
    (0.5, (0, 9, 9, 0), 8, False, True),
    (0.5, (0, 9, 9, 0), 9, False, False),
    (0.5, (0, 9, 9, 0), 7, False, True),
    (0.4, (0, 9, 9, 0), 8, False, False),
    (np.nextafter(0.4, 1.0), (0, 9, 9, 0), 8, False, True),
    (0.5, (0, 9, 9, 0, 4), 8, False, False),
    (0.5, (9, 9, 9), 6, True, True),
    (0.5, (9, 9, 9), 7, True, False),
    (0.5, (9, 9, 8), 6, True, False),
]


@pytest.mark.parametrize(("nothing", "positions", "most", "paired", "ends"), LIMITED)
def test_half_of_the_runs_at_the_ends_are_enough_to_see_no_change(
    nothing: float, positions: Sequence[int], most: int, paired: bool, ends: bool
) -> None:
    found = unclear(0.5, nothing=nothing, d0=2.0, paired=paired)
    assert _outcome(found, Terms(most_runs=most), seen(*positions)) == ("not-reproduced" if ends else None)


OUTCOMES: list[tuple[dict[str, Any], Sequence[int], str | None]] = [
    ({}, (0, 9, 3, 4, 3, 4), "found"),
    ({}, (0, 9, 3, 4, 3), None),
    ({"largest": 0.8}, (0, 9, 3, 4, 3, 4), None),
]


@pytest.mark.parametrize(("parts", "positions", "outcome"), OUTCOMES)
def test_a_change_that_was_measured_twice_is_found(
    parts: dict[str, Any], positions: Sequence[int], outcome: str | None
) -> None:
    assert _outcome(found_in(d0=2.0, **parts), TERMS, seen(*positions)) == outcome


# --- what is measured next -------------------------------------------------------------------------------------------


class Cheapest:
    """Measures nothing; one position costs almost nothing."""

    def __init__(self, position: int) -> None:
        self.position = position

    def measure(self, position: int) -> Measurement:
        raise NotImplementedError

    def cost(self, position: int) -> float:
        return 1e-9 if position == self.position else 1.0

    def may_go_on(self) -> bool:
        return True


@pytest.mark.parametrize("found", [None, replace(made(), nothing=np.nextafter(0.4, 1.0))])
def test_the_ends_take_turns_while_no_change_is_probable(found: Posterior | None) -> None:
    positions: list[int] = []
    for _ in range(9):
        positions.append(_next(found, Model(8), Cheapest(3), seen(*positions, 3)))
    assert positions == [0, 7, 7, 0, 0, 7, 7, 0, 0]
    assert _next(found, Model(8, paired=True), Cheapest(3), seen()) == 7
    assert _next(found, Model(8, paired=True), Cheapest(3), seen(7, 7, 7)) == 7


@pytest.mark.parametrize(("cheapest", "paired", "skipped", "position"), [
    (0, False, (), 0),
    (2, False, (), 2),
    (1, True, (), 1),
    (5, True, (), 5),
    (4, True, (), None),
    (5, True, (5,), None),
    (0, True, (), None),
])  # fmt: skip
def test_then_the_most_informative_position_for_its_cost(
    cheapest: int, paired: bool, skipped: Sequence[int], position: int | None
) -> None:
    """The candidates are 0, 2, 3, 7 and the middles 1 and 5; position 0 is not measured beside itself."""
    found = replace(made(), nothing=0.4)
    chosen = _next(found, Model(8, paired=paired), Cheapest(cheapest), seen(0, 7, skipped=skipped))
    places = [one for one in candidates(found, skipped) if one or not paired]
    best = max(places, key=lambda one: information(found, [one])[0])
    assert chosen == (best if position is None else position)


# --- the numbers of the answer ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("paired", "positions"), [
    (False, (0, 9, 4, 9, 0, 0)),
    (False, (0, 9)),
    (True, (9, 4, 9)),
    (True, (9,)),
])  # fmt: skip
def test_the_ends_differ_by_the_means_without_drift(paired: bool, positions: Sequence[int]) -> None:
    """With Student's t of the prior degrees of freedom, plus the measurements, less a level and a change."""
    rows = [
        Measurement(place, 1.0 + 0.1 * place + 0.03 * hour**2, float(hour), within=1e-4 * hour)
        for hour, place in enumerate(positions, 1)
    ]
    found = replace(found_in(d0=3.0, paired=paired), drift=0.02, noise=0.05)
    change, low, high = _ends(found, TERMS, Measurements(rows))
    level = {place: [one.log_value - 0.02 * one.hours for one in rows if one.position == place] for place in (0, 9)}
    first, last = np.mean(level[0] or [0.0]), np.mean(level[9])
    variance = 0.05**2 + np.mean([one.within for one in rows])
    error = math.sqrt(variance / len(level[9]) + (0.0 if paired else variance / len(level[0])))
    margin = stats.t.ppf(0.875, 3 + max(len(rows) - 2, 0)) * error
    assert (change, low, high) == pytest.approx((last - first, last - first - margin, last - first + margin))


def test_the_answer_names_the_positions_of_the_cell_and_its_change() -> None:
    found, evidence = made(), seen(0, 7, 2, 3, 0)
    result = _result("found", found, TERMS, evidence)
    gaps = found.gap_probabilities(2)
    change = [math.expm1(one) for one in found.change(2, 0.75)]
    assert (result.outcome, result.blamed, result.runs, result.more_runs) == ("found", (4, 5, 6, 7), 5, None)
    assert (result.change, result.low, result.high) == tuple(change)
    assert result.suspects == tuple(
        Suspect(position, gaps[position - 1]) for position in sorted(range(1, 8), key=lambda one: -gaps[one - 1])
    )
    assert (result.posterior, result.fault) == (found, None)
    adjacent = _result("found", found_in(edges=(0, 3, 4, 7), cell=1), TERMS, evidence)
    assert adjacent.blamed == (4,)


def test_an_answer_without_a_change_has_the_difference_of_the_ends() -> None:
    found, evidence = made(), seen(0, 7, 7, 0, values={7: 0.01})
    result = _result("not-reproduced", found, TERMS, evidence)
    assert (result.outcome, result.blamed, result.more_runs) == ("not-reproduced", (), None)
    assert (result.change, result.low, result.high) == pytest.approx(
        [math.expm1(one) for one in _ends(found, TERMS, evidence)]
    )
    gaps = found.gap_probabilities()
    assert [one.position for one in result.suspects] == [1, 2, 3, 4, 5, 6, 7]  # .15 each, then .1125 each
    assert [one.probability for one in result.suspects] == gaps.tolist()


def test_only_suspects_of_a_thousandth_or_more_are_named() -> None:
    found = found_in(edges=(0, 1, 2, 3, 4))
    found = replace(found, cells=np.array([np.nextafter(0.001, 0.0), 0.001, 0.4, 0.5]))
    result = _result("not-reproduced", found, TERMS, seen(0, 4))
    assert result.suspects == (Suspect(4, 0.5), Suspect(3, 0.4), Suspect(2, 0.001))


def test_no_more_than_a_hundred_suspects_are_named() -> None:
    found = replace(found_in(0, edges=(0, 120)), cells=np.array([0.96]))
    result = _result("not-reproduced", found, TERMS, seen(0, 120))
    assert [one.position for one in result.suspects] == [*range(1, 101)]


def test_a_search_that_ended_too_early_says_how_many_more_runs_it_needs() -> None:
    """The bits that are missing, divided by the bits of the best next run."""
    for skipped in ((), (5, 4)):
        result = _result("undecided", made(), TERMS, seen(0, 7, skipped=skipped))
        bits = max(information(made(), candidates(made(), skipped)))
        assert result.more_runs == math.ceil(entropy(made(), skipped) / bits) > 1
        assert (result.blamed, result.outcome) == ((), "undecided")
    known = replace(unclear(0.0, nothing=1.0), cells=np.zeros(4))
    assert _result("undecided", known, TERMS, seen(0, 9)).more_runs == 1  # nothing to learn


def test_a_difference_that_is_too_large_for_a_number() -> None:
    values = {0: -700.0, 7: 700.0}
    result = _result("undecided", made(), TERMS, seen(0, 7, values=values))
    assert (result.change, result.high) == (math.expm1(700.0), math.expm1(700.0))


# --- the loop --------------------------------------------------------------------------------------------------------


class Script(Cheapest):
    """Measures each position as 0, but for those that it cannot measure, and has time for some measurements."""

    def __init__(self, time: float = math.inf, broken: Sequence[int] = ()) -> None:
        super().__init__(3)
        self.asked: list[int] = []
        self.time, self.broken = time, broken

    def measure(self, position: int) -> Measurement:
        self.asked.append(position)
        if position in self.broken:
            raise NotMeasurable(f"{position} does not build")
        return Measurement(position, 0.0)

    def may_go_on(self) -> bool:
        return len(self.asked) < self.time


Seen = list[tuple[int, Posterior | None]]


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[SearchResult, Script, Seen]]:
    """A search in which each posterior is the same."""

    def work(found: Posterior, script: Script, evidence: Measurements | None = None, **terms: Any) -> Any:
        monkeypatch.setattr(module, "agreed_posterior", lambda model, measurements: found)
        watched: Seen = []
        result = search(
            found.model,
            Terms(**({"confidence": 0.75} | terms)),
            script,
            seen() if evidence is None else evidence,
            lambda position, so_far: watched.append((position, so_far)),
        )
        return result, script, watched

    return work


def test_both_ends_are_measured_and_then_it_is_over(searched: Any) -> None:
    found, evidence = found_in(d0=14.0), seen()
    result, script, watched = searched(found, Script(), evidence)
    assert (result, script.asked) == (_result("found", found, TERMS, evidence), [0, 9])
    assert watched == [(0, None), (9, None)]
    assert evidence.measurements == [Measurement(0, 0.0), Measurement(9, 0.0)]
    assert search(found.model, TERMS, Script(), evidence) == result  # what was measured counts; nobody watches


def test_of_pairs_only_the_last_position_is_measured(searched: Any) -> None:
    result, script, watched = searched(found_in(d0=14.0, paired=True), Script())
    assert (result.outcome, script.asked, watched) == ("found", [9], [(9, None)])


def test_the_sides_of_the_answer_are_measured_before_it_is_given(searched: Any) -> None:
    found = found_in(d0=2.0)
    result, script, watched = searched(found, Script())
    assert (result.outcome, script.asked) == ("found", [0, 9, 3, 4, 3, 4])
    assert watched[2:] == [(place, found) for place in (3, 4, 3, 4)]


def test_a_position_that_cannot_be_measured_is_not_tried_again(searched: Any) -> None:
    evidence = seen()
    result, script, _ = searched(found_in(d0=2.0), Script(broken=(3,)), evidence)
    assert (result.outcome, script.asked) == ("found", [0, 9, 3, 4, 4])
    assert evidence.skipped == {3: "3 does not build"}


NOTHING = ((), (), 0.0, -1.0, math.inf)
ENDED: list[tuple[Script, int, Sequence[int], int, str]] = [
    # the measurer, the most runs, what is asked, how often it was measured, and the fault
    (Script(broken=(0,)), 9, [0], 0, "0 does not build"),
    (Script(broken=(9,)), 9, [0, 9], 1, "9 does not build"),
    (Script(broken=(9,), time=2), 1, [0], 1, USED_UP),
    (Script(), 0, [], 0, USED_UP),
    (Script(), 1, [0], 1, USED_UP),
    (Script(time=1), 9, [0], 1, USED_UP),
]


@pytest.mark.parametrize(("script", "most", "asked", "runs", "fault"), ENDED)
def test_without_both_ends_there_is_no_answer(
    searched: Any, script: Script, most: int, asked: Sequence[int], runs: int, fault: str
) -> None:
    script = Script(script.time, script.broken)
    result, script, _ = searched(found_in(), script, most_runs=most)
    assert result == SearchResult("undecided", *NOTHING, runs, None, None, fault)
    assert script.asked == asked


LAST: list[tuple[Posterior, str]] = [
    # the posterior when runs or time are used up, and the outcome
    (found_in(largest=0.5, d0=2.0), "found"),
    (found_in(largest=0.4999, d0=2.0), "undecided"),
    (found_in(largest=0.5, d0=2.0, nothing=0.4), "undecided"),
    (found_in(largest=0.5, d0=2.0, nothing=np.nextafter(0.4, 1.0)), "not-reproduced"),
]


@pytest.mark.parametrize(("found", "outcome"), LAST)
@pytest.mark.parametrize(("terms", "time"), [({"most_runs": 5}, math.inf), ({}, 2)])
def test_what_is_known_when_runs_or_time_are_used_up(
    searched: Any, found: Posterior, outcome: str, terms: dict[str, int], time: float
) -> None:
    evidence = seen(0, 9, 3)
    result, script, _ = searched(found, Script(time), evidence, **terms)
    assert len(script.asked) == 2
    assert result == _result(outcome, found, TERMS, evidence)  # type: ignore[arg-type]
    assert result.runs == 5
