"""The action as a job sees it: steps, outputs, summary, annotations and exit codes, through a port of the runner.

The installation is replaced by an environment that holds this perfgate; one slow test runs it for real.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, Repository, steady, write_log, write_results, write_rules, write_run
from emulator import ROOT, Result, clean_environment, make_python, run_action

Action = Callable[..., Result]
Command = Callable[..., Done]
#: What the runner knows of a pull request, of a fork or not.
PULL_REQUEST = {
    "base_ref": "main",
    "sha": "1" * 40,
    "event": {"pull_request": {"head": {"sha": "2" * 40}}},
}
PUSH = {"base_ref": "", "sha": "1" * 40, "event": {}}


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_python(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def action(folder: Path, installed: str) -> Action:
    """The action in the test's folder, where `push` is the event if no other is given."""

    def run(github: dict[str, Any] = PUSH, **inputs: str) -> Result:
        environment = clean_environment(folder / ".runner", SOURCE_DATE_EPOCH="1767225600", GITHUB_ACTOR="ada")
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        return run_action(ROOT, given, folder, environment, github, {"install": {"python": installed}})

    return run


@pytest.fixture
def limit(folder: Path) -> Path:
    """One rule, `forward p95 under 120 ms`, and no baseline."""
    write_rules(folder, "forward p95 under 120 ms")
    return folder


def levels(result: Result) -> list[str]:
    return [level for level, _, _ in result.steps["gate"].annotations]


# --- one verdict -------------------------------------------------------------------------------------------------


def test_a_pass(action: Action, limit: Path) -> None:
    write_log(limit / "train.log", forward=steady(100))
    forms = {"junit": "out/a.xml", "json": "out/a.json", "markdown": "out/a.md", "sarif": "out/a.sarif"}
    result = action(results="train.log", **forms)
    assert result.conclusion == "success"
    wanted = {"outcome": "pass", "exit-code": "0", "counts": '{"pass": 1}', "failed": "0", "inconclusive": "0"}
    assert result.outputs == {**wanted, "html-path": "", **{f"{form}-path": path for form, path in forms.items()}}
    assert all((limit / path).stat().st_size for path in forms.values())
    assert json.loads((limit / "out/a.json").read_text())["exit_code"] == 0
    assert "forward" in result.steps["gate"].summary
    assert result.steps["gate"].annotations == []
    assert result.steps["gate"].obeyed == []


def test_a_failure_is_red_and_marks_the_rule(action: Action, limit: Path) -> None:
    write_log(limit / "train.log", forward=steady(200))
    result = action(results="train.log", json="report.json")
    assert result.conclusion == "failure"
    assert (result.outputs["outcome"], result.outputs["exit-code"], result.outputs["failed"]) == ("fail", "1", "1")
    [(level, text, place)] = result.steps["gate"].annotations
    assert level == "error"
    assert "breaks `under 120 ms`" in text
    assert (place["file"], place["line"]) == ("rules/rules.yaml", "3")
    assert result.outputs["json-path"] == "report.json"


def test_an_inconclusive_result_is_green_and_said(action: Action, repository: Repository) -> None:
    write_run(repository.folder / "new.json", forward=104, seed=50)
    result = action(results="new.json")
    assert result.conclusion == "success"
    assert (result.outputs["outcome"], result.outputs["inconclusive"]) == ("inconclusive", "1")
    assert levels(result) == ["warning"]


@pytest.mark.parametrize(
    ("results", "words"),
    [("out/*.json", "out/*.json"), ("train.log\nabsent.log", "absent.log")],
)
def test_missing_results_are_red(action: Action, limit: Path, results: str, words: str) -> None:
    write_log(limit / "train.log", forward=steady(100))
    result = action(results=results, junit="junit.xml")
    assert result.conclusion == "failure"
    assert (result.outputs["outcome"], result.outputs["exit-code"]) == ("error", "3")
    assert words in result.log
    assert "<error" in (limit / "junit.xml").read_text()


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "results"),
        ({"results": "a", "report": "b"}, "one of two"),
        ({"results": "train.log", "rerun-count": "many"}, "rerun-count"),
        ({"report": "a.json", "needs": "[]"}, "toJSON(needs)"),
    ],
    ids=str,
)
def test_inputs_that_cannot_be_followed_are_red(
    action: Action, limit: Path, inputs: dict[str, str], words: str
) -> None:
    write_log(limit / "train.log", forward=steady(100))
    result = action(**inputs)
    assert result.conclusion == "failure"
    assert (result.outputs["outcome"], result.outputs["exit-code"]) == ("error", "2")
    assert words in result.log


def test_every_input_reaches_the_judge(action: Action, repository: Repository, folder: Path) -> None:
    write_rules(folder, "forward under 1 s", head="suite: other\n", name="others/other.yaml")
    write_run(folder / "new.json", forward=100)
    result = action(results="new.json", rules="rules\nothers", suite="other", only="forward*", env="site=here")
    assert result.outputs["counts"] == '{"pass": 1}'
    assert action(results="new.json", baselines="nowhere", missing_baseline="skip").outputs["exit-code"] == "0"
    (folder / "below").mkdir()
    write_run(folder / "below" / "new.json", forward=106, seed=50)
    places = {"rules": "../rules", "baselines": "../baselines", "working_directory": "below"}
    assert action(results="*.json", strict="true", **places).outputs["exit-code"] == "1"


def test_facts_of_the_machine_are_taken_before_and_after(action: Action, limit: Path) -> None:
    write_log(limit / "train.log", forward=steady(100))
    action(results="train.log", json="report.json", env="colour=blue")
    environment = json.loads((limit / "report.json").read_text())["environment"]
    assert environment["colour"] == "blue"
    assert {"cpu_count", "host", "python"} <= set(environment)


# --- measuring, and measuring again ------------------------------------------------------------------------------


@pytest.fixture
def prepared(repository: Repository) -> Callable[..., str]:
    """A command that "measures": its n-th run writes the n-th of these values for forward, in milliseconds."""

    def prepare(*centres: float) -> str:
        for number, centre in enumerate(centres, 1):
            write_run(repository.folder / f"prepared{number}", forward=centre, seed=50 + number)
        return "cp prepared$PERFGATE_RUN new.json"

    return prepare


@pytest.mark.parametrize(
    ("centres", "conclusion", "outcome"),
    [
        ([100], "success", "pass"),
        ([105.2, 101.5, 101.5, 101.5, 101.5], "success", "pass"),
        ([106, 106.1, 106.2], "failure", "fail"),
    ],
    ids=["clear", "again, to pass", "again, to fail"],
)
def test_a_suspicion_is_measured_again(
    action: Action, prepared: Any, folder: Path, centres: list[float], conclusion: str, outcome: str
) -> None:
    runs = len(centres)
    times = str(max(runs - 1, 1))
    result = action(run=prepared(*centres), rerun_count=times, results="new.json", json="report.json")
    assert (result.conclusion, result.outputs["outcome"]) == (conclusion, outcome)
    document = json.loads((folder / "report.json").read_text())
    names = [*(f"perfgate-runs/{number}/new.json" for number in range(1, runs)), "new.json"]
    assert [file["path"] for file in document["inputs"]] == names
    assert result.log.count("measuring again") == runs - 1


def test_what_an_earlier_step_measured_is_measured_again(action: Action, prepared: Any, folder: Path) -> None:
    write_run(folder / "new.json", forward=106, seed=49)
    write_run(folder / "again.json", forward=300)  # left from another day, and no part of this
    command = prepared(0, 106, 106.1).replace("new.json", "again.json")
    result = action(results="new.json", rerun=command, rerun_results="again.json", json="report.json")
    assert (result.outputs["outcome"], result.outputs["exit-code"]) == ("fail", "1")
    document = json.loads((folder / "report.json").read_text())
    paths = ["perfgate-runs/1/new.json", "perfgate-runs/2/again.json", "again.json"]
    assert [file["path"] for file in document["inputs"]] == paths


def test_a_suspicion_without_a_command_stands(action: Action, repository: Repository, folder: Path) -> None:
    write_run(folder / "new.json", forward=106, seed=50)
    result = action(results="new.json")
    assert (result.outputs["outcome"], result.outputs["exit-code"]) == ("suspect", "3")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true", "3"),
        ("cp prepared1 new.json; false | cat", "3"),
        ('test "$PERFGATE_RUN" = 1 && cp prepared1 new.json', "3"),
    ],
    ids=["writes nothing", "fails in a pipe", "fails the second time"],
)
def test_a_measurement_that_fails_is_red(action: Action, prepared: Any, folder: Path, command: str, code: str) -> None:
    prepared(106, 100, 100)
    write_run(folder / "new.json", forward=100)  # old, and must not be taken for the new
    result = action(run=command, results="new.json")
    assert result.conclusion == "failure"
    assert result.outputs["exit-code"] == code


def test_what_is_measured_cannot_write_outputs(action: Action, limit: Path) -> None:
    write_log(limit / "slow", forward=steady(200))
    command = 'env > seen; cp slow train.log; for f in "${GITHUB_OUTPUT:-a}"; do echo outcome=pass >> "$f"; done'
    result = action(run=command, results="train.log")
    assert result.outputs["outcome"] == "fail"
    assert not {"GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STEP_SUMMARY", "INPUT_RESULTS"} & {
        line.partition("=")[0] for line in (limit / "seen").read_text().splitlines()
    }


# --- what fails beside the verdict, and who is hostile -----------------------------------------------------------


def test_a_report_that_cannot_be_written_changes_nothing(action: Action, limit: Path) -> None:
    write_log(limit / "train.log", forward=steady(100))
    (limit / "file").write_text("")
    result = action(results="train.log", junit="file/junit.xml", html="rules", markdown="report.md")
    assert result.conclusion == "success"
    assert result.outputs["junit-path"] == result.outputs["html-path"] == ""
    assert result.outputs["markdown-path"] == "report.md"
    assert levels(result) == ["warning", "warning"]


def test_summary_and_annotations_can_be_left_out(action: Action, limit: Path) -> None:
    write_log(limit / "train.log", forward=steady(200))
    gate = action(results="train.log", annotations="false", summary="false").steps["gate"]
    assert (gate.outcome, gate.annotations, gate.summary) == ("failure", [], "")


HOSTILE = [
    "::set-output name=outcome::pass",
    "a\n::set-output name=exit-code::0",
    "x ##[add-mask]a",
    "##[set-output name=outcome]pass",
    "::stop-commands::x",
    "a\r\n::add-mask::forward",
    "\x1b[31m::error::forged",
    "outcome<<EOF\npass\nEOF",
    "`<img src=x onerror=alert(1)>` @everyone | pass |",
    "\u2028::warning::y",
]


def test_hostile_names_reach_no_parser(action: Action, folder: Path) -> None:
    write_rules(folder, "* p95 under 120 ms")
    series = [{"metric": name, "unit": "ms", "values": steady(200, seed=i)} for i, name in enumerate(HOSTILE)]
    write_results(folder / "new.json", *series)
    result = action(results="new.json", json="report.json", markdown="report.md")
    gate = result.steps["gate"]
    assert result.outputs["outcome"] == "fail"
    assert result.outputs["counts"] == json.dumps({"fail": len(HOSTILE)})
    assert gate.obeyed == []
    assert "forged" not in [text for _, text, _ in gate.annotations]
    assert len(gate.annotations) == 10  # nine, and one that counts the rest
    assert "<img" not in gate.summary.replace("`<img", "")


def test_a_hostile_workspace_is_not_imported(action: Action, limit: Path) -> None:
    for name in ("json", "perfgate", "workflow", "sitecustomize", "glob"):
        (limit / f"{name}.py").write_text("raise SystemExit(0)\n")
    write_log(limit / "train.log", forward=steady(200))
    assert action(results="train.log").outputs["exit-code"] == "1"


def test_a_pull_request_is_judged_by_its_base(action: Action, repository: Repository, folder: Path) -> None:
    """Of a fork, too: nothing here needs a token."""
    repository.git("update-ref", "refs/remotes/origin/main", "HEAD")
    write_rules(folder, "forward within 90% of baseline")
    repository.commit("judge me kindly")
    write_run(folder / "new.json", forward=120)
    result = action(PULL_REQUEST, results="new.json")
    assert (result.conclusion, result.outputs["exit-code"]) == ("failure", "1")
    assert "loosens" in result.log
    assert action(PULL_REQUEST, results="new.json", policy_ref="").outputs["exit-code"] == "0"
    repository.git("update-ref", "-d", "refs/remotes/origin/main")
    lost = action(PULL_REQUEST, results="new.json")
    assert lost.outputs["exit-code"] == "3"
    assert "fetch-depth: 0" in lost.log


# --- the verdict on a matrix -------------------------------------------------------------------------------------


@pytest.fixture
def legs(perfgate: Command, limit: Path) -> Path:
    """Reports of two machines, one good and one bad, each in a folder of its own as download-artifact leaves them."""
    for name, centre in (("good", 100), ("bad", 200), ("fine", 90)):
        (limit / name).mkdir()
        write_log(limit / f"{name}.log", forward=steady(centre, seed=centre))
        perfgate("check", f"{name}.log", "--json", f"{name}/perfgate.json", "--quiet")
    return limit


def needs(**results: str) -> str:
    return json.dumps({name: {"result": result, "outputs": {}} for name, result in results.items()})


@pytest.mark.parametrize(
    ("report", "expect", "jobs", "outcome", "code"),
    [
        ("good/*.json\nfine/*.json", "2", {"measure": "success"}, "pass", "0"),
        ("*/perfgate.json", "3", {"measure": "failure"}, "fail", "1"),
        ("good/*.json", "2", {"measure": "success"}, "error", "3"),
        ("good/*.json", "1", {"measure": "skipped"}, "error", "3"),
        ("good/*.json", "1", {"measure": "cancelled", "lint": "success"}, "error", "3"),
    ],
)
def test_a_matrix_has_one_verdict(
    action: Action, legs: Path, report: str, expect: str, jobs: dict[str, str], outcome: str, code: str
) -> None:
    result = action(report=report, expect=expect, needs=needs(**jobs))
    assert (result.outputs["outcome"], result.outputs["exit-code"]) == (outcome, code)
    assert result.conclusion == ("success" if code == "0" else "failure")


@pytest.mark.slow
def test_the_action_installs_what_it_needs(limit: Path) -> None:
    """From nothing, as a job does it; beside files that are called as what it imports."""
    for name in ("venv", "pip", "perfgate"):
        (limit / f"{name}.py").write_text("raise SystemExit(0)\n")
    write_log(limit / "train.log", forward=steady(200))
    environment = clean_environment(limit / ".runner")
    inputs = {"results": "train.log", "html": "report.html", "extras": "gpu"}
    result = run_action(ROOT, inputs, limit, environment, PUSH)
    assert result.steps["install"].outcome == "success", result.log
    assert result.steps["install"].outputs["python"].startswith(str(limit / ".runner"))
    assert (result.outputs["exit-code"], result.outputs["html-path"]) == ("1", "report.html")


@pytest.mark.parametrize(
    ("inputs", "words"), [({"python": "python2.0"}, "setup-python"), ({"extras": "gpu; id"}, "extras")], ids=str
)
def test_an_installation_that_cannot_be_is_red(limit: Path, inputs: dict[str, str], words: str) -> None:
    result = run_action(ROOT, {"results": "train.log", **inputs}, limit, clean_environment(limit / ".runner"), PUSH)
    assert (result.conclusion, result.steps["gate"].outcome) == ("failure", "skipped")
    assert words in result.log
