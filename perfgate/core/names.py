"""Names of statistics, and other names of metrics that a tool renamed between versions.

A rule with any name of a metric finds its series. Readers give a timer of DeepSpeed and a device of torch one name for
all versions, and keep the printed name in `Series.printed_as`. An action of Lightning keeps its printed name. Only
names with the same meaning are here: since 1.6, Lightning times some hooks for each class (`backward`,
`[Strategy]DDPStrategy.backward`), which is another measurement.
"""

from __future__ import annotations

import re
from functools import lru_cache

#: Every statistic except the percentiles `p0` to `p100`, with its meaning.
STATISTICS = {
    "median": "the median",
    "mean": "the mean",
    "min": "the smallest value",
    "max": "the largest value",
    "total": "the sum of all values",
    "count": "the number of values",
    "stddev": "the standard deviation",
    "cv": "the standard deviation as a share of the mean",
    "trimmed_mean": "the mean without the lowest and highest fifth",
}
_PERCENTILE = re.compile(r"p(\d{1,3}(?:\.\d+)?)", re.ASCII)


def percent_of(name: str) -> float | None:
    """Return the percentage in the name of a percentile (99.9 for `p99.9`), or None for every other word."""
    found = _PERCENTILE.fullmatch(name)
    percent = float(found[1]) if found else 101.0
    return percent if percent <= 100 else None


def is_statistic(word: str) -> bool:
    """Return whether a word names a statistic: `median`, `p95`, `p99.9`, ..."""
    return word in STATISTICS or percent_of(word) is not None


#: DeepSpeed v0.10.1 (PR 3996) renamed these.
_TIMERS = {"fwd": "forward", "bwd": "backward", "bwd_inner": "backward_inner", "bwd_allreduce": "backward_allreduce"}

#: The wait for the next batch: Lightning since 2.0, from 1.6 to 1.9, and before 1.6.
_NEXT_BATCH = ("[_TrainingEpochLoop].train_dataloader_next", "[TrainingEpochLoop].train_dataloader_next")
_ACTIONS = (*_NEXT_BATCH, "get_train_batch")

#: torch has the name of the device in its columns.
_DEVICE = re.compile(r"(.*\.(?:self_)?)(?:cuda|xpu|hpu|mtia|npu|privateuse1)(_time|_memory)", re.DOTALL)


def canonical_timer(name: str) -> str:
    """Return the metric of a DeepSpeed timer: `forward_microstep` for `fwd_microstep`."""
    stem = name.removesuffix("_microstep")
    return _TIMERS.get(stem, stem) + name[len(stem) :]


@lru_cache(maxsize=4096)
def synonyms(name: str) -> tuple[str, ...]:
    """Return the other names of a metric or a glob: `mm.device_time` for `mm.cuda_time`, `forward*` for `fwd*`."""
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
