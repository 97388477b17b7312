"""Expressions on the series of a run: joined by step and by rank, with units, and with nothing dropped."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from perfgate.core import Key, Location, Run, Series, Summary
from perfgate.judge import derived
from perfgate.judge.derived import RunView, component_names, read_by, warmup_cost
from perfgate.judge.measure import Method, NotAvailable
from perfgate.rules.ruleset import DerivedMetric
from perfgate.rules.syntax.grammar import parse_expression, parse_sentence
from perfgate.rules.syntax.sentence import glob_matches, selectors

NAN, INF = float("nan"), float("inf")


def samples(metric, values, steps=None, unit="s", **labels):
    steps = None if steps is None else np.array(steps, dtype=np.int64)
    return Series(Key.of(metric, **labels), unit, "samples", np.array(values, dtype=float), steps)


def single(metric, value, unit="s", **labels):
    return Series(Key.of(metric, **labels), unit, "value", np.array([float(value)]))


def aggregate(metric, unit="s", **printed):
    return Series(Key(metric), unit, "aggregate", np.empty(0), aggregate=printed)


def view(*series, **metrics):
    run = Run("run", "test", series)
    return RunView(run, {n: DerivedMetric(n, parse_expression(t), t, Location("r")) for n, t in metrics.items()})


def evaluate(text, *series, **metrics):
    """The series of a sentence's subject."""
    return view(*series, **metrics).evaluate(parse_sentence(f"{text} under 1").subject)


def only(text, *series, **metrics):
    (found,) = evaluate(text, *series, **metrics).values()
    return found


def numbers(series):
    return [None if np.isnan(value) else float(value) for value in series.values]


# --- thinned values ---------------------------------------------------------------------------------------------------


def thinned(metric, values, count, steps=None):
    """Stored values of `count` ones that were measured."""
    return replace(samples(metric, values, steps), thinned_from=count)


THINNED = [
    ("left alone", "a + 1 * b", thinned("a", [1, 2], 100), single("b", 1), 100),
    ("right alone", "b + 1 * a", thinned("a", [1, 2], 100), single("b", 1), 100),
    ("the other side is whole", "a + b", thinned("a", [1, 2], 100, [1, 9]), samples("b", range(90), range(90)), 90),
    ("both", "a + b", thinned("a", [1, 2], 100), thinned("b", [1, 2], 80), 80),
    ("no side", "a + b", samples("a", [1, 2]), samples("b", [1, 2]), None),
    ("single numbers", "a + b", single("a", 1), single("b", 1), None),
    ("another name", "a", thinned("a", [1, 2], 100), single("b", 1), 100),
]


@pytest.mark.parametrize(("text", "a", "b", "count"), [case[1:] for case in THINNED], ids=[case[0] for case in THINNED])
def test_what_is_derived_of_thinned_values_is_thinned(text, a, b, count):
    """Else unchanged code had ten times the total: a stored run has one of ten values, and a new run all."""
    assert only("made", a, b, made=text).thinned_from == count


def test_totals_of_derived_metrics_count_the_values_before_thinning():
    both = only("made", thinned("a", [1, 1], 100), thinned("b", [2, 2], 100), made="a + b")
    assert Method("total", 0).measure(both).value == 300


# --- joining ---------------------------------------------------------------------------------------------------------

JOINS = [
    ("equal steps", ([1, 2, 3], [1, 2, 3]), ([10, 20, 30], [1, 2, 3]), [11, 22, 33], [1, 2, 3]),
    ("a missing step on the right", ([1, 2, 3], [1, 2, 3]), ([10, 30], [1, 3]), [11, 33], [1, 3]),
    ("a missing step on the left", ([1, 3], [1, 3]), ([10, 20, 30], [1, 2, 3]), [11, 33], [1, 3]),
    ("steps in another order", ([1, 2], [1, 2]), ([20, 10], [2, 1]), [11, 22], [1, 2]),
    (
        "gradient accumulation",
        ([1, 2, 3, 4], [1, 1, 2, 2]),
        ([10, 20, 30, 40], [1, 1, 2, 2]),
        [11, 22, 33, 44],
        [1, 1, 2, 2],
    ),
    ("one accumulated value is missing", ([1, 2, 3], [1, 1, 2]), ([10, 30], [1, 2]), [11, 33], [1, 2]),
    ("equal steps, not in order of time", ([1, 2, 3], [1, 3, 2]), ([10, 20, 30], [1, 3, 2]), [11, 33, 22], [1, 2, 3]),
    ("many values of a step", ([1, 2, 3], [0, 0, 0]), ([10, 20], [0, 1]), [11], [0]),
    ("few values of a step", ([1, 2], [0, 1]), ([10, 20, 30], [0, 0, 0]), [11], [0]),
    ("no step in common", ([1], [1]), ([10], [2]), [], None),
    ("no steps, equal length", ([1, 2], None), ([10, 20], None), [11, 22], None),
    ("steps on the left alone", ([1, 2], [5, 6]), ([10, 20], None), [11, 22], [5, 6]),
    ("steps on the right alone", ([1, 2], None), ([10, 20], [5, 6]), [11, 22], [5, 6]),
    ("no values at all", ([], []), ([], []), [], None),
]


@pytest.mark.parametrize(("a", "b", "values", "steps"), [row[1:] for row in JOINS], ids=[row[0] for row in JOINS])
def test_values_are_joined_by_step(a, b, values, steps):
    found = only("a + b", samples("a", *a), samples("b", *b))
    assert numbers(found) == values
    assert (None if found.steps is None else found.steps.tolist()) == steps
    assert (found.unit, found.kind) == ("s", "samples")


@pytest.mark.parametrize("steps", [None, [1, 2, 3]])
def test_unequal_lengths_without_steps_cannot_be_joined(steps):
    with pytest.raises(NotAvailable, match="a has 3 values and b 2, without step numbers"):
        evaluate("a / b", samples("a", [1, 2, 3], steps), samples("b", [1, 2]))


def test_ranks_are_joined_with_their_own():
    found = evaluate(
        "a / b",
        samples("a", [2, 4], rank="0"),
        samples("a", [6], rank="1"),
        samples("b", [2], rank="1"),
        samples("b", [1, 2], rank="0"),
    )
    assert {labels: numbers(series) for labels, series in found.items()} == {
        (("rank", "0"),): [2, 2],
        (("rank", "1"),): [3],
    }


def test_a_rank_that_lacks_a_part_does_not_drop_out_silently():
    with pytest.raises(NotAvailable, match='rank="2"'):
        evaluate("a / b", samples("a", [2], rank="0"), samples("b", [1], rank="0"), samples("b", [9], rank="2"))


@pytest.mark.parametrize(
    ("a", "b", "share"),
    [
        (samples("a", [1, 2, 3], [1, 2, 3]), samples("b", [1, 2], [1, 3]), 2 / 3),
        (samples("a", [1, 2], [1, 3]), samples("b", [1, 2], [2, 3]), 1 / 3),
        (samples("a", [1, 2], [1, 2]), samples("b", [1, 2], [1, 2]), 1.0),
        (samples("a", [1], [1]), samples("b", [1], [2]), 1.0),
        (replace(samples("a", [1, 2], [1, 3]), thinned_from=9), samples("b", [1, 2], [2, 3]), 1.0),
        (samples("a", [1, 2], [1, 3]), replace(samples("b", [1, 2], [2, 3]), thinned_from=9), 1.0),
        (replace(samples("a", [1, 2]), joined=0.5), samples("b", [1, 2]), 0.5),
        (single("a", 1), replace(samples("b", [1, 2]), joined=0.25), 0.25),
    ],
)
def test_the_share_of_steps_that_both_sides_have(a, b, share):
    assert only("a + b", a, b).joined == only("max(a + b) * 2", a, b).joined == share


def test_marks_of_stalled_steps_stay_if_no_value_is_left_out():
    marks = np.array([False, True])
    a, b = replace(samples("a", [1, 2], [1, 2]), stalled=marks), samples("b", [1, 2, 3], [1, 2, 3])
    assert only("a + b", a, b).stalled is marks
    assert only("b - a", a, b).stalled is marks
    assert only("2 * a", a).stalled is marks
    assert only("b * 2", b).stalled is None
    assert only("a + b", a, samples("b", [1, 3], [1, 3])).stalled is None


def test_labels_that_never_meet_are_said():
    with pytest.raises(NotAvailable, match="no labels"):
        evaluate("a / b", samples("a", [1], rank="0"), samples("b", [1]))


@pytest.mark.parametrize("text", ["a / b", "b / a", "p95(a) / p95(b)", "b"])
def test_an_absent_part_leaves_nothing(text):
    assert evaluate(text, samples("a", [1] * 30)) == {}


NUMBERS = [
    ("2 * a", [2, 4]),
    ("a * 2", [2, 4]),
    ("a / 4", [0.25, 0.5]),
    ("a - a", [0, 0]),
    ("a / a * 3 + 1", [4, 4]),
    ("1 - a / a", [0, 0]),
    ("2 * (a + a) - a", [3, 6]),
    ("a - a - a", [-1, -2]),
]


@pytest.mark.parametrize(("text", "values"), NUMBERS)
def test_constants_and_precedence(text, values):
    assert numbers(only(text, samples("a", [1, 2]))) == values


@pytest.mark.parametrize("text", ["6 * a", "a * 6", "2 * 3 * a", "a * (2 * 3)", "(1 + 2) * a * 2"])
def test_a_constant_goes_with_every_rank(text):
    found = evaluate(text, samples("a", [1], rank="0"), samples("a", [2], rank="1"))
    assert {dict(labels)["rank"]: numbers(series) for labels, series in found.items()} == {"0": [6], "1": [12]}


@pytest.mark.parametrize(("text", "value"), [("5", 5), ("2 * 3", 6)])
def test_a_constant_alone_is_a_single_number(text, value):
    found = only(text)
    assert (numbers(found), found.unit, found.kind) == ([value], "1", "value")


def test_a_single_number_goes_with_every_value():
    found = only("a / b", samples("a", [2, 4], [7, 8]), single("b", 2))
    assert (numbers(found), found.steps.tolist(), found.kind) == ([1, 2], [7, 8], "samples")


DIVISIONS = [([1, 0, -1], [0, 0, 0], [INF, None, -INF]), ([1, NAN], [2, 2], [0.5, None]), ([INF], [INF], [None])]


@pytest.mark.parametrize(("a", "b", "values"), DIVISIONS)
def test_what_is_no_number_stays_in_its_place(a, b, values):
    assert numbers(only("a / b", samples("a", a), samples("b", b))) == values


def test_the_longest_expression_is_evaluated():
    assert numbers(only(" + ".join(["a"] * 101), samples("a", [1]))) == [101]
    assert numbers(only("(" * 20 + "a" + ")" * 20, samples("a", [1]))) == [1]


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(1, 9)), max_size=12), st.data())
def test_joined_values_are_those_of_the_same_step(left, data):
    right = data.draw(st.permutations(left))
    found = only("a - b", *(samples(n, [v for _, v in x], [s for s, _ in x]) for n, x in (("a", left), ("b", right))))
    per_step = {s: sorted(v for t, v in left if t == s) for s, _ in left}
    assert len(found.values) == len(left)
    assert all(
        abs(difference) <= per_step[step][-1] - per_step[step][0]
        for step, difference in zip(found.steps if found.steps is not None else [], found.values, strict=True)
    )


# --- units -----------------------------------------------------------------------------------------------------------

UNITS = [
    ("s", "/", "s", "1"),
    ("B", "/", "B", "1"),
    ("B", "/", "s", "B/s"),
    ("FLOP", "/", "s", "FLOP/s"),
    ("1", "/", "s", "1/s"),
    ("1", "/", "1/s", "s"),
    ("J", "/", "s", "W"),
    ("1", "/", "J", "1/J"),
    ("s", "/", "1", "s"),
    ("1", "/", "1", "1"),
    ("s", "*", "1", "s"),
    ("1", "*", "B", "B"),
    ("1/s", "*", "s", "1"),
    ("s", "*", "B/s", "B"),
    ("s", "*", "FLOP/s", "FLOP"),
    ("W", "*", "s", "J"),
    ("J", "*", "1/J", "1"),
    ("s", "+", "s", "s"),
    ("B", "-", "B", "B"),
    ("s", "*", "s", None),
    ("B", "*", "B", None),
    ("s", "/", "B", None),
    ("s", "+", "B", None),
    ("s", "-", "1", None),
    ("1", "+", "s", None),
]


@pytest.mark.parametrize(("left", "operator", "right", "unit"), UNITS)
def test_units_of_results(left, operator, right, unit):
    series = samples("a", [1], unit=left), samples("b", [1], unit=right)
    if unit is None:
        with pytest.raises(NotAvailable, match="has no known unit"):
            evaluate(f"a {operator} b", *series)
    else:
        assert only(f"a {operator} b", *series).unit == unit


def test_a_time_plus_a_constant_has_no_unit():
    with pytest.raises(NotAvailable, match=r"^a in s \+ constant in 1 has no known unit$"):
        evaluate("a + 1", samples("a", [1]))


# --- aggregates and statistics ---------------------------------------------------------------------------------------

AGGREGATES = [({"mean": 2.0, "total": 99.0, "count": 3}, 2.0), ({"total": 6.0, "count": 3}, 2.0), ({"total": 6.0}, 6.0)]


@pytest.mark.parametrize(("printed", "value"), AGGREGATES)
def test_aggregates_are_used_through_their_means(printed, value):
    found = only("a / b", aggregate("a", **printed), aggregate("b", mean=2.0))
    assert (numbers(found), found.kind, found.unit) == ([value / 2], "value", "1")


def test_samples_are_joined_by_their_means_if_the_other_side_has_nothing_else():
    run = Run("run", "test", (samples("a", [2, 4, 4, 6]), samples("b", [1, 3]), aggregate("c", total=6.0, count=3)))
    by_means = RunView(run, {}, by_means=True)
    assert [numbers(one) for one in by_means.evaluate(parse_expression("a / b")).values()] == [[2]]
    assert [numbers(one) for one in by_means.evaluate(parse_expression("a + c")).values()] == [[6]]


def test_stored_samples_with_only_a_summary_are_used_through_their_means():
    kept = Summary(("mean", "median"), ((2.0,), (9.0,)), 40, 4, True, "auto", ("lower",))
    stored = Series(Key("a"), "s", "summary", np.empty(0), aggregate={"mean": 2.0, "median": 9.0}, summary=kept)
    run = view(stored, samples("b", [4, 8]))
    assert numbers(only("a / b", stored, samples("b", [4, 8]))) == [0.5, 0.25]
    assert [run.has_summary(names) for names in (["a"], ["b", "a"], ["b"], ["c"], [])] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_samples_over_an_aggregate():
    assert numbers(only("a / b", samples("a", [2, 4]), aggregate("b", mean=2.0))) == [1, 2]


def test_statistics_of_a_run():
    found = only("max(a) / min(a)", samples("a", [2, 4, 8, 4]))
    assert (numbers(found), found.kind, found.unit) == ([4], "value", "1")


def test_a_statistic_of_each_rank():
    found = evaluate("max(a) - min(a)", samples("a", [2, 2, 3, 4], rank="0"), samples("a", [1, 1, 1, 9], rank="1"))
    assert [numbers(series) for series in found.values()] == [[2], [8]]


@pytest.mark.parametrize(("text", "unit"), [("2 * count(a)", "1"), ("2 * cv(a)", "1"), ("2 * max(a)", "s")])
def test_units_of_statistics(text, unit):
    assert only(text, samples("a", [1, 2, 3, 4])).unit == unit


FEW = [
    # expression         values  says
    ("p99(a) / p50(a)", 90, "p99 of a needs 100 values after warm-up, and there are 89"),
    ("p1(a) / p50(a)", 50, "p1 of a needs 100 values"),
    ("p95(a) / p50(a)", 5, "p95 of a needs 20 values after warm-up, and there are 5"),
]


@pytest.mark.parametrize(("text", "n", "said"), FEW)
def test_a_statistic_of_too_few_values_is_not_available(text, n, said):
    with pytest.raises(NotAvailable, match=said):
        evaluate(text, samples("a", [1.0] * n))


def test_a_percentile_with_a_value_beyond_it_and_a_count_are_available():
    assert numbers(only("p99(a) / p50(a)", samples("a", [1.0] * 101))) == [1]
    assert numbers(only("2 * count(a)", samples("a", [1.0]))) == [2]


def test_a_percentile_of_an_aggregate_is_not_available():
    with pytest.raises(NotAvailable, match="p95 is not available: the source prints only count, mean, total of a"):
        evaluate("2 * p95(a)", aggregate("a", mean=1.0, count=3, total=3.0))


def test_a_statistic_of_values_that_are_no_numbers_is_no_number():
    assert numbers(only("1 * max(a)", samples("a", [1, NAN, 2]))) == [None]


# --- selection and derived metrics -----------------------------------------------------------------------------------

SERIES = (
    samples("fwd", [1, 2], rank="0"),
    samples("fwd", [3, 4], rank="1"),
    samples("fwd_inner", [5, 6], rank="0", name="warmup 1"),
    samples("odd *", [7, 8]),
)
SELECTED = [
    ("fwd", ['fwd{rank="0"}', 'fwd{rank="1"}']),
    ("fwd{rank=1}", ['fwd{rank="1"}']),
    ("fwd{rank!=1}", ['fwd{rank="0"}']),
    ("fwd{rank=[01]}", ['fwd{rank="0"}', 'fwd{rank="1"}']),
    ("fwd{device=0}", []),
    ("fwd{device!=0}", ['fwd{rank="0"}', 'fwd{rank="1"}']),
    ("fwd*{rank=0}", ['fwd{rank="0"}', 'fwd_inner{name="warmup 1", rank="0"}']),
    ('fwd*{name="warm*"}', ['fwd_inner{name="warmup 1", rank="0"}']),
    ("fwd?*", ['fwd_inner{name="warmup 1", rank="0"}']),
    ("FWD", []),
    ("fw", []),
    ('"odd *"', ["odd *"]),
    ('"fwd*"', []),
    ("share", ['share{rank="0"}', 'share{rank="1"}']),
    ("share{rank=0}", ['share{rank="0"}']),
    ("sh*", ['share{rank="0"}', 'share{rank="1"}']),
]


@pytest.mark.parametrize(("text", "keys"), SELECTED)
def test_selection(text, keys):
    subject = parse_sentence(f"{text} under 1").subject
    found = view(*SERIES, share="fwd / fwd", absent="fwd / gone").select(subject)
    assert list(map(str, found)) == keys
    assert all(str(key) == str(series.key) for key, series in found.items())


def test_a_run_may_have_a_metric_by_another_of_its_names_and_always_has_its_warm_up():
    run = view(samples("forward", [1], rank="0"), samples("forward", [1], rank="1"), samples("mm.device_time", [1]))
    asked = ("forward", "fwd", "mm.cuda_time", "warmup.steps", "warmup.time", "backward")
    assert [run.may_have(name) for name in asked] == [True, True, True, True, True, False]
    assert [len(run.keys(name)) for name in asked] == [2, 0, 0, 0, 0, 0]
    assert list(map(str, run.keys("forward"))) == ['forward{rank="0"}', 'forward{rank="1"}']


def test_names_hold_what_can_be_derived():
    found = view(*SERIES, share="fwd / fwd", twice="2 * share", absent="fwd / gone", too="2 * absent")
    assert found.names == {"fwd", "fwd_inner", "odd *", "share", "twice"}


def test_a_derived_metric_of_derived_metrics():
    found = only("twice", samples("a", [1, 2]), samples("b", [2, 2]), share="a / b", twice="2 * share")
    assert (numbers(found), found.unit, str(found.key)) == ([1, 2], "1", "twice")


def test_a_derived_metric_selects_labels_of_its_parts():
    found = evaluate("gap", *SERIES, gap="fwd{rank=0} * 2")
    assert {labels: numbers(series) for labels, series in found.items()} == {(("rank", "0"),): [2, 4]}


def test_a_printed_metric_wins_over_a_definition_of_the_same_name():
    assert numbers(only("a", samples("a", [1]), samples("b", [5]), a="2 * b")) == [1]


def test_derived_values_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        only("2 * a", samples("a", [1])).values[0] = 0


def test_the_parts_of_an_expression_through_derived_metrics():
    metrics = view(x="a / y", y="b + c").metrics
    assert component_names(parse_expression("x * d"), metrics) == {"x", "d", "a", "y", "b", "c"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("warmup.steps{of=forward}", {"warmup.steps", "forward"}),
        ("warmup.time", {"warmup.time", "*"}),
        ("a + warmup.time{of=forward}", {"a", "warmup.time", "forward"}),
    ],
)
def test_the_warm_up_of_a_metric_is_read_from_its_values(text, names):
    assert component_names(parse_expression(text), {}) == names


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("forward", []),
        ("warmup.steps", ["*"]),
        ("warmup.steps{of=forward}", ["forward"]),
        ("warmup.time{rank=0}", ["*"]),
        ("warmup.time{of!=forward}", ["*"]),
        ("warmup.time{of=forward, rank!=0}", ["forward"]),
    ],
)
def test_the_metrics_whose_warm_up_is_selected(text, read):
    assert [one.pattern for one in read_by(parse_expression(text))] == read


SLOW, FAST = [5.0] * 10 + [1.0] * 70, [0.25] * 10 + [1.0] * 70
WARM_UPS = [
    # series                                               its steps and seconds of warm-up
    (samples("a", SLOW), (10, 50.0)),
    (samples("a", FAST, unit="1/s"), (10, None)),
    (samples("a", FAST), (1, 0.25)),
    (samples("a", SLOW, unit="J"), (10, None)),
    (samples("a", SLOW, unit="B"), None),
    (samples("a", SLOW, unit="1"), None),
    (single("a", 3), None),
    (aggregate("a", mean=3.0), None),
    (replace(samples("a", SLOW), thinned_from=100), (12, 62.5)),
    (replace(samples("a", []), thinned_from=100), (0, 0.0)),
]


@pytest.mark.parametrize(("series", "cost"), WARM_UPS)
def test_the_warm_up_of_a_series(series, cost):
    assert warmup_cost(series) == (cost and derived.WarmUpCost(*cost))


def test_the_warm_up_of_a_series_by_a_rule_of_its_own():
    assert warmup_cost(samples("a", SLOW), Method("median", 12)) == derived.WarmUpCost(12, 52.0)
    assert warmup_cost(replace(samples("a", [3.0]), thinned_from=2), Method("median", 1)) == derived.WarmUpCost(2, 6.0)


def test_the_warm_up_of_a_run_is_a_metric():
    series = samples("a", SLOW, rank="0"), samples("b", FAST, unit="1/s"), samples("c", [1], unit="1")
    found = {text: view(*series).select(parse_expression(text)) for text in ("warmup.steps", "warmup.time")}
    assert {
        text: {str(key): (numbers(one), one.unit, one.kind) for key, one in all_of.items()}
        for text, all_of in found.items()
    } == {
        "warmup.steps": {
            'warmup.steps{of="a", rank="0"}': ([10], "1", "value"),
            'warmup.steps{of="b"}': ([10], "1", "value"),
        },
        "warmup.time": {'warmup.time{of="a", rank="0"}': ([50], "s", "value")},
    }
    twice = view(*series)
    assert [len(twice.select(parse_expression("warmup.steps{of=b}"))) for _ in range(2)] == [1, 1]
    assert numbers(only("warmup.steps", samples("a", [1]), **{"warmup.steps": "a * 7"})) == [7]


def test_a_statistic_of_a_run_is_a_single_number():
    found = view(samples("a", [1, 5])).evaluate(parse_expression("max(a)"))
    assert [(numbers(one), one.kind) for one in found.values()] == [([5], "value")]


def test_a_tree_of_definitions_takes_little_time():
    metrics = {f"m{i}": f"m{i + 1} + m{i + 1}{'{a!=0}'}" for i in range(60)}
    found = view(samples("m60", [1]), **metrics)
    assert len(found.names) == 61
    assert len(component_names(parse_expression("m0"), found.metrics)) == 61


GLOBS = [
    ("*", "", True),
    ("a*c", "abc", True),
    ("a?c", "ac", False),
    ("[ab]x", "bx", True),
    ("[!ab]x", "bx", False),
    ("[a-c]", "b", True),
    ("[z-a]", "m", False),
    ("[", "[", True),
    ("[]", "[]", True),
    ("a.c", "abc", False),
    ("a+", "aa", False),
    ("(a)", "(a)", True),
    ("A", "a", False),
    ("a", "ab", False),
    ("a", "a\n", False),
    ("a*", "a\nb", True),
    ("[[a]", "[", True),
    ("[a&&b]", "&", True),
    ("[a||b~~c--d]", "|", True),
    ("\\*", "\\x", True),
    ("*a" * 500 + "b", "a" * 5000, False),
    ("*[!b]" * 300 + "b", "a" * 3000, False),
    ("?" * 2000, "a" * 2000, True),
]


@pytest.mark.parametrize(("pattern", "text", "matches"), GLOBS)
def test_globs_are_no_regular_expressions_and_take_little_time(pattern, text, matches):
    assert glob_matches(pattern, text) is matches


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_a_glob(pattern, text):
    assert glob_matches("*", text)
    assert glob_matches(pattern, text) in (True, False)


@pytest.mark.parametrize(
    ("glob", "metric", "matches"),
    [
        ("kernel.*softmax*", "kernel.void cunn_SoftMaxForwardReg<float>", True),
        ("kernel.*SoftMax*", "kernel.softmax_warp_forward", True),
        ("op.*backward*", "op.AddmmBackward0", True),
        ("Kernel.*", "kernel.gemm", False),
        ("range.*step*", "range.Step", False),
        ("kernel.softmax", "kernel.SoftMax", False),  # a name, not a glob
        ('"kernel.*softmax*"', "kernel.SoftMax", False),
    ],
)
def test_globs_of_kernels_and_operators_match_in_any_case(glob, metric, matches):
    (selector,) = selectors(parse_expression(glob))
    assert selector.matches_metric(metric) is matches
