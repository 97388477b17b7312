"""Shares of known size: parts, ranks and terms that grow by whole numbers, and where a share is not told."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conftest import steady
from stories import TODAY, ruleset

from perfgate.core import Baseline, CalibratedPrior, Key, Run, Series, Verdict, read_only
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.stats.moderated import moderated_t
from perfgate.stats.statistics import measure_run


def verdict(
    sentence: str, base: list[Run], new: list[Run], *priors: CalibratedPrior, pairing: str | None = None
) -> Verdict:
    baseline = Baseline("s/e/l", tuple(base), priors=priors, pairing=pairing)
    (found,) = judge(Case(ruleset(f"  - '{sentence}'\n"), tuple(new), baseline, TODAY))
    return found


def value(metric: str, number: float, unit: str = "s", **labels: str) -> Series:
    return Series(Key.of(metric, **labels), unit, "value", read_only(np.array([number])))


def printed(metric: str, **statistics: float) -> Series:
    return Series(Key(metric), "s", "aggregate", read_only(np.array([])), aggregate=statistics)


def ranks(metric: str, *numbers: float) -> list[Series]:
    return [value(metric, number, rank=str(rank)) for rank, number in enumerate(numbers)]


def one(*held: Series) -> Run:
    return Run("run", "test", held)


def told(sentence: str, base: list[Series], new: list[Series], *, stored: int = 5) -> list[tuple[str, float]]:
    """What is said of three new runs, and of as many equal ones that are stored: the part or rank, and its share."""
    found = verdict(sentence, [one(*base)] * stored, [one(*new)] * 3)
    assert found.outcome == "fail"
    return [("".join((share.metric, *share.member.values())), round(share.share, 9)) for share in found.explained_by]


SHARES = [
    # the values of the base, those of the new run, and the shares
    ({"": 100, ".a": 1}, {"": 200, ".a": 2}, [("load.a", 0.01)]),
    ({"": 100, ".a": 1}, {"": 200, ".a": 1.99}, []),
    ({"": 4, ".a": 1, ".a.b": 1}, {"": 8, ".a": 3, ".a.b": 2}, [("load.a", 0.5), ("load.a.b", 0.25)]),
    ({"": 4, ".a.b": 1}, {"": 8, ".a": 3, ".a.b": 2}, [("load.a.b", 0.25)]),
    ({"": 4, ".a*": 1, ".ab": 1}, {"": 8, ".a*": 3, ".ab": 2}, [("load.a*", 0.5), ("load.ab", 0.25)]),
    ({"": 4, ".a": 0, ".b": 1}, {"": 8, ".a": 4, ".b": 2}, [("load.b", 0.25)]),
    ({"": 4, ".a": 4, ".b": 1}, {"": 8, ".a": 0, ".b": 2}, [("load.b", 0.25)]),
    ({"": 8, ".a": 2, ".b": 4}, {"": 16, ".a": 6, ".b": 2}, [("load.a", 0.5), ("load.b", -0.25)]),
]


@pytest.mark.parametrize(("base", "new", "shares"), SHARES)
def test_shares_of_known_size(base: dict[str, float], new: dict[str, float], shares: list[tuple[str, float]]) -> None:
    rows = [[value(f"load{name}", number) for name, number in side.items()] for side in (base, new)]
    assert told("load within 5% of baseline", *rows) == shares


@pytest.mark.parametrize("nothing", [float("nan"), float("inf"), 0.0, -1.0])
def test_a_part_that_is_no_number_in_one_run_is_left_out(nothing: float) -> None:
    runs = [one(value("load", 4), value("load.a", a), value("load.b", 1)) for a in (1, 1, nothing, 1, 1)]
    new = [one(value("load", 8), value("load.a", 3), value("load.b", 2))]
    found = verdict("load within 5% of baseline", runs, new)
    assert [(share.metric, share.share) for share in found.explained_by] == [("load.b", 0.25)]


@pytest.mark.parametrize(("unit", "shares"), [("B", [("load.a", 0.04)]), ("s", [])])
def test_parts_of_bytes_have_no_noise(unit: str, shares: list[tuple[str, float]]) -> None:
    base, new = ([value("load", a, unit), value("load.a", b, unit)] for a, b in ((100, 50), (108, 50.32)))
    assert told("load within 1% of baseline", base, new) == shares


@pytest.mark.parametrize(("base", "new"), [((0, 4), (8, 8)), ((8, 8), (0, 4))])
def test_a_change_from_or_to_nothing_has_shares(base: tuple[float, float], new: tuple[float, float]) -> None:
    sides = ([value("load", a, "B"), value("load.a", b, "B")] for a, b in (base, new))
    assert told("load within ±1 B of baseline", *sides) == [("load.a", 0.5)]


RANKS = [
    # the ranks of the base, those of the new run, and the shares
    ([4, 4], [5, 7], [("load1", 0.75), ("load0", 0.25)]),
    ([4, 4], [5, 6.9], []),
    ([4, 4], [4, 8], [("load1", 1.0)]),
    ([0, 4], [2, 6], [("load1", 0.5)]),
    ([4, 5], [3, 6], []),  # together they take as long as before
    ([4, 4, 4], [5, 6, 9], [("load2", 0.625), ("load1", 0.25), ("load0", 0.125)]),
    ([4, 4, 4], [6, 6, 6], []),
    ([4], [8], []),
]


@pytest.mark.parametrize("stored", [5, 7])
@pytest.mark.parametrize(("base", "new", "shares"), RANKS)
def test_shares_of_ranks(base: list[float], new: list[float], shares: list[tuple[str, float]], stored: int) -> None:
    sides = ranks("load", *base), ranks("load", *new)
    assert told("load within 5% of baseline", *sides, stored=stored) == shares


OF_A_RANK = [
    # which rank speaks, and the share of the part that it holds; of rank 0 it grows by 1, of rank 1 by 2
    ("", 0.5),
    ("on the slowest rank", 0.5),
    ("on the fastest rank", 0.25),
]


@pytest.mark.parametrize(("choice", "share"), OF_A_RANK)
def test_a_part_is_that_of_the_rank_that_speaks(choice: str, share: float) -> None:
    base = [*ranks("load", 4, 5), *ranks("load.a", 1, 1)]
    new = [*ranks("load", 8, 9), *ranks("load.a", 2, 3)]
    sentence = f"load {choice} within 5% of baseline"
    assert told(sentence, base, new) == [("load.a", share)]
    whole_run = value("load.a", 1), value("load.a", 4)
    assert told(sentence, [*base[:2], whole_run[0]], [*new[:2], whole_run[1]]) == [("load.a", 0.75)]
    assert told(sentence, [*base, whole_run[0]], [*new, whole_run[1]]) == [("load.a", share)]


def test_across_ranks_the_parts_are_pooled_too() -> None:
    def side(*numbers: float) -> list[Series]:
        names = ("load", "load", "load.a", "load.a")
        return [
            Series(Key.of(name, rank=str(i % 2)), "s", "samples", read_only(np.array([number] * 20)))
            for i, (name, number) in enumerate(zip(names, numbers, strict=True))
        ]

    (share,) = told("load median across ranks within 5% of baseline", side(4, 4, 1, 1), side(8, 8, 3, 3))
    assert share == ("load.a", 0.5)


@pytest.mark.parametrize("statistic", ["median", "trimmed_mean"])
def test_a_part_is_measured_as_the_metric_is(statistic: str) -> None:
    """Three values that are far off move the mean alone, which here is 1.4 times the others."""

    def side(whole: float, part: float) -> list[Series]:
        usual = np.array(steady(1.0, n=60))
        values = {"load": whole * usual, "load.a": part * np.where(np.isin(np.arange(60), (10, 30, 50)), 9.0, usual)}
        return [Series(Key(name), "s", "samples", read_only(x)) for name, x in values.items()]

    (share,) = told(f"load {statistic} within 5% of baseline", side(4, 1), side(8, 3))
    assert share == ("load.a", pytest.approx(0.5, rel=0.01))


PRINTED = [
    # what is printed of the metric and of its part, and the part's value for each of the metric
    ({"mean": 2.0, "count": 2.0}, {"mean": 3.0, "count": 4.0}, 6.0),
    ({"mean": 2.0, "count": 2.0}, {"mean": 3.0}, 1.5),
    ({"mean": 2.0}, {"mean": 3.0, "count": 2.0}, 6.0),
    ({"mean": 2.0}, {"mean": 3.0}, 3.0),
]


@pytest.mark.parametrize(("whole", "part", "each"), PRINTED)
def test_what_is_printed_is_counted(whole: dict[str, float], part: dict[str, float], each: float) -> None:
    base = [printed("load", **whole), printed("load.a", **part)]
    new = [printed("load", **{**whole, "mean": 9.0}), printed("load.a", **{**part, "mean": 6.0})]
    (share,) = verdict("load mean within 5% of baseline", [one(*base)], [one(*new)]).explained_by
    assert (share.base, share.new) == pytest.approx((each, 2 * each))


NOT_STORED = [
    # unit, how much slower the new run is, and whether the parts that only it holds are asked for
    ("s", 2.0, True),
    ("s", 1.0, False),
    ("1", 2.0, False),
]


@pytest.mark.parametrize(("unit", "slower", "asked_for"), NOT_STORED)
def test_parts_are_asked_for_where_they_would_explain_something(unit: str, slower: float, asked_for: bool) -> None:
    new = one(value("load", slower, unit), value("load.a", 0.5, unit), value("load.b", 0.2, unit))
    found = verdict("load within ±5% of baseline", [one(value("load", 1.0, unit))], [new])
    assert [note for note in found.notes if "load.a, load.b" in note] == [
        "the slower part is unknown: the baseline was stored without load.a, load.b; a run stored now has them"
    ] * asked_for


def test_steps_that_are_slower_one_by_one_have_no_shares_where_no_value_differs() -> None:
    """Of two that take turns, the steps may differ by half though both sides have the same median."""
    order = np.random.default_rng(1).integers(3, size=600).repeat(2)

    def side(name: str, slow: tuple[float, ...], other: float) -> list[Run]:
        values = (np.array(slow)[order], np.full(len(order), other))
        rows = tuple(Series(Key.of("load", rank=str(i)), "s", "samples", read_only(x)) for i, x in enumerate(values))
        return [Run(f"p.json, pair {number}, {name}", "test", rows) for number in (1, 2, 3)]

    base, new = side("base", (1.0, 2.0, 3.0), 0.5), side("new", (2.0, 3.0, 1.0), 0.9)
    found = verdict("load within 5% of baseline", base, new, pairing="in-turn")
    assert (found.outcome, found.base and found.base.estimate, found.new and found.new.estimate) == ("fail", 2.0, 2.0)
    assert found.explained_by == ()


SUMS = [
    # a subject, and the shares of its terms, of which a grows by 2 and the others by 1
    ("a + b + c", [("a", 0.5), ("b", 0.25), ("c", 0.25)]),
    ("a + b - c", []),
    ("a * 2 + b", []),
    ("a - b", []),
]


@pytest.mark.parametrize(("subject", "shares"), SUMS)
def test_only_the_terms_of_a_sum_explain_it(subject: str, shares: list[tuple[str, float]]) -> None:
    base, new = ([value(name, x) for name, x in zip("abc", side, strict=True)] for side in ((8, 2, 1), (10, 3, 2)))
    assert told(f"{subject} within 5% of baseline", base, new) == shares


#: The noise of one run against another: how far the bounds of a logarithm are from it.
MARGIN = moderated_t([measure_run(1.0)], [measure_run(1.0)], (0.01, 2.0)).bounds(0.95)[1]
FAR = [
    # the part in the base runs and in the new one, as logarithms, and whether the size of its change is known
    ([-350.0], 150.0, True),
    ([0.0], 700 - MARGIN, True),  # the upper bound is 700
    ([-350.0], 350.5, False),
    ([-353.0, -347.0], 355.0, False),
    ([-350.0], 650.0, False),
    ([457.0, 463.0], 704.0, False),
    ([457.0, 463.0], 690.0, True),
]


@pytest.mark.parametrize(("base", "new", "known"), FAR)
def test_changes_beyond_every_number_have_no_share(base: list[float], new: float, known: bool) -> None:
    stored = [one(value("load", 1.0), value("load.a", math.exp(log))) for log in base]
    found = verdict("load within 5% of baseline", stored, [one(value("load", 2.0), value("load.a", math.exp(new)))])
    assert [share.metric for share in found.explained_by] == ["load.a"] * known


@pytest.mark.parametrize("faster", [False, True])
def test_an_interval_that_ends_at_nothing_is_within_noise(faster: bool) -> None:
    prior = CalibratedPrior(Key("load"), "mean", "worst", 0.3, 2.0, 5)
    margin = moderated_t([measure_run(1.0)], [measure_run(1.0)], (prior.s0, prior.d0)).bounds(0.95)[1]
    edge = next(x for x in np.exp(margin) + np.arange(-4, 5) * 2.0**-51 if np.log(x) == margin)
    for larger, parts in ((edge, []), (edge + 1e-14, ["load.a"])):
        base, new = (larger, 1.0) if faster else (1.0, larger)
        sides = [one(value("load", x), value("load.a", y)) for x, y in ((1.0, base), (10.0, new))]
        found = verdict("load within 5% of baseline", sides[:1], sides[1:], prior)
        assert [share.metric for share in found.explained_by] == parts
