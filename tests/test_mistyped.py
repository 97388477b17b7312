"""A small mistake is answered with its cause, and with what was probably meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, write_rules, write_run

from perfgate.core import Problem
from perfgate.rules.load import load_rules

Command = Callable[..., Done]

#: Rules with a line in the wrong column: the line, and what is said about it.
INDENTED = [
    ("rules:\n  - assert: x < 5\n   why: y\n", "4:4", "`why` begins in column 4, the fields above it in column 1 or 5"),
    ("rules:\n- assert: x < 5\n    why: y\n", "4:8", "`why` begins in column 5, the fields above it in column 1 or 3"),
    (" suite: a\nrules:\n  - x < 5\n", "2:7", "`suite` begins in column 2, the fields above it in column 1"),
    ("rules:\n  - x < 5\n  suite: a\n", "4:3", "`suite` begins in column 3, the fields above it in column 1"),
    ("rules:\n  - x < 5\n - x < 6\n", "4:2", "`-` begins in column 2, the items above it in column 3"),
    ("rules:\n- x < 5\n\n  - x < 6\n", "5:3", "part of the sentence in line 3: check the indentation"),
]
#: Fields below a rule that is a sentence.
BELOW_SENTENCES = [
    ("rules:\n- x < 5\n  why: y\n", "`why` needs a field above it: write `- assert: x < 5`"),
    ("rules:\n  - x p95 under 5 ms\n    id: y\n", "`id` needs a field above it: write `- assert: x p95 under 5 ms`"),
]
#: Rules that are wrong for another reason.
NOT_INDENTED = [
    "rules:\n  - assert: x < 5\n    when: {gpu: a: b}\n",
    "rules:\n  - assert: x < 5\n    when:\n      gpu: 'a': b\n",
    "rules:\n- x < 5\n- 'x' < 5\n",
    "rules:\n  - x -\n    y below\n",
]


def problems_of(text: str) -> list[Problem]:
    return load_rules([("r.yaml", f"version: 1\n{text}".encode())])[1]


@pytest.mark.parametrize(("text", "place", "said"), INDENTED, ids=[row[0].splitlines()[-1] for row in INDENTED])
def test_wrong_indentation_is_named(text: str, place: str, said: str) -> None:
    first = problems_of(text)[0]
    assert (first.severity, str(first.at)) == ("error", f"r.yaml:{place}")
    assert "check the indentation" in first.message
    assert said in first.message


@pytest.mark.parametrize(("text", "said"), BELOW_SENTENCES)
def test_a_field_below_a_sentence_is_told_what_to_write(text: str, said: str) -> None:
    assert f"is not valid YAML: {said} (" in problems_of(text)[0].message


@pytest.mark.parametrize("text", NOT_INDENTED)
def test_nothing_else_is_called_indentation(text: str) -> None:
    problems = problems_of(text)
    assert problems
    assert not any("indentation" in problem.message for problem in problems)


COMMANDS = [
    ("approve", "'baseline approve'"),
    ("approv", "'baseline approve'"),
    ("add", "'baseline add' or 'history add'"),
    ("validate", "'rules check'"),
    ("valdate", "'rules check'"),
    ("chek", "'check'"),
    ("calibrat", "'rules --calibrate'"),
    ("baselines", "'baseline'"),
]


@pytest.mark.parametrize(("word", "meant"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_a_command_without_its_group_is_named_with_it(perfgate: Command, word: str, meant: str) -> None:
    done = perfgate(word, "x.json")
    assert (done.code, f"No such command '{word}'. Did you mean {meant}?" in done.err) == (2, True), done.said


def test_a_mistyped_suite_is_not_taken_for_a_new_one(perfgate: Command, folder: Path) -> None:
    run = write_run(folder / "a.json")
    write_rules(folder, "forward within 5% of baseline", head="suite: gpt-small\n")
    assert perfgate("baseline", "approve", run, "--reason", "first").code == 0
    write_rules(folder, "forward within 5% of baseline", head="suite: gpt-smal\n")
    new = write_run(folder / "b.json", seed=2)
    said = " ".join(perfgate("check", new).out.split())
    assert "suite gpt-smal has no baseline in baselines (did you mean 'gpt-small'?)" in said
    assert '→ correct `suite` in rules/rules.yaml, or make one: perfgate baseline approve b.json --reason "..."' in said
    assert "(did you mean 'gpt-small'?)" in perfgate("baseline", "add", new).said
    write_rules(folder, "forward within 5% of baseline", head="suite: vision\n")
    assert "did you mean" not in perfgate("check", new).out


HEADINGS = [
    ("the YAML is broken", "suite: a\nrules:\n  - 'x\n", ""),
    ("a rule is wrong", "suite: a\nrules:\n  - x undr 5 ms\n", "suite a"),
    ("the suite is not text", "suite: [a]\nrules:\n  - x under 5 ms\n", ""),
    ("the default suite", "rules:\n  - x undr 5 ms\n", "suite default"),
]


@pytest.mark.parametrize(("text", "heading"), [row[1:] for row in HEADINGS], ids=[row[0] for row in HEADINGS])
def test_a_report_of_wrong_rules_names_a_suite_only_if_it_was_read(
    perfgate: Command, folder: Path, text: str, heading: str
) -> None:
    (folder / "r.yaml").write_text(f"version: 1\n{text}")
    done = perfgate("check", write_run(folder / "a.json"), "--rules", "r.yaml", "--junit", "j.xml")
    first = done.out.splitlines()[0]
    assert (done.code, first if heading else first.partition(":")[0]) == (2, heading or "r.yaml"), done.said
    assert ("default" in (folder / "j.xml").read_text()) == (heading == "suite default")
