"""A warning for a log whose job did not end by itself: a line about a signal or a failure, or a count that is not full.

    slurmstepd: error: *** JOB 123 ON node1 CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***          Slurm
    srun: error: node1: task 3: Out Of Memory
    [launch.py:315:sigkill_handler] Killing subprocess 41                                                   DeepSpeed
    Sending process 41 closing signal SIGTERM                                                               torchrun
    mpirun noticed that process rank 3 with PID 41 on node node1 exited on signal 9 (Killed).               Open MPI
    run.sh: line 7:    41 Killed                  python train.py                                           bash
    iteration       60/    1000 | ...                                                                       Megatron-LM
    Train Epoch: 0 [ 3278848/12202117 (27%)] ...                                                            open_clip

Sources: slurmstepd and srun of SchedMD/slurm; deepspeedai/DeepSpeed `launcher/launch.py`; pytorch
`torch/distributed/elastic`; the help texts of Open MPI; bash; NVIDIA/Megatron-LM `megatron/training/training.py`;
mlfoundations/open_clip `training/train.py`, which prints the last batch of each epoch.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from msgspec.structs import replace

from perfgate.core import Location, Problem, Run

_FAILED = re.compile(
    r"slurmstepd: error: .{0,200}?(?:CANCELLED AT|oom.kill)"
    r"|srun: error: .{0,200}?: (?:Killed|Terminated|Aborted|Out Of Memory|Segmentation fault)"
    r"|srun: error: .{0,200}?: Exited with exit code [1-9]"
    r"|\bKilling subprocess \d|exits with return code = -?[1-9]"
    r"|Sending process \d+ closing signal SIG|death signal, shutting down workers|\bfailed \(exitcode: -?[1-9]"
    r"|noticed that process rank .{0,200}? exited on signal"
    r"|^(?:\S+: line \d+: +\d+ )?(?:Killed|Terminated|Aborted|Segmentation fault)\b(?: +\(core dumped\))?(?: {3,}.*)?$"
)
_ITERATION = re.compile(r"\biteration\s{1,40}(\d{1,18})/\s{0,40}(\d{1,18}) \|")
#: Other programs print such a line, too, but not at the end of an epoch: only that of open_clip has the time of data.
_EPOCH = re.compile(r"Train Epoch: (\d{1,9}) \[.{0,60}?\((\d{1,3})%\)\].{0,400}?Data \(t\): ")
#: What Megatron-LM prints if it stops before the last iteration on purpose.
_STOPPED = ("exiting program", "after training is done")
_LONGEST = 160
#: Words of warnings that say already how the log ends.
_SAID = ("ends in a traceback", "is cut off")
#: A failure further from the end, in characters, did not end the job.
_NEAR = 1 << 14


def with_ending(runs: tuple[Run, ...], tail: str, markers: Collection[str]) -> tuple[Run, ...]:
    """Return the runs of a log, the last of them with a warning if its end shows that the job did not end.

    Parameters
    ----------
    tail: the end of the log.
    markers: words of the format's records; a failure before one of them was not the end.
    """
    *others, last = runs
    if any(words in problem.message for problem in last.problems for words in _SAID):
        return runs
    if (said := _failure(tail, markers) or _unfinished(tail)) is None:
        return runs
    warning = Problem("warning", said, Location(last.source))
    return (*others, replace(last, problems=(*last.problems, warning)))


def _failure(tail: str, markers: Collection[str]) -> str | None:
    for line in reversed(tail[-_NEAR:].splitlines()):
        if any(marker in line for marker in markers):
            return None
        if _FAILED.search(line):
            return f"the job did not end by itself: the log ends with `{line.strip()[:_LONGEST]}`"
    return None


def _unfinished(tail: str) -> str | None:
    if any(words in tail for words in _STOPPED):
        return None
    *_, counted = ("", "", ""), *_ITERATION.finditer(tail)
    *_, epoch = ("", "", ""), *_EPOCH.finditer(tail)
    if counted[1] and int(counted[1]) < int(counted[2]):
        return f"the log ends at iteration {counted[1]} of {counted[2]}: the job did not end, or still runs"
    if epoch[1] and int(epoch[2]) < 100:
        return f"the log ends at {epoch[2]} % of epoch {epoch[1]}: the job did not end, or still runs"
    return None
