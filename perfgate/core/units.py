"""Quantities: a number with a unit, stored in base units and printed in the unit of the user.

Base units are `s`, `B`, `1` (shares and ratios), `1/s`, `B/s`, `FLOP`, `FLOP/s`, `J`, `W`, `1/J` (tokens per joule),
`°C`, `$` and `count` (instructions of a CPU). Decimal prefixes are powers of 1000 (KB, MB, ...), binary prefixes powers
of 1024 (KiB, MiB, ...), as in IEC 80000-13.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

#: The base units of times and rates.
SPEEDS = ("s", "1/s", "B/s", "FLOP/s")
NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit that users write, and its size in the base unit: ms is 0.001 s."""

    symbol: str
    base: str
    factor: float


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as the user wrote it, with its unit, if there is one."""

    number: float
    unit: Unit | None
    text: str

    @property
    def value(self) -> float:
        """The quantity in base units."""
        if self.unit is None:
            return self.number
        if self.unit.factor < 1:  # as readers do: 0.9 * 0.001 is not exactly 0.9 / 1000
            return self.number / round(1 / self.unit.factor)
        return self.number * self.unit.factor

    @property
    def base(self) -> str:
        """The base unit; `1` for a number without a unit."""
        return self.unit.base if self.unit else "1"

    def __str__(self) -> str:
        return self.text


#: The size of each unit by its base unit and its symbol. µs has the micro sign (U+00B5), and μs the Greek letter that
#: keyboards have (U+03BC).
_SIZES = {
    "s": {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0},
    "1": {"%": 0.01, "pp": 0.01, "x": 1.0},
    "1/s": dict.fromkeys(("/s", "1/s", "it/s", "samples/s", "tokens/s", "Hz"), 1.0)
    | {"kHz": 1e3, "MHz": 1e6, "GHz": 1e9},
    "J": {"mJ": 1e-3, "J": 1.0, "kJ": 1e3, "MJ": 1e6, "Wh": 3600.0, "kWh": 3.6e6},
    "W": {"mW": 1e-3, "W": 1.0, "kW": 1e3, "MW": 1e6},
    "1/J": dict.fromkeys(("tokens/J", "samples/J", "/J"), 1.0),
    "°C": {"°C": 1.0},
    "$": {"$": 1.0},
    "count": {"count": 1.0, "thousand": 1e3, "million": 1e6, "billion": 1e9},
}
#: Every unit of the rule language, by its symbol; symbols are case-sensitive.
UNITS = {symbol: Unit(symbol, base, size) for base, sizes in _SIZES.items() for symbol, size in sizes.items()}
for _power, _prefix in enumerate(["", "K", "M", "G", "T", "P"]):
    for _stem in ("B", "B/s", "FLOP", "FLOP/s"):
        UNITS[_prefix + _stem] = Unit(_prefix + _stem, _stem, 1000.0**_power)
    for _stem in ("B", "B/s") if _prefix else ():
        UNITS[f"{_prefix}i{_stem}"] = Unit(f"{_prefix}i{_stem}", _stem, 1024.0**_power)
#: The units in which a value of each base unit is printed, smallest first.
_DISPLAY = {
    "s": ("ns", "µs", "ms", "s"),
    "B": ("B", "KiB", "MiB", "GiB", "TiB"),
    "1/s": ("/s",),
    "B/s": ("B/s", "KB/s", "MB/s", "GB/s", "TB/s"),
    "FLOP": ("FLOP", "KFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"),
    "FLOP/s": ("FLOP/s", "KFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"),
    "J": ("mJ", "J", "kJ", "kWh"),
    "W": ("mW", "W", "kW", "MW"),
    "1/J": ("/J",),
    "°C": ("°C",),
    "$": ("$",),
    "count": ("count", "thousand", "million", "billion"),
}
BASE_UNITS = (*_DISPLAY, "1")  # a ratio is printed without a unit
#: A clock is stored in 1/s, as every rate, and printed in these.
_DISPLAY["Hz"] = ("Hz", "kHz", "MHz", "GHz")
_CLOCK = re.compile(r"clock\.|.*\bfrequency$", re.IGNORECASE)


def printed_base(metric: str, base: str) -> str:
    """Return the `base` for `display_unit` and `format_value` of a metric: `Hz` for a clock, else its base unit.

    Clocks are `clock.sm` and all other `clock.*`, and names that end in `Frequency`, as those of Nsight Compute.
    """
    return "Hz" if base == "1/s" and _CLOCK.match(metric) else base


def display_unit(value: float, base: str) -> Unit:
    """Return the largest unit of `base` in which the size of a value prints as at least 1; for 0, the base unit.

    It is the smallest unit if there is none, and for inf.
    """
    symbols = _DISPLAY.get(base)
    if symbols is None:
        return Unit("", base, 1.0)
    units = [UNITS[symbol] for symbol in symbols]
    if not value:
        return next(unit for unit in units if unit.factor == 1.0)  # 0 is 0 s, not 0 ns
    fitting = [unit for unit in units if abs(value) >= unit.factor * 0.99995]  # 999.99 ms prints as 1 s
    return fitting[-1] if fitting and math.isfinite(value) else units[0]


def display_units(base: str) -> tuple[Unit, ...]:
    """Return the units in which values in `base` are printed, smallest first."""
    return tuple(UNITS[symbol] for symbol in _DISPLAY[base]) if base in _DISPLAY else (Unit("", base, 1.0),)


def format_number(number: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits, and an exponent only if it is very small or very large."""
    if not math.isfinite(number):
        return str(number)
    rounded = float(f"{number:.{digits}g}")
    if rounded != 0 and not 1e-4 <= abs(rounded) < 1e15:
        return f"{number:.{digits - 1}e}"
    exponent = math.floor(math.log10(abs(rounded))) if rounded else 0
    text = f"{rounded:.{max(0, digits - 1 - exponent)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_confidence(confidence: float) -> str:
    """Return a confidence below 1 as a percentage with as many digits as it takes to differ from 100 %: `99.998%`."""
    texts = (format_number(100 * confidence, digits) for digits in range(4, 18))
    return f"{next((text for text in texts if text != '100'), '100')}%"


def format_value(value: float | None, base: str, shown: str | None = None) -> str:
    """Return a value in base units as text in the unit `shown`, or in a suitable unit.

    `format_value(0.0726, "s", "ms")` is `"72.6 ms"`; None, an infinite bound, is `"unbounded"`.
    """
    if value is None:
        return "unbounded"
    unit = UNITS.get(shown or "") or display_unit(value, base)
    if math.isfinite(value) and not math.isfinite(value / unit.factor):
        unit = display_unit(value, base)  # 1e300 s in ns is more than the largest float
    number = format_number(value / unit.factor)
    return number + (unit.symbol if unit.symbol in ("%", "x", "") else f" {unit.symbol}")


def format_change(change: float | None) -> str:
    """Return a relative change with its sign: 0.031 is `"+3.1%"`; None, an infinite bound, is `"unbounded"`."""
    if change is None:
        return "unbounded"
    percent = 100 * change
    if abs(percent) >= 1e6:
        return f"{percent:+.1e}%"
    decimals = 2 if abs(percent) < 1 else 1 if abs(percent) < 100 else 0
    text = f"{percent:+.{decimals}f}%"
    return text.replace("-0.00%", "0%").replace("+0.00%", "0%")
