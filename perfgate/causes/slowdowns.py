"""Calls that became slower, all kernels by one factor, and the allocations that made the peak of the memory."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from msgspec.structs import replace

from perfgate.causes.align import Alignment, Finding
from perfgate.causes.merged import Floats
from perfgate.causes.noise import Noise, classes, difference_errors
from perfgate.core.call_trees import DEVICE_KINDS
from perfgate.core.causes import Cause, CauseKind

#: The change of one node, in its standard errors, that noise does not explain among many nodes.
_CLEAR = 5.0
#: Smaller changes, as a share of the step, are not worth a line: on the host, and on a device.
_WORTH = {True: 0.003, False: 0.012}
#: Ranges in which a program gets its next batch.
_is_input = re.compile(
    r"enumerate\(Data|.*data_?loader|(?:\W|_)*(?:(?:get|load|next|fetch|read|prepare|wait)_?)*"
    r"(?:data|dataset|batch|batches|input|inputs|samples?)(?:_?(?:load|loading|time|wait|fetch|next|prep|get))*\W*$"
    r"|.*(?:prefetch|fetch_batch|load_batch|next_batch|data_iter|batch_generator)",
    re.IGNORECASE | re.DOTALL,
).match


def find_slowdowns(alignment: Alignment, noise: Noise, claimed: AbstractSet[int]) -> list[tuple[int, CauseKind]]:
    """The nodes whose own time of the step changed, and how, without the claimed ones."""
    base, new = alignment.base, alignment.new
    before, after = base.wall.mean(axis=1), new.wall.mean(axis=1)
    middle = np.median(new.wall, axis=1) - np.median(base.wall, axis=1)
    expected = before * np.exp(noise.shift)
    error = difference_errors(base.wall, new.wall, base, new)
    runs = min(base.runs, new.runs)
    error = np.hypot(error, noise.relative * np.minimum(before, after) / np.sqrt(runs))
    change = after - expected
    step = max(before.sum(), after.sum())
    found: list[tuple[int, CauseKind]] = []
    for node in np.argsort(-np.abs(change), kind="stable").tolist():
        worth = _WORTH[alignment.nodes[node].kind in DEVICE_KINDS] * step
        steady = min(abs(change[node]), abs(middle[node])) if change[node] * middle[node] > 0 else 0.0
        if steady < worth or abs(change[node]) < _CLEAR * error[node] or node in claimed:
            continue
        found.append((node, slowdown_kind(node, float(change[node]), alignment)))
    return found


def slowdown_kind(node: int, change: float, alignment: Alignment) -> CauseKind:
    """Return the kind of a change of time of calls that are made as often as before."""
    kind = alignment.nodes[node].kind
    if kind == "communication":
        busy = float(alignment.new.busy[node].mean() - alignment.base.busy[node].mean())
        if change > 0 and busy < change / 2:
            return "exposed"
    if is_input(node, alignment):
        return "stall" if change > 0 else "faster"
    return "slower" if change > 0 else "faster"


def is_input(node: int, alignment: Alignment) -> bool:
    """True for a range that gets the next batch, and for what is in it."""
    chain = (node, *alignment.ancestors(node))
    return any(
        alignment.nodes[one].kind == "loader"
        or (alignment.nodes[one].kind == "range" and _is_input(alignment.nodes[one].name))
        for one in chain
    )


#: A common change of all kernels is noise if it is below this share, or below this many times their scatter.
_LEAST_SHIFT = 0.03
_CLEAR_SHIFT = 4.0
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
    if not other_device and abs(math.expm1(shift)) < max(_LEAST_SHIFT, _CLEAR_SHIFT * scatter):
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
