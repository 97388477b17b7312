"""Rule files of one MiB that are made to take time or memory: refused, with few messages."""

from __future__ import annotations

import tracemalloc

import pytest

from perfgate.rules.load import load_rules

HEAD = "version: 1\nrules:"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (f"{HEAD}\n" + "".join(f"- x under {i} s\n" for i in range(55_000)), "rules must have at most 10000"),
        (f"{HEAD}\n" + "- {}\n" * 99_000, "rules must have at most 10000"),
        (f"{HEAD} [" + "{}," * 99_000 + "]", "rules must have at most 10000"),
        (f"{HEAD} [" + "!a b," * 90_000 + "]", "tags (!name) are not used"),
        (f"{HEAD} [x under 1 s]\n" + "".join(f"k{i}: 1\n" for i in range(45_000)), "unknown field 'k0'"),
        (f"{HEAD} [x under 1 s]\nconditions:\n" + "- k\n" * 90_000, "conditions must have at most 50"),
    ],
    ids=["rules", "empty rules", "one line", "tags", "unknown fields", "conditions"],
)
def test_a_file_of_very_many_mistakes_has_few_messages(text: str, first: str) -> None:
    ruleset, problems = load_rules([("r.yaml", text.encode())])
    assert ruleset is None
    assert problems[0].message.startswith(first)
    assert len(problems) <= 200


def test_many_values_in_one_line_need_little_memory() -> None:
    """Each value had a copy of the rest of its line: 20,000 values of a line of 60 KB needed 600 MB."""
    text = f"{HEAD} [" + "{}," * 20_000 + "]"
    tracemalloc.start()
    load_rules([("r.yaml", text.encode())])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20
