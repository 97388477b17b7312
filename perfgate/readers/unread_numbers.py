"""The numbers of a file that its reader did not read, and the names of numbers that are not measurements.

Lines that differ in their digits only are alike. Of each kind some lines are kept, and the reader's values are compared
with the numbers in them. A number that is left is a measurement if it has a name or a unit, and is not a setting:

    step 10 | loss: 2.5 | step_time: 0.51 s          loss and step_time
    Loading weights took 3.2 seconds                  Loading weights took
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from perfgate.documents.json import Path
from perfgate.readers.unlabelled import Headings, is_unmeasured
from perfgate.readers.values import cells_of, number

#: The number of members of a longer list of objects that are examined, evenly spread.
_MEMBERS = 1000
#: The names of benchmarks and files have such signs, the names of fields do not.
_NO_FIELD = re.compile(r"[/:\[(]")
#: The characters of a name that are kept.
_LONGEST = 80


class UnreadFields:
    """Walks a document, and counts the numbers at paths that are not among those read, by their names.

    `beside`: a pattern of names that are not measurements. `most`: the most paths that a reader marks as read.
    """

    def __init__(self, read: Collection[Path], beside: str, most: int) -> None:
        self._read, self._beside = read, beside
        #: If there may be more: the fields in which some numbers were read.
        many = read if len(read) >= most else ()
        self._names = {_name_of(path) for path in many}
        self.found: Counter[str] = Counter()
        self.is_estimate = False

    def walk(self, data: Any, path: Path = (), weight: int = 1) -> None:
        """Count the numbers of the value at a path, and of its members.

        `weight`: the number of members of a list that it represents.
        """
        if path in self._read:
            return
        if isinstance(data, dict):
            for key, value in data.items():
                is_field = not _NO_FIELD.search(key)
                if not is_unmeasured(key, self._beside, is_field=is_field):
                    self.walk(value, (*path, key), weight)
        elif isinstance(data, list):
            every = max(1, len(data) // _MEMBERS)
            self.is_estimate = self.is_estimate or every > 1
            for index in range(0, len(data), every):
                self.walk(data[index], (*path, index), weight * min(every, len(data) - index))
        elif _is_number(data):
            name = _name_of(path)
            if name not in self._names:
                self.found[name[:_LONGEST]] += weight


def _name_of(path: Path) -> str:
    """Return the name of the numbers at a path: its keys without indices."""
    return ".".join([key for key in path if type(key) is str])


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return "." in value and number(value) is not None  # other texts of digits are ids
    return isinstance(value, int | float) and not isinstance(value, bool)


#: The number of lines of each kind that are kept.
_EXAMPLES = 4
#: The most kinds of lines; others are not examined.
_KINDS = 2000
#: The number of blocks at the beginning of a file that are all examined; later, one of every sixteen.
_WHOLE, _EVERY = 4, 16
#: The bytes of the longest line that is kept, and the characters of the longest name.
_LONGEST_LINE, _LONGEST_NAME = 4000, 60
#: The bytes in which lines of one kind may differ.
_DIGITS = b"0123456789. \t\r"
#: A number in a line: its name, True if the name is its own (`loss: 2.5`), its text, and its unit.
NumberInLine = tuple[str, bool, str, str]
_NUMBER = re.compile(
    r"(?<![\w.\-:/])(?P<number>[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)(?![\d.:]*\d)"
    r"(?:[ \t]?(?P<unit>[A-Za-zµμ%°][\w/%²µ]{0,20}))?"
)
#: Dates, times of day, versions, addresses, hashes, places in programs, progress bars up to their rate, rows of the
#: table of nvidia-smi.
_NO_NUMBERS = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d(?:[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)?|\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?"
    r"|\b\d+\.\d+\.\d+[\w.+-]*|0x[0-9a-fA-F]+|(?<![.\w])(?=\d*[a-f])[0-9a-f]{12,}\b|\b[\w./-]+\.\w{1,4}:\d+"
    r"|\d{1,3}%\|[^\[\n]{0,300}\[[^\],]{0,40},[ \t]*[\d.?]{1,12} ?(?:s/)?\w{1,12}(?:/s)?"
    r"|\|[^|\n]{0,20}\b\d{1,3}C +P\d[^\n]*"
)
#: The name of a number without words before it, as in the rows of a table.
_NAMELESS = "rows of numbers"
_UNNAMED = "a column without a name"
#: Separates a name from the words before it.
_PARTS = re.compile(r"[,;|{}\[\]<>]|\s-\s|: (?=\S* *\S)")
#: Characters between a name and its number, or before the name.
_BESIDE_NAMES = " \t.,;:=|-+(#@[]{}<>\"'*~"
#: Words in the names and units of measurements.
_MEASURES = re.compile(
    r"(?:^|[_\W])(?:n|u|µ|μ|m)?s(?:ec(?:onds?)?)?(?:$|[_\W])|second|latenc|time|throughput|bandwidth|elapsed|duration|took"
    r"|/s\b|per.?sec|it/s|qps|rps|tok(?:ens?)?/|flop|(?:^|[_\W])[kmgt]i?b(?:$|[_\W])|bytes|memory|percentile|\bp\d\d\b|%|loss|util",
    re.IGNORECASE,
)
#: Stands for the unit of a number in a column: a unit of `_MEASURES`, so the number counts whatever its name is.
_IN_COLUMN = "%"


class _Kind(Struct):
    """Lines that are alike: how many they are, and some of them with their numbers."""

    is_heading: bool
    count: int = 0
    #: Some of the lines, by their numbers.
    examples: dict[int, str] = field(default_factory=dict)


class UnreadLines(Struct):
    """The lines of a file: kept while they are read, examined at the end."""

    #: The numbers that were read in each line that is kept.
    read: dict[int, list[float]] = field(default_factory=dict)
    is_estimate: bool = False
    #: The header of each table of cells with a separator, by the line that it is on.
    headers: dict[int, tuple[Sequence[str], str]] = field(default_factory=dict)
    headings: Headings = field(default_factory=Headings)
    _kinds: dict[bytes, _Kind] = field(default_factory=dict)
    _blocks: int = 0

    def keep(self, text: bytes, numbers: Sequence[int]) -> list[int]:
        """Keep some lines of a block, before the reader gets them; return their numbers."""
        kept: list[int] = []
        self._blocks += 1
        weight = 1 if self._blocks <= _WHOLE else _EVERY
        if weight > 1 and self._blocks % _EVERY:
            self.is_estimate = True
            return kept
        lines = text.split(b"\n")
        without_digits = text.translate(None, _DIGITS).split(b"\n")
        for at, line, letters in zip(numbers, lines, without_digits, strict=False):
            kind = self._kinds.get(letters)
            if kind is None:
                is_heading = self.headings.look(at, line)
                if len(self._kinds) >= _KINDS or len(letters) == len(line):  # a line without digits
                    continue
                kind = self._kinds[letters] = _Kind(is_heading)
            elif kind.is_heading:
                self.headings.look(at, line)
            kind.count += weight
            if len(kind.examples) < _EXAMPLES and len(line) <= _LONGEST_LINE:
                kind.examples[at] = line.decode("utf-8", "replace")
                self.read[at] = []
                kept.append(at)
        return kept

    def tell(self, line: int) -> None:
        """Note that the reader read everything in a line."""
        self.read.pop(line, None)

    def tell_before(self, line: int) -> None:
        """Note that the reader read everything above a line."""
        for above in [one for one in self.read if one < line]:
            self.tell(above)

    def found(self, known: Callable[[], Collection[str]], beside: str, elsewhere: Collection[range]) -> Counter[str]:
        """Return the names of the numbers that were not read, with how many there are.

        `known`: returns the `digits` of numbers in the runs that may be on any line; called only if needed. `beside`: a
        pattern of names that are not measurements. `elsewhere`: lines that are examined as JSON.
        """
        counts: Counter[str] = Counter()
        for kind in self._kinds.values():
            lines = [at for at in kind.examples if not any(at in others for others in elsewhere)]
            for name in self._usual_names(kind, lines, known, beside):
                counts[name] += kind.count
        return counts

    def _usual_names(
        self, kind: _Kind, lines: Iterable[int], known: Callable[[], Collection[str]], beside: str
    ) -> list[str]:
        """Return the names of the numbers that were not read in the usual one of these lines, which are of one kind.

        In a line that is not usual, a number may be equal by chance to one that was read.
        """
        left: list[list[str]] = []
        for at in lines:
            text, read = kind.examples[at], self.read.get(at)
            if read is None or not (read or _MEASURES.search(text)):
                continue  # all of it was read (`tell`), or nothing was, and no name or unit is that of a measurement
            names = _left(self._numbers_in(at, text), read, (), beside)
            if names:
                names = _left(self._numbers_in(at, text), read, known(), beside)
            if read and not names:
                return []  # the reader reads lines of this kind completely
            left.append(names)
        left.sort(key=len)
        return left[len(left) // 2] if left else []

    def _numbers_in(self, at: int, line: str) -> Iterable[NumberInLine]:
        """Return the numbers in a line; in a row of cells each has the name of its column."""
        above = max((one for one in self.headers if one < at), default=0)
        header, separator = self.headers.get(above, ((), ","))
        cells = cells_of(line.strip("\r\n"), separator) or [] if header else []
        if not cells or len(cells) != len(header):
            return numbers_in(line)
        row = [(name.strip() or _UNNAMED, cell.strip()) for name, cell in zip(header, cells, strict=True)]
        return [(name, True, cell, _IN_COLUMN) for name, cell in row if number(cell) is not None]


def _left(numbers: Iterable[NumberInLine], read: Sequence[float], known: Collection[str], beside: str) -> list[str]:
    """Return the names of those numbers of a line that were not read and are measurements.

    If some numbers of the line were read, a name of its own or a decimal point is enough for a measurement; otherwise
    it needs a name or a unit that measures.
    """
    rest = Counter(map(digits, read))
    is_partly_read = bool(read)
    told: list[str] = []
    measured: list[str] = []
    for name, is_named, printed, unit in numbers:
        own = digits(float(printed.replace(",", "")))
        if rest[own]:
            rest[own] -= 1
        elif unit == "percentile":
            continue  # `99.9 percentile latency: 5 ms`
        elif own in known:
            # It was read on another line. A whole number may be equal by chance, so it does not show that this line is.
            is_partly_read = is_partly_read or "." in printed
        elif not is_unmeasured(name, beside):
            if is_named or ("." in printed and unit != "%"):  # not `69.83GiB(88.19%)`, a share without a name
                told.append(name)
            if _MEASURES.search(name) or _MEASURES.search(f" {unit} "):
                measured.append(name)
    return told if is_partly_read else measured


def numbers_in(line: str) -> Iterator[NumberInLine]:
    """Yield the numbers in a line; one without words before it has the name of the number before it."""
    line = _NO_NUMBERS.sub(" ", line)
    end, last = 0, ""
    for found in _NUMBER.finditer(line):
        words = line[end : found.start()].rstrip()
        part = _PARTS.split(words.rstrip(_BESIDE_NAMES).removesuffix("(ms"))[-1]  # `time (ms 5.0`
        name = part.strip(_BESIDE_NAMES).lstrip(")% ")  # without what ends the number before: `(5%)`
        is_name = any(letter.isascii() and letter.isalpha() for letter in name)
        last = " ".join(name.split()[-4:])[-_LONGEST_NAME:] if is_name else last
        last = last or found["unit"] or _NAMELESS
        yield last, is_name and words.rstrip("\"'([ ")[-1:] in (":", "="), found["number"], found["unit"] or ""
        end = found.end()


def digits(value: float) -> str:
    """Return the 8 first digits of a number without its power of ten, so that it is the same in ms and in s."""
    return f"{abs(value):.7e}".partition("e")[0].rstrip("0").rstrip(".")
