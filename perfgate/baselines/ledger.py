"""How much each approval changed, and how much all of them did since the anchor: the history of an environment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from perfgate.baselines.levels import Compared, History, StoredRun
from perfgate.core import Key

#: One number for each metric of a run (rank and device apart): the median of samples, the mean of aggregates.
ValuesOf = Callable[[StoredRun], Mapping[Key, float]]


@dataclass(frozen=True, slots=True)
class Step:
    """How the metrics of a level differ from what stood before it, and from the anchor, as shares (0.04 is +4 %)."""

    since_parent: dict[Key, float]
    since_anchor: dict[Key, float]


def steps(history: History, values_of: ValuesOf) -> dict[str, Step]:
    """A step for each level."""
    return {name: _step(history, name, values_of) for name in history.levels}


def _step(history: History, name: str, values_of: ValuesOf) -> Step:
    runs = _means([Compared(run) for run in history.levels[name]], values_of)
    parent = history.level(name).parent
    before = history.compared(parent) if parent is not None and parent in history.levels else ()
    adopts = history.level(name).adopts
    changed = {key: value for key, value in runs.items() if not adopts or key.metric in adopts}
    return Step(
        _changes(_means(before, values_of), changed), _changes(_means(history.anchor(name), values_of), changed)
    )


def _changes(base: Mapping[Key, float], new: Mapping[Key, float]) -> dict[Key, float]:
    return {key: value / base[key] - 1 for key, value in sorted(new.items()) if base.get(key, 0.0) > 0}


def _means(runs: Iterable[Compared], values_of: ValuesOf) -> dict[Key, float]:
    """The mean over runs of each metric that they are compared in."""
    found: dict[Key, list[float]] = {}
    for run in runs:
        for key, value in values_of(run.run).items():
            if run.metrics is None or key.metric in run.metrics:
                found.setdefault(key, []).append(value)
    return {key: sum(values) / len(values) for key, values in found.items()}
