"""The examples do what their pages say: stored runs are checked, and the scripts without a framework run."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Done

from perfgate.workspace.inputs import read_runs

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"

Command = Callable[..., Done]


@pytest.fixture
def example(request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of an example, as the working directory."""
    shutil.copytree(EXAMPLES / request.param, folder / request.param)
    monkeypatch.chdir(folder / request.param)
    return folder / request.param


RECORDED = {
    "recorder": ("runs/change.json", "runs/slow.json", {"forward within 25% of baseline", "forward-share"}),
    "lightning": ("runs/change.json", "runs/slow.json", {"forward p10 within 50% of baseline"}),
    "torch-profiler": ("runs/change", "runs/slow", {"no-more-matrix-products"}),
}

QUANTILES = {"median": 0.5, "p10": 0.1}


@pytest.mark.parametrize(
    ("example", "change", "slow", "caught"),
    [(name, *row) for name, row in RECORDED.items()],
    ids=RECORDED,
    indirect=["example"],
)
def test_the_unchanged_run_passes_and_the_slow_one_fails(
    perfgate: Command, example: Path, change: str, slow: str, caught: set[str]
) -> None:
    assert perfgate("check", change).code == 0
    done = perfgate("check", slow, "--json", "report.json")
    assert done.code in (1, 3)  # one run of a change is no proof: the baselines have three runs
    verdicts = json.loads(Path("report.json").read_text())["verdicts"]
    assert {verdict["rule"] for verdict in verdicts if verdict["outcome"] == "fail" or verdict["suspect"]} == caught


@pytest.mark.parametrize("example", RECORDED, indirect=True)
def test_the_baseline_holds_the_three_main_runs(example: Path) -> None:
    stored = [json.loads(path.read_text()) for path in Path("baselines").rglob("*.json")]
    sources = {source["path"]: source["sha256"] for document in stored for source in document["sources"]}
    assert len(stored) == 3
    assert {Path(path).parts[1].partition(".")[0] for path in sources} == {"main-1", "main-2", "main-3"}
    for path, sha256 in sources.items():
        assert hashlib.sha256(Path(path).read_bytes()).hexdigest() == sha256


@pytest.mark.parametrize("example", ["recorder"], indirect=True)
def test_the_script_records_what_the_kept_runs_hold(example: Path) -> None:
    for slowdown in ("0", "1"):
        command = [sys.executable, "train.py", f"new-{slowdown}.json", "--steps", "5", "--slowdown", slowdown]
        subprocess.run(command, check=True, capture_output=True)
    runs = read_runs(["runs/main-1.json", "new-0.json", "new-1.json"])
    assert len({tuple(series.key for series in run.series) for run in runs}) == 1
    assert all(run.problems == () and run.environment == {"example": "recorder"} for run in runs)
    losses = [next(series.values.tolist() for series in run.series if series.key.metric == "loss") for run in runs]
    assert losses[0][:5] == losses[1] == losses[2]  # the slow run does the same work, and some unused work


@pytest.mark.parametrize("example", ["gpu-traces"], indirect=True)
def test_one_stored_trace_and_one_new_trace_decide(perfgate: Command, example: Path) -> None:
    assert perfgate("check", "runs/main-2").code == 0
    done = perfgate("check", "runs/slow")
    assert done.code == 1
    assert "76 → 88 kernels" in done.said
    assert "train.py(42): attend" in done.said
    assert max(path.stat().st_size for path in Path().rglob("*") if path.is_file()) < 200_000


@pytest.mark.parametrize("example", ["gpu-traces"], indirect=True)
def test_the_counts_on_the_page_are_those_of_the_traces(example: Path) -> None:
    header, *rows = re.findall(r"^\| (.*) \|$", Path("README.md").read_text(encoding="utf-8"), re.MULTILINE)[-4:]
    for row in rows:
        name, *cells = row.split(" | ")
        (run,) = read_runs([f"runs/{name.strip('`')}"])
        found = {series.key.metric: set(series.values.tolist()) for series in run.series}
        assert [found[metric] for metric in header.split(" | ")[1:]] == [{float(cell)} for cell in cells], name


@pytest.mark.parametrize("example", RECORDED, indirect=True)
def test_the_figures_on_the_page_are_those_of_the_runs(example: Path) -> None:
    page = Path("README.md").read_text(encoding="utf-8")
    (header,) = re.findall(r"^\| run \| (.*) \|$", page, re.MULTILINE)
    rows = re.findall(r"^\| `(\S+)` \| ([\d.]+(?: \| [\d.]+)*) \|$", page, re.MULTILINE)
    assert len(rows) == 5
    for name, cells in rows:
        (run,) = read_runs([f"runs/{name}"])
        values = {series.key.metric: series.values for series in run.series}
        for title, cell in zip(header.split(" | "), cells.split(" | "), strict=True):
            metric, _, statistic = title.partition(" ")
            found = 1000 * np.quantile(values[metric], QUANTILES[statistic]) if statistic else values[metric][0]
            assert found == pytest.approx(float(cell), rel=0.02), (name, title)
