"""One rank that became slow, and the ranks that wait for it in collectives.

The time of a rank is its own work and its waiting in communication. A culprit's own work grew more than that of the
other ranks, while their waiting grew more than its own.
"""

from __future__ import annotations

import math

import numpy as np

from perfgate.causes.align import Alignment
from perfgate.causes.findings import Finding
from perfgate.causes.merged import Floats, Masks
from perfgate.causes.noise import Noise, difference_errors

#: The distance of a culprit from the other ranks: in standard errors, and at least this share of the step.
_CLEAR = 4.0
_WORTH = 0.015
#: The least part of the culprit's growth that the others wait longer.
_WAITED = 0.4
#: The culprits are those with at least this part of the largest growth.
_NEAR = 0.5
#: Nodes with less of the culprit's growth are not part of the cause.
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
    culprits = np.flatnonzero(own >= max(_NEAR * own.max(), 1e-12))
    others = np.delete(np.arange(len(ranks)), culprits)
    if not len(culprits) or not len(others) or len(culprits) > max(len(ranks) // 2, 1):
        return None
    step = max(float(side.wall.sum(axis=0).mean()) for side in (alignment.base, alignment.new))
    extra, waited = own[culprits].min(), waiting[others].mean() - waiting[culprits].mean()
    if extra < _WORTH * step or waited < _WAITED * extra:
        return None
    shares = beyond[culprits].mean(axis=0)
    nodes = np.flatnonzero(is_comm | (shares > _PART * extra))
    lead = int(np.argmax(np.where(is_comm, -np.inf, shares)))
    size, error = noise.change(nodes.tolist())
    found = tuple(sorted((ranks[at] for at in culprits.tolist()), key=lambda rank: (len(rank), rank)))
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
