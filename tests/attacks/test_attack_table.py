"""The table of attacks names tests that exist, and no test of this folder is missing from it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROWS = [line for line in (HERE / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def names_in(path: Path) -> set[str]:
    return set(re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("row", [row for row in ROWS if "`" in row], ids=lambda row: row.split("|")[1].strip())
def test_every_row_is_held_by_tests_that_exist(row: str) -> None:
    named = NAMED.findall(row)
    assert named
    assert [f"{file}::{name}" for file, name in named if name not in names_in(HERE.parent / file)] == []


def test_no_test_of_this_folder_is_left_out() -> None:
    named = {name for row in ROWS for _, name in NAMED.findall(row)}
    here = {name for path in HERE.glob("test_*.py") if path.name != Path(__file__).name for name in names_in(path)}
    assert here == here & named
