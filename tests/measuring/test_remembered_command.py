"""The command in rules/perfgate.yaml: `run`, `bisect`, `doctor` and `check` take it, and a policy ref decides it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, steady, write_log, write_rules

from perfgate.commands.doctor import remembered_plan
from perfgate.workspace.options import CommandOptions

Command = Callable[..., Done]
SCRIPT = "import os, sys\nprint(f'step 1 took {sys.argv[1]} ms', os.environ.get('MODE'), file=open('t.log', 'w'))\n"


def remember(folder: Path, milliseconds: int, more: str = "") -> None:
    (folder / "rules" / "perfgate.yaml").write_text(
        f"run:\n  command: {sys.executable} bench.py {milliseconds}\n  results: t.log\n{more}"
        "mappings:\n  - {files: t.log, lines: 'took {took} ms', metrics: {took: ms}}\n"
    )


@pytest.fixture
def remembering(folder: Path) -> Repository:
    """A repository whose rules remember a command that takes 5 ms."""
    repository = Repository(folder)
    write_rules(folder, "took under 10 ms")
    (folder / "bench.py").write_text(SCRIPT)
    remember(folder, 5)
    (folder / "baselines").mkdir()
    (folder / "baselines" / "README.md").write_text("")
    repository.git("add", "bench.py")
    repository.commit("a gate")
    return repository


def test_run_and_check_need_no_arguments(perfgate: Command, remembering: Repository) -> None:
    done = perfgate("check")
    assert (done.code, "make runs with `perfgate run`" in done.err) == (2, True)
    assert perfgate("run").code == 0
    assert perfgate("check").code == 0
    remember(remembering.folder, 15, "  env: {MODE: fast}\n")
    assert perfgate("run").code == 1
    assert "fast" in next(Path("perfgate-runs").glob("run-*/t.log")).read_text()
    assert perfgate("check").code == 1


def test_a_given_command_wins(perfgate: Command, remembering: Repository) -> None:
    done = perfgate("run", "--results", "t.log", "--", sys.executable, "bench.py", "20")
    assert done.code == 1


def test_failed_runs_are_not_judged(perfgate: Command, remembering: Repository) -> None:
    (remembering.folder / "bench.py").write_text("raise SystemExit(3)\n")
    assert perfgate("run").code == 3
    done = perfgate("check")
    assert (done.code, "perfgate-runs/ has none" in done.err) == (2, True)


def test_a_pull_request_is_measured_by_the_command_of_its_base(perfgate: Command, remembering: Repository) -> None:
    """A change that also makes the command easier is measured as the base says, and the report names it."""
    remembering.git("switch", "-q", "-c", "change")
    (remembering.folder / "bench.py").write_text(SCRIPT.replace("{sys.argv[1]}", "{3 * int(sys.argv[1])}"))
    remember(remembering.folder, 1)
    remembering.git("add", "bench.py")
    remembering.commit("measure less")
    assert perfgate("run").code == 0
    done = perfgate("run", "--policy-ref", "main", "--json", "report.json")
    assert done.code == 1
    changes = json.loads(Path("report.json").read_text())["policy"]["changes"]
    said = [change["message"] for change in changes if "command" in change["message"]]
    words = [f"{sys.executable} bench.py {number}, results t.log" for number in (5, 1)]
    assert said == [f"changes the command that measures: {words[0]} → {words[1]}"]
    assert said[0] in " ".join(perfgate("rules", "diff", "main").out.split())


def test_pairs_have_a_base_by_themselves(perfgate: Command, remembering: Repository) -> None:
    write_rules(remembering.folder, "took within 5% of baseline")
    base = remembering.commit("compare")
    same = f"the base is {base[:12]}, HEAD, and no tracked file differs from it"
    assert same in " ".join(perfgate("run", "--paired", "--runs", "1").err.split())
    remembering.git("switch", "-q", "-c", "change")
    (remembering.folder / "bench.py").write_text(SCRIPT + "# changed\n")
    done = perfgate("run", "--paired", "--runs", "1")
    assert f"the base is {base[:12]}, HEAD\n" in done.err
    remembering.git("commit", "-q", "-a", "-m", "change")
    done = perfgate("run", "--paired", "--runs", "1")
    assert f"the base is {base[:12]}, the merge base with main" in done.err
    assert Path("perfgate-runs/pair-001.json").is_file()


def test_bisect_and_doctor_take_it(folder: Path, perfgate: Command, remembering: Repository) -> None:
    remember(folder, 5, "  build: make\n  env: {MODE: fast}\n")
    plan = remembered_plan((), (), 9.0, CommandOptions())
    assert plan is not None
    assert (plan.words[1:], plan.results, dict(plan.environment)) == (("bench.py", "5"), ("t.log",), {"MODE": "fast"})
    assert [mapping.name for mapping in plan.mappings] == ["t"]
    given = remembered_plan(("true",), (), 9.0, CommandOptions())
    assert given is not None
    assert (given.words, given.results) == (("true",), ())
    done = perfgate("bisect", "--good", "HEAD", "--bad", "HEAD", "--metric", "took")
    assert "give the command" not in done.said


def test_what_a_run_kept_needs_no_names(perfgate: Command, repository: Repository) -> None:
    """Its report says `baseline approve` without files, `explain` finds the report, and `check` says how old it is."""
    folder = repository.folder
    write_rules(folder, "forward under 90 ms", "forward within 5% of baseline")
    base = [write_log(folder / f"base{i}.log", forward=steady(80, seed=i)) for i in range(3)]
    assert perfgate("baseline", "approve", *base, "--reason", "first").code == 0
    for number in (1, 2):
        write_log(folder / f"slow{number}.log", forward=steady(100, seed=10 + number))
    done = perfgate("run", "--runs", "2", "--", "cat", "slow{run}.log")
    assert done.code == 1, done.said
    assert 'perfgate baseline approve --reason "..."' in " ".join(done.out.split())
    assert "forward median on rank 0 under 90 ms: FAIL" in perfgate("explain", "forward").out
    assert "`perfgate run` measures again" in perfgate("check").err
    done = perfgate("baseline", "approve", "--reason", "slower")
    assert (done.code, "approving perfgate-runs/run-001.log and 1 more, measured" in done.err) == (0, True)


def test_rules_with_mistakes_leave_a_folder_as_it_is(folder: Path, perfgate: Command) -> None:
    """A pull request could commit the folder as a link to somewhere else."""
    (folder / "others").mkdir()
    (folder / "others/report.json").write_text("mine")
    (folder / "perfgate-runs").symlink_to(folder / "others")
    write_rules(folder, "took under")
    assert perfgate("run", "--", "echo", "took 5 ms").code == 2
    assert (folder / "others/report.json").read_text() == "mine"


def test_facts_of_the_user_are_in_the_next_step(folder: Path, perfgate: Command) -> None:
    write_rules(folder, "command.time within 5% of baseline")
    (folder / "facts").mkdir()
    (folder / "facts/machine-a.json").write_text("{}")
    done = perfgate("run", "--runs", "1", "--env", "facts/machine-a.json", "--", "true")
    said = 'Make these runs the baseline: perfgate baseline approve --reason "..." --env facts/machine-a.json'
    assert said in " ".join(done.out.split()), done.said
