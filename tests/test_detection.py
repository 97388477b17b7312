"""The benchmark of detection: its rules decide as the tools that they stand for, and its page holds its figures."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Import a module of the benchmark, or of the scoring kit, by its folder and name, and forget it afterwards."""
    loaded: list[str] = []

    def module(folder: Path, name: str) -> ModuleType:
        monkeypatch.syspath_prepend(folder)
        sys.modules.pop(name, None)
        loaded.append(name)
        return __import__(name)

    yield module
    for name in loaded:
        sys.modules.pop(name, None)


@pytest.mark.shared
def test_the_rules_of_other_tools_agree_with_the_scoring_kit(load, shared: Path) -> None:
    peers, models = (load(ROOT / "benchmarks" / "detection", name) for name in ("peers", "models"))
    kit = load(shared / "score", "detectors").DETECTORS
    same = {
        "benchstat, steps": "benchstat_steps",
        "benchstat, one number a run": "benchstat_runs",
        "pyperf compare_to": "pyperf",
        "pytest-benchmark mean:5%": "pytest_benchmark",
        "github-action-benchmark 200%": "github_action_benchmark",
        "Bencher t .99": "bencher",
        "Conbench z 5": "conbench",
        "5% on medians": "median_rule",
    }
    for name, other in same.items():
        alarms = 0
        for i in range(40):
            model = list(models.MODELS)[i % len(models.MODELS)]
            base, new = models.case(model, 3, i, base=5, new=1, slower=0.03 * (i % 4))
            alarms += (mine := peers.PEERS[name](base, new))
            assert mine == (kit[other](base, new, "median", 0.05) == "fail"), (name, model, i)
        assert alarms or name in ("benchstat, one number a run", "github-action-benchmark 200%")


FOLDER = ROOT / "benchmarks" / "detection"
PAGE = ROOT / "docs" / "detection.md"


def test_the_page_holds_the_stored_figures(load) -> None:
    page = load(FOLDER, "page")
    results = json.loads((FOLDER / "results.json").read_text())
    assert page.fill(PAGE.read_text(encoding="utf-8"), results) == PAGE.read_text(encoding="utf-8")


def test_the_stored_figures_keep_the_promise() -> None:
    """Same code fails in at most 1 % on either group, and no rule that finds as many changes alarms less often."""
    generated = json.loads((FOLDER / "results.json").read_text())["generated"]

    def rate(detector: str, slower: str) -> float:
        cells = list(generated[detector][slower].values())
        return sum(cell.get("fail", 0) for cell in cells) / sum(sum(cell.values()) for cell in cells)

    for ours in ("perfgate 5%", "perfgate 5%, re-run if not passed", "perfgate 5%, three new runs"):
        assert rate(ours, "0") <= 0.01
    for steps in ("benchstat, steps", "pyperf compare_to", "criterion"):
        assert rate(steps, "0") > 5 * rate("perfgate 2%", "0")


@pytest.mark.parametrize("steps", [20, 100])
def test_the_noise_is_the_same_for_every_slowdown(load, steps: int) -> None:
    models = load(FOLDER, "models")
    for name in models.MODELS:
        for slower in (0.05, 0.1):
            unchanged, changed = (models.case(name, 1, 2, base=2, new=1, slower=s, steps=steps) for s in (0.0, slower))
            assert all((a == b).all() for a, b in zip(unchanged[0], changed[0], strict=True))
            tick = models.TICKS.get(name, 1e-9)
            assert abs(changed[1][0] - unchanged[1][0] * (1 + slower)).max() <= 1.1 * tick


def test_unseen_noise_keeps_the_level_within_twice_nominal(load) -> None:
    """Same code at tolerance 0, five base runs: at most 10 % fail on each kind of noise that nothing was tuned on."""
    models, score = load(FOLDER, "models"), load(FOLDER, "score")
    found = score.levels(4, 40, ["skewed", "wander", "heating"])
    for shares in (found["5 base runs, default prior"], found["5 base runs, calibrated prior"]):
        assert sum(shares.values()) / len(shares) <= 0.10
        assert set(shares) <= set(models.HELD_OUT)


def test_a_change_point_needs_a_clear_step(load) -> None:
    """Otava's rule on single numbers, as apache-otava answers: a flat history, a step, and a spike that is none."""
    import numpy as np

    otava = load(FOLDER, "peers").otava

    def runs(*means: float) -> list[object]:
        return [np.array([mean]) for mean in means]

    flat = (100.0, 100.4, 99.7, 100.1, 99.9)
    assert not otava(runs(*flat), runs(100.2))
    assert otava(runs(*flat), runs(110.0))
    assert not otava(runs(*flat), runs(90.0))
    assert not otava(runs(100.0, 120.0, 99.7, 100.1, 119.0), runs(118.0))
