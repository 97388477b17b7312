"""The page: a jinja2 template that escapes whatever it is given, filled from a report.

Names, paths and messages are untrusted. Each goes through `one_line`, which makes visible what no screen shows, and
through the template's own escaping; none ever becomes the name of an element or an attribute, a link, a style or a
part of a picture. A policy in the page forbids it to load or to run anything.
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from perfgate.core import Report
from perfgate.core.units import format_change, format_number, format_value
from perfgate.core.wording import clip, one_line, plural
from perfgate.reporters import phrases
from perfgate.reporters.html import sections

#: In characters: one name, path or message.
_LONGEST_TEXT = 2_000


def render(report: Report) -> str:
    """The report as one self-contained page; the worst verdict first, passes folded."""
    page = _template().render(report=report, verdicts=sections.verdicts(report), steps=sections.steps(report))
    return page.replace("##[", "#&#35;[") + "\n"  # to a GitHub job's log, that would be a command


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("perfgate.reporters.html", ""),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "phrases": phrases,
        "sections": sections,
        "plural": plural,
        "format_change": format_change,
        "format_number": format_number,
        "format_value": format_value,
    }
    environment.filters["picture"] = Markup
    environment.filters["whole"] = lambda text: escape(one_line(text))  # half a command is of no use
    return environment.get_template("page.html.j2")


def _visible(value: object) -> object:
    """Text as people can see it; a picture, and what is no text, stay as they are."""
    return clip(one_line(value), _LONGEST_TEXT) if isinstance(value, str) and not hasattr(value, "__html__") else value
