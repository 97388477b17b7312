"""Compare the reader of Chrome traces with the oracle."""

from __future__ import annotations

from collections import defaultdict

import pytest
from trace_oracle import answers

from perfgate.readers import Source, read

#: In nanoseconds: what a step may differ by, and every other time, where microseconds are floats.
LOOSE = (2500, 1000)
#: Where they are not, only the conversion to seconds may round.
EXACT = (1, 1)
GPU = ("utilization", "sm_efficiency", "occupancy", "tensor_core_share")
EVENTS = ("kernel.", "op.", "range.", "collective.")


def run_of(name, data, mode, chunk=1 << 16):
    chunks = (data[at : at + chunk] for at in range(0, len(data), chunk))
    (run,) = read(Source(name, chunks, trace_mode=mode))
    return run


def members(run, metric):
    return {series.key.label("device"): series for series in run.series if series.key.metric == metric}


def in_ns(series):
    assert series.unit == "s"
    return [value * 1e9 for value in series.values.tolist()]


def near(found, expected, tolerance):
    return len(found) == len(expected) and all(
        abs(one - other) <= tolerance for one, other in zip(found, expected, strict=True)
    )


def differences(run, expected, tolerances):
    """Return each difference between the reader and the oracle, a line each."""
    return [
        *_in_steps(run, expected, tolerances),
        *_in_devices(run, expected),
        *_in_events(run, expected, tolerances[1]),
        *_in_memory(run, expected),
        *_in_ranks(run, expected),
    ]


def _in_steps(run, expected, tolerances):
    step, total = tolerances
    wanted = {f"step.{part}": values for part, values in expected.parts.items() if expected.steps}
    if expected.steps and (any(map(any, expected.comm.values())) or members(run, "comm.exposed")):
        wanted |= {f"comm.{part}": values for part, values in expected.comm.items()}
    found = {s.key.metric: s for s in run.series if s.key.metric in wanted or s.key.metric.startswith("step.")}
    for metric in sorted(wanted.keys() - found.keys()):
        yield f"{metric} is missing"
    if not expected.steps and found:
        yield f"no steps, but {sorted(found)}"
    for metric in sorted(wanted.keys() & found.keys()):
        numbers = [] if found[metric].steps is None else found[metric].steps.tolist()
        if numbers != [step.number for step in expected.steps]:
            yield f"{metric} is of steps {numbers}, not of {[step.number for step in expected.steps]}"
        elif not near(in_ns(found[metric]), wanted[metric], step if metric == "step.time" else total):
            yield f"{metric} is {in_ns(found[metric])} ns, not {wanted[metric]}"


def _in_devices(run, expected):
    for metric in GPU:
        found = {device: series.values.tolist() for device, series in members(run, f"gpu.{metric}").items()}
        wanted = {device: [value] for device, value in expected.gpu.get(metric, {}).items()}
        same = found.keys() == wanted.keys() and all(
            found[device] == pytest.approx(wanted[device], rel=1e-9, abs=1e-12) for device in wanted
        )
        if not same:
            yield f"gpu.{metric} is {found}, not {wanted}"


def _in_events(run, expected, tolerance):
    found = defaultdict(list)
    for series in run.series:
        if series.key.metric.startswith(EVENTS) and series.unit == "s":
            found[series.key.metric] += in_ns(series)
    for metric in sorted(found.keys() ^ expected.series.keys()):
        yield f"{metric} is {'missing' if metric in expected.series else 'nothing that happened'}"
    for metric in sorted(found.keys() & expected.series.keys()):
        if not near(sorted(found[metric]), sorted(expected.series[metric]), tolerance):
            yield f"{metric} took {found[metric][:9]} ns, not {expected.series[metric][:9]}"


def _in_memory(run, expected):
    for metric in ("peak_allocated", "peak_reserved"):
        found = {device: series.values.tolist() for device, series in members(run, f"memory.{metric}").items()}
        wanted = {device: [value] for device, value in expected.memory.get(metric, {}).items()}
        if found != wanted:
            yield f"memory.{metric} is {found}, not {wanted}"


def _in_ranks(run, expected):
    ranks = {series.key.label("rank") for series in run.series}
    if expected.rank is not None and run.series and ranks != {str(expected.rank)}:
        yield f"the ranks are {ranks}, not {expected.rank}"
    if run.environment.get("world_size") != expected.world_size:
        yield f"the world size is {run.environment.get('world_size')}, not {expected.world_size}"


def check(name, data, tolerances, chunk=1 << 16):
    for mode, expected in answers(data).items():
        found = list(differences(run_of(name, data, mode, chunk), expected, tolerances))
        assert not found, "\n".join([mode, *found])
