"""One large file that several processes read in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from msgspec import Struct

from perfgate.readers.file_parts import FileParts
from perfgate.workspace.input_files import CHUNK

Part = TypeVar("Part")
#: This process also computes the hash and the metrics, so its part is smaller by this factor.
_OWN_PART = 0.7


@contextmanager
def file_parts(path: str) -> Iterator[FileParts | None]:
    """Return the parts of a file; None if it is compressed or no JSON, or if no other process may read.

    None also if it cannot be opened: then reading it as a whole says why.
    """
    is_json, size = False, 0
    with suppress(OSError), open(path, "rb") as file:
        is_json, size = file.read(100).lstrip()[:1] in (b"{", b"["), file.seek(0, 2)
    if not is_json:
        yield None
        return
    from perfgate.workspace.parallel import processes, workers_of_parts

    workers = workers_of_parts(size)
    if workers < 2:
        yield None
        return
    with processes(workers - 1) as pool:
        yield _Parts(path, size, workers, pool)


class _Parts(Struct, frozen=True):
    path: str
    size: int
    workers: int
    _pool: ProcessPoolExecutor

    @property
    def shares(self) -> Sequence[float]:
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
