"""The causes of a change between made-up traces: the golden files have their kinds, places and numbers.

`UPDATE_GOLDEN=1 pytest tests/causes` writes them anew. One line of `CASES` is one case.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_traces import CPU_JOB, GPU_JOB, Job, Op, write

from perfgate.causes.find import find_causes
from perfgate.core import Run
from perfgate.core.causes import CauseReport
from perfgate.workspace.inputs import read_runs

GOLDEN = Path(__file__).parent / "golden"

_SYNC = Op("forward", "cudaStreamSynchronize", 0, "sync")
_BUSY_HOST = GPU_JOB.after("aten::linear", Op("forward", "aten::index", 900, "cpu"))
_EVERYTHING_LOST = GPU_JOB.but(ops=tuple(Op("other", op.name + "_", op.us, op.on, op.kernel) for op in GPU_JOB.ops))
_OTHER_NAMES = GPU_JOB.but(
    gpu="NVIDIA B200",
    ops=tuple(Op(op.range, op.name, op.us * 0.6, op.on, f"sm100_{op.kernel}", op.calls) for op in GPU_JOB.ops),
)

#: What is compared with what, by the name of the golden file.
CASES: dict[str, tuple[Job, Job]] = {
    "unchanged": (GPU_JOB, GPU_JOB),
    "unchanged-cpu": (CPU_JOB, CPU_JOB),
    "appeared": (GPU_JOB, GPU_JOB.after("aten::softmax", Op("forward", "aten::topk", 800, kernel="topk_kernel"))),
    "vanished": (CPU_JOB, CPU_JOB.without("aten::mse_loss")),
    "replaced-kernel": (GPU_JOB, GPU_JOB.edited("aten::linear", kernel="cutlass_gemm_simt", us=2600)),
    "replaced-operator": (CPU_JOB, CPU_JOB.edited("aten::gelu", name="aten::silu", us=1900)),
    "split-kernel": (
        GPU_JOB,
        GPU_JOB.edited("aten::softmax", kernel="softmax_part_kernel+softmax_sum_kernel", us=1100),
    ),
    "slower-kernel": (GPU_JOB, GPU_JOB.edited("aten::mm", us=4500)),
    "slower-operator": (CPU_JOB, CPU_JOB.edited("aten::gelu", us=1900)),
    "more-calls": (CPU_JOB, CPU_JOB.edited("aten::addmm", calls=6, us=4500)),
    "moved": (
        CPU_JOB.after("aten::gelu", Op("forward", "aten::std", 900, "cpu")),
        CPU_JOB.after("AddmmBackward0", Op("backward", "aten::std", 900, "cpu")),
    ),
    "sync": (_BUSY_HOST, _BUSY_HOST.after("aten::linear", _SYNC)),
    "stall": (GPU_JOB, GPU_JOB.edited(GPU_JOB.ops[0].name, us=2500)),
    "exposed": (
        GPU_JOB.but(ranks=2).edited("nccl:all_reduce", on="hidden", range="forward"),
        GPU_JOB.but(ranks=2).edited("nccl:all_reduce", range="forward"),
    ),
    "slow-rank": (GPU_JOB.but(ranks=4), GPU_JOB.but(ranks=4, slow=((2, 1.2),))),
    "memory": (GPU_JOB, GPU_JOB.edited("aten::linear", bytes=256 << 20)),
    "machine": (GPU_JOB, GPU_JOB.but(slow=((0, 1.1),))),
    "other-gpu": (GPU_JOB, _OTHER_NAMES),
    "other-steps": (GPU_JOB, GPU_JOB.but(steps=9)),
    "without-steps": (GPU_JOB.but(marks_steps=False), GPU_JOB.but(marks_steps=False)),
    "steps-on-one-side": (GPU_JOB, GPU_JOB.but(marks_steps=False)),
    "host-only": (GPU_JOB, GPU_JOB.but(unrecorded=("kernel", "cuda_runtime"))),
    "kernels-not-recorded": (GPU_JOB.but(unrecorded=("kernel",)), GPU_JOB),
    "launches-not-recorded": (GPU_JOB, GPU_JOB.but(unrecorded=("cuda_runtime",))),
    "nothing-in-common": (GPU_JOB, _EVERYTHING_LOST),
}


def runs_of(job: Job, folder: Path, runs: int = 1, first_seed: int = 1, shuffle: int | None = None) -> tuple[Run, ...]:
    places = [folder / f"run{at}" for at in range(runs)]
    for at, place in enumerate(places):
        write(job.but(seed=first_seed + at), place, shuffle=shuffle)
    return read_runs([str(place) for place in places], None, "corrected")


def _causes(base: tuple[Run, ...], new: tuple[Run, ...]) -> CauseReport:
    gpus = {run.environment.get("gpu") for run in (*base, *new)}
    return find_causes([run.call_trees for run in base], [run.call_trees for run in new], other_device=len(gpus) > 1)


def shown(report: CauseReport) -> str:
    """Return the causes of a report in whole microseconds and MiB."""
    change = report.new_step - report.base_step
    lines = [f"step {report.base_step * 1e6:.0f} us, {change * 1e6:+.0f} us"]
    for cause in report.causes:
        factor, unit = (1e6, "us") if cause.metric == "time" else (1 / (1 << 20), "MiB")
        size = f"{cause.change_per_step * factor:+.0f} {unit} ({cause.low * factor:+.0f} to {cause.high * factor:+.0f})"
        ranks = f", rank {', '.join(cause.ranks)}" if cause.ranks else ""
        lines.append(f"{cause.kind}: {' / '.join(cause.where)}: {size}{ranks}")
        lines += [
            f"    {sign} {name} x{calls:g}"
            for sign, side in (("-", cause.gone), ("+", cause.come))
            for name, calls in side
        ]
    lines.append(f"rest {report.rest * 1e6:+.0f} us")
    return "\n".join([*lines, ""])


_ONE_SIDED = "no causes: the {} side has no {}, and the other has: record both in the same way"
_WITHOUT_STEPS = "traces without steps (profiler.step() is not called): each counts as one step"
#: The notes of the cases that have some.
NOTES: dict[str, list[str]] = {
    "host-only": [_ONE_SIDED.format("new", "kernels")],
    "kernels-not-recorded": [_ONE_SIDED.format("base", "kernels")],
    "launches-not-recorded": [_ONE_SIDED.format("new", "calls of the runtime")],
    "nothing-in-common": ["no causes: the two sides have hardly a call in common: they are not one program"],
    "other-gpu": ["6 operators run kernels with other names: they are compared by operator"],
    "steps-on-one-side": [
        "no causes: only one side has several steps (in traces: profiler.step()), so calls cannot be compared",
        _WITHOUT_STEPS,
    ],
    "without-steps": [_WITHOUT_STEPS],
}


@pytest.mark.parametrize("name", CASES)
def test_causes(name: str, tmp_path: Path) -> None:
    base, new = CASES[name]
    report = _causes(runs_of(base, tmp_path / "base"), runs_of(new, tmp_path / "new", first_seed=101))
    assert list(report.notes) == NOTES.get(name, [])
    path, text = GOLDEN / f"{name}.txt", shown(report)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; UPDATE_GOLDEN=1 writes it anew"


def test_every_golden_file_has_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(CASES)


def test_a_copy_has_no_causes_and_no_rest(tmp_path: Path) -> None:
    runs = runs_of(GPU_JOB.but(ranks=2), tmp_path / "base")
    report = _causes(runs, runs)
    assert (report.causes, report.rest, report.notes) == ((), 0.0, ())


def test_several_runs_a_side_narrow_the_interval(tmp_path: Path) -> None:
    base, new = CPU_JOB.but(noise=0.05), CPU_JOB.edited("aten::gelu", us=1900).but(noise=0.05)
    one = _causes(runs_of(base, tmp_path / "b1"), runs_of(new, tmp_path / "n1", first_seed=50))
    five = _causes(runs_of(base, tmp_path / "b5", 5), runs_of(new, tmp_path / "n5", 5, first_seed=50))
    assert [cause.kind for cause in (*one.causes, *five.causes)] == ["slower", "slower"]
    widths = [cause.high - cause.low for cause in (one.causes[0], five.causes[0])]
    assert widths[1] < widths[0] / 1.5
    assert (five.base_runs, five.new_runs) == (5, 5)


_US = st.integers(200, 4000)
_JOBS = st.builds(
    lambda us, seed, steps, slow: GPU_JOB.edited("aten::mm", us=us).but(seed=seed, steps=steps, slow=((0, slow),)),
    _US,
    st.integers(0, 10_000),
    st.integers(1, 8),
    st.floats(0.8, 1.3),
)


@settings(max_examples=25)
@given(base=_JOBS, new=_JOBS)
def test_causes_close_and_negate(base: Job, new: Job, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("jobs")
    runs = runs_of(base, folder / "base", first_seed=base.seed), runs_of(new, folder / "new", first_seed=new.seed)
    report, swapped = _causes(*runs), _causes(*reversed(runs))
    for found in (report, swapped):
        times = [cause.change_per_step for cause in found.causes if cause.metric == "time"]
        assert sum(times) + found.rest == pytest.approx(found.new_step - found.base_step, abs=1e-12)
    assert report.new_step - report.base_step == pytest.approx(swapped.base_step - swapped.new_step)
    shared = {cause.where: cause.change_per_step for cause in swapped.causes if cause.metric == "time"}
    for cause in report.causes:
        if cause.where in shared:
            assert cause.change_per_step == pytest.approx(-shared[cause.where], rel=1e-6)


@settings(max_examples=15)
@given(shuffle=st.integers(0, 10_000))
def test_the_order_of_events_changes_nothing(shuffle: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, job = tmp_path_factory.mktemp("order"), GPU_JOB.but(ranks=2)
    base = runs_of(job, folder / "base")
    plain = _causes(base, runs_of(job.edited("aten::mm", us=5000), folder / "new"))
    mixed = _causes(base, runs_of(job.edited("aten::mm", us=5000), folder / "mixed", shuffle=shuffle))
    assert mixed == plain


def test_the_times_of_a_tree_are_those_of_its_steps(tmp_path: Path) -> None:
    (run,) = runs_of(GPU_JOB.but(ranks=2), tmp_path / "base")
    times = {series.key.label("rank"): series.values for series in run.series if series.key.metric == "step.time"}
    assert len(run.call_trees) == 2
    for tree in run.call_trees:
        np.testing.assert_allclose(tree.step_times, times[tree.rank], rtol=0, atol=1e-12)
        assert (tree.wall >= 0).all()
        assert all(node.parent < at for at, node in enumerate(tree.nodes))


def test_a_synchronisation_costs_what_the_device_idles(tmp_path: Path) -> None:
    """After it the host is no longer ahead, so the device waits for every launch of a small kernel."""
    small = [Op("forward", f"aten::small_{number}", 3, kernel=f"small_{number}", calls=5) for number in range(20)]
    base = GPU_JOB.after("aten::softmax", *small)
    new = runs_of(base.after("aten::softmax", _SYNC), tmp_path / "new")
    report = _causes(runs_of(base, tmp_path / "base"), new)
    (cause,) = report.causes
    assert (cause.kind, cause.where[-1]) == ("sync", "cudaStreamSynchronize")
    change = report.new_step - report.base_step
    assert change > 400e-6 > cause.high - cause.low
    assert abs(report.rest) < 0.1 * change


def test_a_number_that_is_read_through_views_is_a_synchronisation(tmp_path: Path) -> None:
    """On a CPU nothing waits. But `x.view(-1)[0].item()` does on a GPU, whatever prepares the number."""
    reads = [Op("forward", f"aten::{name}", us, "cpu") for name, us in (("view", 90), ("select", 80), ("item", 40))]
    new = CPU_JOB
    for op in reads:
        new = new.after("aten::gelu", op)
    (cause,) = _causes(runs_of(CPU_JOB, tmp_path / "base"), runs_of(new, tmp_path / "new", 1, 3)).causes
    assert (cause.kind, cause.where[-1]) == ("sync", "aten::item")
