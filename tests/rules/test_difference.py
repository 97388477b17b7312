"""A change to the rules is said to loosen or tighten them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done

from perfgate.rules.difference import differences
from perfgate.rules.load import load_rules


def kinds(old: str, new: str) -> list[str]:
    """The first words of the differences between two lists of rules."""
    sides = []
    for text in (old, new):
        ruleset, problems = load_rules([("rules.yaml", f"version: 1\nrules:\n{text}".encode())])
        assert ruleset is not None, problems
        sides.append(ruleset)
    return [f"{change.kind}: {change.message}" for change in differences(*sides)]


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("x under 50 ms", "x under 80 ms", "loosens"),
        ("x under 50 ms", "x under 0.05 s", None),
        ("x under 50 ms", "x below 40 ms", "tightens"),
        ("x at least 85%", "x at least 80%", "loosens"),
        ("x at least 85%", "x at most 80%", "changes"),
        ("x within 5% of baseline", "x within 8% of baseline", "loosens"),
        ("x within 5% of baseline", "x within 5% and 2 ms of baseline", "loosens"),
        ("x within 5% and 2 ms of baseline", "x within 4% and 3 ms of baseline", "changes"),
        ("x within 5% of baseline", "x within 5% of anchor", "changes"),
        ("x within ±5% of baseline", "x within 5% of baseline", "changes"),
        ("x within 5% of baseline and within 9% of anchor", "x within 5% of baseline", "loosens"),
        ("x under 50 ms", "x under 50 ms and within 9% of anchor", "tightens"),
        ("x under 50 ms", "x within 9% of anchor and under 50 ms", "tightens"),
        ("x under 50 ms", "x under 500 ms and within 50% of baseline", "changes"),
        ("x under 50 ms", "x p95 under 50 ms", "removes"),
        ("x under 50 ms", "x  under  50 ms", None),
    ],
)
def test_sentences(old: str, new: str, kind: str | None) -> None:
    found = kinds(f"  - '{old}'\n", f"  - '{new}'\n")
    assert (found[0].split(":")[0] if found else None) == kind


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "pairs: accept\n", ["loosens: loosens pairs: default → accept"]),
        ("pairs: refuse\n", "", ["loosens: loosens pairs: refuse → default"]),
        ("pairs: accept\n", "pairs: refuse\n", ["tightens: tightens pairs: accept → refuse"]),
        ("pairs: accept\n", "pairs: accept\n", []),
    ],
)
def test_pairs(old: str, new: str, said: list[str]) -> None:
    assert kinds(f"  - x under 50 ms\n{old}", f"  - x under 50 ms\n{new}") == said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "metrics:\n  a: x / y\n", "changes the metric a: none → x / y"),
        ("metrics:\n  a: x / y\n", "", "changes the metric a: x / y → none"),
        ("metrics:\n  a: x / y\n", "metrics:\n  a: x /  y\n", None),
        ("", "conditions: [cache]\n", "changes the conditions of a measurement: none → cache"),
        ("conditions: [b, a]\n", "conditions: [b]\n", "changes the conditions of a measurement: a, b → b"),
        ("conditions: [b, a]\n", "conditions: [a, b]\n", None),
        ("", "renames:\n  x: z\n", "changes the renames of metrics: none → x is z"),
        ("renames: {x: z, a: b}\n", "renames: {a: b, x: z}\n", None),
    ],
)
def test_what_is_beside_the_rules(old: str, new: str, said: str | None) -> None:
    found = kinds(f"  - x under 50 ms\n{old}", f"  - x under 50 ms\n{new}")
    assert found == ([f"changes: {said}"] if said else [])


RULE = "  - id: tail\n    assert: x under 50 ms\n"


@pytest.mark.parametrize(
    ("old", "new", "kind", "said"),
    [
        ("", "    severity: warning\n", "loosens", "severity error → warning"),
        ("    on_missing: skip\n", "", "tightens", "on_missing skip → error"),
        ("    on_inconclusive: fail\n", "", "loosens", "on_inconclusive fail → default"),
        ("    budget: 10%\n", "    budget: 20%\n", "loosens", "budget 10% → 20%"),
        ("    budget: 10%\n", "", "loosens", "budget 10% → none"),
        ("", "    budget: 10%\n", "tightens", "budget none → 10%"),
        ("    at_worst: 90 ms\n", "    at_worst: 99 ms\n", "loosens", "at_worst 90 ms → 99 ms"),
        ("    at_worst: 99 ms\n", "    at_worst: 90 ms\n", "tightens", "at_worst 99 ms → 90 ms"),
        ("    at_worst: 20%\n", "    at_worst: 90 ms\n", "changes", "at_worst 20% → 90 ms"),
        ("    at_worst: 90 ms\n", "    at_worst: 90 GB\n", "changes", "at_worst 90 ms → 90 GB"),
        (
            "    at_worst: 20% and 99 ms\n",
            "    at_worst: 30% and 90 ms\n",
            "changes",
            "at_worst 20% and 99 ms → 30% and",
        ),
        ("", "    at_worst: 90 ms\n", "changes", "at_worst default → 90 ms"),
        ("", "    when: {gpu: '*H100*'}\n", "loosens", "when always → gpu == *H100*"),
        ("", "    expect_fail: {reason: x, until: 2030-01-01}\n", "loosens", "until never → 2030-01-01"),
        ("", "    quarantine: {reason: x, until: 2030-01-01}\n", "loosens", "quarantined until never → 2030-01-01"),
        ("    quarantine: {reason: x, until: 2030-01-01}\n", "", "tightens", "until 2030-01-01 → never"),
        (
            "    quarantine: {reason: x, until: 2030-01-01}\n",
            "    quarantine: {reason: y, until: 2030-01-01}\n",
            "changes",
            "quarantined, because x → y",
        ),
        ("", "    owner: '@team/data'\n", "changes", "owner None → @team/data"),
        ("", "    min_samples: 9\n", "changes", "min_samples 1 → 9"),
        ("", "    better: higher\n", "changes", "better default → higher"),
        ("    at_worst: 20% and 90 ms\n", "    at_worst: 20.0% and 0.09 s\n", None, ""),
        ("    why: because\n", "    why: other\n", None, ""),
    ],
)
def test_settings(old: str, new: str, kind: str | None, said: str) -> None:
    found = kinds(RULE + old, RULE + new)
    assert [line.split(":")[0] for line in found] == ([kind] if kind else [])
    assert said in "".join(found)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("x under 50 ms", "x at most 50 ms", "loosens"),
        ("x at most 50 ms", "x under 50 ms", "tightens"),
        ("x at least 5 GB", "x over 5 GB", "tightens"),
        ("x over 5 GB", "x at least 5 GB", "loosens"),
        ("x under 50 ms", "x at most 40 ms", "tightens"),
        ("x under 50 ms", "x under 0.05 s", None),
        ("x within 5 ms of baseline", "x within 5 GB of baseline", "changes"),
        ("x within 5 ms of baseline", "x within 0.006 s of baseline", "loosens"),
        ("{assert: x over 85 GB, at_worst: 80 GB}", "{assert: x over 85 GB, at_worst: 70 GB}", "loosens"),
        ("{assert: x over 85 GB, at_worst: 70 GB}", "{assert: x over 85 GB, at_worst: 80 GB}", "tightens"),
        ("{assert: x over 85%, at_worst: 80%}", "{assert: x over 85%, at_worst: 70%}", "loosens"),
        (
            "{assert: x over 85 GB and within 2 GB of baseline, at_worst: 80 GB}",
            "{assert: x over 85 GB and within 2 GB of baseline, at_worst: 70 GB}",
            "changes",
        ),
        ("{assert: x over 85%, at_worst: 80%}", "{assert: x over 85%, at_worst: 80.0%}", None),
    ],
)
def test_the_direction_of_a_limit_counts(old: str, new: str, said: str | None) -> None:
    found = kinds(f"  - {old}\n", f"  - {new}\n")
    assert [line.split(":")[0] for line in found] == ([said] if said else [])


def test_rules_that_come_and_go_are_told_by_name() -> None:
    old, new = "  - id: a\n    assert: x under 1 s\n  - y under 2 s\n", "  - y under 2 s\n  - z under 3 s\n"
    assert kinds(old, new) == ["removes: removes a: x under 1 s", "adds: adds z under 3 s"]


def test_what_loosens_comes_first_and_the_command_says_it(perfgate: Callable[..., Done], folder: Path) -> None:
    for name, rules in (("old", "x under 5 ms\n  - y under 5 ms"), ("new", "x under 4 ms\n  - y under 9 ms")):
        (folder / f"{name}.yaml").write_text(f"version: 1\nrules:\n  - {rules}\n")
    done = perfgate("rules", "diff", "old.yaml", "new.yaml")
    assert done.code == 0
    assert done.out.splitlines() == [
        "rules, old.yaml → new.yaml:",
        "  loosens y under 9 ms: under 5 ms → under 9 ms (new.yaml:4:5)",
        "  tightens x under 4 ms: under 5 ms → under 4 ms (new.yaml:3:5)",
    ]
    assert "have the same meaning" in perfgate("rules", "diff", "old.yaml", "old.yaml").out
    assert perfgate("rules", "diff", "nowhere.yaml", "new.yaml").code == 3
