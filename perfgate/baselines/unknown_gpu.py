"""A GPU that nothing names: said when baselines are written, not when the check in CI turns red."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfgate.core import Fact, Run

#: The formats of tools that run on GPUs, and metrics that only a GPU has.
_FORMATS = frozenset(("deepspeed", "megatron", "mlperf", "nccl-tests", "ncu", "nsys", "vllm"))
_METRICS = ("gpu.", "kernel.", "energy.")
_PARTS = (".device_time", ".self_device_time", "memory.peak_reserved")


def unknown_gpu(runs: Sequence[Run], facts: Mapping[str, Fact], identity: Sequence[str]) -> list[str]:
    """Return a warning if runs of a GPU are to be stored and no fact says which GPU it was; else nothing.

    A later check that knows its GPU finds no baseline then, and ends with exit 3.
    """
    if "gpu" not in identity or facts.get("gpu") is not None or not any(map(_is_of_gpu, runs)):
        return []
    return [
        "warning: no GPU is known for these runs, and a check that knows its GPU finds no baseline for it: give --env"
        " with the facts of their machine (`perfgate env > env.json` there)"
    ]


def _is_of_gpu(run: Run) -> bool:
    if not _FORMATS.isdisjoint(run.format.split("+")):
        return True
    return any(one.key.metric.startswith(_METRICS) or one.key.metric.endswith(_PARTS) for one in run.series)
