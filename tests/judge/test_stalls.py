"""Stalled steps of a trace: they move no middle, they are counted, and they count if they are the program's."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from perfgate.analysis.advice import advise
from perfgate.analysis.plan import plans
from perfgate.analysis.proposals import about
from perfgate.analysis.tolerances import Fit, Trial
from perfgate.core import Baseline, Key, Run, Series, Verdict, read_only
from perfgate.core.advice import Advice, StepTime
from perfgate.judge.evidence import Case
from perfgate.judge.stalls import STALL_METRICS, with_stalls
from perfgate.judge.verdicts import judge
from perfgate.rules.load import load_rules
from perfgate.workspace.starter_files import rule_file

_USUAL = (30.1, 30.2, 29.9, 30.0)
_STALLED = (30.1, 93.0, 30.2, 30.0)


def _series(metric: str, unit: str, values: Any, *, has_steps: bool = True) -> Series:
    steps = read_only(np.arange(len(values))) if has_steps else None
    return Series(Key(metric), unit, "samples", read_only(np.array(values, np.float64)), steps)


def _trace(times: Any, ops: Any = None, source: str = "run", **more: Any) -> Run:
    """A trace with these times of steps in ms; a range takes a third of each step, in two calls."""
    seconds = np.array(times) / 1000
    series = (
        _series("step.time", "s", seconds),
        _series("range.forward", "s", np.repeat(seconds / 6, 2), has_steps=False),
        _series("work.device_time", "s", seconds),
        _series("work.ops", "count", ops or [100] * len(times)),
    )
    return Run(source, more.get("format", "torch-trace"), series)


def _ask(rule: str, base: list[Run], new: list[Run]) -> Verdict:
    text = f"version: 1\nsuite: s\nrules:\n  - {rule}\n"
    rules, _ = load_rules([("r.yaml", text.encode())])
    (verdict,) = judge(Case(rules, tuple(new), Baseline(place="s", runs=tuple(base)), date(2026, 1, 1)))
    return verdict


def _base(*second: Any) -> list[Run]:
    times = [_USUAL, *(second or (_STALLED, _USUAL))]
    return [_trace(one, source=f"b{at}") for at, one in enumerate(times)]


def _change(rule: str, base: list[Run], new: list[Run]) -> float:
    change = _ask(rule, base, new).change
    assert change is not None
    assert change.estimate is not None
    return change.estimate


@pytest.mark.parametrize("metric", ["step.time", "range.forward"])
@pytest.mark.parametrize("statistic", ["mean", "median", "trimmed_mean"])
def test_a_stalled_step_moves_no_middle(metric: str, statistic: str) -> None:
    verdict = _ask(f"{metric} {statistic} within 5% of baseline", _base(), [_trace(_STALLED)])
    assert verdict.outcome == "pass"
    assert verdict.change is not None
    assert abs(verdict.change.estimate or 1.0) < 0.005
    assert f"left out: {2 if metric == 'step.time' else 4} values of steps that stalled" in verdict.notes


def test_stalled_steps_of_stored_runs_widen_no_plan_and_no_proposed_tolerance() -> None:
    rules, _ = load_rules([("r.yaml", b"version: 1\nsuite: s\nrules:\n  - step.time within 5% of baseline\n")])
    (plan,) = plans(Case(rules, (), Baseline(place="s", runs=tuple(_base())), date(2026, 1, 1)))
    assert plan.runs_needed == 1
    assert (plan.fails_from or 1.0) < 0.08
    fit = Trial.of(_base(), {"step.time"}, date(2026, 1, 1)).fitted(about("step.time"))
    assert isinstance(fit, Fit)
    assert fit.tolerance == 3


def test_init_compares_the_time_of_steps_although_one_stalled_and_promises_less_of_it() -> None:
    (rule,) = [one for one in advise(_base(), date(2026, 1, 1)).rules if one.subject == "step.time median"]
    assert (rule.tolerance, rule.at_worst) == (8, 24)
    assert rule_file("s", Advice((rule,), (), StepTime("step.time"), 3)).endswith(
        "  - assert: step.time within 8% of baseline\n    at_worst: 24%\n"
    )


def test_a_limit_on_a_middle_leaves_it_out_and_one_on_the_largest_step_does_not() -> None:
    assert _ask("step.time mean under 40 ms", [], [_trace(_STALLED)] * 3).outcome == "pass"
    assert _ask("step.time max under 40 ms", [], [_trace(_STALLED)]).outcome == "fail"


@pytest.mark.parametrize("statistic", ["max", "total", "p95"])
def test_what_sees_the_whole_run_sees_the_stall(statistic: str) -> None:
    assert _change(f"step.time {statistic} within 5% of baseline", _base(_USUAL), [_trace(_STALLED)]) > 0.3


def test_steps_with_more_work_are_no_stalls() -> None:
    more = _trace(_STALLED, ops=[100, 300, 100, 100])
    assert _change("step.time mean within 5% of baseline", _base(), [more]) > 0.4


def test_steps_that_stall_clearly_more_often_than_those_of_the_base_count() -> None:
    often = [_trace(_STALLED, source=f"n{at}") for at in range(3)]
    assert _change("step.time mean within 5% of baseline", _base(_USUAL, _USUAL), often) < 0.01  # 3 of 12: chance
    base = _base(*[_USUAL] * 9)
    assert _change("step.time mean within 5% of baseline", base, often) > 0.4


def test_the_time_of_the_device_is_that_of_all_steps() -> None:
    assert _change("work.device_time mean within 5% of baseline", _base(_USUAL), [_trace(_STALLED)]) > 0.4


def test_the_first_step_of_a_trace_is_no_warm_up() -> None:
    first = (45.0, 30.0, 30.1, 30.0)
    verdict = _ask("step.time max within 5% of baseline", _base(_USUAL), [_trace(first)])
    assert [run.dropped for run in verdict.runs] == [0, 0, 0]
    slow = [_trace((38.0, 30.0, 30.1, 30.0), source=f"b{at}") for at in range(3)]
    assert [run.n for run in _ask("step.time mean within 5% of baseline", slow, slow[:1]).runs] == [3, 3, 3, 3]


def test_other_formats_and_runs_without_their_calls_keep_every_value() -> None:
    logs = [_trace(_STALLED, format="perfgate.results/1")]
    assert _change("step.time mean within 5% of baseline", _base(_USUAL), logs) > 0.4
    without = [Run("old", "torch-trace", _trace(_USUAL).series[:1]) for _ in range(3)]
    assert _change("step.time mean within 5% of baseline", without, [_trace(_STALLED)]) > 0.4


def _log(times: Any, source: str) -> Run:
    return Run(source, "perfgate.results/1", (_series("step.time", "s", np.array(times) / 1000),))


def test_the_mean_of_a_log_says_how_many_of_its_values_are_stalls_and_what_is_left_without_them() -> None:
    """A log does not tell which steps did more work, so its mean includes them, and stalls move it by chance."""
    usual = [100.0 + 0.1 * (i % 7) for i in range(60)]

    def log(stalls: int, source: str) -> Run:
        return _log([one * (8 if 20 <= i < 20 + stalls else 1) for i, one in enumerate(usual)], source)

    base = [log(1, f"b{at}") for at in range(3)]
    verdict = _ask("step.time mean within 5% of baseline", base, [log(3, "new")])
    said = "twice as slow as the median: 3 of 59 new values, 3 of 177 base values; without them the mean changes by "
    assert [note[: len(said)] for note in verdict.notes if note.startswith("twice")] == [said]
    assert _ask("step.time within 5% of baseline", base, [log(3, "new")]).outcome == "pass"
    quiet = _ask("step.time mean within 5% of baseline", [log(0, f"b{at}") for at in range(3)], [log(0, "new")])
    assert not any(note.startswith("twice") for note in quiet.notes)


def test_a_base_of_zero_has_no_relative_change_without_its_stalls() -> None:
    new = [_log([1.0] * 27 + [5.0, 1.0, 1.0], "new")]
    verdict = _ask("step.time mean within 2 ms of baseline", [_log([0.0] * 30, f"b{at}") for at in range(3)], new)
    assert not any(note.startswith("twice") for note in verdict.notes)


# --- the marks themselves --------------------------------------------------------------------------------------------

_NONE, _SECOND = [False] * 4, [False, True, False, False]


def _ranks(*times: Any, ops: Any = (100,) * 4, calls: str = "work.ops", source: str = "run") -> Run:
    """A trace with the times of steps in s of each rank, and the counts of one kind of calls."""
    rows = [(f"{at}", "step.time", "s", own) for at, own in enumerate(times)] + [("0", calls, "count", ops)]
    series = (
        Series(Key.of(metric, rank=rank), unit, "samples", read_only(np.array(values, np.float64)), _from_seven(values))
        for rank, metric, unit, values in rows
    )
    return Run(source, "torch-trace", tuple(series))


def _from_seven(values: Any) -> Any:
    """The steps of a trace that begins at step 7."""
    return read_only(7 + np.arange(len(values)))


def _at(steps: list[int]) -> Series:
    """A series in s with a value at each of these steps."""
    return replace(_series("x", "s", [1.0] * len(steps), has_steps=False), steps=read_only(np.array(steps)))


def _with(run: Run, *series: Series) -> Run:
    return replace(run, series=(*run.series, *series))


def _marks(run: Run, metric: str = "step.time") -> list[Any]:
    """The marks of each series of a metric."""
    return [None if one.stalled is None else one.stalled.tolist() for one in run.series if one.key.metric == metric]


def _marked(new: Run, base: Run, anchor: tuple[Run, ...] = (), metric: str = "step.time") -> list[list[Any]]:
    """The marks of the new run, of the stored run and of the anchor."""
    judged, baseline = with_stalls((new,), Baseline(place="s", runs=(base,), anchor=anchor))
    return [_marks(run, metric) for run in (*judged, *baseline.runs, *baseline.anchor)]


_CALM, _STALL = _ranks(_USUAL), _ranks(_STALLED)
_BARE = _ranks(_USUAL, ops=(100,) * 3)  # as many counts as steps are needed
MARKED: list[tuple[Run, Run, tuple[Run, ...], list[list[Any]]]] = [
    # new, stored and anchor, and the marks of each
    (_STALL, _CALM, (), [[_SECOND], [_NONE]]),
    (_CALM, _STALL, (), [[_NONE], [_SECOND]]),
    (_STALL, _CALM, (_STALL,), [[_SECOND], [_NONE], [_SECOND]]),
    (_STALL, _CALM, (_BARE,), [[_SECOND], [_NONE], [_NONE]]),
    (_STALL, _BARE, (), [[_NONE], [_NONE]]),
    (_BARE, _STALL, (), [[_NONE], [_NONE]]),
    (_BARE, _STALL, (_STALL,), [[_NONE], [_NONE], [_NONE]]),
    # each kind of call of the host shows the steps
    *(
        (_ranks(_STALLED, calls=f"work.{one}"), _CALM, (), [[_SECOND], [_NONE]])
        for one in ("launches", "graph_launches")
    ),
    (_ranks(_STALLED, calls="work.kernels"), _CALM, (), [[_NONE], [_NONE]]),
    (_ranks(_STALLED, ops=(100, 101, 100, 100)), _CALM, (), [[_NONE], [_NONE]]),
    # a step is as long as on its slowest rank, and is marked on all
    (_ranks(_USUAL, _STALLED), _CALM, (), [[_SECOND, _SECOND], [_NONE]]),
    # other ranks with the same steps, but not as many values of it
    (_with(_STALL, _series("step.time", "s", [30.0] * 3)), _CALM, (), [[_NONE, [False] * 3], [_NONE]]),
]


@pytest.mark.parametrize(("new", "base", "anchor", "marks"), MARKED)
def test_the_steps_that_are_marked(new: Run, base: Run, anchor: tuple[Run, ...], marks: list[list[Any]]) -> None:
    assert _marked(new, base, anchor) == marks


_TWICE = [one for one in _SECOND for _ in range(2)]
#: A series of a trace whose second step stalls, and its marks; with the counts of calls of each step.
SERIES: list[tuple[Series, Any, Any]] = [
    (_at([7, 8, 9, 10]), (100,) * 4, _SECOND),
    (_at([10, 9, 8, 7]), (100,) * 4, [False, False, True, False]),
    (_series("x", "s", [1.0] * 8, has_steps=False), (100,) * 4, _TWICE),
    (_series("x", "s", [1.0] * 8, has_steps=False), (100, 90, 100, 100), [False] * 8),
    (_at([7, 7, 8, 8, 9, 9, 10, 10]), (100, 90, 100, 100), _TWICE),
    (_at([7, 8, 8, 8, 8, 9, 9, 10]), (100, 90, 100, 100), [False, *[True] * 4, *[False] * 3]),  # calls vary
    (_series("x", "s", [1.0] * 6, has_steps=False), (100,) * 4, [False] * 6),
    (replace(_at([7, 8, 9, 10]), unit="B"), (100,) * 4, _NONE),
    (_series("work.x", "s", [1.0] * 4, has_steps=False), (100,) * 4, _NONE),
    (_series("workload", "s", [1.0] * 4, has_steps=False), (100,) * 4, _SECOND),
    (Series(Key("x"), "s", "value", read_only(np.array([1.0]))), (100,) * 4, None),
]


@pytest.mark.parametrize(("series", "ops", "marks"), SERIES)
def test_the_series_in_which_a_stalled_step_is_marked(series: Series, ops: Any, marks: Any) -> None:
    new = _with(_ranks(_STALLED, ops=ops), series)
    assert _marked(new, _CALM, metric=series.key.metric) == [[marks], []]


def test_the_numbers_of_the_steps_are_those_of_the_step_time() -> None:
    """A metric that other steps have may come first in a trace."""
    new = replace(_STALL, series=(_at([7, 9, 10, 11]), *_STALL.series))
    assert _marked(new, _CALM) == [[_SECOND], [_NONE]]
    assert _marked(new, _CALM, metric="x") == [[[False] * 4], []]


@pytest.mark.parametrize("side", ["base", "anchor"])
def test_a_metric_with_only_a_summary_on_the_stored_side_has_no_marks(side: str) -> None:
    kept = Series(Key.of("x", rank="3"), "s", "summary", read_only(np.empty(0)))
    new, stored = _with(_STALL, _series("x", "s", [1.0] * 4)), _with(_CALM, kept)
    base, anchor = (stored, ()) if side == "base" else (_CALM, (stored,))
    assert _marked(new, base, anchor, metric="x")[0] == [None]
    assert _marked(new, base, anchor)[0] == [_SECOND]
    assert _marked(stored, _CALM, metric="x")[0] == [None]


def test_what_is_no_trace_has_no_marks() -> None:
    assert _marked(replace(_STALL, format="perfgate.results/1"), _CALM) == [[None], [_NONE]]
    assert set(STALL_METRICS) == {"step.time", "work.ops", "work.launches", "work.graph_launches"}
