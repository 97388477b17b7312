"""Refuse a load sweep that ends before the answer: every load keeps the limits, and the rule wants a larger one."""

from __future__ import annotations

from perfgate.core.units import format_value
from perfgate.judge.decisions import MeasuredSide
from perfgate.judge.inquiry import CannotJudge, Inquiry
from perfgate.judge.largest_load import LOAD, MEASURED


def refuse_short_sweep(inquiry: Inquiry, new: MeasuredSide, wanted: float) -> None:
    """Raise CannotJudge if a new run has less than what is wanted only because its sweep ends there."""
    for view, series in zip(new.views, new.series, strict=True):
        load, value = series.aggregate[LOAD], float(series.values[0])
        if load == series.aggregate[MEASURED] and value < wanted:
            shown = format_value(value, series.unit, inquiry.shown_unit)
            message = f"{inquiry.subject.key}: every load of {view.run.name} keeps the limits, and the last has {shown}"
            raise CannotJudge("short-sweep", message, "measure larger loads, too")
