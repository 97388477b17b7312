"""The doubts about amounts, gains, ranks and runs that disagree, each with its numbers: one row a case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from conftest import steady
from msgspec.structs import replace
from stories import bare, question_of, run_of, series

from perfgate.core import Better, Fact, Key, Run, Series, Summary, read_only
from perfgate.core.results import Doubt
from perfgate.judge.doubts.amounts import amount_doubts, disagreement, gains
from perfgate.judge.measure import Method
from perfgate.judge.question import MeasuredSide
from perfgate.judge.terms import ChangeTerms
from perfgate.stats.statistics import RunMeasure

NOTHING = np.empty(0)


def less(what: Any, base: Any, new: Any, *, decides: bool = False) -> list[Doubt]:
    return [Doubt("measured-less", what, base, new, decides=decides)]


def samples(n: int, **fields: Any) -> Series:
    return Series(Key("x"), "s", "samples", read_only(np.ones(n)), **fields)


def at(*steps: Any, **fields: Any) -> Series:
    return samples(len(steps), steps=np.array(steps, dtype=np.int64), **fields)


def printed(**aggregate: float) -> Series:
    return Series(Key("x"), "s", "aggregate", NOTHING, aggregate={"mean": 1.0, **aggregate})


NUMBER = Series(Key("x"), "s", "value", np.ones(1))
STORED = Series(
    *(Key("x"), "s", "summary", NOTHING),
    aggregate={"count": 9.0},
    summary=Summary(("median",), ((1.0, 9.0, 0.0),), 9, 0, True, "auto", ("lower",)),
)
LOG, TRACE = "test", "torch-trace"


def side(form: str, *rows: Series) -> MeasuredSide:
    """Runs of a metric, all with the value 1."""
    measures = tuple(RunMeasure(1.0, 9, 9.0, 0.0, 0, True) for _ in rows)
    views: Any = tuple(_View(Run("x", form, (row,))) for row in rows)
    return MeasuredSide(views, ((),) * len(rows), rows, measures)


class _View:
    def __init__(self, run: Run) -> None:
        self.run = run


#: Nine steps with a gap: 1, or 2 as often as 1, or one of 3.
NINE, PAIRS, ONE_GAP = range(9), (0, 1, 3, 4, 6, 7, 9, 10, 12), (*range(8), 10)
AMOUNTS: list[tuple[Sequence[Series] | None, Sequence[Series], list[Doubt]]] = [
    # stored runs or None, new runs, the doubts
    # the shares of steps that all parts of a derived metric have
    (None, [samples(9, joined=0.9), samples(9)], less("joined", 1.0, 0.9)),
    (None, [samples(9, joined=0.91)], []),
    ([samples(9)], [samples(9, joined=0.9)], less("joined", 1.0, 0.9)),
    ([samples(9)], [samples(9, joined=0.91), samples(9)], []),
    ([samples(9)], [samples(9, joined=0.5), samples(9)], less("joined", 1.0, 0.5, decides=True)),
    ([samples(9)], [samples(9, joined=0.51)], less("joined", 1.0, 0.51)),
    ([samples(9, joined=0.5)], [samples(9, joined=0.3)], less("joined", 0.5, 0.3)),
    ([samples(9, joined=0.5)], [samples(9, joined=0.5)], []),
    ([samples(9, joined=0.8), samples(9, joined=0.5), samples(9)], [samples(9, joined=0.4)],
     less("joined", 0.8, 0.4, decides=True)),
    # the steps that have a value, of those from the first to the last
    (None, [at(*ONE_GAP), at(*NINE)], less("steps", 1.0, 0.8)),
    (None, [at(*range(9), 10)], less("steps", 1.0, 0.9)),
    (None, [at(*range(10), 11)], []),
    (None, [at(*range(7), 14)], less("steps", 1.0, 0.5)),
    (None, [at(*range(6), 14)], []),  # too few steps to tell
    (None, [at(*ONE_GAP, thinned_from=99)], []),
    (None, [at(0, 1, 2, 3, 4, 5, 6, 8, 9)], less("steps", 1.0, 8 / 9)),
    (None, [at(*PAIRS), at(*NINE)], []),
    (None, [at(*PAIRS)], []),  # as a schedule leaves them
    (None, [at(0, 1, 2, 3, 4, 5, 8, 12)], less("steps", 1.0, 7 / 12)),  # longer gaps that differ are none
    (None, [at(10, 20, 30, 40, 50, 60, 70, 80, 110)], less("steps", 1.0, 0.8)),
    (None, [at(*(step for step in ONE_GAP for _ in range(3)))], less("steps", 1.0, 0.8)),  # three values a step
    (None, [at(*ONE_GAP, joined=0.95)], []),
    (None, [at(*[0] * 4, *[1] * 4)], []),
    (None, [at(0, 0, 0, 1, 2, 3, 4, 5, 7)], less("steps", 1.0, 6 / 7)),
    (None, [at(0, 0, 1, 2, 3, 4, 5, 6, 8)], less("steps", 1.0, 7 / 8)),  # one step twice, and one lost
    (None, [at(0, 1, 2, 2, 3, 4, 5, 6, 8)], less("steps", 1.0, 7 / 8)),
    (None, [at(0, *range(8, 16))], less("steps", 1.0, 8 / 15)),
    (None, [at(*[2] * 8, 3, 7)], less("steps", 1.0, 0.4)),
    (None, [at(0, 1, 2, 3, 6, 7, 8, 11)], []),
    (None, [at()], []),
    # a tool that does not count, and stored runs that have no steps
    (None, [at(*[5] * 9)], []),
    ([at(*[5] * 9)], [at(*[5] * 9)], []),
    ([at(*[5] * 9)], [at(*range(0, 90, 10))], []),
    ([samples(9)], [at(*range(0, 90, 10))], []),
    ([STORED], [at(*range(0, 90, 10))], []),
    ([STORED], [at(*ONE_GAP)], less("steps", 1.0, 0.8)),
    ([at(*NINE)], [at(*ONE_GAP), at(*NINE)], less("steps", 1.0, 0.8)),
    ([at(*NINE)], [at(*range(0, 18, 2)), at(*NINE)], less("steps", 1.0, 0.5, decides=True)),
    ([at(*NINE)], [at(*range(5, 14))], []),
    ([at(*range(10))], [at(*range(9), 10)], less("steps", 1.0, 0.9)),
    ([at(*range(0, 18, 2)), at(*ONE_GAP), at(*ONE_GAP)], [at(*range(0, 18, 2))], []),  # a share is at most 1
    ([at(*NINE)], [at(*range(0, 18, 2))], less("steps", 1.0, 0.5, decides=True)),
    ([at(*range(1, 18, 2))], [at(*range(0, 18, 2))], []),
    ([at(*NINE)], [at(*[0] * 5, *[4] * 4)], less("steps", 1.0, 0.25, decides=True)),  # two steps of five
    ([at(*NINE), at(*ONE_GAP), at(*ONE_GAP)], [at(*range(7), 9, 10)], []),  # the usual share is .8
    ([at(*PAIRS)], [at(*range(0, 18, 2))], less("steps", 2 / 3, 0.5)),  # of two distances the smaller one
    ([at(*range(0, 14, 2)), *[at(*range(0, 18, 2))] * 2], [at(*range(0, 18, 2))], []),  # the first is too short
    ([at(*range(0, 18, 2), thinned_from=99), at(*NINE), at(*NINE)], [at(*range(0, 18, 2))],
     less("steps", 1.0, 0.5, decides=True)),
    # values and calls
    ([samples(100)], [samples(90)], less("values", 100, 90.0)),
    ([samples(100)], [samples(91)], []),
    ([samples(100)], [samples(50), samples(300)], less("values", 100, 50.0, decides=True)),
    ([samples(90)], [samples(100)], less("values", 90, 100.0)),
    ([samples(91)], [samples(100)], []),
    ([samples(100)], [samples(90), samples(95)], less("values", 100, 90.0)),
    ([samples(50)], [samples(300)], less("values", 50, 300.0)),
    ([samples(100)], [samples(100), samples(300)], less("values", 100, 300.0)),
    ([samples(1)], [samples(1)], []),
    ([samples(2)], [samples(1)], less("values", 2, 1.0, decides=True)),
    ([samples(10), samples(80), samples(100)], [samples(80)], []),  # the usual number is the middle one
    ([samples(100, thinned_from=1000)], [samples(100)], less("values", 1000, 100.0, decides=True)),
    ([printed(count=100.0)], [printed(count=60.0)], less("calls", 100, 60.0)),
    ([printed(count=100.0)], [printed(count=50.0)], less("calls", 100, 50.0, decides=True)),
    ([printed()], [printed(count=50.0)], []),
    ([printed(count=100.0)], [printed(count=math.inf)], []),
    ([printed(count=100.0)], [printed()], []),
    ([STORED], [samples(4)], less("values", 9, 4.0, decides=True)),
    # the kind
    ([samples(9)], [NUMBER], less("kind", "samples", "value", decides=True)),
    ([STORED], [NUMBER], less("kind", "summary", "value", decides=True)),
    ([replace(STORED, aggregate={})], [NUMBER], less("kind", "summary", "value", decides=True)),
    ([samples(9)], [printed(count=9.0)], less("kind", "samples", "aggregate", decides=True)),
    ([samples(1)], [samples(1), printed(count=1.0)], less("kind", "samples", "aggregate", decides=True)),
    ([printed(count=2.0)], [NUMBER], less("kind", "aggregate", "value", decides=True)),
    ([printed(count=1.0)], [NUMBER], less("kind", "aggregate", "value")),
    ([printed()], [NUMBER], less("kind", "aggregate", "value")),
    ([printed(), samples(9)], [printed()], less("kind", "samples", "aggregate", decides=True)),
    ([printed(), NUMBER, samples(9)], [printed()], []),  # the middle one is usual
    ([NUMBER], [NUMBER], []),
    ([STORED], [samples(9)], []),
    ([samples(9)], [STORED], []),
]  # fmt: skip


@pytest.mark.parametrize(("base", "new", "doubts"), AMOUNTS)
def test_what_was_measured_less(base: Sequence[Series] | None, new: Sequence[Series], doubts: list[Doubt]) -> None:
    stored = None if base is None else side(LOG, *base)
    assert [*amount_doubts(stored, side(LOG, *new), Method("median"))] == doubts


def test_tools_that_measure_for_a_time_lose_no_values() -> None:
    base, few = samples(100), samples(40)
    for form in ("pytest-benchmark", "google-benchmark", "hyperfine", "nvbench", "torch-benchmark", "tritonbench",
                 "torchbench", "benchmark-action", "asv", "pyperf", TRACE):  # fmt: skip
        assert [*amount_doubts(side(form, base), side(form, few), Method("median"))] == less("values", 100, 40.0)
    for one, other in ((LOG, TRACE), (TRACE, LOG)):
        found = [*amount_doubts(side(one, base), side(other, few), Method("median"))]
        assert found == less("values", 100, 40.0, decides=True)


def test_a_count_and_a_thinned_base_have_no_fewer_values() -> None:
    base, new = side(LOG, samples(100)), side(LOG, samples(40))
    assert [*amount_doubts(base, new, Method("count"))] == []
    assert [*amount_doubts(base, new, Method("median"), is_thinned=True)] == []
    assert [*amount_doubts(base, side(LOG, NUMBER), Method("median"), is_thinned=True)] == less(
        "kind", "samples", "value", decides=True
    )


def of(*values: float | None, within: float | None = 0.0) -> tuple[RunMeasure, ...]:
    return tuple(RunMeasure(value, 9, 9.0, within, 0, True) for value in values)


def measured(*values: float | None) -> MeasuredSide:
    return MeasuredSide((), (), (), of(*values))


GAINS: list[tuple[tuple[float | None, ...], tuple[float | None, ...], Better, tuple[float, float] | None]] = [
    # stored values, new values, the better direction, the usual and the best value if they are not believed
    ((1.0,), (0.1,), "lower", (1.0, 0.1)),
    ((1.0,), (0.11,), "lower", None),
    ((1.0,), (2.0, 0.05, None), "lower", (1.0, 0.05)),
    ((1.0,), (0.0,), "lower", (1.0, 0.0)),
    ((1.0,), (-1.0,), "lower", None),
    ((1.0,), (10.0, 2.0), "higher", (1.0, 10.0)),
    ((1.0,), (9.9,), "higher", None),
    ((2.0,), (20.0,), "higher", (2.0, 20.0)),
    ((2.0,), (10.0,), "higher", None),
    ((1.0,), (0.0,), "higher", None),
    ((0.0,), (0.0,), "higher", None),
    ((1.0,), (0.01,), "neither", None),
    ((1.0, 3.0, 0.2, None), (0.06,), "lower", (1.0, 0.06)),
    ((1.0, 3.0, 0.05), (0.06,), "lower", None),  # a base run was better
    ((1.0, 3.0, 0.05), (0.05,), "lower", None),
    ((1.0, 99.0, 2.0), (50.0,), "higher", None),
    ((0.0, 0.0), (0.0,), "lower", None),
    ((-1.0,), (0.01,), "lower", None),
    ((None,), (0.01,), "lower", None),
    ((1.0,), (None,), "lower", None),
]


@pytest.mark.parametrize(("base", "new", "better", "doubt"), GAINS)
def test_ten_times_better_is_not_believed(
    base: tuple[float | None, ...], new: tuple[float | None, ...], better: Better, doubt: tuple[float, float] | None
) -> None:
    expected = [] if doubt is None else [Doubt("implausible", "gain", *doubt, decides=True)]
    assert [*gains(measured(*base), measured(*new), better)] == expected
    assert [*gains(None, measured(*new), better)] == []


def ranks(count: int, world: Fact | None = None, form: str = LOG) -> Run:
    rows = tuple(series("x", "s", steady(1.0, n=9, seed=rank), rank=str(rank)) for rank in range(count))
    return Run("new.json", form, rows, environment={} if world is None else {"world_size": world})


ANY, EACH = "x under 9 s", "x on the slowest rank under 9 s"
RANKS: list[tuple[str, list[Run], list[Run], dict[str, Fact], list[Doubt]]] = [
    # a rule, new runs, stored runs, facts, the doubts
    (ANY, [ranks(4, 8)], [], {}, less("ranks", 1.0, 0.5, decides=True)),
    (ANY, [ranks(5, 8)], [], {}, less("ranks", 1.0, 0.625)),
    (ANY, [ranks(9, 10)], [], {}, less("ranks", 1.0, 0.9)),
    (ANY, [ranks(10, 11)], [], {}, []),
    (ANY, [ranks(4)], [], {"world_size": 8}, less("ranks", 1.0, 0.5, decides=True)),
    (ANY, [ranks(4, 4)], [], {"world_size": 8}, []),
    (ANY, [ranks(4, "8")], [], {}, []),
    (ANY, [ranks(4, 0)], [], {}, []),
    (ANY, [ranks(8, 8), ranks(4, 8)], [], {}, less("ranks", 1.0, 0.5, decides=True)),
    (ANY, [ranks(4, 8)], [ranks(4, 8)], {}, []),
    (ANY, [ranks(4, 8)], [ranks(16, 8)], {}, less("ranks", 1.0, 0.5, decides=True)),
    (ANY, [ranks(4, 8)], [ranks(8, 8), ranks(6, 8), ranks(2, 8)], {}, less("ranks", 0.75, 0.5)),
    ('x{rank!="9"} under 9 s', [ranks(4, 8)], [], {}, []),
    (ANY, [ranks(1, 8, "deepspeed")], [], {}, []),
    (EACH, [ranks(1, 8, "deepspeed")], [], {}, less("ranks", 1.0, 0.125, decides=True)),
    (ANY, [ranks(2, 8, "deepspeed")], [], {}, less("ranks", 1.0, 0.25, decides=True)),
    # more ranks, and no size of the job
    (ANY, [ranks(3)], [ranks(2)], {}, less("more-ranks", 2, 3)),
    (ANY, [ranks(3)], [ranks(1)], {}, less("more-ranks", 1, 3)),
    (ANY, [ranks(2)], [ranks(2)], {}, []),
    (ANY, [ranks(2)], [ranks(3)], {}, []),
    (ANY, [ranks(3)], [], {}, []),
    (ANY, [ranks(2, 1)], [ranks(1, 1)], {}, []),
]


@pytest.mark.parametrize(("rule", "new", "base", "facts", "doubts"), RANKS)
def test_the_measured_ranks(
    rule: str, new: list[Run], base: list[Run], facts: dict[str, Fact], doubts: list[Doubt]
) -> None:
    asked = replace(bare(rule, new, base), facts=facts)
    assert [one for one in question_of(asked).doubts if one.what in ("ranks", "more-ranks")] == doubts


QUIET = of(1.0, 1.001, 1.0, 0.999, 1.0)
TEN_PERCENT, ABSOLUTE = ChangeTerms(tolerance=0.1), ChangeTerms(tolerance_absolute=0.1)
DISAGREE: list[tuple[tuple[RunMeasure, ...], tuple[RunMeasure, ...], ChangeTerms, list[tuple[str, float, float]]]] = [
    # stored runs, new runs, the terms; the side that disagrees, its smallest and its largest value
    (QUIET, of(1.0, 2.0), TEN_PERCENT, [("new-runs", 1.0, 2.0)]),
    (QUIET, of(1.0, None, 2.0), TEN_PERCENT, []),  # a run without a value has no logarithm
    (QUIET, of(1.0), TEN_PERCENT, []),
    (QUIET, of(1.0, 1.1), TEN_PERCENT, []),
    (QUIET, of(2.0, 2.19), TEN_PERCENT, []),
    (QUIET, of(1.0, 1.25), ChangeTerms(tolerance=0.25), []),
    (QUIET, of(1.0, 1.25), ChangeTerms(tolerance=0.24), [("new-runs", 1.0, 1.25)]),
    (QUIET, of(1.0, 1.2), ABSOLUTE, [("new-runs", 1.0, 1.2)]),
    (QUIET, of(0.0, 2.0), TEN_PERCENT, []),
    (QUIET, of(1.0, 2.0, within=None), TEN_PERCENT, []),
    (of(1.0, 1.0, within=None), of(1.0, 2.0), TEN_PERCENT, []),
    (of(1.0, 2.0), of(1.0), TEN_PERCENT, [("base-runs", 1.0, 2.0)]),
    (of(*[1.0, 2.0] * 4), of(1.0, 99.0, 1.0), TEN_PERCENT, [("new-runs", 1.0, 99.0), ("base-runs", 1.0, 2.0)]),
]


@pytest.mark.parametrize(("base", "new", "terms", "doubts"), DISAGREE)
def test_runs_of_one_side_that_disagree(
    base: tuple[RunMeasure, ...],
    new: tuple[RunMeasure, ...],
    terms: ChangeTerms,
    doubts: list[tuple[Any, float, float]],
) -> None:
    sides = (MeasuredSide((), (), (), runs) for runs in (base, new))
    expected = [Doubt("runs-disagree", what, *ends, decides=what == "new-runs") for what, *ends in doubts]
    assert [*disagreement(*sides, None, terms, calibrated=False)] == expected


def test_of_pairs_the_ratios_have_to_agree() -> None:
    """Both sides move alike, or the ratios do not: the values alone say nothing."""
    apart = MeasuredSide((), (), (), of(1.0, 2.0, 1.0, 2.0))
    assert [*disagreement(apart, apart, of(1.0, 1.001, 1.0, 1.0), TEN_PERCENT, calibrated=False)] == []
    found = [*disagreement(apart, apart, of(1.0, 2.0, 1.0, 1.0), TEN_PERCENT, calibrated=False)]
    assert found == [Doubt("runs-disagree", "new-runs", 1.0, 2.0, decides=True)]


def test_a_known_noise_explains_more_than_a_guess() -> None:
    """A standard deviation of 30 % that is known from 20 runs explains 1 and 1.5; three quiet runs do not."""
    base, new = measured(1.0, 1.001, 1.0), measured(1.0, 1.5)
    known = ChangeTerms(tolerance=0.1, prior=(0.3, 20.0))
    assert [*disagreement(base, new, None, known, calibrated=True)] == []
    assert [*disagreement(base, new, None, TEN_PERCENT, calibrated=False)] != []


def test_the_doubts_of_a_rule_are_those_of_its_runs() -> None:
    base = [run_of(series("x", "s", steady(1.0, n=100, seed=seed))) for seed in range(3)]
    new = run_of(series("x", "s", steady(0.01, n=40, seed=9)))
    found = question_of(bare("x within 5% of baseline", [new], base)).doubts
    assert [one.what for one in found] == ["values", "gain", "mean"]
