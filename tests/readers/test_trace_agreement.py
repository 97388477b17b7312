"""The reader of Chrome traces against the oracle: on real traces, on torch's own, and on random ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from reading import SHARED
from trace_comparison import EXACT, LOOSE, check
from trace_events import load
from trace_texts import traces

from perfgate.readers import Source, read

pytest.importorskip("perfgate.readers.trace")

FIXTURES = Path(__file__).parent / "fixtures/traces"


@pytest.mark.parametrize("path", sorted(FIXTURES.rglob("*.gz")), ids=lambda path: path.relative_to(FIXTURES).as_posix())
def test_traces_of_torch(path):
    check(path.name, path.read_bytes(), EXACT)


def corpus():
    folder = SHARED / "corpus/chrome-trace"
    return sorted([*folder.glob("*.json"), *folder.glob("*.json.gz")]) if folder.is_dir() else []


@pytest.mark.shared
@pytest.mark.parametrize("path", corpus(), ids=lambda path: path.name[:60])
def test_real_traces(path):
    data = path.read_bytes()
    if "traceEvents" in load(data):
        check(path.name, data, LOOSE)
    else:
        (run,) = read(Source(path.name, [data]))
        assert run.series == ()
        assert any(problem.severity == "error" for problem in run.problems)


# --- random ones -------------------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(traces())
def test_random_traces(text):
    check("trace.json", text.encode(), EXACT)


@settings(max_examples=60, deadline=None)
@given(traces())
def test_the_pieces_that_a_file_comes_in_do_not_matter(text):
    check("trace.json", text.encode(), EXACT, chunk=7)
