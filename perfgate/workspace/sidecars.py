"""Add the metrics of the machine to a run, from the file beside its results (`perfgate.recorder.sampler_process`)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from perfgate.core import Key, Location, Problem, Run, Series, read_only
from perfgate.core.wording import COMMAND, ENERGY, ENERGY_OF_STEP, is_machine_metric

#: The metrics whose samples are the steps of a run, the first that a run has.
_STEPS = ("step.time", "step", "train_batch", "run_training_batch")


def with_machine(runs: Sequence[Run], machine: Run) -> list[Run]:
    """Return the runs of one file or folder with the metrics of the machine; its problems are warnings."""
    if len(runs) != 1:
        message = "not used, because the file beside it has several runs"
        return [*runs[:-1], _warned(runs[-1], message, machine.source)] if runs else []
    run = runs[0]
    own = {series.key for series in run.series}
    added = [one for one in machine.series if _belongs(one.key.metric) and one.key not in own]
    energy = _energy_of_step(run, added)
    problems = tuple(replace(problem, severity="warning") for problem in machine.problems)
    facts = {**machine.environment, **run.environment}
    return [
        replace(
            run,
            series=(*run.series, *added, *([energy] if energy and energy.key not in own else [])),
            problems=(*run.problems, *problems),
            environment=dict(sorted(facts.items())),
            files=(*run.files, *machine.files),
        )
    ]


def merged(machines: Sequence[Run]) -> Run:
    """Return the files of several hosts of one job as one; their series get the label `host`."""
    first, *others = machines
    if not others:
        return first
    series: dict[Key, Series] = {}
    for number, machine in enumerate(machines):
        host = str(machine.environment.get("host", number))
        for one in machine.series:
            key = Key.of(one.key.metric, **{**dict(one.key.labels), "host": host})
            series.setdefault(key, replace(one, key=key))
    hosts = ", ".join(sorted({str(one.environment["host"]) for one in machines if "host" in one.environment}))
    return replace(
        first,
        series=tuple(series.values()),
        problems=tuple(problem for one in machines for problem in one.problems),
        environment={"host": hosts} if hosts else {},
        files=tuple(file for one in machines for file in one.files),
    )


def _belongs(metric: str) -> bool:
    return is_machine_metric(metric) or metric.startswith(COMMAND)


def _warned(run: Run, message: str, beside: str) -> Run:
    return replace(run, problems=(*run.problems, Problem("warning", message, Location(beside))))


def _energy_of_step(run: Run, machine: Sequence[Series]) -> Series | None:
    """Return the energy of all devices for each step; None without an energy counter or steps."""
    with np.errstate(over="ignore"):
        energy = sum(float(one.values.sum()) for one in machine if one.key.metric == ENERGY)
    for name in _STEPS:
        found = [one for one in run.series if one.key.metric == name and one.kind == "samples"]
        steps = max((len(one.values) for one in found), default=0)
        if steps and 0 < energy < math.inf:
            return Series(Key(ENERGY_OF_STEP), "J", "value", read_only(np.array([energy / steps])))
    return None
