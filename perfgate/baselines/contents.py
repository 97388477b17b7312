"""The content of a stored run: samples of the metrics that rules name, a call tree, and a summary of everything else.

A stored run is at most MOST_BYTES long. Without `keep_all`, the run of a trace is at most USUAL_BYTES long if its named
metrics leave enough room. The room is used in this order:

1. The metrics that rules name. If their samples do not fit, the largest metrics keep the samples of only the ranks that
   represent the run (the slowest, the median and the fastest); if that is not enough, only summaries.
2. The call tree of a trace: it gets smaller until it fits.
3. The other metrics, the largest times first. They get the rest of USUAL_BYTES. If large named metrics and the call
   tree already fill these, they get the rest of MOST_BYTES. The file has the number of metrics that were left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.baselines.condensed import MANY_RANKS, OUTLINES, condensed, method_of, outline, speakers, stored_series
from perfgate.baselines.files import KEEP_WHOLE, STATISTICS, BaselineFile, StoredSeries, StoredSummary
from perfgate.core import Key, Run, Series
from perfgate.judge.measure import Member, Method, default_statistic
from perfgate.stats.steady import WarmUpRule

#: The most bytes of a stored run, and of one whose named metrics leave room for others.
MOST_BYTES, USUAL_BYTES = 1 << 20, 512 << 10
#: The most bytes of a call tree, and the bytes that it may have even if the named metrics need all of USUAL_BYTES.
_TREE_BYTES, _LEAST_TREE = 256 << 10, 96 << 10
#: With less room than this, no other summary is tried: nearly every one is longer.
_LEAST_ROOM = 512
#: With no more values than this, the samples are shorter than a summary of them.
FEW_VALUES = 32
#: Bytes of a line beside its content: a comma, a line break and the indentation.
_LINE = 6


class Contents(Struct, frozen=True):
    """The rows of a stored run."""

    series: list[StoredSeries]
    summaries: list[StoredSummary]
    #: The metrics that did not fit: those with the least time.
    left_out: tuple[str, ...] = ()
    #: The named metrics whose samples do not all fit.
    shortened: tuple[str, ...] = ()
    #: The calls of a trace; None if there are none, or no room at all.
    call_tree: str | None = None

    def put_into(self, file: BaselineFile) -> BaselineFile:
        """Return the file with these rows; without a call tree here, it keeps its own."""
        left_out, tree = len(self.left_out) or msgspec.UNSET, self.call_tree or file.call_tree
        return replace(file, series=self.series, summaries=self.summaries, left_out=left_out, call_tree=tree)


class TooLarge(Exception):
    """The named metrics of a run do not fit into a stored run, even as summaries."""


class Wanted(Struct, frozen=True):
    """The content that a stored run should have."""

    #: True for a series that a rule names.
    is_named: Callable[[Key], bool]
    #: True for a series that may be stored.
    is_kept: Callable[[Key], bool]
    #: Returns the statistics of a metric that rules ask for.
    statistics: Callable[[str], Sequence[str]]
    #: True for a metric that a rule judges on each rank, or on a named rank.
    is_judged_by_rank: Callable[[str], bool] = lambda metric: False
    warmup: WarmUpRule = "auto"
    #: True for the samples of every metric, as far as there is room.
    keep_all: bool = False
    most_bytes: int = MOST_BYTES
    #: The bytes of the file beside its rows: the environment, the approval, the names of its sources.
    head_bytes: int = 16 << 10


class _Rows(Struct, frozen=True, dict=True):
    """One way to store a metric."""

    series: tuple[StoredSeries, ...] = ()
    summaries: tuple[StoredSummary, ...] = ()

    @cached_property
    def size(self) -> int:
        """The bytes of the rows in a file."""
        return sum(len(msgspec.json.encode(row)) + _LINE for row in (*self.series, *self.summaries))


class _Metric(Struct, frozen=True, dict=True):
    """A metric with its labels. Its first four properties are ways to store it, the longest first."""

    key: Key
    #: The series of each rank.
    members: dict[Member, Series]
    wanted: Wanted

    @cached_property
    def samples(self) -> _Rows:
        """Every series as it is, long ones thinned."""
        return _Rows(tuple(stored_series(series) for _, series in sorted(self.members.items())))

    @cached_property
    def speaking(self) -> _Rows:
        """The samples of the ranks that represent the run by the statistics of rules, and the statistics of others.

        The names here call such ranks `speaking`, and one statistic of every rank an `outline`.
        """
        longest = max(len(series.values) for series in self.members.values())
        if longest > KEEP_WHOLE or not self._sampled:
            return self.summary  # thinned samples would not have the value by which the rank is chosen
        return self._without_samples(OUTLINES, speakers(self._outlines(self._asked)))

    @cached_property
    def summary(self) -> _Rows:
        """Statistics instead of samples; short series, and series that have no samples, stay as they are."""
        return self._without_samples(OUTLINES)

    @cached_property
    def outline(self) -> _Rows:
        """The same, but ranks that cannot represent the run have only the statistics that rules ask for."""
        return self._without_samples(())

    @cached_property
    def _first(self) -> Series:
        return next(iter(self.members.values()))

    @cached_property
    def _asked(self) -> tuple[str, ...]:
        """The statistics that the rules ask for."""
        return tuple(self.wanted.statistics(self.key.metric)) or (default_statistic(self._first),)

    @cached_property
    def _method(self) -> Method:
        return method_of(self.key, self._first.unit, self.wanted.warmup)

    @cached_property
    def _sampled(self) -> dict[Member, Series]:
        return {member: series for member, series in self.members.items() if series.kind == "samples"}

    @cached_property
    def _known(self) -> dict[str, dict[Member, float]]:
        """The statistics of each rank that `_outlines` has computed."""
        return {}

    def _outlines(self, statistics: Iterable[str]) -> dict[str, dict[Member, float]]:
        """These statistics of each rank; each is computed once."""
        for name in statistics:
            if name not in self._known:
                self._known[name] = outline(self._sampled, self._method, name)
        return {name: self._known[name] for name in statistics}

    def _without_samples(self, outlines: Sequence[str], whole: Collection[Member] = ()) -> _Rows:
        """The rows in which only the ranks of `whole`, and short series of speaking ranks, have samples.

        The speaking ranks, which get every statistic, are chosen by `outlines` and by the statistics of rules. Other
        ranks get only the statistics that are used for this choice.
        """
        values: dict[str, dict[Member, float]] = {}
        speaking = set(self._sampled)  # few ranks all represent the run
        if len(self._sampled) > MANY_RANKS:
            chosen = [*dict.fromkeys((*outlines, *self._asked))]
            if len(chosen) == len(STATISTICS):  # a reader tells the two lists apart by their number
                chosen.append(next(name for name in (f"p{q}" for q in range(1, 99)) if name not in chosen))
            values = self._outlines(chosen)
            speaking = speakers(values)
        with_samples = {member for member in speaking if len(self._sampled[member].values) <= FEW_VALUES}
        with_samples.update(whole)
        others = {member: series for member, series in self._sampled.items() if member not in with_samples}
        if not others:
            return self.samples
        judged = self._asked if self.wanted.is_judged_by_rank(self.key.metric) else ()
        summary = condensed(self.key, others, self._method, speaking, values, judged)
        if summary is None:  # values that are not finite have no statistics
            return self.samples
        rows = (stored_series(series) for member, series in sorted(self.members.items()) if member not in others)
        return _Rows(tuple(rows), (summary,))

    @property
    @np.errstate(over="ignore")
    def seconds(self) -> float:
        """The time of the metric in all ranks; 0 if its unit is not a time."""
        if self._first.unit != "s":
            return 0.0
        total = 0.0
        for series in self.members.values():
            if series.kind == "aggregate":
                printed = series.aggregate  # a mean counts once if the number of calls is unknown
                total += printed.get("total", printed.get("mean", 0.0) * printed.get("count", 1.0))
            else:
                total += float(series.values.sum())
        return total


def contents(run: Run, wanted: Wanted) -> Contents:
    """Return the rows of a run. Raises TooLarge if the named metrics do not fit."""
    named: dict[Key, _Metric] = {}
    others: dict[Key, _Metric] = {}
    for series in run.series:
        if wanted.is_kept(series.key):
            metrics = named if wanted.is_named(series.key) else others  # a rule may name some ranks of a metric only
            key = series.key.without_members()
            metrics.setdefault(key, _Metric(key, {}, wanted)).members[series.key.member()] = series
    most, usual = wanted.most_bytes - wanted.head_bytes, USUAL_BYTES - wanted.head_bytes
    try:  # the named metrics are shortened until USUAL_BYTES has room for a small tree
        chosen, shortened = _fitting(named, min(most, usual - _LEAST_TREE) if run.call_trees else most)
    except TooLarge:  # not even as summaries, so they may take all of MOST_BYTES
        chosen, shortened = _fitting(named, most)
    used = sum(rows.size for rows in chosen)
    tree = None
    if run.call_trees:
        from perfgate.baselines.stored_trees import write_tree

        tree = write_tree(run.call_trees, min(_TREE_BYTES, most - used, max(usual - used, _LEAST_TREE)))
    filled, left_out = _filled(others, wanted, used, len(msgspec.json.encode(tree)))
    rows = [*chosen, *filled]
    stored = sorted((row for part in rows for row in part.series), key=lambda row: row.key)
    summaries = [row for part in rows for row in part.summaries]
    summaries.sort(key=lambda row: (row.metric, sorted(row.labels.items())))
    return Contents(stored, summaries, left_out, shortened, tree)


def _fitting(named: Mapping[Key, _Metric], room: int) -> tuple[list[_Rows], tuple[str, ...]]:
    """Return the rows of the named metrics, the largest ones shortened until all fit, and the names of these.

    Raises TooLarge if they do not fit in any way.
    """
    chosen = {key: metric.samples for key, metric in named.items()}
    size = sum(rows.size for rows in chosen.values())
    shortened: set[str] = set()
    ways: tuple[Callable[[_Metric], _Rows], ...] = (lambda m: m.speaking, lambda m: m.summary, lambda m: m.outline)
    for shorten in ways:
        for key, rows in sorted(chosen.items(), key=lambda item: (-item[1].size, item[0])):  # the largest first
            if size <= room:
                break
            shorter = shorten(named[key])
            if shorter.size < rows.size:
                chosen[key] = shorter
                size += shorter.size - rows.size
                shortened.add(key.metric)
    if named and size > room:  # the room is below 0 if the head is very long
        ranks = max(len(metric.members) for metric in named.values())
        raise TooLarge(
            f"{len(named)} metrics of {ranks} ranks that the rules name take {size / 1024:.0f} KiB, and a stored run"
            f" has room for {room / 1024:.0f} KiB"
        )
    return list(chosen.values()), tuple(sorted(shortened))


def _filled(
    others: Mapping[Key, _Metric], wanted: Wanted, named: int, tree: int
) -> tuple[list[_Rows], tuple[str, ...]]:
    """Return the rows of the other metrics that fit beside `named` and `tree` bytes, and the names of the rest.

    Summaries come first, in the room of point 3 of the head of this file. Then samples, only if all metrics are to have
    them, in the room that is left of `most_bytes`.
    """
    used = wanted.head_bytes + named + tree
    left = room = wanted.most_bytes - used
    # if `named` is small and `used` is larger than USUAL_BYTES, the head is very long: no other metric is stored
    if named < USUAL_BYTES // 2 or used <= USUAL_BYTES:
        room = min(left, USUAL_BYTES - used)
    ordered = _by_time(others)
    chosen: dict[Key, _Rows] = {}
    for key in ordered:
        if room < _LEAST_ROOM:
            break
        rows = others[key].summary
        if rows.size <= room:
            chosen[key] = rows
            room -= rows.size
    left -= sum(rows.size for rows in chosen.values())
    for key in ordered if wanted.keep_all else ():
        samples = others[key].samples
        grown = samples.size - (chosen[key].size if key in chosen else 0)
        if grown <= left:
            chosen[key] = samples
            left -= grown
    return list(chosen.values()), tuple(sorted({key.metric for key in others.keys() - chosen.keys()}))


def _by_time(metrics: Mapping[Key, _Metric]) -> list[Key]:
    """Return the keys of metrics with the largest times first.

    Other units (calls, bytes) are sorted with the times of the same operator; without such times they come first.
    """
    seconds = {key: metrics[key].seconds for key in sorted(metrics)}  # sorted: the result depends on it for nan
    operators = {key: key.metric.rpartition(".")[0] for key in metrics}  # the name without its last word
    longest: dict[str, float] = {}  # the largest time of each operator
    for key, time in seconds.items():
        if time:
            longest[operators[key]] = max(longest.get(operators[key], 0.0), time)
    return sorted(seconds, key=lambda key: (-(seconds[key] or longest.get(operators[key], math.inf)), key))
