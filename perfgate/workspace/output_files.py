"""Write files. Before the work begins, a report is checked (`output_faults`); at the end it is replaced in one step."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import EMFILE, ENFILE, ENXIO
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import known_to_git, leads_out, refuse_link_out

if TYPE_CHECKING:
    from perfgate.large_values.array import ScratchFile

#: The time to wait for the other end of a pipe, in seconds.
PATIENCE_S = 4
#: The least room for a step summary, in bytes: a shorter one says too little.
_LEAST_SUMMARY = 2_000


def output_faults(outputs: Mapping[str, str], inputs: Sequence[str]) -> dict[str, str]:
    """Return a message, by format, for each report that cannot be written, or would replace an input or another report.

    `outputs`: the file of each format by its name; `-` is standard output. `inputs`: all files and folders that are
    read: runs, rules, baselines, facts.
    """
    faults: dict[str, str] = {}
    real = [os.path.realpath(path) for path in inputs if path != "-"]
    used = dict.fromkeys(real, "an input")  # each path with its use
    folders = [path for path in real if os.path.isdir(path)]
    for name, path in outputs.items():
        place = path if path == "-" else os.path.realpath(path)
        fault = None
        if place in used:
            fault = f"--{name} {path}: that file is {used[place]}"
        elif path != "-" and any(_is_read_from(folder, place) for folder in folders):
            fault = f"--{name} {path}: is in a folder that is read; write reports elsewhere"
        elif path != "-" and (why := _unwritable(path)):
            fault = f"--{name} {path}: {why}"
        used.setdefault(place, f"the {name} report already")
        if fault is not None:
            faults[name] = fault
    return faults


def _is_read_from(folder: str, place: str) -> bool:
    """Return whether a file at this place would be read as part of a folder, now or the next time."""
    try:
        among = os.path.commonpath([folder, place]) == folder
    except ValueError:  # another drive of Windows, or `-`
        return False
    # The working directory may have rules next to reports. There only rule files and existing files are in danger.
    return among and (folder != os.getcwd() or place.endswith((".yaml", ".yml")) or os.path.exists(place))


def _unwritable(path: str) -> str | None:
    """Return why a file cannot be written; None if it can."""
    if os.path.isdir(path):
        return "is a directory"
    if leads_out(path):
        return "a link leads out of the repository: name the file itself"
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=os.path.dirname(path) or "."):
            return None
    except OSError as error:
        return f"cannot write there: {error.strerror or error}"


def write_reports(outputs: Mapping[str, str], render: Callable[[str], str]) -> list[str]:
    """Write every report that goes to a file; return a message for each that could not be written.

    `render` returns the text of a format.
    """
    failures = []
    for name, path in outputs.items():
        if path != "-":
            try:
                replace_file(path, render(name).encode("utf-8"))
            except Exception as error:  # a failing reporter must not change the verdict or stop the others
                why = getattr(error, "strerror", None) or error
                failures.append(f"the {name} report could not be written to {path}: {why}")
    return failures


def append_summary(path: str, limit: int, render: Callable[[int], str]) -> list[str]:
    """Append to the summary of a job's step, whose file has at most `limit` bytes; return a message if that fails.

    `render` gets the number of free bytes, and returns a text that is not longer.
    """
    try:
        room = limit - (os.path.getsize(path) if os.path.exists(path) else 0)
        if room < _LEAST_SUMMARY:
            return [f"the step summary {path} is full: the report was not added to it"]
        with open(path, "a", encoding="utf-8", newline="\n") as file:
            file.write(render(room))
    except Exception as error:  # a failing reporter must not change the verdict
        return [f"the step summary could not be written: {getattr(error, 'strerror', None) or error}"]
    return []


def replace_file(path: str, data: bytes) -> None:
    """Write a file in one step, so that a reader sees the old one or the new one. Raises OSError.

    A device or a pipe is not replaced by a file: it gets the data.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with _other_end(path) if stat.S_ISFIFO(os.stat(path).st_mode) else open(path, "wb") as file:
            file.write(data)
        return
    with _beside(os.path.realpath(path), data) as temporary:
        os.replace(temporary, os.path.realpath(path))


def _other_end(path: str) -> BinaryIO:
    """Open a pipe to write. Raises OSError if no program reads it: opening it would wait for ever."""
    began = time.monotonic()
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != ENXIO:
                raise
            if time.monotonic() - began > PATIENCE_S:
                raise OSError(ENXIO, f"no program reads this pipe (waited {PATIENCE_S} s)") from None
            time.sleep(0.05)
        else:
            os.set_blocking(descriptor, True)
            return os.fdopen(descriptor, "wb")


def create_file(path: str, data: bytes) -> None:
    """Write a new file in one step, so that a reader sees all of it or none. Raises OSError, also if it exists."""
    with _beside(path, data) as temporary:
        try:
            os.link(temporary, path)  # unlike a renaming, it fails if the file exists
        except OSError:
            if os.path.lexists(path):
                raise
            os.replace(temporary, path)  # a file system without links
        else:
            os.unlink(temporary)


def create_files(files: Mapping[str, bytes]) -> None:
    """Write new files with their folders, in this order; all or none. Raises Refused."""
    made: list[Path] = []
    try:
        for name, data in files.items():
            for parent in reversed(Path(name).parents):
                if not parent.exists():
                    parent.mkdir()
                    made.append(parent)
            create_file(name, data)
            made.append(Path(name))
    except BaseException as error:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        if not isinstance(error, OSError):
            raise
        place = error.filename2 or error.filename  # a link from a temporary file has two names
        raise Refused(f"nothing was written, because {place} cannot be written: {error.strerror or error}") from None


@contextmanager
def _beside(path: str, data: bytes) -> Iterator[str]:
    """Yield a new hidden file with the data in the folder of `path`; it is removed if the block fails."""
    import tempfile

    folder, name = os.path.split(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)  # only the owner can read a file of `mkstemp`
        yield temporary
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def refuse_committed(folder: str) -> None:
    """Refuse a folder of --keep that is a link out of the repository, or in which git tracks files. Raises Refused.

    A pull request can commit links there, through which perfgate would write or remove files elsewhere. A `.gitignore`
    may be committed: perfgate itself writes one.
    """
    refuse_link_out(folder, "--keep")
    tracked = known_to_git("--literal-pathspecs", "ls-files", "--", folder) or ""
    for name in [line for line in tracked.splitlines() if os.path.basename(line) != ".gitignore"][:1]:
        raise Refused(f"--keep {folder}: git tracks {name}: remove it from git, or name another folder with --keep")


def open_scratch() -> ScratchFile:
    """Return a temporary file without a name. If there is no room, this function and each write raise Refused."""
    import tempfile

    try:
        return _Scratch(tempfile.TemporaryFile(buffering=0))
    except OSError as error:
        raise _no_room(error) from None


class _Scratch:
    """The temporary file of `open_scratch`."""

    def __init__(self, file: FileIO) -> None:
        self._file = file
        self.seek, self.close = file.seek, file.close

    def write(self, data: memoryview) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            raise _no_room(error) from None

    def readinto(self, data: memoryview) -> int:
        return self._file.readinto(data)


def _no_room(error: OSError) -> Refused:
    import tempfile

    if error.errno in (EMFILE, ENFILE):
        return Refused("too many temporary files of very many values are open: raise the limit (ulimit -n)", 3)
    message = f"no room for the temporary files of very many values ({error.strerror or error})"
    step = "free some, or let TMPDIR name a folder with more"
    return Refused(f"{tempfile.gettempdir()} has {message}: {step}", 3)
