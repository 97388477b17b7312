"""The metrics whose values a check needs, found from the rules before any file is read.

The process that reads a rank returns all other metrics as outlines: a few numbers for each metric instead of its
values. A rule about a change from stored runs also needs the parts that may explain it; one about ranks does not. Only
traces are shortened: other runs have few metrics. A trace without a call tree keeps all for the causes of a change.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from perfgate.analysis.unruled import size_of
from perfgate.core import Run, Series
from perfgate.core.outlines import Fingerprint, MetricName, Outline, Outlines, more_outlines
from perfgate.core.packed_trees import PackedTrees
from perfgate.judge.derived import component_names
from perfgate.judge.doubts.copies import WITHOUT_NOISE, rarity
from perfgate.judge.explanation import part_globs
from perfgate.judge.stalls import STALL_METRICS
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.sentence import ChangeClause, glob_matches

#: The number of steps of a trace is that of the values of this metric.
_STEP = "step.time"
_TRACE = "torch-trace"


@dataclass(frozen=True, slots=True)
class NeededValues:
    """The names and globs of metrics whose values are needed."""

    names: frozenset[str]
    globs: tuple[str, ...]
    #: True if there are stored runs: then the sizes of the other metrics are compared with theirs.
    with_sizes: bool
    _known: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def reads(self, metric: str) -> bool:
        """Return whether the values of a metric are needed."""
        if metric not in self._known:
            self._known[metric] = metric in self.names or any(glob_matches(glob, metric) for glob in self.globs)
        return self._known[metric]

    def shortened(self, runs: tuple[Run, ...]) -> tuple[Run, ...]:
        """Return the runs of a file; in traces, metrics whose values are not needed are replaced by outlines."""
        return tuple(map(self._shortened, runs))

    def _shortened(self, run: Run) -> Run:
        """Return a run with outlines; one that is not a trace of a single rank does not change."""
        # the causes of a change from stored runs need all values of a trace without call trees
        if run.format != _TRACE or (self.with_sizes and not run.call_trees):
            return run
        kept, outlined = list[Series](), list[Series]()
        for one in run.series:
            # `groups`: the calls of ranks are matched by the values of collectives
            is_needed = one.kind != "samples" or one.groups or self.reads(one.key.metric)
            (kept if is_needed else outlined).append(one)
        ranks = {one.key.label("rank") or "" for one in outlined}
        if len(ranks) != 1:
            return run
        steps = {one.key.member(): max(1, len(one.values)) for one in run.series if one.key.metric == _STEP}
        rows = defaultdict[MetricName, list[Series]](list)
        for one in outlined:
            name = one.key.without_members()
            rows[name.metric, name.labels, one.unit].append(one)
        outlines = {name: self._outline(each, steps) for name, each in rows.items()}
        found = Outlines(outlines, {ranks.pop(): fingerprint(outlined)})
        if run.outlines is not None:  # the rank was shortened before, and now keeps fewer values
            found = more_outlines(run.outlines, found)
        trees = run.call_trees
        if isinstance(trees, tuple) and trees:
            trees = PackedTrees(trees)
        return replace(run, series=tuple(kept), outlines=found, call_trees=trees)

    def _outline(self, series: Iterable[Series], steps: Mapping[tuple[tuple[str, str], ...], int]) -> Outline:
        """Return the outline of a metric; `steps` is the number of steps by rank and device.

        A time also has its seconds per step, for the parts of a step.
        """
        measured = [size_of(one) for one in series] if self.with_sizes else []
        sizes = [size for size in measured if size is not None]
        per_step = [float(one.values.sum()) / steps.get(one.key.member(), 1) for one in series if one.unit == "s"]
        return Outline(
            medians=tuple(one.value for one in sizes),
            errors=tuple(one.error for one in sizes),
            totals=tuple(one.total for one in sizes),
            per_step=tuple(filter(math.isfinite, per_step)),
        )


def fingerprint(series: Iterable[Series]) -> Fingerprint:
    """Return the fingerprint of series with noise, which shows copies: it is equal if all their values are equal."""
    digest, bits = hashlib.blake2b(digest_size=16), 0.0
    for one in sorted(series, key=lambda one: one.key):
        if one.unit not in WITHOUT_NOISE:
            digest.update(f"{one.key}\0{len(one.values)}\0".encode("utf-8", "surrogatepass") + one.values.tobytes())
            bits += rarity(one)
    return Fingerprint(digest.digest(), bits)


def needed_by(rulesets: Iterable[Ruleset], *, with_sizes: bool) -> NeededValues | None:
    """Return the metrics whose values rules need; None for all, if a ruleset computes metrics from a model."""
    names = {*STALL_METRICS}
    for ruleset in rulesets:
        if ruleset.model is not None:  # its `mfu` and `hfu` follow from metrics that no rule names
            return None
        names.update(ruleset.metrics)
        for metric in ruleset.metrics.values():
            names |= component_names(metric.expression, ruleset.metrics)
        for rule in ruleset.rules:
            names |= _read_by(rule, ruleset)
    globs = tuple(sorted(name for name in names if any(mark in name for mark in "*?[")))
    return NeededValues(frozenset(names), globs, with_sizes)


def _read_by(rule: Rule, ruleset: Ruleset) -> set[str]:
    """The metrics that a rule reads; for a change from stored runs, also the parts that may explain it."""
    names = {*component_names(rule.sentence.subject, ruleset.metrics)}
    if any(isinstance(clause.asks, ChangeClause) and clause.asks.is_stored for clause in rule.clauses):
        names = names.union(*map(part_globs, names))
    return names
