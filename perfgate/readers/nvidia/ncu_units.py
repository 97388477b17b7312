"""Units as Nsight Compute prints them: `usecond`, `Kbyte`, `Gbyte/second`, `cycle/nsecond`, `%`, `inst`.

ncu picks a prefix that fits each value, so one metric may be in usecond in one launch and in msecond in the next; all
become base units here. Prefixes, those of bytes too, are decimal. Source: outputs in public
repositories.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

_TIMES = {
    **dict.fromkeys(("second", "s", "sec"), Fraction(1)),
    **dict.fromkeys(("msecond", "ms"), Fraction(1, 10**3)),
    **dict.fromkeys(("usecond", "us", "µs", "μs"), Fraction(1, 10**6)),
    **dict.fromkeys(("nsecond", "ns"), Fraction(1, 10**9)),
}
#: A prefix is a capital; the units themselves are in small letters, but for Hz and B.
_PREFIXED = re.compile(r"([KMGTP]?)(byte|hz|Hz|B|[a-z]{2,}.*)")
_BASES = {"byte": "B", "B": "B", "hz": "1/s", "Hz": "1/s"}
#: What a unit becomes when it is counted by the second.
_BY_SECOND = {"B": "B/s", "1": "1/s", "s": "1"}


@dataclass(frozen=True, slots=True)
class Scale:
    """How a printed unit becomes a base unit: `value * factor / divisor`."""

    base: str
    factor: int
    divisor: int
    #: Whether the unit counts things (bytes, too) one by one, so that a sum of it is a whole number.
    counts: bool

    def to_base(self, value: float) -> float:
        """A printed value in base units; powers of ten are exact, where their inverses are not."""
        return value * self.factor / self.divisor


@lru_cache(maxsize=1024)
def scale_of(unit: str) -> Scale:
    """The scale of a printed unit; what is no time, byte, frequency or share has the unit 1.

    Bytes for a block are bytes, and anything by the second, `cycle/nsecond` too, is a rate.
    """
    over, _, under = unit.partition("/")
    base, size = _part(over)
    if under:
        below, by = _part(under)
        size /= by
        base = _BY_SECOND.get(base, base) if below == "s" else base
    counts = not under and size == 1 and base in ("1", "B")
    return Scale(base, size.numerator, size.denominator, counts)


def _part(unit: str) -> tuple[str, Fraction]:
    """One side of a unit: its base, and how many of it one printed unit is."""
    if unit in _TIMES:
        return "s", _TIMES[unit]
    if unit == "%":
        return "1", Fraction(1, 100)
    found = _PREFIXED.fullmatch(unit)
    if not found:
        return "1", Fraction(1)
    return _BASES.get(found[2], "1"), Fraction(1000 ** "KMGTP".index(found[1]) * 1000 if found[1] else 1)
