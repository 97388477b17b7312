"""The section `run` of `perfgate.yaml`: what it means, and the place of every mistake in it."""

from __future__ import annotations

import pytest

from perfgate.mappings.document import load_mapping_files

NAME = "rules/perfgate.yaml"


def load(text: str) -> tuple[object, list[str]]:
    found = load_mapping_files([(NAME, text.encode())])
    return found.command, [str(problem).splitlines()[0] for problem in found.problems]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("command: python train.py {results}/a.json", ("python", "train.py", "{results}/a.json")),
        ("command: 'sh -c \"a > b\"'", ("sh", "-c", "a > b")),
        ("command: [sh, -c, 'a > b']", ("sh", "-c", "a > b")),
        ("command: [prog, '']", ("prog", "")),
        ("command: >-\n    python\n    train.py", ("python", "train.py")),
    ],
)
def test_the_words_of_a_command(text: str, words: tuple[str, ...]) -> None:
    found = load_mapping_files([(NAME, f"run:\n  {text}\n".encode())])
    assert found.problems == ()
    assert found.command is not None
    assert found.command.words == words


def test_everything_that_a_command_needs() -> None:
    text = "run:\n  command: make bench\n  results: out/*.json\n  build: make -j8\n  env: {THREADS: 1, MODE: fast}\n"
    found = load_mapping_files([(NAME, text.encode())]).command
    assert found is not None
    assert (found.results, found.build) == (("out/*.json",), ("make", "-j8"))
    assert found.env == (("THREADS", "1"), ("MODE", "fast"))
    assert str(found.at) == "rules/perfgate.yaml:1:1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("run:\n  comand: x\n", "2:3: error: unknown field 'comand'; did you mean 'command'?"),
        ("run:\n  results: x\n", "2:3: error: the field 'command' is missing"),
        ("run:\n  command: python t.py > log\n", "2:12: error: `command` runs without a shell: write sh -c '...'"),
        ("run:\n  command: a && b\n", "2:12: error: `command` runs without a shell"),
        ("run:\n  command: x\n  build: make; make x\n", "3:10: error: `build` runs without a shell"),
        ('run:\n  command: "it\'s"\n', "2:12: error: `command` cannot be split into words: No closing quotation"),
        ("run:\n  command: '  '\n", "2:12: error: `command` is empty"),
        ("run:\n  command: []\n", "2:12: error"),
        ("run:\n  command: x\n  results: /tmp/x\n", "3:12: error: results cannot be '/tmp/x'"),
        ("run:\n  command: x\n  env: {A: [1]}\n", "3:12: error"),
        ("run: python train.py\n", "1:6: error"),
        ("{}\n", "1:1: error: the file is empty: write `mappings:`"),
    ],
)
def test_mistakes_have_a_place(text: str, said: str) -> None:
    command, problems = load(text)
    assert command is None
    assert problems[0].startswith(f"{NAME}:{said}"), problems


def test_two_commands_are_a_mistake() -> None:
    files = [("rules/perfgate.yaml", b"run: {command: a}\n"), ("rules/b/perfgate.yaml", b"run: {command: b}\n")]
    (problem,) = load_mapping_files(files).problems
    assert str(problem.at) == "rules/b/perfgate.yaml:1:1"
    assert "there is a command at rules/perfgate.yaml:1:1 already" in problem.message
