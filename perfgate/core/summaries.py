"""What a run holds, in numbers that a person reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfgate.core.runs import Fact, Key, Kind, Problem


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """One series as `inspect` shows it: statistics over all its values, warm-up included, in base units."""

    key: Key
    unit: str
    kind: Kind
    n: int | None
    statistics: Mapping[str, float]
    #: Counts of values in equal bins from the smallest value to p99 and beyond.
    histogram: tuple[int, ...] = ()
    printed_as: str | None = None
    values: tuple[float, ...] | None = None


@dataclass(frozen=True, slots=True)
class Portion:
    """A part of a time, in seconds; `share` is of the whole, `count` how often it occurred."""

    name: str
    seconds: float
    share: float
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Straggler:
    """The rank that did most of its own in one step, and the seconds that all others waited in collectives."""

    step: int
    rank: str
    own: float
    waited: float | None


@dataclass(frozen=True, slots=True)
class TraceView:
    """What `inspect` shows of a trace beside its series."""

    #: How a step was divided, `corrected` or `tensorboard`; None without steps.
    mode: str | None
    #: How many steps of how many ranks `parts` are the mean of; the last one is the whole step.
    steps: int
    ranks: int
    parts: tuple[Portion, ...]
    #: The names that took most time, and of how many they are, by family: `kernel`, `op`, `range`.
    top: Mapping[str, tuple[tuple[Portion, ...], int]]
    #: The steps in which others waited longest.
    stragglers: tuple[Straggler, ...]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run as `inspect` shows it."""

    source: str
    part: int | None
    format: str
    recognised_by: str | None
    environment: Mapping[str, Fact]
    series: tuple[SeriesSummary, ...]
    problems: tuple[Problem, ...]
    trace: TraceView | None = None
