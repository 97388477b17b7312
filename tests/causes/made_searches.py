"""Searches for the changes between two trees from metrics, with noise that is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pytest
from made_alignments import Row, Steps, aligned

from perfgate.causes.align import Alignment
from perfgate.causes.noise import SeriesNoise
from perfgate.causes.series_findings import _FindingSearch
from perfgate.core.call_trees import NodeKind


class Known(SeriesNoise, frozen=True):
    """The noise of nodes with known standard errors; `of_many` is that of several nodes together."""

    errors: Mapping[int, float] = {}
    of_many: float | None = None

    def measured(self, nodes: Sequence[int]) -> tuple[float, float, float]:  # type: ignore[override]
        chosen = sorted(set(nodes))
        error = math.hypot(*(self.errors.get(node, 0.0) for node in chosen))
        if self.of_many is not None and len(chosen) > 1:
            error = self.of_many
        return float(self.alignment.longer[chosen].sum()), error, 20.0


def times(
    base: float,
    new: float,
    calls: tuple[float, float] | None = None,
    name: str = "op",
    parent: int = 0,
    kind: NodeKind = "operator",
) -> Row:
    """A node that takes so long on each side; a side on which it takes no time does not call it."""
    return Row(name, kind, parent, base, new, calls or (float(base > 0), float(new > 0)))


def steps_of(
    rows: Sequence[Row],
    steps: tuple[float, float] = (200.0, 200.0),
    within: tuple[Sequence[Steps], Sequence[Steps]] | None = None,
    *,
    is_cut: bool = False,
) -> Alignment:
    """The alignment of rows in steps that take so long: 1 s of 200 s is worth a line, 0.4 s is a row that counts."""
    runs = (0, 1) if within else (0,)
    found = aligned(rows, runs, runs, within, is_cut=is_cut)
    for side, step in zip(found.sides, steps, strict=True):
        side.wall[0] = step - side.wall.sum(axis=0)
    return found


class Search(_FindingSearch):
    """A search in which one change of n is noise up to n / 2 standard errors."""

    def limit(self, freedom: float, tests: int) -> float:
        assert freedom == 20.0
        return tests / 2


def searched(
    rows: Sequence[Row],
    errors: Mapping[int, float] | None = None,
    *,
    claimed: set[int] | None = None,
    steps: tuple[float, float] = (200.0, 200.0),
    is_cut: bool = False,
    of_many: float | None = None,
) -> Search:
    """The search in these rows, before it looked for anything."""
    search = Search(alignment := steps_of(rows, steps, is_cut=is_cut), Known(alignment, errors or {}, of_many))
    search.claimed |= claimed or set()
    return search


#: The kind, the lead, all nodes, those that went, and those that came.
Told: TypeAlias = tuple[str, int, set[int], tuple[int, ...], tuple[int, ...]]


def told(search: Search) -> list[Told]:
    """What was found; each finding has the change and the place of its nodes, and claims them."""
    for one in search.findings:
        assert one.change == pytest.approx(search.noise.change(one.nodes)[0])
        assert one.parents == (search.alignment.nodes[one.lead].parent,)
        assert one.nodes <= search.claimed
    return [(one.kind, one.lead, {*one.nodes}, one.gone, one.come) for one in search.findings]
