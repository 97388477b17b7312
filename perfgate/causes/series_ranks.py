"""One rank that became slow, from the timers of each rank.

The own work of a rank is in timers without others inside that are not communication. The own work of a slow rank grew
more than that of the other ranks. The others wait for it: in communication, or in a later timer that hides it. So of
two ranks that grew in different timers, the slow one is the one that grew in the earlier timer.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from perfgate.causes.align import Alignment
from perfgate.causes.merged import Floats
from perfgate.causes.noise import SeriesNoise
from perfgate.stats.distributions import t_quantile

#: The probability that noise makes a rank slow.
_FALSE = 0.002
#: The least growth of a slow rank beyond the other ranks, as a share of the step.
_WORTH = 0.015
#: Slow ranks are those with at least this part of the largest growth.
_NEAR = 0.5
#: Nodes with less of the growth of the slow rank are not part of the cause.
_PART = 0.1
#: A slow rank lacks at least this part of the others' longer communication, and its growth is at least that part of it.
_WAITED = 0.5
#: Without several runs: the standard deviation between runs of the work of one rank, beside the other ranks.
_PRIOR, _PRIOR_FREEDOM = 0.03, 20.0
_NORMAL_MAD = 1.4826
_MODERATION = 6.0
#: With more ranks, one does not move their median.
_MANY = 32


class SlowRank(Struct, frozen=True):
    """The slow ranks, the nodes with their work and with the waiting of the others, and the node that shows it best."""

    ranks: tuple[str, ...]
    nodes: frozenset[int]
    lead: int


def find_slow_rank(alignment: Alignment, noise: SeriesNoise) -> SlowRank | None:
    """Return the ranks that became slow, or None."""
    sides = alignment.sides
    ranks = sorted(set(sides[0].rank_runs) & set(sides[1].rank_runs), key=lambda rank: (len(rank), rank))
    work = _work(alignment, noise)
    if len(ranks) < 2 or not work:
        return None
    base, new = (np.array([side.rank_runs[rank] for rank in ranks]) for side in sides)
    change = new.mean(axis=2) - base.mean(axis=2)
    beyond = _beyond_others(change)
    limit = _limits(base[:, work], new[:, work], beyond[:, work], alignment, work)
    worth = _WORTH * noise.step
    clear = np.where((beyond[:, work] > limit) & (beyond[:, work] > worth / 2), beyond[:, work], 0.0)
    growth = _first_only(clear) if len(ranks) == 2 else clear.sum(axis=1)
    if growth.max() < worth:
        clear = _growth_of_awaited(change, beyond, alignment, noise, work)
        growth = clear.sum(axis=1)
    slow = np.flatnonzero(growth >= max(_NEAR * growth.max(), 1e-15))
    if growth.max() < worth or len(slow) > max(len(ranks) // 2, 1):
        return None
    others = np.delete(np.arange(len(ranks)), slow)
    if change[others].sum(axis=1).mean() < _WAITED * growth[slow].min():
        return None  # nobody waits for it
    share = clear[slow].mean(axis=0)
    grown = [node for node, part in zip(work, share, strict=True) if part > _PART * growth.max()]
    waits = [node for node in range(len(alignment.nodes)) if node not in work]
    # the others may also wait in a timer that is not of communication
    shrunk = (beyond[slow][:, work] < -limit[slow]).any(axis=0)
    waits += [work[at] for at in np.flatnonzero(shrunk).tolist()]
    lead = work[int(np.argmax(share))]
    return SlowRank(tuple(ranks[at] for at in slow.tolist()), frozenset((*grown, *waits)) - {0}, lead)


def _beyond_others(change: Floats) -> Floats:
    """The change of each rank less the median of the others, (ranks, nodes); of many ranks, less that of all."""
    if len(change) > _MANY:
        found: Floats = change - np.median(change, axis=0)
        return found
    return np.array([row - np.median(np.delete(change, at, axis=0), axis=0) for at, row in enumerate(change)])


def _growth_of_awaited(
    change: Floats, beyond: Floats, alignment: Alignment, noise: SeriesNoise, work: list[int]
) -> Floats:
    """The growth of the one rank that all others clearly wait for, (ranks, nodes of work); zeros if there is none.

    Communication that takes longer on all ranks but one is waiting, if that one works longer by as much.
    """
    found = np.zeros((len(change), len(work)))
    waits = [node for node, one in enumerate(alignment.nodes) if one.kind == "communication"]
    waits = sorted(waits, key=lambda node: -float(change[:, node].mean()))[:1]
    total, error, freedom = noise.measured(waits) if waits else (0.0, 0.0, 1.0)
    if total < max(_WORTH * noise.step, t_quantile(freedom, 1 - _FALSE) * error):
        return found
    own = beyond[:, work].sum(axis=1)
    rank = int(np.argmax(own))
    waited = float(np.median(np.delete(change[:, waits].sum(axis=1), rank)))
    gap = waited - float(change[rank, waits].sum())
    if gap >= _WAITED * waited and own[rank] >= _WAITED * gap:
        found[rank] = np.maximum(beyond[rank, work], 0.0)
    return found


def _work(alignment: Alignment, noise: SeriesNoise) -> list[int]:
    """The nodes with a rank's own work, in order of time."""
    return [
        node
        for node in range(1, len(alignment.nodes))
        if alignment.nodes[node].kind != "communication" and not noise.is_rest(node)
    ]


def _limits(base: Floats, new: Floats, beyond: Floats, alignment: Alignment, work: list[int]) -> Floats:
    """The standard error of the growth of one rank beyond the others in s, (ranks, nodes)."""
    count, nodes = beyond.shape
    freedom = (base.shape[2] + new.shape[2] - 2) * count
    level = np.maximum(base.mean(axis=(0, 2)), new.mean(axis=(0, 2)))
    runs = 1 / base.shape[2] + 1 / new.shape[2]
    prior = (_PRIOR * level) ** 2
    if freedom:
        squares = sum(np.square(side - side.mean(axis=2, keepdims=True)).sum(axis=(0, 2)) for side in (base, new))
        variance, total = (_MODERATION * prior / 4 + squares) / (_MODERATION + freedom), _MODERATION + freedom
    elif count >= 4:
        centred = np.abs(beyond - np.median(beyond, axis=0))
        scatter = np.square(_NORMAL_MAD * np.median(centred, axis=0)) / runs
        variance, total = np.maximum(prior / 2, scatter), _PRIOR_FREEDOM
    else:
        variance, total = prior, _PRIOR_FREEDOM
    within = sum(np.square(side.error[work]).sum(axis=1) * count / side.runs**2 for side in alignment.sides)
    spread = np.sqrt((variance * runs + within) * (1 + 1 / (count - 1)))
    found: Floats = np.broadcast_to(t_quantile(total, 1 - _FALSE / (count * max(nodes, 1))) * spread, beyond.shape)
    return found


def _first_only(clear: Floats) -> Floats:
    """The growth of the one of two ranks that grew in the earlier node: the other waits for it later."""
    grown = np.flatnonzero(clear.max(axis=0) > 0)
    found = np.zeros(2)
    if len(grown):
        rank = int(np.argmax(clear[:, grown[0]]))
        found[rank] = clear[rank].sum()
    return found
