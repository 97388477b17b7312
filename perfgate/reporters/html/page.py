"""The page of a report, and the page of the answer of `perfgate bisect`."""

from __future__ import annotations

from functools import cache

from jinja2 import Template
from markupsafe import escape

from perfgate.core import Report, units
from perfgate.core.causes import BisectReport
from perfgate.core.units import display_unit
from perfgate.core.wording import clip, one_line, plural
from perfgate.reporters import bisect_text
from perfgate.reporters.html import finished, sections, template, text_of, what_changed
from perfgate.reporters.html.canvas import Canvas
from perfgate.reporters.html.plots import sweep
from perfgate.reporters.svg import SafeText
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
    """Return the same escaped, and without clipping, which would break a command."""
    return escape(one_line(value)) if isinstance(value, str) and not hasattr(value, "__html__") else value


def render_bisect(report: BisectReport) -> str:
    """Return the page: the conclusion, the causes, both plots, the suspects, and everything that was measured."""
    causes = report.causes.causes if report.causes else ()
    suspects = [
        (one.probability, bisect_text.short(one.item.name), one.item.subject, one.item.author, one.item.diffstat)
        for one in report.suspects
    ]
    others = [(probability, words, "", "", "") for probability, words in bisect_text.unnamed(report)]
    measured = []
    for one in report.measured:
        found = bisect_text.estimate(report, one) if one.value is not None else (f"skipped: {one.skipped}", "")
        measured.append((one.position, bisect_text.short(one.name), *found, one.runs))
    unit = "change from the first one" if report.paired else report.metric
    page = template("bisect.html.j2", _whole, bisect=bisect_text, causes=cause_words).render(
        report=report,
        style=SafeText(text_of("style.css")),
        cause_rows=[(cause_words.kind(one), cause_words.where(one), cause_words.cost(one)) for one in causes],
        figures=[
            (levels(report), f"{unit}: every measured {report.noun} with its 95 % interval"),
            (probabilities(report), f"probability that a {report.noun} changed it"),
        ],
        suspects=[(bisect_text.percent(first), *rest) for first, *rest in [*suspects, *others] if suspects],
        measured=measured,
    )
    return finished(page)


def levels(report: BisectReport) -> str:
    """Return a plot of all measured items in order, as SVG; empty for fewer than two."""
    rows = [(one.position, one.value, one.low, one.high) for one in report.measured]
    known = [(x, y, low, high) for x, y, low, high in rows if y is not None and low is not None and high is not None]
    if len(known) < 2:
        return ""
    if report.paired:
        unit, scaled = "%", [(x, 100 * (y - 1), 100 * (low - 1), 100 * (high - 1)) for x, y, low, high in known]
    else:
        shown = display_unit(max(y for _, y, _, _ in known), report.unit)
        unit = shown.symbol
        scaled = [(x, y / shown.factor, low / shown.factor, high / shown.factor) for x, y, low, high in known]
    bottom, top = min(low for _, _, low, _ in scaled), max(high for *_, high in scaled)
    room = 0.08 * (top - bottom) or 0.05 * abs(top) or 1.0  # equal values need an axis with a length, too

    def draw(on: Canvas) -> None:
        on.axes(
            (-0.5, report.positions - 0.5), (bottom - room, top + room), f"{report.noun} in order", unit, whole=True
        )
        if report.blamed:
            on.span(report.blamed[0] - 0.5, report.blamed[-1] + 0.5, "bad", alpha=0.2)
        on.lines([[(x, low), (x, high)] for x, _, low, high in scaled], "new", width=2)
        on.dots([(x, y) for x, y, _, _ in scaled], "new", size=8)

    return Canvas(260).picture(draw)


def probabilities(report: BisectReport) -> str:
    """Return a plot of the posterior over all items, as SVG; empty without suspects."""
    if not report.suspects:
        return ""
    bars = [(one.position, one.probability) for one in report.suspects]
    half = max(0.4, report.positions / 400)  # half the width of a bar, which must be visible among many items

    def draw(on: Canvas) -> None:
        on.axes((-0.5, report.positions - 0.5), (0, 1), f"{report.noun} in order", whole=True)
        corners = [[(x - half, 0), (x - half, y), (x + half, y), (x + half, 0)] for x, y in bars]
        on.areas([area for area, (x, _) in zip(corners, bars, strict=True) if x in report.blamed], "bad")
        on.areas([area for area, (x, _) in zip(corners, bars, strict=True) if x not in report.blamed], "muted")

    return Canvas(180).picture(draw)
