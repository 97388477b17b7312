"""What a recorder is asked to record: names, units, labels, numbers and facts, checked where they are given."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from typing import SupportsFloat

from perfgate.core.runs import Fact
from perfgate.core.units import BASE_UNITS, UNITS, find_unit
from perfgate.recorder.form import SPAN_UNIT, Column

Labels = Mapping[str, str]

_Key = tuple[str, tuple[tuple[str, str], ...]]

_LARGEST_STEP = 2**63 - 1


class Columns:
    """The series of one recording; `labels` are those of every one of them."""

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        #: By the labels as they were given, and by all of them: a rank may be given, too.
        self._given: dict[_Key, Column] = {}
        self._whole: dict[_Key, Column] = {}
        #: The series of spans without labels of their own: the fast way for spans.
        self.times: dict[str, Column] = {}

    def __len__(self) -> int:
        return len(self._whole)

    def find(self, metric: str, unit: str, labels: Labels | None = None, *, single: bool = False) -> Column:
        """The series of this name, new or known. Raises ValueError for what no series can have, or not this one."""
        key = metric, tuple((labels or {}).items())
        column = self._given.get(key)
        if column is None:
            new = self._new(metric, unit, labels or {}, single)
            column = self._given[key] = self._whole.setdefault((metric, tuple(sorted(new.labels.items()))), new)
        if column.unit != unit:
            _check_unit(unit)
            raise ValueError(f"{metric} is recorded in {column.unit}; it cannot be in {unit!r}, too")
        if column.single != single:
            raise ValueError(f"{metric} is recorded by both record and value: a metric has samples, or one value")
        if unit == SPAN_UNIT and labels is None and not single:
            self.times[metric] = column
        return column

    def _new(self, metric: str, unit: str, labels: Labels, single: bool) -> Column:
        _check_name("a metric", metric)
        for name, value in labels.items():
            _check_name("a label", name)
            _check_text(f"the label {name}", value)
        _check_unit(unit)
        return Column(metric, unit, {**self._labels, **labels}, single)


def as_number(value: SupportsFloat) -> float:
    """A value as a number; of a tensor on a GPU this waits for the GPU. Raises TypeError."""
    if isinstance(value, str | bytes):
        raise TypeError(f"{value!r} is text, no number")
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):  # an array or tensor of several elements
        raise TypeError(f"a value of type {type(value).__name__} is no number") from None
    except OverflowError:
        return math.inf


def can_be_measured(column: Column, number: float) -> bool:
    """Whether reading takes the number: a finite one, and no time below zero."""
    unit = find_unit(column.unit)
    is_time = unit is not None and unit.base == "s"
    return math.isfinite(number) and not (is_time and number < 0)


def check_step(number: int) -> None:
    """Raises ValueError for what is no number of a step."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= _LARGEST_STEP:
        raise ValueError(f"{number!r} is no number of a step, which is a whole number from 0")


def checked_facts(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """Facts of the environment as they are. Raises ValueError for what none can be."""
    for name, value in facts.items():
        _check_name("a fact", name)
        if isinstance(value, str):
            _check_text(f"the fact {name}", value)
        elif not isinstance(value, int) and not (isinstance(value, float) and math.isfinite(value)):
            raise ValueError(f"the fact {name} is {value!r}: facts are text, finite numbers, or true and false")
    return dict(facts)


def checked_commit(commit: str | None) -> str | None:
    """The commit as it is. Raises ValueError for what is no text."""
    if commit is not None:
        _check_text("the commit", commit)
    return commit


def _check_unit(unit: str) -> None:
    _check_text("the unit", unit)
    if unit != "1" and find_unit(unit) is None:
        near = difflib.get_close_matches(unit, [*UNITS, *BASE_UNITS], 1)
        raise ValueError(f"unknown unit {unit!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _check_name(what: str, name: str) -> None:
    _check_text(f"the name of {what}", name)
    if not name:
        raise ValueError(f"the name of {what} is empty")


def _check_text(what: str, text: str) -> None:
    if not isinstance(text, str):
        raise ValueError(f"{what} is {text!r}, which is no text")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} is {text!r}, which holds half a surrogate pair") from None
