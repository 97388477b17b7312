"""The time of a Megatron-LM run is split by the dates and timers of its log: numbers computed by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, write_rules

from perfgate.judge.evidence import direction
from perfgate.workspace.inputs import read_runs

#: 10 s of initialisation, 20 s to the start of training, 2 x 10 iterations of 2 s, 5 s of evaluation, 7 s of saving.
LOG = """\
time to initialize megatron (seconds): 10.000
[after megatron is initialized] datetime: 2026-01-01 10:00:00
[before the start of training step] datetime: 2026-01-01 10:00:20
 [2026-01-01 10:00:40] iteration       10/     100 | elapsed time per iteration (ms): 2000.0 | lm loss: 2.0E+00 |
(min, max) time across ranks (ms):
    evaluate .......................................: (4000.00, 5000.00)
(min, max) time across ranks (ms):
    save-checkpoint ................................: (6000.00, 7000.00)
 [2026-01-01 10:01:15] iteration       20/     100 | elapsed time per iteration (ms): 2000.0 | lm loss: 2.0E+00 |
"""
DONE = "[after training is done] datetime: 2026-01-01 10:01:40\n"
SAVED_LATER = (
    "(min, max) time across ranks (ms):\n    save-checkpoint ................................: (900.00, 900.00)\n"
)


def split(tmp_path: Path, text: str) -> dict[str, float]:
    path = tmp_path / "train.log"
    path.write_text(text)
    run = read_runs([str(path)])[-1]
    assert not [problem for problem in run.problems if problem.severity == "error"]
    found = {one.key.metric: round(float(one.values[0]), 6) for one in run.series}
    return {name: value for name, value in found.items() if name.startswith("time.") or name == "goodput"}


def test_the_parts_add_up_to_the_whole(tmp_path: Path) -> None:
    """The whole is 10 s + 75 s: 30 s start, 40 s steps, 7 s saving, 5 s evaluation, and 3 s are left."""
    found = split(tmp_path, LOG)
    goodput = found.pop("goodput")
    parts = {"start": 30, "step": 40, "checkpoint": 7, "evaluation": 5, "lost": 0, "other": 3, "total": 85}
    assert found == {f"time.{part}": seconds for part, seconds in parts.items()}
    assert goodput == round(40 / 85, 6)
    assert direction("goodput", "1", None) == "higher"


#: a change of the log: what is replaced, by what, and metrics that it changes
CHANGES: list[tuple[str, str, dict[str, float]]] = [
    (
        "",
        DONE,
        {"time.other": 28, "time.total": 110, "goodput": round(40 / 110, 6)},
    ),  # the last moment is the end of training
    ("", SAVED_LATER, {}),  # after the last moment
    (
        "[2026-01-01 10:01:15]",
        "[2026-01-01 10:01:11]",
        {"time.other": 0, "time.total": 82, "goodput": round(40 / 82, 6)},
    ),  # rounded
    (
        "time to initialize megatron (seconds): 10.000\n",
        "",
        {"time.start": 20, "time.total": 75, "goodput": round(40 / 75, 6)},
    ),
]


@pytest.mark.parametrize(("old", "new", "changed"), CHANGES)
def test_what_a_log_says_changes_its_part(old: str, new: str, changed: dict[str, float], tmp_path: Path) -> None:
    before = split(tmp_path, LOG)
    assert split(tmp_path, LOG.replace(old, new, 1) if old else LOG + new) == {**before, **changed}


def test_a_resumed_run_begins_at_any_iteration(tmp_path: Path) -> None:
    assert split(tmp_path, LOG.replace(" 10/", "110/").replace(" 20/", "120/"))["time.step"] == 40


#: What makes the split impossible: then nothing is said.
ABSENT = [
    ("[before the start of training step] datetime: 2026-01-01 10:00:20\n", ""),
    ("[2026-01-01 10:01:15]", "[2026-01-01 10:01:00]"),  # the parts are longer than the whole
    ("[2026-01-01 10:01:15] ", ""),  # one iteration record before the last moment
    ("2026-01-01 10:00:20", "2026-13-01 10:00:20"),
]


@pytest.mark.parametrize(("old", "new"), ABSENT)
def test_a_log_that_cannot_be_split_has_no_goodput(old: str, new: str, tmp_path: Path) -> None:
    assert old in LOG
    assert split(tmp_path, LOG.replace(old, new)) == {}


def test_a_run_from_the_first_step_on_is_a_job_of_its_own(tmp_path: Path) -> None:
    second = "using world size: 1\n" + LOG.replace("10:0", "12:0").replace("2000.0", "1000.0")
    found = split(tmp_path, LOG + second)
    assert (found["time.step"], found["time.lost"], found["time.total"]) == (20, 0, 85)


#: How the log tells that a part happened, and the timer of the part
UNTIMED = [
    ("successfully saved checkpoint at iteration      10 to /ckpt", "save-checkpoint", "checkpoint"),
    (" validation loss at iteration 10 | lm loss value: 2.0E+00 |", "evaluate", "evaluation"),
]


@pytest.mark.parametrize(("line", "timer", "part"), UNTIMED)
def test_a_part_that_happened_without_its_timer_is_absent(line: str, timer: str, part: str, tmp_path: Path) -> None:
    told = split(tmp_path, LOG.replace("(min", line + "\n(min", 1))
    assert told == split(tmp_path, LOG)
    untold = split(tmp_path, LOG.replace("(min", line + "\n(min", 1).replace(f"    {timer} ", "    another "))
    assert f"time.{part}" not in untold
    assert untold["time.other"] == told["time.other"] + told[f"time.{part}"]
    assert untold["goodput"] == told["goodput"]


def test_a_rule_on_an_untold_part_is_an_error_that_says_why(
    perfgate: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rules(tmp_path, "time.checkpoint / time.total under 5%", "time.checkpoint under 5 s")
    text = LOG.replace("    save-checkpoint ", "    another ") + "successfully saved checkpoint at iteration 20\n"
    (tmp_path / "train.log").write_text(text)
    found = perfgate("check", "train.log")
    assert found.code == 3
    assert " ".join(found.out.split()).count("does not say how long saving checkpoints took") == 2


def test_a_log_that_tells_no_goodput_names_what_does(
    perfgate: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_rules(tmp_path, "goodput at least 95%", "time.lost / time.total under 5%")
    (tmp_path / "train.log").write_text("[2026-01-01 10:00:01,000] [INFO] [logging.py] rank=0 time (ms) | step: 1.5\n")
    found = " ".join(perfgate("check", "train.log").out.split())
    assert found.count("give a log of torchtitan or of Megatron-LM with dates") == 2
    assert "correct the name" not in found
