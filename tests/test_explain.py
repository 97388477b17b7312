"""`perfgate rules explain` with stored runs: what would fail now, in the metric's own unit."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, steady, write_results, write_rules, write_run

Command = Callable[..., Done]


def approved(perfgate: Command, folder: Path, *sentences: str) -> None:
    write_rules(folder, *sentences)
    rate = {"metric": "samples_per_second", "unit": "samples/s", "values": [1000.0] * 50}
    write_results(folder / "base.json", {"metric": "forward", "unit": "ms", "values": steady(100)}, rate)
    assert perfgate("baseline", "approve", "base.json", "--reason", "first").code == 0


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("forward within 5% of baseline", r"forward median is 100 ms \(1 run\); above 105 ms is beyond"),
        ("forward within ±10% of baseline", r"below 90 ms or above 110 ms is beyond the tolerance"),
        ("forward within 5% and 20 ms of baseline", r"above 120 ms is beyond"),
        ("samples_per_second within 5% of baseline", r"is 1000 /s \(1 run\); below 950 /s is beyond"),
        ("forward within 10% of anchor", r"above 110 ms is beyond"),
        ("forward p90 under 0.2 s", r"forward p90 of the newest run is 0\.10\d+ s \[.*\], the bound is 0\.2 s"),
        ("forwrad under 1 s", r"forwrad: error: no run has forwrad: the nearest names are forward"),
    ],
)
def test_it_says_what_would_fail_now(perfgate: Command, folder: Path, sentence: str, said: str) -> None:
    approved(perfgate, folder, sentence, "forward under 1 s")
    done = perfgate("rules", "explain", sentence)
    assert done.code == 0
    assert "now, compared with default/" in done.out
    assert re.search(said, done.out), done.out


def test_three_runs_beyond_what_it_says_fail(perfgate: Command, folder: Path) -> None:
    approved(perfgate, folder, "forward within 5% of baseline")
    found = re.search(r"it sees \+[\d.]+%: above ([\d.]+) ms", perfgate("rules", "explain").out)
    assert found is not None
    for seed in range(3):
        values = steady(1.01 * float(found[1]), seed=seed)
        write_results(folder / f"new{seed}.json", {"metric": "forward", "unit": "ms", "values": values})
    assert perfgate("check", "new0.json", "new1.json", "new2.json").code == 1


def test_without_stored_runs_it_says_what_the_rule_asks_alone(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    done = perfgate("rules", "explain")
    assert (done.code, "now" in done.out) == (0, False)


def test_a_damaged_baseline_is_said(perfgate: Command, folder: Path) -> None:
    approved(perfgate, folder, "forward within 5% of baseline")
    next(folder.glob("baselines/*/*/*/*.json")).write_text("{")
    done = perfgate("rules", "explain")
    assert (done.code, "5% worse" in done.out, "baselines/" in done.err) == (3, True, True)


def test_the_facts_choose_the_environment(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 5% of baseline")
    for gpu, forward in (("H100", 100), ("H200", 50)):
        write_run(folder / f"{gpu}.json", forward=forward, gpu=gpu)
        perfgate("baseline", "approve", f"{gpu}.json", "--reason", "first")
    assert perfgate("rules", "explain").out.count("now, compared with ") == 2
    assert "is 50" in perfgate("rules", "explain", "--env", "gpu=H200").out


@pytest.mark.parametrize(
    "name", ["forward", "forward median", "forward within 5% of baseline", "forward median within 5% of baseline"]
)
def test_every_name_that_a_report_prints_is_explained(perfgate: Command, folder: Path, name: str) -> None:
    approved(perfgate, folder, "forward within 5% of baseline", "samples_per_second over 1")
    done = perfgate("rules", "explain", name)
    assert (done.code, done.out.count("(rules/")) == (0, 1)


def test_an_unknown_name_is_answered_with_the_nearest(perfgate: Command, folder: Path) -> None:
    approved(perfgate, folder, "forward within 5% of baseline")
    done = perfgate("rules", "explain", "forwrd")
    assert (done.code, "did you mean 'forward'?" in done.err) == (2, True)


def test_the_table_needs_no_arguments(perfgate: Command, folder: Path) -> None:
    approved(perfgate, folder, "forward within 5% of baseline")
    for seed in (1, 2):
        write_results(folder / f"{seed}.json", {"metric": "forward", "unit": "ms", "values": steady(100, seed=seed)})
        assert perfgate("baseline", "add", f"{seed}.json").code == 0
    done = perfgate("rules")
    assert (done.code, done.out.splitlines()[-1]) == (0, "PASS  1 can fail (exit 0)")
    assert re.search(r"forward median within 5% of baseline  \+[\d.]+%  ✓ can fail  1 run", done.out), done.out


def test_the_meaning_of_a_rule_shows_no_mark_of_direction(perfgate: Command, folder: Path) -> None:
    write_rules(folder, '"for\u202eward" under 1 s')
    done = perfgate("rules", "explain")
    assert "for\\u202eward" in done.out
    assert "\u202e" not in done.out
