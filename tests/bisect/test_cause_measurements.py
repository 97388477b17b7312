"""The two neighbours of an answer are measured for the cause only as often as it tells more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from perfgate.bisect.ranges import MetricValue
from perfgate.bisect.session import BisectFolder, StoredMeasurement
from perfgate.commands.bisect_causes import MOST_PAIRS, Neighbours
from perfgate.core import Run
from perfgate.core.call_trees import CallNode, CallTree

TIME = MetricValue("step.time", "median", "1", "lower", 1.2, 0.0, run_unit="s")


def run(work: float, seed: int, noise: float) -> Run:
    """A run with a trace of 16 steps: two operators of 5 ms, one of them with a factor."""
    random = np.random.default_rng(seed)
    nodes = tuple(CallNode(name, "operator", 0) for name in ("aten::mm", "aten::gelu"))
    wall = np.array([[0.0001], [0.005 * work], [0.005]]) * random.lognormal(0, 0.01, (3, 16))
    wall *= random.lognormal(0, noise, (3, 1))
    calls = np.ones((3, 16))
    tree = CallTree("", (CallNode("step", "step", -1), *nodes), calls, wall, wall, first=np.zeros(3))
    return Run("trace", "torch-trace", (), call_trees=(tree,))


def neighbours(pairs: int, work: float = 1.3, noise: float = 0.02) -> Neighbours:
    """Commit 8 and its parent 7: both twice beside commit 0, and some pairs of just these two."""
    folder = BisectFolder(Path("perfgate-bisect"), [])
    for number, (position, beside) in enumerate([(7, 0), (8, 0), (7, 0), (8, 0), *[(8, 7)] * pairs], 1):
        results = f"runs/{number:03d}/pair.json"
        folder.stored.append(StoredMeasurement(number, position, "", 0, 0.0, True, results, beside=beside))
        place = folder.path / "runs" / f"{number:03d}"
        folder.runs[place / "base"] = [run(1.0, 2 * number, noise)]
        folder.runs[place / "new"] = [run(work if position == 8 else 1.0, 2 * number + 1, noise)]
    return Neighbours(folder, 7, 8, is_alone=True)


def test_the_two_are_measured_until_the_cause_is_clear() -> None:
    wanted = [neighbours(pairs).needs_more(TIME) for pairs in range(5)]
    assert wanted[0]
    assert wanted == sorted(wanted, reverse=True)
    assert not wanted[4]
    found = neighbours(4).causes()
    assert found is not None
    assert [(one.kind, one.where) for one in found.causes] == [("slower", ("aten::mm",))]


def test_noise_ends_after_the_most_pairs_without_a_cause() -> None:
    """Nothing differs in the two: the answer was wrong, or the change is not in the traces."""
    wanted = [neighbours(pairs, work=1.0, noise=0.2).needs_more(TIME) for pairs in (3, MOST_PAIRS - 1, MOST_PAIRS)]
    assert wanted == [True, True, False]
    found = neighbours(MOST_PAIRS, work=1.0, noise=0.2).causes()
    assert found is not None
    assert found.causes == ()


@pytest.mark.parametrize("unit", ["B", "1", ""])
def test_a_metric_that_is_no_time_needs_no_more_runs(unit: str) -> None:
    assert not neighbours(0).needs_more(replace(TIME, run_unit=unit))


def test_pairs_for_the_cause_are_no_measurements_of_the_search() -> None:
    folder = neighbours(3).folder
    assert [one.position for one in folder.evidence().measurements] == [7, 8, 7, 8]
    assert folder.next_number() == 8
