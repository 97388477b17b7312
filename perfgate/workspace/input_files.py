"""Find and open the files behind a path that a user names: a file, a folder, a URL, a pipe or standard input.

URLs (`s3://bucket/run`, `gs://...`, `https://...`, `file:///...`) are reached through fsspec, whose packages find the
credentials in their own ways (environment, profile, role).
"""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from errno import ENOENT
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Location, Problem, Run
from perfgate.core.wording import MACHINE_FILE
from perfgate.workspace import surroundings
from perfgate.workspace.options import shown_path
from perfgate.workspace.output_files import PATIENCE_S

#: The bytes of a file that are read at a time.
CHUNK = 1 << 18
#: A name that does not exist is compared with at most this many names of a folder.
_MOST_NAMES = 1000


class Unusable(Exception):
    """An input must not be opened; the message is the reason."""


def opened_input(path: str) -> tuple[BinaryIO, bytes, int]:
    """Open an input; return it, the bytes already read, and its size (0 if unknown). Raises OSError, Unusable."""
    if path == "-":
        if sys.stdin is None:
            raise Unusable("standard input is closed")
        return sys.stdin.buffer, b"", 0
    if "://" in path:
        file, size = opened_url(path)
        return file, b"", size
    if stat.S_ISCHR(os.stat(path).st_mode):
        raise Unusable("is a device, which may never end: give a file, a pipe or -")
    file, first = opened(path)
    return file, first, os.fstat(file.fileno()).st_size


def opened(path: str) -> tuple[BinaryIO, bytes]:
    """Open a file to read; return it, and the bytes that were read already.

    Raises OSError, also for a pipe without a writer: opening it would wait for ever.
    """
    if not stat.S_ISFIFO(os.stat(path).st_mode):
        return open(path, "rb"), b""
    from select import POLLIN, poll

    descriptor, first = os.open(path, os.O_RDONLY | os.O_NONBLOCK), b""
    began, events = time.monotonic(), poll()
    events.register(descriptor, POLLIN)
    try:
        while not first and not events.poll(50):  # ms; an event means data, or a writer that has ended
            first = os.read(descriptor, CHUNK)  # nothing if no program has the pipe open
            if not first and time.monotonic() - began > PATIENCE_S:
                os.close(descriptor)
                raise OSError(0, f"no program writes to this pipe (waited {PATIENCE_S} s)")
    except BlockingIOError:  # a program has it open and will write
        pass
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "rb"), first


def nearest_file(path: str) -> str:
    """Return `; did you mean FILE?` for a path that does not exist; an empty text if no name is similar.

    The names are those of the same folder, and for a bare name also those of the folders in the working directory.
    """
    folder, wanted = os.path.split(path)
    with suppress(OSError):
        names = sorted(os.listdir(folder or "."))[:_MOST_NAMES]
        inside = {name: os.path.join(folder, name) for name in names if not name.startswith(".")}
        folders = [] if folder else [name for name in inside if os.path.isdir(name)]
        for name in folders:
            inside |= {one: os.path.join(name, one) for one in sorted(os.listdir(name))[:_MOST_NAMES]}
        near = [wanted] if wanted in inside else get_close_matches(wanted, inside, n=1, cutoff=0.7)
        if near:
            return f"; did you mean {shown_path(inside[near[0]])}?"
    return ""


def parts_of(path: str, name: str) -> list[tuple[str, str] | Run] | None:
    """Return the path and the name of each file of a folder, or a run with the reason why it is not read.

    `name`: the path as messages name it. None if the path is a file.
    """
    parts = None
    if "://" in path:
        parts = _files_of_url(path, name)
    elif path != "-" and os.path.isdir(path):
        parts = _files_of(Path(path), name)
    if parts is None:
        return None
    # jax.profiler writes traces for viewers beside its profile, with the same events: they are left out.
    names = [part[1] for part in parts if not isinstance(part, Run)]
    profiles = [name.removesuffix(".xplane.pb") for name in names if name.endswith(".xplane.pb")]
    copies = {f"{profile}.trace.json.gz" for profile in profiles}
    copies |= {f"{profile.rpartition('/')[0]}/perfetto_trace.json.gz" for profile in profiles}
    return [part for part in parts if isinstance(part, Run) or part[1] not in copies]


def _files_of_url(url: str, name: str) -> list[tuple[str, str] | Run] | None:
    """Return the `parts_of` a URL."""
    try:
        below = files_below(url)
    except OSError as error:
        return [unreadable(name, f"cannot be read: {error.strerror or error}")]
    if below is None:
        return None
    own = [file for file in below if not file.endswith(MACHINE_FILE)]  # `machine_files` returns the others
    return [(file, f"{name.rstrip('/')}/{file[len(url.rstrip('/')) + 1 :]}") for file in own]


def _files_of(folder: Path, name: str) -> list[tuple[str, str] | Run]:
    """Return the `parts_of` a folder that is no URL."""
    found = sorted(path for path in surroundings.not_too_many(folder.rglob("*"), name) if not path.name.startswith("."))
    real = Path(os.path.realpath(folder))
    parts: list[tuple[str, str] | Run] = []
    for path in (path for path in found if path.is_symlink() or not path.is_dir()):
        if path.name.endswith(MACHINE_FILE):  # `machine_files` returns it
            continue
        shown = f"{name}/{path.relative_to(folder).as_posix()}"
        if not Path(os.path.realpath(path)).is_relative_to(real):
            parts.append(unreadable(shown, "is a link that leads out of the folder"))
        elif not path.is_file():
            parts.append(unreadable(shown, "is not a regular file"))
        else:
            parts.append((str(path), shown))
    return parts


def machine_files(path: str) -> list[str]:
    """Return the files with the machine's metrics: beside the results at a path, and inside if they are a folder."""
    if path == "-" or path.startswith(("http://", "https://")):  # to look there would cost a request for each file
        return []
    beside = path.rstrip("/") + MACHINE_FILE
    if "://" in path:
        inside: list[str] = []
        with suppress(OSError):  # reading the run itself reports it
            inside = files_below(path) or []
        return [url for url in inside if url.endswith(MACHINE_FILE)] + ([beside] if is_file(beside) else [])
    found = [beside] if os.path.lexists(beside) else []
    if os.path.isdir(path):  # a Recorder in each host writes beside the results of its rank
        real = os.path.realpath(path)
        own = [one for one in sorted(Path(path).rglob("*" + MACHINE_FILE)) if not one.name.startswith(".")]
        found += [str(one) for one in own if Path(os.path.realpath(one)).is_relative_to(real)]
    return found


def unreadable(name: str, message: str) -> Run:
    """Return a run with the reason why its file is not read."""
    return Run(name, "unknown", (), (Problem("error", message, Location(name)),))


class RunsOfPath(Struct, frozen=True):
    """The runs at one path."""

    path: str
    runs: tuple[Run, ...]
    #: The hashes of the results, by which copies are found. The files with the machine's metrics do not count.
    content: tuple[str, ...]

    def at(self, path: str) -> RunsOfPath:
        """Return the same runs with the names that their files have after the path was moved to another."""
        if path == self.path:
            return self
        old, new = shown_path(self.path), shown_path(path)
        inside = re.compile(rf"(?<![\w./-]){re.escape(old)}/")  # a message may name other files of the folder

        def named(name: str) -> str:
            return f"{new}{name[len(old) :]}" if name.startswith(old) else name

        def renamed(problem: Problem) -> Problem:
            message = inside.sub(lambda _: f"{new}/", problem.message)
            return replace(problem, message=message, at=replace(problem.at, file=named(problem.at.file)))

        runs = tuple(
            replace(
                run,
                source=named(run.source),
                files=tuple(replace(file, path=named(file.path)) for file in run.files),
                problems=tuple(map(renamed, run.problems)),
                coverage=tuple(replace(one, file=named(one.file)) for one in run.coverage),
            )
            for run in self.runs
        )
        return RunsOfPath(path, runs, self.content)


_INSTALL = "URLs need fsspec and the package of their kind: pip install 'perfgate[s3]' (or gcsfs for gs://, aiohttp for https://)"
_KINDS = "write s3://, gs://, https:// or file://"
#: The bytes that are fetched at a time.
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
            kind = url.partition("://")[0].rpartition("::")[2]  # fsspec also takes `filecache::s3://...`
            get_filesystem_class(kind)
        except ValueError:
            raise OSError(0, f"{kind}:// is not a kind of URL that fsspec knows: {_KINDS}") from None
        if url.startswith(("http://", "https://")):
            files, path = url_to_fs(url)  # with a last slash, it is another page
        else:  # without a cache, because another process may write there
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
    files, top = _with_os_errors(lambda: filesystem(url))
    if _with_os_errors(lambda: files.isfile(top)):
        return None
    found = sorted(path[len(top) :].lstrip("/") for path in _with_os_errors(lambda: files.find(top)))
    if not found and not _with_os_errors(lambda: files.exists(top)):
        raise FileNotFoundError(ENOENT, "file or folder not found")
    return [f"{url.rstrip('/')}/{path}" for path in found if not any(part[:1] == "." for part in path.split("/"))]


def opened_url(url: str) -> tuple[BinaryIO, int]:
    """Open a file at a URL; return it with its size, 0 if the server does not say it. Raises OSError."""
    files, path = _with_os_errors(lambda: filesystem(url))
    try:
        file = _with_os_errors(lambda: files.open(path, "rb", block_size=_BLOCK, cache_type="readahead"))
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
    """Return why a web server gave no file, without the URL, which may be secret; None if it has no such file."""
    status = getattr(cause, "status", None)
    if cause is None or isinstance(cause, FileNotFoundError) or status in (404, 410):
        return None
    if status is not None:
        return f"the server answers with status {status}"
    return f"the server does not answer ({type(cause).__name__})"


def _with_os_errors(question: Callable[[], Found]) -> Found:
    """Call a function of the package of a store, and return its result. Every exception of it becomes an OSError."""
    try:
        return question()
    except OSError:
        raise
    except Exception as error:
        raise OSError(0, f"{type(error).__name__}: {error}") from None
