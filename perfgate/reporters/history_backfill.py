"""The commits that settle a change of a metric, for a terminal and as JSON (`perfgate.history-backfill/1`)."""

from __future__ import annotations

import shlex

from perfgate.core.backfill import BackfillCommit, BackfillPlan
from perfgate.core.units import format_change
from perfgate.core.wording import plural
from perfgate.reporters.plain_json import encode, stable
from perfgate.reporters.terminal_page import GAP, Page

_HEADS = ("measure", "commit", "change in it", "in it or before", "tells", "runs", "subject")


def render_text(plan: BackfillPlan, *, width: int = 100, ascii_only: bool = False) -> str:
    """Return the range, the most likely commit, and the suspects in the order of their commits."""
    page = Page(width, ascii_only=ascii_only)
    change, likely = plan.change, plan.most_likely
    good, bad = change.last_good.label, change.first_bad.label
    size = format_change(change.point.change)
    page.paragraph(f"{plan.series.name} changed by {size} in one of {plural(len(plan.suspects), 'commit')}", "bold")
    page.paragraph(f"after {good}, up to {bad}; most likely {_named(likely)}, with {100 * likely.here:.0f}%", indent=2)
    page.blank()
    order = {one.commit.sha: number for number, one in enumerate(plan.wanted, 1)}
    rows = [_cells(one, order.get(one.commit.sha)) for one in plan.suspects]
    widths = [max(map(page.cells, column)) for column in zip(_HEADS, *rows, strict=True)]
    widths[-1] = max(12, page.width - sum(widths[:-1]) - GAP * (len(widths) - 1))
    page.row([[head] for head in _HEADS], widths, ["dim"] * len(_HEADS))
    for row in rows:
        page.row([[cell] for cell in row], widths, [""] * len(_HEADS))
    page.blank()
    if plan.is_settled:
        page.paragraph(f"settled: the change is in {_named(likely)}", "bold")
    elif plan.wanted:
        metric = shlex.quote(plan.series.name.key.metric)
        page.paragraph(f"measure them with: perfgate history backfill {metric} -- COMMAND")
    return page.finished()


def _named(one: BackfillCommit) -> str:
    return f"{one.commit.sha[:10]} ({one.commit.author}: {one.commit.subject})"


def _cells(one: BackfillCommit, order: int | None) -> list[str]:
    shares = (f"{100 * one.here:.0f}%", f"{100 * one.before:.0f}%")
    bits = f"{one.bits:.2f} bits" if order is not None else ""
    return ["" if order is None else str(order), one.commit.sha[:10], *shares, bits, str(one.runs), one.commit.subject]


def render_json(plan: BackfillPlan) -> str:
    """Return the suspects in the order of their commits, and the commits to measure, the most telling first."""
    return encode(
        {
            "schema": "perfgate.history-backfill/1",
            "series": str(plan.series.name),
            "last_good": plan.change.last_good.commit,
            "first_bad": plan.change.first_bad.commit,
            "change": plan.change.point.change,
            "settled": plan.is_settled,
            "most_likely": plan.most_likely.commit.sha,
            "measure": [one.commit.sha for one in plan.wanted],
            "suspects": [
                {"commit": one.commit.sha, "probability": stable(one.here), "bits": stable(one.bits), "runs": one.runs}
                for one in plan.suspects
            ],
        }
    )
