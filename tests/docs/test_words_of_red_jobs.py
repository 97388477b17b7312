"""The words that docs/github-actions.md says a red job shows are words that perfgate prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECTION = (ROOT / "docs/github-actions.md").read_text(encoding="utf-8").partition("## When it is red")[2]
ROWS = [
    row.split("|") for row in SECTION.partition("The job is green if")[0].splitlines() if re.match(r"\| \d \|", row)
]
#: The parts of the quoted words between `...`, without names of the reader: a ref, a Python.
WORDS = sorted(
    {
        re.sub(r"^(refs/remotes/origin/main|python3) ", "", part.strip(" ✗;"))
        for row in ROWS
        for quoted in re.findall(r"`([^`]+)`", row[2])
        for part in quoted.split("...")
        if len(part.split()) > 1
    }
)


@pytest.mark.parametrize("words", WORDS)
def test_the_words_of_a_red_job_are_printed(words: str) -> None:
    files = [*ROOT.glob("perfgate/**/*.py"), *ROOT.glob("action/*")]
    assert any(words in path.read_text(encoding="utf-8") for path in files if path.is_file()), words
