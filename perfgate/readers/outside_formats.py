"""Formats that other packages bring: the entry points of the group `perfgate.readers`, found and made safe to use."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from types import ModuleType

from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.core import Run
from perfgate.core.resource_limits import OverLimit
from perfgate.core.wording import clip, one_line
from perfgate.readers.formats import Format, JsonOutline
from perfgate.readers.registry import FORMATS
from perfgate.readers.text import InputFile

GROUP = "perfgate.readers"


def read_outside(known: Format, file: InputFile) -> tuple[Run, ...]:
    """Return the runs of a file; if the reader fails, one run with the error."""
    try:
        runs = tuple(import_module(known.module).read(file))
        if not runs or not all(isinstance(run, Run) for run in runs):
            raise TypeError("read() must return at least one Run")
    except OverLimit:
        raise
    except (Exception, SystemExit) as error:
        message = _fault(f"the reader {known.name!r} of {known.package} failed", error)
        return (Run(file.name, known.name, (), (*file.problems, file.problem("error", message))),)
    return runs


class Plugins(Struct, frozen=True):
    """The formats of installed packages, and what is wrong with such packages, one line each."""

    formats: list[Format] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@cache
def plugins() -> Plugins:
    """Return the formats of installed packages; to search for the packages takes milliseconds."""
    from importlib.metadata import entry_points

    found = Plugins()
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else entry.value
        try:
            loaded = _checked(entry.load(), package, found)
        except (Exception, SystemExit) as error:
            found.faults.append(_fault(f"the reader {entry.name!r} of {package} cannot be loaded", error))
        else:
            found.formats.append(loaded)
    return found


def find_format(name: str) -> Format | None:
    """Return the format of this name; packages are searched only if perfgate has none."""
    own = next((known for known in FORMATS if known.name == name), None)
    return own or next((known for known in plugins().formats if known.name == name), None)


def format_names() -> list[str]:
    """Return the names of all formats, those of installed packages last."""
    return [known.name for known in (*FORMATS, *plugins().formats)]


def _checked(loaded: object, package: str, before: Plugins) -> Format:
    """Return the format that an entry point names, made safe to use. Raises an error that says what is wrong."""
    found = vars(loaded).get("FORMAT") if isinstance(loaded, ModuleType) else loaded
    if not isinstance(found, Format):
        raise TypeError("the entry point names neither a Format nor a module with FORMAT")
    if any(found.name == known.name for known in (*FORMATS, *before.formats)):
        raise ValueError(f"the format {found.name!r} exists already")
    for pattern in (*found.markers.values(), *found.hints.values(), found.late_key):
        re.compile(pattern)
    rule = found.outline

    def outline(document: JsonOutline) -> str | None:
        try:
            return rule(document) if rule else None
        except Exception as error:
            before.faults.append(_fault(f"the reader {found.name!r} of {package} failed", error))
            return None

    return replace(found, outline=outline, package=package)


def _fault(what: str, error: BaseException) -> str:
    return clip(one_line(f"{what}: {type(error).__name__}: {error}"), 500)
