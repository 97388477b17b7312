"""What the pages show is true: the README's commands, its example's output, and its table of the language."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done

from perfgate.rules.grammar import parse_sentence
from perfgate.rules.ruleset import Settings
from perfgate.schemas import schema

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")

Command = Callable[..., Done]


@pytest.fixture
def example(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, as the working directory."""
    shutil.copytree(ROOT / "examples" / "tiny-gpt", folder / "tiny-gpt")
    monkeypatch.chdir(folder / "tiny-gpt")
    return folder / "tiny-gpt"


def test_the_first_block_holds_the_two_commands() -> None:
    block = re.search(r"```sh\n(.*?)```", README, re.DOTALL)
    assert block is not None
    first, second = block[1].strip().splitlines()
    assert first.endswith("perfgate check runs/change.log")
    assert second.endswith("-m pytest")
    assert "README.md" in (ROOT / ".ci" / "run").read_text()


def test_the_example_passes_and_its_slow_version_fails(perfgate: Command, example: Path) -> None:
    assert perfgate("check", "runs/change.log").code == 0
    done = perfgate("check", "runs/slow.log")
    assert done.code == 1
    shown = re.search(r"\$ perfgate check runs/slow.log\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    assert done.out.strip() == shown[1].strip()


def test_the_rules_of_the_example_can_fail(perfgate: Command, example: Path) -> None:
    done = perfgate("selftest", "runs/main-1.log")
    shown = re.search(r"\$ perfgate selftest runs/main-1.log\n(.*?)```", README, re.DOTALL)
    assert shown is not None
    assert (done.code, done.out.strip()) == (0, shown[1].strip())


def test_the_sentences_of_the_readme_parse() -> None:
    table = README.split("## The rule language")[1].split("Units:")[0]
    cells = [row.split(" | ")[-1] for row in table.splitlines() if row.startswith("| ") and "`" in row]
    examples = [text for cell in cells for text in re.findall(r"`([^`]+)`", cell)]
    assert len(examples) > 15
    for text in examples:
        whole = text if re.search(r"\b(under|within|at least|over|at most)\b", text) else f"{text} under 5 ms"
        begins_with_clause = re.match(r"(under|within|at least|over)\b", whole)
        parse_sentence(f"forward {whole}" if begins_with_clause else whole)


def test_every_setting_of_a_rule_is_named() -> None:
    for name in [*Settings.__dataclass_fields__, *schema("rules")["definitions"]["mapping"]["properties"]]:
        if name not in ("assert", "power"):
            assert f"`{name}" in README


def test_links_and_names_of_files_lead_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/detection.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert target.startswith("http") or (ROOT / target).exists(), f"{page}: {target}"
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in re.findall(r"`(perfgate/[a-z_/.]+)`", contributing):
        assert (ROOT / path).exists(), path
