"""The line of the program behind a cause.

Kernels, and the calls of the backward pass, are not called by Python. Their line is the line of the operator that
launched them, or that of the calls of the forward pass that came or went with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.causes.align import Alignment
from perfgate.causes.findings import Finding, busy_change


def source_of(finding: Finding, alignment: Alignment) -> str:
    """Return the line of a finding, `model.py(31): forward`; empty if the traces have no stacks."""
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
