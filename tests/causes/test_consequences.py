"""The verdicts that follow from a cause: one line is one case."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from made_traces import GPU_JOB, Job, Op, write
from msgspec.structs import replace

from perfgate.causes.find import find_causes
from perfgate.core import NO_STEP, Estimate, Location, RelativeChange, Verdict
from perfgate.core.call_trees import CallTree
from perfgate.workspace.inputs import read_runs

_HERE = Location("rules/rules.yaml", 3)
_SLOWER = GPU_JOB.edited("aten::mm", us=4500)
_REPLACED = GPU_JOB.edited("aten::linear", kernel="cutlass_gemm_simt", us=2600)
_FEWER = GPU_JOB.edited("aten::linear", us=900, calls=1)
_BUSY_HOST = GPU_JOB.after("aten::linear", Op("forward", "aten::index", 900, "cpu"))
_SYNC = _BUSY_HOST.after("aten::linear", Op("forward", "cudaStreamSynchronize", 0, "sync"))
_TWO = _SLOWER.edited(GPU_JOB.ops[0].name, us=2500)


def verdict(metric: str, change: float | None = 0.1, reason: str = "interval", **more: object) -> Verdict:
    """A verdict that did not pass: a change, or an error without one."""
    return replace(
        Verdict(
            *(f"{metric} within 5% of baseline", metric, {}, "median", "fail" if change else "error", reason, "error"),
            *(1, "change", "s", "", NO_STEP, _HERE),
            against="baseline",
            asks="within 5% of baseline",
            change=RelativeChange(change, None, None) if change else None,
        ),
        **more,  # type: ignore[arg-type]
    )


def limit(metric: str, estimate: float, bound: float, comparator: str = "under") -> Verdict:
    """A broken limit."""
    seen = Estimate(estimate, None, None, 6, None, 1)
    one = verdict(metric, None, outcome="fail", kind="limit", against=None)
    return replace(one, new=seen, bound=bound, comparator=comparator)


@cache
def _trees(job: Job, folder: Path, seed: int) -> list[tuple[CallTree, ...]]:
    place = write(job.but(seed=seed), folder / f"{abs(hash((job, seed)))}")
    return [run.call_trees for run in read_runs([str(place)])]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jobs")


#: The two sides, a verdict, and the kind of its cause; None if it stays by itself.
CASES = [
    (GPU_JOB, _SLOWER, verdict("step.time"), "slower"),
    (GPU_JOB, _FEWER, verdict("op.aten::linear", None, "measured-less"), "fewer calls"),
    (GPU_JOB, _FEWER, verdict("op.aten::softmax", None, "measured-less"), None),
    (GPU_JOB, _SLOWER, verdict("step.kernel"), "slower"),
    (GPU_JOB, _SLOWER, verdict("kernel.sm90_gemm_nt"), "slower"),
    (GPU_JOB, _SLOWER, verdict("kernel.sm90_gemm_nt", outcome="undecided"), "slower"),
    (GPU_JOB, _SLOWER, verdict("gpu.utilization", 0.02), "slower"),
    (GPU_JOB, _SLOWER, verdict("step.time", -0.1), None),
    (GPU_JOB, _SLOWER, verdict("step.time", outcome="pass"), None),
    (GPU_JOB, _SLOWER, verdict("kernel.softmax_kernel"), None),
    (GPU_JOB, _SLOWER, verdict("op.aten::softmax"), None),
    (GPU_JOB, _SLOWER, verdict("warmup.time"), None),
    (GPU_JOB, _SLOWER, verdict("step.time", None, "not-a-number"), None),
    (GPU_JOB, _SLOWER, limit("step.time", 0.0115, 0.011), "slower"),
    (GPU_JOB, _SLOWER, limit("step.time", 0.0115, 0.005), None),
    (GPU_JOB, _REPLACED, verdict("kernel.sm90_gemm_tn", None, "metric-absent"), "replaced"),
    (GPU_JOB, _REPLACED, verdict("kernel.cutlass_gemm_simt", None, "no-baseline"), "replaced"),
    (GPU_JOB, _REPLACED, verdict("gpu.occupancy"), "replaced"),
    (GPU_JOB, _REPLACED, verdict("kernel.softmax_kernel", None, "no-baseline"), None),
    (_BUSY_HOST, _SYNC, verdict("gpu.idle"), "sync"),
    (_BUSY_HOST, _SYNC, verdict("range.forward"), "sync"),
    (GPU_JOB, _TWO, verdict("step.kernel"), "slower"),
    (GPU_JOB, _TWO, verdict("step.dataloader"), "stall"),
    (GPU_JOB, _TWO, verdict("step.time"), "stall"),
    (GPU_JOB.but(ranks=4), GPU_JOB.but(ranks=4, slow=((2, 1.2),)), verdict("step.time"), "slow rank"),
    (
        *(GPU_JOB.but(ranks=4), GPU_JOB.but(ranks=4, slow=((2, 1.2),))),
        *(verdict("range.forward", against="the median rank"), "slow rank"),
    ),
    (GPU_JOB, GPU_JOB.edited("aten::linear", bytes=256 << 20), verdict("memory.peak_allocated"), "memory"),
]


@pytest.mark.parametrize(("base", "new", "one", "kind"), CASES, ids=lambda value: getattr(value, "rule", None))
def test_a_verdict_belongs_to_its_cause(base: Job, new: Job, one: Verdict, kind: str | None, place: Path) -> None:
    found = find_causes(_trees(base, place, 1), _trees(new, place, 101), verdicts=[one])
    assert [cause.kind for cause in found.causes if cause.verdicts] == ([] if kind is None else [kind])


def test_a_derived_metric_follows_the_metric_that_changed_most(place: Path) -> None:
    one = verdict("kernel_share")
    parts = {"kernel_share": ("kernel.sm90_gemm_nt", "kernel.softmax_kernel")}
    found = find_causes(_trees(GPU_JOB, place, 1), _trees(_SLOWER, place, 101), verdicts=[one], components=parts)
    assert [(cause.kind, cause.verdicts) for cause in found.causes] == [
        ("slower", ("kernel_share within 5% of baseline",))
    ]


def test_verdicts_have_names_of_their_own(place: Path) -> None:
    by_rank = [verdict("step.kernel", rule="mm", member={"rank": rank}, asks="within 5% of baseline") for rank in "01"]
    verdicts = [verdict("step.time"), verdict("step.time", rule="no slower"), *by_rank]
    found = find_causes(_trees(GPU_JOB, place, 1), _trees(_SLOWER, place, 101), verdicts=verdicts)
    assert found.causes[0].verdicts == (
        "step.time within 5% of baseline",
        "no slower: step.time within 5% of baseline",
        "mm: step.kernel within 5% of baseline on rank 0",
        "mm: step.kernel within 5% of baseline on rank 1",
    )
