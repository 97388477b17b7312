"""Write to a store: one writer at a time, with the reason if that is not possible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from perfgate.baselines.places import UnsafeName
from perfgate.baselines.stores import WritableStore
from perfgate.workspace.options import Refused


@contextmanager
def locked(store: WritableStore) -> Iterator[None]:
    """Let one writer work at a time. Raises Refused if the store cannot be written to."""
    try:
        with store.lock():
            yield
    except OSError as error:
        raise Refused(f"{store.shown} cannot be written: {error.strerror or error}") from None


def write_file(store: WritableStore, path: str, data: bytes, *, replace: bool = False) -> None:
    """Write a file. Raises Refused with the reason if that is not possible, also if the file exists."""
    try:
        store.write(path, data, replace=replace)
    except (OSError, UnsafeName) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise Refused(f"{store.location(path)}: cannot be written: {why}") from None
