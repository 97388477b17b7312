"""The causes of a job with many ranks: the same as of few, with the trees of one rank in memory at a time."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_traces import Job, Op, write

from perfgate.causes.find import find_causes
from perfgate.causes.ranks import _median_of_others
from perfgate.core.call_trees import CallTree, joined_trees
from perfgate.core.packed_trees import PackedTrees
from perfgate.workspace.inputs import read_runs

JOB = Job(
    (Op("forward", "aten::mm", 400, kernel="gemm"), Op("backward", "nccl:all_reduce", 60, "comm", "ncclDevKernel")),
    ranks=5,
)


def _packed(trees: Sequence[CallTree]) -> Sequence[CallTree]:
    return joined_trees([PackedTrees([tree]) for tree in trees])


def test_packed_trees_have_the_same_causes_one_in_memory_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base,), (new,) = (
        [run.call_trees for run in read_runs([str(write(job, tmp_path / name))])]
        for name, job in (("base", JOB), ("new", JOB.but(slow=((1, 1.5),), seed=2)))
    )
    for ranks in (slice(5), slice(1, 4)):  # with fewer ranks on one side, the others are left out
        report = find_causes([base[ranks]], [new])
        assert [cause.kind for cause in report.causes] == ["slow rank"]
        packed, refs, most = (_packed(base[ranks]), _packed(new)), list[Any](), 0
        with monkeypatch.context() as patch:

            def decode(trees: PackedTrees, real: Any = PackedTrees.decode, refs: list[Any] = refs) -> Any:
                nonlocal most
                most = max(most, sum(ref() is not None for ref in refs))  # those that somebody still holds
                found = real(trees)
                refs += [weakref.ref(tree.wall) for tree in found]
                return found

            patch.setattr(PackedTrees, "decode", decode)
            assert find_causes([packed[0]], [packed[1]]) == report
        assert (len(refs), most) == (2 * len(base[ranks]), 1)


@pytest.mark.parametrize("ranks", [2, 3, 6, 9])
def test_the_median_of_the_other_ranks_is_that_of_numpy(ranks: int) -> None:
    values = np.random.default_rng(ranks).integers(0, 6, (ranks, 40)) / 7
    slowly = [np.median(np.delete(values, at, axis=0), axis=0) for at in range(ranks)]
    assert np.array_equal(_median_of_others(values), slowly)
