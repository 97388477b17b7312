"""Logs of Megatron-DeepSpeed, which are read as logs of DeepSpeed, tell the same times as those of Megatron-LM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done
from test_job_times import goodput, times

from perfgate.core import Run
from perfgate.readers import Source, read, text

INFO = "[2026-01-01 10:00:{:02},000] [INFO] [logging.py:60:log_dist] [Rank 0] "
TIMER = INFO + "rank=0 time (ms) | forward: 500.00 | step: 1.0\n"
ITERATION = " iteration {:8}/     100 | elapsed time per iteration (ms): 2000.0 | lm loss: 2.0E+00 |\n"
COUNTER = INFO + "step={}, skipped=0, lr=[0.1]\n"
BEGIN = """\
time to initialize megatron (seconds): 10.000
[after megatron is initialized] datetime: 2026-01-01 10:00:00
[before the start of training step] datetime: 2026-01-01 10:00:20
"""
SAVED = "time (ms) | save-checkpoint: 7000.00\n"
DONE = "[after training is done] datetime: 2026-01-01 10:00:38\n"
LOG = BEGIN + "".join(TIMER.format(20 + 2 * n) + ITERATION.format(n) for n in range(1, 5)) + SAVED + DONE
#: 10 s before the first date and 20 s after it, 4 iterations of 2 s, 7 s for the checkpoint, and 3 s are left.
PARTS = {"start": 30, "step": 8, "checkpoint": 7, "evaluation": 0, "lost": 0, "other": 3, "total": 48}


def run_of(log: str) -> Run:
    (run,) = read(Source("train.log", [log.encode()]))
    assert run.format == "deepspeed"
    return run


def test_megatron_deepspeed_tells_the_times_of_the_run() -> None:
    run = run_of(LOG)
    assert times(run) == PARTS
    assert goodput(run) == pytest.approx(8 / 48)


def test_the_dates_of_the_step_counter_are_moments() -> None:
    """The checkpoint is after the last moment."""
    found = times(run_of(LOG.replace(SAVED + DONE, COUNTER.format(30, 4) + SAVED)))
    assert found == {**PARTS, "checkpoint": 0, "other": 2, "total": 40}


def test_a_long_log_tells_the_same_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines of timers are read many at once."""
    monkeypatch.setattr(text, "BLOCK", 100)
    evaluated = "time (ms) | evaluate: 1000.00\n"
    assert times(run_of(LOG.replace(SAVED, SAVED + evaluated))) == {**PARTS, "evaluation": 1, "other": 2}


def test_a_log_without_the_start_of_the_training_has_no_goodput() -> None:
    assert times(run_of(LOG.removeprefix(BEGIN))) == {}


def test_the_start_of_the_next_run_does_not_belong_to_the_run_before() -> None:
    """Excerpts of two runs: the second begins with a later line of its start, and its dates are indented."""
    later = (
        BEGIN.partition("\n")[2].replace("megatron is initialized", "dataloaders are built").replace("10:00", "11:00")
    )
    second = later + "".join("  " + (TIMER.format(20 + 2 * n) + ITERATION.format(n)) for n in range(1, 5))
    runs = read(Source("notes.txt", [(LOG + second.replace("01 10", "01 11")).encode()]))
    assert [times(run) for run in runs] == [PARTS, {}]


def test_init_shows_a_rule_for_a_part_of_the_time(folder: Path, perfgate: Callable[..., Done]) -> None:
    Path("train.log").write_text(LOG)
    said = " ".join(perfgate("init", "train.log").out.split())
    rule = "time.lost / time.total under 5%"
    assert f"they grow with the length of the run: limit a share, such as `{rule}`): time.start" in said
    Path("rules/training.yaml").write_text(f"version: 1\nrules:\n  - {rule}\n")
    assert perfgate("check", "train.log").code == 0
