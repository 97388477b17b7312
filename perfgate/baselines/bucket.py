"""Baselines in an object store, reached through fsspec: `s3://bucket/baselines`, `gs://...`.

There is no lock. A file is created only if it does not exist (S3: `If-None-Match`), so the second writer of a name gets
an error. Two writers of runs never need the same name, which contains a hash of the content. Two approvals at the same
time leave two newest levels, as two branches do; a later approval replaces both.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice

from perfgate.baselines.places import FileOrError, UnsafeName, check_path
from perfgate.core import Location, Problem
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.workspace.input_files import filesystem

#: The number of objects that are asked for together.
_AT_ONCE = 64


class BucketStore:
    """Baselines below a URL. Raises OSError if a package is missing, ValueError for an unknown kind of URL."""

    def __init__(self, url: str, limits: Limits = DEFAULT) -> None:
        self._files, self._root = filesystem(url)
        self.shown = url.rstrip("/")
        #: The sizes of the objects that were listed.
        self._sizes: dict[str, int | None] = {}
        #: The paths below each folder that was listed, until a file is written, removed or missing: a listing is slow.
        self._listed: dict[str, list[str]] = {}
        self.limits = limits

    def paths(self, folder: str = "") -> tuple[list[str], list[Problem]]:
        """Return every object below a folder, sorted; a store that does not answer is a problem."""
        if folder in self._listed:
            return [*self._listed[folder]], []
        top = "/".join([self._root, *(check_path(folder) if folder else ())])
        try:
            found = self._files.find(top, detail=True)
        except FileNotFoundError:
            return [], []
        except Exception as error:  # each kind of bucket has its own exceptions
            return [], [Problem("error", f"cannot be read: {error}", self.location(folder))]
        sizes = {path[len(self._root) :].lstrip("/"): about.get("size") for path, about in found.items()}
        self._sizes |= sizes
        relative = sorted(sizes)  # as in a directory, names that begin with a dot are left out
        self._listed[folder] = [path for path in relative if not any(part[:1] == "." for part in path.split("/"))]
        return [*self._listed[folder]], []

    def read(self, path: str) -> bytes:
        """Return the bytes of an object. Raises OSError."""
        ((_, data),) = self.read_many([path])
        if isinstance(data, bytes):
            return data
        raise data

    def read_many(self, paths: Iterable[str]) -> Iterator[FileOrError]:
        """Yield each path with the bytes of its object, or with the reason why they cannot be read.

        The objects are asked for many at a time, because each answer takes some milliseconds.
        """
        waiting = iter(paths)
        while batch := list(islice(waiting, _AT_ONCE)):
            answers: dict[str, object] = {path: self._refusal(path) for path in batch}
            asked = [path for path, refusal in answers.items() if refusal is None]
            answers.update(zip(asked, self._objects(asked), strict=True))
            for path in batch:
                data = answers[path]
                if isinstance(data, FileNotFoundError):
                    self._listed.clear()
                yield path, bytes(data) if isinstance(data, bytes | bytearray) else _as_os_error(data)

    def _objects(self, paths: Sequence[str]) -> Sequence[object]:
        """Return for each path the bytes of its object, or the error; all are asked for together."""
        # the listed size is given as a range, because s3fs asks for the size before it reads without one; an empty
        # object has no range
        sizes = [self._sizes.get(path) or None for path in paths]
        starts = [None if size is None else 0 for size in sizes]
        try:
            return list(self._files.cat_ranges([*map(self._key, paths)], starts, sizes, on_error="return"))
        except Exception as error:  # each kind of bucket has its own exceptions
            return [error] * len(paths)

    def _refusal(self, path: str) -> OSError | UnsafeName | None:
        """Return the reason why an object must not be read: its name is unsafe, or it is too large. None if it may."""
        try:
            key = self._key(path)
            size = self._sizes.get(path)
            if (self._files.size(key) if size is None else size) > self.limits.baseline_bytes:
                return OSError(0, self.limits.beyond("baseline_bytes", "it is larger"))
        except Exception as error:
            return _as_os_error(error)
        return None

    def location(self, path: str) -> Location:
        """Return an object as messages name it."""
        return Location(f"{self.shown}/{path}".rstrip("/"))

    def write(self, path: str, data: bytes, *, replace: bool = False) -> None:
        """Create an object in one step. Raises OSError (FileExistsError if it exists) and UnsafeName."""
        key = self._key(path)
        self._listed.clear()
        self._sizes.pop(path, None)  # the size of the replaced object
        try:
            self._files.pipe_file(key, data, mode="overwrite" if replace else "create")
        except FileExistsError:
            raise FileExistsError(errno.EEXIST, "it exists already") from None
        except OSError:
            raise
        except Exception as error:
            raise OSError(0, str(error)) from None

    def remove(self, path: str) -> None:
        """Delete an object. Raises OSError."""
        self._listed.clear()
        self._files.rm_file(self._key(path))

    def lock(self) -> AbstractContextManager[None]:
        """Return a context that locks nothing, see above. Listings are forgotten, so that files of others are seen."""
        self._listed.clear()
        return nullcontext()

    def _key(self, path: str) -> str:
        return "/".join([self._root, *check_path(path)])


def _as_os_error(error: object) -> OSError | UnsafeName:
    return error if isinstance(error, OSError | UnsafeName) else OSError(0, str(error))
