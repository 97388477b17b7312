"""A trace for people: where a step's time goes, with bars, what takes most of it, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable

from perfgate.core import Portion, Straggler, TraceView
from perfgate.core.units import format_number, format_value
from perfgate.core.wording import aligned, clip, one_line, plural

_BAR = 30
_LONGEST_NAME = 70
_TITLES = {
    "kernel": "kernels, of all kernel time",
    "op": "operators with what they call, of all step time",
    "range": "ranges, of all step time",
}
#: Metrics that the table of series leaves out, because there are hundreds of them, and the tops show the largest.
FAMILIES = tuple(f"{family}." for family in _TITLES)


def trace_lines(view: TraceView, *, ascii_only: bool) -> list[str]:
    """The tables, in order of interest."""
    full = "#" if ascii_only else "█"
    lines: list[str] = []
    if view.parts:
        ranks = f" of {plural(view.ranks, 'rank')}" if view.ranks > 1 else ""
        lines += ["", f"where a step goes (trace mode {view.mode}, mean of {plural(view.steps, 'step')}{ranks})"]
        lines += _rows(view.parts, full)
    for family, (shares, names) in view.top.items():
        if shares:
            lines += ["", f"top {_TITLES[family]}: {len(shares)} of {plural(names, 'name')}, for rules {family}.NAME"]
            lines += _rows(shares, full)
    if view.stragglers:
        is_known = any(one.waited is not None for one in view.stragglers)
        by = "the time that others waited for them in collectives" if is_known else "the time of their steps"
        lines += ["", f"slowest ranks, by {by}"]
        lines += aligned([_straggler_row(one) for one in view.stragglers])
    return lines


def _straggler_row(one: Straggler) -> list[str]:
    waited = "" if one.waited is None else f"others waited {format_value(one.waited, 's')}"
    return [f"  step {one.step}", f"rank {one_line(one.rank)}", f"busy {format_value(one.own, 's')}", waited]


def _rows(shares: Iterable[Portion], full: str) -> list[str]:
    rows = []
    for one in shares:
        count = [] if one.count is None else [f"{one.count}x"]
        percent = f"{format_number(100 * one.share, 3)}%"
        name = one_line(clip(one.name, _LONGEST_NAME))
        rows.append([f"  {name}", *count, format_value(one.seconds, "s"), percent, full * round(_BAR * one.share)])
    return aligned(rows)
