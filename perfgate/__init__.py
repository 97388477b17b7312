"""perfgate: a performance gate for people who train models on GPUs.

The gate is the command `perfgate`. Programs may import the following names; everything else may change.

* `Recorder` records spans, steps and values of a running program. It raises `RecorderError`, warns with
  `RecorderWarning`, and needs only the standard library.
* `work_of` counts what a function asks of the host and the GPU, exactly; `Recorder.add_work` keeps it.
* `judge_change` and `judge_limit` make the same decisions as `check`, on plain sequences of numbers: runs, or pairs.
* `pair` times two functions in turn in one process, for `judge_change(..., pairing="one-process")`.
* `measure_run`, `warmup_length` and `calibrate_prior` prepare a decision: the value of one run, the number of warm-up
  values, and the noise between unchanged runs.
* `find_change_points` finds where the level of a history of runs changed; `load_history` reads the stored history.

Names are imported at their first use, so `import perfgate` loads neither numpy nor scipy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from perfgate.version import __version__

if TYPE_CHECKING:
    from perfgate.history.load import load_history
    from perfgate.judge.plain import judge_change, judge_limit
    from perfgate.measuring.in_process import pair
    from perfgate.recorder import RecorderError, RecorderWarning
    from perfgate.recorder.profiled_work import work_of
    from perfgate.recorder.recorder import Recorder
    from perfgate.stats.change_points import find_change_points
    from perfgate.stats.history import calibrate_prior
    from perfgate.stats.statistics import measure_run
    from perfgate.stats.steady import warmup_length

__all__ = [
    "Recorder",
    "RecorderError",
    "RecorderWarning",
    "__version__",
    "calibrate_prior",
    "find_change_points",
    "judge_change",
    "judge_limit",
    "load_history",
    "measure_run",
    "pair",
    "warmup_length",
    "work_of",
]

#: The module of each public name.
_HOMES = {
    "Recorder": "perfgate.recorder.recorder",
    "RecorderError": "perfgate.recorder",
    "RecorderWarning": "perfgate.recorder",
    "calibrate_prior": "perfgate.stats.history",
    "find_change_points": "perfgate.stats.change_points",
    "judge_change": "perfgate.judge.plain",
    "judge_limit": "perfgate.judge.plain",
    "load_history": "perfgate.history.load",
    "measure_run": "perfgate.stats.statistics",
    "pair": "perfgate.measuring.in_process",
    "warmup_length": "perfgate.stats.steady",
    "work_of": "perfgate.recorder.profiled_work",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'perfgate' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """The public names, for completion at a prompt."""
    return sorted(__all__)
