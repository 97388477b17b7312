"""The baselines of a policy: from a commit, from a bucket, from the working tree, or from a copy in memory.

A policy is the rules and baselines that decide a check.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from perfgate.baselines.places import HISTORY, FileOrError, folder_of, kind_of, newest_history, one_by_one
from perfgate.baselines.stores import Store, open_store
from perfgate.core import Location, Problem
from perfgate.workspace import surroundings
from perfgate.workspace.commit_files import Commit, CommitFiles
from perfgate.workspace.options import shown_path
from perfgate.workspace.rule_source import HeldFiles, PolicySource


def store_of(source: PolicySource, path: str, history: str | None = None) -> Store:
    """Open the baselines of a policy source. A bucket is the same for every commit. Raises Refused.

    `history`: `SUITE/ENVIRONMENT`, to open its newest remembered runs. If the source is a commit, the store has only
    these runs with `history`, and no remembered runs without.
    """
    if source.baselines is not None:
        return HeldStore(source.baselines)
    if source.commit is None or "://" in path:
        return open_store(path)
    if history is None:
        return _of_commit(source.commit, path, source.commit.below(path, surroundings.limits(), without=HISTORY))
    folder = f"{HISTORY}/{history}"
    files = source.commit.below(f"{path}/{folder}", surroundings.limits(), choose=newest_history)
    return _of_commit(source.commit, path, files, folder)


def _of_commit(commit: Commit, path: str, found: CommitFiles, folder: str = ".") -> HeldStore:
    """Return the files of a folder of a commit as a store; their names become paths from the root of the store."""

    def joined(name: str) -> str:
        return posixpath.normpath(f"{folder}/{name}")

    shown = f"{shown_path(path)} at {commit.ref}"
    wrong = found.refused | found.not_folders
    problems = tuple(Problem("error", why, Location(f"{shown}/{joined(name)}")) for name, why in wrong.items())
    return HeldStore(HeldFiles({joined(name): data for name, data in found.files.items()}, problems, shown))


def held(source: PolicySource, baselines: str, suite: str) -> PolicySource:
    """Return the source with a copy of its baselines, which a program that runs before the judgement cannot change.

    A commit needs no copy: each of its objects is verified by its hash. Raises Refused.
    """
    if source.commit is not None and "://" not in baselines:
        return source
    store = open_store(baselines)
    listed, problems = store.paths()
    read = [path for path in listed if kind_of(path) not in ("history", None)]
    past: dict[str, list[str]] = {}
    for path in listed:
        if path.startswith(f"{HISTORY}/{suite}/") and path.endswith(".json"):
            past.setdefault(folder_of(path, 3), []).append(path)
    read += [path for one in past.values() for path in newest_history(one)]
    # a file that is not read now must not be read later: the program may have changed it
    files: dict[str, bytes | OSError | ValueError] = dict.fromkeys(listed, OSError(0, "it was not read in time"))
    return replace(source, baselines=HeldFiles(files | dict(store.read_many(read)), tuple(problems), store.shown))


class HeldStore(Struct, frozen=True):
    """Baselines that were read at once, so that nothing can change them any more."""

    held: HeldFiles

    @property
    def shown(self) -> str:
        """The root, as messages name it."""
        return self.held.shown

    def paths(self, folder: str = "") -> tuple[list[str], list[Problem]]:
        """Return every file below a folder, sorted, and the problems there or above it."""
        below = f"{folder}/" if folder else ""
        found = sorted(path for path in self.held.files if path.startswith(below))
        files = (path for path in self.held.files if below.startswith(f"{path}/"))
        not_folders = [Problem("error", "is not a folder", self.location(path)) for path in files]
        return found, [*_near(self.held.problems, self.location(folder)), *not_folders]

    def read(self, path: str) -> bytes:
        """Return the bytes of a file. Raises OSError and UnsafeName."""
        data = self.held.files.get(path, FileNotFoundError(errno.ENOENT, "no such file"))
        if isinstance(data, bytes):
            return data
        raise data

    def read_many(self, paths: Iterable[str]) -> Iterator[FileOrError]:
        """Yield each path with the bytes of its file, or with the reason why they cannot be read."""
        return one_by_one(self.read, paths)

    def location(self, path: str) -> Location:
        """Return a stored file as messages name it."""
        return Location(f"{self.shown}/{path}".rstrip("/"))


class ListedStore(Struct, frozen=True):
    """A store that lists only `folder`, once: later changes of the list are not seen."""

    store: Store
    folder: str
    found: tuple[str, ...]
    problems: tuple[Problem, ...]

    @classmethod
    def of(cls, store: Store, folder: str) -> ListedStore:
        """List a folder of a store. Raises UnsafeName."""
        found, problems = store.paths(folder)
        return cls(store, folder, tuple(found), tuple(problems))

    @property
    def shown(self) -> str:
        """The root, as messages name it."""
        return self.store.shown

    def paths(self, folder: str = "") -> tuple[list[str], list[Problem]]:
        """Return every file below `self.folder` or a folder in it, sorted, and the problems there or above it."""
        below = f"{folder}/"
        found = [path for path in self.found if path.startswith(below)] if folder != self.folder else [*self.found]
        return found, _near(self.problems, self.location(folder))

    def read(self, path: str) -> bytes:
        """Return the bytes of a file. Raises OSError."""
        return self.store.read(path)

    def read_many(self, paths: Iterable[str]) -> Iterator[FileOrError]:
        """Yield each path with the bytes of its file, or with the reason why they cannot be read."""
        return self.store.read_many(paths)

    def location(self, path: str) -> Location:
        """Return a stored file as messages name it."""
        return self.store.location(path)


def _near(problems: Iterable[Problem], place: Location) -> list[Problem]:
    """Return the problems at a place, below it or above it."""
    at = f"{place.file}/"
    return [one for one in problems if f"{one.at.file}/".startswith(at) or at.startswith(f"{one.at.file}/")]
