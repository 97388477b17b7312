"""The baselines of a policy: those of a commit or of a bucket, those of the working tree, or a copy in memory."""

from __future__ import annotations

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
    """Open the baselines of a policy source: a bucket is the same for every commit. Raises Refused.

    `history`: `SUITE/ENVIRONMENT`, to open its newest remembered runs. Of a commit, nothing else reads them.
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
    def joined(name: str) -> str:
        return posixpath.normpath(f"{folder}/{name}")

    shown = f"{shown_path(path)} at {commit.ref}"
    wrong = found.refused | found.not_folders
    problems = tuple(Problem("error", why, Location(f"{shown}/{joined(name)}")) for name, why in wrong.items())
    return HeldStore(HeldFiles({joined(name): data for name, data in found.files.items()}, problems, shown))


def held(source: PolicySource, baselines: str, suite: str) -> PolicySource:
    """Return the source with its baselines as they are now, for judgements after a program ran.

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
    # a file that is not read now cannot be read later: the program may have changed it
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
        data = self.held.files.get(path, FileNotFoundError(2, "no such file"))
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
    """A store that reads only `folder`, as it was when it was listed."""

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
        """Return every file below the folder or a folder in it, sorted, and the problems there or above it."""
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
