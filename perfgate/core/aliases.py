"""Metrics that a tool renamed from one version to the next: a rule that uses any of the names finds the series.

A timer of DeepSpeed and a device of torch have one name for all versions, which readers give them with the printed one
beside it (`Series.printed_as`); an action of Lightning has the name that was printed. Only names that mean the same
are here: a hook that Lightning has timed for each class since 1.6 (`backward`, `[Strategy]DDPStrategy.backward`) is
another measurement than before.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: DeepSpeed v0.10.1 (PR 3996) renamed these.
_TIMERS = {"fwd": "forward", "bwd": "backward", "bwd_inner": "backward_inner", "bwd_allreduce": "backward_allreduce"}

#: The wait for the next batch: Lightning since 2.0, 1.6 to 1.9, and before.
_NEXT_BATCH = ("[_TrainingEpochLoop].train_dataloader_next", "[TrainingEpochLoop].train_dataloader_next")
_ACTIONS = (*_NEXT_BATCH, "get_train_batch")

#: torch names the device in its columns; whatever it is called, it is the device.
_DEVICE = re.compile(r"(.*\.(?:self_)?)(?:cuda|xpu|hpu|mtia|npu|privateuse1)(_time|_memory)", re.DOTALL)


def canonical_timer(name: str) -> str:
    """The metric of a DeepSpeed timer: `fwd_microstep` is `forward_microstep`."""
    stem = name.removesuffix("_microstep")
    return _TIMERS.get(stem, stem) + name[len(stem) :]


@lru_cache(maxsize=4096)
def synonyms(name: str) -> tuple[str, ...]:
    """The other names of a metric, or of a glob: `mm.cuda_time` is `mm.device_time`, and `fwd*` is `forward*`."""
    device = _DEVICE.fullmatch(name)
    if device:
        return (f"{device[1]}device{device[2]}",)
    end = next((at for at, letter in enumerate(name) if letter in "*?["), len(name))
    timer = canonical_timer(name[:end])
    if timer != name[:end]:
        return (timer + name[end:],)
    whole = name.removeprefix("[pl][profile]") + "."
    own = next((action for action in _ACTIONS if whole.startswith(action + ".")), None)
    return tuple(name.replace(own, action, 1) for action in _ACTIONS if action != own) if own else ()
