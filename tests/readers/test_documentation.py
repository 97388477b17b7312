"""Tutorials, scripts and configurations: an error that says what to give instead."""

import pytest
from reading import SHARED, errors, run_of

TEXTS = {
    "torch.profiler ('torch.profiler' on line 3)": "# Profiling\n\nwith torch.profiler.profile(activities=[x]) as p:\n",
    "DeepSpeed ('wall_clock_breakdown' on line 1)": '{"train_batch_size": 8,\n "wall_clock_breakdown": true}\nx',
    "Lightning's profilers ('profiler=\"simple\"' on line 2)": 'Use it:\n    Trainer(profiler="simple")\n',
    "Nsight Systems ('nsys profile' on line 1)": "$ nsys profile -o run python train.py\n",
    "pytest-benchmark ('def test_sum(benchmark' on line 1)": "def test_sum(benchmark):\n    benchmark(sum, [1])\n",
    "hyperfine ('hyperfine -' on line 1)": "hyperfine --warmup 3 'sleep 1'\n",
}


@pytest.mark.parametrize("subject", TEXTS)
def test_text_about_a_tool_is_an_error_that_says_what_to_give(subject):
    if subject.startswith("DeepSpeed"):
        text = TEXTS[subject].replace("{", "ds_config = {", 1)
        subject = "DeepSpeed ('wall_clock_breakdown' on line 2)"
    else:
        text = TEXTS[subject]
    run = run_of(text)
    assert (run.format, run.series) == ("unknown", ())
    (error,) = errors(run)
    assert f"no measurements: this text is about {subject} but is not its output; " in error
    assert " give " in error


def test_the_tool_that_is_spoken_of_most_is_named():
    assert "this text is about Lightning" in errors(run_of("import deepspeed\n" + "SimpleProfiler()\n" * 3))[0]


def test_other_text_is_of_no_known_format():
    assert "unknown format" in errors(run_of("The quick brown fox.\n"))[0]


def test_what_a_tool_writes_below_its_script_is_read():
    assert run_of('Trainer(profiler="simple")\n[Rank 0] time (ms) | fwd: 1.00\n').format == "deepspeed"


@pytest.mark.shared
def test_a_real_tutorial():
    run = run_of(next((SHARED / "seeds").glob("003_*")).read_bytes())
    (error,) = errors(run)
    assert "this text is about torch.profiler ('torch.profiler' on line 377)" in error
    assert "give the trace files that tensorboard_trace_handler" in error
