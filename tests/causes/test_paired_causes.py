"""Causes from pairs on a loaded machine: its load moves all times of a pair, and one call of the program is slower."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from made_traces import CPU_JOB, Job, write
from msgspec.structs import replace

from perfgate.causes.find import find_causes
from perfgate.causes.merged import RunTrees
from perfgate.causes.paired import FEWEST_PAIRS
from perfgate.causes.table_trees import trees_of_runs
from perfgate.core import Run
from perfgate.core.call_trees import CallTree
from perfgate.core.causes import CauseReport
from perfgate.workspace.inputs import read_runs

PAIRS = 6


def trees(job: Job, folder: Path) -> CallTree:
    run = read_runs([str(write(job, folder))])[0]
    return run.call_trees[0]


def side(tree: CallTree, seed: int, loads: list[float]) -> list[RunTrees]:
    """Runs of one program: each with its load, and every node 3 % off in each run, and single steps stretched."""
    noise = np.random.default_rng(seed)
    runs = []
    for load in loads:
        of_run = noise.lognormal(0, 0.03, (len(tree.nodes), 1))
        of_steps = noise.lognormal(0, 0.02, tree.wall.shape) * np.where(noise.random(tree.wall.shape) < 0.1, 4, 1)
        runs.append((replace(tree, wall=tree.wall * load * of_run * of_steps),))
    return runs


def causes(base: CallTree, new: CallTree, seed: int, pairs: int = PAIRS, *, paired: bool = True) -> CauseReport:
    loads = [random.Random(f"{seed} {number}").lognormvariate(0, 0.4) for number in range(pairs)]
    return find_causes(side(base, 2 * seed, loads), side(new, 2 * seed + 1, loads), paired=paired)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CallTree]:
    folder = tmp_path_factory.mktemp("traces")
    jobs = {"base": CPU_JOB, "slower": CPU_JOB.edited("aten::addmm", us=3600), "fewer": CPU_JOB.without("aten::gelu")}
    return {name: trees(job.but(steps=12), folder / name) for name, job in jobs.items()}


def test_pairs_name_the_call_that_the_load_hides_otherwise(programs: dict[str, CallTree]) -> None:
    found = [causes(programs["base"], programs["slower"], seed) for seed in range(10)]
    named = [[(one.kind, one.where) for one in report.causes] for report in found]
    assert named.count([("slower", ("forward", "aten::addmm"))]) >= 9
    whole = float(programs["base"].wall.sum(axis=0).mean())
    right = [  # 600 us, at the speed of the report
        report.causes[0].low <= 600e-6 * report.base_step / whole <= report.causes[0].high
        for report in found
        if report.causes
    ]
    assert sum(right) >= 8
    alone = [causes(programs["base"], programs["slower"], seed, paired=False).causes for seed in range(10)]
    assert sum(bool(one) for one in alone) <= 2


def test_the_causes_and_the_rest_sum_to_the_change_of_the_step(programs: dict[str, CallTree]) -> None:
    for seed in range(5):
        report = causes(programs["base"], programs["slower"], seed)
        total = sum(one.change_per_step for one in report.causes) + report.rest
        assert total == pytest.approx(report.new_step - report.base_step, abs=1e-12)


def test_unchanged_programs_have_no_cause(programs: dict[str, CallTree]) -> None:
    found = [causes(programs["base"], programs["base"], seed, pairs) for seed in range(12) for pairs in (3, 6)]
    assert sum(bool(report.causes) for report in found) == 0


def test_a_pair_that_lacks_a_side_is_left_out_whole(programs: dict[str, CallTree]) -> None:
    """Each pair ran under a load of its own: a run that takes the place of another one would look slower."""
    loads = [1.0, 3.0, 9.0, 27.0, 81.0]
    for kind in ("absent", "another rank"):
        base, new = (side(programs["base"], seed, loads) for seed in (1, 2))
        base[1] = () if kind == "absent" else tuple(replace(tree, rank="7") for tree in base[1])
        runs = [
            [Run(str(i), "torch-trace", (), call_trees=trees) for i, trees in enumerate(one)] for one in (base, new)
        ]
        (sides,) = trees_of_runs(*runs, paired=True)
        report = find_causes(*sides, paired=True)
        assert (report.causes, report.base_runs) == ((), 4)
        assert report.new_step == pytest.approx(report.base_step, rel=0.05)


def test_calls_that_went_need_no_pairs_to_be_certain(programs: dict[str, CallTree]) -> None:
    report = causes(programs["base"], programs["fewer"], 1, pairs=1)
    assert [(one.kind, one.where[-1]) for one in report.causes] == [("vanished", "aten::gelu")]
    few = causes(programs["base"], programs["slower"], 1, pairs=FEWEST_PAIRS - 1)
    assert few.causes == ()
