"""How far the reading of a file is, for whoever watches: a terminal, or nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Told the name of a file, how many of its bytes have been read, and how many it has (0: nobody knows).
Watcher = Callable[[str, int, int], None]

_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched_by(watcher: Watcher) -> Iterator[None]:
    """Tell the watcher of everything that is read meanwhile."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def watched(name: str, size: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same chunks, each said to whoever watches before it is handed on."""
    watcher, read = _watcher.get(), 0
    if watcher is None:
        yield from chunks
        return
    for chunk in chunks:
        read += len(chunk)
        watcher(name, read, size)
        yield chunk
