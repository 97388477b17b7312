"""Files of a team's own tools, read through mappings: one folder a case.

A case is a `perfgate.yaml`, data files, and `expected.txt`, which has what was read of each file, with every problem.
`UPDATE_GOLDEN=1 pytest tests/mappings` writes `expected.txt` anew.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from perfgate.core import Run, Series
from perfgate.core.resource_limits import parse_limits
from perfgate.core.wording import MAPPING_FILE
from perfgate.mappings.choose import read_with_mappings
from perfgate.mappings.document import load_mappings
from perfgate.readers import Source

CASES = sorted((Path(__file__).parent / "cases").iterdir())


@pytest.mark.parametrize("folder", CASES, ids=lambda path: path.name)
def test_what_a_mapping_reads(folder: Path) -> None:
    mappings, problems = load_mappings([(MAPPING_FILE, (folder / MAPPING_FILE).read_bytes())])
    lines = [line for problem in problems for line in str(problem).splitlines()]
    for path in sorted(folder.iterdir()) if not problems else ():
        if path.name not in (MAPPING_FILE, "expected.txt"):
            for run in read_with_mappings(Source(path.name, [path.read_bytes()]), mappings):
                lines += shown(run)
    expected = folder / "expected.txt"
    text = "\n".join(lines) + "\n"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8"), f"{expected} differs; UPDATE_GOLDEN=1 writes it anew"


def changed(data: bytes, chance: random.Random) -> bytes:
    """The data with a piece taken out, put in or replaced."""
    at, length = chance.randrange(len(data) + 1), chance.randrange(9)
    piece = chance.choice(
        [b"", b"\0", b"\n", b"[", b"}", b'"', b"null", b"1e999", b"NaN", b"-1", b",", b"\xff", b"9" * 400]
    )
    return data[:at] + piece + data[at + length :]


@pytest.mark.parametrize("folder", CASES, ids=lambda path: path.name)
def test_damaged_files_and_mappings_are_errors_or_have_values(folder: Path) -> None:
    chance, mapping = random.Random(1), (folder / MAPPING_FILE).read_bytes()
    files = [path for path in folder.iterdir() if path.name not in (MAPPING_FILE, "expected.txt")]
    for number in range(20):
        mappings, problems = load_mappings([(MAPPING_FILE, changed(mapping, chance) if number % 2 else mapping)])
        assert mappings or problems
        for path in files if mappings else ():
            runs = read_with_mappings(Source(path.name, [changed(path.read_bytes(), chance)]), mappings)
            assert all(run.series or any(one.severity == "error" for one in run.problems) for run in runs)


def shown(run: Run) -> list[str]:
    """A run as lines."""
    facts = ", ".join(f"{name} {value}" for name, value in run.environment.items())
    commit = f", commit {run.commit}" if run.commit else ""
    partial = ", partial" if run.partial else ""
    return [
        f"{run.name}: {run.format}, {run.recognised_by}{commit}{partial}" + (f"; {facts}" if facts else ""),
        *(f"  {line(series)}" for series in sorted(run.series, key=lambda one: one.key)),
        *(f"  {problem}" for problem in run.problems),
    ]


def line(series: Series) -> str:
    values = ", ".join(f"{value:g}" for value in series.values)
    steps = "" if series.steps is None else f" at steps {', '.join(map(str, series.steps))}"
    return f"{series.key} = {values if series.kind == 'value' else f'[{values}]'} {series.unit}{steps}"


def test_a_file_beyond_a_limit_is_refused_by_name() -> None:
    mappings, _ = load_mappings([(MAPPING_FILE, b'mappings: [{files: "*.json", json: "$.{metric}", unit: ms}]')])
    data = b"{" + b",".join(b'"m%d": 1' % number for number in range(30)) + b"}"
    (run,) = read_with_mappings(Source("b.json", [data], parse_limits("series=20")), mappings)
    assert [problem.message for problem in run.problems] == [
        "reading stops here: this file has more series than the limit series=20 allows;"
        " to raise the limit, set PERFGATE_LIMITS=series=40"
    ]
