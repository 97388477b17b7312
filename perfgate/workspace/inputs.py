"""Read the runs at paths that a user names: files, folders, URLs and standard input."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from difflib import get_close_matches
from functools import partial
from itertools import chain
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Run, SourceFile
from perfgate.core.file_mappings import FileMapping
from perfgate.core.resource_limits import Limits
from perfgate.core.wording import COMMAND, MACHINE_FILE
from perfgate.readers import are_apart, join_runs, read, with_missing_ranks
from perfgate.readers.coverage import coverage_of_unknown
from perfgate.readers.line_blocks import FileParts, NotInParts
from perfgate.readers.not_recognised import find_format, format_names, plugins
from perfgate.readers.text import Source, TraceMode
from perfgate.readers.unlabelled import with_mixed_refused
from perfgate.workspace import surroundings
from perfgate.workspace.input_files import (
    CHUNK,
    RunsOfPath,
    Unusable,
    machine_files,
    nearest_file,
    opened_input,
    parts_of,
    unreadable,
)
from perfgate.workspace.options import Refused, shown_path
from perfgate.workspace.output_files import open_scratch

#: From this size in bytes on, a file is read faster in parts by several processes.
WORTH_PARTS = 96 << 20
#: Called with the name of what is read, how much of it was read so far, and its size (0 if unknown), in bytes. On a
#: cluster, the numbers count files.
Watcher = Callable[[str, int, int], None]
#: Returns the runs of a file with outlines instead of the values that the command does not need.
Shorten = Callable[[tuple[Run, ...]], tuple[Run, ...]]
#: The first bytes of an unknown output, whose numbers are counted.
_EXAMINED = 1 << 18
#: The watcher of `watched_by`.
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Call the watcher for each chunk that is read in the block, and for each file that another process has read."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


class ReadOptions(Struct, frozen=True):
    """How files are read: see the parameters of `read_runs`."""

    format: str | None
    trace_mode: TraceMode
    limits: Limits
    conditions: Sequence[str] = ()
    with_calls: bool = True
    mappings: Sequence[FileMapping] = ()
    shorten: Shorten | None = None


def read_runs(
    paths: Sequence[str],
    format: str | None = None,
    trace_mode: TraceMode = "corrected",
    *,
    as_given: bool = False,
    conditions: Sequence[str] = (),
    with_calls: bool = True,
    mappings: Sequence[FileMapping] = (),
    shortening: Callable[[], Shorten | None] | None = None,
    earlier: list[RunsOfPath] | None = None,
) -> tuple[Run, ...]:
    """Read every run named on the command line; a run contains the problems of its files.

    Parameters:
        format: the name of the reader; None detects it.
        trace_mode: how overlapping times of a trace are counted.
        as_given: name files as the caller does, and not relative to the working directory.
        conditions: the names of more fields of results that are conditions, such as a batch size: only runs with equal
            conditions are compared.
        with_calls: make the call tree of each trace, which takes a quarter of the time and only causes need.
        mappings: how the files of the team's own tools are read.
        shortening: called once if several files are read, or if `earlier` is given; returns the function that shortens
            the runs of each, or None.
        earlier: the runs of the first paths, which were read before and may have moved, so they are not read again. The
            runs of the new paths are added to this list.

    Raises Refused for an unknown format, and for the same file, or a copy of it, given twice.
    """
    refuse_twice(paths)
    # A glob of the shell may name the file of the machine, too: it is read with the results beside it.
    paths = [path for path in paths if not (path.endswith(MACHINE_FILE) and path.removesuffix(MACHINE_FILE) in paths)]
    names = [mapping.name for mapping in mappings]
    if format is not None and format not in names and find_format(format) is None:
        raise _unknown_format(format, (*format_names(), *names))
    options = ReadOptions(format, trace_mode, surroundings.limits(), conditions, with_calls, mappings)
    found = [one.at(path) for one, path in zip(earlier or (), paths, strict=False)]
    new = paths[len(found) :]
    named = [(path, path if as_given and "://" not in path else shown_path(path)) for path in new]
    each = _read_all(named, options, shortening, several=earlier is not None)
    found += [_of_path(path, runs, options) for path, runs in zip(new, each, strict=True)]
    seen: dict[tuple[str, ...], RunsOfPath] = {}
    for one in (one for one in found if one.content):
        first = seen.setdefault(one.content, one)
        if first is not one:
            raise Refused(f"{one.runs[0].source} is a copy of {first.runs[0].source}: one run counts once")
    if earlier is not None:
        earlier[:] = found
    return with_mixed_refused([run for one in found for run in one.runs])


def _unknown_format(format: str, known: Sequence[str]) -> Refused:
    near = get_close_matches(format, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
    faults = "".join(f"; {fault}" for fault in plugins().faults)
    return Refused(f"--format {format}: no such format; {hint}{faults}")


def _of_path(path: str, runs: Sequence[Run], options: ReadOptions) -> RunsOfPath:
    """Return the runs at a path with the metrics of the machine, if a file beside the results has them."""
    # Joined files have all their formats, such as `deepspeed+torch-trace`.
    own = [with_missing_ranks(run) if "torch-trace" in run.format else run for run in runs]
    # Files without any metric are not copies: empty ones, for example, are all equal.
    content = {file.sha256 for run in own for file in run.files} if any(run.series for run in own) else ()
    if beside := machine_files(path):
        from perfgate.workspace.env_facts import merged, with_machine

        reading = replace(options, format=None, mappings=())
        machine = merged([_read_file(reading, one, shown_path(one))[0] for one in beside])
        own = with_machine([_as_command(path, run, machine) for run in own], machine)
    return RunsOfPath(path, tuple(own), tuple(sorted(content)))


def _as_command(path: str, run: Run, machine: Run) -> Run:
    """Return a run without its problems if its file is the output of a command that was measured as a whole.

    No reader has to know such an output: the run has the time of the command, and its coverage counts unread numbers.
    """
    is_measured = any(one.key.metric.startswith(COMMAND) for one in machine.series)
    if run.format != "unknown" or not run.files or not run.source.endswith(".log") or not is_measured:
        return run
    with open(path, "rb") as file:
        coverage = coverage_of_unknown(run.source, file.read(_EXAMINED))
    # Without `files`: several runs may have the same output, and would look like copies of one run.
    return replace(run, format="command", problems=(), files=(), coverage=(coverage,))


def refuse_twice(paths: Sequence[str]) -> None:
    """Raise Refused if a file is named twice, also by two different paths."""
    seen: dict[str, str] = {}
    for path in paths:
        real = path.rstrip("/") if path == "-" or "://" in path else os.path.realpath(path)
        if real in seen:
            raise Refused(f"{path} is given twice: one run counts once")
        seen[real] = path


def _read_all(
    named: Sequence[tuple[str, str]],
    options: ReadOptions,
    shortening: Callable[[], Shorten | None] | None,
    *,
    several: bool,
) -> Iterator[tuple[Run, ...]]:
    """Yield the runs of each file, or the one run of each folder.

    `named`: paths with names. `several`: later calls read more files of the same command.
    """
    folders = {path: parts for path, name in named if (parts := parts_of(path, name)) is not None}
    readable = {  # without each Run, which says why a file is not read
        path: [part for part in folders.get(path, [(path, name)]) if not isinstance(part, Run)] for path, name in named
    }
    files = list(chain.from_iterable(readable.values()))
    shorten: Shorten | None = None
    if shortening is not None and (several or len(files) > 1):
        from perfgate.readers.torch_trace.ranks import has_cycles

        # To join files of several profiling cycles of one process, all values are needed.
        shorten = None if has_cycles([name for _, name in files]) else shortening()
    short = replace(options, shorten=shorten) if shorten else options
    each = _each(files, short, [len(own) for own in readable.values()])
    for path, name in named:
        if path not in folders:
            yield next(each)
            continue
        runs = _in_order(folders[path], each)
        if shorten and not are_apart(runs):  # they cannot be joined without their values: read them again
            runs = _in_order(folders[path], _each(readable[path], options, None))
        yield (join_runs(name, runs) if runs else unreadable(name, "is a folder without files"),)


def _in_order(parts: Sequence[tuple[str, str] | Run], read: Iterator[tuple[Run, ...]]) -> list[Run]:
    """Return the runs of the parts of a folder; `read` yields those of its files, in order."""
    return [run for part in parts for run in ((part,) if isinstance(part, Run) else next(read))]


def _each(
    files: Sequence[tuple[str, str]], options: ReadOptions, counts: Sequence[int] | None
) -> Iterator[tuple[Run, ...]]:
    """Yield the runs of each file: read here, in several processes, or on a cluster.

    `counts`: how many files belong to each run, in order; None if workers of a cluster must not join them.
    """
    if len(files) < 2:
        large = [path for path, _ in files if os.path.isfile(path) and os.path.getsize(path) >= WORTH_PARTS]
        return ((_read_in_parts if path in large else _read_file)(options, path, name) for path, name in files)
    from perfgate.workspace.parallel import SCHEDULER, read_each

    elsewhere, watcher = partial(_read_unwatched, options), _watcher.get()
    if scheduler := SCHEDULER.get():
        from perfgate.workspace.joined_ranks import read_on_cluster

        return read_on_cluster(scheduler, files, elsewhere, counts or [1] * len(files), options.shorten, watcher)
    return read_each(files, partial(_read_file, options), elsewhere, watcher)


def _read_unwatched(options: ReadOptions, path: str, name: str) -> tuple[Run, ...]:
    """Read a file in another process, which must not write progress to the terminal."""
    _watcher.set(None)
    return _read_file(options, path, name)


def _read_in_parts(options: ReadOptions, path: str, name: str) -> tuple[Run, ...]:
    """Return the runs of a large file, which is read by several processes if its format has parts."""
    from perfgate.workspace.parallel import file_parts

    with file_parts(path) as parts, suppress(NotInParts):
        return _read_file(options, path, name, parts)
    return _read_file(options, path, name)


def _read_file(options: ReadOptions, path: str, name: str, parts: FileParts | None = None) -> tuple[Run, ...]:
    """Return the runs of a file, with its hash; one run with the reason if it cannot be opened or read."""
    digest = hashlib.sha256()
    try:
        file, first, size = opened_input(path)
        with file:
            rest = _chunks(file, first, digest.update, name, size)
            how = (options.limits, options.trace_mode, options.conditions, options.with_calls)
            source = Source(name, rest, *how, parts=parts, scratch=open_scratch)
            if options.mappings:
                from perfgate.mappings.choose import read_with_mappings

                runs = read_with_mappings(source, options.mappings, options.format)
            else:
                runs = read(source, options.format)
            if "://" in path and all(run.format == "unknown" for run in runs):
                return runs  # without a hash: the rest of a file that is not read is not fetched
            for _ in rest:  # the hash is of the whole file, even if the reader stopped before its end
                pass
    except FileNotFoundError:
        return (unreadable(name, f"cannot be read: file not found{nearest_file(path)}"),)
    except OSError as error:
        return (unreadable(name, f"cannot be read: {error.strerror or error}"),)
    except Unusable as error:
        return (unreadable(name, str(error)),)
    if options.shorten is not None:
        runs = options.shorten(runs)
    files = (SourceFile(name, runs[0].format, digest.hexdigest()),)
    return tuple(replace(run, files=files) for run in runs)


def _chunks(file: BinaryIO, first: bytes, note: Callable[[bytes], object], name: str, size: int) -> Iterator[bytes]:
    """Yield `first` and the rest of a file in chunks; `note` gets each chunk, and the watcher the progress."""
    watcher, count = _watcher.get(), 0
    while chunk := (file.read(CHUNK) if count else first + file.read(CHUNK)):
        note(chunk)
        count += len(chunk)
        if watcher is not None:
            watcher(name, count, size)
        yield chunk
