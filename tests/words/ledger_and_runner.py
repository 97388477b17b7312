"""The sentences of the error ledger and of runners; one case for each branch."""

from __future__ import annotations

from collections.abc import Iterator

from said import Said, say

from perfgate.core.history_events import RuleRecord
from perfgate.core.runner import Figure, Qualification, RunnerChange
from perfgate.words import beside, history_words


def of_the_ledger() -> Iterator[Said]:
    """Yield the words of words/history_words about the ledger."""
    for case, record in {
        "": RuleRecord(213, 1, 0, 12, 0.022),
        "both": RuleRecord(20, 2, 1, 1, 0.32),
        "never": RuleRecord(59, 0, 0, 0, 0.0495),
        "unknown": RuleRecord(0, 0, 0, 7, 1.0),
    }.items():
        yield say(history_words.rule_record, case, record)


def of_runners() -> Iterator[Said]:
    """Yield the words of words/beside."""
    known = Qualification("s", "t", "gpu-07", "2026-11-20T09:00:00Z", {}, {})
    width = RunnerChange("pcie_width", 16, 8)
    slow = RunnerChange("memory of GPU 0", 3.2e12, 1.9e12, "B/s", -0.406)
    yield say(beside.figure, "", "memory", Figure(9.1e10, "B/s"))
    yield say(beside.figure, "clock", "clock under load of GPU 0", Figure(1.755e9, "1/s"))
    for change in (width, slow, RunnerChange("mig", "off", "on"), RunnerChange("power_cap_w", 700, "500 + 700")):
        yield say(beside.runner_change, change.name, change)
    yield say(beside.compared_with, "own", "gpu-07", [known])
    yield say(beside.compared_with, "kind", "gpu-99", [known, known])
    yield say(beside.not_as_it_was, "", "gpu-07", [known], [width, slow])
