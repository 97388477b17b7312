"""Whole stories: everything that is said of runs of known making, in golden files that are read before a commit.

A line of a golden file is one verdict, proof or plan without what is empty, its numbers to five digits.
UPDATE_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import steady

from perfgate.judge.breakdown import breakdown, movers
from perfgate.judge.drift import drifts
from perfgate.judge.evidence import Evidence
from perfgate.judge.gathering import _allowed
from perfgate.judge.noise import calibrate
from perfgate.judge.plans import plans
from perfgate.judge.proposals import propose
from perfgate.judge.selftest import exit_code, self_test
from perfgate.judge.together import geometric_means
from perfgate.judge.verdicts import Case, judge, judge_with_evidence
from perfgate.limits import DEFAULT
from perfgate.model import (
    Allowance,
    Baseline,
    CalibratedPrior,
    Change,
    Estimate,
    Key,
    Location,
    Problem,
    Run,
    Series,
    read_only,
)
from perfgate.rules.loading import load_rules
from perfgate.rules.ruleset import Ruleset

GOLDEN = Path(__file__).parent / "golden"

HEAD = """\
version: 1
suite: gpt
metrics:
  comm_share: backward_allreduce / (forward + backward)
  both: forward + backward
rules:
"""
RULES = {
    "changes": """\
  - forward within 5% of baseline and within 12% of anchor
  - {id: tail, assert: forward p90 within 8% of baseline, why: stalls hurt, on_inconclusive: fail}
  - {assert: backward within 5% and 2 ms of baseline, severity: warning}
  - forward_backward within 5% of baseline
  - step.time within 5% of baseline
  - samples_per_second at least 95% of baseline
  - memory within 1% of baseline
  - memory within 1 MB of baseline
  - comm_share within 10% of baseline
  - comm_share within 2 pp of baseline
  - both within 5% of baseline
  - timer.* within 5% of baseline
  - timer.0? within 2% of baseline
  - loss within ±5% of baseline
  - {assert: loss within 5% of baseline, better: lower}
  - samples_per_second within 100% of baseline
  - becoming within 5% of baseline
  - zero within 5% of baseline
  - {assert: retries within 1% of baseline, better: lower}
  - work within ±1% of baseline
  - forward count within ±5% of baseline
  - {assert: zero within 1 ms of baseline}
  - {assert: load within 5% of baseline, confidence: 90%, power: 0.9}
  - fast within 5% of baseline
  - modes within 5% of baseline
  - gpu.utilization within 1 pp of baseline
  - '* within 1 ms of baseline'
""",
    "limits": """\
  - both under 1 s
  - backward p90 under 212 ms
  - gpu.utilization at least 85%
  - p90(forward) / p50(forward) under 1.1
  - p95(backward) under 300 ms
  - forward mean under 100 ms
  - forward p95 under 101 ms
  - forward p99 under 1 s
  - forward p10 over 90 ms
  - forward max under 1 s
  - forward min at least 0.2 s
  - forward stddev under 3 ms
  - load mean at most 200 ms
  - load p95 under 1 s
  - load count at least 40
  - '[bls]* under 1 h'
""",
    "policies": """\
  - {assert: slow within 5% of baseline, expect_fail: {reason: known, until: "2026-06-01"}}
  - {assert: fast within 5% of baseline, on_improvement: fail}
  - {assert: slow within 5% of baseline, expect_fail: {reason: known, until: "2025-06-01"}}
  - {assert: forward under 50 ms, when: {gpu: "*A100*"}}
  - {assert: forward under 150 ms, when: {gpu: "*H100*", world_size: ">= 2"}}
  - {assert: forward under 150 ms, when: {colour: red}}
  - {assert: gone under 1 s, on_missing: warn}
  - {assert: gone within 5% of baseline, on_missing: skip}
  - forwrd within 5% of baseline
  - 'forward{stage="x"} under 1 s'
  - {assert: forward within 5% of baseline, min_runs: 9}
  - {assert: young within 5% of baseline}
  - damaged within 5% of baseline
  - fresh within 5% of baseline
  - fresh within 5% of anchor
  - partly within 5% of baseline
  - {assert: forward count at least 40, min_samples: 60}
  - memory under 1 s
  - forward under 50
  - forward at least 95% of baseline
  - damaged under 1 s
  - flipped within 5% of baseline
""",
    "ranks": """\
  - backward on the slowest rank at most 1.02x the median rank
  - backward on the fastest rank within 5% of the median rank
  - backward on the median rank within ±1% of the slowest rank
  - backward on each rank within 5% of baseline
  - backward on the median rank within 5% of baseline
  - backward across ranks p90 under 300 ms
  - backward on the fastest rank under 190 ms
""",
}


def ruleset(text: str) -> Ruleset:
    """The rules of one file."""
    found, problems = load_rules([("rules.yaml", (HEAD + text).encode())])
    assert found is not None, problems
    return found


def series(metric: str, unit: str, values: list[float], **labels: str) -> Series:
    """Samples in order of time."""
    return Series(Key.of(metric, **labels), unit, "samples", read_only(np.array(values)))


def run(seed: int, *, ranks: int = 3, slower: float = 1.0, faster: float = 1.0, new: bool = False, n: int = 60) -> Run:
    """A run of a training job, with all kinds of metrics; `slower` and `faster` scale some of them."""
    between = float(np.exp(0.004 * np.random.default_rng(seed).standard_normal()))

    def times(centre: float, of: int, spread: float = 0.01) -> list[float]:
        return [3 * centre, *steady(centre * between, n=n, spread=spread, seed=100 * seed + of)]

    inner, reduce = times(0.15, 0), times(0.05 * slower, 1)
    rows = [series("forward", "s", times(0.1, r + 2), rank=str(r)) for r in range(ranks)]
    rows += [series("backward", "s", times(0.2 * (1 + 0.03 * r), r + 7), rank=str(r)) for r in range(ranks)]
    rows += [series("backward_allreduce", "s", times(0.04 * slower, r + 12), rank=str(r)) for r in range(ranks)]
    rows += [
        series("step.kernel", "s", inner),
        series("step.communication", "s", reduce),
        series("step.time", "s", [a + b for a, b in zip(inner, reduce, strict=True)]),
        series("forward_backward", "s", times(0.3 * slower, 20)),
        series("samples_per_second", "1/s", times(900 / slower, 21)),
        series("memory", "B", [4e9 * slower] * n),
        series("loss", "1", times(3.3, 22)),
        series("zero", "s", [0.0] * n),
        series("slow", "s", times(0.01 * slower, 23)),
        series("fast", "s", times(0.01 / faster, 24)),
        series("gpu.utilization", "1", times(0.9 / slower, 25, 0.002)),
        series("flipped", "s" if new else "1/s", times(1, 26)),
        series("becoming", "s", [0.5 if new else 0.0] * n),
        series("retries", "1", [7.0] * n),
        series("work", "FLOP", [3e12] * n),
        series("young", "s", times(0.005, 27)[: 20 if new else n]),
        series("modes", "s", [0.1 + 0.02 * (i % 2) for i in range(n)]),
    ]
    rows += [series(f"timer.{i:02}", "s", times(0.001 * (1 + i), 30 + i, 0.03)) for i in range(12)]
    printed = {"mean": 0.2 * slower * between, "count": 40.0, "total": 8.0}
    rows.append(Series(Key("load"), "s", "aggregate", read_only(np.array([])), aggregate=printed))
    if new or seed == 1:
        rows.append(series("partly", "s", times(1, 50)))
    if new:
        rows.append(series("fresh", "s", times(1, 51)))
        rows.append(series("damaged", "s", [1.0, 2.0, 1.0, 1.0, 1.0]))
    problem = Problem("error", "NaN", Location("new.json", 7), Key("damaged"))
    return Run(f"gpt/h100/level/run{seed}.json", "test", tuple(rows), (problem,) if new else ())


FACTS = {"gpu": "NVIDIA H100", "world_size": 3, "clocks_locked": False}
TODAY = date(2026, 1, 1)


def case(rules: str, *new: Run, runs: int = 5, **fields: Any) -> Case:
    """Rules, new runs, and a level of stored ones of which the first two are the anchor."""
    stored = tuple(run(seed) for seed in range(runs))
    baseline = Baseline("gpt/h100/level", stored, stored[:2], unknown_facts=("driver",))
    return Case(ruleset(rules), new, baseline, TODAY, facts=FACTS, **fields)


def told(value: Any) -> Any:
    """What is not empty of a verdict, a proof or a plan; numbers to five digits, as other libraries may round."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {str(name): told(one) for name, one in value.items() if one not in (None, False, (), [], {})}
    return [told(one) for one in value] if isinstance(value, list | tuple) else value


def check_golden(name: str, *rows: Any) -> None:
    """Compare with a golden file, a line for each row."""
    lines = [json.dumps(told(row), ensure_ascii=False, default=str) for row in rows]
    path, text = GOLDEN / f"{name}.jsonl", "".join(f"{line}\n" for line in lines)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; UPDATE_GOLDEN=1 writes it anew"


def verdicts(asked: Case) -> list[dict[str, Any]]:
    """What is said of a case; of the runs behind it only how many there are."""
    return [{**asdict(verdict), "runs": len(verdict.runs), "why": verdict.why} for verdict in judge(asked)]


MAKINGS: dict[str, dict[str, Any]] = {
    "unchanged": {},
    "slow": {"slower": 1.3, "faster": 1.4},
    "slightly_slower": {"slower": 1.06},
}


@pytest.mark.parametrize("theme", RULES)
@pytest.mark.parametrize("making", MAKINGS)
def test_one_new_run(making: str, theme: str) -> None:
    check_golden(f"{theme}-{making}", *verdicts(case(RULES[theme], run(50, new=True, **MAKINGS[making]))))


SHORT = """\
  - forward within 5% of baseline and within 12% of anchor
  - step.time within 5% of baseline
  - slow within 4% and 0.4 ms of baseline
  - gpu.utilization within 5% of baseline
  - memory within 1% of baseline
  - backward p90 under 212 ms
  - backward on the slowest rank at most 1.02x the median rank
  - young within 5% of baseline
"""
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


CALIBRATED = tuple(
    CalibratedPrior(Key(metric), "median", "worst", 0.004, 6.0, 5) for metric in ("forward", "step.time", "slow")
)


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
    missing = replace(none, baseline=replace(none.baseline, missing="no level fits", next_step="make one"))
    warned, skipped = (replace(none, missing_baseline=policy) for policy in ("warn", "skip"))
    for name, asked in {"one": one, "none": none, "missing": missing, "warn": warned, "skip": skipped}.items():
        check_golden(f"base-{name}", *verdicts(asked))


ALLOWED = [
    # metric, up to, expires; slower by; outcome and reason of `step.time within 5% of baseline`
    (None, 0.0, TODAY, 1.3, "fail interval"),
    ("step.time", 0.2, TODAY, 1.3, "pass allowed"),
    ("step.*", 0.2, TODAY, 1.3, "pass allowed"),
    ("step.tim", 0.2, TODAY, 1.3, "fail interval"),
    ("step.time", 0.2, date(2025, 12, 31), 1.3, "fail interval"),
    ("step.time", 0.01, TODAY, 1.3, "fail interval"),
    ("step.time", 0.06, TODAY, 1.3, "suspect interval"),
    ("step.time", 0.075, TODAY, 1.3, "inconclusive interval"),
    ("step.time", 0.2, TODAY, 1.2, "pass allowed"),  # it was inconclusive
    ("step.time", 0.2, TODAY, 1.23, "pass allowed"),  # it was a suspicion
    ("step.time", 0.2, TODAY, 1.0, "pass interval"),
]


@pytest.mark.parametrize(("metric", "up_to", "expires", "slower", "expected"), ALLOWED)
def test_what_was_allowed(metric: str | None, up_to: float, expires: date, slower: float, expected: str) -> None:
    given = (Allowance(metric, up_to, "ada", "worth it", expires),) if metric else ()
    asked = case("  - step.time within 5% of baseline\n", run(50, slower=slower))
    (found,) = judge(replace(asked, baseline=replace(asked.baseline, allowances=given)))
    assert f"{found.outcome} {found.reason}" == expected
    said = " ".join((found.message, *found.notes))
    assert ("allowed" in said) == (metric in ("step.time", "step.*") and slower > 1)
    assert (found.allowed_by == "ada") == ("allowed up to" in said)


def test_an_allowance_is_for_the_baseline_alone() -> None:
    given = (Allowance("*", 9.0, "ada", "worth it", TODAY),)
    rules = "  - step.time within 5% of anchor\n  - slow under 1 ms\n  - slow within 5% of baseline\n"
    asked = case(rules, *(run(50 + i, slower=1.5) for i in range(5)))
    found = judge(replace(asked, baseline=replace(asked.baseline, allowances=given)))
    assert [verdict.reason for verdict in found] == ["interval", "interval", "allowed"]
    assert [verdict.outcome for verdict in found] == ["fail", "fail", "pass"]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_other_ranks_than_before(ranks: int) -> None:
    check_golden(f"ranks-{ranks}", *verdicts(case(RULES["ranks"], run(50, ranks=ranks), run(51, ranks=3))))
    check_golden(f"ranks-{ranks}-alone", *verdicts(case(RULES["ranks"], run(50, ranks=ranks))))


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
    check_golden("hot", *verdicts(replace(case(rules, run(50)), facts=hot)))


def test_more_verdicts_than_the_limit() -> None:
    asked = case("  - timer.* under 1 s\n", run(50), limits=replace(DEFAULT, verdicts=3))
    check_golden("too_many", *verdicts(asked))


def test_the_runs_behind_a_verdict() -> None:
    asked = case(SHORT, run(50, new=True, slower=1.3, n=30))
    past = replace(asked, baseline=replace(asked.baseline, past=(run(9),)))
    check_golden("evidence", *(asdict(shown) for shown in judge_with_evidence(past)[1]))


PROVEN = {
    "changes": """\
  - step.time within 5% of baseline
  - slow within 5% and 2 ms of baseline
  - both within 5% of baseline and within 10% of anchor
  - samples_per_second at least 95% of baseline
  - gpu.utilization within ±5% of baseline
  - memory within 1% of baseline
  - load within 5% of baseline
  - {assert: slow within 5% of baseline, severity: warning}
  - {assert: slow within 5% of baseline, on_missing: skip}
  - {assert: slow within 5% of baseline, when: {gpu: "*A100*"}}
  - {assert: slow within 1% of baseline, on_inconclusive: error}
  - {assert: samples_per_second within 100% of baseline}
""",
    "limits": """\
  - backward p90 under 300 ms
  - backward on each rank under 300 ms
  - forward on the fastest rank under 0.2 s
  - forward min over 50 ms
  - forward min over 0 s
  - gpu.utilization at least 80%
  - forward count at most 100
  - forward count at least 40
  - backward on each rank under 205 ms
  - {assert: backward on each rank under 205 ms, severity: warning}
  - p95(forward) / p50(forward) under 1.1
  - forward cv under 5%
  - comm_share under 20%
  - zero max under 1 ms
  - load mean under 1 s
  - backward on the slowest rank at most 1.1x the median rank
  - {assert: gone under 1 s, on_missing: warn}
  - {assert: forward p99 under 1 s}
  - {assert: forward under 1 s, expect_fail: {reason: known, until: "2026-06-01"}}
""",
}


@pytest.mark.parametrize("theme", PROVEN)
def test_self_test(theme: str) -> None:
    proofs = self_test(case(PROVEN[theme], run(50, n=36)))
    check_golden(f"selftest-{theme}", *(asdict(proof) for proof in proofs))
    assert exit_code(proofs) == 1


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ("  - slow within 20% of baseline\n", 0),
        ("  - slow under 1 ms\n", 1),
        ("  - other under 1 ms\n", 3),
        ("  - slow within 20% of baseline\n  - other under 1 ms\n", 3),
        ("  - forward min over 0 s\n  - other under 1 ms\n", 1),
        ("  - {assert: slow within 20% of baseline, severity: warning}\n", 1),
        ("  - {assert: slow within 20% of baseline, severity: warning}\n  - step.time under 9 s\n", 0),
    ],
)
def test_the_exit_code_of_a_self_test(rules: str, code: int) -> None:
    assert exit_code(self_test(case(rules, run(50, n=36)))) == code


def test_plan() -> None:
    calibrated = case(SHORT)
    calibrated = replace(calibrated, baseline=replace(calibrated.baseline, priors=CALIBRATED[1:]))
    for name, asked in {"plan": calibrated, "plan-one": case(SHORT, runs=1)}.items():
        shown = [asdict(plan) for plan in plans(asked)]
        check_golden(name, *({**plan, "points": plan["points"][:3] + plan["points"][-2:]} for plan in shown))


def test_plan_without_an_anchor_or_with_damage() -> None:
    asked = case("  - slow within 5% of anchor\n  - zero within 5% of baseline\n  - gone under 1 s\n", runs=3)
    found = plans(replace(asked, baseline=replace(asked.baseline, anchor=())))
    assert [plan.trouble for plan in found] == [
        "no stored run holds slow",
        "the stored values have no relative change: hold it to a limit",
        "the stored runs do not hold gone",
    ]
    assert [plan.metric for plan in found] == ["slow", "zero", "gone"]
    assert [plan.detectable for plan in found] == [None] * 3


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
    check_golden(f"calibrate-{runs}", *map(asdict, priors), *complaints)


@pytest.mark.parametrize(("name", "creep"), [("creep", 0.02), ("creep-down", -0.02)])
def test_creep(name: str, creep: float) -> None:
    later = tuple(run(20 + i, slower=1 + creep * i) for i in range(12))
    rules = (
        "  - slow within 5% of baseline\n  - samples_per_second within 5% of baseline\n  - fast within 5% of baseline\n"
    )
    asked = case(rules, later[-1])
    asked = replace(asked, baseline=replace(asked.baseline, runs=(*asked.baseline.runs, *later[:-1]), anchor=()))
    found = drifts(asked, Evidence.of(asked.new, asked.baseline, asked.ruleset.metrics))
    check_golden(name, *(asdict(problem) for problem in found))


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


def test_first_rules() -> None:
    found = propose([run(seed, n=24) for seed in range(3)], TODAY)
    shown = [{**asdict(one), "plans": [plan.detectable for plan in one.plans]} for one in found.rules]
    check_golden("proposals", *shown, {reason: list(names) for reason, names in found.left_out.items()})


def printed(metric: str, unit: str, **statistics: float) -> Series:
    """What a source prints of a metric whose values it does not hold."""
    return Series(Key(metric), unit, "aggregate", read_only(np.array([])), aggregate=statistics)


OTHERS = [
    # rows of every run, and the rules that are proposed for them, with their limits
    ([("rate", "1/s", 900.0)], {"rate within 3% of baseline": "rate median over 740 /s"}),
    ([("memory", "B", 4e9)], {"memory within 3% of baseline": "memory median under 4.5 GiB"}),
    ([("gpu.utilization", "1", 0.5)], {"gpu.utilization within 3% of baseline": "gpu.utilization median over 41%"}),
    ([("loss", "1", 3.0)], {}),
    (
        [("kernel.a", "s", 1.0), ("small", "s", 0.1)],
        {
            "small within 3% of baseline": "small median under 130 ms",
            "kernel.a within 3% of baseline": "kernel.a median under 1.3 s",
        },
    ),
    (
        [("a", "s", 1.0), ("b", "s", 1.01), ("c", "s", 2.0)],
        {"c within 3% of baseline": "c median under 2.5 s", "b within 3% of baseline": "b median under 1.3 s"},
    ),
    (
        [("a", "s", 1.0), ("b", "1/s", 1.0)],
        {"a within 3% of baseline": "a median under 1.3 s", "b within 3% of baseline": "b median over 0.83 /s"},
    ),
]


@pytest.mark.parametrize(("rows", "proposed"), OTHERS)
def test_first_rules_of_other_metrics(rows: list[tuple[str, str, float]], proposed: dict[str, str]) -> None:
    def made(seed: int) -> Run:
        held = [
            series(name, unit, steady(centre, n=40, spread=0.01 if unit != "B" else 0, seed=seed))
            for name, unit, centre in rows
        ]
        return Run(f"run{seed}", "test", tuple(held))

    found = propose([made(seed) for seed in range(4)], TODAY)
    assert {one.sentence: one.limit for one in found.rules} == proposed
    assert list(proposed) == [one.sentence for one in found.rules]


def test_what_is_printed_is_ranked_by_its_total() -> None:
    rows = (
        printed("counted", "s", mean=0.5, count=10.0),
        printed("totalled", "s", mean=0.1, count=2.0, total=7.0),
        printed("mean", "s", mean=1.0),
        printed("nothing", "s", max=1.0),
    )
    runs = [Run(f"run{i}", "test", rows) for i in range(3)]
    found = propose(runs, TODAY)
    assert [one.metric for one in found.rules] == ["totalled", "counted", "mean"]
    values = propose([Run("r", "test", (*rows, Series(Key("value"), "s", "value", read_only(np.array([0.1])))))], TODAY)
    assert values.rules[0].metric == "value"  # a value before what is printed


def test_metrics_that_not_every_run_holds_or_of_two_units_have_no_first_rule() -> None:
    one = Run(
        "a",
        "test",
        (series("x", "s", steady(1.0, n=40)), series("y", "s", steady(9.0, n=40)), series("z", "s", [1.0] * 9)),
    )
    two = Run("b", "test", (series("x", "s", steady(1.0, n=40, seed=2)), series("z", "1/s", [1.0] * 9)))
    found = propose([one, two], TODAY)
    assert [rule.metric for rule in found.rules] == ["x"]
    assert {reason: list(names) for reason, names in found.left_out.items()} == {
        "not in every run": ["y"],
        "not of one unit and kind in all runs": ["z"],
    }


def test_where_a_step_spends_its_time() -> None:
    def trace(seed: int, factor: float, *names: str) -> Run:
        rows = [series("step.time", "s", [1.0] * 4, rank=str(r)) for r in range(2)]
        rows += [
            series(name, "s", [0.1 * factor * (1 + i + r)] * 4, rank=str(r))
            for i, name in enumerate(names)
            for r in range(2)
        ]
        rows += [series("kernel.bytes", "B", [9.0]), series("step.odd", "s", [float("inf")])]
        printed = {"mean": 0.2 * factor, "count": 8.0}
        rows.append(
            Series(Key("aten::mm.self_device_time"), "s", "aggregate", read_only(np.array([])), aggregate=printed)
        )
        rows.append(Series(Key("op.printed"), "s", "aggregate", read_only(np.array([])), aggregate={"total": 3.0}))
        rows.append(Series(Key("op.nothing"), "s", "aggregate", read_only(np.array([])), aggregate={"mean": 3.0}))
        rows.append(Series(Key("op.thinned"), "s", "samples", read_only(np.ones(4)), thinned_from=12))
        return Run(f"run{seed}", "test", tuple(rows))

    names = ("step.kernel", "step.other", "kernel.a", "op.b", "collective.c", "memcpy.d", "api.e", "kernel.gone")
    base = [trace(1, 1.0, *names), trace(2, 1.1, *names)]
    new = [trace(3, 1.5, *names[:-1], "kernel.come")]
    check_golden("breakdown", *map(asdict, breakdown(base, new)))
    check_golden("movers", *map(asdict, movers(base, new)))
    assert movers([Run("r", "test", ())], new) == ()
    assert [part.metric for part in breakdown([], new)] == ["step.other", "step.kernel"]
    many = [f"kernel.{i:02}" for i in range(25)]
    assert len(movers([trace(1, 1.0, *many)], [trace(2, 2.0, *many)])) == 20


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


STOPPED = {
    # what no change makes fail, and what is said of it
    "step.time within 5% of baseline": None,
    "forward min over 0 s": "forward is never below 0, so that nothing breaks this limit",
    "forward min at least 0 s": "forward is never below 0, so that nothing breaks this limit",
    "load count at most 50": "no change of what it reads makes it fail",
    "load mean at most 9 s": None,
    "samples_per_second within 100% of baseline": "nothing can fall by more than all of it",
    "{assert: gone under 1 s, on_missing: warn}": "it is never judged (on_missing: warn)",
    "{assert: slow p99 within 5% of baseline, on_inconclusive: warn}": "even a thousandfold it is inconclusive",
}


@pytest.mark.parametrize("rule", STOPPED)
def test_a_rule_that_cannot_fail_says_why(rule: str) -> None:
    (proof,) = self_test(case(f"  - {rule}\n", run(50, n=36)))
    said = STOPPED[rule]
    assert (proof.state == "unable") == (said is not None)
    assert proof.reason.startswith(said or "")


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
    assert _allowed(fields) == allowed


def test_ranks_and_stalls_behind_a_verdict() -> None:
    """Twelve ranks, of which some stall: the one that speaks, and seven from the slowest to the fastest."""

    def stalled(rank: int, unit: str) -> Series:
        x = np.array([5.0, *steady(1 + rank / 100, n=300, seed=rank)])
        x[100 + rank] *= 3 if unit in ("s", "B") else 0.3
        return series("held", unit, list(x), rank=str(rank))

    for unit, limit in (("s", "under 9 s"), ("1/s", "over 0.1 /s"), ("B", "under 1 GB")):
        new = replace(run(50), series=tuple(stalled(rank, unit) for rank in range(12)))
        asked = case(f"  - held {limit}\n  - held total {limit.replace('9 s', '1 h')}\n", new)
        check_golden(f"ranks-behind-{unit.replace('/', '')}", *map(asdict, judge_with_evidence(asked)[1]))


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
    assert ("the nearest are" in found.message) == bool(near)


def test_only_so_many_names_are_looked_for() -> None:
    rules = "".join(f"  - forwar{i} under 1 s\n" for i in range(60))
    found = judge(case(rules, run(50, n=12)))
    assert sum("the nearest are" in verdict.message for verdict in found) == 50


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


@pytest.mark.parametrize(
    ("jumps", "warns"), [((1.3,), False), ((1.3, 1.3), False), ((1.3, 1.3, 1.3), True), ((1.004,) * 5, False)]
)
def test_a_drift_is_three_runs_in_a_row_at_least(jumps: tuple[float, ...], warns: bool) -> None:
    asked = case("  - slow within 5% of baseline\n", *(run(20 + i, slower=jump) for i, jump in enumerate(jumps)))
    asked = replace(asked, baseline=replace(asked.baseline, anchor=()))
    found = drifts(asked, Evidence.of(asked.new, asked.baseline, {}))
    assert [problem.severity for problem in found] == ["warning"] * warns


def test_how_metrics_changed_together() -> None:
    """The geometric mean of new / base, for each unit that two metrics have."""
    rules = "".join(f"  - {name} within 5% of baseline\n" for name in ("slow", "fast", "memory", "gone", "step.time"))
    found = judge(case(rules, run(50, slower=1.3, faster=1.2)))
    (mean,) = geometric_means(found)
    ratios = [1 + verdict.change.estimate for verdict in found if verdict.change and verdict.unit == "s"]
    assert (mean.unit, mean.verdicts) == ("s", 3)
    assert mean.change == pytest.approx(float(np.prod(ratios)) ** (1 / 3) - 1)
    assert geometric_means(found[:1]) == ()
    vanished = [replace(verdict, change=Change(-1.0, None, None)) for verdict in found[:2]]
    assert geometric_means(vanished) == ()
