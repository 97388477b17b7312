"""Levels of one environment: what is compared with, at a cost that grows with their number and no faster."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from perfgate.baselines.files import BaselineFile, StoredLevel, StoredSeries
from perfgate.baselines.levels import History, StoredRun

#: Levels, oldest first: what each adopts, whether it is an anchor, and the metrics of its one run.
Levels = Sequence[tuple[str, bool, str]]


def stored(number: int, adopts: str, *, anchor: bool, metrics: str) -> StoredRun:
    level = StoredLevel(
        f"l{number}", f"l{number - 1}" if number else None, anchor=anchor, adopts=adopts.split(), reason="why"
    )
    rows = [StoredSeries(name, "s", "value", values=[1.0]) for name in metrics.split()]
    file = BaselineFile("", "", "s", f"{number:06d}", None, level, "", {}, {}, "", [], rows)
    return StoredRun.of(f"s/e/l{number}/r.json", file)


def history(levels: Levels) -> History:
    return History.of(stored(i, adopts, anchor=anchor, metrics=held) for i, (adopts, anchor, held) in enumerate(levels))


@pytest.mark.parametrize(
    ("levels", "anchor", "compared"),
    [
        ([("", True, "a b")], {0: "ab"}, {0: "ab"}),
        ([("", True, "a b"), ("", False, "a b")], {0: "ab"}, {1: "ab"}),
        ([("", True, "a"), ("", False, "a b")], {0: "a", 1: "b"}, {1: "ab"}),  # b has its first runs later
        ([("", True, "a b"), ("a", False, "a b")], {0: "ab"}, {0: "b", 1: "ab"}),
        ([("", True, "a b"), ("a", True, "a b")], {0: "b", 1: "a"}, {0: "b", 1: "ab"}),  # the anchor of a moved
        ([("", True, "a b"), ("", True, "a"), ("", False, "a b")], {1: "a", 2: "b"}, {2: "ab"}),
        ([("", True, "a b"), ("a", True, "b"), ("", False, "a")], {0: "b", 2: "a"}, {2: "a"}),
        ([("", False, "a"), ("", False, "a")], {}, {1: "a"}),  # no anchor at all
    ],
)
def test_what_the_newest_level_is_compared_with(
    levels: Levels, anchor: dict[int, str], compared: dict[int, str]
) -> None:
    found = history(levels)
    (head,) = found.heads()
    for runs, expected in ((found.anchor(head), anchor), (found.compared(head), compared)):
        seen = {
            int(run.stored.path.split("/")[2][1:]): "".join(
                sorted(run.stored.names if run.metrics is None else run.metrics)
            )
            for run in runs
        }
        assert seen == expected


def test_a_long_history_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    count, calls = 1_000, 0
    found = history([("", i == 0, "a b") for i in range(count)])
    known = History.level

    def level(self: History, name: str) -> StoredLevel:
        nonlocal calls
        calls += 1
        return known(self, name)

    monkeypatch.setattr(History, "level", level)
    for name in found.levels:
        assert [run.stored.path for run in found.anchor(name)] == ["s/e/l0/r.json"]
        assert len(found.compared(name)) == 1
    assert calls < 5 * count
