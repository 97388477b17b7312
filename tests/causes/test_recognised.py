"""Changes that one decision makes at many places are one finding; a line of `CASES` is one program and its change.

A program is a dict: the path of each call, and its calls per step, its time per step in us, and its thread blocks.
Paths that end in `(k)` are kernels, in `()` calls of the runtime; `forward`, `backward` and `optimizer` are ranges.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from perfgate.causes.find import find_causes
from perfgate.core.call_trees import CallNode, CallTree, NodeKind
from perfgate.core.causes import CauseReport
from perfgate.words.cause_words import undo

Call = tuple[float, ...]
Program = Mapping[str, Call]
_ACCUMULATE = "backward/torch::autograd::AccumulateGrad"
_MM = "aten::mm/sm90_gemm_bf16(k)"

PROGRAM: Program = {
    "forward/aten::linear": (6, 1, 0),
    f"forward/aten::linear/{_MM}": (6, 3000, 132),
    "forward/aten::gelu": (6, 1, 0),
    "forward/aten::gelu/gelu_kernel(k)": (6, 500, 4096),
    "forward/aten::layer_norm": (6, 1, 0),
    "forward/aten::layer_norm/norm_kernel(k)": (6, 400, 1024),
    "backward/GeluBackward0/gelu_backward_kernel(k)": (6, 800, 4096),
    f"backward/AddmmBackward0/{_MM}": (12, 6000, 132),
    f"{_ACCUMULATE}/aten::detach": (12, 2, 0),
    "optimizer/aten::_fused_adamw_/adam_kernel(k)": (1, 900, 400),
    "cudaDeviceSynchronize()": (1, 60, 0),
}


def but(changes: Program, program: Program = PROGRAM) -> Program:
    """The program with other calls; calls without a number are not made."""
    return {path: call for path, call in {**program, **changes}.items() if call}


def _grown(factor: float) -> Program:
    elementwise = {path: (n, t * factor, b * factor) for path, (n, t, b) in PROGRAM.items() if "elu" in path and b}
    products = {path: (n, t * factor, b) for path, (n, t, b) in PROGRAM.items() if "gemm" in path}
    return but({**elementwise, **products})


def _twice(calls: Program) -> Program:
    return {f"backward/GeluBackward0/{path.removeprefix('forward/')}": call for path, call in calls.items()}


LARGER = _grown(1.25)
CHECKPOINTING = but(_twice({path: call for path, call in PROGRAM.items() if path.startswith("forward")}))
ALLOCATING = but({"cudaFree()": (59, 2000, 0), "forward/aten::gelu/cudaMalloc()": (24, 900, 0)})
ZEROING = but(
    {
        f"{_ACCUMULATE}/aten::detach": (),
        f"{_ACCUMULATE}/aten::add_": (12, 1, 0),
        f"{_ACCUMULATE}/aten::add_/add_kernel(k)": (12, 300, 400),
        "optimizer/aten::_foreach_zero_/zero_kernel(k)": (1, 100, 400),
    }
)
TF32 = but({f"forward/aten::linear/{_MM}": (), "forward/aten::linear/aten::mm/sm90_tf32_gemm(k)": (6, 9000, 132)})
#: By name: the new program, the kind, a word of the place, and what it costs in us.
CASES: dict[str, tuple[Program, str, str, float]] = {
    "larger": (LARGER, "larger", "GeluBackward0", 0.25 * (500 + 800 + 3000 + 6000)),
    "smaller": (_grown(0.8), "smaller", "GeluBackward0", -0.2 * (500 + 800 + 3000 + 6000)),
    "repeated": (CHECKPOINTING, "repeated", "backward", 3903),
    "allocator": (ALLOCATING, "allocator", "cudaFree", 2900),
    "zeroed": (ZEROING, "zeroed", "backward", 399),
    "other kernels": (TF32, "replaced", "aten::linear", 6000),
}


def tree(program: Program, *, seed: int = 1, host: float = 1.0, steps: int = 4) -> CallTree:
    """The call tree of a run, with noise of .2 % from step to step; `host` makes operators and calls slower."""
    random, nodes, at = np.random.default_rng(seed), [CallNode("step", "step", -1)], {"": 0}
    rows: dict[int, Call] = {}
    for path, call in program.items():
        names = path.split("/")
        for depth in range(len(names)):
            key = "/".join(names[: depth + 1])
            if key not in at:
                at[key] = len(nodes)
                nodes.append(
                    CallNode(
                        names[depth].removesuffix("(k)").removesuffix("()"),
                        _kind(names[depth]),
                        at["/".join(names[:depth])],
                    )
                )
        rows[at[path]] = call
    counts, wall, blocks = np.zeros((len(nodes), steps)), np.zeros((len(nodes), steps)), np.zeros(len(nodes))
    for index, node in enumerate(nodes):
        usual = (1.0, 10.0, 0.0) if node.kind == "operator" else (1.0, 1.0, 0.0)
        calls, time, own = rows.get(index, usual)
        factor = host if node.kind in ("operator", "runtime") else 1.0
        counts[index], blocks[index] = calls, own * calls
        wall[index] = 1e-6 * time * factor * random.normal(1, 0.002, steps)
    busy = wall.copy()
    for index in range(len(nodes) - 1, 0, -1):
        if nodes[index].kind != "kernel":
            busy[nodes[index].parent] += busy[index]
    return CallTree("", tuple(nodes), counts, busy, wall, first=np.arange(len(nodes)) * 1e-6, blocks=blocks)


def _kind(name: str) -> NodeKind:
    if name in ("forward", "backward", "optimizer"):
        return "range"
    return "kernel" if name.endswith("(k)") else "runtime" if name.endswith("()") else "operator"


def _found(base: list[CallTree], new: list[CallTree]) -> CauseReport:
    return find_causes([[one] for one in base], [[one] for one in new])


@pytest.mark.parametrize("name", CASES)
def test_one_decision_is_one_finding(name: str) -> None:
    program, kind, place, cost = CASES[name]
    (cause,) = _found([tree(PROGRAM)], [tree(program, seed=2)]).causes
    assert (cause.kind, place in "/".join(cause.where)) == (kind, True)
    assert cause.change_per_step * 1e6 == pytest.approx(cost, rel=0.05, abs=40)
    assert bool(undo(cause)) == (cost > 0)


def test_larger_inputs_say_how_many_times_as_many_blocks() -> None:
    (cause,) = _found([tree(PROGRAM)], [tree(LARGER, seed=2)]).causes
    assert cause.factor == pytest.approx(1.25)
    assert undo(cause).startswith("1.25 times as many thread blocks")


def test_kernels_that_noise_made_slower_are_no_part_of_larger_inputs() -> None:
    """Each process has its own times of kernels with as many blocks as before."""
    norm = "forward/aten::layer_norm/norm_kernel(k)"
    runs = [tree(PROGRAM, seed=1), tree(but({norm: (6, 430, 1024)}), seed=2)]
    new = [tree(but({norm: (6, 460, 1024)}, LARGER), seed=3), tree(but({norm: (6, 430, 1024)}, LARGER), seed=4)]
    (cause,) = find_causes([[run] for run in runs], [[run] for run in new]).causes
    assert (cause.kind, ("forward", "aten::layer_norm") in cause.places) == ("larger", False)


def test_larger_weights_are_told_from_larger_inputs() -> None:
    adam = "optimizer/aten::_fused_adamw_/adam_kernel(k)"
    for changes, words in (({}, "compare the batch"), ({adam: (1, 1050, 470)}, "compare the widths")):
        (cause,) = find_causes([[tree(PROGRAM)]], [[tree(but(changes, LARGER), seed=2)]]).causes
        assert words in undo(cause)


def test_more_time_without_more_blocks_is_no_larger_input() -> None:
    slower = but({"forward/aten::gelu/gelu_kernel(k)": (6, 900, 4096)})
    (cause,) = _found([tree(PROGRAM)], [tree(slower, seed=2)]).causes
    assert (cause.kind, cause.factor) == ("slower", None)


def test_the_types_of_matrix_products() -> None:
    (cause,) = _found([tree(PROGRAM)], [tree(TF32, seed=2)]).causes
    assert cause.types == ("bf16", "tf32")
    assert undo(cause).startswith("bf16 kernels became tf32: autocast is off there")


def _sides(slow: float, spread: float, runs: int) -> tuple[list[CallTree], list[CallTree]]:
    host = {**PROGRAM, **{f"forward/aten::op{at}": (1.0, 500.0, 0.0) for at in range(10)}}
    base = [tree(host, seed=at, host=1 + spread * (at % 2)) for at in range(runs)]
    return base, [tree(host, seed=9 + at, host=slow * (1 + spread * (at % 2))) for at in range(runs)]


def test_the_host_as_a_whole_needs_several_runs_a_side() -> None:
    (cause,) = _found(*_sides(1.5, 0.0, 3)).causes
    assert (cause.kind, cause.where, cause.factor) == ("host", ("host",), pytest.approx(1.5, rel=0.01))
    for sides in (_sides(1.5, 0.0, 1), _sides(1.3, 0.5, 3)):  # one run a side; and a host that varies as much
        report = _found(*sides)
        assert report.causes == ()
        assert any("operators of the host took" in note for note in report.notes)
        assert abs(report.new_step - report.base_step) <= report.noise


def test_a_new_synchronisation_costs_what_the_device_idles() -> None:
    idle = but(
        {
            "forward/aten::item": (6, 1, 0),
            "forward/aten::item/cudaStreamSynchronize()": (6, 5, 0),
            "forward": (1, 700, 0),
        }
    )
    (cause,) = _found([tree(PROGRAM)], [tree(idle, seed=2)]).causes
    assert cause.kind == "sync"
    assert cause.change_per_step * 1e6 == pytest.approx(705, abs=40)


def test_many_small_kernels_cost_the_gaps_between_them() -> None:
    loop = but({"optimizer/aten::mul_/mul_kernel(k)": (150, 1000, 10), "cudaDeviceSynchronize()": (1, 460, 0)})
    (cause,) = _found([tree(PROGRAM)], [tree(loop, seed=2)]).causes
    assert cause.change_per_step * 1e6 == pytest.approx(1400, abs=60)


def test_the_step_is_the_median_of_steps_that_are_alike() -> None:
    late = tree(PROGRAM, seed=2, steps=5)
    late.wall.setflags(write=True)
    late.wall[0, 4] += 2e-3  # less than a stall
    report = _found([tree(PROGRAM)], [late])
    assert report.new_step == pytest.approx(report.base_step, rel=0.005)
    assert report.rest == pytest.approx(report.new_step - report.base_step)
