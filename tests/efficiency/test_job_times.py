"""The parts of the time of a job add up, restarts lose the steps that they repeat, and nothing is guessed."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from conftest import Done, write_rules
from hypothesis import given
from hypothesis import strategies as st

from perfgate.core import Run
from perfgate.core.goodput import LOST, OTHER, PARTS, START, STEP, Attempt, TimeSpent, metrics, split
from perfgate.core.wording import PROFILE_MEMORY, PROFILE_TIME, TIMES_OF_RUN
from perfgate.readers import Source, read

BEGIN = datetime(2026, 1, 1, 10)
STEP_LINE = "step: {0:2}  loss: 12.20000  memory: 40.00GiB(42.11%)  tps: 1,234  tflops: 100.00  mfu: 20.00%"
VALIDATION = "validate step: {0:2}  loss:  2.4011  memory: 60.00GiB(75.92%)  tps: 120,001"
VERSION = "torchtitan version: 0.2.3 (0.0.0 means __version__ is not defined correctly)."


def titan(*lines: tuple[float, str], prefix: str = "") -> str:
    """A log of torchtitan, each line so many seconds after the beginning."""
    dated = ((f"{BEGIN + timedelta(seconds=at):%Y-%m-%d %H:%M:%S},000", text) for at, text in lines)
    return "".join(f"{prefix}[titan] {date} - root - INFO - {text}\n" for date, text in dated)


#: 30 s start, 10 + 20 + 20 s steps, 4 s checkpoint, 6 s validation.
FIRST = (
    (0, VERSION),
    (30, "Training starts at step 1"),
    (40, STEP_LINE.format(1)),
    (60, STEP_LINE.format(10)),
    (64, "Finished saving the checkpoint in 4.00 seconds."),
    (70, VALIDATION.format(10)),
    (90, STEP_LINE.format(20)),
)
#: 15 s start with 6 s for the checkpoint, 2 + 18 s steps, 2 s for the last checkpoint, 2 s of nothing that is named.
RESUMED = (
    (180, VERSION),
    (200, "Finished loading the checkpoint in 6.00 seconds."),
    (201, "Training starts at step 11"),
    (203, STEP_LINE.format(11)),
    (221, STEP_LINE.format(20)),
    (223, "Last step checkpoint completed in 2.00s"),
    (225, "Training completed"),
)


def runs_of(text: str) -> list[Run]:
    return list(read(Source("train.log", [text.encode()])))


def times(run: Run) -> dict[str, float]:
    found = {one.key.metric: round(float(one.values[0]), 6) for one in run.series if one.kind == "value"}
    return {name.removeprefix("time."): value for name, value in found.items() if name in TIMES_OF_RUN}


def goodput(run: Run) -> float:
    return next(float(one.values[0]) for one in run.series if one.key.metric == "goodput")


ALONE = {"start": 30, "step": 50, "checkpoint": 4, "evaluation": 6, "lost": 0, "other": 0, "total": 90}
#: a change of the log of one attempt: what is replaced, by what, and the parts that it changes
CHANGES: list[tuple[str, str, dict[str, float]]] = [
    ("Finished saving", "Finished staging", {}),
    ("Finished saving", "Saving", {"checkpoint": 0, "evaluation": 10}),
    ("validate step: 10", "validate step: 15", {"evaluation": 0, "other": 6}),  # step 15 has no line
    ("step:  1", "step:  2", {}),
    (VERSION, "Building llama3 8B", {}),
]


@pytest.mark.parametrize(("old", "new", "changed"), CHANGES)
def test_torchtitan_tells_the_parts(old: str, new: str, changed: dict[str, float]) -> None:
    text = titan(*FIRST)
    assert old in text
    (run,) = runs_of(text.replace(old, new))
    assert times(run) == ALONE | changed
    assert goodput(run) == pytest.approx(50 / 90)


def test_a_restart_loses_everything_after_the_step_that_it_continues_from() -> None:
    """Steps 11 to 20 are repeated: from 10:01:10, after the validation of step 10, to 10:03:00 the time is lost."""
    first, second = runs_of(titan(*FIRST, *RESUMED))
    expected = {"start": 45, "step": 50, "checkpoint": 12, "evaluation": 6, "lost": 110, "other": 2, "total": 225}
    assert times(first) == times(second) == expected
    assert goodput(second) == pytest.approx(50 / 225)


def test_a_log_that_continues_another_one_says_so() -> None:
    (alone,) = runs_of(titan(*RESUMED))
    assert [problem.message for problem in alone.problems] == [
        "this log goes on from step 10: goodput and time.* are of this log alone; for the whole job, join its logs in "
        "one file"
    ]
    assert not any("goes on" in problem.message for run in runs_of(titan(*FIRST, *RESUMED)) for problem in run.problems)


def test_a_restart_inside_a_record_keeps_a_share_of_it() -> None:
    """The next attempt continues from step 15: half of the 20 s for steps 11 to 20 are kept."""
    resumed = ((at, text.replace("step 11", "step 16").replace("step: 11", "step: 16")) for at, text in RESUMED)
    found = times(runs_of(titan(*FIRST, *resumed))[0])
    assert (found["step"], found["lost"], found["total"]) == (60, 100, 225)


def test_a_start_that_fails_before_its_first_step_is_lost() -> None:
    failed = ((100, VERSION), (130, "Training starts at step 11"))
    assert times(runs_of(titan(*FIRST, *failed, *RESUMED))[0])["lost"] == 110


def test_a_restart_whose_first_lines_are_missing_is_lost_up_to_its_first_step() -> None:
    found = times(runs_of(titan(FIRST[1], *FIRST[2:], *RESUMED[3:]))[0])
    assert (found["step"], found["lost"], found["total"]) == (32 + 18, 203 - 72, 195)  # one of steps 11 to 20 is kept


@pytest.mark.parametrize(
    "text",
    [
        titan(*FIRST).replace("[titan] 2026-01-01 ", "[titan] "),  # no dates
        titan(*FIRST).replace("Training starts at", "Training begins at"),
        titan(*FIRST[:5], (20, STEP_LINE.format(20))),  # the clock went back
        titan(*FIRST).replace("in 4.00 seconds", "in 400.00 seconds"),  # longer than the whole
    ],
)
def test_what_a_log_does_not_tell_is_not_said(text: str) -> None:
    (run,) = runs_of(text)
    assert times(run) == {}


def test_a_part_that_one_attempt_does_not_tell_belongs_to_the_rest() -> None:
    steps, rest = TimeSpent(STEP, 60.0, 90.0, 0, 9), [("checkpoint", 5.0, 95.0), ("data", 4.0, 8.0)]
    spent = [steps, *(TimeSpent(part, seconds, at, 0, 0) for part, seconds, at in rest)]
    attempt = Attempt(0.0, 100.0, training=10.0, done=0, spent=spent)
    assert split([attempt], {START, LOST, STEP}, 0.0) == {START: 6.0, STEP: 60.0, LOST: 0.0, OTHER: 34.0}


def test_only_the_lines_of_the_first_rank_count() -> None:
    late = ((at + 5, text) for at, text in FIRST)
    lines = zip(
        titan(*FIRST, prefix="[rank0]:").splitlines(), titan(*late, prefix="[rank1]:").splitlines(), strict=True
    )
    (run,) = runs_of("\n".join(line for pair in lines for line in pair) + "\n")
    assert times(run) == ALONE


def test_rules_on_goodput_and_on_shares_of_the_time(folder: Path, perfgate: Callable[..., Done]) -> None:
    (folder / "train.log").write_text(titan(*FIRST, *RESUMED))
    write_rules(folder, "goodput at least 95%", "time.checkpoint / time.total under 6%", "time.lost under 60 s")
    outcomes = [line.split()[1:3] for line in perfgate("check", "train.log").out.splitlines() if line[:1] in "✓✗"]
    assert [one for one in outcomes if one] == [["fail", "goodput"], ["fail", "time.lost"], ["pass", "time.checkpoint"]]


@st.composite
def jobs(draw: st.DrawFn) -> list[Attempt]:
    """Attempts that follow each other, each with records of steps and other parts one after another."""
    now, done, found = 0.0, 0, []
    for _ in range(draw(st.integers(1, 4))):
        gap = draw(st.floats(0, 1e3))
        now += gap
        attempt = Attempt(now, now, draw(st.floats(0, gap)), done=done)
        now += draw(st.floats(0, 1e3))
        attempt.training, step = now, done
        for part in draw(st.lists(st.sampled_from(PARTS[1:6]), max_size=6)):
            now += draw(st.floats(0, 50))
            seconds = draw(st.floats(0, 500))
            now += seconds
            after, step = step, step + (draw(st.integers(1, 100)) if part == STEP else 0)
            attempt.spent.append(TimeSpent(part, seconds, now, after, step))
        attempt.last = now
        found.append(attempt)
        done = draw(st.integers(done, step))
    return found


@given(jobs())
def test_the_parts_add_up_to_the_whole_time_of_the_job(job: list[Attempt]) -> None:
    parts = split(job, PARTS[:-1], 1e-6)
    assert parts is not None
    assert set(parts) == set(PARTS)
    assert min(parts.values()) >= 0
    whole = job[-1].last - job[0].first + job[0].before
    assert math.isclose(sum(parts.values()), whole, rel_tol=1e-9, abs_tol=1e-5)
    found = metrics(parts)
    assert math.isclose(found["time.total"][0], whole, rel_tol=1e-9, abs_tol=1e-5)
    assert 0 <= found.get("goodput", (0.0, ""))[0] <= 1
    assert len(job) > 1 or parts[LOST] == 0


def test_every_part_is_known_as_a_time_of_the_whole_run() -> None:
    assert {f"time.{part}" for part in PARTS} | {"time.total", PROFILE_TIME, PROFILE_MEMORY} == TIMES_OF_RUN
    assert metrics({START: 0.0, STEP: 0.0, OTHER: 0.0}).keys() == {
        "time.start",
        "time.step",
        "time.other",
        "time.total",
    }
