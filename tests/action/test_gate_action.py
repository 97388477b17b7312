"""The action as a job sees it: steps, outputs, summary, annotations and exit codes.

`action` runs it through a port of the runner, with its installation replaced by an environment that holds this
perfgate; one slow test installs for real. `script` runs its script alone, with perfgate in this process: the same
answers in a tenth of the time, for what the runner has no part in.
"""

from __future__ import annotations

import importlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Done, Repository, steady, write_log, write_results, write_rules, write_run
from emulator import ROOT, Commands, Result, Step, clean_environment, installed_by, make_python, parse_file, run_action

from perfgate.cli import entry

Action = Callable[..., Result]
Command = Callable[..., Done]
#: What the runner knows of a pull request, of a fork or not.
PULL_REQUEST = {
    "base_ref": "main",
    "sha": "1" * 40,
    "event": {"pull_request": {"head": {"sha": "2" * 40}}, "repository": {"default_branch": "main"}},
}
#: The name that git gives to nothing.
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
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
        return run_action(ROOT, given, folder, environment, github, installed_by(installed))

    return run


@pytest.fixture
def script(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Action:
    """The script of the gate, without the runner around it; commands of perfgate need no process of their own."""
    monkeypatch.syspath_prepend(ROOT / "action")
    gate = importlib.import_module("gate")
    monkeypatch.setattr(gate.subprocess, "run", in_process(subprocess.run))
    monkeypatch.setattr("perfgate.recorder.watch.SamplerProcess", no_sampler)
    action = yaml.safe_load((ROOT / "action.yml").read_text())

    def run(**inputs: str) -> Result:
        defaults = {name: str(told.get("default", "")) for name, told in action["inputs"].items()}
        given = {**defaults, "policy-ref": "", "head": ""} | {name.replace("_", "-"): inputs[name] for name in inputs}
        output, summary = folder / ".output", folder / ".summary"
        environment = {f"INPUT_{name.upper().replace('-', '_')}": value for name, value in given.items()}
        with monkeypatch.context() as patch:
            for name, value in {**environment, "GITHUB_OUTPUT": output, "GITHUB_STEP_SUMMARY": summary}.items():
                patch.setenv(name, str(value))
            output.write_text("")
            code = gate.main()
        step = Step("failure" if code else "success", log=capsys.readouterr().out)
        Commands(step).read(step.log)
        outputs = dict.fromkeys(action["outputs"], "") | parse_file(output.read_text())
        assert outputs["exit-code"] == str(code)
        return Result(step.outcome, outputs, {"gate": step})

    return run


def no_sampler(path: str) -> None:
    """Start nothing: as on a machine without room for a process."""
    raise OSError


def in_process(elsewhere: Callable[..., Any]) -> Callable[..., Any]:
    """`subprocess.run` for a script that calls perfgate; anything else runs elsewhere."""

    def run(words: list[str], **options: Any) -> Any:
        if words[1:4] != ["-I", "-m", "perfgate"]:
            return elsewhere(words, **options)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = entry.run(words[4:])
        if "stdout" in options:
            options["stdout"].write(out.getvalue().encode())
        elif not options.get("capture_output"):
            print(out.getvalue() + err.getvalue(), end="", flush=True)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

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
    wanted = {"outcome": "pass", "exit-code": "0", "counts": '{"pass": 1}', "failed": "0", "undecided": "0"}
    assert result.outputs == {**wanted, "html-path": "", **{f"{form}-path": path for form, path in forms.items()}}
    assert all((limit / path).stat().st_size for path in forms.values())
    assert json.loads((limit / "out/a.json").read_text())["exit_code"] == 0
    assert "forward" in result.steps["gate"].summary
    assert result.steps["gate"].annotations == []
    assert result.steps["gate"].obeyed == []
    assert result.log.count("1 rule (exit 0)") == 1


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


def test_what_excludes_at_worst_is_green(script: Action, repository: Repository) -> None:
    write_run(repository.folder / "new.json", forward=104, seed=50)
    result = script(results="new.json")
    assert result.conclusion == "success"
    assert (result.outputs["outcome"], result.outputs["undecided"]) == ("pass", "0")
    assert levels(result) == []


@pytest.mark.parametrize(("results", "words"), [("out/*.json", "out/*.json"), ("train.log\nabsent.log", "absent.log")])
def test_missing_results_are_red(script: Action, limit: Path, results: str, words: str) -> None:
    write_log(limit / "train.log", forward=steady(100))
    result = script(results=results, junit="junit.xml")
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
    script: Action, limit: Path, inputs: dict[str, str], words: str
) -> None:
    write_log(limit / "train.log", forward=steady(100))
    result = script(**inputs)
    assert result.conclusion == "failure"
    assert (result.outputs["outcome"], result.outputs["exit-code"]) == ("error", "2")
    assert words in result.log


def test_a_perfgate_that_does_not_start_is_no_failed_rule(action: Action, limit: Path, installed: str) -> None:
    """Python itself exits with 1 if it cannot import a module; 1 is the code of a failed rule."""
    write_log(limit / "train.log", forward=steady(100))
    environment = clean_environment(limit / ".runner")
    bare = str(limit / "bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    result = run_action(ROOT, {"results": "train.log"}, limit, environment, PUSH, installed_by(f"{bare}/bin/python"))
    assert result.conclusion == "failure"
    assert (result.outputs["outcome"], result.outputs["exit-code"]) == ("error", "4")
    assert "perfgate check could not start, or broke, and judged nothing" in result.log


def test_every_input_reaches_the_judge(script: Action, repository: Repository, folder: Path) -> None:
    write_rules(folder, "forward under 1 s", head="suite: other\n", name="others/other.yaml")
    write_run(folder / "new.json", forward=100)
    result = script(results="new.json", rules="rules\nothers", suite="other", only="forward*", env="site=here")
    assert result.outputs["counts"] == '{"pass": 1}'
    assert script(results="new.json", baselines="nowhere", missing_baseline="skip").outputs["exit-code"] == "0"
    write_run(folder / "new.json", forward=106, seed=50)
    strict = script(results="n*.json", strict="true")
    assert strict.outputs["exit-code"] == "1"
    assert "--env perfgate-runs/env-0.json" in strict.log


def test_facts_of_the_machine_are_taken_before_and_after(script: Action, limit: Path) -> None:
    write_log(limit / "train.log", forward=steady(100))
    script(results="train.log", json="report.json", env="colour=blue")
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
    script: Action, prepared: Any, folder: Path, centres: list[float], conclusion: str, outcome: str
) -> None:
    runs = len(centres)
    times = str(max(runs - 1, 1))
    result = script(run=prepared(*centres), rerun_count=times, results="new.json", json="report.json")
    assert (result.conclusion, result.outputs["outcome"]) == (conclusion, outcome)
    document = json.loads((folder / "report.json").read_text())
    names = [*(f"perfgate-runs/{number}/new.json" for number in range(1, runs)), "new.json"]
    assert [file["path"] for file in document["inputs"]] == names
    assert result.log.count("measuring again") == runs - 1


@pytest.fixture
def measured(perfgate: Command, folder: Path, prepared: Any) -> Callable[..., str]:
    """`prepared` with a baseline of other runs, whose noise nobody calibrated, and one rule."""

    def measure(base: list[float], centres: list[float]) -> str:
        write_rules(folder, "forward within 5% of baseline", head="suite: young\n")
        runs = [write_run(folder / f"base{i}.json", mean, seed=80 + i) for i, mean in enumerate(base)]
        assert perfgate("baseline", "approve", *runs, "--reason", "other runs").code == 0
        return str(prepared(*centres))

    return measure


@pytest.mark.parametrize(
    ("base", "centres", "first", "code"),
    [
        ([100.0], [100, 100.1, 99.9], "undecided: noise-unknown", "0"),
        ([97.5, 100, 102.5], [104, 100, 99.5], "undecided: cannot-exclude", "0"),
        ([90.0, 100, 110], [104, 96, 108], "undecided: cannot-exclude", "3"),
        ([100, 100.1, 99.9], [140, 140.1, 139.9], "undecided: interval", "1"),
        ([100 + i / 10 for i in range(10)], [140, 140.1, 139.9], "fail: interval", "1"),
    ],
    ids=["unknown noise", "a doubt that ends", "a doubt that stays", "a suspicion", "a failure"],
)
def test_what_one_run_does_not_settle_is_measured_again(
    script: Action, measured: Any, folder: Path, base: list[float], centres: list[float], first: str, code: str
) -> None:
    command = measured(base, centres)
    script(results="prepared1", json="one.json")
    (verdict,) = json.loads((folder / "one.json").read_text())["verdicts"]
    assert f"{verdict['outcome']}: {verdict['reason']}" == first
    result = script(run=command, results="new.json", json="report.json")
    assert result.outputs["exit-code"] == code
    assert 2 <= len(json.loads((folder / "report.json").read_text())["inputs"]) <= 3
    assert "more runs are made if they can change it" in result.log


@pytest.mark.parametrize(
    ("rules", "centre", "code"),
    [
        ("forward within 5% of baseline", 104.6, "0"),
        ("forward under 150 ms", 200, "1"),
        ("memory within 5% of baseline", 100, "1"),
    ],
    ids=["a doubt that does not block", "a limit", "without noise"],
)
def test_what_another_run_cannot_change_is_not_measured_again(
    script: Action, measured: Any, folder: Path, perfgate: Command, rules: str, centre: float, code: str
) -> None:
    command = measured([100, 100.05, 99.95], [centre] * 3)
    write_rules(folder, rules, head="suite: young\n")
    for name, held in (*((f"base{i}.json", 10) for i in range(3)), ("prepared1", 20)):
        document = json.loads((folder / name).read_text())
        document["series"].append({"metric": "memory", "unit": "B", "value": held})
        (folder / name).write_text(json.dumps(document))
    runs = [f"base{i}.json" for i in range(3)]
    assert perfgate("baseline", "approve", *runs, "--reason", "with memory").code == 0
    result = script(run=command, results="new.json", json="report.json")
    assert result.outputs["exit-code"] == code
    assert len(json.loads((folder / "report.json").read_text())["inputs"]) == 1


def test_what_an_earlier_step_measured_is_measured_again(script: Action, prepared: Any, folder: Path) -> None:
    write_run(folder / "new.json", forward=106, seed=49)
    write_run(folder / "again.json", forward=300)  # left from another day, and no part of this
    command = prepared(0, 106, 106.1).replace("new.json", "again.json")
    result = script(results="new.json", rerun=command, rerun_results="again.json", json="report.json")
    assert (result.outputs["outcome"], result.outputs["exit-code"]) == ("fail", "1")
    document = json.loads((folder / "report.json").read_text())
    paths = ["perfgate-runs/1/new.json", "perfgate-runs/2/again.json", "again.json"]
    assert [file["path"] for file in document["inputs"]] == paths


def test_each_run_keeps_what_its_machine_did(script: Action, prepared: Any, folder: Path) -> None:
    """The file of an earlier step stays with its run, and so does what a Recorder of the command wrote."""
    write_run(folder / "new.json", forward=106, seed=49)
    for name in ("new.json.machine", "prepared2.machine", "prepared3.machine"):
        host = {"schema": "perfgate.results/1", "environment": {"host": f"host of {name}"}, "series": []}
        (folder / name).write_text(json.dumps(host))
    command = prepared(0, 106, 106.1) + " && cp prepared$PERFGATE_RUN.machine new.json.machine"
    script(results="new.json*", rerun=command, rerun_results="new.json", json="report.json")
    document = json.loads((folder / "report.json").read_text())
    paths = ["perfgate-runs/1/new.json", "perfgate-runs/2/new.json", "new.json"]
    assert [file["path"] for file in document["inputs"]] == [
        name for path in paths for name in (path, f"{path}.machine")
    ]
    assert "prepared2" in (folder / "perfgate-runs/2/new.json.machine").read_text()


def test_the_machine_is_watched_during_the_command(action: Action, folder: Path) -> None:
    write_rules(folder, "machine.cpu.busy max under 200%", "command.time under 60 s")
    command = "mkdir out && sleep .3 && cp good.json out/new.json"
    write_run(folder / "good.json", forward=100, seed=1)
    result = action(run=command, results="out/*", policy_ref="", json="report.json")
    assert (result.conclusion, result.outputs["outcome"]) == ("success", "pass"), result.log
    files = [file["path"] for file in json.loads((folder / "report.json").read_text())["inputs"]]
    assert files == ["out/new.json", "out/new.json.machine"]


def test_a_suspicion_without_a_command_stands(script: Action, repository: Repository, folder: Path) -> None:
    write_run(folder / "new.json", forward=106, seed=50)
    result = script(results="new.json")
    assert (result.outputs["outcome"], result.outputs["exit-code"]) == ("undecided", "3")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("true", "3"),
        ("cp prepared1 new.json; false | cat", "3"),
        ('test "$PERFGATE_RUN" = 1 && cp prepared1 new.json', "3"),
    ],
    ids=["writes nothing", "fails in a pipe", "fails the second time"],
)
def test_a_measurement_that_fails_is_red(script: Action, prepared: Any, folder: Path, command: str, code: str) -> None:
    prepared(106, 100, 100)
    write_run(folder / "new.json", forward=100)  # old, and must not be taken for the new
    result = script(run=command, results="new.json")
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


def test_a_report_that_cannot_be_written_changes_nothing(script: Action, limit: Path) -> None:
    write_log(limit / "train.log", forward=steady(100))
    (limit / "file").write_text("")
    (limit / "report.md").write_text("of yesterday")
    result = script(results="train.log", junit="file/junit.xml", html="rules", markdown="report.md")
    assert result.conclusion == "success"
    assert result.outputs["junit-path"] == result.outputs["html-path"] == ""
    assert result.outputs["markdown-path"] == "report.md"
    assert "of yesterday" not in (limit / "report.md").read_text()
    assert levels(result) == ["warning", "warning"]


def test_what_is_shown_and_where_can_be_said(action: Action, limit: Path) -> None:
    write_log(limit / "below" / "train.log", forward=steady(200))
    told = {"annotations": "false", "summary": "false", "working_directory": "below", "rules": "../rules"}
    gate = action(results="*.log", **told).steps["gate"]
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


@pytest.mark.parametrize(
    ("log", "obeyed", "outputs"),
    [
        ("  ::set-output name=a::b", ["set-output"], {"a": "b"}),
        ("x ##[set-output name=a]b", ["set-output"], {"a": "b"}),
        ("x ::add-mask::a", [], {}),
        ("::stop-commands::t\n::add-mask::a\n##[add-mask]a\n::t::\n::add-mask::b", ["add-mask"], {}),
        ("::group::a\n::unknown::b", [], {}),
    ],
)
def test_the_port_of_the_runner_obeys(log: str, obeyed: list[str], outputs: dict[str, str]) -> None:
    """So that what follows could fail."""
    step = Step()
    Commands(step).read(log)
    assert (step.obeyed, step.outputs) == (obeyed, outputs)


def test_hostile_names_reach_no_parser(action: Action, folder: Path) -> None:
    write_rules(folder, "* p95 under 120 ms")
    series = [{"metric": name, "unit": "ms", "values": steady(200, seed=i)} for i, name in enumerate(HOSTILE)]
    write_results(folder / "new.json", *series)
    result = action(results="new.json", json="report.json", markdown="report.md")
    gate = result.steps["gate"]
    assert result.outputs["outcome"] == "fail"
    assert result.outputs["counts"] == json.dumps({"fail": len(HOSTILE)})
    assert gate.obeyed == []
    assert gate.log.startswith("::stop-commands::")
    assert "forged" not in [text for _, text, _ in gate.annotations]
    assert len(gate.annotations) == 10  # nine, and one that counts the rest
    assert "<img" not in gate.summary.replace("`<img", "")


def test_a_fault_of_the_script_is_no_regression(limit: Path, installed: str) -> None:
    environment = clean_environment(limit / ".runner") | {"RUNNER_TEMP": "/nowhere", "GITHUB_OUTPUT": "/nowhere/output"}
    words = [installed, "-E", "-s", str(ROOT / "action" / "gate.py")]
    done = subprocess.run(words, cwd=limit, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert done.stdout.startswith("::error::internal error: FileNotFoundError")


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
    assert f"perfgate baseline allow --head {'2' * 40}" in result.log
    assert str(folder / ".runner") not in result.log
    assert action(PULL_REQUEST, results="new.json", policy_ref="").outputs["exit-code"] == "0"
    repository.git("update-ref", "-d", "refs/remotes/origin/main")
    lost = action(PULL_REQUEST, results="new.json")
    assert lost.outputs["exit-code"] == "3"
    assert "fetch-depth: 0" in lost.log
    assert levels(lost) == ["error"]


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("refs/remotes/origin/absent", "fetch-depth: 0"),
        ("refs/heads/empty", "has no rules or more"),
        ("refs/heads/unprotected", "do not count"),
    ],
)
def test_what_could_not_be_judged_is_not_measured(
    script: Action, repository: Repository, policy: str, words: str
) -> None:
    repository.git("update-ref", "refs/heads/empty", repository.git("commit-tree", "-m", "empty", EMPTY_TREE))
    given = {"policy_ref": policy, "policy_branches": "absent\nempt*", "rules": "rules\nmore"}
    result = script(run="touch measured", results="new.json", **given)
    assert (result.outputs["outcome"], result.outputs["exit-code"]) == ("error", "3")
    assert words in result.log
    assert not Path("measured").exists()


#: A pull request to a branch that its author may write to.
TO_FEATURE = {**PULL_REQUEST, "base_ref": "feature"}


def test_a_tag_called_like_the_base_does_not_judge(action: Action, repository: Repository, folder: Path) -> None:
    repository.git("update-ref", "refs/remotes/origin/main", "HEAD")
    write_rules(folder, "forward within 90% of baseline")
    lax = repository.commit("judge me kindly")
    for name in ("origin/main", "main", "refs/remotes/origin/main"):
        repository.git("update-ref", f"refs/tags/{name}", lax)
    write_run(folder / "new.json", forward=120)
    assert action(PULL_REQUEST, results="new.json").outputs["exit-code"] == "1"
    short = action(PULL_REQUEST, results="new.json", policy_ref="origin/main")
    assert (short.outputs["exit-code"], "write refs/remotes/origin/main" in short.log) == ("2", True)


def test_a_branch_that_nobody_protects_does_not_judge(action: Action, repository: Repository, folder: Path) -> None:
    """Its green check would stay at the commit after the pull request was retargeted to main."""
    write_rules(folder, "forward within 90% of baseline")
    repository.git("update-ref", "refs/remotes/origin/feature", repository.commit("judge me kindly"))
    write_run(folder / "new.json", forward=120)
    result = action(TO_FEATURE, results="new.json")
    assert (result.conclusion, result.outputs["exit-code"]) == ("failure", "3")
    assert "retarget the pull request" in result.log
    by_hash = action(TO_FEATURE, results="new.json", policy_ref=repository.git("rev-parse", "HEAD"))
    assert by_hash.outputs["exit-code"] == "3"
    assert action(TO_FEATURE, results="new.json", policy_branches="main\nfeat*").outputs["exit-code"] == "0"


def test_a_command_that_moves_the_base_does_not_change_the_rules(
    action: Action, repository: Repository, folder: Path
) -> None:
    """Neither in its first run nor in those after an undecided result."""
    sha = repository.git("rev-parse", "HEAD")
    repository.git("update-ref", "refs/remotes/origin/main", sha)
    write_rules(folder, "forward within 90% of baseline")
    lax = repository.commit("judge me kindly")
    for number in range(1, 4):
        write_run(folder / f"made{number}", forward=120, seed=50 + number)
    program = f"git update-ref refs/remotes/origin/main {lax}; cp made$PERFGATE_RUN new.json"
    result = action(PULL_REQUEST, results="new.json", run=program, json="report.json")
    assert result.outputs["exit-code"] == "1"
    assert "measuring again" in result.log
    assert json.loads((folder / "report.json").read_text())["policy"]["commit"] == sha


@pytest.mark.parametrize("clone_has", ["the merge", "only its head", "a forged merge"])
def test_an_earlier_step_does_not_move_the_base(
    action: Action, repository: Repository, folder: Path, clone_has: str
) -> None:
    """GitHub names the merge of the pull request, and its hash proves the base; or the base of the event counts."""
    sha = repository.git("rev-parse", "HEAD")
    write_rules(folder, "forward within 90% of baseline")
    lax = repository.commit("judge me kindly")
    merge = repository.git("commit-tree", "-m", "merge", "-p", sha, "-p", lax, f"{lax}^{{tree}}")
    event = {"pull_request": {"head": {"sha": lax}, "base": {"sha": sha}}, "repository": {"default_branch": "main"}}
    place = folder / ".git/objects" / merge[:2] / merge[2:]
    forged = repository.git("commit-tree", "-m", "merge", "-p", lax, "-p", lax, f"{lax}^{{tree}}")
    if clone_has != "the merge":
        place.unlink()
        event["pull_request"]["base"]["sha"] = sha
    else:
        event["pull_request"]["base"]["sha"] = repository.git("commit-tree", "-m", "older", EMPTY_TREE)
    if clone_has == "a forged merge":
        place.write_bytes((folder / ".git/objects" / forged[:2] / forged[2:]).read_bytes())
    repository.git("update-ref", "refs/remotes/origin/main", lax)
    write_run(folder / "new.json", forward=120)
    github = {**PULL_REQUEST, "event_name": "pull_request", "sha": merge, "event": event}
    result = action(github, results="new.json", json="report.json")
    assert result.outputs["exit-code"] == "1", result.log
    assert json.loads((folder / "report.json").read_text())["policy"]["commit"] == sha


def test_a_command_that_overwrites_an_object_does_not_change_the_rules(
    script: Action, repository: Repository, folder: Path
) -> None:
    """In a clone with packs, as a job has it, at the first look and after it measured again."""
    rewrite = ROOT / "tests/attacks/rewrite_object.py"
    sha = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "-q", "-b", "lax")
    write_rules(folder, "forward under 1 h")
    repository.commit("judge me kindly")
    repository.git("gc", "-q", "--prune=now")
    write_run(folder / "slow.json", forward=130, seed=9)
    program = f"cp slow.json new.json; {sys.executable} {rewrite} {sha}:rules/rules.yaml lax:rules/rules.yaml"
    result = script(results="new.json", run=program, policy_ref=sha)
    assert result.outputs["exit-code"] == "3", result.log
    assert "is missing or was changed" in result.log
    assert "under 1 h" in repository.git("cat-file", "-p", f"{sha}:rules/rules.yaml")


@pytest.mark.parametrize("inputs", [{"policy_ref": "origin/main"}, {"rules": "absent"}], ids=str)
def test_reports_of_yesterday_do_not_stay(script: Action, limit: Path, inputs: dict[str, str]) -> None:
    """They are replaced, or removed if perfgate was not started."""
    write_log(limit / "train.log", forward=steady(100))
    forms = {"junit": "a.xml", "json": "a.json"}
    assert script(results="train.log", **forms).outputs["exit-code"] == "0"
    assert script(results="train.log", **forms, **inputs).outputs["exit-code"] == "2"
    assert 'errors="1"' in (limit / "a.xml").read_text() if "rules" in inputs else not (limit / "a.xml").exists()
    assert (limit / "a.json").exists() == ("rules" in inputs)


@pytest.fixture
def outside(limit: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file outside of the workspace, which is a clone."""
    write_log(limit / "train.log", forward=steady(100))
    workspace, outside = limit / "workspace", limit / "mine"
    (outside / "pairs").mkdir(parents=True)
    (outside / "pairs" / "env-0.json").write_text("mine")
    workspace.mkdir()
    (limit / "rules").rename(workspace / "rules")
    (limit / "train.log").rename(workspace / "train.log")
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("GITHUB_WORKSPACE", str(workspace))
    subprocess.run(["git", "init", "-q"], check=True)
    return outside / "pairs" / "env-0.json"


@pytest.mark.parametrize("inputs", [{}, {"run": "true"}, {"run": "true", "paired": "true", "base_ref": "HEAD"}])
@pytest.mark.parametrize("link", ["perfgate-runs", "perfgate-runs/env-0.json", "perfgate-runs/pairs"])
def test_a_link_that_is_committed_for_perfgates_files_is_refused(
    script: Action, outside: Path, link: str, inputs: dict[str, str]
) -> None:
    Path(link).parent.mkdir(exist_ok=True)
    Path(link).symlink_to({"pairs": outside.parent, "env-0.json": outside}.get(Path(link).name, outside.parents[1]))
    subprocess.run(["git", "add", "-f", link], check=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *identity, "commit", "-q", "-m", "a link"], check=True)
    result = script(results="train.log", policy_branches="*", **inputs)
    assert result.outputs["exit-code"] in ("2", "3"), result.log
    assert outside.read_text() == "mine"


@pytest.mark.parametrize("place", ["out/env-0.json", "env-0.json"])
@pytest.mark.parametrize("rules", ["rules", "nowhere"], ids=["judged", "refused"])
def test_a_report_through_a_link_out_of_the_workspace_is_not_written(
    script: Action, outside: Path, place: str, rules: str
) -> None:
    Path("out").symlink_to(outside.parent)
    Path("env-0.json").symlink_to(outside)
    result = script(results="train.log", rules=rules, json=place)
    assert result.outputs["exit-code"] == ("0" if rules == "rules" else "2"), result.log
    assert (outside.read_text(), result.outputs["json-path"]) == ("mine", "")


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
    script: Action, legs: Path, report: str, expect: str, jobs: dict[str, str], outcome: str, code: str
) -> None:
    result = script(report=report, expect=expect, needs=needs(**jobs))
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
