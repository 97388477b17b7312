"""From evidence to a question: its terms, its runs and its doubts, and the clauses that ask nothing."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from stories import TODAY, bare, evidence_of, question_of, run_of, series

from perfgate.core import Allowance, CalibratedPrior, Key, Quarantine, RememberedRuns, Run, Series, read_only
from perfgate.core.results import Doubt
from perfgate.judge.ask import _latest, _noise_between, _stored, ask, exceptions_of, limit_confidence
from perfgate.judge.evidence import CannotJudge
from perfgate.judge.measure import NotAvailable
from perfgate.judge.pairs import PRIORS
from perfgate.judge.question import ChangeQuestion, Exceptions, LimitQuestion, MachineDifference, RankQuestion
from perfgate.judge.terms import ChangeTerms
from perfgate.rules.load import load_rules
from perfgate.stats.moderated import run_noise
from perfgate.stats.sequential import nominal_levels
from perfgate.stats.statistics import RunMeasure

BASELINE = "x within 5% of baseline"
ANCHOR = "x within 5% of anchor"


def run(*values: float, metric: str = "x", unit: str = "s", source: str = "new.json", **labels: str) -> Run:
    """A run of one metric, by default nine seconds of it."""
    numbers = [*values] * (1 if len(values) > 1 else 9)
    return run_of(series(metric, unit, numbers or [1.0] * 9, **labels), source=source)


def ranks(*values: float, unit: str = "s", more: Series | None = None) -> Run:
    rows = [series("x", unit, [value] * 9, rank=str(i)) for i, value in enumerate(values)]
    return run_of(*rows, *([more] if more else ()))


def changed(rule: str, new: list[Run], base: list[Run], **fields: Any) -> Any:
    """The question of a rule; `facts`, `looks` and `strict` are fields of the case, others of the baseline."""
    of_case = {name: fields.pop(name) for name in ("facts", "looks", "strict") if name in fields}
    return question_of(replace(bare(rule, new, base, **fields), **of_case))


def refused(rule: str, new: list[Run], base: list[Run] | None = None, **fields: Any) -> str:
    with pytest.raises(CannotJudge) as raised:
        changed(rule, new, base or [], **fields)
    return f"{raised.value.reason}: {raised.value}. {raised.value.next_step.text}"


# --- the kind of question --------------------------------------------------------------------------------------------

KINDS = [
    ("x under 9 s", LimitQuestion),
    (BASELINE, ChangeQuestion),
    (ANCHOR, ChangeQuestion),
    ("x on the slowest rank at most 1.1x the median rank", RankQuestion),
    ("x on the slowest rank within 5% of the fastest rank", RankQuestion),
]


@pytest.mark.parametrize(("rule", "kind"), KINDS)
def test_each_clause_asks_its_kind_of_question(rule: str, kind: type[object]) -> None:
    new = [ranks(1.0, 1.0)]
    found: Any = changed(f"{{assert: {rule}, on_inconclusive: fail}}", new, new, anchor=tuple(new))
    assert found.exceptions == Exceptions(on_open="fail")
    assert isinstance(found, kind)


REFUSED: list[tuple[str, list[Run], list[Run], str]] = [
    # a rule, the new runs, the stored ones, and why nothing is asked
    (
        "no more work.syncs than baseline",
        [run(metric="work.syncs", unit="1")],
        [],
        "not-available: work is compared as a whole. write `no more work than baseline`",
    ),
    ("x under 9 s", [run(), run_of()], [], "rank-gone: a run does not have x on every rank. find out why"),
    (
        "x under 9 s",
        [run(-1.0)],
        [],
        "impossible: x has the value -1 s in new.json, which cannot be negative. find out why the program wrote it, "
        "and measure again",
    ),
    (
        "x on the slowest rank at most 1.1x the median rank",
        [run(rank="0")],
        [],
        "too-few-ranks: x has a single rank. give the files of all ranks",
    ),
    *(
        (
            f"{{assert: {rule}, min_runs: 2}}",
            [new],
            [new, new],
            "too-few-runs: the rule needs 2 runs; the new side has 1. give 1 more",
        )
        for rule, new in (
            ("x under 9 s", run()),
            ("x on the slowest rank at most 1.1x the median rank", ranks(1.0, 1.0)),
        )
    ),
    (
        "{assert: x within 5% of baseline, min_runs: 2}",
        [run(), run()],
        [run()],
        "too-few-runs: the rule needs 2 runs; the baseline side has 1. give 1 more",
    ),
    (BASELINE, [run()], [], "no-baseline: there is no baseline to compare x with. make one"),
]


@pytest.mark.parametrize(("rule", "new", "base", "message"), REFUSED)
def test_a_clause_that_cannot_be_judged_asks_nothing(rule: str, new: list[Run], base: list[Run], message: str) -> None:
    assert refused(rule, new, base) == message


TOMORROW, YESTERDAY = date(2026, 1, 2), date(2025, 12, 31)
EXCEPTIONS = [
    # the settings of a rule, and what replaces an outcome on 2026-01-01
    ("severity: error", Exceptions()),
    ("on_inconclusive: error", Exceptions(on_open="error")),
    ("on_improvement: fail", Exceptions(improvement_fails=True)),
    ("on_improvement: note", Exceptions()),
    *(
        (f'expect_fail: {{reason: known, until: "{until}"}}', Exceptions(failure_expected=until >= TODAY))
        for until in (YESTERDAY, TODAY, TOMORROW)
    ),
    *(
        (
            f'quarantine: {{reason: noisy, until: "{until}"}}',
            Exceptions(quarantine=Quarantine(str(until), "noisy", until < TODAY)),
        )
        for until in (YESTERDAY, TODAY, TOMORROW)
    ),
]


@pytest.mark.parametrize(("settings", "exceptions"), EXCEPTIONS)
def test_the_settings_that_replace_an_outcome(settings: str, exceptions: Exceptions) -> None:
    assert exceptions_of(evidence_of(bare(f"{{assert: x under 9 s, {settings}}}", [run()]))) == exceptions


# --- a limit ---------------------------------------------------------------------------------------------------------


def test_a_limit_is_asked_with_the_settings_of_its_rule() -> None:
    rule = "{assert: x p90 at least 2 s, confidence: 90%, warmup: 3, min_samples: 4, at_worst: 1 s}"
    asked = changed(rule, [run(1.0, 2.0, 3.0, 4.0, 5.0)], [], strict=True)
    assert (asked.terms.statistic, asked.terms.bound, asked.terms.comparator) == ("p90", 2.0, "at least")
    assert (asked.terms.confidence, asked.terms.warmup, asked.terms.min_samples) == (0.9, 3, 4)
    assert (asked.terms.strict, asked.terms.at_worst, asked.terms.exact) == (True, 1.0, False)
    assert [list(one.values) for one in asked.runs] == [[4.0, 5.0]]
    assert changed("x under 9 B", [run(unit="B")], []).terms.exact


def noise(s0: float, **fields: Any) -> CalibratedPrior:
    return CalibratedPrior(Key("x"), "median", "worst", s0, 6.0, 5, **fields)


def measured(*values: float) -> list[RunMeasure]:
    return [RunMeasure(value, 1, None, 0.0, 0, settled=True) for value in values]


LEARNED = math.sqrt(run_noise(measured(1.0, 1.3), (0.01, 2.0))[1].variance)
NOISE: list[tuple[str, str, list[Run], tuple[CalibratedPrior, ...], float]] = [
    # a statistic, a unit, the stored runs, the calibration, and the noise between runs
    *((statistic, "s", [run(1.0), run(1.3)], (), 0.0) for statistic in ("max", "min", "p100", "p0")),
    ("median", "B", [run(1.0, unit="B"), run(1.3, unit="B")], (), 0.0),
    ("median", "s", [], (noise(0.3),), 0.3),
    ("median", "s", [run(1.0), run(1.3)], (noise(0.3),), 0.3),
    ("median", "s", [run(1.0), run(1.3)], (), LEARNED),
    ("mean", "s", [run(1.0), run(1.3)], (), LEARNED),
    ("median", "s", [run(1.0), run(0.0), run(1.3)], (), LEARNED),
    ("median", "s", [run(1.0), run_of(series("y", "s", [1.0])), run(1.3)], (), LEARNED),
    ("median", "s", [run(1.0), run(0.0)], (), 0.02),
    ("median", "s", [run(1.0)], (), 0.02),
    ("median", "s", [], (), 0.02),
]


@pytest.mark.parametrize(("statistic", "unit", "base", "priors", "expected"), NOISE)
def test_the_noise_between_runs_of_a_limit(
    statistic: str, unit: str, base: list[Run], priors: tuple[CalibratedPrior, ...], expected: float
) -> None:
    evidence = evidence_of(bare(f"x {statistic} under 9 {unit}", [run(unit=unit)], base, priors=priors))
    found = _noise_between(evidence, evidence.measured(evidence.new), _stored(evidence))
    assert found == pytest.approx(expected)
    assert changed(f"x {statistic} under 9 {unit}", [run(unit=unit)], base, priors=priors).terms.noise == found


FIRST, SECOND = 0.05 / 3, nominal_levels((1.0, 3.0), 0.05, 1.0)[1]
CONFIDENCE: list[tuple[str, str, int, int, tuple[int, ...] | None, float]] = [
    # a choice of the rank, a confidence, ranks, runs, the looks, and the confidence of the limit
    ("", "95%", 1, 1, None, 0.95),
    ("", "95%", 4, 1, None, 1 - 0.05 / 4),
    ("on the slowest rank", "95%", 4, 1, None, 1 - 0.05 / 4),
    ("on the fastest rank", "90%", 4, 1, None, 1 - 0.1 / 4),
    ("on the median rank", "95%", 4, 1, None, 0.95),
    ("across ranks", "95%", 4, 1, None, 0.95),
    ("", "99.99999999999999%", 4, 1, None, 1 - 1e-12),
    ("", "95%", 1, 1, (1,), 0.95),
    ("", "95%", 1, 2, (1, 3), 0.95),
    ("", "95%", 1, 1, (1, 3), 1 - FIRST),
    ("", "95%", 1, 3, (1, 3), 1 - SECOND),
    ("", "95%", 1, 2, (1, 2, 3), 1 - nominal_levels((1.0, 2.0, 3.0), 0.05, 1.0)[1]),
    ("", "95%", 2, 1, (1, 3), 1 - FIRST / 2),
]


@pytest.mark.parametrize(("choice", "confidence", "count", "runs", "looks", "expected"), CONFIDENCE)
def test_the_confidence_of_a_limit_counts_its_ranks_and_its_looks(
    choice: str, confidence: str, count: int, runs: int, looks: tuple[int, ...] | None, expected: float
) -> None:
    """The worst of R ranks is one of R chances, and several looks share the error rate; the first of (1, 3) a third."""
    new = [ranks(*[1.0] * count)] * runs
    case = replace(bare(f"{{assert: x {choice} under 9 s, confidence: {confidence}}}", new), looks=looks)
    evidence = evidence_of(case)
    assert limit_confidence(evidence, evidence.new) == pytest.approx(expected, abs=1e-13)


def test_a_single_look_has_exactly_the_confidence_of_the_rule() -> None:
    evidence = evidence_of(replace(bare("x under 9 s", [run()]), looks=(1,)))
    assert limit_confidence(evidence, evidence.new) == 0.95


def test_the_run_with_the_most_ranks_counts() -> None:
    evidence = evidence_of(bare("x under 9 s", [ranks(1.0)], [ranks(1.0), ranks(1.0, 1.0), ranks(1.0)]))
    assert limit_confidence(evidence, evidence.subject.base) == 1 - 0.05 / 2


WORST: list[tuple[str, str, float | None]] = [
    # a limit, `at_worst` of the defaults, and the value that a pass excludes
    ("under 9 s", "10 s", 10.0),
    ("under 9 s", "9 s", None),
    ("under 9 s", "8 s", None),
    ("at least 9 s", "8 s", 8.0),
    ("at least 9 s", "9 s", None),
    ("over 9 s", "9 s", None),
    ("at least 9 s", "10 s", None),
    ("under 9 s", "10 B", None),
    ("under 9 s", "1000%", None),
]


@pytest.mark.parametrize(("limit", "at_worst", "value"), WORST)
def test_the_value_that_a_pass_excludes_is_beyond_the_limit(limit: str, at_worst: str, value: float | None) -> None:
    text = f"version: 1\ndefaults: {{at_worst: {at_worst}}}\nrules:\n  - x {limit}\n"
    rules, problems = load_rules([("r.yaml", text.encode())])
    assert rules is not None, problems
    evidence = evidence_of(replace(bare("x under 9 s", [run()]), ruleset=rules))
    found = ask(evidence)
    assert isinstance(found, LimitQuestion)
    assert found.terms.at_worst == value


def test_a_limit_without_at_worst_excludes_nothing() -> None:
    assert changed("x under 9 s", [run()], []).terms.at_worst is None


def sweep(kept: int, measured: int, factor: float = 1.0) -> Run:
    """Loads from 1 to `measured`, of which the first `kept` keep the limit, each serving `factor` times itself."""
    loads = range(1, measured + 1)
    slow = [series("ttft", "s", [0.9 if load > kept else 0.1] * 9, request_rate=str(load)) for load in loads]
    served = [series("served", "1", [factor * load] * 9, request_rate=str(load)) for load in loads]
    return run_of(*slow, *served)


LOAD = "the largest request_rate with ttft under 500 ms"
SHORT: list[tuple[str, Run, list[Run], bool]] = [
    # a rule, the new sweep, the stored ones, and whether the new one is too short
    (f"{LOAD} at least 3", sweep(2, 2), [], True),
    (f"{LOAD} at least 2", sweep(2, 2), [], False),
    (f"{LOAD} at least 3", sweep(2, 3), [], False),
    (f"{LOAD} at most 3", sweep(2, 2), [], True),
    (f"{LOAD} at most 2", sweep(2, 2), [], True),
    (f"{LOAD} at most 2", sweep(2, 3), [], False),
    (f"{LOAD} over 2", sweep(2, 2), [], True),
    (f"{LOAD} over 2", sweep(2, 3), [], False),
    (f"{LOAD} at most 3", sweep(2, 3), [], False),
    (f"{LOAD} at most 1", sweep(2, 2), [], False),
    ("served with ttft under 500 ms under 3", sweep(2, 2), [], True),
    ("served with ttft under 500 ms under 3", sweep(2, 3), [], False),
    ("served with ttft under 500 ms under 2", sweep(2, 2), [], False),
    (f"{LOAD} within 5% of baseline", sweep(2, 2), [sweep(3, 4)], True),
    (f"{LOAD} within 5% of baseline", sweep(2, 2), [sweep(2, 4)], False),
    (f"{LOAD} within 5% of baseline", sweep(2, 2), [sweep(1, 4), sweep(3, 4)], True),
    (f"{LOAD} within 5% of baseline", sweep(2, 3), [sweep(3, 4)], False),
    ("served with ttft under 500 ms within 5% of baseline", sweep(2, 2, 0.1), [sweep(0, 2)], False),
]


@pytest.mark.parametrize(("rule", "new", "base", "is_short"), SHORT)
def test_a_sweep_that_ends_where_it_keeps_its_limits_says_nothing_about_a_larger_load(
    rule: str, new: Run, base: list[Run], is_short: bool
) -> None:
    if is_short:
        assert refused(rule, [new], base).startswith("short-sweep: ")
    else:
        found = changed(rule, [new], base)
        assert found.new.measures[0].value == (0.2 if "served with ttft under 500 ms within" in rule else 2.0)
        assert not found.terms.exact or not base


# --- ranks of one run ------------------------------------------------------------------------------------------------

RATIOS: list[tuple[str, list[Run], list[float], list[tuple[float, str]]]] = [
    # a rule, the runs, their ratios, and the limits
    ("x on the slowest rank at most 1.1x the median rank", [ranks(1.0, 2.0, 3.0)], [1.5], [(1.1, "at most")]),
    ("x on the slowest rank at most 1.1x the fastest rank", [ranks(1.0, 3.0)], [3.0], [(1.1, "at most")]),
    ("x on the fastest rank within 5% of the slowest rank", [ranks(1.0, 4.0)], [0.25], [(1.05, "at most")]),
    (
        "x on the slowest rank within 5% of the fastest rank",
        [ranks(1.0, 4.0, unit="1/s")],
        [0.25],
        [(0.95, "at least")],
    ),
    (
        "x on the slowest rank within ±5% of the median rank",
        [ranks(1.0, 1.0)],
        [1.0],
        [(1.05, "at most"), (0.95, "at least")],
    ),
    (
        "{assert: x on the slowest rank within 5% of the median rank, better: neither}",
        [ranks(1.0, 1.0)],
        [1.0],
        [(1.05, "at most"), (0.95, "at least")],
    ),
    (
        "x on the slowest rank within 1 s of the median rank",
        [ranks(8.0, 4.0, 4.0), ranks(5.0, 6.0, 5.0)],
        [2.0, 1.2],
        [(1.25, "at most")],
    ),
    ("x on the slowest rank within 5% and 1 s of the median rank", [ranks(4.0, 4.0)], [1.0], [(1.25, "at most")]),
    ("x on the slowest rank within 50% and 1 s of the median rank", [ranks(4.0, 4.0)], [1.0], [(1.5, "at most")]),
    ("x on the slowest rank within 1 s of the median rank", [ranks(4.0, 0.0, 0.0)], [math.nan], [(1.0, "at most")]),
]


@pytest.mark.parametrize(("rule", "new", "ratios", "limits"), RATIOS)
def test_the_ratio_of_two_ranks_has_limits(
    rule: str, new: list[Run], ratios: list[float], limits: list[tuple[float, str]]
) -> None:
    found = changed(rule, new, [])
    assert [one.values[0] for one in found.ratios] == pytest.approx(ratios, nan_ok=True)
    assert [one.bound for one in found.terms] == pytest.approx([bound for bound, _ in limits])
    assert [one.comparator for one in found.terms] == [comparator for _, comparator in limits]
    assert found.tolerance == pytest.approx(abs(limits[0][0] - 1))
    assert {one.statistic for one in found.terms} == {"mean"}


def test_the_ratio_of_two_ranks_has_the_settings_of_its_rule() -> None:
    rule = "{assert: x on the slowest rank at most 1.1x the median rank, confidence: 90%, warmup: 3, min_samples: 4}"
    found = changed(rule, [ranks(2.0, 1.0, 1.0)], [], strict=True)
    (terms,) = found.terms
    assert (terms.confidence, terms.warmup, terms.min_samples, terms.strict) == (0.9, 3, 4, True)
    assert found.values == ((2.0, 1.0),)


# --- a change --------------------------------------------------------------------------------------------------------

TERMS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # a rule about a time, more of the case, and terms of the change
    (BASELINE, {}, {"statistic": "median", "tolerance": 0.05, "tolerance_absolute": None, "better": "lower"}),
    (BASELINE, {}, {"two_sided": False, "confidence": 0.95, "power": 0.8, "warmup": "auto", "min_samples": 1}),
    (BASELINE, {}, {"prior": (0.01, 2.0), "noise_known": False, "wander": 0.0, "exact": False, "strict": False}),
    (BASELINE, {}, {"looks": (1, 2, 3), "at_worst": None, "at_worst_absolute": None}),
    (BASELINE, {"looks": (2, 4), "strict": True}, {"looks": (2, 4), "strict": True}),
    (ANCHOR, {"looks": (2, 4), "strict": True}, {"looks": None, "strict": False, "confidence": 0.99}),
    ("{assert: x within 5% of anchor, confidence: 90%}", {}, {"confidence": 0.99}),
    ("{assert: x within 5% of baseline, confidence: 90%, power: 0.9}", {}, {"confidence": 0.9, "power": 0.9}),
    ("{assert: x within 5% of baseline, warmup: 2, min_samples: 3}", {}, {"warmup": 2, "min_samples": 3}),
    ("x mean within ±5% of baseline", {}, {"statistic": "mean", "two_sided": True}),
    ("x within 5% and 2 ms of baseline", {}, {"tolerance": 0.05, "tolerance_absolute": 0.002}),
    ("x within 2 ms of baseline", {}, {"tolerance": None, "tolerance_absolute": 0.002}),
    ("{assert: x within 5% of baseline, at_worst: 8%}", {}, {"at_worst": 0.08, "at_worst_absolute": None}),
    ("{assert: x within 2 ms of baseline, at_worst: 3 ms}", {}, {"at_worst": None, "at_worst_absolute": 0.003}),
    ("x count within 5% of baseline", {}, {"exact": True}),
    (BASELINE, {"priors": (noise(0.3, wander=0.1),)}, {"prior": (0.3, 6.0), "noise_known": True, "wander": 0.1}),
    (BASELINE, {"pairing": "in-turn"}, {"prior": PRIORS["in-turn"], "noise_known": False}),
    (ANCHOR, {"pairing": "in-turn"}, {"prior": (0.01, 2.0)}),
    (
        ANCHOR,
        {"pairing": "in-turn", "priors": (noise(0.3), noise(0.4, pairing="in-turn"))},
        {"prior": (0.3, 6.0), "noise_known": True},
    ),
    (
        BASELINE,
        {"pairing": "in-turn", "priors": (noise(0.3), noise(0.4, pairing="in-turn"))},
        {"prior": (0.4, 6.0), "noise_known": True},
    ),
]


@pytest.mark.parametrize(("rule", "more", "terms"), TERMS)
def test_the_terms_of_a_change(rule: str, more: dict[str, Any], terms: dict[str, Any]) -> None:
    found: ChangeTerms = changed(rule, [run()], [run()], anchor=(run(),), **more).terms
    assert {name: getattr(found, name) for name in terms} == terms


def test_an_at_worst_of_another_unit_is_not_meant_for_the_metric() -> None:
    text = f"version: 1\ndefaults: {{at_worst: 3 B}}\nrules:\n  - {BASELINE}\n"
    rules, _ = load_rules([("r.yaml", text.encode())])
    assert rules is not None
    found = {
        unit: question_of(replace(bare(BASELINE, [run(unit=unit)], [run(unit=unit)]), ruleset=rules)).terms
        for unit in ("s", "B")
    }
    assert {unit: terms.at_worst_absolute for unit, terms in found.items()} == {"s": None, "B": 3.0}


def test_a_change_since_the_baseline_is_asked_of_both_sides() -> None:
    new, base, anchor = [run(2.0), run(2.1)], [run(1.0), run(1.1), run(1.2)], run(3.0)
    asked = changed(BASELINE, new, base, anchor=(anchor,))
    assert (asked.reference, asked.alone, asked.ratios, asked.is_one_of_many) == ("baseline", (), None, False)
    assert [one.value for one in (*asked.new.measures, *asked.base.measures)] == [2.0, 2.1, 1.0, 1.1, 1.2]
    assert [view.run for view in (*asked.new.views, *asked.base.views)] == [*new, *base]


def test_a_change_since_the_anchor_is_asked_of_the_latest_runs() -> None:
    anchor, stored, new = run(9.0), [run(float(i)) for i in range(1, 7)], run(7.0)
    asked = changed(ANCHOR, [new], [*stored[:3], run_of(series("y", "s", [1.0])), *stored[3:]], anchor=(anchor,))
    assert (asked.reference, asked.ratios, asked.machine, asked.allowance) == ("anchor", None, (), None)
    assert [one.value for one in asked.alone] == [7.0]
    assert [one.value for one in asked.base.measures] == [9.0]
    assert [view.run for view in asked.base.views] == [anchor]
    assert [one.value for one in asked.new.measures] == [3.0, 4.0, 5.0, 6.0, 7.0]
    asked = changed(ANCHOR, [new], [run_of(series("y", "s", [1.0]))], anchor=(anchor,))
    assert [one.value for one in asked.new.measures] == [7.0]


def test_each_rank_is_compared_with_the_anchor_by_its_own_runs() -> None:
    both = ranks(1.0, 2.0)
    evidence = evidence_of(bare("x on each rank within 5% of anchor", [both], [both] * 3, anchor=(both,)))
    for of_rank, value in zip(evidence.each_rank(), (1.0, 2.0), strict=True):
        asked = ask(of_rank)
        assert isinstance(asked, ChangeQuestion)
        assert [one.value for one in asked.base.measures] == [value]
        assert [one.value for one in asked.new.measures] == [value] * 4


def test_stored_runs_without_the_statistic_are_refused_beside_the_anchor() -> None:
    """They are among the latest runs, so without them the answer would be about other runs."""
    printed = run_of(Series(Key("x"), "s", "aggregate", read_only(np.empty(0)), aggregate={"mean": 1.0}))
    with pytest.raises(NotAvailable):
        changed("x p95 within 5% of anchor", [run(1.0)], [printed], anchor=(run(1.0),))
    assert changed("x p95 under 9 s", [run(1.0)], [printed], anchor=(run(1.0),)).terms.bound == 9.0


@pytest.mark.parametrize(("new", "latest"), [(1, 5), (4, 5), (5, 5), (6, 6)])
def test_the_latest_runs_are_five_or_all_new_ones(new: int, latest: int) -> None:
    stored, measured_now = [ranks(1.0, 2.0)] * 9, [ranks(4.0, 3.0)] * new
    evidence = evidence_of(bare(ANCHOR, measured_now, stored, anchor=(stored[0],)))
    side = _latest(evidence, evidence.measured(evidence.new, evidence.subject.new_views))
    old = latest - new
    assert [one.value for one in side.measures] == [2.0] * old + [4.0] * new
    assert [member[0][1] for member in side.members] == ["1"] * old + ["0"] * new
    assert [one.values[0] for one in side.series] == [2.0] * old + [4.0] * new
    assert [view.run for view in side.views] == stored[:old] + measured_now


def test_a_metric_of_a_glob_is_one_of_many() -> None:
    rules = ("x* within 5% of baseline", '"x" within 5% of baseline', "x + x within 5% of baseline")
    assert [changed(f"'{rule}'", [run()], [run()]).is_one_of_many for rule in rules] == [True, False, False]


# --- what belongs to the baseline ------------------------------------------------------------------------------------


def allowance(metric: str, expires: date = TODAY, up_to: float = 0.2) -> Allowance:
    return Allowance(metric, up_to, "me", "faster start", expires)


ALLOWED: list[tuple[str, tuple[Allowance, ...], int | None, bool]] = [
    # the metric, the allowances, the one that counts, and whether its last day is over
    ("x", (), None, False),
    ("x", (allowance("y"), allowance("x*"), allowance("x")), 1, False),
    ("x", (allowance("x", YESTERDAY),), 0, True),
    ("x", (allowance("x", TOMORROW),), 0, False),
    ("x", (allowance("y", YESTERDAY),), None, False),
    ("x[0]", (allowance("x[0]"),), 0, False),
]


@pytest.mark.parametrize(("metric", "allowances", "index", "is_expired"), ALLOWED)
def test_an_allowance_is_that_of_the_metric(
    metric: str, allowances: tuple[Allowance, ...], index: int | None, is_expired: bool
) -> None:
    side = [run(metric=metric)]
    asked = changed(f"'\"{metric}\" within 5% of baseline'", side, side, allowances=allowances)
    assert asked.allowance == (None if index is None else allowances[index])
    assert asked.is_expired == is_expired


def test_pairs_have_ratios_and_no_remembered_runs() -> None:
    later = RememberedRuns(Key("x"), "median", "worst", "main", (1.0,), (0.0,), ("a",), is_measured=True)
    new, base = [run(2.0), run(3.0)], [run(1.0), run(2.0)]
    stored = changed(BASELINE, new, base, remembered=(later,))
    paired = changed(BASELINE, new, base, remembered=(later,), pairing="whole-runs")
    assert (stored.ratios, stored.remembered, paired.remembered) == (None, later, None)
    assert [one.value for one in paired.ratios] == pytest.approx([2.0, 1.5])


MACHINE = [
    # the other metric of the new runs, the facts, how pairs were made, and whether the machines are compared
    ("y", {}, None, False),
    ("y", {"host": "a"}, None, True),
    ("y", {"host": "a"}, "in-turn", False),
    ("y", {}, "in-turn", False),
    ("machine.load", {}, None, True),
    ("machine.load", {}, "in-turn", True),
]


@pytest.mark.parametrize(("metric", "facts", "pairing", "is_compared"), MACHINE)
def test_the_machines_of_both_sides_are_compared(
    monkeypatch: pytest.MonkeyPatch, metric: str, facts: dict[str, str], pairing: str | None, is_compared: bool
) -> None:
    found = MachineDifference((1.0,), (2.0,), ())
    noted = Doubt("machine", "clock", 1e9, 2e9, decides=False)
    monkeypatch.setitem(ask.__globals__, "machine_differences", lambda evidence, base, new: ((found,), [noted]))
    new = run_of(series("x", "s", [1.0] * 9), series(metric, "1", [1.0] * 9))
    asked = changed(BASELINE, [new], [new], facts=facts, pairing=pairing)
    assert (asked.machine, noted in asked.doubts) == (((found,), True) if is_compared else ((), False))


# --- doubts ----------------------------------------------------------------------------------------------------------

#: A start of a slow quarter, which is dropped.
SLOW = run(*[5.0] * 10, *[1.0] * 30)
QUARTER = Doubt("warm-up", "quarter", 40, 10, decides=True)
#: Stored runs lose one value, so that the warm-up has grown, too.
GROWN = Doubt("warm-up", "warm-up time", 1.0, 50.0, decides=True)
EVEN = run(*[1.0] * 40)
SPREAD = [run(1.0), run(3.0)]


def values(base: float, new: float, *, decides: bool) -> Doubt:
    return Doubt("measured-less", "values", base, new, decides=decides)


DOUBTS: list[tuple[str, list[Run], list[Run], dict[str, Any], list[Doubt]]] = [
    # a rule, the new runs, the stored ones, more of the case, and the doubts
    (BASELINE, [EVEN], [EVEN], {}, []),
    (BASELINE, [SLOW], [EVEN], {}, [GROWN, QUARTER]),
    (ANCHOR, [SLOW], [EVEN], {"anchor": (EVEN,)}, [GROWN, QUARTER]),
    ("x under 3 s", [SLOW], [], {}, [replace(QUARTER, decides=False)]),
    ("x under 1.5 s", [SLOW], [], {}, [QUARTER]),
    (BASELINE, [run(*[1.0] * 10)], [EVEN], {}, [values(40, 10, decides=True)]),
    (BASELINE, [run(*[1.0] * 10)], [EVEN], {"anchor": (EVEN,)}, [values(40, 10, decides=True)]),
    (ANCHOR, [EVEN], [EVEN], {"anchor": (run(*[1.0] * 10),)}, []),
    (ANCHOR, [run(*[1.0] * 10)], [EVEN], {"anchor": (run(*[1.0] * 10),)}, [values(40, 10, decides=True)]),
    ("x under 9 s", [run(*[1.0] * 10)], [EVEN], {}, [values(40, 10, decides=True)]),
    ("x under 9 s", [run(*[1.0] * 10)], [], {}, []),
    (BASELINE, SPREAD, [run(1.0)] * 3, {}, [Doubt("runs-disagree", "new-runs", 1.0, 3.0, decides=True)]),
]


@pytest.mark.parametrize(("rule", "new", "base", "more", "doubts"), DOUBTS)
def test_the_doubts_of_a_question(
    rule: str, new: list[Run], base: list[Run], more: dict[str, Any], doubts: list[Doubt]
) -> None:
    found = [one for one in changed(rule, new, base, **more).doubts if one.reason != "mean-moved"]
    assert found == doubts


@pytest.mark.parametrize(
    ("pairs", "pairing", "is_doubted"), [(1, None, True), (2, "in-turn", False), (3, "in-turn", True), (2, None, True)]
)
def test_the_start_of_less_than_three_pairs_is_not_doubted(pairs: int, pairing: str | None, is_doubted: bool) -> None:
    asked = changed(BASELINE, [SLOW] * pairs, [EVEN] * pairs, pairing=pairing)
    assert ("quarter" in [one.what for one in asked.doubts]) == is_doubted


ALONE = series("x", "s", [1.0] * 9)
RANK_DOUBTS: list[tuple[list[Run], list[tuple[Any, ...]]]] = [
    # the new runs of a job of four ranks, and the doubts about its ranks
    ([ranks(1.0, 1.0, 1.0, 1.0)], []),
    ([ranks(1.0, 1.0)], [("ranks", 1.0, 0.5)]),
    ([ranks(1.0, 1.0, more=ALONE)], [("ranks", 1.0, 0.5)]),
    ([run()], []),
]


@pytest.mark.parametrize(("new", "doubts"), RANK_DOUBTS)
def test_too_few_ranks_are_doubted(new: list[Run], doubts: list[tuple[Any, ...]]) -> None:
    asked = changed("x under 9 s", new, [], facts={"world_size": 4})
    assert [(one.what, one.base, one.new) for one in asked.doubts] == doubts


def thinned(metric: str) -> Series:
    return Series(Key(metric), "s", "samples", read_only(np.ones(10)), thinned_from=100)


def even(metric: str, n: int = 10) -> Series:
    return series(metric, "s", [1.0] * n)


THINNED: list[tuple[str, tuple[Series, ...], tuple[Series, ...], bool]] = [
    # the metric, the new series, the stored ones, and whether another number of values is doubted
    ("both", (even("forward", 100), even("backward", 100)), (thinned("forward"), thinned("backward")), False),
    ("both", (even("forward", 100), even("backward", 100)), (thinned("forward"), even("backward"), even("z")), False),
    ("both", (even("forward", 100), even("backward", 100)), (even("forward"), even("backward"), thinned("z")), True),
    ("both", (even("forward", 100), even("backward", 100)), (even("forward"), even("backward")), True),
    (
        "forward + backward",
        (even("forward", 100), even("backward", 100)),
        (thinned("forward"), even("backward")),
        False,
    ),
    ("x", (even("x", 100),), (thinned("x"),), False),
    ("x", (even("x"),), (thinned("x"),), True),
    ("x*", (even("x"),), (thinned("x"),), True),
]


@pytest.mark.parametrize(("metric", "new", "base", "is_doubted"), THINNED)
def test_a_base_that_was_stored_thinned_has_no_fewer_values(
    metric: str, new: tuple[Series, ...], base: tuple[Series, ...], is_doubted: bool
) -> None:
    asked = changed(f"{metric} within 5% of baseline", [run_of(*new)], [run_of(*base)])
    assert ("values" in [one.what for one in asked.doubts]) == is_doubted


def test_the_stored_runs_of_a_limit_are_those_with_the_metric() -> None:
    stored = [ranks(1.0, 2.0), run_of(series("y", "s", [1.0])), ranks(3.0, 1.0)]
    evidence = evidence_of(bare("x under 9 s", [ranks(1.0, 1.0)], stored))
    side = _stored(evidence)
    assert side is not None
    assert [one.value for one in side.measures] == [2.0, 3.0]
    assert [view.run for view in side.views] == [stored[0], stored[2]]
    assert _stored(evidence_of(bare("x under 9 s", [run()], stored[1:2]))) is None
    printed = run_of(Series(Key("x"), "s", "aggregate", read_only(np.empty(0)), aggregate={"mean": 1.0}))
    assert _stored(evidence_of(bare("x p90 under 9 s", [run()], [printed]))) is None


def test_on_each_rank_the_stored_runs_are_those_of_the_rank() -> None:
    evidence = evidence_of(bare("x on each rank under 9 s", [ranks(1.0, 1.0)], [ranks(1.0, 2.0), ranks(3.0)]))
    found = [_stored(one) for one in evidence.each_rank()]
    assert [[one.value for one in side.measures] for side in found if side is not None] == [[1.0, 3.0], [2.0]]
