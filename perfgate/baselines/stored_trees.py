"""Write the call tree of a run as one string (`documents.tree_texts`) that fits into a given number of bytes.

If it does not fit, smaller nodes lose detail: their times by group of steps, then the nodes themselves are pooled into
the node that called them. The times of each rank get the room that is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import msgspec
import numpy as np

from perfgate.causes.merged import Floats, Masks, in_groups, merged, with_pools
from perfgate.core.call_trees import CallTree
from perfgate.core.wording import utf8_text
from perfgate.documents.tree_texts import MOST_GROUPS, NANOSECOND, Times, TreeDocument

#: Nodes with less than this share of the step have one mean instead of a time for each group: the shares in the order
#: in which they are tried.
_IN_DETAIL = (0.0002, 0.001, 0.005, 0.02)
#: Then calls with less than this share of the step are pooled.
_POOLED = (0.00001, 0.0001, 0.001, 0.01, 0.05)
#: The part of the room that is kept for the differences between ranks.
_FOR_RANKS = 0.4
#: The unit of the differences between ranks, and the least difference that is stored, as shares of the step.
_RANK_UNIT, _LEAST_DIFFERENCE = 1e-5, 2e-4


def write_tree(trees: Sequence[CallTree], room: int) -> str | None:
    """Return the trees of the ranks of a run as a string of at most `room` bytes in a file; None if it cannot fit."""
    tree = in_groups(merged(trees), MOST_GROUPS)  # the mean of all ranks
    for_nodes = room * (1 - _FOR_RANKS) if len(tree.ranks) > 1 else room
    whole = ((tree, detail) for detail in _IN_DETAIL)
    pooled = ((with_pools(tree, share), _IN_DETAIL[-1]) for share in _POOLED)
    for shorter, detail in chain(whole, pooled):
        found = _stored(shorter, detail)
        if _size(found) <= for_nodes:
            return msgspec.json.encode(_with_ranks(found, shorter, room)).decode()
    return None


def _size(found: TreeDocument) -> int:
    """The bytes in a file: a string in JSON has a backslash before each quote."""
    text = msgspec.json.encode(found)
    return len(text) + text.count(b'"') + text.count(b"\\") + 2


def _stored(tree: CallTree, detail: float) -> TreeDocument:
    """The tree without times of ranks; nodes with less than the share `detail` of the step have one mean."""
    # `setdefault` numbers the names, and below them the lines, in the order of their first nodes
    names: dict[tuple[str, str], int] = {}
    called = [names.setdefault((utf8_text(node.name), node.kind), len(names)) for node in tree.nodes]
    lines: dict[str, int] = {}
    with_source = [(at, utf8_text(node.source)) for at, node in enumerate(tree.nodes) if node.source]
    sources = [(at, lines.setdefault(line, len(lines))) for at, line in with_source]
    least = detail * float(tree.step_times.mean())
    in_detail = np.maximum(tree.busy.mean(axis=1), tree.wall.mean(axis=1)) >= least
    # a whole number is shorter in JSON as an int
    counts = [[int(one) if one.is_integer() else one for one in row] for row in np.round(tree.counts, 6).tolist()]
    first = np.full(len(tree.nodes), np.inf) if tree.first is None else tree.first
    return TreeDocument(
        ranks=[utf8_text(rank) for rank in tree.ranks],
        steps=tree.steps,
        names=list(names),
        parents=[node.parent for node in tree.nodes],
        called=called,
        # in µs; -1 if it is unknown
        first=[round(time * 1e6) if np.isfinite(time) else -1 for time in first.tolist()],
        counts=[row if len(set(row)) > 1 else row[0] for row in counts],
        busy=_times(tree.busy, in_detail),
        wall=_times(tree.wall, in_detail),
        groups=tree.wall.shape[1],
        has_steps=tree.has_steps,
        lines=list(lines),
        sources=sources,
        memory=_whole_numbers(tree.memory),
        peak=tree.peak,
        blocks=_whole_numbers(tree.blocks),
        pooled=sorted(tree.pooled),
    )


def _whole_numbers(values: Floats | None) -> list[tuple[int, int]] | None:
    """The nodes whose value is not 0, each with its value as a whole number; None if no values are known."""
    return None if values is None else [(at, round(one)) for at, one in enumerate(values.tolist()) if round(one)]


def _times(values: Floats, in_detail: Masks) -> Times:
    """The times of each node in ns: one for each group of steps if they differ and it is in detail, else the mean."""
    rows = np.round(values / NANOSECOND).astype(np.int64).tolist()
    means = np.round(values.mean(axis=1) / NANOSECOND).astype(np.int64).tolist()
    nodes = zip(rows, means, in_detail.tolist(), strict=True)
    return [row if is_detailed and len(set(row)) > 1 else mean for row, mean, is_detailed in nodes]


def _with_ranks(found: TreeDocument, tree: CallTree, room: int) -> TreeDocument:
    """The tree with the times of each rank for as many nodes as fit, those with the largest differences first."""
    if tree.rank_wall is None or len(tree.rank_wall) < 2:
        return found
    walls = np.array(list(tree.rank_wall.values()))
    differences = walls - tree.wall.mean(axis=1)
    step = float(tree.step_times.mean())
    unit = max(1, round(_RANK_UNIT * step / NANOSECOND))
    largest = np.abs(differences).max(axis=0)
    nodes = [at for at in np.argsort(-largest, kind="stable").tolist() if largest[at] >= _LEAST_DIFFERENCE * step]
    scaled = np.round(differences / (unit * NANOSECOND)).astype(np.int64)
    most = len(nodes)
    while most:
        chosen = sorted(nodes[:most])
        rows = scaled[:, chosen].tolist()
        whole = msgspec.structs.replace(found, rank_unit=unit, rank_nodes=chosen, rank_walls=rows)
        if _size(whole) <= room:
            return whole
        most = most * 3 // 4
    return found
