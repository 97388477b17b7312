"""Where baselines are kept: a directory, a git commit, or a bucket, all with the layout of `layout.py`.

A store knows files and nothing of what is in them. Paths are relative to its root, with `/` between their parts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from perfgate.core import Location, Problem

#: What a suite, an environment, a level or a run may be called: nothing that leads out of the folder.
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


class UnsafeName(ValueError):
    """A name that could lead out of the folder."""


class Taken(OSError):
    """A file that is to be new is there already: somebody else wrote it first."""


class Store(Protocol):
    """Baselines that can be read."""

    @property
    def shown(self) -> str:
        """How messages call the root."""
        ...

    def paths(self, folder: str = "") -> tuple[list[str], list[Problem]]:
        """Every file below a folder, sorted; links and what else is refused are problems. Nothing there is empty."""
        ...

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raises OSError."""
        ...

    def location(self, path: str) -> Location:
        """How messages name a stored file."""
        ...


class WritableStore(Store, Protocol):
    """Baselines that can be changed, too."""

    def write(self, path: str, data: bytes, *, replace: bool = False) -> None:
        """Put a file in its place, whole or not at all. Raises OSError (Taken if it exists) and UnsafeName."""
        ...

    def remove(self, path: str) -> None:
        """Delete a file. Raises OSError."""
        ...

    def lock(self) -> AbstractContextManager[None]:
        """One writer at a time, where the store has a lock. Raises OSError."""
        ...


def check_path(path: str) -> Iterator[str]:
    """The parts of a path, each of them safe; a part that begins with `_` holds what is no run. Raises UnsafeName."""
    for part in path.split("/"):
        if not SAFE_NAME.fullmatch(part.removeprefix("_")):
            raise UnsafeName(
                f"{part!r} is not a name for a baseline: use letters, digits, dots, dashes and underscores"
            )
        yield part
