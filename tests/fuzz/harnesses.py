"""One check for each parser that every input must pass. A check raises AssertionError, or nothing at all."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from seeds import FORMATS, HISTORIES, RULES
from seeds_databases import NSYS, ROCPD, database
from seeds_profiles import PROFILES

from perfgate.baselines.files import STORED_RUN, BaselineFile, StoredLevel, StoredSeries, StoredSource
from perfgate.cli.entry import run as command_line
from perfgate.core import Key, Run
from perfgate.core.remembered_runs import HistoryRecord, HistoryRun, HistoryValue, SeriesName
from perfgate.history.files import decode, month_file, records_of
from perfgate.history.imports import IMPORTERS
from perfgate.history.imports.imported_runs import ImportFile, utc_time
from perfgate.history.records import run_file
from perfgate.readers import Source, read
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset

#: What the runner of GitHub Actions takes for a command: the parsers of `ActionCommand.cs`, new and old.
_COMMAND = re.compile(r"^\s*::[A-Za-z]|##\[", re.MULTILINE)


#: One input of so many is read again in two pieces, and without its end.
CUT = 4


@dataclass(frozen=True)
class Harness:
    """A parser: what its inputs are made from, and what must hold for each of them."""

    seeds: tuple[bytes, ...]
    check: Callable[[bytes], None]


def check_reader(data: bytes, format: str | None = None) -> None:
    """Nothing raises, no value is impossible, a file without values is an error; pieces do not matter."""
    runs = read(Source("f", [data]), format)
    for run in runs:
        assert run.series or any(problem.severity == "error" for problem in run.problems), "an empty success"
        assert all(problem.at.file == "f" for problem in run.problems)
        for series in run.series:
            # A huge value may be infinite in base units: the judge refuses it.
            assert not np.isnan(series.values).any(), "a value that is no number"
            assert series.unit != "s" or (series.values >= 0).all(), "a negative time"
            assert series.steps is None or len(series.steps) == len(series.values)
    if zlib.crc32(data) % CUT:
        return
    if format is not None:
        check_prefix(data, format, runs)
    at = len(data) // 2
    assert [*map(_content, read(Source("f", [data[:at], data[at:]]), format))] == [*map(_content, runs)]


def check_prefix(data: bytes, format: str, runs: Sequence[Run]) -> None:
    """Of what a document begins with, the same values are read: the last may be missing, and none is another."""
    at = zlib.crc32(data) % (len(data) + 1)
    for before, whole in zip(read(Source("f", [data[:at]]), format), runs, strict=False):
        known = {series.key: series for series in whole.series}
        for series in before.series:
            other = known.get(series.key)
            if other is None:  # a second one of its kind has told it apart, or a restart took it away
                continue
            # An error that says which counts, or a mean of lines, of which the cut took some.
            if any(word in one.message for one in whole.problems for word in ("occurs twice", "is printed again")):
                continue
            n = len(series.values)
            same = series.values.tolist() == other.values[:n].tolist() and series.unit == other.unit
            assert same, f"{series.key}: other values before byte {at}"
            assert (series.steps is None) == (other.steps is None), f"{series.key}: steps before byte {at}"
            # What stands before the end of the first step is known to belong to it only when that end has been read.
            if series.steps is not None and other.steps is not None and other.steps[:n].any():
                assert series.steps.tolist() == other.steps[:n].tolist(), f"{series.key}: other steps before byte {at}"
            more = {name: value for name, value in series.aggregate.items() if other.aggregate.get(name) != value}
            assert not more, f"{series.key}: another {[*more]} before byte {at}"


def _content(run: Run) -> object:
    series = {str(one.key): (one.unit, one.kind, one.values.tolist(), dict(one.aggregate)) for one in run.series}
    return series, [str(problem) for problem in run.problems]


def check_rules(data: bytes) -> None:
    """A rule file is rules or errors, and every problem has a place."""
    ruleset, problems = load_rules([("rules.yaml", data)])
    assert (ruleset is None) == any(one.severity == "error" for one in problems), "neither rules nor errors, or both"
    assert all(problem.at.file == "rules.yaml" and problem.message for problem in problems)


def _baseline() -> BaselineFile:
    series = [
        StoredSeries("a", "s", "samples", {"rank": "0"}, [0.5, 0.25], None),
        StoredSeries("b", "B", "aggregate", aggregate={"mean": 1.0, "count": 2.0}),
    ]
    level = StoredLevel("2026-01-01-abcdef01", None, "first", "ada", None, True)
    source = StoredSource("a.log", "timeit", "0" * 64)
    return BaselineFile(
        "perfgate.baseline/1", "0", "s", "2026-01-01T00:00:00Z", None, level, "ada", {"gpu": "H200"}, {"torch": "2"},
        "timeit", [source], series,
    )  # fmt: skip


def check_baseline(data: bytes) -> None:
    """A file that was altered is refused: only the same content, written otherwise, is read."""
    stored, problems = STORED_RUN.decode("b.json", data)
    assert (stored is None) == bool(problems)
    if stored is not None:
        assert STORED_RUN.encode(stored) == STORED_RUN.encode(_baseline()), "an altered baseline was accepted"


def _record(number: int) -> HistoryRecord:
    name = SeriesName(Key("forward"), "median")
    value = HistoryValue(name, "s", "lower", "samples", 0.1 + number / 100, 0.001, 200, 150.5)
    run = HistoryRun(
        f"{number:016x}", f"2026-01-0{number + 1}T00:00:00Z", "4f2a9c1", "main", ("v1",), {"driver": "570"}
    )
    return HistoryRecord("s", {"gpu": "H200", "gpu_count": None}, run, (value,))


_HISTORY = (run_file(_record(0), "perfgate"), month_file([_record(0), _record(1)], "perfgate"))


def check_history(data: bytes) -> None:
    """A file that was altered is refused: only the same content is read."""
    file, problems = decode("h.json", data)
    assert (file is None) == bool(problems)
    if file is not None:
        known = [record for part in _HISTORY for record in records_of(decode("h.json", part)[0] or file)]
        assert all(record in known for record in records_of(file)), "an altered history was accepted"


def check_import(data: bytes) -> None:
    """Whatever a file contains: runs with finite numbers and real times, or problems, and no exception."""
    text, ruleset = data.decode("utf-8", "replace"), Ruleset("s", (), {})
    for importer in IMPORTERS:
        importer.claims("f", text)
        lines = text.splitlines(keepends=True)
        found = importer.read(ImportFile("f", partial(iter, lines), ruleset, time="2026-01-01T00:00:00Z"))
        for run in found.runs:
            assert utc_time(run.time) == run.time
            assert all(math.isfinite(value.value) for value in run.values)


def check_command(data: bytes) -> None:
    """`perfgate check` on any file: no internal error, no 0 beside an error-level problem, no commands in reports."""
    Path("run").write_bytes(data)
    runs = read(Source("run", [data]))
    damaged = any(p.severity == "error" and p.key is None for run in runs for p in run.problems)
    code, said = _perfgate("check", "run", "--junit", "j.xml", "--json", "r.json")
    assert code in (0, 1, 2, 3), f"exit {code}: {said[-300:]}"
    assert not (damaged and code in (0, 1)), f"exit {code} on damaged input"
    assert not _COMMAND.search(said), "a command for the runner"
    code, said = _perfgate("check", "run", "--markdown", "-")
    assert not _COMMAND.search(said), "a command for the runner in Markdown"
    code, said = _perfgate("inspect", "run")
    assert code == (3 if any(not run.series or _has_error(run) for run in runs) else 0)


def _has_error(run: Run) -> bool:
    return any(problem.severity == "error" for problem in run.problems)


def _perfgate(*words: str) -> tuple[int, str]:
    """The command line in a folder with rules that every metric of time passes."""
    if not os.path.isdir("rules"):
        os.mkdir("rules")
        Path("rules/r.yaml").write_text("version: 1\nrules:\n  - '* under 1 h'\n  - f* within 5% of baseline\n")
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = command_line([*words])
    return code, said.getvalue()


def _reader(format: str) -> Harness:
    return Harness(tuple(_bytes(text) for text in FORMATS[format]), lambda data: check_reader(data, format))


def _bytes(seed: str | bytes) -> bytes:
    return seed if isinstance(seed, bytes) else seed.encode()


_ALL = tuple(_bytes(text) for texts in FORMATS.values() for text in texts)

HARNESSES: dict[str, Harness] = {
    "rules": Harness(tuple(text.encode() for text in RULES), check_rules),
    "baselines": Harness((STORED_RUN.encode(_baseline()),), check_baseline),
    "history": Harness(_HISTORY, check_history),
    "history imports": Harness(tuple(text.encode() for text in HISTORIES), check_import),
    "recognition": Harness(_ALL, check_reader),
    "command": Harness(_ALL, check_command),
    "rocpd": Harness((database(ROCPD),), check_reader),
    "nsys-sqlite": Harness((database(NSYS),), check_reader),
    **{format: Harness(seeds, check_reader) for format, seeds in PROFILES.items()},
    **{format: _reader(format) for format in FORMATS},
}
