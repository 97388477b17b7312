"""Ranks handed back without the values that no rule needs: every answer is the same, byte by byte."""

from __future__ import annotations

import json
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Done, write_log, write_rules
from msgspec.structs import replace

from perfgate.analysis.needed_values import NeededValues, fingerprint, needed_by
from perfgate.commands import preparing
from perfgate.core import Key, Run, Series, read_only
from perfgate.core.call_trees import CallNode, CallTree
from perfgate.core.outlines import Fingerprint, Outline, Outlines
from perfgate.core.packed_trees import PackedTrees
from perfgate.judge.stalls import STALL_METRICS
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace import inputs

Command = Callable[..., Done]
ENV = ("--env", "gpu=x")


def write_trace(path: Path, rank: int, scale: float = 1.0, *, seed: int = 0, steps: int = 8, first: int = 0) -> Path:
    """A trace of one rank: three operators a step that launch a kernel each, and an all-reduce."""
    rng, events, clock = random.Random(f"{seed} {rank}"), [], 1000.0
    for step in range(first, first + steps):
        begun = clock
        for number, name in enumerate(("aten::mm", "aten::add", "aten::gelu", "all_reduce")):
            length = rng.gauss(200 * (number + 1), 1.0) * (scale if number == 1 else 1.0)
            ids: dict[str, Any] = {"correlation": 10 * step + number, "External id": 10 * step + number}
            host, device = {"ph": "X", "pid": 1, "tid": 1}, {"ph": "X", "pid": 0, "tid": 7}
            events.append({**host, "cat": "cpu_op", "name": name, "ts": clock, "dur": 40, "args": ids})
            events.append(
                {**host, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": clock + 5, "dur": 9, "args": ids}
            )
            kernel = (
                {"Collective name": "allreduce", "Process Group Name": "0", "dtype": "Float"} if number == 3 else {}
            )
            called = "ncclDevKernel_AllReduce" if number == 3 else f"kernel_{name[6:]}"
            at = {"ts": round(clock + 20, 3), "dur": round(length, 3), "args": {**ids, **kernel, "device": 0}}
            events.append({**device, "cat": "kernel", "name": called, **at})
            clock += length + 50
        step_event = {"cat": "user_annotation", "name": f"ProfilerStep#{step}", "ts": begun, "dur": clock - begun - 1}
        events.append({"ph": "X", "pid": 1, "tid": 1, **step_event})
    path.parent.mkdir(parents=True, exist_ok=True)
    job = {"rank": rank, "world_size": 2, "backend": "nccl"}
    path.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": job, "traceEvents": events}))
    return path


def write_ranks(folder: Path, name: str, scale: float = 1.0, seed: int = 0) -> None:
    for rank in range(2):
        write_trace(folder / name / f"r{rank}.json", rank, scale, seed=seed)


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place for the approved level, which is made once."""
    return tmp_path_factory.mktemp("approved") / "all"


@pytest.fixture
def ranks(folder: Path, perfgate: Command, approved: Path) -> Path:
    """An approved level of three runs of two ranks; in `new` one operator is slower."""
    if approved.exists():
        shutil.copytree(approved, folder, dirs_exist_ok=True)
        return folder
    write_rules(folder, "step.time within 2% of baseline")
    for seed in range(3):
        write_ranks(folder, f"base{seed}", seed=seed)
    write_ranks(folder, "new", 1.5, seed=9)
    done = perfgate("baseline", "approve", "base0", "base1", "base2", "--reason", "first", *ENV)
    assert done.code == 0, done.said
    cases(folder)
    shutil.copytree(folder, approved)
    return folder


def _everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparing, "_shortening", lambda *_: None)


def _read(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Keep what reading hands to a check."""
    found: list[Run] = []
    real = inputs.read_runs
    monkeypatch.setattr(inputs, "read_runs", lambda *words, **more: found.extend(runs := real(*words, **more)) or runs)
    return found


def cases(folder: Path) -> None:
    """More runs: a copy, two cycles of each rank, and a rank with a log beside it."""
    for rank in range(2):
        (folder / "copy").mkdir(exist_ok=True)
        (folder / f"copy/r{rank}.json").write_text((folder / f"new/r{rank}.json").read_text() + "\n")
        for cycle in range(2):
            write_trace(folder / f"cycles/r{rank}c{cycle}.json", rank, seed=cycle, first=20 * cycle)
            name = f"host{rank}_1.{cycle}234567890123.pt.trace.json"
            write_trace(folder / "named" / name, rank, seed=cycle, first=20 * cycle)
    write_ranks(folder, "mixed", seed=4)
    log = {"metric": "op.aten::mm", "unit": "s", "values": [0.1, 0.2]}
    (folder / "mixed/r0.results.json").write_text(json.dumps({"schema": "perfgate.results/1", "series": [log]}))


@pytest.mark.parametrize(
    ("rule", "runs", "is_shortened"),
    [
        ("step.time within 2% of baseline", ["new"], True),
        ("step.time within 2% of baseline", ["new", "base1"], True),
        ("step.time within 2% of baseline", ["new", "copy"], True),
        ("step.time within 2% of baseline", ["cycles"], False),
        ("step.time within 2% of baseline", ["named"], False),
        ("step.time within 2% of baseline", ["mixed"], False),
        ("kernel.* median within 2% of baseline", ["new"], True),
        ("op.aten::m median under 1 ms", ["new"], False),
        ("warmup.steps within 100% of baseline", ["new"], False),
    ],
)
def test_a_check_of_ranks_says_the_same(
    ranks: Path, perfgate: Command, monkeypatch: pytest.MonkeyPatch, rule: str, runs: list[str], is_shortened: bool
) -> None:
    write_rules(ranks, rule)
    page = ranks / "page.html"
    words = ["check", *runs, *ENV, "--json", "-", *(["--html", page] if runs == ["new"] else [])]
    page.touch()
    with monkeypatch.context() as patch:
        read = _read(patch)
        short = perfgate(*words), page.read_text()
    assert any(run.outlines is not None for run in read) == is_shortened
    _everything(monkeypatch)
    assert short == (perfgate(*words), page.read_text())


def test_limits_without_a_baseline_are_judged_by_what_they_name(
    folder: Path, perfgate: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_ranks(folder, "new")
    of_ranks = "step.time median on the slowest rank at most 2x the median rank"
    write_rules(folder, "step.time median under 1 s", "kernel_ad median under 1 s", of_ranks)
    read = _read(monkeypatch)
    done = perfgate("check", "new")
    assert (done.code, "the nearest names are kernel.kernel_add" in done.out) == (3, True), done.said
    values = {series.key.metric for run in read for series in run.series if series.kind == "samples"}
    assert {name for name in values if not name.startswith(("collective.", "comm."))} == {*STALL_METRICS}
    assert {"kernel.kernel_add", "op.aten::mm"} <= set().union(*(run.metrics for run in read))


@pytest.mark.parametrize("steps", [2, 40, 70])
def test_call_trees_are_packed_without_loss(folder: Path, steps: int) -> None:
    (run,) = inputs.read_runs([str(write_trace(folder / "t.json", 0, steps=steps))])
    packed = pickle.loads(pickle.dumps(PackedTrees(run.call_trees)))
    assert len(packed) == 1
    (tree,), (found,) = run.call_trees, packed
    for name in ("counts", "busy", "wall", "first"):
        assert np.array_equal(getattr(found, name), getattr(tree, name))
    assert (found.nodes, found.rank, found.peak, found.memory) == (tree.nodes, tree.rank, tree.peak, tree.memory)
    assert len(pickle.dumps(packed)) < len(pickle.dumps(run.call_trees)) * 2 / 3


def test_logs_keep_all_values(folder: Path, perfgate: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(2):
        write_log(folder / f"run/rank{rank}.log", forward=[100.0] * 9, backward=[200.0] * 9)
    write_rules(folder, "forward median under 200 ms")
    read = _read(monkeypatch)
    perfgate("check", "run")
    assert {series.key.metric for run in read for series in run.series} == {"forward", "backward"}


# --- without a command -----------------------------------------------------------------------------------------------


def rules_of(*sentences: str, head: str = "") -> Ruleset:
    text = f"version: 1\n{head}rules:\n" + "".join(f"  - '{sentence}'\n" for sentence in sentences)
    found, problems = load_rules([("rules.yaml", text.encode())])
    assert found is not None, problems
    return found


NAMES = ("x", "x.part", "y", "y.part", "z", "share", "kernel.a", "kernel.b")
NEEDED: list[tuple[tuple[str, ...], str, set[str]]] = [
    # rules, what stands above them, and the metrics of these whose values they need
    (("x under 1 s",), "", {"x"}),
    (("x within 5% of baseline",), "", {"x", "x.part"}),
    (("x under 1 s and within 5% of baseline",), "", {"x", "x.part"}),
    (("x under 1 s", "y within 5% of baseline"), "", {"x", "y", "y.part"}),
    (("x on the slowest rank at most 2x the median rank",), "", {"x"}),
    (("x / y under 1",), "", {"x", "y"}),
    (("kernel.? under 1 s",), "", {"kernel.a", "kernel.b"}),
    (("kernel.[!b] under 1 s",), "", {"kernel.a"}),
    (("k*a under 1 s",), "", {"kernel.a"}),
    (("k*e?.[a] under 1 s",), "", {"kernel.a"}),
    (("z under 1 s",), "metrics: {share: x / y}\n", {"x", "y", "z", "share"}),
]


@pytest.mark.parametrize(("sentences", "head", "needed"), NEEDED)
def test_the_metrics_whose_values_rules_need(sentences: tuple[str, ...], head: str, needed: set[str]) -> None:
    found = needed_by([rules_of(*sentences, head=head)], with_sizes=True)
    assert found is not None
    assert {name for name in NAMES if found.reads(name)} == needed
    assert all(map(found.reads, STALL_METRICS))
    assert found.with_sizes


def test_the_rules_of_all_suites_count_and_a_model_needs_all_values() -> None:
    first, second = rules_of("x under 1 s"), rules_of("y under 1 s")
    both = needed_by([first, second], with_sizes=False)
    assert both is not None
    assert [both.reads(name) for name in "xyz"] == [True, True, False]
    model: Any = object()
    assert needed_by([first, replace(second, model=model)], with_sizes=True) is None


def samples(metric: str, *values: float, unit: str = "s", **labels: str) -> Series:
    return Series(Key.of(metric, **labels), unit, "samples", read_only(np.array(values)))


ZEROS = read_only(np.zeros((1, 2)))
TREE = CallTree("0", (CallNode("step", "step", -1),), ZEROS, ZEROS, ZEROS)
STEPS, X, Y = samples("step.time", 1, 1, rank="0"), samples("x", 2, 2, 2, rank="0"), samples("y", 4, 6, rank="0")


def trace(*series: Series, **more: Any) -> Run:
    return Run("r0.json", "torch-trace", series, **({"call_trees": (TREE,)} | more))


def shortened(run: Run, *, with_sizes: bool = True) -> Run:
    """The run with the values of `x` and `step.time` alone."""
    (found,) = NeededValues(frozenset(["x", "step.time"]), (), with_sizes).shortened((run,))
    return found


def outline(run: Run, metric: str, unit: str = "s") -> Outline:
    assert run.outlines is not None
    return run.outlines.of[metric, (), unit]


def test_values_that_no_rule_needs_become_outlines() -> None:
    found = shortened(trace(STEPS, X, Y, samples("y", 8, rank="0", device="1")))
    assert found.series == (STEPS, X)
    y = outline(found, "y")
    assert (y.medians, y.totals, y.per_step) == ((5.0, 8.0), (10.0, 8.0), (5.0, 8.0))
    assert y.errors == pytest.approx((1.8581 / 2**0.5 / 5, 0.0))
    assert found.outlines is not None
    assert found.outlines.fingerprints.keys() == {"0"}
    assert isinstance(found.call_trees, PackedTrees)
    assert len(found.call_trees) == 1


def test_without_stored_runs_only_the_time_of_a_step_is_outlined() -> None:
    found = shortened(trace(STEPS, X, Y, samples("n", 3, unit="count", rank="0"), call_trees=()), with_sizes=False)
    assert outline(found, "y") == Outline(per_step=(5.0,))
    assert outline(found, "n", "count") == Outline()
    assert found.call_trees == ()


def test_ranks_without_a_number_are_left_out_of_an_outline() -> None:
    found = outline(shortened(trace(STEPS, X, samples("y", 1, np.nan, rank="0"))), "y")
    assert found == Outline()


@pytest.mark.parametrize(("steps", "per_step"), [((), 10.0), ((1.0,), 10.0), ((1.0, 1.0), 5.0)])
def test_a_trace_has_at_least_one_step(steps: tuple[float, ...], per_step: float) -> None:
    assert outline(shortened(trace(samples("step.time", *steps, rank="0"), Y)), "y").per_step == (per_step,)


KEPT = [
    # runs that stay as they are
    replace(trace(STEPS, X, Y), format="results"),
    trace(STEPS, X, Y, call_trees=()),
    trace(STEPS, X),
    trace(STEPS, X, Y, samples("y", 1, rank="1")),
    trace(STEPS, X, Y, samples("z", 1)),
    trace(STEPS, X, replace(Y, groups=("a", "b"))),
    trace(STEPS, X, replace(Y, kind="value", values=read_only(np.array([1.0])))),
]


@pytest.mark.parametrize("run", KEPT)
def test_a_run_that_is_no_trace_of_one_rank_stays_as_it_is(run: Run) -> None:
    assert shortened(run) is run


def test_a_rank_may_be_unknown_and_may_have_outlines_already() -> None:
    y = samples("y", 4, 6)
    packed, known = PackedTrees((TREE,)), Outlines({("z", (), "s"): Outline()}, {"": Fingerprint(b"z", 2.0)})
    found = shortened(trace(samples("x", 1), y, outlines=known, call_trees=packed))
    assert found.call_trees is packed
    assert found.outlines is not None
    assert found.outlines.of.keys() == {("z", (), "s"), ("y", (), "s")}
    own = fingerprint([y])
    assert found.outlines.fingerprints == {"": Fingerprint(b"z" + own.digest, 2.0 + own.bits)}


OTHERS = [
    # series with other values, or other names of them, than those of `y` with 4 and 6
    samples("y", 4, 6.1, rank="0"),
    samples("y", 6, 4, rank="0"),
    samples("z", 4, 6, rank="0"),
    samples("y", 4, 6, rank="1"),
    samples("\ud800", 4, 6, rank="0"),
    samples("y", 4, 6, 6, rank="0"),
]


@pytest.mark.parametrize("other", OTHERS)
def test_other_values_or_names_have_another_fingerprint(other: Series) -> None:
    assert fingerprint([Y]).digest != fingerprint([other]).digest


def test_a_fingerprint_is_of_noise_in_any_order() -> None:
    found = fingerprint([X, Y])
    assert fingerprint([Y, samples("memory", 9, unit="B"), X, samples("n", 9, unit="count")]) == found
    assert (len(found.digest), found.bits) == (16, fingerprint([Y]).bits)  # equal values tell nothing
    assert fingerprint([Y, samples("z", 1, 2, 3, 4)]).bits == pytest.approx(2 * 1 + 4 * 2)  # n values of n: n log2(n)
    assert fingerprint([]).bits == 0.0
