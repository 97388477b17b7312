"""The content of a stored run: samples of the metrics that rules name, a call tree, and a summary of everything else.

A stored run is at most MOST_BYTES long; the run of a trace is at most USUAL_BYTES long if its named metrics leave
enough room. The room is used in this order:

1. The metrics that rules name. If their samples do not fit, the largest metrics keep the samples of only the ranks that
   represent the run (the slowest, the median and the fastest); if that is not enough, only summaries.
2. The call tree of a trace: it gets smaller until it fits.
3. The other metrics, the largest times first. They get the rest of USUAL_BYTES. If the named metrics need more than
   half of USUAL_BYTES, and together with the call tree more than all of it, they get the rest of MOST_BYTES. The file
   has the number of metrics that were left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.baselines.condensed import MANY_RANKS, OUTLINES, condensed, method_of, outline, speakers, stored_series
from perfgate.baselines.files import KEEP_WHOLE, BaselineFile, StoredSeries, StoredSummary
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


class _Rows(Struct, frozen=True):
    """One way to store a metric."""

    series: tuple[StoredSeries, ...] = ()
    summaries: tuple[StoredSummary, ...] = ()

    @property
    def size(self) -> int:
        """The bytes of the rows in a file."""
        return sum(len(msgspec.json.encode(row)) + _LINE for row in (*self.series, *self.summaries))


class _Metric(Struct, frozen=True, dict=True):
    """A metric with its labels, and four ways to store it; each property below is shorter than the one before."""

    key: Key
    #: The series of each rank.
    members: dict[Member, Series]
    wanted: Wanted

    @cached_property
    def samples(self) -> _Rows:
        """Every series as it is, long ones thinned."""
        return _Rows(tuple(stored_series(one) for _, one in sorted(self.members.items())))

    @cached_property
    def speaking(self) -> _Rows:
        """The samples of the ranks that represent the run by the statistics of rules, and the statistics of others.

        Such a rank is called a speaking one; an outline is one statistic of every rank.
        """
        if max(len(one.values) for one in self.members.values()) > KEEP_WHOLE:
            return self.summary  # thinned samples would not have the value by which the rank is chosen
        return self._without_samples(OUTLINES, speakers(self._outlines(self._asked)) if self._sampled else ())

    @cached_property
    def summary(self) -> _Rows:
        """Statistics instead of samples; short series, and series that have no samples, stay as they are."""
        return self._without_samples(OUTLINES)

    @cached_property
    def outline(self) -> _Rows:
        """The same, but ranks that cannot represent the run have only the statistics that rules ask for."""
        return self._without_samples(())

    @cached_property
    def _asked(self) -> tuple[str, ...]:
        """The statistics that the rules ask for."""
        asked = tuple(self.wanted.statistics(self.key.metric))
        return asked or (default_statistic(next(iter(self.members.values()))),)

    @cached_property
    def _method(self) -> Method:
        return method_of(self.key, next(iter(self.members.values())).unit, self.wanted.warmup)

    @cached_property
    def _sampled(self) -> dict[Member, Series]:
        return {member: one for member, one in self.members.items() if one.kind == "samples"}

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
        """The rows in which only the ranks of `whole`, and short series of ranks that represent the run, have samples.

        `outlines`: statistics of the ranks that cannot represent the run, beside those that rules ask for.
        """
        many = len(self._sampled) > MANY_RANKS
        names = tuple(dict.fromkeys((*outlines, *self._asked)))
        judged = self._asked if self.wanted.is_judged_by_rank(self.key.metric) else ()
        values = self._outlines(names) if many else {}
        speaking = speakers(values) if many else set(self._sampled)  # the ranks that represent the run: if few, all
        short = {member for member in speaking if len(self._sampled[member].values) <= FEW_VALUES}
        others = {member: one for member, one in self._sampled.items() if member not in short.union(whole)}
        found = condensed(self.key, others, self._method, speaking, values, judged) if others else None
        if others and found is None:  # values that are not finite have no statistics
            return self.samples
        rows = tuple(stored_series(one) for member, one in sorted(self.members.items()) if member not in others)
        return _Rows(rows, () if found is None else (found,))

    @property
    @np.errstate(over="ignore")
    def seconds(self) -> float:
        """The time of the metric in all ranks; 0 if its unit is not a time."""
        total = 0.0
        for one in self.members.values() if next(iter(self.members.values())).unit == "s" else ():
            printed = one.aggregate  # a mean counts once if the number of calls is unknown
            mean = printed.get("mean", 0.0) * printed.get("count", 1.0)
            total += printed.get("total", mean) if one.kind == "aggregate" else float(one.values.sum())
        return total


def contents(run: Run, wanted: Wanted) -> Contents:
    """Return the rows of a run. Raises TooLarge if the named metrics do not fit."""
    groups: dict[Key, dict[Member, Series]] = {}
    for series in run.series:
        if wanted.is_kept(series.key):
            groups.setdefault(series.key.without_members(), {})[series.key.member()] = series
    named, others = [], []  # a rule may name some ranks of a metric only
    for key, members in sorted(groups.items()):
        of_rules = {m: one for m, one in members.items() if wanted.is_named(one.key)}
        rest = {m: one for m, one in members.items() if m not in of_rules}
        named += [_Metric(key, of_rules, wanted)] if of_rules else []
        others += [_Metric(key, rest, wanted)] if rest else []
    most = wanted.most_bytes - wanted.head_bytes
    # the room of the named metrics beside a small tree in USUAL_BYTES; if they do not fit into it, they get all
    beside_tree = USUAL_BYTES - _LEAST_TREE - wanted.head_bytes
    try:
        chosen, shortened = _fitting(named, beside_tree if run.call_trees and beside_tree < most else most)
    except TooLarge:
        chosen, shortened = _fitting(named, most)
    used = sum(rows.size for rows in chosen)
    tree = None
    if run.call_trees:
        from perfgate.baselines.stored_trees import write_tree

        usual = max(USUAL_BYTES - wanted.head_bytes - used, _LEAST_TREE)
        tree = write_tree(run.call_trees, min(_TREE_BYTES, most - used, usual))
    filled, left_out = _filled(others, wanted, used, len(msgspec.json.encode(tree)))
    rows = [*chosen, *filled]
    return Contents(
        sorted((row for one in rows for row in one.series), key=lambda row: row.key),
        sorted(
            (row for one in rows for row in one.summaries), key=lambda row: (row.metric, sorted(row.labels.items()))
        ),
        left_out,
        shortened,
        tree,
    )


def _fitting(named: Sequence[_Metric], room: int) -> tuple[list[_Rows], tuple[str, ...]]:
    """Return the rows of the named metrics, the largest ones shortened until all fit, and the names of these.

    Raises TooLarge if they do not fit in any way.
    """
    chosen = [metric.samples for metric in named]
    shortened: set[str] = set()
    ways: tuple[Callable[[_Metric], _Rows], ...] = (lambda m: m.speaking, lambda m: m.summary, lambda m: m.outline)
    for shorten in ways:
        sizes = [rows.size for rows in chosen]
        for i in sorted(range(len(named)), key=lambda i: (-sizes[i], named[i].key)):
            if sum(sizes) <= room:
                break
            shorter = shorten(named[i])
            if shorter.size < sizes[i]:
                chosen[i], sizes[i] = shorter, shorter.size
                shortened.add(named[i].key.metric)
    if (size := sum(rows.size for rows in chosen)) > room:
        ranks = max(len(metric.members) for metric in named)
        raise TooLarge(
            f"{len(named)} metrics of {ranks} ranks that the rules name take {size / 1024:.0f} KiB, and a stored run"
            f" has room for {room / 1024:.0f} KiB"
        )
    return chosen, tuple(sorted(shortened))


def _filled(others: Sequence[_Metric], wanted: Wanted, named: int, tree: int) -> tuple[list[_Rows], tuple[str, ...]]:
    """Return the rows of the other metrics that fit beside `named` and `tree` bytes, and the names of the rest.

    Summaries come first, in the room of point 3 of the head of this file. Then samples, only if all metrics are to have
    them, in the room that is left of `most_bytes`.
    """
    chosen: dict[Key, _Rows] = {}
    used = named + tree
    is_usual = named < USUAL_BYTES // 2 or wanted.head_bytes + used <= USUAL_BYTES
    usual = USUAL_BYTES if is_usual else MOST_BYTES
    room = min(wanted.most_bytes, usual) - wanted.head_bytes - used
    ordered = _by_time(others)
    for metric in ordered:
        if room < _LEAST_ROOM:
            break
        rows = metric.summary
        if rows.size <= room:
            chosen[metric.key] = rows
            room -= rows.size
    room = wanted.most_bytes - wanted.head_bytes - used - sum(rows.size for rows in chosen.values())
    for metric in ordered if wanted.keep_all else ():
        before = chosen[metric.key].size if metric.key in chosen else 0
        if (grown := metric.samples.size - before) <= room:
            chosen[metric.key] = metric.samples
            room -= grown
    return list(chosen.values()), tuple(sorted({m.key.metric for m in ordered if m.key not in chosen}))


def _by_time(metrics: Iterable[_Metric]) -> list[_Metric]:
    """Return metrics with the largest times first.

    Other units (calls, bytes) are sorted with the times of the same operator; without such times they come first.
    """
    found = list(metrics)
    by_stem: dict[str, float] = {}  # the largest time of each operator, by the name of a metric without its last word
    seconds = {metric.key: metric.seconds for metric in found}
    for metric in found:
        if metric.members and seconds[metric.key]:
            stem = metric.key.metric.rpartition(".")[0]
            by_stem[stem] = max(by_stem.get(stem, 0.0), seconds[metric.key])

    def order(metric: _Metric) -> tuple[float, Key]:
        own = seconds[metric.key] or by_stem.get(metric.key.metric.rpartition(".")[0], math.inf)
        return -own, metric.key

    return sorted(found, key=order)
