"""The numbers in lines of text that nobody read.

Lines that differ in their digits only are alike. Of each kind some lines are kept, and the reader's values are compared
with the numbers in them. What is left over is a measurement if it has a name or a unit, and is no setting:

    step 10 | loss: 2.5 | step_time: 0.51 s          loss and step_time
    Loading weights took 3.2 seconds                  Loading weights took
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct, field

from perfgate.core.units import UNITS
from perfgate.readers.unmeasured import is_unmeasured

#: Of each kind of line, so many are kept.
_EXAMPLES = 6
#: The most kinds of lines; others are not examined.
_KINDS = 5000
#: Blocks at the beginning of a file are examined whole; then one of so many.
_WHOLE, _EVERY = 4, 16
_LONGEST_LINE, _LONGEST_NAME = 4000, 60
_DIGITS = b"0123456789. \t\r"

_NUMBER = r"(?<![\w.\-:/])[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\d.:]*\d)"
#: Dates, times of day, versions, addresses, hashes, places in programs, shares in brackets.
_NO_NUMBERS = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?|\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?"
    r"|\b\d+\.\d+\.\d+[\w.+-]*|0x[0-9a-fA-F]+|\b[0-9a-f]{12,}\b|\b[\w./-]+\.\w{1,4}:\d+|\b(?:[\w-]*[A-Za-z_][\w-]*\d+\b)"
)
_UNIT = r"(?:[ \t]?(?P<unit>[A-Za-zµμ%°][\w/%²µ]{0,20}))?"
_NAMED = re.compile(
    rf"(?P<name>[A-Za-z_][\w./%()\[\]#@ -]{{0,80}}?)[\"']?\s{{0,40}}(?P<sign>[:=|]|\.{{3,}}:?)?[\s\"'(\[]{{0,40}}"
    rf"(?P<number>{_NUMBER}){_UNIT}"
)
#: Words of names and units that measure.
_MEASURES = re.compile(
    r"(?:^|[_\W])(?:n|u|µ|μ|m)?s(?:ec(?:onds?)?)?(?:$|[_\W])|second|latenc|time|throughput|bandwidth|elapsed|duration|took"
    r"|/s\b|per.?sec|it/s|qps|rps|tok(?:ens?)?/|flop|(?:^|[_\W])[kmgt]i?b(?:$|[_\W])|bytes|memory|percentile|\bp\d\d\b|%|loss|util",
    re.IGNORECASE,
)


class _Kind(Struct):
    """Lines that are alike: how many they are, and some of them with their numbers."""

    count: int = 0
    examples: dict[int, str] = field(default_factory=dict)


class UnreadLines:
    """The lines of a file: kept while they are read, examined at the end."""

    def __init__(self) -> None:
        #: The numbers that were read in each line that is kept.
        self.read: dict[int, list[float]] = {}
        self.is_estimate = False
        self._kinds: dict[bytes, _Kind] = {}
        self._blocks = 0

    def keep(self, text: bytes, numbers: Sequence[int]) -> None:
        """Keep some lines of a block, before the reader gets them."""
        self._blocks += 1
        weight = 1 if self._blocks <= _WHOLE else _EVERY
        if weight > 1 and self._blocks % _EVERY:
            self.is_estimate = True
            return
        lines = text.split(b"\n")
        bare = text.translate(None, _DIGITS).split(b"\n")
        for at, line, letters in zip(numbers, lines, bare, strict=False):
            kind = self._kinds.get(letters)
            if kind is None:
                if len(self._kinds) >= _KINDS or len(letters) == len(line):
                    continue
                kind = self._kinds[letters] = _Kind()
            kind.count += weight
            if len(kind.examples) < _EXAMPLES and len(line) <= _LONGEST_LINE:
                kind.examples[at] = line.decode("utf-8", "replace")
                self.read[at] = []

    def found(self, known: Collection[str], beside: str, spoken: Collection[range]) -> Counter[str]:
        """Return the names of the numbers that were not read, with how many there are.

        Parameters
        ----------
        known: numbers of the runs without a line, by `digits`.
        beside: a pattern of names that are no measurements.
        spoken: lines that are examined elsewhere.
        """
        counts: Counter[str] = Counter()
        for kind in self._kinds.values():
            texts = {at: text for at, text in kind.examples.items() if not any(at in lines for lines in spoken)}
            left = [_left(text, self.read[at], known, beside) for at, text in texts.items()]
            for name in min(left, key=len, default=()):
                counts[name] += kind.count
        return counts


def _left(line: str, read: Sequence[float], known: Collection[str], beside: str) -> list[str]:
    """Return the names of the numbers of a line that were not read and are measurements."""
    rest = Counter(map(digits, read))
    names = []
    for name, printed, unit in numbers_in(line):
        own = digits(float(printed.replace(",", "")))
        if rest[own]:
            rest[own] -= 1
        elif own not in known and not is_unmeasured(name, beside):
            if bool(read) or _MEASURES.search(name) or (unit and _MEASURES.search(f" {unit} ")):
                names.append(name)
    return names


def numbers_in(line: str) -> Iterator[tuple[str, str, str]]:
    """Yield each named number of a line with its name and its unit; without a unit that is empty."""
    for found in _NAMED.finditer(_NO_NUMBERS.sub(" ", line)):
        name = " ".join(found["name"].split()[-4:]).strip(" .-(#@[")
        yield name[-_LONGEST_NAME:], found["number"], found["unit"] or ""


def digits(value: float) -> str:
    """Return a number without its power of ten, so that it is the same in ms and in s."""
    return f"{abs(value):.7e}"[:9].rstrip("0").rstrip(".")


def digits_of(values: Mapping[str, float]) -> set[str]:
    """Return the digits of statistics."""
    return {digits(value) for value in values.values()}
