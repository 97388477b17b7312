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

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TypeAlias, cast

from perfgate.core import Report

Renderer: TypeAlias = Callable[[Report], str]


def _imported_when_used(module: str, name: str = "render") -> Renderer:
    """A function of a module that is imported at the first call: a check without JUnit does not import junit_xml."""

    def render(report: Report) -> str:
        return cast(Renderer, getattr(import_module(f"perfgate.reporters.{module}"), name))(report)

    return render


#: Every format of a report file, by the name of its option.
RENDERERS: Mapping[str, Renderer] = {
    "json": _imported_when_used("json_report"),
    "junit": _imported_when_used("junit"),
    "markdown": _imported_when_used("markdown"),
    "comment": _imported_when_used("markdown", "render_comment"),
    "sarif": _imported_when_used("sarif"),
    "html": _imported_when_used("html.page"),
}

#: The packages that a format needs in addition; the extra of the same name installs them.
EXTRAS: Mapping[str, Sequence[str]] = {"html": ("jinja2", "matplotlib")}
