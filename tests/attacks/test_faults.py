"""A closed pipe, a clock that goes back, two commands at once: nothing is lost, and no answer turns into another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, write_rules, write_run

Command = Callable[..., Done]
ROOT = Path(__file__).resolve().parent.parent.parent
PERFGATE = [sys.executable, "-m", "perfgate"]
#: Waits, in a shell, for a file of the test.
WAIT = "until test -e go; do sleep .05; done"


def started(folder: Path, *words: str, stdout: int = subprocess.PIPE) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [*PERFGATE, *words], cwd=folder, env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    "words",
    [
        ("check", "first0.json"),
        ("baseline", "approve", "new.json", "--reason", "x"),
        ("report", "report.json", "--junit", "j.xml"),
        ("run", "--runs", "1", "--", "cp", "first0.json", "{results}"),
    ],
    ids=lambda words: words[0],
)
def test_an_answer_that_nobody_sees_is_no_pass(
    repository: Repository, perfgate: Command, folder: Path, words: tuple[str, ...]
) -> None:
    write_run(folder / "new.json", seed=8)
    perfgate("check", "first0.json", "--json", "report.json")
    reading, writing = os.pipe()
    os.close(reading)
    process = started(folder, *words, stdout=writing)
    os.close(writing)
    said = process.communicate(timeout=120)[1]
    assert (process.returncode, "Traceback" in said) == (2, False), said
    assert perfgate("baseline", "verify").code == 0


def test_a_clock_that_goes_back_changes_no_order(
    repository: Repository, perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each level names the one before it, so that the newest decision counts whatever its date."""
    write_rules(folder, "forward within 5% of baseline")
    for day, forward in ((9, 120), (5, 140), (2, 160)):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(1767225600 + day * 86400))
        run = write_run(folder / f"day{day}.json", forward, seed=day)
        assert perfgate("baseline", "approve", run, "--reason", f"day {day}").code == 0
        assert perfgate("baseline", "add", write_run(folder / "more.json", forward, seed=90 + day)).code == 0
    assert perfgate("baseline", "verify").code == 0
    report = json.loads(perfgate("check", write_run(folder / "new.json", 160, seed=50), "--json", "-").out)
    (verdict,) = report["verdicts"]
    assert (verdict["outcome"], verdict["base"]["runs"]) == ("pass", 2)
    assert verdict["base"]["estimate"] == pytest.approx(0.16, rel=0.01)


def test_an_allowance_does_not_outlive_a_clock_that_goes_forth_and_back(
    repository: Repository, perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--metric", "forward", "--up-to", "30%", "--reason", "x", "--expires", "2026-01-05", "--head", "a" * 40]
    assert perfgate("baseline", "allow", *words).code == 0
    slow = write_run(folder / "slow.json", 111, seed=9)
    codes = []
    for day in (0, 9, 0):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(1767225600 + day * 86400))
        codes.append(perfgate("check", slow, "--head", "a" * 40).code)
    assert codes == [0, 1, 0]


def test_two_approvals_at_once_are_two_levels_in_a_row(repository: Repository, perfgate: Command, folder: Path) -> None:
    runs = [write_run(folder / f"new{i}.json", seed=30 + i) for i in range(2)]
    processes = [started(folder, "baseline", "approve", str(run), "--reason", run.name) for run in runs]
    assert [process.communicate(timeout=120) and process.returncode for process in processes] == [0, 0]
    assert perfgate("baseline", "verify").code == 0  # which would say of two levels side by side


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (("init", "new.json", "other.json"), [0, 2]),
        (
            ("run", "--runs", "1", "--quiet", "--keep", "kept", "--", "sh", "-c", f"{WAIT}; cp new.json {{results}}"),
            [0, 2],
        ),
        (("check", "new.json", "--json", "report.json", "--junit", "j.xml"), [0, 0]),
    ],
    ids=lambda words: str(words[0]),
)
def test_two_commands_at_once_harm_neither(
    perfgate: Command, folder: Path, words: tuple[str, ...], codes: list[int]
) -> None:
    write_run(folder / "new.json")
    write_run(folder / "other.json", seed=2)
    if words[0] != "init":
        write_rules(folder, "forward under 1 s")
    processes = [started(folder, *words) for _ in range(2)]
    while words[0] == "run" and all(process.poll() is None for process in processes):
        time.sleep(0.05)  # one of them is refused while the command of the other runs
    (folder / "go").touch()
    said = [process.communicate(timeout=120) for process in processes]
    assert not any("Traceback" in text for both in said for text in both)
    assert sorted(process.returncode for process in processes) == codes, said
    if words[0] == "init":
        assert perfgate("check", "new.json").code == 3  # it is in the baseline: nothing was measured
        assert perfgate("baseline", "verify").code == 0
    if words[0] == "check":
        assert json.loads((folder / "report.json").read_text())["exit_code"] == 0
