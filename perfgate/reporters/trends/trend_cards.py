"""One metric on the page: its name and level, its plot, and its changes in words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from msgspec import Struct

from perfgate.core.history_events import HistoryEvent
from perfgate.core.remembered_runs import CommitLine
from perfgate.core.run_history import HistoryChange, HistorySeries
from perfgate.core.units import format_change
from perfgate.core.wording import plural
from perfgate.reporters.svg import SafeText, element, joined, safe
from perfgate.reporters.trends.trend_plot import frame, kind, plot
from perfgate.reporters.trends.trend_runs import TrendRuns
from perfgate.words import history_words

#: A metric that this many newer runs do not have is not measured any more.
_OVER = 10
#: The number of newest changes that are shown; older ones are folded.
_MOST_OPEN = 2
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
    def newest(self) -> str:
        """The time of the newest change; empty without one."""
        return self.series.changes[-1].likely.time if self.series.changes else ""

    @property
    def is_over(self) -> bool:
        """True if the metric is not measured any more."""
        return is_over(self.series)

    @property
    def open_changes(self) -> list[HistoryChange]:
        """The changes for the worse that nobody approved, and that did not go away, oldest first.

        A metric that is not measured any more has none.
        """
        return open_changes(self.series)

    @property
    def anchor(self) -> str:
        """The id of the card, which stays the same from day to day."""
        words = f"{self.series.suite}\n{self.series.environment}\n{self.series.name}\n{self.series.unit}"
        return "m-" + hashlib.sha256(words.encode("utf-8", "backslashreplace")).hexdigest()[:10]

    @property
    def state(self) -> str:
        """The class of the card: that of its worst change, or `same`."""
        if self.open_changes:
            return "open"
        return "changed" if self.series.changes else "same"


def is_over(one: HistorySeries) -> bool:
    """Return whether a metric is not measured any more."""
    return one.missing_since >= _OVER


def open_changes(one: HistorySeries) -> list[HistoryChange]:
    """Return the open changes of a metric that is still measured; see `history_words.is_open`."""
    return [] if is_over(one) else [change for change in one.changes if history_words.is_open(change)]


def card(trend: Trend, links: TrendLinks, *, with_place: bool) -> SafeText:
    """Return the card of a metric; `with_place` names its suite and environment."""
    one, is_small = trend.series, not trend.series.changes
    show = frame(one, trend.track)
    name = element("a", str(one.name), href=f"#{trend.anchor}")
    head = [element("h3", name)]
    if with_place:
        head.append(element("p", f"{one.suite}, {one.environment}", class_="where"))
    head.append(element("p", element("strong", history_words.level_now(one)), " ", _about(one), class_="now"))
    if one.missing_since:
        last = f"last measured in {one.runs[-1].label} on {one.runs[-1].time[:10]}: "
        missing = f"{plural(one.missing_since, 'newer run')} {'does' if one.missing_since == 1 else 'do'} not have it"
        head.append(element("p", last + missing, class_="missing"))
    drawn = plot(show, trend.anchor[2:], is_small=is_small) if show else element("p", "It cannot be drawn.")
    words = [] if is_small else [_changes(trend, links)]
    return element(
        "article",
        *(element("div", *head, class_="name"), element("figure", drawn), *words),
        id=trend.anchor, class_=f"trend {trend.state}", data_runs=trend.track.number,
    )  # fmt: skip


def _about(one: HistorySeries) -> SafeText:
    noise = f", noise {known}" if (known := history_words.noise(one)) else ""
    return element("span", f"{plural(len(one.runs), 'run')}{noise}")


def _changes(trend: Trend, links: TrendLinks) -> SafeText:
    """Return the changes of a metric in words, the newest first."""
    one = trend.series
    items = [_change(change, trend, links) for change in reversed(one.changes)]
    parts = [element("ol", *items[:_MOST_OPEN])]
    if creep := history_words.creeping(one):
        parts.insert(0, element("p", f"It creeps: {creep}.", class_="creep"))
    if rest := items[_MOST_OPEN:]:
        summary = element("summary", plural(len(rest), "older change"))
        parts.append(element("details", summary, element("ol", *rest)))
    return element("div", *parts, class_="changes")


def _change(change: HistoryChange, trend: Trend, links: TrendLinks) -> SafeText:
    name, point = kind(change), change.point
    sign = element("span", _SIGNS[name], class_="sign", aria_hidden="true")
    interval = f"{format_change(point.low)} to {format_change(point.high)}"
    size = element("strong", format_change(point.change))
    head = joined([sign, size, element("span", interval, class_="interval"), element("b", _WORDS[name])], " ")
    return element("li", element("p", head, class_="size"), *_sentences(change, trend, links), class_=name)


def _sentences(change: HistoryChange, trend: Trend, links: TrendLinks) -> Iterator[SafeText]:
    levels = f"{history_words.levels(change, trend.series)} on {change.likely.time[:10]}{history_words.doubt(change)}"
    yield element("p", levels, class_="levels")
    yield element("p", links.linked(history_words.commits(change, links.line), change))
    for text in history_words.circumstances(change):
        yield element("p", links.linked(text, change))
