"""Reports to files: tried before the work begins, replaced at the end, so that nothing old is lost."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence

from perfgate.app.errors import Refused
from perfgate.model import Report
from perfgate.reporters import RENDERERS


def check_outputs(outputs: Mapping[str, str], inputs: Sequence[str]) -> None:
    """Refuse two reports to one file, a report over an input, and a place that cannot be written to."""
    used = {os.path.realpath(path): "an input" for path in inputs if path != "-"}
    for name, path in outputs.items():
        place = path if path == "-" else os.path.realpath(path)
        if place in used:
            raise Refused(f"--{name} {path}: that file is {used[place]}")
        used[place] = f"the {name} report already"
        if path != "-":
            _try(name, path)


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


def replace_file(path: str, data: bytes) -> None:
    """Write a file in one step: a reader sees the old one or the new one. Raises OSError."""
    folder, name = os.path.split(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
