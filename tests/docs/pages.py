"""Run the commands that a page shows, in order, and compare their output with the page.

A page is Markdown. A comment before a block says how the block is treated; readers do not see it:

    <!-- train.py -->           the block is this file: it is written
    <!-- measured -->           numbers in the output differ from run to run
    <!-- not run: why -->       the block is not run, for this reason

`<!-- start: examples/tiny-gpt -->` starts the page in a copy of that folder; before a later block, the page goes on
there. In ```console blocks, `$ ` begins a command, `> ` continues it, and the following lines are its output; `...`
matches anything. A command without output only has to succeed. A command must exit with 0, or with the code that the
page shows: `(exit 1)` at the end of its output, or `$ echo $?` after it.

`UPDATE_GOLDEN=1 pytest tests/docs` writes the new output into the page instead. It keeps each `...` where it can.
Generated parts (docs/make_reference.py) are not run.
"""

from __future__ import annotations

import difflib
import glob
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from conftest import Done

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

_BLOCK = re.compile(r"((?:^<!-- [^\n]*? -->\n)*)^```([\w{}-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_START = re.compile(r"^<!-- start: (\S+) -->$", re.MULTILINE)
_FILE = re.compile(r"[\w./-]*[./][\w./-]*")
_EXIT = re.compile(r"\(exit (\d)\)\s*\Z")
_SHELL = re.compile(r"[|&;<>$`]|^\w+=")
_GENERATED = re.compile(r"^<!-- generated: .*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")
_BAR = re.compile(r"[·━●│]{5,}")


@dataclass(frozen=True)
class Block:
    """One fenced block with the instructions from the comments before it."""

    language: str
    text: str
    line: int
    file: str | None = None
    measured: bool = False
    not_run: str | None = None
    start: Path | None = None


@dataclass(frozen=True)
class Shown:
    """One command of a page and its shown output."""

    command: str
    output: str


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, without those of generated parts."""
    page = _GENERATED.sub(lambda part: "\n" * part[0].count("\n"), page)
    for found in _BLOCK.finditer(page):
        comments = re.findall(r"<!-- (.*?) -->", found[1])
        reasons = [word.partition(": ")[2] for word in comments if word.startswith("not run: ")]
        files = [word for word in comments if _FILE.fullmatch(word)]
        line = page.count("\n", 0, found.start(2)) + 1
        own = (files or [None])[0], "measured" in comments, (reasons or [None])[0]
        yield Block(found[2], found[3], line, *own, start(found[1]))


def start(page: str) -> Path | None:
    """The folder whose copy a page starts in."""
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
    """Return whether the output of a command is as the page shows it."""
    pattern = re.escape(_normal(shown, measured)).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, _normal(said, measured), re.DOTALL) is not None


def refreshed(said: str, shown: str, measured: bool) -> str:
    """Return the new output with the gaps (`...`) of the shown one; lines that still match stay as they are shown."""
    new = said.strip("\n").splitlines()
    pieces = re.split(r"(?m)^( *\.\.\.)$", shown)
    lines: list[str] = []
    for number, piece in enumerate(pieces):
        old = piece.strip("\n").splitlines()
        if number % 2:
            lines.append(piece)
        elif old:
            first = 0 if number == 0 else _nearest(old[0], new)
            lines += [""] * (len(piece) - len(piece.lstrip("\n")) - 1)
            last = len(new) - 1 if number == len(pieces) - 1 else first + _nearest(old[-1], new[first:])
            lines += [next((line for line in old if is_as_shown(x, line, measured)), x) for x in new[first : last + 1]]
            new = new[last + 1 :]
    return "\n".join(lines)


def _nearest(line: str, lines: list[str]) -> int:
    """Return the index of the line that is most like another one."""
    ratios = [difflib.SequenceMatcher(None, line, other, autojunk=False).ratio() for other in lines]
    return max(range(len(ratios)), key=ratios.__getitem__, default=0)


def _normal(text: str, measured: bool) -> str:
    """Return text without dates and hashes; measured text also without numbers, on one line."""
    text = re.sub(r"\d{4}-\d\d-\d\d|\d{8}T\d{6}Z", "DATE", text)
    text = re.sub(r"\b(?=[a-f]*\d)[0-9a-f]{8,64}\b", "HASH", text)
    text = re.sub(r"(\n *\.\.\.)+(?=\n|\Z)", "...", text)
    if measured:
        return " ".join(_NUMBER.sub("#", _BAR.sub("", text)).split()).replace(" ...", "...")
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


class Terminal:
    """Run commands in the working directory: perfgate in this process if it is given, everything else in bash."""

    def __init__(self, perfgate: Callable[..., Done] | None, environment: dict[str, str]) -> None:
        self.perfgate = perfgate
        self.environment = environment
        self.code = 0

    def type(self, command: str) -> str:
        """Run a command and return its output; `code` is its exit code."""
        if command == "echo $?":
            return f"{self.code}\n"
        done = self._perfgate(command) if command.startswith("perfgate ") else None
        done = done or self._bash(command)
        self.code = done.code
        return done.said

    def _perfgate(self, command: str) -> Done | None:
        """Run perfgate in this process, or return None if the command needs a shell."""
        words = shlex.split(command.replace("\\\n", " "))
        starts_programs = "--" in words or words[1] == "run"
        if self.perfgate is None or any(_SHELL.search(word) for word in words) or starts_programs:
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
    """Run a page in the working directory and return the number of commands. Raises AssertionError with the line."""
    number = 0
    text = page.read_text(encoding="utf-8")
    for block in blocks(text):
        where = f"{page.relative_to(ROOT)}:{block.line}"
        if block.start is not None and block.start != start(text):
            os.chdir(shutil.copytree(block.start, block.start.name))
        if block.file:
            Path(block.file).parent.mkdir(parents=True, exist_ok=True)
            Path(block.file).write_text(block.text, encoding="utf-8")
        elif block.language in ("console", "sh") and not block.not_run:
            shown = list(commands(block))
            for this, following in zip(shown, [*shown[1:], None], strict=True):
                said = _do(terminal, this, following, where)
                number += 1
                if not this.output or is_as_shown(said, this.output, block.measured):
                    continue
                assert os.environ.get("UPDATE_GOLDEN") == "1", f"{where}: {this.command} said:\n{said}"
                typed = this.command.splitlines()[-1]
                new = refreshed(said, this.output, block.measured)
                text = text.replace(f"{typed}\n{this.output}\n", f"{typed}\n{new}\n")
                page.write_text(text, encoding="utf-8")
    return number


def _do(terminal: Terminal, this: Shown, following: Shown | None, where: str) -> str:
    said = terminal.type(this.command)
    ends = _EXIT.search(this.output)
    expected = int(ends[1]) if ends else 0
    if following is not None and following.command == "echo $?":
        expected = int(following.output)
    assert terminal.code == expected or this.command == "echo $?", (
        f"{where}: {this.command} ended with {terminal.code}:\n{said}"
    )
    return said
