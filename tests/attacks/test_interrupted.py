"""Commands that die, or meet a full disk, at every moment at which they change a file.

Whatever befalls them, a file is as it was before or as it is after the whole command, nothing that was stored is lost,
the store is sound, and the same command gets through right after.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, write_rules, write_run
from interrupted import files_of

Command = Callable[..., Done]
HERE = Path(__file__).resolve().parent

#: Every command that writes, and how it ends a second time.
WRITERS: dict[str, tuple[list[str], int]] = {
    "approve": (["baseline", "approve", "first0.json", "slow.json", "--reason", "meant"], 0),
    "add": (["baseline", "add", "same.json"], 1),
    "rotate": (["baseline", "add", "same.json", "--rotate"], 1),
    "allow": (
        ["baseline", "allow", "--head", "a" * 40, "--metric", "forward", "--up-to", "9%", "--reason", "x", "--expires",
         "2027-01-01"],
        2,
    ),
    "prune": (["baseline", "prune"], 0),
    "calibrate": (["rules", "--calibrate", *(f"noise{i}.json" for i in range(5))], 0),
    "propose": (["check", "same.json", "--propose", "proposal", "--quiet"], 2),
    "reports": (
        ["check", "same.json", "--quiet", "--json", "r.json", "--junit", "j.xml", "--sarif", "s", "--markdown", "m.md"],
        0,
    ),
    "report": (["report", "stored.json", "--quiet", "--junit", "j.xml", "--markdown", "m.md"], 0),
    "init": (["init", "same.json", "slow.json"], 2),
    "remember": (["history", "add", "same.json"], 0),
    "run": (["run", "--runs", "1", "--quiet", "--", "cp", "same.json", "{results}"], 0),
}  # fmt: skip
#: Those that write in ways of their own; the others share theirs with one of these.
QUICK = ("approve", "rotate", "reports", "init", "run")
#: How a command ends. `run` keeps what was measured when it is asked to end.
CODES = {"killed": (-signal.SIGKILL,), "terminated": (-signal.SIGTERM,), "full": (2,)}
STOPPED_IN_ORDER = (128 + signal.SIGTERM, -signal.SIGTERM)
#: What is made anew each time, such as the facts of the machine.
MADE_ANEW = ("perfgate-runs/",)


@pytest.fixture
def store(perfgate: Command, folder: Path, clock: Callable[[], None]) -> Path:
    """Rules, two levels of three runs, a stored report, and runs that are to be stored."""
    write_rules(folder, "forward within 5% of baseline")
    for level in range(2):
        clock()
        for i in range(3):
            write_run(folder / "stored.run", 110 - 10 * level, seed=10 * level + i)
            words = ["add"] if i else ["approve", "--reason", f"level {level}"]
            assert perfgate("baseline", *words, "stored.run").code == 0
    for name, forward, seed in (("same", 100, 50), ("first0", 120, 51), ("slow", 120, 52)):
        write_run(folder / f"{name}.json", forward, seed=seed)
    for i in range(5):
        write_run(folder / f"noise{i}.json", seed=60 + i)
    perfgate("check", "same.json", "--json", "stored.json")
    (folder / "r.json").write_text("an older report")
    return folder


def prepared(name: str, store: Path, perfgate: Command) -> None:
    """Prepare a store for one command, beside the preparations for all."""
    if name == "rotate":
        for i in range(7):
            write_run(store / "stored.run", seed=70 + i)
            assert perfgate("baseline", "add", "stored.run").code == 0
    if name == "init":
        shutil.rmtree(store / "rules")
        shutil.rmtree(store / "baselines")


@pytest.mark.parametrize("fault", ["killed", pytest.param("terminated", marks=pytest.mark.slow), "full"])
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in WRITERS]
)
@pytest.mark.parametrize("most", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_nothing_is_lost_or_half_written(
    store: Path, perfgate: Command, tmp_path_factory: pytest.TempPathFactory, name: str, fault: str, most: int
) -> None:
    prepared(name, store, perfgate)
    words, second = WRITERS[name]
    before = files_of(store)
    script = [sys.executable, str(HERE / "interrupted.py"), str(store), fault, str(most), *words]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        script, cwd=tmp_path_factory.mktemp("work"), env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    whole, *rows = json.loads(done.stdout)
    assert (whole["code"], whole["verified"][0], whole["again"][0]) == (0, 0, second), whole
    assert rows
    for row in rows:
        told(row, before, whole, STOPPED_IN_ORDER if (name, fault) == ("run", "terminated") else CODES[fault])
        assert row["verified"][0] == 0, (row["moment"], row["verified"])
        assert row["again"][0] in (0, second), (row["moment"], row["again"])


def told(row: dict[str, Any], before: dict[str, str], whole: dict[str, Any], codes: tuple[int, ...]) -> None:
    """Every file is an old or a new one, and the exit code says that the command did not get through."""
    moment, left = row["moment"], row["files"]
    for name, digest in left.items():
        if not name.startswith(MADE_ANEW):
            assert digest in (before.get(name), whole["files"].get(name)), f"{moment}: {name} is half-written"
    assert "Traceback" not in row["said"], moment
    assert {*before} & {*whole["files"]} <= {*left}, f"{moment}: lost"
    if codes == CODES["full"] and left == whole["files"]:  # it found room, or makes some
        return
    assert row["code"] in codes, (moment, row["code"], row["said"])
    assert codes != CODES["full"] or "No space left" in " ".join(row["said"].split()), (moment, row["said"])
