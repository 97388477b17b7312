"""`perfgate attack`: every bad workflow and rule is named with its place, and the good ones pass.

A folder of `workflows/bad` has a workflow and what is said of it; `UPDATE_GOLDEN=1` writes the latter.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, approve_steady, steady, write_log, write_results, write_rules

Command = Callable[..., Done]
HERE = Path(__file__).parent / "workflows"
ROOT = Path(__file__).resolve().parents[2]
FORWARD = {"metric": "forward", "unit": "ms", "values": steady(100)}
#: Workflows that judge no pull request: nothing is green by them, and nothing is proved.
WITHOUT_A_GATE = (*("jobs-that-are-none", "no-gate", "push-to-main", "steps-that-are-none", "target-without-the-head"),)
SUMMARY = "no run given, so no rule was attacked; 1 workflow read"


@pytest.mark.parametrize("case", sorted((HERE / "bad").iterdir()), ids=lambda path: path.name)
def test_a_bad_workflow_is_named(perfgate: Command, folder: Path, case: Path) -> None:
    shutil.copy(case / "perf.yml", folder)
    done = perfgate("attack", "--workflows", ".")
    if os.environ.get("UPDATE_GOLDEN"):
        (case / "said.txt").write_text(done.out)
    assert (done.code, done.out) == (1, (case / "said.txt").read_text())


@pytest.mark.parametrize("case", sorted((HERE / "good").iterdir()), ids=lambda path: path.name)
def test_a_good_workflow_passes(perfgate: Command, folder: Path, case: Path) -> None:
    done = perfgate("attack", "--workflows", case)
    code = 3 if case.name in WITHOUT_A_GATE else 0
    assert (done.code, done.out) == (code, f"0 would work: {SUMMARY} (exit {code})\n")


#: How GitHub runs a script, by the `shell` of the step.
SHELLS = {
    None: ["bash", "-e"],
    "bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"],
    "sh": ["sh", "-e"],
    "bash {0}": ["bash"],
}
#: Scripts with a gate, here @; bash itself says which of them end with 0 although the gate ends with 1.
SCRIPTS = (
    *("@", "@ | tee log", "@ |\ntee log", "@ 2>&1 | tee log", "set -o pipefail\n@ | tee log", "cat log | @"),
    *("@ | tee log; exit ${PIPESTATUS[0]}", "@ --env 'a|b'", '@ --env "a || true; b & c"', "@ > log 2>&1"),
    *("@ || true", "@ 2>&1 || true", "@ ||\n  true", "@ || exit", "@ || exit 0", "@ || exit 1", "@ || /bin/true"),
    *("@ || { echo bad; exit 1; }", "@ || {\n  echo bad\n}", "@ || (echo bad)", "@ || code=$?\nexit $code"),
    *("@; exit 0", "@\necho done", "set +e\n@\necho done", "set +e\n@\nexit $?", "set -e\n@; echo done"),
    *("@ && echo ok", "@ && echo ok\necho done", "@ && echo ok || echo bad", "@ && echo ok | cat"),
    *("@ &", "@ & wait", "@ & wait $!", "(@)", "(@) || true", "{ @; } | tee log", "{ @; }\necho done"),
    *("for f in a b; do @; done", "for f in a b; do @; done | tee log", "for f in a b; do @; done || true"),
    *("if @; then echo ok; fi", "if @; then echo ok; else exit 1; fi", "if ! @; then exit 1; fi"),
    *("if ! @; then echo slow; fi", "while ! @; do break; done", "until @; do exit 1; done", "trap 'exit 0' EXIT\n@"),
    *("x=$(@)", 'x="$(@)"\necho "$x"', 'echo "$(@)"', "export x=$(@)", "echo `@`", "# @\n@ # || true", "@ \\\n || :"),
)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_that_drops_the_exit_code_is_named(
    perfgate: Command, folder: Path, script: str, shell: str | None
) -> None:
    script = script.replace("@", "perfgate check new.log --policy-ref $BASE")
    if shell == "sh" and ("PIPESTATUS" in script or "pipefail" in script):
        return  # not words of sh
    fake = folder / "bin/perfgate"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    path = {"PATH": f"{fake.parent}:{os.environ['PATH']}", "BASE": "main"}
    done = subprocess.run([*SHELLS[shell], "-c", script], env=path, stdin=subprocess.DEVNULL, check=False)
    step = {"run": script} if shell is None else {"run": script, "shell": shell}
    job = {"runs-on": "x", "permissions": {}, "steps": [step]}
    (folder / "perf.yml").write_text(json.dumps({"on": "pull_request", "jobs": {"gate": job}}))
    said = perfgate("attack", "--workflows", ".")
    is_named = "drops the exit code of the gate" in said.out
    assert (said.code, is_named) == ((1, True) if done.returncode == 0 else (0, False)), said.said


def test_workflows_without_a_gate_are_no_proof(perfgate: Command, folder: Path) -> None:
    lint = "on: pull_request\njobs: {lint: {runs-on: x, steps: [{run: ruff check}]}}\n"
    (folder / "lint.yml").write_text(lint)
    done = perfgate("attack", "--workflows", ".")
    assert (done.code, "no workflow here judges pull requests with perfgate" in done.said) == (3, True)


def test_the_workflows_of_this_repository_pass(perfgate: Command, folder: Path) -> None:
    done = perfgate("attack", "--workflows", ROOT / ".github/workflows")
    assert (done.code, done.out.startswith("0 would work")) == (0, True), done.said


@pytest.mark.parametrize("more", [[], ["--paired"]], ids=["stored", "paired"])
def test_what_init_writes_passes(perfgate: Command, folder: Path, more: list[str]) -> None:
    logs = [f"main-{seed}.log" for seed in range(3)]
    for seed, name in enumerate(logs):
        write_log(folder / name, forward=steady(100, seed=seed))
    assert perfgate("init", *more, *logs).code == 0
    done = perfgate("attack", logs[0])
    assert (done.code, "0 would work" in done.out) == (0, True), done.said


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("forward under 1 s", []),
        ("forward within 10% of baseline", []),
        ("{assert: forward under 1 s, on_missing: skip}", ["a run without the metric", "under another name"]),
        ("{assert: forward under 1 s, when: {site: here}}", ["a run that claims another `site` passes"]),
        ("{assert: forward under 1 s, severity: warning}", []),
    ],
    ids=["limit", "change", "on_missing", "when", "warning"],
)
def test_what_hides_a_failing_run_from_a_rule_is_named(
    perfgate: Command, folder: Path, rule: str, said: list[str]
) -> None:
    run = write_results(folder / "new.json", FORWARD, environment={"site": "here"})
    write_rules(folder, "forward within 10% of baseline")
    approve_steady(perfgate, run)
    (folder / "rules/rules.yaml").write_text(f"version: 1\nrules:\n  - {rule}\n")
    done = perfgate("attack", "new.json")
    lines = done.out.splitlines()
    assert (done.code, len(lines) - 1) == (int(bool(said)), len(said)), done.said
    assert all(text in line and "rules/rules.yaml:3:" in line for text, line in zip(said, lines, strict=False))


def test_pairs_are_attacked(perfgate: Command, folder: Path) -> None:
    sides = [{**FORWARD, "labels": {"side": side, "pair": "0", "pairing": "in-turn"}} for side in ("base", "new")]
    write_results(folder / "pair.json", *sides)
    write_rules(folder, "forward within 10% of baseline")
    done = perfgate("attack", "pair.json")
    assert (done.code, "0 would work: 6 attacks on rules" in done.out) == (0, True), done.said


def test_a_true_fact_that_is_given_is_not_claimed_away(perfgate: Command, folder: Path) -> None:
    write_results(folder / "new.json", FORWARD, environment={"site": "here"})
    (folder / "rules").mkdir()
    (folder / "rules/r.yaml").write_text("version: 1\nrules:\n  - {assert: forward under 1 s, when: {site: here}}\n")
    assert perfgate("attack", "new.json", "--env", "site=here").code == 0


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("a: &b 1\n", 3, "perf.yml:1:4: error: anchors"),
        ("\x00", 3, "perf.yml"),
        (None, 3, "perf.yml: is not a regular file"),
    ],
    ids=["anchor", "garbage", "pipe"],
)
def test_a_workflow_that_cannot_be_read_is_no_pass(
    perfgate: Command, folder: Path, text: str | None, code: int, said: str
) -> None:
    os.mkfifo("perf.yml") if text is None else (folder / "perf.yml").write_text(text)
    done = perfgate("attack", "--workflows", ".")
    assert (done.code, said in done.err) == (code, True), done.said


def test_nothing_to_attack_is_a_usage_error(perfgate: Command, folder: Path) -> None:
    assert perfgate("attack").code == 2
