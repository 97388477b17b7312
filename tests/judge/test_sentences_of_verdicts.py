"""The sentences of one verdict: its deciding doubt, its tolerance, and the notes below a change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from stories import TODAY, answered, bare, run_of, series

from perfgate.core import Allowance, CalibratedPrior, Key, PooledRuns, Run, Series, read_only
from perfgate.core.results import Doubt, Judgement, LimitResult
from perfgate.judge.evidence import Case
from perfgate.judge.sentences import change_message, change_notes, is_explained, of_values
from perfgate.judge.verdict import verdict_of
from perfgate.words import notes

UNCALIBRATED = "run-to-run noise is estimated from these few runs, not calibrated"
PAIRED = "judged against the paired base: 2 pairs, "


def run(*values: float, unit: str = "s", source: str = "new.json", **more: Any) -> Run:
    row = series("x", unit, list(values or [1.0, 1.001] * 20))
    return run_of(replace(row, **more), source=source)


def change(rule: str = "x within 5% of baseline", new: Sequence[Run] = (), base: Sequence[Run] = (), **of: Any) -> Case:
    """Two runs on each side by default, measured without warm-up."""
    settings = rule if rule.startswith("{") else f"{{assert: {rule}, warmup: 0}}"
    return bare(settings, new or [run(), run(source="b")], base or [run(source="c"), run(source="d")], **of)


# --- doubts ----------------------------------------------------------------------------------------------------------

VALUES = Doubt("measured-less", "values", 60, 40, decides=True)
STEPS = Doubt("measured-less", "steps", 1.0, 0.5, decides=False)
GAIN = Doubt("implausible", "gain", 1.0, 0.001, decides=True)
FEWER = "fewer values than in the baseline: 40 instead of 60"
HALF = "50% of the steps from the first to the last have a value"
MISTAKE = "1000 times better (1 s in the baseline, 1 ms now), which is more likely a mistake in the measurement"
DOUBTS = [
    # the doubts, the reason of the answer; the doubt before the message, and those in the notes
    ([VALUES, STEPS], "measured-less", FEWER, [HALF]),
    ([STEPS, VALUES], "measured-less", FEWER, [HALF]),
    ([STEPS], "measured-less", None, [HALF]),
    ([VALUES, STEPS], "interval", None, [FEWER, HALF]),
    ([VALUES, GAIN], "implausible", MISTAKE, [FEWER]),
]


@pytest.mark.parametrize(("doubts", "reason", "first", "below"), DOUBTS)
def test_the_doubt_that_decides_comes_first(
    doubts: list[Doubt], reason: str, first: str | None, below: list[str]
) -> None:
    changes = {"reason": reason, "outcome": "undecided", "outranked": Judgement("pass", "interval")}
    plain = verdict_of(*answered(change(), **changes))
    found = verdict_of(*answered(change(), **changes, doubts=tuple(doubts)))
    assert found.message == plain.message if first is None else found.message == f"{first}; {plain.message}"
    assert [*found.notes] == [*plain.notes, *below]
    assert (found.next_step == plain.next_step) == (first is None)


@pytest.mark.parametrize(("pairing", "is_stored"), [(None, True), ("in-turn", False)])
def test_the_base_of_pairs_is_not_approved(pairing: str | None, is_stored: bool) -> None:
    asked = change(pairing=pairing)
    found = verdict_of(*answered(asked, outcome="error", reason="measured-less", doubts=(VALUES,)))
    assert found.next_step.text.startswith("the job seems to have died early")
    assert (found.next_step.command is not None) == ("approve" in found.next_step.text) == is_stored


def test_without_a_base_the_measured_ranks_are_named_in_the_rule() -> None:
    doubt = Doubt("measured-less", "ranks", 1.0, 0.5, decides=True)
    for asked, is_named in ((bare("x under 9 s", [run()]), True), (bare("x under 9 s", [run()], [run()]), False)):
        found = verdict_of(*answered(asked, outcome="error", reason="measured-less", doubts=(doubt,)))
        assert ("or name the measured ranks in the rule" in found.next_step.text) == is_named


EXPLAINED = [
    # the outcome, whether it is suspect, the answer of the numbers; whether the parts are shown
    ("fail", False, None, True),
    ("pass", False, None, False),
    ("undecided", False, None, False),
    ("undecided", True, None, True),
    ("pass", False, Judgement("fail", "interval"), True),
    ("fail", False, Judgement("pass", "interval"), True),
    ("skipped", False, Judgement("pass", "interval"), False),
]


@pytest.mark.parametrize(("outcome", "suspect", "outranked", "expected"), EXPLAINED)
def test_a_failure_and_a_suspicion_are_explained(
    outcome: Any, suspect: bool, outranked: Judgement | None, expected: bool
) -> None:
    found = LimitResult(outcome=outcome, reason="x", suspect=suspect, outranked=outranked, runs=1)
    assert is_explained(found) == expected


# --- the sentence about a change -------------------------------------------------------------------------------------


def allowed(up_to: float) -> Allowance:
    return Allowance("x", up_to, "ada", "worth it", TODAY)


POOLED = PooledRuns("main", ("a1", "b2"), 0.3, 0.2, 0.4, decides=True)
BY = "allowed up to 20% by ada until 2026-01-01 (worth it): "
TOLD: list[tuple[str, dict[str, Any], str, str]] = [
    # a clause, what changes in its answer; the words before the message, and the tolerance
    ("within 5% of baseline", {}, "", "5%"),
    ("within 50 ms of baseline", {}, "", "50 ms"),
    ("within 5% and 50 ms of baseline", {}, "", "5% and 50 ms"),
    ("within ±5% of baseline", {}, "", "±5%"),
    ("within ±5% and 50 ms of baseline", {}, "", "±5% and 50 ms"),
    ("within 5% of baseline", {"allowance": allowed(0.2), "allowance_effect": "eased"}, BY, "20%"),
    ("within 50 ms of baseline", {"allowance": allowed(0.2), "allowance_effect": "eased"}, BY, "20% and 50 ms"),
    ("within 30% of baseline", {"allowance": allowed(0.2), "allowance_effect": "eased"}, BY, "30%"),
    ("within 5% of baseline", {"allowance": allowed(0.2), "allowance_effect": "not-enough"}, "", "5%"),
    ("within 5% of baseline", {"allowance": None, "allowance_effect": "eased"}, "", "5%"),
    ("within 5% of baseline", {"pooled": POOLED}, "with 2 earlier runs of main: ", "5%"),
    ("within 5% of baseline", {"pooled": replace(POOLED, decides=False)}, "", "5%"),
]


@pytest.mark.parametrize(("clause", "changes", "before", "tolerance"), TOLD)
def test_the_sentence_about_a_change(clause: str, changes: dict[str, Any], before: str, tolerance: str) -> None:
    evidence, question, found = answered(change(f"x {clause}"), outcome="fail", reason="interval", **changes)
    said = change_message(evidence, question, found, evidence.clause.asks)  # type: ignore[arg-type]
    assert said.startswith(f"{before}x median went from 1")
    assert said.endswith(f"beyond the tolerance of {tolerance}; 2 base runs, 2 new runs")


def test_the_base_of_pairs_is_named() -> None:
    evidence, question, found = answered(change(pairing="in-turn"))
    said = change_message(evidence, question, found, evidence.clause.asks)  # type: ignore[arg-type]
    assert "in the paired base to" in said


# --- the notes below a change ----------------------------------------------------------------------------------------


def below(asked: Case, **changes: Any) -> list[str]:
    return change_notes(*answered(asked, **changes))


OPEN = {"reason": "interval"}
PRIOR = CalibratedPrior(Key("x"), "median", "worst", 0.004, 6.0, 5)
LEARNED = replace(PRIOR, learned_from="main")
RATE = [run(*[1.0, 1.001] * 20, unit="1/s")] * 2
LOSS = [run(*[1.0, 1.001] * 20, unit="1")] * 2
NOTES: list[tuple[Case, dict[str, Any], list[str]]] = [
    # a case, what changes in its answer, and all its notes
    (change(), {"reason": "exact"}, []),
    (change(), OPEN, [UNCALIBRATED]),
    (change(), {"reason": "cannot-exclude"}, [UNCALIBRATED]),
    (change(), {"reason": "exact", "outranked": Judgement("pass", "interval")}, [UNCALIBRATED]),
    (change(), {"reason": "interval", "outranked": Judgement("pass", "exact")}, []),
    (
        change(calibratable=True),
        OPEN,
        [f"{UNCALIBRATED}: `perfgate rules --calibrate` measures it from the stored runs"],
    ),
    (change(priors=(PRIOR,)), OPEN, []),
    (change(priors=(LEARNED,)), OPEN, []),
    (
        change(priors=(LEARNED,), new=[run(1.0, 1.0), run(1.5, 1.5)]),
        OPEN,
        [f"{UNCALIBRATED}: these runs differ by more than the 0.4% of the history"],
    ),
    (change(), {"reason": "exact", "base_runs": 1}, [notes.ONE_BASE_RUN]),
    (change("x within 100% of baseline", RATE, RATE), {"reason": "exact", "tolerance": 1.0}, [notes.CANNOT_FAIL]),
    (change("x within 100% of baseline", RATE, RATE), {"reason": "exact", "tolerance": 1.5}, [notes.CANNOT_FAIL]),
    (change("x within 99% of baseline", RATE, RATE), {"reason": "exact", "tolerance": 0.99}, []),
    (change("x within 99% of baseline", RATE, RATE), {"reason": "exact", "tolerance": None}, []),
    (change("x within 100% of baseline"), {"reason": "exact", "tolerance": 1.0}, []),
    (change("x within 5% of baseline", LOSS, LOSS), {"reason": "exact"}, [notes.NO_DIRECTION]),
    (change(), {"reason": "exact", "improved": True}, [notes.IMPROVED]),
    (
        change(),
        {"reason": "exact", "pooled": replace(POOLED, decides=True)},
        ["pooled with 2 runs of main since the baseline: a1, b2"],
    ),
    (
        change(),
        {"reason": "exact", "family": 12},
        ["one of 12 metrics of a glob, corrected with Benjamini-Hochberg at 5%"],
    ),
    (
        change(),
        {**OPEN, "allowance": allowed(0.2), "allowance_effect": "eased"},
        ["allowed by ada: worth it", UNCALIBRATED],
    ),
    (
        change(),
        {**OPEN, "allowance": allowed(0.2), "allowance_effect": "expired"},
        [UNCALIBRATED, "the allowance of 20% by ada expired on 2026-01-01"],
    ),
]


@pytest.mark.parametrize(("asked", "changes", "expected"), NOTES)
def test_the_notes_below_a_change(asked: Case, changes: dict[str, Any], expected: list[str]) -> None:
    assert below(asked, **changes) == expected


def test_the_noise_is_assumed_for_a_comparison_with_the_anchor() -> None:
    stored = (run(source="c"), run(source="d"))
    asked = change("x within 5% of anchor", base=stored, anchor=stored)
    assert below(asked, **OPEN) == ["run-to-run noise is assumed to be 1%, not calibrated"]


@pytest.mark.parametrize("name", ["base", "new"])
def test_a_warm_up_that_does_not_end_is_noted(name: str) -> None:
    evidence, asked, found = answered(change(), reason="exact")
    side = getattr(asked, name)
    unsettled = replace(side, measures=(side.measures[0], replace(side.measures[1], settled=False)))
    assert change_notes(evidence, replace(asked, **{name: unsettled}), found) == [notes.UNSETTLED]


def with_work(seconds: float, kernels: float, source: str = "new.json") -> Run:
    rows = [series("x", "s", [seconds] * 40), series("work.kernels", "count", [kernels] * 40)]
    return run_of(*rows, source=source)


LESS = [
    # the seconds and the kernels of the new run, the change that the answer has, and the note
    (0.5, 50.0, -0.5, "better by 50%, with 50% less work (work.kernels)"),
    (0.0, 50.0, None, "better, with 50% less work (work.kernels)"),
    (0.5, 100.0, -0.5, None),
]


@pytest.mark.parametrize(("seconds", "kernels", "estimate", "note"), LESS)
def test_a_gain_with_less_work_is_noted(seconds: float, kernels: float, estimate: float | None, note: str) -> None:
    asked = change("x within 1 ms of baseline", [with_work(seconds, kernels)], [with_work(1.0, 100.0, "b")])
    expected = [notes.IMPROVED, *([note] if note else [])]
    changes = {"reason": "exact", "estimate": estimate, "base_runs": 2}
    assert below(asked, **changes, improved=True) == expected
    assert below(asked, **changes, improved=False) == []


def parts(new: bool, unit: str = "s") -> Run:
    names = ("step.time", "step.kernel") if new else ("step.time",)
    return run_of(*(series(name, unit, [1.0, 1.001] * 20) for name in names), source="new.json" if new else "b")


UNSTORED = [
    # the outcome, whether the base has the parts, the unit; whether the note names what is missing
    ("fail", False, True),
    ("pass", False, False),
    ("fail", True, False),
]


@pytest.mark.parametrize(("outcome", "is_stored", "is_noted"), UNSTORED)
def test_parts_that_no_stored_run_has_are_named(outcome: str, is_stored: bool, is_noted: bool) -> None:
    asked = bare("step.time within 5% of baseline", [parts(True)], [parts(is_stored)] * 2)
    found = below(asked, outcome=outcome, reason="exact")
    assert found == ([notes.unstored_parts(["step.kernel"])] if is_noted else [])


# --- pairs -----------------------------------------------------------------------------------------------------------


def pair(at: int, side: str, second: float = 1.0) -> Run:
    """A side of a pair; whoever goes second in a step takes so many times longer."""
    first = [(step % 2 == 0) == ((at % 2 == 1) == (side == "base")) for step in range(40)]
    return run(*[1.0 if one else second for one in first], source=f"p.json, pair {at}, {side}")


def pairs(count: int, second: float = 1.0, **of: Any) -> Case:
    new, base = ([pair(at + 1, side, second) for at in range(count)] for side in ("new", "base"))
    return change(new=new, base=base, **of)


LARGE = "order effect: 10% (more than the tolerance, so look at what a step leaves to the next)"
IN_TURN, BY_TURNS = "steps by turns in two processes", "steps by turns in one process"
KNOWN = replace(PRIOR, pairing="in-turn", runs=12)
OF_PAIRS: list[tuple[Case, dict[str, Any], list[str]]] = [
    # a case of pairs, what changes in its answer, and all its notes
    (pairs(2, pairing="in-turn"), {}, [f"{PAIRED}{IN_TURN}", "order effect: 0% (removed)"]),
    (pairs(2, pairing="one-process"), {}, [f"{PAIRED}{BY_TURNS}", "order effect: 0% (removed)"]),
    (pairs(2, 1.1, pairing="whole-runs"), {}, [f"{PAIRED}whole runs by turns"]),
    (
        pairs(2, pairing="in-turn", priors=(KNOWN,)),
        {},
        [f"{PAIRED}{IN_TURN}; noise measured on 12 pairs", "order effect: 0% (removed)"],
    ),
    (pairs(2, 1.1, pairing="in-turn"), {"tolerance": 0.11}, [f"{PAIRED}{IN_TURN}", "order effect: 10% (removed)"]),
    (pairs(2, 1.1, pairing="in-turn"), {"tolerance": 0.09}, [f"{PAIRED}{IN_TURN}", LARGE]),
    (pairs(2, 1.1, pairing="in-turn"), {"tolerance": None}, [f"{PAIRED}{IN_TURN}", LARGE]),
    (
        pairs(1, pairing="in-turn"),
        {},
        [f"{PAIRED.replace('2 pairs', '1 pair')}{IN_TURN}", "order effect: 0% (removed)", notes.ONE_PAIR],
    ),
    (
        pairs(1, pairing="one-process"),
        {},
        [f"{PAIRED.replace('2 pairs', '1 pair')}{BY_TURNS}", "order effect: 0% (removed)"],
    ),
]


@pytest.mark.parametrize(("asked", "changes", "expected"), OF_PAIRS)
def test_the_notes_below_a_change_of_pairs(asked: Case, changes: dict[str, Any], expected: list[str]) -> None:
    assert below(asked, **changes) == expected


# --- values ----------------------------------------------------------------------------------------------------------


class Large(np.ndarray):
    """Values that are too many for memory are read by blocks."""

    blocks = None


def about(asked: Case, *, is_change: bool = True) -> list[str]:
    evidence, question, _ = answered(asked)
    return [*of_values(evidence, question.new, *([question.base] if is_change else []))]


def marked(*stalled: int) -> Run:
    marks = np.array([at in stalled for at in range(40)])
    return run(*[1.0] * 40, stalled=marks)


MARKED = [
    # a statistic, and how many values of both sides it leaves out
    ("mean", 3),
    ("median", 3),
    ("p50", 3),
    ("max", 0),
    ("total", 0),
]


@pytest.mark.parametrize(("statistic", "count"), MARKED)
def test_a_middle_leaves_out_the_stalled_steps_of_a_trace(statistic: str, count: int) -> None:
    asked = change(f"x {statistic} within 50% of baseline", [marked(3, 4)], [marked(5)])
    assert about(asked) == ([f"left out: {count} values of steps that stalled"] if count else [])
    assert about(change(f"x {statistic} within 50% of baseline", [marked()], [marked()])) == []


def test_values_without_marks_are_not_left_out() -> None:
    asked = change("x mean within 50% of baseline", [marked(3), run(*[1.0] * 40)], [run(*[1.0] * 40)])
    assert about(asked) == ["left out: 1 value of steps that stalled"]


SLOW, QUICK, FAST = [1.0] * 38 + [5.0, 2.0], [1.0] * 40, [0.5] * 40
RATES, RATE_OF_ONE = [1.0] * 38 + [0.5, 0.1], [1.0] * 40
STALLS: list[tuple[str, Sequence[float], Sequence[float], str | None]] = [
    # the unit, the values of both sides, and what is said of stalls
    ("s", SLOW, QUICK, "2 of 40 new values, 0 of 40 base values; without them the mean changes by 0%"),
    ("s", QUICK, SLOW, "0 of 40 new values, 2 of 40 base values; without them the mean changes by 0%"),
    ("s", SLOW, FAST, "2 of 40 new values, 0 of 40 base values; without them the mean changes by +100%"),
    ("s", SLOW[10:], SLOW, "2 of 30 new values, 2 of 40 base values; without them the mean changes by 0%"),
    ("s", FAST, SLOW, "0 of 40 new values, 2 of 40 base values; without them the mean changes by -50.0%"),
    ("s", QUICK, QUICK, None),
    ("s", SLOW, [0.0] * 40, None),
    ("s", [1.0] * 38 + [1.99, 1.99], QUICK, None),
    ("1/s", RATES, RATE_OF_ONE, "2 of 40 new values, 0 of 40 base values; without them the mean changes by 0%"),
    ("B", SLOW, QUICK, None),
    ("1", SLOW, QUICK, None),
]


@pytest.mark.parametrize(("unit", "new", "base", "said"), STALLS)
def test_a_mean_includes_its_stalls(unit: str, new: Sequence[float], base: Sequence[float], said: str | None) -> None:
    tolerance = "50%" if any(base) else "9 s"
    asked = change(f"x mean within {tolerance} of baseline", [run(*new, unit=unit)], [run(*base, unit=unit)])
    assert about(asked) == ([f"{notes.STALLS}: {said}"] if said else [])


def test_stalls_are_told_of_the_mean_of_a_change_alone() -> None:
    sides = [run(*SLOW)], [run(*QUICK)]
    for statistic in ("median", "p50", "max", "trimmed_mean"):
        assert about(change(f"x {statistic} within 50% of baseline", *sides)) == []
    assert about(change("x mean under 9 s", *sides), is_change=False) == []
    assert len(about(change("x mean within 50% of baseline", [*sides[0], *sides[1]], sides[1]))) == 1


def test_stalls_are_counted_in_single_values_that_fit_into_memory() -> None:
    printed = run_of(Series(Key("x"), "s", "value", read_only(np.array([1.0]))))
    rule = "x mean within 50% of baseline"
    for new, base in (([run(*SLOW)], [printed]), ([run(*SLOW), printed], [run(*QUICK)])):
        assert about(change(rule, new, base)) == []
    large = run(*QUICK, values=np.array(QUICK).view(Large))
    for new, base in (([run(*SLOW)], [large]), ([run(*SLOW), large], [run(*QUICK)])):
        assert about(change(rule, new, base)) == []
