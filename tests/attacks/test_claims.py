"""The claims of a job about itself decide nothing, and are named if they contradict other facts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, write_run

Command = Callable[..., Done]


def warnings(done: Done) -> list[str]:
    return [problem["message"] for problem in json.loads(done.out)["problems"] if problem["severity"] == "warning"]


def test_a_given_fact_that_hides_another_machine_is_said(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    run = write_run(folder / "run.json", gpu="B200", seed=9)
    assert perfgate("check", run).code == 3  # another machine
    done = perfgate("check", run, "--env", "gpu=H200", "--json", "-")
    (message,) = warnings(done)
    assert message.startswith("--env and the run contradict each other: gpu is H200 and B200")
    same = write_run(folder / "same.json", seed=9)
    assert warnings(perfgate("check", same, "--env", "gpu=H200", "--env", "world_size=1", "--json", "-")) == []


@pytest.mark.parametrize(
    "words",
    [("baseline", "add"), ("baseline", "approve", "--reason", "x"), ("rules",), ("check", "--propose", "proposal")],
    ids=" ".join,
)
def test_whoever_decides_sees_the_contradiction(
    repository: Repository, perfgate: Command, folder: Path, words: tuple[str, ...]
) -> None:
    done = perfgate(*words, write_run(folder / "run.json", gpu="B200", seed=9), "--env", "gpu=H200")
    assert done.code == 0, done.said
    assert "gpu is H200 and B200" in " ".join(done.said.split())


def test_init_and_calibrate_say_it_too(perfgate: Command, folder: Path) -> None:
    runs = [write_run(folder / f"run{seed}.json", gpu="B200", seed=seed) for seed in range(5)]
    done = perfgate("init", *runs, "--env", "gpu=H200")
    assert (done.code, done.out.count("gpu is H200 and B200")) == (0, 1), done.said
    done = perfgate("rules", "--calibrate", *runs, "--env", "gpu=H200")
    assert (done.code, done.out.count("gpu is H200 and B200")) == (0, 1), done.said


def test_no_reading_of_a_throttled_gpu_takes_the_other_back(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    (folder / "rules/rules.yaml").write_text(
        "version: 1\nrules:\n  - {assert: forward within 5% of baseline, on_throttled: error}\n"
    )
    run = write_run(folder / "hot.json", seed=9, throttle_reasons="hw_thermal_slowdown")
    assert perfgate("check", run, "--env", "throttle_reasons=none").code == 3
