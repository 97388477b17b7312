"""Baselines in an object store, reached through fsspec: `s3://bucket/baselines`, `gs://...`, `file:///...`.

There is no lock. A file is created only if it does not exist (S3: `If-None-Match`), so the second writer of a name gets
an error. Two writers never need the same name, because it contains the hash of the content. Two approvals at the same
time leave two heads, as two branches do; a later approval replaces both.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from perfgate.baselines.places import check_path
from perfgate.core import Location, Problem
from perfgate.core.resource_limits import DEFAULT, Limits

_INSTALL = "buckets need fsspec and the package of their kind: pip install fsspec s3fs (or gcsfs)"


class BucketStore:
    """Baselines below a URL. Raises ImportError if a package is missing, ValueError for an unknown kind of URL."""

    def __init__(self, url: str, limits: Limits = DEFAULT) -> None:
        try:
            from fsspec.core import url_to_fs

            self._files: Any
            self._files, self._root = url_to_fs(url.rstrip("/"), use_listings_cache=False)
        except ImportError as error:
            raise ImportError(f"{_INSTALL} ({error})") from None
        if hasattr(self._files, "auto_mkdir"):  # of `file://`; object stores have no folders
            self._files.auto_mkdir = True
        self.shown = url.rstrip("/")
        self.limits = limits

    def paths(self, folder: str = "") -> tuple[list[str], list[Problem]]:
        """Return every object below a folder, sorted; a store that does not answer is a problem."""
        top = "/".join([self._root, *(check_path(folder) if folder else ())])
        try:
            found = self._files.find(top)
        except FileNotFoundError:
            return [], []
        except Exception as error:  # each kind of bucket has its own exceptions
            return [], [Problem("error", f"cannot be read: {error}", self.location(folder))]
        relative = sorted(path[len(self._root) :].lstrip("/") for path in found)
        return [path for path in relative if not any(part.startswith(".") for part in path.split("/"))], []

    def read(self, path: str) -> bytes:
        """Return the bytes of an object. Raises OSError."""
        key = self._key(path)
        try:
            if self._files.size(key) > self.limits.baseline_bytes:
                raise OSError(0, self.limits.beyond("baseline_bytes", "it is larger"))
            return bytes(self._files.cat_file(key))
        except OSError:
            raise
        except Exception as error:
            raise OSError(0, str(error)) from None

    def location(self, path: str) -> Location:
        """Return an object as messages name it."""
        return Location(f"{self.shown}/{path}".rstrip("/"))

    def write(self, path: str, data: bytes, *, replace: bool = False) -> None:
        """Create an object in one step. Raises OSError (FileExistsError if it exists) and UnsafeName."""
        key = self._key(path)
        try:
            self._files.pipe_file(key, data, mode="overwrite" if replace else "create")
        except FileExistsError:
            raise FileExistsError(17, "it exists already") from None
        except OSError:
            raise
        except Exception as error:
            raise OSError(0, str(error)) from None

    def remove(self, path: str) -> None:
        """Delete an object. Raises OSError."""
        self._files.rm_file(self._key(path))

    def lock(self) -> AbstractContextManager[None]:
        """Return a context that locks nothing (see above)."""
        return nullcontext()

    def _key(self, path: str) -> str:
        return "/".join([self._root, *check_path(path)])
