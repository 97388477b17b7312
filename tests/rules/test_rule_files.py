"""Rule files: every field, defaults, several files, derived metrics, `when` and dates."""

from datetime import date

import pytest

from perfgate.core import fact_text
from perfgate.rules.explain import explain
from perfgate.rules.load import check_rules, load_rules
from perfgate.rules.ruleset import DEFAULT_IDENTITY, Condition, DatedReason, Settings, parse_condition

HEAD = "version: 1\n"


def load(*texts, suite=None):
    return load_rules([(f"{'abc'[i]}.yaml", (HEAD + text).encode()) for i, text in enumerate(texts)], suite)


def rules(text):
    ruleset, problems = load(text)
    assert not problems
    return ruleset.rules


def rule(text):
    return rules(f"rules:\n- {text}")[0]


def errors(*texts, suite=None):
    ruleset, problems = load(*texts, suite=suite)
    assert ruleset is None
    return [f"{problem.at}: {problem.message}" for problem in problems]


def test_the_users_own_file_works_as_it_stands():
    text = """\
# yaml-language-server: $schema=../perfgate/schemas/rules.schema.json
version: 1
suite: gpt-small
rules:
  - backward_allreduce p95 under 50 ms
  - forward_backward within 5% of baseline
"""
    ruleset, problems = load_rules([("rules/training.yaml", text.encode())])
    assert not problems
    assert ruleset.suite == "gpt-small"
    assert [str(rule.at) for rule in ruleset.rules] == ["rules/training.yaml:5:5", "rules/training.yaml:6:5"]
    assert ruleset.rules[0].name == "backward_allreduce p95 under 50 ms"
    assert {rule.settings for rule in ruleset.rules} == {Settings()}
    assert ruleset.identity == DEFAULT_IDENTITY == ("gpu", "gpu_count", "world_size")


def test_every_field_of_the_mapping_form():
    found = rule("""\
id: allreduce-tail
  assert: backward_allreduce p95 under 50 ms
  why: the optimizer hides it
  severity: warning
  when: {gpu: "*H100*", world_size: ">= 8", nodes: 2, shared: false}
  better: lower
  warmup: 10
  confidence: 99%
  power: 90%
  min_runs: 3
  min_samples: 50
  on_missing: skip
  on_inconclusive: error
  on_improvement: fail
  on_throttled: error
  at_worst: 100 ms
  budget: 10%
  expect_fail: {reason: being worked on, until: 2027-01-31}
  tags: [communication, tail]
""")
    at_worst = found.settings.at_worst
    assert at_worst is not None
    assert (at_worst.relative, str(at_worst.absolute), at_worst.text) == (None, "100 ms", "100 ms")
    assert found.settings == Settings("warning", 10, 0.99, 0.9, 3, 50, "skip", "error", "fail", "error", at_worst, 0.1)
    assert (found.id, found.name, found.why, found.better) == ("allreduce-tail",) * 2 + (
        "the optimizer hides it",
        "lower",
    )
    assert found.tags == ("communication", "tail")
    assert found.expect_fail == DatedReason("being worked on", date(2027, 1, 31))
    assert [str(c) for c in found.when] == ["gpu == *H100*", "world_size >= 8", "nodes == 2", "shared == false"]
    assert str(found.at) == "a.yaml:4:11"


def test_defaults_are_overridden_field_by_field():
    text = """\
defaults: {warmup: 5, confidence: 90%, min_runs: 2, on_inconclusive: fail, budget: 8%}
rules:
- x under 5 ms
- {assert: y under 5 ms, confidence: 0.99, warmup: auto}
"""
    first, second = (rule.settings for rule in rules(text))
    assert first == Settings(warmup=5, confidence=0.9, min_runs=2, on_inconclusive="fail", budget=0.08)
    assert second == Settings(warmup="auto", confidence=0.99, min_runs=2, on_inconclusive="fail", budget=0.08)


SHARES = [
    ("confidence: 95%", 0.95),
    ("confidence: '95%'", 0.95),
    ("confidence: 99.9%", 0.999),
    ("confidence: 0.9", 0.9),
    ("confidence: 9e-1", 0.9),
    ("power: 90%", 0.9),
    ("power: 0.6", 0.6),
    ("budget: 10%", 0.1),
    ("budget: 0%", 0.0),
    ("budget: 250%", 2.5),
]


@pytest.mark.parametrize(("field", "share"), SHARES)
def test_shares_are_percentages_or_numbers(field, share):
    settings = rule(f"assert: x under 5 ms\n  {field}\n").settings
    assert getattr(settings, field.split(":")[0]) == pytest.approx(share)


def test_a_sentence_over_several_lines_is_named_on_one():
    assert rule(">-\n  x mean\n  under 5 ms\n").name == "x mean under 5 ms"
    assert rule("|\n  x mean\n  under 5 ms\n").name == "x mean under 5 ms"


# --- several files ---------------------------------------------------------------------------------------------------


def test_files_of_one_suite_become_one_ruleset():
    ruleset, problems = load("rules: [x < 1]\nmetrics: {m: x / y}", "rules: [m < 2]\nenvironment: {identity: [gpu]}")
    assert not problems
    assert ruleset.files == ("a.yaml", "b.yaml")
    assert [rule.at.file for rule in ruleset.rules] == ["a.yaml", "b.yaml"]
    assert list(ruleset.metrics) == ["m"]
    assert ruleset.identity == ("gpu",)


BETWEEN = [
    (
        ("rules: [{id: k, assert: x < 1}]", "rules: [{id: k, assert: y < 1}]"),
        "b.yaml:2:25: the id 'k' is already used at a.yaml:2:25: choose another id",
    ),
    (
        ("rules: [{id: k, assert: x < 1}, {id: k, assert: y < 1}]",),
        "a.yaml:2:49: the id 'k' is already used at a.yaml:2:25: choose another id",
    ),
    (
        ("rules: [x < 1]\nmetrics: {m: x}", "rules: [y < 1]\nmetrics: {m: y}"),
        "b.yaml:3:11: 'm' has another definition at a.yaml:3:11: keep one of them",
    ),
    (
        ("rules: [x < 1]\nenvironment: {identity: [gpu]}", "rules: [y < 1]\nenvironment: {identity: [host]}"),
        "b.yaml:3:14: the files of one suite have different values of `identity`: write the same value in each",
    ),
    (
        ("rules: [x < 1]\npairs: accept", "rules: [y < 1]\npairs: refuse"),
        "b.yaml:3:8: the files of one suite have different values of `pairs`: write the same value in each",
    ),
    (
        ("rules: [x < 1]\nsuite: s", "rules: [x < 1]"),
        "a.yaml: the rule files contain several suites (default, s): choose one with --suite",
    ),
]


@pytest.mark.parametrize(("texts", "message"), BETWEEN)
def test_clashes_between_files(texts, message):
    assert errors(*texts) == [message]


def test_a_suite_is_chosen_among_several():
    texts = ("suite: s\nrules: [{id: k, assert: x < 1}]", "suite: t\nrules: [{id: k, assert: y < 1}]")
    ruleset, problems = load(*texts, suite="t")
    assert not problems
    assert (ruleset.suite, ruleset.files) == ("t", ("b.yaml",))
    assert errors(*texts, suite="u") == ["a.yaml: there are no rules for suite 'u': the rule files contain s, t"]


def test_rules_check_counts_the_rules_of_good_files_of_all_suites():
    files = [
        ("a", b"version: 1\nsuite: s\nrules: [x < 1, y < 1]"),
        ("b", b"version: 1\nrules: [x < 1]"),
        ("c", b"nope: 1"),
    ]
    counts, problems = check_rules(files)
    assert counts == {"a": 2, "b": 1}
    assert {problem.at.file for problem in problems} == {"c"}


def test_rules_check_finds_clashes_within_a_suite_only():
    one, two = b"version: 1\nrules: [{id: k, assert: x < 1}]", b"version: 1\nsuite: s\nrules: [{id: k, assert: x < 1}]"
    assert not check_rules([("a", one), ("b", two)])[1]
    assert check_rules([("a", one), ("b", one)])[1]


def test_no_files_are_no_rules():
    ruleset, problems = load_rules([])
    assert ruleset is None
    assert "no rule files" in problems[0].message


def test_the_same_identity_and_definition_in_two_files_are_no_clash():
    text = "\nmetrics: {m: x}\nenvironment: {identity: [gpu]}"
    assert not load("rules: [x < 1]" + text, "rules: [y < 1]" + text)[1]


SAME = [
    ("- x < 1\n- x < 1", ["a.yaml:4:3: the same rule is at a.yaml:3:3: remove one of them"]),
    ("- x  <  1\n- {assert: x < 1, id: one, why: it is slow, tags: [a]}", ["a.yaml:4:12"]),
    ("- x < 1\n- x < 1\n- x < 1", ["a.yaml:4:3", "a.yaml:5:3: the same rule is at a.yaml:3:3"]),
    ("- x < 1\n- {assert: x < 1, severity: warning}\n- {assert: x < 1, when: {gpu: H200}}\n- x p95 < 1", []),
]


@pytest.mark.parametrize(("text", "said"), SAME)
def test_a_rule_that_is_written_twice_is_a_warning(text, said):
    ruleset, problems = load(f"rules:\n{text}")
    assert len(ruleset.rules) == len(text.splitlines())
    assert [problem.severity for problem in problems] == ["warning"] * len(said)
    assert all(f"{one.at}: {one.message}".startswith(start) for one, start in zip(problems, said, strict=True))


# --- derived metrics -------------------------------------------------------------------------------------------------

DERIVED = [
    ("{a: b / c, c: d + 1}", []),
    ("{a: a}", ["a.yaml:3:14: 'a' is defined by itself: 'a' → 'a'"]),
    ("{a: b, b: c, c: a + d}", ["'a' is defined by itself: 'a' → 'b' → 'c' → 'a'"]),
    ("{a: a, b: b}", ["'a' is defined by itself", "'b' is defined by itself"]),
    ("{a: b, c: a, b: 2 * b}", ["a.yaml:3:26: 'b' is defined by itself"]),
    ("{a: fwd*}", ["a.yaml:3:14: 'fwd*' is a glob"]),
    ("{a: b + fwd*}", ["'fwd*' may match several metrics"]),
    ("{a: p95(b)}", ["a.yaml:3:14: a derived metric is computed step by step"]),
    ("{a: b p95}", ["a.yaml:3:16: expected an operator"]),
    ("{a: b under 5 ms}", ["a.yaml:3:16: expected an operator"]),
    ("{a: ''}", ["a.yaml:3:14: a must have at least 1 character(s)"]),
    ("{a: 5}", ["a.yaml:3:14: a must be text, not 5"]),
    ("{a b: c}", ["a.yaml:3:11: the name 'a b' is not valid"]),
    ("{" + ", ".join(f"m{i}: m{i + 1}" for i in range(10)) + "}", []),
    (
        "{" + ", ".join(f"m{i}: m{i + 1}" for i in range(11)) + "}",
        ["'m0' is a chain of more than 10 definitions: shorten it"],
    ),
]


@pytest.mark.parametrize(("metrics", "messages"), DERIVED, ids=[row[0][:40] for row in DERIVED])
def test_definitions_of_derived_metrics(metrics, messages):
    _, problems = load(f"rules: [x < 1]\nmetrics: {metrics}")
    found = [f"{problem.at}: {problem.message}" for problem in problems]
    for message in messages:
        assert any(message in line for line in found), found
    assert bool(found) == bool(messages)


# --- direction -------------------------------------------------------------------------------------------------------

DIRECTIONS = [
    ("higher", "at most 3% above baseline", False),
    ("higher", "at least 95% of baseline", True),
    ("higher", "within 5% of baseline", True),
    ("lower", "at least 95% of baseline", False),
    ("lower", "at most 3% below baseline", False),
    ("lower", "at most 105% of baseline", True),
    ("neither", "at most 105% of baseline", True),
    ("higher", "under 5 ms", True),
]


@pytest.mark.parametrize(("better", "clause", "fine"), DIRECTIONS)
def test_a_bound_on_the_improving_side_is_an_error_that_says_so(better, clause, fine):
    text = f"rules:\n- assert: x {clause}\n  better: {better}"
    if fine:
        assert load(text)[0].rules[0].better == better
    else:
        message = f"`{clause}` limits an improvement, because of `better: {better}`: limit the other side"
        assert errors(text) == [f"a.yaml:3:13: {message}"]


# --- when and expect_fail --------------------------------------------------------------------------------------------

WHEN = [
    (">= 8", 8, True),
    (">= 8", 7.5, False),
    (">=8", "16", True),
    ("> 8", 8, False),
    ("< 8", 8, False),
    ("<= 8", 8.0, True),
    ("  <=   1e1 ", 10, True),
    ("8", 8, True),
    ("8", 8.0, True),
    ("8", "8", True),
    ("8", 80, False),
    ("== 8", 8, True),
    ("!= 8", 8, False),
    ("!= 8", 9, True),
    ("*H100*", "NVIDIA H100 80GB", True),
    ("*h100*", "NVIDIA H100 80GB", False),
    ("!= *H100*", "NVIDIA H200", True),
    ("NVIDIA H[12]00", "NVIDIA H200", True),
    ("true", True, True),
    ("true", "True", False),
    (">= 8", "many", None),
    (">= 8", float("nan"), None),
    (">= 8", None, None),
    ("8", None, None),
    ("!= 8", None, None),
]


@pytest.mark.parametrize(("asked", "fact", "holds"), WHEN)
def test_facts_are_compared_as_text_or_as_numbers(asked, fact, holds):
    assert parse_condition("f", asked).holds({} if fact is None else {"f": fact}) is holds


@pytest.mark.parametrize(
    "asked", [">= x", "> nan", "< inf", ">= 1_0", ">= ٥", "=> 8", "=8", "=< 8", "<", "!", "!!8", "== >8", ">="]
)
def test_a_condition_that_could_never_hold_is_refused(asked):
    with pytest.raises(ValueError, match=r"is not a comparison|must compare with a number"):
        parse_condition("f", asked)


def test_a_wrong_condition_is_underlined():
    assert errors("rules:\n- {assert: x < 1, when: {gpu: '> fast'}}") == [
        "a.yaml:3:31: '> fast' must compare with a number"
    ]


@pytest.mark.parametrize(
    ("fact", "text"), [(True, "true"), (8, "8"), (8.0, "8"), (8.5, "8.5"), ("8.0", "8.0"), (float("inf"), "inf")]
)
def test_facts_as_text(fact, text):
    assert fact_text(fact) == text


def test_plain_facts_of_a_file_are_text():
    assert rule("{assert: x < 1, when: {n: 8.0}}").when == (Condition("n", "==", "8"),)


DATES = ["2026-02-30", "2026-13-01", "26-01-01", "tomorrow", "2026-1-1", "20260101", "", "''", "2026-01-01T00:00"]


@pytest.mark.parametrize("until", DATES)
def test_what_is_no_date(until):
    assert len(errors(f"rules:\n- {{assert: x < 1, expect_fail: {{reason: r, until: {until}}}}}")) == 1


# --- explanation -----------------------------------------------------------------------------------------------------

EXPLAINED = [
    ("x p95 under 50 ms", "the 95th percentile of x"),
    ("x p95 under 50 ms", "needs at least 59 independent values"),
    ("x median under 50 ms", "needs at least 5 independent values"),
    ("x p5 over 50 ms", "needs at least 59 independent values"),
    ("work.syncs at most 0", "passes if every step is at most 0; counts have no noise: one run decides"),
    ("work.syncs median at most 0", "needs at least 5 independent values"),
    ("x p99.99999999999 under 50 ms", "independent values"),
    ("x within 5% and 2 ms of baseline", "more than 5% and also 2 ms worse"),
    ("x at most 3% above anchor", "more than 3% higher"),
    ("x within ±5% of baseline", "better or worse"),
    ("x at most 1.1x the median rank", "at most 10% higher"),
    ("fwd* p95 on each rank < 1", "for every metric that matches"),
    ("m p95 < 1", "where m = a / b"),
    ("p99(a) / p50(a) < 3", "once for each run"),
]


@pytest.mark.parametrize(("sentence", "words"), EXPLAINED)
def test_a_rule_in_words(sentence, words):
    ruleset, _ = load(f"rules: ['{sentence}']\nmetrics: {{m: a / b}}")
    assert words in explain(ruleset.rules[0], ruleset)


def test_the_budget_of_a_rule_in_words():
    ruleset, _ = load("rules: [{assert: x within 5% of baseline, budget: 20%}]")
    assert "compares with the runs of the anchor: fails if it is clearly more than 20% worse" in explain(
        ruleset.rules[0], ruleset
    )


@pytest.mark.parametrize(("severity", "code"), [("error", 3), ("warning", 0)])
def test_the_exit_code_of_an_open_answer_in_words(severity, code):
    ruleset, _ = load(f"rules: [{{assert: x < 1, on_inconclusive: error, severity: {severity}}}]")
    assert f"what noise leaves open is undecided (exit {code})" in explain(ruleset.rules[0], ruleset)


def test_values_needed_are_those_of_the_subject():
    ruleset, _ = load("rules: [p99(a) / p50(a) < 3]")
    assert "independent values" not in explain(ruleset.rules[0], ruleset)
