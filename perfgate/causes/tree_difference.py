"""Data of the pictures of a page: the call tree with the times of both sides, and the time of each rank."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from perfgate.causes.align import Alignment
from perfgate.causes.findings import Finding
from perfgate.causes.ranks import communication
from perfgate.core.causes import Cause, PlaceTime, RankTime

#: Places with less than this share of the longer step are drawn as one with their neighbours.
_LEAST_SHARE = 0.005
#: The most places, without those of causes and without pools.
_MOST_PLACES = 150


def not_timed(alignment: Alignment, findings: Sequence[Finding]) -> frozenset[int]:
    """The timers that only one side has and that no finding explains: the other side did not time them."""
    explained = {node for finding in findings for node in finding.nodes}
    one_sided = (alignment.base.counts.sum(axis=1) > 0) != (alignment.new.counts.sum(axis=1) > 0)
    return frozenset(np.flatnonzero(one_sided).tolist()) - explained


def place_times(
    alignment: Alignment, causes: Sequence[Cause], hidden: AbstractSet[int] = frozenset()
) -> tuple[PlaceTime, ...]:
    """Return the places that take the most time on one side, and those of all causes; the step is first.

    Small places below the same parent are pooled, and hidden ones are a part of their parent. Parents are before their
    children, and children are in the order of their first calls.
    """
    base, new = _with_calls(alignment)
    least = _LEAST_SHARE * max(base[0], new[0])
    sizes = [max(pair) for pair in zip(base, new, strict=True)]
    children = alignment.children()
    large = sorted((node for node, size in enumerate(sizes) if size >= least), key=lambda node: -sizes[node])
    kept = {0, *large[:_MOST_PLACES], *_of_causes(alignment, causes, children)}
    found: list[PlaceTime] = []
    waiting = [(0, -1)]
    while waiting:
        node, parent = waiting.pop()
        at = len(found)
        found.append(PlaceTime(alignment.nodes[node].name, parent, base[node], new[node]))
        below = [child for child in children.get(node, []) if child not in hidden]
        small = [child for child in below if child not in kept]
        pool = sum(base[child] for child in small), sum(new[child] for child in small)
        if max(pool) >= least:
            found.append(PlaceTime("", at, *pool, pooled=len(small)))
        waiting += [(child, at) for child in reversed(below) if child in kept]
    return tuple(found)


def _with_calls(alignment: Alignment) -> tuple[list[float], list[float]]:
    """The time of each node with all that it calls, on both sides in s per step."""
    sides = [side.wall.mean(axis=1).tolist() for side in (alignment.base, alignment.new)]
    for node in range(len(alignment.nodes) - 1, 0, -1):
        for times in sides:
            times[alignment.nodes[node].parent] += times[node]
    return sides[0], sides[1]


def _of_causes(alignment: Alignment, causes: Sequence[Cause], children: dict[int, list[int]]) -> set[int]:
    """The nodes at the places of causes of time, and those above them."""
    found: set[int] = set()
    for place in {place for cause in causes if cause.metric == "time" for place in (cause.where, *cause.places)}:
        node = 0
        for name in place:
            named = [child for child in children.get(node, []) if alignment.nodes[child].name == name]
            if not named:
                break
            node = named[0]
            found.add(node)
    return found


def rank_times(alignment: Alignment, hidden: AbstractSet[int] = frozenset()) -> tuple[RankTime, ...]:
    """Return the own work and the communication of each rank that both sides have; empty for a single rank.

    Hidden communication is work, because only one side can tell it from work.
    """
    base, new = alignment.base.rank_wall, alignment.new.rank_wall
    ranks = sorted((rank for rank in base if rank in new), key=lambda rank: (len(rank), rank))
    if len(ranks) < 2:
        return ()
    waits = communication(alignment)
    waits[sorted(hidden)] = False
    times = [[float(side[rank][part].sum()) for side in (base, new) for part in (~waits, waits)] for rank in ranks]
    return tuple(RankTime(rank, *four) for rank, four in zip(ranks, times, strict=True))
