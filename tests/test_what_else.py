"""What else changed: the facts that differ between base and new runs, in one line of every report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, steady, write_results, write_rules, write_run

from perfgate.core import Fact
from perfgate.core.runs import same_fact
from perfgate.judge.pairs import split_pairs
from perfgate.measuring.paired_run import read_sides, write_pair
from perfgate.workspace.inputs import read_runs

Command = Callable[..., Done]
LINE = "what else changed: driver 550.54 → 560.28; claimed by the judged files alone: host a → b"


def stored(perfgate: Command, folder: Path, **facts: object) -> None:
    """A baseline of three runs with these facts."""
    write_rules(folder, "forward within 5% of baseline")
    runs = [write_run(folder / f"base{seed}.json", seed=seed, **facts) for seed in range(3)]
    assert perfgate("baseline", "approve", *runs, "--reason", "first").code == 0


@pytest.mark.parametrize(("forward", "code"), [(100, 0), (150, 1)], ids=["green", "red"])
def test_every_report_says_it(perfgate: Command, folder: Path, forward: float, code: int) -> None:
    stored(perfgate, folder, driver="550.54", host="a", torch="2.11.0")
    new = [write_run(folder / f"new{seed}.json", forward, seed=seed, host="b", torch="2.11.0+cu130") for seed in (8, 9)]
    files = {name: folder / f"out.{name}" for name in ("markdown", "junit", "json", "html", "sarif")}
    words = [word for name, path in files.items() for word in (f"--{name}", path)]
    done = perfgate("check", *new, "--env", "driver=560.28", *words)
    assert (done.code, LINE in " ".join(done.out.split())) == (code, True), done.out
    texts = {name: path.read_text().replace("`", "") for name, path in files.items()}
    assert json.loads(texts.pop("json"))["fact_changes"] == [
        {"name": "driver", "base": ["550.54"], "new": ["560.28"], "claimed": False},
        {"name": "host", "base": ["a"], "new": ["b"], "claimed": True},
    ]
    assert (LINE in texts.pop("sarif")) == bool(code)  # SARIF has no passes
    assert [name for name, text in texts.items() if LINE not in text] == []


def test_a_stored_report_keeps_it(perfgate: Command, folder: Path) -> None:
    stored(perfgate, folder, driver="550.54", host="a")
    perfgate("check", write_run(folder / "new.json", seed=9, driver="560.28", host="a"), "--json", folder / "r.json")
    done = perfgate("report", folder / "r.json")
    assert "what else changed: claimed by the judged files alone: driver 550.54 → 560.28" in done.out


@pytest.mark.parametrize(
    ("base", "new", "shown"),
    [
        ({"host": "a"}, {"host": "a"}, ""),
        ({"torch": "2.11.0"}, {"torch": "2.11.0+cu130"}, ""),
        ({"torch": "2.11.0+cu126"}, {"torch": "2.11.0+cu130"}, "torch 2.11.0+cu126 → 2.11.0+cu130"),
        ({"driver": "550"}, {}, ""),  # unknown is not different
        ({}, {"driver": "550"}, ""),
        ({"gpu_temperature_c": 41}, {"gpu_temperature_c": 43}, ""),
        ({"sm_clock_mhz": 1980}, {"sm_clock_mhz": 1410}, "sm_clock_mhz 1980 → 1410"),
        ({"sm_clock_mhz": "1965 + 1980"}, {"sm_clock_mhz": "1980"}, ""),
        ({"throttle_reasons": "none"}, {"throttle_reasons": "sw_power_cap"}, ""),  # a note of each verdict
        ({"image": "train:1"}, {"image": "train:2"}, "image train:1 → train:2"),
    ],
)
def test_facts_that_differ(
    perfgate: Command, folder: Path, base: dict[str, Fact], new: dict[str, Fact], shown: str
) -> None:
    series = {"metric": "x", "unit": "s", "values": steady(1)}
    write_results(folder / "a.json", series, environment=base)
    write_results(folder / "b.json", {**series, "values": steady(1, seed=2)}, environment=new)
    done = perfgate("compare", "a.json", "--new", "b.json")
    assert done.out.count("what else changed") == bool(shown), done.out
    assert shown in done.out


def test_a_host_of_several_base_runs_is_no_change(perfgate: Command, folder: Path) -> None:
    for name, host in (("a", "one"), ("b", "two"), ("c", "two"), ("d", "three")):
        series = {"metric": "x", "unit": "s", "values": steady(1, seed=ord(name))}
        write_results(folder / f"{name}.json", series, environment={"host": host})
    assert "what else" not in perfgate("compare", "a.json", "b.json", "--new", "c.json").out
    assert "host one or two → three" in perfgate("compare", "a.json", "b.json", "--new", "d.json").out


def test_each_side_of_a_pair_has_its_facts(perfgate: Command, folder: Path) -> None:
    for side, torch in (("base", "2.10.0"), ("new", "2.11.0")):
        facts = {"torch": torch, "gpu": "H200", "base.x": 1} if side == "new" else {"torch": torch, "gpu": "H200"}
        write_results(folder / side, {"metric": "x", "unit": "s", "values": steady(1)}, environment=facts)
    for number in (1, 2):
        sides = read_sides({"base": folder / "base", "new": folder / "new"}, None)
        write_pair(folder / f"pair-{number}.json", sides, number, "in-turn")
    pairs = split_pairs(read_runs([str(folder / "pair-1.json")]))
    assert pairs is not None
    assert [run.environment["torch"] for run in (*pairs.base, *pairs.new)] == ["2.10.0", "2.11.0"]
    write_rules(folder, "x within 5% of baseline")
    report = folder / "r.json"
    done = perfgate("check", folder / "pair-1.json", folder / "pair-2.json", "--json", report)
    assert "claimed by the judged files alone: torch 2.10.0 → 2.11.0" in done.out, done.said
    assert json.loads(report.read_text())["environment"] == {"gpu": "H200", "torch": "2.11.0"}


def test_a_program_with_packages_of_its_own_is_no_contradiction(
    perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` knows the packages of its own Python; a program in another one says which it has."""
    facts: dict[str, Fact] = {"torch": "2.11.0"}
    monkeypatch.setattr("perfgate.measuring.until_settled.machine_facts", lambda: (facts, []))
    write_rules(folder, "x under 5 s")
    run = write_results(
        folder / "x.json", {"metric": "x", "unit": "s", "values": steady(1)}, environment={"torch": "2.9.1"}
    )
    for words, torch in ((("cat", run), "2.9.1"), (("sed", "s/2.9.1/2.11.0+cu130/", run), "2.11.0")):
        done = perfgate("run", "--runs", "1", "--json", "r.json", "--", *words)
        assert (done.code, "contradict" in done.said) == (0, False), done.said
        assert json.loads((folder / "r.json").read_text())["environment"]["torch"] == torch


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2.11.0", "2.11.0+cu130", True),
        ("2.11.0+cu126", "2.11.0+cu130", False),
        ("2.11.0+cu130", "2.11.0+cu130", True),
        ("13.0.96", "13.0", True),
        ("2.11", "2.1", False),
        ("2.11.0", "2.11.1", False),
        (8, 8.0, True),
        (8, 8.5, False),
        (1.5, 1.55, False),
        ("a+b", "a", False),
    ],
)
def test_a_version_with_more_detail_is_the_same(one: Fact, other: Fact, same: bool) -> None:
    assert (same_fact(one, other), same_fact(other, one)) == (same, same)
