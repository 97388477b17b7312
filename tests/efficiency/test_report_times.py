"""The times of a run in reports and rows that tell sums: Lightning's SimpleProfiler and the Hugging Face Trainer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_job_times import goodput, times

from perfgate.core import Run
from perfgate.readers import Source, read

FIXTURES = Path(__file__).parents[1] / "readers" / "fixtures"
REPORT = (FIXTURES / "lightning_2.6_times.txt").read_text()


def run_of(text: str, name: str = "run.txt") -> Run:
    (run,) = read(Source(name, [text.encode()]))
    return run


def test_the_profiler_of_lightning_tells_steps_data_checkpoints_and_evaluation() -> None:
    """The fit slept 16 x 30 ms in steps, 16 x 20 ms for data, 4 x 100 ms to save, 16 x (20 + 10) ms to evaluate."""
    run = run_of(REPORT)
    found = times(run)
    assert found.keys() == {"step", "data", "checkpoint", "evaluation", "other", "total"}
    slept = {"step": 0.48, "data": 0.32, "checkpoint": 0.4, "evaluation": 0.48}
    for part, seconds in slept.items():
        assert seconds <= found[part] < seconds + 0.2, part
    assert sum(found.values()) == pytest.approx(2 * found["total"], abs=1e-5)
    assert goodput(run) == pytest.approx(found["step"] / found["total"], rel=1e-4)


def test_before_lightning_2_6_the_hooks_of_the_checkpoint_callback_count() -> None:
    before = "\n".join(line for line in REPORT.splitlines() if "  save_checkpoint" not in line) + "\n"
    assert times(run_of(before))["checkpoint"] == pytest.approx(times(run_of(REPORT))["checkpoint"], rel=0.05)


def test_a_report_that_lost_its_end_tells_only_the_parts_of_its_rows() -> None:
    lines = REPORT.splitlines(keepends=True)
    cut = "".join(lines[: next(at for at, line in enumerate(lines) if "  save_checkpoint" in line) + 1])
    assert times(run_of(cut)).keys() == {"step", "checkpoint", "other", "total"}


def test_a_whole_report_without_rows_of_a_part_spent_no_time_on_it() -> None:
    kept = "".join(line for line in REPORT.splitlines(keepends=True) if "heckpoint" not in line)
    assert times(run_of(kept))["checkpoint"] == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [("|  Total  ", "|  Sum    "), ("FIT Profiler", "VALIDATE Profiler"), ("run_training_batch", "run_training_block")],
)
def test_a_report_that_does_not_tell_the_whole_or_the_steps_has_no_goodput(old: str, new: str) -> None:
    assert old in REPORT
    assert times(run_of(REPORT.replace(old, new))) == {}


#: The rows of a training of 8 steps by transformers 5.23, which evaluated twice during it and once after it.
ROWS: list[dict[str, float]] = [
    {"epoch": 0.5, "loss": 0.0406, "step": 4},
    {"epoch": 0.5, "eval_loss": 0.4503, "eval_runtime": 0.3146, "eval_samples_per_second": 25.426, "step": 4},
    {"epoch": 1.0, "eval_loss": 0.3188, "eval_runtime": 0.3184, "eval_samples_per_second": 25.125, "step": 8},
    {"epoch": 1.0, "train_loss": 0.4417, "train_runtime": 1.2756, "train_samples_per_second": 6.272, "step": 8},
    {"epoch": 1.0, "eval_loss": 0.511, "eval_runtime": 0.3161, "eval_samples_per_second": 25.308, "step": 8},
]
EVALUATED = {"evaluation": 0.633, "other": 0.6426, "total": 1.2756}


@pytest.mark.parametrize("form", ["state", "console"])
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (ROWS, EVALUATED),
        ([{name.replace("eval_", "eval_g0_"): value for name, value in row.items()} for row in ROWS], EVALUATED),
        (ROWS[:3], {}),  # the training goes on
        ([ROWS[0], *ROWS[3:]], {}),  # no evaluation during the training
        ([*ROWS[:4], ROWS[3]], {}),  # printed by two processes
        ([*ROWS[:1], ROWS[1] | {"eval_runtime": 9.0}, *ROWS[2:]], {}),  # longer than the whole
    ],
)
def test_the_rows_of_the_trainer_tell_the_evaluations_within_the_training(
    form: str, rows: list[dict[str, float]], expected: dict[str, float]
) -> None:
    state = {"global_step": 8, "max_steps": 8, "log_history": rows}
    console = "".join(f"{ {name: value for name, value in row.items() if name != 'step'} }\n" for row in rows)
    run = run_of(json.dumps(state) if form == "state" else console)
    assert run.format == "hf-trainer"
    assert times(run) == pytest.approx(expected)
    assert not [one for one in run.series if one.key.metric == "goodput"]
