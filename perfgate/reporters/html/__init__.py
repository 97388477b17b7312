"""The HTML pages: of a report, of the answer of a search, and of the trends of a history, each as one file.

Each is a jinja2 template that escapes all values. Names, paths and messages are untrusted: `one_line` makes their
invisible characters visible, and the template escapes them. None of them becomes an element, an attribute, a style or
a part of a picture. The content security policy of a page forbids it to load anything, and to run anything but a
script of perfgate.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from perfgate.core.wording import without_bracket_commands
from perfgate.reporters.svg import SafeText


def template(name: str, visible: Callable[[object], object], **known: object) -> Template:
    """Return a template of this folder. `visible` is applied to every value; `known` are its functions and modules."""
    environment = Environment(
        loader=PackageLoader(__name__, ""),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(known)
    environment.filters["picture"] = SafeText  # a finished picture is not escaped again
    environment.filters["identity"] = id  # a template finds what belongs to a value by it
    # Rendered (so escaped) text without the line breaks of the template, and without its empty lines.
    environment.filters["joined"] = lambda text: SafeText(re.sub(r"\n\s*", "", text))
    environment.filters["lines"] = lambda text: SafeText("\n".join(filter(None, text.split("\n"))))
    return environment.get_template(name)


@cache
def text_of(name: str) -> str:
    """Return the text of a file of this folder, such as a style sheet."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def finished(page: str) -> str:
    """Return a page with a final newline, and without what a CI system reads as a command in the log of a job."""
    return without_bracket_commands(page, "&#35;") + "\n"
