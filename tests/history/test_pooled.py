"""Doubt is pooled: what remembered runs of main make of a doubtful change, on main and on another branch."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from conftest import Done, Repository, write_results, write_rules
from histories import record, sha, steps
from msgspec.structs import replace
from scipy import stats

from perfgate.baselines.stores import open_store
from perfgate.core.remembered_runs import HistoryRun, SeriesName
from perfgate.history.noise import runs_since
from perfgate.history.store import add, read

Command = Callable[..., Done]
NORMAL = stats.zscore(np.random.default_rng(3).standard_normal(40))
IDENTITY = {"gpu": None, "gpu_count": None, "world_size": None}


def results(folder: Path, name: str, level: float, seed: int = 0) -> Path:
    values = level * (1 + 0.002 * np.random.default_rng(seed).standard_normal(100))
    return write_results(folder / name, {"metric": "forward", "unit": "ms", "values": values.tolist()})


@pytest.fixture
def team(perfgate: Command, folder: Path) -> Repository:
    """A baseline of ten runs that differ by 2 %, twenty older runs, and one new run that is 4 % slower, on main."""
    write_rules(folder, "forward within 2% of baseline")
    base = [results(folder, f"base{i}.json", 100 * (1 + 0.02 * NORMAL[i]), i) for i in range(10)]
    assert perfgate("baseline", "approve", *base, "--reason", "first").code == 0
    remember(folder, range(20), 1.0, "2025-12-{:02}T00:00:00Z")
    results(folder, "new.json", 104.0, 9)
    found = Repository(folder)
    found.commit("first")
    return found


def remember(folder: Path, numbers: range, level: float, times: str, ref: str = "main") -> None:
    store = open_store(str(folder / "baselines"))
    with patch("os.fsync"):
        for i in numbers:
            one = replace(record(i, {"forward": 0.1 * level * float(np.exp(0.02 * NORMAL[i]))}), suite="default")
            time = times.format(1 + i % 28)
            add(store, replace(one, identity=IDENTITY, run=replace(one.run, time=time, ref=ref)))


def verdict(perfgate: Command, *words: str) -> dict[str, object]:
    done = perfgate("check", "new.json", "--json", "report.json", *words)
    found: dict[str, object] = json.loads(Path("report.json").read_text())["verdicts"][0]
    return {**found, "code": done.code, "said": " ".join(done.out.split())}


def test_doubts_of_main_add_up_to_a_failure(perfgate: Command, folder: Path, team: Repository) -> None:
    assert verdict(perfgate)["code"] == 3
    remember(folder, range(20, 28), 1.04, "2026-02-{:02}T00:00:00Z")
    found = verdict(perfgate)
    assert (found["code"], found["outcome"], found["reason"]) == (1, "fail", "pooled")
    assert "with 8 earlier runs of main: forward median went from" in str(found["said"])
    assert f"pooled with 8 runs of main since the baseline: {sha(20)[:10]}, {sha(21)[:10]}" in str(found["said"])
    assert found["pooled"]["decides"]  # type: ignore[index]
    assert perfgate("report", "report.json").code == 1


@pytest.mark.parametrize(
    ("level", "ref", "time"),
    [
        (1.0, "main", "2026-02-{:02}T00:00:00Z"),  # main is as it was
        (1.04, "fix", "2026-02-{:02}T00:00:00Z"),  # not runs of main
        (1.04, "main", "2025-02-{:02}T00:00:00Z"),  # before the baseline
    ],
)
def test_other_runs_confirm_nothing(
    perfgate: Command, folder: Path, team: Repository, level: float, ref: str, time: str
) -> None:
    remember(folder, range(20, 28), level, time, ref)
    found = verdict(perfgate)
    assert (found["code"], "pooled" in found) == (3, False)


def test_pooled_runs_never_dispel_a_doubt(perfgate: Command, folder: Path, team: Repository) -> None:
    results(folder, "new.json", 106.0, 9)
    remember(folder, range(20, 29), 1.0, "2026-02-{:02}T00:00:00Z")
    assert verdict(perfgate)["outcome"] == "undecided"


@pytest.mark.parametrize("words", [(), ("--policy-ref", "main")])
def test_on_another_branch_main_only_informs(
    perfgate: Command, folder: Path, team: Repository, words: tuple[str, ...]
) -> None:
    remember(folder, range(20, 28), 1.04, "2026-02-{:02}T00:00:00Z")
    team.commit("history")
    team.git("checkout", "-q", "-b", "feature")
    team.git("commit", "-q", "--allow-empty", "-m", "change")
    found = verdict(perfgate, *words)
    assert (found["code"], found["outcome"]) == (3, "undecided")
    assert "main itself is +5.1% [+2.2%, +8.0%]" in str(found["said"])
    assert "since the baseline (8 runs): this is not from this change" in str(found["said"])


def test_a_lasting_change_begins_a_new_pool(folder: Path) -> None:
    store = open_store(str(folder / "baselines"))
    with patch("os.fsync"):
        for i, number in enumerate(steps((20, 0.1), (15, 0.11))):
            add(store, record(i, {"forward": number}))
    history = read(store, "gpt", "gpt", None)
    (environment,) = {path.split("/")[2] for path in store.paths()[0]}
    history = read(store, "gpt", environment)
    names = [SeriesName(history.series[0].name.key, "median")]
    asked: list[str] = []

    def never(run: HistoryRun) -> bool:
        return False

    def measured(branch: str) -> bool:
        asked.append(branch)
        return True

    (found,) = runs_since(history, names, "main", history.runs[4].time, never, measured)
    assert (len(found.values), asked, found.is_measured) == (15, ["main"], True)
    assert found.labels[0] == sha(20)[:10]
    assert runs_since(history, names, "main", history.runs[-1].time, never, measured) == ()
    assert runs_since(history, names, "release", history.runs[4].time, never, measured) == ()
