"""The events of a history: which change points are one event, its id, its machine, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jsonschema
import numpy as np
import pytest
from conftest import Done
from histories import at, sha, store_at, value
from msgspec.structs import replace

from perfgate.core.history_events import HistoryEvent
from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRecord, HistoryRun
from perfgate.core.run_history import ApprovedLevel, EnvironmentHistory, LoadedHistory
from perfgate.history.event_panels import EventGroup, FoundStep, MovedSeries, in_time
from perfgate.history.events import events_of
from perfgate.history.series import series_of
from perfgate.history.store import HistoryColumn, StoredHistory, add
from perfgate.schemas import FOLDER
from perfgate.stats.panel_steps import PanelStep, panel_steps

Command = Callable[..., Done]
#: The metrics that a change multiplies, by its run: `{20: {"a*": 1.1}}` is +10 % of all metrics of card a.
Changes = Mapping[int, Mapping[str, float]]
RUNS, METRICS = 50, 4
DRIVERS = ("570.86", "580.65", "590.12")
GOLDEN = Path(__file__).parent / "events.txt"


def numbers(card: str, changes: Changes, seed: int = 1) -> np.ndarray:
    """The numbers (runs, metrics) of a card."""
    rng = np.random.default_rng([seed, ord(card)])
    found = 0.1 * np.exp(0.01 * rng.standard_normal((RUNS, METRICS)))
    for start, moved in changes.items():
        for name, factor in moved.items():
            columns = slice(None) if name[1] == "*" else slice(int(name[1]), int(name[1]) + 1)
            found[start:, columns] *= factor if name[0] == card else 1.0
    return found


def history(
    changes: Changes,
    *,
    runs: int = RUNS,
    facts: Mapping[str, tuple[int, ...]] | None = None,
    levels: Sequence[ApprovedLevel] = (),
    reverts: Mapping[int, int] | None = None,
    cards: str = "ab",
    seed: int = 1,
) -> LoadedHistory:
    """A history of two cards; `facts` are the runs in which the driver of a card changes."""
    subjects = {i: f"Change {i}" for i in range(RUNS)}
    subjects |= {late: f'Revert "{subjects[early]}" (#9)' for late, early in (reverts or {}).items()}
    line = CommitLine.of("main", [CommitNote(sha(i), at(i), "ada", subjects[i]) for i in range(runs)])
    places = []
    for card in cards:
        found = numbers(card, changes, seed)[:runs]
        drivers = [sum(i >= at for at in (facts or {}).get(card, ())) for i in range(runs)]
        own = tuple(
            HistoryRun(f"{card}{i}", at(i), sha(i), "main", context={"driver": DRIVERS[drivers[i]]})
            for i in range(runs)
        )
        unknown = np.full(runs, np.nan)
        columns = tuple(
            HistoryColumn(value(f"m{j}", 1.0).name, "s", "lower", "samples", np.arange(runs), found[:, j], unknown,
                          unknown, np.zeros(runs))
            for j in range(METRICS)
        )  # fmt: skip
        stored = StoredHistory("gpt", card, {"gpu": card}, own, columns, ())
        series, _ = series_of(stored, line, levels)
        places.append(EnvironmentHistory("gpt", card, stored.identity, own, tuple(series), tuple(levels), ()))
    return LoadedHistory(tuple(places), (), line)


def short(event: HistoryEvent) -> tuple[str, str, int, int]:
    """Kind, state, the likeliest run and the number of metrics of an event."""
    return event.kind, event.state, int(event.likely.id[1:]), len(event.changes)


APPROVED = ApprovedLevel("new", at(21), sha(21), "carol", "rotary embeddings", 7, (), False)
CASES: dict[str, tuple[dict[str, object], list[tuple[str, str, int, int]]]] = {
    "nothing changed": ({"changes": {}}, []),
    "all metrics of both cards": ({"changes": {20: {"a*": 1.1, "b*": 1.1}}}, [("code", "open", 20, 8)]),
    "one metric of one card": ({"changes": {20: {"a1": 1.1}}}, [("code", "open", 20, 1)]),
    "better and worse in one commit": ({"changes": {20: {"a0": 1.1, "a1": 0.9}}}, [("code", "open", 20, 2)]),
    "cards in different directions": ({"changes": {20: {"a*": 1.1, "b*": 0.9}}}, [("code", "open", 20, 8)]),
    "two changes": (
        {"changes": {20: {"a*": 1.1, "b*": 1.1}, 35: {"a2": 1.2}}},
        [("code", "open", 35, 1), ("code", "open", 20, 8)],
    ),
    "two changes, six runs apart": (
        {"changes": {20: {"a*": 1.1, "b*": 1.1}, 26: {"a*": 1.1, "b*": 1.1}}},
        [("code", "open", 26, 8), ("code", "open", 20, 8)],
    ),
    "a new driver of one card": ({"changes": {20: {"a*": 1.1}}, "facts": {"a": (20,)}}, [("machine", "open", 20, 4)]),
    "a new driver that moves nothing": (
        {"changes": {20: {"a*": 1.1, "b*": 1.1}}, "facts": {"a": (35,)}},
        [("code", "open", 20, 8)],
    ),
    "a new driver of one card, and both are slower": (
        {"changes": {20: {"a*": 1.1, "b*": 1.1}}, "facts": {"a": (20,)}},
        [("code", "open", 20, 8)],
    ),
    "a slower driver of one card, and code that makes the other faster": (
        {"changes": {20: {"a*": 1.1, "b*": 0.9}}, "facts": {"a": (20,)}},
        [("code", "open", 20, 4), ("machine", "open", 20, 4)],
    ),
    "recovered": (
        {"changes": {20: {"a*": 1.1, "b*": 1.1}, 35: {"a*": 1 / 1.1, "b*": 1 / 1.1}}},
        [("code", "recovered", 20, 8)],
    ),
    "reverted": (
        {"changes": {20: {"a*": 1.1}, 35: {"a*": 1 / 1.1}}, "reverts": {35: 20}},
        [("code", "reverted", 20, 4)],
    ),
    "another commit was reverted": (
        {"changes": {20: {"a*": 1.1}, 35: {"a*": 1 / 1.1}}, "reverts": {35: 8}},
        [("code", "recovered", 20, 4)],
    ),
    "a gain that was lost again is an event": (
        {"changes": {20: {"a*": 0.9}, 35: {"a*": 1 / 0.9}}},
        [("code", "open", 35, 4), ("code", "recovered", 20, 4)],
    ),
    "approved": ({"changes": {20: {"a*": 1.1}}, "levels": [APPROVED]}, [("code", "approved", 20, 4)]),
    "slower twice, and back at once": (
        {"changes": {20: {"a*": 1.08}, 28: {"a*": 1.11}, 38: {"a*": 1 / 1.2}}},
        [("code", "recovered", 28, 4), ("code", "recovered", 20, 4)],
    ),
    "slower twice, and faster than ever": (
        {"changes": {20: {"a*": 1.08}, 28: {"a*": 1.11}, 38: {"a*": 0.7}}},
        [("code", "open", 38, 4), ("code", "open", 28, 4), ("code", "open", 20, 4)],
    ),
    "a faster driver hides a change": (
        {"changes": {20: {"a*": 1.1}, 35: {"a*": 1 / 1.1}}, "facts": {"a": (35,)}},
        [("machine", "open", 35, 4), ("code", "open", 20, 4)],
    ),
    "a faster driver of one card, and both came back": (
        {"changes": {20: {"a*": 1.1, "b*": 1.1}, 35: {"a*": 1 / 1.1, "b*": 1 / 1.1}}, "facts": {"a": (35,)}},
        [("code", "recovered", 20, 8)],
    ),
    "a faster driver beside a revert": (
        {"changes": {20: {"a*": 1.1}, 35: {"a*": 1 / 1.1}}, "facts": {"a": (35,)}, "reverts": {35: 20}},
        [("machine", "open", 35, 4), ("code", "reverted", 20, 4)],
    ),
    "a revert after a faster driver": (
        {
            "changes": {20: {"a*": 1.1}, 30: {"a*": 1 / 1.1}, 41: {"a*": 1 / 1.1}},
            "facts": {"a": (30,)},
            "reverts": {41: 20},
        },
        [("machine", "open", 30, 4), ("code", "open", 41, 4), ("code", "reverted", 20, 4)],
    ),
    "a faster driver after a slower one": (
        {"changes": {20: {"a*": 1.1}, 35: {"a*": 1 / 1.1}}, "facts": {"a": (20, 35)}},
        [("machine", "recovered", 20, 4)],
    ),
}


@pytest.mark.parametrize(("given", "expected"), CASES.values(), ids=CASES)
def test_what_is_one_event(given: dict[str, object], expected: list[tuple[str, str, int, int]]) -> None:
    found = events_of(history(**given))  # type: ignore[arg-type]
    assert sorted(map(short, found)) == sorted(expected)


@pytest.mark.parametrize("seed", range(3))
def test_ids_stay_when_runs_are_added(seed: int) -> None:
    changes = {18: {"a*": 1.06, "b2": 1.06}, 33: {"b*": 1.1}}
    told: dict[str, int] = {}
    for runs in range(15, RUNS + 1):
        for event in events_of(history(changes, runs=runs, seed=seed)):
            told.setdefault(event.id, int(event.likely.id[1:]))
    assert sorted(told.values()) == [18, 33]


@pytest.mark.parametrize("runs", [5, 6, 8])
def test_a_level_of_few_runs_ends_with_its_revert(runs: int) -> None:
    """No series has a lasting change, but the event was told while it was there."""
    changes = {20: {"a*": 1.08}, 20 + runs: {"a*": 1 / 1.08}}
    [was] = events_of(history(changes, runs=20 + runs))
    for reverts, state in (({20 + runs: 20}, "reverted"), ({}, "recovered")):
        [event] = events_of(history(changes, reverts=reverts))
        assert event.ended
        assert (event.id, event.state, event.ended.commit) == (was.id, state, sha(20 + runs))


def test_an_event_has_its_range_its_facts_and_its_intervals() -> None:
    (event,) = events_of(history({20: {"a*": 1.1}}, facts={"a": (20,)}))
    assert (event.last_good.commit, event.first_bad.commit, event.commits) == (sha(19), sha(20), 1)
    assert event.facts == (("driver", "570.86", "580.65"),)
    assert all(one.low < 0.1 < one.high and one.worse for one in event.changes)
    sizes = [abs(one.change) for one in event.changes]
    assert sizes == sorted(sizes, reverse=True)


def test_a_run_that_is_measured_late_changes_no_id() -> None:
    runs = [HistoryRun(str(i), at(i), sha(i)) for i in range(20)]
    runs[7] = replace(runs[7], time=at(40))
    assert in_time(runs).tolist() == [i for i in range(20) if i != 7]


@pytest.mark.parametrize(
    ("panel", "first", "last", "distance"),
    [
        # a change point in these rows, beside a step of panel 0 in rows 18 to 22, the commits between 17 and 22
        (0, 20, 20, 3.0),
        (0, 27, 30, 3.0),
        (0, 28, 30, -1),
        (0, 10, 13, 3.0),
        (0, 10, 12, -1),
        (1, 28, 30, 3.5),  # of another environment the commits count, not the rows
    ],
)
def test_a_change_point_belongs_to_a_step_at_most_five_rows_away(
    panel: int, first: int, last: int, distance: float
) -> None:
    step = PanelStep(26, 20, 18, 22, np.array([5.0]))
    run = HistoryRun("r26", at(26), sha(26))
    group = EventGroup([FoundStep(0, step, run, at=20.0, low=17.0, high=22.0, sign=1, machine=False)], 17.0, 22.0)
    nothing: Any = None
    moved = MovedSeries(nothing, nothing, column=0, row=first, first=first, last=last)
    assert group.away(panel, moved, 23.0, 21.0, 23.0) == distance
    assert EventGroup(group.steps, 17.0, 21.0).away(1, moved, 23.0, 21.0, 23.0) == -1


def test_steps_of_a_panel_do_not_depend_on_later_runs() -> None:
    rng = np.random.default_rng(3)
    values = 0.02 * rng.standard_normal((120, 6))
    values[40:, :3] += 0.06
    values[80:, 4] -= 0.15
    values[rng.random(values.shape) < 0.05] = np.nan
    whole = panel_steps(values)
    assert [abs(step.index - at) <= 1 for step, at in zip(whole, (40, 80), strict=True)] == [True, True]
    for end in range(1, 121):
        early = panel_steps(values[:end])
        assert [(s.seen, s.index, s.first, s.last) for s in early] == [
            (s.seen, s.index, s.first, s.last) for s in whole if s.seen < end
        ]


def test_a_stall_is_no_step() -> None:
    values = 0.02 * np.random.default_rng(3).standard_normal((60, 6))
    values[30] += 3.0
    values[45:47] += 0.5
    assert panel_steps(values) == ()


@pytest.fixture
def team(folder: Path) -> list[str]:
    """A repository and a store with a slower commit on both cards, and a new driver of one."""
    with patch("os.fsync"):
        commits = repository(folder)
        changes = {20: {"a*": 1.1, "b*": 1.08}, 34: {"b*": 1.2}}
        for card in "ab":
            for i, row in enumerate(numbers(card, changes).tolist()):
                values = tuple(value(f"m{j}", number) for j, number in enumerate(row))
                context = {"driver": "580.65" if card == "b" and i >= 34 else "570.86"}
                run = HistoryRun(f"{card}{i}", at(i), commits[i], "main", context=context)
                assert add(store_at(folder), HistoryRecord("gpt", {"gpu": card}, run, values))
    return commits


def repository(folder: Path) -> list[str]:
    """A commit for each run, each with the same hash whenever it is made."""
    stream = []
    for i in range(RUNS):
        subject = "Use rotary embeddings" if i == 20 else f"Change {i}"
        who = f"bob <bob@example.org> {1767225600 + 3600 * i} +0000"
        stream.append(f"commit refs/heads/main\ncommitter {who}\ndata {len(subject)}\n{subject}\n")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    subprocess.run(["git", "fast-import", "--quiet"], cwd=folder, input="".join(stream).encode(), check=True)
    listed = subprocess.run(["git", "rev-list", "--reverse", "main"], cwd=folder, capture_output=True, check=True)
    return listed.stdout.decode().split()


def test_the_command_prints_a_block_for_each_event(team: list[str], folder: Path, perfgate: Command) -> None:
    rules = "version: 1\nsuite: gpt\nrules:\n  - {assert: m0 within 5% of baseline, owner: '@kernels'}\n"
    (folder / "rules").mkdir(exist_ok=True)
    (folder / "rules/rules.yaml").write_text(rules)
    done = perfgate("history", "events", "--all")
    assert (done.code, done.err) == (0, "")
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.write_text(done.out, encoding="utf-8")
    assert done.out == GOLDEN.read_text(encoding="utf-8"), "UPDATE_GOLDEN=1 writes it anew"


def test_the_json_has_its_schema(team: list[str], perfgate: Command) -> None:
    found = json.loads(perfgate("history", "events", "--json").out)
    jsonschema.validate(found, json.loads((FOLDER / "history-events.schema.json").read_text(encoding="utf-8")))
    assert [(one["kind"], one["commits"], len(one["changes"])) for one in found["events"]] == [
        ("machine", 1, 4),
        ("code", 1, 8),
    ]
    machine, code = (one["id"] for one in found["events"])
    first, second = sorted({one["environment"] for event in found["events"] for one in event["changes"]})
    for place, ids in ((first, [code]), (second, [machine, code])):
        own = json.loads(perfgate("history", "events", "--json", "--environment", place).out)
        assert [one["id"] for one in own["events"]] == ids
    assert perfgate("history", "events", "--environment", "none").code == 3


def test_the_page_and_the_exports_have_the_events(team: list[str], folder: Path, perfgate: Command) -> None:
    said = perfgate("history", "report").out
    assert said.endswith("KiB): 2 changes (8 metrics) for the worse, and nobody approved it\n")
    page = (folder / "history.html").read_text(encoding="utf-8")
    assert "and 7 more metrics since" in page
    assert 'perfgate_event_seconds{event="' in perfgate("history", "export", "--format", "openmetrics").out


def test_bisect_takes_range_and_metric_of_an_event(team: list[str], perfgate: Command) -> None:
    machine, code = (one["id"] for one in json.loads(perfgate("history", "events", "--json").out)["events"])
    for words, why in (
        (("--event", "ffffffff"), "--event ffffffff: the history has"),
        (("--event", machine), "bisect searches commits, and these are not the cause"),
        (("--event", code), f"the history names the commit already: {team[20][:10]} (bob: Use rotary embeddings)"),
        (("--event", code, "--metric", "m0"), "--event gives metric and range"),
    ):
        done = perfgate("bisect", *words, "--", "true")
        assert (done.code in (0, 2, 3), why in done.err) == (True, True), done.said
