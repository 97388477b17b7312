"""`perfgate run --attribute`: programs whose time is computed from the code and from a variable of the environment."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, Repository, write_rules
from programs import hooked

from perfgate.measuring.attributed_run import in_environment
from perfgate.measuring.kept_runs import ProgramSide
from perfgate.measuring.lockstep import side_of_turn

Command = Callable[..., Done]

#: Its time is that of the code, CODE, times that of the library, with .2 % of noise from a table.
PROGRAM = """
import json, os, sys
CODE = 1.0
library, run = os.environ["LIBRARY"], int(os.environ["PERFGATE_RUN"])
if os.environ.get("BREAKS") == f"{library} {CODE}":
    sys.exit("ImportError: no attention in the library")
speed = {"old": 1.0, "new": 1.0, "slow": 1.08}[library]
noise = (1, -1, 1, -1, 1)[run % 5] if CODE == 1.0 else (1, 1, -1, -1, 1)[(run + len(library)) % 5]
series = [{"metric": "step.time", "unit": "s", "value": CODE * speed * (1 + 0.002 * noise + 1e-6 * run)}]
document = {"schema": "perfgate.results/1", "environment": {"library": library}, "series": series}
with open(os.environ["PERFGATE_RESULTS"] + "/r.json", "w") as file:
    json.dump(document, file)
"""
OLD, NEW, SLOW = ("env LIBRARY=old", "env LIBRARY=new", "env LIBRARY=slow")
ATTRIBUTE = ("run", "--attribute", "--json", "r.json", "--base-in", OLD)


@pytest.fixture
def code(folder: Path) -> Callable[[float], list[str]]:
    """A repository with the old code as HEAD, and a function that writes the new one and returns its command."""
    (folder / "train.py").write_text(PROGRAM)
    write_rules(folder, "step.time within 5% of baseline")
    repository = Repository(folder)
    repository.git("add", "-A")
    repository.git("commit", "-qm", "old")

    def change(factor: float) -> list[str]:
        (folder / "train.py").write_text(PROGRAM.replace("CODE = 1.0", f"CODE = {factor}"))
        return ["--base-ref", "HEAD", "--", sys.executable, "train.py"]

    return change


def report() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("r.json").read_text())
    return found


@pytest.mark.parametrize(
    ("factor", "new_in", "changed", "exit_code"),
    [
        (1.08, NEW, "code", 1),
        (1.001, SLOW, "environment", 1),
        (1.06, SLOW, "both", 1),
        (1.001, NEW, "neither", 0),
        (0.92, SLOW, "both", 0),  # they cancel: the gate passes
    ],
)
def test_what_changed(
    perfgate: Command, code: Callable[[float], list[str]], factor: float, new_in: str, changed: str, exit_code: int
) -> None:
    done = perfgate(*ATTRIBUTE, "--new-in", new_in, *code(factor))
    found = report()
    (verdict,) = found["verdicts"]
    assert (done.code, verdict["attribution"]["changed"]) == (exit_code, changed), done.said
    assert verdict["attribution"]["code"]["estimate"] == pytest.approx(factor - 1, abs=0.005)
    assert verdict["attribution"]["environment"]["estimate"] == pytest.approx(0.08 * (new_in == SLOW), abs=0.005)
    words = {"both": "changed by both", "neither": "changed by neither"}.get(changed, f"changed by the {changed}")
    assert words in done.out
    libraries = found["fact_changes"]
    assert [(one["base"], one["new"]) for one in libraries] == [(["old"], [new_in.rpartition("=")[2]])]


def test_every_report_says_it_and_a_stored_one_keeps_it(perfgate: Command, code: Callable[[float], list[str]]) -> None:
    names = ("markdown", "junit", "html", "sarif")
    files = [word for name in names for word in (f"--{name}", f"out.{name}")]
    perfgate(*ATTRIBUTE, "--new-in", NEW, *files, *code(1.08))
    for name in names:
        text = Path(f"out.{name}").read_text().replace("`", "")
        assert "changed by the code: code +8" in text, name
    assert "changed by the code" in perfgate("report", "r.json").out


def test_the_remembered_environment_holds_for_all_combinations(
    perfgate: Command, code: Callable[[float], list[str]], folder: Path
) -> None:
    words = " ".join(code(1.08)[-2:])
    (folder / "rules" / "perfgate.yaml").write_text(f"run:\n  command: {words}\n  env: {{BREAKS: new 1.0}}\n")
    done = perfgate(*ATTRIBUTE, "--new-in", NEW, "--runs", "2", "--base-ref", "HEAD")
    assert "the old code does not run in the new environment" in " ".join(done.said.split()), done.said


@pytest.mark.parametrize(
    ("breaks", "missing", "words"),
    [
        (
            "new 1.0",
            "new-environment",
            "the old code does not run in the new environment (ended with exit code 1: Import",
        ),
        ("old 1.08", "new-code", "the new code does not run in the old environment (ended with exit code 1: Import"),
    ],
)
def test_a_combination_that_does_not_run_is_left_out(
    perfgate: Command,
    code: Callable[[float], list[str]],
    monkeypatch: pytest.MonkeyPatch,
    breaks: str,
    missing: str,
    words: str,
) -> None:
    monkeypatch.setenv("BREAKS", breaks)
    done = perfgate(*ATTRIBUTE, "--new-in", NEW, *code(1.08))
    (verdict,) = report()["verdicts"]
    assert (done.code, verdict["attribution"]["changed"], verdict["attribution"]["missing"]) == (1, "code", missing)
    assert words in " ".join(done.out.split())
    assert list(Path("perfgate-runs").glob(f"failed-001*/{missing}.FAILED.txt"))
    assert perfgate(*ATTRIBUTE, "--new-in", NEW, *code(1.08)).code == 1  # its own files can be moved aside


@pytest.mark.parametrize("breaks", ["old 1.0", "new 1.08"])
def test_without_old_or_new_there_is_no_change(
    perfgate: Command, code: Callable[[float], list[str]], monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    monkeypatch.setenv("BREAKS", breaks)
    done = perfgate(*ATTRIBUTE, "--new-in", NEW, *code(1.08))
    assert (done.code, "no attention in the library" in " ".join(done.out.split())) == (3, True), done.said


def test_a_rule_that_compares_nothing_has_nothing_to_attribute(
    perfgate: Command, folder: Path, code: Callable[[float], list[str]]
) -> None:
    write_rules(folder, "step.time under 5 s")
    done = perfgate(*ATTRIBUTE, "--new-in", NEW, *code(1.08))
    assert (done.code, "nothing to attribute: no rule compares" in " ".join(done.out.split())) == (0, True), done.said


def test_steps_of_all_four_take_turns(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step.time within 900% of baseline")
    words = hooked(folder)
    options = ("--runs", "2", "--base", shlex.join(words))
    done = perfgate(*ATTRIBUTE, "--new-in", NEW, *options, "--", *words)
    assert "in-turn" in (folder / "perfgate-runs/new-code-001.json").read_text(), done.said
    sides = (folder / "turns.txt").read_text().split()  # of the first letter: base, new, new-code, new-environment
    assert len(sides) == 2 * 4 * 30
    steps = [int(one[1:]) for one in sides[: 4 * 30]]
    assert all(abs(one - other) <= 1 for one, other in pairwise(steps))
    (verdict,) = report()["verdicts"]
    assert verdict["attribution"]["repetitions"] == 2


def test_files_of_a_glob_are_of_whole_runs(perfgate: Command, folder: Path, code: Callable[[float], list[str]]) -> None:
    command = code(1.08)
    (folder / "train.py").write_text(
        (folder / "train.py").read_text().replace('os.environ["PERFGATE_RESULTS"] + "/', '"')
    )
    Repository(folder).git("commit", "-qam", "results here")
    done = perfgate(*ATTRIBUTE, "--runs", "2", "--results", "r.json", "--new-in", SLOW, *command)
    assert "whole runs alternate" in done.err, done.said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--attribute", "--base-ref", "HEAD"), "--attribute needs the command of an environment"),
        (("--attribute", "--base-in", OLD, "--new-in", OLD, "--base-ref", "HEAD"), "are the same"),
        (("--attribute", "--base-in", OLD, "--base-ref", "HEAD", "--build", "make"), "excludes --build"),
        (("--attribute", "--base-in", OLD, "--base-ref", "HEAD", "--reruns", "1"), "--reruns needs --results"),
        (("--base-in", OLD), "--base-in and --new-in need --attribute"),
        (("--paired", "--base-ref", "HEAD", "--new-in", OLD), "--base-in and --new-in need --attribute"),
    ],
)
def test_options_that_contradict_each_other(perfgate: Command, folder: Path, words: tuple[str, ...], said: str) -> None:
    done = perfgate("run", *words, "--", "true")
    assert (done.code, said in done.err) == (2, True), done.said


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        ("", ["python", "a b.py"]),
        ("env X=1", ["env", "X=1", "python", "a b.py"]),
        (
            "docker run -w {folder} old {command} --fast",
            ["docker", "run", "-w", "/x", "old", "python", "a b.py", "--fast"],
        ),
        ("sh -c 'X=1 exec {command}'", ["sh", "-c", "X=1 exec python 'a b.py'"]),
    ],
)
def test_a_command_in_an_environment(prefix: str, words: list[str]) -> None:
    side = ProgramSide(("python", "a b.py"), Path("/x"))
    assert [*in_environment(shlex.split(prefix), side).words] == words


def test_the_order_of_the_turns_of_four() -> None:
    sides = ("a", "b", "c", "d")
    assert "".join(side_of_turn(turn, True, sides) for turn in range(16)) == "dcbaabcddcbaabcd"
    assert "".join(side_of_turn(turn, False, sides) for turn in range(8)) == "abcddcba"
    assert [side_of_turn(turn, True) for turn in range(4)] == ["new", "base", "base", "new"]
