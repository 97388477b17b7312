"""Reading runs from files, folders, URLs and standard input."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import BinaryIO

from perfgate.core import Location, Problem, Run, SourceFile
from perfgate.core.file_mappings import FileMapping
from perfgate.core.resource_limits import Limits
from perfgate.core.runs import MACHINE_FILE
from perfgate.readers import join_runs, read, with_missing_ranks
from perfgate.readers.outside_formats import find_format, format_names, plugins
from perfgate.readers.text import Source, TraceMode
from perfgate.workspace import surroundings
from perfgate.workspace.options import Refused, shown_path
from perfgate.workspace.output_files import PATIENCE_S

CHUNK = 1 << 18
#: How many names of a folder are compared with one that does not exist.
_MOST_NAMES = 1000
#: Called with the name of a file, the number of bytes read so far, and the size of the file (0 if unknown).
Watcher = Callable[[str, int, int], None]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Call the watcher for each chunk of a file that is read in the block."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How the user wants files to be read."""

    format: str | None
    trace_mode: TraceMode
    limits: Limits
    conditions: Sequence[str] = ()
    with_calls: bool = True
    mappings: Sequence[FileMapping] = ()


def read_runs(
    paths: Sequence[str],
    format: str | None = None,
    trace_mode: TraceMode = "corrected",
    *,
    as_given: bool = False,
    conditions: Sequence[str] = (),
    with_calls: bool = True,
    mappings: Sequence[FileMapping] = (),
) -> tuple[Run, ...]:
    """Read every run named on the command line; a run contains the problems of its files.

    Parameters
    ----------
    format: the name of the reader; None finds it out.
    trace_mode: how overlapping times of a trace are counted.
    as_given: name files as the caller does, and not relative to the working directory.
    conditions: the names of more fields of results that are conditions.
    with_calls: make the call tree of each trace, which takes a quarter of the time and only causes need.
    mappings: how the files of the team's own tools are read.

    Raises Refused for an unknown format and for the same file given twice.
    """
    refuse_twice(paths)
    if format is not None and format not in {one.name for one in mappings} and find_format(format) is None:
        known = (*format_names(), *(one.name for one in mappings))
        near = get_close_matches(format, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
        faults = "".join(f"; {fault}" for fault in plugins().faults)
        raise Refused(f"--format {format}: no such format; {hint}{faults}")
    options = ReadOptions(format, trace_mode, surroundings.limits(), conditions, with_calls, mappings)
    named = [(path, path if as_given and "://" not in path else shown_path(path)) for path in paths]
    found = [
        [with_missing_ranks(run) if "torch-trace" in run.format else run for run in own]
        for own in _read_all(named, options)
    ]
    seen: dict[tuple[str, ...], str] = {}
    for own in found:
        content = tuple(sorted({file.sha256 for run in own for file in run.files}))
        if content and any(run.series for run in own):
            if content in seen:
                raise Refused(f"{own[0].source} is a copy of {seen[content]}: one run may count once only")
            seen[content] = own[0].source
    with_machines = (_with_machine(path, own, options) for path, own in zip(paths, found, strict=True))
    return tuple(run for own in with_machines for run in own)


def _with_machine(path: str, runs: list[Run], options: ReadOptions) -> list[Run]:
    """Return runs with what the machine did, if there is a file with it beside the results."""
    beside = path.rstrip("/") + MACHINE_FILE
    if path == "-":
        return runs
    found = [beside] if _is_file(beside) else []
    if os.path.isdir(path):  # a Recorder in each host writes beside the results of its rank
        found += [str(one) for one in sorted(Path(path).rglob("*" + MACHINE_FILE)) if _is_inside(one, Path(path))]
    if not found:
        return runs
    from perfgate.workspace.sidecars import merged, with_machine

    own = replace(options, format=None, mappings=())
    return with_machine(runs, merged([_read_file(own, one, shown_path(one))[0] for one in found]))


def _is_inside(path: Path, folder: Path) -> bool:
    return path.is_file() and path.resolve().is_relative_to(folder.resolve()) and not path.name.startswith(".")


def _is_file(path: str) -> bool:
    if "://" not in path:
        return os.path.isfile(path)
    from perfgate.workspace.remote import is_file

    return not path.startswith("http") and is_file(path)


def refuse_twice(paths: Sequence[str]) -> None:
    """Raise Refused if a file is named twice, by whatever names."""
    seen: dict[str, str] = {}
    for path in paths:
        real = path.rstrip("/") if path == "-" or "://" in path else os.path.realpath(path)
        if real in seen:
            raise Refused(f"{path} is given twice: one run may count once only")
        seen[real] = path


def _read_all(named: Sequence[tuple[str, str]], options: ReadOptions) -> Iterator[tuple[Run, ...]]:
    """Yield the runs at each path with a name: of a file, or the one run of a folder."""
    folders = {path: parts for path, name in named if (parts := _parts_of(path, name)) is not None}
    parts = [part for path, name in named for part in folders.get(path, [(path, name)])]
    readable = [part for part in parts if not isinstance(part, Run)]
    each = _each(readable, options)
    for path, name in named:
        if path not in folders:
            yield next(each)
            continue
        runs = [run for part in folders[path] for run in ((part,) if isinstance(part, Run) else next(each))]
        yield (join_runs(name, runs) if runs else _unreadable(name, "is a folder without files"),)


def _each(files: Sequence[tuple[str, str]], options: ReadOptions) -> Iterator[tuple[Run, ...]]:
    """Yield the runs of each file: read here, in several processes, or on a cluster."""
    if len(files) < 2:
        return (_read_file(options, *file) for file in files)
    from perfgate.workspace.parallel import SCHEDULER, read_each

    elsewhere, watcher = partial(_read_unwatched, options), _watcher.get()
    if scheduler := SCHEDULER.get():
        from perfgate.workspace.cluster import read_on_cluster

        return read_on_cluster(scheduler, files, elsewhere, watcher)
    return read_each(files, partial(_read_file, options), elsewhere, watcher)


def _read_unwatched(options: ReadOptions, path: str, name: str) -> tuple[Run, ...]:
    """Read a file in another process, which must not write progress to the terminal."""
    _watcher.set(None)
    return _read_file(options, path, name)


def _read_file(options: ReadOptions, path: str, name: str) -> tuple[Run, ...]:
    digest = hashlib.sha256()

    def chunks(file: BinaryIO, first: bytes) -> Iterator[bytes]:
        watcher, count = _watcher.get(), 0
        while chunk := (file.read(CHUNK) if count else first + file.read(CHUNK)):
            digest.update(chunk)
            count += len(chunk)
            if watcher is not None:
                watcher(name, count, size)
            yield chunk

    try:
        file, first, size = _opened_input(path)
        with file:
            rest = chunks(file, first)
            source = Source(
                name, rest, options.limits, options.trace_mode, options.conditions, with_calls=options.with_calls
            )
            if options.mappings:
                from perfgate.mappings.choose import read_with_mappings

                runs = read_with_mappings(source, options.mappings, options.format)
            else:
                runs = read(source, options.format)
            for _ in rest:  # the hash is of the whole file, even if the reader stopped before its end
                pass
    except FileNotFoundError:
        return (_unreadable(name, f"cannot be read: there is no such file{_nearest_file(path)}"),)
    except OSError as error:
        return (_unreadable(name, f"cannot be read: {error.strerror or error}"),)
    except _Unusable as error:
        return (_unreadable(name, str(error)),)
    files = (SourceFile(name, runs[0].format, digest.hexdigest()),)
    return tuple(replace(run, files=files) for run in runs)


class _Unusable(Exception):
    """An input that is not opened, with the reason."""


def _opened_input(path: str) -> tuple[BinaryIO, bytes, int]:
    """Open an input; return it, what was read of it already, and its size (0 if unknown). Raises OSError, _Unusable."""
    if path == "-":
        if sys.stdin is None:
            raise _Unusable("standard input is closed")
        return sys.stdin.buffer, b"", 0
    if "://" in path:
        from perfgate.workspace.remote import opened_url

        file, size = opened_url(path)
        return file, b"", size
    if stat.S_ISCHR(os.stat(path).st_mode):
        raise _Unusable("is a device, which may never end: give a file, a pipe or -")
    file, first = opened(path)
    return file, first, os.fstat(file.fileno()).st_size


def _nearest_file(path: str) -> str:
    """Return a question with the file of the same folder, or below it, whose name is most similar; or nothing."""
    folder, wanted = os.path.split(path)
    with suppress(OSError):
        names = sorted(os.listdir(folder or "."))[:_MOST_NAMES]
        inside = {name: os.path.join(folder, name) for name in names if not name.startswith(".")}
        for name in [name for name in inside if os.path.isdir(inside[name])] if not folder else ():
            inside |= {one: os.path.join(name, one) for one in sorted(os.listdir(name))[:_MOST_NAMES]}
        same = [wanted] if wanted in inside else []
        near = same or get_close_matches(wanted, inside, n=1, cutoff=0.7)
        if near:
            return f"; did you mean {shown_path(inside[near[0]])}?"
    return ""


def opened(path: str) -> tuple[BinaryIO, bytes]:
    """Open a file to read; return it, and what was read already.

    Raises OSError, also for a pipe without a writer: opening it would wait for ever.
    """
    if not stat.S_ISFIFO(os.stat(path).st_mode):
        return open(path, "rb"), b""
    from select import POLLIN, poll

    descriptor, first = os.open(path, os.O_RDONLY | os.O_NONBLOCK), b""
    began, events = time.monotonic(), poll()
    events.register(descriptor, POLLIN)
    try:
        while not first and not events.poll(50):
            first = os.read(descriptor, CHUNK)
            if not first and time.monotonic() - began > PATIENCE_S:
                os.close(descriptor)
                raise OSError(0, f"no program writes to this pipe (waited {PATIENCE_S} s)")
    except BlockingIOError:  # somebody will write
        pass
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "rb"), first


def _unreadable(name: str, message: str) -> Run:
    return Run(name, "unknown", (), (Problem("error", message, Location(name)),))


def _parts_of(path: str, name: str) -> list[tuple[str, str] | Run] | None:
    """Return the files of a folder (see `_files_of`), or None for a path that is a file."""
    if "://" in path:
        from perfgate.workspace.remote import files_below

        try:
            urls = files_below(path)
        except OSError as error:
            return [_unreadable(name, f"cannot be read: {error.strerror or error}")]
        return None if urls is None else [(url, f"{name}/{url[len(path.rstrip('/')) + 1 :]}") for url in urls]
    return _files_of(Path(path), name) if path != "-" and os.path.isdir(path) else None


def _files_of(folder: Path, name: str) -> list[tuple[str, str] | Run]:
    """Return the path and the name of each file in a folder, or a run with the reason why it is not read."""
    found = sorted(path for path in surroundings.not_too_many(folder.rglob("*"), name) if not path.name.startswith("."))
    real = folder.resolve()
    parts: list[tuple[str, str] | Run] = []
    for path in (path for path in found if path.is_symlink() or not path.is_dir()):
        if path.name.endswith(MACHINE_FILE):  # of the machine: see `_with_machine`
            continue
        shown = f"{name}/{path.relative_to(folder).as_posix()}"
        if not path.resolve().is_relative_to(real):
            parts.append(_unreadable(shown, "is a link that leads out of the folder"))
        elif not path.is_file():
            parts.append(_unreadable(shown, "is not a regular file"))
        else:
            parts.append((str(path), shown))
    return parts
