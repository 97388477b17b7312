"""Slow ranks, and the data of the pictures of a page: the call tree of both sides, and the time of each rank.

The time of a rank is its own work and its waiting in communication. The own work of a slow rank grew more than that of
the other ranks, and their waiting grew more than its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from perfgate.causes.align import Alignment, Finding
from perfgate.causes.merged import Floats, Masks
from perfgate.causes.noise import Noise, difference_errors
from perfgate.core.causes import Cause, PlaceTime, RankTime

#: The least distance of a slow rank from the others: in standard errors, and as a share of the step.
_CLEAR = 4.0
_WORTH = 0.015
#: The others wait longer by at least this part of the growth of the slow rank.
_WAITED = 0.4
#: Ranks with at least this part of the largest growth are slow.
_NEAR = 0.5
#: Nodes with a smaller part of the growth are not part of the cause.
_PART = 0.05


def find_slow_ranks(alignment: Alignment, noise: Noise) -> Finding | None:
    """Return the finding of the ranks that became slow, or None."""
    base, new = alignment.base.rank_wall, alignment.new.rank_wall
    ranks = [rank for rank in base if rank in new]
    is_comm = communication(alignment)
    if len(ranks) < 2 or not is_comm.any():
        return None
    change = np.array([new[rank] - base[rank] for rank in ranks])
    beyond = change - _median_of_others(change)
    own, waiting = _clear_growth(beyond, is_comm, alignment, noise), change[:, is_comm].sum(axis=1)
    slow = np.flatnonzero(own >= max(_NEAR * own.max(), 1e-12))
    others = np.delete(np.arange(len(ranks)), slow)
    if not len(slow) or not len(others) or len(slow) > max(len(ranks) // 2, 1):
        return None
    step = max(float(side.wall.sum(axis=0).mean()) for side in alignment.sides)
    extra, waited = own[slow].min(), waiting[others].mean() - waiting[slow].mean()
    if extra < _WORTH * step or waited < _WAITED * extra:
        return None
    shares = beyond[slow].mean(axis=0)
    nodes = np.flatnonzero(is_comm | (shares > _PART * extra))
    lead = int(np.argmax(np.where(is_comm, -np.inf, shares)))
    size, error = noise.change(nodes.tolist())
    found = tuple(sorted((ranks[at] for at in slow.tolist()), key=lambda rank: (len(rank), rank)))
    parent = max(alignment.nodes[lead].parent, 0)
    return Finding("slow rank", frozenset(nodes.tolist()), lead, (parent,), ranks=found, change=size, error=error)


def _median_of_others(values: Floats) -> Floats:
    """Return for each rank the median of the other ranks, (ranks, n), of values of the same shape.

    The values are sorted once: a thousand medians of a thousand ranks each take half a minute.
    """
    order = np.argsort(values, axis=0, kind="stable")
    place = np.argsort(order, axis=0, kind="stable")
    ordered, others = np.take_along_axis(values, order, axis=0), len(values) - 1
    low, high = (np.where(at < place, ordered[at], ordered[at + 1]) for at in ((others - 1) // 2, others // 2))
    found: Floats = low if others % 2 else (low + high) / 2
    return found


def _clear_growth(beyond: Floats, is_comm: Masks, alignment: Alignment, noise: Noise) -> Floats:
    """Return the growth of each rank's own work beyond that of the others, (ranks,), in s.

    Nodes that noise explains do not count.
    """
    base, new, count = alignment.base, alignment.new, len(beyond)
    # The mean over ranks is less noisy than one rank; a difference of two ranks is noisier.
    error = difference_errors(base.wall, new.wall, base, new) * math.sqrt(2 * count)
    error = np.hypot(error, math.sqrt(2) * noise.relative * np.maximum(base.wall.mean(axis=1), 1e-6))
    clear = np.where(~is_comm & (beyond > _CLEAR * error), beyond, 0).sum(axis=1)
    whole = beyond[:, ~is_comm].sum(axis=1)
    limit = _CLEAR * math.sqrt(float((error[~is_comm] ** 2).sum()))
    found: Floats = np.maximum(clear, np.where(whole > limit, whole, 0))
    return found


def communication(alignment: Alignment) -> Masks:
    """True for the nodes of communication, and for what they call, (n,)."""
    found = np.zeros(len(alignment.nodes), bool)
    for index, node in enumerate(alignment.nodes):
        own = node.kind in ("communication", "collective") or node.name.startswith(("c10d::", "nccl:", "gloo:"))
        found[index] = own or (node.parent > 0 and found[node.parent])
    return found


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
    sides = [side.wall.mean(axis=1).tolist() for side in alignment.sides]
    for node in range(len(alignment.nodes) - 1, 0, -1):
        for times in sides:
            times[alignment.nodes[node].parent] += times[node]
    return sides[0], sides[1]


def _of_causes(alignment: Alignment, causes: Sequence[Cause], children: dict[int, list[int]]) -> set[int]:
    """The nodes at the places of causes of time, and those above them."""
    found: set[int] = set()
    for place in {place for cause in causes if cause.metric != "memory" for place in (cause.where, *cause.places)}:
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
