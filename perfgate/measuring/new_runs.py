"""One run of the program of a side: the command and its folder, and the files that it writes."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from glob import glob
from pathlib import Path

from msgspec import Struct, field

from perfgate.core.file_mappings import is_for_a_shell
from perfgate.core.wording import MACHINE_FILE
from perfgate.measuring.programs import Program, RunFailed, Stopped, finish, pinned
from perfgate.workspace.options import Refused, shown_path

#: A variable of random length. Where a process keeps its data depends on the lengths of its environment and its paths,
#: which differ between a worktree and the working tree. This can make the same program some percent slower, by the
#: same amount in every pair (Mytkowicz et al., "Producing Wrong Data Without Doing Anything Obviously Wrong!", 2009).
#: With this variable, such a bias is a part of the noise between pairs, which the interval includes.
_LAYOUT, _LONGEST_LAYOUT = "PERFGATE_LAYOUT", 4096
#: While one side waits for its turn, its threads must sleep. By default, those of OpenBLAS wait actively for 2^26
#: cycles (some 25 ms) and those of Intel's OpenMP for 200 ms, and take a processor from the other side. Between two
#: operations of one step they may wait actively: to wake a thread on a busy machine takes long.
_SLEEPING = {"OPENBLAS_THREAD_TIMEOUT": "18", "KMP_BLOCKTIME": "1"}
#: Any file that is not hidden.
EVERYTHING: tuple[str, ...] = ("**/*",)
#: A file, its modification time, size and inode.
_Stamp = tuple[Path, int, int, int]


class FilesBefore(Struct, frozen=True):
    """The files that match globs, relative to a folder, before a run."""

    folder: Path
    globs: tuple[str, ...]
    stamps: frozenset[_Stamp]
    #: The hashes of those that existed before the first run of this process; empty for `EVERYTHING`.
    old: Mapping[Path, bytes]

    @classmethod
    def of(cls, folder: Path, globs: tuple[str, ...]) -> FilesBefore:
        """Look at the files now."""
        return cls(folder, globs, _stamps(folder, globs), {} if globs == EVERYTHING else _old_files(folder, globs))

    def changed(self) -> list[Path]:
        """Return the files that are new or were written to since then."""
        return sorted(path for path, *_ in _stamps(self.folder, self.globs) - self.stamps)

    def is_old(self, path: Path) -> bool:
        """Return whether a file has the content that it had before the first run."""
        return path in self.old and _digest(path) == self.old[path]


def _stamps(folder: Path, globs: tuple[str, ...]) -> frozenset[_Stamp]:
    found = (Path(name) for pattern in globs for name in glob(str(folder / pattern), recursive=True))
    files = {path.resolve(): path.stat() for path in found if path.is_file()}
    return frozenset((path, stat.st_mtime_ns, stat.st_size, stat.st_ino) for path, stat in files.items())


@cache
def _old_files(folder: Path, globs: tuple[str, ...]) -> Mapping[Path, bytes]:
    return {path: _digest(path) for path, *_ in _stamps(folder, globs)}


def _digest(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.digest()


class ProgramSide(Struct, frozen=True):
    """The program of one side: a command with the placeholders `{run}` and `{results}`, and where it runs."""

    words: tuple[str, ...]
    folder: Path = field(default_factory=Path.cwd)
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The processors that it may use; None for all.
    cpus: frozenset[int] | None = None


class NewRun(Struct, frozen=True):
    """A run of a side: its number, the folder of its files, and the log of what the command prints."""

    side: ProgramSide
    number: int
    results: Path
    log: Path
    #: The files that the run may create or change, as they are before it.
    before: FilesBefore

    def start(self, more: Mapping[str, str] | None = None) -> Program:
        """Start the command; `more` are further environment variables. Raises RunFailed."""
        side, run, results = self.side, str(self.number), str(self.results)
        words = tuple(word.replace("{run}", run).replace("{results}", results) for word in side.words)
        environment = {"PERFGATE_RUN": run, "PERFGATE_RESULTS": results, **side.environment, **(more or {})}
        if side.cpus is None:
            return Program(words, side.folder, environment, self.log)
        with pinned(side.cpus):
            return Program(words, side.folder, environment, self.log)

    def collect(self, warn: Callable[[str], None] = lambda message: None) -> Path:
        """Copy the new files into the folder of the run; return the run's file or folder. Raises RunFailed.

        A file outside of the command's folder is kept with its whole path. One that has the same content as before the
        first run does not count: `warn` gets a message, or the error says it.
        """
        folder, same = self.side.folder.resolve(), ""
        for path in self.before.changed():
            if self.before.is_old(path):
                name = shown_path(str(path))
                same = f"{name} has the same content as before the first run, so it does not count: remove it first"
                warn(f"warning: {same}")
            elif not path.is_relative_to(self.results):
                target = self.results / path.relative_to(folder if path.is_relative_to(folder) else path.anchor)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
        run = result_of(self.results)
        if run is None and self.before.globs:
            raise RunFailed(same or f"the command wrote nothing that matches {' or '.join(self.before.globs)}")
        machine = Path(f"{self.results}{MACHINE_FILE}")
        if run is None and self.log.stat().st_size == 0 and not machine.exists():
            raise RunFailed("the command printed nothing and wrote nothing to $PERFGATE_RESULTS ({results})")
        run = run or self.log
        if machine.exists():
            machine.replace(f"{run}{MACHINE_FILE}")
        return run


def result_of(folder: Path) -> Path | None:
    """Return what a run wrote to its folder: its only file, or the folder of several; None for nothing."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    files = [path for path in files if not path.name.endswith(MACHINE_FILE)]
    return (files[0] if len(files) == 1 else folder) if files else None


@contextmanager
def new_run(path: Path, side: ProgramSide, number: int, globs: Sequence[str] = ()) -> Iterator[NewRun]:
    """Make a new folder for a run. If the run fails, a file beside the folder says why. Raises Refused.

    Globs are relative to the folder of the command.
    """
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise Refused(f"{shown_path(str(path))}: cannot keep runs there: {error.strerror}") from None
    results = path.resolve()
    log = results.with_name(f"{results.name}.log")
    try:
        yield NewRun(side, number, results, log, FilesBefore.of(side.folder.resolve(), tuple(globs)))
    except BaseException as error:
        why = str(error) or type(error).__name__
        results.with_name(f"{results.name}.FAILED.txt").write_text(why + "\n", encoding="utf-8")
        raise


def fair_environment() -> dict[str, str]:
    """Return environment variables for one run of one side of a pair. Variables of the user are not changed."""
    own = {name: value for name, value in _SLEEPING.items() if name not in os.environ}
    return {**own, _LAYOUT: "x" * secrets.randbelow(_LONGEST_LAYOUT)}


def build(path: Path, side: ProgramSide, timeout: float) -> None:
    """Run the build command of a side; its log is beside `path`. Raises RunFailed, and Stopped after a signal.

    `path`: a new folder, for the files of the build. `side`: the words of the command, and where it runs. `timeout`:
    its longest time in seconds.
    """
    try:
        with new_run(path, side, 0) as run:
            finish(run.start(), timeout)
    except Stopped:  # the user stopped the command: that says nothing about the build
        raise
    except RunFailed as error:
        hint = "; --build runs no shell: write sh -c '...'" if is_for_a_shell(side.words) else ""
        raise RunFailed(f"does not build: {error}{hint}") from None
