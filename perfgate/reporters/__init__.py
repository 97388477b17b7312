"""Reports as text: one module per format, and the registry of the formats that are written to files.

A reporter is one pure function, `render(report: Report) -> str`. It

* shows the report and decides nothing: it never imports `perfgate.stats` or `perfgate.judge`;
* reads no clock, no environment variable and no file, so that the same report gives the same bytes;
* treats every text of the report as untrusted, with the functions of `perfgate.core.wording`;
* states how much it leaves out.

To add a format, write its module here, its line in RENDERERS and its golden files in tests/reporters. The terminal
table is not in the registry because it also takes a width and colours, and GitHub's annotations are not a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import TypeAlias, cast

from perfgate.core import Report

Renderer: TypeAlias = Callable[[Report], str]


def _render(module: str, name: str, report: Report) -> str:
    """Render with a function of a module that is imported now: a check without JUnit does not import junit_xml."""
    return cast(Renderer, getattr(import_module(f"perfgate.reporters.{module}"), name))(report)


#: Every format of a report file, by the name of its option.
RENDERERS: Mapping[str, Renderer] = {
    "json": partial(_render, "json_report", "render"),
    "junit": partial(_render, "junit", "render"),
    "markdown": partial(_render, "markdown", "render"),
    "comment": partial(_render, "markdown", "render_comment"),
    "untrusted-comment": partial(_render, "untrusted_comment", "render"),
    "sarif": partial(_render, "sarif", "render"),
    "html": partial(_render, "html.page", "render"),
}
