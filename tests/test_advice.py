"""The advice of `init`, function by function: rules against stored runs, against pairs, and about exact work."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from typing import Any

import pytest
from msgspec.structs import replace
from small_runs import proposals, proposed, runs_of, samples, value

from perfgate.analysis import advice as module
from perfgate.analysis.advice import advise, proposed_for
from perfgate.analysis.plan import SPREAD_OF_PAIRS, pairs_fail_from
from perfgate.analysis.proposals import Proposal
from perfgate.analysis.tolerances import TOO_NOISY, Fit, spread_of_pairs
from perfgate.analysis.work_advice import _twice_as_wide, with_work
from perfgate.core import Better, Run, Series
from perfgate.core.advice import Advice, LeftOut, ProposedRule, StepTime
from perfgate.judge.pairs import Pairs

TODAY = date(2026, 1, 1)
OF_STEP = StepTime("step.time")
#: Steps that take turns, against even ones: they vary as on a machine that other programs use, with one median.
BUSY = ([0.5, *[0.99, 1.01] * 3, 2.0] * 10, [1.0] * 80, [1.0] * 80)
SHORTER = tuple([value / 2 for value in values] for values in BUSY)


def both(**held: Sequence[Any]) -> list[Run]:
    """Runs of metrics by name, with `_` for a dot; the name of one that is not a time ends in its unit."""

    def series(name: str, one: Any) -> Series:
        unit = {"size": "B", "rate": "1/s", "score": "1"}.get(name, "s")
        of = value if isinstance(one, float) else samples
        return of(name.replace("_", "."), unit, one)

    rows = zip(*held.values(), strict=True)
    return runs_of(*([series(name, one) for name, one in zip(held, row, strict=True)] for row in rows))


def said(found: Advice) -> list[str]:
    return [rule.sentence for rule in found.rules]


def reasons(found: Advice) -> dict[str, list[str]]:
    return {one.reason: [*one.metrics] for one in found.left_out}


# --- rules that compare with stored runs ------------------------------------------------------------------------------


def test_a_step_has_a_budget_and_every_metric_a_rule() -> None:
    found = advise(both(step_time=[1.0] * 3, fwd=[0.4] * 3, size=[5e9] * 3, score=[1.0] * 3), TODAY)
    assert said(found) == [
        *("step.time within 3% of baseline", "step.time under 1.2 s"),
        *("fwd within 3% of baseline", "size within 3% of baseline"),
    ]
    assert reasons(found) == {"unknown which direction is better (set `better:` in a rule)": ["score"]}
    assert (found.step, found.runs, found.is_paired, found.most_runs) == (OF_STEP, 3, False, 3)


OTHER_DAY = "stored runs would not show what they will be on another day"
UNSTEADY: list[tuple[dict[str, Sequence[Any]], list[str], list[str]]] = [
    # runs, the metrics with a rule, and those that steps of other programs would hide
    ({"step_time": BUSY, "fwd": SHORTER, "size": [5e9] * 3}, ["size"], ["step.time", "fwd"]),
    ({"step_time": BUSY, "fwd": [0.4] * 3}, ["fwd"], ["step.time"]),
    ({"step_time": [1.0] * 3, "fwd": SHORTER}, ["fwd", "step.time", "step.time"], []),
    # a tolerance so wide that the gate sees no slower step, on a calm machine
    ({"step_time": [math.exp(-0.15), 1.0, 1.0, math.exp(0.15)], "fwd": [0.4] * 4}, ["fwd"], ["step.time"]),
]


@pytest.mark.parametrize(("held", "ruled", "unsteady"), UNSTEADY)
def test_what_a_busy_machine_hides_has_no_rule(
    held: dict[str, Sequence[Any]], ruled: list[str], unsteady: list[str]
) -> None:
    found = advise(both(**held), TODAY)
    assert [rule.subject.split()[0] for rule in found.rules] == ruled
    assert reasons(found) == ({OTHER_DAY: unsteady} if unsteady else {})
    assert found.step.is_noisy is bool(unsteady)


def test_the_rule_of_calls_is_about_their_sum() -> None:
    known = {"op.a": [samples("op.a", "s", [1.0])], "x": [value("x", "s", 1.0)], "y": [samples("y", "s", [1.0])]}
    calls = Proposal("op.a", Fit("total(op.a) / count(step.time) within 3% of baseline", 3, ()), None, is_sum=True)
    found = [module._usual(one, known) for one in (calls, proposed("x", limit="x under 2 s"), proposed("y"))]
    assert [(one.purpose, one.subject, one.limit) for one in found] == [
        *(("sum", "total(op.a) / count(step.time)", None), ("usual", "x mean", "x under 2 s")),
        ("usual", "y median", None),
    ]


STALLS = [[1.0] * 60, [1.0] * 59 + [600.0], [1.0] * 60]
COSTS: list[tuple[list[Series], int, list[tuple[str, str, float]]]] = [
    # a time of each run, its tolerance, and the purpose, the sentence and the smallest change of each rule
    ([value("x", "s", 1.0)] * 3, 3, [("budget", "x under 1.2 s", 0.2)]),
    ([value("x", "s", 1.0)] * 3, 10, [("budget", "x under 1.2 s", 0.2)]),
    ([value("x", "s", 1.0)] * 3, 20, [("budget", "x under 1.4 s", 0.4)]),
    ([value("x", "s", 1.0)], 3, [("budget", "x under 1.2 s", 0.2)]),
    ([value("x", "s", 1.0), value("x", "s", 2.0)], 3, []),  # undecided
    (
        [samples("x", "s", [1.0] * 60)] * 3,
        20,
        [("cost", "x mean within 3% of baseline", 0.0390), ("budget", "x mean under 1.2 s", 0.2)],
    ),
    ([samples("x", "s", values) for values in STALLS], 20, [("budget", "x under 1.4 s", 0.4)]),
]


@pytest.mark.parametrize(("series", "tolerance", "rules"), COSTS)
def test_a_cost_and_a_budget(series: list[Series], tolerance: int, rules: list[tuple[str, str, float]]) -> None:
    runs = runs_of(*([one] for one in series))
    found = [*module._cost(proposed("x", tolerance=tolerance), {"x": series}, runs, TODAY)]
    assert [(one.purpose, one.sentence, one.fails_from) for one in found] == [
        (purpose, sentence, pytest.approx(change, abs=1e-3)) for purpose, sentence, change in rules
    ]
    statistic = "mean" if "x mean" in str(rules) or series[0].kind == "value" else "median"
    assert [one.subject for one in found] == [f"x {statistic}"] * len(rules)
    bare = [one.sentence.removeprefix("x ").removeprefix("mean ") for one in found]
    assert [one.asks for one in found] == [text.removesuffix(" of baseline") for text in bare]


def test_labels_that_differ_have_a_budget_each() -> None:
    rows = [[value("x", "s", 1.0, to="a"), value("x", "s", 4.0, to="b")]] * 3
    known = {"x": [one for row in rows for one in row]}
    found = [(one.sentence, one.subject) for one in module._cost(proposed("x"), known, runs_of(*rows), TODAY)]
    assert found == [('x{to="a"} under 1.2 s', 'x{to="a"} mean'), ('x{to="b"} under 4.8 s', 'x{to="b"} mean')]


def of_labels(*numbers: float, label: str = "to") -> list[Series]:
    return [value("x", "s", number, **{label: letter}) for letter, number in zip("fedcba", numbers, strict=False)]


LABELS: list[tuple[list[Series], list[str]]] = [
    # series, and the labels of each budget if one has half as much room again
    (of_labels(1.0, 1.4), [""]),
    (of_labels(1.0, 1.5), ['{to="e"}', '{to="f"}']),
    (of_labels(1.0, 9.0, label="rank"), [""]),
    ([value("x", "s", number, to="a") for number in (1.0, 9.0)], [""]),
    (of_labels(1.0, 0.0), [""]),  # the spread is unknown
    (of_labels(1, 2, 3, 4, 5), [f'{{to="{letter}"}}' for letter in "bcdef"]),
    (of_labels(1, 2, 3, 4, 5, 6), []),
]


@pytest.mark.parametrize(("series", "labels"), LABELS)
def test_the_labels_with_a_budget_of_their_own(series: list[Series], labels: list[str]) -> None:
    found = module._by_labels(series, "mean", 1.5)
    assert [name for name, _ in found] == labels
    assert len([one for _, some in found for one in some]) == (len(series) if labels else 0)


# --- one more rule ----------------------------------------------------------------------------------------------------

STEP = samples("step.time", "s", [9.0] * 9)
CALLS = [samples("op.a", "s", [1.0] * 9), STEP]
BUSY_STEPS = [[samples("x", "s", values)] for values in BUSY]
#: The least tolerance of four such runs is 10 %, and 15 %.
FAR, FARTHER = (0.05, 0.067)
GOODPUT = "longer runs have more: set a limit, such as `goodput at least 90%`"
ADDED: list[tuple[str, list[list[Series]], str, str]] = [
    # metric, runs, and the rule or why there is none: of stored runs, and of pairs
    ("x", [[value("x", "s", 1.0)]] * 3, "x within 3% of baseline", "x within 5% of baseline"),
    ("x", [[value("x", "s", 1.0)]] * 2, "x within 5% of baseline", "x within 10% of baseline"),
    ("x", [[value("x", "s", n)] for n in (1.0, 5.0, 9.0)], TOO_NOISY, "x within 10% of baseline"),
    ("x", BUSY_STEPS, "x within 3% of baseline", "x within 10% of baseline"),
    *(
        (
            "x",
            [[value("x", "s", math.exp(far * sign))] for sign in (-1, 0, 0, 1)],
            f"x within {stored}% of baseline",
            f"x within {paired}% of baseline",
        )
        for far, stored, paired in ((FAR, 10, 5), (FARTHER, 15, 10))
    ),
    ("x", [[value("x", "s", 1.0), value("y", "s", 9.0)]] * 3, "x within 3% of baseline", "x within 5% of baseline"),
    ("x", [[value("x", "s", 1.0)], [value("y", "s", 9.0)]], "not in every run", "not in every run"),
    ("goodput", [[value("goodput", "1", 0.9)]], GOODPUT, GOODPUT),
    ('a"b`c', [[value('a"b`c', "s", 1.0)]] * 3, "a rule cannot name them", "a rule cannot name it"),
    ("op.a", [CALLS] * 3, "total(op.a) / count(step.time) within 3% of baseline", "op.a within 5% of baseline"),
    ("op.a", [CALLS, CALLS, CALLS[:1]], "op.a within 3% of baseline", "op.a within 5% of baseline"),
    ("work.ops", [[samples("work.ops", "count", [9.0] * 4)]] * 3, module._OF_WORK, module._OF_WORK),
]


@pytest.mark.parametrize(("metric", "rows", "stored", "paired"), ADDED)
def test_the_rule_for_one_metric(metric: str, rows: list[list[Series]], stored: str, paired: str) -> None:
    for is_paired, rule in ((False, stored), (True, paired)):
        found = proposed_for(metric, runs_of(*rows), TODAY, is_paired=is_paired)
        assert (found if isinstance(found, str) else found.sentence) == rule
    usual = proposed_for(metric, runs_of(*rows), TODAY)
    assert (usual if isinstance(usual, str) else usual.sentence) == stored


def test_the_user_says_which_direction_is_better() -> None:
    runs = both(score=[1.0] * 3)
    found = {better: proposed_for("score", runs, TODAY, better={"score": better}, is_paired=True) for better in BETTER}
    assert found["neither"] == "their mapping says that neither direction is better"
    falls, rises = (found[better] for better in ("higher", "lower"))
    assert isinstance(falls, ProposedRule)
    assert isinstance(rises, ProposedRule)
    assert falls.fails_from == pairs_fail_from(0.05, 10, "higher")
    assert rises.fails_from == pairs_fail_from(0.05, 10, "lower")


BETTER: tuple[Better, ...] = ("neither", "higher", "lower")

# --- rules that compare in pairs --------------------------------------------------------------------------------------

FITTING = [
    *((0.1, 5), (5.0, 5), (5.1, 8), (8.0, 8), (8.1, 10), (10.1, 15), (15.1, 20), (20.1, 25), (25.1, 30), (30.1, 40)),
    *((40.1, 50), (51.0, 50)),
]


@pytest.mark.parametrize(("percent", "tolerance"), FITTING)
def test_the_smallest_usual_tolerance_of_pairs(percent: float, tolerance: int) -> None:
    assert module._fitting(percent) == tolerance


OF_PAIR: list[tuple[str, str, float | None, Better]] = [
    # metric, unit, the spread of pairs, and the direction in which its change fails
    ("x", "s", None, "lower"),
    ("x", "s", 0.01, "lower"),
    ("x", "1/s", 0.01, "higher"),
    ("x", "1", 0.01, "lower"),
]


@pytest.mark.parametrize(("metric", "unit", "spread", "better"), OF_PAIR)
def test_a_rule_of_pairs(metric: str, unit: str, spread: float | None, better: Better) -> None:
    noise = SPREAD_OF_PAIRS if spread is None else spread
    assert module._of_pair(metric, {metric: [value(metric, unit, 1.0)]}, 8, {}, spread) == ProposedRule(
        "usual",
        "x within 8% of baseline",
        "x mean",
        "within 8%",
        pairs_fail_from(0.08, 10, better, noise),
        8,
        noise,
        is_calibrated=spread is not None,
    )


def made(spread: float, metric: str = "command.cpu_time", format: str = "test", **facts: str) -> Pairs:
    """Two pairs of one program that differ by a factor, with facts of the second."""
    rows = [[value(metric, "s", number)] for number in (1.0, 1.0 + spread)]
    first, second = runs_of(*rows), runs_of(*rows[::-1], format=format, environment=facts)
    return Pairs((first[0], second[0]), (first[1], second[1]), "whole-runs")


CPU = spread_of_pairs(made(0.1), "command.cpu_time")
assert CPU is not None
NOISES: list[tuple[Pairs | None, list[float], bool, bool]] = [
    # pairs, the noises of the times, if the machine is busy, and if the CPU time has a rule
    (made(0.1), [2 * CPU], False, True),
    (made(0.1), [2 * CPU, 0.1 * CPU], False, True),
    (made(0.1), [1.99 * CPU], False, False),
    (made(0.1), [CPU], True, True),
    (made(0.1), [0.99 * CPU], True, False),
    (made(0.1), [], True, False),
    (made(0.1, "other"), [9.0], True, False),
    (None, [9.0], True, False),
    (made(0.1, gpu="H200"), [9.0], False, False),
    (made(0.1, cpu="x"), [9.0], False, True),
    *(
        (made(0.1, format=format), [9.0], False, False)
        for format in ("asv", "go-test", "google-benchmark", "hyperfine", "pyperf", "pytest-benchmark", "perfgate")
    ),
    (made(0.1, format="perfgate", gpu="H200"), [9.0], False, False),
]


@pytest.mark.parametrize(("pairs", "noises", "is_busy", "ruled"), NOISES)
def test_the_cpu_time_has_a_rule_if_it_is_clearly_steadier(
    pairs: Pairs | None, noises: list[float], is_busy: bool, ruled: bool
) -> None:
    found = [*module._cpu_time(pairs, noises, is_busy=is_busy)]
    assert [(one.purpose, one.sentence, one.noise) for one in found] == (
        [("cpu", "command.cpu_time within 8% of baseline", CPU)] if ruled else []
    )


PARTS: list[tuple[list[str], list[Proposal | str], list[str]]] = [
    # the metrics that can be compared, the main one first; first rules; and the metrics that pairs judge
    (["a", "step.time"], ["a", "step.time"], ["step.time"]),
    (["a", "step.time"], [], ["step.time"]),
    (["a", "b"], ["b"], ["a", "b"]),
    (["a", "b"], [], ["a"]),
    (["b", "a"], ["a", "b"], ["b", "a"]),
    (["size", "a", "op.c"], ["size", "a", "op.c"], ["a"]),
    (["a", "b", "c"], [proposed("b", tolerance=20), proposed("c", tolerance=25)], ["a", "b"]),
    (["a", "b", "c"], [proposed("b", tolerance=20), proposed("c", tolerance=21)], ["a", "b"]),
    (["f", "a", "b", "c", "d", "e"], ["a", "b", "c", "d", "e"], ["f", "a", "b", "c"]),
    # a rate sees whole steps
    (["f", "a", "rate"], ["rate", "a"], ["rate", "a"]),
    (["rate", "a"], ["a"], ["a"]),
    (["rate", "a", "b", "c", "d", "e"], ["a", "b", "c", "d", "e"], ["a", "b", "c", "d"]),
    (["rate", "a"], [], ["rate"]),
    (["size"], ["size"], []),
]


def one_of(name: str) -> Series:
    return value(name, {"size": "B", "rate": "1/s"}.get(name, "s"), 1.0)


@pytest.mark.parametrize(("order", "rules", "judged"), PARTS)
def test_the_few_metrics_that_pairs_judge(order: list[str], rules: list[Proposal | str], judged: list[str]) -> None:
    known = {name: [one_of(name)] for name in order}
    assert module._judged_in_pairs(known, proposals(*rules), order) == judged


def test_a_step_that_no_rule_can_compare_is_not_judged() -> None:
    known = {name: [one_of(name)] for name in ("step.time", "a")}
    assert module._judged_in_pairs(known, proposals("a"), ["a"]) == ["a"]


CALM = {"step_time": [1.0] * 3}
OF_PAIRS: list[tuple[dict[str, list[float]], list[Proposal | str], StepTime, list[str]]] = [
    # runs, first rules, what is known of the step, and the rules of pairs
    (CALM, ["step.time"], OF_STEP, ["step.time within 5%", "step.time under 1.2 s"]),
    ({"step_time": [1.0] * 2}, ["step.time"], OF_STEP, ["step.time within 10%"]),
    (CALM, ["step.time"], replace(OF_STEP, is_noisy=True), ["step.time within 10%"]),
    (CALM, [], OF_STEP, ["step.time within 10%"]),
    (CALM, [proposed("step.time", tolerance=10)], OF_STEP, ["step.time within 5%", "step.time under 1.2 s"]),
    (CALM, [proposed("step.time", tolerance=15)], OF_STEP, ["step.time within 10%"]),
    ({"a": [2.0] * 3, "b": [1.0] * 3}, ["a", "b"], OF_STEP, ["a within 5%", "b within 5%", "a under 2.4 s"]),
    ({"a": [2.0] * 3, "b": [1.0] * 3}, ["a", proposed("b", tolerance=15)], OF_STEP, ["a within 10%", "b within 10%"]),
    ({"rate": [1.0] * 3, "size": [5.0] * 3}, ["rate", "size"], OF_STEP, ["rate within 5%", "size within 3%"]),
    ({"size": [5.0] * 3, "a": [1.0] * 3}, ["size", "a"], OF_STEP, ["a within 5%", "size within 3%", "a under 1.2 s"]),
    ({"size": [5.0]}, ["size"], OF_STEP, ["size within 3%"]),
]


@pytest.mark.parametrize(("held", "first", "step", "rules"), OF_PAIRS)
def test_the_rules_of_pairs(
    held: dict[str, list[float]], first: list[Proposal | str], step: StepTime, rules: list[str]
) -> None:
    found = module._of_pairs(both(**held), TODAY, proposals(*first), step, {}, None)
    assert [sentence.removesuffix(" of baseline") for sentence in said(found)] == rules
    assert (found.runs, found.is_paired, found.most_runs) == (len(next(iter(held.values()))), True, 10)


def test_a_gate_of_pairs_names_what_it_covers_and_what_not() -> None:
    runs = both(step_time=[1.0] * 3, fwd=[0.4] * 3, size=[5.0] * 3, score=[1.0] * 3)
    found = advise(runs, TODAY, is_paired=True)
    assert found.step == OF_STEP
    assert reasons(found) == {
        "unknown which direction is better (set `better:` in a rule)": ["score"],
        module._NOT_WITH_PAIRS: ["fwd"],
    }
    alone = advise(both(step_time=[1.0] * 3), TODAY, is_paired=True)
    assert (alone.step, alone.left_out) == (OF_STEP, ())


COVERED = [
    # the metric of a run, what is known of the step, and what is said of it
    ("size", StepTime(None, "these runs have no time"), StepTime(None, "these runs have no time")),
    ("score", StepTime(None), StepTime(None, "a rule cannot name it")),
    ('a"b`c', StepTime('a"b`c', "why"), StepTime('a"b`c', "why")),
    ("b", StepTime("b", "why", is_noisy=True), StepTime("b")),
]


@pytest.mark.parametrize(("metric", "step", "covered"), COVERED)
def test_what_is_said_of_a_step_in_pairs(metric: str, step: StepTime, covered: StepTime) -> None:
    runs = runs_of([value(metric, {"size": "B", "score": "1"}.get(metric, "s"), 1.0)])
    found = module._of_pairs(runs, TODAY, proposals(), step, {}, None)
    assert found.step == covered
    assert module._NOT_WITH_PAIRS not in reasons(found)


def test_each_benchmark_is_a_program_of_its_own() -> None:
    rows = [[one_of("a"), one_of("b"), one_of("c"), one_of("d"), one_of("e"), one_of("size")]]
    found = {
        formats: said(
            module._of_pairs(
                [run for format in formats for run in runs_of(*rows, format=format)],
                TODAY,
                proposals(),
                OF_STEP,
                {},
                None,
            )
        )
        for formats in (("pyperf",), ("pyperf", "pyperf"), ("pyperf", "test"))
    }
    assert [len(rules) for rules in found.values()] == [5, 5, 1]


def test_pairs_show_their_noise() -> None:
    """With a rule about the CPU time, twice as much room is left for the time."""
    rows = [
        [value("step.time", "s", 1.0 + time), value("command.cpu_time", "s", 1.0), one_of("a")] for time in (0.0, 0.16)
    ]
    base, new = runs_of(rows[0], rows[1]), runs_of(rows[1], rows[0])
    pairs = Pairs(tuple(base), tuple(new), "whole-runs")
    noise = spread_of_pairs(pairs, "step.time")
    assert noise is not None
    found = module._of_pairs(base, TODAY, proposals(), replace(OF_STEP, is_noisy=False), {}, pairs)
    assert 75 * noise <= 8 < 76 * noise
    assert 15 < 150 * noise <= 20
    assert said(found) == ["step.time within 20% of baseline", "command.cpu_time within 5% of baseline"]
    assert found.rules[0].noise == noise
    assert reasons(found) == {module._NOT_WITH_PAIRS: ["a"]}
    alone = Pairs(*(tuple(replace(run, series=run.series[:1]) for run in side) for side in (base, new)), "whole-runs")
    found = module._of_pairs(alone.base, TODAY, proposals(), OF_STEP, {}, alone)
    assert said(found) == ["step.time within 8% of baseline"]


def test_the_cpu_time_of_a_command_has_one_rule() -> None:
    pairs = made(0.1)
    found = module._of_pairs(pairs.base, TODAY, proposals(), replace(OF_STEP, is_noisy=True), {}, pairs)
    assert [(one.purpose, one.subject) for one in found.rules] == [("usual", "command.cpu_time mean")]


# --- exact work -------------------------------------------------------------------------------------------------------

WORK = ProposedRule("work", "no more work than baseline", "work", "no more than baseline", 0.0, 0)


def rule(subject: str, purpose: Any = "usual", tolerance: int = 3) -> ProposedRule:
    return ProposedRule(purpose, f"{subject} within {tolerance}% of baseline", subject, "", tolerance=tolerance)


GIVEN = Advice(
    (rule("step.time median"), rule("step.time mean", "cost"), rule("fwd median")),
    (LeftOut("x", ("op.a", "work.ops", "fwd", "step.dataloader")), LeftOut("y", ("step.time", "work.device_time"))),
    StepTime("step.time", "why", is_noisy=True),
    runs=3,
)


def of_steps(*centres: float, formats: Sequence[str] = ("nsys",)) -> list[Run]:
    rows = [[samples("step.time", "s", [centre] * 40)] for centre in centres]
    found = runs_of(*rows)
    return [replace(run, format=formats[i % len(formats)]) for i, run in enumerate(found)]


def test_work_comes_before_the_rules_of_other_formats() -> None:
    for formats in (("test",), ("nsys", "test")):
        found = with_work(GIVEN, of_steps(1, 1, 1, formats=formats), [WORK], TODAY)
        assert found == replace(GIVEN, rules=(WORK, *GIVEN.rules), step=StepTime("step.time", "why"))
    assert with_work(GIVEN, of_steps(1, 1, 1), [], TODAY) == GIVEN


@pytest.mark.parametrize("format", ["torch-trace", "nsys", "rocprof", "xplane"])
def test_of_the_times_of_a_trace_only_the_step_has_a_rule(format: str) -> None:
    """It has twice the tolerance, and what only explains it is not listed."""
    found = with_work(GIVEN, of_steps(1, 1, 1, formats=[format]), [WORK], TODAY)
    assert [(one.purpose, one.subject, one.tolerance, one.at_worst) for one in found.rules] == [
        *(("work", "work", 0, None), ("usual", "step.time median", 8, 24))
    ]
    assert (reasons(found), found.step) == ({"x": ["fwd"]}, StepTime("step.time", "why"))


def test_steps_of_a_trace_may_vary_too_much() -> None:
    found = with_work(GIVEN, of_steps(1, 5, 9), [WORK], TODAY)
    assert found.rules == (WORK,)
    assert found.step == StepTime("step.time", "the steps of a trace vary too much; their work is exact")


WIDER = [(3, 8), (4, 8), (5, 10), (20, 40), (25, 50), (30, None)]


@pytest.mark.parametrize(("tolerance", "wider"), WIDER)
def test_twice_the_tolerance(tolerance: int, wider: int | None) -> None:
    found = _twice_as_wide(rule("step.time median", tolerance=tolerance), of_steps(1, 1, 1), TODAY)
    assert (found.tolerance if found else None) == wider
    assert found is None or (found.subject, found.purpose) == ("step.time median", "usual")


def test_the_work_of_runs_is_in_their_advice_but_not_in_that_of_pairs() -> None:
    rows = [[samples("step.time", "s", [1.0] * 40), samples("work.ops", "count", [9.0] * 40)]] * 3
    assert said(advise(runs_of(*rows), TODAY))[:2] == [WORK.sentence, "step.time within 3% of baseline"]
    assert said(advise(runs_of(*rows), TODAY, is_paired=True))[0] == "step.time within 5% of baseline"
