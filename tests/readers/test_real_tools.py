"""Files of real tools (`fixtures/`, with the scripts that made them) are read; every value here was read by eye."""

import pytest
from reading import FIXTURES, errors, run_of, said, values_of


def fixture(name):
    return run_of((FIXTURES / name).read_bytes())


def aggregates(run):
    return {str(series.key): dict(series.aggregate) for series in run.series if series.kind == "aggregate"}


def test_simple_profiler_of_lightning_1_9():
    run = fixture("lightning_1.9_simple.txt")
    found = aggregates(run)
    assert (run.format, said(run), len(found)) == ("lightning", [], 73)  # rows, less the header and the total
    assert found['run_training_epoch{stage="fit"}'] == {"mean": 0.040467, "count": 1, "total": 0.040467}
    assert found['[LightningModule]Tiny.optimizer_step{stage="fit"}'] == {
        "mean": 0.0045276,
        "count": 4,
        "total": 0.01811,
    }
    assert found['[EvaluationEpochLoop].val_dataloader_idx_0_next{stage="fit"}'] == {
        "mean": 0.0022264,
        "count": 4,
        "total": 0.0089055,
    }
    assert found['[Callback]GradientAccumulationScheduler.on_validation_batch_start{stage="fit"}'] == {
        "mean": 3.3578e-06,
        "count": 6,
        "total": 2.0147e-05,
    }
    assert found['[LightningModule]Tiny.on_train_epoch_start{stage="fit"}']["total"] == 9.12e-07


def test_advanced_profiler_of_lightning_1_9():
    run = fixture("lightning_1.9_advanced.txt")
    found = aggregates(run)
    assert not errors(run)
    assert found['[LightningModule]Tiny.configure_callbacks{stage="fit"}'] == {"total": 0}
    name = "[LightningModule]Tiny.configure_optimizers.make_lightning_reports.py:30(configure_optimizers)"
    assert found[name + '{stage="fit"}'] == {"total": 0, "count": 1}


def test_pytorch_profiler_of_lightning_1_9():
    run = fixture("lightning_1.9_pytorch.txt")
    found = aggregates(run)
    assert said(run) == []
    assert found['[pl][profile]run_training_epoch.self_cpu_time{stage="fit"}'] == {"total": 1.307e-3, "count": 1}
    assert found['ProfilerStep*.cpu_time{stage="fit"}'] == {"total": 56.714e-3, "mean": 6.302e-3, "count": 9}


def test_hyperfine_1_15():
    run = fixture("hyperfine.json")
    values = values_of(run)
    assert (run.format, said(run)) == ("hyperfine", [])
    assert values['sleep 0.02{seconds="0.02"}'] == [0.024063335, 0.027683201, 0.022085729000000002, 0.024375239]
    assert values['true{seconds="0.01"}'] == [0.006235114000000001, 0.002333621, 0.004020023, 0.003919426]
    assert values['true{seconds="0.02"}'] == [0.001256348, 0.003478131, 0.004390917, 0.003857169]


def test_google_benchmark_1_7():
    run = fixture("google_benchmark.json")
    values = values_of(run)
    assert run.format == "google-benchmark"
    assert values["Sum/64"] == [x / 1e6 for x in (0.1115214233670716, 0.12094001561273425, 0.14190274525081042)]
    assert values["Sum/64.cpu_time"][0] == 0.038478253968253974 / 1e6
    assert values["Sum/64.bytes_per_second"][1] == 12290543691.60306
    assert values["Sum/4096.elements"] == [4096, 4096, 4096]
    assert len(values) == 8  # no mean, median, stddev, or cv
    assert {line.split("error: ")[1] for line in errors(run)} == {
        'Refused: failed: "no device"',
        'Refused.cpu_time: failed: "no device"',
    }


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("hyperfine_console.txt", "hyperfine --export-json FILE"),
        ("google_benchmark_console.txt", "--benchmark_out=FILE --benchmark_out_format=json"),
    ],
)
def test_what_they_print_is_refused_with_the_option_that_writes_json(name, advice):
    run = fixture(name)
    assert not run.series
    assert advice in errors(run)[0]


def test_deepspeed_0_19():
    """Its timers and throughput; memory, collectives and FLOPS are in tests of their own."""
    run = fixture("deepspeed.log")
    values, steps = values_of(run), {str(s.key): s.steps for s in run.series if s.steps is not None}
    assert (run.format, said(run)) == ("deepspeed", [])
    assert dict(run.environment) == {"deepspeed": "0.19.8", "world_size": 2}
    assert values['forward{rank="0"}'] == [x / 1000 for x in (1.35, 0.43, 0.42, 0.74)]
    assert values['backward_microstep{rank="0"}'][:2] == [0.74 / 1000, 5.13 / 1000]
    assert values['optimizer_step{rank="0"}'] == [x / 1000 for x in (1.68, 0.49, 0.32, 0.34)]
    assert values["samples_per_second"] == [389.569430090451]
    for name in ('forward{rank="0"}', 'optimizer_step{rank="0"}', 'step{rank="0"}'):
        assert steps[name].tolist() == [0, 1, 2, 3]
    assert steps['forward_microstep{rank="0"}'].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
