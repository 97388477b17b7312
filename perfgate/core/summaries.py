"""What a run holds, in numbers that a person reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perfgate.core.baseline import CalibratedPrior
from perfgate.core.runs import Fact, Key, Kind, Problem, SourceFile


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


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """A level of the stored baselines: its runs from `first` to `last`, and the decision that opened it."""

    place: str
    runs: int
    first: str
    last: str
    by: str
    reason: str
    pr: int | None
    anchor: bool
    #: The metrics that the level adopts; empty means all.
    adopts: tuple[str, ...] = ()
    #: Whether new runs are compared with it.
    current: bool = False
    #: How its metrics differ from the level that it replaced and from the anchor, as shares (0.04 is +4 %).
    since_parent: Mapping[Key, float] = field(default_factory=dict)
    since_anchor: Mapping[Key, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredRunSummary:
    """A stored run, its level, and the files it was read from."""

    run: RunSummary
    level: LevelSummary
    files: tuple[SourceFile, ...]


@dataclass(frozen=True, slots=True)
class PriorSummary:
    """The calibrated noise of an environment: where it is stored, and when it was measured."""

    place: str
    time: str
    priors: tuple[CalibratedPrior, ...]
