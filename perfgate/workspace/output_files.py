"""Reports to files: tried before the work begins, replaced at the end, so that nothing old is lost."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec

from perfgate.core import Report
from perfgate.reporters import EXTRAS, RENDERERS
from perfgate.workspace.errors import Refused

#: In bytes: a summary with less room than this says too little to be begun.
_LEAST_SUMMARY = 2_000


def check_outputs(outputs: Mapping[str, str], inputs: Sequence[str]) -> None:
    """Refuse two reports to one file, a report over or among the inputs, and a place that cannot be written to.

    `inputs` are all files and folders that are read: runs, rules, baselines, facts.
    """
    real = [os.path.realpath(path) for path in inputs if path != "-"]
    used = dict.fromkeys(real, "an input")
    folders = [path for path in real if os.path.isdir(path)]
    for name, path in outputs.items():
        _check_extra(name)
        place = path if path == "-" else os.path.realpath(path)
        if place in used:
            raise Refused(f"--{name} {path}: that file is {used[place]}")
        inside = next((folder for folder in folders if _is_read_from(folder, place)), None)
        if path != "-" and inside is not None:
            raise Refused(f"--{name} {path}: lies in a folder that is read; write reports elsewhere")
        used[place] = f"the {name} report already"
        if path != "-":
            _try(name, path)


def _check_extra(name: str) -> None:
    """A format whose packages are not installed fails before the work begins, not after it. Raises Refused."""
    missing = [package for package in EXTRAS.get(name, ()) if find_spec(package) is None]
    if missing:
        raise Refused(f"--{name} needs {' and '.join(missing)}: pip install 'perfgate[{name}]'")


def _is_read_from(folder: str, place: str) -> bool:
    """Whether a file at this place would be read as part of a folder, now or the next time."""
    among = os.path.commonpath([folder, place]) == folder if os.path.isabs(place) else False
    # The working directory may well hold rules beside reports; there only what exists already is in danger.
    return among and (folder != os.getcwd() or place.endswith((".yaml", ".yml")) or os.path.exists(place))


def _try(name: str, path: str) -> None:
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise Refused(f"--{name} {path}: is a directory")
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Refused(f"--{name} {path}: cannot write there: {error.strerror or error}") from None


def write_reports(report: Report, outputs: Mapping[str, str]) -> list[str]:
    """Write every report that goes to a file; what could not be written is said, after the others are."""
    failures = []
    for name, path in outputs.items():
        if path != "-":
            failures += _attempt(name, path, lambda name=name: RENDERERS[name](report))  # type: ignore[misc]
    return failures


def _attempt(name: str, path: str, render: Callable[[], str]) -> list[str]:
    try:
        replace_file(path, render().encode("utf-8"))
    except Exception as error:  # a failing reporter never changes the verdict, nor stops the others
        return [f"the {name} report could not be written to {path}: {error}"]
    return []


def append_summary(report: Report, path: str) -> list[str]:
    """Add the Markdown to the summary of a job's step, within what its size leaves; what went wrong, if anything."""
    from perfgate.reporters.markdown import LIMIT, render

    try:
        room = LIMIT - (os.path.getsize(path) if os.path.exists(path) else 0)
        if room < _LEAST_SUMMARY:
            return [f"the step summary {path} is full: the report was not added to it"]
        with open(path, "a", encoding="utf-8", newline="\n") as file:
            file.write(render(report, limit=room))
    except Exception as error:  # a failing reporter never changes the verdict
        return [f"the step summary could not be written: {error}"]
    return []


def replace_file(path: str, data: bytes) -> None:
    """Write a file in one step: a reader sees the old one or the new one. Raises OSError.

    A device or a pipe is written to; it must not be replaced by a file.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as file:
            file.write(data)
        return
    with _beside(os.path.realpath(path), data) as temporary:
        os.replace(temporary, os.path.realpath(path))


def create_file(path: str, data: bytes) -> None:
    """Write a new file in one step: a reader sees all of it or none. Raises OSError, also where there is one."""
    with _beside(path, data) as temporary:
        try:
            os.link(temporary, path)  # which, other than a renaming, replaces nothing
        except OSError:
            if os.path.lexists(path):
                raise
            os.replace(temporary, path)  # a file system that has no links
        else:
            os.unlink(temporary)


@contextmanager
def _beside(path: str, data: bytes) -> Iterator[str]:
    """A hidden file with these bytes in the folder of another; it is removed where the block fails."""
    folder, name = os.path.split(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        yield temporary
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
