"""The marks of a rule file in an editor: the messages of `rules check`, at the wrong word."""

from __future__ import annotations

import random

import pytest

from perfgate.core import Location
from perfgate.editor.rule_text import hint, is_rule_file, marks, offers
from perfgate.rules.load import load_rules

STORED = {"default": {"forward": "s", "step_time": "s"}}

CASES = [
    ("- forward undr 50 ms", "undr", "error", "did you mean `forward under 50 ms`?"),
    ("- 'forward undr 50 ms'", "undr", "error", "did you mean `forward under 50 ms`?"),
    ("- step time within 5%", "time", "error", "did you mean `step_time within 5% of baseline`?"),
    ("- {assert: forward under 50 msec}", "msec", "error", "did you mean"),
    ("- {assert: forward < 5 s, severty: error}", "severty", "error", "did you mean 'severity'?"),
    (
        "- forwrd under 50 ms",
        "forwrd under 50 ms",
        "warning",
        "no stored run has forwrd: the nearest names are forward",
    ),
    ("- µ🚀 undr 50 ms", "undr", "error", "unexpected 'undr'"),
    ("- forward under 50 ms\n  - [", "[", "error", "is not valid YAML"),
]


@pytest.mark.parametrize(("rule", "word", "severity", "message"), CASES, ids=[row[0] for row in CASES])
def test_a_mark_is_at_the_wrong_word(rule: str, word: str, severity: str, message: str) -> None:
    text = f"version: 1\nrules:\n  {rule}\n"
    [mark] = [mark for mark in marks("rules.yaml", text, STORED) if message in mark.message]
    assert mark.severity == severity
    assert word.startswith(text.splitlines()[mark.line][mark.start : mark.end])


def test_the_marks_are_the_problems_of_rules_check() -> None:
    text = "version: 2\nrules:\n  - x undr 5 ms\n  - {assert: y under 5 sec, severty: error}\n  - {}\n"
    problems = load_rules([("rules.yaml", text.encode())])[1]
    assert [mark.message for mark in marks("rules.yaml", text)] == [problem.message for problem in problems]
    places = [Location("rules.yaml", mark.line + 1, mark.start + 1) for mark in marks("rules.yaml", text)]
    assert places == [problem.at for problem in problems]


HALF = ["", "\n", "version: 1", "version: 1\nrules:", "version: 1\nrules:\n  - ", "\t", "{", "- *a", "a: [b", "\ud800"]


@pytest.mark.parametrize("text", HALF)
def test_half_written_files_have_marks_inside_the_text(text: str) -> None:
    lines = text.splitlines() or [""]
    for mark in marks("rules.yaml", text, STORED):
        assert 0 <= mark.line < len(lines)
        assert 0 <= mark.start < mark.end


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("/p/perf.yaml", "version: 1\nrules:\n  - x < 1\n", True),
        ("/p/rules/new.yaml", "", True),
        ("/p/rules/new.yaml", "suite: a\n", True),
        ("/p/rules/new.yaml", "suite: a\nmodel:\n  dtype: bf16\nconditions: [a]\nrenames: {a: b}\n", True),
        ("/p/rules/alerts.yaml", "groups:\n  - name: a\n", False),
        ("/p/role.yaml", "apiVersion: v1\nkind: ClusterRole\nrules:\n  - verbs: []\n", False),
        ("/p/compose.yaml", "version: 1\nservices: {}\n", False),
    ],
)
def test_other_yaml_files_are_left_alone(path: str, text: str, expected: bool) -> None:
    assert is_rule_file(path, text) is expected


def test_a_hostile_file_has_marks_and_no_more() -> None:
    """Half of the places are in no line of the text."""
    source = random.Random(7)
    words = [
        *"{}[]()&*!|>'\"\t\n%@`#,:?-",
        "\x00",
        "\ud800",
        "\u202e",
        "é",
        "<<: *a",
        "&a [*a]",
        "9" * 400,
        "x + " * 99,
    ]
    words += ["!!python/object/apply:os.abort []", "[" * 3000, " " * 3000, "- " * 300, "rules:\n  - x under 1 s\n"]
    for _ in range(60):
        text = list(
            "version: 1\nrules:\n  - forward within 10% of baseline\n  - {assert: x under 1 s, when: {gpu: a}}\n"
        )
        for _ in range(source.randint(1, 6)):
            text[source.randrange(len(text))] = source.choice(words)
        hostile = "".join(text)
        assert all(one.message and 0 <= one.start < one.end for one in marks("rules.yaml", hostile))
        line, column = source.randrange(8), source.randrange(80)
        hint("rules.yaml", hostile, line, column)
        offers(hostile, line, column)
