"""Read numbers and units from text and JSON, say why one is not a measurement, and collect values as a series."""

from __future__ import annotations

import csv
import json
import math
import re
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from perfgate.core import Key, Series, read_only
from perfgate.core.units import UNITS
from perfgate.readers.digit_runs import Floats, Ints

_NUMBER = re.compile(r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|nan|inf(?:inity)?)", re.ASCII | re.IGNORECASE)
#: Units in which a single negative number can be true: changes of memory; losses, rewards and the like. In a list
#: (`measured`), it can be true in every unit but s.
_SIGNED = ("1", "B")
_DECODER = json.JSONDecoder()
#: A JSON list, or one that is decoded as numbers.
Items: TypeAlias = "Sequence[object] | npt.NDArray[np.float64]"
Scaled = TypeVar("Scaled", float, npt.NDArray[np.float64])


class Field(NamedTuple):
    """A known field: its metric, the base unit, and how many printed units are one base unit."""

    metric: str
    unit: str
    per: float = 1.0


def cells_of(line: str, delimiter: str = ",") -> list[str] | None:
    """Return the cells of a line; None if a quoted cell does not end in it, or text follows a closing quote."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return None


def number(text: str) -> float | None:
    """Return a printed number, NaN and infinity included; None for anything else (`float` also takes `1_0`)."""
    return float(text) if _NUMBER.fullmatch(text) else None


def number_of(value: object) -> float:
    """Return a JSON number as float64; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > sys.float_info.max:
        return float("nan")
    return float(value)


def checked(value: object, unit: str) -> tuple[float, str | None]:
    """Return a value as a number, also one in quotes, and why it cannot be a measurement (None if it can)."""
    parsed = number(value) if isinstance(value, str) else value
    if type(parsed) is float and 0 <= parsed < math.inf:  # nearly always
        return parsed, None
    if isinstance(parsed, bool) or not isinstance(parsed, int | float):
        return 0.0, f"{str(value)[:40]!r} is not a number; left out"
    if not abs(parsed) <= sys.float_info.max:
        return 0.0, f"{str(value)[:40]} is not a finite number; left out"
    if parsed < 0 and unit not in _SIGNED:
        return 0.0, f"{value} is negative, so it is not a measurement; left out"
    return float(parsed), None


def fault_of(text: str) -> str | None:
    """Return why a printed value cannot be a measurement, or None if it can."""
    return checked(text, "s")[1]


def fault_in(value: object, unit: str = "s") -> str:
    """Return why a value of a JSON list is not a measurement; numbers in quotes are not numbers here."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return checked(value, unit)[1] or f"{value} {unit} is not a measurement; left out"
    return f"{shown(value)} is not a number; left out"


def measured(values: Items, unit: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the values of a JSON list as numbers, and which are measurements: finite, and times not negative."""
    # The whole list at once is ten times as fast.
    usual = isinstance(values, np.ndarray) or {*map(type, values)} == {float}
    numbers = np.array(values if usual else [number_of(value) for value in values], np.float64)
    return numbers, np.isfinite(numbers) & ((numbers >= 0) | (unit != "s"))


def in_base(printed: Scaled, per: float) -> Scaled:
    """Return printed numbers in base units; large units (GB, TFLOP) by multiplication, because 1e-9 is not exact."""
    if per >= 1:
        return printed / per
    with np.errstate(over="ignore"):  # the judge refuses infinite values
        return printed * round(1 / per)


def make_base(printed: npt.NDArray[np.float64], per: float) -> None:
    """Make printed numbers base units in their place, as `in_base` does."""
    with np.errstate(over="ignore"):
        np.divide(printed, per, out=printed) if per >= 1 else np.multiply(printed, round(1 / per), out=printed)


def shown(value: object) -> str:
    """Return a wrong JSON value as a message shows it."""
    if isinstance(value, dict | list):
        return "a list or object"
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def leading_json(text: str) -> Any:
    """Return the JSON value at the beginning of a text, None without one; another program may have printed the rest."""
    try:
        value, _ = _DECODER.raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    return value


def mapping(value: object) -> Mapping[str, Any]:
    """Return a JSON object; an empty one instead of anything else."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return a JSON list; an empty one instead of anything else."""
    return value if isinstance(value, list) else []


#: A base unit, and how many of the printed units are one base unit.
Known = tuple[str, float]
#: Ends of units that do not change them: `ms/iter`.
_PER_PIECE = re.compile(r"/(?:iter|iteration|op|call|step|run|round|loop)s?$")
#: Words for units, and their symbols.
_WORDS = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("msec", "msecs", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("usec", "usecs", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("nsec", "nsecs", "nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("minute", "minutes"), "min"),
    **dict.fromkeys(("byte", "bytes"), "B"),
    **dict.fromkeys(("percent", "percentage"), "%"),
    **dict.fromkeys(("watt", "watts"), "W"),
    **dict.fromkeys(("joule", "joules"), "J"),
    **dict.fromkeys(("hertz",), "Hz"),
}
_SECOND = re.compile(r"(?:/| per |_per_)s(?:ec(?:ond)?s?)?", re.IGNORECASE)
_RATE = re.compile(rf"[a-z_ ]{{0,40}}{_SECOND.pattern}|fps", re.IGNORECASE)
_FLOPS = re.compile(r"([KMGTP]?)FLOPS?(?:/s(?:ec)?)?", re.IGNORECASE)
#: A unit at the end of a name: in brackets, which torch's SummaryWriter writes as `_`, or behind ` in `.
_BEHIND = re.compile(r".*(?:[(\[]([^()\[\]]{1,20})[)\]]|_([A-Za-z]{1,6})_| in (\w{1,12}))")
#: Names with a unit at their end, and that unit.
_ENDINGS = (
    (re.compile(r".*tflops?_per_sec(?:ond)?|.*\btflops(?:_per_gpu)?", re.IGNORECASE), ("FLOP/s", 1e-12)),
    (re.compile(r".*gflops?_per_sec(?:ond)?", re.IGNORECASE), ("FLOP/s", 1e-9)),
    (re.compile(r".*_per_s(?:ec(?:ond)?)?(?:_per_(?:gpu|device))?|.*/s(?:ec)?", re.IGNORECASE), ("1/s", 1.0)),
    (re.compile(r".*_(?:ms|msec|milliseconds)", re.IGNORECASE), ("s", 1e3)),
    (re.compile(r".*_(?:us|usec|microseconds)", re.IGNORECASE), ("s", 1e6)),
    (re.compile(r".*_(?:ns|nsec|nanoseconds)", re.IGNORECASE), ("s", 1e9)),
    (re.compile(r"(?:.*[_/])?seconds|.*_secs?|.*_runtime|.*(?:time|latency|duration|elapsed)_s", re.I), ("s", 1.0)),
    (re.compile(r".*_(?:gib)", re.IGNORECASE), ("B", 2.0**-30)),
    (re.compile(r".*_(?:mib)", re.IGNORECASE), ("B", 2.0**-20)),
    (re.compile(r".*_bytes", re.IGNORECASE), ("B", 1.0)),
    (re.compile(r".*_(?:percent|percentage|pct)", re.IGNORECASE), ("1", 100.0)),
)


def unit_of_text(text: str) -> Known | None:
    """Return the unit that a text names; None if it names no unit that rules can use."""
    text = _PER_PIECE.sub("", text.strip())
    unit = UNITS.get(text) or UNITS.get(_WORDS.get(text.lower(), ""))
    if unit is None and (second := re.search(rf"{_SECOND.pattern}$", text, re.IGNORECASE)):  # `GB/sec`, `bytes/s`
        each = text[: second.start()]
        unit = UNITS.get(f"{_WORDS.get(each.lower(), each)}/s")
    if unit is not None:  # the inverse of a small factor is a whole number: 1000 for ms
        return unit.base, 1 / unit.factor if unit.factor > 1 else float(round(1 / unit.factor))
    if found := _FLOPS.fullmatch(text):
        return "FLOP/s", 1 / UNITS[f"{found[1].upper()}FLOP/s"].factor
    return ("1/s", 1.0) if _RATE.fullmatch(text) else None


def unit_of_name(name: str) -> Known:
    """Return the unit at the end of a name; `1` if it has none."""
    found = _BEHIND.fullmatch(name)
    if found and (unit := unit_of_text(found[1] or found[2] or found[3])):
        return unit
    return next((unit for pattern, unit in _ENDINGS if pattern.fullmatch(name)), ("1", 1.0))


class Column(Struct, eq=False):
    """One series of samples while it is read."""

    key: Key
    unit: str
    #: The number of printed units in one base unit: 1000 for ms.
    per: float
    printed_as: str | None  # the printed name, if it is another one
    #: The values as printed.
    values: array[float] = field(default_factory=lambda: array("d"))
    #: The step of each value; empty if the format has no steps.
    steps: array[int] = field(default_factory=lambda: array("q"))
    #: The steps before those above, of values that came many at once.
    earlier: list[Ints | range] = field(default_factory=list)
    #: All values and their steps, if they came together; `values`, `steps` and `earlier` are empty then.
    whole: tuple[Floats, Ints] | None = None

    def fill(self, values: Floats, steps: Ints) -> None:
        """Add all values of the series with their steps, without a copy if it has none so far."""
        if not self.values and len(values) > 1:  # a single one may become a value: `RunBuilder.single_values`
            self.whole = (values, steps)
        else:
            self.extend(values, steps)

    def extend(self, values: Floats, steps: Ints | range | None) -> None:
        """Add values with their steps."""
        self.values.frombytes(values.tobytes())
        if steps is not None:
            if self.steps:
                self.earlier.append(np.array(self.steps, np.int64))
                del self.steps[:]
            self.earlier.append(steps)

    def last_steps(self) -> list[int]:
        """Return the steps of the last two values."""
        parts = [*self.earlier[-2:], self.steps]
        return [int(step) for part in parts for step in part[-2:]][-2:]

    def has_steps_of(self, other: Column) -> bool:
        """Return whether another column got the same steps, in the same parts; False for columns that came whole."""
        if self.whole or other.whole or len(self.earlier) != len(other.earlier) or self.steps != other.steps:
            return False
        pairs = zip(self.earlier, other.earlier, strict=True)
        return all(one is its or (len(one) == len(its) and np.all(one == its)) for one, its in pairs)

    def _all_steps(self) -> Ints:
        found = np.empty(sum(map(len, self.earlier)) + len(self.steps), np.int64)
        at = 0
        for part in (*self.earlier, self.steps):
            found[at : at + len(part)] = np.arange(part.start, part.stop, part.step) if type(part) is range else part
            at += len(part)
        return found

    def series(self, shared: list[tuple[Column, Ints]]) -> Series:
        """Return the finished series; call it once, because the values are converted in their place.

        `shared`: the columns finished before, and their steps. Steps that equal those of one of the last two share
        their array.
        """
        if self.whole:
            values, steps = in_base(self.whole[0], self.per), self.whole[1]
        else:
            values = np.frombuffer(self.values)
            make_base(values, self.per)
            # equal parts need not be joined again; parts of other lengths may still be equal when they are joined
            known = next((steps for other, steps in shared[-2:] if other.has_steps_of(self)), None)
            steps = self._all_steps() if known is None else known
        steps = next((one for _, one in shared[-2:] if one is steps or np.array_equal(one, steps)), steps)
        shared.append((self, steps))
        numbered = read_only(steps) if len(steps) else None
        printed_as = self.printed_as if self.printed_as != self.key.metric else None
        return Series(self.key, self.unit, "samples", read_only(values), numbered, printed_as=printed_as)
