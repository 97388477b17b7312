"""Find the verdicts that follow from each cause.

A metric of a trace is a sum over nodes of the call tree: `step.kernel` over kernels, `kernel.NAME` over the nodes of
that name, `op.NAME` over an operator and what it calls. A verdict belongs to the cause that makes at least half of the
change of its metric, or of the component that changed most if the metric is derived. It belongs to none if its metric
has no place in the tree, or if the tree did not change as the verdict says. A verdict about the peak of the memory
belongs to the first cause of memory, and one that compares ranks to the slow rank. Outcomes do not change.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from operator import ge, gt, le, lt

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.causes.align import Alignment, Finding
from perfgate.causes.merged import Floats, Masks
from perfgate.causes.nesting import without_domain
from perfgate.core.call_trees import ALLOCATIONS, DEVICE_KINDS, LAUNCHES, SYNCS, stable_name
from perfgate.core.causes import Cause
from perfgate.core.verdicts import Verdict, verdict_ids

#: A cause explains a metric if it makes at least this part of the metric's change.
_MOST = 0.5
#: The reasons of verdicts about a metric that one side lacks: a cause explains them if all its calls came or went.
_ABSENT = ("metric-absent", "no-baseline")
#: The reason of a verdict about a metric that has fewer values than in the base.
_LESS = "measured-less"
#: The kinds of the nodes of `step.PART`, by part. Other parts have no place in the tree.
_PARTS = {
    "kernel": ("kernel",),
    "communication": ("communication", "collective"),
    "memcpy": ("copy",),
    "memset": ("copy",),
    "runtime": ("runtime",),
    "dataloader": ("loader",),
    "cpu_exec": ("operator",),
    "other": ("step", "range", "thread"),
}
#: The same for `work.NAME`.
_WORK = {
    "ops": ("operator",),
    "copies": ("copy",),
    "collectives": _PARTS["communication"],
    "collective_bytes": _PARTS["communication"],
}
#: By the family of a metric, the word before its first dot: the kinds of its nodes.
_FAMILIES = {
    "kernel": ("kernel", "communication"),
    "op": ("operator", "collective", "loader"),
    "range": ("range", "collective", "loader"),
}
#: The beginnings of the metrics that are times of the host.
_OF_HOST = ("op.", "range.", "step.runtime", "step.cpu_exec")
#: The families of metrics that measure calls: time that a device idles, or that the host waits, is not part of them.
_OF_CALLS = ("op", "kernel", "collective", "work")


class _MetricChange(Struct, frozen=True):
    """The change of a metric, as the call trees show it."""

    #: The part of each node in the change, (n,).
    by_node: Floats
    #: new / base - 1; None if it is unknown.
    relative: float | None
    #: True if only one side has the metric.
    is_absent: bool = False
    #: False if the trees do not show whether the metric rose or fell.
    has_sign: bool = True


class Explanation(Struct, frozen=True, dict=True):
    """The causes of an alignment, the nodes that each explains, and the answer for any verdict."""

    alignment: Alignment
    causes: Sequence[Cause]
    #: The findings of the first causes, in the same order. All other causes are about memory.
    findings: Sequence[Finding]
    #: By derived metric or expression: the metrics that it is computed from.
    components: Mapping[str, Collection[str]]
    #: The largest ln(new / base) that a faster or slower host explains, with its sign; 0 if it is unknown.
    host: float = 0.0

    def of(self, verdicts: Sequence[Verdict]) -> tuple[Cause, ...]:
        """The causes with their verdicts."""
        found: dict[int, list[str]] = {}
        for verdict, name in zip(verdicts, verdict_ids(verdicts), strict=True):
            if verdict.outcome not in ("pass", "skipped") and (at := self._cause_of(verdict)) is not None:
                found.setdefault(at, []).append(name)
        return tuple(replace(cause, verdicts=tuple(found.get(at, ()))) for at, cause in enumerate(self.causes))

    def _cause_of(self, verdict: Verdict) -> int | None:
        """The index of the cause of a verdict."""
        if verdict.against is not None and verdict.against.endswith("rank"):  # ranks are compared: `median rank`
            return next((at for at, cause in enumerate(self.causes) if cause.kind == "slow rank"), None)
        if verdict.metric.startswith(("memory.peak", "memory.reserved")):
            return next((at for at, cause in enumerate(self.causes) if cause.metric == "memory"), None)
        names = self.components.get(verdict.metric, ()) or (verdict.metric,)
        changes = [(change, name) for name in sorted(names) if (change := self._change(name)) is not None]
        # of the components of a derived metric, the one that changed most counts
        largest, name = max(changes, key=lambda one: abs(one[0].relative or 0.0), default=(None, ""))
        if largest is None or not _agrees(verdict, largest, is_derived=names != (verdict.metric,)):
            return None
        return self._main_cause(largest, name)

    def is_told(self, metric: str) -> bool:
        """True if the report tells why a metric changed: by a cause, or because the whole host has another speed."""
        found = self._change(metric)
        if found is None:
            return False
        # -0.99, because the logarithm of 0 is infinite
        log_change = math.log1p(max(found.relative or 0.0, -0.99)) if metric.startswith(_OF_HOST) else 0.0
        follows_host = log_change * self.host > 0 and abs(log_change) <= abs(self.host)
        return follows_host or self._main_cause(found, metric) is not None

    def _main_cause(self, change: _MetricChange, metric: str) -> int | None:
        """The index of the cause that makes at least half of a change; None if there is none.

        For a metric of calls, only the nodes of a cause that are calls count.
        """
        total = float(change.by_node.sum())
        family = metric.partition(".")[0]
        if family in _OF_CALLS:
            parts = [float(change.by_node[sorted(one.nodes - one.idle)].sum()) for one in self.findings]
        else:
            parts = self._parts(change.by_node)
        if total == 0 or not parts:
            return None
        at = max(range(len(parts)), key=lambda at: parts[at] / total)
        return at if parts[at] / total >= _MOST else None

    def _parts(self, by_node: Floats) -> list[float]:
        """The part of each cause in a change: that of its own nodes, and a share of the change of waiting.

        Calls of the runtime that belong to no cause wait for the device. If they wait longer, the causes with more time
        on the device share that, in proportion to this time. If they wait shorter, those with less time share it.
        """
        tree = self.alignment
        waits = np.where(tree.of_kind("runtime"), by_node, 0)
        waits[sorted(node for finding in self.findings for node in finding.nodes)] = 0
        waited = float(waits.sum())
        on_device = np.where(tree.of_kind(*DEVICE_KINDS), tree.longer, 0)
        nodes = [sorted(finding.nodes) for finding in self.findings]
        work = np.array([on_device[own].sum() for own in nodes])
        alike = np.where(work * waited > 0, work, 0.0)  # the causes whose time changed as the waiting did
        shares = waited * alike / alike.sum() if alike.any() else alike
        return [float(by_node[own].sum() + share) for own, share in zip(nodes, shares, strict=True)]

    def _change(self, metric: str) -> _MetricChange | None:
        """The change of a metric; None if it has no place in the tree."""
        family, _, name = metric.partition(".")
        if family == "step" and name:
            everything = np.ones(len(self.alignment.nodes), bool)
            return self._of_wall(everything if name == "time" else self.alignment.of_kind(*_PARTS.get(name, ())))
        if family == "comm" and name:
            chosen = self.alignment.of_kind("communication", "collective")
            return self._of_wall(chosen) if name == "exposed" else self._of_busy(chosen)
        if family == "gpu" and name:
            return self._of_device(name)
        if family == "work":
            return self._of_work(name)
        return self._of_calls(metric, family, name)

    def _of_work(self, name: str) -> _MetricChange:
        """The change of `work.NAME`: of the time of devices, or of a number of calls.

        `work` without a name, and names that are not here, count all kernels, copies and calls of the runtime.
        """
        tree = self.alignment
        if name == "device_time":
            return self._of_busy(tree.of_kind(*DEVICE_KINDS))
        named = {"syncs": SYNCS, "allocations": ALLOCATIONS, "launches": LAUNCHES}.get(name)
        if named is not None:
            chosen = np.array([named.fullmatch(node.name) is not None for node in tree.nodes])
        else:
            chosen = tree.of_kind(*_WORK.get(name, ("kernel", "copy", "runtime")))
            if not tree.more_calls[chosen].any():  # none of these changed: use the operators, which make these calls
                chosen = tree.of_kind("operator")
        return _MetricChange(np.where(chosen, tree.more_calls, 0), None, has_sign=False)

    def _of_device(self, name: str) -> _MetricChange | None:
        """The change of `gpu.NAME`: the idle time, the share of kernels in the step, or a mean over kernels."""
        kernels, sides = self.alignment.of_kind("kernel", "communication"), self.alignment.sides
        if name.startswith("idle"):
            return self._of_wall(~self.alignment.of_kind(*DEVICE_KINDS))
        if name in ("utilization", "sm_efficiency"):
            shares = [float(side.times[kernels].sum() / max(side.times.sum(), 1e-12)) for side in sides]
            # the differential of share = kernels / step: d(share) = sum(longer * (is_kernel - share)) / step. It is
            # not divided by the step here, because only the part of each node in the sum counts
            return _MetricChange(self.alignment.longer * (kernels - shares[0]), _relative(*shares))
        # all other metrics, such as occupancy, are means of kernels weighted by their durations: only the change of the
        # weights is known
        base, new = (np.where(kernels, side.durations, 0) for side in sides)
        moved = np.abs(new / max(new.sum(), 1e-12) - base / max(base.sum(), 1e-12))
        return _MetricChange(moved, None, has_sign=False) if moved.any() else None

    def _of_calls(self, metric: str, family: str, name: str) -> _MetricChange | None:
        """The change of the calls with a name. A metric of an unknown family is a timer: a node has its whole name."""
        chosen = self._named(metric, family, name)
        if not chosen.any():
            return None
        if family not in ("kernel", "collective"):  # the time of these calls includes that of the host's calls below
            for index, node in enumerate(self.alignment.nodes[1:], 1):
                chosen[index] |= chosen[node.parent] and self._is_host[index]
        return self._of_busy(chosen)

    def _named(self, metric: str, family: str, name: str) -> Masks:
        """True for the nodes that have the name of a metric, (n,)."""
        nodes = self.alignment.nodes
        kinds = _FAMILIES.get(family)
        if family == "collective":
            # a node has the name of its kernel, such as ncclDevKernel_AllReduce; a metric may have a suffix, `.bytes`
            plain = name.partition(".")[0].replace("_", "").lower()
            found = [node.kind == "communication" and plain in node.name.replace("_", "").lower() for node in nodes]
        elif kinds is not None:  # their nodes have stable names; NVTX ranges may lack the domain
            wanted = {stable_name(name), stable_name(without_domain(name) if family == "range" else name)}
            found = [node.kind in kinds and node.name in wanted for node in nodes]
        else:
            # the timer of a statistic, `forward.max`, or of micro steps, which have no node if the tree has their sum
            names = (metric, metric.rpartition(".")[0], metric.removesuffix("_microstep"))
            found = [index > 0 and node.name in names for index, node in enumerate(nodes)]
        return np.array(found, bool)

    def _of_wall(self, chosen: Masks) -> _MetricChange | None:
        """The change of the wall time of nodes, their part of the step; None if neither side has any."""
        sums = [float(side.times[chosen].sum()) for side in self.alignment.sides]
        return _MetricChange(np.where(chosen, self.alignment.longer, 0), _relative(*sums)) if any(sums) else None

    def _of_busy(self, chosen: Masks) -> _MetricChange:
        """The change of the own durations of nodes."""
        base, new = (np.where(chosen, own, 0) for own in self._own)
        relative = _relative(float(base.sum()), float(new.sum()))
        return _MetricChange(new - base, relative, is_absent=not (base.any() and new.any()))

    @cached_property
    def _is_host(self) -> Masks:
        """True for the nodes whose time is that of the host, (n,).

        That is all nodes of a tree without a device, of timers or of a program on the CPU: also its communication.
        """
        has_device = self.alignment.of_kind("kernel", "copy", "runtime").any()
        return ~self.alignment.of_kind(*(DEVICE_KINDS if has_device else ()))

    @cached_property
    def _own(self) -> tuple[Floats, Floats]:
        """The duration of each node without those of the host's calls inside it, on both sides, (n,) each."""
        parents = np.array([node.parent for node in self.alignment.nodes], np.int64)
        host = self._is_host & (parents >= 0)
        busy = [side.durations for side in self.alignment.sides]
        base, new = (one - np.bincount(parents[host], one[host], len(one)) for one in busy)
        return base, new


def _relative(base: float, new: float) -> float | None:
    return new / base - 1 if base > 0 else None


def _agrees(verdict: Verdict, change: _MetricChange, *, is_derived: bool) -> bool:
    """True if the tree changed as the verdict says: absent on a side, in the same direction, or across the bound."""
    if verdict.reason == _LESS:  # calls that are made less often have fewer values, and take less time in all
        return float(change.by_node.sum()) < 0
    if verdict.outcome == "error":
        return change.is_absent and verdict.reason in _ABSENT
    if not change.has_sign or is_derived:  # a derived metric may fall if what it is computed from rises
        return True
    estimate = verdict.change.estimate if verdict.change else None
    if estimate is not None:
        return estimate * float(change.by_node.sum()) > 0
    new, relative = verdict.new.estimate if verdict.new else None, change.relative
    if verdict.kind != "limit" or new is None:
        return False
    if relative is None:
        return True  # the value in the base is unknown, so nothing contradicts the verdict
    if verdict.bound is None or relative <= -1:  # -1: the new value is 0, which does not show that of the base
        return False
    before = new / (1 + relative)  # the value in the base must have met the limit
    meets = {"under": lt, "at most": le, "over": gt, "at least": ge}
    return verdict.comparator in meets and bool(meets[verdict.comparator](before, verdict.bound))
