"""Questions and their whole answers, with every number: a change of the statistics shows which answers it moves.

`golden/whole_answers.txt` has a part for each kind of question, with a line for each outcome and reason. Below it are
the questions with this answer, behind a checksum of all its numbers. What a doubt or an exception does not change is
left out. `python tests/judge/test_whole_answers.py` prints every number: compare what it prints before and after a
change. `UPDATE_GOLDEN=1 pytest tests/judge/test_whole_answers.py` writes the golden file anew.
"""

from __future__ import annotations

import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from perfgate.core import Allowance, Key, NextStep, RememberedRuns, read_only
from perfgate.core.calculations import Comparison
from perfgate.core.results import Doubt, Result
from perfgate.judge.decide.outcome import decide
from perfgate.judge.question import (
    ChangeQuestion,
    Exceptions,
    LimitQuestion,
    MachineDifference,
    MeasuredSide,
    NotJudged,
    Question,
    RankQuestion,
    WorkCount,
    WorkQuestion,
)
from perfgate.judge.terms import ChangeTerms, LimitTerms
from perfgate.stats.statistics import RunMeasure
from perfgate.stats.steady import SteadyRun

GOLDEN = Path(__file__).parent / "golden" / "whole_answers.txt"

ONE, TWO, THREE, FIVE = (1.0,), (0.99, 1.01), (0.995, 1.0, 1.006), (0.997, 0.9985, 1.0, 1.0015, 1.003)
WIDE, OUTLIER, EQUAL = (0.9, 0.95, 1.0, 1.05, 1.1), (*FIVE, 1.4), (1.0,) * 5
UNSTEADY = (0.96, 0.98, 1.0, 1.02, 1.04)
NONE = MeasuredSide((), (), (), ())


def side(values: Sequence[float | None], within: float = 0.0, n: int = 1) -> MeasuredSide:
    """Runs of one number each; with a variance within a run, runs of `n` values."""
    sizes = (n, n / 2, within) if within else (1, None, 0.0)
    return MeasuredSide((), (), (), tuple(RunMeasure(value, *sizes, 0, True) for value in values))


Asked: TypeAlias = Iterator[tuple[str, Question]]


def change(base: MeasuredSide, new: MeasuredSide, **terms: Any) -> ChangeQuestion:
    return ChangeQuestion(ChangeTerms(**{"tolerance": 0.05, **terms}), base, new)


#: With these, three runs fail because they are beyond `at_worst`, although the interval includes the tolerance.
NEAR: dict[str, Any] = {"tolerance": 0.1, "at_worst": 0.12, "prior": (0.045, 10.0), "noise_known": True}
#: Base runs and terms: each is asked about the new runs of NEW.
CHANGES: list[tuple[str, tuple[float, ...], float, dict[str, Any]]] = [
    ("one base run", ONE, 0.0, {}),
    ("two base runs", TWO, 0.0, {}),
    ("three base runs", THREE, 0.0, {}),
    ("five base runs", FIVE, 0.0, {}),
    ("five base runs, higher is better", FIVE, 0.0, {"better": "higher"}),
    ("five base runs, both directions", FIVE, 0.0, {"two_sided": True}),
    ("five base runs of samples", FIVE, 1e-5, {}),
    ("five noisy base runs", WIDE, 0.0, {"tolerance": 0.1}),
    ("five noisy base runs, higher is better", WIDE, 0.0, {"better": "higher"}),
    ("equal base runs, both directions", EQUAL, 1e-6, {"two_sided": True}),
    ("noise that excludes no change", THREE, 0.0, NEAR),
    ("base runs with an outlier", OUTLIER, 0.0, {}),
    ("five equal base runs of samples", EQUAL, 1e-6, {}),
    ("one base run, strict", ONE, 0.0, {"strict": True}),
    ("one number of bytes", ONE, 0.0, {"exact": True}),
    ("known noise of nearly nothing", EQUAL, 0.0, {"prior": (1e-99, 4.0), "noise_known": True}),
    ("known noise", THREE, 0.0, {"prior": (0.02, 4.0), "noise_known": True}),
    ("known noise, and levels that wander", THREE, 0.0, {"prior": (0.02, 4.0), "noise_known": True, "wander": 0.01}),
    ("known noise, higher is better", ONE, 0.0, {"prior": (0.02, 4.0), "noise_known": True, "better": "higher"}),
    ("the anchor", ONE, 0.0, {"looks": None, "prior": (0.02, 4.0)}),
    ("the anchor, both directions", FIVE, 0.0, {"looks": None, "better": "neither"}),
    ("a single look", FIVE, 0.0, {"looks": (1,)}),
    ("a given at_worst", FIVE, 0.0, {"at_worst": 0.2, "confidence": 0.99, "power": 0.9}),
    ("an absolute tolerance", FIVE, 0.0, {"tolerance": 0.01, "tolerance_absolute": 0.08}),
    ("no tolerance", FIVE, 0.0, {"tolerance": 0.0, "at_worst": 0.03}),
    ("a tolerance of 100 %", FIVE, 0.0, {"tolerance": 1.0, "better": "higher"}),
    ("bytes", EQUAL, 0.0, {"exact": True}),
    ("bytes, higher is better", EQUAL, 0.0, {"exact": True, "better": "higher", "looks": None}),
    ("bytes that vary", FIVE, 0.0, {"exact": True}),
    ("a percentile", FIVE, 1e-5, {"statistic": "p99"}),
]
NEW: list[tuple[float, ...]] = [
    *((value,) for value in (0.5, 0.97, 1.0, 1.07, 1.6)),
    *((1.079, 1.081), (1.015, 1.02, 1.025), (1.12, 1.13, 1.14), (1.05, 1.08, 1.11, 1.14)),
]
PAIRS: list[tuple[float, ...]] = [
    (1.2,),
    (1.0, 1.001),
    (1.2, 1.21),
    (0.998, 1.0, 1.003),
    (1.02, 1.05, 1.08),
    (1.2, 1.21, 1.22),
    (0.7,) * 3,
    (0.0, 1.0),
]


def of_change(base: tuple[float, ...], within: float, terms: dict[str, Any]) -> Asked:
    """What the statistics say of runs."""
    for new in NEW:
        yield f"new {listed(new)}", change(side(base, within, 300), side(new, within, 300), **terms)


def of_one_run() -> Asked:
    """One new run beside too few base runs is red only for gross changes."""
    for better in ("lower", "higher"):
        for tolerance in (0.05, 0.6):
            for new in (0.2, 0.3, 0.5, 0.6, 0.64, 0.7, 1.5, 1.8, 2.2, 3.0, 5.0):
                asked = change(side(THREE), side((new,)), better=better, tolerance=tolerance)
                yield f"{better}, within {tolerance}: {new}", asked


def of_thin_tails() -> Asked:
    """Percentiles of values of which few are beyond."""
    for statistic in ("p90", "p10", "median"):
        for base, new in ((40, 40), (40, 38), (38, 40), (60, 60)):
            asked = change(side(THREE, 1e-5, base), side(ONE, 1e-5, new), statistic=statistic)
            yield f"{statistic} of {base // 2}, {new // 2} values", asked


def of_pairs(**terms: Any) -> Asked:
    """What the statistics say of pairs."""
    for ratios in PAIRS:
        asked = change(side((1.0,) * len(ratios)), side(ratios), **terms)
        yield f"pairs {listed(ratios)}", replace(asked, ratios=side(ratios, 1e-6, 40).measures)


def of_values_without_a_ratio() -> Asked:
    """Values of 0 and below, missing and thin data."""
    settings: list[dict[str, Any]] = [{}, {"exact": True, "tolerance": 0.5}, {"exact": True, "tolerance_absolute": 2.0}]
    settings += [
        {**settings[-1], "tolerance_absolute": 0.0},
        {**settings[-1], "looks": None},
        {**settings[-1], "better": "higher"},
        {**settings[-1], "two_sided": True},
    ]
    settings.append({"exact": True, "tolerance": None, "tolerance_absolute": 2.0})
    for terms in settings:
        for base, new in (
            ((0.0,), (0.0,)),
            ((0.0, 0.0), (1.0,)),
            ((0.0,), (0.5,)),
            ((0.0, 1.0), (0.5, 9.0)),
            ((0.0,), (3.0, 4.0)),
            ((-4.0,), (-1.0,)),
            ((9.0,), (0.0,)),
            ((0.0, 1.0), (2.5,)),
        ):
            words = ", ".join(f"{name} {value}" for name, value in terms.items()) or "a change"
            yield f"{words}, base {listed(base)}, new {listed(new)}", change(side(base), side(new), **terms)
    empty, thin = replace(side(ONE).measures[0], n=0), RunMeasure(1.0, 3, 3.0, 0.0, 2, True)
    for name, base, new, least in (
        ("no base run", NONE, side(ONE), 1),
        ("no new run", side(ONE), NONE, 1),
        ("a new run without values", side(ONE), replace(NONE, measures=(replace(empty, value=None),)), 1),
        ("a new run of warm-up alone", side(ONE), replace(NONE, measures=(replace(empty, value=None, dropped=4),)), 1),
        ("two new runs, one without values", side(ONE), replace(NONE, measures=(empty, side(ONE).measures[0])), 1),
        ("as many values as warm-up", side(ONE), replace(NONE, measures=(replace(empty, n=4, dropped=4),)), 1),
        ("not a number", side(ONE), side((None,), 1e-5), 1),
        ("fewer samples than asked", side(FIVE), replace(NONE, measures=(thin,)), 4),
        ("as many samples as asked", side(FIVE), replace(NONE, measures=(thin,)), 3),
    ):
        yield name, change(base, new, min_samples=least)


def of_values_around_zero() -> Asked:
    """Noisy values of 0 and below with an absolute tolerance, as runs and as pairs."""
    base, wide = (0.0, 0.2, -0.1), (-3.0, 0.0, 2.0)
    for terms in (
        {"tolerance_absolute": 5.0},
        {"tolerance_absolute": 0.3, "better": "higher"},
        {"tolerance_absolute": 1.0, "two_sided": True, "at_worst_absolute": 1.5},
        {"tolerance": 0.5, "tolerance_absolute": 0.5},
        {"tolerance": 2.0, "tolerance_absolute": 0.1, "at_worst": 3.0},
        {"tolerance_absolute": 1.0, "prior": (0.02, 4.0), "noise_known": True},
    ):
        words = ", ".join(f"{name} {value}" for name, value in {"tolerance": None, **terms}.items())
        for within in (0.0, 0.01):
            for old, new in (
                *((base, one) for one in ((0.1,), (0.1, 0.0), (0.9, 1.0), (-1.2, -1.3), (7.0,), (6.9, 7.0, 7.2))),
                *((wide, one) for one in ((1.0,), (8.0, 9.0), (30.0, 31.0, 33.0))),
                *(((4.0, 4.2, 0.0), one) for one in ((4.1,), (9.0, 9.1))),
                ((1e308, -1e308), (0.0,)),
            ):
                asked = change(side(old, within, 40), side(new, within, 40), **{"tolerance": None, **terms})
                yield f"{words}, within {within}, base {listed(old)}, new {listed(new)}", asked
        for name, old_side, new_side in (
            ("no base run", NONE, side((0.0, 1.0))),
            ("no new run", side((0.0, 1.0)), NONE),
            ("equal values of 0", side((0.0, 0.0)), side((0.0,))),
        ):
            yield f"{words}, {name}", change(old_side, new_side, **{"tolerance": None, **terms})
        for sides in (((0.0, 0.1, 0.0), (0.1, 0.0, 0.0)), ((0.0, 1.0, 2.0), (7.0, 8.1, 9.1)), ((0.0,), (9.0,))):
            asked = change(side(sides[0]), side(sides[1]), **{"tolerance": None, **terms})
            yield f"{words}, pairs of {listed(sides[0])} and {listed(sides[1])}", replace(asked, ratios=())


def of_several_new_runs_and_the_anchor() -> Asked:
    """New runs that may exceed the anchor by themselves, where the latest runs of the history do not yet."""
    latest = {"quiet": FIVE, "slower": (1.0, 1.0, 1.0, 1.17, 1.18), "noisy": WIDE}
    for name, runs in latest.items():
        for alone in ((1.17,), (1.17, 1.18), (1.17, 1.18, 1.19), (1.3, 1.32), (1.0, 1.0), (1.17, 1.18, 1.19, 1.2)):
            for terms in ({}, {"better": "higher"}, {"tolerance": 0.1, "prior": (0.02, 4.0), "noise_known": True}):
                asked = change(side(FIVE), side(runs), looks=None, **terms)
                words = ", ".join(f"{key} {value}" for key, value in terms.items())
                yield f"{name}, {listed(alone)} {words}".strip(), replace(asked, alone=side(alone).measures)


CLOCK, LOST = Doubt("machine", "clock", 1e9, 0.9e9, decides=True), Doubt("machine", "lost", 0.0, 0.1, decides=True)
DOUBTS = (
    Doubt("measured-less", "values", 100.0, 50.0, decides=True),
    Doubt("implausible", "gain", 1.0, 0.0, decides=True),
    Doubt("runs-disagree", "new-runs", 1.0, 1.04, decides=True),
    Doubt("runs-disagree", "new-runs", 1.0, 1.06, decides=True),
    Doubt("warm-up", "warm-up steps", 10.0, 90.0, decides=True),
    Doubt("warm-up", "quarter", 200.0, 50.0, decides=True),
    Doubt("mean-moved", "mean", 0.5, 0.6, decides=False),
    Doubt("machine", "host", "a", "b", decides=False),
    LOST,
)
ALLOWED = Allowance("x", 0.3, "ada", "meant", date(2026, 2, 1))


def remembered(*values: float, is_measured: bool) -> RememberedRuns:
    labels = tuple(f"c{number}" for number in range(len(values)))
    return RememberedRuns(Key("x"), "median", "worst", "main", values, (0.0,) * len(values), labels, is_measured)


def of_what_outranks(new: float, base: tuple[float, ...] = FIVE, **terms: Any) -> Asked:
    """Doubts, machines, allowances, remembered runs and the rule's author; the plain answer first."""
    asked = change(side(base), side((new,)), **terms)
    yield "plainly", asked
    for strict in (False, True):
        judged = replace(asked, terms=replace(asked.terms, strict=strict))
        for doubts in (*((one,) for one in DOUBTS), DOUBTS[5:7], DOUBTS):
            names = " and ".join(f"{one.reason} {one.what}" for one in doubts)
            yield f"{'strict: ' * strict}{names}", replace(judged, doubts=doubts)
    for factor in (0.0, 1 / 1.4, 1 / 1.1, 1.1, 1.4):
        for shown_as, doubt in (
            ("cycles", CLOCK),
            (None, LOST),
            (None, replace(LOST, base=0.1)),
            ("same-host", replace(CLOCK, decides=False)),
        ):
            machine = MachineDifference((1.0,) * len(base), (factor,), (doubt,), shown_as)
            yield (
                f"{doubt.what} {doubt.base:g} x{factor:.2g} {shown_as or ''}".rstrip(),
                replace(asked, machine=(machine,)),
            )
    for name, given in (("allowed", ALLOWED), ("allowed too little", replace(ALLOWED, up_to=0.06))):
        yield name, replace(asked, allowance=given)
        yield f"{name} up to yesterday", replace(asked, allowance=given, is_expired=True)
        yield f"{name}, and {DOUBTS[4].what}", replace(asked, allowance=given, doubts=DOUBTS[4:5])
    for exceptions in (
        *(Exceptions(on_open=one) for one in ("warn", "fail", "error")),
        Exceptions(improvement_fails=True),
        Exceptions(failure_expected=True),
    ):
        yield shown_fields(exceptions), replace(asked, exceptions=exceptions)
    for count in (1, 2, 3, 7, 10, 12):
        for is_measured in (True, False):
            runs = remembered(*(1.05 + 0.002 * (i % 4) for i in range(count)), is_measured=is_measured)
            yield f"{count} runs of {'this branch' if is_measured else 'main'}", replace(asked, remembered=runs)


def of_remembered(new: float, later: float, **terms: Any) -> Asked:
    """A suspicion beside the runs of the branch since the baseline."""
    asked = change(side(THREE), side((new,)), **terms)
    yield "plainly", asked
    for count in (1, 2, 3, 9, 10, 11, 13):
        for is_measured in (True, False):
            runs = remembered(*(later + 0.002 * (i % 4) for i in range(count)), is_measured=is_measured)
            question = replace(asked, remembered=runs)
            yield f"{count} runs of {'this branch' if is_measured else 'main'} near {later}", question
    runs = remembered(*(later + 0.002 * (i % 4) for i in range(9)), is_measured=True)
    yield "4 runs of main, one of them 0", replace(asked, remembered=remembered(1.1, 0.0, 1.1, 1.1, is_measured=False))
    yield (
        "4 runs of this branch, one of them 0",
        replace(asked, remembered=remembered(1.1, 0.0, 1.1, 1.1, is_measured=True)),
    )
    for doubt in DOUBTS[:3]:
        yield f"9 runs of this branch, {doubt.reason}", replace(asked, remembered=runs, doubts=(doubt,))
    yield (
        "9 runs of this branch, allowed too little",
        replace(asked, remembered=runs, allowance=replace(ALLOWED, up_to=0.06)),
    )


def of_other_doubts() -> Asked:
    """What has no ratio, what is better, and answers at the edge of a doubt."""
    broken = change(side((0.0,)), side((1.0,)))
    yield "a metric that was 0, with all doubts", replace(broken, doubts=DOUBTS)
    for values in ((0.9,) * 4, (1.1,) * 4):
        asked = change(side(FIVE), side((1.06,)), better="higher")
        yield (
            f"higher is better: runs of main {listed(values)}",
            replace(asked, remembered=remembered(*values, is_measured=False)),
        )
    edge = Doubt("runs-disagree", "new-runs", 1.0, 1.05, decides=True)
    yield "runs that differ by the tolerance", replace(change(side(FIVE), side(ONE)), doubts=(edge,))
    for base, new, factor in ((EQUAL, 1.25, 0.8), (UNSTEADY, 1.0, 1.04)):
        machine = MachineDifference((1.0,) * 5, (factor,), (CLOCK,), "cycles")
        asked = replace(change(side(base, 1e-6), side((new,), 1e-6)), machine=(machine,))
        yield f"{new} on a machine that takes {factor} of the time", asked
    small = replace(ALLOWED, up_to=0.01)
    asked = replace(change(side(FIVE), side((1.03,))), allowance=small, doubts=DOUBTS[4:5])
    yield "allowed less than the tolerance", asked
    asked = change(side(THREE, 1e-5, 30), side((1.3,), 1e-5, 30), statistic="p90")
    yield "a thin tail beside runs of main", replace(asked, remembered=remembered(*(1.3,) * 4, is_measured=False))
    asked = change(side((0.0, 0.0)), side((0.0, 0.0)), tolerance=0.005)
    yield "pairs of 0", replace(asked, ratios=side((0.0, 0.0)).measures)
    yield "equal sides whose ratio is 0", replace(change(side(ONE), side(ONE)), ratios=side((0.0,)).measures)
    for exceptions in (Exceptions(failure_expected=True), Exceptions(improvement_fails=True)):
        yield f"an error, {shown_fields(exceptions)}", replace(broken, exceptions=exceptions)


def steady(*values: float, single: bool = False) -> SteadyRun:
    return SteadyRun(read_only(np.array(values)), single, True, 0, True)


STEPS = tuple(1.0 + 0.05 * ((7 * i) % 11 - 5) / 5 for i in range(120))


LIMITED = {
    "120 steps": (steady(*STEPS),),
    "three runs": tuple(steady(*(factor * one for one in STEPS)) for factor in (0.99, 1.0, 1.02)),
    "a number": (steady(1.0, single=True),),
    "three numbers": tuple(steady(one, single=True) for one in (0.98, 1.0, 1.03)),
    "equal bytes": (steady(1.0, 1.0), steady(1.0, 1.0, 1.0)),
    "differing bytes": (steady(1.0, 1.0), steady(1.1, 1.1)),
    "bytes that vary": (steady(1.0, 1.0), steady(1.0, 1.1)),
    "a number of bytes": (steady(1.0),),
    "a number and 120 steps": (steady(1.0, single=True), steady(*STEPS)),
    "values near 0": (steady(0.0, 0.1, 0.2, 2.0),),
    "values above 0": (steady(0.1, 0.2, 0.2, 2.0), steady(0.1, 0.1, 0.3, 3.0)),
    "values below 0, too": (steady(0.1, 0.2, 2.0), steady(-0.1, 0.1, 3.0)),
    "values without a mean": (steady(1e308, 1.2e308, 1.3e308),),
    "few values": (steady(0.9, 1.0, 1.2),),
}


def of_limit(name: str) -> Asked:
    """Limits on a mean, percentiles, an extreme, and a count."""
    is_wide = name.startswith("values") or name == "few values"
    low = 0.0 if name.startswith("values") else 0.8
    for statistic in ("mean", "trimmed_mean") if is_wide else ("median", "mean", "p90", "max", "count"):
        for comparator, bounds in (
            ("under", (low, 1.0, 1.04, 1.3)),
            ("at most", (low,)),
            ("at least", (low, 1.0, 1.3)),
            ("over", (1.0,)),
        ):
            for bound in bounds:
                terms = LimitTerms(bound=bound, statistic=statistic, comparator=comparator, exact="bytes" in name)
                yield f"{statistic} {comparator} {bound}", LimitQuestion(terms, LIMITED[name], NONE)


def of_limit_settings() -> Asked:
    """Limits with other settings, and limits on ranks."""
    for more in (
        *({"strict": True}, {"at_worst": 1.02}, {"at_worst": 1.5}, {"noise": 0.05}, {"comparator": "at most"}),
        *({"min_samples": 121}, {"min_samples": 120}, {"comparator": "over", "at_worst": 0.9}),
    ):
        for bound, statistic in product(
            (0.99, 1.0, 1.002, 1.01), ("mean", "median") if "at_worst" in more else ("mean",)
        ):
            words = ", ".join(f"{name} {value}" for name, value in more.items())
            terms = LimitTerms(**{"bound": bound, "statistic": statistic, **more})
            for doubts in ((), DOUBTS[4:5]):
                asked = LimitQuestion(terms, LIMITED["120 steps"], NONE, doubts)
                yield f"{statistic} {bound}, {words}{', a slow start' * len(doubts)}", asked
    yield "no run", LimitQuestion(LimitTerms(bound=1.0), (), NONE, (DOUBTS[0], DOUBTS[4]))
    narrow = LimitTerms(bound=1.002, at_worst=1.004, statistic="mean")
    yield "not excluded", LimitQuestion(narrow, LIMITED["120 steps"], NONE)
    yield "two runs near", LimitQuestion(LimitTerms(bound=0.99, noise=0.05), 2 * LIMITED["120 steps"], NONE)
    missing = NotJudged(outcome="error", reason="no-metric", message="there is none", next_step=NextStep("look"))
    yield "not judged", missing
    yield "not judged, and skipped", replace(missing, outcome="skipped", accepted_missing="skip")
    for bound in (1.0, 1.2):
        two = (LimitTerms(bound=bound), LimitTerms(bound=0.9, comparator="over"))
        asked_ranks = RankQuestion(two, LIMITED["three numbers"], ((1.0, 1.0),), 0.1, NONE, DOUBTS[4:5])
        yield f"ranks between .9 and {bound}", asked_ranks


WORK = [
    # the steps of a count in the base runs and in the new ones
    ([[1, 1, 1]], [[1, 1, 1]]),
    ([[1, 1, 1]], [[1, 2, 1]]),
    ([[2, 2], [2, 2, 2]], [[2, 1]]),
    ([[0, 0]], [[1, 1], [0, 0]]),
    ([[0, 0]], [[0, 0], [0, 1]]),
    ([[5, 6], [7, 8]], [[9, 9]]),
    ([[5, 6], [6, 7]], [[6, 6]]),
    ([[0, 0], [0, 1]], [[0, 1]]),
    ([[3, 1, 3, 1]], [[1, 3]]),
    ([[3, 1, 3, 1]], [[1, 3, 1]]),
    ([[3, 1, 3, 1]], [[3, 1, 3, 1, 3, 2]]),
    ([[4, 4, 9, 4, 4, 9, 4]], [[4, 9, 4, 4, 9]]),
    ([[4, 4, 9, 4, 4, 9, 4]], [[4, 9, 4, 4, 10]]),
    ([[4, 4, 9, 4, 4, 9, 4], [9, 4, 4]], [[4, 9]]),
    ([[5, 1, 2, 8]], [[8, 5, 1]]),
    ([[7]], [[7, 7, 8]]),
    ([[7, 6]], [[6]]),
    ([[1, 2, 3, 1, 2]], [[3, 1, 2, 3]]),
    ([[1, 2, 3, 1, 2, 3]], [[3, 1, 2, 3, 1, 2, 3, 1]]),
    ([[1, 2, 1, 2, 1]], [[2, 1, 2, 1, 2, 1]]),
    ([[2, 2]], [[3, 3]]),
    ([[5, 5, 5], [5, 6, 5]], [[90, 5, 5], [90, 6, 5]]),
    ([[1, 0], [2, 0]], [[0, 0]]),
    ([[1, 0], [2, 0]], [[0, 0], [1, 1]]),
    ([[1, 0], [2, 0]], [[0, 0], [4, 4]]),
    ([[8, 10], [9, 9]], [[11, 11.5]]),
    ([[8, 10], [9, 9]], [[11, 11.5], [11, 11.5]]),
    ([[1, 2, 3, 1, 2, 3], [1, 2]], [[3, 1]]),
    ([[1, 2, 4]], [[3]]),
    ([[5, 6, 5, 6, 5, 4]], [[6, 5, 6, 4]]),
    ([[5, 6, 5, 6, 5, 4]], [[6, 5, 9, 4]]),
    ([[1, 2, 4]], [[4, 2, 1]]),
    ([[5, 6, 5, 6, 5, 4]], [[6, 5, 6, 5, 6, 5, 6, 5]]),
    ([[5, 6, 5, 6, 5, 4]], [[6, 5, 6, 5, 6, 5, 6, 7]]),
    ([[100, 101, 99], [102, 100, 98]], [[101, 103, 105], [104, 102, 101]]),
    ([[100, 101, 99], [102, 100, 98]], [[111, 113, 115], [114, 112, 111]]),
    ([[5, 6, 5, 4]], [[5, 6, 5, 5, 6, 5, 4]]),
    ([[1000, 1001], [1001, 1000]], [[1000, 1000], [1000, 1001]]),
]


def steps(runs: Sequence[Sequence[float]]) -> str:
    return " + ".join(listed(one) for one in runs)


def of_work() -> Asked:
    """Counts of exact work, alone and together."""

    def count(base: Sequence[Sequence[float]], new: Sequence[Sequence[float]], metric: str = "work.ops") -> WorkCount:
        arrays = [[read_only(np.array(one, dtype=np.float64)) for one in runs] for runs in (base, new)]
        return WorkCount(Key(metric), (), tuple(arrays[0]), tuple(arrays[1]))

    for base, new in WORK:
        for is_same in (False, True):
            name = f"{'same' if is_same else 'no more'}: {steps(base)} then {steps(new)}"
            yield name, WorkQuestion((count(base, new),), is_same, len(base), len(new))
    counts = tuple(
        count(*WORK[i], name)
        for i, name in ((1, "work.blocks"), (1, "work.syncs"), (2, "work.ops"), (35, "work.kernels"))
    )
    for i in (0, 1):
        for base, new in (
            ([[2, 2]], [[3, 3]]),
            ([[8, 10], [9, 9]], [[11, 11.5]]),
            ([[8, 10], [9, 9]], [[11, 11.5], [11, 11.4]]),
        ):
            allowance = {"work.ops": (0.25, 0.5)[i]}
            yield (
                f"allowed {allowance['work.ops']}: {steps(base)} then {steps(new)}",
                WorkQuestion((count(base, new),), False, 1, 1, allowances=allowance),
            )
    two = (count(*WORK[-1], "work.ops"), count([[1, 0], [2, 0]], [[0, 0]], "work.syncs"))
    yield "two counts that vary, of which one cannot be told", WorkQuestion(two, False, 2, 2)
    for allowed in (0.0, 0.15, 0.4):
        asked = WorkQuestion(counts, False, 3, 3, allowances={"work.syncs": allowed, "work.kernels": allowed})
        yield f"four counts, allowed {allowed}", asked


#: How many metrics, how many of them are slower and by how much, in how many runs, and the terms.
FAMILIES: list[tuple[int, int, float, int, dict[str, Any]]] = [
    *((size, 1, 1.06, 2, {}) for size in (1, 2, 10, 11, 12)),
    *((11, 2, 1.06, 2, {}), (11, 1, 1.06, 2, {"strict": True}), (11, 1, 1.3, 1, {}), (11, 1, 1.05, 2, {})),
    *((11, 1, 1.0575, runs, {}) for runs in (3, 4)),
    *((9, 1, 1.027, 2, {"tolerance": 0.02}), (9, 1, 1.028, 2, {"tolerance": 0.02})),
    *((9, 1, 1.037, 2, {"tolerance": 0.03}), (1, 1, 1.027, 2, {"tolerance": 0.02})),
    *((12, 1, 0.94, 2, {"better": "higher"}), (12, 1, 0.944, 2, {"two_sided": True})),
    *(
        (2, 1, 1.04, 2, {"tolerance": 0.02}),
        (12, 1, 1.09, 2, {"two_sided": True}),
        (12, 1, 0.9, 2, {"two_sided": True}),
    ),
    *((12, 1, 1.06, 2, {"two_sided": True}), (12, 1, 1.06, 2, {"confidence": 0.9})),
]


def of_families() -> Iterator[tuple[str, list[Question]]]:
    """Metrics of a glob, of which some may fail by chance."""
    for size, slower, factor, runs, terms in FAMILIES:
        new = tuple(factor * (1 + 0.001 * (i - (runs - 1) / 2)) for i in range(runs))
        slow, usual = (change(side(FIVE), side(one), **terms) for one in (new, (1.0,) * runs))
        asked = [replace(slow if i < slower else usual, is_one_of_many=True) for i in range(size)]
        yield f"{slower} of {size} metrics {factor} in {runs} runs, {terms}", asked
        if (size, factor) == (9, 1.027):
            pair = replace(change(side(ONE), side((1.2,)), tolerance=0.005), ratios=side((1.2,), 1e-6, 40).measures)
            yield "the same, beside a pair within 0.5 %", [*asked, replace(pair, is_one_of_many=True)]
        if size == 11 and slower == 1:
            yield "the same, one of them alone", [replace(asked[0], is_one_of_many=False), *asked[1:]]
            thin = change(side(THREE, 1e-5, 30), side(ONE, 1e-5, 30), statistic="p90")
            yield "the same, one of them a thin tail", [*asked[:-1], replace(thin, is_one_of_many=True)]
            yield "the same, with fewer values", [replace(asked[0], doubts=DOUBTS[:1]), *asked[1:]]


def listed(values: Sequence[float]) -> str:
    return " ".join(f"{value:.4g}" for value in values)


def shown_fields(struct: msgspec.Struct, beside: msgspec.Struct | None = None) -> str:
    """The fields that differ from the default and from those of another struct; numbers to four digits."""
    fields = [(one.name, getattr(struct, one.name), one.default) for one in msgspec.structs.fields(struct)]
    return ", ".join(
        f"{name} {shown(value)}"
        for name, value, default in fields
        if (value not in (default, () if default == () else None) if beside is None else value != getattr(beside, name))
    )


def shown(value: Any) -> str:
    if isinstance(value, Comparison):
        sign, order = ("-", ">") if value.is_above else ("+", "<")
        interval = f"{value.estimate:.4g} {sign} {value.quantile:.4g} * {value.standard_error:.4g}"
        of = f"({value.degrees_of_freedom:.4g} degrees, {value.error_rate:.4g})"
        return f"{value.asks} {of}: {interval} {order} {value.edge:.4g} {'holds' if value.holds else 'does not hold'}"
    if isinstance(value, float):
        return f"{value if abs(value) > 1e-9 else 0.0:.4g}"
    if isinstance(value, msgspec.Struct):
        return f"({shown_fields(value)})"
    return f"[{'; '.join(map(shown, value))}]" if isinstance(value, tuple) else str(value)


class Answered(NamedTuple):
    question: str
    outcome: str
    whole: str


def asked_one_by_one(asked: Asked, *, beside_first: bool = False) -> Iterator[Answered]:
    """The answers; those that follow the first one may show what they change."""
    first = None
    for name, question in asked:
        (found,) = decide([question])
        yield Answered(name, outcome_of(found), shown_fields(found, first))
        first = (first or found) if beside_first else None


def asked_together() -> Iterator[Answered]:
    for name, questions in of_families():
        found, alone = decide(questions), decide(questions[:1])[0]
        counts = Counter(answer.outcome for answer in found)
        whole = f"{dict(counts)}, beside its answer alone: {shown_fields(found[0], alone) or 'the same'}"
        yield Answered(name, outcome_of(found[0]), whole)


def outcome_of(found: Result) -> str:
    return f"{'suspect' if found.suspect else found.outcome} {found.reason}"


PARTS: dict[str, Callable[[], Iterator[Answered]]] = {
    **{f"Changes: {name}": partial(lambda *row: asked_one_by_one(of_change(*row)), *row) for name, *row in CHANGES},
    "Pairs": lambda: asked_one_by_one(of_pairs()),
    "Pairs, both directions": lambda: asked_one_by_one(of_pairs(two_sided=True)),
    "Pairs without tolerance": lambda: asked_one_by_one(of_pairs(tolerance=0.0)),
    "Pairs, the least tolerance": lambda: asked_one_by_one(of_pairs(tolerance=0.01)),
    "Pairs, ten looks": lambda: asked_one_by_one(of_pairs(looks=tuple(range(1, 11)))),
    "Pairs of bytes": lambda: asked_one_by_one(of_pairs(tolerance=0.005, exact=True)),
    "One run": lambda: asked_one_by_one(of_one_run()),
    "Thin tails": lambda: asked_one_by_one(of_thin_tails()),
    "Pairs, narrow": lambda: asked_one_by_one(of_pairs(tolerance=0.005)),
    "Without a ratio": lambda: asked_one_by_one(of_values_without_a_ratio()),
    "Around zero": lambda: asked_one_by_one(of_values_around_zero()),
    "Several new runs and the anchor": lambda: asked_one_by_one(of_several_new_runs_and_the_anchor()),
    **{
        f"Outranked: {new}": partial(lambda new: asked_one_by_one(of_what_outranks(new), beside_first=True), new)
        for new in (0.7, 1.0, 1.04, 1.07, 1.5)
    },
    **{
        f"Outranked: {name}": partial(
            lambda new, terms: asked_one_by_one(of_what_outranks(new, **terms), beside_first=True), new, terms
        )
        for name, new, terms in (
            ("the anchor", 1.0, {"looks": None}),
            ("bytes", 1.2, {"base": EQUAL, "exact": True}),
            ("equal", 1.0, {"base": EQUAL}),
            ("noisy", 1.0, {"base": WIDE}),
            ("no tolerance", 1.0, {"tolerance": 0.0, "at_worst": 0.05}),
            ("both directions, down", 0.9, {"two_sided": True}),
            ("both directions, up", 1.06, {"better": "neither"}),
            ("higher is better", 0.9, {"better": "higher"}),
        )
    },
    **{
        f"Remembered: {name}": partial(
            lambda new, later, terms: asked_one_by_one(of_remembered(new, later, **terms), beside_first=True), *row
        )
        for name, *row in (
            ("slower", 1.07, 1.07, {}),
            ("much slower", 1.2, 1.3, {}),
            ("no slower", 1.07, 1.0, {}),
            ("open", 1.02, 1.05, {"tolerance": 0.03}),
            ("higher is better", 0.94, 0.92, {"better": "higher"}),
            ("both directions", 0.94, 0.92, {"two_sided": True}),
            ("strict", 1.07, 1.07, {"strict": True}),
        )
    },
    "Outranked: others": lambda: asked_one_by_one(of_other_doubts()),
    **{f"Limits: {name}": partial(lambda name: asked_one_by_one(of_limit(name)), name) for name in LIMITED},
    "Limits: settings": lambda: asked_one_by_one(of_limit_settings()),
    "Work": lambda: asked_one_by_one(of_work()),
    "Families": asked_together,
}


def lines(part: str) -> list[str]:
    """The lines of a part of the golden file."""
    found: dict[str, dict[str, list[str]]] = {}
    for question, outcome, whole in PARTS[part]():
        if whole:
            found.setdefault(outcome, {}).setdefault(f"{zlib.crc32(whole.encode()) % 16**4:04x}", []).append(question)
    return [
        line
        for outcome, answers in found.items()
        for line in (outcome, *(f" {check} {'; '.join(questions)}" for check, questions in answers.items()))
    ]


@cache
def golden() -> dict[str, list[str]]:
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.write_text("".join("\n".join((f"# {part}", *lines(part), "")) for part in PARTS))
    parts = GOLDEN.read_text().removeprefix("# ").split("\n# ")
    return {name: lines.splitlines() for name, _, lines in (part.partition("\n") for part in parts)}


@pytest.mark.parametrize("part", PARTS)
def test_every_number_of_an_answer(part: str) -> None:
    assert lines(part) == golden()[part], "UPDATE_GOLDEN=1 writes the answers anew"


if __name__ == "__main__":
    for name, answered in PARTS.items():
        print(f"# {name}", *(f"{one.question}: {one.outcome}\n    {one.whole}" for one in answered()), sep="\n")
