"""Runs that were appended to a log, told apart by a step counter alone."""

import pytest
from conftest import write_rules
from reading import runs_of, said, steps_of, values_of

COUNTERS = {
    "throughput": "epoch=0/micro_step={0}/global_step={0}, RunningAvgSamplesPerSec=1, CurrSamplesPerSec=1\n",
    "engine": "[Rank 0] step={0}, skipped=0, lr=[0.1]\n",
    "trainer": "Global Steps: {0} Data (t): 0.1 Batch (t): 0.2\n",
}


def steps(times, counter, every, first=1, inside=False):
    """A run whose step n takes so many ms, its counter printed every so many steps behind the step, or inside it."""
    lines = []
    for count, time in enumerate(times, first):
        told = COUNTERS[counter].format(count) if count % every == 0 else ""
        begin = f"[Rank 0] time (ms) | optimizer_step: {time:.2f}\n"
        end = f"[Rank 0] time (ms) | fwd: {time:.2f} | step: 1.00\n"
        lines.append(begin + told + end if inside else begin + end + told)
    return "".join(lines)


def forwards(run):
    return [round(1000 * value) for value in values_of(run)['forward{rank="0"}']]


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("counter", COUNTERS)
@pytest.mark.parametrize("every", [1, 4, 10])
def test_the_steps_before_the_counter_are_of_the_restart(counter, every, inside):
    old, new = range(100, 137), range(200, 213)
    text = steps(old, counter, every, inside=inside) + steps(new, counter, every, inside=inside)
    first, second = runs_of(text)
    assert forwards(first) == [*old]
    assert forwards(second) == [*new]
    for run in (first, second):
        for name in ('forward{rank="0"}', 'optimizer_step{rank="0"}'):
            assert steps_of(run)[name] == [*range(len(forwards(run)))]
    assert any("new runs begin at line" in line for line in said(second))
    if every > 1:
        assert any("steps before this line belong to the run after it" in line for line in said(second))


def test_three_runs():
    text = "".join(steps(range(1000 * run, 1000 * run + 55 - 10 * run), "engine", 10) for run in (1, 2, 3))
    assert [forwards(run)[0] for run in runs_of(text)] == [1000, 2000, 3000]
    assert [len(forwards(run)) for run in runs_of(text)] == [45, 35, 25]


def test_a_restart_from_a_checkpoint_is_told_apart_at_its_line():
    """Nothing tells whether it began at step 31 or at 35: the steps that came before the line stay where they are."""
    text = steps(range(100, 157), "engine", 10) + steps(range(200, 215), "engine", 10, first=31)
    first, second = runs_of(text)
    assert (len(forwards(first)), len(forwards(second))) == (57 + 10, 5)


def test_several_ranks_are_told_apart_at_the_line():
    text = steps(range(100, 125), "engine", 10) + steps(range(200, 215), "engine", 10)
    both = "".join(line + line.replace("[Rank 0] time", "[Rank 1] time") for line in text.splitlines(keepends=True))
    assert [len(forwards(run)) for run in runs_of(both)] == [35, 5]


def test_a_restart_that_an_equal_counter_hides_makes_no_one_guess():
    """Runs of 1, 2 and 2 steps: the second start cannot be seen, so that no step can be put down to a counter."""
    text = "".join(steps(times, "engine", 1, inside=True) for times in ([100], [200, 201], [300, 301]))
    assert [forwards(run) for run in runs_of(text)] == [[100, 200, 201], [300, 301]]


def test_gradient_accumulation():
    def step(count, time):
        micro = "[Rank 0] time (ms) | fwd_microstep: 1.00\n"
        told = COUNTERS["engine"].format(count) if count % 2 == 0 else ""
        return f"{micro}{told}{micro}[Rank 0] time (ms) | fwd: {time}.00 | step: 1.00\n"

    text = "".join(step(count, 100 * run + count) for run in (1, 2) for count in range(1, 6))
    first, second = runs_of(text)
    assert (forwards(first), forwards(second)) == ([101, 102, 103, 104, 105], [201, 202, 203, 204, 205])
    assert steps_of(second)['forward_microstep{rank="0"}'] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_what_several_runs_of_a_file_share_is_said_once(perfgate, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_rules(tmp_path, "iteration_time under 5 s")
    lines = (f" iteration {n}/ 14 | elapsed time per iteration (ms): {2000 + 1.37 * n:.2f} |\n" for n in range(1, 15))
    (tmp_path / "train.log").write_text(
        ("using world size: 1\n" + "".join(lines) + "max time across ranks (ms):\n") * 6
    )
    found = perfgate("check", "train.log")
    said_once = [line for line in found.out.splitlines() if line.startswith("train.log")]
    assert (found.code, len(said_once)) == (3, 3)
    whole = " ".join(found.out.split())
    assert "timers (and 5 more in this file)" in whole
    assert "measure again (and 4 more runs of this file)" in whole
