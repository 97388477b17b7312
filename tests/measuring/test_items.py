"""The runner of a search: what it expects a run and a build to cost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from perfgate.measuring import items
from perfgate.measuring.items import ItemProgram, item_runner


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
