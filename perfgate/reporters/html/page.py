"""The HTML page: a jinja2 template that escapes all values, filled from a report.

Names, paths and messages are untrusted. `one_line` makes their invisible characters visible, and the template escapes
them. None of them becomes an element, an attribute, a link, a style or a part of a picture. The page's content
security policy forbids it to load or run anything.
"""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from perfgate.core import Report
from perfgate.core.units import format_change, format_confidence, format_number, format_value
from perfgate.core.wording import clip, one_line, plural
from perfgate.reporters.html import sections, what_changed
from perfgate.reporters.html.plots import sweeps
from perfgate.words import answer, cause_words, numbers

#: The longest name, path or message, in characters.
_LONGEST_TEXT = 2_000


def render(report: Report) -> str:
    """Return the report as one self-contained page: the largest blocking failures first, and passes folded."""
    verdicts = sections.verdicts(report)
    page = _template().render(
        report=report,
        verdicts=verdicts,
        groups=sections.groups(verdicts),
        steps=sections.steps(report),
        sweeps=sweeps(report),
        machine=sections.machine_alone(report, verdicts),
        cause_groups=cause_words.groups(report),
        places={id(verdict): place for place, verdict in enumerate(report.verdicts)},
    )
    return page.replace("##[", "#&#35;[") + "\n"  # GitHub would read it as a command in the log of a job


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
    environment.globals.update(answer=answer, numbers=numbers, sections=sections, plural=plural)
    environment.globals.update(causes=cause_words, pictures=what_changed)
    environment.globals.update(format_change=format_change, format_number=format_number)
    environment.globals.update(format_value=format_value, format_confidence=format_confidence)
    environment.filters["picture"] = Markup
    environment.filters["identity"] = id
    environment.filters["whole"] = lambda text: escape(one_line(text))  # a clipped command does not run
    return environment.get_template("page.html.j2")


def _visible(value: object) -> object:
    """Text with visible characters only. Pictures and other values stay as they are."""
    return clip(one_line(value), _LONGEST_TEXT) if isinstance(value, str) and not hasattr(value, "__html__") else value
