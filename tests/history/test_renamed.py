"""Metrics with a new name: proposed where one ended and a similar one began, and joined if the rules say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, write_rules
from histories import record, steps, store_at, value
from msgspec.structs import replace

from perfgate.core import Key
from perfgate.core.remembered_runs import HistoryValue, SeriesName
from perfgate.history.load import load
from perfgate.history.store import add

Command = Callable[..., Done]


@pytest.fixture
def team(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A metric that was renamed at run 12, and is slower from run 18 on; `loss` ended, and is not `forward`."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    store = store_at(folder)
    for i, time in enumerate(steps((18, 0.1), (8, 0.11), noise=0.002)):
        add(store, record(i, {"fwd_time": time, "loss": 3.0} if i < 12 else {"forward": time}))
    return folder


def test_a_rename_is_proposed(team: Path) -> None:
    (place,) = load(store_at(team)).environments
    assert place.notes == (
        "fwd_time ended where forward began, with a similar value: if it was renamed, write "
        "`renames: {fwd_time: forward}` in the rules",
    )
    assert [(str(one.name), len(one.runs), one.missing_since) for one in place.series] == [
        ("forward median", 14, 0),
        ("fwd_time median", 12, 14),
        ("loss median", 12, 14),
    ]


def test_the_rules_join_both_names(team: Path, perfgate: Command) -> None:
    write_rules(team, "forward within 5% of baseline", head="renames: {fwd_time: forward}\n")
    shown = perfgate("history", "forward")
    assert (shown.code, "26 runs, level" in shown.out, "1 lasting change" in shown.out) == (0, True, True)
    assert perfgate("history", "fwd_time").out == shown.out
    listed = perfgate("history", "show").out
    assert "fwd_time" not in listed
    assert "renames" not in listed


def test_a_run_with_both_names_counts_once(team: Path) -> None:
    add(store_at(team), record(30, {"fwd_time": 0.5, "forward": 0.11}))
    (series,) = load(store_at(team), metric="forward", renames={"fwd_time": "forward"}).series
    assert (len(series.runs), series.values[-1]) == (27, 0.11)


@pytest.mark.parametrize("renames", [{"a": "b", "b": "c"}, {"b": "a", "a": "c"}])
def test_of_several_names_in_one_run_the_newest_counts(folder: Path, renames: dict[str, str]) -> None:
    store = store_at(folder)
    add(store, record(0, {"a": 1.0, "b": 2.0, "c": 3.0}))
    add(store, record(1, {"a": 1.0, "b": 2.0}))
    (series,) = load(store, renames=renames).series
    assert series.values.tolist() == [3.0, 2.0 if renames["b"] == "c" else 1.0]


def test_a_rename_is_proposed_once_and_only_for_the_same_labels(folder: Path) -> None:
    store = store_at(folder)

    def numbers(metric: str, phase: str) -> tuple[HistoryValue, ...]:
        names = [SeriesName(Key.of(metric), one) for one in ("median", "p95")]
        names.append(SeriesName(Key.of("step", phase=phase), "median"))
        return tuple(replace(value(metric, 1.0), name=name) for name in names)

    for i in range(10):
        add(store, replace(record(i, {}), values=numbers("old", "x") if i < 5 else numbers("new", "y")))
    (place,) = load(store).environments
    assert [note.split(",")[0] for note in place.notes if " ended where " in note] == ["old ended where new began"]


@pytest.mark.parametrize("renames", [{"a": "b", "b": "a"}, {"a": "a"}])
def test_a_circle_of_names_ends(team: Path, renames: dict[str, str]) -> None:
    assert len(load(store_at(team), renames=renames).series) == 3


def test_a_mistake_in_renames_names_its_place(team: Path, perfgate: Command) -> None:
    write_rules(team, "forward within 5% of baseline", head="renames: [fwd_time]\n")
    done = perfgate("history", "forward")
    assert (done.code, "rules/rules.yaml:2:" in done.err) == (2, True)
