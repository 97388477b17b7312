"""What stands behind a verdict: damage, ranks, names, the anchor, drift and means."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import steady
from msgspec.structs import replace
from stories import as_dict, bare, case, check_golden, run, run_of, series

from perfgate.core import Estimate, Key, Location, Problem, RelativeChange, Run, Series, Verdict
from perfgate.judge.details import _accepted
from perfgate.judge.report import geometric_means
from perfgate.judge.subjects import JudgedRuns
from perfgate.judge.verdicts import judge, judge_with_details

DAMAGE = [
    # the rule, the series that the problem is about, whether it is an error
    ("forward under 1 s", Key.of("forward"), True),
    ("forward under 1 s", Key.of("forward", rank="1"), True),
    ("forward under 1 s", Key.of("backward"), False),
    ("forward under 1 s", None, False),
    ("for* under 1 s", Key.of("forward"), True),
    ("for* under 1 s", Key.of("slow"), False),
    ("both under 1 s", Key.of("backward"), True),
    ("timer.00 / timer.01 under 9", Key.of("timer.01"), True),
    ("labelled under 9 s", Key.of("labelled", kind="b"), False),
    ("labelled under 9 s", Key.of("labelled", kind="a"), True),
    ("labelled under 9 s", Key.of("labelled"), True),
    ("forward under 1 s", Key.of("forward", kind="x"), True),
]


BEYOND = [
    # a verdict's fields, and what its rule accepts of the statistic
    ({"bound": 2.0, "comparator": "under"}, (None, 2.0)),
    ({"bound": 2.0, "comparator": "at most"}, (None, 2.0)),
    ({"bound": 2.0, "comparator": "over"}, (2.0, None)),
    ({"bound": 2, "comparator": "at least"}, (2, None)),
    ({"tolerance": 0.5, "base": Estimate(2.0, None, None, 1, 1.0, 1)}, (None, 3.0)),
    ({"tolerance": 0.5, "base": Estimate(2.0, None, None, 1, 1.0, 1), "better": "higher"}, (1.0, None)),
    ({"tolerance": 0.5, "base": Estimate(2.0, None, None, 1, 1.0, 1), "two_sided": True}, (1.0, 3.0)),
    ({"tolerance": 0.5, "base": Estimate(None, None, None, 1, 1.0, 1)}, (None, None)),
    ({"tolerance": 0.5}, (None, None)),
    ({"base": Estimate(2.0, None, None, 1, 1.0, 1)}, (None, None)),
    ({}, (None, None)),
]


@pytest.mark.parametrize(("fields", "allowed"), BEYOND)
def test_what_a_rule_accepts(fields: dict[str, Any], allowed: tuple[float | None, float | None]) -> None:
    blank = Verdict("r", "x", {}, None, "pass", "interval", "error", 0, "limit", "s", "", "", Location("rules.yaml"))
    assert _accepted(replace(blank, **fields)) == allowed


def test_ranks_and_stalls_behind_a_verdict() -> None:
    """Twelve ranks, of which some stall: the one that speaks, and seven from the slowest to the fastest."""

    def stalled(rank: int, unit: str) -> Series:
        x = np.array([5.0, *steady(1 + rank / 100, n=300, seed=rank)])
        x[100 + rank] *= 3 if unit in ("s", "B") else 0.3
        return series("held", unit, list(x), rank=str(rank))

    for unit, limit in (("s", "under 9 s"), ("1/s", "over 0.1 /s"), ("B", "under 1 GB")):
        new = replace(run(50), series=tuple(stalled(rank, unit) for rank in range(12)))
        asked = case(f"  - held {limit}\n  - held total {limit.replace('9 s', '1 h')}\n", new)
        check_golden(f"ranks-behind-{unit.replace('/', '')}", *map(as_dict, judge_with_details(asked)[1]))


@pytest.mark.parametrize(("values", "of_new", "of_base"), [(80, 80, 80), (81, 81, 80), (240, 240, 80), (241, 240, 80)])
def test_so_many_values_of_a_run_are_kept(values: int, of_new: int, of_base: int) -> None:
    """240 of a new run, 80 of any other and of the ranks beside the one that speaks."""
    held = [series("io", "s", steady(1 + rank / 10, n=values), rank=str(rank)) for rank in range(2)]
    one = replace(run(50), series=tuple(held))
    asked = case("  - io within 5% of baseline\n", one, runs=0)
    (shown,) = judge_with_details(replace(asked, baseline=replace(asked.baseline, runs=(replace(one, source="b"),))))[1]
    assert [(found.standing, len(found.values), len(found.steps)) for found in shown.runs] == [
        ("base", of_base, of_base),
        ("new", of_new, of_new),
        ("new", of_base, of_base),
    ]


STALLS = [
    # unit, a limit, a value among ones, and how many stalls there are
    ("s", "under 9 s", 3.0, 1),
    ("1/s", "over 0.1 /s", 0.4, 1),
    ("B/s", "over 0.1 B/s", 0.4, 1),
    ("FLOP/s", "over 0.1 FLOP/s", 0.4, 1),
    ("B", "under 9 B", 3.0, 0),
    ("1", "under 9", 3.0, 0),
]


@pytest.mark.parametrize(("unit", "limit", "value", "stalls"), STALLS)
def test_only_times_and_rates_can_stall(unit: str, limit: str, value: float, stalls: int) -> None:
    values = steady(1.0, n=100)
    values[70] = value
    asked = case(f"  - io {limit}\n", replace(run(50), series=(series("io", unit, values),)), runs=0)
    ((shown,),) = (found.runs for found in judge_with_details(asked)[1])
    assert (shown.stalled, [shown.values[i] for i in shown.stalls]) == (stalls, [value] * stalls)


def test_a_run_is_shown_though_it_does_not_hold_the_statistic() -> None:
    ((verdict,), (shown,)) = judge_with_details(case("  - load p95 under 1 s\n", run(50), runs=0))
    (only,) = shown.runs
    assert (verdict.reason, only.run, only.estimate, only.n) == ("not-available", run(50).name, None, None)


def test_older_runs_in_which_parts_cannot_be_joined_or_have_another_unit_are_not_shown() -> None:
    def held(name: str, unit: str = "s", **labels: str) -> Run:
        return Run(name, "test", (series("a", unit, [1.0] * 9, **labels), series("b", "s", [1.0] * 9)))

    asked = case("  - a / b under 5\n", held("new"), runs=0)
    past = (held("other", kind="x"), held("old"), held("rate", "1/s"))
    (shown,) = judge_with_details(replace(asked, baseline=replace(asked.baseline, past=past)))[1]
    assert [(found.run, found.standing) for found in shown.runs] == [("old", "past"), ("new", "new")]


@pytest.mark.parametrize(("rule", "key", "error"), DAMAGE)
@pytest.mark.parametrize("severity", ["error", "warning"])
def test_a_value_that_was_left_out_is_an_error_of_its_metric(rule: str, key: Any, error: bool, severity: Any) -> None:
    whole = run(50, n=12)
    rows = (*whole.series, series("labelled", "s", [1.0] * 12, kind="a", rank="0"))
    told = Problem(severity, "NaN", Location("new.json", 7), key)
    found = judge(case(f"  - {rule}\n", replace(whole, series=rows, problems=(told,))))[0]
    assert (found.reason == "not-a-number") == (error and severity == "error")
    assert ("a value was left out: new.json:7: NaN" in found.message) == (error and severity == "error")


NAMES = [
    # what a rule asks for; the metrics that are proposed instead
    ("forwrd", ["forward", "forward_backward"]),
    ("FORWARD", ["forward", "forward_backward"]),
    ("ward", ["forward", "backward", "forward_backward"]),
    ("x*WARD*", []),
    ("qqq", []),
]


@pytest.mark.parametrize(("asked", "near"), NAMES)
def test_the_nearest_names_are_proposed(asked: str, near: list[str]) -> None:
    (found,) = judge(case(f"  - '{asked} under 1 s'\n", run(50, n=12)))
    assert found.reason == "metric-absent"
    for name in near:
        assert name in found.message
    assert ("the nearest names are" in found.message) == bool(near)


def test_only_so_many_names_are_looked_for() -> None:
    rules = "".join(f"  - forwar{i} under 1 s\n" for i in range(60))
    found = judge(case(rules, run(50, n=12)))
    assert sum("the nearest names are" in verdict.message for verdict in found) == 50


def test_at_most_five_names_are_proposed() -> None:
    """The most alike first, then those that hold the name."""
    names = ["forwara", "forwarb", "forwarc", "my.forwar.a", "my.forwar.b", "other"]
    near = JudgedRuns((), (), (), {}, names=names).nearest("forwar")
    assert (sorted(near[:3]), len(near)) == (names[:3], 5)
    assert "other" not in near
    assert len(JudgedRuns((), (), (), {}, names=[f"forwar{i}" for i in range(9)]).nearest("forwar")) == 5


def test_after_fifty_names_nothing_is_proposed() -> None:
    looked = JudgedRuns((), (), (), {}, names=["forward"])
    assert [looked.nearest(f"forwar{i}") for i in range(51)] == [["forward"]] * 50 + [[]]
    assert looked.nearest("forwar3") == ["forward"]


def test_labels_are_proposed_of_the_metric_alone_whatever_its_name_holds() -> None:
    new = run_of(series("a*", "s", [1.0] * 9, kind="x"), series("ab", "s", [1.0] * 9, kind="y"))
    (found,) = judge(bare("""'"a*"{kind="z"} under 1 s'""", [new]))
    assert (found.reason, found.next_step.text) == ("metric-absent", "correct the labels")
    assert found.message == 'no run has a* with these labels; it has {kind="x"}'


def test_a_glob_takes_each_metric_once_whatever_its_name_holds() -> None:
    new = run_of(series("a*", "s", [1.0] * 9), series("ab", "s", [2.0] * 9))
    found = judge(bare("'a* max under 9 s'", [new]))
    assert [(one.metric, one.new and one.new.estimate) for one in found] == [("a*", 1), ("ab", 2)]


def test_what_only_the_anchor_holds_is_not_asked_for() -> None:
    old, now = (run_of(series("x", "s", [1.0] * 9, kind=kind)) for kind in ("old", "now"))
    found = judge(bare("x within 5% of baseline", [now], [now], anchor=(old,)))
    assert [dict(one.labels) for one in found] == [{"kind": "now"}]


@pytest.mark.parametrize("place", [4999, 5000])
def test_names_are_compared_with_the_first_five_thousand(place: int) -> None:
    names = ["0"] * 5001
    names[place] = "forward"
    assert JudgedRuns((), (), (), {}, names=names).nearest("forwrad") == ["forward"] * (place < 5000)


def test_a_run_that_speaks_of_some_metrics_alone_is_left_out_of_others() -> None:
    asked = case("  - slow within 5% of baseline\n", run(50))
    adopted = replace(run(7), series=tuple(one for one in run(7).series if one.key.metric == "fast"))
    whole, partial = (replace(adopted, partial=partial) for partial in (False, True))
    for odd, reason, runs in ((whole, "no-baseline", None), (partial, "interval", 5)):
        stored = (*asked.baseline.runs, odd)
        (found,) = judge(replace(asked, baseline=replace(asked.baseline, runs=stored)))
        assert (found.reason, found.base and found.base.runs) == (reason, runs)


@pytest.mark.parametrize(("stored", "new", "held"), [(5, 1, 5), (2, 1, 3), (6, 7, 7), (1, 2, 3), (9, 2, 5)])
def test_the_last_runs_are_held_against_the_anchor(stored: int, new: int, held: int) -> None:
    """Five at the end of the history, never fewer than the new ones, and none of those that lack the metric."""
    asked = case("  - slow within 50% of anchor\n", *(run(50 + i) for i in range(new)), runs=stored)
    lacking = replace(run(7), series=tuple(one for one in run(7).series if one.key.metric == "fast"))
    for runs in (asked.baseline.runs, (*asked.baseline.runs, lacking)):
        (found,) = judge(replace(asked, baseline=replace(asked.baseline, runs=runs)))
        assert found.new is not None
        assert (found.outcome, found.new.runs) == ("pass", held)
        last = [
            one.values[1:]
            for one in (
                s for r in (*asked.baseline.runs, *asked.new)[-held:] for s in r.series if s.key.metric == "slow"
            )
        ]
        assert found.new.estimate == pytest.approx(float(np.exp(np.mean([np.log(np.median(x)) for x in last]))))


def test_how_metrics_changed_together() -> None:
    """The geometric mean of new / base, for each unit that two metrics have."""
    rules = "".join(f"  - {name} within 5% of baseline\n" for name in ("slow", "fast", "memory", "gone", "step.time"))
    found = judge(case(rules, run(50, slower=1.3, faster=1.2)))
    (mean,) = geometric_means(found)
    ratios = [1 + verdict.change.estimate for verdict in found if verdict.change and verdict.unit == "s"]
    assert (mean.unit, mean.verdicts) == ("s", 3)
    assert mean.change == pytest.approx(float(np.prod(ratios)) ** (1 / 3) - 1)
    without = [replace(verdict, unit=None) for verdict in found]
    assert [(mean.unit, mean.verdicts) for mean in geometric_means(without)] == [("1", 4)]
    assert geometric_means(found[:1]) == ()
    vanished = [replace(verdict, change=RelativeChange(-1.0, None, None)) for verdict in found[:2]]
    assert geometric_means(vanished) == ()
