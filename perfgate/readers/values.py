"""Numbers as texts print them and as JSON has them: which of them can be measurements, and why not."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

_NUMBER = re.compile(r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|nan|inf(?:inity)?)", re.ASCII | re.IGNORECASE)
#: Units in which a negative number can be true: changes of memory; losses, rewards and the like.
_SIGNED = ("1", "B")
#: A JSON list, or one that is decoded as numbers.
Items: TypeAlias = "Sequence[object] | npt.NDArray[np.float64]"
Scaled = TypeVar("Scaled", float, npt.NDArray[np.float64])


class Field(NamedTuple):
    """A known field: its metric, the base unit, and how many printed units are one base unit."""

    metric: str
    unit: str
    per: float = 1.0


def number(text: str) -> float | None:
    """Return a printed number, NaN and infinity included; None for anything else (`float` also takes `1_0`)."""
    return float(text) if _NUMBER.fullmatch(text) else None


def number_of(value: object) -> float:
    """Return a JSON number as float64; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > sys.float_info.max:
        return float("nan")
    return float(value)


def checked(value: object, unit: str) -> tuple[float, str | None]:
    """Return a value as a number, and why it cannot be a measurement; numbers in quotes are numbers, too."""
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
    value = number(text)
    return None if value is not None and 0 <= value < math.inf else checked(text, "s")[1]


def fault_in(value: object, unit: str = "s") -> str:
    """Return why a value of a JSON list is not a measurement; numbers in quotes are not numbers here."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return checked(value, unit)[1] or f"{value} {unit} is not a measurement; left out"
    return f"{shown(value)} is not a number; left out"


def measured(values: Items, unit: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the values of a JSON list as numbers, and which of them are measurements: no time is negative."""
    # The whole list at once is ten times as fast.
    usual = isinstance(values, np.ndarray) or {*map(type, values)} == {float}
    numbers = np.array(values if usual else [number_of(value) for value in values], np.float64)
    return numbers, np.isfinite(numbers) & ((numbers >= 0) | (unit != "s"))


def in_base(printed: Scaled, per: float) -> Scaled:
    """Return printed numbers in base units; for GB and TFLOP by multiplication, because 1e-9 is not exact."""
    if per >= 1:
        return printed / per
    with np.errstate(over="ignore"):  # the judge refuses infinite values
        return printed * round(1 / per)


def shown(value: object) -> str:
    """Return a wrong JSON value as a message shows it."""
    if isinstance(value, dict | list):
        return "a list or object"
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def mapping(value: object) -> Mapping[str, Any]:
    """Return a JSON object; an empty one instead of anything else."""
    return value if isinstance(value, dict) else {}
