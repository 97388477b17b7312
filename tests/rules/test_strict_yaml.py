"""Strict YAML: what is refused and where, what scalars are, and advice for sentences that YAML bends."""

import pytest
from conftest import ends
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perfgate.core.resource_limits import DEFAULT
from perfgate.documents.yaml import load_document
from perfgate.rules.load import check_rules, load_rules


def load(text):
    return load_document("r.yaml", text if isinstance(text, bytes) else text.encode())


def nested(opening, closing, depth):
    return opening * depth + closing * depth


REFUSED = [
    ("a: 1\nb: 2\na: 3", "3:1", "the key 'a' occurs twice, first on line 1"),
    ("x: {a: 1, a: 2}", "1:11", "the key 'a' occurs twice"),
    ('a: 1\n"a": 2', "2:1", "the key 'a' occurs twice"),
    ("a: &name 1", "1:4", "anchors"),
    ("a: &name [1]", "1:4", "anchors"),
    ("&name a: 1", "1:1", "anchors"),
    ("a: *name", "1:4", "aliases"),
    ("*name : 1", "1:1", "a key must be text"),
    ("<<: {a: 1}", "1:1", "merge keys"),
    ("a: !!int 1", "1:4", "tags"),
    ("a: !x {b: 1}", "1:4", "tags"),
    ("a: !!python/object:os.system x", "1:4", "tags"),
    ("1: a", "1:1", "a key must be text"),
    ("true: a", "1:1", "a key must be text"),
    ("~: a", "1:1", "a key must be text"),
    ("[a]: b", "1:1", "a key must be text"),
    ("{a: b}: c", "1:1", "a key must be text"),
    ("a: 1\n---\nb: 2", "2:1", "a second YAML document"),
    ("a: 1\n...\n---\nb: 2", "3:1", "a second YAML document"),
    ("a: [1", "2:1", "is not valid YAML"),
    ("a:\n\t- b", "2:1", "is not valid YAML"),
    ("ä: 1\nb: x\0y", "2:5", "does not allow (U+0000)"),
    ("a: \x07", "1:4", "does not allow (U+0007)"),
    (b"ok: 1\nbad: \xff", "2:1", "is not UTF-8"),
    ("a: 1".encode("utf-16"), "1:1", "is not UTF-8"),
    ("a: 1".encode("utf-16-le"), "1:2", "does not allow (U+0000)"),
    ("a: " + nested("[", "]", 32), "1:35", "deeper than the limit rule_depth=32"),
    (nested("[", "]", 33), "1:33", "deeper than the limit rule_depth=32"),
    ("[" * 50_000, "1:33", "deeper than the limit rule_depth=32"),
    ("{a: " * 50_000, "1:129", "deeper than the limit rule_depth=32"),
    ("- " * 50_000, "1:65", "deeper than the limit rule_depth=32"),
    ("? " * 50_000, "1:65", "deeper than the limit rule_depth=32"),
    ("- a\n" * (DEFAULT.rule_values + 1), f"{DEFAULT.rule_values}:3", "more values than the limit rule_values=100000"),
]


@pytest.mark.parametrize(("text", "place", "message"), REFUSED, ids=[str(row[0])[:30] for row in REFUSED])
def test_refused_with_its_place(text, place, message):
    problem = load(text).problems[0]
    assert str(problem.at) == f"r.yaml:{place}"
    assert message in problem.message
    assert problem.severity == "error"


EXCERPTS = [
    # the file                                     what is underlined
    (b"rules:\n  - *x p95 under 5 ms\n", "*x"),
    (b"rules:\n  - &a x under 5 s\n", "&a"),
    (b"rules: []\nrules: []\n", "rules"),
    (b'rules:\n  - "[S]x" mean under 5 s\n', "mean"),
    (b"rules:\n  - forw\x07ard under 5 s\n", "\x07"),
    (b"rules:\n\t- forward under 5 s\n", " "),
    (b"rules: [" + b"x, " * 400 + b"*late]\n", "*late"),
]


@pytest.mark.parametrize(("data", "word"), EXCERPTS)
def test_the_word_is_underlined(data, word):
    problem = load_document("r.yaml", data).problems[0]
    line, marks = (text[4:] for text in problem.excerpt.split("\n"))
    start = marks.index("^")
    assert (line[start : start + len(word)], marks[start:]) == (word, "^" * len(word))
    assert len(line) <= 160


def test_a_tab_is_named_where_it_indents():
    [problem] = load_document("r.yaml", b"rules:\n\t- forward under 5 s\n").problems
    assert problem.message.endswith("YAML does not allow tabs as indentation: use spaces")


def test_a_file_over_one_mebibyte_is_not_looked_at():
    assert not load(b"#" * DEFAULT.rule_bytes).problems
    assert "than the limit rule_bytes=1MiB" in load(b"#" * (DEFAULT.rule_bytes + 1)).problems[0].message


def test_the_deepest_file_is_read():
    document = load(nested("[", "]", 32))
    assert not document.problems
    assert str(document.data) == nested("[", "]", 32)
    assert not load("[" * 32 + "1" + "]" * 32).problems


def test_all_that_is_refused_is_reported():
    found = [str(problem.at) for problem in load("a: &x 1\na: 2\nb: *x\nc: !y 3\n1: 4").problems]
    assert found == ["r.yaml:1:4", "r.yaml:2:1", "r.yaml:3:4", "r.yaml:4:4", "r.yaml:5:1"]


def test_an_alias_bomb_is_refused_at_once():
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
    assert all("aliases" in p.message or "anchors" in p.message for p in load(bomb).problems)


SCALARS = [
    ("1", 1),
    ("-7", -7),
    ("0", 0),
    ("1e-3", 0.001),
    ("1.5e3", 1500.0),
    ("-0.5", -0.5),
    ("1E2", 100.0),
    ("123456789012345678901", 123456789012345678901.0),
    ("true", True),
    ("false", False),
    ("null", None),
    ("~", None),
    ("", None),
    *((text, text) for text in ["on", "off", "yes", "NO", "y", "True", "TRUE", "Null", "017", "0x10", "0o7", "1_000"]),
    *(
        (text, text)
        for text in ["12:30:45", "12:30", "2026-01-01", ".nan", ".inf", "-.inf", "nan", "Infinity", "1e400"]
    ),
    *((text, text) for text in ["+1", ".5", "5.", "1e", "--1", "00", "95%", "5 ms", "=", "٥"]),
    ("'1'", "1"),
    ('"true"', "true"),
    ("''", ""),
    ("'null'", "null"),
    ("|-\n 1", "1"),
]


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_plain_scalars_are_what_json_says(text, value):
    document = load(f"a: {text}\n")
    assert not document.problems
    assert document.data == {"a": value}
    assert type(document.data["a"]) is type(value)


def test_positions_of_values_and_keys():
    document = load("größe: x\nlist:\n  - a\n  - {k: v}\n")
    assert str(document.location(("größe",))) == "r.yaml:1:8"
    assert str(document.location(("list",), key=True)) == "r.yaml:2:1"
    assert str(document.location(("list", 1, "k"))) == "r.yaml:4:9"
    assert str(document.location(("list", 1, "absent"))) == "r.yaml:4:5"


BENT = [
    ("*x mean under 5 ms", "a leading * as an alias"),
    ("* under 5 ms", "a leading * as an alias"),
    ("&x under 5 ms", "a leading & as an anchor"),
    ("!x under 5 ms", "a leading ! as a tag"),
    ("[Strategy]x mean under 5 ms", "a leading [ as a list"),
    ("[ab]*", "a leading [ as a list"),
    ("[a]", "a leading [ as a list"),
    ("{a} under 5 ms", "a leading { as a mapping"),
    ("{a}", "a leading { as a mapping"),
    ('"a" mean under 5 ms', 'a leading " as a quoted string'),
    ("'a' mean under 5 ms", "a leading ' as a quoted string"),
    ("%x under 5 ms", "a leading % as a directive"),
    ("@x under 5 ms", "a leading @ as a reserved character"),
    ("`x` under 5 ms", "a leading ` as a reserved character"),
    ("| x under 5 ms", "a leading | as a block of text"),
    ("> x under 5 ms", "a leading > as a block of text"),
    ("a: b: c under 5 ms", "`: ` inside a sentence"),
    ("x #1 under 5 ms", "ignores text after ` #`"),
    ("#1 under 5 ms", "ignores text after ` #`"),
]


@pytest.mark.parametrize(
    "form", ["- {}\n", "- ok under 5 ms\n- {}\n- ok under 5 ms", "- id: k\n  assert: {}\n", "- assert: {}\n"]
)
@pytest.mark.parametrize(("sentence", "what"), BENT)
def test_a_bent_sentence_is_told_to_use_single_quotes(sentence, what, form):
    text = "version: 1\nrules:\n" + form.format(sentence)
    problem = load_rules([("r.yaml", text.encode())])[1][0]
    assert what in problem.message
    assert "in single quotes" in problem.message
    assert sentence in text.splitlines()[problem.at.line - 1]


@pytest.mark.parametrize("sentence", ["a: b under 5 ms", "x under 5 ms: y"])
def test_a_sentence_that_became_a_mapping_is_told_to_use_single_quotes(sentence):
    problem = load_rules([("r.yaml", f"version: 1\nrules:\n- {sentence}".encode())])[1][0]
    assert "reads `: ` inside a sentence" in problem.message
    assert "in single quotes" in problem.message


@pytest.mark.parametrize(("sentence", "_"), BENT[:-2])
def test_the_advice_works(sentence, _):
    quoted = "'" + sentence.replace("'", "''") + "'"
    assert load(f"- {quoted}").data == [sentence]


UNRELATED = [
    "- id: a\n   assert: x under 5 ms",
    "- 'x under 5 ms'\n :",
    '- "x under 5 ms"\n :',
    "- >\n  x under 5 ms\n :",
    "- {assert: x < 5}\n :",
]


@pytest.mark.parametrize("text", UNRELATED)
def test_other_mistakes_get_no_advice_on_quotes(text):
    problem = load_rules([("r.yaml", f"version: 1\nrules:\n{text}".encode())])[1][0]
    assert "is not valid YAML" in problem.message
    assert "quotes" not in problem.message


# --- attacks ---------------------------------------------------------------------------------------------------------

yaml_like = st.lists(
    st.sampled_from(
        [
            "version: 1\n",
            "rules:\n",
            "- ",
            "x under 5 ms",
            "\n",
            "  ",
            "assert: ",
            "{",
            "}",
            "[",
            "]",
            "'",
            '"',
            ": ",
            "#",
            "metrics:\n",
            "  m: a / b\n",
            "  a: m\n",
            "suite: s\n",
            "when: ",
            "&a ",
            "*a",
            "!t ",
            "|\n",
            ">-\n",
            "---\n",
            "\t",
            "\r",
            "confidence: ",
            "95%",
            "1e999",
            "null",
            "ä",
            "\u2028",
            "\x85",
            "\ufeff",
            "? ",
            "<<: ",
            "%",
            "@",
            "expect_fail: ",
        ]
    ),
    max_size=25,
).map("".join)


@settings(deadline=2000)
@given(
    st.one_of(
        st.binary(max_size=80),
        yaml_like.map(str.encode),
        st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace")),
    )
)
@example(b"version: 1\nrules:\n- 'x undr\x85 5 ms'")
@example("version: 1\nrules:\n- >-\n  \u2028".encode())
def test_any_bytes_are_rules_or_problems(data):
    document = load_document("r.yaml", data)
    ruleset, problems = load_rules([("r.yaml", data)])
    assert (ruleset is None) == bool(problems)
    assert all(problem.message and problem.at.file == "r.yaml" for problem in (*problems, *document.problems))


@settings(deadline=2000)
@given(yaml_like, yaml_like)
def test_two_files_are_rules_or_problems(one, two):
    head = "version: 1\nrules:\n- x under 1 s\n"
    files = [("a.yaml", (head + one).encode()), ("b.yaml", (head + two).encode())]
    counts, problems = check_rules(files)
    assert problems or list(counts) == ["a.yaml", "b.yaml"]


LARGE = {
    "many duplicate keys": b"a: 1\n" * 50_000,
    "many wrong items": b"version: 1\nrules:\n" + b"- 1\n" * 4000,
    "many wrong sentences": b"version: 1\nrules:\n" + b"- x undr 5 ms\n" * 4000,
    "a chain of definitions": b"version: 1\nrules: [m0 < 1]\nmetrics:\n"
    + b"".join(b"  m%d: m%d\n" % (i, i + 1) for i in range(4000)),
    "many circles": b"version: 1\nrules: [m0 < 1]\nmetrics:\n"
    + b"".join(b"  m%d: m%d\n" % (i, i ^ 1) for i in range(4000)),
    "one circle": b"version: 1\nrules: [m0 < 1]\nmetrics:\n"
    + b"".join(b"  m%d: m%d\n" % (i, (i + 1) % 4000) for i in range(4000)),
    "one long line": b"version: 1\nrules:\n- " + b"{'\"[" * 200_000,
    "one long sentence": b"version: 1\nrules:\n- '" + b"(" * 900_000 + b"'",
}


@pytest.mark.parametrize("name", LARGE)
def test_large_files_are_refused(name):
    with ends():
        ruleset, problems = load_rules([("r.yaml", LARGE[name])])
        assert ruleset is None
        assert problems
