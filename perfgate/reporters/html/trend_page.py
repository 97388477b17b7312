"""The page of trends: the conclusion first, then every metric, those with the newest changes first.

Names, commits, tags and facts are untrusted. The template escapes every text, the data of the script is JSON that
cannot end its element, and the script writes text only as text. The content security policy of the page allows its own
style and its own script, by their hashes, and nothing else. Without scripts everything can be read. The script reads
the numbers from the dots of the plots, so the file has each number once.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

from jinja2 import Template
from msgspec import Struct

from perfgate.core.history_events import EventChange, HistoryEvent, RuleRecord
from perfgate.core.remembered_runs import CommitLine, SeriesName
from perfgate.core.run_history import HistoryChange, HistorySeries, LoadedHistory
from perfgate.core.units import format_change
from perfgate.core.wording import listed, plural
from perfgate.reporters.html import finished, template, text_of
from perfgate.reporters.html.trend_plot import frame, kind, plot
from perfgate.reporters.html.trend_runs import TrendRuns, data
from perfgate.reporters.svg import SafeText, element, joined, safe
from perfgate.words import event_words, history_words

#: How often each rule was wrong, by suite and rule.
Records: TypeAlias = Mapping[str, Mapping[str, RuleRecord]]
#: Suite, environment and name.
_Metric: TypeAlias = tuple[str, str, SeriesName]
#: The most numbers on a page; of longer histories, plots show the newest runs.
MOST_NUMBERS = 450_000
#: The most open changes that are listed at the top, and the number of newest changes of a metric that are unfolded.
_MOST_NAMED, _MOST_UNFOLDED = 6, 2
#: A metric that this many newer runs do not have is not measured any more.
_OVER = 10
_LEGEND = (  # class, sign and meaning
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
#: For each class of a change (`trend_plot.kind`): its words and its sign.
_WORDS = {"open": "worse", "approved": "worse, approved", "gone": "worse, went away", "better": "better", "neutral": ""}
_SIGNS = {"open": "▲", "approved": "✓", "gone": "↩", "better": "▼", "neutral": "•"}
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


class TrendLinks(Struct, frozen=True):
    """The commits of the branch, and the address to which a commit is added to see it; None without one."""

    line: CommitLine | None
    address: str | None

    def linked(self, text: str, change: HistoryChange | HistoryEvent) -> SafeText:
        """Return a sentence about a change, in which each commit is a link."""
        end = change.went_away if isinstance(change, HistoryChange) else change.ended
        runs = (change.last_good, change.first_bad, change.likely, end)
        commits = {run.commit[:10]: run.commit for run in runs if run and run.commit and _COMMIT.fullmatch(run.commit)}
        if not commits:
            return safe(text)
        return SafeText(re.sub(rf"\b({'|'.join(commits)})\b", lambda named: self._link(commits[named[0]]), safe(text)))

    def _link(self, commit: str) -> SafeText:
        shown = element("code", commit[:10])
        return shown if self.address is None else element("a", shown, href=self.address + commit)


class Trend(Struct, frozen=True):
    """A metric with the runs of its environment."""

    series: HistorySeries
    track: TrendRuns

    @property
    def open_changes(self) -> list[HistoryChange]:
        """The open changes, oldest first; none of a metric that is not measured any more."""
        return _open_changes(self.series)

    @property
    def anchor(self) -> str:
        """The id of the card, which stays the same from day to day."""
        words = f"{self.series.suite}\n{self.series.environment}\n{self.series.name}\n{self.series.unit}"
        return "m-" + hashlib.sha256(words.encode("utf-8", "backslashreplace")).hexdigest()[:10]

    @property
    def state(self) -> str:
        """The class of the card: `open` with an open change, else `changed` or `same`."""
        return "open" if self.open_changes else "changed" if self.series.changes else "same"

    def plot(self) -> SafeText | None:
        """Return the plot, or None if it cannot be drawn."""
        show = frame(self.series, self.track)
        return plot(show, self.anchor.removeprefix("m-"), is_small=not self.series.changes) if show else None


def _is_over(series: HistorySeries) -> bool:
    """Return whether a metric is not measured any more."""
    return series.missing_since >= _OVER


def _open_changes(series: HistorySeries) -> list[HistoryChange]:
    """Return the changes for the worse without approval that did not go away, of a metric that is still measured."""
    return [] if _is_over(series) else [change for change in series.changes if history_words.is_open(change)]


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
    trends.sort(key=lambda trend: trend.series.changes[-1].likely.time if trend.series.changes else "", reverse=True)
    incomplete = history_words.incomplete(found)
    page = _page().render(
        **_header(found, events, trends),
        found=found,
        links=TrendLinks(found.line, commit_address),
        trends=trends,
        tracks=tracks,
        with_place=len({(trend.series.suite, trend.series.environment) for trend in trends}) > 1,
        incomplete=_capital(incomplete) + "." if incomplete else "",
        notes=[note for place in found.environments for note in place.notes],
        classes=[trend.state for trend in trends],
        longest=max((len(track.shown) for track in tracks), default=0),
        parts=_parts(trends),
        rules=_rules(records),
        places=list(map(_place, tracks)),
    )
    return finished(page)


@cache
def _page() -> Template:
    style, script = text_of("style.css") + text_of("trends.css"), text_of("trends.js")
    allowed = " ".join(
        f"{directive}-src 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}';"
        for directive, text in (("style", style), ("script", script))
    )
    return template(
        "trends.html.j2",
        lambda value: safe(value) if isinstance(value, str) and not hasattr(value, "__html__") else value,
        policy=SafeText(f"default-src 'none'; {allowed} base-uri 'none'; form-action 'none'"),
        style=SafeText(style),
        script=SafeText(script),
        words=history_words,
        event_words=event_words,
        plural=plural,
        format_change=format_change,
        kind=kind,
        data=data,
        anchor_of=_anchor_of,
        signs=_SIGNS,
        states=_WORDS,
        legend=_LEGEND,
        most_open=_MOST_UNFOLDED,
    )


def conclusion(found: LoadedHistory, events: Sequence[HistoryEvent] = ()) -> str:
    """Return the conclusion: how many changes are open, and how many other metrics became worse."""
    shown = _open(found, events)
    told = _told(shown)
    bad = len([series for series in found.series if _open_changes(series) and _id(series) not in told])
    few = _too_few_runs(found)
    if shown:
        return event_words.conclusion(shown) + (f"; {plural(bad, 'other metric')} may be worse" if bad else "")
    if not found.series:
        return "the history has no metric"
    if bad:
        return f"{plural(bad, 'metric')} became worse, and nobody approved it"
    return f"too few runs to see a change: {few}" if few else "no metric is worse without an approval"


def _too_few_runs(found: LoadedHistory) -> str | None:
    """Return the runs of the longest series, `3 of 10`, if no series has enough for a change; else None."""
    longest = max(found.series, key=lambda one: len(one.runs), default=None)
    return longest.runs_to_see_a_change if longest else None


def _open(found: LoadedHistory, events: Sequence[HistoryEvent]) -> list[HistoryEvent]:
    """Return the open events of the metrics of a page."""
    measured = {_id(series) for series in found.series if not _is_over(series)}
    open_events = filter(event_words.is_open, events)
    return [event for event in open_events if any(one.worse and _id(one) in measured for one in event.changes)]


def _told(events: Sequence[HistoryEvent]) -> set[_Metric]:
    """Return the metrics of events: the open changes of other metrics are listed one by one."""
    return {_id(change) for event in events for change in event.changes}


def _id(one: HistorySeries | EventChange) -> _Metric:
    return one.suite, one.environment, one.name


def _header(found: LoadedHistory, events: Sequence[HistoryEvent], trends: Sequence[Trend]) -> dict[str, Any]:
    """Return what the top of the page shows: the conclusion, what was measured, and the first open changes."""
    shown = _open(found, events)
    told = _told(shown)
    bad = [trend for trend in trends if trend.open_changes and _id(trend.series) not in told]
    bad.sort(key=lambda trend: trend.open_changes[-1].likely.time, reverse=True)
    changed = len([trend for trend in trends if trend.series.changes])
    times = [run.time for place in found.environments for run in place.runs]
    days = f", {min(times)[:10]} to {max(times)[:10]}" if times else ""
    sign, tone = "✓", "warning" if found.problems else "pass"
    if shown or bad:
        sign, tone = "▲", "fail"
    elif _too_few_runs(found):
        sign, tone = "?", "warning"
    return {
        "title": _capital(conclusion(found, events)),
        "sign": sign,
        "tone": tone,
        "counts": f"{plural(len(trends), 'metric')}, {changed} with changes; {plural(len(times), 'run')}{days}",
        "events": shown[:_MOST_NAMED],
        "bad": bad[: max(0, _MOST_NAMED - len(shown))],
        "left": len(shown) + len(bad) - _MOST_NAMED,
    }


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _anchor_of(event: HistoryEvent, trends: Sequence[Trend]) -> str:
    """Return the id of the card of the metric of an event that changed most."""
    anchors = {_id(trend.series): trend.anchor for trend in trends}
    return next(anchors[_id(change)] for change in event_words.in_order(event) if _id(change) in anchors)


def _parts(trends: Sequence[Trend]) -> list[tuple[str, str, list[Trend]]]:
    """Return the parts of the page: what happened to the metrics, the class of their cards, and the metrics."""
    parts: dict[tuple[bool, bool], tuple[str, str, list[Trend]]] = {  # by whether they changed, and whether they ended
        (True, False): ("changed", "moved", []),
        (False, False): ("did not change", "same", []),
        (True, True): ("changed and ended", "moved", []),
        (False, True): ("ended", "same", []),
    }
    for trend in trends:
        parts[bool(trend.series.changes), _is_over(trend.series)][2].append(trend)
    return list(parts.values())


def _rules(records: Records) -> list[tuple[str, str, str]]:
    """Return a row for each rule that answered on main: how often it was wrong, the highest bound of it first."""
    rows = [(suite, rule, record) for suite, of_suite in records.items() for rule, record in of_suite.items()]
    rows.sort(key=lambda row: (-row[2].highest, row[:2]))
    return [(rule, suite, history_words.rule_record(record)) for suite, rule, record in rows]


def _place(track: TrendRuns) -> tuple[str, ...]:
    """Return the row of an environment, with its releases and changes of the machine in words."""
    place = track.place
    machine, tags = (
        [f"{mark.text} ({place.runs[mark.at].time[:10]})" for mark in reversed(marks)]
        for marks in (track.machine, track.releases)
    )
    if track.unsteady:
        machine.append(f"changes often, and is not marked: {listed(track.unsteady)}")
    left_out = f"; plots show the newest {len(track.shown)}" if track.first else ""
    runs = f"{len(place.runs)}{history_words.days(place.runs)}{left_out}"
    name = f"{place.suite}, {place.environment}"
    return name, history_words.identity(place) or "unknown", runs, _folded(machine), _folded(tags)


def _folded(lines: Sequence[str], most: int = 4) -> SafeText:
    """Return lines of a cell; those beyond the first ones are folded."""
    shown = [element("div", line) for line in lines[:most]] or [element("div", "none")]
    if rest := lines[most:]:
        folded = [element("div", line) for line in rest]
        shown.append(element("details", element("summary", f"{len(rest)} more"), *folded))
    return joined(shown)
