"""Runs the commands that a page shows, in order, and holds what they say against what the page says.

A page is Markdown. Comments before a block say what is special about it, and nobody sees them on the page:

    <!-- train.py -->           the block is this file: it is written
    <!-- measured -->           the output holds measured numbers, which differ from run to run
    <!-- not run: why -->       the block is not run, for this reason

and `<!-- start: examples/tiny-gpt -->` anywhere starts the page in a copy of that folder. In ```console blocks, `$ `
begins a command, `> ` continues it, and what follows is its output, where `...` stands for anything; a command whose
output is not shown has only to work. A command ends with 0, or with what the page shows: `(exit 1)` at the end of its
output, or `$ echo $?` after it.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from conftest import Done

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(r"((?:^<!-- .*? -->\n)*)^```([\w{}-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_START = re.compile(r"^<!-- start: (\S+) -->$", re.MULTILINE)
_FILE = re.compile(r"[\w./-]*[./][\w./-]*")
_EXIT = re.compile(r"\(exit (\d)\)\s*\Z")
_SHELL = re.compile(r"[|&;<>$`]|^\w+=")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
_BAR = re.compile(r"[·━●│]{5,}")


@dataclass(frozen=True)
class Block:
    """One fenced block, and what the comments before it say of it."""

    language: str
    text: str
    line: int
    file: str | None = None
    measured: bool = False
    not_run: str | None = None


@dataclass(frozen=True)
class Shown:
    """One command of a page, and the output that the page shows."""

    command: str
    output: str


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page."""
    for found in _BLOCK.finditer(page):
        said = re.findall(r"<!-- (.*?) -->", found[1])
        reasons = [word.partition(": ")[2] for word in said if word.startswith("not run: ")]
        files = [word for word in said if _FILE.fullmatch(word)]
        line = page.count("\n", 0, found.start(2)) + 1
        yield Block(found[2], found[3], line, *(files or [None])[:1], "measured" in said, *(reasons or [None])[:1])


def start(page: str) -> Path | None:
    """The folder that a page starts in a copy of."""
    found = _START.search(page)
    return ROOT / found[1] if found else None


def commands(block: Block) -> Iterator[Shown]:
    """The commands of a block, each with its output."""
    if block.language == "sh":
        yield from (Shown(command, "") for command in re.split(r"(?<!\\)\n", block.text.strip()))
        return
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        first, *rest = part.splitlines()
        typed = [first]
        while rest and rest[0].startswith("> "):
            typed.append(rest.pop(0)[2:])
        yield Shown("\n".join(typed), "\n".join(rest).strip("\n"))


def is_as_shown(said: str, shown: str, measured: bool) -> bool:
    """Whether what a command says is what the page shows of it."""
    pattern = re.escape(_normal(shown, measured)).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, _normal(said, measured), re.DOTALL) is not None


def _normal(text: str, measured: bool) -> str:
    """Without what differs from day to day; of measured output also without numbers, and on one line."""
    text = re.sub(r"\d{4}-\d\d-\d\d|\d{8}T\d{6}Z", "DATE", text)
    text = re.sub(r"\b(?=[a-f]*\d)[0-9a-f]{8,64}\b", "HASH", text)
    text = re.sub(r"(\n *\.\.\.)+(?=\n|\Z)", "...", text)
    if measured:
        return " ".join(_NUMBER.sub("#", _BAR.sub("", text)).split()).replace(" ...", "...")
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


class Terminal:
    """Runs what is typed in the working directory: perfgate in this process if it is given, everything else in bash."""

    def __init__(self, perfgate: Callable[..., Done] | None, environment: dict[str, str]) -> None:
        self.perfgate = perfgate
        self.environment = environment
        self.code = 0

    def type(self, command: str) -> str:
        """What a command says; its exit code is kept."""
        if command == "echo $?":
            return f"{self.code}\n"
        done = self._perfgate(command) if command.startswith("perfgate ") else None
        done = done or self._bash(command)
        self.code = done.code
        return done.said

    def _perfgate(self, command: str) -> Done | None:
        """The answer of perfgate, unless the command needs a shell."""
        words = shlex.split(command.replace("\\\n", " "))
        if self.perfgate is None or any(_SHELL.search(word) for word in words) or "--" in words:
            return None
        found = [name for word in words for name in (sorted(glob.glob(word)) or [word] if "*" in word else [word])]
        return self.perfgate(*found[1:])

    def _bash(self, command: str) -> Done:
        environment = {**os.environ, **self.environment}
        script = f"set -e\n{command}\n"
        both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        done = subprocess.run(["bash", "-c", script], env=environment, text=True, check=False, **both)
        return Done(done.returncode, done.stdout, "")


def follow(page: Path, terminal: Terminal) -> int:
    """Do what a page says in the working directory; the number of commands. Raises AssertionError with the line."""
    number = 0
    for block in blocks(page.read_text(encoding="utf-8")):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.file:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif block.language in ("console", "sh") and not block.not_run:
            shown = list(commands(block))
            for this, following in zip(shown, [*shown[1:], None], strict=True):
                _do(terminal, this, following, where, block.measured)
                number += 1
    return number


def _do(terminal: Terminal, this: Shown, following: Shown | None, where: str, measured: bool) -> None:
    said = terminal.type(this.command)
    ends = _EXIT.search(this.output)
    expected = int(ends[1]) if ends else 0
    if following is not None and following.command == "echo $?":
        expected = int(following.output)
    assert terminal.code == expected or this.command == "echo $?", (
        f"{where}: {this.command} ended with {terminal.code}:\n{said}"
    )
    if this.output:
        assert is_as_shown(said, this.output, measured), f"{where}: {this.command} said:\n{said}"
