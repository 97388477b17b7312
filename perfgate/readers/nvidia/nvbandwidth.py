"""nvbandwidth: what it prints, and its JSON (`--json`).

    Device 0: NVIDIA H100 80GB HBM3 (00000000:1b:00)
    Running host_to_device_memcpy_ce.
    memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
               0         1
     0     55.63     55.64

    SUM host_to_device_memcpy_ce 111.27              or, with a formatter: &&&& PERF host_to_device_memcpy_ce 111.27 ...

    {"nvbandwidth": {"version": "v0.8", "GPU Device list": ["0: NVIDIA H100 80GB HBM3 (..): (host)"], "testcases": [
      {"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["55.63", "55.64"]], "sum": 111.27,
       "bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)"}]}}

Source: NVIDIA/nvbandwidth 0.8 `output.cpp`, `json_output.cpp`, `inline_common.h`, `testcases_*.cpp`.

The metric is the test case, with the labels `row` and `column` as numbered in the matrix: B/s (GB are 10**9 bytes),
or s for latencies. A cell is the median (or mean) of the tool's samples, so a single value; `N/A` is a pair that was
not measured. `TEST.sum` is the printed sum. A bidirectional test has three matrices: `TEST_read1`, `TEST_read2` and
`TEST_total`, or `write`; its JSON has their rows one after another, and only the last sum, so the others are computed.
It is an error if the rows of a matrix do not add up to its sum, or if a test begins and has no matrix, or one without
a sum. Several outputs in one text are several runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from perfgate.core import Fact
from perfgate.readers.kit import AGAIN, Format, InputFile, Key, Path, Place, Run, RunBuilder, Runs
from perfgate.readers.records import Target, load, name_of, rows
from perfgate.readers.values import checked, items, mapping, number, shown

NAME = "nvbandwidth"
METRICS = "the test case, labelled with `row` and `column`, and `TEST.sum`"
CHECKED = "nvbandwidth 0.8's sources: generated tables and files; a log of a GH200"
FORMAT = Format(
    NAME,
    __name__,
    markers={
        "nvbandwidth Version: ": "",
        "bandwidth (GB/s)": r"^(?:\[[\d,]+\]<stdout>:)?(?:memcpy|multicast) .{1,80} bandwidth \(GB/s\)",
    },
    json=("of nvbandwidth", "nvbandwidth.testcases|nvbandwidth.version|nvbandwidth.error"),
)
_LAUNCHER = re.compile(r"\[\d{1,6},\d{1,6}\]<std(?:out|err)>:\s?")
_RUNNING = re.compile(r"Running (\w{1,99})\.\s*")
_SUM = re.compile(r"(?:SUM|&&&& PERF) (\S{1,120}) (\S{1,40})(?: .*)?")
_FAILED = re.compile(r"(?:Error|ERROR): (.{0,300})")
_DEVICE = re.compile(
    r"(?:Device|Process) +\d{1,6}(?: \([^()]{1,99}\): device \d{1,6})?: (\S.{0,99}?) \([0-9a-f:]{8,20}\)"
)
_LISTED = re.compile(r"\d{1,6}: (\S.{0,99}?) \([0-9a-f:]{8,20}\): .*")
_DRIVER = re.compile(r"Driver Version: (\S{1,40})")
_NOT_MEASURED = "N/A"
#: The first line of an output.
_BANNER = "nvbandwidth Version:"


class _Matrix(Struct):
    """The matrix of a test while it is read."""

    test: str
    line: int
    description: str = ""
    columns: list[str] = field(default_factory=list)
    #: Of each cell that was measured: the labels of its row and its column, its text, and its place.
    cells: list[tuple[str, str, str, Place]] = field(default_factory=list)

    def add(self, row: str, column: str, text: str, place: Place) -> None:
        """Add a cell, if it was measured."""
        if text != _NOT_MEASURED:
            self.cells.append((row, column, text, place))


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a file: one of a JSON document, and each output of the tool in a text."""
    if file.is_json():
        return (_json(file),)
    text = _Text(file)
    for at, line, _, ended in file.lines():
        text.line(at, _LAUNCHER.sub("", line).rstrip(), ended)
    text.finish()
    return text.runs.finish()


class _Text:
    """The tests of a printed output, line by line."""

    def __init__(self, file: InputFile) -> None:
        self.runs = Runs(lambda: RunBuilder(file, NAME))
        self.tests: set[str] = set()
        self.matrix: _Matrix | None = None
        #: Whether the test that runs has a matrix with its sum, or an error, already.
        self.has_result = False
        #: The name of each GPU of this run.
        self.gpus: list[str] = []

    def _begin(self, at: int, facts: Mapping[str, Fact]) -> None:
        """Begin another run, unless this one has measured nothing yet, and keep these facts in it."""
        self.runs.banner(at)
        self.runs.run.facts |= facts
        self.tests, self.gpus = set(), []

    def line(self, at: int, line: str, ended: bool) -> None:
        """Read one line of the output."""
        if line.startswith(_BANNER):
            self.finish()
            self._begin(at, {})
        elif found := _RUNNING.fullmatch(line):
            self.finish()
            if found[1] in self.tests:  # another output without its head
                self._begin(at, self.runs.run.facts)
            self.tests.add(found[1])
            self.matrix, self.has_result = _Matrix(found[1], at), False
        elif device := _DEVICE.match(line):
            self.gpus.append(device[1])
            self.runs.run.facts |= {"gpu_count": len(self.gpus), "gpu": " + ".join(sorted(set(self.gpus)))}
        elif driver := _DRIVER.match(line):
            self.runs.run.fact("driver", driver[1], at)
        elif self.matrix:
            self._result(self.matrix, at, line, ended)

    def finish(self) -> None:
        """End the test that runs; it is an error if it has no result, or a matrix without a sum."""
        if self.matrix and (self.matrix.cells or not self.has_result):
            what = "its matrix has no sum, so it may be cut off" if self.matrix.cells else "it has no result"
            self.runs.run.refuse(Key(self.matrix.test), f"this test began, but {what}", self.matrix.line)
        self.matrix = None

    def _result(self, matrix: _Matrix, at: int, line: str, ended: bool) -> None:
        """Read a line of a test that runs: its matrix, the sum, or why it failed."""
        words = line.split()
        if found := _SUM.fullmatch(line):
            if self.has_result and not matrix.columns:
                self.runs.run.refuse(Key(f"{found[1]}.sum"), "this sum has no matrix", at)
            elif ended:
                self.matrix, self.has_result = _Matrix(matrix.test, at), True  # a bidirectional test has more
                matrix.test = found[1]
                _add(self.runs.run, matrix, found[2], at)
        elif found := _FAILED.match(line):
            self.runs.run.refuse(Key(matrix.test), f"the test failed: {found[1].strip() or 'without a message'}", at)
            self.has_result = True
        elif not words:
            return
        elif matrix.columns:
            self._row(matrix, words[0], words[1:], at)
        elif matrix.description and line.startswith("  "):
            matrix.columns = words
        else:
            matrix.description = line

    def _row(self, matrix: _Matrix, row: str, texts: list[str], at: int) -> None:
        if not texts or any(text != _NOT_MEASURED and number(text) is None for text in texts):
            return  # another line
        if len(texts) != len(matrix.columns):
            message = f"a row has {len(texts)} cells, and its header has {len(matrix.columns)}"
            self.runs.run.refuse(Key(matrix.test), message, at)
        for column, text in zip(matrix.columns, texts, strict=False):
            matrix.add(row, column, text, at)


def _add(run: RunBuilder, matrix: _Matrix, total: object, at: Place) -> None:
    """Add the cells of a matrix and its sum, unless the run has it already."""
    key = Key(f"{matrix.test}.sum")
    if key in run.finished:
        run.refuse(key, AGAIN, at)
        return
    unit, per = ("s", 1e9) if "(ns)" in matrix.description else ("B/s", 1e-9)
    values = []
    for row, column, text, place in matrix.cells:
        value = number(text)
        if row != column or value != 0:  # a GPU and itself have 0 in older versions
            values.append(value or 0.0)
            run.value(Key.of(matrix.test, row=row, column=column), unit, text, place, per=per)
    run.value(key, unit, total, at, per=per)
    expected, fault = checked(total, unit)
    # the cells and their sum have two decimals, or six digits if they are large
    rounding = 0.005 * (len(values) + 1) + 1e-5 * (sum(map(abs, values)) + abs(expected))
    if not fault and abs(expected - sum(values)) > rounding:
        message = f"the sum is {expected:g}, but the rows add up to {sum(values):g}: a row is missing"
        run.refuse(key, message, at)


def _json(file: InputFile) -> Run:
    data, run = load(file, NAME)
    root = mapping(data.get("nvbandwidth"))
    names = [found[1] for one in items(root.get("GPU Device list")) if (found := _LISTED.match(str(one)))]
    if names:
        run.facts |= {"gpu_count": len(names), "gpu": " + ".join(sorted(set(names)))}
    if isinstance(driver := root.get("Driver Version"), str):
        run.facts["driver"] = driver[:40]
    if isinstance(error := root.get("error"), str):
        run.say("error", f"the tool failed: {error[:300]}", ("nvbandwidth", "error"))
    for place, test in rows(run, root, "nvbandwidth", "testcases"):
        if (name := name_of(run, test, place, "name")) is not None:
            _test(run, name, test, place)
    return run.run()


def _test(run: RunBuilder, name: str, test: Mapping[str, Any], place: Path) -> None:
    status = test.get("status")
    if status in ("Waived", "Not Found"):
        return
    if status != "Passed":
        Target(run, Key(name)).refuse(f"the test failed: {shown(test.get('error') or status)[:300]}", place)
        return
    listed = items(test.get("bandwidth_matrix"))
    description = str(test.get("bandwidth_description", ""))
    matrices = [_Matrix(name + part, 0, description) for part in _parts(name, description)]
    height, rest = divmod(len(listed), len(matrices))
    if not listed or rest:
        Target(run, Key(name)).refuse("the matrix of this test is empty or has a wrong number of rows", place)
        return
    for index, row in enumerate(listed):
        for column, text in enumerate(items(row)):
            path = (*place, "bandwidth_matrix", index, column)
            matrices[index // height].add(str(index % height), str(column), str(text), path)
    for matrix in matrices[:-1]:  # the document has only the sum of the last matrix
        _add(run, matrix, sum(number(text) or 0.0 for _, _, text, _ in matrix.cells), (*place, "sum"))
    _add(run, matrices[-1], test.get("sum"), (*place, "sum"))


def _parts(name: str, description: str) -> list[str]:
    """Return the ends of the names of a test's matrices: one, or three of a bidirectional test."""
    direction = re.search(r" (Read|Write)[12] | Total ", description)
    if not direction:
        return [""]
    # Multinode write tests are described as `Read1` too; the name of a test is right.
    kind = next((kind for kind in ("write", "read") if kind in name), (direction[1] or "").lower())
    return [f"_{kind}1", f"_{kind}2", "_total"]
