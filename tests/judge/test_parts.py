"""What each printed timer is made of, by name: one part grows, and is found."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest
from conftest import steady

from perfgate.core import Baseline, Key, Run, Series, Share, Verdict, read_only
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.rules.load import load_rules

FAMILIES = {
    "forward_backward": ("forward", "backward"),
    "backward": ("backward_inner", "backward_allreduce"),
    "backward_microstep": ("backward_inner_microstep", "backward_allreduce_microstep"),
    "step": ("optimizer_allgather", "optimizer_gradients", "optimizer_step"),
    "train_batch": ("batch_input", "forward", "backward", "step"),
    "batch_time": ("data_time", "forward", "backward", "step"),
    "iteration_time": ("forward-backward", "optimizer"),
    "forward-backward": ("forward-compute", "backward-compute"),
    "step.time": ("step.kernel", "step.other"),
    "step.kernel": ("kernel.gemm", "kernel.softmax"),
    "step.communication": ("collective.all_reduce", "collective.all_gather"),
    "epoch": ("epoch.load", "epoch.train"),
}


def run(whole: str, parts: dict[str, float], seed: int, unit: str = "s", **labels: str) -> Run:
    """A metric that is the sum of its parts, which are given by their centres."""
    values = {name: np.array(steady(centre, n=40, seed=seed + i)) for i, (name, centre) in enumerate(parts.items())}
    values[whole] = sum(values.values(), np.zeros(40))
    rows = tuple(Series(Key.of(name, **labels), unit, "samples", read_only(x)) for name, x in values.items())
    return Run(f"run{seed}", "test", rows)


def verdict(sentence: str, base: list[Run], new: list[Run]) -> Verdict:
    ruleset, problems = load_rules([("r.yaml", f"version: 1\nrules: ['{sentence}']\n".encode())])
    assert ruleset is not None, problems
    (found,) = judge(Case(ruleset, tuple(new), Baseline("s/e/l", tuple(base)), date(2026, 1, 1)))
    return found


def explained(sentence: str, whole: str, before: dict[str, float], after: dict[str, float], **how: Any) -> list[Share]:
    base = [run(whole, before, 10 * seed, **how) for seed in range(5)]
    found = verdict(sentence, base, [run(whole, after, 70 + 10 * seed, **how) for seed in range(3)])
    assert found.outcome == "fail"
    return list(found.explained_by)


@pytest.mark.parametrize(("whole", "grown"), [(whole, part) for whole, parts in FAMILIES.items() for part in parts])
def test_the_part_that_grew_is_found(whole: str, grown: str) -> None:
    before = dict.fromkeys(FAMILIES[whole], 1.0)
    (share,) = explained(f'"{whole}" within 5% of baseline', whole, before, {**before, grown: 2.0})
    assert (share.metric, share.within) == (grown, None)
    assert share.share == pytest.approx(1, abs=0.05)
    assert share.low < share.share < share.high
    assert (share.base, share.new) == pytest.approx((1, 2), rel=0.01)


@pytest.mark.parametrize(("unit", "told"), [("s", True), ("B", True), ("FLOP", True), ("1", False)])
def test_only_what_adds_up_is_divided(unit: str, told: bool) -> None:
    before = {"epoch.load": 100.0, "epoch.train": 100.0}
    sentence = "epoch within ±5% of baseline"
    found = explained(sentence, "epoch", before, {**before, "epoch.load": 150.0}, unit=unit)
    assert [share.metric for share in found] == (["epoch.load"] if told else [])


def test_a_part_of_a_part_is_told_after_it() -> None:
    before = {"epoch.load": 1.0, "epoch.train": 1.0, "epoch.train.inner": 1e-9}
    found = explained("epoch within 5% of baseline", "epoch", before, {**before, "epoch.train": 2.0})
    assert [(share.metric, share.within) for share in found] == [("epoch.train", None)]


def test_parts_go_by_the_size_of_their_share_then_by_name() -> None:
    names = {f"epoch.{name}": 1.0 for name in "abcdefg"}
    after = {name: 1.0 + 0.1 * (i + 1) for i, name in enumerate(names)}
    found = explained("epoch within 5% of baseline", "epoch", names, after)
    assert [share.metric for share in found] == [f"epoch.{name}" for name in "gfedc"]


def test_less_than_a_hundredth_explains_nothing() -> None:
    before = {"epoch.load": 1.0, "epoch.train": 100.0}
    found = explained("epoch within 5% of baseline", "epoch", before, {"epoch.load": 1.1, "epoch.train": 130.0})
    assert [share.metric for share in found] == ["epoch.train"]


def test_a_part_that_became_faster_has_a_negative_share() -> None:
    before = {"epoch.load": 1.0, "epoch.train": 1.0}
    slower, faster = explained("epoch within 5% of baseline", "epoch", before, {"epoch.load": 0.5, "epoch.train": 2.0})
    assert (slower.metric, faster.metric) == ("epoch.train", "epoch.load")
    assert (slower.share, faster.share) == pytest.approx((2, -1), rel=0.05)
    assert faster.low < faster.share < faster.high < 0


@pytest.mark.parametrize(
    ("statistic", "told"),
    [("median", True), ("mean", True), ("trimmed_mean", True), ("total", True), ("p90", True), ("max", True)],
)
def test_parts_of_any_statistic(statistic: str, told: bool) -> None:
    before = {"epoch.load": 1.0, "epoch.train": 1.0}
    found = explained(f"epoch {statistic} within 50% of baseline", "epoch", before, {**before, "epoch.load": 9.0})
    assert [share.metric for share in found] == (["epoch.load"] if told else [])
    per_run = 40 if statistic == "total" else 1
    assert found[0].new == pytest.approx(9 * per_run, rel=0.05)


@pytest.mark.parametrize("statistic", ["median", "mean", "p90", "total"])
def test_a_part_that_is_taken_twice_a_step_counts_twice(statistic: str) -> None:
    """Micro-steps: the mean of a part, times how many there are of it for each value of the whole."""

    def steps(seed: int, micro: float) -> Run:
        values = np.array(steady(micro, n=80, seed=seed))
        rows = {"epoch.load": values, "epoch": values[::2] + values[1::2]}
        return Run(f"run{seed}", "test", tuple(Series(Key(k), "s", "samples", read_only(v)) for k, v in rows.items()))

    base, new = [steps(seed, 1.0) for seed in range(5)], [steps(9 + seed, 1.5) for seed in range(3)]
    (share,) = verdict(f"epoch {statistic} within 20% of baseline", base, new).explained_by
    times = 80 if statistic == "total" else 2
    assert (share.base, share.new) == pytest.approx((times, 1.5 * times), rel=0.03)
