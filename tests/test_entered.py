"""A command enters few files and functions of perfgate, so that its path is short enough to follow."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "benchmarks" / "entered.py"


# These have files of their own: the promise of exit 0, its bounds, several looks, each kind of doubt, the distributions
# that are computed without scipy, what of a file was not read, the stores that a policy is held in, the facts of the
# environment, what else changed, the comparisons that `explain` prints, and the types that are loaded at their first
# use. Red and green have two bounds each.
# The path of pairs depends on what they show; the script gives them a clock that is the same on every machine.
@pytest.mark.parametrize(("command", "files", "functions"), [("check", 82, 567), ("paired", 102, 652)])
def test_the_path_of_a_command_is_short(command: str, files: int, functions: int) -> None:
    done = subprocess.run([sys.executable, SCRIPT, command], capture_output=True, text=True, check=True)
    found = re.fullmatch(rf"{command}: (\d+) files, (\d+) functions\n", done.stdout)
    assert found is not None
    assert (int(found[1]) <= files, int(found[2]) <= functions) == (True, True), done.stdout
