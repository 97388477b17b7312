"""The load sweeps of the page: a curve of each metric along the load, base and new, and the same as a table."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perfgate.core import Report
from perfgate.core.conditions import CONDITIONS
from perfgate.core.details import SweepCurve
from perfgate.core.units import display_unit, format_change, format_number, format_value
from perfgate.core.wording import series_name
from perfgate.reporters.html import plots


class SweepSection(Struct, frozen=True):
    """One curve: its name, its picture as SVG, and its rows: load, base, new, change."""

    name: str
    condition: str
    picture: str
    rows: Sequence[tuple[str, str, str, str]]


def sweeps(report: Report) -> list[SweepSection]:
    """Return a section for each curve of the report."""
    return [_section(curve) for curve in report.details.sweeps]


def _section(curve: SweepCurve) -> SweepSection:
    values = [value for side in (curve.base, curve.new) for _, value in side]
    unit = display_unit(max(map(abs, values), default=0.0), curve.unit)
    # All text of a picture is perfgate's own; a stored report may have any.
    load = curve.condition.replace("_", " ") if curve.condition in CONDITIONS else "load"
    picture = plots.curves([("base", curve.base), ("new", curve.new)], unit.factor, unit.symbol, load)
    name = series_name(curve.metric, tuple(curve.labels.items()))
    return SweepSection(name, curve.condition, picture, _rows(curve))


def _rows(curve: SweepCurve) -> list[tuple[str, str, str, str]]:
    base, new = dict(curve.base), dict(curve.new)
    rows = []
    for load in sorted({*base, *new}):
        old, own = base.get(load), new.get(load)
        shown = ["–" if value is None else format_value(value, curve.unit) for value in (old, own)]
        change = format_change(own / old - 1) if old and own is not None else "–"
        rows.append((format_number(load, 6), *shown, change))
    return rows  # type: ignore[return-value]
