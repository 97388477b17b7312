"""Recorded work of real torch programs, on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import write_rules
from frameworks import FRAMEWORKS
from recorded import recorded

pytest.importorskip("torch", reason="needs torch")
pytestmark = [pytest.mark.frameworks, pytest.mark.usefixtures("folder")]

PROGRAM = """
import sys
import torch
from perfgate import Recorder, work_of

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
optimizer = torch.optim.Adam(model.parameters())
batch = torch.randn(32, 64)

def step():
    loss = model(batch).square().mean()
    if "more" in sys.argv:
        batch.clone().exp().sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

with Recorder(sys.argv[1], work="function" not in sys.argv) as rec:
    if "function" in sys.argv:
        rec.add_work(work_of(step))
    for number in range(20):
        if "profile" in sys.argv and number == 7:
            own = torch.profiler.profile()
            own.start()
        with rec.step_span():
            step()
    if "profile" in sys.argv:
        own.stop()
        own.export_chrome_trace("own.json")
"""


def train(path: str, *how: str) -> str:
    """Run the program, and return what it warned of."""
    command = [sys.executable, "-c", PROGRAM, path, *how]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr


def counts(path: str) -> dict[str, list[float]]:
    run = recorded(path)
    return {one.key.metric: one.values.tolist() for one in run.series if one.key.metric.startswith("work.")}


def test_the_work_of_a_program_is_the_same_in_each_process() -> None:
    assert "RecorderWarning" not in train("one.json")
    train("two.json")
    train("function.json", "function")
    found = counts("one.json")
    assert set(found) == {"work.ops", "work.allocations", "work.flops"}
    assert all(len(set(values)) == 1 for values in found.values())
    assert found == counts("two.json") == counts("function.json")


def test_more_work_is_red_at_the_first_run(folder: Path, perfgate) -> None:  # type: ignore[no-untyped-def]
    write_rules(folder, "no more work than baseline")
    for number in range(3):
        train(f"base-{number}.json")
    train("more.json", "more")
    perfgate("baseline", "approve", *(f"base-{number}.json" for number in range(3)), "--reason", "new")
    done = perfgate("check", "more.json")
    assert (done.code, "aten::sum" in done.said, "more operators" in done.said) == (1, True, True)


@pytest.mark.parametrize("name", FRAMEWORKS)
@pytest.mark.filterwarnings("ignore")  # the framework's own
def test_a_training_has_its_work(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("frameworks.STEPS", 14)
    framework = FRAMEWORKS[name](monkeypatch)
    framework.train(framework.callback("run.json", work=True))
    run = recorded("run.json")
    found = {one.key.metric: [] if one.steps is None else one.steps.tolist() for one in run.series}
    assert run.problems == ()
    assert len(counts("run.json")["work.ops"]) == 3
    assert found["step.time"] == [number for number in range(14) if not found["work.ops"][0] - 1 <= number <= 8]
    assert set(found["samples_per_second"]) <= set(found["step.time"])
    assert len(run.call_trees) == 1


def test_a_profile_of_the_program_is_not_disturbed() -> None:
    assert "the program has begun to profile meanwhile" in train("run.json", "profile")
    assert recorded("own.json").format == "torch-trace"
    assert counts("run.json") == {}
