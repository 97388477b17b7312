"""Pairs in a job: the action measures a pull request against its base, with real processes that take real steps."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Repository, write_rules
from emulator import ROOT, Result, clean_environment, installed_by, make_python, run_action

Action = Callable[..., Result]

#: Steps of a few milliseconds, which are recorded, and taken by turns where somebody asks for that.
TRAIN = """
import os, time
from perfgate import Recorder
with Recorder(os.path.join(os.environ["PERFGATE_RESULTS"], "results.json")) as recorder:
    for _ in range(30):
        with recorder.step_span():
            time.sleep({seconds})
"""
QUICK, SLOW = TRAIN.format(seconds=0.002), TRAIN.format(seconds=0.006)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_python(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def clone(folder: Path) -> Repository:
    """A clone of a base whose rule is held against the base of pairs; HEAD is a pull request that changes nothing."""
    found = Repository(folder)
    write_rules(folder, "step.time within 50% of baseline")
    commit(found, QUICK, "base")
    found.git("update-ref", "refs/remotes/origin/main", "HEAD")
    commit(found, QUICK + "# as before", "unchanged")
    return found


def commit(repository: Repository, program: str, message: str) -> str:
    (repository.folder / "train.py").write_text(program)
    repository.git("add", "train.py", "rules")
    repository.git("commit", "-q", "-m", message)
    return repository.git("rev-parse", "HEAD")


def event(repository: Repository, of: str = "o/r", base: str = "main") -> dict[str, Any]:
    """Return the event of a pull request to o/r; `of` is the repository that it comes from."""
    head = {"sha": repository.git("rev-parse", "HEAD"), "repo": {"full_name": of}}
    return {
        "base_ref": base,
        "repository": "o/r",
        "sha": head["sha"],
        "event": {"pull_request": {"head": head}, "repository": {"default_branch": "main"}},
    }


@pytest.fixture
def action(folder: Path, installed: str) -> Action:
    """The action as pairs, where the test says nothing else."""

    def run(github: dict[str, Any], **inputs: str) -> Result:
        given = {"paired": "true", "run": f"{installed} train.py", "pairs": "4", "timeout": "30s", **inputs}
        given = {name.replace("_", "-"): value for name, value in given.items()}
        environment = clean_environment(folder / ".runner", SOURCE_DATE_EPOCH="1767225600")
        return run_action(ROOT, given, folder, environment, github, installed_by(installed))

    return run


def test_an_unchanged_step_passes_against_the_base(action: Action, clone: Repository) -> None:
    result = action(event(clone), json="perfgate.json")
    assert (result.conclusion, result.outputs["outcome"]) == ("success", "pass"), result.log
    assert "steps by turns in two processes" in result.steps["gate"].summary
    [verdict] = json.loads(Path(result.outputs["json-path"]).read_text())["verdicts"]
    assert verdict["base"]["runs"] == verdict["new"]["runs"] >= 1
    assert Path("perfgate-runs/pairs/pair-001.json").is_file()
    assert clone.git("worktree", "list").count("\n") == 0


def test_a_slowed_step_fails_and_marks_the_rule(action: Action, clone: Repository) -> None:
    commit(clone, SLOW, "slow")
    result = action(event(clone))
    assert (result.conclusion, result.outputs["exit-code"], result.outputs["failed"]) == ("failure", "1", "1"), (
        result.log
    )
    [(level, text, place)] = result.steps["gate"].annotations
    assert (level, place["file"], place["line"]) == ("error", "rules/rules.yaml", "3")
    assert "in the paired base" in text


def test_what_the_base_has_got_since_is_not_held_against_a_pull_request(action: Action, clone: Repository) -> None:
    """The base has become quicker after the pull request was begun, whose own steps are what they were."""
    head = clone.git("rev-parse", "HEAD")
    clone.git("checkout", "-q", "origin/main")
    clone.git("update-ref", "refs/remotes/origin/main", commit(clone, TRAIN.format(seconds=0), "quicker"))
    clone.git("checkout", "-q", head)
    assert action(event(clone)).outputs["outcome"] == "pass"


def test_a_base_that_does_not_build_is_red(action: Action, clone: Repository) -> None:
    """As it is where the pull request brings what builds it."""
    result = action(event(clone), build="grep -q before train.py || { echo no compiler >&2; exit 7; }")
    assert (result.conclusion, result.outputs["outcome"], result.outputs["exit-code"]) == ("failure", "error", "3")
    assert "the base side does not build: the command ended with exit code 7: no compiler" in " ".join(
        result.log.split()
    )
    assert "does not build" in result.steps["gate"].summary


def test_a_side_that_fails_is_red(action: Action, clone: Repository) -> None:
    commit(clone, "raise SystemExit('out of memory')", "broken")
    result = action(event(clone))
    assert (result.conclusion, result.outputs["exit-code"]) == ("failure", "3")
    assert "out of memory" in result.log


def test_the_command_is_a_script_that_sees_neither_inputs_nor_outputs(action: Action, clone: Repository) -> None:
    """`perfgate run` fills in `{run}` in the words of a command; in a script, braces are the shell's."""
    write_rules(clone.folder, "forward within 50% of baseline")
    script = """
        run=forward
        for i in $(seq 20); do
            echo "[2026-01-01 00:00:00,000] [INFO] [Rank 0] time (ms) | ${run}: 10.$((RANDOM % 90 + 10))"
        done >> "train.log"
        env | grep -E '^(INPUT_|GITHUB_OUTPUT)' || echo clean
    """
    result = action(event(clone), run=script, results="train.log", policy_ref="", pairs="4")
    assert result.outputs["counts"] == '{"pass": 1}', result.log
    assert Path("perfgate-runs/pairs/pair-001-whole/new.log").read_text() == "clean\n"


@pytest.mark.parametrize(
    ("inputs", "code", "words"),
    [
        ({"run": ""}, "2", "give the command"),
        ({"report": "a.json"}, "2", "paired and report"),
        ({"rerun": "true"}, "2", "paired and rerun"),
        ({"pairs": "many"}, "2", "pairs"),
        ({"base_ref": ""}, "2", "give base-ref"),
        ({"base_ref": "refs/remotes/origin/absent", "policy_branches": "*"}, "3", "fetch-depth: 0"),
        ({"base_ref": "origin/main"}, "2", "write refs/remotes/origin/main"),
        ({"base_ref": "refs/remotes/origin/feature"}, "3", "do not count"),
        ({"rules": "absent"}, "3", "has no absent"),
        ({"time_budget": "soon"}, "2", "judged nothing"),
    ],
    ids=str,
)
def test_what_cannot_be_followed_is_red(
    action: Action, clone: Repository, inputs: dict[str, str], code: str, words: str
) -> None:
    result = action(event(clone), **inputs)
    assert (result.conclusion, result.outputs["outcome"], result.outputs["exit-code"]) == ("failure", "error", code)
    assert words in " ".join(text for _, text, _ in result.steps["gate"].annotations)


def test_a_clone_without_history_is_told_what_to_do(action: Action, clone: Repository, folder: Path) -> None:
    """With `fetch-depth: 1`, the base is either absent or shares no commit with HEAD."""
    tree = clone.git("rev-parse", "HEAD^{tree}")
    clone.git("checkout", "-q", clone.git("commit-tree", "-m", "alone", tree))
    result = action(event(clone))
    assert result.outputs["exit-code"] == "3"
    assert "fetch-depth: 0" in result.log


@pytest.mark.parametrize(("of", "runs"), [("o/r", True), ("someone/r", False), (None, False)])
def test_the_code_of_a_fork_does_not_run(action: Action, clone: Repository, of: str, runs: bool) -> None:
    """A fork that was deleted has no name, and is a fork all the same."""
    result = action(event(clone, of), run="touch ran; exit 1")
    assert (result.conclusion, result.outputs["exit-code"]) == ("failure", "3")
    assert Path("ran").exists() == runs
    assert ("push its commit to a branch here" in result.log) != runs
