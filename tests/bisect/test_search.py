"""The loop with a measurer that draws values: what it measures, when it ends, and how it ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.bisect.choose import candidates, entropy, information, nearest_to_middle
from perfgate.bisect.measurements import STORED, Measurement, Model
from perfgate.bisect.posterior import posterior
from perfgate.bisect.search import Measurements, NotMeasurable, SearchResult, Terms, search


class Fake:
    """A list of `n` positions whose level changes by the factors in `changes`."""

    def __init__(self, n: int, changes: dict[int, float], noise: float = 0.01, broken: tuple[int, ...] = ()) -> None:
        self.random, self.noise, self.broken = np.random.default_rng(1), noise, broken
        self.level = np.zeros(n)
        for gap, factor in changes.items():
            self.level[gap:] += math.log(factor)
        self.asked: list[int] = []
        self.most = math.inf

    def measure(self, position: int) -> Measurement:
        self.asked.append(position)
        if position in self.broken:
            raise NotMeasurable("does not build: cc: error")
        value = float(self.level[position] + self.random.normal(0, self.noise))
        return Measurement(position, value, 0.01 * len(self.asked))

    def cost(self, position: int) -> float:
        return 1.0

    def may_go_on(self) -> bool:
        return len(self.asked) < self.most


def run(
    fake: Fake, terms: Terms | None = None, evidence: Measurements | None = None, tolerance: float = 0.02
) -> SearchResult:
    """Search with the default terms."""
    return search(Model(len(fake.level), tolerance), terms or Terms(), fake, evidence or Measurements())


@pytest.mark.parametrize(
    ("n", "gap", "factor"),
    [(2, 1, 1.1), (3, 2, 1.1), (64, 1, 1.1), (64, 63, 1.1), (64, 20, 0.9), (10_000, 7777, 1.1), (64, 33, 30.0)],
)
def test_it_finds_the_position(n: int, gap: int, factor: float) -> None:
    fake = Fake(n, {gap: factor})
    found = run(fake)
    assert (found.outcome, found.blamed) == ("found", (gap,))
    assert found.low < factor - 1 < found.high
    assert found.change == pytest.approx(factor - 1, abs=0.03 * factor)
    assert fake.asked[:2] == [0, n - 1]
    assert found.runs == len(fake.asked) <= 30


def test_ends_that_do_not_differ_end_the_search() -> None:
    fake = Fake(64, {})
    found = run(fake)
    assert found.outcome == "not-reproduced"
    assert set(fake.asked) == {0, 63}
    assert -0.04 < found.low < 0 < found.high < 0.04


def test_a_change_below_the_tolerance_is_not_reproduced() -> None:
    assert run(Fake(64, {30: 1.02}, noise=0.002), tolerance=0.05).outcome == "not-reproduced"


def test_positions_that_cannot_be_measured_share_the_blame() -> None:
    fake = Fake(16, {9: 1.1}, broken=(8, 9))
    found = run(fake)
    assert (found.outcome, found.blamed) == ("found", (8, 9, 10))
    assert [round(one.probability, 1) for one in found.suspects[:3]] == [0.3, 0.3, 0.3]
    assert fake.asked.count(8) <= 1


@given(st.integers(1, 15), st.sets(st.integers(1, 14), max_size=6), st.sampled_from([0.85, 1.2]))
@settings(max_examples=25)
def test_a_position_that_cannot_be_measured_shares_the_blame_with_the_next(
    gap: int, broken: set[int], factor: float
) -> None:
    found = run(Fake(16, {gap: factor}, noise=0.002, broken=tuple(broken)))
    first, last = gap - 1, gap
    while first in broken:
        first -= 1
    while last in broken:
        last += 1
    assert (found.outcome, found.blamed) == ("found", tuple(range(first + 1, last + 1)))
    shares = {round(one.probability, 6) for one in found.suspects if one.position in found.blamed}
    assert len(shares) == 1


def test_the_probabilities_of_the_suspects_and_of_no_change_add_up_to_one() -> None:
    for changes in ({40: 1.06}, {11: 1.06, 40: 1.06}, {}):
        found = run(Fake(64, changes, noise=0.02))
        assert found.posterior is not None
        total = sum(one.probability for one in found.suspects) + found.posterior.nothing
        assert 1 - 63 * 0.001 < total <= 1 + 1e-9  # positions below .1 % are left out


def test_nothing_is_measured_inside_before_the_ends_differ() -> None:
    fake = Fake(64, {20: 1.1, 40: 1 / 1.1}, noise=0.01)  # the changes cancel: the ends do not differ
    assert (run(fake).outcome, set(fake.asked)) == ("not-reproduced", {0, 63})


def test_a_broken_end_is_said() -> None:
    found = run(Fake(16, {9: 1.1}, broken=(15,)))
    assert (found.outcome, found.fault) == ("undecided", "does not build: cc: error")


def test_the_largest_of_two_changes_comes_first() -> None:
    found = run(Fake(64, {11: 1.06, 40: 1.15}))
    assert found.blamed == (40,)
    assert found.posterior is not None
    assert found.posterior.another > 0.5


def test_runs_that_are_used_up_leave_it_undecided_and_say_how_many_more() -> None:
    found = run(Fake(64, {40: 1.05}, noise=0.02), Terms(most_runs=9))
    assert (found.outcome, found.runs) == ("undecided", 9)
    assert found.more_runs is not None
    assert 1 <= found.more_runs <= 30


def test_time_that_is_used_up_ends_it() -> None:
    fake = Fake(64, {40: 1.05}, noise=0.02)
    fake.most = 5
    assert run(fake).runs == 5


def test_it_goes_on_where_it_was() -> None:
    fake = Fake(64, {40: 1.05}, noise=0.02)
    evidence = Measurements()
    run(fake, Terms(most_runs=6), evidence)
    before = list(evidence.measurements)
    found = run(fake, evidence=evidence)
    assert evidence.measurements[:6] == before
    assert (found.blamed, found.runs) == ((40,), len(evidence.measurements))


def test_a_cached_build_is_preferred() -> None:
    class Slow(Fake):
        def cost(self, position: int) -> float:
            return 1.0 if position in self.asked else 100.0

    cheap, dear = Fake(64, {9: 1.05}, noise=0.02), Slow(64, {9: 1.05}, noise=0.02)
    assert run(cheap).outcome == run(dear).outcome == "found"
    assert len(set(dear.asked)) < len(set(cheap.asked))


def test_pairs_need_no_level() -> None:
    fake = Fake(16, {9: 1.05})
    found = search(Model(16, paired=True), Terms(), fake, Measurements())
    assert found.blamed == (9,)
    assert 0 not in fake.asked


def test_a_named_change_was_seen_twice_on_both_sides_where_the_noise_is_unknown() -> None:
    for gap in (5, 20, 33, 50):
        fake = Fake(64, {gap: 1.3}, noise=0.001)
        assert run(fake).blamed == (gap,)
        assert min(fake.asked.count(gap - 1), fake.asked.count(gap)) >= 2


def stored(value: float, runs: int = 20) -> Model:
    return Model(64, s0=0.02, d0=19.0, stored=(Measurement(0, value, session=STORED, runs=runs),))


def test_stored_runs_of_the_good_end_make_the_change_more_certain() -> None:
    values = [Measurement(place, 0.05 * (place == 63)) for place in (0, 63)]
    plain, known = (posterior(model, values) for model in (Model(64, s0=0.02, d0=19.0), stored(0.0)))
    assert known.nothing < 0.6 * plain.nothing
    (_, low, high), (_, least, most) = plain.change(0), known.change(0)
    assert most - least < 0.9 * (high - low)
    found = search(stored(0.0), Terms(), Fake(64, {19: 1.05}, noise=0.02), Measurements())
    assert (found.blamed, found.runs <= 16) == ((19,), True)


def test_stored_runs_of_a_faster_machine_are_not_believed() -> None:
    """The machine is 30 % slower now: that is no change of a commit."""
    found = search(stored(math.log(1 / 1.3)), Terms(), Fake(64, {}, noise=0.02), Measurements())
    assert found.outcome == "not-reproduced"
    assert found.posterior is not None
    assert found.posterior.model.stored == ()


def test_information_is_what_remains_to_be_known() -> None:
    known = [Measurement(p, 0.1 * (p >= 8), within=1e-6) for p in (0, 15, 15, 0)]
    found = posterior(Model(16, s0=1e-3, d0=20), known)
    assert entropy(found) == pytest.approx(math.log2(15), abs=0.1)
    bits = dict(zip(candidates(found), information(found, candidates(found)), strict=True))
    assert bits[7] == pytest.approx(1, abs=0.1)  # the middle halves the list, but for a second change
    assert bits[0] < 0.05
    assert entropy(found, skipped=range(1, 15)) < 0.1


@pytest.mark.parametrize(("skipped", "wanted"), [((), 5), ((5,), 4), ((4, 5, 6), 3), (range(1, 10), None)])
def test_the_middle_is_the_nearest_one_that_can_be_measured(skipped: tuple[int, ...], wanted: int | None) -> None:
    assert nearest_to_middle(0, 10, skipped) == wanted
