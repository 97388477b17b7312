"""The kinds of changes: calls that came or went, other times, all kernels at once, and the peak of the memory.

Edits are found from the step down. An edit is the children of one node whose numbers of calls changed; the node itself
is called as often on both sides. Changes below such a child follow from it, so they are not looked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.causes.align import Alignment, Finding, TreeSide
from perfgate.causes.host import HostSpeed, is_slower_itself
from perfgate.causes.merged import Floats
from perfgate.causes.noise import Noise, classes, standard_errors, time_errors
from perfgate.core.call_trees import DEVICE_KINDS, SYNCS, CallNode
from perfgate.core.causes import Cause, CauseKind

#: A number of calls changed if its difference is larger than this many standard errors; steps may differ.
_CLEAR_COUNT = 4.0
#: In an edit, calls that came do not count if their time is less than this part of that of the calls that went; and
#: the other way around.
_PART = 0.05
#: Operators that make a view of a tensor, and take no time.
_is_view = re.compile(r"aten::(?:select|view|slice|detach|reshape|squeeze|flatten|alias|narrow|as_strided)").fullmatch
#: Calls that wait for the device, or read one number from it.
is_sync = re.compile(rf"aten::(?:item|_local_scalar_dense|is_nonzero|equal)|{SYNCS.pattern}").fullmatch


class Edit(Struct, frozen=True):
    """The children of one node that are called less often (`gone`), and more often (`come`)."""

    parent: int
    gone: tuple[int, ...]
    come: tuple[int, ...]

    @property
    def nodes(self) -> tuple[int, ...]:
        """All of them."""
        return (*self.gone, *self.come)


def find_edits(alignment: Alignment, claimed: Collection[int] = ()) -> list[Edit]:
    """Return the edits from the step down, without the claimed nodes, which other findings have."""
    base, new, change = alignment.base, alignment.new, alignment.more_calls
    error = np.hypot(standard_errors(base.counts, base), standard_errors(new.counts, new))
    least = np.maximum(_CLEAR_COUNT * error, 1e-6)
    edits: list[Edit] = []
    parents = [0]
    while parents:
        parent = parents.pop(0)
        below = [node for node in alignment.children[parent] if node not in claimed]
        gone = tuple(node for node in below if change[node] < -least[node])
        come = tuple(node for node in below if change[node] > least[node])
        edit = Edit(parent, gone, come)
        if edit.nodes:
            edits.append(edit)
        parents += [node for node in below if abs(change[node]) <= least[node]]
    return edits


def kind_of(edit: Edit, alignment: Alignment) -> CauseKind:
    """The kind of an edit by its own calls; other edits are not looked at."""
    lost = {node: max(-float(alignment.busier[node]), 0.0) for node in edit.gone}
    gained = {node: max(float(alignment.busier[node]), 0.0) for node in edit.come}
    has_come = bool(edit.come) and sum(gained.values()) >= _PART * sum(lost.values())
    has_gone = bool(edit.gone) and sum(lost.values()) >= _PART * sum(gained.values())
    if has_come and has_gone:
        return "replaced"
    if has_come:
        if _waits(edit.come, alignment):
            return "sync"
        return "appeared" if _has_few_of(alignment.base, gained) else "more calls"
    return "vanished" if _has_few_of(alignment.new, lost) else "fewer calls"


def _has_few_of(side: TreeSide, times: Mapping[int, float]) -> bool:
    """True if a side makes none of these calls, or those that it makes have less than half of their time."""
    made = [time for node, time in times.items() if side.counts[node].any()]
    return not made or sum(made) < sum(times.values()) / 2


def _waits(come: tuple[int, ...], alignment: Alignment) -> bool:
    """True if the calls that came wait for the device: by calls of the runtime, or if half of them read one number.

    `others` are all calls but views of tensors, which are no work.
    """
    nodes, gained = alignment.nodes, alignment.more_calls.tolist()
    if any(SYNCS.fullmatch(nodes[node].name) and gained[node] > 0 for node in alignment.subtree(come)):
        return True
    reads = sum(gained[node] for node in come if is_sync(nodes[node].name))
    others = sum(gained[node] for node in come if not _is_view(nodes[node].name))
    return bool(reads >= others / 2 and reads > 0)


#: The change of one node of many is not noise if it is larger than this many of its standard errors.
_CLEAR = 5.0
#: Smaller changes of a node of a device, and of the host, as a share of the step, are not worth a line.
_WORTH_ON_DEVICE, _WORTH_ON_HOST = 0.003, 0.012
#: A wait for a batch is clear if it is longer than all base waits by this share of the base's step; and the fewest
#: steps of a side that can show this.
_LONG_WAIT, _FEWEST_WAITS = 0.1, 3
#: Ranges in which a program gets its next batch: `enumerate(DataLoader)`, `get_batch`, `next_data_time`, `prefetch`.
_is_input = re.compile(
    r"enumerate\(Data|.*data_?loader|(?:\W|_)*(?:(?:get|load|next|fetch|read|prepare|wait)_?)*"
    r"(?:data|dataset|batch|batches|input|inputs|samples?)(?:_?(?:load|loading|time|wait|fetch|next|prep|get))*\W*$"
    r"|.*(?:prefetch|fetch_batch|load_batch|next_batch|data_iter|batch_generator)",
    re.IGNORECASE | re.DOTALL,
).match


def find_slowdowns(alignment: Alignment, noise: Noise, speed: HostSpeed, claimed: AbstractSet[int]) -> list[Finding]:
    """Return the nodes whose own time changed, the largest change first, without claimed nodes."""
    base, new = alignment.base, alignment.new
    change = new.times - base.times * np.exp(noise.shift)  # without the shift that all nodes of its class have
    # the median, which a few stalled steps do not move, must have changed, too: the smaller change counts
    of_median = np.median(new.wall, axis=1) - np.median(base.wall, axis=1)
    steady = np.where(change * of_median > 0, np.minimum(np.abs(change), np.abs(of_median)), 0.0)
    worth = np.where(alignment.of_kind(*DEVICE_KINDS), _WORTH_ON_DEVICE, _WORTH_ON_HOST) * alignment.step
    of_runs = noise.relative * np.minimum(base.times, new.times) / np.sqrt(min(base.runs, new.runs))
    error = np.hypot(time_errors(base, new), of_runs)
    is_clear = (steady >= worth) & (np.abs(change) >= _CLEAR * error)
    masks = classes(alignment)
    may_wait = masks["host"] & masks["device"].any()  # without a device, the host waits for none
    found: list[Finding] = []
    for node in np.argsort(-np.abs(change), kind="stable").tolist():
        if node in claimed or not (is_clear[node] or _waits_for_input(node, alignment)):
            continue
        size = float(change[node])
        # a call that waits for the device has no work of its own
        is_own = not SYNCS.fullmatch(alignment.nodes[node].name) and is_slower_itself(node, size, speed)
        if may_wait[node] and not is_own and not is_input(node, alignment):
            continue  # its change follows from the device, or from a host that is slower as a whole
        kind = slowdown_kind(node, size, alignment)
        cost, cost_error = noise.change([node])  # the whole difference; `size` is without the shift
        parent = max(alignment.nodes[node].parent, 0)  # the step has none: it is its own
        found.append(Finding(kind, frozenset([node]), lead=node, parents=(parent,), change=cost, error=cost_error))
    return found


def _waits_for_input(node: int, alignment: Alignment) -> bool:
    """True if a node gets batches, and most new steps wait in it clearly longer than any base step does."""
    before, after = alignment.base.wall[node], alignment.new.wall[node]
    if len(before) < _FEWEST_WAITS or len(after) < _FEWEST_WAITS or not is_input(node, alignment):
        return False
    least = float(before.max()) + _LONG_WAIT * alignment.base.step
    return bool(np.mean(after > least) > 0.5)


def slowdown_kind(node: int, change: float, alignment: Alignment) -> CauseKind:
    """Return the kind of a change of time (in s) of a node that is called as often as before.

    Communication is `exposed` if its own duration explains less than half of the change: it overlapped work before.
    """
    kind = alignment.nodes[node].kind
    if kind == "communication" and change > 0 and alignment.busier[node] < change / 2:
        return "exposed"
    if is_input(node, alignment):
        return "stall" if change > 0 else "faster"
    return "slower" if change > 0 else "faster"


def is_input(node: int, alignment: Alignment) -> bool:
    """True for a range that gets the next batch, and for every node in it."""
    callers = (alignment.nodes[caller] for caller in alignment.chain(node))
    return any(caller.kind == "loader" or (caller.kind == "range" and _is_input(caller.name)) for caller in callers)


#: A common change of all kernels is noise if it is below this share, or below this many times their scatter.
_LEAST_SHIFT, _CLEAR_SHIFT = 0.03, 4.0
#: If this many operators, with this part of the device's time, run other kernels, the library or device is another one.
_OPERATORS, _MOST_TIME = 4, 0.5


def find_machine(alignment: Alignment, noise: Noise, claimed: set[int], *, other_device: bool) -> Finding | None:
    """Return the finding that the device became faster or slower as a whole, or is another one; else None."""
    nodes = [node for node in np.flatnonzero(classes(alignment)["device"]).tolist() if node not in claimed]
    if not nodes:
        return None
    shift, scatter = float(noise.shift[nodes[0]]), float(noise.relative[nodes[0]])  # nodes of a class have the same
    if not other_device and abs(math.expm1(shift)) < max(_LEAST_SHIFT, _CLEAR_SHIFT * scatter):
        return None
    change, error = noise.change(nodes)
    lead = max(nodes, key=lambda node: float(alignment.base.times[node]))
    return Finding("machine", frozenset(nodes), lead, (alignment.nodes[lead].parent,), change=change, error=error)


def many_swaps(findings: Sequence[Finding], alignment: Alignment) -> list[Finding]:
    """Return the findings of operators that run other kernels; none unless these have most of the device's time."""
    swaps = [finding for finding in findings if _runs_other_kernels(finding, alignment)]
    if len(swaps) < _OPERATORS:
        return []
    gone = [node for swap in swaps for node in swap.gone]
    come = [node for swap in swaps for node in swap.come]
    is_device = classes(alignment)["device"]
    for side, nodes in ((alignment.base, gone), (alignment.new, come)):
        durations = np.where(is_device, side.durations, 0.0)
        if durations[nodes].sum() <= _MOST_TIME * durations.sum():
            return []
    return swaps


def _runs_other_kernels(finding: Finding, alignment: Alignment) -> bool:
    """True if only work of a device came and went, with its launches, and operators run it."""
    for changed in (finding.gone, finding.come):
        kinds = {alignment.nodes[node].kind for node in changed}
        if kinds.isdisjoint(DEVICE_KINDS) or not kinds <= {*DEVICE_KINDS, "runtime"}:
            return False
    return all(alignment.nodes[parent].kind == "operator" for parent in finding.parents)


#: A change of the peak below the larger of these two, in bytes and as a share of the peak, is noise of the allocator.
_LEAST_BYTES = 1 << 20
_LEAST_SHARE = 0.05
#: A place explains at least this part of the change.
_EXPLAINED = 0.5


def find_memory(alignment: Alignment) -> tuple[tuple[Cause, ...], tuple[str, ...]]:
    """Return the cause of a large change of the peak, the place that uses more or less; and the notes about it.

    If no place explains the change, there is a note instead of a cause.
    """
    base, new = alignment.base, alignment.new
    if base.memory is None or new.memory is None or base.peak is None or new.peak is None:
        return (), ()
    change = new.peak - base.peak
    if abs(change) < max(_LEAST_BYTES, _LEAST_SHARE * max(base.peak, new.peak)):
        return (), ()
    least = _EXPLAINED * abs(change)
    by_line = (new.memory - base.memory) * np.sign(change)  # positive where memory changed as the peak did
    grown = by_line.copy()  # the same, with lines added to their function: line numbers differ between the sides
    for index, node in enumerate(alignment.nodes):
        if _is_line(node):
            grown[node.parent] += by_line[index]
            grown[index] = 0.0
    whole = alignment.with_below(grown)
    grown[0] = -math.inf  # the step itself is not a place: no recorded call made its allocations
    place = int(np.argmax(grown))
    if grown[place] < least:
        place = _around(whole, alignment, least)
    if place == 0:
        why = "mostly before the traces begin" if whole[0] < least else "but no call in the traces explains half of it"
        return (), (f"the peak of allocated memory changed by {change / (1 << 20):+.1f} MiB, {why}",)
    where = alignment.path(place)
    lines = [child for child in alignment.children[place] if _is_line(alignment.nodes[child])]
    # Only a snapshot has lines, which give the size of a place. Without them, and for a place around several others,
    # the size is the change of the whole peak.
    size = math.copysign(float(grown[place]), change) if lines and grown[place] >= least else change
    noise = _LEAST_SHARE * min(base.peak, new.peak)
    cause = Cause("memory", where, "memory", size, low=size - noise, high=size + noise, share=1.0, places=(where,))
    shown = max(lines, key=lambda line: float(by_line[line]), default=place)
    return (replace(cause, source=alignment.nodes[shown].source),), ()


def _is_line(node: CallNode) -> bool:
    """True for a node that is a line of the function above it; snapshots of memory have such nodes."""
    return node.name == node.source != ""


def _around(whole: Floats, alignment: Alignment, least: float) -> int:
    """The innermost node for which `whole`, the growth with all that it calls, is at least `least` bytes; else 0."""
    place = 0
    while below := [child for child in alignment.children[place] if whole[child] >= least]:
        place = max(below, key=lambda child: float(whole[child]))
    return place
