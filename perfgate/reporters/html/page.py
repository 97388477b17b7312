"""The HTML pages: a jinja2 template that escapes all values, filled from a report, and the answer of a search.

Names, paths and messages are untrusted. `one_line` makes their invisible characters visible, and the template escapes
them. None of them becomes an element, an attribute, a link, a style or a part of a picture. The page's content
security policy forbids it to load or run anything.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from perfgate.core import Report
from perfgate.core.causes import BisectReport
from perfgate.core.units import display_unit, format_change, format_confidence, format_number, format_value
from perfgate.core.wording import clip, one_line, plural
from perfgate.reporters.bisect_text import estimate, notes, percent, short, summary, unnamed
from perfgate.reporters.html import sections, what_changed
from perfgate.reporters.html.canvas import Canvas
from perfgate.reporters.html.plots import sweeps
from perfgate.reporters.terminal_page import bar
from perfgate.words import answer, beside, cause_words, numbers

#: The longest name, path or message, in characters.
_LONGEST_TEXT = 2_000


def render(report: Report) -> str:
    """Return the report as one self-contained page: the largest blocking failures first, and passes folded."""
    verdicts = sections.verdicts(report)
    page = _template().render(
        report=report,
        verdicts=verdicts,
        groups=sections.groups(verdicts),
        steps=sections.steps(report),
        sweeps=sweeps(report),
        machine=sections.machine_alone(report, verdicts),
        cause_groups=cause_words.groups(report),
        places={id(verdict): place for place, verdict in enumerate(report.verdicts)},
    )
    return page.replace("##[", "#&#35;[") + "\n"  # GitHub would read it as a command in the log of a job


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("perfgate.reporters.html", ""),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(answer=answer, numbers=numbers, sections=sections, plural=plural)
    environment.globals.update(causes=cause_words, coverage=beside, pictures=what_changed)
    environment.globals.update(bar=bar, format_change=format_change, format_number=format_number)
    environment.globals.update(format_value=format_value, format_confidence=format_confidence)
    environment.filters["picture"] = Markup
    environment.filters["identity"] = id
    environment.filters["whole"] = lambda text: escape(one_line(text))  # a clipped command does not run
    return environment.get_template("page.html.j2")


def _visible(value: object) -> object:
    """Text with visible characters only. Pictures and other values stay as they are."""
    return clip(one_line(value), _LONGEST_TEXT) if isinstance(value, str) and not hasattr(value, "__html__") else value


_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
"""


def render_bisect(report: BisectReport) -> str:
    """Return the page: the conclusion, the causes, both plots, the suspects, and everything that was measured."""
    style = files("perfgate.reporters.html").joinpath("style.css").read_text(encoding="utf-8")
    parts = [_HEAD.format(title=_safe(f"bisect: {report.outcome}"), style=style)]
    parts += [f"<h1>{_safe(report.message)}</h1>", f"<p>{_safe(summary(report))}</p>"]
    parts += _causes(report)
    if picture := levels(report):
        unit = "change from the first one" if report.paired else report.metric
        parts.append(_figure(picture, f"{unit}: every measured {report.noun} with its 95 % interval"))
    if picture := probabilities(report):
        parts.append(_figure(picture, f"probability that a {report.noun} changed it"))
    parts += [_suspects(report), _measured(report)]
    parts += ["<ul>", *(f"<li>{_safe(note)}</li>" for note in notes(report)), "</ul>"]
    parts += [f"<p><strong>Next:</strong> {_safe(report.next_step)}</p>", "</main>", "</body>", "</html>"]
    return "\n".join(parts).replace("##[", "#&#35;[") + "\n"


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
    room = 0.08 * (top - bottom) or 0.05 * abs(top) or 1.0

    def draw(on: Canvas) -> None:
        on.axes(
            (-0.5, report.positions - 0.5), (bottom - room, top + room), f"{report.noun} in order", unit, whole=True
        )
        if report.blamed:
            on.span(report.blamed[0] - 0.5, report.blamed[-1] + 0.5, "bad", 0.2)
        on.lines([[(x, low), (x, high)] for x, _, low, high in scaled], "new", 2)
        on.dots([(x, y) for x, y, _, _ in scaled], "new", 8)

    return Canvas(260).picture(draw)


def probabilities(report: BisectReport) -> str:
    """Return a plot of the posterior over all items, as SVG; empty without suspects."""
    if not report.suspects:
        return ""
    bars = [(one.position, one.probability) for one in report.suspects]
    half = max(0.4, report.positions / 400)

    def draw(on: Canvas) -> None:
        on.axes((-0.5, report.positions - 0.5), (0, 1), f"{report.noun} in order", whole=True)
        corners = [[(x - half, 0), (x - half, y), (x + half, y), (x + half, 0)] for x, y in bars]
        on.areas([area for area, (x, _) in zip(corners, bars, strict=True) if x in report.blamed], "bad")
        on.areas([area for area, (x, _) in zip(corners, bars, strict=True) if x not in report.blamed], "muted")

    return Canvas(180).picture(draw)


def _safe(text: str) -> Markup:
    return escape(one_line(text))


def _figure(picture: str, caption: str) -> str:
    return f"<figure>\n{picture}\n<figcaption>{_safe(caption)}</figcaption>\n</figure>"


def _causes(report: BisectReport) -> list[str]:
    """Return what changed in the traces, the largest cause first, and what no cause explains."""
    found = report.causes
    if found is None:
        return []
    rows = [[cause_words.kind(one), cause_words.where(one), cause_words.cost(one)] for one in found.causes]
    heading = f"<h2>What changed: {_safe(cause_words.step(found))}</h2>"
    return [heading, _table(["cause", "place", "cost"], rows), f"<p>{_safe(cause_words.rest(found))}</p>"]


def _suspects(report: BisectReport) -> str:
    if not report.suspects:
        return ""
    rows = [
        [percent(one.probability), short(one.item.name), one.item.subject, one.item.author, one.item.diffstat]
        for one in report.suspects
    ]
    rows += [[percent(probability), words, "", "", ""] for probability, words in unnamed(report)]
    return _table(["probability", report.noun, "subject", "author", "what it changed"], rows)


def _measured(report: BisectReport) -> str:
    rows = [
        [
            str(one.position),
            short(one.name),
            *(estimate(report, one) if one.value is not None else (f"skipped: {one.skipped}", "")),
            str(one.runs),
        ]
        for one in report.measured
    ]
    noun = "pair" if report.paired else "run"
    return (
        _table(["position", report.noun, report.metric or "value", "95 % interval", f"{noun}s"], rows) if rows else ""
    )


def _table(heads: list[str], rows: list[list[str]]) -> str:
    head = "".join(f'<th scope="col">{_safe(one)}</th>' for one in heads)
    body = ["<tr>" + "".join(f"<td>{_safe(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join(["<table>", f"<thead><tr>{head}</tr></thead>", "<tbody>", *body, "</tbody>", "</table>"])
