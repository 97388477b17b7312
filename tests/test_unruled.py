"""Metrics that changed without a rule are listed at the end of a check, without effect on the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Done, steady, write_results, write_rules
from msgspec.structs import replace

from perfgate.analysis import unruled
from perfgate.analysis.unruled import Size, WholeStep, size_of, step_time, time_named, time_seen, unruled_changes
from perfgate.core import Key, Report, Run, Series, UnruledChange, read_only
from perfgate.core.outlines import Outline, Outlines
from perfgate.words import answer

Command = Callable[..., Done]


def run(seed: int, **times: float) -> Run:
    rows = [
        Series(Key(name), "s", "samples", read_only(np.array(steady(value, n=60, spread=0.01, seed=seed + i))))
        for i, (name, value) in enumerate(times.items())
    ]
    return Run(f"{seed}.json", "test", tuple(rows))


BASE = [run(10 * seed, forward=0.2, load=0.02, backward=0.05, log=0.001) for seed in range(3)]


def test_the_largest_share_of_the_time_comes_first() -> None:
    new = [run(90, forward=0.4, load=0.03, backward=0.02, log=0.00105)]
    found, count = unruled_changes(BASE, new, lambda key: key.metric == "forward")
    assert [(one.metric, round(one.change, 1)) for one in found] == [("backward", -0.6), ("load", 0.5)]
    assert count == 2
    assert found[1].share == pytest.approx(0.03 / 0.45, rel=0.05)


#: timers of a run in ms, its format, the timer that changed, and its share of the time of the steps
SHARES: list[tuple[dict[str, float], str, str, float | None]] = [
    ({"forward": 20, "backward": 40, "backward_inner": 32, "step": 6}, "deepspeed", "forward", 20 / 66),
    ({"forward": 20, "forward_microstep": 20, "backward": 40, "step": 6}, "deepspeed", "forward_microstep", 20 / 66),
    ({"forward": 20, "train_batch": 80}, "deepspeed", "forward", 0.25),
    ({"forward-backward": 50, "forward-compute": 20, "optimizer": 10}, "megatron", "forward-compute", 20 / 60),
    ({"train_step": 50, "forward": 20, "backward": 10}, "results", "forward", 0.4),
    ({"forward": 20, "backward": 20, "mine": 10}, "results", "mine", None),
    ({"one": 20, "two": 30}, "results", "one", None),
    ({"forward": 20, "backward": 20, "save-checkpoint": 90}, "megatron", "save-checkpoint", None),
]


@pytest.mark.parametrize(("times", "format", "changed", "share"), SHARES)
def test_timers_inside_each_other_count_once(
    times: dict[str, float], format: str, changed: str, share: float | None
) -> None:
    seconds = {name: value / 1000 for name, value in times.items()}
    before = {**seconds, changed: seconds[changed] / 2}
    sides = [replace(run(90, **{name: one[name] for name in times}), format=format) for one in (before, seconds)]
    ((found,), _) = unruled_changes(sides[:1], sides[1:], lambda _: False)
    assert found.metric == changed
    assert found.share == (None if share is None else pytest.approx(share, rel=0.02))


#: timers of a run in ms, the names in the rules, and the share of the time that they measure
NAMED: list[tuple[dict[str, float], set[str], float]] = [
    ({"forward": 20, "backward": 40, "backward_inner": 30}, {"backward"}, 40 / 60),
    ({"forward": 20, "backward": 40, "backward_inner": 30}, {"backward_inner"}, 30 / 60),
    ({"forward": 20, "forward_microstep": 20, "backward": 40}, {"forward_microstep"}, 20 / 60),
    ({"forward": 20, "backward": 40, "train_batch": 80}, {"train_batch", "forward"}, 1.0),
    ({"forward": 20, "backward": 40, "train_batch": 80}, {"backward"}, 0.5),
]


@pytest.mark.parametrize(("times", "named", "share"), NAMED)
def test_the_rules_name_each_moment_once(times: dict[str, float], named: set[str], share: float) -> None:
    seconds = {name: value / 1000 for name, value in times.items()}
    found = time_seen([replace(run(90, **seconds), format="deepspeed")], lambda key: key.metric in named)
    assert found == pytest.approx(share, rel=0.02)


def test_what_noise_explains_is_not_listed() -> None:
    noisy = [run(10 * seed, load=value) for seed, value in enumerate((0.02, 0.026, 0.016))]
    assert unruled_changes(noisy, [run(90, load=0.027)], lambda _: False) == ((), 0)
    assert unruled_changes(noisy, [run(90, load=0.08)], lambda _: False)[1] == 1
    assert unruled_changes(BASE, [run(90, load=0.0219)], lambda _: False)[1] == 0


def test_at_most_five_are_listed_and_all_are_counted() -> None:
    base = [run(7 * seed, **{f"t{i}": 0.01 for i in range(30)}) for seed in range(2)]
    found, count = unruled_changes(base, [run(90, **{f"t{i}": 0.02 for i in range(30)})], lambda _: False)
    assert (len(found), count) == (5, 30)


def one(metric: str, value: float, unit: str = "s", **labels: str) -> Series:
    return Series(Key.of(metric, **labels), unit, "value", read_only(np.array([value])))


def of(*series: Series, format: str = "test") -> Run:
    return Run("run.json", format, series)


def printed(kind: Any = "aggregate", **numbers: float) -> Series:
    return Series(Key("x"), "s", kind, read_only(np.empty(0)), aggregate=numbers)


def samples(*values: float, unit: str = "s", thinned_from: int | None = None) -> Series:
    return Series(Key("x"), unit, "samples", read_only(np.array(values)), thinned_from=thinned_from)


SIZES: list[tuple[Series, Size | None]] = [
    # a series, and its median or mean, the relative error of that, and its total
    (samples(9, 1, 3, 1, 3, 1, 3, 1, 3), Size(2.0, 1.8581 / 8**0.5 / 2, 25.0)),
    (samples(9, 1, 3, 1, 3, 1, 3, 1, 3, unit="1/s"), Size(3.0, 0.0, 25.0)),  # the first 1 is a slow start, too
    (samples(0.5, 0.5, thinned_from=20), Size(0.5, 0.0, 10.0)),
    (samples(0.5, 0.25, 0.75, unit="1"), Size(0.5, 1.8581 * 0.25 / 3**0.5 / 0.5, 1.5)),
    (samples(0, 0, 0), Size(0.0, 0.0, 0.0)),
    (samples(-2, -1, -3, unit="1"), Size(-2.0, 0.0, -6.0)),
    (samples(1, np.nan), None),
    (samples(), None),
    (samples(*[-1, 1e-200, 1] * 9), None),
    (one("x", 7.0), Size(7.0, 0.0, 7.0)),
    (one("x", 0.99e100), Size(0.99e100, 0.0, 0.99e100)),
    (one("x", 1e100), None),
    (one("x", -1e100), None),
    (printed(mean=2, total=9, count=3), Size(2.0, 0.0, 9.0)),
    (printed(mean=2, count=3), Size(2.0, 0.0, 6.0)),
    (printed(mean=2, median=5), Size(2.0, 0.0, 2.0)),
    (printed(mean=2, total=np.inf), None),
    (printed(mean=np.inf, total=2), None),
    (printed(total=9, count=3), None),
    (printed("summary", median=2, mean=3, count=4), Size(2.0, 0.0, 12.0)),
    (printed("summary", mean=3), Size(3.0, 0.0, 3.0)),
    (printed("summary", median=2), Size(2.0, 0.0, 2.0)),
]


@pytest.mark.parametrize(("series", "size"), SIZES)
def test_the_size_of_a_metric(series: Series, size: Size | None) -> None:
    found = size_of(series)
    assert (found is None) == (size is None)
    if found is not None and size is not None:
        assert (found.value, found.error, found.total) == pytest.approx((size.value, size.error, size.total))


def test_ranks_count_by_their_mean_and_outlined_ones_too() -> None:
    outline = Outline(medians=(3.0, 4.0), errors=(0.0, 0.0), totals=(60.0, 80.0))
    outlines = Outlines({("x", (), "s"): outline, ("y", (), "s"): Outline()})
    base = of(one("x", 1.0, rank="0"), one("x", 3.0, rank="1"))
    new = replace(of(one("x", 5.0, rank="0")), outlines=outlines)
    ((found,), count) = unruled_changes([base], [new], lambda _: False)
    assert (found.base, found.new, found.change, count) == (2.0, 4.0, 1.0, 1)


OUTLIER = [1.0] * 19
CHANGES: list[tuple[list[float], list[float], bool]] = [
    # the values of base runs, those of new runs, and whether the metric is listed
    ([1.0], [1.0999], False),
    ([1.0], [1.1001], True),
    ([1.0], [0.9], False),
    ([1.0], [0.8999], True),
    ([0.9, 1.1], [1.301], False),
    ([0.9, 1.1], [1.302], True),
    ([0.9, 1.1], [1.246, 1.246], False),
    ([0.9, 1.1], [1.247, 1.247], True),
    ([0.8, 1.0, 1.2], [1.490], False),
    ([0.8, 1.0, 1.2], [1.491], True),
    ([*OUTLIER, 10.0], [10.0], False),
    ([*OUTLIER, 10.0], [10.1], True),
    ([*OUTLIER, 0.01], [0.01], False),
    ([*OUTLIER, 0.01], [0.009], True),
    ([0.0], [1.0], False),
    ([-1.0], [-2.0], False),
    ([1e-100], [1.0], False),
    ([2e-100], [1e99], True),
    ([0.9e100] * 3, [0.1], True),
]


@pytest.mark.parametrize(("base", "new", "is_listed"), CHANGES)
def test_a_change_is_larger_than_a_tenth_and_than_three_standard_errors(
    base: list[float], new: list[float], is_listed: bool
) -> None:
    before, now = ([of(one("x", value, "1")) for value in side] for side in (base, new))
    assert unruled_changes(before, now, lambda _: False)[1] == is_listed


def test_a_change_of_just_the_least_size_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unruled, "LEAST_CHANGE", 0.5)
    base = [of(one("x", 1.0))]
    assert [unruled_changes(base, [of(one("x", now))], lambda _: False)[1] for now in (1.5, 1.51)] == [0, 1]


@pytest.mark.parametrize(("error", "change", "is_listed"), [(0.05, 0.216, 0), (0.05, 0.217, 1), (0.5, 2.12, 0)])
def test_the_errors_of_runs_count(error: float, change: float, is_listed: int) -> None:
    """The noise is sqrt(0.01^2 + 0.05^2) for each run; three standard errors of the difference are 21.6 %."""
    base, new = (
        [replace(of(), outlines=Outlines({("x", (), "s"): Outline((value,), (error,), (value,))}))]
        for value in (1.0, 1.0 + change)
    )
    assert unruled_changes(base, new, lambda _: False)[1] == is_listed


def test_metrics_of_the_machine_and_the_whole_run_are_not_listed() -> None:
    names = ("time.total", "command.time", "machine.load", "power", "clock.sm", "mine")
    base, new = ([of(*(one(name, value) for name in names))] for value in (1.0, 2.0))
    ((found,), count) = unruled_changes(base, new, lambda _: False)
    assert (found.metric, count) == ("mine", 1)


RULED: list[tuple[Series, Series, bool]] = [
    # what a rule names, before and now, and whether `mine`, which goes from 1 s to 2 s, is listed beside it
    (one("a", 1.0), one("a", 2.0), False),
    (one("a", 1.02), one("a", 1.961), False),
    (one("a", 1.03), one("a", 2.0), True),
    (one("a", 1.0), one("a", 2.05), True),
    (one("a", 1.0, "1"), one("a", 2.0, "1"), True),
    (one("a", 1.0), one("b", 2.0), True),
]


@pytest.mark.parametrize(("before", "now", "is_listed"), RULED)
def test_a_metric_with_the_values_of_a_named_one_is_judged_already(
    before: Series, now: Series, is_listed: bool
) -> None:
    base, new = [of(before, one("mine", 1.0))], [of(now, one("mine", 2.0))]
    found, count = unruled_changes(base, new, lambda key: key.metric in "ab")
    assert ([one.metric for one in found], count) == (["mine"] * is_listed, is_listed)


def test_a_metric_that_a_run_lacks_is_not_listed() -> None:
    lone, both = of(one("x", 1.0)), of(one("x", 2.0), one("y", 2.0))
    assert unruled_changes([lone, both], [of(one("y", 9.0))], lambda _: False) == ((), 0)
    assert unruled_changes([both], [of(one("y", 9.0)), of(one("x", 9.0))], lambda _: False) == ((), 0)


def test_times_come_first_by_size_and_others_by_their_change_and_name() -> None:
    names = {"a": 0.2, "b": 0.3}, {"c": 1.5, "d": 3.0, "f": 2.0, "e": 2.0}
    before = of(*(one(name, 0.1) for name in names[0]), *(one(name, 1.0, "B") for name in names[1]))
    now = [one(name, value) for name, value in names[0].items()]
    after = of(*now, *(one(name, value, "B") for name, value in names[1].items()))
    found, _ = unruled_changes([before], [after], lambda _: False, most=None)
    assert [one.metric for one in found] == ["b", "a", "d", "e", "f", "c"]
    assert unruled_changes([before], [after], lambda _: False, most=2) == (found[:2], 6)


def test_only_times_have_a_share_and_it_is_of_the_longest_new_run() -> None:
    rows = (("x", 1.0, "s"), ("y", 1.0, "B"))
    base = [of(one("train_batch", 4.0), *(one(name, value, unit) for name, value, unit in rows))]
    new = [
        of(one("train_batch", whole), *(one(name, 2 * value, unit) for name, value, unit in rows))
        for whole in (4.0, 8.0)
    ]
    found, _ = unruled_changes(base, new, lambda key: key.metric == "train_batch")
    assert [(one.metric, one.share) for one in found] == [("x", 0.25), ("y", None)]


STEPS: list[tuple[dict[str, float], str, float, bool]] = [
    # the time of each timer in s, the format, the time of all steps, and whether a timer measured it
    ({}, "results", 0.0, False),
    ({"train_batch": 5, "forward": 9}, "deepspeed", 5, True),
    ({"[A]x.run_training_epoch": 3, "[B]y.run_training_epoch": 5}, "lightning", 5, True),
    ({"iteration": 5, "forward": 5}, "results", 5, True),
    ({"iteration": 5, "forward": 5.1}, "results", 5.1, False),
    ({"iteration": 0.5, "forward": 0.25}, "results", 0.5, True),
    ({"iter": 2, "batch": 5, "forward": 1}, "results", 5, True),
    ({"step": 5, "forward": 4}, "results", 5, True),
    ({"step": 5, "forward": 9}, "results", 14, False),
    ({"step": 9, "forward": 4}, "deepspeed", 13, False),
    ({"forward": 4, "mine": 9, "data_time": 2}, "results", 6, False),
    ({"forward_microstep": 4, "backward": 5}, "deepspeed", 9, False),
]


@pytest.mark.parametrize(("times", "format", "seconds", "is_measured"), STEPS)
def test_the_time_of_all_steps(times: dict[str, float], format: str, seconds: float, is_measured: bool) -> None:
    assert step_time(times, format) == WholeStep(seconds, is_measured, format)


PARTS = [
    # the time of all steps, whether it is measured, a metric and its time, and its share
    (0.0, True, "forward", 0.0, None),
    (0.8, True, "mine", 0.4, 0.5),
    (0.8, True, "mine", 0.8, 1.0),
    (0.8, True, "mine", 0.9, None),
    (0.8, False, "mine", 0.4, None),
    (0.8, False, "forward", 0.4, 0.5),
    (0.8, False, "load", 0.4, 0.5),
]


@pytest.mark.parametrize(("whole", "is_measured", "metric", "seconds", "share"), PARTS)
def test_the_share_of_a_metric(
    whole: float, is_measured: bool, metric: str, seconds: float, share: float | None
) -> None:
    assert WholeStep(whole, is_measured, "deepspeed").share(metric, seconds) == share


OF_NAMES: list[tuple[dict[str, float], set[str], tuple[float, float]]] = [
    # the time of each timer in s, the names in the rules, and the time that these measure, and that all measure
    ({"train_batch": 80, "mine": 10}, {"train_batch"}, (80, 80)),
    ({"train_batch": 80, "mine": 10}, {"train_batch", "mine"}, (80, 80)),
    ({"forward": 20, "mine": 10}, {"mine"}, (10, 30)),
    ({"backward": 40, "backward_inner": 50}, {"backward_inner"}, (40, 40)),
    ({"backward": 40, "backward_inner": 10, "backward_allreduce": 20}, {"backward_inner"}, (10, 40)),
    ({"train_batch": 80, "backward": 40, "backward_inner": 10}, {"backward_inner"}, (10, 80)),
    ({"forward": 20}, set(), (0, 20)),
]


@pytest.mark.parametrize(("times", "named", "found"), OF_NAMES)
def test_the_time_that_the_rules_name(times: dict[str, float], named: set[str], found: tuple[float, float]) -> None:
    assert time_named(times, named, "deepspeed") == found


def test_of_ranks_the_slowest_counts_and_only_times_of_steps_do() -> None:
    ranks = one("forward", 0.4, ranks="max"), one("forward", 0.2, ranks="min")
    others = one("memory", 9e9, "B"), one("time.total", 99.0), one("energy.step", 1.0, "J")
    assert time_seen([of(*ranks, one("backward", 0.4), *others)], lambda key: key.metric == "forward") == 0.5


def test_a_long_name_is_one_line() -> None:
    change = UnruledChange("kernel." + 900 * "k", {}, "s", 1.0, 2.0, 1.0, 0.5)
    _, line = answer.unruled(Report(unruled=(change,), unruled_count=1))
    assert "kkk… +100%" in line
    assert len(line) < 220


def test_how_much_of_the_time_the_rules_name() -> None:
    assert time_seen(BASE, lambda key: key.metric == "forward") == pytest.approx(0.738, abs=0.01)
    assert time_seen(BASE, lambda _: True) == 1
    assert time_seen([], lambda _: True) is None


def test_a_check_ends_with_it_in_every_report(
    perfgate: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rules(tmp_path, "forward within 5% of baseline")

    def results(name: str, load: float, seed: int) -> Path:
        forward = {"metric": "forward", "unit": "s", "values": steady(0.2, n=60, spread=0.01, seed=seed)}
        other = {"metric": "load", "unit": "s", "values": steady(load, n=60, spread=0.01, seed=seed + 1)}
        return write_results(tmp_path / name, forward, other)

    base = [results(f"base{seed}.json", 0.02, seed) for seed in range(3)]
    assert perfgate("baseline", "approve", *map(str, base), "--reason", "first", "--all").code == 0
    new = results("new.json", 0.03, 90)
    outputs = {name: tmp_path / f"report.{name}" for name in ("json", "markdown", "html")}
    options = [word for name, path in outputs.items() for word in (f"--{name}", str(path))]
    found = perfgate("check", str(new), *options)
    assert found.code == 0
    assert "Changed, and no rule looks: 1 metric by more than 10%" in found.out
    assert "load +50" in found.out
    report = json.loads(outputs["json"].read_text())
    assert [one["metric"] for one in report["unruled"]] == ["load"]
    assert report["unruled_count"] == 1
    assert all("no rule looks" in path.read_text() for name, path in outputs.items() if name != "json")
    again = perfgate("report", str(outputs["json"]))
    assert (again.code, "load +50" in again.out) == (0, True)
    assert "the rules name 8" in perfgate("rules", str(new)).out
