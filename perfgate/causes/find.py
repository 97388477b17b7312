"""Find all causes of a change.

A finding is a change of some nodes of the call tree. One change of the program may make several findings, so they are
grouped; a group that is larger than noise is a cause.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from perfgate.causes import kinds
from perfgate.causes.align import Alignment, Finding, align, heads_of_runs, incomparable, obstacle_to_causes, same_ranks
from perfgate.causes.consequences import Explanation
from perfgate.causes.grouping import grouped
from perfgate.causes.host import host_speed, note_of, with_host_error
from perfgate.causes.merged import RunTrees
from perfgate.causes.noise import Noise, SeriesNoise, measure_noise
from perfgate.causes.paired import PairNoise, in_pairs
from perfgate.causes.ranks import not_timed, place_times, rank_times
from perfgate.causes.recognised import types_of
from perfgate.causes.series_findings import find_in_series
from perfgate.causes.trace_findings import find_in_traces
from perfgate.core.causes import Cause, CauseReport
from perfgate.core.verdicts import Verdict

#: A change of time is a cause if it is larger than this share of the step, and than this number of standard errors.
_WORTH, _CLEAR = 0.004, 3.0
#: Calls that came or went are certain, so that a smaller share of the step is enough.
_WORTH_EDIT = 0.002
#: Calls that were replaced at no clear cost are a cause if they had, or have, this share of the step.
_REPLACED = 0.02
#: Steps are alike if their numbers of calls differ by at most this share.
_ALIKE = 0.01
#: A cause from timers that is this many times as large as the change of the step: noise hides the change of the step.
_LARGEST_SHARE = 2.0
_AnyNoise: TypeAlias = "Noise | PairNoise | SeriesNoise"
#: By derived metric: the metrics that it is computed from.
_Components: TypeAlias = Mapping[str, Collection[str]]


@np.errstate(over="ignore", invalid="ignore")  # a time near the largest float has an infinite variance
def find_causes(
    base: Sequence[RunTrees],
    new: Sequence[RunTrees],
    *,
    other_device: bool = False,
    verdicts: Sequence[Verdict] = (),
    components: _Components | None = None,
    metrics: Sequence[str] = (),
    paired: bool = False,
) -> CauseReport:
    """Return what changed between two sides.

    Parameters:
        base: the call trees of each base run, one for each rank; at least one.
        new: those of the new runs.
        other_device: True if the sides ran on different devices: then their kernels cannot be compared one by one.
        verdicts: the verdicts on these runs; a cause names those that it explains.
        components: by the metric of a verdict: the metrics that it is computed from, if it is a derived one.
        metrics: other metrics; the report names those that follow from a cause.
        paired: True if run i of both sides took its steps by turns.
    """
    notes = incomparable(base, new)
    base, new = same_ranks(base, new, paired=paired)
    alignment, noise = _aligned(base, new, paired=paired)
    obstacle = obstacle_to_causes(alignment)
    if obstacle is not None:
        return _closed((), alignment, noise, (obstacle, *notes))
    findings, found_notes = _grouped_findings(alignment, noise, other_device=other_device)
    groups = _groups(findings, alignment, verdicts)
    hidden = frozenset[int]()
    if isinstance(noise, Noise):
        groups = [with_host_error(group, alignment) if group.is_edit else group for group in groups]
    elif isinstance(noise, SeriesNoise):
        hidden = not_timed(alignment, groups)  # timers of one side
    report = _closed(groups, alignment, noise, (*notes, *found_notes))
    tree, ranks = place_times(alignment, report.causes, hidden), rank_times(alignment, hidden)
    explanation = _explanation(groups, report.causes, alignment, noise, components or {})
    told = tuple(metric for metric in metrics if explanation.is_told(metric))
    return replace(report, causes=explanation.of(verdicts), explained=told, tree=tree, ranks=ranks)


def _aligned(base: Sequence[RunTrees], new: Sequence[RunTrees], *, paired: bool) -> tuple[Alignment, _AnyNoise]:
    """Return both sides on one tree, of traces in pairs with one column for each pair; and the noise of its nodes."""
    alignment = align(base, new)
    if any(head.error is not None for head in heads_of_runs((*base, *new))):
        return alignment, SeriesNoise(alignment)  # trees that are made from metrics have a mean instead of steps
    if paired:
        alignment = in_pairs(alignment)
        return alignment, PairNoise(alignment)
    return alignment, measure_noise(alignment)


def _grouped_findings(alignment: Alignment, noise: _AnyNoise, *, other_device: bool) -> tuple[list[Finding], list[str]]:
    """Return one finding for each change of the program, and notes for the user."""
    if not any(_step_times(alignment)):
        return [], []  # a snapshot of memory has no times
    if isinstance(noise, SeriesNoise):
        findings, notes = find_in_series(alignment, noise)
        return findings, [*notes, *(["the two sides ran on different devices"] if other_device else [])]
    findings, notes = find_in_traces(alignment, noise, other_device=other_device)
    if isinstance(noise, Noise):  # both sides of pairs ran on one machine
        notes += note_of(host_speed(alignment), _step_times(alignment)[0])
    return grouped(findings, alignment, noise), notes


def _closed(groups: Sequence[Finding], alignment: Alignment, noise: _AnyNoise, notes: tuple[str, ...]) -> CauseReport:
    """Return the report: the causes, and the rest of the step's change that they do not explain."""
    before, after = _step_times(alignment)
    causes = [_cause(group, alignment, noise, after - before) for group in _sorted(groups, alignment)]
    explained = sum(cause.change_per_step for cause in causes)
    _, error = noise.change(range(len(alignment.nodes)))
    between = abs(host_speed(alignment).effect) + noise.device_effect if isinstance(noise, Noise) else 0.0
    memory, memory_notes = kinds.find_memory(alignment)
    return CauseReport(
        (*causes, *memory),
        base_step=before,
        new_step=after,
        rest=after - before - explained,
        noise=noise.reach * error + between,  # `between`: clocks, and the speed of the host, differ by process
        base_runs=alignment.base.runs,
        new_runs=alignment.new.runs,
        notes=(*notes, *memory_notes),
    )


def _step_times(alignment: Alignment) -> tuple[float, float]:
    """The typical time of a step on both sides in s: the median, or the mean if some steps do other work.

    Steps of a side that differ in their calls do other work. If each run has one step, it is the mean, too.
    """
    calls = [side.counts.sum(axis=0) for side in alignment.sides]
    are_several = all(side.wall.shape[1] > side.runs for side in alignment.sides)
    is_alike = are_several and all(np.ptp(steps) <= _ALIKE * steps.mean() for steps in calls)
    typical = np.median if is_alike else np.mean
    return float(typical(alignment.base.wall.sum(axis=0))), float(typical(alignment.new.wall.sum(axis=0)))


def _sorted(groups: Sequence[Finding], alignment: Alignment) -> list[Finding]:
    """The groups, the largest change first."""
    return sorted(groups, key=lambda group: (-abs(group.change), _where(group, alignment)))


def _where(group: Finding, alignment: Alignment) -> tuple[str, ...]:
    """The path of the place of a group; one word if it is a device or the host as a whole."""
    whole = {"machine": "device", "host": "host"}.get(group.kind)
    return alignment.path(group.lead) if whole is None else (whole,)


def _explanation(
    groups: Sequence[Finding], causes: Sequence[Cause], alignment: Alignment, noise: _AnyNoise, components: _Components
) -> Explanation:
    """The causes with their nodes, and the largest change of a host time that the host's speed explains (2 sigma)."""
    speed = host_speed(alignment)
    host = math.copysign(abs(speed.shift) + 2 * speed.scatter, speed.shift) if isinstance(noise, Noise) else 0.0
    return Explanation(alignment, causes, _sorted(groups, alignment), components, host)


def _groups(findings: Sequence[Finding], alignment: Alignment, verdicts: Sequence[Verdict]) -> list[Finding]:
    """The findings that are causes. If exact work failed and there is none, the largest edit is one, however small."""
    groups = [finding for finding in findings if _matters(finding, alignment)]
    failed = {one.metric.partition(".")[0] for one in verdicts if one.outcome == "fail"}
    if groups or "work" not in failed:
        return groups
    return sorted((one for one in findings if one.is_edit), key=lambda edit: -abs(edit.change))[:1]


def _matters(group: Finding, alignment: Alignment) -> bool:
    """True if a group is larger than noise and worth a line: then it is a cause.

    A call that appeared or vanished is never noise. A replacement of calls with much time is not noise either.
    """
    step = max(_step_times(alignment))
    if group.kind == "slow rank":
        return True  # `find_slow_ranks` has tested it against the other ranks
    if group.kind == "stall":
        return abs(group.change) >= _WORTH * step  # waits come in bursts: `find_slowdowns` has tested them
    if not group.is_edit or group.kind in ("larger", "smaller"):  # these have kernels that are called as before
        return abs(group.change) >= max(_WORTH * step, _CLEAR * group.error)
    largest = max(abs(float(alignment.busier[node])) for node in (*group.come, *group.gone))
    if group.kind == "moved":  # what it costs at one place, it saves at the other
        return largest >= _WORTH * step
    if group.kind == "replaced" and abs(group.change) < _CLEAR * group.error:
        return largest >= _REPLACED * step
    return abs(group.change) >= _WORTH_EDIT * step


def _cause(group: Finding, alignment: Alignment, noise: _AnyNoise, total: float) -> Cause:
    """The cause that a group is. `total` is the change of the step in s."""
    where, reach = _where(group, alignment), noise.reach * group.error  # half of the 95 % interval
    share = group.change / total if total else None
    # no share if noise of timers hides the change of the step
    is_hidden = share is not None and isinstance(noise, SeriesNoise) and not 0 < share <= _LARGEST_SHARE
    places = dict.fromkeys((where, *(alignment.path(parent) for parent in group.parents if parent)))
    return Cause(
        group.kind,
        where,
        "time" if alignment.has_steps or not isinstance(noise, SeriesNoise) else "total time",
        group.change,
        low=group.change - reach,
        high=group.change + reach,
        share=None if is_hidden else share,
        ranks=group.ranks,
        gone=_calls(group.gone, alignment),
        come=_calls(group.come, alignment),
        places=tuple(places),
        source=_source(group, alignment),
        factor=group.factor,
        types=types_of(group.nodes, alignment),
    )


def _calls(nodes: tuple[int, ...], alignment: Alignment) -> tuple[tuple[str, float], ...]:
    """The names of nodes with the size of the change of their calls a step, the largest change of time first."""
    found: dict[str, float] = defaultdict(float)
    for node in sorted(nodes, key=lambda node: (-abs(alignment.busier[node]), node)):
        found[alignment.nodes[node].name] += abs(float(alignment.more_calls[node]))
    return tuple((name, round(count, 3)) for name, count in found.items())


def _source(finding: Finding, alignment: Alignment) -> str:
    """Return the line of a finding, `model.py(31): forward`; empty if the traces have no stacks.

    Kernels and calls of the backward pass have no line of Python themselves. They have the line of the operator that
    launched them, or that of calls of the forward pass that came or went with them.
    """
    edits = (sorted(nodes, key=lambda node: -abs(alignment.busier[node])) for nodes in (finding.come, finding.gone))
    lines = (_line(node, alignment) for node in (finding.lead, *chain.from_iterable(edits)))
    callers = (alignment.nodes[node] for node in alignment.chain(finding.lead)[1:])
    ranges = (caller.source for caller in callers if caller.kind == "range")
    return next(filter(None, (*lines, *ranges)), "")


def _line(node: int, alignment: Alignment) -> str:
    """The line of a node, or of the nearest operator above it; empty if no operator is between it and its range."""
    for caller in alignment.chain(node):
        is_range = alignment.nodes[caller].kind == "range"
        source = alignment.nodes[caller].source
        if source and (caller == node or not is_range):
            return source
        if is_range:
            break
    return ""
