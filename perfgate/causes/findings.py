"""One change before it is worded: which nodes it explains, and what it costs."""

from __future__ import annotations

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
