"""Pairs as runs hold them: how their sides are told apart, and what the order of their steps did."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from conftest import answer_of
from msgspec.structs import replace

from perfgate import judge_change, measure_run
from perfgate.core import Key, Location, Problem, Run, Series, read_only
from perfgate.judge import pairs
from perfgate.judge.pairs import base_goes_first, is_paired, number_of, order_bias, split_pairs

judge_pairs = partial(judge_change, pairing="one-process", tolerance=0.02)


def series(metric: str, values: list[float], kind: Any = "samples", steps: Any = None, **labels: str) -> Series:
    at = None if steps is None else read_only(np.array(steps))
    return Series(Key.of(metric, **labels), "s", kind, read_only(np.array(values)), at)


def side(which: str, pair: str = "1", pairing: str = "in-turn", metric: str = "step", **labels: str) -> Series:
    return series(metric, [1.0] * 9, side=which, pair=pair, pairing=pairing, **labels)


def run(*rows: Series, source: str = "p.json") -> Run:
    return Run(source, "test", rows, (Problem("warning", "cut", Location(source)),))


@pytest.mark.parametrize(
    "labels",
    [
        {"side": "left", "pair": "1", "pairing": "in-turn"},
        {"side": "base", "pairing": "in-turn"},
        {"side": "base", "pair": "1", "pairing": "other"},
        {"side": "new", "pair": "1"},
        {},
    ],
)
def test_what_is_marked_otherwise_is_no_pair(labels: dict[str, str]) -> None:
    assert not is_paired(run(series("step", [1.0], **labels)))
    assert split_pairs([run(series("step", [1.0], **labels))]) is None


def test_sides_lose_their_marks_and_keep_their_labels() -> None:
    whole = run(
        side("base", rank="1"), side("new", rank="1"), series("loss", [3.0]), side("base", "2"), side("new", "2")
    )
    assert is_paired(whole)
    found = split_pairs([run(series("alone", [1.0]), source="q.json"), whole])
    assert found is not None
    assert (found.pairing, found.problems) == ("in-turn", ())
    assert [one.source for one in found.base] == ["p.json, pair 1, base", "p.json, pair 2, base"]
    assert [one.source for one in found.new] == ["p.json, pair 1, new", "p.json, pair 2, new"]
    assert [[s.key for s in one.series] for one in found.base] == [[Key.of("step", rank="1")], [Key("step")]]
    # What stands beside the pairs goes with the new side, and so do the problems of the file.
    assert [s.key for s in found.new[0].series] == [Key.of("step", rank="1"), Key("loss")]
    assert [len(one.problems) for one in (*found.base, *found.new)] == [0, 0, 1, 1]


def test_the_sides_have_the_facts_of_their_own_and_the_format_of_the_tool() -> None:
    facts = {"gpu": "H100", "commit": "b", "base.commit": "a", "written_as": "nsys"}
    found = split_pairs([replace(run(side("base"), side("new")), environment=facts)])
    assert found is not None
    assert [dict(one.environment) for one in (*found.base, *found.new)] == [
        {"gpu": "H100", "commit": "a"},
        {"gpu": "H100", "commit": "b"},
    ]
    assert [one.format for one in (*found.base, *found.new)] == ["nsys", "nsys"]


def test_each_way_to_make_pairs_has_its_usual_noise() -> None:
    assert all(is_paired(run(side("new", pairing=way))) for way in pairs.PRIORS)
    assert pairs.PRIORS == {"one-process": (0.003, 2.0), "in-turn": (0.02, 2.0), "whole-runs": (0.02, 2.0)}
    assert pairs.LABELS == ("side", "pair", "pairing")


@pytest.mark.parametrize(("there", "absent"), [("base", "new"), ("new", "base")])
def test_a_pair_with_one_side_is_a_problem(there: str, absent: str) -> None:
    found = split_pairs([run(side("base"), side("new")), run(side(there, "7"), series("loss", [3.0]))])
    assert found is not None
    assert (len(found.base), len(found.new)) == (1, 1)
    (problem,) = found.problems
    assert (problem.severity, str(problem.at)) == ("error", "p.json")
    assert f"pair 7 has no {absent} side" in problem.message


@pytest.mark.parametrize(
    ("ways", "judged"),
    [
        (["one-process"], "one-process"),
        (["one-process", "in-turn"], "in-turn"),
        (["one-process", "whole-runs", "in-turn"], "whole-runs"),
    ],
)
def test_mixed_pairs_are_judged_by_what_promises_least(ways: list[str], judged: str) -> None:
    found = split_pairs([run(side("base", pairing=way), side("new", pairing=way)) for way in ways])
    assert found is not None
    assert found.pairing == judged


@pytest.mark.parametrize(("pair", "first"), [("1", True), ("2", False), ("13", True), ("10", False), ("x", True)])
def test_base_goes_first_in_odd_pairs(pair: str, first: bool) -> None:
    assert base_goes_first(pair) == first
    assert number_of(f"dir, pair 9/p.json, pair {pair}, base") == pair


def taken_by_turns(n: int, cost: float, first_is_base: bool, steps: Any = None) -> tuple[Series, Series]:
    """Steps of 1 s on both sides, of which the one that goes second takes longer by a factor."""
    at = list(range(n)) if steps is None else steps
    base_first = [(step % 2 == 0) == first_is_base for step in at]
    base, new = ([1.0 if first == side else cost for first in base_first] for side in (True, False))
    return series("step", base, steps=steps), series("step", new, steps=steps)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("steps", [None, [3 * i + 1 for i in range(16)]])
@pytest.mark.parametrize("cost", [1.05, 0.98])
def test_the_cost_of_going_second(first: bool, steps: Any, cost: float) -> None:
    base, new = taken_by_turns(16, cost, first, steps)
    assert order_bias([base], [new], [first]) == pytest.approx(cost - 1)
    assert order_bias([base], [new], [not first]) == pytest.approx(1 / cost - 1)


def test_the_cost_is_the_mean_of_the_pairs_that_tell() -> None:
    telling = [taken_by_turns(16, cost, True) for cost in (1.02, 1.06)]
    short, numbers = taken_by_turns(7, 2.0, True), [series("step", [1.0], "value")] * 2
    zero = [series("step", [0.0] * 16)] * 2
    base, new = zip(*telling, short, numbers, zero, strict=True)
    expected = math.exp((math.log(1.02) + math.log(1.06)) / 2) - 1
    assert order_bias(base, new, [True] * 5) == pytest.approx(expected)
    assert order_bias(base[2:], new[2:], [True] * 3) is None
    assert order_bias(*([one] for one in taken_by_turns(8, 1.5, True)), [True]) == pytest.approx(0.5)


@pytest.mark.parametrize(("base", "new"), [(16, 18), (18, 16), (16, 12)])
def test_steps_that_one_side_lacks_tell_nothing(base: int, new: int) -> None:
    """The cost is that of the steps that both sides have."""
    sides = (taken_by_turns(n, 1.05, True)[which] for which, n in enumerate((base, new)))
    assert order_bias(*([one] for one in sides), [True]) == pytest.approx(0.05)


@pytest.mark.parametrize("which", [0, 1])
def test_a_step_of_no_time_tells_nothing(which: int) -> None:
    sides = list(taken_by_turns(16, 1.05, True))
    sides[which] = series("step", [1.0] * 15 + [0.0])
    assert order_bias([sides[0]], [sides[1]], [True]) is None


def test_a_first_quarter_of_warm_up_is_left_out() -> None:
    base, new = taken_by_turns(16, 1.05, True)
    cold = series("step", [9.0] * 4 + [*new.values[4:]])
    assert order_bias([base], [cold], [True]) == pytest.approx(0.05)


def runs(*centres: float, n: int = 40) -> list[list[float]]:
    """Runs whose noise both sides share, so that it cancels within the steps of a pair."""
    noise = np.exp(0.1 * np.random.default_rng(5).standard_normal(n))
    return [[float(centre * x) for x in noise] for centre in centres]


@pytest.mark.parametrize(("statistic", "cancels"), [("median", True), ("p50", True), ("p75", False), ("mean", False)])
def test_medians_of_steps_by_turns_cancel_what_is_shared(statistic: str, cancels: bool) -> None:
    base, new = runs(1.0, 1.0), runs(1.04, 1.04)
    turns = judge_pairs(base, new, pairing="one-process", statistic=statistic, prior=(0.003, 2.0))
    whole = judge_pairs(base, new, pairing="whole-runs", statistic=statistic, prior=(0.003, 2.0))
    assert turns.standard_error is not None
    assert whole.standard_error is not None
    assert (turns.standard_error < whole.standard_error / 2) == cancels
    assert turns.log_change == pytest.approx(math.log(1.04), rel=1e-6)


@pytest.mark.parametrize("which", [0, 1])
def test_the_warm_up_of_either_side_is_left_out_of_both(which: int) -> None:
    sides = [runs(1.0)[0], runs(1.04)[0]]
    sides[which] = [9.0] * 6 + sides[which][6:]
    dropped = measure_run(sides[which]).dropped
    base, new = ([side] for side in sides)
    assert dropped >= 6
    found, told = judge_pairs(base, new), judge_pairs(base, new, warmup=dropped)
    assert (found.log_change, found.standard_error) == (told.log_change, told.standard_error)


def test_runs_of_different_length_are_compared_whole() -> None:
    shorter = judge_pairs(runs(1.0, n=40), runs(1.0, n=38))
    assert shorter.standard_error is not None
    assert shorter.standard_error > 0.01


def test_numbers_are_compared_as_they_are() -> None:
    found = judge_pairs([1.0] * 3, [1.1] * 3, tolerance=0.02)
    assert (found.outcome, found.base_runs, found.new_runs) == ("fail", 3, 3)


@pytest.mark.parametrize("pairing", ["one-process", "in-turn", "whole-runs"])
@pytest.mark.parametrize(
    ("pairs", "slower", "answer"),
    [
        (1, 1.0, "undecided noise-unknown"),
        (1, 1.5, "suspect interval"),
        (2, 1.0, "pass interval"),
        (2, 1.1, "suspect interval"),
        (3, 1.0, "pass interval"),
        (3, 1.05, "fail interval"),
    ],
)
def test_one_pair_shows_no_noise_and_three_show_enough(pairing: Any, pairs: int, slower: float, answer: str) -> None:
    """The pairs differ by .2 %, however they were made."""
    new = [slower * (1 + 0.002 * i) for i in range(pairs)]
    found = judge_pairs([1.0] * pairs, new, pairing=pairing)
    assert f"{answer_of(found)} {found.reason}" == answer


def test_the_options_are_those_of_changes() -> None:
    base, new = [1.0] * 3, [1.03, 1.035, 1.025]
    assert judge_pairs(base, new, tolerance=0.01).outcome == "fail"
    assert judge_pairs(base, new, tolerance=0.01, better="higher").outcome == "pass"
    assert judge_pairs(base, new, tolerance=0.01, better="higher", two_sided=True).outcome == "fail"
    assert judge_pairs(base, new, tolerance=0.01, better="neither").outcome == "fail"
    assert judge_pairs(base, new).tolerance == 0.02
    assert judge_pairs([[1.0] * 3], [[1.0] * 3], min_samples=4).reason == "too-few-samples"
    assert judge_pairs([[1.0] * 3], [[1.0] * 3]).reason == "noise-unknown"
    assert judge_pairs([[1.0] * 4], [[1.0] * 4], warmup=0).reason == "noise-unknown"
    suspicious = judge_pairs([1.0], [1.03], prior=(0.005, 8.0), tolerance=0.025)
    assert answer_of(suspicious) == "suspect"
    assert judge_pairs([1.0], [1.03], prior=(0.005, 8.0), tolerance=0.025, strict=True).outcome == "fail"
    sure, wide = (judge_pairs([1.0], [1.0], prior=(0.003, 2.0), confidence=confidence) for confidence in (0.95, 0.99))
    assert wide.high is not None
    assert sure.high is not None
    assert wide.high > sure.high
    assert judge_pairs([1.0], [1.0], tolerance=0.01).tolerance == 0.01
    assert judge_change([1.0], [1.0], tolerance=0.02).standard_error != sure.standard_error
