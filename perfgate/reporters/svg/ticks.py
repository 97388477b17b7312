"""Ticks of an axis: round numbers, with labels in one unit."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

from perfgate.core.units import Unit, format_number, format_value

#: Numbers that are round, as multiples of a power of ten.
_ROUND = (1, 2, 2.5, 5, 10)
#: The round numbers of each decade of a logarithmic axis, densest first.
_DECADES = ((1, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))


class AxisTick(Struct, frozen=True):
    """A value in base units and its label."""

    value: float
    label: str


def round_numbers(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` + 1 round numbers from `low` to `high`, with equal steps."""
    if not high > low:
        return []
    least = (high - low) / most
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in _ROUND if factor * power >= least * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def round_ratios(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` + 1 round numbers from `low` to `high`, for a logarithmic axis."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in _DECADES:
        found = [one for power in decades for factor in factors if low <= (one := factor * 10.0**power) <= high]
        if len(found) <= most + 1:
            break
    else:
        found = found[:: math.ceil(len(found) / most)]
    return found if len(found) > 1 else round_numbers(low, high, most)


def value_ticks(low: float, high: float, unit: Unit, most: int, *, is_log: bool = False) -> Sequence[AxisTick]:
    """Return ticks from `low` to `high` in base units, round in `unit` and labelled in it.

    On a logarithmic axis, each label has the unit that fits its value.
    """
    size = unit.factor
    found = (round_ratios if is_log else round_numbers)(low / size, high / size, most)
    if is_log:
        return [AxisTick(number * size, format_value(number * size, unit.base)) for number in found]
    sign = unit.symbol if unit.symbol in ("%", "x", "") else f" {unit.symbol}"
    return [AxisTick(number * size, format_number(number, 6).replace("-", "\u2212") + sign) for number in found]
