"""Rules that hold a limit: the numbers and words of a verdict."""

from __future__ import annotations

import pytest
from conftest import answer_of, steady
from msgspec.structs import replace
from stories import as_dict, bare, run_of, series, told

from perfgate.core import Run
from perfgate.judge.verdicts import judge

#: Sixty values that forget at once: 1.0 to 1.9 s in turn.
TEN = run_of(series("x", "s", [1.0 + 0.1 * ((7 * i) % 10) for i in range(60)]))
FEW = run_of(series("x", "s", [1.0 + 0.1 * ((7 * i) % 10) for i in range(20)]))
ONE_RUN = "one run: the interval does not include the noise between runs"

SHARES = [
    # a rule, its outcome, the share beyond the bound, and the one that is allowed
    ("x under 1.25 s", "fail", 0.7, 0.5),
    ("x p50 at most 1.75 s", "pass", 0.2, 0.5),
    ("x at least 1.15 s", "pass", 0.2, 0.5),
    ("x p90 under 1.85 s", "pass", 0.1, 0.1),
    ("x p90 over 1.45 s", "pass", 0.5, 0.9),
    ("x p20 at least 1.35 s", "fail", 0.4, 0.2),
    ("x p2.5 over 0.5 s", "pass", 0, 0.025),
]


@pytest.mark.parametrize(("rule", "outcome", "share", "allowed"), SHARES)
def test_a_percentile_is_held_by_the_share_beyond_the_bound(
    rule: str, outcome: str, share: float, allowed: float
) -> None:
    (found,) = judge(bare(f"{{assert: {rule}, warmup: 0}}", [TEN]))
    assert found.share is not None
    assert (found.outcome, told(found.share.estimate), told(found.allowed_share)) == (outcome, share, allowed)
    assert (found.share.n, found.share.n_effective, found.share.runs) == (60, 60, 1)


BEST = [
    # a rule about values of this unit, and the percentile that has the worst ones
    ("x p95 over 5 /s", "1/s", "p5"),
    ("x p95 within 50% of baseline", "1/s", "p5"),
    ("x p99.5 at least 500 ms", "s", "p0.5"),
    ("x p5 over 0.1 /s", "1/s", None),
    ("x over 0.1 /s", "1/s", None),
    ("x p95 under 50 s", "s", None),
]


@pytest.mark.parametrize(("rule", "unit", "worst"), BEST)
def test_a_percentile_of_the_best_values_says_so(rule: str, unit: str, worst: str | None) -> None:
    """Of a rate, p95 passes if a third of the steps take three times as long."""
    base = [run_of(series("x", unit, steady(10, n=200, seed=seed)), source=f"{seed}.json") for seed in range(4)]
    slow = [value / 3 if at % 3 == 0 else value for at, value in enumerate(steady(10, n=200, seed=9))]
    (found,) = judge(bare(rule, [run_of(series("x", unit, slow))], base))
    said = [note.rpartition(" ")[2] for note in found.notes if note.startswith("larger is better here")]
    assert (found.outcome, said) == ("pass", [] if worst is None else [worst])
    assert found.doubtful or not said


STEPS = [
    # a limit of a count, what the steps count, the outcome and the statistic
    ("work.syncs at most 0", [0.0] * 9, "pass", "max"),
    ("work.syncs at most 0", [0.0, 0.0, 0.0, 1.0] * 3, "fail", "max"),
    ("work.syncs at most 0", [2.0] + [0.0] * 9, "fail", "max"),
    ("work.flops at least 3", [4.0] * 9 + [2.0] + [4.0] * 9, "fail", "min"),
    ("work.syncs median at most 0", [0.0, 0.0, 0.0, 1.0] * 3, "pass", "median"),
]


@pytest.mark.parametrize(("rule", "steps", "outcome", "statistic"), STEPS)
def test_a_limit_of_a_count_asks_every_step(rule: str, steps: list[float], outcome: str, statistic: str) -> None:
    metric = rule.split(maxsplit=1)[0]
    (found,) = judge(bare(rule, [run_of(series(metric, "count", steps))]))
    assert (found.outcome, found.statistic) == (outcome, statistic)


def test_all_that_a_verdict_holds_of_a_limit() -> None:
    (found,) = judge(bare("{assert: x under 1450 ms, warmup: 0}", [TEN, TEN]))
    held = told(as_dict(found))
    assert {name: held.get(name) for name in ("bound", "comparator", "confidence", "better", "unit", "shown_unit")} == {
        "bound": 1.45,
        "comparator": "under",
        "confidence": 0.95,
        "better": "lower",
        "unit": "s",
        "shown_unit": "ms",
    }
    assert (held["kind"], held["statistic"], held["asks"]) == ("limit", "median", "under 1450 ms")
    assert held["new"]["n"] == 120
    assert [(one["side"], one["source"], one["n"]) for one in held["runs"]] == [("new", "new.json", 60)] * 2
    assert not found.notes


WORDS = [
    # a rule, and its message, next step and notes
    (
        "{assert: x under 1.25 s, warmup: 0}",
        "x median is 1.45 s [1.3 s, 1.6 s] at 95% confidence: it breaks `under 1.25 s`; "
        "60 values (effective sample size 60), 1 run",
        "reduce x median to under 1.25 s, or change the rule at rules.yaml:7:14",
    ),
    (
        "{assert: x max at most 1.9 s, warmup: 2}",
        "x max is 1.9 s: it meets `at most 1.9 s`; 58 values, 1 run, 2 values dropped as warm-up",
        "",
    ),
    (
        "{assert: x mean under 1.45 s, warmup: 0}",
        "x mean is 1.45 s [1.388 s, 1.512 s] at 95% confidence: it does not clearly break `under 1.45 s`: "
        "the interval includes the bound; 60 values (effective sample size 60), 1 run",
        "run longer or give more runs",
    ),
]


@pytest.mark.parametrize(("rule", "message", "step"), WORDS)
def test_what_is_said_of_a_limit(rule: str, message: str, step: str) -> None:
    (found,) = judge(bare(rule, [TEN]))
    assert (found.message, found.next_step.text, found.notes) == (message, step, (ONE_RUN,))


DRIFTING = run_of(series("x", "s", [0.16 * 10 ** (3.796 * i / 199) for i in range(200)]))


@pytest.mark.parametrize(
    ("rule", "new", "strict", "outcome", "exit_code"),
    [
        ("x under 150 ms", DRIFTING, False, "fail every-value", 1),  # 160 ms to 1000 s, about four independent values
        ("x p65 under 1.55 s", TEN, False, "suspect interval", 3),
        ("x p65 under 1.55 s", TEN, True, "fail interval", 1),
        ("{assert: x p65 under 1.55 s, severity: warning}", TEN, True, "fail interval", 0),
        ("x p99 under 2 s", TEN, True, "pass interval", 0),  # no value is excluded, and the message says so
        ("{assert: x p99 under 2 s, on_inconclusive: error}", TEN, False, "undecided interval", 3),
        ("{assert: x p99 under 2 s, at_worst: 9 s}", TEN, False, "undecided cannot-exclude", 3),
        ("x max under 5 s", run_of(series("x", "s", [9.0, *[1.0] * 40])), False, "fail exact", 1),
        ("{assert: x max under 5 s, warmup: 1}", run_of(series("x", "s", [9.0, *[1.0] * 40])), False, "pass exact", 0),
    ],
)
def test_an_estimate_beyond_its_limit_never_ends_in_exit_0(
    rule: str, new: Run, strict: bool, outcome: str, exit_code: int
) -> None:
    (found,) = judge(replace(bare(rule, [new]), strict=strict))
    assert (f"{answer_of(found)} {found.reason}", found.exit_code) == (outcome, exit_code)


def test_how_a_limit_that_all_values_break_is_told() -> None:
    (found,) = judge(bare("x under 150 ms", [DRIFTING]))
    assert "every value breaks `under 150 ms`; 199 values" in found.message
    assert found.next_step.text == "reduce x median to under 150 ms, or change the rule at rules.yaml:7:5"


NEEDED = [
    # a rule, and how many independent values are needed
    ("x under 1.65 s", 22),
    ("x over 1.25 s", 22),
    ("x under 1.45 s", None),
    ("x mean under 1.5 s", None),
]


@pytest.mark.parametrize(("rule", "needed"), NEEDED)
def test_how_many_values_would_settle_a_percentile_is_told(rule: str, needed: int | None) -> None:
    (found,) = judge(bare(f"{{assert: {rule}, warmup: 0}}", [FEW]))
    assert found.outcome == "pass"
    enough = f": about {needed} independent values are needed" if needed else ""
    assert found.next_step.text == f"run longer or give more runs{enough}"


ALL_KEEP_IT = "all values are {}, but they are too few to be sure of the percentile"
OPEN = [
    # a rule, its outcome, what is said, and whether a way to block is told
    ("{assert: x p90 under 2.5 s, warmup: 0}", "pass", ALL_KEEP_IT.format("under 2.5 s"), True),
    ("{assert: x p10 over 0.5 s, warmup: 0}", "pass", ALL_KEEP_IT.format("over 0.5 s"), True),
    (
        "{assert: x p90 under 2.5 s, warmup: 0, on_inconclusive: error}",
        *("undecided", "these values are too few to exclude anything, so it is not known", False),
    ),
    ("{assert: x p90 under 2.5 s, warmup: 0, at_worst: 9 s}", "undecided", "the interval reaches `at_worst`", False),
    (
        "{assert: x under 1.65 s, warmup: 0}",
        *("pass", "it does not clearly break `under 1.65 s`: the interval includes the bound", False),
    ),
]


@pytest.mark.parametrize(("rule", "outcome", "said", "warns"), OPEN)
def test_what_too_few_values_leave_open_is_told(rule: str, outcome: str, said: str, warns: bool) -> None:
    (found,) = judge(bare(rule, [FEW]))
    assert found.outcome == outcome
    assert said in found.message
    assert found.next_step.text.endswith("needed; to block until then, set `on_inconclusive: error`") == warns
