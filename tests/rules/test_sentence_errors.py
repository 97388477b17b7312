"""Sentences that are not understood: the word that is underlined, and what is said of it."""

import pytest

from perfgate.rules.load import load_rules
from perfgate.rules.syntax.cursor import SentenceError
from perfgate.rules.syntax.grammar import parse_expression, parse_sentence

END = ""  # the place behind the sentence
WRONG = [
    # comparators and their misspellings
    ("x undr 50 ms", "undr", "did you mean 'under'?"),
    ("x belw 50 ms", "belw", "did you mean 'below'?"),
    ("x wihtin 5% of baseline", "wihtin", "did you mean 'within'?"),
    ("x with 5% of baseline", "with", "did you mean 'within'?"),
    ("the largest request_rate under 5", "under", "expected `with` and a limit"),
    ("the largest with x under 5 ms", "x", "expected `with` and a limit"),
    ("the largest", END, "expected a condition"),
    ("the largest rate with x* under 5 ms at least 6", "x*", "expected a metric after `with`"),
    ("the largest rate with x at least 6", END, "the sentence ends before its clause"),
    ("the largest rate with x under 5 ms", END, "the sentence ends before its clause"),
    ("the largest rate with x 5 ms at least 6", "5", "expected a statistic, a comparator"),
    ("the largest rate with x under 5 ms p95 at least 6", "the", "the subject already contains statistics"),
    ("x* with y under 5 ms at least 6", "with", "may match several metrics"),
    ("x is under 50 ms", "is", "expected a statistic, a comparator"),
    ("x 50 ms", "50", "expected a statistic, a comparator"),
    ("x at 50 ms", "at", "expected a statistic, a comparator"),
    ("x = 50 ms", "=", "= is not a comparator"),
    ("x == 50 ms", "=", "= is not a comparator"),
    ("x", END, "the sentence ends before its clause"),
    ("x p95", END, "the sentence ends before"),
    ("x under 5 ms and", END, "the sentence ends before"),
    ("x under 5 ms and p95", "p95", "expected a statistic, a comparator"),
    ("x under 5 ms 3", "3", "should end here"),
    ("x under 5 ms, over 3 ms", ",", "should end here"),
    ("x under 5 ms)", ")", "should end here"),
    ("x under 1,000 ms", "1,000", "write `1000`, or `1.000` if the comma is the decimal point"),
    ("x under 1,234,567 B", "1,234,567", "write `1234567`"),
    ("x under 0,05 s", "0,05", "no commas: write `0.05`"),
    ("x under 1,00,000 ms", "1,00,000", "no commas: write `100000`"),
    ("x within 0,5% of baseline", "0,5%", "no commas: write `0.5`"),
    # what others call it
    ("x 95p under 5 ms", "95p", "is not a percentile: write `p95`"),
    ("x 99.9p under 5 ms", "99.9p", "is not a percentile: write `p99.9`"),
    ("x 95th percentile under 5 ms", "95th", "is not a percentile: write `p95`"),
    ("95p of x under 5 ms", "95p", "is not a percentile: write `p95`"),
    ("95p(x) under 5 ms", "95p", "not a statistic: write `p95`"),
    ("x no more than 5 ms", "no more than", "is not a comparator: write `at most`"),
    ("x not less than 5 ms", "not less than", "is not a comparator: write `at least`"),
    ("x less than 5 ms", "less than", "is not a comparator: write `under`"),
    ("x greater than 5 /s", "greater than", "is not a comparator: write `over`"),
    ("x up to 5 ms", "up to", "is not a comparator: write `at most`"),
    ("x max 5 ms", "max", "is a statistic, not a comparator: write `at most`"),
    ("x p95 minimum 5 ms", "minimum", "is not a comparator: write `at least`"),
    ("p95 x under 5 ms", "x", "expected a statistic, a comparator"),
    # exact work
    ("no more works than baseline", "works", "did you mean 'work'?"),
    ("no more work then baseline", "then", "did you mean 'than'?"),
    ("no more work as baseline", "as", "expected `than baseline`"),
    ("no more work", END, "expected `than baseline`"),
    ("no more work than anchor", "anchor", "compared with the stored runs"),
    ("no more work than baselin", "baselin", "did you mean 'baseline'?"),
    ("no more device works than baseline", "works", "did you mean 'work'?"),
    ("no more kernels than baseline", "kernels", "did you mean 'work.kernels'?"),
    ("no more sync than baseline", "sync", "did you mean 'work.syncs'?"),
    ("no more forward than baseline", "forward", "expected `work` or a count of it"),
    ("no more work.device_time than baseline", "work.device_time", "device time is not a count"),
    ("no less work than baseline", "no", "expected `no more` or `same`"),
    ("not more work than baseline", "not", "expected `no more` or `same`"),
    ("same work than baseline", "than", "expected `as baseline`"),
    ("same works as baseline", "works", "did you mean 'work'?"),
    # statistics
    ("x p101 under 5 ms", "p101", "is not a percentile: write p0 to p100"),
    ("x p٩٥ under 5 ms", "p٩٥", "is not a percentile: write p0 to p100"),
    ("p95(x) mean under 5 ms", "p95", "two statistics, p95 and mean"),
    ("p95 of mean(x) under 5 ms", "p95", "two statistics"),
    ("p95(mean(x)) under 5 ms", "p95", "a statistic of a statistic"),
    ("p99(x) / p50(x) mean under 3", "p99", "already contains statistics: remove mean"),
    ("avg(x) under 5 ms", "avg", "'avg' is not a statistic: use "),
    ("mean (x) under 5 ms", "(", "expected a statistic, a comparator"),
    ("p99(x) / y under 3", "/", "STAT(...) on both"),
    ("y - p99(x) under 3", "-", "STAT(...) on both"),
    # quantities and units
    ("x under", END, "expected a quantity"),
    ("x under ms", "ms", "expected a quantity"),
    ("x under five ms", "five", "expected a quantity"),
    ("x under nan%", "nan%", "expected a quantity"),
    ("x under inf ms", "inf", "expected a quantity"),
    ("x under ٥ ms", "٥", "expected a quantity"),
    ("x under +-5 ms", "+-5", "expected a quantity"),
    ("x under 1e999 ms", "1e999", "the number 1e999 ms is too large"),
    ("x under 1e308 h", "1e308", "too large"),
    ("x under 50 sec", "sec", "did you mean 's'?"),
    ("x under 50 MS", "MS", "did you mean 'ms'?"),
    ("x under 50 mb", "mb", "did you mean 'MB'?"),
    ("x under 50 gib", "gib", "did you mean 'GiB'?"),
    ("x under 5 percent", "percent", "did you mean '%'?"),
    ("x over 5 token/s", "token/s", "did you mean 'tokens/s'?"),
    ("x under 50seconds", "50seconds", "did you mean 's'?"),
    ("x under 1_000 ms", "1_000", "unknown unit '_000'"),
    ("x under 0x10 ms", "0x10", "unknown unit 'x10'"),
    ("x under 3 bananas", "bananas", "known units are ns, us"),
    # references and tolerances
    ("x within 5% of basline", "basline", "did you mean 'baseline'?"),
    ("x within 5% of", END, "expected a reference"),
    ("x within 5%", END, "expected `of baseline`"),
    ("x within 5% off baseline", "off", "did you mean 'of'?"),
    ("x within 5 ms baseline", "baseline", "expected `of baseline`"),
    ("x within baseline", "baseline", "expected a quantity"),
    ("x within 5% and 3% of baseline", "3%", "must be one relative and one absolute"),
    ("x within 5 ms and 3 s of baseline", "s", "must be one relative and one absolute"),
    ("x within 1.1x of baseline", "1.1x", "a factor is not a tolerance"),
    ("x within -5% of baseline", "-5%", "a tolerance cannot be negative"),
    ("x within ±±5% of baseline", "±±5%", "expected a quantity"),
    ("x at most -3% above baseline", "-3%", "a tolerance cannot be negative"),
    ("x at most 3% and 2 ms of baseline", "of", "expected `above baseline`"),
    ("x at most 5 ms of baseline", "5", "a percentage or a factor"),
    ("x at most 1.1 baseline", "1.1", "a percentage or a factor"),
    # bounds that ask for an improvement, or that nothing could break
    ("x at least 3% above baseline", "3%", "limits or requires an improvement"),
    ("x over 3% below baseline", "3%", "limits or requires an improvement"),
    ("x at most 95% of baseline", "95%", "requires an improvement every time"),
    ("x at least 105% of baseline", "105%", "requires an improvement every time"),
    ("x at least 1.1x baseline", "1.1x", "limit how much worse it may get"),
    ("x at least 0% of baseline", "0%", "can never fail: write more than 0"),
    ("x at least -5% of baseline", "-5%", "can never fail: write more than 0"),
    # ranks
    ("x on rank 3 under 5 ms", "rank", "expected worst, each, slowest, fastest or median"),
    ("x on the wrost rank under 5 ms", "wrost", "expected worst, each"),
    ("x on the worst under 5 ms", "under", "expected `rank` after `on worst`"),
    ("x under 5 ms on rank", "rank", "expected worst, each"),
    ("x on each rank under 5 ms on each rank", "on", "should end here"),
    # metrics, labels and quotes
    ("", END, "expected a metric"),
    ("   ", END, "expected a metric"),
    ("() under 5 ms", ")", "expected a metric, not ')'"),
    ("< 5 ms", "<", "expected a metric"),
    ('"" under 5 ms', '""', "the name of the metric is empty"),
    ('"x under 5 ms', '"', "is not closed"),
    ("x` under 5 ms", "`", "is not closed"),
    ("'x' under 5 ms", "'", "single quotes cannot quote a name"),
    ("x{rank=0 under 5 ms", "{", "write labels as"),
    ("x} under 5 ms", "}", "write labels as"),
    ("x{rank} under 5 ms", "rank", "write labels as"),
    ("x{rank==0} under 5 ms", "rank==0", "write labels as"),
    ("x{rank='0'} under 5 ms", "rank='0'", "write labels as"),
    ("x{rank=0,} under 5 ms", "rank=0,", "write labels as"),
    ("x{a=1, b} under 5 ms", " b", "write labels as"),
    ("x{ } under 5 ms", " ", "write labels as"),
    # arithmetic
    ("x + under 5 ms", "5", "expected a statistic, a comparator"),
    ("(x + y under 5 ms", "under", "a closing bracket is missing"),
    ("x * 1e999 under 5 ms", "1e999", "too large"),
    ("fwd* / y under 3", "/", "'fwd*' may match several metrics"),
    ("y / fwd* under 3", "/", "'fwd*' may match several metrics"),
    ("+ - * /", END, "expected a metric"),
    # attacks
    ("(" * 900 + "x" + ")" * 900 + " under 5", "(", "nested too deep"),
    ("p99(" * 400, "p99", "nested too deep"),
    ("a " * 999, "a", "expected a statistic"),
    (" + ".join("a" * 102) + " under 5", "+", "too many operators: write at most 100"),
    ("{" * 2000, "{", "write labels as"),
    ('{"' * 1000, "{", "write labels as"),
    ("`" * 1999, "`", "is not closed"),
    ("a" * 2001, "a", "at most 2000 characters"),
]


@pytest.mark.parametrize(("text", "word", "message"), WRONG, ids=[row[0][:40] for row in WRONG])
def test_the_wrong_word_is_underlined_and_explained(text, word, message):
    with pytest.raises(SentenceError) as caught:
        parse_sentence(text)
    error = caught.value
    assert text[error.start : error.end] == word
    assert message in error.message
    assert word or error.start == len(text)


@pytest.mark.parametrize(("text", "word"), [("a b", "b"), ("a / b under 3", "under"), ("a /", END), ("p٩٥(a)", "p٩٥")])
def test_a_derived_metric_is_an_expression_alone(text, word):
    with pytest.raises(SentenceError) as caught:
        parse_expression(text)
    assert text[caught.value.start : caught.value.end] == word


def test_the_longest_sentence_is_read():
    name = "a" * (2000 - len(" under 5 ms"))
    assert parse_sentence(f"{name} under 5 ms").subject.pattern == name
    assert len(parse_sentence(" + ".join("a" * 101) + " under 5").text) == 409


# --- places in a file ------------------------------------------------------------------------------------------------

HEAD = "version: 1\nrules:\n"
PLACES = [
    ("- x undr 5 ms", 3, 5, "undr"),
    ("- 'x undr 5 ms'", 3, 6, "undr"),
    ('- "x undr 5 ms"', 3, 6, "undr"),
    ("- {assert: x undr 5 ms}", 3, 14, "undr"),
    ("- {assert: 'x undr 5 ms', why: undr}", 3, 15, "undr"),
    ("  -   assert:   x undr 5 ms", 3, 19, "undr"),
    ("- id: a\n  assert: x undr 5 ms", 4, 13, "undr"),
    ("- id: undr\n  assert: |\n    x undr 5 ms", 5, 7, "undr"),
    ("- >-\n  x\n  undr 5 ms\n", 5, 3, "undr"),
    ("- >-\n\n  x undr 5 ms\n", 5, 5, "undr"),
    ("- x\n  undr 5 ms", 4, 3, "undr"),
    ("- 'it''s undr 5 ms'", 3, 6, "'"),
    ("- '`it''s` undr 5 ms'", 3, 12, "undr"),
    ('- "\\"x\\" undr 5 ms"', 3, 10, "undr"),
    ('- "x un\\x64r 5 ms"', 3, 3, '"x un\\x6'),
    ("- `größe µ` undr 5 ms", 3, 3, ""),
    ("- '`größe µ` undr 5 ms'", 3, 14, "undr"),
    ("- größe undr 5 ms", 3, 9, "undr"),
    ("- 数 undr 5 ms", 3, 5, "undr"),
    ("- 🚀 undr 5 ms", 3, 5, "undr"),
    ("- x\t undr 5 ms", 3, 6, "undr"),
    ('- "x\t undr 5 ms"', 3, 7, "undr"),
    ("- undr undr 5 ms and undr", 3, 8, "undr"),
    ("- >-\n  undr undr 5 ms", 4, 8, "undr"),
    ("- x under 5 ms and", 3, 19, ""),
    ("- 'x under 5 ms and'", 3, 20, "'"),
    ('- "x under \\x35 ms and"', 3, 23, '"'),
    ("- |\n  x under 5 ms and\n\n- y < 1", 4, 19, ""),
    ("- x under\n  5 ms and", 4, 11, ""),
    ("- x under 5 ms and  # why not", 3, 19, ""),
]


def problems(text, head=HEAD):
    return load_rules([("rules/r.yaml", (head + text).encode() if isinstance(text, str) else text)])[1]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(("text", "line", "column", "word"), PLACES, ids=[row[0] for row in PLACES])
def test_the_place_of_a_wrong_word(text, line, column, word, newline):
    found = problems((HEAD + text + "\n").replace("\n", newline).encode())
    assert [(str(p.at)) for p in found] == [f"rules/r.yaml:{line}:{column}"]
    assert (HEAD + text).splitlines()[line - 1][column - 1 :].startswith(word)


@pytest.mark.parametrize(("text", "line", "column", "word"), [row for row in PLACES if row[3] == "undr"])
def test_the_carets_stand_under_the_word(text, line, column, word):
    source, carets = problems(text)[0].excerpt.splitlines()
    assert source[4:] == (HEAD + text).splitlines()[line - 1].replace("\t", " ")
    assert source[carets.index("^") : carets.rindex("^") + 1] == word


def test_a_byte_order_mark_moves_no_column():
    assert str(problems(b"\xef\xbb\xbfversion: 1\nrules:\n- x undr 5 ms\n")[0].at) == "rules/r.yaml:3:5"


def test_all_errors_of_a_file_are_reported_in_order():
    text = """\
version: 2
suit: a
metrics:
  b: x +
  c d: x
rules:
  - x undr 5 ms
  - {assert: y under 5 sec, severty: error, foo: 1}
  - {}
  - 3
  - {assert: z at most 3% above baseline, better: higher, confidence: 100%, budget: 5, expect_fail: {}}
  - {assert: "z within 5% of baseline", on_missing: wrn, when: {gpu: [a], n: "> x"}, tags: [a, a]}
"""
    found = [(p.at.line, p.at.column) for p in problems(text, "")]
    assert found == sorted(found)
    assert [line for line, _ in found] == [1, 2, 4, 5, 7, 8, 8, 8, 9, 10, *[11] * 5, *[12] * 4]
    assert len(set(map(str, problems(text, "")))) == len(found)


SCHEMA_WORDS = [
    ("- {assert: x < 5, severty: error}", "severty", "unknown field 'severty'; did you mean 'severity'?"),
    (
        "- {assert: x < 5, severity: eror}",
        "eror",
        "severity must be one of error, warning, not 'eror'; did you mean 'error'?",
    ),
    ("- {assert: x < 5, zzz: 1}", "zzz", "unknown field 'zzz'; known fields are id, assert"),
    ("- {asert: x < 5}", "asert", "unknown field 'asert'; did you mean 'assert'?"),
    ("- {why: x < 5}", "{", "the field 'assert' is missing"),
    ("- {assert: 5}", "5", "assert must be text, not 5"),
    ("- {assert: x < 5, id: a b}", "a b", "id cannot be 'a b': write, for example, allreduce-tail"),
    ("- {assert: x < 5, id: 7}", "7", "id must be text, not 7"),
    ("- {assert: x < 5, warmup: soon}", "soon", "warmup"),
    ("- {assert: x < 5, warmup: -1}", "-1", "warmup must be at least 0, not -1"),
    ("- {assert: x < 5, confidence: 0.3}", "0.3", "confidence must be over 0.5, not 0.3"),
    ("- {assert: x < 5, confidence: 95}", "95", "confidence must be under 1, not 95"),
    ("- {assert: x < 5, confidence: high}", "high", "confidence cannot be 'high': write, for example, 95%"),
    ("- {assert: x < 5, confidence: 100%}", "100%", "confidence must be between 50% and 100%"),
    ("- {assert: x < 5, power: 20%}", "20%", "power must be between 50% and 100%"),
    ("- {assert: x < 5, min_runs: 11}", "11", "min_runs must be at most 10, not 11"),
    ("- {assert: x < 5, min_runs: 1.5}", "1.5", "min_runs must be a whole number, not 1.5"),
    ("- {assert: x < 5, min_runs: true}", "true", "min_runs must be a whole number, not true"),
    ("- {assert: x < 5, tags: [a, a]}", "[", "tags must not contain a value twice"),
    ("- {assert: x < 5, when: {a b: 1}}", "a b", "the name 'a b' is not valid"),
    ("- {assert: x < 5, when: {}}", "{", "when must have at least 1 field(s)"),
    ("- {assert: x < 5, why: " + "y" * 2001 + "}", "y" * 2001, "why must have at most 2000 characters"),
    ("- " + "y" * 2001, "y" * 2001, "must have at most 2000 characters"),
    ("- ''", "'", "must have at least 1 character(s)"),
]


@pytest.mark.parametrize(("text", "word", "message"), SCHEMA_WORDS, ids=[row[2] for row in SCHEMA_WORDS])
def test_a_wrong_field_is_said_in_words_where_it_stands(text, word, message):
    found = [p for p in problems(text) if message in p.message]
    assert len(found) == 1
    column = found[0].at.column - 1
    assert text[column:].startswith(word)
    assert len(found[0].message) < 300


def test_a_misspelt_field_is_not_missing_as_well():
    assert [p.message for p in problems("- {asert: x < 5}")] == ["unknown field 'asert'; did you mean 'assert'?"]


def test_no_message_repeats_a_whole_file():
    found = problems("- x under 1 s\n" * 10_001)
    assert [p.message for p in found] == ["rules must have at most 10000 items"]
