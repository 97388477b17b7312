"""Where baselines are kept: a directory, `baselines/SUITE/ENVIRONMENT/LEVEL/RUN.json`.

A file is written beside its place and moved there in one step, so that a reader sees all of it or nothing, and a
writer that dies leaves nothing behind that is read. Writers take turns through a lock.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perfgate.model import Location, Problem

if sys.platform != "win32":
    import fcntl

#: What a suite, an environment, a level or a run may be called: nothing that leads out of the folder.
SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
MAX_FILE_BYTES = 16 << 20


class UnsafeName(ValueError):
    """A name that could lead out of the folder."""


class DirectoryStore:
    """Baselines as files below `root`; paths are relative to it, with `/` between their parts."""

    def __init__(self, root: Path, shown: str) -> None:
        self.root = root
        #: How messages call the root.
        self.shown = shown

    def suites(self) -> list[str]:
        """The suites that have any environment."""
        return self._folders(self.root)

    def environments(self, suite: str) -> list[str]:
        """The environments of a suite."""
        return self._folders(self.root / _safe(suite))

    def read(self, suite: str, environment: str) -> tuple[list[tuple[str, bytes]], list[Problem]]:
        """Every baseline file of an environment, as (path, bytes), sorted; what cannot be read is a problem."""
        found: list[tuple[str, bytes]] = []
        problems: list[Problem] = []
        top = self.root / _safe(suite) / _safe(environment)
        for level in self._folders(top):
            for path in sorted((top / level).iterdir()):
                if path.suffix != ".json" or path.name.startswith("."):
                    continue
                relative = "/".join((suite, environment, level, path.name))
                try:
                    found.append((relative, _read(path)))
                except OSError as error:
                    problems.append(
                        Problem("error", f"cannot be read: {error.strerror or error}", self.location(relative))
                    )
        return found, problems

    def read_one(self, relative: str) -> bytes | None:
        """The bytes of one file, or None where there is none. Raises OSError, and UnsafeName."""
        path = self.root.joinpath(*(_safe(part) for part in relative.split("/")))
        return _read(path) if path.exists() or path.is_symlink() else None

    def location(self, relative: str) -> Location:
        """How messages name a stored file."""
        return Location(f"{self.shown}/{relative}")

    def write(self, relative: str, data: bytes) -> None:
        """Put a file in its place in one step. Raises OSError, and UnsafeName."""
        parts = [_safe(part) for part in relative.split("/")]
        path = self.root.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def remove(self, relative: str) -> None:
        """Delete a file. Raises OSError."""
        self.root.joinpath(*(_safe(part) for part in relative.split("/"))).unlink()

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

    def _folders(self, folder: Path) -> list[str]:
        if not folder.is_dir():
            return []
        names = (path.name for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
        return sorted(name for name in names if SAFE_NAME.fullmatch(name))


def _safe(name: str) -> str:
    if not SAFE_NAME.fullmatch(name):
        raise UnsafeName(f"{name!r} is not a name for a baseline: use letters, digits, dots, dashes and underscores")
    return name


def _read(path: Path) -> bytes:
    """The bytes of a regular file; a link, or a file too large to be a baseline, is refused."""
    if path.is_symlink() or not path.is_file():
        raise OSError(0, "it is a link or no regular file, and links are not followed")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise OSError(0, f"it is larger than {MAX_FILE_BYTES} bytes")
    return path.read_bytes()
