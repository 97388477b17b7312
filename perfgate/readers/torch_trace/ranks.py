"""Several traces of one run: join the files of one rank, and compute what needs all ranks.

A schedule with `repeat` writes one file for each cycle, with its own step numbers. Ranks are compared by durations and
step numbers, never by their clocks, which agree at best on one machine.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

import numpy as np
from msgspec.structs import replace

from perfgate.core import Key, Location, Problem, Run, Series, read_only
from perfgate.core.call_trees import joined_trees
from perfgate.readers.torch_trace.event_fields import Float64, Int64

#: The process and the time in a name by `torch.profiler.tensorboard_trace_handler`.
_CYCLE = re.compile(r"(.+)\.\d{10,}\.pt\.trace\.json(?:\.gz)?")
#: Calls between two ranks only: no other rank waits for them. torch names a batch of sends and receives `coalesced`.
_POINT_TO_POINT = ("collective.send", "collective.recv", "collective.coalesced")

#: A collective: its metric, and its process group.
Collective = tuple[str, str]
#: A collective with the durations and the steps of its calls.
Calls = tuple[Collective, Float64, Int64]


def has_cycles(names: Sequence[str]) -> bool:
    """Return whether the names are those that torch gives to the files of several cycles of one process."""
    processes = [found[1] for name in names if (found := _CYCLE.fullmatch(name))]
    return len(set(processes)) < len(processes)


def join_traces(runs: Sequence[Run]) -> tuple[list[Run], list[Problem]]:
    """Return one run for each rank, with `comm.wait` if the collectives match, and the problems of joining."""
    by_rank: dict[str | None, list[Run]] = defaultdict(list)
    for run in runs:
        by_rank[rank_of(run)].append(run)
    problems: list[Problem] = []
    joined = {rank: _join_cycles(found, problems) for rank, found in by_rank.items()}
    calls = {rank: list(calls_of(run)) for rank, run in joined.items() if rank is not None}
    names = matched({rank: counts_of(own) for rank, own in calls.items()})
    transfers = shortest(({name: durations} for own in calls.values() for name, durations, _ in own), names)
    waits = (run if rank is None else with_wait(run, calls[rank], transfers) for rank, run in joined.items())
    return list(waits), problems


def rank_of(run: Run) -> str | None:
    """Return the rank that wrote a trace; None if it is unknown."""
    return next((rank for series in run.series if (rank := series.key.label("rank")) is not None), None)


def _join_cycles(runs: Sequence[Run], problems: list[Problem]) -> Run:
    """Join the files of one rank in the order of their steps; refuse a file with the steps of another one."""
    kept = _without_repeats(runs, problems)
    if len(kept) == 1:
        return kept[0]
    kept.sort(key=lambda run: min(_step_numbers(run), default=-1))
    parts: dict[Key, list[tuple[Series, float]]] = defaultdict(list)
    for run in kept:
        weight = sum(float(series.values.sum()) for series in run.series if series.key.metric == "step.time")
        for series in run.series:
            parts[series.key].append((series, weight))
    trees = joined_trees([run.call_trees for run in kept])
    return replace(kept[0], series=tuple(map(_as_one, parts.values())), call_trees=trees)


def _without_repeats(runs: Sequence[Run], problems: list[Problem]) -> list[Run]:
    """Return the runs that have no step of an earlier one; `problems` gets an error about each other run.

    A file without steps could be about the steps of any other, so it is refused, too, unless it is the first.
    """
    kept: list[Run] = []
    run_of_step: dict[int, Run] = {}
    for run in runs:
        steps = _step_numbers(run)
        other = next((run_of_step[step] for step in steps if step in run_of_step), None)
        if kept and not steps:
            other = kept[0]
        if other is None:
            run_of_step |= dict.fromkeys(steps, run)
            kept.append(run)
        elif run.series:  # without any, the file has problems of its own
            what = "the same steps" if rank_of(run) is None else f"the same rank ({rank_of(run)}) and steps"
            message = f"this trace has {what} as {other.source}; using {other.source}"
            problems.append(Problem("error", message, Location(run.source)))
    return kept


def _step_numbers(run: Run) -> list[int]:
    steps = next((series.steps for series in run.series if series.key.metric == "step.time"), None)
    return [] if steps is None else steps.tolist()


def _as_one(parts: Sequence[tuple[Series, float]]) -> Series:
    """Join one series of several files: append samples, take the highest peak and the mean share weighted by time."""
    cycles, weights = [series for series, _ in parts], [weight for _, weight in parts]
    values, first = np.concatenate([series.values for series in cycles]), cycles[0]
    if first.kind == "value":
        one = values.max() if first.unit == "B" else np.average(values, weights=weights if any(weights) else None)
        return replace(first, values=read_only(np.array([one])))
    steps = [series.steps for series in cycles if series.steps is not None]
    return replace(
        first,
        values=read_only(values),
        steps=read_only(np.concatenate(steps)) if len(steps) == len(cycles) else None,
        groups=tuple(chain.from_iterable(series.groups for series in cycles)),
    )


def calls_of(run: Run) -> Iterator[Calls]:
    """Yield the durations and steps of each collective of a rank, by name and process group, once for each device.

    Sends and receives are left out.
    """
    for series in run.series:
        if series.groups and series.steps is not None and not series.key.metric.startswith(_POINT_TO_POINT):
            groups = np.array(series.groups)
            for group in dict.fromkeys(series.groups):
                chosen = groups == group
                yield (series.key.metric, group), series.values[chosen], series.steps[chosen]


def counts_of(calls: Iterable[Calls]) -> list[tuple[Collective, int]]:
    """Return the number of calls of each collective of a rank, once for each device."""
    return [(name, len(durations)) for name, durations, _ in calls]


def matched(ranks: Mapping[str, Iterable[tuple[Collective, int]]]) -> list[Collective]:
    """Return the collectives that two ranks or more call, all equally often, in the order of ranks and calls."""
    callers: dict[Collective, set[str]] = defaultdict(set)
    counts: dict[Collective, set[int]] = defaultdict(set)
    for rank, calls in ranks.items():
        for name, count in calls:
            callers[name].add(rank)
            counts[name].add(count)
    return [name for name, own in callers.items() if len(own) > 1 and len(counts[name]) == 1]


def shortest(parts: Iterable[Mapping[Collective, Float64]], names: Iterable[Collective]) -> dict[Collective, Float64]:
    """Return the shortest duration of each call of some collectives: the transfer, in which no rank waits."""
    found: dict[Collective, Float64] = {}
    wanted = list(names)
    for part in parts:
        for name in part.keys() & set(wanted):
            found[name] = np.minimum(found[name], part[name]) if name in found else part[name]
    return {name: found[name] for name in wanted if name in found}


def with_wait(run: Run, calls: Iterable[Calls], transfers: Mapping[Collective, Float64]) -> Run:
    """Return the run of a rank with `comm.wait`: its time in collectives in which it waited for others, by step.

    Collectives match by name, process group and order, if all ranks of the group have the same number. The shortest of
    them is the transfer; the rest of the longer ones is waiting (torch_tb_profiler 0.4.3, `communication.py`). A run
    without a matching collective stays as it is.
    """
    waits, own = dict.fromkeys(_step_numbers(run), 0.0), defaultdict(list)
    for name, durations, steps in calls:
        own[name].append((durations, steps))
    for name, transfer in transfers.items():
        for durations, steps in own.get(name, ()):
            for step, wait in zip(steps.tolist(), (durations - transfer).tolist(), strict=True):
                if step in waits:  # -1 for a call outside of all steps
                    waits[step] += wait
    rank = rank_of(run)
    if rank is None or not waits or own.keys().isdisjoint(transfers):
        return run
    values, numbers = np.array([*waits.values()]), np.array([*waits], np.int64)
    wait_series = Series(Key.of("comm.wait", rank=rank), "s", "samples", read_only(values), read_only(numbers))
    return replace(run, series=(*run.series, wait_series))


def missing_ranks(run: Run) -> list[Problem]:
    """Return a warning if the job had more ranks than the run has; it is common to trace a few ranks of a large job."""
    world = run.environment.get("world_size")
    ranks = {series.key.label("rank") or "" for series in run.series}
    present = {int(rank) for rank in ranks if rank.isdecimal() and len(rank) < 10}  # other files may name theirs
    if not isinstance(world, int) or not present or len(present) >= world:
        return []
    first = [str(rank) for rank in islice((rank for rank in range(world) if rank not in present), 5)]
    more = ", ..." if world - len(present) > len(first) else ""
    message = f"{world - len(present)} of {world} ranks are missing ({', '.join(first)}{more})"
    return [Problem("warning", message, Location(run.source))]
