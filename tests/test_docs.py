"""The README begins with the two commands, and links and paths in the top-level pages exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_first_block_holds_the_two_commands() -> None:
    block = re.search(r"^```(\w+)\n(.*?)```", README, re.DOTALL | re.MULTILINE)
    assert block is not None
    assert block[1] == "sh"
    first, second = block[2].strip().splitlines()
    assert first.endswith("perfgate check runs/change.log")
    assert second.endswith("-m pytest")
    assert "README.md" in (ROOT / ".ci" / "run").read_text()


def test_links_and_names_of_files_lead_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/detection.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            assert target.startswith("http") or (ROOT / target).exists(), f"{page}: {target}"
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in re.findall(r"`(perfgate/[a-z_/.]+)`", contributing):
        assert (ROOT / path).exists(), path
