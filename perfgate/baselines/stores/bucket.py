"""Baselines in an object store, reached through fsspec: `s3://bucket/baselines`, `gs://...`, `file:///...`.

There is no lock: a file is created only where none is (S3: `If-None-Match`), so that of two writers of one name the
second is told. Two writers never need one name, for it holds the hash of the content; two who approve at once leave
two heads, as two branches do, and somebody settles them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from perfgate.baselines.stores import Taken, check_path
from perfgate.core import Location, Problem
from perfgate.core.resource_limits import DEFAULT, Limits

_INSTALL = "buckets need fsspec and the package of their kind: pip install fsspec s3fs (or gcsfs)"


class BucketStore:
    """Baselines below a URL. Raises ImportError where a package is missing, ValueError for a URL of no known kind."""

    def __init__(self, url: str, limits: Limits = DEFAULT) -> None:
        try:
            from fsspec.core import url_to_fs

            self._files: Any
            self._files, self._root = url_to_fs(url.rstrip("/"), use_listings_cache=False)
        except ImportError as error:
            raise ImportError(f"{_INSTALL} ({error})") from None
        if hasattr(self._files, "auto_mkdir"):  # of `file://`: objects have no folders to make
            self._files.auto_mkdir = True
        self.shown = url.rstrip("/")
        self.limits = limits

    def paths(self, folder: str = "") -> tuple[list[str], list[Problem]]:
        """Every object below a folder, sorted; a store that does not answer is a problem."""
        top = "/".join([self._root, *(check_path(folder) if folder else ())])
        try:
            found = self._files.find(top)
        except FileNotFoundError:
            return [], []
        except Exception as error:  # every kind of bucket has exceptions of its own
            return [], [Problem("error", f"cannot be read: {error}", self.location(folder))]
        relative = sorted(path[len(self._root) :].lstrip("/") for path in found)
        return [path for path in relative if not any(part.startswith(".") for part in path.split("/"))], []

    def read(self, path: str) -> bytes:
        """The bytes of an object. Raises OSError."""
        place = self._place(path)
        try:
            if self._files.size(place) > self.limits.baseline_bytes:
                raise OSError(0, self.limits.beyond("baseline_bytes", "it is larger"))
            return bytes(self._files.cat_file(place))
        except OSError:
            raise
        except Exception as error:
            raise OSError(0, str(error)) from None

    def location(self, path: str) -> Location:
        """How messages name an object."""
        return Location(f"{self.shown}/{path}".rstrip("/"))

    def write(self, path: str, data: bytes, *, replace: bool = False) -> None:
        """Create an object, in one step. Raises OSError, Taken if it exists, and UnsafeName."""
        place = self._place(path)
        try:
            self._files.pipe_file(place, data, mode="overwrite" if replace else "create")
        except FileExistsError:
            raise Taken(0, "it exists already") from None
        except OSError:
            raise
        except Exception as error:
            raise OSError(0, str(error)) from None

    def remove(self, path: str) -> None:
        """Delete an object. Raises OSError."""
        self._files.rm_file(self._place(path))

    def lock(self) -> AbstractContextManager[None]:
        """No lock: see above."""
        return nullcontext()

    def _place(self, path: str) -> str:
        return "/".join([self._root, *check_path(path)])
