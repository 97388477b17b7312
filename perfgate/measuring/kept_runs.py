"""The folder of runs, and one run in it: the command and its folder, and the files that it writes."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from glob import escape, glob
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core.file_mappings import is_for_a_shell
from perfgate.core.wording import MACHINE_FILE
from perfgate.measuring.programs import Program, RunFailed, Stopped, finish, pinned
from perfgate.workspace.options import CommandOptions, Refused, shown_path, typed_path
from perfgate.workspace.output_files import refuse_committed

#: The folder of the runs, if the user names no other.
KEEP = "perfgate-runs"
#: The newest report in it, for `perfgate explain`.
REPORT = "report.json"


def with_kept_runs(options: CommandOptions, use: str, tell: Callable[[str], None]) -> CommandOptions:
    """Return the options with the newest kept runs if the user named none, and print their age. Raises Refused."""
    if options.runs:
        return options
    runs, facts = kept_runs()
    # The program may have changed since, so the user has to see their age.
    minutes = max(0.0, time.time() - max(Path(run).stat().st_mtime for run in runs)) / 60
    age = f"{60 * minutes:.0f} s" if minutes < 2 else f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.0f} h"
    others = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    tell(f"{use} {runs[0]}{others}, measured {age} ago; `perfgate run` measures again")
    return replace(options, runs=runs, env=(*facts, *options.env), kept=True)


def kept_runs() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the paths of the newest kept runs or pairs, and of the facts of their machine. Raises Refused."""
    folder = Path(KEEP)
    pairs = sorted(folder.glob("pair-[0-9]*.json"))
    logs = [log for log in sorted(folder.glob("run-[0-9]*.log")) if not log.with_suffix(".FAILED.txt").exists()]
    runs = pairs or [result_of(log.with_suffix("")) or log for log in logs]
    if not runs:
        raise Refused(f"no run was given, and {KEEP}/ has none: make runs with `perfgate run`, or give their files")
    facts = sorted(folder.glob("machine-*.json"))
    return tuple(typed_path(str(run)) for run in runs), tuple(typed_path(str(path)) for path in facts)


#: The names that `perfgate run` gives to files and folders. Others are not moved.
_OWN = re.compile(
    r"(?:run|pair|failed|new-code|new-environment)-\d{3,}(?:-whole)?(?:\.json|\.FAILED\.txt|(?:\.log)?(?:\.machine)?)"
    r"|build-\w+(?:\.log|\.FAILED\.txt)?"
    r"|(?:machine-\w+|report)\.json"
    r"|\.(?:machine-\w+|report)\.json\.\w+\.tmp"  # a killed process leaves it
)
_IGNORE = ".gitignore"
_EARLIER = re.compile(r"earlier-(\d{3,})")
#: The folders that this process has locked, by their real paths, with the open descriptors that have the locks.
_CLAIMED: dict[str, int] = {}


def make_folder(folder: Path) -> None:
    """Make a folder for runs if there is none, with a `.gitignore` for all its files. Raises OSError and Refused."""
    refuse_committed(str(folder))
    if folder.exists():
        folder.mkdir(exist_ok=True)  # raises FileExistsError if it is a file
        return
    folder.mkdir(parents=True)
    (folder / _IGNORE).write_text("*\n", encoding="utf-8")


def claim(folder: Path, keep: str, command: str = "perfgate run") -> None:
    """Lock a folder for this process until it ends. Raises Refused if another process has it, and OSError.

    `keep`, `command`: the folder and the command, as the message names them. Windows has no such locks.
    """
    if sys.platform == "win32" or os.path.realpath(folder) in _CLAIMED:
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Refused(f"--keep {keep}: another `{command}` is writing there: name another folder") from None
    _CLAIMED[os.path.realpath(folder)] = descriptor


def new_folder(keep: str) -> Path:
    """Make the folder of the runs. Earlier runs in it move into a new folder there: `earlier-001`, `earlier-002`, ...

    Raises Refused if that fails, and if the folder has files that `perfgate run` did not write.
    """
    folder = Path(keep)
    try:
        make_folder(folder)
        claim(folder, keep)
        found = sorted(path for path in folder.iterdir() if not _EARLIER.fullmatch(path.name) and path.name != _IGNORE)
        if others := [path.name for path in found if not _OWN.fullmatch(path.name)]:
            why = f"is not empty: it has {others[0]}, which `perfgate run` did not write"
            raise Refused(f"--keep {keep}: {why}; name another folder")
        if found:
            numbers = [int(name[1]) for path in folder.iterdir() if (name := _EARLIER.fullmatch(path.name))]
            aside = folder / f"earlier-{max(numbers, default=0) + 1:03d}"
            aside.mkdir()
            for path in found:
                path.rename(aside / path.name)
    except OSError as error:
        raise Refused(f"--keep {keep}: cannot be made: {error.strerror or error}") from None
    return folder


#: A variable of random length, and its longest length. The addresses of a process's data depend on the lengths of its
#: environment and its paths, which differ between a worktree and the working tree. This can make the same program some
#: percent slower, by the same amount in every pair (Mytkowicz et al., "Producing Wrong Data Without Doing Anything
#: Obviously Wrong!", 2009). With this variable, the bias is a part of the noise between pairs, as the interval shows.
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
    """The files that match globs before a run, so that those which the run writes can be found."""

    folder: Path
    #: Relative to the folder.
    globs: tuple[str, ...]
    stamps: frozenset[_Stamp]
    #: The files before the first run of this process, with their hashes. A result must differ from these, but may equal
    #: that of an earlier run. Empty for `EVERYTHING`, which may be large.
    old: Mapping[Path, bytes]

    def changed(self) -> list[Path]:
        """Return the files that are new or were written to since they were noted."""
        return sorted(path for path, *_ in _stamps(self.folder, self.globs) - self.stamps)

    def is_old(self, path: Path) -> bool:
        """Return whether a file has the content that it had before the first run."""
        return path in self.old and _digest(path) == self.old[path]


def matching(pattern: str) -> set[Path]:
    """Return what a glob matches. `**` enters no hidden folders and no links, which can lead to / or to themselves."""
    stars = re.search(r"(^|/)\*\*(/|\Z)", pattern)  # `a**` means the same as `a*`
    if stars is None:
        return set(map(Path, glob(pattern)))
    head, tail = pattern[: stars.end(1)], pattern[stars.end() :] if stars[2] else "*"  # a last `**` is `**/*`
    found: set[Path] = set()
    for top in glob(head) if head else ["."]:
        for folder, names, _ in os.walk(top):
            names[:] = [name for name in names if not name.startswith(".")]
            found |= matching(os.path.join(escape(folder), tail))
    return found


def _stamps(folder: Path, globs: tuple[str, ...]) -> frozenset[_Stamp]:
    found = (path for pattern in globs for path in matching(str(folder / pattern)))
    files = {path.resolve(): path.stat() for path in found if path.is_file()}
    return frozenset((path, stat.st_mtime_ns, stat.st_size, stat.st_ino) for path, stat in files.items())


@cache  # so these are the files before the first run
def _old_files(folder: Path, globs: tuple[str, ...]) -> Mapping[Path, bytes]:
    return {path: _digest(path) for path, *_ in _stamps(folder, globs)}


def _digest(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.digest()


class ProgramSide(Struct, frozen=True):
    """The program of one side: a command with the placeholders `{run}` and `{results}`, its folder and environment."""

    words: tuple[str, ...]
    folder: Path = field(default_factory=Path.cwd)
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The processors that it may use; None for all.
    cpus: frozenset[int] | None = None


class NewRun(Struct, frozen=True):
    """A run of a side that `new_run` prepared: `start` it, wait for its end, then `collect` its files."""

    side: ProgramSide
    number: int
    #: The folder of its files, and the file with what the command prints.
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

        A file outside of the command's folder is kept with its whole path. A file with the content that it had before
        the first run was only touched: it does not count, and `warn` gets a message. Without files, the run is the log.
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
    """Make a new folder for a run, and yield the run. If the block fails, a file beside the folder says why.

    `globs`: the files that the command writes, relative to its folder. Raises Refused if there can be no folder.
    """
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise Refused(f"{shown_path(str(path))}: cannot keep runs there: {error.strerror}") from None
    results, folder, patterns = path.resolve(), side.folder.resolve(), tuple(globs)
    log = results.with_name(f"{results.name}.log")
    try:
        old = {} if patterns == EVERYTHING else _old_files(folder, patterns)
        yield NewRun(side, number, results, log, FilesBefore(folder, patterns, _stamps(folder, patterns), old))
    except BaseException as error:
        why = str(error) or type(error).__name__
        results.with_name(f"{results.name}.FAILED.txt").write_text(why + "\n", encoding="utf-8")
        raise


def fair_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return `_SLEEPING` and `_LAYOUT` for one run of one side of a pair. Variables that the user set stay.

    `given`: the variables of the side, beside those of this process.
    """
    own = {name: value for name, value in _SLEEPING.items() if name not in os.environ and name not in given}
    return {**own, _LAYOUT: "x" * secrets.randbelow(_LONGEST_LAYOUT)}


def build(path: Path, side: ProgramSide, timeout: float) -> None:
    """Run the build command of a side; its log is beside `path`. Raises RunFailed, and Stopped after a signal.

    `path`: a new folder, for the files of the build. `side`: the command, and where it runs. `timeout`: in seconds.
    """
    try:
        with new_run(path, side, number=0) as run:
            finish(run.start(), timeout)
    except Stopped:  # the user stopped the command: that says nothing about the build
        raise
    except RunFailed as error:
        hint = "; --build runs no shell: write sh -c '...'" if is_for_a_shell(side.words) else ""
        raise RunFailed(f"does not build: {error}{hint}") from None
