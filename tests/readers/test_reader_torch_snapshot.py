"""Snapshots of torch's allocator: pickles of plain data, and everything else that a pickle can be."""

from __future__ import annotations

import gzip
import os
import pickle
import random
import struct
import sys
from pathlib import Path

import pytest
from reading import FIXTURES, errors, run_of, said, values_of

from perfgate.causes.find import find_causes
from perfgate.core import Run
from perfgate.core.resource_limits import Limits
from perfgate.readers import Source, read
from perfgate.readers.plain_pickle import PickleFault, PlainPickle

sys.path.insert(0, str(FIXTURES))
from make_torch_snapshot import MIB, STACKS, TorchPickler, frame, job

PYTHON = (FIXTURES / "torch_snapshot.pickle").read_bytes()
CPP = (FIXTURES / "torch_snapshot_cpp.pickle").read_bytes()
#: The weights, the parts of the attention, the loss and the gradient.
PEAK = 40 * MIB + 24 * MIB + 6 * MIB + 10 * MIB + 100


def test_the_files_are_those_of_the_script() -> None:
    snapshot = job().snapshot()
    assert pickle.dumps(snapshot, 4) == PYTHON
    del snapshot["external_annotations"]
    assert TorchPickler().dump(snapshot) == CPP


@pytest.mark.parametrize("data", [PYTHON, CPP, gzip.compress(PYTHON)], ids=["python", "cpp", "gzip"])
@pytest.mark.parametrize("chunk", [None, 7])
def test_memory_of_a_snapshot(data: bytes, chunk: int | None) -> None:
    run = run_of(data, chunk=chunk)
    assert run.format == "torch-snapshot"
    assert errors(run) == []
    assert values_of(run) == {
        "memory.allocated": [40.0 * MIB],
        "memory.reserved": [values_of(run)["memory.reserved"][0]],
        "memory.peak_allocated": [float(PEAK)],
    }
    assert values_of(run)["memory.reserved"][0] % (2 * MIB) == 0


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_of_python(protocol: int) -> None:
    assert values_of(run_of(pickle.dumps(job().snapshot(), protocol)))["memory.peak_allocated"] == [float(PEAK)]


def test_the_tree_has_the_stacks_at_the_peak() -> None:
    (tree,) = run_of(PYTHON).call_trees
    assert tree.memory is not None

    def path(at: int) -> list[str]:
        return [*path(tree.nodes[at].parent), tree.nodes[at].name] if at > 0 else []

    sizes = {" / ".join(path(at)): int(size) for at, size in enumerate(tree.memory) if size}
    loop = "<module> (train.py) / train (train.py)"
    assert sizes == {
        "<module> (train.py) / build (model.py) / model.py(12): build": 40 * MIB,
        f"{loop} / forward (attention.py) / attention.py(33): forward": 24 * MIB,
        f"{loop} / cross_entropy (loss.py) / loss.py(7): cross_entropy": 6 * MIB,
        "MmBackward0 / aten::mm": 10 * MIB + 100,
    }
    assert sum(sizes.values()) == PEAK == tree.peak
    assert "attention.py(33): forward" in {node.source for node in tree.nodes}


def _places(snapshot: dict[str, object]) -> set[str]:
    (tree,) = run_of(pickle.dumps(snapshot)).call_trees
    return {node.name for node in tree.nodes}


def test_a_stack_without_frames_is_said() -> None:
    assert "(no Python frames)" in _places(job(weights="unknown").snapshot())


def test_memory_freed_without_its_allocation_has_no_place() -> None:
    snapshot = job().snapshot()
    trace = snapshot["device_traces"][0]
    first_free = next(at for at, event in enumerate(trace) if event["action"] == "free_requested")
    del trace[:first_free]
    places = _places({**snapshot, "device_traces": [trace[:12]]})
    assert "(allocated before the history)" in places
    assert "backward (_tensor.py)" not in places


@pytest.mark.parametrize("lines", [0, 3])
def test_the_cause_names_the_line_that_grew(lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one function, two lines allocate; the larger one did not change, and may have moved."""

    def run(attention: int, weights_line: int, attention_line: int) -> Run:
        path, module = "/home/user/job/model.py", [frame("<module>", "/home/user/job/train.py", 20)]
        monkeypatch.setitem(STACKS, "weights", [frame("forward", path, weights_line), *module])
        monkeypatch.setitem(STACKS, "attention", [frame("forward", path, attention_line), *module])
        return _run(attention)

    base, new = run(12 * MIB, 12, 33), run(28 * MIB, 12, 33 + lines)
    (cause,) = find_causes([base.call_trees], [new.call_trees]).causes
    assert (cause.source, cause.change_per_step) == (f"model.py({33 + lines}): forward", 16 * MIB)


def test_the_line_is_one_of_the_program_not_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = "/opt/conda/lib/python3.12/site-packages/torch/nn/modules/linear.py"
    caller = frame("forward", "/home/user/job/model.py", 23)
    monkeypatch.setitem(STACKS, "attention", [frame("forward", linear, 134), caller, *STACKS["loss"][1:]])
    (cause,) = find_causes([_run(24 * MIB).call_trees], [_run(60 * MIB).call_trees]).causes
    assert (cause.where[-1], cause.source) == ("forward (model.py)", "model.py(23): forward")


def test_without_a_history_the_peak_is_unknown() -> None:
    run = run_of(pickle.dumps(job(history=False).snapshot()))
    assert sorted(values_of(run)) == ["memory.allocated", "memory.reserved"]
    assert "the snapshot has no history, so the peak is unknown" in said(run)[0]


def _run(attention: int, *, kept: bool = False) -> Run:
    return run_of(pickle.dumps(job(attention, kept=kept).snapshot()))


def test_the_cause_of_a_larger_peak_is_a_place_in_the_program() -> None:
    base, new = _run(24 * MIB), _run(60 * MIB)
    report = find_causes([base.call_trees], [new.call_trees])
    (cause,) = report.causes
    assert (cause.kind, cause.metric, cause.change_per_step) == ("memory", "memory", 36 * MIB)
    assert cause.where[-1] == "forward (attention.py)"
    assert cause.source == "attention.py(33): forward"
    assert (report.base_step, report.new_step) == (0.0, 0.0)


def test_what_is_kept_from_step_to_step_is_found() -> None:
    report = find_causes([_run(24 * MIB).call_trees], [_run(24 * MIB, kept=True).call_trees])
    assert [cause.where[-1] for cause in report.causes] == ["cross_entropy (loss.py)"]


def test_a_copy_has_no_cause() -> None:
    run = _run(24 * MIB)
    assert find_causes([run.call_trees], [run.call_trees]).causes == ()


def test_devices_and_ranks_are_labels() -> None:
    snapshot = job().snapshot(traces=2)
    other = job(12 * MIB).snapshot()
    snapshot["segments"] += [{**segment, "device": 1} for segment in other["segments"]]
    snapshot["device_traces"][1] = other["device_traces"][0]
    (run,) = read(Source("snapshot-rank3.pickle", [pickle.dumps(snapshot)]))
    peaks = {dict(one.key.labels)["device"]: one.values[0] for one in run.series if "peak" in one.key.metric}
    assert peaks == {"0": PEAK, "1": PEAK - 12 * MIB}
    assert {one.key.label("rank") for one in run.series} == {"3"}


class _Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, ("touch perfgate-was-here",)


def _with(value: object) -> dict[str, object]:
    return {"segments": [value], "device_traces": []}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pickle.dumps(_with(_Evil()), 4), "the pickle has the opcode STACK_GLOBAL at byte"),
        (pickle.dumps(_with(_Evil()), 2), "the pickle has the opcode GLOBAL at byte"),
        (pickle.dumps(_with(Path("x"))), "can run code; only plain data is read"),
        (pickle.dumps(_with(b"bytes")), "the pickle has the opcode 0x43"),
        (pickle.dumps(_with({1, 2})), "the pickle has the opcode 0x8f"),
        (PYTHON[:3000], "the pickle ends, or is damaged, at byte"),
        (pickle.dumps({"segments": 3}), "this pickle is not a snapshot of torch: it has no list of segments"),
        (pickle.dumps(_with("text")), "something that should be a dict is not"),
        (pickle.dumps(_with({"device": 0, "total_size": -1})), "total_size is not a whole number of at least 0"),
        (pickle.dumps(_with({"device": 0, "total_size": 1.5})), "total_size is not a whole number of at least 0"),
        (pickle.dumps(_with({"device": 0, "total_size": 1 << 70})), "total_size is not a whole number"),
        (pickle.dumps(_with({"device": 0, "total_size": 1 << 900})), "the pickle is damaged"),
    ],
)
def test_other_pickles_are_refused(data: bytes, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = run_of(data)
    assert message in errors(run)[0]
    assert run.series == ()
    assert list(tmp_path.iterdir()) == []


def _pickle(body: bytes) -> bytes:
    return b"\x80\x04}\x94(\x8c\x08segments" + body


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"r" + struct.pack("<I", 0xFFFFFFFF), "damaged"),  # a memo of 32 GiB
        (b"]" + b"\x85" * 1_900 + b"K\x01s.", "damaged"),  # a tuple without an end as a key
        (b"(" * 100, "the pickle is nested more deeply than the limit depth=64 allows"),
        (b"]" * 2_001, "more lists and dicts than the limit containers=2000 allows"),
        (b"\x8d" + struct.pack("<Q", 1 << 60), "the pickle ends, or is damaged"),
        (b"u", "damaged"),
        (b"0.", "the pickle has the opcode 0x30"),
    ],
)
def test_hostile_pickles_stop_early(body: bytes, message: str) -> None:
    with pytest.raises(PickleFault, match=message):
        PlainPickle(_pickle(body), Limits(containers=2_000)).load()


def test_a_list_that_occurs_many_times_is_not_walked_many_times() -> None:
    block = {"address": 0, "size": 512, "requested_size": 512, "state": "inactive", "frames": []}
    segment = {"device": 0, "address": 0, "total_size": 1, "blocks": [block] * 1_000}
    data = pickle.dumps({"segments": [segment] * 1_000, "device_traces": []})
    (run,) = read(Source("f", [data], limits=Limits(containers=5_000)))
    assert "repeats its parts more often than its size allows" in errors(run)[0]


def test_a_damaged_snapshot_never_raises() -> None:
    source = random.Random(1)
    for _ in range(60):
        data = bytearray(PYTHON[: source.randrange(100, len(PYTHON))])
        for _ in range(source.randrange(4)):
            data[source.randrange(30, len(data))] = source.randrange(256)
        run = run_of(bytes(data), "torch-snapshot")
        assert run.series or errors(run)
