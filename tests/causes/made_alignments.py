"""Alignments from a table: one row for each node, with its times on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from perfgate.causes.align import Alignment, Finding, TreeSide
from perfgate.causes.merged import Floats
from perfgate.causes.noise import Noise
from perfgate.core.call_trees import CallNode, NodeKind
from perfgate.core.causes import CauseKind

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


def finding(kind: CauseKind, change: float, lead: int, **fields: Any) -> Finding:
    """Return a finding about its lead, below the step, unless said otherwise."""
    nodes = fields.pop("nodes", {lead})
    return Finding(kind, frozenset(nodes), lead, fields.pop("parents", (0,)), change=change, **fields)


#: A program on the CPU: some calls came, one is slower.
ROWS = [
    Row("forward", "range", 0, 10.0, 10.0),
    Row("mm", "operator", 1, 20.0, 20.0),
    Row("topk", "operator", 1, 0.0, 10.0, (0, 1)),
    Row("tanh", "operator", 0, 30.0, 10.0, (3, 1)),
    Row("add", "operator", 0, 40.0, 60.0),
    Row("mul", "operator", 1, 40.0, 40.0),
]
TOPK, TANH, ADD, MUL = 3, 4, 5, 6


def noiseless(alignment: Alignment) -> Noise:
    """Return a noise without a shift and without errors."""
    count = len(alignment.nodes)
    return Noise(alignment, np.zeros(count), np.zeros(count))


def kinds_of(findings: Sequence[Finding]) -> dict[int, str]:
    """The kind of each finding by its lead."""
    assert len({one.lead for one in findings}) == len(findings)
    return {one.lead: one.kind for one in findings}
