"""Changes of the machine: all kernels slower by one factor, or other kernels for the same operators."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from perfgate.causes.align import Alignment
from perfgate.causes.findings import Finding
from perfgate.causes.noise import Noise, classes
from perfgate.core.call_trees import DEVICE_KINDS

#: A common change of all kernels is noise if it is below this share, or below this many times their scatter.
_LEAST_SHIFT = 0.03
_CLEAR = 4.0
#: Other kernels in this many operators, with this part of the device's time, show another library or device.
_OPERATORS = 4
_MOST_TIME = 0.5


def find_machine(alignment: Alignment, noise: Noise, claimed: set[int], *, other_device: bool) -> Finding | None:
    """Return the finding that the device became faster or slower as a whole, or is another one."""
    device = np.flatnonzero(classes(alignment)["device"])
    nodes = [node for node in device.tolist() if node not in claimed]
    if not nodes:
        return None
    shift, scatter = float(noise.shift[nodes[0]]), float(noise.relative[nodes[0]])
    if not other_device and abs(math.expm1(shift)) < max(_LEAST_SHIFT, _CLEAR * scatter):
        return None
    change, error = noise.change(nodes)
    lead = max(nodes, key=lambda node: float(alignment.base.wall[node].mean()))
    return Finding("machine", frozenset(nodes), lead, (alignment.nodes[lead].parent,), change=change, error=error)


def is_swap(finding: Finding, alignment: Alignment) -> bool:
    """True if an operator runs other kernels than before."""
    kinds = {alignment.nodes[node].kind for node in (*finding.gone, *finding.come)}
    is_operator = all(alignment.nodes[parent].kind == "operator" for parent in finding.parents)
    return bool(finding.gone and finding.come) and is_operator and kinds <= {*DEVICE_KINDS, "runtime"}


def many_swaps(findings: Sequence[Finding], alignment: Alignment) -> list[Finding]:
    """The findings of operators with other kernels, if too many of them differ to compare kernel names."""
    swaps = [finding for finding in findings if is_swap(finding, alignment)]
    busy = [side.busy[classes(alignment)["device"]].mean(axis=1).sum() for side in (alignment.base, alignment.new)]
    gone = sum(float(alignment.base.busy[node].mean()) for finding in swaps for node in finding.gone)
    come = sum(float(alignment.new.busy[node].mean()) for finding in swaps for node in finding.come)
    is_most = gone > _MOST_TIME * busy[0] and come > _MOST_TIME * busy[1]
    return swaps if len(swaps) >= _OPERATORS and is_most else []
