"""Files that were written here after the source of a tool, each beside what is read from it.

`written/FORMAT/FILE` has the golden file `FILE.golden`; UPDATE_GOLDEN=1 writes it. The fuzzer begins with these files,
too.
"""

import os
from pathlib import Path

import pytest
from damage import check_changes, check_pieces
from reading import runs_of

from perfgate.core import Run, Series

FOLDER = Path(__file__).parent / "written"
FILES = sorted(path for path in FOLDER.glob("*/*") if path.suffix != ".golden")


def described(run: Run) -> list[str]:
    facts = [f"fact {name} = {value}" for name, value in run.environment.items()]
    series = sorted(_series(one) for one in run.series)
    return [f"run {run.part or 1}", *facts, *series, *(str(problem) for problem in run.problems), ""]


def _series(one: Series) -> str:
    if one.kind == "aggregate":
        values = ", ".join(f"{name} {value:.9g}" for name, value in sorted(one.aggregate.items()))
    else:
        values = ", ".join(f"{value:.9g}" for value in one.values)
    steps = "" if one.steps is None else f" at steps {', '.join(map(str, one.steps))}"
    return f"{one.key} [{one.unit}] {one.kind}: {values}{steps}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_is_read_from_a_file(path):
    runs = runs_of(path.read_bytes(), name=path.name)
    assert {run.format for run in runs} == {path.parent.name}
    text = "\n".join(line for run in runs for line in described(run))
    golden = path.with_name(f"{path.name}.golden")
    if os.environ.get("UPDATE_GOLDEN") == "1":
        golden.write_text(text, encoding="utf-8", newline="\n")
    assert text == golden.read_text(encoding="utf-8"), f"{golden} differs; UPDATE_GOLDEN=1 writes it anew"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_damaged_files(path):
    text = path.read_text(encoding="utf-8")
    check_pieces(text, path.parent.name)
    check_changes(text, path.parent.name, times=20)
