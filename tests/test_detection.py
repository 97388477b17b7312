"""The benchmark of detection: its rules decide as the tools that they stand for, and its page holds its figures."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

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


def stored() -> Any:
    """The figures behind the pages."""
    return json.loads((FOLDER / "results.json").read_text(encoding="utf-8"))


def test_the_page_has_the_stored_figures(load) -> None:
    page = load(FOLDER, "page")
    assert page.fill(PAGE.read_text(encoding="utf-8"), stored()) == PAGE.read_text(encoding="utf-8")


def test_every_figure_of_perfgate_is_asked_in_one_way(load) -> None:
    """Each part of the figures records the function that was asked: that of `check`, or the rules of other tools."""
    asked = {name: part["through"] for name, part in stored().items()}
    ours = {through for name, through in asked.items() if not name.endswith(" peers")}
    assert ours == {"perfgate.judge.verdicts.judge"} == {load(FOLDER, "gate").THROUGH}
    assert {through for name, through in asked.items() if name.endswith(" peers")} == {"peers"}
    for path in FOLDER.glob("*.py"):  # no other way to the judge, and none to its statistics alone
        text = path.read_text(encoding="utf-8")
        assert path.name == "gate.py" or not re.search(r"judge_|import judge\b|judge\.decide", text), path


def test_every_table_of_the_page_is_filled(load) -> None:
    """Outside of the history of change points, no table and no sentence with a rate is written by hand."""
    page, text = load(FOLDER, "page"), PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- table (\S+) -->", text)) == set(page.tables(stored()))
    assert not re.findall(r"^\|.*", by_hand(text), re.MULTILINE)


@pytest.mark.parametrize("path", ["README.md", "docs/detection.md", "docs/paired-runs.md"])
def test_no_rate_is_written_by_hand(path: str) -> None:
    text = " ".join(by_hand((ROOT / path).read_text(encoding="utf-8")).split())
    assert not re.findall(r"[^.|]*\d %[^.|]* (?:cases|draws|alarms?)\b[^.|]*", text)


def by_hand(page: str) -> str:
    """A page without what is filled from stored figures, and without change points, which no rule judges."""
    filled = r"<!-- (?:table|generated:) .*?<!-- end -->|^## Change points.*?(?=^## )"
    return re.sub(filled, "", page, flags=re.DOTALL | re.MULTILINE)


def test_the_published_rates_are_those_of_the_judge_now(load) -> None:
    """A new sample of cases agrees with the page, within the error of the sample."""
    score, found = load(FOLDER, "score"), stored()["generated"]["found"]
    cases = {slower: Counter[tuple[str, str]]() for slower in ("0", "0.1")}
    models = list(score.models.MODELS)
    for number, source in enumerate(models * 3):
        for slower, said in cases.items():
            terms = {"base": score.BASE_RUNS, "new": score.NEW_RUNS, "slower": float(slower), "steps": score.STEPS}
            said.update(score.perfgate(*score.models.case(source, 99, number, **terms)).items())
    for slower, said in cases.items():
        for detector, rates in found.items():
            cells = rates[slower].values()
            for outcome in ("pass", "fail", "open"):
                published = sum(cell.get(outcome, 0) for cell in cells) / sum(sum(cell.values()) for cell in cells)
                low, high = score.wilson(said[detector, outcome], 3 * len(models), z=4)
                assert low <= published <= high, (detector, slower, outcome)


def test_the_stored_figures_keep_the_promise() -> None:
    """Same code fails in at most 1 % on either group, and +10 % passes in at most 1 %; tests on steps alarm often."""
    ours, others = (stored()[name]["found"] for name in ("generated", "generated peers"))

    def rate(cells: dict[str, dict[str, int]], outcome: str) -> float:
        return sum(cell.get(outcome, 0) for cell in cells.values()) / sum(sum(one.values()) for one in cells.values())

    for detector, rates in ours.items():
        assert rate(rates["0"], "fail") <= 0.01, detector
        assert rate(rates["0.1"], "pass") <= 0.01, detector
    for steps in ("benchstat, steps", "pyperf compare_to", "criterion"):
        assert rate(others[steps]["0"], "fail") > 0.05


@pytest.mark.parametrize("steps", [20, 100])
def test_the_noise_is_the_same_for_every_slowdown(load, steps: int) -> None:
    models = load(FOLDER, "models")
    for name in models.MODELS:
        for slower in (0.05, 0.1):
            unchanged, changed = (models.case(name, 1, 2, base=2, new=1, slower=s, steps=steps) for s in (0.0, slower))
            assert all((a == b).all() for a, b in zip(unchanged[0], changed[0], strict=True))
            tick = models.TICKS.get(name, 1e-9)
            assert abs(changed[1][0] - unchanged[1][0] * (1 + slower)).max() <= 1.1 * tick


def test_intervals_miss_the_truth_as_rarely_as_they_say(load) -> None:
    """Unchanged code, noise that nothing was tuned on: at most twice the nominal 5 % of intervals exclude the truth."""
    score = load(FOLDER, "score")
    found = [score.levels(4, 20, source) for source in ("skewed", "wander", "heating")]
    for cell in ("5 base runs, default prior", "5 base runs, calibrated prior"):
        assert sum(share for shares in found for share in shares[cell].values()) / len(found) <= 0.10


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
