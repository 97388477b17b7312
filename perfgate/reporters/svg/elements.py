"""Elements of SVG and HTML as text. Every text and every attribute is escaped; only `SafeText` is taken as it is."""

from __future__ import annotations

import re
from html import escape

from perfgate.core.wording import clip, one_line

#: The longest text of an element or attribute, in characters.
_LONGEST_TEXT = 2_000
_NAME = re.compile(r"[a-zA-Z][\w-]*")
#: Elements of HTML without an end tag.
_VOID = {"meta", "input", "br"}


class SafeText(str):
    """Finished text of a page: what must be escaped is escaped."""

    __slots__ = ()


def safe(text: str) -> SafeText:
    """Return untrusted text for a page: escaped, on one line, with invisible characters made visible."""
    if isinstance(text, SafeText):
        return text
    return SafeText(escape(clip(one_line(text), _LONGEST_TEXT)))


def joined(parts: list[SafeText], between: str = "\n") -> SafeText:
    """Return finished texts as one."""
    return SafeText(between.join(parts))


def element(name: str, /, *content: str, **attributes: str | float | bool | None) -> SafeText:
    """Return an element; text in it is escaped.

    Parameters
    ----------
    name : the name of the element.
    content : finished elements, and texts.
    attributes : `class_` is `class`, and `aria_label` is `aria-label`. True is an attribute without a value; None and
        False leave it out.

    Raises
    ------
    ValueError : a name that is not of an element or attribute.
    """
    words = [name]
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if not _NAME.fullmatch(attribute):
            raise ValueError(f"{attribute!r} is not a name of an attribute")
        if value is True:
            words.append(attribute)
        elif value is not None and value is not False:
            words.append(f'{attribute}="{safe(value) if isinstance(value, str) else short(value)}"')
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name of an element")
    inside = "".join(map(safe, content))
    return SafeText(f"<{' '.join(words)}>" if name in _VOID else f"<{' '.join(words)}>{inside}</{name}>")


def short(number: float) -> str:
    """Return a coordinate with at most two decimals."""
    text = f"{number:.2f}".rstrip("0").rstrip(".") if isinstance(number, float) else str(number)
    return "0" if text in ("-0", "") else text
