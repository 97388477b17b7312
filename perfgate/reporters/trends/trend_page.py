"""The page of trends: the conclusion first, then every metric, those with the newest changes first.

Names, commits, tags and facts are untrusted. Every text is escaped (`svg.element`), the data of the script is JSON
that cannot end its element, and the script writes text only as text. The content security policy of the page allows
its own style and its own script, by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from perfgate.core.history_events import HistoryEvent
from perfgate.core.run_history import HistorySeries, LoadedHistory
from perfgate.core.wording import plural
from perfgate.reporters.svg import SafeText, element, joined
from perfgate.reporters.trends.trend_cards import Trend, TrendLinks, card, is_over, open_changes
from perfgate.reporters.trends.trend_runs import TrendRuns, data
from perfgate.reporters.trends.trend_tables import Records, environments_table, rules_table
from perfgate.words import event_words, history_words

#: The most numbers on a page; of longer histories, plots show the newest runs.
MOST_NUMBERS = 450_000
#: The most open changes that are listed at the top.
_MOST_NAMED = 6
_LEGEND = (
    ("runs", "●", "a run"),
    ("level", "━", "level"),
    ("open", "▲", "worse"),
    ("approved", "✓", "approved"),
    ("gone", "↩", "went away"),
    ("better", "▼", "better"),
    ("machine", "◆", "the machine changed"),
    ("release", "┊", "release"),
    ("beyond", "●", "beyond the axis"),
)


def render(
    found: LoadedHistory,
    events: Sequence[HistoryEvent] = (),
    *,
    commit_address: str | None = None,
    records: Records = MappingProxyType({}),
) -> str:
    """Return the page.

    Parameters:
        found: the history.
        events: its events; those of metrics that are not in it are not shown.
        commit_address: the address to which a commit is added to see it; None for no links.
        records: how often each rule was wrong.
    """
    places = [place for place in found.environments if place.series]
    numbers = sum(len(one.runs) for one in found.series)
    most = max(1, MOST_NUMBERS // len(found.series)) if numbers > MOST_NUMBERS else numbers
    tracks = [TrendRuns.of(number, place, found.line, most) for number, place in enumerate(places)]
    trends = [Trend(one, track) for track in tracks for one in track.place.series]
    trends.sort(key=lambda trend: (str(trend.series.name), trend.series.suite, trend.series.environment))
    trends.sort(key=lambda trend: trend.newest, reverse=True)
    links = TrendLinks(found.line, commit_address)
    longest = max((len(track.shown) for track in tracks), default=0)
    parts = [
        *_problems(found),
        _tools(trends, longest),
        *_sections(trends, links),
        *rules_table(records),
        environments_table(tracks),
    ]
    body = [_header(found, events, trends, links), element("main", joined(parts)), *_data(tracks, links)]
    page = _document(_title(found, events), joined(body))
    return page.replace("##[", "#&#35;[") + "\n"  # GitHub would read it as a command in the log of a job


@cache
def _file(name: str) -> str:
    folder = "html" if name == "style.css" else "trends"
    return files(f"perfgate.reporters.{folder}").joinpath(name).read_text(encoding="utf-8")


def _document(title: str, body: SafeText) -> str:
    style, script = _file("style.css") + _file("trends.css"), _file("trends.js")
    allowed = " ".join(
        f"{kind}-src 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}';"
        for kind, text in (("style", style), ("script", script))
    )
    policy = f"default-src 'none'; {allowed} base-uri 'none'; form-action 'none'"
    head = [
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        SafeText(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        element("title", title),
        element("style", SafeText(style)),
    ]
    return "\n".join(
        ["<!doctype html>", '<html lang="en">', "<head>", *head, "</head>", "<body>", body,
         element("script", SafeText(script)), "</body>", "</html>"]
    )  # fmt: skip


def conclusion(found: LoadedHistory, events: Sequence[HistoryEvent] = ()) -> str:
    """Return the conclusion: how many changes are open, and how many other metrics became worse."""
    shown = _open(found, events)
    bad = sum(bool(open_changes(one)) and not _is_in_event(one, shown) for one in found.series)
    if shown:
        return event_words.conclusion(shown) + (f"; {plural(bad, 'other metric')} may be worse" if bad else "")
    if not found.series:
        return "the history has no metric"
    if not bad and (few := _too_few_runs(found)):
        return f"too few runs to see a change: {few}"
    if not bad:
        return "no metric is worse without an approval"
    return f"{plural(bad, 'metric')} became worse, and nobody approved it"


def _too_few_runs(found: LoadedHistory) -> str | None:
    """Return the runs of the longest series, `3 of 10`, if no series has enough for a change; else None."""
    if not found.series:
        return None
    return max(found.series, key=lambda one: len(one.runs)).runs_to_see_a_change


def _open(found: LoadedHistory, events: Sequence[HistoryEvent]) -> list[HistoryEvent]:
    """Return the open events of the metrics of a page."""
    shown = {(one.suite, one.environment, one.name) for one in found.series if not is_over(one)}
    return [
        event
        for event in events
        if event_words.is_open(event)
        and any(one.worse and (one.suite, one.environment, one.name) in shown for one in event.changes)
    ]


def _is_in_event(one: HistorySeries, events: Sequence[HistoryEvent]) -> bool:
    """Return whether one of the events contains a change of this metric."""
    name = (one.suite, one.environment, one.name)
    return any(name == (own.suite, own.environment, own.name) for event in events for own in event.changes)


def _title(found: LoadedHistory, events: Sequence[HistoryEvent]) -> str:
    text = conclusion(found, events)
    return text[0].upper() + text[1:]


def _header(
    found: LoadedHistory, events: Sequence[HistoryEvent], trends: Sequence[Trend], links: TrendLinks
) -> SafeText:
    shown = _open(found, events)
    bad = [trend for trend in trends if trend.open_changes and not _is_in_event(trend.series, shown)]
    bad.sort(key=lambda trend: trend.open_changes[-1].likely.time, reverse=True)
    changed = sum(bool(trend.series.changes) for trend in trends)
    runs = sum(len(place.runs) for place in found.environments)
    times = [run.time for place in found.environments for run in place.runs]
    days = f", {min(times)[:10]} to {max(times)[:10]}" if times else ""
    counts = f"{plural(len(trends), 'metric')}, {changed} with changes; {plural(runs, 'run')}{days}"
    few = _too_few_runs(found)
    sign = element("span", "▲" if shown or bad else "?" if few else "✓", class_="sign", aria_hidden="true")
    parts = [element("h1", sign, " ", _title(found, events)), element("p", counts, class_="counts")]
    if shown or bad:
        several = _has_places(trends)
        named = [_event_item(event, trends, links) for event in shown]
        named += [_trend_item(trend, links, with_place=several) for trend in bad]
        left = len(named) - _MOST_NAMED
        more = [element("li", f"and {left} more", class_="more")] if left > 0 else []
        parts.append(element("ul", *named[:_MOST_NAMED], *more, class_="worst"))
    tone = "fail" if shown or bad else "warning" if found.problems or few else "pass"
    return element("header", *parts, class_=tone)


def _event_item(event: HistoryEvent, trends: Sequence[Trend], links: TrendLinks) -> SafeText:
    """Return an event in the list at the top: its headline, with a link to its largest metric, and what is known."""
    own = {(one.suite, one.environment, one.name): number for number, one in enumerate(event_words.in_order(event))}
    ranks = [
        (own.get((one.series.suite, one.series.environment, one.series.name), len(own)), one.anchor) for one in trends
    ]
    name = element("a", element("strong", event_words.headline(event)), href=f"#{min(ranks)[1]}")
    texts = event_words.details(event, links.line)
    about = [element("span", links.linked(text, event), class_="asked") for text in texts]
    return element("li", name, " ", element("span", event.id, class_="measured"), *about, class_="fail")


def _trend_item(trend: Trend, links: TrendLinks, *, with_place: bool) -> SafeText:
    change = trend.open_changes[-1]
    one = trend.series
    name = element("a", element("strong", str(one.name)), href=f"#{trend.anchor}")
    place = element("span", f"{one.suite}, {one.environment}: ", class_="asked") if with_place else SafeText()
    creep = history_words.creeping(trend.series)
    size = element("span", "creeps" if creep else history_words.interval(change.point), class_="measured")
    text = creep or f"{history_words.commits(change, links.line)}, {change.likely.time[:10]}"
    return element(
        "li", name, size, " ", place, element("span", links.linked(text, change), class_="asked"), class_="fail"
    )


def _has_places(trends: Sequence[Trend]) -> bool:
    """Return whether the metrics are of several environments, which must then be named."""
    return len({(trend.series.suite, trend.series.environment) for trend in trends}) > 1


def _problems(found: LoadedHistory) -> list[SafeText]:
    """Return what is missing from the history, and what is unusual about it."""
    parts = []
    if note := history_words.incomplete(found):
        items = [
            element("li", element("code", str(problem.at)), f": {problem.message}", class_=problem.severity)
            for problem in found.problems
        ]
        text = note[0].upper() + note[1:] + "."
        parts.append(element("section", element("h2", text), element("ul", *items, class_="problems")))
    notes = [note for place in found.environments for note in place.notes]
    if notes:
        parts.append(element("ul", *(element("li", note) for note in notes), class_="notes"))
    return parts


def _tools(trends: Sequence[Trend], longest: int) -> SafeText:
    """Return the search, which the script shows, and the legend."""
    states = [trend.state for trend in trends]
    same = states.count("same")
    choices = [("all", "all", len(states)), ("open", "worse", states.count("open"))]
    choices += [("moved", "changed", len(states) - same), ("same", "unchanged", same)]
    chips = [
        element("button", label, " ", element("span", str(count)), type="button", data_state=name,
                aria_pressed="true" if name == "all" else "false")
        for name, label, count in choices
    ]  # fmt: skip
    search = element("input", type="search", id="search", placeholder="name, commit, suite …", autocomplete="off",
                     aria_label="Show metrics by name, commit or suite")  # fmt: skip
    spans = [
        element("button", label, type="button", data_newest=count, aria_pressed="true" if not count else "false")
        for label, count in (("all runs", 0), ("newest 200", 200), ("newest 50", 50))
        if count < longest > 50
    ]
    controls = element(
        "div", search, element("div", *chips, class_="chips"), element("div", *spans, class_="chips spans"),
        class_="controls", hidden=True,
    )  # fmt: skip
    legend = [
        element("span", element("i", sign, class_=name, aria_hidden="true"), text, class_="sign")
        for name, sign, text in _LEGEND
    ]
    status = element("p", "", id="status", role="status", class_="status")
    aloud = element("p", "", id="aloud", role="status", class_="aloud")  # runs that a reader chose with the keys
    return element("div", controls, element("p", *legend, class_="legend"), status, aloud, class_="tools")


def _sections(trends: Sequence[Trend], links: TrendLinks) -> list[SafeText]:
    with_place = _has_places(trends)
    found = []
    for name, words, part in (
        ("moved", "changed", [trend for trend in trends if trend.series.changes and not trend.is_over]),
        ("same", "did not change", [trend for trend in trends if not trend.series.changes and not trend.is_over]),
        ("moved", "changed and ended", [trend for trend in trends if trend.series.changes and trend.is_over]),
        ("same", "ended", [trend for trend in trends if not trend.series.changes and trend.is_over]),
    ):
        if part:
            cards = joined([card(trend, links, with_place=with_place) for trend in part])
            title = element("h2", f"{plural(len(part), 'metric')} {words}")
            found.append(element("section", title, element("div", SafeText(f"\n{cards}\n"), class_=f"cards {name}")))
    return found


def _data(tracks: Sequence[TrendRuns], links: TrendLinks) -> list[SafeText]:
    """Return the runs of each environment for the script."""
    found = [
        element(
            "script", data(track, links.line, with_links=links.address is not None),
            type="application/json", class_="runs", id=f"runs-{track.number}",
        )
        for track in tracks
    ]  # fmt: skip
    return [*found, element("div", "", id="links", data_address=links.address, hidden=True)]
