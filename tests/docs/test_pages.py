"""Every page works as written: its files are written, its commands run, its outputs compared."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import yaml
from conftest import Done, Repository, steady, write_log, write_rules
from pages import DOCS, ROOT, Block, Shown, Terminal, blocks, commands, follow, is_as_shown, refreshed, start

from perfgate.cli.entry import main
from perfgate.rules.syntax.grammar import parse_sentence

Command = Callable[..., Done]

PAGES = [*sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts), ROOT / "README.md"]
TEXTS = {Path(os.path.relpath(path, DOCS)).as_posix(): path.read_text(encoding="utf-8") for path in PAGES}

#: The pages whose programs sleep instead of working.
SLEEPING = ("tutorial.md", "how-to/from-pytest-benchmark.md")

#: A clock that only `sleep` moves: measured times do not depend on the load of the machine, and tests do not wait.
#: With the noise of the second number, runs differ by it, each side of a pair for itself, and so do single pauses.
CLOCK = """\
import glob, os, random, sys, time

seed, noise = os.environ.get("CLOCK", "1 0").split()
kept, _, place = os.environ.get("PERFGATE_RESULTS", str(sys.argv)).rpartition("perfgate-runs")
source = random.Random(f"{seed} {place} {len(glob.glob(f'{kept}perfgate-runs/earlier-*'))}")
now, level = [10**9], source.gauss(1, float(noise))

def sleep(seconds):
    now[0] += round(1e9 * seconds * level * source.gauss(1.02, max(0.005, float(noise))))

time.sleep, time.perf_counter_ns = sleep, lambda: now[0]
"""


@pytest.fixture
def terminal(in_short: Command, page: str, tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """A terminal with perfgate, a neutral git configuration and, for some pages, Python with a simulated clock."""
    home = tmp_path_factory.mktemp("home")
    (home / "perfgate").write_text(f'#!/bin/sh\nexec {sys.executable} -m perfgate "$@"\n')
    clock = f'PYTHONPATH="{home / "clock"}:$PYTHONPATH"' if page in SLEEPING else ""
    (home / "python").write_text(f'#!/bin/sh\n{clock} exec {sys.executable} "$@"\n')
    for name in ("perfgate", "python"):
        (home / name).chmod(0o755)
    (home / "clock").mkdir()
    (home / "clock" / "sitecustomize.py").write_text(CLOCK)
    (home / ".gitconfig").write_text("[user]\nname = ada\nemail = ada@example.org\n[init]\ndefaultBranch = main\n")
    return Terminal(
        in_short,
        {
            "HOME": str(home),
            "PATH": os.pathsep.join([str(home), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # perfgate's own is loaded once, wherever it is installed
            "PYTEST_PLUGINS": "perfgate.integrations.pytest_plugin",
        },
    )


def prepare(page: str, folder: Path) -> None:
    """Prepare the folder of a page: a copy of the folder it starts in, or runs and rules."""
    begin = start(TEXTS[page])
    if begin is not None:
        shutil.copytree(begin, folder, dirs_exist_ok=True)
    elif page == "github-actions.md":
        write_rules(folder, "step p95 under 400 ms", name="rules/training.yaml")
        for number in (1, 2, 3):
            write_log(folder / f"train-{number}.log", forward=steady(100, seed=number), step=steady(20, seed=number))


RUNNABLE = [page for page, text in TEXTS.items() if any(block.language in ("console", "sh") for block in blocks(text))]


@pytest.mark.parametrize("page", RUNNABLE)
def test_what_a_page_shows_is_what_happens(page: str, folder: Path, terminal: Terminal) -> None:
    prepare(page, folder)
    if page == "tutorial.md":
        terminal.environment["CLOCK"] = "1 0.015"
    assert follow(DOCS / page, terminal) or not_run(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["tutorial.md"])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.015, 0.05])
def test_the_tutorial_ends_as_shown_on_a_noisy_machine(
    page: str, noise: float, seed: int, folder: Path, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UPDATE_GOLDEN", raising=False)
    terminal.environment["CLOCK"] = f"{seed} {noise}"
    assert follow(DOCS / page, terminal)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["tutorial.md"])
def test_the_tutorial_needs_nothing_but_python(page: str, folder: Path, terminal: Terminal) -> None:
    """It runs in a new virtual environment, with perfgate installed."""
    for words in (["venv", folder / "venv"], ["pip", "--python", folder / "venv", "install", "-q", ROOT]):
        subprocess.run([sys.executable, "-m", *map(str, words)], check=True)
    programs = os.pathsep.join([str(folder / "venv" / "bin"), os.environ["PATH"]])
    home = terminal.environment["HOME"]
    alone = {"HOME": home, "PATH": programs, "PYTHONPATH": f"{home}/clock"}
    assert follow(DOCS / page, Terminal(None, alone))


def not_run(page: str) -> list[Block]:
    return [block for block in blocks(TEXTS[page]) if block.not_run is not None]


def test_what_is_not_run_is_little_and_says_why() -> None:
    found = [f"{page}:{block.line}: {block.not_run}" for page in TEXTS for block in not_run(page)]
    assert len(found) <= 10, f"run it, or show less: {found}"


@pytest.mark.parametrize("page", TEXTS)
def test_commands_stand_in_blocks_that_are_run(page: str) -> None:
    text = TEXTS[page]
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    assert not re.findall(r"^ {4}(?:\$ )?perfgate .*", prose, re.MULTILINE)
    assert all(block.language for block in blocks(text)), "a block says what language it is in"
    for block in blocks(text):
        if block.language == "python":
            ast.parse(block.text)


@pytest.mark.parametrize("page", TEXTS)
def test_sentences_are_rules(page: str) -> None:
    for said in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", TEXTS[page], flags=re.MULTILINE | re.DOTALL)):
        whole = re.fullmatch(r"[\w\"*].* (?:within|under|over|at most|at least) \S*\d.*", said)
        if whole and not said.startswith(("within", "at ", "perfgate")):
            parse_sentence(said)


SCRIPTS = {
    "GitLab": "\n".join(
        yaml.safe_load(next(block.text for block in blocks(TEXTS["other-ci.md"]) if block.file))["perf-gate"]["script"]
    ),
    "Jenkins": textwrap.dedent(re.findall(r"sh '''\n(.*?)'''", TEXTS["other-ci.md"], re.DOTALL)[0]).replace(
        "\\\\", "\\"
    ),
}


@pytest.mark.parametrize("page", ["other-ci.md"])
@pytest.mark.parametrize("system", SCRIPTS)
def test_the_script_of_another_system_runs(system: str, page: str, folder: Path, terminal: Terminal) -> None:
    write_rules(folder, "forward p95 under 1 s")
    write_log(folder / "stored.log", forward=steady(100))
    (folder / "train.py").write_text("print(open('stored.log').read())")
    repository = Repository(folder)
    repository.git("add", "rules")
    repository.git("commit", "-q", "-m", "rules")
    repository.git("remote", "add", "origin", str(folder))
    repository.git("fetch", "-q", "origin")
    installed = folder / "tools" / "perfgate" / "bin"
    installed.mkdir(parents=True)
    shutil.copy(Path(terminal.environment["HOME"]) / "perfgate", installed)
    terminal.environment["WORKSPACE_TMP"] = str(folder / "tools")
    terminal.environment["VENV"] = str(installed.parent)
    script = re.sub(r"^.*(?:-m venv|pip\W+install).*$", "", SCRIPTS[system], flags=re.MULTILINE)
    terminal.environment["CI_MERGE_REQUEST_TARGET_BRANCH_NAME"] = "main"
    terminal.environment["CI_MERGE_REQUEST_SOURCE_BRANCH_SHA"] = repository.git("rev-parse", "HEAD")
    said = terminal.type(script)
    assert terminal.code == 0, said
    assert "PASS  1 rule" in said
    assert Path("perfgate.xml").exists()
    assert Path("perfgate.json").exists()


def options_of(words: list[str]) -> set[str]:
    """The options of the command that the words begin with. Fails if there is none."""
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group) and words:
        if command.name == "rules" and words[0] not in command.list_commands(context):
            words.insert(0, "show")
        found = command.get_command(context, words.pop(0))
        assert found is not None
        command = found
    return {"--help", *(option for found in command.params for option in (*found.opts, *found.secondary_opts))}


@pytest.mark.parametrize("page", [*TEXTS, "../SECURITY.md"])
def test_commands_that_are_mentioned_exist(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    for said in re.findall(r"`perfgate ([a-z][^`]*)`", text):
        words = said.partition(" -- ")[0].split()
        options = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert options <= options_of(words), f"perfgate {said}"


# --- the runner itself --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "shown", "measured", "same"),
    [
        ("a\nb\n", "a\nb", False, True),
        ("a\nb\n", "a\nc", False, False),
        ("a\nb\nc\n", "a\n...\nc", False, True),
        ("a\nb\nc\n", "...\nc", False, True),
        ("a\nc\n", "a\n...\nd", False, False),
        ("2026-11-21-f191f312/20261121T224907Z-01.json", "2026-01-01-1ff48c63/20260101T000000Z-01.json", False, True),
        ("30.43 ms  +0.1%", "31.5 ms  +0.2%", False, False),
        ("30.43 ms  +0.1% ·━●━│·", "31.5 ms  -0.2%   ·━━━●━│·", True, True),
        ("30.43 ms  fail", "31.5 ms  pass", True, False),
    ],
)  # fmt: skip
def test_outputs_are_compared(said: str, shown: str, measured: bool, same: bool) -> None:
    assert is_as_shown(said, shown, measured) is same


def test_blocks_and_commands_are_found() -> None:
    page = (
        "<!-- a.py -->\n```python\nx\n```\n```{toctree}\n```\n<!-- not run: needs a GPU -->\n<!-- measured -->\n"
        "```console\n$ a \\\n> b\nc\n$ d\n```\n```sh\ne \\\n  f\ng\n```\n"
    )
    first, _, second, third = blocks(f"<!-- start: x -->\n\n{page}")
    assert (first.file, first.text) == ("a.py", "x\n")
    assert (second.not_run, second.measured, second.line) == ("needs a GPU", True, 11)
    assert list(commands(second)) == [Shown("a \\\nb", "c"), Shown("d", "")]
    assert list(commands(third)) == [Shown("e \\\n  f", ""), Shown("g", "")]


@pytest.mark.parametrize(
    ("said", "shown", "new"),
    [
        ("a\nb\n", "a\nc", "a\nb"),
        ("head\nb\nnote one\nend\n", "...\nnote 1\nend", "...\nnote one\nend"),
        ("head\nb\nlong\nnote one\nend\n", "head\n...\nnote 1\n...\nend", "head\n...\nnote one\n...\nend"),
        ("wrote x/7f3a.json\nmoved\n", "wrote x/....json\ndone", "wrote x/....json\nmoved"),
    ],
)
def test_shown_output_is_refreshed(said: str, shown: str, new: str) -> None:
    assert refreshed(said, shown, False) == new
    assert is_as_shown(said, new, False)
