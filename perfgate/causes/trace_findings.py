"""Find the changes between two sides of traces: what is looked for, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from msgspec.structs import replace

from perfgate.causes import kinds
from perfgate.causes.align import Alignment, Finding
from perfgate.causes.grouping import waiting_nodes
from perfgate.causes.host import find_host, host_speed
from perfgate.causes.noise import Noise
from perfgate.causes.paired import PairNoise, find_paired_slowdowns
from perfgate.causes.ranks import find_slow_ranks
from perfgate.causes.recognised import recognised
from perfgate.core.call_trees import LAUNCHES


def find_in_traces(
    alignment: Alignment, noise: Noise | PairNoise, *, other_device: bool
) -> tuple[list[Finding], list[str]]:
    """Return the findings before they are grouped, and notes for the user.

    The order is: a slow rank, edits (calls that came or went), the machine, other times, the host as a
    whole. A node belongs to the first finding that claims it.
    """
    slow = find_slow_ranks(alignment, noise) if isinstance(noise, Noise) and not other_device else None
    findings = [slow] if slow is not None else []
    findings += _edits(alignment, noise, _nodes_of(findings), other_device=other_device)
    swaps, notes = kinds.many_swaps(findings, alignment), list[str]()
    if swaps:
        notes.append(f"{len(swaps)} operators run kernels with other names: they are compared by operator")
        findings = [finding for finding in findings if finding not in swaps]
        if not other_device:  # otherwise `find_machine` claims the swapped kernels
            findings.append(_as_one(swaps, noise))
    if not isinstance(noise, Noise):  # both sides of pairs ran on one machine
        return [*findings, *find_paired_slowdowns(alignment, noise, _nodes_of(findings))], notes
    machine = kinds.find_machine(alignment, noise, _nodes_of(findings), other_device=other_device)
    findings += [machine] if machine is not None else []
    speed = host_speed(alignment)
    findings += kinds.find_slowdowns(alignment, noise, speed, _nodes_of(findings))
    host = find_host(alignment, noise, speed, _nodes_of(findings))
    findings += [host] if host is not None else []
    return findings, notes


def _nodes_of(findings: Iterable[Finding]) -> set[int]:
    return {node for finding in findings for node in finding.nodes}


def _edits(
    alignment: Alignment, noise: Noise | PairNoise, claimed: AbstractSet[int], *, other_device: bool
) -> list[Finding]:
    """Return the edits without claimed nodes. If the device idles because of an edit, that is part of its cost."""
    findings = [] if other_device else recognised(alignment, claimed, noise)
    claimed = claimed | _nodes_of(findings)
    for edit in kinds.find_edits(alignment, claimed):
        findings.append(_of_edit(edit, frozenset(alignment.subtree(edit.nodes) - claimed), alignment))
    claimed = claimed | _nodes_of(findings)
    with_costs = []
    for finding in findings:
        idle = frozenset(waiting_nodes(finding, alignment, claimed))
        claimed |= idle
        change, error = noise.change(finding.nodes | idle)
        with_costs.append(replace(finding, nodes=finding.nodes | idle, idle=idle, change=change, error=error))
    return with_costs


def _as_one(swaps: Sequence[Finding], noise: Noise | PairNoise) -> Finding:
    """The operators that run other kernels as one finding."""
    largest = max(swaps, key=lambda swap: abs(swap.change))
    nodes = frozenset(_nodes_of(swaps))
    change, error = noise.change(nodes)
    parents = tuple(parent for swap in swaps for parent in swap.parents)
    gone = tuple(node for swap in swaps for node in swap.gone)
    come = tuple(node for swap in swaps for node in swap.come)
    return Finding("replaced", nodes, largest.lead, parents, gone=gone, come=come, change=change, error=error)


def _of_edit(edit: kinds.Edit, nodes: frozenset[int], alignment: Alignment) -> Finding:
    """The finding of an edit, without its cost. Its lead is the call whose time changed most.

    If possible, that is a call that came and no launch; for a new wait, it is a call that waits.
    """
    kind, names = kinds.kind_of(edit, alignment), alignment.nodes
    shown = edit.come if edit.come and kind not in ("vanished", "fewer calls") else edit.nodes
    if kind == "sync":
        below = sorted(alignment.subtree(edit.come))
        shown = tuple(node for node in below if kinds.is_sync(names[node].name)) or shown
    lead = max(shown, key=lambda node: (not LAUNCHES.fullmatch(names[node].name), abs(alignment.busier[node])))
    return Finding(kind, nodes, lead, parents=(edit.parent,), gone=edit.gone, come=edit.come)
