"""Pairs of logs with one known cause: DeepSpeed and Megatron-LM logs of a job that is made up.

Each timer of a run has its own level (noise between runs of 1 to 3 %), and all timers of a run share a clock (a third
of that). Steps vary by 4 %, and are correlated. One timer of the new side is changed by 12 to 40 %, or a rank, or the
memory. Ranks wait for the slowest one in the collective, as in a real job.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

#: The timers of a step in ms: the passes and the update.
_DEEPSPEED = {"data": 0.0, "fwd": 90.0, "bwd_inner": 170.0, "bwd_allreduce": 35.0, "step": 55.0}
_MEGATRON = {
    "batch-generator": 30.0,
    "forward-compute": 210.0,
    "backward-compute": 400.0,
    "all-grads-sync": 80.0,
    "optimizer-inner-step": 60.0,
    "params-all-gather": 40.0,
    "outside": 25.0,
}


@dataclass(frozen=True)
class Truth:
    """The true cause: its kind, a word of its place, the change of the mean step in s, and the slow ranks."""

    kind: str
    where: str = ""
    change: float = 0.0
    ranks: tuple[str, ...] = ()


@dataclass
class Job:
    """One side of a pair: factors of timers, factors of ranks, timers that are absent, and bytes."""

    tool: str
    ranks: int = 1
    factors: Mapping[str, float] = field(default_factory=dict)
    slow: Mapping[int, float] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()
    gibibytes: float = 8.0


@dataclass(frozen=True)
class LogPair:
    """Two sides, K runs each, as text, and the truth."""

    name: str
    base: tuple[str, ...]
    new: tuple[str, ...]
    truth: Truth


def pairs(count: int, seed: int, runs: int = 3) -> list[LogPair]:
    """Return pairs of each kind in turn."""
    found = []
    for number in range(count):
        chance = random.Random(f"{seed}/{number}")
        kind = list(_CAUSES)[number % len(_CAUSES)]
        tool = ("deepspeed", "megatron")[(number // len(_CAUSES)) % 2]
        noise = chance.choice((0.01, 0.02, 0.03))
        base, new, truth = _CAUSES[kind](tool, chance)
        texts = [
            tuple(_log(job, noise, random.Random(f"{seed}/{number}/{side}/{run}")) for run in range(runs))
            for side, job in enumerate((base, new))
        ]
        found.append(LogPair(f"{tool}-{kind.replace(' ', '-')}-{number}", texts[0], texts[1], truth))
    return found


def _none(tool: str, chance: random.Random) -> tuple[Job, Job, Truth]:
    job = Job(tool, chance.choice((1, 4)))
    return job, job, Truth("none")


def _time(tool: str, name: str, factor: float, kind: str, ranks: int) -> tuple[Job, Job, Truth]:
    time = (_DEEPSPEED if tool == "deepspeed" else _MEGATRON)[name]
    truth = Truth(kind, _PRINTED.get(name, name), time * (factor - 1) / 1000)
    return Job(tool, ranks), Job(tool, ranks, {name: factor}), truth


def _slower(tool: str, chance: random.Random) -> tuple[Job, Job, Truth]:
    names = ("fwd", "bwd_inner", "step")
    if tool == "megatron":
        names = ("forward-compute", "backward-compute", "optimizer-inner-step")
    return _time(tool, chance.choice(names), 1 + chance.uniform(0.15, 0.4), "slower", chance.choice((1, 4)))


def _faster(tool: str, chance: random.Random) -> tuple[Job, Job, Truth]:
    names = ("fwd", "bwd_inner") if tool == "deepspeed" else ("forward-compute", "backward-compute")
    return _time(tool, chance.choice(names), 1 - chance.uniform(0.15, 0.4), "faster", 1)


def _exposed(tool: str, chance: random.Random) -> tuple[Job, Job, Truth]:
    name = "bwd_allreduce" if tool == "deepspeed" else chance.choice(("all-grads-sync", "params-all-gather"))
    return _time(tool, name, 1 + chance.uniform(0.4, 1.2), "exposed", chance.choice((1, 4)))


def _stall(tool: str, chance: random.Random) -> tuple[Job, Job, Truth]:
    factor = 1 + chance.uniform(0.5, 2.0)
    return _time("megatron", "batch-generator", factor, "stall", 1)


def _vanished(tool: str, chance: random.Random) -> tuple[Job, Job, Truth]:
    name = "bwd_allreduce" if tool == "deepspeed" else "params-all-gather"
    time = (_DEEPSPEED if tool == "deepspeed" else _MEGATRON)[name]
    new = Job(tool, 1, absent=frozenset((name,)))
    return Job(tool, 1), new, Truth("vanished", _PRINTED.get(name, name), -time / 1000)


def _appeared(tool: str, chance: random.Random) -> tuple[Job, Job, Truth]:
    base, new, truth = _vanished(tool, chance)
    return new, base, Truth("appeared", truth.where, -truth.change)


def _slow_rank(tool: str, chance: random.Random) -> tuple[Job, Job, Truth]:
    ranks = chance.choice((2, 4, 8))
    culprit, factor = chance.randrange(ranks), 1 + chance.uniform(0.15, 0.4)
    job = Job(tool, ranks)
    return job, Job(tool, ranks, slow={culprit: factor}), Truth("slow rank", "", 0.0, (str(culprit),))


def _memory(tool: str, chance: random.Random) -> tuple[Job, Job, Truth]:
    job = Job("deepspeed", 1)
    return job, Job("deepspeed", 1, gibibytes=8 * (1 + chance.uniform(0.1, 0.5))), Truth("memory", "memory")


_PRINTED = {"fwd": "forward", "bwd_inner": "backward_inner", "bwd_allreduce": "backward_allreduce"}
_CAUSES: dict[str, Callable[[str, random.Random], tuple[Job, Job, Truth]]] = {
    "none": _none,
    "slower": _slower,
    "exposed": _exposed,
    "slow rank": _slow_rank,
    "stall": _stall,
    "faster": _faster,
    "vanished": _vanished,
    "appeared": _appeared,
    "unchanged": _none,
    "memory": _memory,
}


def _steps(job: Job, noise: float, chance: random.Random) -> list[list[dict[str, float]]]:
    """The timers of each rank in each step in ms; the other ranks wait in the collective for the slowest."""
    usual = _DEEPSPEED if job.tool == "deepspeed" else _MEGATRON
    waits = "bwd_allreduce" if job.tool == "deepspeed" else "all-grads-sync"
    computes = ("fwd", "bwd_inner") if job.tool == "deepspeed" else ("forward-compute", "backward-compute")
    clock = 1 + chance.gauss(0, noise / 3)
    level = [{name: clock * (1 + chance.gauss(0, noise)) for name in usual} for _ in range(job.ranks)]
    wander = 0.0
    found = []
    for step in range(60):
        wander = 0.7 * wander + chance.gauss(0, 0.01)
        ranks = []
        for rank in range(job.ranks):
            times = {}
            for name, time in usual.items():
                if name not in job.absent:
                    factor = job.factors.get(name, 1.0) * level[rank][name] * (1 + wander + chance.gauss(0, 0.04))
                    slow = job.slow.get(rank, 1.0) if name in computes else 1.0
                    times[name] = time * factor * slow * (4.0 if step == 0 else 1.0)
            ranks.append(times)
        longest = max(sum(times[name] for name in computes) for times in ranks)
        for times in ranks:
            if waits in times:
                times[waits] += longest - sum(times[name] for name in computes)
        found.append(ranks)
    return found


def _log(job: Job, noise: float, chance: random.Random) -> str:
    steps = _steps(job, noise, chance)
    lines = _deepspeed(steps, job) if job.tool == "deepspeed" else _megatron(steps)
    return "\n".join(lines) + "\n"


def _deepspeed(steps: Sequence[Sequence[Mapping[str, float]]], job: Job) -> list[str]:
    lines = []
    for number, ranks in enumerate(steps, 1):
        for rank, times in enumerate(ranks):
            backward = times["bwd_inner"] + times.get("bwd_allreduce", 0.0)
            fields = {"fwd": times["fwd"], "bwd": backward} | {
                name: times[name] for name in ("bwd_inner", "bwd_allreduce", "step") if name in times
            }
            record = "".join(f" | {name}: {value:.2f}" for name, value in fields.items())
            lines.append(f"[Rank {rank}] time (ms){record}")
        if number % 10 == 0:
            used = f"MemAllocated={job.gibibytes / 2:.2f}GB, MaxMemAllocated={job.gibibytes:.2f}GB"
            speed = f"RunningAvgSamplesPerSec=180.5, CurrSamplesPerSec={181 + number / 100:.2f}"
            lines.append(f"epoch=0/micro_step={number}/global_step={number}, {speed}, {used}")
    return lines


def _megatron(steps: Sequence[Sequence[Mapping[str, float]]]) -> list[str]:
    lines = []
    for number, ranks in enumerate(steps, 1):
        named = [_megatron_timers(times) for times in ranks]
        whole = max(times["iteration"] for times in named)
        at = f"[2026-11-20 10:{number // 60:02d}:{number % 60:02d}]"
        lines.append(
            f" {at} iteration {number:8d}/     500 | consumed samples: {number * 256:12d} | "
            f"elapsed time per iteration (ms): {whole:.1f} | global batch size:   256 | "
            "number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
        names = [name for name in named[0] if name != "iteration"]
        if len(ranks) == 1:
            lines.append("max time across ranks (ms):")
            lines += [f"    {(name + ' ').ljust(48, '.')}: {named[0][name]:.2f}" for name in names]
        else:
            lines.append("times across ranks (ms):")
            for name in names:
                lines.append(f"  {name}:")
                lines += [f"     rank {rank:2d}: {times[name]:.2f}" for rank, times in enumerate(named)]
    return lines


def _megatron_timers(times: Mapping[str, float]) -> dict[str, float]:
    forward = times["forward-compute"] + times["batch-generator"]
    passes = forward + times["backward-compute"] + times.get("all-grads-sync", 0.0)
    update = times["optimizer-inner-step"] + times.get("params-all-gather", 0.0)
    inner = {name: times[name] for name in ("optimizer-inner-step", "params-all-gather") if name in times}
    return {
        "iteration": passes + update + times["outside"],
        "forward-backward": passes,
        "forward-compute": forward,
        "backward-compute": times["backward-compute"],
        "batch-generator": times["batch-generator"],
        "all-grads-sync": times["all-grads-sync"],
        "optimizer": update,
        **inner,
    }


def write(pair: LogPair, folder: Path) -> tuple[list[str], list[str]]:
    """Write the logs of a pair; return the paths of both sides."""
    sides: tuple[list[str], list[str]] = ([], [])
    for paths, side, texts in zip(sides, ("base", "new"), (pair.base, pair.new), strict=True):
        for run, text in enumerate(texts):
            path = folder / f"{pair.name}-{side}-{run}.log"
            path.write_text(text, encoding="utf-8")
            paths.append(str(path))
    return sides
