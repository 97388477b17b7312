"""`perfgate report`, and how a report reaches files, standard output and GitHub Actions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, steady, write_log, write_rules

Command = Callable[..., Done]
Document = dict[str, Any]


@pytest.fixture
def legs(perfgate: Command, folder: Path) -> Path:
    """Two stored reports: `pass.json`, and `fail.json`, whose rule fails."""
    write_rules(folder, "forward p95 under 120 ms")
    for name, centre in (("pass", 100), ("fail", 200)):
        write_log(folder / f"{name}.log", forward=steady(centre, seed=centre))
        perfgate("check", f"{name}.log", "--json", f"{name}.json", "--quiet")
    return folder


def edit(path: Path, change: Callable[[Document], None], to: str) -> None:
    """A copy of a stored report that somebody has changed."""
    document = json.loads(path.read_text())
    change(document)
    (path.parent / to).write_text(json.dumps(document))


@pytest.mark.parametrize("name", ["pass", "fail"])
def test_a_stored_report_says_what_the_check_said(perfgate: Command, legs: Path, name: str) -> None:
    kinds = ("--json", "--junit", "--markdown", "--sarif", "--comment")
    outputs = [word for kind in kinds for word in (kind, f"1{kind}")]
    again = [word for kind in kinds for word in (kind, f"2{kind}")]
    checked = perfgate("check", f"{name}.log", *outputs)
    shown = perfgate("report", f"{name}.json", *again)
    assert (shown.code, shown.out) == (checked.code, checked.out)
    for kind in kinds:
        assert (legs / f"1{kind}").read_bytes() == (legs / f"2{kind}").read_bytes()


def test_of_several_the_worst_wins_and_each_verdict_names_its_report(perfgate: Command, legs: Path) -> None:
    done = perfgate("report", "pass.json", "fail.json", "--expect", "2")
    assert done.code == 1
    assert "forward p95 on rank 0 in fail.json" in done.out
    assert "forward p95 on rank 0 in pass.json" in done.out
    assert done.out.endswith("FAIL  1 failed, 1 passed (exit 1)\n")
    merged = perfgate("report", "pass.json", "fail.json", "--json", "all.json")
    assert merged.code == 1
    assert perfgate("report", "all.json", "--json", "-").out == (legs / "all.json").read_text()
    document = json.loads((legs / "all.json").read_text())
    assert [verdict["source"] for verdict in document["verdicts"]] == ["pass.json", "fail.json"]
    assert len(document["inputs"]) == 2


@pytest.mark.parametrize(
    ("reports", "code"),
    [
        (["pass.json", "wrong-rules.json"], 2),
        (["fail.json", "wrong-rules.json"], 2),
        (["fail.json", "absent.json"], 1),
        (["pass.json", "absent.json"], 3),
        (["pass.json", "other.json"], 0),
    ],
)
def test_the_order_of_exit_codes(perfgate: Command, legs: Path, reports: list[str], code: int) -> None:
    write_log(legs / "other.log", forward=steady(90, seed=5))
    perfgate("check", "other.log", "--json", "other.json")
    write_rules(legs, "nothing under 5 ms", name="absent.yaml")
    assert perfgate("check", "pass.log", "--rules", "absent.yaml", "--json", "absent.json").code == 3
    (legs / "wrong.yaml").write_text("version: 1\nrules: [forward undr 1 s]\n")
    assert perfgate("check", "pass.log", "--rules", "wrong.yaml", "--json", "wrong-rules.json").code == 2
    assert perfgate("report", *reports).code == code


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["pass.json", "--expect", "2"], 3, "2 expected, but 1 report can be read"),
        (["pass.json", "fail.json", "--expect", "1"], 1, "1 expected, but 2 reports can be read"),
        (["pass.json", "gone.json"], 3, "gone.json: error: cannot be read: No such file"),
        (["pass.json", "pass.log"], 3, "pass.log:1:6: error: this is not JSON"),
        (["."], 3, "is not a file"),
        (["pass.json", "pass.json"], 2, "given twice"),
        (["pass.json", "copy.json"], 2, "copy.json is the same report as pass.json"),
        (["pass.json", "--json", "pass.json"], 2, "that file is an input"),
        (["pass.json", "--expect", "0"], 2, "--expect"),
        ([], 2, "REPORT"),
    ],
)
def test_what_is_missing_or_twice_is_said(
    perfgate: Command, legs: Path, words: list[str], code: int, said: str
) -> None:
    edit(legs / "pass.json", lambda document: None, "copy.json")  # the same report, in other bytes
    done = perfgate("report", *words)
    assert (done.code, "Traceback" in done.said) == (code, False)
    assert said in " ".join(done.said.split())


FORGERIES: dict[str, Callable[[Document], None]] = {
    "exit code": lambda document: document.update(exit_code=0),
    "outcome": lambda document: document.update(exit_code=0, outcome="pass"),
    "verdict": lambda document: document["verdicts"][0].update(exit_code=0),
    "all codes": lambda document: (
        document.update(exit_code=0, outcome="pass"),
        document["verdicts"][0].update(exit_code=0),
    )[0],
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_answer_is_computed_anew(perfgate: Command, legs: Path, forge: Callable[[Document], None]) -> None:
    edit(legs / "fail.json", forge, "forged.json")
    done = perfgate("report", "forged.json")
    assert done.code == 1
    assert "forged.json: error: was altered" in done.out
    assert "FAIL" in done.out


def test_a_report_without_its_verdicts_does_not_pass(perfgate: Command, legs: Path) -> None:
    edit(legs / "fail.json", lambda d: d.update(exit_code=0, outcome="pass", counts={}, verdicts=[]), "empty.json")
    assert perfgate("report", "empty.json").code == 3


def test_a_hidden_problem_counts(perfgate: Command, legs: Path) -> None:
    problem = {"severity": "error", "message": "cut", "file": "x", "line": 1, "column": None}
    problem |= {"metric": "forward", "labels": {}, "excerpt": None}
    edit(legs / "pass.json", lambda document: document.update(problems=[problem]), "cut.json")
    assert perfgate("report", "cut.json").code == 3


def test_standard_input_is_a_report_too(perfgate: Command, legs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(legs / "fail.json") as file:
        monkeypatch.setattr("sys.stdin", file)
        assert perfgate("report", "-").code == 1


# --- GitHub Actions ----------------------------------------------------------------------------------------------


@pytest.fixture
def job(legs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of a step; the file of its summary is returned."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(legs / "summary.md"))
    return legs / "summary.md"


def test_a_job_gets_annotations_and_a_summary_by_itself(perfgate: Command, job: Path) -> None:
    done = perfgate("check", "fail.log")
    assert done.code == 1
    answer, annotation = done.out.splitlines()[-2:]
    assert answer == "FAIL  1 failed (exit 1)"
    assert annotation.startswith("::error file=rules/rules.yaml,line=3,col=5,title=fail%3A forward p95")
    perfgate("check", "pass.log")
    assert [line[:17] for line in job.read_text().splitlines() if line.startswith("**")] == [
        "**✗ perfgate FAIL",
        "**✓ perfgate PASS",
    ]


def test_a_report_on_stdout_stays_whole(perfgate: Command, job: Path) -> None:
    done = perfgate("check", "fail.log", "--json", "-")
    assert json.loads(done.out)["exit_code"] == 1
    assert done.err.startswith("::error ")


def test_annotations_are_given_where_they_are_asked_for(
    perfgate: Command, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "::error" not in perfgate("check", "fail.log", "--no-github").out
    assert not job.exists()
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert "::error" not in perfgate("check", "fail.log").out
    assert "::error" in perfgate("check", "fail.log", "--github", "--quiet").out


@pytest.mark.parametrize(("size", "added"), [(800_000, True), (899_000, False)])
def test_a_summary_is_written_within_what_is_left(perfgate: Command, job: Path, size: int, added: bool) -> None:
    job.write_text("x" * size)
    done = perfgate("check", "fail.log")
    assert done.code == 1
    assert (job.stat().st_size > size) == added
    assert ("is full" in done.err) != added
    assert job.stat().st_size <= 900_000


def test_a_summary_that_cannot_be_written_changes_nothing(
    perfgate: Command, job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(job.parent / "no" / "folder"))
    done = perfgate("check", "pass.log")
    assert done.code == 0
    assert "warning: the step summary could not be written" in done.err


@pytest.mark.parametrize("name", ["##[add-mask]x.log", "::stop-commands::x", "--opt##[error]x"])
def test_no_file_name_is_a_command(perfgate: Command, job: Path, name: str) -> None:
    for words in (["check", name], ["report", name], ["inspect", name], ["rules", "check", name], [name]):
        said = perfgate(*words).said
        assert "##[" not in said
        assert "::stop" not in [line.lstrip()[:6] for line in said.splitlines()]
