"""`quarantine` and `owner` of a rule: what blocks, until when, and how each report says it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, write_run

Command = Callable[..., Done]
REASON = "6 of 80 unchanged runs of main were red"


def write_rule(folder: Path, fields: str, sentence: str = "forward under 90 ms", head: str = "") -> None:
    path = folder / "rules" / "rules.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"version: 1\n{head}rules:\n  - {{assert: {sentence}, {fields}}}\n")


def quarantine(until: str) -> str:
    return f"quarantine: {{until: {until}, reason: '{REASON}'}}"


@pytest.mark.parametrize(
    ("sentence", "until", "code", "outcome", "said"),
    [
        ("forward under 90 ms", "2026-01-01", 0, "fail", f"quarantined until 2026-01-01 ({REASON}): forward"),
        ("forward under 90 ms", "2025-12-31", 1, "fail", f"the quarantine ended on 2025-12-31 ({REASON}): forward"),
        ("forward under 100.001 ms", "2026-01-01", 0, "pass", "forward"),
        ("forward under 99.99 ms", "2026-01-01", 0, "undecided", "quarantined until 2026-01-01"),
        ("forward under 99.99 ms", "2025-12-31", 3, "undecided", "the quarantine ended on 2025-12-31"),
        ("forward under 200 ms", "2026-01-01", 0, "pass", "forward"),
        ("gone under 200 ms", "2026-01-01", 3, "error", "no run has gone"),  # an error always blocks
    ],
)
def test_a_quarantine_keeps_false_alarms_from_blocking_up_to_its_day(
    perfgate: Command, folder: Path, sentence: str, until: str, code: int, outcome: str, said: str
) -> None:
    write_rule(folder, quarantine(until), sentence)
    done = perfgate("check", write_run(folder / "new.json"), "--json", "report.json")
    report = json.loads(Path("report.json").read_text())
    verdict = report["verdicts"][0]
    assert (done.code, verdict["outcome"], verdict["exit_code"]) == (code, outcome, code)
    assert said in verdict["message"]
    assert perfgate("report", "report.json").code == code


def test_every_report_tells_the_day_and_the_reason(perfgate: Command, folder: Path) -> None:
    write_rule(folder, quarantine("2026-01-01"))
    formats = ("json", "junit", "markdown", "comment", "sarif", "html")
    words = [word for name in formats for word in (f"--{name}", f"report.{name}")]
    done = perfgate("check", write_run(folder / "new.json"), *words)
    assert perfgate("report", "report.json", "--untrusted-comment", "report.txt").code == 0
    assert "PASS  1 quarantined (exit 0)" in done.out
    for text in (done.out, *((folder / f"report.{name}").read_text() for name in (*formats, "txt"))):
        flat = " ".join(text.replace("`", "").replace("&#8203;", "").replace("\\", "").split())
        assert "quarantined until 2026-01-01" in flat
        assert REASON in flat


def test_a_quarantine_that_ended_is_mentioned_if_the_rule_passes(perfgate: Command, folder: Path) -> None:
    write_rule(folder, quarantine("2025-12-31"), "forward under 200 ms")
    done = perfgate("check", write_run(folder / "new.json"), "--verbose")
    assert "the quarantine of this rule ended on 2025-12-31: remove it" in " ".join(done.out.split())


@pytest.mark.parametrize(
    "fields",
    [
        "quarantine: {until: 2026-13-01, reason: x}",
        "quarantine: {until: 2026-12-01}",
        "quarantine: {until: soon, reason: x}",
        "quarantine: 2026-12-01",
        "owner: ''",
        "owner: [a, b]",
    ],
)
def test_a_mistake_is_named_with_its_place(perfgate: Command, folder: Path, fields: str) -> None:
    write_rule(folder, fields)
    done = perfgate("check", write_run(folder / "new.json"))
    assert done.code == 2
    assert "rules/rules.yaml:3:" in done.said


@pytest.mark.parametrize(
    "rules", ["- {assert: a under 1 ms, owner: @team/kernels}", "- assert: a under 1 ms\n  owner: @team/kernels"]
)
def test_an_owner_that_yaml_cannot_read_needs_quotes(perfgate: Command, folder: Path, rules: str) -> None:
    (folder / "rules").mkdir(exist_ok=True)
    (folder / "rules/rules.yaml").write_text(f"version: 1\nrules:\n{rules}\n")
    done = perfgate("check", write_run(folder / "new.json"))
    assert "YAML reserves a leading @: put the text in quotes" in " ".join(done.out.split())


def commit_rules(folder: Path) -> None:
    (folder / "baselines").mkdir()
    Repository(folder).commit("rules")


def test_a_pull_request_cannot_quarantine_its_own_rule(folder: Path, perfgate: Command) -> None:
    write_rule(folder, "id: fast")
    commit_rules(folder)
    write_rule(folder, "id: fast, " + quarantine("2027-01-01"))
    slower = write_run(folder / "slower.json", forward=120)
    done = perfgate("check", slower, "--policy-ref", "main")
    assert done.code == 1
    assert "quarantined until never → 2027-01-01" in " ".join(done.out.split())


def test_a_selftest_says_that_a_quarantined_rule_does_not_block(perfgate: Command, folder: Path) -> None:
    write_rule(folder, quarantine("2026-01-01"), "forward under 200 ms")
    done = perfgate("rules", write_run(folder / "new.json"))
    assert f"quarantined until 2026-01-01 ({REASON})" in " ".join(done.out.split())


# --- owner ------------------------------------------------------------------------------------------------------------


def test_the_owner_is_shown_with_the_finding(perfgate: Command, folder: Path) -> None:
    write_rule(folder, "id: fast", head="defaults: {owner: '@team/kernels'}\n")
    words = [word for name in ("json", "junit", "markdown", "sarif", "html") for word in (f"--{name}", f"out.{name}")]
    done = perfgate("check", write_run(folder / "new.json"), *words)
    assert "owner: @team/kernels" in done.out
    assert json.loads(Path("out.json").read_text())["verdicts"][0]["owner"] == "@team/kernels"
    assert json.loads(Path("out.sarif").read_text())["runs"][0]["results"][0]["properties"]["owner"] == "@team/kernels"
    properties = ET.parse("out.junit").getroot().iter("property")
    assert ("perfgate.owner.fast", "@team/kernels") in {(one.get("name"), one.get("value")) for one in properties}
    assert "owner: `@team/kernels`" in Path("out.markdown").read_text()
    assert "@team/kernels" in Path("out.html").read_text()
    assert "owner: @team/kernels" in perfgate("rules", "explain").out


def test_the_owner_of_a_rule_comes_before_that_of_the_file(perfgate: Command, folder: Path) -> None:
    write_rule(folder, "owner: kim@example.org", head="defaults: {owner: '@team/kernels'}\n")
    assert "owner: kim@example.org" in perfgate("check", write_run(folder / "new.json")).out


@pytest.mark.parametrize(
    ("owner", "policy", "mentioned"),
    [
        ("@team/kernels", "main", True),
        ("@team/kernels", None, False),  # the rules of a pull request must not choose who gets a message
        ("kim@example.org", "main", False),
        ("@team/kernels @everyone", "main", False),
    ],
)
def test_a_comment_mentions_owners_that_the_base_names(
    folder: Path, perfgate: Command, owner: str, policy: str | None, mentioned: bool
) -> None:
    write_rule(folder, f"owner: '{owner}'")
    commit_rules(folder)
    words = ("--policy-ref", policy) if policy else ()
    slower = write_run(folder / "slower.json", forward=120)
    perfgate("check", slower, *words, "--comment", "c.md", "--json", "r.json")
    perfgate("report", "r.json", "--untrusted-comment", "u.md")
    comment = Path("c.md").read_text()
    assert comment.endswith("\n\ncc @team/kernels\n") == mentioned
    assert f"owner: `{owner}`" in comment
    assert "@t" not in Path("u.md").read_text()
    assert "owner" in Path("u.md").read_text()
