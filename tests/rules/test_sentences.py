"""Sentences that are understood: each part of them, as the contract writes it."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perfgate.core.units import UNITS, Quantity
from perfgate.rules.syntax.cursor import SentenceError, tokenize
from perfgate.rules.syntax.grammar import parse_expression, parse_sentence
from perfgate.rules.syntax.sentence import (
    Arithmetic,
    ChangeClause,
    KeptLimit,
    LabelTest,
    LargestLoad,
    LimitClause,
    Number,
    Selector,
    StatisticOf,
    WorkClause,
)


def name(pattern, *labels, quoted=False):
    return Selector(pattern, quoted, tuple(LabelTest(*label) for label in labels))


def parts(text):
    """Subject, statistic, rank choice, and each clause in short."""
    sentence = parse_sentence(text)
    return sentence.subject, sentence.statistic, sentence.rank, *(short(clause.asks) for clause in sentence.clauses)


def short(asks):
    if isinstance(asks, LimitClause):
        return asks.comparator, asks.bound.value, asks.bound.unit and asks.bound.unit.symbol
    return asks.reference, asks.side, asks.relative, asks.absolute and str(asks.absolute)


def kept(metric, limit, statistic=None):
    return KeptLimit(name(metric), statistic, parse_sentence(f"x {limit}").clauses[0].asks)


def over(left, right, operator="/"):
    return Arithmetic(operator, left, right)


CONTRACT = [
    ("backward_allreduce p95 under 50 ms", name("backward_allreduce"), "p95", None, ("under", 0.05, "ms")),
    ("forward_backward within 5% of baseline", name("forward_backward"), None, None, ("baseline", "worse", 0.05, None)),
    ("forward* median at most 3% above baseline", name("forward*"), "median", None, ("baseline", "upper", 0.03, None)),
    ("step.time within 5% and 2 ms of baseline", name("step.time"), None, None, ("baseline", "worse", 0.05, "2 ms")),
    ("x mean at least 95% of baseline", name("x"), "mean", None, ("baseline", "lower", 0.05, None)),
    ("gpu.utilization at least 85%", name("gpu.utilization"), None, None, ("at least", 0.85, "%")),
    ("comm_share p95 under 20%", name("comm_share"), "p95", None, ("under", 0.2, "%")),
    (
        "p99(step.time) / p50(step.time) under 3",
        over(StatisticOf("p99", name("step.time")), StatisticOf("p50", name("step.time"))),
        None,
        None,
        ("under", 3, None),
    ),
    (
        "forward median on the slowest rank at most 1.1x the median rank",
        name("forward"),
        "median",
        "slowest",
        ("median rank", "upper", 0.1, None),
    ),
    (
        "memory.peak_allocated within 1% of baseline and within 10% of anchor",
        name("memory.peak_allocated"),
        None,
        None,
        ("baseline", "worse", 0.01, None),
        ("anchor", "worse", 0.1, None),
    ),
    (
        '"[Strategy]SingleDeviceStrategy.backward" mean under 12 ms',
        name("[Strategy]SingleDeviceStrategy.backward", quoted=True),
        "mean",
        None,
        ("under", 0.012, "ms"),
    ),
    (
        "aten::mm.self_device_time within 5% of baseline",
        name("aten::mm.self_device_time"),
        None,
        None,
        ("baseline", "worse", 0.05, None),
    ),
    (
        "the largest request_rate with p99_ttft under 500 ms at least 6",
        LargestLoad(name("request_rate"), True, (kept("p99_ttft", "under 500 ms"),)),
        None,
        None,
        ("at least", 6, None),
    ),
    (
        'the largest concurrency{model="*8B"} with ttft p99 < 0.5 s and p99_itl at most 20 ms within 5% of baseline',
        LargestLoad(
            name("concurrency", ("model", "*8B", False)),
            True,
            (kept("ttft", "under 0.5 s", "p99"), kept("p99_itl", "at most 20 ms")),
        ),
        None,
        None,
        ("baseline", "worse", 0.05, None),
    ),
    (
        "request_throughput with p99_ttft under 500 ms at least 6 /s and within 10% of anchor",
        LargestLoad(name("request_throughput"), False, (kept("p99_ttft", "under 500 ms"),)),
        None,
        None,
        ("at least", 6, "/s"),
        ("anchor", "worse", 0.1, None),
    ),
    (
        'backward_allreduce{rank="0"} p99 under 1 s',
        name("backward_allreduce", ("rank", "0", False)),
        "p99",
        None,
        ("under", 1, "s"),
    ),
]


@pytest.mark.parametrize(("text", "expected"), [(row[0], row[1:]) for row in CONTRACT], ids=[r[0] for r in CONTRACT])
def test_every_example_of_the_contract(text, expected):
    assert parts(text) == (*expected[:3], *(pytest.approx(clause) for clause in expected[3:]))


COMPARATORS = {
    "under": ["under", "below", "<"],
    "at most": ["at most", "<="],
    "over": ["over", "above", ">"],
    "at least": ["at least", ">="],
}


@pytest.mark.parametrize(("word", "meaning"), [(w, m) for m, words in COMPARATORS.items() for w in words])
def test_each_comparator(word, meaning):
    assert short(parse_sentence(f"x {word} 2 s").clauses[0].asks) == (meaning, 2, "s")


@pytest.mark.parametrize("text", ["x<2s", "x <2s", "x< 2 s", "x  <\t2  s"])
def test_signs_need_no_blanks(text):
    assert parts(text) == (name("x"), None, None, ("under", 2, "s"))


STATISTICS = ["mean", "median", "min", "max", "total", "count", "stddev", "cv", "trimmed_mean"]
STATISTICS += ["p0", "p5", "p05", "p50", "p99", "p99.9", "p99.99", "p100"]


@pytest.mark.parametrize("form", ["x {} under 1 s", "{} of x under 1 s", "{}(x) under 1 s"])
@pytest.mark.parametrize("statistic", STATISTICS)
def test_each_statistic_before_and_after_the_metric(statistic, form):
    assert parts(form.format(statistic))[:2] == (name("x"), statistic)


RANKS = {
    "worst": ["on the worst rank", "on worst rank"],
    "slowest": ["on the slowest rank", "on slowest rank"],
    "fastest": ["on the fastest rank"],
    "median": ["on the median rank"],
    "each": ["on each rank"],
    "across": ["across ranks"],
}


@pytest.mark.parametrize(
    "form", ["x p95 {} under 1 s", "x {} p95 under 1 s", "x p95 under 1 s {}", "p95 of x {} < 1 s"]
)
@pytest.mark.parametrize(("words", "choice"), [(w, choice) for choice, row in RANKS.items() for w in row])
def test_each_rank_choice_in_each_place(words, choice, form):
    assert parts(form.format(words)) == (name("x"), "p95", choice, ("under", 1, "s"))


REFERENCES = [
    ("within 5% of baseline", "baseline", "worse", 0.05, None),
    ("within 5% of the baseline", "baseline", "worse", 0.05, None),
    ("within 5% of anchor", "anchor", "worse", 0.05, None),
    ("within 5% of the median rank", "median rank", "worse", 0.05, None),
    ("within 5% of median rank", "median rank", "worse", 0.05, None),
    ("within 5% of the fastest rank", "fastest rank", "worse", 0.05, None),
    ("within 5% of the slowest rank", "slowest rank", "worse", 0.05, None),
    ("within ±5% of baseline", "baseline", "both", 0.05, None),
    ("within ± 5% of baseline", "baseline", "both", 0.05, None),
    ("within ±5% and 2 ms of baseline", "baseline", "both", 0.05, "2 ms"),
    ("within 2 ms and 5% of baseline", "baseline", "worse", 0.05, "2 ms"),
    ("within 2 ms of baseline", "baseline", "worse", None, "2 ms"),
    ("within 2 pp of baseline", "baseline", "worse", None, "2 pp"),
    ("within 0% of baseline", "baseline", "worse", 0, None),
    ("within 3 of baseline", "baseline", "worse", None, "3"),
    ("at most 3% above baseline", "baseline", "upper", 0.03, None),
    ("under 3% above baseline", "baseline", "upper", 0.03, None),
    ("at most 3% and 2 ms above baseline", "baseline", "upper", 0.03, "2 ms"),
    ("at most 3% below the baseline", "baseline", "lower", 0.03, None),
    ("at most 105% of baseline", "baseline", "upper", 0.05, None),
    ("under 105% of baseline", "baseline", "upper", 0.05, None),
    ("at most 1.1x baseline", "baseline", "upper", 0.1, None),
    ("at most 1.1x of baseline", "baseline", "upper", 0.1, None),
    ("at most 1.1 x the fastest rank", "fastest rank", "upper", 0.1, None),
    ("at most 100% of anchor", "anchor", "upper", 0, None),
    ("at least 95% of baseline", "baseline", "lower", 0.05, None),
    ("over 0.95x baseline", "baseline", "lower", 0.05, None),
    ("at least 95% of the slowest rank", "slowest rank", "lower", 0.05, None),
]


@pytest.mark.parametrize(("clause", "expected"), [(row[0], row[1:]) for row in REFERENCES])
def test_each_way_to_name_a_reference(clause, expected):
    assert parts(f"x {clause}") == (name("x"), None, None, expected)


SECOND = [
    ("x under 5 ms and over 1 ms", ("under", 0.005, "ms"), ("over", 0.001, "ms")),
    ("x under 5 and < 3 s", ("under", 5, None), ("under", 3, "s")),
    ("x within 5% of baseline and under 1 s", ("baseline", "worse", 0.05, None), ("under", 1, "s")),
    (
        "x at most 3% above baseline and within 9% of anchor",
        ("baseline", "upper", 0.03, None),
        ("anchor", "worse", 0.09, None),
    ),
    ("x under 9 s and under 8 s and under 7 s", ("under", 9, "s"), ("under", 8, "s"), ("under", 7, "s")),
]


@pytest.mark.parametrize(("text", "clauses"), [(row[0], row[1:]) for row in SECOND])
def test_and_before_a_comparator_begins_another_clause(text, clauses):
    assert parts(text)[3:] == clauses


def test_each_clause_keeps_its_own_words():
    sentence = parse_sentence("p95 of step.time on each rank within 5% and 2 ms of baseline  and  < 1s")
    assert [clause.text for clause in sentence.clauses] == ["within 5% and 2 ms of baseline", "< 1s"]
    assert sentence.subject_text == "step.time"


SELECTORS = [
    ("x{rank=0}", name("x", ("rank", "0", False))),
    ('x{rank!="0"}', name("x", ("rank", "0", True))),
    ("x{rank=`0`}", name("x", ("rank", "0", False))),
    ('x{ name = "warm*" , rank != 1 }', name("x", ("name", "warm*", False), ("rank", "1", True))),
    ('x{name="a, b}=c"}', name("x", ("name", "a, b}=c", False))),
    ('x{name="tick`"}', name("x", ("name", "tick`", False))),
    ('x{name=""}', name("x", ("name", "", False))),
    ("x{}", name("x")),
    ("x {rank=0}", name("x", ("rank", "0", False))),
    ("forward*", name("forward*")),
    ("*", name("*")),
    ("f?rw[ao]rd", name("f?rw[ao]rd")),
    ('"a b(c) = *"', name("a b(c) = *", quoted=True)),
    ('`say "hi"`', name('say "hi"', quoted=True)),
    ('"x"{rank="0"}', name("x", ("rank", "0", False), quoted=True)),
    ('"under"', name("under", quoted=True)),
    ('"p95"', name("p95", quoted=True)),
    ("a-b", name("a-b")),
    ("a+b", name("a+b")),
    ("a/b", name("a/b")),
    ("comm::all_reduce#2", name("comm::all_reduce#2")),
    ("größe", name("größe")),
    ("1forward", name("1forward")),
]


@pytest.mark.parametrize(("text", "selector"), SELECTORS)
@pytest.mark.parametrize("form", ["{} under 1 s", "p95 of {} under 1 s", "p95({}) under 1 s"])
def test_metrics_and_labels(text, selector, form):
    assert parts(form.format(text))[0] == selector


LOOKALIKES = [
    "under",
    "within",
    "and",
    "of",
    "on",
    "baseline",
    "rank",
    "mean",
    "median",
    "p95",
    "total",
    "the",
    "ms",
    "x",
]


@pytest.mark.parametrize("word", LOOKALIKES)
def test_a_metric_may_be_called_like_a_word_of_the_language(word):
    assert parts(f"{word} p95 under 1 s") == (name(word), "p95", None, ("under", 1, "s"))


def test_mean_of_a_metric_called_like_a_statistic():
    assert parts("mean of p95 under 1 s")[:2] == (name("p95"), "mean")


A, B, C = name("a"), name("b"), name("c")
ARITHMETIC = [
    ("a - b", over(A, B, "-")),
    ("a + b * c", over(A, over(B, C, "*"), "+")),
    ("(a + b) * c", over(over(A, B, "+"), C, "*")),
    ("a - b - c", over(over(A, B, "-"), C, "-")),
    ("a / b / c", over(over(A, B), C)),
    ("a / (b / c)", over(A, over(B, C))),
    ("1 - a / 2.5e3", over(Number(1), over(A, Number(2500)), "-")),
    ("a-b - c", over(name("a-b"), C, "-")),
    ("a{rank=0} / b", over(name("a", ("rank", "0", False)), B)),
    ("((a))", A),
    ('"a b" * b', over(name("a b", quoted=True), B, "*")),
    ("*", name("*")),
]


@pytest.mark.parametrize(("text", "expected"), ARITHMETIC)
def test_arithmetic_has_the_usual_precedence(text, expected):
    assert parts(f"{text} under 1 s")[0] == expected
    assert parse_expression(text) == expected


def test_a_statistic_after_an_expression_is_of_the_whole():
    assert parts("a / b p95 under 20%")[:2] == (over(A, B), "p95")


def test_statistics_are_scaled_by_constants():
    assert parts("2 * p99(a) under 1 s")[0] == over(Number(2), StatisticOf("p99", A), "*")


GLUED = tuple(symbol for symbol in UNITS if symbol != "1/s")  # 21/s is 21 a second


@pytest.mark.parametrize("symbol", GLUED)
def test_every_unit_with_and_without_a_blank(symbol):
    with_blank, without = (parse_sentence(f"x under 2{blank}{symbol}").clauses[0].asks.bound for blank in (" ", ""))
    assert with_blank == without
    assert with_blank.value == 2 * UNITS[symbol].factor


NUMBERS = [("5", 5), ("5.", 5), (".5", 0.5), ("+5", 5), ("-5", -5), ("1e3", 1000), ("1.5E-3", 0.0015), ("0", 0)]


@pytest.mark.parametrize(("text", "number"), NUMBERS)
def test_numbers(text, number):
    assert parse_sentence(f"x under {text} ms").clauses[0].asks.bound.number == number


@pytest.mark.parametrize(
    ("text", "shown"), [("50ms", "50 ms"), ("50  ms", "50 ms"), ("5 %", "5%"), ("2 x", "2x"), ("3", "3")]
)
def test_quantities_are_shown_as_people_write_them(text, shown):
    assert str(parse_sentence(f"x under {text}").clauses[0].asks.bound) == shown


# --- sentences made at random ----------------------------------------------------------------------------------------

plain_names = st.from_regex(r"[a-z][a-z_.:#-]{0,8}", fullmatch=True).filter(
    lambda word: word not in ("of", "on", "across", "and", "within", "at") and word[-1] not in ":"
)
quoted_names = st.text(st.characters(exclude_characters='"', exclude_categories=["Cs"]), min_size=1, max_size=8)
labels = st.lists(
    st.tuples(
        st.from_regex(r"[a-z_][\w.-]{0,4}", fullmatch=True),
        st.text(st.characters(exclude_characters='"', exclude_categories=["Cs"]), max_size=5),
        st.booleans(),
    ),
    max_size=3,
)


@st.composite
def selectors(draw):
    quoted = draw(st.booleans())
    tests = draw(labels)
    text = f'"{word}"' if (word := draw(quoted_names if quoted else plain_names)) and quoted else word
    text += "{" + ", ".join(f'{n}{"!=" if no else "="}"{p}"' for n, p, no in tests) + "}" if tests else ""
    return text, name(word, *tests, quoted=quoted)


@st.composite
def quantities(draw, symbols=GLUED):
    number, symbol = draw(st.integers(1, 9999)), draw(st.sampled_from(symbols))
    return f"{number}{draw(st.sampled_from(['', ' ']))}{symbol}", Quantity(number, UNITS[symbol], "").value, symbol


@st.composite
def clauses(draw):
    if draw(st.booleans()):
        word = draw(st.sampled_from([(w, m) for m, row in COMPARATORS.items() for w in row]))
        text, value, symbol = draw(quantities())
        return f"{word[0]} {text}", (word[1], value, symbol)
    share, reference = draw(st.integers(0, 99)), draw(st.sampled_from(["baseline", "anchor", "slowest rank"]))
    both, joined = draw(st.booleans()), draw(st.booleans())
    absolute = "7 MiB" if joined else None
    text = f"within {'±' * both}{share}%{' and 7MiB' * joined} of {reference}"
    return text, (reference, "both" if both else "worse", share / 100, absolute)


@given(
    st.lists(selectors(), min_size=1, max_size=4),
    st.sampled_from("+-*/"),
    st.sampled_from([None, *STATISTICS]),
    st.sampled_from([("", None), *((w, c) for c, row in RANKS.items() for w in row)]),
    st.lists(clauses(), min_size=1, max_size=3),
    st.sampled_from([" ", "  ", "\t", "\n"]),
)
def test_a_sentence_made_of_parts_reads_back_as_those_parts(operands, operator, statistic, rank, asked, blank):
    assume(rank[1] not in ("each", "across") or not any("rank" in text for text, _ in asked))
    expected = operands[0][1]
    for _, operand in operands[1:]:
        expected = Arithmetic(operator, expected, operand)
    subject = f"{blank}{operator}{blank}".join(text for text, _ in operands)
    words = [subject, statistic or "", rank[0], " and ".join(text for text, _ in asked)]
    assert parts(blank.join(filter(None, words))) == (expected, statistic, rank[1], *(c for _, c in asked))


VOCABULARY = [*STATISTICS[:3], "x", '"y z"', "5", "5%", "1.1x", "ms", "on", "the", "rank", "of", "and", "at", "most"]
VOCABULARY += [
    "within",
    "baseline",
    "above",
    "(",
    ")",
    "{",
    "}",
    '{a="b"}',
    "<",
    ">=",
    "=",
    ",",
    "+",
    "/",
    "±",
    "*",
    '"',
    "`",
]
scrambled = st.lists(st.sampled_from(VOCABULARY), max_size=14).map(" ".join)


@given(st.one_of(st.text(max_size=60), scrambled, scrambled.map(lambda text: text.replace(" ", ""))))
def test_any_text_is_a_sentence_or_a_sentence_error_inside_it(text):
    for parse in (parse_sentence, parse_expression):
        error = refusal(parse, text)
        if error:
            assert error.message
            assert 0 <= error.start <= len(text)
            assert error.start < error.end <= len(text) + 1


def refusal(parse, text):
    try:
        parse(text)
    except SentenceError as error:
        return error
    return None


@given(st.one_of(st.text(max_size=60), scrambled))
def test_the_columns_of_words_slice_the_sentence(text):
    if refusal(tokenize, text):
        return
    tokens = tokenize(text)
    assert [text[token.start : token.end] for token in tokens] == [token.text for token in tokens]
    ends = [0, *(token.end for token in tokens)]
    assert not "".join(text[end : token.start] for end, token in zip(ends, tokens, strict=False)).strip()


def test_changes_and_limits_are_told_apart():
    assert isinstance(parse_sentence("x under 5%").clauses[0].asks, LimitClause)
    assert isinstance(parse_sentence("x under 5% above baseline").clauses[0].asks, ChangeClause)


@pytest.mark.parametrize(
    ("text", "subject", "same", "device"),
    [
        ("no more work than baseline", name("work.*"), False, False),
        ("no more device work than the baseline", name("work.*"), False, True),
        ("same work as baseline", name("work.*"), True, False),
        ("no more work.cop* than baseline", name("work.cop*"), False, False),
        ('same work.copies{kind="DtoH"} as baseline', name("work.copies", ("kind", "DtoH", False)), True, False),
    ],
)
def test_exact_work(text, subject, same, device):
    sentence = parse_sentence(text)
    assert (sentence.subject, sentence.clauses[0].asks) == (subject, WorkClause(same, device))
