"""`perfgate bisect --metric` of metrics that perfgate computes: with what they need, and without it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, write_rules

Command = Callable[..., Done]
MODEL = "model: {parameters: 7e9, tokens_per_step: 1e6, peak: 989 TFLOP/s, gpus: 8}\n"
METRICS = "metrics:\n  doubled: step_time + step_time\n"
PROGRAM = """
import json, os
value = {seconds} * (1 + int(os.environ["PERFGATE_RUN"]) % 3 / 1000)
with open(os.environ["PERFGATE_RESULTS"] + "/r.json", "w") as file:
    series = [{{"metric": "step_time", "unit": "s", "value": value}}]
    json.dump({{"schema": "perfgate.results/1", "series": series}}, file)
"""


def bisect(perfgate: Command, folder: Path, metric: str, *words: str) -> Done:
    repository = Repository(folder)
    for seconds in (10.0, 12.5):
        (folder / "bench.py").write_text(PROGRAM.format(seconds=seconds))
        repository.git("add", "bench.py")
        repository.git("commit", "-q", "-m", f"{seconds} s")
    start = ("bisect", "--good", "HEAD~1", "--metric", metric, "--whole-runs", "--json", "o.json", *words)
    return perfgate(*start, "--", sys.executable, "bench.py")


@pytest.mark.parametrize(("metric", "change"), [("mfu", -0.2), ("doubled", 0.25)])
def test_a_computed_metric_is_searched(perfgate: Command, folder: Path, metric: str, change: float) -> None:
    write_rules(folder, "step_time under 1 min", head=MODEL + METRICS)
    done = bisect(perfgate, folder, metric)
    assert done.code == 0, done.said
    assert done.err.startswith("run 1 of at most 50: ")
    assert "run 2 of at most 50: " in done.err
    found = json.loads((folder / "o.json").read_text())
    assert found["metric"] == metric
    assert found["change"] == pytest.approx(change, abs=0.02)


@pytest.mark.parametrize(
    ("metric", "head", "message"),
    [
        (
            "mfu",
            "",
            "wrote no metric mfu: it has step_time, command.cpu_time, command.time; give the rule file a `model`",
        ),
        ("goodput", "", "wrote no metric goodput: it has step_time, command.cpu_time, command.time; give a log"),
        ("mfu", MODEL.replace("gpus: 8", "dtype: bf16"), "the number of GPUs is unknown; write `gpus: 8` in `model`"),
    ],
)
def test_what_it_lacks_is_said(perfgate: Command, folder: Path, metric: str, head: str, message: str) -> None:
    write_rules(folder, "step_time under 1 min", head=head)
    done = bisect(perfgate, folder, metric)
    assert (done.code, message in " ".join(done.out.split())) == (3, True), done.said


def test_a_mistake_in_the_rules_matters_only_to_metrics_that_need_them(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step_time undre 1 min", head=MODEL)
    assert bisect(perfgate, folder, "step_time", "--max-runs", "2").code == 0
    done = bisect(perfgate, folder, "mfu")
    assert (done.code, "rules/rules.yaml:4" in done.err) == (2, True), done.said
