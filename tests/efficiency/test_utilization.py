"""`mfu` and `hfu` from the field `model` of a rule file, held against numbers computed by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Done, write_results, write_rules
from msgspec.structs import replace

from perfgate.core import Key, Location, Run, Series, read_only
from perfgate.core.peaks import CARDS, UnknownPeak, canonical_dtype, peak_flops
from perfgate.judge.utilization import with_utilization
from perfgate.rules.difference import differences
from perfgate.rules.load import load_rules
from perfgate.rules.model_section import Attention, TrainedModel
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace.inputs import read_runs

H100 = {"gpu": "NVIDIA H100 80GB HBM3", "gpu_count": 8, "world_size": 8}
#: 6 * 7e9 = 42e9 FLOP a token; 1e6 tokens are 42e15 FLOP a step.
SEVEN_B = {"parameters": 7e9, "tokens_per_step": 1e6, "dtype": "bf16"}

PEAKS = [
    ("NVIDIA H100 80GB HBM3", "bf16", 989.4),
    ("NVIDIA H100 PCIe", "bf16", 756),
    ("NVIDIA H100 NVL", "fp8", 1670.5),
    ("NVIDIA A100-SXM4-80GB", "bf16", 312),
    ("A100-SXM4-40GB", "tf32", 156),
    ("NVIDIA A100 80GB PCIe", "fp16", 312),
    ("Tesla V100-SXM2-32GB", "fp16", 125),
    ("Tesla V100-PCIE-16GB", "fp16", 112),
    ("Tesla T4", "fp16", 65),
    ("NVIDIA H200", "bf16", 989.4),
    ("NVIDIA GeForce RTX 4090", "bf16", 165.2),
    ("NVIDIA H200 NVL", "bf16", 840),
    ("AMD Instinct MI300X", "bf16", 1307.4),
    ("AMD Instinct MI250X", "bf16", 191.5),
    ("GAUDI2", "bf16", 432),
    ("TPU v5 lite", "bf16", 197),
    ("TPU v5", "bf16", 459),
]


@pytest.mark.parametrize(("gpu", "dtype", "tflops"), PEAKS)
def test_the_peak_of_a_card_is_that_of_its_data_sheet(gpu: str, dtype: str, tflops: float) -> None:
    assert peak_flops(gpu, dtype) == pytest.approx(tflops * 1e12, rel=1e-12)


@pytest.mark.parametrize(
    "gpu",
    [
        "NVIDIA H100",  # neither SXM nor PCIe
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA A10G",
        "NVIDIA RTX 6000 Ada Generation",  # no source confirmed its figures
        "NVIDIA H100 80GB HBM3 + NVIDIA H200",
        "",
    ],
)
def test_another_card_has_no_peak(gpu: str) -> None:
    with pytest.raises(UnknownPeak, match="is unknown"):
        peak_flops(gpu, "bf16")


def test_a_dtype_that_a_card_lacks_is_named_with_those_that_it_has() -> None:
    with pytest.raises(UnknownPeak, match=r"the bf16 peak of the GPU 'Tesla T4' is unknown \(known: fp32, fp16\)"):
        peak_flops("Tesla T4", "bf16")


#: The figures of bf16 (of the T4 and V100: fp16) that vendors print with sparsity, or for a pair or a module.
LARGER = {
    "A100, SXM or PCIe": 624,
    "A30": 330,
    "A40": 299.4,
    "B200": 4500,
    "GB200, one GPU": 5000,
    "H100 NVL": 1671,
    "H100 PCIe": 1513,
    "H100 SXM": 1979,
    "H200": 1979,
    "L4": 242,
    "L40S": 733,
    "MI250X, one of its two dies": 383,
    "MI300X": 2614.9,
    "MI355X": 5033,
    "RTX 4090": 330.4,
}


@pytest.mark.parametrize(("title", "larger"), LARGER.items())
def test_a_peak_is_the_dense_one_of_one_card(title: str, larger: float) -> None:
    card = next(one for one in CARDS if one.title == title)
    assert card.tflops["bf16"] == pytest.approx(larger / 2, rel=0.02)
    assert card.tflops.get("fp8", larger) == pytest.approx(larger, rel=0.02)


def test_every_card_names_what_was_read_and_one_name_means_one_card() -> None:
    for card in CARDS:
        assert re.search(r"`[\w./-]+\.(py|md)`|https://[\w.-]+/\S+", card.source), card.title
        assert card.tflops, card.title
    assert len({card.title for card in CARDS}) == len(CARDS)
    assert [canonical_dtype(name) for name in ("torch.bfloat16", "Half", "float32", "int8")] == [
        "bf16",
        "fp16",
        "fp32",
        None,
    ]


def test_the_flop_of_a_token_are_those_of_palm() -> None:
    """6 N + 12 L H Q T: 6 * 1e9 + 12 * 2 * 4 * 8 * 16 = 6000012288."""
    model = TrainedModel(Location("r.yaml"), parameters=1e9, attention=Attention(2, 4, 8, 16))
    assert model.flop_per_token == 6_000_012_288


def runs_with(path: Path, *series: tuple[str, str, list[float]], **facts: Any) -> tuple[Run, ...]:
    found = [{"metric": name, "unit": unit, "values": values} for name, unit, values in series]
    return read_runs([str(write_results(path, *found, environment={**H100, **facts}))])


def model_of(**fields: Any) -> TrainedModel:
    lines = "".join(f"  {name}: {value}\n" for name, value in fields.items())
    text = f"version: 1\nmodel:\n{lines}rules:\n- mfu at least 1%\n"
    ruleset, problems = load_rules([("r.yaml", text.encode())])
    assert ruleset is not None, problems
    assert ruleset.model is not None
    return ruleset.model


def shares(run: Run, metric: str = "mfu") -> list[float]:
    return [round(float(value), 6) for one in run.series if one.key.metric == metric for value in one.values]


#: metric, unit, value, what the file says beside the parameters, mfu
SOURCES: list[tuple[str, str, float, dict[str, Any], float]] = [
    ("step.time", "s", 10.0, SEVEN_B, 42e15 / (10 * 8 * 989.4e12)),
    ("iteration_time", "s", 10.0, SEVEN_B, 42e15 / (10 * 8 * 989.4e12)),
    ("my_step", "s", 10.0, {**SEVEN_B, "step_time": "my_step"}, 42e15 / (10 * 8 * 989.4e12)),
    ("step.time", "s", 10.0, {**SEVEN_B, "gpus": 16}, 42e15 / (10 * 16 * 989.4e12)),
    ("step.time", "s", 10.0, {**SEVEN_B, "peak": "1 PFLOP/s"}, 42e15 / (10 * 8 * 1e15)),
    ("tokens_per_second_per_gpu", "1/s", 10e3, {"parameters": 7e9, "dtype": "bf16"}, 42e9 * 10e3 / 989.4e12),
    ("tokens_per_second", "1/s", 80e3, {"parameters": 7e9, "dtype": "bf16"}, 42e9 * 80e3 / (8 * 989.4e12)),
    ("throughput_per_gpu", "FLOP/s", 494.7e12, {"dtype": "bf16"}, 0.5),
]


@pytest.mark.parametrize(("metric", "unit", "value", "fields", "mfu"), SOURCES)
def test_mfu_follows_from_what_a_run_has(
    metric: str, unit: str, value: float, fields: dict[str, Any], mfu: float, tmp_path: Path
) -> None:
    (run,) = with_utilization(runs_with(tmp_path / "r.json", (metric, unit, [value])), model_of(**fields), H100)
    assert shares(run) == [round(mfu, 6)]


def test_hfu_counts_the_second_forward_pass(tmp_path: Path) -> None:
    runs = runs_with(tmp_path / "r.json", ("step.time", "s", [10.0, 20.0]))
    (none,) = with_utilization(runs, model_of(**SEVEN_B), H100)
    (full,) = with_utilization(runs, model_of(**SEVEN_B, activation_recomputation="full"), H100)
    assert shares(none, "hfu") == shares(none) == shares(full)
    assert shares(full, "hfu") == [0.707499, 0.35375]  # 4/3 of 42e15 / (10 s * 8 * 989.4e12), and of half of it


def test_a_computed_mfu_replaces_the_printed_one(tmp_path: Path) -> None:
    runs = runs_with(tmp_path / "r.json", ("step.time", "s", [10.0]), ("mfu", "1", [0.9]))
    (run,) = with_utilization(runs, model_of(**SEVEN_B), H100)
    assert shares(run) == [0.530625]


# --- in memory -------------------------------------------------------------------------------------------------------

#: 6e12 FLOP a token of a GPU that does 6e13 FLOP/s: a token in .1 s is all that it can do.
MODEL = TrainedModel(Location("r.yaml"), peak=6e13, parameters=1e12, gpus=1)
STEPS = replace(MODEL, tokens_per_step=10.0)
PRINTED = replace(MODEL, parameters=None)


def of(metric: str, unit: str, *values: float, kind: Any = "samples", steps: Any = None, **labels: str) -> Series:
    at = None if steps is None else np.array(steps)
    return Series(Key.of(metric, **labels), unit, kind, read_only(np.array(values, np.float64)), at)


def aggregate(metric: str, **printed: float) -> Series:
    return Series(Key(metric), "s", "aggregate", read_only(np.empty(0)), aggregate=printed)


def told(model: TrainedModel, *series: Series, facts: Any = None) -> Run:
    (run,) = with_utilization([Run("r.json", "test", series)], model, facts or {})
    return run


def rows(run: Run, metric: str) -> list[tuple[str, str, list[float], Any]]:
    found = [one for one in run.series if one.key.metric == metric]
    return [
        (one.unit, one.kind, one.values.tolist(), one.steps if one.steps is None else one.steps.tolist())
        for one in found
    ]


#: the model, the series of a run, and its mfu
COMPUTED: list[tuple[TrainedModel, Series, tuple[str, list[float], Any] | None]] = [
    *(
        (STEPS, of(name, "s", 2.0), ("samples", [0.5], None))
        for name in ("step.time", "step_time", "iteration_time", "train_batch", "run_training_batch", "batch_time")
    ),
    (STEPS, of("step.time", "s", 2.0, 4.0, steps=[7, 8]), ("samples", [0.5, 0.25], [7, 8])),
    (STEPS, of("step.time", "s", 2.0, kind="value", steps=[7]), ("value", [0.5], None)),
    (STEPS, aggregate("step.time", mean=4.0, total=99.0), ("value", [0.25], None)),
    (STEPS, aggregate("step.time", total=4.0, count=1.0), None),
    (STEPS, of("tokens_per_second", "1/s", 4.0), ("samples", [0.4], None)),
    (STEPS, of("step.time", "1", 2.0), None),
    (MODEL, of("step.time", "s", 2.0), None),
    (PRINTED, of("throughput_per_gpu", "FLOP/s", 3e13), ("samples", [0.5], None)),
    (PRINTED, of("throughput_per_gpu", "1/s", 3e13), None),
    # the whole peak is no mistake, and more is one
    (STEPS, of("step.time", "s", 1.0), ("samples", [1.0], None)),
    (STEPS, of("step.time", "s", 0.8), None),
]


@pytest.mark.parametrize(("model", "series", "mfu"), COMPUTED)
def test_mfu_of_a_series(model: TrainedModel, series: Series, mfu: tuple[str, list[float], Any] | None) -> None:
    found = rows(told(model, series), "mfu")
    assert found == ([] if mfu is None else [("1", *mfu)])
    assert rows(told(model, series), "hfu") == (found if model.parameters else [])


#: the numbers of a run that could be its GPUs, and mfu beside a time of 2 s
GPUS: list[tuple[dict[str, Any], list[float]]] = [
    ({"world_size": 1}, [0.5]),
    ({"world_size": 2}, [0.25]),
    ({"gpu_count": 2}, [0.25]),
    ({"world_size": 2, "gpu_count": 2}, [0.25]),
    ({"world_size": 4, "gpu_count": 2}, [0.125]),
    ({"world_size": 1, "gpu_count": 2}, []),
    ({"world_size": 0, "gpu_count": 2}, [0.25]),
    ({"world_size": True, "gpu_count": 2}, [0.25]),
    ({"world_size": "4", "gpu_count": 2}, [0.25]),
    ({"world_size": 2.0}, []),
    ({}, []),
]


@pytest.mark.parametrize(("facts", "mfu"), GPUS)
def test_each_process_has_a_gpu(facts: dict[str, Any], mfu: list[float]) -> None:
    assert shares(told(replace(STEPS, gpus=None), of("step.time", "s", 2.0), facts=facts)) == mfu


FLOPS = of("matmul.flop", "FLOP", 3e13, 6e13, steps=[1, 2], rank="0")
TIME = of("step.time", "s", 1.0, 2.0, steps=[1, 2], rank="0")
#: the series of a trace, and hfu
COUNTED: list[tuple[list[Series], list[tuple[str, str, list[float], Any]]]] = [
    ([FLOPS, TIME], [("1", "samples", [0.5, 0.5], [1, 2])]),
    ([FLOPS, replace(TIME, key=Key.of("step.time", rank="1"))], []),
    ([FLOPS, replace(TIME, steps=None)], []),
    ([replace(FLOPS, steps=None), TIME], []),
    ([FLOPS, replace(TIME, steps=np.array([1, 3]))], []),
    ([replace(FLOPS, values=3 * FLOPS.values), TIME], []),
    ([FLOPS], []),
]


@pytest.mark.parametrize(("series", "hfu"), COUNTED)
def test_hfu_of_a_trace_is_counted_step_by_step(series: list[Series], hfu: list[Any]) -> None:
    run = told(PRINTED, *series)
    assert rows(run, "hfu") == hfu
    assert len(run.problems) == (0 if hfu else 1)


def test_counted_flop_come_before_estimated_ones() -> None:
    run = told(replace(STEPS, tokens_per_step=5.0), FLOPS, TIME)
    assert (shares(run), shares(run, "hfu")) == ([0.5, 0.25], [0.5, 0.5])


def test_a_run_without_a_time_says_which_names_are_known() -> None:
    (problem,) = told(STEPS, of("forward", "s", 1.0)).problems
    assert problem.message == (
        "mfu and hfu cannot be computed: r.json has no step.time, step_time, iteration_time, train_batch, "
        "run_training_batch and 1 more or tokens_per_second; give `model` the `step_time`: the metric of a step's time"
    )


#: facts, the model, what the problem says
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"gpu": "NVIDIA H100"}, SEVEN_B, "the peak FLOP/s of the GPU 'NVIDIA H100' is unknown; write the dense FLOP/s"),
    ({}, SEVEN_B, "the GPU of the run is unknown; give --env gpu=NAME"),
    ({**H100, "world_size": 1}, SEVEN_B, "has 1 processes and sees 8 GPUs, so it is unclear how many work"),
    ({"gpu": H100["gpu"]}, SEVEN_B, "the number of GPUs is unknown; write `gpus: 8`"),
    (H100, {**SEVEN_B, "tokens_per_step": 1e7}, "mfu is 530.6%, more than the peak; check peak"),
    (H100, {**SEVEN_B, "step_time": "other"}, "has no time other, the `step_time` of `model`"),
    (H100, {"parameters": 7e9, "dtype": "bf16"}, "has no tokens_per_second or tokens_per_second_per_gpu; give"),
    (H100, {"dtype": "bf16"}, "has no throughput_per_gpu; give `model` parameters"),
]


@pytest.mark.parametrize(("facts", "fields", "said"), REFUSED)
def test_nothing_is_guessed(facts: dict[str, Any], fields: dict[str, Any], said: str, tmp_path: Path) -> None:
    runs = runs_with(tmp_path / "r.json", ("step.time", "s", [10.0]), ("mfu", "1", [0.9]))
    (run,) = with_utilization(runs, model_of(**fields), facts)
    (problem,) = run.problems
    assert said in problem.message
    assert (problem.severity, problem.key, str(problem.at)) == ("error", Key("mfu"), "r.yaml:2:1")
    assert shares(run) == []


#: the lines of `model`, and the error
WRONG = [
    ("  parameters: 7e9\n", "`model` needs `dtype: bf16`"),
    ("  dtype: int3\n", "unknown dtype 'int3': write one of fp32, tf32, bf16, fp16, fp8"),
    ("  peak: 989\n", "peak must be text, not 989: write, for example, 989 TFLOP/s"),
    ("  peak: 989 TB/s\n", "peak '989 TB/s' is not a rate of one GPU: write `989 TFLOP/s`"),
    ("  peak: 1e999 TFLOP/s\n", "peak '1e999 TFLOP/s' is not a rate of one GPU: write `989 TFLOP/s`"),
    ("  peak: 1e300 TFLOP/s\n", "peak '1e300 TFLOP/s' is not a rate of one GPU: write `989 TFLOP/s`"),
    ("  dtype: bf16\n  layers: 2\n", "`model` lacks heads, head_dim, sequence_length"),
    ("  dtype: bf16\n  tokens_per_step: 2\n", "`model` lacks parameters"),
    ("  dtype: bf16\n  parameters: -1\n", "must be over 0"),
    ("  dtype: bf16\n  paramters: 1\n", "did you mean 'parameters'?"),
]


@pytest.mark.parametrize(("lines", "said"), WRONG)
def test_a_wrong_model_is_named_with_its_line(lines: str, said: str) -> None:
    ruleset, problems = load_rules([("r.yaml", f"version: 1\nmodel:\n{lines}rules:\n- mfu at least 1%\n".encode())])
    assert ruleset is None
    assert any(said in problem.message for problem in problems), problems
    assert all(str(problem.at).startswith("r.yaml:") for problem in problems)


@pytest.mark.parametrize(
    ("metric", "step"), [("mfu", "a `model` with"), ("hfu", "a `model` with"), ("goodput", "a log of torchtitan")]
)
def test_what_perfgate_could_compute_is_no_wrong_name(perfgate: Any, folder: Path, metric: str, step: str) -> None:
    write_rules(folder, f"{metric} at least 38%")
    run = write_results(folder / "new.json", {"metric": "step.time", "unit": "s", "values": [10, 10, 10]})
    done: Done = perfgate("check", run)
    assert (done.code, step in " ".join(done.out.split()), "correct the name" in done.out) == (3, True, False)


def test_two_models_in_one_suite_are_refused() -> None:
    text = b"version: 1\nmodel: {dtype: bf16}\nrules:\n- mfu at least 1%\n"
    ruleset, problems = load_rules([("a.yaml", text), ("b.yaml", text.replace(b"1%", b"2%"))])
    assert ruleset is None
    assert [str(one) for one in problems] == [
        "b.yaml:2:1: error: the suite has another `model` at a.yaml:2:1: keep one of them"
    ]


HEAD = "model: {parameters: 7e9, tokens_per_step: 1e6, dtype: bf16}\n"


def test_rules_over_mfu_are_judged_as_any_others(perfgate: Any, folder: Path) -> None:
    def run(name: str, time: float, gpu: str = "NVIDIA H100 80GB HBM3") -> Path:
        series = {"metric": "step.time", "unit": "s", "values": [time + i % 5 * 0.01 for i in range(60)]}
        return write_results(folder / name, series, environment={**H100, "gpu": gpu})

    write_rules(folder, "mfu at least 38%", "hfu within 3% of baseline", head=HEAD)
    stored = [run(f"{i}.json", 10 + i / 1000) for i in range(10)]
    done: Done = perfgate("baseline", "approve", *stored, "--reason", "first")
    assert done.code == 0, done.said
    assert perfgate("check", run("new.json", 10.0055)).code == 0
    slower = perfgate("check", run("slow.json", 11.0))
    assert slower.code == 1
    assert "hfu median  52.93 → 48.15%" in slower.out
    unknown = perfgate("check", run("unknown.json", 10.0, gpu="NVIDIA H100"))
    assert unknown.code == 3
    assert "no run has hfu: mfu and hfu cannot be computed: the peak FLOP/s of the GPU 'NVIDIA H100'" in unknown.out
    assert perfgate("check", run("given.json", 10.0, gpu="X"), "--env", f"gpu={H100['gpu']}").code == 0
    explained = perfgate("rules", "explain").out
    assert "mfu = 42 GFLOP of each token × 1,000,000 tokens per step / the time of a step" in explained
    write_rules(folder, "mfu at least 38%", head="model: {dtype: bf16, parameters: 7000000000}\n")
    explained = perfgate("rules", "explain").out
    assert "mfu = 42 GFLOP of each token × tokens per second / (the bf16 peak of the GPU × the GPUs)" in explained


def test_another_model_is_a_change_of_the_rules_and_its_place_is_none() -> None:
    def ruleset(model: str, before: str = "") -> Ruleset:
        found, problems = load_rules([("r.yaml", f"version: 1\n{before}{model}rules:\n- mfu at least 1%\n".encode())])
        assert found is not None, problems
        return found

    old = ruleset(HEAD)
    assert differences(old, ruleset(HEAD, before="suite: default\n")) == []
    (change,) = differences(old, ruleset(HEAD.replace("7e9", "6e9")))
    assert (change.kind, change.message) == ("changes", "changes the model that mfu and hfu are computed for")
    (removed,) = differences(old, ruleset(""))
    assert removed.kind == "changes"
