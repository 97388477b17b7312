"""Reports of a command that ends without a decision: an old report must not look like the answer."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

import click

from perfgate.core import Location, Problem, Report
from perfgate.judge.report import with_outcome
from perfgate.reporters import RENDERERS
from perfgate.workspace.options import Refused
from perfgate.workspace.output_files import output_faults, write_reports

_USAGE, _NOT_JUDGED, _INTERNAL = 2, 3, 4


class _Terminated(BaseException):
    """SIGTERM arrived."""


@contextmanager
def replacing(outputs: Mapping[str, str], inputs: Sequence[str]) -> Iterator[None]:
    """Write reports of the error if the block ends with one. A report that the block has already written is kept.

    `outputs`: the file of each format by its name; `-` is standard output, which gets no report of an error. `inputs`:
    the files and folders that the command reads, which no report replaces. Raises Refused, before the block, for a
    report that cannot be written.
    """
    faults = output_faults(outputs, inputs)
    files = {name: path for name, path in outputs.items() if name not in faults and _keeps_a_report(path)}
    before = {name: _identity(path) for name, path in files.items()}
    try:
        with _sigterm_raises():
            if faults:  # raised here, so that the reports that can be written have the message
                raise Refused(next(iter(faults.values())))
            yield
    except click.exceptions.Exit:  # not an error: click ends a command in this way
        raise
    except BaseException as error:
        report = _refusal(error)
        old = {name: path for name, path in files.items() if _identity(path) == before[name]}
        write_reports(old, lambda name: RENDERERS[name](report))
        if not isinstance(error, _Terminated):
            raise
        os.kill(os.getpid(), signal.SIGTERM)  # its default action ends the process, as the sender expects


def _keeps_a_report(path: str) -> bool:
    """Return whether a path is a file, or can become one; standard output, a pipe and a device keep no report."""
    return path != "-" and (os.path.isfile(path) or not os.path.exists(path))


def _identity(path: str) -> tuple[int, int, int] | None:
    """Return inode, size and time of a file: other numbers later show that it was written. None for no file."""
    with suppress(OSError):
        found = os.stat(path)
        return found.st_ino, found.st_size, found.st_mtime_ns
    return None


@contextmanager
def _sigterm_raises() -> Iterator[None]:
    """Raise `_Terminated` at SIGTERM in the block: in the main thread, if nothing else handles the signal."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise _Terminated

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _refusal(error: BaseException) -> Report:
    """Return the report of an error: a problem for each line of its message, and the exit code (3 for a signal)."""
    message, code = str(error), _INTERNAL
    if isinstance(error, Refused):  # after a signal, its code is 128 plus the number, which no report has
        code = error.exit_code if error.exit_code <= _INTERNAL else _NOT_JUDGED
    elif isinstance(error, click.ClickException):
        message, code = error.format_message(), _USAGE
    elif isinstance(error, OSError):
        message, code = f"the output could not be written: {error.strerror or error}", _USAGE
    elif isinstance(error, MemoryError):
        message, code = "there is not enough memory", _NOT_JUDGED
    elif isinstance(error, (KeyboardInterrupt, _Terminated)):
        message, code = f"stopped by {'SIGTERM' if isinstance(error, _Terminated) else 'SIGINT'}", _NOT_JUDGED
    else:
        message = f"internal error: {type(error).__name__}: this is a bug in perfgate"
    head, *more = message.split("\n")
    lines = [f"nothing was judged: {head}", *filter(None, more)]
    problems = tuple(Problem("error", line, Location("perfgate")) for line in lines)
    return with_outcome(Report(problems=problems), at_least=code)
