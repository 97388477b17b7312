"""Proposed mappings: what is proposed for files that people write, and that every proposal works when it is pasted.

A file of `suggested/` is proposed the mapping in `FILE.expected`. `UPDATE_GOLDEN=1` writes it anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done
from hypothesis import example, given
from hypothesis import strategies as st

from perfgate.core.wording import MAPPING_FILE
from perfgate.mappings.choose import read_with_mappings
from perfgate.mappings.document import load_mappings
from perfgate.mappings.suggest import glob_of, suggest
from perfgate.readers import Source
from perfgate.reporters.inspection import render_suggestions

Command = Callable[..., Done]
FILES = sorted(path for path in (Path(__file__).parent / "suggested").iterdir() if path.suffix != ".expected")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_is_proposed(path: Path) -> None:
    found = suggest(path.name, path.read_bytes())
    text = render_suggestions([found]) if found else "nothing\n"
    expected = path.with_name(f"{path.name}.expected")
    if os.environ.get("UPDATE_GOLDEN") == "1":
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8"), f"{expected} differs; UPDATE_GOLDEN=1 writes it anew"


NAMES = st.sampled_from(
    [
        "forward_ms",
        "tok/s",
        "loss",
        "peak gb",
        "p99.9_us",
        "yes",
        "a: b",
        "#x",
        "batch_size",
        "été",
        "x'y",
        "[0]",
        "m{n}",
    ]
)
NUMBERS = st.floats(0.001, 1e6, allow_nan=False) | st.integers(1, 1000)
SCALARS = NUMBERS | st.sampled_from(["bf16", "llama 8B", "12.5 ms", "true", "2026-01-01", "- x", "", "{a}", "a, b"])
RECORDS = st.dictionaries(NAMES, SCALARS | st.lists(NUMBERS, min_size=1, max_size=3), min_size=1, max_size=5)
DOCUMENTS = (
    RECORDS | st.lists(RECORDS, min_size=1, max_size=4) | st.dictionaries(NAMES, RECORDS, min_size=1, max_size=3)
)
CONTENTS = (
    DOCUMENTS.map(json.dumps)
    | st.lists(RECORDS, min_size=2, max_size=4).map(lambda rows: "\n".join(map(json.dumps, rows)) + "\n")
    | st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2).map(
        lambda rows: "a: b,x_ms\n" + "".join(f"{one},{other}\n" for one, other in rows)
    )
    | st.lists(st.tuples(NUMBERS, NUMBERS), min_size=2).map(
        lambda rows: "".join(f'it {one} "took" {other} ms # {{x}}\n' for one, other in rows)
    )
)


@given(CONTENTS)
@example('[{"optional": "true", "ms": 3}, {"optional": "false", "ms": 4}]')
def test_a_proposal_works_when_it_is_pasted(content: str) -> None:
    found = suggest("bench.txt", content.encode())
    if found is None or not found.metrics:
        return
    mappings, problems = load_mappings([(MAPPING_FILE, render_suggestions([found]).encode())])
    assert problems == []
    runs = read_with_mappings(Source("bench.txt", [content.encode()]), mappings)
    assert sum(len(series.values) for run in runs for series in run.series) == found.values > 0


@pytest.mark.parametrize(
    ("name", "glob"),
    [
        ("bench.json", "bench.json"),
        ("out/benchmark_results_17.json", "benchmark_results_*.json"),
        ("bench_2026-01-01T12:00.json", "bench_*.json"),
        ("H100.json", "H100.json"),
        ("3.json", "3.json"),
        ("a[1].csv", "a?1?.csv"),
        ("b200_fp8.log", "b200_fp8.log"),
    ],
)
def test_a_glob_covers_other_numbers(name: str, glob: str) -> None:
    assert glob_of(name) == glob


def test_the_way_from_an_unknown_file_to_its_numbers(folder: Path, perfgate: Command) -> None:
    (folder / "bench 1.json").write_text('{"forward_ms": 12.5, "backward_ms": 30}')
    unknown = perfgate("inspect", "bench 1.json")
    assert (unknown.code, "perfgate inspect --suggest 'bench 1.json'" in unknown.out) == (3, True)
    assert "perfgate inspect --suggest" in perfgate("init", "bench 1.json").said
    proposed = perfgate("inspect", "--suggest", "bench 1.json")
    assert (proposed.code, "# bench 1.json: 2 metrics, 2 values" in proposed.out) == (0, True)
    (folder / "rules").mkdir()
    (folder / "rules/perfgate.yaml").write_text(proposed.out)
    assert perfgate("inspect", "bench 1.json").code == 0
    again = perfgate("inspect", "--suggest", "bench 1.json")
    assert (again.code, "needs no mapping" in again.said) == (2, True)


def test_a_shell_may_make_the_file_before_the_proposal_is_written(folder: Path, perfgate: Command) -> None:
    (folder / "a.json").write_text('{"forward_ms": 12.5}')
    (folder / "rules").mkdir()
    (folder / "rules/perfgate.yaml").touch()
    done = perfgate("inspect", "--suggest", "a.json")
    assert (done.code, "files: a.json" in done.out) == (0, True), done.said
    assert "the file is empty" in perfgate("inspect", "a.json").said


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("b.json", "b.json: cannot be read: file not found; did you mean a.json?"),
        ("rules", "rules: --suggest needs a file, because"),
        ("https://example.org/a.json?token=1", "https://example.org/a.json: --suggest needs a file of this machine"),
    ],
)
def test_a_proposal_needs_a_file(folder: Path, perfgate: Command, path: str, said: str) -> None:
    (folder / "a.json").write_text("{}")
    (folder / "rules").mkdir()
    done = perfgate("inspect", "--suggest", path)
    assert (done.code, said in " ".join(done.err.split())) == (2, True), done.said


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("[1, 2", 3, "no mapping can be proposed"),
        ("", 3, "no mapping can be proposed"),
        ('{"schema": "perfgate.results/1", "series": []}', 2, "perfgate reads it as perfgate"),
    ],
)
def test_nothing_is_proposed(folder: Path, perfgate: Command, text: str, code: int, said: str) -> None:
    (folder / "a.json").write_text(text)
    done = perfgate("inspect", "--suggest", "a.json")
    assert (done.code, said in " ".join(done.said.split())) == (code, True), done.said
