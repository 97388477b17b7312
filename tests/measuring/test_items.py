"""The runner of a search: what it expects a run and a build to cost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from conftest import Repository

from perfgate.measuring import items
from perfgate.measuring.items import ItemProgram, item_runner
from perfgate.workspace.commit_files import Commit


def test_the_time_of_a_pair_is_without_its_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 10_000, 10))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    for name in ("build", "steps_by_turns", "read_sides", "write_pair"):
        monkeypatch.setattr(items, name, lambda *_, **__: None)
    program = ItemProgram(("true",), build=("make",))
    (tmp_path / "builds").mkdir()
    with item_runner(program, tmp_path, ["a", "b", "c"], ()) as runner:
        runner.run_pair(0, 1, 1)
        assert (runner.build_times, runner.run_times) == ([10.0, 10.0], [10.0])
        assert (runner.cost(1), runner.cost(2)) == (10.0, 20.0)
        runner.run_pair(0, 1, 2)
        assert (len(runner.build_times), runner.started) == (2, 4)


def test_a_worktree_that_was_made_anew_is_built_again(folder: Path) -> None:
    repository = Repository(folder)
    repository.git("commit", "-q", "--allow-empty", "-m", "a")
    program = ItemProgram(("sh", "-c", "cat built > $PERFGATE_RESULTS/r.txt"), build=("touch", "built"))
    with item_runner(program, folder / "search", ["a"], [Commit.of("HEAD")]) as runner:
        runner.run(0, 1)
        runner.run(0, 2)
        assert len(runner.build_times) == 1
        (top,) = (path for path in (folder / "search" / "worktrees").iterdir() if path.is_dir())
        repository.git("worktree", "remove", "--force", str(top))
        assert runner.run(0, 3).exists()
        assert len(runner.build_times) == 2
