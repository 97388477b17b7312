"""A trace of which other processes read parts: the result is that of one process, wherever its list is cut."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from errno import EACCES
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from reading import FIXTURES
from trace_texts import traces

from perfgate.core import Run
from perfgate.readers import Source, read
from perfgate.readers.line_blocks import NotInParts
from perfgate.readers.torch_trace import chunks, trace_file
from perfgate.workspace import inputs
from perfgate.workspace.parallel import WORKERS

REAL = sorted((FIXTURES / "traces").rglob("*.json.gz"))
ODD = 'a "name" }, { with }, \\" {"ph": "X"}, {'


class PartsHere:
    """The parts of a text, cut after these shares of it, that this process reads itself."""

    def __init__(self, data: bytes, shares: list[float]) -> None:
        self.data, self.size, self.shares = data, len(data), shares
        self.ranges: list[tuple[int, int]] = []

    def read(self, begin, size):
        return self.data[begin : begin + size]

    def each(self, read, ranges):
        self.ranges += ranges
        return iter([read(iter([self.data[begin:end]]), begin) for begin, end in ranges])


def content(runs: tuple[Run, ...]) -> object:
    return [
        (
            [(str(one.key), one.unit, one.values.tobytes(), str(one.steps), one.groups) for one in run.series],
            [str(problem) for problem in run.problems],
            dict(run.environment),
            str(run.call_trees),
        )
        for run in runs
    ]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "BUFFER_SIZE", 1024)


def whole(data: bytes) -> object:
    return content(read(Source("trace.json", [data]), "torch-trace"))


def in_parts(data: bytes, shares: list[float]) -> tuple[object, int]:
    """Return the runs and the number of parts that others read; of an unusual trace the runs of one process, and 0."""
    here = PartsHere(data, sorted(shares))
    try:
        return content(read(Source("trace.json", [data], parts=here), "torch-trace")), len(here.ranges)
    except NotInParts:
        return whole(data), 0


def event(number: int, **fields: object) -> dict[str, object]:
    times = {"ts": 1000 + 10 * number, "dur": 7}
    return {"ph": "X", "cat": "cpu_op", "name": f"aten::op{number % 5}", "tid": number % 3, **times, **fields}


def trace(events: list[dict[str, object]], indent: int | None = None) -> bytes:
    steps = [event(at, name=f"ProfilerStep#{at}", cat="user_annotation", dur=90) for at in range(0, len(events), 10)]
    return json.dumps({"schemaVersion": 1, "traceEvents": steps + events, "traceName": "x"}, indent=indent).encode()


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.parent.name + "/" + path.name[:20])
def test_real_traces(path: Path) -> None:
    data = gzip.decompress(path.read_bytes())
    found, others = in_parts(data, [0.2, 0.4, 0.6, 0.8])
    assert found == whole(data)
    assert others > 1


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], phases=[Phase.generate]
)
@given(made=traces(), shares=st.lists(st.floats(0.01, 0.99), min_size=1, max_size=4))
def test_random_traces(made, shares) -> None:
    data = made.encode()
    assert in_parts(data, shares)[0] == whole(data)


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize(
    "odd", [{"name": ODD}, {"args": {"list": [{}, {"a": 1}, {}, {}]}}, {"args": {"text": ODD * 9}}]
)
def test_what_looks_like_a_border_is_none(odd: dict[str, object], indent: int | None) -> None:
    data = trace([event(at, **(odd if at % 9 == 0 else {})) for at in range(60)], indent)
    expected = whole(data)
    for cut in range(30, 70, 3):
        assert in_parts(data, [cut / 100])[0] == expected


@pytest.mark.parametrize(
    "damage",
    [
        (b'"dur": 7', b'"dur": -7'),
        (b'"dur": 7', b'"dur": NaN'),
        (b'}, {"ph"', b'} {"ph"'),
        (b'"traceName"', b'"traceEvents": [], "traceName"'),
        (b', "traceName": "x"}', b""),
        (b"aten::op1", b"aten::\xff\xfe"),
    ],
)
@pytest.mark.parametrize("at_end", [False, True])
def test_a_damaged_trace_has_the_same_problems(damage: tuple[bytes, bytes], at_end: bool) -> None:
    data = trace([event(at) for at in range(50)])
    old, new = damage
    assert old in data
    data = new.join(data.rsplit(old, 1)) if at_end else data.replace(old, new, 1)
    assert in_parts(data, [0.3, 0.6])[0] == whole(data)


def test_an_unproven_border_is_refused_by_the_part_before_it() -> None:
    data = trace([event(at, args={"list": [{"a": 1}, {"b": 2}]}) for at in range(9)])
    begin = data.index(b"[") + 1
    inside = data.index(b'}, {"b"', begin) + 1
    assert trace_file.read_part(iter([data[begin:inside]]), begin) is None


@pytest.fixture
def workers() -> Iterator[None]:
    token = WORKERS.set(3)
    yield
    WORKERS.reset(token)


def test_processes_read_a_file_in_parts(folder: Path, monkeypatch: pytest.MonkeyPatch, workers: None) -> None:
    path = folder / "trace.json"
    path.write_bytes(trace([event(at) for at in range(3000)]))
    alone = inputs.read_runs([str(path)])
    monkeypatch.setattr(inputs, "WORTH_PARTS", 0)
    joined = []
    join = trace_file.PartsElsewhere.join
    monkeypatch.setattr(trace_file.PartsElsewhere, "join", lambda self, *own: joined.append(own) or join(self, *own))
    together = inputs.read_runs([str(path)])
    assert len(joined) == 1
    assert (content(together), together[0].files) == (content(alone), alone[0].files)
    path.write_bytes(path.read_bytes().replace(b'"dur": 7', b'"dur": -7', 1))
    assert "impossible time" in str(content(inputs.read_runs([str(path)])))


def test_a_large_file_that_cannot_be_opened_is_one_problem(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, *_: object) -> None:
        raise PermissionError(EACCES, "Permission denied", path)

    (folder / "trace.json").write_bytes(trace([event(0)]))
    monkeypatch.setattr(inputs, "WORTH_PARTS", 0)
    monkeypatch.setattr("builtins.open", refuse)
    monkeypatch.setattr(os, "open", refuse)
    (run,) = inputs.read_runs(["trace.json"])
    assert [str(problem) for problem in run.problems] == ["trace.json: error: cannot be read: Permission denied"]
