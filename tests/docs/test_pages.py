"""Every page is followed to the letter: its files are written, its commands run, its outputs compared."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import yaml
from conftest import Done, steady, write_log, write_rules
from pages import DOCS, ROOT, Block, Shown, Terminal, blocks, commands, follow, is_as_shown, start

from perfgate.cli import main

Command = Callable[..., Done]

PAGES = sorted(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)
TEXTS = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in PAGES}

#: The pages whose programs sleep where others work.
SLEEPING = ("tutorial.md", "how-to/from-pytest-benchmark.md")

#: A clock that only sleep moves, by about as much as it was asked to: what a page measures does not depend on who
#: else uses this machine, and takes no time.
CLOCK = '''\
import random, sys, time

now, source = [10**9], random.Random(str(sys.argv))

def sleep(seconds):
    now[0] += round(1e9 * seconds * (1.02 + 0.005 * source.gauss(0, 1)))

time.sleep, time.perf_counter_ns = sleep, lambda: now[0]
'''


@pytest.fixture
def terminal(perfgate: Command, page: str, tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    """A terminal that knows perfgate and Python, whose git belongs to nobody; SLEEPING pages have a clock of their own."""
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
        perfgate,
        {
            "HOME": str(home),
            "PATH": os.pathsep.join([str(home), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # perfgate's own is loaded once, wherever it is installed
            "PYTEST_PLUGINS": "perfgate.integrations.pytest_plugin",
        },
    )


def prepare(page: str, folder: Path) -> None:
    """What a page takes for granted: a copy of the folder that it starts in, or somebody's runs and rules."""
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
    assert follow(DOCS / page, terminal) or not_run(page)


def not_run(page: str) -> list[Block]:
    return [block for block in blocks(TEXTS[page]) if block.not_run is not None]
