"""Numbers as a tool prints them in the user's locale: `27,595,520`, `27.595.520`, `65,77`.

`117.344` is 117.344 in one locale and 117344 in another, so that a text alone does not always tell. `readings` gives
both, and a reader decides by a value of the same file that leaves no doubt.
"""

from __future__ import annotations

import re
from typing import Literal

Mark = Literal[".", ","]

_GROUP = r"[1-9]\d{0,2}"
_BLANKS = re.compile(r"(?<=\d)[ '\u2019\u00a0\u202f](?=\d{3}(?!\d))")
_FORMS: dict[Mark, re.Pattern[str]] = {
    ".": re.compile(rf"[-+]?(?:{_GROUP}(?:,\d{{3}})+(?:\.\d+)?|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)", re.ASCII),
    ",": re.compile(rf"[-+]?(?:{_GROUP}(?:\.\d{{3}})+(?:,\d+)?|(?:\d+(?:,\d*)?|,\d+)(?:[eE][-+]?\d+)?)", re.ASCII),
}


def readings(text: str) -> dict[Mark, str]:
    """What a printed number means with each decimal mark, as `float` takes it; empty for what is no number.

    `12` has two readings that agree, `12.5` and `1.234.567` have one, and `1,234` has two that differ.
    """
    text = _BLANKS.sub("", text)
    return {mark: _plain(text, mark) for mark, form in _FORMS.items() if form.fullmatch(text)}


def _plain(text: str, mark: Mark) -> str:
    """A text of this mark's form, without thousands separators and with a point."""
    return text.replace(",", "") if mark == "." else text.replace(".", "").replace(",", ".")


def evidence(text: str, whole: bool = False) -> Mark | None:
    """The decimal mark that a printed number gives away; None if it shows none.

    Where the number is known to be `whole`, the separator in `1,234` can only group thousands.
    """
    found = readings(text)
    if len(found) == 1:
        return next(iter(found))
    if whole and len({*found.values()}) == 2:
        return "." if "," in text else ","
    return None
