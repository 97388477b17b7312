"""Slow ranks, and the data of the pictures of a page: the call tree of both sides, and the time of each rank.

The time of a rank is its own work and its waiting in communication. The own work of a slow rank grew more than that of
the other ranks, and their waiting grew more than its own.

In trees of timers, the own work of a rank is its timers that are not communication and have no timers inside. The other
ranks wait for a slow one in communication, or in a later timer that includes the waiting. So of two ranks that grew in
different timers, the one that grew in the earlier timer is slow.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from perfgate.causes.align import Alignment, Finding
from perfgate.causes.merged import Floats, Masks
from perfgate.causes.noise import NORMAL_MAD, Noise, SeriesNoise, time_errors
from perfgate.core.causes import Cause, PlaceTime, RankTime
from perfgate.stats.distributions import t_quantile

# The numbers below balance missed slow ranks against ranks named by chance: `benchmarks/causes.py` counts both.
#: The least growth of a slow rank beyond the others: in standard errors, and as a share of the step.
_CLEAR, _WORTH = 4.0, 0.015
#: The others wait longer by at least this part of the growth of the slow rank.
_WAITED = 0.4
#: Ranks with at least this part of the largest growth are slow.
_NEAR = 0.5
#: Nodes with a smaller part of the growth are not part of the cause.
_PART = 0.05


def find_slow_ranks(alignment: Alignment, noise: Noise) -> Finding | None:
    """Return the finding of the ranks that became slow in traces, or None."""
    base, new, ranks = alignment.base.rank_wall, alignment.new.rank_wall, _shared_ranks(alignment)
    is_comm = communication(alignment)
    if len(ranks) < 2 or not is_comm.any():
        return None
    change = np.array([new[rank] - base[rank] for rank in ranks])  # (ranks, n), as `beyond`
    beyond = change - _median_of_others(change)
    growth, waiting = _clear_growth(beyond, is_comm, alignment, noise), change[:, is_comm].sum(axis=1)
    slow, others = _slow_and_others(growth)
    if not slow:
        return None
    extra, waited = growth[slow].min(), waiting[others].mean() - waiting[slow].mean()
    if extra < _WORTH * alignment.step or waited < _WAITED * extra:
        return None
    shares = beyond[slow].mean(axis=0)  # by node, in s
    nodes = np.flatnonzero(is_comm | (shares > _PART * extra)).tolist()
    lead = int(np.argmax(np.where(is_comm, -np.inf, shares)))
    return _finding([ranks[at] for at in slow], nodes, lead, noise)


def _shared_ranks(alignment: Alignment) -> list[str]:
    """The ranks that both sides have, in the order of their numbers: 2 before 10."""
    shared = alignment.base.rank_wall.keys() & alignment.new.rank_wall.keys()
    return sorted(shared, key=lambda rank: (len(rank), rank))


def _slow_and_others(growth: Floats) -> tuple[list[int], list[int]]:
    """The ranks whose growth in s, (ranks,), is near the largest one, and the others; none is slow if most are near."""
    is_slow = growth >= max(_NEAR * growth.max(), 1e-12)  # a smaller growth is a rounding error
    is_slow &= is_slow.sum() <= len(growth) // 2
    return np.flatnonzero(is_slow).tolist(), np.flatnonzero(~is_slow).tolist()


def _finding(ranks: Sequence[str], nodes: Collection[int], lead: int, noise: Noise | SeriesNoise) -> Finding:
    change, error = noise.change(nodes)
    parent = max(noise.alignment.nodes[lead].parent, 0)  # the step has none: it is its own
    return Finding("slow rank", frozenset(nodes), lead, (parent,), ranks=tuple(ranks), change=change, error=error)


def _median_of_others(values: Floats) -> Floats:
    """Return for each rank the median of the other ranks, (ranks, n), of values of the same shape.

    The values are sorted once: the medians of the others of each of a thousand ranks would take half a minute.
    """
    order = np.argsort(values, axis=0, kind="stable")
    place = np.argsort(order, axis=0, kind="stable")
    ordered, others = np.take_along_axis(values, order, axis=0), len(values) - 1
    # the two middle ones of the others: without the rank itself, those after its place move up by one
    low, high = (np.where(at < place, ordered[at], ordered[at + 1]) for at in ((others - 1) // 2, others // 2))
    found: Floats = low if others % 2 else (low + high) / 2
    return found


def _clear_growth(beyond: Floats, is_comm: Masks, alignment: Alignment, noise: Noise) -> Floats:
    """Return the clear growth of each rank's own work beyond that of the others, (ranks,), in s.

    It is the growth of single nodes that noise does not explain, or that of all nodes if noise does not explain it.
    """
    base, new, count = alignment.base, alignment.new, len(beyond)
    # The mean over `count` ranks is less noisy than one rank; a difference of two ranks is noisier.
    error = time_errors(base, new) * math.sqrt(2 * count)
    error = np.hypot(error, math.sqrt(2) * noise.relative * np.maximum(base.times, 1e-6))
    clear = np.where(~is_comm & (beyond > _CLEAR * error), beyond, 0).sum(axis=1)
    whole = beyond[:, ~is_comm].sum(axis=1)
    limit = _CLEAR * math.sqrt(float((error[~is_comm] ** 2).sum()))
    found: Floats = np.maximum(clear, np.where(whole > limit, whole, 0))
    return found


def communication(alignment: Alignment) -> Masks:
    """True for the nodes of communication and all nodes below them, (n,)."""
    found = np.zeros(len(alignment.nodes), bool)
    for index, node in enumerate(alignment.nodes):
        own = node.kind in ("communication", "collective") or node.name.startswith(("c10d::", "nccl:", "gloo:"))
        found[index] = own or (node.parent > 0 and found[node.parent])
    return found


#: From timers: the probability that noise makes a rank slow.
_FALSE = 0.002
#: Nodes with less of the growth of the slow rank are not part of the cause.
_PART_OF_TIMERS = 0.1
#: The others wait longer by at least this part of the growth of the slow rank; see `_growth_of_awaited`, too.
_WAITED_IN_TIMERS = 0.5
#: The standard deviation between runs of the work of one rank, relative to the other ranks, as a share of it; and its
#: degrees of freedom. It is used alone if there is one run a side and few ranks, which show no spread. Otherwise only a
#: part of its variance is used beside the spread: a larger part hides slow ranks, a smaller one names ranks by chance.
_PRIOR, _PRIOR_FREEDOM = 0.03, 20.0
_PART_BESIDE_RANKS, _PART_BESIDE_RUNS = 1 / 2, 1 / 4
#: Fewer ranks show no spread.
_FEWEST_RANKS = 4
#: With several runs: the degrees of freedom of a prior in its average with the measured variance.
_MODERATION = 6.0
#: With more ranks, the median of all is used instead of the median of the others: one rank hardly moves it.
_MANY = 32
#: A timer counts if the rank grew in it by more than this part of what is worth a line. Without it, small growths in
#: many timers, each just clear, would add up to a slow rank; with it, a rank that is slower by so little everywhere is
#: missed. No pair of `benchmarks/causes.py --timers 300` depends on it.
_WORTH_OF_TIMER = 0.5


def find_slow_timers(alignment: Alignment, noise: SeriesNoise, claimed: Collection[int] = ()) -> Finding | None:
    """Return the finding of the ranks that became slow by their timers, or None; claimed nodes are left out.

    Only ranks that each run has are compared.
    """
    shared = _shared_ranks(alignment)
    ranks = [rank for rank in shared if all(side.rank_runs[rank].shape[1] == side.runs for side in alignment.sides)]
    places = [node for node in range(1, len(alignment.nodes)) if node not in claimed]
    work = [node for node in places if alignment.nodes[node].kind != "communication" and not noise.is_rest(node)]
    if len(ranks) < 2 or not work:
        return None
    base, new = (np.array([side.rank_runs[rank] for rank in ranks]) for side in alignment.sides)  # (ranks, n, runs)
    # the growth of each rank, that beyond the other ranks, and the part of this that noise does not explain
    change = new.mean(axis=2) - base.mean(axis=2)
    change[:, [*claimed]] = 0.0
    beyond = change - (_median_of_others(change) if len(change) <= _MANY else np.median(change, axis=0))
    worth = _WORTH * alignment.step
    limit = _limits(base[:, work], new[:, work], beyond[:, work], alignment, work)
    is_clear = beyond[:, work] > np.maximum(limit, _WORTH_OF_TIMER * worth)
    clear = np.where(is_clear, beyond[:, work], 0.0)
    if len(ranks) == 2 and clear.any():  # the one that grew in the earlier timer is slow: the other grew by waiting
        first = clear[:, clear.any(axis=0)][:, 0]
        clear[np.argmin(first)] = 0.0
    if clear.sum(axis=1).max() < worth:  # no rank is clearly slow by its work; perhaps by the waiting of the others
        clear = _growth_of_awaited(change, beyond, alignment, noise, work)
    growth = clear.sum(axis=1)
    slow, others = _slow_and_others(growth)
    waited = change[others].sum(axis=1).mean()  # in all timers, because any timer may include the waiting
    if not slow or growth.max() < worth or waited < _WAITED_IN_TIMERS * growth[slow].min():
        return None
    share = clear[slow].mean(axis=0)  # by node of `work`, in s
    grown = share > _PART_OF_TIMERS * growth.max()
    # the others wait in the timers in which they grew more than a slow rank
    shrunk = (beyond[slow][:, work] < -limit[slow]).any(axis=0)
    # the finding explains these, the timers in which the slow ranks grew, communication and rests
    nodes = {*places} - {*np.array(work)[~(grown | shrunk)].tolist()}
    return _finding([ranks[at] for at in slow], nodes, work[int(np.argmax(share))], noise)


def _growth_of_awaited(
    change: Floats, beyond: Floats, alignment: Alignment, noise: SeriesNoise, work: list[int]
) -> Floats:
    """The growth of the one rank that all others clearly wait for, (ranks, nodes of work); zeros if there is none.

    Communication that takes longer on all ranks but one is waiting, if the work of that rank grew by about as much.
    """
    nothing = np.zeros((len(change), len(work)))
    communications = [index for index, node in enumerate(alignment.nodes) if node.kind == "communication"]
    if not communications:
        return nothing
    wait = max(communications, key=lambda node: float(change[:, node].mean()))  # the one that grew most
    total, error, freedom = noise.measured([wait])
    if total < max(_WORTH * alignment.step, t_quantile(freedom, 1 - _FALSE) * error):
        return nothing
    growth = beyond[:, work].sum(axis=1)
    rank = int(np.argmax(growth))
    waited = float(np.median(np.delete(change[:, wait], rank)))
    gap = waited - float(change[rank, wait])
    if gap < _WAITED_IN_TIMERS * waited or growth[rank] < _WAITED_IN_TIMERS * gap:
        return nothing
    return np.where(np.arange(len(change))[:, None] == rank, np.maximum(beyond[:, work], 0.0), 0.0)


def _limits(base: Floats, new: Floats, beyond: Floats, alignment: Alignment, work: list[int]) -> Floats:
    """The largest growth of one rank beyond the others that noise explains, in s, (ranks, nodes of `work`).

    `base` and `new` are the times in each run, (ranks, nodes, runs), `beyond` is the growth.
    """
    count, nodes = beyond.shape
    freedom = (base.shape[2] + new.shape[2] - 2) * count
    level = np.maximum(base.mean(axis=(0, 2)), new.mean(axis=(0, 2)))
    runs = 1 / base.shape[2] + 1 / new.shape[2]
    # the variance of a run, (nodes of `work`,), and its degrees of freedom
    variance, total = (_PRIOR * level) ** 2, _PRIOR_FREEDOM
    if freedom:  # several runs: the spread between them
        squares = sum(np.square(side - side.mean(axis=2, keepdims=True)).sum(axis=(0, 2)) for side in (base, new))
        total = _MODERATION + freedom
        variance = (_MODERATION * _PART_BESIDE_RUNS * variance + squares) / total
    elif count >= _FEWEST_RANKS:  # one run a side: the spread between the ranks
        centred = np.abs(beyond - np.median(beyond, axis=0))
        variance = np.maximum(_PART_BESIDE_RANKS * variance, np.square(NORMAL_MAD * np.median(centred, axis=0)) / runs)
    # `side.error` is that of the mean over ranks; and the other ranks, which a rank is compared with, are noisy, too
    within = sum(np.square(side.error[work]).sum(axis=1) * count / side.runs**2 for side in alignment.sides)
    spread = np.sqrt((variance * runs + within) * (1 + 1 / (count - 1)))
    # each rank and timer is a test, and all share `_FALSE`
    found: Floats = np.broadcast_to(t_quantile(total, 1 - _FALSE / (count * nodes)) * spread, beyond.shape)
    return found


#: Smaller places, as a share of the longer step, are pooled in pictures.
_LEAST_SHARE = 0.005
#: The most places in a picture; those of causes and pools are added.
_MOST_PLACES = 150


def not_timed(alignment: Alignment, findings: Sequence[Finding]) -> frozenset[int]:
    """The nodes that only one side has, and that no finding explains: the other side did not time these parts."""
    explained = {node for finding in findings for node in finding.nodes}
    one_sided = (alignment.base.counts.sum(axis=1) > 0) != (alignment.new.counts.sum(axis=1) > 0)
    return frozenset(np.flatnonzero(one_sided).tolist()) - explained


def place_times(
    alignment: Alignment, causes: Sequence[Cause], hidden: AbstractSet[int] = frozenset()
) -> tuple[PlaceTime, ...]:
    """Return the places that take the most time on one side, and those of all causes of time; the step is first.

    Small places below the same parent are pooled. `hidden` nodes, see `not_timed`, are not shown beside their parent.
    Parents are before their children, and children are in the order of their first calls.
    """
    base, new = (alignment.with_below(side.times).tolist() for side in alignment.sides)
    sizes, least = np.maximum(base, new), _LEAST_SHARE * max(base[0], new[0])
    count = min(_MOST_PLACES, int((sizes >= least).sum()))
    shown = {0, *np.argsort(-sizes, kind="stable")[:count].tolist(), *_of_causes(alignment, causes)} - hidden
    known = shown | hidden
    places: list[PlaceTime] = []
    waiting = [(0, -1)]  # nodes, each with the index of its parent in `places`
    while waiting:
        node, parent = waiting.pop()
        index = len(places)
        places.append(PlaceTime(alignment.nodes[node].name, parent, base[node], new[node]))
        below = alignment.children[node]
        small = [child for child in below if child not in known]
        pool = sum(base[child] for child in small), sum(new[child] for child in small)
        if max(pool) >= least:
            places.append(PlaceTime("", index, *pool, pooled=len(small)))
        waiting += [(child, index) for child in reversed(below) if child in shown]
    return tuple(places)


def _of_causes(alignment: Alignment, causes: Sequence[Cause]) -> set[int]:
    """The nodes at the places of causes of time, and those above them."""
    found: set[int] = set()
    places = {place for cause in causes if cause.metric != "memory" for place in (cause.where, *cause.places)}
    for place in places:
        node = 0
        for name in place:
            named = [child for child in alignment.children[node] if alignment.nodes[child].name == name]
            if not named:
                break
            node = named[0]
            found.add(node)
    return found


def rank_times(alignment: Alignment, hidden: AbstractSet[int] = frozenset()) -> tuple[RankTime, ...]:
    """Return the own work and the communication of each rank that both sides have; empty for a single rank.

    Communication that only one side times (`hidden`, see `not_timed`) counts as work, as it does on the other side.
    """
    ranks = _shared_ranks(alignment)
    if len(ranks) < 2:
        return ()
    waits = communication(alignment)
    waits[sorted(hidden)] = False
    found = []
    for rank in ranks:
        # work and communication of the base, then of the new side
        times = [float(side.rank_wall[rank][part].sum()) for side in alignment.sides for part in (~waits, waits)]
        found.append(RankTime(rank, *times))
    return tuple(found)
