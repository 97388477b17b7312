"""Read many files, or the parts of a large one, in several processes.

The results are the same for any number of processes, because each file is read alone, and results stay in order.
"""

from __future__ import annotations

import copyreg
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct

from perfgate.core import Run
from perfgate.core.wording import plural
from perfgate.readers.line_blocks import FileParts
from perfgate.workspace import surroundings
from perfgate.workspace.input_files import CHUNK
from perfgate.workspace.options import Refused

#: `--workers`: the number of processes that read; None is as many as files, processors and memory allow.
WORKERS: ContextVar[int | None] = ContextVar("workers", default=None)
#: `--executor`: the scheduler of a Dask cluster that reads, such as `tcp://HOST:PORT`; None is this machine.
SCHEDULER: ContextVar[str | None] = ContextVar("scheduler", default=None)
#: Fewer bytes in all are read sooner by this process alone than other processes start.
_WORTH_BYTES = 64 << 20
#: The smallest part of a file, in bytes.
_PART_BYTES = 32 << 20
#: The assumed size of a file at a URL. Two such files already get processes, because a store answers slowly.
_REMOTE_BYTES = 32 << 20
#: A process needs at most this many bytes for itself, and this many times the size of its file, if it is compressed.
_BYTES_EACH, _TIMES_ITS_FILE = 200 << 20, 12
_LOST = (
    "a process that reads files was lost, probably because the memory was used up: read with fewer, such as --workers 1"
)

#: Reads a file: its path, and the name that messages have for it.
ReadFile = Callable[[str, str], tuple[Run, ...]]
#: Called with the name of what is read, the number of bytes read so far, and all bytes.
Watcher = Callable[[str, int, int], None]


def read_each(
    files: Sequence[tuple[str, str]], read: ReadFile, read_elsewhere: ReadFile, watcher: Watcher | None = None
) -> Iterator[tuple[Run, ...]]:
    """Yield the runs of each file, in order. Raises Refused if a process is lost.

    `files`: paths, with the names that messages have for them. `read` reads a file in this process, and
    `read_elsewhere` in another one, so it must be a function of a module, or a `partial` of one. `watcher` is told how
    far the other processes are; `read` calls it itself.
    """
    sizes: list[int] = []
    if all("://" in path or os.path.isfile(path) for path, _ in files):  # this process has to read a pipe itself
        sizes = [_REMOTE_BYTES if "://" in path else os.path.getsize(path) for path, _ in files]
    workers = _workers(sizes)
    if workers < 2:
        yield from (read(path, name) for path, name in files)
        return
    with processes(workers) as pool:
        done = 0
        for size, runs in zip(sizes, pool.map(read_elsewhere, *zip(*files, strict=True)), strict=True):
            done += size
            if watcher is not None:
                watcher(plural(len(files), "file"), done, sum(sizes))
            yield runs


@contextmanager
def processes(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Return processes that read; they end with the block. Raises Refused if one is lost."""
    method = "fork" if sys.platform == "linux" and threading.active_count() == 1 else "spawn"
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context(method), _begin)
    try:
        yield pool
    except BrokenProcessPool:
        raise Refused(_LOST, 3) from None
    except GeneratorExit:  # the caller has what it needs
        raise
    except BaseException:  # an interrupt: do not wait until the files are read
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _workers(sizes: Sequence[int]) -> int:
    """Return the number of processes that read: as the user says, or as the files, processors and memory allow."""
    asked = WORKERS.get()
    if asked is None:
        if sum(sizes) < _WORTH_BYTES:
            return 1
        asked = _possible(_BYTES_EACH + _TIMES_ITS_FILE * max(sizes))
    return min(asked, len(sizes))


def _possible(each: int) -> int:
    """Return the number of processes that processors and memory allow, if each of them needs `each` bytes."""
    processors = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    memory = surroundings.memory_left()
    return processors if memory is None else min(processors, memory // each)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits handles Ctrl-C
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork would inherit the command's handler and its message
    allow_read_only_mappings()


def allow_read_only_mappings() -> None:
    """Let this process send read-only mappings, such as the facts of a run, to other processes."""
    copyreg.pickle(MappingProxyType, lambda mapping: (_unpickled, (dict(mapping),)))


def _unpickled(mapping: dict[str, object]) -> MappingProxyType[str, object]:
    return MappingProxyType(mapping)


Part = TypeVar("Part")
#: This process also computes the hash and the metrics, so its own part is smaller than the others by this factor.
_OWN_PART = 0.7


@contextmanager
def file_parts(path: str) -> Iterator[FileParts | None]:
    """Yield the parts of a JSON file and the processes that read them.

    None if the file is not plain JSON, if no other process may read, or if it cannot be opened: the caller then reads
    it as a whole, and reports the error.
    """
    is_json, size = False, 0
    with suppress(OSError), open(path, "rb") as file:
        is_json, size = file.read(100).lstrip()[:1] in (b"{", b"["), file.seek(0, 2)
    if not is_json:
        yield None
        return

    asked = WORKERS.get()
    # Each process decodes only a part, and the file is not compressed: less than `_TIMES_ITS_FILE`.
    workers = min(_possible(_BYTES_EACH + size), size // _PART_BYTES) if asked is None else asked
    if workers < 2:
        yield None
        return
    with processes(workers - 1) as pool:
        yield _Parts(path, size, workers, pool)


class _Parts(Struct, frozen=True):
    """The `FileParts` of a file, which a reader cuts where its format allows it."""

    path: str
    size: int
    workers: int
    _pool: ProcessPoolExecutor

    @property
    def shares(self) -> Sequence[float]:
        """The ends of all parts but the last, as shares of the size of the file. This process reads the last part."""
        return [at / (self.workers - 1 + _OWN_PART) for at in range(1, self.workers)]

    def read(self, begin: int, size: int) -> bytes:
        with open(self.path, "rb") as file:
            file.seek(begin)
            return file.read(size)

    def each(self, read: Callable[[Iterator[bytes], int], Part], ranges: Sequence[tuple[int, int]]) -> Iterator[Part]:
        futures = [self._pool.submit(partial(_read_range, read, self.path), *one) for one in ranges]
        return (future.result() for future in futures)


def _read_range(read: Callable[[Iterator[bytes], int], Part], path: str, begin: int, end: int) -> Part:
    return read(_blocks(path, begin, end), begin)


def _blocks(path: str, begin: int, end: int) -> Iterator[bytes]:
    with open(path, "rb") as file:
        file.seek(begin)
        while begin < end and (block := file.read(min(CHUNK, end - begin))):
            begin += len(block)
            yield block
