"""A folder of a store that is listed once: a bucket answers one request instead of one for each kind of file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from perfgate.baselines.places import FileOrError
from perfgate.baselines.stores import Store
from perfgate.core import Location, Problem


@dataclass(frozen=True, slots=True)
class ListedStore:
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
        at = f"{self.location(folder).file}/"
        problems = [
            one for one in self.problems if f"{one.at.file}/".startswith(at) or at.startswith(f"{one.at.file}/")
        ]
        return found, problems

    def read(self, path: str) -> bytes:
        """Return the bytes of a file. Raises OSError."""
        return self.store.read(path)

    def read_many(self, paths: Iterable[str]) -> Iterator[FileOrError]:
        """Yield each path with the bytes of its file, or with the reason why they cannot be read."""
        return self.store.read_many(paths)

    def location(self, path: str) -> Location:
        """Return a stored file as messages name it."""
        return self.store.location(path)
