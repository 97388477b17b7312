"""Runs that were made in pairs: their labels, how to split them, and their ratios.

One run has both sides of a pair. Its series have three labels: `side` (`base` or `new`), `pair` (its number, from 1)
and `pairing` (how it was made). Without these labels a side is a normal run, so rules need no change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Key, Location, Problem, Run, Series
from perfgate.core.runs import OF_BASE, WRITTEN_AS
from perfgate.judge.question import MeasuredSide
from perfgate.stats.paired_t import median_ratio, order_effect, ratio_of
from perfgate.stats.statistics import RunMeasure
from perfgate.stats.steady import RunValues

Pairing: TypeAlias = Literal["one-process", "in-turn", "whole-runs"]
#: The priors (s0, d0) of a pair's log ratio beyond the noise inside its runs, with two prior degrees of freedom. One
#: process: the noise in 12 pairs of one training loop was at most this. Two processes: 2.2 and 2.5 % on two shared
#: machines. Whole runs: assumed to be the same.
PRIORS: dict[str, tuple[float, float]] = {
    "one-process": (0.003, 2.0),
    "in-turn": (0.02, 2.0),
    "whole-runs": (0.02, 2.0),
}
#: The labels of paired series.
LABELS = ("side", "pair", "pairing")


class Pairs(Struct, frozen=True):
    """The two sides of pairs, one run each: `base[i]` and `new[i]` belong together."""

    base: tuple[Run, ...]
    new: tuple[Run, ...]
    pairing: Pairing
    #: The reasons why pairs cannot be judged.
    problems: tuple[Problem, ...] = ()


def pair_ratios(
    base: Sequence[RunMeasure],
    new: Sequence[RunMeasure],
    base_values: Sequence[RunValues],
    new_values: Sequence[RunValues],
    statistic: str,
) -> list[RunMeasure]:
    """Return new / base of each pair; with `base_values` (steps by turns), a median is that of the ratios of steps."""
    ratios = [ratio_of(b, n) for b, n in zip(base, new, strict=True)]
    if statistic in ("median", "p50") and base_values:
        for i, sides in enumerate(zip(base_values, new_values, strict=True)):
            b, n = map(np.atleast_1d, sides)
            if len(b) == len(n):
                ratios[i] = median_ratio(b, n, max(base[i].dropped, new[i].dropped)) or ratios[i]
    return ratios


def paired_ratios(base: MeasuredSide, new: MeasuredSide, statistic: str, pairing: str) -> list[RunMeasure]:
    """Return new / base of each pair of two measured sides."""
    base_values, new_values = ([series.values for series in side.series] for side in (base, new))
    by_turns = pairing != "whole-runs"
    return pair_ratios(base.measures, new.measures, base_values if by_turns else (), new_values, statistic)


def number_of(source: str) -> str:
    """Return the number of the pair, from the name that `split_pairs` gave one of its sides."""
    return source.rpartition(", pair ")[2].partition(",")[0]


def is_paired(run: Run) -> bool:
    """Return whether a run has sides of pairs."""
    return any(_marks(series.key) is not None for series in run.series)


def split_pairs(runs: Iterable[Run]) -> Pairs | None:
    """Return the sides of all pairs in these runs, in order; None if there are none.

    Other series of a paired run belong to the new side. A pair with a single side is a problem.
    """
    found = [sides for run in runs for sides in _sides(run)]
    if not found:
        return None
    whole = [(base, new) for _, base, new, _ in found if base.series and new.series]
    ways = {way for *_, way in found}
    problems = [_one_sided(name, base, new) for name, base, new, _ in found if not (base.series and new.series)]
    # Pairs made in different ways are judged like the noisiest of them.
    pairing = next(way for way in ("whole-runs", "in-turn", "one-process") if way in ways)
    base, new = tuple(pair[0] for pair in whole), tuple(pair[1] for pair in whole)
    return Pairs(base, new, pairing, tuple(problems))


def order_bias(base: Sequence[Series], new: Sequence[Series], firsts: Sequence[bool]) -> float | None:
    """Return the relative cost of going second in these pairs (.002 is .2 %); None if it is unknown.

    `firsts` says for each pair whether base went first in its even steps. Only samples count.
    """
    effects = [
        effect for b, n, first in zip(base, new, firsts, strict=True) if (effect := _effect(b, n, first)) is not None
    ]
    return math.expm1(sum(effects) / len(effects)) if effects else None


def base_goes_first(pair: str) -> bool:
    """Return whether base goes first in the even steps of a pair: true for odd numbers, and without a number."""
    return not pair.isdecimal() or int(pair) % 2 == 1


def _effect(base: Series, new: Series, base_first: bool) -> float | None:
    """Return the logarithm of the cost of going second in one pair; None if it is unknown."""
    n = min(len(base.values), len(new.values))
    if base.kind != "samples" or new.kind != "samples" or n < 8:
        return None
    b, a = base.values[n // 4 : n], new.values[n // 4 : n]  # past any warm-up
    if min(b.min(), a.min()) <= 0:
        return None
    steps = np.arange(n // 4, n) if base.steps is None else base.steps[n // 4 : n]
    in_first_order = (steps % 2 == 0) == base_first
    ratios = np.log(a) - np.log(b)
    return order_effect(ratios[in_first_order], ratios[~in_first_order])


def _marks(key: Key) -> tuple[str, str, str] | None:
    """Return (side, pair, pairing) of a paired series; None for any other, even with a label `side` of its own."""
    side, pair, pairing = (key.label(name) for name in LABELS)
    if side not in ("base", "new") or pair is None or pairing not in PRIORS:
        return None
    return side, pair, pairing


def _sides(run: Run) -> Iterator[tuple[str, Run, Run, str]]:
    """Yield each pair of a run: its number, its two sides as runs, and its pairing."""
    held: dict[tuple[str, str], dict[str, list[Series]]] = {}
    rest = []
    for series in run.series:
        marks = _marks(series.key)
        if marks is None:
            rest.append(series)
        else:
            side, pair, pairing = marks
            labels = tuple(label for label in series.key.labels if label[0] not in LABELS)
            plain = replace(series, key=Key(series.key.metric, labels))
            held.setdefault((pair, pairing), {"base": [], "new": []})[side].append(plain)
    facts, own = dict(run.environment), [name for name in run.environment if name.startswith(OF_BASE)]
    run = replace(run, format=str(facts.pop(WRITTEN_AS, run.format)))  # doubts depend on the tool that measured
    of_base = {name.removeprefix(OF_BASE): facts.pop(name) for name in own}
    for (pair, pairing), sides in held.items():
        base, new = (
            replace(run, source=f"{run.source}, pair {pair}, {side}", series=tuple(found), problems=(), environment=env)
            for side, found, env in (
                ("base", sides["base"], facts | of_base),
                ("new", sides["new"] and [*sides["new"], *rest], facts),  # empty if the pair has no new side
            )
        )
        yield pair, base, replace(new, problems=run.problems), pairing


def _one_sided(pair: str, base: Run, new: Run) -> Problem:
    absent, there = ("base", new) if new.series else ("new", base)
    message = f"pair {pair} has no {absent} side: the pair is not judged; run it again"
    return Problem("error", message, Location(there.source.partition(", pair ")[0]))
