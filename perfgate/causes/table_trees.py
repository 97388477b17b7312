"""Trees of runs: those of their traces, or made from tables of kernels, operators and calls, or from timers.

Rows of a table do not say who calls them, so all are below the step. Devices and the host work at the same time, so the
sum of their times means nothing: a table gives one tree of the device and one of the host. Calls that wait for the
device are in the host's tree only.

* A table of torch's operators has a device time for each operator, for each of its kernels, and for each range of the
  program. The kernels are used if their sum is the sum that the table prints below its rows: then none is missing, and
  no range is among them. Otherwise the operators are used; also if names are cut, because several kernels can have one
  cut name. The rest of the printed sum, which no row has, is the time of the step itself.
* Nsight Systems has kernels and copies, calls of the CUDA API, and ranges, which are timers.

Times are divided by the number of steps: the calls of `ProfilerStep*`, or of a range or metric of a step. If neither
side counts steps, and nearly all rows of the new side have the same multiple of the base's calls, the new side is
divided by this multiple.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.causes.merged import RunTrees
from perfgate.causes.nesting import PERHAPS_WHOLE
from perfgate.causes.series_trees import range_trees, timer_trees
from perfgate.core import Run, Series
from perfgate.core.call_trees import PAGEABLE, CallNode, CallTree, NodeKind, stable_name

_REPEATED = re.compile(r"#\d+$")
#: For the tree of devices, and that of the host: the end of the names of metrics of own time, and the kind of the nodes
#: that these become; then the kinds of nodes of other metrics, by their first word.
_OWN_TIMES: Mapping[str, tuple[NodeKind, Mapping[str, NodeKind]]] = {
    ".self_device_time": ("kernel", {"kernel": "kernel", "memcpy": "copy"}),
    ".self_cpu_time": ("operator", {"api": "runtime", "os": "runtime"}),
}
#: Fewer rows are not worth a tree.
_FEWEST = 2
#: Kernels are used if their time is at least this part of that of the operators; and the other way around.
_MOST = 0.5
#: A table without a printed sum is complete if it has a row with less than this part of the time.
_TINY = 0.0005
#: A table with a printed sum is complete if its rows leave less than this part of it, a rounding error.
_DIGITS = 0.01
#: A multiple of calls counts if rows with this part of the calls have it, within a hundredth.
_NEARLY_ALL = 0.8


class TableRow(Struct, frozen=True):
    """The rows with one name: their time in s and their calls, summed over all steps, and their number."""

    time: float = 0.0
    calls: float = 0.0
    rows: int = 0

    def __add__(self, other: TableRow) -> TableRow:
        return TableRow(self.time + other.time, self.calls + other.calls, self.rows + other.rows)


def _trees(run: Run, own: str) -> tuple[CallTree, ...]:
    """The trees of devices or of the host, one for each rank. `own` is a key of `_OWN_TIMES`.

    Of the stages of Lightning, only `fit` counts if the run has it: its steps are those of the training.
    """
    has_fit = any(series.key.label("stage") == "fit" for series in run.series)
    by_rank: dict[str, list[Series]] = defaultdict(list)
    for series in run.series:
        is_of_steps = not has_fit or series.key.label("stage") in (None, "fit")
        if is_of_steps and {name for name, _ in series.key.labels} <= {"rank", "device", "action", "stage"}:
            by_rank[series.key.label("rank") or ""].append(series)
    found = (_tree(rank, series, own) for rank, series in sorted(by_rank.items()))
    return tuple(tree for tree in found if tree is not None)


def _tree(rank: str, series: Sequence[Series], own: str) -> CallTree | None:
    """The tree of one rank; None if it has too few rows."""
    table, whole = _own_times(series, own)
    kind, families = _OWN_TIMES[own]
    rows: dict[tuple[str, NodeKind], TableRow] = defaultdict(TableRow)
    for one in series:
        family, _, name = one.key.metric.partition(".")
        if one.unit == "s" and family in families and not one.key.metric.endswith(tuple(_OWN_TIMES)):
            rows[stable_name(name), families[family]] += _row(one)
    for name, row in table.items():
        rows[stable_name(name), kind] += row
    rows = {key: row for key, row in rows.items() if row.time > 0}
    if len(rows) < _FEWEST:
        return None
    times = [row.time for row in rows.values()]
    rest, is_cut = 0.0, False
    if table and whole:
        rest = max(whole - sum(times), 0.0)
        is_cut = rest > _DIGITS * whole
    elif table:
        is_cut = min(times) > _TINY * sum(times)
    return _made(rank, rows, rest, _steps(series), is_cut=is_cut)


def _plain(name: str) -> str:
    """The name of a row without the number that distinguishes rows with one name."""
    return _REPEATED.sub("", name)


def _row(series: Series) -> TableRow:
    """The row that a series is: its total, and its number of values or calls."""
    if series.kind in ("samples", "value"):
        # of a large baseline, `values` is a selection
        scale = (series.thinned_from or len(series.values)) / max(len(series.values), 1)
        return TableRow(float(series.values.sum()) * scale, len(series.values) * scale, 1)
    mean, total, count = (series.aggregate.get(name) for name in ("mean", "total", "count"))
    calls = float(count or 1.0)
    time = total if total is not None else (mean or 0.0) * calls
    return TableRow(time if math.isfinite(time) else 0.0, calls, 1)


def _own_times(series: Sequence[Series], own: str) -> tuple[dict[str, TableRow], float]:
    """The rows of a table of operators: of its operators, or of its kernels; and the printed sum of all rows, or 0."""
    found = _rows(series, own)
    # below its rows, a table prints their sum, which has the name `table`, or `table#2` for a second table
    whole = sum(row.time for name, row in found.items() if _plain(name) == "table")
    found = {name: row for name, row in found.items() if _plain(name) != "table"}
    if own == ".self_device_time":
        found = _of_device(found, _rows(series, ".self_cpu_time"), whole)
    summed: dict[str, TableRow] = defaultdict(TableRow)
    for name, row in found.items():
        if not name.startswith("ProfilerStep"):
            summed[_plain(name)] += row
    return summed, whole


def _rows(series: Sequence[Series], own: str) -> dict[str, TableRow]:
    """The rows of own times by name, each summed over the tables of a run: those of its actions and stages."""
    found: dict[str, TableRow] = defaultdict(TableRow)
    for one in series:
        if one.unit == "s" and one.key.metric.endswith(own):
            found[one.key.metric.removesuffix(own)] += _row(one)
    return found


def _of_device(found: dict[str, TableRow], cpu: Mapping[str, TableRow], whole: float) -> dict[str, TableRow]:
    """Only the kernels, or only the operators: the time of a kernel is in both, and in the ranges around it.

    Operators are the rows with a time of the host, which `cpu` has; the others are kernels and ranges.
    """
    host_times = {name: row.time for name, row in cpu.items()}
    names = {_plain(name) for name, time in host_times.items() if time > 0}
    kernels = {name: row for name, row in found.items() if row.time > 0 and _plain(name) not in names}
    operators = {name: row for name, row in found.items() if host_times.get(name, 0) > 0}
    of_kernels, of_operators = (sum(row.time for row in part.values()) for part in (kernels, operators))
    # kernels are not sure if some are missing or cut off; with ranges among them, their sum is more than the whole
    is_sure = not whole or abs(of_kernels - whole) <= _DIGITS * whole
    is_sure = is_sure and not any(_plain(name).endswith("...") for name in kernels)
    if not is_sure and of_operators >= _MOST * min(of_kernels, whole or of_kernels):
        return _with_copies(operators, kernels)
    return kernels if of_kernels >= _MOST * of_operators else operators


def _with_copies(operators: dict[str, TableRow], kernels: Mapping[str, TableRow]) -> dict[str, TableRow]:
    """The operators, with copies of pageable memory as rows of their own: these take as long as the host needs."""
    copies = {name: row for name, row in kernels.items() if PAGEABLE.match(name)}
    time = sum(row.time for row in copies.values())
    callers = (name for name in operators if _plain(name) == "aten::copy_")  # the operator that makes copies
    caller = max(callers, key=lambda name: operators[name].time, default="")
    if not caller or time > operators[caller].time:
        return operators
    return operators | copies | {caller: operators[caller] + TableRow(-time)}


def _steps(series: Sequence[Series]) -> float | None:
    """The number of steps, if a row counts them, or a range with a likely name, such as `train_step`."""
    counting = [one for one in series if one.key.metric in ("ProfilerStep*.self_cpu_time", "step.time")]
    ranges = (one for one in series if one.key.metric.startswith("range.") and one.unit == "s")
    counting += (one for one in ranges if PERHAPS_WHOLE.match(one.key.metric.partition(".")[2].rpartition(":")[2]))
    return max(_row(counting[0]).calls, 1.0) if counting else None


def _made(
    rank: str, rows: Mapping[tuple[str, NodeKind], TableRow], rest: float, steps: float | None, *, is_cut: bool
) -> CallTree:
    """Return the tree of rows, all below the step, whose own time is `rest`; everything is divided by the steps."""
    nodes = (CallNode("step", "step", -1), *(CallNode(name, kind, 0) for name, kind in rows))
    times = np.array([rest, *(row.time for row in rows.values())])[:, None] / (steps or 1.0)
    counts = np.array([1.0, *(row.calls for row in rows.values())])[:, None]
    counts[1:] /= steps or 1.0
    # a name with several rows, one for each shape, may have more of them that the table left out; none of these takes
    # longer than the smallest row
    error = np.where([False, *(is_cut and row.rows > 1 for row in rows.values())], times[1:].min(), 0.0)
    first, has_steps = np.arange(len(nodes), dtype=np.float64), steps is not None
    return CallTree(
        rank, nodes, counts, busy=times, wall=times, first=first, has_steps=has_steps, error=error, is_cut=is_cut
    )


def _same_steps(base: Sequence[RunTrees], new: Sequence[RunTrees]) -> list[RunTrees]:
    """Return the new trees; if neither side counts steps, divided by the multiple that nearly all calls have."""
    if any(tree.has_steps for side in (base, new) for run in side for tree in run):
        return list(new)
    by = _multiple(_calls(base), _calls(new))
    if by is None:
        return list(new)
    note = f"neither side counts steps; nearly all rows have {by:.3g} times as many calls: compared per call"
    return [tuple(_divided(tree, by, note) for tree in run) for run in new]


def _divided(tree: CallTree, by: float, note: str) -> CallTree:
    counts, busy, wall = (values / by for values in (tree.counts, tree.busy, tree.wall))
    error = None if tree.error is None else tree.error / by
    return replace(tree, counts=counts, busy=busy, wall=wall, error=error, notes=(*tree.notes, note))


def _calls(runs: Sequence[RunTrees]) -> dict[str, float]:
    """The calls of each name, the mean over the trees: the sides may have other numbers of runs and ranks."""
    found, trees = defaultdict[str, float](float), [tree for run in runs for tree in run]
    for tree in trees:
        for node, count in zip(tree.nodes[1:], tree.counts[1:, 0].tolist(), strict=True):
            found[node.name] += count / len(trees)
    return found


def _multiple(base: Mapping[str, float], new: Mapping[str, float]) -> float | None:
    """The ratio new / base of calls that nearly all shared rows have; None if there is none, or if it is 1."""
    shared = [(new[name] / base[name], base[name]) for name in base.keys() & new.keys()]
    if not shared:
        return None
    ratios, weights = (np.array(column) for column in zip(*sorted(shared), strict=True))
    usual = float(ratios[np.searchsorted(np.cumsum(weights), weights.sum() / 2)])  # the weighted median
    near = np.abs(ratios / usual - 1) < 0.01
    if abs(usual - 1) < 0.01 or weights[near].sum() < _NEARLY_ALL * weights.sum():
        return None
    return usual


#: The ways to make the trees of a run from its metrics, the best first.
_MAKERS: tuple[Callable[[Run], RunTrees], ...] = (
    timer_trees,
    *(partial(_trees, own=own) for own in _OWN_TIMES),
    range_trees,
)


def trees_of_runs(
    base: Sequence[Run], new: Sequence[Run], *, paired: bool = False
) -> Iterator[tuple[list[RunTrees], list[RunTrees]]]:
    """Yield the trees of both sides, one for each rank of a run, once for each kind of trees, the best kind first.

    Runs without trees are left out. Both sides have trees of the same kind: a trace is never compared with a log, or
    with a trace without calls. With `paired`, run i of both sides is a pair, which is left out if one run has none.
    """
    traced = [[run.call_trees for run in side] for side in (base, new)]
    if any(any(side) for side in traced):
        sides = _with_trees(*traced, paired=paired)
        if all(sides):
            yield sides
        return
    for make in _MAKERS:
        with np.errstate(over="ignore", invalid="ignore"):  # a time near the largest float has an infinite variance
            sides = _with_trees(*([make(run) for run in side] for side in (base, new)), paired=paired)
        if all(sides):
            yield sides[0], _same_steps(*sides)


def _with_trees(
    base: Sequence[RunTrees], new: Sequence[RunTrees], *, paired: bool
) -> tuple[list[RunTrees], list[RunTrees]]:
    """Return the runs that have trees; of pairs, those where both runs have some."""
    if not paired:
        return [run for run in base if run], [run for run in new if run]
    kept = [(one, other) for one, other in zip(base, new, strict=False) if one and other]
    return [one for one, _ in kept], [other for _, other in kept]
