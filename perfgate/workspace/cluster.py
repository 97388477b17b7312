"""Read the files of a run on a Dask cluster that exists already: `--executor dask://HOST:PORT`.

Each worker reads its files where they are, so the paths must mean the same there: URLs, or a file system that all
machines share. A worker that is lost is replaced by another one; a file that kills several workers is a problem of
that file, and not a lost run.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from functools import partial
from typing import TYPE_CHECKING, Any

from perfgate import __version__
from perfgate.core import Run
from perfgate.core.wording import plural
from perfgate.workspace.input_files import unreadable
from perfgate.workspace.options import Refused
from perfgate.workspace.parallel import ReadFile, Watcher, allow_read_only_mappings

if TYPE_CHECKING:
    from distributed import Client

_PREFIX = "dask://"
#: The time to wait for the scheduler, in seconds.
_PATIENCE_S = 20


def scheduler_of(executor: str) -> str:
    """Return the address in `dask://HOST:PORT`. Raises ValueError."""
    host, colon, port = executor.removeprefix(_PREFIX).rpartition(":")
    if not executor.startswith(_PREFIX) or not colon or not host or not port.isdigit():
        raise ValueError(f"{executor}: write dask://HOST:PORT, the address of a Dask scheduler")
    return f"{host}:{port}"


def read_on_cluster(
    scheduler: str, files: Sequence[tuple[str, str]], read: ReadFile, watcher: Watcher | None
) -> Iterator[tuple[Run, ...]]:
    """Yield the runs of each file, in order. Raises Refused for a cluster that cannot be used.

    Parameters
    ----------
    scheduler : `HOST:PORT`.
    files : the path of each file, and the name that messages have for it.
    read : reads one file on a worker.
    watcher : is told how many files were read.
    """
    client = _connected(scheduler)
    try:
        _refuse_other_versions(client, scheduler)
        task = partial(_read, read)
        paths = [path if "://" in path else os.path.abspath(path) for path, _ in files]
        futures = client.map(task, paths, [name for _, name in files], pure=False, retries=0)
        for number, ((_, name), future) in enumerate(zip(files, futures, strict=True), 1):
            yield _result(future, name, scheduler)
            future.release()
            if watcher is not None:
                watcher(plural(len(files), "file"), number, len(files))
    finally:
        client.close()


def _connected(scheduler: str) -> Client:
    """Return a client of the scheduler. Raises Refused."""
    try:
        from distributed import Client
    except ImportError as error:
        raise Refused(f"--executor needs Dask: pip install 'perfgate[cluster]' ({error})") from None
    try:
        return Client(f"tcp://{scheduler}", timeout=_PATIENCE_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise Refused(f"no Dask scheduler answers at {scheduler}: {error}", 3) from None


def _refuse_other_versions(client: Client, scheduler: str) -> None:
    """Raise Refused if there are no workers, or if they have another perfgate or none."""
    if not client.scheduler_info(n_workers=-1)["workers"]:
        raise Refused(f"the cluster at {scheduler} has no workers: start some with `dask worker {scheduler}`", 3)
    found: dict[str, Any] = client.run(_version, on_error="return")
    other = {worker: answer for worker, answer in found.items() if answer != __version__}
    if other:
        worker, answer = next(iter(other.items()))
        has = f"has perfgate {answer}" if isinstance(answer, str) else f"cannot import perfgate ({answer})"
        raise Refused(
            f"{plural(len(other), 'worker')} of {scheduler} must have perfgate {__version__}: {worker} {has}", 3
        )


def _version() -> str:
    return __version__


def _read(read: ReadFile, path: str, name: str) -> bytes:
    """Read a file on a worker; return its runs as bytes."""
    allow_read_only_mappings()
    return pickle.dumps(read(path, name))


def _result(future: Any, name: str, scheduler: str) -> tuple[Run, ...]:
    """Return the runs of a future, or a run with the reason why no worker could read its file. Raises Refused."""
    from distributed import KilledWorker

    try:
        runs: tuple[Run, ...] = pickle.loads(future.result())
    except KilledWorker:
        message = "cannot be read: every worker that read it was lost; give the workers more memory, or read it here"
        return (unreadable(name, message),)
    except (CancelledError, OSError) as error:
        raise Refused(
            f"the connection to the cluster at {scheduler} was lost: start the command again ({error})", 3
        ) from None
    return runs
