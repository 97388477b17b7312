"""Run the example of every command's help, as a user would type it, in a team's repository."""

from __future__ import annotations

import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from conftest import Done, Repository, steady, write_log, write_rules

from perfgate.cli import entry
from perfgate.cli.entry import main, run

Command = Callable[..., Done]


def examples(group: click.Group, prefix: str = "perfgate") -> dict[str, str]:
    """The example of each command, on one line."""
    found: dict[str, str] = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        words = f"{prefix} {name}"
        if isinstance(command, click.Group):
            found.update(examples(command, words))
        else:
            text = (command.help or "").partition("Example: ")[2].split("\n\n")[0]
            found[words] = re.sub(r"\s*\\\s*\n\s*", " ", text).strip()
    return found


EXAMPLES = examples(main)


def test_the_table_of_groups_is_true() -> None:
    context = click.Context(main)
    commands = {name: main.get_command(context, name) for name in main.list_commands(context)}
    groups = {name: group for name, group in commands.items() if isinstance(group, click.Group)}
    found = {name: tuple(group.list_commands(context)) for name, group in groups.items()}
    assert found == entry._GROUPS


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with runs, rules, two levels, stored reports and a feature branch, as the examples need them."""
    folder = tmp_path_factory.mktemp("team")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        repository = Repository(folder)
        for number, name in enumerate(["train", "change", "feature", *(f"main-{i}" for i in range(1, 10))]):
            slowly = {"backward_allreduce": steady(20, seed=number + 50)}
            write_log(folder / f"{name}.log", forward=steady(100, seed=number), **slowly)
        write_rules(folder, "forward within 5% of baseline", head="suite: gpt-small\n")
        tail = "  - {id: allreduce-tail, assert: backward_allreduce p95 under 50 ms}\n"
        path = folder / "rules" / "rules.yaml"
        path.write_text(path.read_text() + tail)
        for day, first in enumerate((1, 4)):
            patch.setenv("SOURCE_DATE_EPOCH", str(1767225600 + 86400 * day))
            logs = [f"main-{number}.log" for number in range(first, first + 3)]
            assert run(["baseline", "approve", *logs, "--reason", f"level {day}"]) == 0
            assert run(["history", "add", *logs]) == 0
        (folder / "history.csv").write_text("time,commit,metric,value,unit\n2026-01-01T00:00:00Z,abc,forward,100,ms\n")
        train = "import os; print(open(f'main-{int(os.environ[\"PERFGATE_RUN\"]) + 6}.log').read())"
        train += "; open('results.json', 'w').close()"
        (folder / "train.py").write_text(train)
        for gpu in ("h100", "a100"):
            assert run(["check", "change.log", "--json", f"{gpu}.json", "--quiet"]) == 0
        (folder / "a100.json").write_text((folder / "a100.json").read_text().replace("change.log", "other.log"))
        bench = (
            "open(os.environ['PERFGATE_RESULTS'] + '/r.json', 'w').write(json.dumps({'schema': 'perfgate.results/1', "
        )
        for number, seconds in enumerate((0.1, 0.2)):
            series = f"'series': [{{'metric': 'step_time', 'unit': 's', 'value': {seconds}}}]}}))"
            (folder / "bench.py").write_text(f"import json, os; {bench}{series}\n")
            repository.git("add", "bench.py")
            repository.commit(f"bench {number}")
            repository.git("tag", f"v1.{number + 4}")
        repository.commit("rules and baselines")
        rows = [
            f"2026-01-{i + 1:02},{repository.commit('work')},load_time,{1.0 if i < 6 else 1.2},s" for i in range(12)
        ]
        (folder / "older.csv").write_text("\n".join(["time,commit,metric,value,unit", *rows]))
        assert run(["history", "import", "older.csv"]) == 0
        repository.commit("history")
        repository.git("update-ref", "refs/remotes/origin/main", "HEAD")
        repository.git("branch", "feature")
    return folder


def typed(line: str) -> tuple[list[str], str | None]:
    """Return the words of a command after the shell has read it, and the file for its output."""
    line = re.sub(r"\$\((.*?)\)", lambda found: subprocess.check_output(shlex.split(found[1]), text=True).strip(), line)
    command, _, target = line.partition(" > ")
    words = [name for word in shlex.split(command) for name in (sorted(glob.glob(word)) if "*" in word else [word])]
    return words[1:], target or None


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_works(
    perfgate: Command, team: Path, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = folder / "copy"
    shutil.copytree(team, here)
    monkeypatch.chdir(here)
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(1767225600 + 86400 * 5))
    if name == "perfgate init":
        shutil.rmtree("rules")
        shutil.rmtree("baselines")
    if name == "perfgate doctor":
        monkeypatch.setattr("perfgate.commands.doctor._IDLE_S", 0)
        monkeypatch.setattr("perfgate.commands.doctor._LOADS_S", 0)
        monkeypatch.setattr("perfgate.doctor.loads.LOADS", {})
        monkeypatch.setattr("perfgate.doctor.command._MOST_ROUNDS", 4)
    words, target = typed(EXAMPLES[name])
    assert f"perfgate {' '.join(words)}".startswith(name)
    done = perfgate(*words)
    assert done.code == 0, done.said
    assert done.said
    if target is not None:
        Path(target).write_text(done.out)
