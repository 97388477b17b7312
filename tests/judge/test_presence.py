"""The refusals before a clause is judged: absent calls, runs without metrics, other conditions, impossible numbers."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from stories import bare, run_of, series

from perfgate.core import Baseline, Key, Location, Problem, Run, Series, read_only
from perfgate.core.runs import SourceFile
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.rules.load import load_rules

FAULT = Problem("error", "no table was found", Location("cut.log", 3))
NAN, INF = float("nan"), float("inf")


def values(metric: str, *numbers: float, unit: str = "s", **labels: str) -> Series:
    return series(metric, unit, [*numbers] if len(numbers) > 1 else [*numbers] * 9, **labels)


def run(*metrics: str, source: str = "new.json", **fields: Any) -> Run:
    """A run in which these metrics take a second."""
    return run_of(*(values(metric, 1.0) for metric in metrics), source=source, **fields)


def printed(source: str = "new.json", **statistics: float) -> Run:
    return run_of(Series(Key("x"), "s", "aggregate", read_only(np.empty(0)), aggregate=statistics), source=source)


def said(rules: str, new: list[Run], base: list[Run], **fields: Any) -> str:
    """The reason, the message and the next step of the last verdict; else its outcome."""
    found = judge(bare(rules, new, base, **fields))[-1]
    return f"{found.reason}: {found.message}. {found.next_step.text}" if found.outcome == "error" else found.outcome


GONE = "find what removed the call; if the change is intended, approve a run of main after the merge"
CAME = "find the new call; if the change is intended, approve a run of main after the merge"
LOST = "find out why it is no longer written, or change the rule"
ADD = "add the source files of the stored runs again; if they are gone or incomplete, measure main and add that run"
BASELINE = "within 5% of baseline"

ABSENT: list[tuple[str, list[Run], list[Run], dict[str, Any], str]] = [
    # a rule, the new runs, the stored ones, more of the baseline, and the answer
    *(
        (
            f"{kind}.a {BASELINE}",
            [run(f"{kind}.b")],
            [run(f"{kind}.a", f"{kind}.b")],
            {},
            f"metric-absent: new.json has no metric {kind}.a; the baseline has it. {GONE}",
        )
        for kind in ("kernel", "op", "range", "collective")
    ),
    (
        f"kernel.a {BASELINE}",
        [run("op.b")],
        [run("kernel.a", "op.b")],
        {},
        f"metric-absent: new.json has no metric kernel.a; the baseline has it. {LOST}",
    ),
    (
        f"time.a {BASELINE}",
        [run("time.b")],
        [run("time.a", "time.b")],
        {},
        f"metric-absent: new.json has no metric time.a; the baseline has it. {LOST}",
    ),
    (
        f"op.a {BASELINE}",
        [run("op.a", "op.b")],
        [run("op.a", "op.b"), run("op.b")],
        {},
        f"no-baseline: some runs of the baseline have no metric op.a. {ADD}",
    ),
    (
        f"kernel.a {BASELINE}",
        [run("kernel.a", "kernel.b", "op.c")],
        [run("kernel.b", "op.c")],
        {},
        f"no-baseline: the baseline made no such call: kernel.a. {CAME}",
    ),
    (
        "kernel.a within 5% of anchor",
        [run("kernel.a")],
        [run("op.c")],
        {"anchor": (run("kernel.b"),)},
        f"no-baseline: the anchor made no such call: kernel.a. {CAME}",
    ),
    (
        "kernel.a within 5% of anchor",
        [run("kernel.a")],
        [run("kernel.b")],
        {"anchor": (run("op.c"),)},
        "no-baseline: there is no anchor to compare kernel.a with. make one",
    ),
    (
        f"forward_time {BASELINE}",
        [run("forward_time", "c")],
        [run("forward_tine", "c")],
        {},
        "no-baseline: the baseline gpt/h100/level has no metric forward_time (its nearest name is forward_tine: was it "
        f"renamed?). {ADD}",
    ),
    (
        f"x {BASELINE}",
        [run("x")],
        [run("x", source="a.json"), run("y", source="b.json")],
        {},
        f"no-baseline: some runs of the baseline have no metric x. {ADD}",
    ),
    (
        f"x {BASELINE}",
        [run("x", "y")],
        [run("y")],
        {"pairing": "in-turn"},
        "no-baseline: the base of a pair has no metric x. make pairs again once the base program writes it",
    ),
    (
        "x within 5% of anchor",
        [run("x", "y")],
        [run("y")],
        {"pairing": "in-turn"},
        "no-baseline: there is no anchor to compare x with. make one",
    ),
    (
        f"x {BASELINE}",
        [run("x")],
        [],
        {"pairing": "in-turn"},
        "no-baseline: there is no baseline to compare x with. make one",
    ),
    (
        f"x {BASELINE}",
        [run(source="cut.log", problems=(FAULT,))],
        [run("x")],
        {},
        "no-data: not judged, because cut.log has no metrics: cut.log:3: no table was found. fix that first",
    ),
    (
        f"x {BASELINE}",
        [run("x"), run(source="cut.log", problems=(FAULT,))],
        [run("x")],
        {},
        "metric-absent: not judged, because cut.log has no metrics: cut.log:3: no table was found. fix that first",
    ),
    (
        f"x {BASELINE}",
        [run(source="cut.log", problems=(replace(FAULT, severity="warning"),))],
        [run("x")],
        {},
        f"metric-absent: cut.log has no metric x; the baseline has it. {LOST}",
    ),
    (
        f"x {BASELINE}",
        [run("y", problems=(FAULT,))],
        [run("x")],
        {},
        f"metric-absent: new.json has no metric x; the baseline has it. {LOST}",
    ),
]


@pytest.mark.parametrize(("rule", "new", "base", "more", "answer"), ABSENT)
def test_an_absent_metric(rule: str, new: list[Run], base: list[Run], more: dict[str, Any], answer: str) -> None:
    assert said(rule, new, base, **more) == answer


def test_two_files_of_one_run_are_recognised_by_their_ranks() -> None:
    first, second = (run_of(values("x", 1.0, rank=rank), source=f"{rank}.json") for rank in ("0", "1"))
    one_run = "the new runs have different ranks, so they are probably the files of one run"
    assert said("x under 9 s", [first, second], []) == (
        f"rank-gone: x: {one_run}. give their folder: each path on the command line is a run"
    )


def loaded(rate: str, source: str = "new.json") -> Run:
    return run_of(values("x", 1.0, request_rate=rate), source=source)


OTHER = [
    (
        [loaded("2")],
        [loaded("1")],
        "the baseline was measured under other conditions: request_rate is 2 here and 1 in the baseline. measure under "
        "the conditions of the baseline; another model or load needs a suite of its own",
    ),
    (
        [loaded("1"), loaded("2", "b.json")],
        [],
        "the new runs were measured under different conditions: request_rate is 1 in new.json and 2 in b.json. give "
        "runs of equal conditions; the files of one load sweep are one run: give their folder",
    ),
]


@pytest.mark.parametrize(("new", "base", "answer"), OTHER)
def test_other_conditions_are_not_compared(new: list[Run], base: list[Run], answer: str) -> None:
    found = judge(bare("x under 9 s", new, base))[0]
    assert found.reason == "other-conditions"
    assert f"{found.message}. {found.next_step.text}" == f"x: {answer}"


UNITS = [
    ("x under 50", "no-unit: 50 has no unit, and x is measured in s. write a quantity in {}, such as 50 {}"),
    (
        "x within 5 of baseline",
        "no-unit: 5 has no unit, and x is measured in s. write 5%, or a quantity in {}, such as 5 {}",
    ),
    ("x under 5 GB", "unit-mismatch: 5 GB does not fit x, which is measured in s. write a quantity in {}"),
    ("x within 5 GB of baseline", "unit-mismatch: 5 GB does not fit x, which is measured in s. write a quantity in {}"),
]


@pytest.mark.parametrize(("rule", "answer"), UNITS)
def test_a_quantity_that_does_not_fit_names_those_that_do(rule: str, answer: str) -> None:
    assert said(rule, [run("x")], [run("x")]) == answer.format("ns, us, µs, ms, s, min, h", "ms")


NEGATIVE = [
    # a rule, the values, their unit, and whether they are impossible
    ("x under 9 s", [1.0, -1.0], "s", True),
    ("x under 9 s", [1.0, 0.0], "s", False),
    ("x under 9", [1.0, -1.0], "1", False),
    ("x_delta under 9 GB", [1.0, -1.0], "B", False),
    ("op.a.self_cpu_memory under 9 GB", [1.0, -1.0], "B", False),
    ("op.a.memory_time under 9 s", [1.0, -1.0], "s", True),
    ("x - y under 9 s", [1.0, -1.0], "s", False),
    ("y - x under 9 s", [1.0, -1.0], "s", False),
    ("x + y under 9 s", [-8.0, -9.0], "s", True),
    ("2 * x under 9 s", [1.0, -1.0], "s", True),
    ("x * 0.5 under 9 s", [1.0, -1.0], "s", True),
    ("max(x) + max(y) under 9 s", [-8.0, -9.0], "s", True),
    ("max(x_delta) + max(x_delta) under 9 GB", [-8.0, -9.0], "B", False),
    ("2 * x_delta under 9 GB", [-8.0, -9.0], "B", False),
    ("max(x_delta) + max(op.a.memory_time) under 9 GB", [-8.0, -9.0], "B", False),
    ("max(x - y) + max(x - y) under 9 s", [-8.0, -9.0], "s", False),
    ("(x / y + 0) * y under 9 s", [-8.0, -9.0], "s", True),
]


@pytest.mark.parametrize(("rule", "numbers", "unit", "is_impossible"), NEGATIVE)
def test_a_negative_number_is_impossible_unless_it_is_a_difference(
    rule: str, numbers: list[float], unit: str, is_impossible: bool
) -> None:
    names = ("x", "x_delta", "op.a.self_cpu_memory", "op.a.memory_time")
    new = run_of(*(values(name, *numbers, unit=unit) for name in names), values("y", 1.0, 1.0))
    answer = said(rule, [new], [])
    assert answer.startswith("impossible: ") == is_impossible
    if not is_impossible:
        assert answer in ("pass", "undecided")


def test_a_metric_at_a_load_is_not_negative_because_a_limit_may_be() -> None:
    loads = [values("x", -8.0, -9.0, rate=rate) for rate in ("1", "2")]
    limits = [values("y_delta", size, size, unit="B", rate=rate) for rate, size in (("1", 1.0), ("2", 9e9))]
    new = run_of(*loads, *limits)
    assert said("x with y_delta under 1 GB under 9 s", [new], []).startswith("impossible: ")


#: Twenty paths from each level to the next.
TREE = "\n  ".join([*(f"a{level}: {' + '.join([f'a{level + 1}'] * 20)}" for level in range(8)), "a8: x + y"])
DERIVED = [("a: x - y", "a", False), ("a: b + b\n  b: x - y", "a", False), ("a: x + x", "a", True), (TREE, "a0", True)]


@pytest.mark.parametrize(("definitions", "metric", "is_impossible"), DERIVED, ids=["minus", "nested", "plus", "tree"])
def test_a_derived_metric_may_be_negative_if_its_parts_may(definitions: str, metric: str, is_impossible: bool) -> None:
    text = f"version: 1\nmetrics:\n  {definitions}\nrules:\n  - {metric} under 9 s\n"
    rules, problems = load_rules([("r.yaml", text.encode())])
    assert rules is not None, problems
    new = run_of(values("x", -8.0, -9.0), values("y", 1.0, 1.0))
    (found,) = judge(Case(rules, (new,), Baseline(place="s"), date(2026, 1, 1)))
    assert (found.reason == "impossible") == is_impossible


def test_a_negative_number_names_its_run_and_its_side() -> None:
    good, bad = printed(mean=1.0, count=3.0), printed(source="old.json", mean=1.0, count=-3.0)
    rule = "x mean within 5% of"
    step = "find out why the program wrote it, and measure again"
    assert said(f"{rule} baseline", [good], [bad]) == (
        f"impossible: x has the value -3 in old.json, which cannot be negative. {step}"
    )
    assert said(f"{rule} anchor", [good], [good], anchor=(bad,)).startswith("impossible: x has the value -3 in old")
    assert not said(f"{rule} baseline", [good], [good], anchor=(bad,)).startswith("impossible")
    assert said(f"{rule} baseline", [printed(mean=1.0, min=-2.0)], [good]).startswith("impossible: x has the value -2")
    assert not said(f"{rule} baseline", [printed(mean=1.0, max=2.0)], [good]).startswith("impossible")
    assert not said(f"{rule} baseline", [run_of(values("x", 1.0, 2.0))], [good]).startswith("impossible")
    change = replace(bad.series[0], key=Key("x_delta"), unit="B")
    assert said("x_delta mean under 9 GB", [run_of(change)], []).startswith(
        "impossible: x_delta has the value -3 in new"
    )


@pytest.mark.parametrize("numbers", [(1.0, NAN, 1.0), (1.0, INF, 1.0), (-INF, 1.0, 1.0)])
def test_one_value_that_is_not_finite_refuses_the_rank(numbers: tuple[float, ...]) -> None:
    """Of a derived metric, because a reader leaves out such a value of a file."""
    parts = [values("x", *numbers, unit="1"), values("y", 1.0, 1.0, 1.0, unit="1")]
    assert said("x * y under 9", [run_of(*parts)], []).startswith("not-a-number: ")
    ranks = [values("x", *of, unit="1", rank=rank) for rank, of in (("0", (1.0, 1.0, 1.0)), ("1", numbers))]
    ranks += [values("y", 1.0, 1.0, 1.0, unit="1", rank=rank) for rank in ("0", "1")]
    assert said("x * y on the median rank under 9", [run_of(*ranks)], []).startswith(
        "not-a-number: x * y median on rank 1"
    )


def test_runs_that_lack_a_metric_are_those_to_add_again() -> None:
    stored = [
        run(name, source=f"{name}.json", files=(SourceFile(f"{name}.json", "test", "0" * 64),)) for name in ("x", "y")
    ]
    (found,) = judge(bare(f"x {BASELINE}", [run("x")], stored))
    assert found.next_step.command == "perfgate baseline add y.json"


def test_every_load_that_keeps_the_limits_may_not_be_the_largest() -> None:
    loads = [values("ttft", time, request_rate=str(rate)) for rate, time in ((1, 0.1), (2, 0.1), (3, 0.9))]
    rule = "the largest request_rate with ttft under 500 ms at least 3"
    assert said(rule, [run_of(*loads[:2])], []).startswith("short-sweep: the largest request_rate")
    assert said(rule, [run_of(*loads)], []) == "fail"
    assert said(rule.replace("3", "2"), [run_of(*loads[:2])], []) == "pass"
    served = [values("served", -5.0, unit="1/s", request_rate=str(rate)) for rate in (1, 2, 3)]
    best = "served with ttft under 500 ms at least 3 /s"
    assert said(best, [run_of(*loads, *served)], []).startswith("impossible: ")
    freed = [values("mem_delta", -5.0, unit="B", request_rate=str(rate)) for rate in (1, 2, 3)]
    assert said("mem_delta with ttft under 500 ms under 9 GB", [run_of(*loads, *freed)], []) == "pass"
