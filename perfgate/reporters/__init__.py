"""Reports as text: one file per format, and the registry of those that are written to files.

A reporter is a module with one pure function, `render(report: Report) -> str`, that

* shows what the report says and decides nothing: it never imports `perfgate.stats` or `perfgate.judge`;
* knows no clock, no environment variable and no file, so that the same report gives the same bytes;
* treats every text of the report as untrusted, by the means of `perfgate.reporters.text`;
* says what it leaves out, where it must leave out something.

To add one: its module here, its line in RENDERERS, its goldens in tests/reporters. Two are not in the registry: the
terminal's table, because it also wants a width and colours, and the annotations of GitHub, which are no file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TypeAlias, cast

from perfgate.core import Report

Renderer: TypeAlias = Callable[[Report], str]


def _imported_when_used(module: str) -> Renderer:
    """The `render` of a module that is imported at its first call: a check without JUnit needs no junit_xml."""

    def render(report: Report) -> str:
        return cast(Renderer, import_module(f"perfgate.reporters.{module}").render)(report)

    return render


#: Every format that a report can be written in, by the name of its option.
RENDERERS: Mapping[str, Renderer] = {
    "json": _imported_when_used("json_report"),
    "junit": _imported_when_used("junit"),
    "markdown": _imported_when_used("markdown"),
    "comment": _imported_when_used("comment"),
    "sarif": _imported_when_used("sarif"),
    "html": _imported_when_used("html"),
}

#: What a format needs beside perfgate's own dependencies: packages of the extra that has its name.
EXTRAS: Mapping[str, Sequence[str]] = {"html": ("jinja2", "matplotlib")}
