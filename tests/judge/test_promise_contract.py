"""What exit code 0 promises of a change: one line a clause, and properties of any numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from conftest import answer_of
from hypothesis import assume, given
from hypothesis import strategies as st
from stories import bare, run_of

from perfgate import judge_change
from perfgate.core import CalibratedPrior, Key, Kind, Run, Series, Verdict, read_only
from perfgate.core.results import ChangeResult
from perfgate.judge.verdicts import judge


def numbers(spread: float, runs: int, centre: float = 1.0) -> list[float]:
    """So many numbers around a centre, whose logarithms have this standard deviation."""
    if runs == 1:
        return [centre]
    places = [i - (runs - 1) / 2 for i in range(runs)]
    scale = math.sqrt(sum(x * x for x in places) / (runs - 1))
    return [centre * math.exp(spread * x / scale) for x in places]


def told(result: ChangeResult) -> str:
    """The answer and its reason; `open` if the rule passes what its tolerance leaves open."""
    is_open = result.outcome == "pass" and result.of_numbers.outcome == "undecided"
    return f"{answer_of(result)} {result.reason}{' open' if is_open else ''}"


QUIET, LOUD = (0.003, 30.0), (0.03, 30.0)
PASS, FAIL, SUSPECT = "pass interval", "fail interval", "suspect interval"
DOUBT, OPEN = "undecided cannot-exclude", "pass interval open"
UNKNOWN = "undecided noise-unknown"


@dataclass(frozen=True)
class Line:
    """A true story: base runs, new runs, their spread, the change, the options, and the answer."""

    base: int
    new: int
    spread: float
    change: float
    answer: str
    how: dict[str, Any] = field(default_factory=dict)

    def result(self, **more: Any) -> ChangeResult:
        new = numbers(self.spread, self.new, 1 + self.change)
        how: dict[str, Any] = {"tolerance": 0.05, **self.how, **more}
        return judge_change(numbers(self.spread, self.base), new, **how)


CLAUSES = {
    # fewer than three runs of both sides show no noise: nothing is green, and nothing fails
    "one run a side, unchanged": Line(1, 1, 0.0, 0.0, UNKNOWN),
    "one run a side, faster": Line(1, 1, 0.0, -0.5, UNKNOWN),
    "one run a side, slower": Line(1, 1, 0.0, 0.5, SUSPECT),
    "one run a side, calibrated": Line(1, 1, 0.0, 0.0, PASS, {"prior": QUIET}),
    "three runs of both sides": Line(1, 2, 0.002, 0.0, PASS),
    "two base runs": Line(2, 1, 0.002, 0.0, PASS),
    # at_worst is twice the tolerance by default, and what the rule says otherwise
    "quiet, unchanged": Line(5, 1, 0.003, 0.0, PASS),
    "loud, unchanged": Line(5, 1, 0.05, 0.0, DOUBT),
    "loud, unchanged, wide at_worst": Line(5, 1, 0.05, 0.0, OPEN, {"at_worst": 0.3}),
    "quiet, at the tolerance": Line(5, 1, 0.003, 0.048, OPEN),
    "quiet, at the tolerance, narrow at_worst": Line(5, 1, 0.003, 0.048, DOUBT, {"at_worst": 0.05}),
    "at_worst in the unit": Line(5, 1, 0.05, 0.0, OPEN, {"at_worst_absolute": 0.3}),
    "at_worst of an absolute tolerance": Line(5, 1, 0.05, 0.0, PASS, {"tolerance": None, "tolerance_absolute": 0.15}),
    "at_worst below the tolerance is the tolerance": Line(5, 1, 0.003, 0.0, PASS, {"at_worst": 0.01}),
    # precision, not luck: an estimate far on the good side does not make up for the noise, unless it is beyond it
    "loud, lucky": Line(5, 1, 0.05, -0.06, DOUBT),
    "loud, a clear gain": Line(5, 1, 0.05, -0.5, PASS),
    "two base runs that agree by luck": Line(2, 1, 0.0, 0.0, OPEN),
    # confirm before red: one new run fails only where the noise is known
    "one run, four base runs": Line(4, 1, 0.003, 0.4, SUSPECT),
    "one run, four base runs, half as slow again": Line(4, 1, 0.003, 1.0, FAIL),
    "one run, two base runs": Line(2, 1, 0.003, 1.0, SUSPECT),
    "one run, five base runs": Line(5, 1, 0.003, 1.0, FAIL),
    "one run, calibrated": Line(1, 1, 0.0, 0.2, FAIL, {"prior": QUIET}),
    "one run, strict": Line(4, 1, 0.003, 1.0, FAIL, {"strict": True}),
    "two runs, four base runs": Line(4, 2, 0.003, 1.0, FAIL),
    # three runs do not turn a suspicion into a failure
    "three runs, a suspicion": Line(5, 3, 0.02, 0.07, SUSPECT),
    "five runs, a suspicion": Line(5, 5, 0.02, 0.07, SUSPECT),
    "a suspicion, strict": Line(5, 3, 0.02, 0.07, FAIL, {"strict": True}),
    "three runs, clearly beyond": Line(5, 3, 0.003, 0.09, FAIL),
    "last look, beyond at_worst, no change excluded": Line(5, 3, 0.025, 0.11, FAIL),
    "an earlier look, beyond at_worst, no change excluded": Line(5, 2, 0.025, 0.11, SUSPECT),
    "not the last look of ten": Line(5, 3, 0.025, 0.11, SUSPECT, {"looks": 10}),
    # the other sides
    "better is higher, a fall": Line(5, 3, 0.003, -0.12, FAIL, {"better": "higher"}),
    "better is higher, a gain": Line(5, 1, 0.003, 0.5, PASS, {"better": "higher"}),
    "better is higher, loud": Line(5, 1, 0.05, 0.0, DOUBT, {"better": "higher"}),
    "two-sided, a gain": Line(5, 3, 0.003, -0.12, FAIL, {"two_sided": True}),
    "two-sided, unchanged": Line(5, 1, 0.003, 0.0, PASS, {"two_sided": True}),
    "two-sided, loud, a large gain": Line(5, 1, 0.05, -0.5, "fail interval", {"two_sided": True}),
    # without noise
    "exact, equal": Line(1, 1, 0.0, 0.0, "pass exact", {"exact": True}),
    "exact, beyond": Line(1, 1, 0.0, 0.06, "fail exact", {"exact": True}),
}


@pytest.mark.parametrize("name", CLAUSES)
def test_the_contract(name: str) -> None:
    line = CLAUSES[name]
    found = line.result()
    assert told(found) == line.answer, found
    if found.excluded and not line.how.get("exact"):
        assert found.not_excluded is not None
        assert found.at_worst is not None
        assert (-1 if line.how.get("better") == "higher" else 1) * found.not_excluded < found.at_worst


def test_the_default_of_at_worst_is_twice_the_tolerance() -> None:
    line = Line(5, 1, 0.003, 0.0, PASS)
    assert line.result().at_worst == pytest.approx(0.1)
    assert line.result(better="higher").at_worst == pytest.approx(0.1)
    assert line.result(tolerance=0.05, tolerance_absolute=0.2).at_worst == pytest.approx(0.4)
    assert line.result(tolerance=0.05, at_worst=0.07).at_worst == pytest.approx(0.07)
    assert line.result(tolerance=0.8, better="higher").at_worst == pytest.approx(0.9)  # a fall is less than 100 %


@pytest.mark.parametrize("bad", [{"looks": 0}, {"at_worst": -0.1}, {"at_worst": math.inf}, {"at_worst_absolute": -1}])
def test_bad_options_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        judge_change([1.0] * 5, [1.0], tolerance=0.05, **bad)


# --- what a rule says of it ---------------------------------------------------------------------------------------


def ruled(setting: str, new: list[list[float]], base: list[list[float]], **fields: Any) -> Verdict:
    def run(values: list[float]) -> Run:
        kind: Kind = "value" if len(values) == 1 else "samples"
        return run_of(Series(Key("x"), "s", kind, read_only(np.array(values))))

    stored = [run(values) for values in base]
    asked = bare(f"{{assert: x{setting}}}", [run(values) for values in new], stored, anchor=tuple(stored), **fields)
    (found,) = judge(asked)
    return found


FIVE, LOUD_FIVE = ([[one] for one in numbers(spread, 5)] for spread in (0.003, 0.05))
CODES = [
    # the rule after x, the new runs, the stored ones, the reason and the exit code
    (" within 5% of baseline", [[1.0]], FIVE, "interval 0"),
    (" within 5% of baseline", [[1.0]], LOUD_FIVE, "cannot-exclude 3"),
    (" within 5% of baseline, on_inconclusive: warn", [[1.0]], LOUD_FIVE, "cannot-exclude 3"),
    (" within 5% of baseline, on_inconclusive: fail", [[1.0]], LOUD_FIVE, "cannot-exclude 1"),
    (" within 5% of baseline, severity: warning", [[1.0]], LOUD_FIVE, "cannot-exclude 0"),
    (" within 5% of baseline, at_worst: 30%", [[1.0]], LOUD_FIVE, "interval 0"),
    (" within 5% of baseline, at_worst: 30%, on_inconclusive: error", [[1.0]], LOUD_FIVE, "interval 3"),
    (" within 5% of baseline", [[1.0]], [[1.0]], "noise-unknown 3"),
    (" p99 within 5% of baseline", [[1.0] * 50], [[1.0] * 50] * 5, "thin-tail 3"),
    (" within 5% of anchor", [[1.0]], [[1.0]], "interval 0"),
    (" within 5% of baseline", [[2.0]], FIVE, "interval 1"),
    (" within 5% of baseline", [[1.4]], FIVE[:4], "interval 3"),
    (" within 5% of baseline", [[2.0]], FIVE[:4], "interval 1"),
]


@pytest.mark.parametrize(("setting", "new", "base", "expected"), CODES)
def test_the_exit_code_of_a_rule(setting: str, new: list[list[float]], base: list[list[float]], expected: str) -> None:
    found = ruled(setting, new, base)
    assert f"{found.reason} {found.exit_code}" == expected


def test_pairs_know_their_noise() -> None:
    """Three pairs whose sides agree pass without any other base run, and one that doubled fails after three."""
    sides = [[one * (1 + 0.001 * i) for i in range(9)] for one in (1.0, 1.1, 0.9)]
    slow = [[2 * one for one in side] for side in sides]
    assert ruled(" within 10% of baseline", sides, sides, pairing="in-turn").exit_code == 0
    assert ruled(" within 10% of baseline", slow, sides, pairing="in-turn").outcome == "fail"


def test_a_calibrated_prior_is_enough_for_one_run() -> None:
    prior = CalibratedPrior(Key("x"), "mean", "worst", *QUIET, 9)
    assert ruled(" within 5% of baseline", [[1.0]], [[1.0]], priors=(prior,)).outcome == "pass"
    assert ruled(" within 5% of baseline", [[1.5]], [[1.0]], priors=(prior,)).outcome == "fail"


STEPS = [
    # stored runs, new runs, their spread, the change, and words of the next step
    (1, 1, 0.0, 0.0, "give 1 more new run, or add base runs"),
    (5, 1, 0.05, 0.0, "run the new code twice more"),
    (5, 2, 0.04, 0.03, "run the new code once more"),
    (4, 3, 0.2, 0.0, "add base runs (there are 4)"),
    (5, 3, 0.2, 0.0, "perfgate run --paired"),
]


@pytest.mark.parametrize(("base", "new", "spread", "change", "words"), STEPS)
def test_a_doubt_says_what_settles_it(base: int, new: int, spread: float, change: float, words: str) -> None:
    stored, measured = numbers(spread, base), numbers(spread, new, 1 + change)
    found = ruled(" within 5% of baseline", [[one] for one in measured], [[one] for one in stored])
    assert found.exit_code == 3
    assert words in found.next_step.text


# --- properties -----------------------------------------------------------------------------------------------------

SPREADS, CHANGES = st.floats(0.0005, 0.2), st.floats(-0.5, 1.0)
LINES = st.builds(
    Line,
    base=st.integers(1, 8),
    new=st.integers(1, 5),
    spread=SPREADS,
    change=CHANGES,
    answer=st.just(""),
    how=st.fixed_dictionaries({"prior": st.sampled_from([None, QUIET, LOUD]), "two_sided": st.booleans()}),
)


@given(line=LINES, factor=st.floats(1e-6, 1e6))
def test_the_unit_of_the_values_does_not_matter(line: Line, factor: float) -> None:
    sides = [
        [factor * one for one in numbers(line.spread, *side)] for side in ((line.base,), (line.new, 1 + line.change))
    ]
    scaled, plain = judge_change(*sides, tolerance=0.05, **line.how), line.result()
    assume(abs((plain.not_excluded or 0.0) - 0.1) > 1e-6)
    assert told(scaled) == told(plain)
    if not line.how["two_sided"]:  # both sides may be as far
        assert scaled.not_excluded == pytest.approx(plain.not_excluded, rel=1e-6, abs=1e-9)


@given(line=LINES)
def test_a_rate_is_the_mirror_of_a_time(line: Line) -> None:
    """1 / x with the tolerance that falls as far: the logarithms and the margins are mirrored."""
    base, new = numbers(line.spread, line.base), numbers(line.spread, line.new, 1 + line.change)
    how = {**line.how, "two_sided": False}
    time = judge_change(base, new, tolerance=0.05, at_worst=0.1, **how)
    rates = [[1 / one for one in side] for side in (base, new)]
    fall = {"tolerance": 0.05 / 1.05, "at_worst": 0.1 / 1.1}
    rate = judge_change(*rates, better="higher", **fall, **how)
    assume(min(abs((time.not_excluded or 0.0) - 0.1), abs((time.estimate or 0.0) - 0.05)) > 1e-6)
    # New runs that disagree by just the tolerance: in the mirror it is another number.
    assume((time.reason == "runs-disagree") == (rate.reason == "runs-disagree"))
    assert told(rate) == told(time)
    assert rate.log_change == pytest.approx(-(time.log_change or 0.0), abs=1e-9)


@given(line=LINES, more=st.floats(1.0, 5.0))
def test_more_noise_never_makes_green_of_what_is_not(line: Line, more: float) -> None:
    """At the same estimate; a failure, a suspicion and a doubt stay exit 1 or 3."""
    noisier = Line(line.base, line.new, line.spread * more, line.change, "", line.how)
    if answer_of(line.result()) == "undecided":
        assert noisier.result().outcome != "pass"


@given(line=LINES)
def test_green_is_what_excludes_at_worst(line: Line) -> None:
    found = line.result()
    assert found.at_worst is not None
    assert found.not_excluded is not None
    if found.excluded:
        assert abs(found.not_excluded) < found.at_worst or not line.how["two_sided"]
        assert found.not_excluded < found.at_worst
        assert not found.of_numbers.suspect
    if found.outcome == "pass":
        assert found.excluded
    if found.reason == "cannot-exclude" and not line.how["two_sided"]:
        assert found.not_excluded >= found.at_worst * (1 - 1e-9)


@given(line=LINES, more=st.floats(1.0, 4.0))
def test_a_wider_at_worst_keeps_what_is_green_with_a_known_noise(line: Line, more: float) -> None:
    assume(line.how["prior"] is not None)
    if line.result(at_worst=0.1).outcome == "pass":
        assert line.result(at_worst=0.1 * more).outcome == "pass"


@pytest.mark.parametrize(
    ("base", "new", "answer"),
    [
        ([0.0, 10.0], 5.0, "pass exact True"),
        ([0.0, 10.0], 12.0, "pass exact True"),
        ([-5.0, 10.0], 18.0, "undecided cannot-exclude False"),
        ([0.0, 0.0], 15.0, "fail exact False"),
    ],
)
def test_differences_without_a_ratio_are_promised_too(base: list[float], new: float, answer: str) -> None:
    """Of sizes around 0, at_worst is an absolute difference: 20 here, twice the tolerance."""
    found = judge_change(base, [new], tolerance_absolute=10.0, exact=True)
    assert f"{found.outcome} {found.reason} {found.excluded}" == answer
