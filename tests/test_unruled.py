"""Metrics that changed without a rule are listed at the end of a check, without effect on the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Done, steady, write_results, write_rules
from msgspec.structs import replace

from perfgate.analysis.unruled import time_seen, unruled_changes
from perfgate.core import Key, Report, Run, Series, UnruledChange, read_only
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
