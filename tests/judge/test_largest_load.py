"""The largest load of a sweep that keeps its limits, and a metric at that load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from stories import bare, run_of

from perfgate.core import Key, Series, read_only
from perfgate.judge import largest_load
from perfgate.judge.derived import RunView
from perfgate.judge.largest_load import load_size
from perfgate.judge.measure import NotAvailable
from perfgate.judge.verdicts import judge
from perfgate.rules.syntax.grammar import parse_sentence


def loads(metric: str, values: Mapping[Any, float], unit: str = "s", by: str = "rate", **labels: str) -> list[Series]:
    """A number of a metric for each load."""
    return [
        Series(Key.of(metric, **labels, **{by: str(load)}), unit, "value", read_only(np.array([value])))
        for load, value in values.items()
    ]


def number(metric: str, unit: str, value: float, **labels: str) -> Series:
    return Series(Key.of(metric, **labels), unit, "value", read_only(np.array([value])))


def found(text: str, *series: Series) -> dict[str, Series]:
    """The answers by their labels, in the order of the sweeps."""
    answers = RunView(run_of(*series), {}).evaluate(parse_sentence(f"{text} at least 1").subject)
    return {",".join("=".join(pair) for pair in labels): one for labels, one in answers.items()}


def told(one: Series) -> tuple[float, float, float]:
    """The number of an answer, its load and the largest load that was measured."""
    return float(one.values[0]), one.aggregate[largest_load.LOAD], one.aggregate[largest_load.MEASURED]


TTFT = loads("ttft", {16: 0.9, 4: 0.1, 8: 0.2, "inf": 0.1})
RATES = loads("throughput", {16: 12.0, 4: 3.5, 8: 7.0}, "1/s")
#: Two more metrics and a second sweep, of another model.
OTHER = [*loads("itl", {4: 0.01, 8: 0.05, 16: 0.02}), *loads("power", {4: 1.0, 8: 1.0}, "W")]
MODELS = [*loads("ttft", {4: 0.1, 8: 0.9}, model="a"), *loads("ttft", {4: 0.1, 8: 0.2, 12: 0.3}, model="b")]
RANKS = [
    *loads("time", {1: 1.0, 2: 1.5, 4: 1.8}, by="batch", rank="0"),
    *loads("time", {1: 1.1, 2: 1.7, 4: 2.5}, by="batch", rank="1"),
    *loads("memory", {1: 1e9, 2: 2e9, 4: 4e9}, "B", by="batch", rank="0"),
    *loads("memory", {1: 1e9, 2: 3e9, 4: 3e9}, "B", by="batch", rank="1"),
]
ANSWERS: list[tuple[str, list[Series], dict[str, tuple[float, float, float]]]] = [
    ("the largest rate with ttft under 1 s", TTFT, {"": (16, 16, 16)}),
    ("the largest rate with ttft under 300 ms", TTFT, {"": (8, 8, 16)}),
    ("the largest rate with ttft under 0.2 s", TTFT, {"": (4, 4, 16)}),
    ("the largest rate with ttft at most 0.2 s", TTFT, {"": (8, 8, 16)}),
    ("the largest rate with ttft under 50 ms", TTFT, {"": (0, 0, 16)}),
    # the largest load keeps the limit, a smaller one does not
    ("the largest rate with itl under 30 ms", OTHER, {"": (4, 4, 16)}),
    ("the largest rate with ttft under 1 s and itl under 30 ms", [*TTFT[:3], *OTHER], {"": (4, 4, 16)}),
    ("the largest rate with itl under 30 ms and ttft under 1 s", [*TTFT[:3], *OTHER], {"": (4, 4, 16)}),
    ("the largest rate{rate!=8} with itl under 30 ms", OTHER, {"": (16, 16, 16)}),
    ("the largest rate{rate!=8, rate!=16} with itl under 30 ms", OTHER, {"": (4, 4, 4)}),
    ("the largest rate with ttft{model=b} under 250 ms", MODELS, {"model=b": (8, 8, 12)}),
    ("the largest rate with ttft under 500 ms", MODELS, {"model=a": (4, 4, 8), "model=b": (12, 12, 12)}),
    ("the largest rate with gone under 1 s", TTFT, {}),
    ("the largest rate with ttft under 1 s and gone under 1 s", TTFT, {}),
    ("the largest rate with ttft max under 300 ms", TTFT, {"": (8, 8, 16)}),
    # a metric at that load
    ("throughput with ttft under 300 ms", [*TTFT, *RATES], {"": (7.0, 8, 16)}),
    ("throughput with ttft under 50 ms", [*TTFT, *RATES], {"": (0.0, 0, 16)}),
    ("throughput{rate!=8} with ttft under 1 s", [*TTFT, *RATES], {"": (12.0, 16, 16)}),
    # every rank keeps the limit, and every rank has an answer
    ("the largest batch with time under 2 s", RANKS, {"": (2, 2, 4)}),
    ("time with memory under 3.5 GB", RANKS, {"rank=0": (1.5, 2, 4), "rank=1": (1.7, 2, 4)}),
    # nothing changes, so that each measurement is a load of 1
    ("p with q under 1 s", [number("p", "W", 5.0, name="x"), number("q", "s", 0.5, name="x")], {"name=x": (5.0, 1, 1)}),
    (
        "p with q under 1 s",
        [*(number(name, "s", 0.5, rate="4") for name in "pq"), *(number(name, "s", 0.6, rate="inf") for name in "pq")],
        {"rate=4": (0.5, 1, 1), "rate=inf": (0.6, 1, 1)},
    ),
]


@pytest.mark.parametrize(("text", "series", "answers"), ANSWERS)
def test_the_largest_load_and_a_metric_at_it(
    text: str, series: list[Series], answers: dict[str, tuple[float, float, float]]
) -> None:
    assert {labels: told(one) for labels, one in found(text, *series).items()} == answers


REFUSED: list[tuple[str, list[Series], str]] = [
    ("the largest rate with ttft under 300 MB", TTFT, "300 MB does not fit ttft, which is measured in s"),
    ("the largest rate with ttft under 300", TTFT, "300 does not fit ttft, which is measured in s"),
    ("the largest rate with ttft count under 3 s", TTFT, "3 s does not fit ttft, which is measured in 1"),
    (
        "the largest rate with power under 9 W and ttft under 1 s",
        [*TTFT[:3], *OTHER],
        'power is missing for {rate="16"}',
    ),
    (
        "the largest batch with ttft under 1 s",
        [*TTFT, *MODELS],
        "no load has a number as its batch; the conditions are model, rate",
    ),
    (
        "the largest rate with q under 1 s",
        [number("q", "s", 0.5)],
        "no load has a number as its rate; the conditions are none",
    ),
    (
        "p with q under 1 s",
        [number("q", "s", 0.5, rate=rate, limit=limit) for rate in "12" for limit in "48"],
        'limit and rate both change in this sweep: write `p{limit="..."} with ...`',
    ),
    ("gone with ttft under 1 s", TTFT, "no load has gone"),
    ("gone with ttft under 1 ms", TTFT, "no load has gone"),
    ("time with memory under 1 GB", RANKS, "no load keeps the limits, so there is no load at which to measure time"),
    ("power with itl under 1 s", OTHER, 'power is missing for {rate="16"}'),
    ("p with ttft under 1 ms", [*TTFT, number("p", "W", 1.0)], 'p is missing for {rate="16"}'),
]


@pytest.mark.parametrize(("text", "series", "said"), REFUSED)
def test_what_is_no_sweep_is_refused(text: str, series: list[Series], said: str) -> None:
    with pytest.raises(NotAvailable) as raised:
        found(text, *series)
    assert str(raised.value) == said


def test_an_answer_is_a_single_number_in_its_unit() -> None:
    assert (largest_load.LOAD, largest_load.MEASURED) == ("load", "measured")
    (load,), (rate,) = (
        found(text, *TTFT, *RATES).values()
        for text in ("the largest rate with ttft under 1 s", "throughput with ttft under 1 s")
    )
    assert [(one.unit, one.kind) for one in (load, rate)] == [("1", "value"), ("1/s", "value")]
    middle = Series(Key.of("p", rate="16"), "W", "samples", read_only(np.array([1.0, 2.0, 9.0])))
    assert told(found("p with ttft under 1 s", *TTFT, middle)[""])[0] == 2.0


@pytest.mark.parametrize(
    ("rule", "better"),
    [
        ("the largest rate with ttft under 1 s", "higher"),
        ("throughput with ttft under 1 s", "higher"),
        ("itl with ttft under 1 s", "lower"),
        ("goodput with ttft under 1 s", "higher"),
        ("power{rate!=9} with ttft under 1 s", "lower"),
        ("share with ttft under 1 s", "neither"),
    ],
)
def test_a_change_at_the_largest_load_has_the_direction_of_its_metric(rule: str, better: str) -> None:
    rest = [*loads("itl", {16: 0.1}), *loads("power", {16: 1.0}, "W")]
    run = run_of(*TTFT, *RATES, *rest, *loads("goodput", {16: 0.5}, "1"), *loads("share", {16: 0.5}, "1"))
    (verdict,) = judge(bare(f"{rule} within 5% of baseline", [run], [run]))
    assert (verdict.better, verdict.outcome) == (better, "undecided")


#: The sweeps of both sides, a rule with a change of 5 %, and the answer; each load keeps a limit of 1 s.
SHORT: list[tuple[str, list[Series], list[Series], str]] = [
    ("the largest rate with ttft under 1 s", TTFT, TTFT, "pass interval"),
    ("the largest rate with ttft under 1 s", TTFT[1:], TTFT, "error short-sweep"),
    ("the largest rate with ttft under 1 s", TTFT, TTFT[1:], "pass interval"),
    ("the largest rate with ttft under 150 ms", TTFT[1:], TTFT, "pass interval"),
    ("power with ttft under 1 s", [*TTFT, *loads("power", {16: 8.0}, "W")], TTFT, "pass interval"),
    ("power with ttft under 1 s", [*TTFT, *loads("power", {16: 12.0}, "W")], TTFT, "fail interval"),
    ("power with ttft under 1 s", [*TTFT[1:], *loads("power", {8: 5.0}, "W")], TTFT, "error short-sweep"),
    ("throughput with ttft under 1 s", [*TTFT, *loads("throughput", {16: 10.0}, "1/s")], TTFT, "fail interval"),
    ("throughput with ttft under 1 s", [*TTFT[1:], *loads("throughput", {8: 7.0}, "1/s")], TTFT, "error short-sweep"),
]


@pytest.mark.parametrize(("rule", "new", "base", "answer"), SHORT)
def test_a_sweep_is_too_short_if_it_ends_before_the_load_of_the_base(
    rule: str, new: list[Series], base: list[Series], answer: str
) -> None:
    stored = [*base, *RATES, *loads("power", {16: 10.0, 8: 6.0}, "W")]
    (verdict,) = judge(bare(f"{rule} within 5% of baseline", [run_of(*new)] * 3, [run_of(*stored)] * 3))
    assert f"{verdict.outcome} {verdict.reason}" == answer


def test_a_sweep_reaches_as_far_as_the_farthest_of_the_base() -> None:
    rule, (long, short) = (
        "the largest rate with ttft under 1 s within 5% of baseline",
        (run_of(*TTFT), run_of(*TTFT[1:])),
    )
    (verdict,) = judge(bare(rule, [short], [short, long, short]))
    assert verdict.reason == "short-sweep"


@pytest.mark.parametrize(
    ("text", "size"),
    [("4", 4.0), ("1e3", 1000.0), ("-2.5", -2.5), ("inf", None), ("nan", None), ("", None), ("4/s", None)],
)
def test_the_size_of_a_load(text: str, size: float | None) -> None:
    assert load_size(text) == size
