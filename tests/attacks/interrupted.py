"""A command that is stopped, or whose disk is full, at every moment at which it changes a file.

    python interrupted.py FOLDER killed|terminated|full MOST WORDS...

Works on copies of FOLDER, and tries MOST of the moments. Prints a JSON list, one row a moment: what was about to
happen, how the command ended, what it said, every file that was left, and how the same command ends right after. A
program of its own, for it forks: perfgate is imported once, in a process without threads.
"""

from __future__ import annotations

import builtins
import contextlib
import errno
import hashlib
import io
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perfgate.cli.entry import run

#: What changes a folder, as Python's audit events call it.
CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.link"}
#: What a full disk does not refuse.
FREEING = {"os.remove", "os.rmdir", "os.chmod"}


class Moments:
    """Counts the changes of files below a folder, and strikes at one of them and, where it stays, at all later ones."""

    def __init__(self, folder: Path, strike_at: int | None, strike: Callable[[str], None]) -> None:
        self.folder = str(folder)
        self.at = strike_at
        self.strike = strike
        self.seen: list[str] = []

    def watch(self) -> None:
        """Look at every change of this process from here on."""
        sys.addaudithook(self._audited)
        opened = io.open

        def opening(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
            found = opened(file, mode, *more, **named)
            if set(mode) & set("wxa+") and ((isinstance(file, int) and file > 2) or self._is_inside(file)):
                self._moment(f"opened {file}")  # it is there, and empty
            return found

        builtins.open = io.open = opening

    def _audited(self, event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if (writes or event in CHANGES) and self._is_inside(arguments[0]):
            self._moment(f"{event} {os.path.relpath(arguments[0], self.folder)}")

    def _is_inside(self, path: Any) -> bool:
        return isinstance(path, (str, os.PathLike)) and os.path.abspath(path).startswith(self.folder + os.sep)

    def _moment(self, what: str) -> None:
        self.seen.append(what)
        if self.at is not None and len(self.seen) > self.at:
            self.strike(what)


def files_of(folder: Path) -> dict[str, str]:
    """The hash of every file that a reader would see: names that begin with a dot are nobody's, but `.github`."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        if not any(part.startswith(".") and part != ".github" for part in name.split("/")):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def ended(folder: Path, words: list[str], moments: Moments | None = None) -> tuple[int, str, list[str]]:
    """Run a command in a folder, in its own process; return its exit code or signal, its output and its moments."""
    said, seen = folder.with_suffix(".said"), folder.with_suffix(".seen")
    seen.write_text("[]")
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        descriptor = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        if moments:
            moments.watch()
        code = run(words)
        sys.stdout.flush()
        if moments:
            os.write(os.open(seen, os.O_WRONLY), json.dumps(moments.seen).encode())
        os._exit(code)
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status), said.read_text(errors="replace"), json.loads(seen.read_text())


def warm(folder: Path, words: list[str]) -> None:
    """Run the command here, so that every process after it has what it imports."""
    there = os.getcwd()
    os.chdir(folder)
    with open(os.devnull, "w") as nobody, contextlib.redirect_stdout(nobody), contextlib.redirect_stderr(nobody):
        run(words)
        run(["baseline", "verify"])
    os.chdir(there)


def strikes(fault: str) -> Callable[[str], None]:
    """Return a function for each moment: it fails as a full disk does, or a signal ends the process."""

    def full(what: str) -> None:
        if what.split(maxsplit=1)[0] not in FREEING:
            raise OSError(errno.ENOSPC, "No space left on device", what)

    number = {"killed": signal.SIGKILL, "terminated": signal.SIGTERM}.get(fault)
    return full if number is None else lambda what: os.kill(os.getpid(), number)


def main() -> None:
    """Print what every moment led to; the first row is that of a command that nothing befalls."""
    pristine, fault, most, words = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    rows = []
    with tempfile.TemporaryDirectory() as place:
        work = Path(place) / "work"

        shutil.copytree(pristine, work, symlinks=True)
        warm(work, words)
        shutil.rmtree(work)

        def attempt(moments: Moments) -> tuple[dict[str, Any], list[str]]:
            shutil.copytree(pristine, work, symlinks=True)
            code, said, seen = ended(work, words, moments)
            row: dict[str, Any] = {"code": code, "said": said, "files": files_of(work)}
            row["verified"] = ended(work, ["baseline", "verify"])[:2] if (work / "baselines").exists() else (0, "")
            row["again"] = ended(work, words)[:2]
            shutil.rmtree(work)
            return row, seen

        whole, seen = attempt(Moments(work, None, lambda what: None))
        rows.append({"moment": "", **whole})
        step = max(1, len(seen) / most)
        tried = sorted({int(i * step) for i in range(most)} & {*range(len(seen))})
        rows += [{"moment": seen[at], **attempt(Moments(work, at, strikes(fault)))[0]} for at in tried]
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
