"""Watch the machine while a recording is made, and tell when its steps began.

One process of a host starts the sampler, unless `perfgate run` or `perfgate record` has started one. The same process
records `machine.elapsed`, the time at which some of its steps began, so that what the machine did can be put beside the
steps.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable

from perfgate.recorder.sampler_process import SamplerProcess, sidecar_of, watched_since

#: The time between two marks, in ns. It doubles after each group of marks, so a long recording stays small.
_EVERY, _MARKS = 1_000_000_000, 1024
#: The variables in which launchers say the place of a process on its host, and its rank.
_PLACES = (
    ("LOCAL_RANK", "RANK"),
    ("SLURM_LOCALID", "SLURM_PROCID"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK"),
)

#: Records a time in s and the number of a step.
AddMark = Callable[[float, int], None]


class MachineWatch:
    """The marks of a recording, and the sampler if this process started it.

    Parameters
    ----------
    add : records a mark.
    began : the first reading of the machine in ns, on the monotonic clock.
    sampler : the process, if it is ours.
    """

    def __init__(self, add: AddMark, began: int, sampler: SamplerProcess | None) -> None:
        self._add, self._began, self._sampler = add, began, sampler
        self._process, self._due, self._marks = os.getpid(), 0, 0
        self._last: tuple[float, int] | None = None
        if sampler is not None:
            atexit.register(self.end)

    def mark(self, step: int) -> None:
        """Tell that a step begins now."""
        now = time.monotonic_ns()
        elapsed = round((now - self._began) / 1e9, 4)
        if now < self._due:
            self._last = elapsed, step
            return
        self._add(elapsed, step)
        self._last, self._marks = None, self._marks + 1
        self._due = now + _EVERY * 2 ** (self._marks // _MARKS)

    def mark_last(self) -> None:
        """Record the beginning of the last step, which the others do not reach."""
        if self._last is not None:
            self._add(*self._last)
            self._last = None

    def end(self) -> None:
        """End the sampler, which writes its file. Does nothing again, or in a fork."""
        sampler, self._sampler = self._sampler, None
        if sampler is not None and os.getpid() == self._process:
            atexit.unregister(self.end)
            sampler.end()


def watch(
    path: str, rank: int | None, add: AddMark, warn: Callable[[str], None], *, starts: bool
) -> MachineWatch | None:
    """Return the watch of a recording; None for other ranks of the host, and if nothing watches.

    Parameters
    ----------
    path : the file of the recording. That of the machine lies beside it.
    rank : of this process.
    add : records a mark.
    warn : tells a problem; a training goes on without a sampler.
    starts : start a sampler if none is running.
    """
    began = watched_since()
    if not (starts or began) or not is_first_of_host(rank):
        return None
    if began is not None:
        return MachineWatch(add, began, None)
    try:
        sampler = SamplerProcess(sidecar_of(path))
    except OSError as error:
        warn(f"{path}: the machine is not watched: {error.strerror or error}")
        return None
    if not sampler.is_ready:
        sampler.end()
        warn(f"{path}: the machine is not watched: the sampler did not start, or {sidecar_of(path)} cannot be written")
        return None
    return MachineWatch(add, sampler.began, sampler)


def is_first_of_host(rank: int | None) -> bool:
    """Return whether this process is the first of its host, as far as its launcher tells; otherwise rank 0 is.

    A launcher's word counts only if it knows this process: processes that the program itself starts inherit it.
    """
    for place, whole in _PLACES:
        local, known = os.environ.get(place, ""), os.environ.get(whole, "")
        if local.isdigit() and (rank is None or not known or known == str(rank)):
            return int(local) == 0
    return rank in (None, 0)
