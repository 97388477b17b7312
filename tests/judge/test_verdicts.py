"""The verdicts of whole rules: what is absent, what prevents a judgement, which metrics a glob means, and how many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from stories import TODAY, bare, case, run, run_of, series

from perfgate.core import Acceptance, Baseline, Key, Location, Problem, Run, Series, Verdict, read_only
from perfgate.core.resource_limits import Limits
from perfgate.core.runs import Summary
from perfgate.judge import verdicts
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge, judge_with_details
from perfgate.rules.load import load_rules

EXPECTED = [
    # the other settings of a rule that is expected to fail until today, how much slower; outcome, reason, next step
    ("", 1.3, "skipped", "expected-failure", ""),
    ("", 1.0, "skipped", "expected-failure", "it passes now: remove expect_fail"),
    ("when: {gpu: '*A100*'}, ", 1.3, "skipped", "when", ""),
    ("when: {gpu: '>= 8'}, ", 1.3, "error", "unknown-fact", "correct the fact or the rule"),
    ("when: {colour: red}, ", 1.3, "error", "unknown-fact", "give it with --env colour=VALUE"),
]


@pytest.mark.parametrize(("settings", "slower", "outcome", "reason", "step"), EXPECTED)
def test_a_failure_is_expected_up_to_its_day(
    settings: str, slower: float, outcome: str, reason: str, step: str
) -> None:
    expected = "expect_fail: {reason: known, until: '2026-01-01'}"
    rule = f"  - {{assert: slow within 5% of baseline, {settings}{expected}}}\n"
    (found,) = judge(case(rule, run(50, slower=slower)))
    assert (found.outcome, found.reason, found.next_step.text) == (outcome, reason, step)


def plain(*names: str, source: str = "new.json", **fields: Any) -> Run:
    """A run of these metrics: `x`, `y:B` in bytes, `z{rank=0}` of a rank."""
    rows = []
    for name in names:
        text, _, unit = name.partition(":")
        metric, _, labels = text.rstrip("}").partition("{")
        rows.append(series(metric, unit or "s", [1.0] * 20, **dict([labels.split("=")] if labels else [])))
    return run_of(*rows, source=source, **fields)


def told(found: Verdict) -> str:
    step = f". {found.next_step.text}" if found.next_step.text else ""
    return f"{found.outcome} {found.reason}: {found.message}{step}"


def with_metrics(rule: str, metrics: dict[str, str], *new: Run) -> Case:
    lines = "".join(f"  {name}: {text}\n" for name, text in metrics.items())
    text = f"version: 1\nmetrics:\n{lines}rules:\n  - {rule}\n"
    found, problems = load_rules([("rules.yaml", text.encode())])
    assert found is not None, problems
    return Case(found, new, Baseline(), TODAY)


# --- what no run has -------------------------------------------------------------------------------------------------

CUT, BELOW = Problem("error", "cut", Location("a.json", 3)), Problem("error", "torn", Location("a.json", 9))
FIX, LABELS = "fix that first", "correct the labels"
NAME = "correct the name, or list the metrics of a run with `perfgate inspect`"
MODEL, TIMES = verdicts.COMPUTED["mfu"], verdicts.COMPUTED["time.data"]
SAVING = "the log does not say how long saving checkpoints took. turn the timers on (Megatron-LM), or record"
EVALUATION = "the log does not say how long evaluation took. turn the timers on (Megatron-LM), or record"
ABSENT: list[tuple[str, list[Run], str]] = [
    # a rule, the new runs, and the error after `error`
    ("x under 9 s", [plain()], f"no-data: not judged, because the runs have no metrics. {FIX}"),
    (
        "x under 9 s",
        [plain(), plain(problems=(Problem("warning", "odd", CUT.at), CUT, BELOW))],
        f"no-data: not judged, because the runs have no metrics: a.json:3: cut. {FIX}",
    ),
    (
        "x under 9 s",
        [plain(problems=(Problem("warning", "odd", CUT.at),))],
        f"no-data: not judged, because the runs have no metrics. {FIX}",
    ),
    (
        "x under 9 s",
        [replace(plain("command.wall_time"), format="command")],
        "metric-absent: no run has x: the command printed no number that perfgate reads, and wrote no results. "
        "write or print the metric, or see `perfgate inspect --suggest new.json`",
    ),
    (
        "'x{kind=\"a\"} under 9 s'",
        [plain("x{kind=b}", "x{kind=c}"), plain("x{kind=b}")],
        f'metric-absent: no run has x with these labels; it has {{kind="b"}}, {{kind="c"}}. {LABELS}',
    ),
    (
        "'fwd{kind=\"a\"} under 9 s'",
        [plain("forward{kind=b}")],
        f'metric-absent: no run has fwd with these labels; it has {{kind="b"}}. {LABELS}',
    ),
    (
        "forwrd under 9 s",
        [plain("forward")],
        f"metric-absent: no run has forwrd: the nearest names are forward. {NAME}",
    ),
    ("y under 9 s", [plain("forward", "b")], f"metric-absent: no run has y: the runs have b, forward. {NAME}"),
    # metrics that perfgate computes
    ("mfu over 40%", [plain("forward")], f"metric-absent: no run has mfu: the runs have forward. {MODEL}"),
    ("hfu over 40%", [plain("forward")], f"metric-absent: no run has hfu: the runs have forward. {MODEL}"),
    ("goodput over 40%", [plain("forward")], f"metric-absent: no run has goodput: the runs have forward. {TIMES}"),
    ("time.data under 9 s", [plain("x")], f"metric-absent: no run has time.data: the runs have x. {TIMES}"),
    (
        "time.data under 9 s",
        [plain("time.total", "time.step")],
        f"metric-absent: no run has time.data: the runs have time.step, time.total. {TIMES}",
    ),
    ("time.checkpoint under 9 s", [plain("x")], f"metric-absent: no run has time.checkpoint: the runs have x. {TIMES}"),
    (
        "time.checkpoint under 9 s",
        [plain("time.total")],
        f"metric-absent: no run has time.checkpoint: {SAVING} `checkpoint_time`",
    ),
    (
        "time.evaluation under 9 s",
        [plain("time.total")],
        f"metric-absent: no run has time.evaluation: {EVALUATION} `evaluation_time`",
    ),
    *(
        (
            f"{text} under 50%",
            [plain("time.total")],
            f"metric-absent: no run has time.checkpoint: {SAVING} `checkpoint_time`",
        )
        for text in (
            "time.checkpoint / time.total",
            "time.checkpoint/time.total",
            "(time.checkpoint + time.data) / time.total",
            "time.total / (x + time.checkpoint)",
        )
    ),
    # derived metrics: both is forward + backward
    (
        "both under 9 s",
        [plain("forward")],
        "metric-absent: no run has backward, which both is computed from: the nearest names are forward. "
        "correct `metrics` of the rule file, or measure it",
    ),
    (
        "both under 9 s",
        [plain("x", "forward"), plain("x")],
        "metric-absent: no run has backward, which both is computed from: the nearest names are forward. "
        "correct `metrics` of the rule file, or measure it",
    ),
    (
        "both under 9 s",
        [plain("forward"), plain("backward")],
        f"metric-absent: no run has both: the runs have backward, forward. {NAME}",
    ),
]


@pytest.mark.parametrize(("rule", "new", "said"), ABSENT)
def test_what_no_run_has_is_said_with_the_way_on(rule: str, new: list[Run], said: str) -> None:
    (found,) = judge(bare(rule, new))
    assert told(found) == f"error {said}"


DERIVED = [
    # a rule, the derived metrics, and the metric that is lacking
    ("a under 9", {"a": "b / x", "b": "c + d"}, "c"),
    ("a under 9", {"a": "x / b", "b": "c + d", "c": "x + x"}, "d"),
    ("mfu over 0.4", {"mfu": "x / y"}, "y"),
    ("a over 0.4", {"a": "time.data / time.total"}, "time.data"),
]


@pytest.mark.parametrize(("rule", "metrics", "lacking"), DERIVED)
def test_the_deepest_metric_that_a_derived_one_lacks_is_named(rule: str, metrics: dict[str, str], lacking: str) -> None:
    (found,) = judge(with_metrics(rule, metrics, plain("x")))
    assert found.message.startswith(f"no run has {lacking}, which {rule.split(maxsplit=1)[0]} is computed from: ")


# --- what prevents a judgement ---------------------------------------------------------------------------------------

HOT = {"throttle_reasons": "hw_slowdown, sw_power_cap"}
CLAIMED = "state it with --env gpu=VALUE"
OBSTACLES: list[tuple[str, dict[str, Any], str]] = [
    # the settings of a rule; the facts, and those that only a judged file claims
    ("", {}, "pass"),
    ("when: {gpu: A100}", {"facts": {"gpu": "A100"}}, "pass"),
    (
        "when: {gpu: A100}",
        {},
        "error unknown-fact: `when` needs gpu == A100, and gpu is unknown. give it with --env gpu=VALUE",
    ),
    (
        "when: {gpu: '>= 8'}",
        {"facts": {"gpu": "A100"}},
        "error unknown-fact: `when` needs gpu >= 8, and gpu is 'A100', which is not a number. "
        "correct the fact or the rule",
    ),
    ("when: {gpu: H100}", {"facts": {"gpu": "A100"}}, "skipped when: `when` needs gpu == H100; here it is A100"),
    (
        "when: {gpu: H100}",
        {"facts": {"gpu": "A100"}, "claimed": frozenset({"gpu"})},
        f"skipped when: `when` needs gpu == H100; here it is A100, claimed only by a.json. {CLAIMED}",
    ),
    (
        "when: {gpu: H100}",
        {"facts": {"gpu": "A100"}, "claimed": frozenset({"cpu"})},
        "skipped when: `when` needs gpu == H100; here it is A100",
    ),
    ("", {"facts": HOT}, "pass"),
    ("on_throttled: note", {"facts": HOT}, "pass"),
    (
        "on_throttled: error",
        {"facts": HOT},
        "error throttled: not judged, because the GPU was throttled: hw_slowdown, sw_power_cap. "
        "let it cool down, lock its clocks, and measure again",
    ),
    ("on_throttled: error", {"facts": {"throttle_reasons": "none"}}, "pass"),
]


@pytest.mark.parametrize(("settings", "fields", "said"), OBSTACLES)
def test_what_prevents_a_judgement(settings: str, fields: dict[str, Any], said: str) -> None:
    runs = [plain("x", source="a.json", environment={"gpu": "A100"}), plain("x", source="b.json")]
    (found,) = judge(replace(bare(f"{{assert: x under 9 s, {settings}}}", runs), **fields))
    assert (found.outcome if said == "pass" else told(found)) == said
    if found.next_step.text:
        assert found.next_step.action == ("fix-machine" if "throttled" in said else "fix-input")


ACCEPTED: list[tuple[str, dict[str, Any], str]] = [
    # a rule, the case, and the answer about a metric or a baseline that is absent
    ("gone under 9 s", {}, "error metric-absent"),
    ("{assert: gone under 9 s, on_missing: skip}", {}, "skipped metric-absent not judged"),
    ("{assert: gone under 9 s, on_missing: warn}", {}, "skipped metric-absent warning: not judged"),
    ("gone under 9 s", {"missing_baseline": "skip"}, "error metric-absent"),
    ("x within 5% of baseline", {}, "error no-baseline"),
    ("x within 5% of baseline", {"missing_baseline": "skip"}, "skipped no-baseline not judged"),
    ("x within 5% of baseline", {"missing_baseline": "warn"}, "skipped no-baseline warning: not judged"),
    ("{assert: x within 5% of baseline, on_missing: skip}", {}, "error no-baseline"),
    ("no more work than baseline", {"missing_baseline": "skip"}, "skipped no-baseline not judged"),
    ("{assert: x under 9, on_missing: skip}", {"missing_baseline": "skip"}, "error no-unit"),
]


@pytest.mark.parametrize(("rule", "fields", "said"), ACCEPTED)
def test_what_is_absent_may_be_accepted(rule: str, fields: dict[str, Any], said: str) -> None:
    (found,) = judge(replace(bare(rule, [plain("x", "work.ops:count")]), **fields))
    start, _, rest = found.message.partition(": ")
    before = f"{start}: {rest.partition(': ')[0]}" if start == "warning" else start
    words = f"{found.outcome} {found.reason}"
    assert (f"{words} {before}" if found.outcome == "skipped" else words) == said


# --- which verdicts there are ----------------------------------------------------------------------------------------

MANY = "{id: one, assert: x under 9 s}\n{id: two, assert: y under 9 s}\n'[xyz] under 9 s'"
ONLY = [
    # the globs of --only; the metrics of the verdicts of three rules
    ((), "x y x y z"),
    (("one",), "x"),
    (("two",), "y"),
    (("x",), "x x"),
    (("x", "nothing"), "x x"),
    (("nothing", "z"), "z"),
    (("z",), "z"),
    (("y", "z"), "y y z"),
    (("[[]xyz] under*",), "x y z"),
    (("nothing",), ""),
]


@pytest.mark.parametrize(("only", "metrics"), ONLY)
def test_only_some_rules_or_metrics_are_judged(only: tuple[str, ...], metrics: str) -> None:
    found = judge(replace(bare(MANY, [plain("x", "y", "z")]), only=only))
    assert " ".join(one.metric for one in found) == metrics


@pytest.mark.parametrize(("limit", "metrics"), [(5, "x y x y z"), (6, "x y x y z"), (4, "x y x y [xyz]"), (1, "x y")])
def test_judging_stops_at_the_limit_on_verdicts(limit: int, metrics: str) -> None:
    found = judge(replace(bare(MANY, [plain("x", "y", "z")]), limits=Limits(verdicts=limit)))
    assert " ".join(one.metric for one in found) == metrics
    assert [one.outcome for one in found[:limit]] == ["pass"] * min(limit, 5)
    for last in found[limit:]:
        assert told(last) == (
            "error too-many: judging stops here, because the rules need more verdicts than the limit "
            f"verdicts={limit} allows; to raise the limit, set PERFGATE_LIMITS=verdicts={2 * limit}. "
            "name the metrics, or use a narrower glob"
        )
        assert last.next_step.action == "fix-rule"


FITTING: list[tuple[str, Run, list[str], str]] = [
    # a rule with a glob, the run; the answers, and the metrics that the rule leaves out
    ("'* under 9 s'", plain("x", "y:B", "z"), ["x pass", "z pass"], "y"),
    ("'* under 9 s'", plain("x", "y"), ["x pass", "y pass"], ""),
    ("'* under 9 s'", plain("x:B", "y:1/s"), ["x unit-mismatch", "y unit-mismatch"], ""),
    ("'* within 50% of baseline'", plain("x", "y:B"), ["x pass", "y pass"], ""),
    ("'* within 9 s of baseline'", plain("x", "y:B"), ["x pass"], "y"),
    ("'* count at least 2'", plain("x", "y:1"), ["x pass", "y pass"], ""),
    ("'* max at most 2'", plain("x", "y:1"), ["y pass"], "x"),
    ("'* max at most 2'", plain("x", "y:1", "z:count"), ["y pass", "z pass"], "x"),
    ("'* max at most 2'", plain("x", "z:count"), ["z pass"], "x"),
    ("'* max at most 200%'", plain("y:1", "z:count"), ["y pass"], "z"),
    ("x under 9 B", plain("x", "y:B"), ["x unit-mismatch"], ""),
    ("x under 9 s", plain("x{kind=a}", "x{kind=b}:B"), ["x pass", "x unit-mismatch"], ""),
    # forward + backward cannot be joined: that is an error, and no metric of another unit
    (
        "'[bx]* under 9 s'",
        plain("x", "forward{rank=0}", "backward{rank=1}"),
        ["backward pass", "both not-available", "x pass"],
        "",
    ),
]


@pytest.mark.parametrize(("rule", "new", "answers", "left_out"), FITTING)
def test_a_glob_means_the_metrics_whose_unit_fits(rule: str, new: Run, answers: list[str], left_out: str) -> None:
    found = judge(bare(rule, [new], [new, new] if "baseline" in rule else []))
    assert [f"{one.metric} {one.outcome if one.outcome == 'pass' else one.reason}" for one in found] == answers
    note = f"not judged by this rule, because the unit does not fit: {left_out}"
    assert [any(text == note for text in one.notes) for one in found] == [bool(left_out)] * len(found)


def test_each_rank_has_a_verdict_if_the_rule_asks_for_it() -> None:
    new = [plain("x{rank=0}", "x{rank=1}")]
    members = [
        [dict(one.member) for one in judge(bare(rule, new))] for rule in ("x on each rank under 9 s", "x under 9 s")
    ]
    assert members == [[{"rank": "0"}, {"rank": "1"}], [{"rank": "0"}]]


def test_an_allowance_covers_the_largest_worsening_of_a_metric_in_all_clauses() -> None:
    base, new = (
        run_of(series("x", "B", x), series("y", "B", y)) for x, y in (([1.0, 2.0], [8.0]), ([1.249, 2.99], [8.99]))
    )
    rules = "x max within 5% of baseline\nx min within 5% of baseline\ny within 5% of baseline"
    found = judge(replace(bare(rules, [new], [base]), accept=Acceptance(ref="main", head="abc")))
    assert [one.outcome for one in found] == ["fail"] * 3
    shares = [str(one.next_step.command).partition("--up-to ")[2].split()[0] for one in found]
    assert shares == ["50%", "50%", "13%"]


def stored(**statistics: float) -> Run:
    """A stored run with a summary of x alone."""
    summary = Summary(tuple(statistics), [[one] for one in statistics.values()], 40, 0, True, "auto", ("lower",))
    empty = read_only(np.empty(0))
    return run_of(Series(Key("x"), "s", "summary", empty, aggregate=statistics, summary=summary), source="base.json")


DRAWN: list[tuple[str, list[Run], str, bool]] = [
    # a rule, the stored runs; the answer, and whether a report can draw its runs
    ("x under 9 s", [], "pass", True),
    ("x under 0.5 s", [], "fail", True),
    ("gone under 9 s", [], "metric-absent", False),
    ("x within 5% of baseline", [], "no-baseline", True),
    ("no more work than baseline", [plain("work.ops:count")], "pass", False),
    ("no more work than baseline", [], "no-baseline", False),
    ("x under 9 B", [], "unit-mismatch", True),
    ("one p95 under 9 s", [], "not-available", True),
    ("x within 5% of baseline", [stored(max=1.0)], "not-available", True),
    ("{assert: x under 9 s, when: {gpu: A}}", [], "unknown-fact", False),
]


@pytest.mark.parametrize(("rule", "base", "answer", "is_drawn"), DRAWN)
def test_a_report_draws_the_runs_of_a_metric_that_they_have(
    rule: str, base: list[Run], answer: str, is_drawn: bool
) -> None:
    one = Series(Key("one"), "s", "value", read_only(np.array([1.0])))
    new = replace(plain("x", "work.ops:count"), series=(*plain("x", "work.ops:count").series, one))
    found, details = judge_with_details(bare(rule, [new], base))
    assert [one.outcome if one.outcome in ("pass", "fail") else one.reason for one in found] == [answer]
    assert [one.verdict for one in details] == ([0] if is_drawn else [])


def test_the_runs_behind_several_verdicts_keep_their_numbers() -> None:
    rules = "gone under 9 s\nx under 9 s\ngone under 8 s\nx under 8 s"
    found, details = judge_with_details(bare(rules, [plain("x")]))
    assert [one.outcome for one in found] == ["error", "pass", "error", "pass"]
    assert [one.verdict for one in details] == [1, 3]
    assert found == judge(bare(rules, [plain("x")]))


def test_a_summary_without_the_statistic_asks_for_the_stored_files_again() -> None:
    (found,) = judge(bare("x within 5% of baseline", [plain("x")], [stored(max=1.0)]))
    assert (found.outcome, found.reason) == ("error", "not-available")
    assert found.next_step.action == "add-base-runs"
    (found,) = judge(bare("one p95 under 9 s", [run_of(Series(Key("one"), "s", "value", read_only(np.ones(1))))]))
    assert told(found) == (
        "error not-available: p95 is not available: one is a single number. use a statistic that the source has"
    )
    assert found.next_step.action == "fix-rule"
