"""The snippets for other systems, run as those would run them; only what they install is there already."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from conftest import Repository, write_rules
from emulator import ROOT, make_python

PAGE = (ROOT / "docs" / "other-ci.md").read_text(encoding="utf-8")
#: The words that start a shell, and the variables that its system sets.
Script = tuple[list[str], dict[str, str]]
TRAIN = """
for i in range(60):
    print(f"[2026-01-01 00:00:00,000] [INFO] [logging.py:77:log_dist] [Rank 0] time (ms) | forward: @MS@.{i % 7}")
"""


def gitlab() -> Script:
    """The script of the job, which a runner gives to bash, and the job's own variables."""
    [block] = re.findall(r"<!-- \.gitlab-ci\.yml -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
    job = yaml.safe_load(block)["perf-gate"]
    variables = {name: value.replace("$CI_BUILDS_DIR", os.getcwd()) for name, value in job["variables"].items()}
    return ["bash", "-e", "-c", "\n".join(job["script"])], {**variables, "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}


def jenkins() -> Script:
    """The script of the `sh` step, as Groovy reads it between three quotes, for the shell that Jenkins takes."""
    [block] = re.findall(r"sh '''(.*?)'''", PAGE, re.DOTALL)
    return ["sh", "-xe", "-c", block.replace("\\\\", "\\")], {"WORKSPACE_TMP": os.getcwd(), "CHANGE_TARGET": "main"}


@pytest.fixture
def bin(folder: Path) -> Path:
    """Make the path and the environment of the scripts, whose `python` trains nothing."""
    python = make_python(folder / ".python")
    programs = {
        "perfgate/bin/perfgate": f'exec "{python}" -m perfgate "$@"',
        "perfgate/bin/pip": 'case "$*" in *perfgate*OWNER/perfgate@COMMIT) ;; *) exit 9 ;; esac',
        "perfgate/bin/python": "exit 9",
        ".bin/python3": '[ "$1 $2" = "-m venv" ]',
        ".bin/python": f'exec "{python}" "$@"',
    }
    for name, script in programs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return folder / ".bin"


@pytest.mark.parametrize("system", [gitlab, jenkins])
@pytest.mark.parametrize(("milliseconds", "code"), [(100, 0), (200, 1)])
def test_a_snippet_judges_by_the_rules_of_the_target(
    folder: Path, bin: Path, system: Callable[[], Script], milliseconds: int, code: int
) -> None:
    repository = Repository(folder)
    write_rules(folder, "forward p95 under 150 ms")
    repository.git("add", "rules")
    repository.git("commit", "-q", "-m", "base")
    repository.git("remote", "add", "origin", ".")
    repository.git("fetch", "-q", "origin")
    repository.git("checkout", "-q", "-b", "change")
    write_rules(folder, "forward p95 under 1 h")
    (folder / "train.py").write_text(TRAIN.replace("@MS@", str(milliseconds)))
    repository.git("add", "rules", "train.py")
    repository.git("commit", "-q", "-m", "judge me kindly")
    words, variables = system()
    environment = {**os.environ, **variables, "PATH": f"{bin}:{os.environ['PATH']}"}
    environment["CI_COMMIT_SHA"] = repository.git("rev-parse", "HEAD")
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert (folder / "perfgate.xml").is_file()
    assert (folder / "perfgate.json").is_file()
