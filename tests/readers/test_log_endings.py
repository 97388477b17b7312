"""A log whose end shows that its job did not end by itself is read with a warning; any other log without one."""

from __future__ import annotations

import pytest
from reading import run_of

STEP = "[2026-01-01 00:00:00,000] [INFO] [logging.py:77:log_dist] [Rank 0] time (ms) | fwd: 5.00 | step: 7.00\n"
ITERATION = " iteration {}/    1000 | elapsed time per iteration (ms): 500.0 |\n"
TRAINING = "2026-01-01,00:00:00 | INFO | Train Epoch: 3 [ 2048/8192 ({}%)] Data (t): 0.001 Batch (t): 1.856, 1057.4/s\n"

KILLED = [
    "slurmstepd: error: *** JOB 17 ON node1 CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***\n",
    "slurmstepd: error: Detected 1 oom_kill event in StepId=17.0.\n",
    "srun: error: node1: task 3: Out Of Memory\nsrun: Terminating StepId=17.0\n",
    "[2026-01-01 00:00:00,000] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 41\nMain process ended\n",
    "[2026-01-01 00:00:00,000] [ERROR] [launch.py:321:sigkill_handler] ['python'] exits with return code = -9\n",
    "W0101 00:00:00.000 1 torch/distributed/elastic/agent.py:1] Received 15 death signal, shutting down workers\n",
    "mpirun noticed that process rank 3 with PID 41 on node node1 exited on signal 9 (Killed).\n",
    "run.sh: line 7:    41 Killed                  python train.py\n",
    "Terminated\n",
]


@pytest.mark.parametrize("end", KILLED, ids=[end[:40] for end in KILLED])
def test_a_killed_job_is_said_with_its_line(end: str) -> None:
    (problem,) = run_of(STEP * 9 + end).problems
    assert problem.severity == "warning"
    assert problem.message.startswith("the job did not end by itself: the log ends with `")
    assert any(line in problem.message for line in end.splitlines())


UNFINISHED = [
    (
        ITERATION.format(1) + ITERATION.format(2),
        "the log ends at iteration 2 of 1000: the job did not end, or still runs",
    ),
    (STEP + TRAINING.format(25), "the log ends at 25 % of epoch 3: the job did not end, or still runs"),
    (TRAINING.format(25) + STEP * 600, "the log ends at 25 % of epoch 3: the job did not end, or still runs"),
]


@pytest.mark.parametrize(("log", "said"), UNFINISHED)
def test_a_count_that_is_not_full_is_said(log: str, said: str) -> None:
    assert [(problem.severity, problem.message) for problem in run_of(log).problems] == [("warning", said)]


ENDED = [
    ITERATION.format(999) + ITERATION.format(1000),
    ITERATION.format(50) + "[exiting program at iteration 50] datetime: 2026-01-01 00:00:00\n",
    STEP + TRAINING.format(25) + TRAINING.format(100),
    STEP + "Train Epoch: 3 [59520/60000 (99%)]\tLoss: 0.021\n",  # a script of its own, which prints every tenth batch
    STEP + "[2026-01-01 00:00:00,000] [INFO] [launch.py:348:main] Process 41 exits successfully.\n",
    KILLED[0] + STEP * 9,  # it was started again
    STEP + "INFO: Killed by Death is on the list of songs\n",
]


@pytest.mark.parametrize("log", ENDED)
def test_a_job_that_ended_is_not_called_killed(log: str) -> None:
    assert not run_of(log).problems
