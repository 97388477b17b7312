"""Known loads, and noise floors.

A noise floor is the relative change that an unchanged program seems to have, as a standard deviation. A known load is a
process that takes as many steps as it is asked for, and answers with their wall times and CPU times. Two processes that
take steps by turns are a pair.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median, stdev

from msgspec import Struct

from perfgate.core.summaries import Floor, MeasuredLoad, Way
from perfgate.measuring.programs import pinned
from perfgate.stats.distributions import t_quantile

#: The number of base runs, and of pairs, of a usual comparison.
BASE_RUNS, PAIRS = 5, 6
#: Fewer runs or pairs do not show their noise.
FEWEST = 4


def floor_of_runs(way: Way, values: Sequence[float], new_runs: int = 1) -> Floor | None:
    """Return the floor of a comparison of `new_runs` with `BASE_RUNS`; None for too few values, or if one is not > 0.

    `way`: how the runs were made. `values`: the statistic of each run of one program, in any unit.
    """
    if len(values) < FEWEST or min(values) <= 0:
        return None
    return Floor(way, stdev(map(math.log, values)) * math.sqrt(1 / new_runs + 1 / BASE_RUNS), len(values))


def floor_of_pairs(base: Sequence[float], new: Sequence[float]) -> Floor | None:
    """Return the floor of a comparison by `PAIRS` pairs, from pairs of one program with itself."""
    if min(len(base), len(new)) < FEWEST or min(*base, *new) <= 0:
        return None
    ratios = [math.log(one / other) for other, one in zip(base, new, strict=True)]
    return Floor("pairs", stdev(ratios) / math.sqrt(PAIRS), len(ratios))


def floors_of(
    separate: Sequence[float],
    pinned: Sequence[float],
    cpu_times: Sequence[float],
    pairs: tuple[Sequence[float], Sequence[float]],
) -> tuple[Floor, ...]:
    """Return the floors of all ways that were measured often enough, and with values above 0."""
    found = (
        floor_of_runs("separate", separate),
        floor_of_runs("pinned", pinned),
        floor_of_runs("cpu-time", cpu_times),
        floor_of_runs("three-runs", separate, new_runs=3),
        floor_of_pairs(*pairs),
    )
    return tuple(floor for floor in found if floor is not None)


def needed_floor(at_worst: float, confidence: float, power: float) -> float:
    """Return the floor with which one new run of an unchanged program passes with this power (see `analysis/plan.py`).

    `at_worst`: the relative change that exit 0 must exclude. A run passes if its estimate plus a t quantile (of
    `confidence`) times the floor is below `at_worst`. For an unchanged program, the estimate is with this power below
    another t quantile (of `power`) times the floor.
    """
    freedom = BASE_RUNS - 1
    return math.log1p(at_worst) / (t_quantile(freedom, confidence) + t_quantile(freedom, power))


#: The program of the known loads: it reads a number of steps from each line, and prints two times in ns for each step.
_PROGRAM = """
import sys, time
kind, steps = sys.argv[1], 0
if kind == "memory":
    one, other = bytearray(32 << 20), bytearray(b"x" * (32 << 20))
    def step():
        one[:] = other
else:
    def step():
        total = 0
        for number in range(100_000):
            total += number
step()
for line in sys.stdin:
    found = []
    for _ in range(int(line)):
        cpu, wall = time.process_time_ns(), time.perf_counter_ns()
        step()
        found += [time.perf_counter_ns() - wall, time.process_time_ns() - cpu]
    print(*found, flush=True)
"""
LOADS = {"loop": "a loop of Python", "memory": "copies of memory"}
#: The steps of a run, and the most runs of each kind.
STEPS, _MOST_RUNS = 20, 24
#: Takes a number of steps; returns the wall time and the CPU time of each, in ns.
TakeSteps = Callable[[int], list[tuple[int, int]]]


@contextmanager
def running(kind: str, cpus: Collection[int] | None = None) -> Iterator[TakeSteps]:
    """Run a load in a new process on these processors; a block gets a function that takes steps. Raises OSError."""
    with pinned(cpus):
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    assert process.stdin is not None
    assert process.stdout is not None
    sent, answers = process.stdin, process.stdout

    def take(steps: int) -> list[tuple[int, int]]:
        sent.write(f"{steps}\n")
        sent.flush()
        numbers = [int(word) for word in answers.readline().split()]
        if len(numbers) != 2 * steps:
            raise OSError("the process of a known load ended early")
        return list(zip(numbers[::2], numbers[1::2], strict=True))

    try:
        yield take
    finally:
        process.kill()
        process.communicate()


class _LoadTimes(Struct):
    """The median step time of each run so far, in ns."""

    separate: list[float] = []
    cpu_times: list[float] = []
    pinned: list[float] = []
    base: list[float] = []
    new: list[float] = []


def measure_loads(seconds: float, cpu: int | None, clock: Callable[[], float] = time.monotonic) -> list[MeasuredLoad]:
    """Return the floors of the known loads, measured for about this long, in 4 to 24 rounds. Raises OSError.

    Every round has each load in each way, so that the other programs on the machine disturb all ways alike.

    `cpu`: the processor for pinned runs; None makes none.
    """
    began, found = clock(), {kind: _LoadTimes() for kind in LOADS}
    for number in range(_MOST_RUNS):
        if number >= FEWEST and clock() - began > seconds:
            break
        for kind, times in found.items():
            _round(kind, times, cpu, new_first=number % 2 == 0)
    return [
        MeasuredLoad(LOADS[kind], floors_of(times.separate, times.pinned, times.cpu_times, (times.base, times.new)))
        for kind, times in found.items()
    ]


def _round(kind: str, times: _LoadTimes, cpu: int | None, *, new_first: bool) -> None:
    """Measure a load once in each way; the sides of the pair begin by turns, too."""
    with running(kind) as take:
        steps = take(STEPS)
    times.separate.append(median(wall for wall, _ in steps))
    times.cpu_times.append(median(cpu_time for _, cpu_time in steps))
    if cpu is not None:
        with running(kind, {cpu}) as take:
            times.pinned.append(median(wall for wall, _ in take(STEPS)))
    with ExitStack() as stack:
        sides = [stack.enter_context(running(kind)) for _ in range(2)]  # base and new
        walls: tuple[list[int], list[int]] = ([], [])
        for step in range(STEPS):
            first = (step + new_first) % 2
            for side in (first, 1 - first):
                ((wall, _),) = sides[side](1)
                walls[side].append(wall)
    times.base.append(median(walls[0]))
    times.new.append(median(walls[1]))
