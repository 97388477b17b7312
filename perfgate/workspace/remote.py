"""Files at URLs, reached through fsspec: `s3://bucket/run`, `gs://...`, `https://...`, `file:///...`.

The credentials are found by the packages of fsspec in their own ways (environment, profile, role), and a URL is shown
without user, password and query.
"""

from __future__ import annotations

from collections.abc import Callable
from errno import ENOENT
from typing import Any, BinaryIO, TypeVar, cast

_INSTALL = "URLs need fsspec and the package of their kind: pip install 'perfgate[s3]' (or gcsfs for gs://, aiohttp for https://)"
_KINDS = "write s3://, gs://, https:// or file://"
#: The bytes that are fetched together.
_BLOCK = 8 << 20

Found = TypeVar("Found")


def filesystem(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it.

    Raises OSError for an unknown kind of URL and for a missing package, and ValueError for a URL that is not complete.
    """
    try:
        from fsspec.core import url_to_fs
        from fsspec.registry import get_filesystem_class

        try:
            get_filesystem_class(kind := url.partition("://")[0].rpartition("::")[2])
        except ValueError:
            raise OSError(0, f"{kind}:// is not a kind of URL that fsspec knows: {_KINDS}") from None
        if url.startswith(("http://", "https://")):
            files, path = url_to_fs(url)
        else:
            files, path = url_to_fs(url.rstrip("/"), use_listings_cache=False)
    except ImportError as error:
        raise OSError(0, f"{_INSTALL} ({error})") from None
    return files, path


def files_below(url: str) -> list[str] | None:
    """Return the URL of each file below a folder, sorted, without hidden ones; None for a URL that is a file.

    Raises OSError. A web server lists nothing: each of its URLs is a file.
    """
    if url.startswith(("http://", "https://")):
        return None
    files, top = _asked(lambda: filesystem(url))
    if _asked(lambda: files.isfile(top)):
        return None
    found = sorted(path[len(top) :].lstrip("/") for path in _asked(lambda: files.find(top)))
    if not found and not _asked(lambda: files.exists(top)):
        raise FileNotFoundError(ENOENT, "file or folder not found")
    return [f"{url.rstrip('/')}/{path}" for path in found if not any(part[:1] == "." for part in path.split("/"))]


def opened_url(url: str) -> tuple[BinaryIO, int]:
    """Open a file at a URL; return it with its size, 0 if the server does not say it. Raises OSError."""
    files, path = _asked(lambda: filesystem(url))
    try:
        file = _asked(lambda: files.open(path, "rb", block_size=_BLOCK, cache_type="readahead"))
    except FileNotFoundError as error:  # fsspec raises it for every failure of a web server
        if (why := _other_failure(error.__cause__)) is None:
            raise
        raise OSError(0, why) from None
    return cast(BinaryIO, file), int(getattr(file, "size", 0) or 0)


def is_file(url: str) -> bool:
    """Return whether there is a file at a URL; False also if the server does not answer."""
    try:
        files, path = filesystem(url)
        return bool(files.isfile(path))
    except Exception:  # each kind of store has its own exceptions
        return False


def _other_failure(cause: BaseException | None) -> str | None:
    """Return why a web server gave no file; None if it has no such file. Nothing of the URL is in it."""
    status = getattr(cause, "status", None)
    if cause is None or isinstance(cause, FileNotFoundError) or status in (404, 410):
        return None
    if status is not None:
        return f"the server answers with status {status}"
    return f"the server does not answer ({type(cause).__name__})"


def _asked(question: Callable[[], Found]) -> Found:
    """Return what a store answers. Raises OSError, whatever the exception of its package is."""
    try:
        return question()
    except OSError:
        raise
    except Exception as error:
        raise OSError(0, f"{type(error).__name__}: {error}") from None
