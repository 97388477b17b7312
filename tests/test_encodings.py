"""What is printed where stdout is no UTF-8: documents are UTF-8 anyway, and text says what it can."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import steady, write_log, write_rules

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ["check new.log -v", "inspect new.log", "rules check", "rules", "baseline list", "rules new.log"]
DOCUMENTS = ["--json", "--junit", "--markdown", "--comment", "--sarif", "--html"]


def run(folder: Path, encoding: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "0"}
    command = [sys.executable, "-m", "perfgate", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False)


@pytest.fixture
def project(folder: Path) -> Path:
    """A rule that fails, whose reason has characters that encodings lack, and values in microseconds."""
    rules = write_rules(folder, "backward under 1 s")
    with rules.open("a", encoding="utf-8") as file:
        file.write("  - assert: forward under 50 us\n    why: früh → spät, ±5 µs\n")
    write_log(folder / "new.log", forward=steady(0.1), backward=steady(100))
    return folder


@pytest.mark.parametrize(
    ("option", "encoding"), [*((option, "cp1252") for option in DOCUMENTS), ("--markdown", "latin-1")]
)
def test_documents_are_utf_8(project: Path, option: str, encoding: str) -> None:
    assert run(project, "utf-8", "check", "new.log", option, "document", "--no-github").returncode == 1
    done = run(project, encoding, "check", "new.log", option, "-", "--no-github")
    assert (done.returncode, done.stdout) == (1, (project / "document").read_bytes())
    assert "→" in done.stdout.decode("utf-8")


@pytest.mark.parametrize("words", TEXTS)
def test_text_is_never_an_error(project: Path, words: str) -> None:
    done = run(project, "cp1252", *words.split())
    assert done.returncode < 4
    assert done.stdout or done.stderr


@pytest.mark.parametrize("words", ["check new.log", "check new.log -v", "rules new.log"])
def test_tables_fit_into_60_columns(project: Path, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = run(project, "utf-8", *words.split()).stdout.decode().splitlines()
    assert lines
    assert [line for line in lines if len(line) > 60] == []


def test_text_says_in_ascii_what_an_encoding_lacks(project: Path) -> None:
    """`rules explain` prints the reason of a rule as it is."""
    assert b"fr\xfch -> sp\xe4t, \xb15 \xb5s" in run(project, "cp1252", "rules", "explain").stdout
