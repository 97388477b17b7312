"""`perfgate run --cpus`: the command runs on these processors, and this process keeps its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, write_rules

from perfgate.measuring.programs import parse_cpus, pinned

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux pins programs")
PROGRAM = """
import json, os
found = {"schema": "perfgate.results/1", "series": [
    {"metric": "processors", "unit": "1", "value": len(os.sched_getaffinity(0))},
    {"metric": "processor", "unit": "1", "value": min(os.sched_getaffinity(0))}]}
print(json.dumps(found))
"""


def test_a_command_runs_on_the_processors_that_are_named(perfgate: Callable[..., Done], folder: Path) -> None:
    write_rules(folder, "processors under 2")
    (folder / "program.py").write_text(PROGRAM)
    own = os.sched_getaffinity(0)
    last = max(own)
    done = perfgate("run", "--cpus", str(last), "--runs", "1", "--", sys.executable, "program.py")
    assert done.code == 0, done.said
    (run,) = json.loads(perfgate("inspect", "--json", "perfgate-runs/run-001.log").out)["runs"]
    assert {one["metric"]: one["statistics"]["value"] for one in run["series"] if "process" in one["metric"]} == {
        "processors": 1,
        "processor": last,
    }
    assert os.sched_getaffinity(0) == own


@pytest.mark.parametrize(("text", "words"), [("99999", "may use only the processors"), ("1-", "write 1, 0,2 or 4-7")])
def test_processors_that_do_not_fit_are_refused(
    perfgate: Callable[..., Done], folder: Path, text: str, words: str
) -> None:
    done = perfgate("run", "--cpus", text, "--", "true")
    assert (done.code, words in " ".join(done.err.split())) == (2, True), done.err


def test_lists_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfgate.measuring.programs.allowed_cpus", lambda: frozenset(range(8)))
    assert parse_cpus("0,2,4-6") == {0, 2, 4, 5, 6}
    monkeypatch.setattr("perfgate.measuring.programs.allowed_cpus", lambda: None)
    with pinned({0}):
        pass
    with pytest.raises(ValueError, match="cannot pin"):
        parse_cpus("0")
