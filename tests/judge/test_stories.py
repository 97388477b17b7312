"""Whole stories: the verdicts on runs of known making, in golden files (see `stories`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import steady
from msgspec.structs import replace
from stories import CALIBRATED, FACTS, RULES, SHORT, TODAY, as_dict, case, check_golden, ruleset, run, series, verdicts

from perfgate.analysis.stored_runs import calibrate, drifts
from perfgate.core import Baseline, NextStep, Run
from perfgate.core.resource_limits import DEFAULT
from perfgate.judge.evidence import Case
from perfgate.judge.subjects import JudgedRuns
from perfgate.judge.verdicts import judge, judge_with_details

MAKINGS: dict[str, dict[str, Any]] = {
    "unchanged": {},
    "slow": {"slower": 1.3, "faster": 1.4},
    "slightly_slower": {"slower": 1.06},
}


@pytest.mark.parametrize("theme", RULES)
@pytest.mark.parametrize("making", MAKINGS)
def test_one_new_run(making: str, theme: str) -> None:
    name = theme if theme == "ranks" else f"{theme}-{making}"  # no metric of a rank is slower
    check_golden(name, *verdicts(case(RULES[theme], run(50, new=True, **MAKINGS[making]))))


RANK_RATIOS = """\
  - memory on the slowest rank at most 1.1x the median rank
  - backward on the slowest rank at most 1.04x the fastest rank
  - backward on the slowest rank within 5 ms of the median rank
  - backward on the slowest rank within 1% and 9 ms of the median rank
  - backward on the slowest rank within ±1% of the fastest rank
  - backward on the fastest rank within ±1% of the slowest rank
  - backward on the median rank within ±9% of the slowest rank
  - backward on the fastest rank at least 99% of the median rank
  - backward on the slowest rank within 9% of the fastest rank
  - backward p90 on the slowest rank at most 1.1x the median rank
  - rate on the slowest rank at least 97% of the median rank
  - rate on the slowest rank within 2% of the fastest rank
  - idle on the slowest rank at most 1.1x the fastest rank
  - {assert: backward on the slowest rank at most 1.1x the median rank, min_runs: 3}
"""


@pytest.mark.parametrize("new", [1, 2])
def test_ranks_held_against_ranks(new: int) -> None:
    def held(seed: int) -> Run:
        rates = [series("rate", "1/s", [100.0 - r * (1 + 0.01 * seed)] * 20, rank=str(r)) for r in range(4)]
        idle = [series("idle", "s", [float(r)] * 20, rank=str(r)) for r in range(2)]
        return replace(run(seed, n=20), series=(*run(seed, n=20).series, *rates, *idle))

    check_golden(f"rank_ratios-{new}", *verdicts(case(RANK_RATIOS, *(held(50 + i) for i in range(new)), runs=0)))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("new", [2, 3])
def test_several_new_runs(new: int, strict: bool) -> None:
    asked = case(SHORT, *(run(50 + i, new=True, slower=1.06) for i in range(new)), strict=strict)
    check_golden(f"several-{new}{'-strict' * strict}", *verdicts(asked))


def test_a_calibrated_prior() -> None:
    asked = case(SHORT, run(50, new=True, slower=1.06))
    check_golden("calibrated", *verdicts(replace(asked, baseline=replace(asked.baseline, priors=CALIBRATED))))


def test_one_base_run_and_none() -> None:
    one, none = case(SHORT, run(50, new=True), runs=1), case(SHORT, run(50, new=True), runs=0)
    missing = replace(
        none, baseline=replace(none.baseline, missing="no level fits", next_step=NextStep("make-baseline", "make one"))
    )
    for name, asked in {"one": one, "none": none, "missing": missing}.items():
        check_golden(f"base-{name}", *verdicts(asked))
    for policy, first in (("warn", "warning: not judged"), ("skip", "not judged")):
        found = verdicts(replace(none, missing_baseline=policy))
        assert {one["message"].partition(": there is no ")[0] for one in found if one["reason"] == "no-baseline"} == {
            first
        }
        check_golden("base-accepted", *found)


LACKING = {
    # the ranks of a new run beside one of three ranks; the refusal
    1: "backward: gpt/h100/level/run50.json lacks rank 1, rank 2, which the baseline has",
    2: "backward: gpt/h100/level/run50.json lacks rank 2, which the baseline has",
    4: "backward: gpt/h100/level/run51.json lacks rank 3, which other new runs have",
}


@pytest.mark.parametrize("ranks", LACKING)
def test_other_ranks_than_before(ranks: int) -> None:
    alone, both = (case(RULES["ranks"], run(50, ranks=ranks), *others) for others in ((), (run(51, ranks=3),)))
    for asked in (both, *((alone,) * (ranks < 3))):
        found = verdicts(asked)
        assert {one["message"] for one in found} == {LACKING[ranks]}
        check_golden("ranks-gone", *found)


def test_a_new_rank() -> None:
    check_golden("ranks-added", *verdicts(case(RULES["ranks"], run(50, ranks=4))))


def test_a_run_without_what_another_holds() -> None:
    other = replace(run(51), series=run(51).series[5:])
    check_golden("partial", *verdicts(case(SHORT, run(50), other)))


def test_a_short_run() -> None:
    check_golden("short", *verdicts(case(SHORT, run(50, n=20))))


def test_only_some_rules_and_metrics() -> None:
    asked = case(RULES["changes"], run(50, new=True), only=("timer.01", "both *"))
    check_golden("only", *verdicts(asked))


def test_a_hot_machine() -> None:
    hot = {**FACTS, "throttle_reasons": "sw_thermal_slowdown, gpu_idle"}
    rules = "  - forward under 1 s\n  - {assert: forward under 1 s, on_throttled: error}\n"
    found = verdicts(replace(case(rules, run(50)), facts=hot))
    check_golden("hot", *found)
    assert found[1]["message"] == "not judged, because the GPU was throttled: sw_thermal_slowdown"


def test_more_verdicts_than_the_limit() -> None:
    asked = case("  - timer.* under 1 s\n", run(50), limits=replace(DEFAULT, verdicts=3))
    found = verdicts(asked)
    check_golden("too_many", *found)
    assert found[-1]["message"].endswith("to raise the limit, set PERFGATE_LIMITS=verdicts=6")


def test_the_runs_behind_a_verdict() -> None:
    asked = case(SHORT, run(50, new=True, slower=1.3, n=30))
    past = replace(asked, baseline=replace(asked.baseline, past=(run(9),)))
    check_golden("evidence", *(as_dict(shown) for shown in judge_with_details(past)[1]))


UNITS = [
    # a rule, its reason and exit code
    ("loss under 5", "interval 0"),
    ("loss under 5 ms", "unit-mismatch 3"),
    ("forward under 5", "no-unit 2"),
    ("forward under 5 GB", "unit-mismatch 3"),
    ("forward within 5% and 3 of baseline", "no-unit 2"),
    ("forward count under 500", "exact 0"),
    ("gpu.utilization at least 10%", "interval 0"),
    ("gpu.utilization at least 0.1", "interval 0"),
    ("forward at least 95% of baseline", "improving-side 2"),
    ("samples_per_second at most 105% of baseline", "improving-side 2"),
    ("{assert: loss at most 105% of baseline}", "interval 0"),
    ("{assert: loss at least 95% of baseline}", "interval 0"),
    ("{assert: forward at least 95% of baseline, better: higher}", "interval 0"),
    ("{assert: forward at least 95% of baseline, better: neither}", "interval 0"),
]


@pytest.mark.parametrize(("rule", "expected"), UNITS)
def test_quantities_and_sides_that_fit_a_metric(rule: str, expected: str) -> None:
    (found,) = judge(case(f"  - {rule}\n", run(50)))
    assert f"{found.reason} {found.exit_code}" == expected


def test_a_glob_takes_what_its_statistic_makes_fit() -> None:
    """Every metric has a count, whatever its own unit is; under a bound in seconds only times remain."""
    times, all_of_them = (
        {v.metric for v in judge(case(rule, run(50)))} for rule in ("  - '* under 1 h'\n", "  - '* count under 500'\n")
    )
    assert {"forward", "loss", "memory"} <= all_of_them
    assert times & {"forward", "loss", "memory"} == {"forward"}


def test_a_limit_over_several_ranks_allows_for_having_picked_one() -> None:
    """1 - (1 - confidence) / R for an extreme of R ranks, and the confidence itself for any other choice."""
    rules = "".join(
        f"  - forward {choice} under 9 s\n" for choice in ("", "on the slowest rank", "on the fastest rank")
    )
    rules += "".join(
        f"  - forward {choice} under 9 s\n" for choice in ("on the median rank", "across ranks", "on each rank")
    )
    found = judge(case(rules, run(50, ranks=3), runs=0))
    held = [verdict.confidence for verdict in found]
    assert held == pytest.approx([1 - 0.05 / 3] * 3 + [0.95] * 5)


EVERY_RANK = "  - backward on each rank within 5% of baseline\n  - backward p90 across ranks within 5% of baseline\n"


@pytest.mark.parametrize("runs", [4, 5, 6])
def test_calibrate(runs: int) -> None:
    """Five runs are the fewest; a metric in two units, one that is damaged and one that is absent have no prior."""
    rules = SHORT + EVERY_RANK + "  - gone within 5% of baseline\n  - flipped within 5% of baseline\n"
    new = [run(50 + i, n=24) for i in range(runs)]
    new[1] = replace(new[1], series=tuple(replace(s, unit="s") if s.unit == "1/s" else s for s in new[1].series))
    priors, complaints = calibrate(case(rules, *new))
    check_golden(f"calibrate-{runs}", *map(as_dict, priors), f"{len(complaints)} complaints")


CREEPS = {
    0.02: [
        "slow median rose by 13.3% (9.7% to 17.0%) at run 10 of the 17 kept runs",
        "samples_per_second median fell by 12.0% (9.2% to 14.8%) at run 11 of the 17 kept runs",
    ],
    -0.02: [],
}


@pytest.mark.parametrize("creep", CREEPS)
def test_creep(creep: float) -> None:
    later = tuple(run(20 + i, slower=1 + creep * i) for i in range(12))
    rules = (
        "  - slow within 5% of baseline\n  - samples_per_second within 5% of baseline\n  - fast within 5% of baseline\n"
    )
    asked = case(rules, later[-1])
    asked = replace(asked, baseline=replace(asked.baseline, runs=(*asked.baseline.runs, *later[:-1]), anchor=()))
    found = drifts(asked, JudgedRuns.of(asked.new, asked.baseline, asked.ruleset.metrics))
    assert [(problem.at.line, problem.message.partition(" (gpt")[0]) for problem in found] == [
        (7 + number, words) for number, words in enumerate(CREEPS[creep])
    ]


PAIRED = """\
  - {assert: step within 5% of baseline}
  - step within 1% of baseline
  - step within 0.5% of baseline
  - step within 0.1% and 50 ms of baseline
  - step p75 within 5% of baseline
  - step mean within ±2% of baseline
  - memory within 0.1% of baseline
  - step under 2 s
  - step within 5% of anchor
  - gone within 5% of baseline
"""


@pytest.mark.parametrize("pairs", [1, 3])
@pytest.mark.parametrize("change", [0.0, 0.03, 0.3, -0.3])
@pytest.mark.parametrize("way", ["one-process", "in-turn", "whole-runs"])
def test_pairs(way: str, change: float, pairs: int) -> None:
    def side(number: int, which: str) -> Run:
        shared = np.array(steady(1.0, n=40, spread=0.05, seed=number))
        second = np.array([1.0 if (i % 2 == 0) == (which == "base") else 1.002 for i in range(40)])
        own = np.array(steady(1.0, n=40, spread=0.003, seed=number + (7 if which == "new" else 90)))
        values = shared * second * own * ((1 + change) if which == "new" else 1.0)
        rows = (
            series("step", "s", list(values)),
            series("memory", "B", [8e9 if which == "new" and change > 0 else 4e9] * 40),
        )
        return Run(f"p.json, pair {number}, {which}", "test", rows)

    base, new = (tuple(side(number, which) for number in range(1, pairs + 1)) for which in ("base", "new"))
    baseline = Baseline(None, base, pairing=way, missing="no anchor in pairs", unknown_facts=("driver",))
    asked = Case(ruleset(PAIRED), new, baseline, TODAY, facts=FACTS)
    check_golden(f"pairs-{way}-{change}-{pairs}", *verdicts(asked))
