"""A job without `run` and `results`: the command of rules/perfgate.yaml measures, as the base says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Repository, write_rules
from emulator import ROOT, Result, clean_environment, installed_by, make_python, run_action

Action = Callable[..., Result]
SCRIPT = "import sys\nprint(f'step 1 took {sys.argv[1]} ms')\n"
MAPPING = "mappings: [{files: '*.log', lines: 'took {took} ms', metrics: {took: ms}}]\n"


def remember(folder: Path, python: str, milliseconds: int) -> None:
    command = f"run: {{command: '{python} bench.py {milliseconds}'}}\n"
    (folder / "rules" / "perfgate.yaml").write_text(command + MAPPING)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_python(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def clone(folder: Path, installed: str) -> Repository:
    """A base that remembers a command of 5 ms, and a pull request that changes nothing yet."""
    found = Repository(folder)
    write_rules(folder, "took under 10 ms")
    (folder / "bench.py").write_text(SCRIPT)
    remember(folder, installed, 5)
    found.git("add", "bench.py", "rules")
    found.git("commit", "-q", "-m", "base")
    found.git("update-ref", "refs/remotes/origin/main", "HEAD")
    return found


@pytest.fixture
def action(folder: Path, installed: str, clone: Repository) -> Action:
    def run(**inputs: str) -> Result:
        head = {"sha": clone.git("rev-parse", "HEAD"), "repo": {"full_name": "o/r"}}
        event: dict[str, Any] = {"pull_request": {"head": head}, "repository": {"default_branch": "main"}}
        github = {"base_ref": "main", "repository": "o/r", "sha": head["sha"], "event": event}
        environment = clean_environment(folder / ".runner", SOURCE_DATE_EPOCH="1767225600")
        return run_action(ROOT, inputs, folder, environment, github, installed_by(installed))

    return run


def test_the_remembered_command_measures(action: Action) -> None:
    result = action()
    assert (result.conclusion, result.outputs["outcome"]) == ("success", "pass"), result.log


def test_a_pull_request_does_not_choose_how_it_is_measured(action: Action, clone: Repository, installed: str) -> None:
    (clone.folder / "bench.py").write_text(SCRIPT.replace("{sys.argv[1]}", "{4 * int(sys.argv[1])}"))
    remember(clone.folder, installed, 1)
    clone.git("commit", "-q", "-a", "-m", "measure less")
    result = action()
    assert (result.conclusion, result.outputs["exit-code"]) == ("failure", "1"), result.log
    assert "changes the command that measures" in result.steps["gate"].summary


def test_pairs_of_the_remembered_command(action: Action, clone: Repository) -> None:
    write_rules(clone.folder, "took within 5% of baseline")
    clone.git("commit", "-q", "-a", "-m", "compare")
    clone.git("update-ref", "refs/remotes/origin/main", "HEAD")
    (clone.folder / "bench.py").write_text(SCRIPT.replace("{sys.argv[1]}", "{2 * int(sys.argv[1])}"))
    clone.git("commit", "-q", "-a", "-m", "slower")
    result = action(paired="true", pairs="6")
    assert (result.conclusion, result.outputs["exit-code"]) == ("failure", "1"), result.log


def test_run_needs_results(action: Action) -> None:
    result = action(run="true")
    assert result.outputs["exit-code"] == "2"
    assert "give results, the files that run writes" in result.log
