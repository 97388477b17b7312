"""Allocations that made the peak of the memory grow or shrink."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from perfgate.causes.align import Alignment
from perfgate.causes.merged import Floats
from perfgate.core.causes import Cause

#: A change of the peak below both is noise of the allocator.
_LEAST_BYTES = 1 << 20
_LEAST_SHARE = 0.05
#: The least part of the change that the place explains; otherwise what is in use was allocated before the trace.
_EXPLAINED = 0.5


def find_memory(alignment: Alignment) -> tuple[tuple[Cause, ...], tuple[str, ...]]:
    """Return the cause of a change of the peak, if it is large: the place that uses more or less at the peak.

    And what is to be said if no place explains it.
    """
    base, new = alignment.base, alignment.new
    if base.memory is None or new.memory is None or base.peak is None or new.peak is None:
        return (), ()
    change = new.peak - base.peak
    if abs(change) < max(_LEAST_BYTES, _LEAST_SHARE * max(base.peak, new.peak)):
        return (), ()
    grown = (new.memory - base.memory) * np.sign(change)
    node = int(np.argmax(grown))
    if grown[node] < _EXPLAINED * abs(change):
        node = _around(grown, alignment, _EXPLAINED * abs(change))
    if node == 0:
        mebibytes = f"{change / (1 << 20):+.1f} MiB"
        return (), (f"the peak of allocated memory changed by {mebibytes}, mostly before the traces begin",)
    where = alignment.path(node)
    noise = _LEAST_SHARE * min(base.peak, new.peak)
    cause = Cause("memory", where, "memory", change, change - noise, change + noise, 1.0, places=(where,))
    return (replace(cause, source=alignment.nodes[node].source),), ()


def _around(grown: Floats, alignment: Alignment, least: float) -> int:
    """The innermost node that grew by at least this with all that it calls; the step if there is none."""
    whole = grown.copy()
    for index in range(len(whole) - 1, 0, -1):
        whole[alignment.nodes[index].parent] += whole[index]
    node, children = 0, alignment.children()
    while True:
        below = [one for one in children.get(node, []) if whole[one] >= least]
        if not below:
            return node
        node = max(below, key=lambda one: float(whole[one]))
