"""Group the findings of one change, and give each the time that a device idles because of it.

One change makes several findings. A new operator has a new backward operator, and makes the Python around it slower; a
cast makes the next operator slower. The larger finding takes in the smaller one, and names the cause.

A device that has enough work to do is never idle. After a new synchronisation its queue is empty, so it waits for the
host until the queue has filled again. Between two kernels it is idle for about a microsecond, which counts if there
are many. Both are part of what the change costs. If the base waits for the host anyway, neither can be known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from perfgate.causes.align import Alignment, Finding
from perfgate.causes.kinds import is_input
from perfgate.causes.noise import Noise, classes
from perfgate.causes.paired import PairNoise
from perfgate.core.call_trees import SYNCS
from perfgate.core.causes import CauseKind

#: A finding of less than this part of another one in the same range follows from it.
_MINOR = 0.5
_BACKWARD = re.compile(r"(?:autograd::engine::evaluate_function: )?(?:torch::autograd::)?(\w+?)Backward\d*$")
#: The kinds of findings that are called `moved` if the calls went at one place and came at another.
_EDITS: tuple[CauseKind, ...] = ("appeared", "vanished", "replaced", "more calls", "fewer calls", "sync")


def grouped(findings: Sequence[Finding], alignment: Alignment, noise: Noise | PairNoise) -> list[Finding]:
    """Join the findings that have one cause; return the joined and the other ones.

    The order is that of the largest finding in each. A joined one, such as a move, may cost less than this finding.
    """
    groups: list[Finding] = []
    for finding in sorted(findings, key=lambda finding: (-abs(finding.change), finding.lead)):
        index = next((index for index, group in enumerate(groups) if _belongs(finding, group, alignment)), None)
        if index is None:
            groups.append(finding)
        else:
            groups[index] = _joined(groups[index], finding, alignment, noise)
    return groups


def _belongs(small: Finding, large: Finding, alignment: Alignment) -> bool:
    """True if two findings have one cause: one entry of their column is enough. `minor`: much smaller, and near.

    | two edits | an edit and a time | two times, both longer or both shorter |
    |---|---|---|
    | moved; alike at two places | the edit is in it; a wait for the device | the same call at two places |
    | forward and backward; minor | forward and backward; minor | minor |
    """
    if {"slow rank", "host"} & {small.kind, large.kind}:  # these are about whole ranks, or the whole host
        return False
    if not small.is_edit and not large.is_edit:
        one, other = alignment.nodes[small.lead], alignment.nodes[large.lead]
        is_same_call = one.name == other.name and one.kind != "range"
        return small.change * large.change >= 0 and (is_same_call or _is_minor(small, large, alignment))
    if small.is_edit and large.is_edit:
        is_one = _is_move(small, large, alignment) or _is_alike(small, large, alignment)
    else:
        edit, timing = (small, large) if small.is_edit else (large, small)
        is_one = _surrounds(timing, edit, alignment) or _is_waiting(timing, edit, alignment)
    return is_one or _is_backward_of(small, large, alignment) or _is_minor(small, large, alignment)


def _is_move(one: Finding, other: Finding, alignment: Alignment) -> bool:
    """True if the calls that went at one place came at another."""
    if set(one.parents) & set(other.parents):
        return False
    pairs = ((one.come, other.gone), (one.gone, other.come))
    return any(_overlap(come, gone, alignment) >= 0.5 for come, gone in pairs)


def _is_alike(one: Finding, other: Finding, alignment: Alignment) -> bool:
    """True if the same calls came and went at two places, such as two layers."""
    pairs = ((one.come, other.come), (one.gone, other.gone))
    return one.kind == other.kind and any(_overlap(a, b, alignment) >= 0.5 for a, b in pairs)


def _overlap(some: Sequence[int], others: Sequence[int], alignment: Alignment) -> float:
    """The share of the smaller set of names that the other set has, too; 0 if one is empty."""
    one, other = _names(alignment, some), _names(alignment, others)
    return len(one & other) / max(min(len(one), len(other)), 1)


def _is_minor(small: Finding, large: Finding, alignment: Alignment) -> bool:
    """True if a much smaller finding is below the same node, or in the same range; the step does not count."""
    if abs(small.change) > _MINOR * abs(large.change):
        return False
    parents = [set(small.parents), set(large.parents)]
    ranges = [{_range_around(node, alignment) for node in nodes} for nodes in parents]
    return bool((ranges[0] & ranges[1] - {0}) or (parents[0] & parents[1] - {0}))


def _range_around(node: int, alignment: Alignment) -> int:
    """The nearest range above a node, or the node itself; 0, the step, if it is in none."""
    return next((at for at in alignment.chain(node) if alignment.nodes[at].kind in ("range", "loader")), 0)


def _surrounds(timing: Finding, edit: Finding, alignment: Alignment) -> bool:
    """True if `timing`, a change of time, is in the code around the calls that changed."""
    return any(timing.lead in alignment.chain(parent) for parent in edit.parents)


def _is_waiting(timing: Finding, edit: Finding, alignment: Alignment) -> bool:
    """True if the edit is a new wait of the host for the device, and `timing` can be the device's wait for the host."""
    kind = alignment.nodes[timing.lead].kind
    return edit.kind == "sync" and timing.change > 0 and kind in ("range", "operator", "runtime", "step")


def _is_backward_of(one: Finding, other: Finding, alignment: Alignment) -> bool:
    """True if one is in the backward pass, and the other is the forward of its operators."""
    names = (_names(alignment, _shown(finding, alignment)) for finding in (one, other))
    backward = [any(_BACKWARD.match(name) or name.startswith("autograd::") for name in shown) for shown in names]
    if backward[0] == backward[1]:
        return False
    if one.is_edit and other.is_edit:
        return True  # not by names: what is new in the backward pass comes from what is new in the forward pass
    return bool(_operators(one, alignment) & _operators(other, alignment)) and one.change * other.change > 0


def _shown(finding: Finding, alignment: Alignment) -> set[int]:
    """The lead of a finding, its nodes that came or went, and all nodes above these."""
    return {one for node in (finding.lead, *finding.come, *finding.gone) for one in alignment.chain(node)}


def _names(alignment: Alignment, nodes: Iterable[int]) -> set[str]:
    return {alignment.nodes[node].name for node in nodes}


def _operators(finding: Finding, alignment: Alignment) -> set[str]:
    """The operators of a finding as autograd names them: `aten::_softmax` and `SoftmaxBackward0` are softmax."""
    shown = (alignment.nodes[node] for node in _shown(finding, alignment))
    names = [(node.name, _BACKWARD.match(node.name)) for node in shown if node.kind == "operator"]
    found = (match[1] if match else name.rpartition("::")[2] for name, match in names)
    return {name.replace("_", "").lower() for name in found}


def _joined(large: Finding, small: Finding, alignment: Alignment, noise: Noise | PairNoise) -> Finding:
    """The large finding with the nodes of the small one. An edit names the cause of times around it or of waits."""
    kind, lead = large.kind, large.lead
    nodes = large.nodes | small.nodes
    change, error = noise.change(nodes)
    if small.is_edit and large.is_edit:
        # calls that only moved cost at one place about what they save at the other
        is_move = _is_move(small, large, alignment) and abs(change) <= _MINOR * abs(large.change)
        kind = "moved" if kind in _EDITS and is_move else kind
    elif small.is_edit and (_surrounds(large, small, alignment) or _is_waiting(large, small, alignment)):
        kind, lead = small.kind, small.lead
    return replace(
        large,
        kind=kind,
        lead=lead,
        nodes=nodes,
        idle=large.idle | small.idle,
        parents=(*large.parents, *small.parents),
        gone=(*large.gone, *small.gone),
        come=(*large.come, *small.come),
        change=change,
        error=error,
    )


#: A device that idles for a larger part of the base's step waits for the host anyway.
_MOST_IDLE = 0.25
#: Fewer new kernels, as a share of those of the base, leave no gaps that are worth a look.
_MORE_KERNELS = 0.1


def waiting_nodes(finding: Finding, alignment: Alignment, claimed: AbstractSet[int]) -> set[int]:
    """Return the nodes of the host that run while a device idles because of a finding, without claimed nodes."""
    wall, host = alignment.base.times, classes(alignment)["host"]
    if wall[host].sum() > _MOST_IDLE * wall.sum():
        return set()
    if finding.kind in ("sync", "allocator"):  # all of the range of its lead, or of the step if it is in no range
        above = alignment.chain(finding.lead)
        around = next((node for node in above if alignment.nodes[node].kind in ("range", "thread")), 0)
        found = alignment.subtree([around]) - claimed
        return {node for node in found if host[node] and not is_input(node, alignment)}
    before, after = (side.calls * alignment.of_kind("kernel") for side in alignment.sides)
    gained = float((after - before)[sorted(finding.nodes)].sum())
    all_new = float((after - before).clip(0).sum())
    if gained <= 0 or gained < max(_MORE_KERNELS * before.sum(), all_new / 2):
        return set()  # it has few new kernels, or another finding has more
    # the gaps between its new kernels are time in the calls in which the host waits for the device
    syncs = {at for at, node in enumerate(alignment.nodes) if node.kind == "runtime" and SYNCS.fullmatch(node.name)}
    return syncs - claimed
