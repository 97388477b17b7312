"""The noise between runs that the history shows: how it is estimated, and what `check` makes of it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from conftest import Done, Repository, write_results, write_rules
from histories import record, sha
from msgspec.structs import replace
from scipy import stats

from perfgate.baselines.places import NEWEST_RUNS, newest_history
from perfgate.baselines.stores import open_store
from perfgate.core.remembered_runs import HistoryRun
from perfgate.history.noise import noise_between_runs, robust_variance, without_line
from perfgate.history.store import add, branch_of
from perfgate.stats.moderated import moderated_t, runs_contradict
from perfgate.stats.statistics import RunMeasure

Command = Callable[..., Done]
LINE = "noise between runs: 0.93%, from 40 runs of main"
WRITTEN = ("--markdown", "report.md", "--junit", "report.xml", "--html", "report.html")
NORMAL = stats.zscore(np.random.default_rng(7).standard_normal(200))


# --- the estimate ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log_values", "least", "most"),
    [
        (0.01 * NORMAL, 0.9, 1.1),
        (0.01 * NORMAL[:30], 0.75, 1.3),
        (0.03 * NORMAL, 2.7, 3.3),
        (0.01 * NORMAL + 0.08 * (np.arange(200) >= 120), 0.9, 1.1),  # a lasting change
        (0.01 * NORMAL + 0.003 * np.arange(200), 0.9, 1.2),  # creep of 0.3 % a run: 82 % in all
        (0.01 * NORMAL + 0.4 * (np.arange(200) % 33 == 5), 1.0, 1.5),  # stalls of 50 %
        (0.001 * NORMAL + 0.03 * (np.arange(200) % 2), 1.2, 2.0),  # two modes
    ],
    ids=["noise", "30 runs", "more noise", "step", "creep", "stalls", "two modes"],
)
def test_only_noise_is_noise(log_values: np.ndarray, least: float, most: float) -> None:
    found = noise_between_runs(100 * np.exp(log_values))
    assert found is not None
    assert least <= 100 * found.prior.s0 <= most
    assert found.prior.d0 == 16


@pytest.mark.parametrize(
    ("values", "runs"),
    [
        ([1.0, 1.01] * 5, 10),
        ([1.0, 1.01] * 5 + [math.nan] * 3, 10),
        ([1.0, 1.01] * 4 + [1.0], None),  # nine runs: no change among them could be seen
        ([1.0] * 20, None),
        ([1.0, 1.01] * 5 + [0.0], None),
        ([1.0, 1.01] * 5 + [-1.0], None),
        ([], None),
    ],
)
def test_ten_runs_with_a_relative_noise_are_needed(values: list[float], runs: int | None) -> None:
    found = noise_between_runs(np.array(values))
    assert (found.runs if found else None) == runs


def test_the_noise_within_the_runs_is_not_noise_between_them() -> None:
    values = 100 * np.exp(0.02 * NORMAL)
    found = noise_between_runs(values, 0.015 * values)
    assert found is not None
    assert found.prior.s0 == pytest.approx(math.sqrt(0.02**2 - 0.015**2), rel=0.15)


@pytest.mark.parametrize(
    ("log_values", "least", "most"),
    [
        (0.01 * NORMAL[:100], 0.0, 0.3),
        (0.01 * NORMAL[:100] + 0.05 * (np.arange(100) >= 50), 0.0, 0.6),  # a lasting change
        (0.01 * NORMAL[:100] + 0.003 * np.arange(100), 0.0, 0.5),  # creep
        (0.01 * NORMAL[:100] + 0.4 * (np.arange(100) % 33 == 5), 0.0, 0.6),  # stalls
        (0.01 * NORMAL[:100] + 0.03 * np.sin(np.arange(100) / 12), 1.0, 4.0),
        (0.01 * NORMAL[:60] + 0.03 * np.sin(np.arange(60) / 12), 0.0, 0.0),  # too few blocks
    ],
    ids=["noise", "step", "creep", "stalls", "waves", "few runs"],
)
def test_only_a_level_that_moves_to_and_fro_wanders(log_values: np.ndarray, least: float, most: float) -> None:
    found = noise_between_runs(100 * np.exp(log_values))
    assert found is not None
    assert least <= 100 * found.wander <= most


def test_the_line_is_that_of_scipy() -> None:
    y = 0.3 * np.arange(23) + NORMAL[:23]
    left = y - stats.theilslopes(y).slope * np.arange(23)
    assert without_line(y) == pytest.approx(left - np.median(left))


def test_the_variance_is_that_of_values_clipped_at_the_scale_of_scipy() -> None:
    y = np.where(np.arange(60) % 20 == 3, 30.0, NORMAL[:60])
    y = y - np.median(y)
    scale = max(stats.median_abs_deviation(y, scale="normal"), stats.iqr(y, rng=(10, 90), scale=2.563))
    reach = 3 * scale * math.sqrt(60 / 58)
    assert robust_variance(y, 58) == pytest.approx(np.square(np.clip(y, -reach, reach)).sum() / 58, rel=1e-6)


def test_the_variance_is_unbiased() -> None:
    rng = np.random.default_rng(1)
    blocks = (without_line(rng.standard_normal(20)) for _ in range(1500))
    assert np.mean([robust_variance(block, 18) for block in blocks]) == pytest.approx(1, rel=0.05)


# --- what is read ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ref", "branches", "found"),
    [
        (None, ["main", "main", "fix"], "main"),
        ("main", ["main", "fix", "fix"], "main"),
        ("origin/main", ["main", "fix", "fix"], "main"),
        ("refs/remotes/origin/release/2", ["main", "release/2"], "release/2"),
        ("main~3", ["main", "fix", "fix"], "main"),
        (sha(1), ["main", "main", "fix"], "main"),
        ("HEAD", ["main", "main", "fix"], "main"),
        ("release/2", ["main", "2"], None),
        ("hotfix/main", ["main", "main"], None),
        ("main", [None, None], ""),
        (None, [None, None, "main"], "main"),
        ("main", [], None),
    ],
)
def test_only_runs_of_the_branch_of_the_base_count(
    ref: str | None, branches: list[str | None], found: str | None
) -> None:
    runs = [HistoryRun(str(i), "2026-01-01T00:00:00Z", ref=branch) for i, branch in enumerate(branches)]
    assert branch_of(runs, ref) == found


def test_the_newest_runs_are_single_files_and_three_months_at_most() -> None:
    months = [f"_history/s/e/2026-0{month}-{month:016x}.json" for month in range(1, 6)]
    loose = [f"_history/s/e/2026-06/202606{day:02}T000000Z-none-{day:016x}.json" for day in range(1, 31)]
    assert newest_history([*months, *loose], 10) == loose[-10:]
    assert newest_history([*months, *loose]) == [*loose, *months[2:]]
    assert len(loose) < NEWEST_RUNS


# --- what check makes of it -------------------------------------------------------------------------------------------


def results(folder: Path, name: str, level: float, seed: int = 0) -> Path:
    values = level * (1 + 0.002 * np.random.default_rng(seed).standard_normal(100))
    return write_results(folder / name, {"metric": "forward", "unit": "ms", "values": values.tolist()})


def remember(folder: Path, noise: float = 0.01, runs: int = 40, **about: object) -> None:
    """Remember runs of 100 ms with this noise."""
    store, identity = open_store(str(folder / "baselines")), {"gpu": None, "gpu_count": None, "world_size": None}
    with patch("os.fsync"):
        for i, level in enumerate(np.exp(noise * NORMAL[:runs])):
            one = replace(record(1000 + i, {"forward": 0.1 * float(level)}), suite="default", identity=identity)
            add(store, replace(one, run=replace(one.run, **about)))


@pytest.fixture
def gate(perfgate: Command, folder: Path) -> Command:
    """Three base runs around 100 ms that differ by 1 %, and a new run of 105.5 ms."""
    write_rules(folder, "forward within 2% of baseline")
    runs = [results(folder, f"base{i}.json", level, i) for i, level in enumerate((99.0, 100.0, 101.0))]
    assert perfgate("baseline", "approve", *runs, "--reason", "first").code == 0
    results(folder, "new.json", 105.5, 9)
    return perfgate


def verdict(gate: Command, *words: str) -> dict[str, object]:
    done = gate("check", *words, "--json", "report.json")
    found: dict[str, object] = json.loads(Path("report.json").read_text())["verdicts"][0]
    return {**found, "code": done.code, "said": done.out}


def test_a_history_confirms_a_change_that_one_run_shows(gate: Command, folder: Path) -> None:
    assert verdict(gate, "new.json")["outcome"] == "undecided"
    remember(folder)
    found = verdict(gate, "new.json", *WRITTEN)
    assert (found["code"], found["outcome"]) == (1, "fail")
    assert found["noise"] == {
        "deviation": pytest.approx(0.01, rel=0.3),
        "runs": 40,
        "source": "history",
        "branch": "main",
        "hosts": 0,
        "wander": 0.0,
    }
    assert LINE in str(found["said"])
    assert LINE in gate("report", "report.json").out
    assert LINE in (folder / "report.md").read_text()
    assert LINE in (folder / "report.xml").read_text()
    assert LINE.partition(": ")[2] in (folder / "report.html").read_text()


def test_the_plan_uses_it_too(gate: Command, folder: Path) -> None:
    remember(folder)
    assert LINE in gate("rules").out


def test_under_a_policy_the_history_of_its_commit_counts(gate: Command, folder: Path) -> None:
    remember(folder)
    repository = Repository(folder)
    repository.commit("first")
    shutil.rmtree(folder / "baselines" / "_history")
    remember(folder, noise=0.2)  # a pull request that wants to look noisy
    found = verdict(gate, "new.json", "--policy-ref", "main")
    assert LINE in str(found["said"])
    assert "the working tree differs" not in str(found["said"])


@pytest.mark.parametrize(
    ("about", "runs"),
    [
        ({"ref": "main"}, 40),
        ({"ref": None}, 40),
        ({"commit": sha(77)}, None),  # the commit that is measured now
    ],
)
def test_a_run_that_is_judged_does_not_say_how_noisy_it_is(
    gate: Command, folder: Path, about: dict[str, object], runs: int | None
) -> None:
    remember(folder, **about)
    noise = verdict(gate, "new.json", "--head", sha(77)).get("noise")
    assert (noise["runs"] if isinstance(noise, dict) else None) == runs


def test_a_calibration_comes_before_the_history(gate: Command, folder: Path) -> None:
    remember(folder)
    runs = [results(folder, f"same{i}.json", level, i) for i, level in enumerate((97, 103, 99, 98, 102.5))]
    assert gate("rules", "--calibrate", *runs).code == 0
    noise = verdict(gate, "new.json")["noise"]
    assert isinstance(noise, dict)
    assert (noise["source"], noise["runs"]) == ("calibration", 5)


def test_base_runs_that_disagree_overrule_a_quiet_history(gate: Command, folder: Path) -> None:
    remember(folder, noise=0.001)
    found = verdict(gate, "new.json")
    assert (found["outcome"], "noise" in found) == ("undecided", False)
    assert "these runs differ by more than the 0.23% of the history" in str(found["notes"])


def test_a_damaged_history_is_said_and_is_no_pass(gate: Command, folder: Path) -> None:
    remember(folder)
    path = next(folder.glob("baselines/_history/*/*/*/*.json"))
    path.write_bytes(path.read_bytes()[:-30])
    found = verdict(gate, "new.json")
    assert f"{path.relative_to(folder)}" in str(found["said"]).replace("\n", "")
    assert "the verdicts depend on the history" in " ".join(str(found["said"]).split())
    noise = found["noise"]
    assert isinstance(noise, dict)
    assert noise["runs"] == 39


@pytest.mark.parametrize(("noise", "contradicts"), [(0.005, False), (0.03, True)])
def test_the_runs_widen_what_a_history_says(noise: float, contradicts: bool) -> None:
    runs = [RunMeasure(float(x), 1, None, 0.0, 0, True) for x in np.exp(noise * NORMAL[:5])]
    new = [RunMeasure(1.0, 1, None, 0.0, 0, True)]
    assert runs_contradict((runs, new), (0.005, 16.0)) == contradicts
    quiet, told = (moderated_t(base, new, (0.005, 16.0)) for base in ([new[0]] * 5, runs))
    assert told.standard_error > quiet.standard_error
