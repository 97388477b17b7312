"""Choose the next position to measure: the one with the most expected information for its cost.

A gap is between two neighbouring positions; the gaps between two neighbouring measured positions are a cell. The
information of a measurement is the mutual information of its value and the cell of the largest change: Lindley, "On a
measure of the information provided by an experiment" (1956); MacKay, "Information-based objective functions for active
data selection" (1992). It is integrated over a grid of values. Measured positions are candidates, too: a repeated
measurement of an end shows drift and noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from perfgate.bisect.measurements import IntArray
from perfgate.bisect.posterior import Posterior
from perfgate.stats.distributions import FloatArray

BoolArray = npt.NDArray[np.bool_]
#: The number of values in the grid of a measurement.
_VALUES = 48
_TINY = 1e-300
#: The four cases of two changes in the cell of a position: the changes (0, 1) that are before it; and these as a mask.
_BEFORE: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (0, 1))
_IS_BEFORE = np.array([[column in columns for column in (0, 1)] for columns in _BEFORE])


def candidates(found: Posterior, skipped: Collection[int] = ()) -> list[int]:
    """Return the positions worth measuring: all measured ones, and the middle of each cell, or the nearest to it.

    Positions in `skipped` cannot be measured.
    """
    edges = [int(edge) for edge in found.edges]
    inside = (nearest_to_middle(low, high, skipped) for low, high in pairwise(edges))
    return [position for position in (*edges, *inside) if position is not None and position not in skipped]


def nearest_to_middle(low: int, high: int, skipped: Collection[int]) -> int | None:
    """Return the position between two others that is nearest to their middle and not skipped; None if there is none."""
    middle = (low + high) // 2
    for distance in range(high - low):
        for position in (middle - distance, middle + distance):
            if low < position < high and position not in skipped:
                return position
    return None


def best(found: Posterior, positions: Sequence[int], cost: Callable[[int], float]) -> tuple[int, float]:
    """Return the position with the most expected information for its cost, and this information in bits.

    `cost`: returns the cost of a measurement of a position, in any unit.
    """
    bits = information(found, positions)
    chosen = int((bits / np.array([cost(position) for position in positions])).argmax())
    return positions[chosen], float(bits[chosen])


def information(found: Posterior, positions: Sequence[int]) -> FloatArray:
    """Return the expected information of a measurement of each position, in bits, (len(positions),).

    It is the mutual information of the measurement and the place of the largest change.
    """
    bits = []
    for position in positions:
        mean, variance, weight, places = _outcomes(found, position)
        centre = float(weight @ mean)
        reach = 4 * math.sqrt(float(weight @ (variance + (mean - centre) ** 2)))
        values = np.linspace(centre - reach, centre + reach, _VALUES)
        density = np.exp(-(((values - mean[:, None]) / np.sqrt(variance)[:, None]) ** 2) / 2)
        density /= np.maximum(density.sum(axis=1, keepdims=True), _TINY)
        # the joint probability of each place of the largest change and each value
        by_place = np.zeros((len(found.cells) + 2, _VALUES))
        np.add.at(by_place, places, weight[:, None] * density)
        independent = by_place.sum(axis=1, keepdims=True) * by_place.sum(axis=0)
        ratio = np.maximum(by_place, _TINY) / np.maximum(independent, _TINY)
        bits.append(float((by_place * np.log2(ratio)).sum()))
    return np.array(bits)


def entropy(found: Posterior, skipped: Collection[int] = ()) -> float:
    """Return the uncertainty about the gap of the largest change in bits.

    Gaps that no measurement can distinguish, because the positions between them are skipped, count as one.
    """
    gaps = [(found.nothing, 1)]  # probabilities, each of this number of equally likely gaps
    for cell, probability in enumerate(found.cells.tolist()):
        low, high = int(found.edges[cell]), int(found.edges[cell + 1])
        gaps.append((probability, high - low - sum(low < position < high for position in skipped)))
    return sum(-p * math.log2(p) + p * math.log2(count) for p, count in gaps if p > 0)


def _outcomes(found: Posterior, position: int) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """Return the expected value of a measurement of a position under each of v hypotheses.

    A hypothesis with a change in the cell of the position is split: the change comes before the position, or after it.

    Returns, (v,) each: the mean and the variance of the value, the probability of the hypothesis, and the place of its
    largest change: 0 for none, 1 + c for cell c, and the last number for the part of the cell before the position.
    """
    hypotheses, count = found.hypotheses, len(found.cells)
    cell = min(int(np.searchsorted(found.edges, position, side="right")) - 1, count - 1)
    low, high = int(found.edges[cell]), int(found.edges[cell + 1])
    # for each cell: 1 if its change is at or before the position, so that the value has it; the last one is for cell -1
    steps = np.append((np.arange(count) < cell).astype(np.float64), 0.0)
    steps[cell] = float(position == high)
    in_cell = (hypotheses.cells == cell) & (low < position < high)
    # for each case of `_BEFORE`: the hypotheses that have these changes in the cell; for () all of them
    parts = [np.flatnonzero(in_cell[:, list(columns)].all(axis=1)) for columns in _BEFORE]
    owner = np.concatenate(parts)
    is_before = np.repeat(_IS_BEFORE, [len(part) for part in parts], axis=0)
    cells = hypotheses.cells[owner]
    pull = np.append(found.next.pull, 0.0)
    factor = np.where(is_before, 1.0, steps[cells]) - pull[cells]  # see `Prediction`
    mean = found.next.centre + (factor * hypotheses.mean[owner]).sum(axis=1)
    variance = found.next.variance + np.einsum("va,vab,vb->v", factor, hypotheses.covariance[owner], factor)
    share = _shares(in_cell[owner], is_before, position - low, high - position)
    places = np.where(is_before[:, 0], count + 1, cells[:, 0] + 1)
    return mean, variance, hypotheses.weight[owner] * share, places


def _shares(in_cell: BoolArray, is_before: BoolArray, before: int, after: int) -> FloatArray:
    """Return the probability that the changes of a hypothesis in a cell are on these sides of a position in it, (v,).

    `in_cell`: True for the changes in the cell, (v, 2). `is_before`: True for those at or before the position, (v, 2).
    `before`, `after`: the numbers of gaps on both sides; all gaps are equally likely.
    """
    gaps = np.where(is_before, before, after) / (before + after)
    first = np.where(in_cell[:, 0], gaps[:, 0], 1.0)
    second = np.where(in_cell[:, 1], gaps[:, 1], 1.0)
    both = in_cell.all(axis=1)
    # the second change is at another gap than the first one: on the same side, one gap less is left for it
    left = np.where(is_before, before, after)[:, 1] - (is_before[:, 0] == is_before[:, 1])
    return np.where(both, first * left / max(before + after - 1, 1), first * second)
