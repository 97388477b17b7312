"""From an answer to a verdict: the numbers of each kind of answer, and what is said before and below its sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from stories import answered, bare, evidence_of, run_of, series

from perfgate.core import (
    NO_STEP,
    Acceptance,
    Allowance,
    CalibratedPrior,
    Estimate,
    Key,
    Quarantine,
    RelativeChange,
    Run,
    RunEstimate,
    Series,
    Verdict,
    read_only,
)
from perfgate.core.details import WorkDifference
from perfgate.core.results import ChangeResult, Doubt, Judgement, LimitResult, Result, WorkResult
from perfgate.judge.evidence import Case
from perfgate.judge.question import NotJudged
from perfgate.judge.verdict import verdict_of, worsening

TODAY_RULE = "expect_fail: {reason: known, until: '2026-01-01'}"
DOUBT = Doubt("measured-less", "values", 60, 40, decides=True)
ALLOWANCE = Allowance("x", 0.2, "ada", "worth it", bare("x under 9 s", []).today)
ENDED, ASIDE = Quarantine("2025-12-01", "noisy", ended=True), Quarantine("2026-02-01", "noisy", ended=False)


def run(value: float = 1.0, source: str = "new.json", unit: str = "s", n: int = 40) -> Run:
    """A run whose x is this value with some noise."""
    noise = 1 + 0.001 * np.random.default_rng(n).standard_normal(n)
    return run_of(series("x", unit, [float(one) for one in value * noise]), source=source)


def lone(value: float, unit: str = "s", source: str = "new.json") -> Run:
    return run_of(Series(Key("x"), unit, "value", read_only(np.array([value]))), source=source)


def worded(asked: Case, left_out: Sequence[str] = (), worst: float | None = None, **changes: Any) -> Verdict:
    """The verdict of the first clause, its answer with these changes."""
    return verdict_of(*answered(asked, **changes), left_out, *(() if worst is None else (worst,)))


def limit(rule: str = "x under 9 s", *new: Run, facts: dict[str, Any] | None = None) -> Case:
    return replace(bare(rule, new or (run(),)), facts=facts or {})


def change(rule: str = "x within 5% of baseline", *new: Run, **fields: Any) -> Case:
    return bare(rule, new or (run(),), [run(source=f"{i}.json", n=40 + i) for i in range(3)], **fields)


# --- what is said before and below the sentence of an answer ---------------------------------------------------------

PLAIN = worded(limit()).message
SAID: list[tuple[Case, dict[str, Any], str, list[str]]] = [
    # a case, what changes in its answer; the words before the message, and the notes about no numbers
    (limit(), {}, "", []),
    (limit(), {"doubts": (DOUBT,)}, "", ["fewer values than in the baseline: 40 instead of 60"]),
    (
        limit(),
        {"doubts": (DOUBT,), "outcome": "undecided", "reason": "measured-less", "outranked": Judgement("pass", "x")},
        "fewer values than in the baseline: 40 instead of 60; ",
        [],
    ),
    (limit(f"{{assert: x under 9 s, {TODAY_RULE}}}"), {"otherwise": None, "outcome": "pass"}, "", []),
    (
        limit(f"{{assert: x under 9 s, {TODAY_RULE}}}"),
        {"otherwise": "pass", "outcome": "pass"},
        "expected to fail until 2026-01-01 (known); now: pass: ",
        [],
    ),
    (limit(), {"otherwise": "pass"}, "", []),
    (limit(), {"quarantine": ASIDE}, "", []),
    (limit(), {"quarantine": ENDED}, "", ["the quarantine of this rule ended on 2025-12-01: remove it"]),
    (limit(), {"left_out": ["a", "b", "a"]}, "", ["not judged by this rule, because the unit does not fit: a, b"]),
    (limit(facts={"throttle_reasons": "hw_slowdown"}), {}, "", ["the GPU was throttled: hw_slowdown"]),
]


@pytest.mark.parametrize(("asked", "changes", "before", "below"), SAID)
def test_what_is_said_beside_an_answer(asked: Case, changes: dict[str, Any], before: str, below: list[str]) -> None:
    left_out = changes.get("left_out", ())
    found = worded(asked, left_out, **{name: one for name, one in changes.items() if name != "left_out"})
    assert found.message == before + PLAIN
    assert [*found.notes] == ["one run: the interval does not include the noise between runs", *below]
    assert found.doubtful == ("doubts" in changes)
    step = "it passes now: remove expect_fail" if before.startswith("expected") else ""
    assert found.next_step.text.startswith(step)


FAILED = [
    # the quarantine of a broken limit; the words before its message, and its exit code
    (None, "", 1),
    (ASIDE, "quarantined until 2026-02-01 (noisy): ", 0),
    (ENDED, "the quarantine ended on 2025-12-01 (noisy): ", 1),
]


@pytest.mark.parametrize(("quarantine", "before", "code"), FAILED)
def test_a_failure_in_quarantine_says_so(quarantine: Quarantine | None, before: str, code: int) -> None:
    plain = worded(limit("x under 0.5 s"))
    found = worded(limit("x under 0.5 s"), quarantine=quarantine)
    assert (found.message, found.notes, found.exit_code) == (before + plain.message, plain.notes, code)
    assert found.quarantine == quarantine


@pytest.mark.parametrize(
    ("policy", "before"), [(None, ""), ("warn", "warning: not judged: "), ("skip", "not judged: ")]
)
def test_what_was_accepted_as_missing_says_so(policy: Any, before: str) -> None:
    missing = NotJudged(
        outcome="error", reason="no-data", message="no data", next_step=NO_STEP, accepted_missing=policy
    )
    found = verdict_of(evidence_of(limit()), missing, missing)
    assert (found.message, found.kind, found.unit, found.new) == (f"{before}no data", "limit", None, None)


BEST = "larger is better here, so p90 looks at the best values; the worst ones are in p10"
HIGH = [
    # a rule, and whether the note about the best values is below it
    ("x p90 over 0.5 /s", True),
    ("x p10 over 0.5 /s", False),
    ("x p90 over 2 /s", False),
    ("x p90 under 2 /s", False),
    ("x over 0.5 /s", False),
]


@pytest.mark.parametrize(("rule", "noted"), HIGH)
def test_a_high_percentile_of_a_rate_looks_at_the_best_values(rule: str, noted: bool) -> None:
    found = worded(limit(rule, run(unit="1/s")))
    assert ((BEST in found.notes), found.doubtful) == (noted, noted)


def test_a_single_number_is_no_percentile() -> None:
    found = worded(limit("x over 0.5 /s", lone(1.0, "1/s")))
    assert (found.outcome, found.better, found.statistic, found.doubtful) == ("pass", "higher", None, False)


OTHERS = Acceptance(ref="main", head="abc")
ALLOWED = [
    # who accepts, the largest worsening; the action and the command of the next step after a failure
    (Acceptance(), None, "approve", 'perfgate baseline approve RUN... --reason "..."'),
    (OTHERS, 0.3, "allow", 'perfgate baseline allow --head abc --metric x --up-to 30% --reason "..."'),
    (OTHERS, 0.07, "allow", 'perfgate baseline allow --head abc --metric x --up-to 7% --reason "..."'),
    (OTHERS, 0.0701, "allow", 'perfgate baseline allow --head abc --metric x --up-to 8% --reason "..."'),
    (OTHERS, None, "find-cause", None),
    (Acceptance(ref="main"), 0.3, "find-cause", None),
]


@pytest.mark.parametrize(("accept", "worst", "action", "command"), ALLOWED)
def test_an_allowance_is_for_the_largest_worsening(
    accept: Acceptance, worst: float | None, action: str, command: str | None
) -> None:
    found = worded(replace(change(), accept=accept), worst=worst, outcome="fail", reason="interval")
    assert (found.outcome, found.next_step.action, found.next_step.command) == ("fail", action, command)


def changed(estimate: float | None, low: float | None, high: float | None) -> ChangeResult:
    found = ChangeResult(outcome="fail", reason="interval", base_runs=3, new_runs=1, tolerance=0.05)
    return replace(found, estimate=estimate, low=low, high=high)


WORSE = [
    (changed(0.1, 0.05, 0.2), 0.2),
    (changed(2.0, 1.5, 3.0), 3.0),
    (changed(-0.1, -0.2, -0.05), 0.2),
    (changed(0.0, -0.1, 0.3), 0.3),
    (changed(None, -0.1, 0.3), 0.3),
    (changed(0.1, 0.05, None), 0.1),
    (changed(-0.1, None, -0.05), 0.1),
    (changed(None, None, None), 0.0),
    (LimitResult(outcome="fail", reason="interval", runs=1, estimate=0.1, high=0.2), 0.0),
]


@pytest.mark.parametrize(("found", "expected"), WORSE)
def test_a_worsening_is_the_far_end_of_the_interval(found: Result, expected: float) -> None:
    assert worsening(found) == expected


# --- errors ----------------------------------------------------------------------------------------------------------

BAD = [
    # a rule, the reason of an error; the message
    ("x under 9 s", "too-few-samples", "x median has no value after warm-up"),
    ("x under 9 s", "not-a-number", "x median has values that are not finite numbers"),
    ("x under 9 s", "not-positive", "x median has values of zero or less, so a relative change does not exist"),
    ("x under 9 s", "no-new-run", "x median cannot be judged: no-new-run"),
    ("x under 9 s", "no-baseline", "x median cannot be judged: no-baseline"),
    ("x within 5% of baseline", "not-a-number", "x median has values that are not finite numbers"),
    (
        "x within 0.5% of baseline",
        "tolerance-too-small",
        "x: a tolerance of 0.5% is too small for pairs: order and memory layout alone move unchanged code by up to "
        "0.6%",
    ),
    (
        "x under 9 s",
        "tolerance-too-small",
        "x: a tolerance of 0% is too small for pairs: order and memory layout alone move unchanged code by up to 0.6%",
    ),
    ("x under 9 s", "measured-less", None),
    ("x within 5% of baseline", "measured-less", None),
]


@pytest.mark.parametrize(("rule", "reason", "message"), BAD)
def test_values_that_cannot_be_judged_are_said_without_numbers(rule: str, reason: str, message: str | None) -> None:
    asked = change(rule)
    plain, found = worded(asked), worded(asked, outcome="error", reason=reason)
    assert (found.outcome, found.reason, found.exit_code) == ("error", reason, 3)
    if message is None:  # a doubt outranks an answer, which keeps its numbers
        assert (found.unit, found.new) == ("s", plain.new)
    else:
        assert (found.message, found.unit, found.new) == (message, None, None)


def test_bad_values_that_pass_keep_their_numbers() -> None:
    assert worded(change(), reason="not-a-number").new == worded(change()).new


def ranks(*values: float, source: str = "new.json", unit: str = "s") -> Run:
    return run_of(*(series("x", unit, [value] * 9, rank=str(at)) for at, value in enumerate(values)), source=source)


BY_RANK = "x on the slowest rank at most 1.2x the median rank"


def test_the_bad_values_of_a_ratio_are_of_no_statistic() -> None:
    found = worded(limit(BY_RANK, ranks(1, 2, 3)), outcome="error", reason="not-a-number")
    assert found.message == "x on rank 2 has values that are not finite numbers"


def test_an_error_shows_the_new_runs_that_were_measured() -> None:
    """A run without a number counts for no mean."""
    rule = "{assert: x within 5 ms of baseline, warmup: 0}"
    evidence = evidence_of(bare(rule, [ranks(1.0, 2.0), ranks(3.0, 4.0, source="b.json")]))
    side = evidence.measured(evidence.new, evidence.subject.new_views)
    missing = NotJudged(outcome="error", reason="no-baseline", message="none", next_step=NO_STEP, new=side)
    found = verdict_of(evidence, missing, missing)
    assert found.new == Estimate(3.0, None, None, 18, 18.0, 2)
    assert (found.unit, found.shown_unit, found.statistic) == ("s", "ms", "median")
    assert (found.member, found.base) == ({"rank": "1"}, None)
    assert found.runs == (RunEstimate("new", "new.json", 2.0, 9, 0), RunEstimate("new", "b.json", 4.0, 9, 0))
    for values, mean in (((None, 4.0), 4.0), ((None, None), None)):
        measures = tuple(replace(one, value=value) for one, value in zip(side.measures, values, strict=True))
        gone = replace(missing, new=replace(side, measures=measures))
        shown = verdict_of(evidence, gone, gone).new
        assert shown is not None
        assert shown.estimate == mean


# --- limits ----------------------------------------------------------------------------------------------------------


def broken(outcome: str = "undecided", reason: str = "interval", **numbers: Any) -> dict[str, Any]:
    """An answer to a limit with these numbers."""
    return {"outcome": outcome, "reason": reason, **numbers}


SHARES = [
    # a rule, and the share of values that may be beyond its bound
    ("x p90 under 9 s", 0.1),
    ("x p75 at most 9 s", 0.25),
    ("x p10 over 0.5 s", 0.1),
    ("x median under 9 s", 0.5),
    ("x p90 at least 0.5 s", 0.9),
    ("x mean under 9 s", None),
]


@pytest.mark.parametrize(("rule", "allowed"), SHARES)
def test_a_percentile_has_the_share_beyond_its_bound(rule: str, allowed: float | None) -> None:
    if allowed is None:
        found = worded(limit(rule))
        assert (found.share, found.allowed_share) == (None, None)
    else:
        found = worded(limit(rule), share=0.01, share_low=0.0, share_high=0.02)
        assert found.new is not None
        assert found.allowed_share == pytest.approx(allowed)
        assert found.share == replace(found.new, estimate=0.01, low=0.0, high=0.02)


ENDS = [
    # a rule, the reason and the bounds of an open answer, and whether the values are too few to exclude any
    ("x mean under 9 s", "interval", 0.5, None, True),
    ("x mean under 9 s", "interval", None, 9.5, False),
    ("x mean over 0.5 s", "interval", None, 9.5, True),
    ("x mean over 0.5 s", "interval", 0.5, None, False),
    ("x mean under 9 s", "one-run", 0.5, None, False),
    ("x mean under 9 s", "interval", 0.5, 9.5, False),
]
FEW, BLOCK = "these values are too few to exclude anything", "; to block until then, set `on_inconclusive: error`"


@pytest.mark.parametrize(("rule", "reason", "low", "high", "is_open"), ENDS)
def test_an_interval_without_its_bad_end_excludes_nothing(
    rule: str, reason: str, low: float | None, high: float | None, is_open: bool
) -> None:
    found = worded(limit(rule), **broken(reason=reason, low=low, high=high))
    assert (FEW in found.message, BLOCK in found.next_step.text) == (is_open, is_open)
    asked = limit(f"{{assert: {rule}, on_inconclusive: warn}}")
    strict = worded(asked, **broken(reason=reason, low=low, high=high))
    assert (FEW in strict.message, BLOCK in strict.next_step.text) == (is_open, False)


def test_a_pass_without_a_bad_end_is_not_open() -> None:
    found = worded(limit("x mean under 9 s"), **broken("pass", low=0.5, high=None))
    assert FEW not in found.message
    assert found.next_step == NO_STEP


NEEDED = [
    # the outcome, and whether the number of values that would settle it is told
    ("undecided", True),
    ("pass", False),
    ("fail", False),
]


@pytest.mark.parametrize(("outcome", "is_told"), NEEDED)
def test_an_open_percentile_says_how_many_values_would_settle_it(outcome: str, is_told: bool) -> None:
    found = worded(limit("x p90 under 9 s"), **broken(outcome, share=0.05, share_low=0.0, share_high=0.2))
    assert ("independent values are needed" in found.next_step.text) == is_told


@pytest.mark.parametrize(("runs", "notes"), [(1, 1), (2, 0)])
def test_one_run_does_not_show_the_noise_between_runs(runs: int, notes: int) -> None:
    found = worded(limit("x mean under 9 s", *[run(source=f"{at}.json") for at in range(runs)]))
    assert len(found.notes) == notes


def test_all_numbers_of_a_limit() -> None:
    asked = bare("{assert: x mean under 9000 ms, warmup: 2, confidence: 99%}", [ranks(1, 2), ranks(3, 2, source="b")])
    found = worded(asked, low=1.9, high=4.0, estimate=2.5, n=30, n_effective=20.0, suspect=True)
    assert found == replace(
        found,
        kind="limit",
        against=None,
        metric="x",
        member={"rank": "0"},
        unit="s",
        shown_unit="ms",
        statistic="mean",
        better="lower",
        bound=9.0,
        comparator="under",
        confidence=0.995,
        new=Estimate(2.5, 1.9, 4.0, 30, 20.0, 2),
        base=None,
        change=None,
        suspect=True,
        runs=(RunEstimate("new", "new.json", 2.0, 7, 2), RunEstimate("new", "b", 3.0, 7, 2)),
    )


def test_the_arithmetic_is_kept_if_bounds_decided() -> None:
    kept = worded(limit("x mean under 9 s"), outranked=Judgement("undecided", "one-run", suspect=True)).calculation
    assert kept is not None
    assert (kept.outcome, kept.reason, kept.suspect, len(kept.comparisons)) == ("undecided", "one-run", True, 1)
    assert worded(limit("x mean under 9 s"), comparisons=()).calculation is None


# --- ratios of ranks -------------------------------------------------------------------------------------------------

THREE = [ranks(1, 2, 4), ranks(1, 2, 6, source="b"), ranks(1, 2, 5, source="c")]


def test_all_numbers_of_a_ratio_of_ranks() -> None:
    """The values are those of the last run, the sides are the means of all."""
    found = worded(limit(BY_RANK, *THREE), estimate=2.5, low=2.0, high=None, suspect=True, n=None)
    interval = "x on rank 2 is 2.5x [2x, unbounded] at 95% confidence"
    assert found.message.startswith(f"x median is 5 s on the slowest rank, 2 s on the median rank: {interval}: ")
    assert found == replace(
        found,
        kind="change",
        against="median rank",
        unit="s",
        shown_unit=None,
        statistic="median",
        member={"rank": "2"},
        better="lower",
        new=Estimate(5.0, None, None, None, None, 3),
        base=Estimate(2.0, None, None, None, None, 3),
        change=RelativeChange(1.5, 1.0, None),
        suspect=True,
        notes=(),
        runs=(),
    )
    assert found.tolerance == pytest.approx(0.2)


def test_one_run_of_ranks_does_not_show_the_noise_between_runs() -> None:
    (note,) = worded(limit(BY_RANK, THREE[0])).notes
    assert note.startswith("one run")


# --- changes ---------------------------------------------------------------------------------------------------------

NUMBERS: dict[str, Any] = {
    "estimate": 0.5,
    "low": 0.4,
    "high": 0.6,
    "base_value": 1.0,
    "new_value": 1.5,
    "tolerance": 0.05,
}
KNOWN = CalibratedPrior(Key("x"), "mean", "worst", 0.004, 6.0, 5)


def test_all_numbers_of_a_change() -> None:
    rule = "{assert: x mean within 50 ms of baseline, warmup: 0, confidence: 90%}"
    asked = bare(rule, [ranks(1, 2), ranks(3, 2, source="b")], [ranks(1, 1, source="c")], priors=(KNOWN,))
    more: dict[str, Any] = {"minimum_detectable_change": 0.1, "runs_needed": 4, "at_worst": 0.2, "not_excluded": 0.3}
    found = worded(asked, **NUMBERS, **more, suspect=True, improved=True)
    assert found == replace(
        found,
        kind="change",
        against="baseline",
        member={"rank": "0"},
        unit="s",
        shown_unit="ms",
        statistic="mean",
        better="lower",
        new=Estimate(1.5, None, None, 18, 18.0, 2),
        base=Estimate(1.0, None, None, 9, 9.0, 1),
        change=RelativeChange(0.5, 0.4, 0.6),
        tolerance=0.05,
        two_sided=False,
        confidence=0.9,
        minimum_detectable_change=0.1,
        runs_needed=4,
        at_worst=0.2,
        not_excluded=0.3,
        suspect=True,
        improved=True,
        allowed_by=None,
        runs=(
            RunEstimate("base", "c", 1.0, 9, 0),
            RunEstimate("new", "new.json", 2.0, 9, 0),
            RunEstimate("new", "b", 3.0, 9, 0),
        ),
        pooled=None,
    )
    assert found.noise is not None
    assert found.noise.deviation == 0.004


def test_only_the_runs_that_were_judged_are_behind_a_change() -> None:
    """Of the latest runs before the anchor, the answer may be that of the new runs alone."""
    asked = change("{assert: x within 5% of baseline, warmup: 0}", run(1.0, n=50), run(1.0, "b"), run(1.0, "c"))
    found = worded(asked, new_runs=1)
    assert found.new is not None
    assert (found.new.n, found.new.runs) == (40, 1)
    assert [one.source for one in found.runs] == ["0.json", "1.json", "2.json", "c"]


@pytest.mark.parametrize(
    ("rule", "two_sided"),
    [("x within ±5% of baseline", True), ("x within 5% of baseline", False), ("loss within 5% of baseline", True)],
)
def test_a_change_is_bad_on_both_sides_if_no_direction_is_known(rule: str, two_sided: bool) -> None:
    asked = change(rule) if rule.startswith("x") else bare(rule, [loss()], [loss()])
    assert worded(asked).two_sided == two_sided


def loss() -> Run:
    return run_of(series("loss", "1", [1.0, 1.01] * 20))


EASED = [("eased", "ada"), ("not-enough", None), ("expired", None)]


@pytest.mark.parametrize(("effect", "by"), EASED)
def test_who_allowed_a_change_is_told_if_it_counts(effect: str, by: str | None) -> None:
    found = worded(change(), allowance=ALLOWANCE, allowance_effect=effect)
    assert found.allowed_by == by


def test_nobody_allowed_a_change_without_an_allowance() -> None:
    assert worded(change(), allowance_effect="eased").allowed_by is None


NOISE = [
    # the reason of the answer, whether there are pairs, and whether the known noise is shown
    ("interval", None, True),
    ("exact", None, False),
    ("equal", None, False),
    ("interval", "in-turn", False),
]


@pytest.mark.parametrize(("reason", "pairing", "is_shown"), NOISE)
def test_known_noise_is_shown_if_it_counted(reason: str, pairing: str | None, is_shown: bool) -> None:
    prior = replace(KNOWN, statistic="median", pairing=None)
    asked = bare("x within 5% of baseline", [run()], [run(n=41)], priors=(prior,), pairing=pairing)
    assert (worded(asked, reason=reason, outcome="pass").noise is not None) == is_shown


LOOKS = [(None, "make two more pairs"), ((1, 3), "run again on a quieter machine, or with more pairs (`--runs 6`)")]


@pytest.mark.parametrize(("looks", "text"), LOOKS)
def test_after_the_last_look_of_pairs_more_of_them_are_needed(looks: Any, text: str) -> None:
    open_pairs: dict[str, Any] = {"outcome": "undecided", "reason": "interval", "suspect": True, "excluded": False}
    for count, expected in ((3, text), (1, "make two more pairs")):
        new, base = ([run(n=n) for _ in range(count)] for n in (40, 41))
        asked = replace(bare("x within 5% of baseline", new, base, pairing="in-turn"), looks=looks)
        assert worded(asked, **open_pairs).next_step.text == expected


def parts(kernel: float, source: str) -> Run:
    rows = {"step.kernel": kernel, "step.cpu": 1.0, "step.time": kernel + 1.0}
    return run_of(*(series(name, "s", [value] * 20) for name, value in rows.items()), source=source)


@pytest.mark.parametrize(("outcome", "suspect"), [("fail", False), ("undecided", True), ("pass", False)])
def test_the_parts_of_a_change_are_shown_if_it_may_be_bad(outcome: str, suspect: bool) -> None:
    base = [parts(1.0 + 0.001 * at, f"{at}.json") for at in range(4)]
    asked = bare("step.time within 5% of baseline", [parts(2.0, "new.json")], base)
    found = worded(asked, outcome=outcome, reason="interval", suspect=suspect)
    assert [one.metric for one in found.explained_by] == (["step.kernel"] if outcome != "pass" else [])


# --- work ------------------------------------------------------------------------------------------------------------


def differences(count: int) -> tuple[WorkDifference, ...]:
    return tuple(WorkDifference("work.ops", {"at": str(at)}, {}, 1.0, 2.0) for at in range(count))


def worked(outcome: Any = "pass", **fields: Any) -> Verdict:
    found = WorkResult(outcome=outcome, reason="exact", counts=1, base_runs=1, new_runs=1, **fields)
    question = NotJudged(outcome="error", reason="no-data", message="", next_step=NO_STEP)
    return verdict_of(evidence_of(change()), question, found)


def test_a_verdict_has_a_hundred_counts_of_work_at_most() -> None:
    grown, shrunk, unclear = differences(60), differences(39), differences(3)
    assert worked("fail", grown=grown, shrunk=shrunk, unclear=unclear).work == (*grown, *shrunk, unclear[0])


IMPROVED = [
    # the outcome, whether counts grew and shrank; whether it is an improvement
    ("pass", 0, 1, True),
    ("pass", 0, 0, False),
    ("pass", 1, 1, False),
    ("pass", 1, 0, False),
    ("fail", 0, 1, False),
    ("fail", 0, 0, False),
]


@pytest.mark.parametrize(("outcome", "grown", "shrunk", "improved"), IMPROVED)
def test_less_work_is_an_improvement_if_it_passes(outcome: str, grown: int, shrunk: int, improved: bool) -> None:
    found = worked(outcome, grown=differences(grown), shrunk=differences(shrunk))
    assert (found.improved, found.statistic, found.unit, found.kind) == (improved, None, None, "change")


SINGLE = [
    # the runs of the new side; their number of values, and of independent ones
    ([run(n=40), run(n=30)], 70),
    ([lone(1.0), lone(1.1)], None),
]


@pytest.mark.parametrize(("new", "n"), SINGLE)
def test_a_single_number_has_no_values_to_count(new: list[Run], n: int | None) -> None:
    found = worded(bare("{assert: x within 50% of baseline, warmup: 0}", new, [lone(1.0)]))
    assert found.new is not None
    assert (found.new.n, found.new.runs) == (n, 2)
    assert (found.new.n_effective is None) == (n is None)


def test_a_side_with_a_single_number_has_no_effective_size() -> None:
    found = worded(bare("{assert: x mean within 50% of baseline, warmup: 0}", [run(n=40), lone(1.0)], [run()]))
    assert found.new is not None
    assert (found.new.n, found.new.n_effective) == (41, None)
