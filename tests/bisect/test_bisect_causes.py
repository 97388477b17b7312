"""The cause in the answer: the found commit and the one before it are measured until their traces show it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository

Command = Callable[..., Done]
TESTS = Path(__file__).resolve().parent.parent

#: A program that writes a trace of 12 steps; the work of `aten::addmm` takes `us`. With turns it also takes them.
PROGRAM = """
import os, sys, time
sys.path[:0] = [{tests!r} + "/causes", {root!r}]
from pathlib import Path
from made_traces import CPU_JOB, write
seed = 10 * int(os.environ["PERFGATE_RUN"]) + {number}
results = os.environ["PERFGATE_RESULTS"]
job = CPU_JOB.edited("aten::addmm", us={us}).edited("aten::gelu", name="{gelu}")
write(job.but(steps=12, seed=seed), Path(results) / "traces")
if {turns}:
    import perfgate
    with perfgate.Recorder(results + "/r.json") as recorder:
        for _ in range(16):
            with recorder.step_span():
                time.sleep({us} / 1e6)
"""


def commits(folder: Path, *us: int, turns: bool = False) -> list[str]:
    """Commits whose `aten::addmm` takes so long. All but the first call gelu by another name, in the same time."""
    repository, found = Repository(folder), []
    for number, one in enumerate(us):
        gelu = "aten::gelu_fast" if number and len(us) > 2 else "aten::gelu"
        text = PROGRAM.format(tests=str(TESTS), root=str(TESTS.parent), us=one, turns=turns, gelu=gelu, number=number)
        (folder / "bench.py").write_text(f"{text}# {number}\n")
        repository.git("add", "bench.py")
        repository.git("commit", "-q", "-m", f"Change {number}")
        found.append(repository.git("rev-parse", "HEAD"))
    return found


def answer(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "o.json").read_text())
    return found


def bisect(perfgate: Command, good: str, *words: str) -> Done:
    start = ("bisect", "--good", good, "--metric", "step.time", "--json", "o.json", "--markdown", "o.md")
    return perfgate(*start, *words, "--", sys.executable, "bench.py")


@pytest.mark.slow
def test_whole_runs_are_repeated_until_their_traces_name_the_cause(perfgate: Command, folder: Path) -> None:
    good, bad = commits(folder, 3000, 3400)
    done = bisect(perfgate, good, "--whole-runs")
    assert done.code == 0, done.said
    assert f"of {bad[:12]} and {good[:12]}, the one before it: for the cause" in done.err
    causes = answer(folder)["causes"]
    assert [(one["kind"], one["where"]) for one in causes] == [("slower", "forward/aten::addmm")]
    assert "slower: `forward / aten::addmm`" in (folder / "o.md").read_text()
    few = bisect(perfgate, good, "--whole-runs", "--max-runs", "2", "--keep", "other")
    assert "for the cause" not in few.err


@pytest.mark.slow
def test_pairs_of_just_the_two_name_the_cause(perfgate: Command, folder: Path) -> None:
    """The first commit calls something else in the same time, so pairs with it would name another cause, too."""
    shas = commits(folder, 3000, 3000, 4500, 4500, turns=True)
    done = bisect(perfgate, shas[0])
    assert done.code == 0, done.said
    found = answer(folder)
    causes = found["causes"]
    assert [(one["kind"], one["where"]) for one in causes] == [("slower", "forward/aten::addmm")]
    assert f"of {shas[2][:12]} and {shas[1][:12]}, the one before it, were measured for the cause" in str(
        found["notes"]
    )
    before = len(list((folder / "perfgate-bisect/measurements").iterdir()))
    assert bisect(perfgate, shas[0]).code == 0
    assert len(list((folder / "perfgate-bisect/measurements").iterdir())) == before
