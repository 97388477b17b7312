"""A report of yesterday does not pass for the answer of today, however the command ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, steady, write_log, write_rules

from perfgate.reporters.stored_report import read

Command = Callable[..., Done]
ROOT = Path(__file__).resolve().parents[2]
FORMS = {
    "json": "r.json",
    "junit": "r.xml",
    "markdown": "r.md",
    "html": "r.html",
    "sarif": "r.sarif",
    "comment": "c.md",
}
OUTPUTS = [f"--{form}={name}" for form, name in FORMS.items()]


@pytest.fixture
def yesterday(folder: Path, perfgate: Command) -> dict[str, bytes]:
    """The reports of a check that passed."""
    write_rules(folder, "forward p95 under 120 ms")
    write_log(folder / "new.log", forward=steady(100))
    assert perfgate("check", "new.log", *OUTPUTS).code == 0
    return {name: (folder / name).read_bytes() for name in FORMS.values()}


def refused(folder: Path, yesterday: dict[str, bytes], code: int) -> str:
    """Check that each report is new and valid and does not pass, and return their texts."""
    assert [name for name, old in yesterday.items() if (folder / name).read_bytes() == old] == []
    report, problems = read((folder / "r.json").read_bytes(), "r.json")
    assert problems == []
    assert report is not None
    assert (report.outcome, report.exit_code) == ("error", code)
    assert ET.parse(folder / "r.xml").getroot().get("errors") not in (None, "0")
    assert json.loads((folder / "r.sarif").read_text())["runs"][0]["results"]
    said = [problem.message for problem in report.problems]
    assert all("ERROR" in (folder / name).read_text() for name in ("r.md", "c.md"))
    return "\n".join(said)


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        (["check", "new.log", "--policy-ref", "refs/heads/absent"], 3, "refs/heads/absent cannot be read"),
        (["check", "new.log", "--rules", "absent"], 2, "absent"),
        (["check", "new.log", "--format", "nonsense"], 2, "no such format"),
        (["check", "new.log", "new.log"], 2, "given twice"),
        (["run", "--paired"], 2, "give the command to run after --"),
        (["run", "--keep", "kept", "--", "true"], 2, "is not empty"),
        (["compare", "new.log"], 2, "give the new runs after --new"),
        (["report", "r.json", "r.json"], 2, "given twice"),
    ],
    ids=lambda words: " ".join(words[:4]) if isinstance(words, list) else "",
)
def test_a_refusal_replaces_every_report(
    perfgate: Command, folder: Path, yesterday: dict[str, bytes], words: list[str], code: int, why: str
) -> None:
    write_log(folder / "kept" / "old.log", forward=steady(100))
    if words[0] == "report":  # an input is never replaced
        words = ["report", "in.json", "in.json"]
        (folder / "in.json").write_bytes(yesterday["r.json"])
    at = words.index("--") if "--" in words else len(words)
    done = perfgate(*words[:at], *OUTPUTS, *words[at:])
    assert done.code == code, done.said
    assert why in refused(folder, yesterday, code)


def test_an_internal_error_replaces_every_report(
    perfgate: Command, folder: Path, yesterday: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(request: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr("perfgate.commands.check.check", broken)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert perfgate("check", "new.log", *OUTPUTS).code == 4
    assert "internal error" in refused(folder, yesterday, 4)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_a_signal_replaces_every_report(
    folder: Path, yesterday: dict[str, bytes], number: signal.Signals, code: int
) -> None:
    os.mkfifo("slow.log")
    words = [sys.executable, "-m", "perfgate", "check", "slow.log", *OUTPUTS]
    process = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE)
    with open("slow.log", "w"):  # opened by the command, which now waits for the first line
        time.sleep(0.5)
        process.send_signal(number)
        process.communicate(timeout=60)
    assert process.returncode == code
    assert number.name in refused(folder, yesterday, 3)


def test_a_report_over_an_input_replaces_only_the_others(
    perfgate: Command, folder: Path, yesterday: dict[str, bytes]
) -> None:
    before = (folder / "new.log").read_bytes()
    done = perfgate("check", "new.log", "--json=r.json", "--junit=new.log", "--html=rules/r.html")
    assert done.code == 2
    assert (folder / "new.log").read_bytes() == before
    assert not (folder / "rules" / "r.html").exists()
    assert json.loads((folder / "r.json").read_text())["exit_code"] == 2


def test_a_report_that_was_written_is_kept(perfgate: Command, folder: Path, yesterday: dict[str, bytes]) -> None:
    """The proposal is refused after the runs were judged; the reports say how."""
    done = perfgate("check", "new.log", "--json=r.json", "--propose", "new.log")
    assert done.code != 0
    assert json.loads((folder / "r.json").read_text())["outcome"] == "pass"
