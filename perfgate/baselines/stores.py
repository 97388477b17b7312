"""The stores of baselines: a directory, a git commit, or a bucket, all with the layout of `places`.

A store knows files, not their content. Paths are relative to its root, with `/` between their parts.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from msgspec import Struct

from perfgate.baselines.places import FileOrError, UnsafeName, check_path, kind_of, one_by_one
from perfgate.core import Location, Problem
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.documents.structs import SignedFile
from perfgate.workspace import surroundings
from perfgate.workspace.input_files import filesystem
from perfgate.workspace.options import Refused, shown_path, typed_path

if sys.platform != "win32":
    import fcntl

_Content = TypeVar("_Content", bound=Struct)
#: The beginning of a bucket's address with too few slashes; one letter would be a drive of Windows.
_MISPRINT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_NOT_REGULAR = "it is a link or not a regular file, and links are not followed"
if sys.platform == "win32":
    _FLAGS = os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT
else:  # a pipe without a writer is opened without waiting, and refused afterwards
    _FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Store(Protocol):
    """Baselines that can be read."""

    @property
    def shown(self) -> str:
        """The root, as messages name it."""

    def paths(self, folder: str = "") -> tuple[list[str], list[Problem]]:
        """Return every file below a folder, sorted, and a problem for each link or unreadable folder."""

    def read(self, path: str) -> bytes:
        """Return the bytes of a file. Raises OSError and UnsafeName."""

    def read_many(self, paths: Iterable[str]) -> Iterator[FileOrError]:
        """Yield each path with the bytes of its file, or with the reason why they cannot be read."""

    def location(self, path: str) -> Location:
        """Return a stored file as messages name it."""


class WritableStore(Store, Protocol):
    """Baselines that can be read and changed."""

    def write(self, path: str, data: bytes, *, replace: bool = False) -> None:
        """Write a whole file or nothing. Raises OSError (FileExistsError if it exists) and UnsafeName."""

    def remove(self, path: str) -> None:
        """Delete a file. Raises OSError."""

    def lock(self) -> AbstractContextManager[None]:
        """Let one writer work at a time, if the store has a lock. Raises OSError."""


class DirectoryStore(Struct, frozen=True):
    """Baselines as files below `root`, which need not exist yet.

    A file is written next to its place and moved there in one step. So a reader sees all of it or nothing, and a
    writer that dies leaves nothing that is read. Writers take turns with a lock.
    """

    root: Path
    shown: str
    limits: Limits = DEFAULT

    def paths(self, folder: str = "") -> tuple[list[str], list[Problem]]:
        """Return every file below a folder, sorted, and a problem for each link. Raises UnsafeName.

        Links are not followed. Names that begin with a dot are left out: a writer may be at work.
        """
        if (link := self._link_above(folder)) is not None:
            return [], [self._link(link)]
        found: list[str] = []
        problems: list[Problem] = []
        count, waiting = 0, [folder]
        while waiting:
            here = waiting.pop()
            entries = self._entries(here, problems)
            count += len(entries)
            if count > surroundings.MOST_PATHS:
                message = f"contains more than {surroundings.MOST_PATHS} files: name the folder of the baselines"
                return [], [Problem("error", message, Location(self.shown))]
            for entry in entries:
                path = f"{here}/{entry.name}".lstrip("/")
                if entry.is_symlink():
                    problems.append(self._link(path))
                elif entry.is_dir():
                    waiting.append(path)
                else:
                    found.append(path)
        return sorted(found), sorted(problems, key=lambda problem: problem.at.file)

    def _entries(self, folder: str, problems: list[Problem]) -> list[os.DirEntry[str]]:
        """Return what is in a folder; adds a problem if it cannot be read."""
        try:
            with os.scandir(self.root / folder) as scanned:
                return [entry for entry in scanned if not entry.name.startswith(".")]
        except FileNotFoundError:  # nothing was stored, or another command has just removed the folder
            return []
        except OSError as error:
            at = self.location(folder) if folder else Location(self.shown)
            problems.append(Problem("error", f"cannot be read: {error.strerror}", at))
            return []

    def _link_above(self, path: str) -> str | None:
        """Return the first part of a path that is a link. Raises UnsafeName."""
        parts = list(check_path(path)) if path else []
        above = ("/".join(parts[:depth]) for depth in range(1, len(parts) + 1))
        return next((one for one in above if os.path.islink(self.root / one)), None)

    def _link(self, path: str) -> Problem:
        return Problem("error", "is a link, and links are not followed", self.location(path))

    def read(self, path: str) -> bytes:
        """Return the bytes of a regular file that is not larger than a baseline may be. Raises OSError."""
        file = os.path.join(self.root, *check_path(path))
        if sys.platform == "win32" and os.path.islink(file):
            raise OSError(0, _NOT_REGULAR)
        try:
            descriptor = os.open(file, _FLAGS)
        except OSError as error:
            raise OSError(0, _NOT_REGULAR) if error.errno == errno.ELOOP else error from None
        with open(descriptor, "rb", buffering=0) as opened:
            found = os.fstat(opened.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise OSError(0, _NOT_REGULAR)
            if found.st_size > self.limits.baseline_bytes:
                raise OSError(0, self.limits.beyond("baseline_bytes", "it is larger"))
            return opened.read()

    def read_many(self, paths: Iterable[str]) -> Iterator[FileOrError]:
        """Yield each path with the bytes of its file, or with the reason why they cannot be read."""
        return one_by_one(self.read, paths)

    def location(self, path: str) -> Location:
        """Return a stored file as messages name it."""
        return Location(f"{self.shown}/{path}")

    def write(self, path: str, data: bytes, *, replace: bool = False) -> None:
        """Write a file in one step. Raises OSError (FileExistsError if it exists) and UnsafeName."""
        import tempfile

        file = self.root.joinpath(*check_path(path))
        if (link := self._link_above(path)) is not None:
            raise OSError(errno.ELOOP, f"{link} is a link, and links are not followed")
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=file.parent)
        try:
            with os.fdopen(handle, "wb") as opened:
                opened.write(data)
                opened.flush()
                os.fsync(opened.fileno())
            os.chmod(temporary, 0o644)  # mkstemp lets only the owner read it
            if file.exists() and not replace:
                raise FileExistsError(errno.EEXIST, "it exists already")
            os.replace(temporary, file)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def remove(self, path: str) -> None:
        """Delete a file, or a link in its place, and its folder if nothing else is in it. Raises OSError."""
        file = self.root.joinpath(*check_path(path))
        if self._link_above(path) not in (None, path):
            raise OSError(errno.ELOOP, "its folder is a link, and links are not followed")
        file.unlink()
        if not any(file.parent.iterdir()):
            file.parent.rmdir()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let one writer work at a time; a writer that dies gives the lock back. Raises OSError.

        The folder itself is locked, so no lock file can be committed by accident.
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


def open_store(path: str) -> WritableStore:
    """Open a directory, which need not exist yet, or a bucket (`s3://...`). Raises Refused."""
    if "://" in path:
        from perfgate.baselines.bucket import BucketStore

        if path.startswith(("http://", "https://")):
            name, cure = typed_path(path), "give a bucket (s3://, gs://) or a folder"
            raise Refused(f"{name} cannot be used for baselines: a web server does not list its files; {cure}")
        try:
            if path.startswith("file://"):  # not a bucket: fsspec would silently leave out a folder that it cannot list
                return DirectoryStore(Path(filesystem(path)[1]), path.rstrip("/"), surroundings.limits())
            return BucketStore(path, surroundings.limits())
        except (ImportError, ValueError, OSError) as error:
            raise Refused(f"{typed_path(path)} cannot be used: {why(error)}") from None
    if (found := _MISPRINT.match(path)) and not os.path.exists(path):
        rest = path[found.end() :]
        written = f"{found[1]}://{rest if found[1] == 'file' else rest.lstrip('/')}"
        raise Refused(f"{typed_path(path)} is not the address of a bucket: write {written}")
    surroundings.refuse_link_out(path, "--baselines")
    return DirectoryStore(Path(path), shown_path(path), surroundings.limits())


def why(error: Exception) -> str:
    """Return the reason of an error, without its number and the path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def each_file(store: Store, paths: Iterable[str], kind: str, problems: list[Problem]) -> Iterator[tuple[str, bytes]]:
    """Yield each file of a kind with its path, and add a problem for each that cannot be read."""
    for path, data in store.read_many(path for path in paths if kind_of(path) == kind):
        if isinstance(data, bytes):
            yield path, data
        else:
            problems.append(Problem("error", f"cannot be read: {why(data)}", store.location(path)))


def each_signed(
    store: Store, paths: Iterable[str], kind: str, form: SignedFile[_Content], problems: list[Problem]
) -> Iterator[tuple[str, _Content]]:
    """Yield the content of each file of a kind with its path, and add the problems of those that cannot be used."""
    for path, data in each_file(store, paths, kind, problems):
        content, wrong = form.decode(str(store.location(path)), data)
        problems += wrong
        if content is not None:
            yield path, content


@contextmanager
def locked(store: WritableStore) -> Iterator[None]:
    """Let one writer work at a time. Raises Refused if the store cannot be written to."""
    try:
        with store.lock():
            yield
    except OSError as error:
        raise Refused(f"{store.shown} cannot be written: {why(error)}") from None


def write_file(store: WritableStore, path: str, data: bytes, *, replace: bool = False) -> None:
    """Write a file. Raises Refused with the reason if that is not possible, also if the file exists."""
    try:
        store.write(path, data, replace=replace)
    except (OSError, UnsafeName) as error:
        raise Refused(f"{store.location(path)}: cannot be written: {why(error)}") from None
