"""`matmul.flop` of traces with shapes: formulas by hand, the sum of a step, `hfu`, and what real torch counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perfgate.core import Location, Run
from perfgate.judge.utilization import with_utilization
from perfgate.readers.torch_trace.event_fields import Args, Event
from perfgate.readers.torch_trace.flops import flop_of
from perfgate.rules.model_section import TrainedModel
from perfgate.workspace.inputs import read_runs

CONV = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
BACK = ["", "", "", "[8]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[True, True, False]"]
QKV = [[2, 4, 8, 16], [2, 4, 10, 16], [2, 4, 10, 16]]

#: operator, shapes, plain arguments, FLOP
OPERATORS: list[tuple[str, Any, Any, float]] = [
    ("mm", [[2, 3], [3, 5]], None, 2 * 2 * 3 * 5),
    ("addmm", [[5], [2, 3], [3, 5], [], []], None, 2 * 2 * 3 * 5),
    ("bmm", [[7, 2, 3], [7, 3, 5]], None, 2 * 7 * 2 * 3 * 5),
    ("baddbmm", [[7, 2, 5], [7, 2, 3], [7, 3, 5]], None, 2 * 7 * 2 * 3 * 5),
    ("_grouped_mm", [[12, 3], [4, 3, 5], [4]], None, 2 * 12 * 3 * 5),
    # 9 x 9 with stride 2 and padding 1 gives 5 x 5 places
    ("convolution", [[2, 3, 9, 9], [8, 3, 3, 3], [8], [], [], [], [], [], []], CONV, 2 * 2 * 25 * 8 * 3 * 9),
    ("convolution", [[2, 4, 9, 9], [8, 2, 3, 3], [8]], [*CONV[:8], "2"], 2 * 2 * 25 * 8 * 2 * 9),  # two groups
    ("convolution", [[2, 8, 5, 5], [8, 6, 3, 3], [6]], [*CONV[:6], "True", *CONV[7:]], 2 * 2 * 25 * 8 * 6 * 9),
    ("convolution_backward", [[2, 8, 5, 5], [2, 3, 9, 9], [8, 3, 3, 3]], BACK, 2 * (2 * 2 * 25 * 8 * 3 * 9)),
    ("_scaled_dot_product_flash_attention", QKV, None, 2 * (2 * 2 * 4 * 8 * 10 * 16)),
    ("_scaled_dot_product_flash_attention_backward", [QKV[0], *QKV], None, 5 * (2 * 2 * 4 * 8 * 10 * 16)),
]


@pytest.mark.parametrize(("name", "dims", "concrete", "flop"), OPERATORS)
def test_an_operator_costs_what_its_formula_says(name: str, dims: Any, concrete: Any, flop: float) -> None:
    event = Event(name=f"aten::{name}", args=Args(dims=dims, concrete=concrete))
    assert flop_of([event]).tolist() == [flop]


@pytest.mark.parametrize("dims", [None, [], [[2, 3]], [[2, 3], [4, 5]], [[2, 3], ["a", 5]], [[[2, 3]], [3, 5]], "x", 1])
def test_shapes_that_cannot_be_are_unknown(dims: Any) -> None:
    assert str(flop_of([Event(name="aten::mm", args=Args(dims=dims))])[0]) == "nan"


def test_a_convolution_without_its_strides_is_unknown() -> None:
    event = Event(name="aten::convolution", args=Args(dims=[[2, 3, 9, 9], [8, 3, 3, 3]]))
    assert str(flop_of([event])[0]) == "nan"


def trace(
    path: Path, *events: tuple[str, float, dict[str, Any]], device: tuple[str, str] = ("k", "cudaLaunchKernel")
) -> Run:
    """Two steps of 1 ms with operators (name, start in us, args), and a kernel in each step."""
    found: list[dict[str, Any]] = []
    for step in range(2):
        span = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "tid": 1, "dur": 1000.0}
        found.append({**span, "ts": 1000.0 * step})
        launch = {"ph": "X", "cat": "cuda_runtime", "name": device[1], "tid": 1, "ts": 1000.0 * step + 1, "dur": 1.0}
        kernel = {"ph": "X", "cat": "kernel", "name": device[0], "tid": 7, "ts": 1000.0 * step + 5, "dur": 90.0}
        found += [{**one, "args": {"correlation": step, "device": 0}} for one in (launch, kernel)]
    for name, ts, args in events:
        found.append({"ph": "X", "cat": "cpu_op", "name": name, "tid": 1, "ts": ts, "dur": 10.0, "args": args})
    gpu = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
    path.write_text(json.dumps({"schemaVersion": 1, "deviceProperties": gpu, "traceEvents": found}))
    return read_runs([str(path)])[0]


def values(run: Run, metric: str) -> list[float]:
    return [float(value) for one in run.series if one.key.metric == metric for value in one.values]


MM = {"Input Dims": [[1000, 1000], [1000, 1000]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}


def test_a_step_has_the_flop_of_its_operators_and_hfu_follows(tmp_path: Path) -> None:
    """Of 2e9 FLOP in 1 ms, an H100 could do 989.4e9: the share is 0.2021 %; the operator around it does not count."""
    around = ("aten::linear", 9.0, {"Input Dims": [[1000, 1000], [1000, 1000]]})
    run = trace(
        tmp_path / "t.json", around, ("aten::mm", 10.0, MM), *[("aten::mm", 1010.0 + 10 * i, MM) for i in (0, 1)]
    )
    assert values(run, "matmul.flop") == [2e9, 4e9]
    (judged,) = with_utilization([run], TrainedModel(Location("r.yaml"), dtype="bf16"), run.environment)
    assert [round(value, 6) for value in values(judged, "hfu")] == [0.002021, 0.004043]
    assert values(judged, "mfu") == []
    assert not judged.problems


#: the arguments of a second operator, the names of kernel and launch, and what is said
ABSENT: list[tuple[dict[str, Any], tuple[str, str], str | None]] = [
    ({}, ("k", "cudaLaunchKernel"), None),
    (MM, ("k", "cudaGraphLaunch"), "the trace replays graphs (CUDA graphs), whose operators it does not list"),
    (MM, ("triton_tem_fused_mm_0", "cuLaunchKernel"), "the trace has matrix products in Triton"),
]


@pytest.mark.parametrize(("args", "device", "said"), ABSENT)
def test_what_cannot_be_counted_is_absent(
    args: dict[str, Any], device: tuple[str, str], said: str | None, tmp_path: Path
) -> None:
    run = trace(tmp_path / "t.json", ("aten::mm", 10.0, MM), ("aten::mm", 20.0, args), device=device)
    assert values(run, "matmul.flop") == []
    assert [said in problem.message for problem in run.problems if said] == ([True] if said else [])
    (judged,) = with_utilization([run], TrainedModel(Location("r.yaml"), dtype="bf16"), run.environment)
    assert "profile with record_shapes=True" in judged.problems[-1].message


@pytest.mark.frameworks
@pytest.mark.filterwarnings("ignore")  # the framework's own
def test_real_torch_counts_the_same(tmp_path: Path) -> None:
    """Convolutions, products and their gradients; attention on a CPU, which torch does not count, is by hand."""
    torch = pytest.importorskip("torch", reason="needs torch")
    from torch.utils.flop_counter import FlopCounterMode

    nn = torch.nn
    body = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ConvTranspose2d(8, 6, 3, stride=2), nn.Flatten(2))
    head = nn.Linear(121, 16)
    data = torch.randn(2, 3, 9, 9, requires_grad=True)

    def step() -> None:
        found = head(body(data))  # (2, 6, 16)
        torch.bmm(found, found.transpose(1, 2)).sum().backward()

    def attend() -> None:
        q = torch.randn(2, 4, 8, 16, requires_grad=True)
        nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True).sum().backward()

    step()
    counter = FlopCounterMode(display=False)
    with counter:
        step()
    path = str(tmp_path / "t.json")
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        record_shapes=True,
        schedule=torch.profiler.schedule(wait=0, warmup=0, active=2, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(path),
    ) as profiler:
        step()
        profiler.step()
        attend()
        profiler.step()
    (run,) = read_runs([path])
    assert values(run, "matmul.flop") == [counter.get_total_flops(), 7 * (2 * 2 * 4 * 8 * 8 * 16)]
