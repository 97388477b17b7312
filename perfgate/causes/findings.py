"""One change before it is worded: which nodes it explains, what it costs, and its line in the program."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perfgate.causes.align import Alignment
from perfgate.core.causes import CauseKind


class Finding(Struct, frozen=True):
    """A change of calls (with `gone` or `come`), or of the time of calls that did not change (without)."""

    kind: CauseKind
    #: The nodes whose time it explains; no node belongs to two findings.
    nodes: frozenset[int]
    #: The node that shows it best, and the nodes whose children changed.
    lead: int
    parents: tuple[int, ...]
    gone: tuple[int, ...] = ()
    come: tuple[int, ...] = ()
    ranks: tuple[str, ...] = ()
    #: New minus base in s per step, and its standard error.
    change: float = 0.0
    error: float = 0.0

    @property
    def is_edit(self) -> bool:
        """True if calls came or went."""
        return bool(self.gone or self.come)


def busy_change(alignment: Alignment, node: int) -> float:
    """New minus base of the durations of a node's calls, in s per step."""
    return float(alignment.new.busy[node].mean() - alignment.base.busy[node].mean())


def names_of(alignment: Alignment, nodes: tuple[int, ...]) -> frozenset[str]:
    """The names of nodes."""
    return frozenset(alignment.nodes[node].name for node in nodes)


def source_of(finding: Finding, alignment: Alignment) -> str:
    """Return the line of a finding, `model.py(31): forward`; empty if the traces have no stacks.

    Python does not call kernels, nor the calls of the backward pass. Their line is the line of the operator that
    launched them, or that of the calls of the forward pass that came or went with them.
    """
    shown = (finding.lead, *_by_size(finding.come, alignment), *_by_size(finding.gone, alignment))
    lines = [_line(node, alignment) for node in shown]
    nodes, above = alignment.nodes, alignment.ancestors(finding.lead)
    ranges = [nodes[node].source for node in above if nodes[node].kind == "range"]
    return next((line for line in (*lines, *ranges) if line), "")


def _by_size(found: Sequence[int], alignment: Alignment) -> list[int]:
    return sorted(found, key=lambda node: -abs(busy_change(alignment, node)))


def _line(node: int, alignment: Alignment) -> str:
    """The line of a node, or of the nearest operator above it; of the range that it is in only if it is that range."""
    nodes = alignment.nodes
    for one in (node, *alignment.ancestors(node)):
        if nodes[one].source and (one == node or nodes[one].kind != "range"):
            return nodes[one].source
        if nodes[one].kind == "range":
            break
    return ""
