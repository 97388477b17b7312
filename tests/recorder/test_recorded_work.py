"""Exact work without a trace on disk: three profiled steps, their counts and their call tree in the recording."""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns
from types import ModuleType, SimpleNamespace
from typing import Any

import jsonschema
import pytest
from conftest import Done, write_rules

from perfgate import Recorder, RecorderError, RecorderWarning, work_of
from perfgate.core import Run
from perfgate.recorder import journal
from perfgate.schemas import schema
from perfgate.workspace.inputs import read_runs

pytestmark = pytest.mark.usefixtures("folder")

Command = Callable[..., Done]
STEPS = 20
#: The steps that are profiled and kept, and those that are measured.
KEPT, MEASURED = [6, 7, 8], [*range(5), *range(10, STEPS)]


class StandIn(ModuleType):
    """torch, as far as perfgate uses it to profile: `op` is an operator, and `fails` names the part that fails."""

    def __init__(self, fails: str = "", error: Exception | None = None) -> None:
        super().__init__("torch")
        self.fails, self.error = fails, error or RuntimeError("it failed")
        self.__version__ = "2.13.0"
        self.active: Any = None
        self.events: list[dict[str, Any]] = []
        self.cuda = SimpleNamespace(
            is_initialized=lambda: fails == "kernels", synchronize=lambda: None, get_device_name=lambda: "H200"
        )
        self.version = SimpleNamespace(cuda="12.8")
        inner = type("profile", (), {"__init__": lambda _: None})
        self.autograd = SimpleNamespace(
            _profiler_enabled=lambda: self.active is not None, profiler=SimpleNamespace(profile=inner)
        )
        self.profiler = SimpleNamespace(
            profile=type("profile", (_Profile,), {"torch": self}),
            record_function=lambda name: _Mark(self, name),
            ProfilerActivity=SimpleNamespace(CPU="CPU", CUDA="CUDA"),
        )

    def op(self, name: str) -> None:
        if self.active is not None:
            self.add("cpu_op", name, perf_counter_ns())

    def add(self, category: str, name: str, began: int) -> None:
        times = {"ts": began / 1000, "dur": max(0.1, (perf_counter_ns() - began) / 1000)}
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": 1, "tid": 1, **times})

    def attempt(self, part: str) -> None:
        if part == self.fails:
            raise self.error


class _Profile:
    torch: StandIn

    def __init__(self, **_: object) -> None: ...

    def start(self) -> None:
        self.torch.attempt("start")
        self.torch.autograd.profiler.profile()
        assert self.torch.active is None, "torch crashes if there are two profilers"
        self.torch.active = self
        self.torch.events.clear()

    def stop(self) -> None:
        assert self.torch.active is self, "the program's profiler was stopped"
        self.torch.active = None
        self.torch.attempt("stop")

    def export_chrome_trace(self, path: str) -> None:
        self.torch.attempt("export")
        text = json.dumps({"schemaVersion": 1, "traceEvents": self.torch.events})
        Path(path).write_text(text[:200] if self.torch.fails == "reading" else text)


class _Mark:
    def __init__(self, torch: StandIn, name: str) -> None:
        self.torch, self.name, self.began = torch, name, 0

    def __enter__(self) -> None:
        self.began = perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        self.torch.add("user_annotation", self.name, self.began)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, which has to be empty after each test."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    return use(monkeypatch, StandIn())


def use(monkeypatch: pytest.MonkeyPatch, torch: StandIn) -> StandIn:
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    return torch


def train(
    torch: StandIn, path: str = "run.json", ops: int = 3, steps: int = STEPS, each: Any = None, **how: Any
) -> list[str]:
    """Record a loop, and return what it warned of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with Recorder(path, work=True, **how) as rec:
            for number in range(steps):
                with rec.step_span():
                    for _ in range(ops):
                        torch.op("aten::mm")
                    rec.record("loss", number, unit="1")
                    if each is not None:
                        each(number)
    return [str(one.message) for one in found if issubclass(one.category, RecorderWarning)]


def read(path: str = "run.json") -> Run:
    (run,) = read_runs([path], as_given=True)
    return run


def numbers(run: Run) -> dict[str, list[int] | None]:
    return {str(one.key): None if one.steps is None else one.steps.tolist() for one in run.series}


def values(run: Run, name: str) -> list[float]:
    return next(one.values.tolist() for one in run.series if str(one.key) == name)


def test_three_steps_are_counted_and_not_measured(torch: StandIn, temporary: Path) -> None:
    assert train(torch) == []
    run = read()
    assert run.problems == ()
    assert numbers(run) | {"work.ops": KEPT, "step.time": MEASURED, "loss": MEASURED} == numbers(run)
    assert values(run, "work.ops") == [3, 3, 3]
    (tree,) = run.call_trees
    assert [(node.name, node.parent) for node in tree.nodes] == [("step", -1), ("aten::mm", 0)]
    assert tree.counts[1].tolist() == [3, 3, 3]
    assert {"time.profile", "memory.profile"} < run.metrics
    assert list(temporary.iterdir()) == []
    jsonschema.Draft7Validator(schema("results")).validate(json.loads(Path("run.json").read_text()))


def test_spans_are_the_parts_of_the_profiled_steps(torch: StandIn) -> None:
    def train_with_spans(**how: Any) -> None:
        with Recorder("run.json", **how) as rec:
            for _ in range(STEPS):
                with rec.step_span():
                    with rec.span("forward", {"model": "small"}):
                        torch.op("aten::mm")
                    with suppress(KeyError), rec.span("backward"):
                        torch.op("aten::add")
                        raise KeyError

    train_with_spans(work=True)
    run = read()
    assert len(values(run, 'forward{model="small"}')) == len(MEASURED)
    (tree,) = run.call_trees
    assert {(tree.nodes[node.parent].name, node.name) for node in tree.nodes if node.kind == "operator"} == {
        ("forward", "aten::mm"),
        ("backward", "aten::add"),
    }


def test_the_profile_is_not_a_part_of_the_whole_time(torch: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    train(torch, goodput=True)
    run = read()
    assert values(run, "time.total")[0] + values(run, "time.profile")[0] < 60
    assert values(run, "time.other")[0] >= 0


def test_ranks_have_their_own_work_and_one_tree_together(torch: StandIn) -> None:
    for rank, ops in enumerate((3, 5)):
        train(torch, "job/run.json", ops, rank=rank, world_size=2)
    run = read("job")
    assert (values(run, 'work.ops{rank="0"}'), values(run, 'work.ops{rank="1"}')) == ([3] * 3, [5] * 3)
    assert [tree.ranks for tree in run.call_trees] == [("0",), ("1",)]


FAILURES = {
    "start": "RuntimeError: it failed",
    "stop": "RuntimeError: it failed",
    "export": "RuntimeError: it failed",
    "reading": "its trace cannot be read: ",
    "kernels": "the trace has no kernels",
}


@pytest.mark.parametrize("part", FAILURES)
def test_a_failure_is_one_warning_and_the_program_goes_on(
    part: str, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    warned = train(use(monkeypatch, StandIn(part)))
    run = read()
    assert len(warned) == 1
    assert f"run.json: the work of a step is not recorded: {FAILURES[part]}" in warned[0]
    (problem,) = run.problems
    assert problem.message.startswith("the recording is incomplete: the work of a step is not recorded")
    assert not any(name.startswith("work.") for name in run.metrics)
    assert set(MEASURED) <= set(numbers(run)["step.time"] or ())
    assert list(temporary.iterdir()) == []


def test_a_full_disk_for_the_trace_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert "No space left on device" in train(use(monkeypatch, StandIn("export", full)))[0]


def test_a_full_disk_for_the_tree_leaves_the_counts(torch: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    append = journal.Journal.append

    def full(self: journal.Journal, contents: Any) -> None:
        contents = list(contents)
        if any("call_tree" in line for line in contents):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(self, contents)

    monkeypatch.setattr(journal.Journal, "append", full)
    assert train(torch) == ["run.json: the call tree cannot be written: No space left on device"]
    assert (values(read(), "work.ops"), read().call_trees) == ([3, 3, 3], ())


def test_without_torch_there_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = use(monkeypatch, StandIn())
    monkeypatch.delitem(sys.modules, "torch")
    assert "the program has not imported torch" in train(torch)[0]
    assert numbers(read())["step.time"] == [*range(STEPS)]


def test_a_loop_that_is_too_short_is_one_warning(torch: StandIn) -> None:
    assert train(torch, steps=8) == ["run.json: the work of a step is not recorded: the loop has fewer than 9 steps"]
    assert torch.active is None
    assert train(torch, "nine.json", steps=9) == []
    assert values(read("nine.json"), "work.ops") == [3, 3, 3]


@pytest.mark.parametrize("begins", [0, 6], ids=["before", "meanwhile"])
def test_a_profiler_of_the_program_comes_first(begins: int, torch: StandIn) -> None:
    own = []

    def begin(number: int) -> None:
        if number == begins:
            own.append(torch.profiler.profile())
            own[0].start()

    how = {0: "the program is being profiled", 6: "the program has begun to profile meanwhile"}
    assert train(torch, each=begin) == [f"run.json: the work of a step is not recorded: {how[begins]}"]
    assert torch.active is own[0]


def test_a_later_profiler_of_the_program_is_not_hindered(torch: StandIn) -> None:
    assert train(torch, each=lambda number: torch.profiler.profile().start() if number == 12 else None) == []
    assert values(read(), "work.ops") == [3, 3, 3]


def test_an_error_of_the_program_ends_the_profile(torch: StandIn) -> None:
    def fail(number: int) -> None:
        if number == 7:
            raise KeyError

    with pytest.raises(KeyError):
        train(torch, each=fail)
    assert torch.active is None
    assert numbers(read())["step.time"] == [*range(5)]


def test_a_recording_in_lines_has_its_tree(torch: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MAX_DOCUMENT", 0)
    train(torch)
    assert b"perfgate.recording/1" in Path("run.json").read_bytes()
    assert len(read().call_trees) == 1


def test_numbers_of_steps_may_occur_again(torch: StandIn) -> None:
    with Recorder("run.json", work=True) as rec:
        for epoch in range(2):
            for number in range(12):
                rec.step(number)
                rec.record("epoch", epoch, unit="1")
    found = read()
    assert [*zip(numbers(found)["epoch"] or (), values(found, "epoch"), strict=True)][-12:] == [
        (number, 1) for number in range(12)
    ]


def test_four_thousand_calls_take_less_than_150_kb(torch: StandIn) -> None:
    def call(number: int) -> None:
        for at in range(4000):
            torch.op(f"aten::some_operator_{at % 1500}")

    train(torch, ops=0, steps=9, each=call)
    assert os.path.getsize("run.json") < 150_000
    assert values(read(), "work.ops") == [4000] * 3
    assert not read().call_trees[0].pooled


def test_the_work_of_a_function(torch: StandIn) -> None:
    work = work_of(lambda: torch.op("aten::mm"))
    assert (work.counts, work.device_time) == ({"work.ops": 1.0}, 0)
    with Recorder("run.json") as rec:
        rec.add_work(work)
    assert values(read(), "work.ops") == [1, 1, 1]
    assert len(read().call_trees) == 1


def test_a_function_that_cannot_be_profiled_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, StandIn("start"))
    with pytest.raises(RecorderError, match="the work is not known: RuntimeError: it failed"):
        work_of(lambda: None)
    with pytest.raises(ValueError, match="n is 0"):
        work_of(lambda: None, 0)
    with pytest.raises(KeyError):
        work_of(lambda: {}[0])


def test_work_is_judged_as_that_of_a_trace(torch: StandIn, folder: Path, perfgate: Command) -> None:
    write_rules(folder, "no more work than baseline")
    for number in range(3):
        train(torch, f"base-{number}.json")
    perfgate("baseline", "approve", *(f"base-{number}.json" for number in range(3)), "--reason", "new")
    (stored,) = [json.loads(path.read_text()) for path in sorted(Path("baselines").rglob("*-01-*.json"))]
    assert "aten::mm" in stored["call_tree"]
    train(torch, "same.json")
    assert perfgate("check", "same.json").code == 0
    train(torch, "more.json", each=lambda _: torch.op("aten::item"))
    done = perfgate("check", "more.json")
    assert done.code == 1
    assert "a step has 1 more operator (3 → 4)" in done.said
    assert "aten::item" in done.said
