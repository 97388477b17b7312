"""CPU time or instructions in place of a wall time that differs more from run to run.

They replace it only if the program computes nearly all of the time: where it waits, for a GPU or a disk, they do not
see what makes it slower.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import stdev

from msgspec.structs import replace

from perfgate.analysis.step_time import is_unsteady
from perfgate.core import Run, Series
from perfgate.core.advice import SteadierMetric
from perfgate.core.wording import CPU_METRICS
from perfgate.judge.measure import Method, NotAvailable

_CPU_TIME, _INSTRUCTIONS = ".cpu_time", ".instructions"
#: A wall time with less noise needs no cure.
LEAST_NOISE = 0.005
#: Noise is clearly smaller if it is at most this share of the other.
CLEARLY = 0.5
#: The least share of the wall time that is CPU time, in the run that waited least.
_LEAST_SHARE = 0.8
#: Fewer runs do not show their noise.
_FEWEST_RUNS = 3

_Known = Mapping[str, Sequence[Series]]


def use_steadier(runs: Sequence[Run]) -> tuple[list[Run], tuple[SteadierMetric, ...]]:
    """Return the runs with one metric of each span: its wall time, or what is clearly steadier; and what was replaced.

    A span has no CPU time in runs that were recorded without counters: then nothing changes.
    """
    known: dict[str, list[Series]] = {}
    for run in runs:
        for series in run.series:
            known.setdefault(series.key.metric, []).append(series)
    stems = {name.removesuffix(_CPU_TIME) for name in known if name.endswith(_CPU_TIME)}
    dropped, chosen = set[str](), list[SteadierMetric]()
    for stem in sorted(stems):
        wall = next((name for name in (f"{stem}.time", stem) if name in known), None)
        if wall is None:
            continue
        found = None if any("gpu" in run.environment for run in runs) else _steadier(wall, stem, known, len(runs))
        kept = wall if found is None else found.metric
        dropped |= {name for name in (wall, *(stem + end for end in CPU_METRICS)) if name != kept}
        chosen += [found] if found is not None else []
    left = [replace(run, series=tuple(one for one in run.series if one.key.metric not in dropped)) for run in runs]
    return (left, tuple(chosen)) if dropped else (list(runs), ())


def _steadier(wall: str, stem: str, known: _Known, runs: int) -> SteadierMetric | None:
    """Return what is clearly steadier than a wall time; None if nothing is, or the program waits."""
    cpu, instructions = stem + _CPU_TIME, stem + _INSTRUCTIONS
    noise = _noise(known[wall], runs)
    if noise is None or not _computes(known[wall], known[cpu]):
        return None
    found = {name: own for name in (cpu, instructions) if (own := _noise(known.get(name, ()), runs)) is not None}
    best = cpu if cpu in found else instructions
    if instructions in found and found[instructions] <= CLEARLY * found.get(cpu, math.inf):
        best = instructions
    if best not in found or is_unsteady(known[best]):
        return None
    is_needed = noise >= LEAST_NOISE or is_unsteady(known[wall])
    if not is_needed or found[best] > CLEARLY * noise:
        return None
    return SteadierMetric(best, wall, noise)


def _noise(series: Sequence[Series], runs: int) -> float | None:
    """Return the relative standard deviation of the median from run to run; None if that is unknown."""
    if runs < _FEWEST_RUNS or len(series) != runs:
        return None
    values = _medians(series)
    return stdev(map(math.log, values)) if len(values) == runs else None


def _computes(wall: Sequence[Series], cpu: Sequence[Series]) -> bool:
    """Return whether nearly all of a wall time is CPU time."""
    pairs = list(zip(_medians(wall), _medians(cpu), strict=False))
    return bool(pairs) and max(busy / whole for whole, busy in pairs) >= _LEAST_SHARE


def _medians(series: Sequence[Series]) -> list[float]:
    found = []
    for one in series:
        try:
            value = Method("median", better="lower").measure(one).value
        except NotAvailable:
            continue
        found += [value] if value is not None and value > 0 else []
    return found
