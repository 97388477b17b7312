"""The expression of a line pattern finds what a search word by word finds."""

from __future__ import annotations

import random

import pytest

from perfgate.mappings.line_patterns import compiled, matches, parse_pattern, searched

PATTERNS = [
    "a {x} b {y}",
    "a={x} b={y}",
    "a {x}/{} | b {y}ms",
    "a{x},b{y}",
    "a {x} b",
    "a  {x}{y} b".replace("}{", "}a{"),
]
PATTERNS += ["a {x} a {y}a", "-a- {x}-a-", "a({x}) {y}%", "b a{x}aa{y} ", "a {x}b {y} b"]
SIGNS = "aab a=1,2 /|ms()%-\t \u00e9_"


@pytest.mark.parametrize("text", PATTERNS)
def test_both_ways_find_the_same(text: str) -> None:
    pattern, source, found = parse_pattern(text), random.Random(text), 0
    expression = compiled(pattern)
    assert expression is not None
    for _ in range(300):
        pieces = [part for word in pattern.words for part in (word, source.choice(["1", "1,5", "a", "ab-2.5", "aa"]))]
        for _ in range(source.randint(0, 3)):
            pieces[source.randrange(len(pieces))] += source.choice(SIGNS)
        line = "".join(pieces * source.randint(1, 3))
        own, other = list(matches(pattern, line)), list(searched(pattern, line))
        assert [(one.fields, one.end) for one in own] == [(one.fields, one.end) for one in other], line
        assert [[one.column(name) for name in one.fields] for one in own] == [
            [one.column(name) for name in one.fields] for one in other
        ]
        found += len(own)
    assert found > 15


def test_a_pattern_that_begins_with_a_field_has_no_expression() -> None:
    assert compiled(parse_pattern("{x} ms")) is None
