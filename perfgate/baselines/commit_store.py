"""The baselines of a git commit, as a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from perfgate.baselines.places import HISTORY, FileOrError, newest_history, one_by_one
from perfgate.core import Location, Problem
from perfgate.workspace import surroundings
from perfgate.workspace.commit_files import Commit, CommitFiles
from perfgate.workspace.options import shown_path


class CommitStore(Struct, frozen=True):
    """Baselines of a git commit, read at once, so that nothing can change them any more."""

    held: CommitFiles
    shown: str

    @classmethod
    def of(cls, commit: Commit, path: str) -> CommitStore:
        """Read the baselines of a commit without their history. Raises Refused."""
        held = commit.below(path, surroundings.limits(), without=HISTORY)
        return cls(held, f"{shown_path(path)} at {commit.ref}")

    @classmethod
    def of_history(cls, commit: Commit, path: str, folder: str) -> CommitStore:
        """Read the newest runs in a folder of the history in the baselines of a commit. Raises Refused."""
        held = commit.below(f"{path}/{folder}", surroundings.limits(), choose=newest_history)
        files = {f"{folder}/{name}": data for name, data in held.files.items() if name != "."}
        refused = {f"{folder}/{name}": why for name, why in held.refused.items() if name != "."}
        if not files:
            refused |= commit.not_folders(path, folder)
        return cls(CommitFiles(files, refused), f"{shown_path(path)} at {commit.ref}")

    def paths(self, folder: str = "") -> tuple[list[str], list[Problem]]:
        """Return every file below a folder, sorted, and a problem for each link there or above it."""
        inside = f"{folder}/" if folder else ""
        refused = {p: why for p, why in self.held.refused.items() if p.startswith(inside) or inside.startswith(f"{p}/")}
        found = sorted(path for path in self.held.files if path.startswith(inside))
        return found, [Problem("error", why, self.location(path)) for path, why in refused.items()]

    def read(self, path: str) -> bytes:
        """Return the bytes of a file. Raises OSError."""
        if path not in self.held.files:
            raise FileNotFoundError(2, "no such file")
        return self.held.files[path]

    def read_many(self, paths: Iterable[str]) -> Iterator[FileOrError]:
        """Yield each path with the bytes of its file, or with the reason why they cannot be read."""
        return one_by_one(self.read, paths)

    def location(self, path: str) -> Location:
        """Return a stored file as messages name it."""
        return Location(f"{self.shown}/{path}")
