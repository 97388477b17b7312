"""Alignments from a table: one row for each node, with its times on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from perfgate.causes.align import Alignment, TreeSide
from perfgate.causes.merged import Floats
from perfgate.core.call_trees import CallNode, NodeKind

#: A number for all steps, or one for each step.
Steps: TypeAlias = float | Sequence[float]


class Row(Struct, frozen=True):
    """A node, and its times in s on the base and the new side. Calls are 1 a step; `busy` is as `base` and `new`."""

    name: str
    kind: NodeKind
    parent: int
    base: Steps = 0.0
    new: Steps = 0.0
    calls: tuple[Steps, Steps] = (1.0, 1.0)
    busy: tuple[Steps, Steps] | None = None


STEP = Row("step", "step", -1)


def aligned(
    rows: Sequence[Row],
    base_runs: Sequence[int] = (0,),
    new_runs: Sequence[int] = (0,),
    errors: tuple[Sequence[Steps], Sequence[Steps]] | None = None,
    **more: Any,
) -> Alignment:
    """Return an alignment of the step and the rows, which are nodes 1, 2, ...

    Parameters:
        rows: the nodes below the step, parents before their children; first calls are in this order.
        base_runs, new_runs: the number of the run of each step.
        errors: the errors within runs of all nodes but the step, on both sides.
        more: other fields of the alignment.
    """
    all_rows = (STEP, *rows)
    sides = []
    for at, runs in enumerate((base_runs, new_runs)):
        count = len(runs)
        wall = _table([(row.base, row.new)[at] for row in all_rows], count)
        busy = _table([(row.busy or (row.base, row.new))[at] for row in all_rows], count)
        calls = _table([row.calls[at] for row in all_rows], count)
        error = _table([0.0, *(errors[at] if errors else [0.0] * len(rows))], len({*runs}))
        sides.append(TreeSide(calls, busy, wall, np.array(runs, np.int64), {}, {}, error, None, None))
    nodes = tuple(CallNode(row.name, row.kind, row.parent) for row in all_rows)
    return Alignment(nodes, sides[0], sides[1], **({"first": np.arange(len(nodes), dtype=np.float64)} | more))


def _table(rows: Sequence[Steps], count: int) -> Floats:
    return np.array([np.broadcast_to(np.asarray(row, np.float64), (count,)) for row in rows])
