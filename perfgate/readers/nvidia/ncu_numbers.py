"""Numbers and units as Nsight Compute prints them: `27,595,520` or `27.595.520`, `usecond`, `Gbyte/second`, `%`.

Numbers follow the user's locale: `117.344` is 117.344 in one locale and 117344 in another. A reader needs another
number of the same file that shows the decimal mark.

ncu picks a prefix for each value, so one metric may be in usecond for one launch and in msecond for the next; both
become base units here. All prefixes are decimal, those of bytes too. Source: outputs in public repositories.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from msgspec import Struct

Mark = Literal[".", ","]
_GROUP = r"[1-9]\d{0,2}"
_BLANKS = re.compile(r"(?<=\d)[ '\u2019\u00a0\u202f](?=\d{3}(?!\d))")
_PATTERNS: dict[Mark, re.Pattern[str]] = {
    ".": re.compile(rf"[-+]?(?:{_GROUP}(?:,\d{{3}})+(?:\.\d+)?|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)", re.ASCII),
    ",": re.compile(rf"[-+]?(?:{_GROUP}(?:\.\d{{3}})+(?:,\d+)?|(?:\d+(?:,\d*)?|,\d+)(?:[eE][-+]?\d+)?)", re.ASCII),
}
_TIMES = {
    **dict.fromkeys(("second", "s", "sec"), Fraction(1)),
    **dict.fromkeys(("msecond", "ms"), Fraction(1, 10**3)),
    **dict.fromkeys(("usecond", "us", "µs", "μs"), Fraction(1, 10**6)),
    **dict.fromkeys(("nsecond", "ns"), Fraction(1, 10**9)),
}
#: A prefix is a capital letter. Units are in small letters, except Hz and B.
_PREFIXED = re.compile(r"([KMGTP]?)(byte|hz|Hz|B|[a-z]{2,}.*)")
_BASES = {"byte": "B", "B": "B", "hz": "1/s", "Hz": "1/s"}
_PER_SECOND = {"B": "B/s", "1": "1/s", "s": "1"}


def readings(text: str) -> dict[Mark, str]:
    """The value of a printed number with each decimal mark, as `float` accepts it; empty for other text.

    `12` has two equal readings, `12.5` and `1.234.567` have one, and `1,234` has two different ones.
    """
    text = _BLANKS.sub("", text)
    plain: dict[Mark, str] = {".": text.replace(",", ""), ",": text.replace(".", "").replace(",", ".")}
    return {mark: plain[mark] for mark, pattern in _PATTERNS.items() if pattern.fullmatch(text)}


def decimal_mark(text: str, whole: bool = False) -> Mark | None:
    """The decimal mark that a printed number shows; None if it shows none.

    In a number that is known to be `whole`, the separator of `1,234` can only group thousands.
    """
    found = readings(text)
    if len(found) == 1:
        return next(iter(found))
    if whole and len({*found.values()}) == 2:
        return "." if "," in text else ","
    return None


class Scale(Struct, frozen=True):
    """Converts a printed unit to a base unit: `value * factor / divisor`."""

    base: str
    factor: int
    divisor: int
    #: True if the unit counts single things or bytes, so that a sum of it is a whole number.
    counts: bool

    def to_base(self, value: float) -> float:
        """A printed value in base units. Powers of ten are exact as floats; their inverses are not."""
        return value * self.factor / self.divisor


@lru_cache(maxsize=1024)
def scale_of(unit: str) -> Scale:
    """The scale of a printed unit. The base is `1` unless the unit is a time, bytes, a frequency or a share.

    Bytes per block are bytes; anything per second, such as `cycle/nsecond`, is a rate.
    """
    over, _, under = unit.partition("/")
    base, size = _part(over)
    if under:
        below, by = _part(under)
        size /= by
        base = _PER_SECOND.get(base, base) if below == "s" else base
    counts = not under and size == 1 and base in ("1", "B")
    return Scale(base, size.numerator, size.denominator, counts)


def _part(unit: str) -> tuple[str, Fraction]:
    """One side of a unit: its base, and the size of one printed unit in it."""
    if unit in _TIMES:
        return "s", _TIMES[unit]
    if unit == "%":
        return "1", Fraction(1, 100)
    if not (found := _PREFIXED.fullmatch(unit)):
        return "1", Fraction(1)
    return _BASES.get(found[2], "1"), Fraction(1000 ** "KMGTP".index(found[1]) * 1000 if found[1] else 1)
