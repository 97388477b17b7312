"""The ticket of an event: what a renderer makes of hostile names, and its size."""

import re

import pytest
from any_report import HOSTILE, briefly, text
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from test_markdown import tokens

from perfgate.core import Key
from perfgate.core.history_events import EventChange, HistoryEvent
from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun, SeriesName
from perfgate.core.run_history import ApprovedLevel
from perfgate.reporters import history_events as ticket

GOOD, BAD = (HistoryRun(name, "2026-01-02T03:04:05Z", name * 40, "main") for name in "ab")
PAGE = "https://github.example/o/r"
CHANGE = EventChange("gpt", "h200", SeriesName(Key("forward"), "median"), "s", 0.1, 0.107, 0.07, 0.06, 0.08, True)
EVENT = HistoryEvent("0a1b2c3d", "code", "open", GOOD, BAD, BAD, 4, (CHANGE,), owners=("@team/kernels", "Ada <a@b.c>"))

runs = st.builds(HistoryRun, text, text, st.none() | text | st.just("c" * 40))
keys = st.builds(Key, text, st.tuples(st.tuples(text, text)))
number = st.floats(-1, 1)
changes = st.builds(
    EventChange,
    text,
    text,
    st.builds(SeriesName, keys, text),
    st.just("s"),
    *[number] * 5,
    st.sampled_from([True, False, None]),
)
events = st.builds(
    HistoryEvent,
    *(st.just("0a1b2c3d"), st.sampled_from(["code", "machine"]), st.sampled_from(["open", "reverted", "approved"])),
    *(runs, runs, runs, st.sampled_from([None, 1, 7]), st.lists(changes, min_size=1, max_size=3).map(tuple)),
    facts=st.lists(st.tuples(text, text, text), max_size=2).map(tuple),
    causes=st.lists(text, max_size=2).map(tuple),
    owners=st.lists(text, max_size=2).map(tuple),
    ended=st.none() | runs,
    approval=st.none()
    | st.builds(ApprovedLevel, text, text, text, text, text, st.none() | st.just(7), st.just(()), st.just(False)),
)


def lines(hostile: str) -> CommitLine:
    """The commits of the event, with a hostile author and subject."""
    return CommitLine.of("main", [CommitNote(run.id * 40, "2026", hostile, hostile) for run in (GOOD, BAD)])


@briefly
@given(events, text)
def test_no_text_of_an_event_adds_a_row_a_link_html_or_a_mention(event, hostile):
    issue = ticket.issue(event, PAGE, lines(hostile))
    found = list(tokens(issue["body"].partition("\ncc ")[0] + "\n"))
    assert [token.type for token in found].count("tr_open") == 1 + len(event.changes)
    assert [token.type for token in found].count("td_open") == 3 * len(event.changes)
    for token in found:
        assert token.type not in ("image", "s_open", "em_open", "heading_open", "hr", "blockquote_open", "html_block")
        assert token.type != "html_inline" or token.content in ("<sub>", "</sub>")
        assert token.type != "link_open" or token.attrGet("href").startswith(f"{PAGE}/compare/")
        if token.type == "text":
            assert not re.search(r"://|www\.\w|@\w|#\d|GH-\d", token.content)
    for shown in (issue["title"], ticket.comment(hostile), issue["body"]):
        assert not re.search(r"^\s*::|##\[|[\x00-\x09\x0b-\x1f\x7f]", shown, re.MULTILINE)
    assert not re.search(r"@\w|#\d|://|GH-\d|\n", issue["title"])


@briefly
@given(events)
def test_slack_gets_no_link_and_no_mention(event):
    message = ticket.slack(event, "open", f"{PAGE}/issues/1")["text"].replace(f"(<{PAGE}/issues/1|open>)", "", 1)
    assert not re.search(r"[<>]|@\w|#\d|://", message)
    assert "&" not in re.sub("&(amp|lt|gt);", "", message)


def test_only_owners_in_the_form_of_a_user_are_mentioned():
    hostile = replace(CHANGE, name=SeriesName(Key("@everyone"), "median"))
    body = ticket.issue(replace(EVENT, changes=(hostile,)), PAGE)["body"]
    assert re.findall(r"@\w+", body) == ["@team"]
    assert "\ncc @team/kernels\n" in body


@pytest.mark.parametrize("name", [*HOSTILE, "@" * 300])
def test_a_ticket_fits_into_an_issue(name):
    one = replace(CHANGE, suite=name, environment=name, name=SeriesName(Key(name, ((name, name),)), "median"))
    issue = ticket.issue(replace(EVENT, changes=(one,) * 500, causes=(name * 100,) * 500), PAGE)
    assert len(issue["body"]) < 60_000
    assert len(issue["title"]) <= 256
    assert issue["body"].endswith("</sub>\n")


def test_many_metrics_are_counted():
    changes = tuple(replace(CHANGE, name=SeriesName(Key(f"kernel{number}"), "median")) for number in range(33))
    issue = ticket.issue(replace(EVENT, changes=changes), PAGE)
    assert issue["title"] == "kernel0 median +7.0% and 32 more metrics since bbbbbbbbbb (4 commits)"
    assert "\n13 more metrics\n" in issue["body"]


def test_a_machine_is_named_instead_of_commits():
    event = replace(EVENT, kind="machine", facts=(("driver", "570.1", "580.2"),))
    issue = ticket.issue(event, PAGE)
    assert issue["title"] == "forward median +7.0% since 2026-01-02: the machine, driver from 570.1 to 580.2"
    assert "**Next:** look at the machine, not at the code: driver from 570.1 to 580.2" in issue["body"]
    assert "perfgate bisect" not in issue["body"]
