"""A look of `perfgate run` reads what is new and nothing else, and says the same as `perfgate check`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Done, write_log, write_rules
from programs import hooked, plain

from perfgate.core import Location, Problem, Run, SourceFile
from perfgate.core.coverage import Coverage
from perfgate.workspace.input_files import RunsOfPath
from perfgate.workspace.options import shown_path

Command = Callable[..., Done]

#: The counters of the test that runs. A hook cannot be removed, so it counts only if there is one.
_COUNTERS: list[Counter[str]] = []


def _note(event: str, words: tuple[object, ...]) -> None:
    """Count the files that are opened to be read."""
    if _COUNTERS and event == "open":
        path, mode, flags = words
        is_read = mode in ("r", "rb") if mode is not None else not int(str(flags)) & (os.O_WRONLY | os.O_RDWR)
        if is_read and isinstance(path, (str, Path)) and os.path.isfile(path):
            _COUNTERS[0][os.path.relpath(path)] += 1


sys.addaudithook(_note)


def _without_commands(report: str) -> dict[str, object]:
    """A report without the steps that accept it: after `run`, they need not name its files."""
    document = json.loads(Path(report).read_text())
    verdicts = [{**one, "next": None, "next_step": None} for one in document["verdicts"]]
    return {**document, "verdicts": verdicts, "accept": None, "approve_command": None}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """The number of times that each file was opened to be read."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parent.parent.parent))
    _COUNTERS.append(Counter())
    yield _COUNTERS[0]
    _COUNTERS.clear()


def runs(folder: Path) -> tuple[list[str], str]:
    return ["--runs", "4", "--", *plain(folder, 100.3)], "run-*.log"


def pairs(folder: Path) -> tuple[list[str], str]:
    """Pairs whose change is the tolerance, so that one pair is never enough."""
    base, new = (shlex.join(hooked(folder, factor=factor, name=f"{factor}.py")) for factor in ("1", "1.05"))
    return ["--paired", "--runs", "4", "--base", base, "--new", new], "pair-*.json"


def reruns(folder: Path) -> tuple[list[str], str]:
    """The first and the last run are read where they were written; the first one moves after that."""
    program = f"{shlex.join(plain(folder, 100.3))} > out.log"
    return ["--reruns", "2", "--results", "out.log", "--", "sh", "-c", program], "*/out.log"


@pytest.mark.parametrize("way", [runs, pairs, reruns])
def test_each_file_is_read_once_and_a_check_of_the_kept_files_says_the_same(
    perfgate: Command, folder: Path, read: Counter[str], way: Callable[[Path], tuple[list[str], str]]
) -> None:
    write_rules(folder, "step.time within 5% of baseline" if way is pairs else "forward within 0.2% of baseline")
    (folder / "rules/perfgate.yaml").write_text("mappings: [{files: '*.bench', json: $, metrics: {t: ms}}]\n")
    base = [write_log(folder / f"base{i}.log", forward=[100.0 + 0.01 * i] * 50 + [100.1] * 50) for i in range(2)]
    assert perfgate("baseline", "approve", *base, "--reason", "first", "--env", "gpu=H200").code == 0
    options, kept = way(folder)
    read.clear()
    done = perfgate("run", "--env", "gpu=H200", "--json", "run.json", *options)
    results = sorted(str(path) for path in Path("perfgate-runs").glob(kept))
    once = {str(path) for name in ("rules", "baselines") for path in Path(name).rglob("*.*") if path.is_file()}
    if way is reruns:
        results.append("out.log")
        assert read["out.log"] == 2
        assert read["perfgate-runs/1/out.log"] == 0
        once.add("perfgate-runs/2/out.log")
    else:
        once |= {*results}
    assert (len(results) > 1, len(once) > 4) == (True, True), done.said
    assert {name: read[name] for name in once} == dict.fromkeys(once, 1)
    assert [name for name, n in read.items() if name.startswith("perfgate-runs/") and n > 1] == []
    looks = () if way is reruns else ("--looks", "4")
    env = [f"--env=perfgate-runs/machine-{when}.json" for when in ("before", "after")]
    perfgate("check", *results, *looks, *env, "--env", "gpu=H200", "--json", "check.json")
    assert _without_commands("run.json") == _without_commands("check.json")


def test_a_run_that_moved_has_the_names_of_its_new_place() -> None:
    message = "forward is in both {0}/a.log and {0}/b.log; using the first: not what the layout says"

    def runs_of(path: str) -> RunsOfPath:
        problem = Problem("error", message.format(path), Location(f"{path}/b.log", 3))
        files = tuple(SourceFile(f"{path}{name}", "deepspeed", "0") for name in ("/a.log", "/b.log", ".machine"))
        coverage = (Coverage(8, file=f"{path}/a.log"),)
        return RunsOfPath(path, (Run(path, "deepspeed", (), (problem,), files=files, coverage=coverage),), ("0",))

    assert runs_of("out").at("kept/1/out") == runs_of("kept/1/out")


@pytest.mark.parametrize(
    ("path", "shown"), [("..data/r.json", "..data/r.json"), ("../x/r.json", "r.json"), ("a/../r.json", "r.json")]
)
def test_only_a_path_outside_of_the_folder_is_its_bare_name(folder: Path, path: str, shown: str) -> None:
    assert shown_path(path) == shown
