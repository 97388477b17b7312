"""The gate is broken on purpose, piece by piece: what the suite promises must go red, or it proves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Done, approve_steady, write_rules, write_run

from perfgate.judge.decide import limit
from perfgate.stats.margin import Margin

ROOT = Path(__file__).resolve().parent.parent

Command = Callable[..., Done]


def story(perfgate: Command, folder: Path) -> dict[str, int]:
    """The exit codes of a gate at work, by what was shown to it."""
    write_rules(folder, "forward within 5% of baseline", "backward max under 0.3 s", "backward median under 0.3 s")
    base = write_run(folder / "base.json")
    write_run(folder / "same.json", seed=2)
    write_run(folder / "slower.json", forward=125, seed=3)
    write_run(folder / "beyond.json", backward=400, seed=4)
    (folder / "absent.json").write_text((folder / "same.json").read_text().replace("forward", "forwards"))
    approve_steady(perfgate, base)
    shown = {name: perfgate("check", f"{name}.json").code for name in ("same", "slower", "beyond", "absent")}
    return {**shown, "selftest": perfgate("rules", "same.json").code}


PROMISED = {"same": 0, "slower": 1, "beyond": 1, "absent": 3, "selftest": 0}


def test_the_gate_keeps_what_it_promises(perfgate: Command, folder: Path) -> None:
    assert story(perfgate, folder) == PROMISED


def _constant(value: Any) -> Callable[..., Any]:
    return lambda *_arguments, **_options: value


@pytest.mark.parametrize(
    ("broken", "by", "red"),
    [
        ((Margin, "compare"), "pass", {"slower", "selftest"}),
        ((Margin, "compare"), "fail", {"same", "selftest"}),
        ((Margin, "compare"), "inconclusive", {"same", "slower", "selftest"}),
        ((limit, "_compare"), "pass", {"selftest"}),
        ("perfgate.judge.verdict.verdict_exit_code", 0, {"slower", "beyond", "absent", "selftest"}),
        ("perfgate.judge.report.worst_exit_code", 0, {"slower", "beyond", "absent"}),
        ("perfgate.judge.verdicts.find_subjects", (), {"same", "slower", "beyond", "selftest"}),
    ],
    ids=["change passes", "change fails", "change is open", "limit passes", "no code", "no report code", "no metric"],
)
def test_a_broken_gate_is_seen(
    perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, broken: Any, by: Any, red: set[str]
) -> None:
    if isinstance(broken, str):
        monkeypatch.setattr(broken, _constant(by))
    else:
        monkeypatch.setattr(*broken, _constant(by))
    found = story(perfgate, folder)
    assert {name for name, code in found.items() if code != PROMISED[name]} == red


@pytest.mark.parametrize(("run", "code"), [("change.log", 0), ("slow.log", 1)])
def test_the_command_itself_ends_with_the_answer(run: str, code: int) -> None:
    """In a process of its own, on real runs, as CI sees it."""
    command = [sys.executable, "-m", "perfgate", "check", f"runs/{run}", "--quiet", "--no-github"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=ROOT / "examples" / "tiny-gpt", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize(("answer", "accepted"), [(1, True), (0, False), (2, False), (3, False), (4, False)])
def test_ci_goes_red_when_the_gate_cannot_fail(answer: int, accepted: bool) -> None:
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["gate"]["steps"]
    (script,) = [step["run"] for step in steps if "slow.log" in step.get("run", "")]
    done = subprocess.run(["bash", "-e", "-c", f"perfgate() {{ return {answer}; }}\n{script}"], check=False)
    assert (done.returncode == 0) == accepted
