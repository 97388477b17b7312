"""The tables of the page of trends: the rules, and the environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from perfgate.core.rule_ledger import RuleRecord
from perfgate.core.wording import listed
from perfgate.reporters.svg import SafeText, element, joined
from perfgate.reporters.trends.trend_runs import TrendRuns
from perfgate.words import history_words
from perfgate.words.history_words import rule_record

#: How often each rule was wrong, by suite and rule.
Records: TypeAlias = Mapping[str, Mapping[str, RuleRecord]]


def rules_table(records: Records) -> list[SafeText]:
    """Return a table of the rules that answered on main: how often each was wrong, the worst first."""
    found = [(suite, rule, record) for suite, own in records.items() for rule, record in own.items()]
    found.sort(key=lambda row: (-row[2].highest, row[:2]))
    rows = [(rule, suite, rule_record(one)) for suite, rule, one in found]
    return [_table("Rules", ("rule", "suite", "answers on main"), rows)] if rows else []


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> SafeText:
    """Return a section with a table; the first cell of a row names it."""
    head = element("thead", element("tr", *(element("th", text, scope="col") for text in heads)))
    body = [
        element("tr", element("th", row[0], scope="row"), *(element("td", cell) for cell in row[1:])) for row in rows
    ]
    table = element("table", head, element("tbody", *body))
    scroll = element("div", table, class_="scroll", tabindex="0", role="region", aria_label=title)
    return element("section", element("h2", title), scroll)


def environments_table(tracks: Sequence[TrendRuns]) -> SafeText:
    """Return a table of the environments, with their releases and changes of the machine in words."""
    rows = []
    for track in tracks:
        place = track.place
        machine = [f"{mark.text} ({place.runs[mark.at].time[:10]})" for mark in reversed(track.machine)]
        if track.unsteady:
            machine.append(f"changes often, and is not marked: {listed(track.unsteady)}")
        tags = [f"{mark.text} ({place.runs[mark.at].time[:10]})" for mark in reversed(track.releases)]
        left_out = f"; plots show the newest {len(track.shown)}" if track.first else ""
        cells = [
            f"{place.suite}, {place.environment}", history_words.identity(place) or "unknown",
            f"{len(place.runs)}{history_words.days(place.runs)}{left_out}",
        ]  # fmt: skip
        rows.append([*cells, _folded(machine), _folded(tags)])
    heads = ("suite and environment", "machine", "runs", "changes of the machine", "releases")
    return _table("Environments", heads, rows)


def _folded(lines: Sequence[str], most: int = 4) -> SafeText:
    """Return lines of a cell; those beyond the first ones are folded."""
    shown = [element("div", line) for line in lines[:most]] or [element("div", "none")]
    if rest := lines[most:]:
        folded = [element("div", line) for line in rest]
        shown.append(element("details", element("summary", f"{len(rest)} more"), *folded))
    return joined(shown)
