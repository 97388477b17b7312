"""Baselines as files below a directory.

A file is written beside its place and moved there in one step, so that a reader sees all of it or nothing, and a
writer that dies leaves nothing behind that is read. Writers take turns through a lock.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perfgate.baselines.stores import Taken, check_path
from perfgate.core import Location, Problem
from perfgate.core.resource_limits import DEFAULT, Limits

if sys.platform != "win32":
    import fcntl


class DirectoryStore:
    """Baselines as files below `root`, which need not exist yet."""

    def __init__(self, root: Path, shown: str, limits: Limits = DEFAULT) -> None:
        self.root = root
        self.shown = shown
        self.limits = limits

    def paths(self, folder: str = "") -> tuple[list[str], list[Problem]]:
        """Every file below a folder, sorted, and links, which are not followed. Raises UnsafeName.

        Names that begin with a dot are nobody's: a writer may be at work.
        """
        found: list[str] = []
        folder = "/".join(check_path(folder)) if folder else ""
        problems = [self._linked(path) for path in _upwards(folder) if (self.root / path).is_symlink()]
        if problems or not (self.root / folder).exists():
            return [], problems
        for top, folders, files in os.walk(self.root / folder, onerror=lambda error: problems.append(self._no(error))):
            here = Path(top).relative_to(self.root).as_posix().removeprefix(".").lstrip("/")
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in (*folders, *sorted(name for name in files if not name.startswith("."))):
                path = f"{here}/{name}" if here else name
                if os.path.islink(os.path.join(top, name)):
                    problems.append(self._linked(path))
                elif name not in folders:
                    found.append(path)
        return sorted(found), problems

    def _linked(self, path: str) -> Problem:
        return Problem("error", "is a link, and links are not followed", self.location(path))

    def _no(self, error: OSError) -> Problem:
        place = Path(error.filename).relative_to(self.root).as_posix()
        return Problem("error", f"cannot be read: {error.strerror}", self.location(place))

    def read(self, path: str) -> bytes:
        """The bytes of a regular file; one too large to be a baseline is refused. Raises OSError."""
        file = self.root.joinpath(*check_path(path))
        if not file.exists() and not file.is_symlink():
            raise FileNotFoundError(2, "no such file")
        if file.is_symlink() or not file.is_file():
            raise OSError(0, "it is a link or no regular file, and links are not followed")
        if file.stat().st_size > self.limits.baseline_bytes:
            raise OSError(0, self.limits.beyond("baseline_bytes", "it is larger"))
        return file.read_bytes()

    def location(self, path: str) -> Location:
        """How messages name a stored file."""
        return Location(f"{self.shown}/{path}")

    def write(self, path: str, data: bytes, *, replace: bool = False) -> None:
        """Put a file in its place in one step. Raises OSError, Taken if it exists, and UnsafeName."""
        place = self.root.joinpath(*check_path(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=place.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            if place.exists() and not replace:
                raise Taken(0, "it exists already")
            os.replace(temporary, place)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def remove(self, path: str) -> None:
        """Delete a file, and its folder when it was the last there. Raises OSError."""
        file = self.root.joinpath(*check_path(path))
        file.unlink()
        if not any(file.parent.iterdir()):
            file.parent.rmdir()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """One writer at a time; a writer that dies gives the lock back. Raises OSError.

        The folder itself is locked, so that no lock file is left to be committed by accident.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        if sys.platform == "win32":  # no flock there: the atomic replacement alone keeps files whole
            yield
            return
        descriptor = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _upwards(folder: str) -> list[str]:
    """A folder and those that it lies in, the root apart."""
    parts = folder.split("/") if folder else []
    return ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
