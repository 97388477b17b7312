"""perfgate: a performance gate for people who train models on GPUs.

The public names are resolved when they are first used, so that `import perfgate` loads neither numpy nor scipy, and
`perfgate.Recorder` the standard library alone. What each of them does is described where it is defined.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from perfgate.judge.change import judge_change
    from perfgate.judge.limit import judge_limit
    from perfgate.judge.pairs import judge_pairs
    from perfgate.pairing.in_process import pair
    from perfgate.recording.errors import RecorderError, RecorderWarning
    from perfgate.recording.recorder import Recorder
    from perfgate.stats.describe import measure_run
    from perfgate.stats.prior import calibrate_prior
    from perfgate.stats.warmup import warmup_length

__all__ = [
    "Recorder",
    "RecorderError",
    "RecorderWarning",
    "__version__",
    "calibrate_prior",
    "judge_change",
    "judge_limit",
    "judge_pairs",
    "measure_run",
    "pair",
    "warmup_length",
]

#: Where each public name lives.
_HOMES = {
    "Recorder": "perfgate.recording.recorder",
    "RecorderError": "perfgate.recording.errors",
    "RecorderWarning": "perfgate.recording.errors",
    "calibrate_prior": "perfgate.stats.prior",
    "judge_change": "perfgate.judge.change",
    "judge_limit": "perfgate.judge.limit",
    "judge_pairs": "perfgate.judge.pairs",
    "measure_run": "perfgate.stats.describe",
    "pair": "perfgate.pairing.in_process",
    "warmup_length": "perfgate.stats.warmup",
}


def __getattr__(name: str) -> object:
    """Import a public function at its first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'perfgate' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
