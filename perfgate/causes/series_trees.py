"""Call trees from the timers of a run: which timer runs inside which, and the own time of each, without its parts.

A tree has one column: the mean step of the run without its warm-up, and the standard error of each mean within the run.
So a stored run with only the statistics of its metrics gives the same tree as its log. `nesting` says which timer is
inside which. It is not guessed from the numbers, with one exception: a timer with a likely name, such as `step_time`,
is the whole step if the other timers fit into it. The table of `nesting` has hooks: the last part of the name of an
action of Lightning (`backward` of `[Strategy]DDPStrategy.backward`), and the whole name of any other timer.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from perfgate.causes.merged import Floats
from perfgate.causes.nesting import (
    FITS,
    NOT_TIMED,
    WHOLES,
    Nesting,
    Timer,
    around,
    hook_of,
    is_known,
    is_redundant,
    kind_of_timer,
    nesting_of,
    whole_timer,
    without_domain,
)
from perfgate.core import Key, Run, Series
from perfgate.core.call_trees import CallNode, CallTree
from perfgate.stats.distributions import time_constant
from perfgate.stats.steady import steady_run

#: The labels that timers may have; other labels are other places of the program.
_LABELS = frozenset(("rank", "ranks", "stage"))
#: The timer of all batches of an epoch: one of `WHOLES`, although it runs once in an epoch and not in each step.
_EPOCH = "run_training_epoch"
#: Timers of fewer steps than this share are not parts of a usual step.
_USUAL = 0.5
#: A timer that is longer than another by this factor cannot be inside it; noise and warm-up make smaller differences.
_TOO_LONG = 1.25
#: Formats with timers of the steps of one program; in files of benchmarks, every metric is a program of its own.
_OF_STEPS = frozenset(
    (
        *("deepspeed", "megatron", "lightning", "perfgate", "recording", "nsys", "tensorboard", "wandb", "mlflow"),
        *("nanogpt", "torchtitan", "nemo", "maxtext", "levanter", "hf-trainer"),
    )
)
#: The beginnings of metrics that are no timers of the program, such as those of other tools in the same run.
_OTHER_FAMILIES = ("collective.", "flops_profiler.", "kernel.", "op.", "range.", "api.", "os.", "memcpy.", "warmup.")


def timer_trees(run: Run) -> tuple[CallTree, ...]:
    """Return the tree of each rank of a run with timers of its steps; none if its metrics are not parts of a step."""
    if _OF_STEPS.isdisjoint(run.format.split("+")):  # a run of several files has several formats
        return ()
    by_rank: dict[str, list[Series]] = defaultdict(list)
    for series in run.series:
        labels = dict(series.key.labels)
        # of the fastest (`min`) and slowest rank of Megatron-LM, the slowest counts; of the stages of Lightning, `fit`
        is_timer = labels.get("ranks") != "min" and labels.get("stage", "fit") == "fit" and labels.keys() <= _LABELS
        is_time = series.unit == "s" and series.kind != "value"
        if is_time and is_timer and not series.key.metric.startswith(_OTHER_FAMILIES):
            by_rank[labels.get("rank", "")].append(series)
    if len(by_rank) > 1 and (nameless := by_rank.pop("", [])) and len(by_rank) == 1:
        next(iter(by_rank.values())).extend(nameless)  # lines without a rank are those of the only rank
    peak = _peak(run)
    trees = (_tree(rank, series, run.format, peak) for rank, series in sorted(by_rank.items()))
    return tuple(tree for tree in trees if tree is not None)


def _peak(run: Run) -> float | None:
    """The largest peak of allocated memory of all ranks and devices in bytes, not that of a place; None without one."""
    peaks = [series for series in run.series if series.key.metric == "memory.peak_allocated" and series.unit == "B"]
    peaks = [series for series in peaks if {name for name, _ in series.key.labels} <= {"rank", "device"}]
    values = [float(one.values.max()) if len(one.values) else one.aggregate.get("max", math.nan) for one in peaks]
    return max((value for value in values if math.isfinite(value)), default=None)


def range_trees(run: Run) -> tuple[CallTree, ...]:
    """Return the tree of the NVTX ranges of Nsight Systems; see `timer_trees`.

    Their names are without the domain, unless ranges of several domains have one name.
    """
    ranges = [series for series in run.series if series.key.metric.startswith("range.")]
    names = [series.key.metric.removeprefix("range.") for series in ranges]
    keys = [Key(without_domain(name), series.key.labels) for name, series in zip(names, ranges, strict=True)]
    counts = Counter(keys)
    named = [
        replace(series, key=key if counts[key] == 1 else Key(name, key.labels))
        for series, key, name in zip(ranges, keys, names, strict=True)
    ]
    return timer_trees(replace(run, series=tuple(named))) if named else ()


def _tree(rank: str, series: Sequence[Series], format: str, peak: float | None) -> CallTree | None:
    """The tree of one rank; None if too few of its timers are known.

    It needs two timers of known place (or of input), or one if there is a timer of the whole step.
    """
    names = {one.key.metric for one in series}
    made = (_timer(one) for one in series if not is_redundant(one.key.metric, names))
    timers = {timer.name: timer for timer in made if timer is not None}
    nesting = nesting_of(format)
    known = [timer for name, timer in timers.items() if is_known(name, nesting) or kind_of_timer(name) == "loader"]
    if not known:
        return None
    steps = _steps(timers, known)
    usual = {name: one for name, one in timers.items() if one.count >= _USUAL * steps or hook_of(name) == _EPOCH}
    whole = whole_timer(usual, steps, format)
    if whole is None and len(known) < 2:
        return None
    return _TreeBuilder(usual, steps, whole, nesting).tree(rank, peak)


def _steps(timers: Mapping[str, Timer], known: Sequence[Timer]) -> float:
    """The number of steps: Lightning counts its batches; otherwise most timers of known place run once in a step."""
    batches = (timer.count for name, timer in timers.items() if hook_of(name) == "run_training_batch")
    return max(next(batches, 0.0) or float(np.median([timer.count for timer in known])), 1.0)


def _timer(series: Series) -> Timer | None:
    """The timer that a series measures, without its warm-up; None if it has no mean."""
    name, nothing = series.key.metric, np.empty(0)
    mean, total, count = (series.aggregate.get(word) for word in ("mean", "total", "count"))
    if series.kind == "samples":
        steady = steady_run(series.values)
        values = steady.values
        if not len(values) or not steady.finite:
            return None
        calls = float(series.thinned_from or len(series.values))
        return Timer(name, float(values.mean()), error=mean_error(values), count=calls, values=values)
    if series.summary is not None and mean is not None:
        # a row has a value, its effective sample size, and the variance of its logarithm; some have only the value
        row = series.summary.rows[series.summary.names.index("mean")]
        error = abs(mean) * math.sqrt(next(iter(row[2:]), None) or 0.0)
        return Timer(name, mean, error, count=float(series.summary.n), values=nothing)
    if total is not None:
        return Timer(name, total / (count or 1.0), error=0.0, count=count or 1.0, values=nothing)
    return Timer(name, mean, error=0.0, count=count, values=nothing) if mean is not None and count else None


@np.errstate(all="ignore")
def mean_error(values: Floats) -> float:
    """The standard error of the mean of values in order of time, which may be correlated."""
    if len(values) < 2:
        return 0.0
    # as many values as the time constant count as one independent value
    return math.sqrt(float(values.var(ddof=1)) * min(time_constant(values), len(values)) / len(values))


class _TreeBuilder:
    """Makes the tree of one rank: each timer below the one that it runs in. `whole` is the timer of the whole step."""

    def __init__(self, timers: Mapping[str, Timer], steps: float, whole: str | None, nesting: Nesting) -> None:
        self.nesting = nesting
        self.timers, self.steps, self.whole = dict(timers), steps, whole
        #: The timers that do not fit into the whole step, and those that run beside it.
        self.left_out: list[str] = []
        self.outside: list[str] = []
        #: The nodes, and the row of each, per step: its calls (`counts` of a `CallTree`), duration (`busy`), own time
        #: (`wall`), and the standard error of that.
        self.nodes: list[CallNode] = [CallNode("step", "step", -1)]
        self.rows: list[tuple[float, float, float, float]] = [(1.0, 0.0, 0.0, 0.0)]

    def tree(self, rank: str, peak: float | None) -> CallTree | None:
        """Return the tree; None if no timer is a part of the step."""
        self._place_tops()
        inner = self._below(None)
        if not inner:
            return None
        for name in (*inner, *self.outside):
            self._add(name, 0)
        if self.whole is not None:
            rest = self._own(self.timers[self.whole], [self.timers[name] for name in inner])
            self.nodes.append(CallNode(NOT_TIMED, "range", 0))
            self.rows.append((1.0, rest[0], *rest))  # nothing is inside it: its duration is its own time
        counts, busy, wall, error = (np.array(column) for column in zip(*self.rows, strict=True))
        memory = None
        if peak is not None:  # a node without time has the memory
            self.nodes.append(CallNode("memory.peak_allocated", "range", 0))
            counts, busy, wall, error = (np.append(column, 0.0) for column in (counts, busy, wall, error))
            memory = np.zeros(len(self.nodes))
            memory[-1] = peak
        busy[0] = wall.sum()
        return CallTree(
            rank,
            tuple(self.nodes),
            counts=counts[:, None],
            busy=busy[:, None],
            wall=wall[:, None],
            memory=memory,
            peak=peak,
            first=np.arange(len(self.nodes), dtype=np.float64),  # only the order of calls is known
            has_steps=self.steps > 1,
            error=error,
            notes=tuple(f"{name} is left out: it does not fit into {self.whole}" for name in self.left_out),
        )

    def _place_tops(self) -> None:
        """Find the timers beside the whole step. If the others do not fit into it, leave out those of unknown place."""
        tops = self._below(None)
        # Between the steps, perfgate's callbacks record the wait for data beside `step.time`.
        if self.whole == "step.time" and "data_time" in tops:
            self.outside = ["data_time"]
        inside = [name for name in tops if name not in self.outside]
        if self._fits(inside):
            return
        # perhaps they fit without the wait for data, if the nesting does not say that it is inside the step
        loaders = [name for name in inside if kind_of_timer(name) == "loader"]
        loaders = [name for name in loaders if around(name, WHOLES, self.nesting) is None]
        if self._fits([name for name in inside if name not in loaders]):
            self.outside += loaders
            return
        self.left_out = [name for name in inside if not is_known(name, self.nesting)]
        for name in self.left_out:
            del self.timers[name]

    def _fits(self, names: Sequence[str]) -> bool:
        """True if the sum of these timers is at most the whole step; also if no timer measures that."""
        whole = self.timers[self.whole] if self.whole else None
        inner = sum(self.timers[name].per_step(self.steps) for name in names)
        return whole is None or inner <= FITS * whole.per_step(self.steps)

    def _below(self, outer: str | None) -> list[str]:
        """The timers right below a timer, or below the step (None), in the order of the run; not the whole step."""
        beside = {self.whole, *self.outside} if outer is None else {self.whole}
        outers = self._outers()
        return [name for name in self.timers if name not in beside and outers[name] == outer]

    def _outers(self) -> dict[str, str | None]:
        """By timer, the nearest timer that it runs in; None for the step."""
        time = {name: timer.per_step(self.steps) for name, timer in self.timers.items()}
        # by hook: the timer that has others below it; if several classes of Lightning have one hook, the longest
        hosts: dict[str, str] = {}
        for name in sorted(time, key=lambda name: time[name], reverse=True):
            if name != self.whole:
                hosts.setdefault(hook_of(name), name)
        found: dict[str, str | None] = {}
        for name, own in time.items():
            # in old versions of a framework, some timers run one after the other: a longer one cannot be inside
            long_enough = {hook for hook, host in hosts.items() if time[host] * _TOO_LONG >= own}
            hook = around(name, long_enough, self.nesting)
            found[name] = None if hook is None else hosts[hook]
        return found

    def _add(self, name: str, parent: int) -> None:
        """Add a timer below a node, and all timers inside it."""
        timer, at, inner = self.timers[name], len(self.nodes), self._below(name)
        self.nodes.append(CallNode(name, kind_of_timer(name), parent))
        own = self._own(timer, [self.timers[one] for one in inner])
        self.rows.append((timer.calls(self.steps), timer.per_step(self.steps), *own))
        for one in inner:
            self._add(one, at)

    def _own(self, timer: Timer, inner: Sequence[Timer]) -> tuple[float, float]:
        """The time of a step in a timer and in none of those inside it, in s, and its standard error."""
        time = timer.per_step(self.steps) - sum(one.per_step(self.steps) for one in inner)
        size = min(len(one.values) for one in (timer, *inner))
        if size and all(one.count == timer.count for one in inner):
            # warm-ups differ, so the last steps of all timers are the same
            rest = timer.values[-size:] - sum((one.values[-size:] for one in inner), np.zeros(1))
            return max(time, 0.0), mean_error(rest) * timer.calls(self.steps)
        return max(time, 0.0), math.hypot(*(one.error * one.calls(self.steps) for one in (timer, *inner)))
