"""The metrics that a rule names, in the runs of both sides: their keys, their ranks, and why one is absent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stories import bare, run_of, series

from perfgate.core import Key, Location, Problem, Run, Series, Summary, read_only
from perfgate.core.conditions import CONDITIONS
from perfgate.judge.subjects import JudgedRuns, Subject, find_subjects, is_named, members_by_key, naming
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.syntax.sentence import Arithmetic, LabelTest, Number, Selector

AT = Location("new.json", 3)


def run(*keys: str | Key, unit: str = "s", **fields: Any) -> Run:
    """A run in which each of these metrics takes a second."""
    rows = (key if isinstance(key, Key) else Key(key) for key in keys)
    return run_of(*(series(one.metric, unit, [1.0] * 9, **dict(one.labels)) for one in rows), **fields)


def judged(rule: str, new: list[Run], base: list[Run] | None = None, **fields: Any) -> JudgedRuns:
    case = bare(rule, new, base or [], **fields)
    return JudgedRuns.of(case.new, case.baseline, case.ruleset.metrics, case.ruleset.conditions)


def found(rule: str, new: list[Run], base: list[Run] | None = None, **fields: Any) -> list[Subject]:
    """The subjects of a rule; `fields` are those of the baseline."""
    sentence = bare(rule, []).ruleset.rules[0].sentence
    return find_subjects(sentence, judged(rule, new, base, **fields))


def only_summary(metric: str) -> Series:
    kept = Summary(("mean",), ((1.0,),), 9, 0, settled=True, warmup="auto", better=("lower",), sources=("base.log",))
    return Series(Key(metric), "s", "summary", read_only(np.empty(0)), aggregate={"mean": 1.0}, summary=kept)


# --- the runs of a check ---------------------------------------------------------------------------------------------


def test_the_metrics_of_the_new_runs_and_of_both_sides_are_known() -> None:
    runs = judged(
        "x under 9 s", [run("b"), run("forward", "backward")], [run("a", "c")], anchor=(run("y"),), past=(run("z"),)
    )
    assert runs.names == ["b", "backward", "both", "forward"]
    assert runs.all_names == ["a", "b", "backward", "both", "c", "forward"]
    assert [[view.names for view in side] for side in (runs.base, runs.anchor, runs.past)] == [
        [{"a", "c"}],
        [{"y"}],
        [{"z"}],
    ]
    assert runs.conditions == CONDITIONS
    own = JudgedRuns.of([], bare("x under 9 s", []).baseline, {}, ("colour",))
    assert own.conditions == {*CONDITIONS, "colour"}


@pytest.mark.parametrize(
    ("metrics", "has_machine"), [(("x", "machine.load"), True), (("x", "power"), True), (("x",), False), ((), False)]
)
def test_metrics_of_the_machine_are_looked_for_in_the_new_runs(metrics: tuple[str, ...], has_machine: bool) -> None:
    assert judged("x under 9 s", [run(*metrics)], [run("clock.sm")]).has_machine == has_machine
    assert not JudgedRuns((), (), (), {}).has_machine


PROBLEMS = [
    # severity, the series, and the metric whose value is left out
    ("error", Key("x"), ["x"]),
    ("warning", Key("x"), []),
    ("error", None, []),
]


@pytest.mark.parametrize(("severity", "key", "left_out"), PROBLEMS)
def test_a_value_that_could_not_be_read_is_left_out(severity: Any, key: Key | None, left_out: list[str]) -> None:
    problem = Problem(severity, "NaN", AT, key)
    runs = judged("x under 9 s", [run("x", problems=(problem,)), run("x", problems=(problem,))], [run("x")])
    assert runs.left_out == {name: [problem, problem] for name in left_out}


@pytest.mark.parametrize(
    ("new", "base", "is_marked"),
    [("torch-trace", "test", True), ("test", "my torch-trace", True), ("test", "test", False)],
)
def test_a_trace_has_no_warm_up(new: str, base: str, is_marked: bool) -> None:
    sides = [Run(f"{name}.json", name, (series("x", "s", [1.0] * 9),)) for name in (new, base, "torch-trace")]
    runs = judged("x under 9 s", [sides[0]], [sides[1]], anchor=(sides[2],))
    marks = [view.run.series[0].stalled is not None for view in (*runs.new, *runs.base, *runs.anchor)]
    assert marks == [is_marked and "torch-trace" in name for name in (new, base, "torch-trace")]


def test_a_run_is_viewed_by_its_means_once() -> None:
    runs = judged("x under 9 s", [run("x")])
    (view,) = runs.new
    means = runs.by_means(view)
    assert (means.by_means, means.run, view.by_means) == (True, view.run, False)
    assert runs.by_means(view) is means


def test_a_metric_has_a_key_for_each_series_of_each_new_run() -> None:
    keys = [Key.of("x[0]", rank="0"), Key.of("x[0]", rank="1")]
    runs = judged("x under 9 s", [run(*keys, "x0"), run(keys[0])], [run("x[0]")])
    assert runs.keys("x[0]") == [*keys, keys[0]]
    assert runs.keys("y") == []


# --- the reason why a metric is absent -------------------------------------------------------------------------------

NO_COUNTS = "the new runs have no counts of work ({})"
RECORD = "record a trace, or measure with `perfgate.Recorder(work=True)`"
NSYS = "mark each step with an NVTX range such as `step 12`, and give the SQLite export"
XPLANE = "annotate the steps with jax.profiler.StepTraceAnnotation; only the work of GPUs is counted"
PRINTED = "the command printed no number that perfgate reads, and wrote no results"
SUGGEST = "write or print the metric, or see `perfgate inspect --suggest {}.log`"
WRONG = "a value of x is NaN"

REASONS: list[tuple[str, dict[str, tuple[str, ...]], str, tuple[str, str] | None]] = [
    # the absent metric, the metrics of a run of each format, what was left out of x or mfu, and the reason
    ("work.syncs", {"test": ("x",)}, "", (NO_COUNTS.format("test"), RECORD)),
    ("work.syncs", {"nsys": ("x",)}, "", (NO_COUNTS.format("nsys"), NSYS)),
    ("work.syncs", {"xplane": ("x",)}, "", (NO_COUNTS.format("xplane"), XPLANE)),
    ("work.syncs", {"xplane": ("x",), "abc": ("x",)}, "", (NO_COUNTS.format("abc, xplane"), XPLANE)),
    ("work.syncs", {"test": ("x", "work.ops")}, "", None),
    ("work.syncs", {"command": ("x", "work.ops")}, "", (PRINTED, SUGGEST.format("command"))),
    ("x", {"test": ("y",)}, "", None),
    ("x", {"command": ("command.time",)}, "", (PRINTED, SUGGEST.format("command"))),
    ("x", {"command": ("command.time",), "test": ("y",)}, "", None),
    ("x", {"test": ("y",)}, WRONG, (WRONG, "fix that first")),
    ("x", {"test": ("y",)}, f"{WRONG}; left out", (WRONG, "fix that first")),
    ("x", {"test": ("y",)}, f"{WRONG}; write a number; or none", (WRONG, "write a number; or none")),
    ("y", {"test": ("z",)}, WRONG, None),
    ("mfu", {"test": ("z",)}, WRONG, (WRONG, "fix that first")),
    ("hfu", {"test": ("z",)}, WRONG, (WRONG, "fix that first")),
]


@pytest.mark.parametrize(("metric", "formats", "wrong", "reason"), REASONS)
def test_why_a_metric_is_absent(
    metric: str, formats: dict[str, tuple[str, ...]], wrong: str, reason: tuple[str, str] | None
) -> None:
    problems = tuple(Problem("error", wrong, AT, Key(name)) for name in ("x", "mfu")) if wrong else ()
    new = [
        Run(f"{name}.log", name, tuple(series(own, "s", [1.0]) for own in metrics), problems)
        for name, metrics in formats.items()
    ]
    assert judged("x under 9 s", new).why_absent(metric) == reason


NEAREST: list[tuple[str, list[str], list[str]]] = [
    # an absent name, the metrics of the new runs, and the nearest of them
    ("forwrd", ["backward", "forward", "loss"], ["forward", "backward"]),
    ("loss*", ["train.LOSS", "x"], ["train.LOSS"]),
    ("*time*", ["a.b.time", "a.time", "b"], ["a.time", "a.b.time"]),
    ("*", ["forward", "x"], []),
    ("abcdefgh", ["abcd", "abc"], ["abcd", "abc"]),
    ("abcdefgh", ["ab"], ["ab"]),
    ("abcdefghi", ["ab"], []),
    ("x", [f"x{i}" for i in range(7)], ["x6", "x5", "x4", "x3", "x2"]),
    ("time", [f"a.long.name.with.time.{i}" for i in range(7)], [f"a.long.name.with.time.{i}" for i in range(5)]),
]


@pytest.mark.parametrize(("name", "names", "nearest"), NEAREST)
def test_the_nearest_names(name: str, names: list[str], nearest: list[str]) -> None:
    assert JudgedRuns((), (), (), {}, names=names).nearest(name) == nearest


def test_the_nearest_names_are_searched_for_fifty_metrics_among_five_thousand() -> None:
    runs = JudgedRuns((), (), (), {}, names=["forward"])
    assert [runs.nearest(f"forwar{i}") for i in range(50)] == [["forward"]] * 50
    assert runs.nearest("forwart") == []
    assert runs.nearest("forwar0") == ["forward"]
    for others, nearest in ((4_999, ["forward"]), (5_000, [])):
        assert JudgedRuns((), (), (), {}, names=[*["9"] * others, "forward"]).nearest("forwrd") == nearest


# --- the subjects of a sentence --------------------------------------------------------------------------------------

SIZES = [Key.of("x", input_len=size) for size in ("8", "16", "128")]
FOUND: list[tuple[str, list[Run], list[Run], list[Key]]] = [
    # a rule, the new runs, the stored ones, and the keys
    ("x under 9 s", [run("x", "y")], [run("x")], [Key("x")]),
    ("x under 9 s", [run(Key.of("x", rank="0"), Key.of("x", rank="1", device="3"))], [], [Key("x")]),
    ("x under 9 s", [run(*reversed(SIZES))], [], SIZES),
    ("'x{input_len=\"8\"} under 9 s'", [run(*SIZES)], [], SIZES[:1]),
    ("x under 9 s", [run(*SIZES[:2])], [run(*SIZES[1:])], SIZES),
    ("x under 9 s", [run("y")], [run("x")], [Key("x")]),
    ("x under 9 s", [run("y")], [run("z")], []),
    ("x* under 9 s", [run("xb", "y", "xa")], [run("xc")], [Key("xa"), Key("xb"), Key("xc")]),
    ("'x*{rank=\"0\"} under 9 s'", [run(Key.of("xa", rank="0"), Key.of("xb", rank="1"))], [], [Key("xa")]),
    ("* under 9 s", [run("x", "y")], [], [Key("x"), Key("y")]),
    ("bo* under 9 s", [run("forward", "backward")], [], [Key("both")]),
    ("both under 9 s", [run("forward", "backward")], [], [Key("both")]),
    ("forward + backward under 9 s", [run("forward", "backward")], [], [Key("forward + backward")]),
    ("warmup.* under 9 s", [run("x")], [], [Key.of("warmup.steps", of="x"), Key.of("warmup.time", of="x")]),
    ("warmup.time under 9 s", [run("x")], [], [Key.of("warmup.time", of="x")]),
    ("w* under 9 s", [run("x", "w")], [], [Key("w")]),
]


@pytest.mark.parametrize(("rule", "new", "base", "keys"), FOUND)
def test_the_metrics_that_a_sentence_names(rule: str, new: list[Run], base: list[Run], keys: list[Key]) -> None:
    assert [one.key for one in found(f'"{rule}"' if rule.startswith("*") else rule, new, base)] == keys


def numbers(side: tuple[Any, ...]) -> list[dict[str, float]]:
    """The first value of each rank, for each run of a side."""
    return [{dict(member).get("rank", ""): float(one.values[0]) for member, one in run.items()} for run in side]


def test_a_subject_has_the_ranks_of_each_run_of_each_side() -> None:
    def ranks(*values: float) -> Run:
        return run_of(*(series("x", "s", [value], rank=str(i)) for i, value in enumerate(values)))

    first, second, base, anchor = ranks(1.0, 2.0), ranks(3.0), ranks(4.0, 5.0, 6.0), ranks(7.0)
    (one,) = found("x under 9 s", [first, second], [base], anchor=(anchor,))
    assert numbers(one.new) == [{"0": 1.0, "1": 2.0}, {"0": 3.0}]
    assert (numbers(one.base), numbers(one.anchor)) == ([{"0": 4.0, "1": 5.0, "2": 6.0}], [{"0": 7.0}])
    views = (one.new_views, one.base_views, one.anchor_views)
    assert [[view.run for view in side] for side in views] == [[first, second], [base], [anchor]]
    assert [float(row.values[0]) for row in one.all_series()] == [1, 2, 3, 4, 5, 6, 7]
    assert one.members((*one.new, *one.anchor)) == {(("rank", "0"),), (("rank", "1"),)}
    assert one.components == {"x"}
    assert (one.trouble, one.lacking, one.stored_as) == (None, None, None)


def test_subjects_are_found_once_for_an_expression() -> None:
    case = bare("x under 9 s\nx over 1 s\nx + x under 9 s\n2 * x under 9 s", [])
    runs = judged("x under 9 s", [run("x")])
    same, other, plus, times = (find_subjects(rule.sentence, runs) for rule in case.ruleset.rules)
    assert same is other
    assert [one.key.metric for (one,) in (same, plus, times)] == ["x", "x + x", "2 * x"]


def test_a_name_with_the_characters_of_a_glob_means_itself() -> None:
    new = run_of(series("x[0]", "s", [1.0]), series("x0", "s", [2.0]))
    values = [(one.key.metric, *numbers(one.new)) for one in found("x* under 9 s", [new])]
    assert values == [("x0", {"": 2.0}), ("x[0]", {"": 1.0})]


LOADS = [Key.of("x", input_len="8"), Key.of("x", input_len="16")]
SIDES: list[tuple[str, list[Run], list[Run], list[tuple[Key, list[int], list[int], Key | None]]]] = [
    # a rule, the new runs, the stored ones, and the subjects: how many ranks each run has, and the key in the baseline
    ("x under 9 s", [run("x")], [run("x"), run("y")], [(Key("x"), [1], [1, 0], None)]),
    ("x under 9 s", [run("x")], [run("x"), run("y", partial=True)], [(Key("x"), [1], [1], None)]),
    ("x under 9 s", [run("x")], [run("y", partial=True)] * 2, [(Key("x"), [1], [0, 0], None)]),
    ("x under 9 s", [run("x"), run("y", partial=True)], [], [(Key("x"), [1], [], None)]),
    (
        "x under 9 s",
        [run(LOADS[0])],
        [run(LOADS[0]), run(LOADS[1])],
        [(LOADS[0], [1], [1], None), (LOADS[1], [0], [1], None)],
    ),
    ("x under 9 s", [run(one) for one in LOADS], [], [(LOADS[0], [1, 0], [], None), (LOADS[1], [0, 1], [], None)]),
    ("x under 9 s", [run(LOADS[0])], [run(LOADS[1])], [(LOADS[0], [1], [0], LOADS[1])]),
    ("x under 9 s", [run(LOADS[0])], [run(LOADS[1], "y")], [(LOADS[0], [1], [0], LOADS[1])]),
    ("'x{input_len=\"8\"} under 9 s'", [run(LOADS[0])], [run(LOADS[0]), run(LOADS[1])], [(LOADS[0], [1], [1], None)]),
    (
        "x under 9 s",
        [run(Key.of("x", name="a"))],
        [run(Key.of("x", name="b"))],
        [(Key.of("x", name="a"), [1], [0], None), (Key.of("x", name="b"), [0], [1], None)],
    ),
]


@pytest.mark.parametrize(("rule", "new", "base", "subjects"), SIDES)
def test_runs_are_left_out_that_are_stored_partially_or_have_the_metric_under_other_conditions(
    rule: str, new: list[Run], base: list[Run], subjects: list[tuple[Key, list[int], list[int], Key | None]]
) -> None:
    sides = [(one.key, [*map(len, one.new)], [*map(len, one.base)], one.stored_as) for one in found(rule, new, base)]
    assert sides == subjects


def test_an_expression_that_cannot_be_computed_is_a_subject_with_the_reason() -> None:
    new = [run_of(series("x", "s", [1.0]), series("y", "B", [1.0]))] * 2
    (one,) = found("x + y under 9 s", new)
    assert (one.key, one.new, one.base) == (Key("x + y"), ({}, {}), ())
    assert (one.trouble, one.lacking) == ("x in s + y in B has no known unit", None)
    assert [view.run for view in one.new_views] == new
    (short,) = found("max(x) + p50(x) under 9 s", [run("x")], [run_of(only_summary("x"))])
    assert (short.trouble, short.lacking) == (
        "the stored runs have only a summary of x, with no max; it has mean",
        ("base.log",),
    )


def test_parts_are_joined_by_their_means_if_a_stored_run_has_only_a_summary() -> None:
    stored = run_of(only_summary("x"), series("y", "s", [1.0]))
    sides: list[dict[str, Any]] = [{}, {"base": [stored]}, {"anchor": (stored,)}]
    kinds = [{row.kind for row in found("x + y under 9 s", [run("x", "y")], **side)[0].all_series()} for side in sides]
    assert kinds == [{"samples"}, {"value"}, {"value"}]


CONCERNED: list[tuple[str, Key, bool]] = [
    # a rule about x of size 8 or about its parts, the series that lacks a value, and whether the rule is concerned
    ("x under 9 s", Key.of("x", size="8"), True),
    ("x under 9 s", Key.of("x", size="9"), False),
    ("x under 9 s", Key.of("x", size="8", rank="3"), True),
    ("x under 9 s", Key("x"), True),
    ("x under 9 s", Key.of("y", size="8"), False),
    ("x + y under 9 s", Key.of("y", size="8"), True),
    ("warmup.time under 9 s", Key.of("x", size="8"), True),
    ("warmup.time under 9 s", Key.of("x", size="9"), False),
    ("warmup.time under 9 s", Key.of("z", size="8"), False),
    ("'warmup.time{of=\"x*\"} under 9 s'", Key("x"), True),
]


@pytest.mark.parametrize(("rule", "key", "is_concerned"), CONCERNED)
def test_a_value_that_was_left_out_concerns_the_rules_that_read_its_series(
    rule: str, key: Key, is_concerned: bool
) -> None:
    new = run(Key.of("x", size="8"), Key.of("y", size="8"))
    one = found(rule, [new])[0]
    problem = Problem("error", "NaN", AT, key)
    nameless = Problem("error", "NaN", AT)
    assert one.concerned_by({key.metric: [nameless, problem]}) == ([problem] if is_concerned else [])


def test_a_metric_without_labels_is_concerned_by_each_of_its_series() -> None:
    problems = [Problem("error", "NaN", AT, Key.of(name, size="8")) for name in ("y", "x")]
    (one,) = found("x + y under 9 s", [run("x", "y")])
    assert one.concerned_by({"y": problems[:1], "z": problems, "x": problems[1:]}) == problems
    (other,) = found("x under 9 s", [run(Key.of("x", of="y"))])
    assert other.concerned_by({"y": [Problem("error", "NaN", AT, Key("y"))]}) == []


# --- names -----------------------------------------------------------------------------------------------------------

SUM = Arithmetic("+", Selector("x"), Selector("y"))
NAMED = [
    (Selector("x"), "x", Key("x"), True),
    (Selector("x"), "x", Key("y"), False),
    (Selector("x*"), "x*", Key("xa"), True),
    (Selector("x", labels=(LabelTest("size", "8", negated=False),)), "", Key.of("xa", size="8"), False),
    (Selector("fwd"), "", Key("forward"), True),
    (SUM, "x + y", Key("x + y"), True),
    (SUM, "x + y", Key("x"), False),
]


@pytest.mark.parametrize(("expression", "text", "key", "named"), NAMED)
def test_a_rule_names_the_metrics_that_it_matches(expression: Any, text: str, key: Key, named: bool) -> None:
    assert is_named(expression, text, key) == named


def test_the_series_of_an_expression_are_grouped_by_labels_and_then_by_rank() -> None:
    keys = [Key.of("x", size=size, rank=rank) for size in ("8", "9") for rank in ("0", "1")]
    (view,) = judged("x under 9 s", [run(*keys)]).new
    grouped = members_by_key("name", view, Selector("x"))
    assert {key: sorted(members) for key, members in grouped.items()} == {
        Key.of("name", size=size): [(("rank", "0"),), (("rank", "1"),)] for size in ("8", "9")
    }
    assert members_by_key("y", view, Selector("y", quoted=True)) == {}
    assert members_by_key("y", view, Selector("y")) == {}
    assert members_by_key("2", view, Number(2.0)).keys() == {Key("2")}


METRICS = ("both: forward + backward", "deep: both + 1 * z", """start: 'warmup.time{of="x*"} + y'""")
#: Twenty paths from each metric to the next.
TREE = tuple(f"a{level}: {' + '.join([f'a{level + 1}'] * 20)}" for level in range(8))


def rules(*sentences: str) -> Ruleset:
    """Rules beside derived metrics."""
    definitions, own = "\n  ".join((*METRICS, *TREE)), "".join(f"  - '{one}'\n" for one in sentences)
    text = f"version: 1\nmetrics:\n  {definitions}\nrules:\n{own}"
    read, problems = load_rules([("r.yaml", text.encode())])
    assert read is not None, problems
    return read


READ: list[tuple[str, dict[Key, bool]]] = [
    # a rule, and the series that it reads and does not read
    ("x under 9 s", {Key("x"): True, Key.of("x", rank="0"): True, Key("xa"): False, Key("y"): False}),
    ('x{size="8"} under 9 s', {Key.of("x", size="8"): True, Key.of("x", size="9"): False, Key("x"): False}),
    ('fwd{size="8"} under 9 s', {Key.of("forward", size="8"): True, Key.of("forward", size="9"): False}),
    ("x + y under 9 s", {Key("x"): True, Key("y"): True, Key("z"): False}),
    ("x* under 9 s", {Key("xa"): True, Key.of("xb", size="8"): True, Key("y"): False}),
    ('x*{size="8"} under 9 s', {Key.of("xa", size="8"): True, Key.of("xa", size="9"): False}),
    ("both under 9 s", {Key("both"): True, Key("forward"): True, Key("backward"): True, Key("z"): False}),
    ("deep under 9 s", {Key("forward"): True, Key("fwd"): False, Key("z"): True, Key("y"): False}),
    ("bo* under 9 s", {Key("bob"): True, Key("forward"): True, Key("backward"): True, Key("z"): False}),
    ("warmup.steps under 9", {Key("x"): True, Key("z"): True}),
    ('warmup.time{of="x*"} under 9 s', {Key("xa"): True, Key("y"): False}),
    ("a0 under 9 s", {Key("a3"): True, Key("a8"): True, Key("a9"): False}),
    ("start under 9 s", {Key("xa"): True, Key("y"): True, Key("z"): False}),
    ("s* under 9 s", {Key("xa"): True, Key("y"): True, Key("z"): False}),
]


@pytest.mark.parametrize(("rule", "series_of"), READ)
def test_which_series_a_rule_reads(rule: str, series_of: dict[Key, bool]) -> None:
    is_read = naming(rules(rule))
    assert {key: is_read(key) for key in series_of} == series_of


def test_a_series_is_read_if_any_rule_reads_it() -> None:
    is_read = naming(rules('x{size="8"} under 9 s', 'x{size="9"} under 9 s', "a* under 9 s", "b* under 9 s"))
    keys = {Key.of("x", size="8"): True, Key.of("x", size="9"): True, Key.of("x", size="7"): False, Key("ab"): True}
    assert {key: is_read(key) for key in keys} == keys
    assert is_read(Key("ba"))
