"""What was measured is compared, too: one row a case, with a baseline of five runs unless it says otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import answer_of, steady
from msgspec.structs import replace
from stories import TODAY, bare, run_of, series

from perfgate.core import Allowance, Key, Run, Series, Verdict, read_only
from perfgate.judge.verdicts import judge

CHANGE, LIMIT = "x within 5% of baseline", "x under 9 s"
WIDE = "x within 5% and 9 GB of baseline"
SHARE = "x / y within 5% of baseline"


def x(
    n: int = 100, *, value: float = 1.0, unit: str = "s", seed: int = 1, source: str = "new.json", **labels: str
) -> Run:
    return run_of(series("x", unit, steady(value, n=n, seed=seed), **labels), source=source)


def exactly(value: float, unit: str) -> Run:
    return run_of(series("x", unit, [value] * 9))


def traced(n: int) -> Run:
    """A trace, whose steps are as many as its schedule says."""
    return replace(x(n), format="torch-trace")


def printed(**aggregate: float) -> Run:
    return run_of(Series(Key("x"), "s", "aggregate", read_only(np.empty(0)), aggregate={"mean": 1.0, **aggregate}))


def number(value: float = 1.0, unit: str = "s") -> Run:
    return run_of(Series(Key("x"), unit, "value", read_only(np.array([value]))))


def ranks(count: int, world: int | None = None, *, form: str = "test") -> Run:
    rows = [series("x", "s", steady(1.0, n=100), rank=str(rank)) for rank in range(count)]
    return Run("new.json", form, tuple(rows), environment={} if world is None else {"world_size": world})


def at_steps(steps: Any, metric: str = "x") -> Series:
    chosen = np.array(steps, dtype=np.int64)
    return replace(series(metric, "s", steady(1.0, n=len(chosen), seed=ord(metric) + len(chosen))), steps=chosen)


def lost(share: float, n: int = 200) -> Any:
    """The steps that are left if a share of them is lost at random."""
    return np.flatnonzero(np.random.default_rng(1).random(n) >= share)


def apart(seconds: int, partial: int) -> Run:
    """A ratio whose second part has only some of the steps."""
    return run_of(at_steps(range(seconds)), at_steps(range(partial), "y"))


FIVE = [x(seed=seed) for seed in range(2, 7)]
#: Outcomes with their reasons; and nothing is said.
PASS, LESS, GAIN = "pass interval", "error measured-less", "suspect implausible"
IMPOSSIBLE, NOTHING = "error impossible", ""

ALIKE: list[tuple[str, list[Run], list[Run], str, str]] = [
    # a rule, the new runs, the stored ones; outcome and reason; what is said of the measurements
    # the number of values
    (CHANGE, [x(100)], FIVE, PASS, NOTHING),
    (CHANGE, [x(91)], FIVE, PASS, NOTHING),
    (CHANGE, [x(90)], FIVE, PASS, "fewer values than in the baseline: 90 instead"),
    (CHANGE, [x(51)], FIVE, PASS, "fewer values than in the baseline: 51 instead"),
    (CHANGE, [x(50)], FIVE, LESS, "fewer values than in the baseline: 50 instead"),
    (CHANGE, [traced(50)], [traced(100)] * 5, PASS, "fewer values than in the baseline: 50 instead"),
    (CHANGE, [x(100), x(30)], FIVE, LESS, "fewer values than in the baseline: 30 instead"),
    (CHANGE, [x(300)], FIVE, PASS, "more values than in the baseline: 300 instead"),
    (CHANGE, [x(50, value=2.0)], FIVE, LESS, "fewer values than in the baseline: 50 instead"),
    (LIMIT, [x(50)], FIVE, LESS, "fewer values than in the baseline: 50 instead"),
    (LIMIT, [x(50, value=20.0)], FIVE, "fail interval", "fewer values than in the baseline: 50 instead"),
    ("x within 5% of anchor", [x(50)], FIVE, LESS, "fewer values than in the baseline: 50 instead"),
    ("x count at least 95% of baseline", [x(50)], FIVE, "fail exact", NOTHING),
    ("x p99 under 9 s", [x(300)], [printed(count=300.0)], PASS, NOTHING),
    # the calls of an aggregate
    (CHANGE, [printed(count=2000.0)], [printed(count=2000.0)] * 5, PASS, NOTHING),
    (CHANGE, [printed(count=1.0)], [printed(count=2000.0)] * 5, LESS, "fewer calls than in the baseline: 1 instead"),
    (CHANGE, [printed(count=1500.0)], [printed(count=2000.0)] * 5, PASS, "fewer calls than in the baseline: 1500 in"),
    (CHANGE, [printed()], [printed(count=2000.0)] * 5, PASS, NOTHING),
    # the kind
    (CHANGE, [number()], FIVE, LESS, "one number, the baseline's runs have single values"),
    (CHANGE, [printed(count=100.0)], FIVE, LESS, "printed statistics, the baseline's runs have single"),
    (CHANGE, [number()], [printed(count=100.0)] * 5, LESS, "one number, the baseline's runs have printed"),
    (CHANGE, [number()], [number()] * 5, PASS, NOTHING),
    (CHANGE, [x(100)], [number()] * 5, PASS, NOTHING),
    ("x mean within 5% of baseline", [x(100)], [printed(count=100.0)] * 5, PASS, NOTHING),
    # the ranks of the job
    (LIMIT, [ranks(1, 1024)], [], LESS, "0.0977% of the job's ranks were measured"),
    (LIMIT, [ranks(6, 8)], [], PASS, "75% of the job's ranks were measured"),
    (LIMIT, [ranks(8, 8)], [], PASS, NOTHING),
    (LIMIT, [ranks(2)], [], PASS, NOTHING),
    (LIMIT, [x(100)], [], PASS, NOTHING),
    (LIMIT, [ranks(1, 8)], [ranks(1, 8)] * 5, PASS, NOTHING),
    (LIMIT, [ranks(1, 64)], [ranks(1, 8)] * 5, LESS, "1.56% of the job's ranks were measured, and 12.5% in"),
    ('x{rank="0"} under 9 s', [ranks(1, 8)], [], PASS, NOTHING),
    (LIMIT, [ranks(1, 8, form="deepspeed")], [], PASS, NOTHING),
    ("x on the slowest rank under 9 s", [ranks(1, 8, form="deepspeed")], [], LESS, "12.5% of the job's ranks were"),
    (LIMIT, [ranks(2, 8, form="deepspeed")], [], LESS, "25% of the job's ranks were measured"),
    # the steps that all parts of a derived metric have
    (SHARE, [apart(100, 100)], [apart(100, 100)] * 5, PASS, NOTHING),
    (SHARE, [apart(110, 94)], [apart(110, 110)] * 5, PASS, "85.5% of the steps have all"),
    (SHARE, [apart(200, 100)], [apart(100, 100)] * 5, LESS, "50% of the steps have all"),
    (SHARE, [apart(200, 100)], [apart(200, 100)] * 5, PASS, NOTHING),
    ("x / y under 2", [apart(100, 80)], [], PASS, "80% of the steps have all"),
    ("p50(x / y) under 2", [apart(100, 80)], [], PASS, "80% of the steps have all"),
    # gaps between the steps
    (LIMIT, [run_of(at_steps(lost(0.4)))], [], PASS, "60.4% of the steps from the first"),
    (LIMIT, [run_of(at_steps([*range(60), *range(100, 160)]))], [], PASS, "74.8% of the steps from the first"),
    (LIMIT, [run_of(at_steps(range(0, 1000, 10)))], [], PASS, NOTHING),
    (LIMIT, [run_of(at_steps([10 * i + j for i in range(9) for j in range(3)]))], [], PASS, NOTHING),
    (CHANGE, [run_of(at_steps(range(0, 200, 2)))], [run_of(at_steps(range(100)))] * 5, LESS, "50% of the steps"),
    (CHANGE, [run_of(at_steps(lost(0.4)))], [run_of(at_steps(lost(0.4)))] * 5, PASS, NOTHING),
    # what cannot be negative
    ("x under 10 GB", [exactly(-1e9, "B")], [], IMPOSSIBLE, "has the value -"),
    (WIDE, [exactly(-1e9, "B")], [exactly(1e9, "B")], IMPOSSIBLE, "has the value -"),
    ("x within 5% of baseline", [exactly(1e9, "B")], [exactly(-1e9, "B")], IMPOSSIBLE, "has the value -"),
    (LIMIT, [printed(count=-3.0)], [], IMPOSSIBLE, "x has the value -3 in new.json"),
    (LIMIT, [exactly(-1.0, "s")], [], IMPOSSIBLE, "x has the value -1 s in new.json"),
    ("x under 9", [exactly(-1.0, "1")], [], "pass exact", NOTHING),
    ("x - y under 9 s", [run_of(series("x", "s", [1.0] * 9), series("y", "s", [2.0] * 9))], [], PASS, NOTHING),
    # what is too good to be true
    (CHANGE, [x(value=0.11)], FIVE, PASS, NOTHING),
    (CHANGE, [x(value=0.001)], FIVE, GAIN, "times better ("),
    (CHANGE, [x(value=0.001)] * 3, FIVE, GAIN, "times better ("),
    (LIMIT, [x(value=0.001)], FIVE, GAIN, "times better ("),
    (LIMIT, [x(value=0.001)], [], PASS, NOTHING),
    ("x over 1 /s", [x(value=99.0, unit="1/s")], [x(value=9.0, unit="1/s")], GAIN, "11 times better"),
    (CHANGE, [exactly(0.0, "B")], [exactly(8e9, "B")] * 2, GAIN, "it became 0 ("),
    (WIDE, [exactly(0.0, "B")], [exactly(8e9, "B")], GAIN, "it became 0 (8 GB"),
    ("x under 10 GB", [exactly(0.0, "B")], [exactly(8e9, "B")], GAIN, "it became 0 (8 GB"),
    (CHANGE, [exactly(0.0, "B")], [exactly(0.0, "B")], "pass equal", NOTHING),
]  # fmt: skip


def of(rule: str, new: list[Run], base: list[Run], **fields: Any) -> Verdict:
    (found,) = judge(bare(rule, new, base, anchor=tuple(base), **fields))
    return found


@pytest.mark.parametrize(("rule", "new", "base", "expected", "said"), ALIKE)
def test_what_was_measured_is_compared(rule: str, new: list[Run], base: list[Run], expected: str, said: str) -> None:
    found = of(rule, new, base)
    assert f"{answer_of(found)} {found.reason}" == expected
    words = [found.message, *found.notes]
    assert any(said in text for text in words)
    if said == NOTHING:
        marks = ("baseline: ", "the steps", "the job's ranks", "times better")
        assert [text for text in words for mark in marks if mark in text] == []
    elif found.outcome in ("error", "undecided"):
        assert found.next_step.text


STEPS = [
    (CHANGE, [x(50)], FIVE, "the job seems to have died early: run it again to its end; if it is intended, approve it"),
    (CHANGE, [printed(count=1.0)], [printed(count=9.0)], "find out why less was measured, and run it again"),
    (LIMIT, [ranks(1, 8)], [], 'give the files of all ranks, or name the measured ranks in the rule: `{rank="0"}`'),
    (CHANGE, [x(value=0.001)], FIVE, "check that the program still does the work and measures all of it"),
    (LIMIT, [exactly(-1.0, "s")], [], "find out why the program wrote it, and measure again"),
]


@pytest.mark.parametrize(("rule", "new", "base", "step"), STEPS)
def test_the_next_step_says_what_to_check(rule: str, new: list[Run], base: list[Run], step: str) -> None:
    assert of(rule, new, base).next_step.text.startswith(step)


def test_an_allowance_does_not_accept_a_metric_that_became_0() -> None:
    free = Allowance("x", 9.0, "Ann", "known", TODAY)
    found = of(WIDE, [exactly(0.0, "B")], [exactly(8e9, "B")], allowances=(free,))
    assert found.outcome == "undecided"


def test_a_change_of_memory_may_be_negative() -> None:
    row = series("train_mem_gpu_alloc_delta", "B", [-1e6] * 9)
    assert of("train_mem_gpu_alloc_delta under 1 GB", [run_of(row)], []).outcome == "pass"


def test_an_improvement_by_measuring_less_does_not_fail_as_an_improvement() -> None:
    rule = "{assert: x within 5% of baseline, on_improvement: fail}"
    assert of(rule, [x(40, value=0.5)], FIVE).reason == "measured-less"


def test_a_base_that_is_stored_thinned_has_all_its_values() -> None:
    thinned = [run_of(replace(one.series[0], thinned_from=1000)) for one in FIVE]
    assert of(CHANGE, [x(500)], thinned).reason == "measured-less"
    derived = [run_of(replace(s, thinned_from=1000), replace(s, key=Key("y"))) for s in (one.series[0] for one in FIVE)]
    both = run_of(*(replace(x(500).series[0], key=Key(name)) for name in ("x", "y")))
    assert of(SHARE, [both], derived).outcome == "pass"
