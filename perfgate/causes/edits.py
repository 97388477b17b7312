"""Calls that came, went, or were made more or less often: the structure of the program changed.

The tree is walked from the step down. Below a node that is called as often on both sides, children with other counts
are an edit of that node. What is below such a child follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from msgspec import Struct

from perfgate.causes.align import Alignment
from perfgate.causes.merged import Floats
from perfgate.causes.noise import standard_errors
from perfgate.core.causes import CauseKind

#: A difference of counts that differ between steps, in standard errors.
_CLEAR = 4.0
#: Less than this part of the larger side does not make an edit a replacement.
_PART = 0.05
#: Calls that wait for the device, or read one number from it.
is_sync = re.compile(
    r"aten::(?:item|_local_scalar_dense|is_nonzero|equal)$|(?:cuda|hip|musa)\w*Synchronize(?:WithFlags)?$"
    r"|cu(?:Stream|Ctx|Event)Synchronize$|cudaStreamWaitEvent$"
).match
_is_wait = re.compile(r"(?:cuda|hip|musa)\w*Synchronize|cu(?:Stream|Ctx|Event)Synchronize").match


class Edit(Struct, frozen=True):
    """The children of one node that are called less (`gone`) and more often (`come`)."""

    parent: int
    gone: tuple[int, ...]
    come: tuple[int, ...]

    @property
    def nodes(self) -> tuple[int, ...]:
        """All of them."""
        return (*self.gone, *self.come)


def find_edits(alignment: Alignment) -> list[Edit]:
    """Return the edits, from the step down."""
    children = alignment.children()
    less, more = _changed(alignment)
    found: list[Edit] = []
    waiting = [0]
    while waiting:
        parent = waiting.pop(0)
        below = children.get(parent, [])
        gone = tuple(node for node in below if less[node])
        come = tuple(node for node in below if more[node])
        if gone or come:
            found.append(Edit(parent, gone, come))
        waiting += [node for node in below if not less[node] and not more[node]]
    return found


def _changed(alignment: Alignment) -> tuple[Floats, Floats]:
    base, new = alignment.base, alignment.new
    change = new.counts.mean(axis=1) - base.counts.mean(axis=1)
    error = np.hypot(standard_errors(base.counts, base), standard_errors(new.counts, new))
    clear = np.abs(change) > np.maximum(_CLEAR * error, 1e-6)
    return clear & (change < 0), clear & (change > 0)


def subtree(nodes: Iterable[int], children: dict[int, list[int]]) -> set[int]:
    """The nodes and all below them."""
    found: set[int] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += children.get(node, [])
    return found


def kind_of(edit: Edit, alignment: Alignment, children: dict[int, list[int]]) -> CauseKind:
    """The kind of an edit, without its neighbours."""
    base, new = alignment.base, alignment.new
    lost = sum(max(float(base.busy[node].mean() - new.busy[node].mean()), 0.0) for node in edit.gone)
    gained = sum(max(float(new.busy[node].mean() - base.busy[node].mean()), 0.0) for node in edit.come)
    larger = max(lost, gained)
    come = edit.come if gained > _PART * larger else ()
    gone = edit.gone if lost > _PART * larger else ()
    if come and not gone and _waits(come, alignment, children):
        return "sync"
    if come and gone:
        return "replaced"
    if come:
        fresh = sum(float(new.busy[node].mean()) for node in come if not base.counts[node].any())
        return "appeared" if fresh > gained / 2 else "more calls"
    left = sum(float(base.busy[node].mean()) for node in gone if not new.counts[node].any())
    return "vanished" if left > lost / 2 else "fewer calls"


def _waits(come: tuple[int, ...], alignment: Alignment, children: dict[int, list[int]]) -> bool:
    """True if what came waits for the device: calls of the runtime, or mostly reading single numbers."""
    base, new, nodes = alignment.base, alignment.new, alignment.nodes
    gained = {node: float(new.counts[node].mean() - base.counts[node].mean()) for node in subtree(come, children)}
    if any(_is_wait(nodes[node].name) and count > 0 for node, count in gained.items()):
        return True
    reads = sum(gained[node] for node in come if is_sync(nodes[node].name))
    return reads >= sum(gained[node] for node in come) / 2


def sync_nodes(nodes: Iterable[int], alignment: Alignment) -> tuple[int, ...]:
    """The nodes that wait for the device, or read one number from it."""
    return tuple(sorted(node for node in nodes if is_sync(alignment.nodes[node].name)))
