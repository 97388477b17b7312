"""Several traces of one run: join the files of one rank, and compute what needs all ranks.

A schedule with `repeat` writes one file for each cycle, with its own step numbers. Ranks are compared by durations and
step numbers, never by their clocks, which agree at best on one machine.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice

import numpy as np

from perfgate.core import Key, Location, Problem, Run, Series, read_only
from perfgate.core.call_trees import joined_trees
from perfgate.readers.torch_trace.event_fields import Float64, Int64

#: The process and the time in a name by `torch.profiler.tensorboard_trace_handler`.
_CYCLE = re.compile(r"(.+)\.\d{10,}\.pt\.trace\.json(?:\.gz)?")
#: Collectives between two ranks only: no other rank waits for them.
_POINT_TO_POINT = ("collective.send", "collective.recv", "collective.coalesced")


def has_cycles(names: Sequence[str]) -> bool:
    """Return whether the names are those that torch gives to the files of several cycles of one process."""
    processes = [found[1] for name in names if (found := _CYCLE.fullmatch(name))]
    return len(set(processes)) < len(processes)


def join_traces(runs: Sequence[Run]) -> tuple[list[Run], list[Problem]]:
    """Return one run for each rank, with `comm.wait` if the collectives match, and the problems of joining."""
    by_rank: dict[str | None, list[Run]] = defaultdict(list)
    for run in runs:
        by_rank[_rank(run)].append(run)
    problems: list[Problem] = []
    joined = {rank: _join_cycles(found, problems) for rank, found in by_rank.items()}
    waits = _waits(joined)
    return [replace(run, series=(*run.series, *waits.get(rank, ()))) for rank, run in joined.items()], problems


def _rank(run: Run) -> str | None:
    return next((rank for series in run.series if (rank := series.key.label("rank")) is not None), None)


def _join_cycles(runs: Sequence[Run], problems: list[Problem]) -> Run:
    """Join the files of one rank in the order of their steps; refuse a file with the steps of another one."""
    kept: list[Run] = []
    seen: dict[int, Run] = {}
    for run in runs:
        steps = _step_numbers(run)
        other = next((seen[step] for step in steps if step in seen), kept[0] if kept and not steps else None)
        if other is None:
            seen |= dict.fromkeys(steps, run)
            kept.append(run)
        elif run.series:
            what = "the same steps" if _rank(run) is None else f"the same rank ({_rank(run)}) and steps"
            message = f"this trace has {what} as {other.source}; using {other.source}"
            problems.append(Problem("error", message, Location(run.source)))
    kept.sort(key=lambda run: min(_step_numbers(run), default=-1))
    if len(kept) == 1:
        return kept[0]
    parts: dict[Key, list[tuple[Series, float]]] = defaultdict(list)
    for run in kept:
        weight = sum(float(series.values.sum()) for series in run.series if series.key.metric == "step.time")
        for series in run.series:
            parts[series.key].append((series, weight))
    trees = joined_trees([run.call_trees for run in kept])
    return replace(kept[0], series=tuple(map(_as_one, parts.values())), call_trees=trees)


def _step_numbers(run: Run) -> list[int]:
    steps = next((series.steps for series in run.series if series.key.metric == "step.time"), None)
    return [] if steps is None else steps.tolist()


def _as_one(parts: Sequence[tuple[Series, float]]) -> Series:
    """Join one series of several files: append samples, take the highest peak and the mean share weighted by time."""
    cycles, weights = [series for series, _ in parts], [weight for _, weight in parts]
    values, first = np.concatenate([series.values for series in cycles]), cycles[0]
    if first.kind == "value":
        one = values.max() if first.unit == "B" else np.average(values, weights=weights)
        return replace(first, values=read_only(np.array([one])))
    steps = [series.steps for series in cycles if series.steps is not None]
    return replace(
        first,
        values=read_only(values),
        steps=read_only(np.concatenate(steps)) if len(steps) == len(cycles) else None,
        groups=tuple(chain.from_iterable(series.groups for series in cycles)),
    )


def _waits(runs: Mapping[str | None, Run]) -> dict[str | None, list[Series]]:
    """`comm.wait` of each rank: its time in collectives in which it waited for other ranks, for each step.

    Collectives match by name, process group and order, if all ranks of the group have the same number. The shortest of
    them is the transfer; the rest of the longer ones is waiting (torch_tb_profiler 0.4.3, `communication.py`).
    """
    ranked = {rank: run for rank, run in runs.items() if rank is not None}
    waits = {rank: dict.fromkeys(_step_numbers(run), 0.0) for rank, run in ranked.items()}
    matched: dict[str, None] = {}
    for calls in _calls(ranked).values():
        if len({rank for rank, _, _ in calls}) < 2 or len({len(durations) for _, durations, _ in calls}) > 1:
            continue
        transfer = np.min([durations for _, durations, _ in calls], axis=0)
        for rank, durations, steps in calls:
            matched[rank] = None
            for step, wait in zip(steps.tolist(), (durations - transfer).tolist(), strict=True):
                if step in waits[rank]:
                    waits[rank][step] += wait
    found: dict[str | None, list[Series]] = {}
    for rank in matched:
        values, steps = np.array([*waits[rank].values()]), np.array([*waits[rank]], np.int64)
        key = Key.of("comm.wait", rank=rank)
        found[rank] = [Series(key, "s", "samples", read_only(values), read_only(steps))] if waits[rank] else []
    return found


def _calls(runs: Mapping[str, Run]) -> dict[tuple[str, str], list[tuple[str, Float64, Int64]]]:
    """The collectives by name and process group: (rank, durations, steps) for each rank and device."""
    found: dict[tuple[str, str], list[tuple[str, Float64, Int64]]] = defaultdict(list)
    for rank, run in runs.items():
        for series in run.series:
            if series.groups and series.steps is not None and not series.key.metric.startswith(_POINT_TO_POINT):
                groups = np.array(series.groups)
                for group in dict.fromkeys(series.groups):
                    chosen = groups == group
                    found[series.key.metric, group].append((rank, series.values[chosen], series.steps[chosen]))
    return found


def missing_ranks(run: Run) -> list[Problem]:
    """A warning if the job had more ranks than the run has; it is common to trace a few ranks of a large job."""
    world = run.environment.get("world_size")
    present = {int(rank) for series in run.series if (rank := series.key.label("rank")) is not None}
    if not isinstance(world, int) or not present or len(present) >= world:
        return []
    first = [str(rank) for rank in islice((rank for rank in range(world) if rank not in present), 5)]
    more = ", ..." if world - len(present) > len(first) else ""
    message = f"{world - len(present)} of {world} ranks are missing ({', '.join(first)}{more})"
    return [Problem("warning", message, Location(run.source))]
