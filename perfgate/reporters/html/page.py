"""The page of a report, and the page of the answer of `perfgate bisect`."""

from __future__ import annotations

from functools import cache

from jinja2 import Template
from markupsafe import escape

from perfgate.core import Report, units
from perfgate.core.causes import BisectReport
from perfgate.core.units import UNITS, display_unit
from perfgate.core.wording import clip, one_line, plural
from perfgate.reporters import bisect_text
from perfgate.reporters.html import finished, sections, template, text_of, what_changed
from perfgate.reporters.html.canvas import Canvas, Point
from perfgate.reporters.html.plots import sweep
from perfgate.reporters.svg import SafeText, ends
from perfgate.reporters.terminal_page import bar
from perfgate.words import answer, beside, cause_words, numbers

#: The longest name, path or message, in characters.
_LONGEST_TEXT = 2_000


def render(report: Report) -> str:
    """Return the report as one self-contained page: the largest blocking failures first, and passes folded."""
    verdicts = sections.verdicts(report)
    page = _report_page().render(
        report=report,
        verdicts=verdicts,
        groups=sections.groups(verdicts),
        steps=sections.steps(report),
        sweeps=list(map(sweep, report.details.sweeps)),
        machine=sections.machine_alone(report, verdicts),
        cause_groups=cause_words.groups(report),
        places={id(verdict): place for place, verdict in enumerate(report.verdicts)},
    )
    return finished(page)


@cache
def _report_page() -> Template:
    return template(
        "page.html.j2",
        _visible,
        answer=answer,
        beside=beside,
        causes=cause_words,
        numbers=numbers,
        sections=sections,
        pictures=what_changed,
        units=units,
        plural=plural,
        bar=bar,
        whole=_whole,
    )


def _visible(value: object) -> object:
    """Return a text with visible characters only; pictures and other values stay as they are."""
    return clip(one_line(value), _LONGEST_TEXT) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _whole(value: object) -> object:
    """Return a text as `_visible` does, but escaped, and never clipped: that would break a command."""
    return escape(one_line(value)) if isinstance(value, str) and not hasattr(value, "__html__") else value


def render_bisect(report: BisectReport) -> str:
    """Return the page: the conclusion, the causes, both plots, the suspects, and everything that was measured."""
    causes = report.causes.causes if report.causes else ()
    suspects = []
    for suspect in report.suspects:
        item = suspect.item
        name, probability = bisect_text.short(item.name), bisect_text.percent(suspect.probability)
        suspects.append((probability, name, item.subject, item.author, item.diffstat))
    if suspects:
        suspects += [(bisect_text.percent(share), words, "", "", "") for share, words in bisect_text.unnamed(report)]
    unit = "change from the first one" if report.paired else report.metric
    page = template("bisect.html.j2", _whole, bisect=bisect_text, causes=cause_words).render(
        report=report,
        style=SafeText(text_of("style.css")),
        cause_rows=[(cause_words.kind(cause), cause_words.where(cause), cause_words.cost(cause)) for cause in causes],
        figures=[
            (levels(report), f"{unit}: every measured {report.noun} with its 95 % interval"),
            (probabilities(report), f"probability that a {report.noun} changed it"),
        ],
        suspects=suspects,
        measured=[
            (row.position, bisect_text.short(row.name), *bisect_text.estimate(report, row), row.runs)
            for row in report.measured
        ],
    )
    return finished(page)


def levels(report: BisectReport) -> str:
    """Return a plot of all measured items in order, as SVG; empty for fewer than two, or if no axis can show them."""
    rows = [
        (row.position, row.value, row.low, row.high)
        for row in report.measured
        if row.value is not None and row.low is not None and row.high is not None
    ]
    if len(rows) < 2:
        return ""
    origin, unit = 1.0, UNITS["%"]  # pairs have the change from the first item
    if not report.paired:
        origin, unit = 0.0, display_unit(max(value for _, value, _, _ in rows), report.unit)
    points = [(x, (value - origin) / unit.factor) for x, value, _, _ in rows]
    bars = [[(x, (end - origin) / unit.factor) for end in (low, high)] for x, _, low, high in rows]
    y_ends = ends([y for bar in bars for _, y in bar])
    if y_ends is None:
        return ""

    def draw(on: Canvas) -> None:
        on.axes((-0.5, report.positions - 0.5), y_ends, f"{report.noun} in order", unit.symbol, whole=True)
        if report.blamed:
            on.span(report.blamed[0] - 0.5, report.blamed[-1] + 0.5, "bad", alpha=0.2)
        on.lines(bars, "new", width=2)
        on.dots(points, "new", size=8)

    return Canvas(260).picture(draw)


def probabilities(report: BisectReport) -> str:
    """Return a plot of the posterior over all items, as SVG; empty without suspects."""
    if not report.suspects:
        return ""
    half = max(0.4, report.positions / 400)  # half the width of a bar, which must be visible among many items

    def draw(on: Canvas) -> None:
        on.axes((-0.5, report.positions - 0.5), (0, 1), f"{report.noun} in order", whole=True)
        bars: dict[str, list[list[Point]]] = {"bad": [], "muted": []}
        for suspect in report.suspects:
            x, y = suspect.position, suspect.probability
            corners = [(x - half, 0.0), (x - half, y), (x + half, y), (x + half, 0.0)]
            bars["bad" if x in report.blamed else "muted"].append(corners)
        for colour, areas in bars.items():
            on.areas(areas, colour)

    return Canvas(180).picture(draw)
