"""From the trees of both sides to findings and causes: what is looked for, in which order, and what a report has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from made_alignments import ADD, ROWS, Row, aligned, finding, kinds_of, noiseless
from made_trees import tree
from msgspec.structs import replace

from perfgate.causes import find as module
from perfgate.causes.align import Finding
from perfgate.causes.find import _grouped_findings, find_causes
from perfgate.causes.noise import SeriesNoise
from perfgate.causes.paired import PairNoise
from perfgate.core import NO_STEP, Location, RelativeChange, Verdict
from perfgate.core.call_trees import CallTree
from perfgate.core.causes import CauseReport
from perfgate.core.verdicts import Outcome

# --- from findings to a report ---------------------------------------------------------------------------------------

#: A step of 200 s: a change of 0.8 s, or calls that came or went with 0.4 s, are a cause.
BASE = {"forward": 50.0, "mm": 50.0, "backward": 100.0}
NEW = {"forward": 60.0, "mm": 50.0, "backward": 90.0}
FORWARD, MM, BACKWARD, EXTRA = 1, 2, 3, 4


def verdict(metric: str, outcome: Outcome = "fail") -> Verdict:
    """A verdict about a metric that rose by 10 %."""
    return Verdict(
        *(f"{metric} within 5% of baseline", metric, {}, "median", outcome, "interval", "error", 1, "change", "s", ""),
        *(NO_STEP, Location("rules.yaml", 3)),
        against="baseline",
        change=RelativeChange(0.1, None, None),
    )


def side(times: Mapping[str, float], *, is_timed: bool = False) -> list[tuple[CallTree, ...]]:
    """One run of four alike steps; with `is_timed`, from timers."""
    nodes = len(times) + 1
    if is_timed:
        return [(tree(times, counts=[[1.0]] * nodes, error=[0.0] * nodes),)]
    return [(tree({name: [time] * 4 for name, time in times.items()}, counts=[[1.0] * 4] * nodes),)]


def reported(monkeypatch: pytest.MonkeyPatch, findings: Sequence[Finding], **options: Any) -> CauseReport:
    """The report about these findings."""
    monkeypatch.setattr(module, "_grouped_findings", lambda *_, **__: (list(findings), ["a note"]))
    return find_causes(side(BASE), side(NEW), **options)


APPEARED, VANISHED = finding("appeared", 0.01, FORWARD, come=(FORWARD,)), finding("vanished", -0.05, MM, gone=(MM,))
SLOWER, LARGE = finding("slower", 0.1, BACKWARD), finding("slower", 5.0, BACKWARD)
SMALL = [APPEARED, VANISHED, SLOWER]
WORK: list[tuple[list[Finding], list[Verdict], list[str]]] = [
    (SMALL, [], []),
    (SMALL, [verdict("work.launches")], ["mm"]),
    (SMALL, [verdict("work")], ["mm"]),
    (SMALL, [verdict("forward", "pass"), verdict("work")], ["mm"]),
    (SMALL, [verdict("work", "pass")], []),
    (SMALL, [verdict("work", "undecided")], []),
    (SMALL, [verdict("forward")], []),
    (SMALL, [verdict("forward"), verdict("work", "pass")], []),
    (SMALL, [verdict("worker_time")], []),
    ([SLOWER], [verdict("work")], []),
    ([*SMALL[:2], LARGE], [verdict("work")], ["backward"]),
    ([*SMALL[:2], LARGE], [], ["backward"]),
]


@pytest.mark.parametrize(("findings", "verdicts", "places"), WORK)
def test_failed_exact_work_has_a_cause_however_small(
    monkeypatch: pytest.MonkeyPatch, findings: list[Finding], verdicts: list[Verdict], places: list[str]
) -> None:
    report = reported(monkeypatch, findings, verdicts=verdicts)
    assert [one.where[-1] for one in report.causes] == places
    assert report.notes == ("a note",)


def test_only_edits_of_traces_have_the_error_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "with_host_error", lambda found, _: replace(found, error=found.error + 1))
    groups = [finding("more calls", 9.0, FORWARD, come=(FORWARD,)), LARGE]
    report = reported(monkeypatch, groups)
    assert [(one.kind, one.high > one.change_per_step) for one in report.causes] == [
        ("more calls", True),
        ("slower", False),
    ]
    for sides, paired in (
        ((side(BASE, is_timed=True), side(NEW, is_timed=True)), False),
        ((side(BASE), side(NEW)), True),
    ):
        report = find_causes(*sides, paired=paired)
        assert [one.high > one.change_per_step for one in report.causes] == [False, False]


@pytest.mark.parametrize("timed", [(False, False), (False, True), (True, False), (True, True)])
def test_timers_that_one_side_lacks_are_not_drawn(monkeypatch: pytest.MonkeyPatch, timed: tuple[bool, bool]) -> None:
    """Calls that only one side makes are drawn, and so are the timers of causes."""
    sides = side(BASE, is_timed=timed[0]), side({**NEW, "extra": 20.0}, is_timed=timed[1])
    for groups in ([], [finding("appeared", 20.0, EXTRA, come=(EXTRA,))]):
        monkeypatch.setattr(module, "_grouped_findings", lambda *_, groups=groups, **__: (groups, []))
        names = [place.name for place in find_causes(*sides).tree]
        assert ("extra" in names) is (not any(timed) or groups != [])


def test_a_report_explains_verdicts_and_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = [finding("slower", 10.0, FORWARD)]
    asked = [verdict("forward"), verdict("share")]
    plain = reported(monkeypatch, groups, verdicts=asked, metrics=["forward", "mm", "nothing"])
    assert [len(one.verdicts) for one in plain.causes] == [1]
    assert plain.explained == ("forward",)
    derived = reported(monkeypatch, groups, verdicts=asked, components={"share": ["forward"]})
    assert [len(one.verdicts) for one in derived.causes] == [2]
    assert derived.explained == ()


def test_a_side_on_another_device_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []

    def grouped(*_: Any, other_device: bool) -> tuple[list[Finding], list[str]]:
        told.append(other_device)
        return [], []

    monkeypatch.setattr(module, "_grouped_findings", grouped)
    find_causes(side(BASE), side(NEW))
    find_causes(side(BASE), side(NEW), other_device=True)
    assert told == [False, True]


# --- the findings of traces and of timers -----------------------------------------------------------------------------


def test_a_side_without_times_has_findings_and_two_have_none() -> None:
    sizes = [Row("forward", "range", 0, 0.0, 0.0), Row("topk", "operator", 1, 0.0, 0.0, (0, 1))]
    empty = aligned(sizes)
    assert _grouped_findings(empty, noiseless(empty), other_device=False) == ([], [])
    one = aligned([*sizes[:1], Row("topk", "operator", 1, 0.0, 5.0, (0, 1))])
    for alignment, kind in ((one, "appeared"), (replace(one, base=one.new, new=one.base), "vanished")):
        found, _ = _grouped_findings(alignment, noiseless(alignment), other_device=False)
        assert kinds_of(found) == {2: kind}


def test_the_findings_of_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    slower, alignment = finding("slower", 20.0, ADD), aligned(ROWS)
    monkeypatch.setattr(module, "find_in_series", lambda *_: ([slower], ["a note"]))
    noise = SeriesNoise(alignment)
    assert _grouped_findings(alignment, noise, other_device=False) == ([slower], ["a note"])
    other = _grouped_findings(alignment, noise, other_device=True)
    assert other == ([slower], ["a note", "the two sides ran on different devices"])


def test_a_note_says_that_the_host_of_traces_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "note_of", lambda _, step: [f"a step of {step:g} s"])
    alignment = aligned(ROWS)
    assert _grouped_findings(alignment, noiseless(alignment), other_device=False)[1] == ["a step of 140 s"]
    assert _grouped_findings(alignment, PairNoise(alignment), other_device=False)[1] == []
