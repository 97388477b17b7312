"""Printed numbers -> numpy columns, exactly: microseconds become integer nanoseconds, what is absent is marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from perfgate.readers.builder import number

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

#: What stands for a number that is absent, or none.
ABSENT = np.iinfo(np.int64).min
#: Below, float64 microseconds are exact to the nanosecond.
EXACT_BELOW = float(1 << 43)
#: Below, float64 holds every whole number.
_EXACT_WHOLE = float(1 << 53)
#: 73 years from 1970: later, or before, no trace was recorded. Ends of events still fit in int64.
_LIMIT = 1 << 61


class Inexact(Exception):
    """Times beyond what float64 holds to the nanosecond: they are to be decoded as decimals."""


def nanoseconds(micros: Sequence[Any]) -> Int64:
    """Microseconds as printed -> nanoseconds, rounded half to even; `ABSENT` where there is no such time.

    Raises Inexact for floats beyond 2^43 microseconds (100 days).
    """
    try:
        column = np.array(micros)
    except (ValueError, OverflowError):
        return _one_by_one(micros)
    if column.dtype == np.int64:
        return np.asarray(np.where(np.abs(column) < _LIMIT // 1000, column * 1000, ABSENT), np.int64)
    if column.dtype == np.float64 and np.isfinite(column).all():
        if (np.abs(column) >= EXACT_BELOW).any():
            if any(isinstance(value, float) and abs(value) >= EXACT_BELOW for value in micros):
                raise Inexact
            return _one_by_one(micros)
        whole = np.floor(column)
        exact: Int64 = whole.astype(np.int64) * 1000 + np.rint((column - whole) * 1000).astype(np.int64)
        return exact
    return _one_by_one(micros)


def _one_by_one(micros: Sequence[Any]) -> Int64:
    return np.array([_nanoseconds(value) for value in micros], np.int64)


def _nanoseconds(value: Any) -> int:
    if isinstance(value, str):
        value = number(value)
    if isinstance(value, float):
        value = Decimal(repr(value))
    if value is None or (isinstance(value, Decimal) and value.is_nan()) or not -_LIMIT < value < _LIMIT:
        return ABSENT
    nanos = round(value * 1000)
    return nanos if -_LIMIT < nanos < _LIMIT else ABSENT


def whole_numbers(values: Sequence[Any], absent: int = -1) -> Int64:
    """Identifiers and counts; `absent` for what is none."""
    try:
        column = np.array(values)
        if column.dtype == np.int64:
            return column
        found = np.array(values, np.float64)  # None becomes NaN
    except (ValueError, OverflowError, TypeError):
        found = np.array([math.inf])
    if (np.abs(found) >= _EXACT_WHOLE).any():
        return np.array([_whole(value, absent) for value in values], np.int64)
    return np.where(np.isnan(found), absent, found).astype(np.int64)


def _whole(value: Any, absent: int) -> int:
    if isinstance(value, str):
        value = number(value)
    if value is None or not abs(value) < 1 << 62:  # NaN, too
        return absent
    return int(value)


def decimals(values: Sequence[Any]) -> Float64:
    """Measured numbers; NaN for what is none."""
    try:
        found = np.array(values, np.float64)  # None becomes NaN
    except (ValueError, OverflowError, TypeError):
        found = np.array([_decimal(value) for value in values], np.float64)
    found[~np.isfinite(found)] = np.nan
    return found


def _decimal(value: Any) -> float:
    if isinstance(value, str):
        value = number(value)
    try:
        return math.nan if value is None else float(value)
    except OverflowError:
        return math.nan
