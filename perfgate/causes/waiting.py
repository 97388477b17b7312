"""What a change makes the device wait for: the host reads a value, or many small kernels run one after the other.

A device that has enough work to do is never idle. After a new synchronisation its queue is empty, so it waits for the
host until the queue has filled again. Between two kernels it is idle for about a microsecond, which counts if there
are many. Both are part of what the change costs. If the base waits for the host anyway, neither can be told.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import numpy as np

from perfgate.causes.align import Alignment, Finding
from perfgate.causes.kinds import is_input, subtree
from perfgate.causes.noise import classes
from perfgate.core.runtime_calls import SYNCS

#: A device that idles for a larger part of the base's step waits for the host anyway.
_MOST_IDLE = 0.25
#: Fewer new kernels, as a share of those of the base, leave no gaps that are worth a look.
_MORE_KERNELS = 0.1


def waiting_nodes(finding: Finding, alignment: Alignment, claimed: AbstractSet[int]) -> set[int]:
    """Return the nodes, not claimed ones, whose time is that of a device that idles because of a finding."""
    wall, host = alignment.base.wall.mean(axis=1), classes(alignment)["host"]
    if wall[host].sum() > _MOST_IDLE * wall.sum():
        return set()
    if finding.kind in ("sync", "allocator"):
        return {
            node for node in _around(finding.lead, alignment) - claimed if host[node] and not is_input(node, alignment)
        }
    is_kernel = np.array([node.kind == "kernel" for node in alignment.nodes])
    before, after = (side.counts.mean(axis=1) * is_kernel for side in (alignment.base, alignment.new))
    own = sorted(finding.nodes)
    gained = float((after - before)[own].sum())
    if gained < max(_MORE_KERNELS * before.sum(), float((after - before).clip(0).sum()) / 2) or gained <= 0:
        return set()
    syncs = {at for at, node in enumerate(alignment.nodes) if node.kind == "runtime" and SYNCS.fullmatch(node.name)}
    return syncs - claimed


def _around(lead: int, alignment: Alignment) -> set[int]:
    """The nodes in the range of a node, or in the step if it is in none."""
    chain = (lead, *alignment.ancestors(lead))
    around = next((node for node in chain if alignment.nodes[node].kind in ("range", "thread")), 0)
    return subtree([around], alignment.children())
