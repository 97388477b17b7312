"""Read the files of a run on a Dask cluster that exists already: `--executor dask://HOST:PORT`, or `tls://HOST:PORT`.

Each worker opens files by their paths, so a path must mean the same everywhere: a URL, or a file system that all
machines share. If a worker is lost, another one reads its files. A file that kills several workers becomes an error.
"""

from __future__ import annotations

import pickle
import platform
import time
import zlib
from collections.abc import Callable
from concurrent.futures import CancelledError
from threading import Thread
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from perfgate.core import Run
from perfgate.core.wording import one_line, plural
from perfgate.version import __version__
from perfgate.workspace.input_files import unreadable
from perfgate.workspace.options import Refused
from perfgate.workspace.parallel import allow_read_only_mappings

if TYPE_CHECKING:
    from distributed import Client

#: The protocols of `--executor`, as Dask names them. The certificates of TLS are those of Dask's own configuration.
_PROTOCOLS = {"dask": "tcp", "tcp": "tcp", "tls": "tls"}
#: The seconds to wait for the scheduler, and for a new worker if all are lost.
_PATIENCE_S = 20
WITHOUT_WORKERS_S = 60.0
#: The seconds between two looks whether there are still workers.
_LOOK_S = 5.0

#: Returns the runs of a file without the values that the command does not need.
Finish = Callable[[tuple[Run, ...]], tuple[Run, ...]]


class LostFile(Exception):
    """Every worker that tried to read a file was lost."""


def scheduler_of(executor: str) -> str:
    """Return the address of a scheduler as Dask writes it. Raises ValueError."""
    protocol, _, address = executor.partition("://")
    host, colon, port = address.rpartition(":")
    if protocol not in _PROTOCOLS or not colon or not host or not port.isdecimal():
        raise ValueError(f"{executor}: write dask://HOST:PORT or tls://HOST:PORT, the address of a Dask scheduler")
    return f"{_PROTOCOLS[protocol]}://{address}"


class Cluster(Struct, frozen=True):
    """A client of a cluster, which makes clear messages of lost workers and connections."""

    client: Client
    scheduler: str

    def submit(self, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a function on a worker and return its future. The function gets the results of futures as arguments."""
        # If pure, the result of an earlier call with equal arguments would be used, though the file may have changed.
        return self.client.submit(function, *arguments, pure=False, retries=0)

    def runs(self, future: Any, name: str) -> tuple[Run, ...]:
        """Return the runs of a file, from the future of a list with them, or a run with why not. Raises Refused."""
        try:
            runs: tuple[Run, ...] = self.result(self.submit(packed, future), results_of(1, are_runs))[0]
        except LostFile:
            step = "give the workers more memory, or read it here"
            return (unreadable(name, f"cannot be read: every worker that read it was lost; {step}"),)
        return runs

    def result(self, future: Any, is_right: Callable[[Any], bool]) -> Any:
        """Wait for the object that a worker packs (`packed`), and return it.

        Raises LostFile. Raises Refused if the connection or all workers are lost, or the worker fails or its object is
        not `is_right`.
        """
        from distributed import KilledWorker
        from distributed import TimeoutError as NotYet

        seen = time.monotonic()  # the last time at which there were workers
        while True:
            try:
                found = pickle.loads(zlib.decompress(future.result(timeout=_LOOK_S)))
                if is_right(found):
                    return found
                raise ValueError("its answer has another form")
            except KilledWorker:
                raise LostFile from None
            except NotYet:
                if self._workers():
                    seen = time.monotonic()
                elif time.monotonic() - seen > WITHOUT_WORKERS_S:
                    message = f"all workers of the cluster at {self.scheduler} were lost: start some, and start again"
                    raise Refused(message, 3) from None
            except (CancelledError, OSError) as error:
                raise _lost(self.scheduler, error) from None
            except Exception as error:  # of the worker, or its answer cannot be unpacked
                why = one_line(f"{type(error).__name__}: {error}")
                raise Refused(f"a worker of the cluster at {self.scheduler} failed: {why}", 3) from error

    def _workers(self) -> int:
        """Return the number of workers. Raises Refused if the scheduler does not answer."""
        try:
            return len(self.client.scheduler_info(n_workers=-1)["workers"])
        except (CancelledError, OSError, RuntimeError) as error:
            raise _lost(self.scheduler, error) from None


def results_of(count: int, is_one: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check of a worker's answer: a list of `count` results, and `is_one` is true for each."""
    return lambda found: isinstance(found, list) and len(found) == count and all(map(is_one, found))


def are_runs(found: object) -> bool:
    """Return whether an object is the runs of a file: a tuple of at least one run."""
    return isinstance(found, tuple) and bool(found) and all(isinstance(run, Run) for run in found)


def _lost(scheduler: str, error: BaseException) -> Refused:
    why = f"{type(error).__name__}: {error}".partition("\n")[0].rstrip(": ")
    return Refused(f"the connection to the cluster at {scheduler} was lost: start the command again ({why})", 3)


def connected(scheduler: str) -> Client:
    """Return a client of the scheduler. Raises Refused."""
    try:
        from distributed import Client
    except ImportError as error:
        raise Refused(f"--executor needs Dask: pip install 'perfgate[cluster]' ({error})") from None
    found: list[Client | Exception] = []

    def connect() -> None:
        try:
            found.append(Client(scheduler, timeout=_PATIENCE_S, set_as_default=False))
        except Exception as error:  # also TLS without certificates, TLS required, and another server
            found.append(error)

    thread = Thread(target=connect, daemon=True)  # Dask would wait for ever for a server that does not answer
    thread.start()
    thread.join(2 * _PATIENCE_S)  # longer than `timeout`, so that an error of Dask comes first
    if found and not isinstance(found[0], Exception):
        return found[0]
    # An error of TLS may have no text.
    why = str(found[0]) or type(found[0]).__name__ if found else "a server is there and says nothing"
    raise Refused(f"no Dask scheduler answers at {scheduler}: {why}", 3)


def threads_of_same_version(client: Client, scheduler: str) -> int:
    """Return the number of threads of all workers together.

    Raises Refused if there are no workers, or if one of them has another version of perfgate or Python.
    """
    workers = client.scheduler_info(n_workers=-1)["workers"]
    if not workers:
        raise Refused(f"the cluster at {scheduler} has no workers: start some with `dask worker {scheduler}`", 3)
    found: dict[str, Any] = client.run(versions, on_error="return")
    own = versions()
    other = {worker: answer for worker, answer in found.items() if answer != own}
    if other:
        worker, answer = next(iter(other.items()))
        has = f"has {answer}" if isinstance(answer, str) else f"cannot import perfgate ({answer})"
        raise Refused(f"{plural(len(other), 'worker')} of {scheduler} must have {own}: {worker} {has}", 3)
    return sum(int(worker["nthreads"]) for worker in workers.values())


def versions() -> str:
    """Return the versions that the command and its workers must share, because they exchange Python objects."""
    return f"perfgate {__version__} and Python {'.'.join(platform.python_version_tuple()[:2])}"


def packed(found: object) -> bytes:
    """Return an object as the bytes that a worker sends to the command."""
    allow_read_only_mappings()
    return zlib.compress(pickle.dumps(found), level=1)
