import pytest
from damage import check_changes, check_pieces
from reading import FIXTURES, SHARED, errors, run_of, said, values_of

TITLE = (
    "\n-------------------------- DeepSpeed Flops Profiler --------------------------\nProfile Summary at step {}:\n"
)
SUMMARY = """\
fwd latency (forward propagation latency), bwd latency (backward propagation latency),

world size:                                                             2
batch size per GPU:                                                     4
params per {gpu}:                                                         1.5 {b}
params of model = params per GPU * mp_size:                             16.9 K
fwd MACs per GPU:                                                       66.5 {g}
fwd flops per GPU:                                                      134 K
fwd latency:                                                            0.25 s
fwd FLOPS per GPU = fwd flops per GPU / fwd latency:                    2.5 TFLOPS
bwd latency:                                                            1e+03 us
bwd FLOPS per GPU = 2 * fwd flops per GPU / bwd latency:                426.5 MFLOPS
fwd+bwd FLOPS per GPU = 3 * fwd flops per GPU / (fwd+bwd latency):      4.5 GFLOPS
step latency:                                                           21.5 ms
iter latency:                                                           997.5 us
FLOPS per GPU = 3 * fwd flops per GPU / iter latency:                   403 KFLOPS
samples/second:                                                         8019.5

----------------------------- Aggregated Profile per GPU -----------------------------
Top 1 modules in terms of params, MACs or fwd latency at different model depths:
    fwd latency - {{'Sequential': '1.8 Gs'}}
Sequential(
  16.9 K = 100% Params, 66.56 KMACs = 100% MACs, 1.8 Gs = 100% latency, 0 FLOPS
)
fwd latency:                                                            77 s
"""
NEW = SUMMARY.format(gpu="GPU", b="B", g="GMACs")
EXPECTED = {
    "parameters": 1.5e9,
    "forward_macs": 66.5e9,
    "forward_flops": 134e3,
    "forward_latency": 0.25,
    "forward_throughput": 2.5e12,
    "backward_latency": 0.001,
    "backward_throughput": 426.5e6,
    "forward_backward_throughput": 4.5e9,
    "step_latency": 0.0215,
    "iteration_latency": 997.5e-6,
    "throughput": 403e3,
    "samples_per_second": 8019.5,
}


@pytest.mark.parametrize("summary", [NEW, SUMMARY.format(gpu="gpu", b="B", g="G")], ids=["v0.19", "v0.5"])
def test_a_summary_is_single_values(summary):
    run = run_of(TITLE.format(3) + summary)
    assert (run.format, run.problems, dict(run.environment)) == ("deepspeed", (), {"world_size": 2})
    assert values_of(run) == {f"flops_profiler.{name}": [value] for name, value in EXPECTED.items()}
    assert {series.kind for series in run.series} == {"value"}
    units = {series.key.metric.partition(".")[2]: series.unit for series in run.series}
    assert {unit for name, unit in units.items() if name.endswith("latency")} == {"s"}
    assert {unit for name, unit in units.items() if name.endswith("throughput")} == {"FLOP/s"}
    assert (units["forward_flops"], units["samples_per_second"]) == ("FLOP", "1/s")
    assert {s.printed_as for s in run.series} >= {"fwd latency", "fwd+bwd FLOPS per GPU", "samples/second"}


def test_several_summaries_are_samples_with_their_steps():
    run = run_of(TITLE.format(3) + NEW + TITLE.format(4) + NEW)
    assert {(series.kind, tuple(series.steps)) for series in run.series} == {("samples", (2, 3))}


@pytest.mark.parametrize(
    ("text", "why"), [("nan s", "nan is not"), ("-1 s", "-1 is negative"), ("1.5 MACs", "is not in s")]
)
def test_values_that_cannot_be_true_are_refused(text, why):
    run = run_of(TITLE.format(3) + NEW.replace("0.25 s", text))
    (problem,) = run.problems
    assert str(problem.key) == "flops_profiler.forward_latency"
    assert why in problem.message


@pytest.mark.parametrize("text", ["2.5e5 us", "2.5E5 us"])
def test_numbers_with_an_exponent_are_read(text):
    assert values_of(run_of(TITLE.format(3) + NEW.replace("0.25 s", text)))["flops_profiler.forward_latency"] == [0.25]


def test_lines_like_these_mean_nothing_without_the_title():
    run = run_of("[Rank 0] time (ms) | fwd: 1.00\n" + NEW)
    assert values_of(run) == {'forward{rank="0"}': [0.001]}


def test_a_cut_last_line_is_left_out():
    text = TITLE.format(3) + NEW[: NEW.index(" s\nfwd FLOPS")]
    run = run_of(text)
    assert "flops_profiler.forward_latency" not in values_of(run)
    assert said(run) == ["train.log:12: warning: the last record is cut off; left out"]


def test_damaged_lines():
    check_pieces(TITLE.format(3) + NEW, "deepspeed")
    check_changes(TITLE.format(3) + NEW, "deepspeed")


def test_what_deepspeed_prints():
    run = run_of((FIXTURES / "deepspeed.log").read_bytes())
    values = values_of(run)
    assert not errors(run)
    assert values["flops_profiler.forward_latency"] == [439.41e-6, 743.15e-6]
    assert values["flops_profiler.iteration_latency"] == [13.29e-3, 39.46e-3]
    assert values["flops_profiler.throughput"] == [30.29e6, 10.2e6]
    assert values["flops_profiler.samples_per_second"] == [602.16, 202.72]


@pytest.mark.shared
def test_the_samples_of_the_docs():
    values = values_of(run_of((SHARED / "corpus/deepspeed-docs/flops-profiler.txt").read_bytes()))
    assert values["flops_profiler.parameters"] == [336.23e6, 1.29e6]
    assert values["flops_profiler.forward_throughput"] == [81.9e12, 43.68e12]
    assert values["flops_profiler.step_latency"] == [34.09e-6, 34.12]
    assert values["flops_profiler.samples_per_second"] == [433.07, 24.74]


@pytest.mark.parametrize("digit", ["²", "①", "½"])
def test_a_sign_that_looks_like_a_digit_is_no_number(digit):
    run = run_of(TITLE.format(6) + NEW.replace(" 2\n", f" {digit}\n", 1))
    assert "world_size" not in run.environment
    assert run.series
