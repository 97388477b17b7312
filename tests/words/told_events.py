"""An event in each kind and state, for the words about it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace
from said import Said, say

from perfgate.core import Key
from perfgate.core.history_events import EventChange, HistoryEvent
from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRun, SeriesName
from perfgate.core.run_history import ApprovedLevel
from perfgate.words import event_words, history_words

RUNS = [HistoryRun(f"r{i}", f"2026-01-0{i + 1}T00:00:00Z", f"{i}c0ffee{i}" * 4) for i in range(4)]
LINE = CommitLine.of("main", [CommitNote(str(run.commit), run.time, "ada", f"Change {run.id}") for run in RUNS])


def _change(metric: str, change: float) -> EventChange:
    sizes = (0.1, 0.1 * (1 + change), change, change - 0.01, change + 0.01, change > 0)
    return EventChange("gpt", "h100", SeriesName(Key(metric), "median"), "s", *sizes)


CHANGES = tuple(_change(name, size) for name, size in (("forward", 0.071), ("step", 0.05), ("memory", -0.02)))
CODE = HistoryEvent("7f3a91c2", "code", "open", RUNS[0], RUNS[2], RUNS[1], 2, CHANGES)
FACTS = (("driver", "570.86", "580.65"),)
WRONG = "forward within 5% of baseline: wrong in 1 of 214 checks (1 red), at most 2.2%"
LEVEL = ApprovedLevel("new", RUNS[3].time, RUNS[3].commit, "carol", "rotary embeddings", 7, (), False)
EVENTS = {
    "": CODE,
    "one commit": replace(CODE, last_good=RUNS[1], commits=1),
    "no repository": replace(CODE, commits=None),
    "no commits": replace(CODE, last_good=replace(RUNS[0], commit=None)),
    "one commit twice": replace(CODE, kind="machine", first_bad=RUNS[0]),
    "the machine": replace(CODE, kind="machine", facts=FACTS),
    "causes, facts and owners": replace(
        CODE, facts=FACTS, causes=("slower: aten::mm",), owners=("@kernels",), rules=(WRONG,)
    ),
    "better": replace(CODE, changes=CHANGES[2:]),
    "recovered": replace(CODE, state="recovered", ended=RUNS[3]),
    "approved": replace(CODE, state="approved", approval=LEVEL),
    "hidden": replace(CODE, ended=RUNS[3], hidden=FACTS),
}


def of_events() -> Iterator[Said]:
    """Yield the words of words/event_words."""
    for case, event in EVENTS.items():
        yield say(event_words.headline, case, event)
        yield say(event_words.where_it_began, case, event, LINE)
        yield say(event_words.details, case, event, LINE)
    for function in (event_words.is_worse, event_words.is_open, event_words.in_order):
        yield say(function, "", CODE)
    yield say(event_words.where, "", CODE)
    yield say(history_words.approved, "", LEVEL)
    yield say(event_words.conclusion, "", [CODE])
    yield say(event_words.conclusion, "nothing open", [])
