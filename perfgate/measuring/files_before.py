"""The state of the files that a command may write, before it runs: files that change belong to the run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from glob import glob
from pathlib import Path

from msgspec import Struct

#: Any file that is not hidden.
EVERYTHING: tuple[str, ...] = ("**/*",)
#: A file, its modification time, size and inode.
_Stamp = tuple[Path, int, int, int]


class FilesBefore(Struct, frozen=True):
    """The files that match globs, relative to a folder, before a run."""

    folder: Path
    globs: tuple[str, ...]
    stamps: frozenset[_Stamp]
    #: The hashes of those that existed before the first run of this process; empty for `EVERYTHING`.
    old: Mapping[Path, bytes]

    @classmethod
    def of(cls, folder: Path, globs: tuple[str, ...]) -> FilesBefore:
        """Look at the files now."""
        return cls(folder, globs, _stamps(folder, globs), {} if globs == EVERYTHING else _old_files(folder, globs))

    def changed(self) -> list[Path]:
        """Return the files that are new or were written to since then."""
        return sorted(path for path, *_ in _stamps(self.folder, self.globs) - self.stamps)

    def is_old(self, path: Path) -> bool:
        """Return whether a file has the content that it had before the first run."""
        return path in self.old and _digest(path) == self.old[path]


def _stamps(folder: Path, globs: tuple[str, ...]) -> frozenset[_Stamp]:
    found = (Path(name) for pattern in globs for name in glob(str(folder / pattern), recursive=True))
    files = {path.resolve(): path.stat() for path in found if path.is_file()}
    return frozenset((path, stat.st_mtime_ns, stat.st_size, stat.st_ino) for path, stat in files.items())


@cache
def _old_files(folder: Path, globs: tuple[str, ...]) -> Mapping[Path, bytes]:
    return {path: _digest(path) for path, *_ in _stamps(folder, globs)}


def _digest(path: Path) -> bytes:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.digest()
