"""A shell completes words after the tab key, in a real bash too; a misspelt `--only` is answered with near names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, steady, write_log, write_rules

ROOT = Path(__file__).resolve().parent.parent

Command = Callable[..., Done]


@pytest.fixture
def offered(perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Return the words offered for the last word of a line, as bash gets them."""
    write_rules(folder, "forward within 5% of baseline", "step.time under 1 s")
    (folder / "rules" / "more.yaml").write_text("version: 1\nrules:\n  - {id: slow-tail, assert: forward under 1 s}\n")

    def complete(line: str) -> list[str]:
        monkeypatch.setenv("_PERFGATE_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
        done = perfgate()
        assert (done.code, done.err) == (0, "")
        return done.out.split()

    return complete


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        ("perfgate che", ["plain,check"]),
        ("perfgate baseline ap", ["plain,approve"]),
        ("perfgate check --jun", ["plain,--junit"]),
        ("perfgate check run", ["file,run"]),
        ("perfgate check --rules ru", ["file,ru"]),
        ("perfgate check x --only s", ["plain,slow-tail", "plain,step.time"]),
        ("perfgate rules explain sl", ["plain,slow-tail"]),
        ("perfgate rules explain --rules absent s", []),
        ("perfgate schema re", ["plain,results", "plain,report"]),
        ("perfgate completion ", ["plain,bash", "plain,zsh", "plain,fish"]),
        ("perfgate plan --cal", ["plain,--calibrate"]),  # a former name of `rules`
    ],
)
def test_the_right_words_are_offered(offered: Callable[[str], list[str]], line: str, answer: list[str]) -> None:
    assert offered(line) == answer


def test_rules_with_mistakes_offer_what_can_be_read(offered: Callable[[str], list[str]], folder: Path) -> None:
    write_rules(folder, "forward undr 5 s", name="rules/bad.yaml")
    assert offered("perfgate rules explain sl") == ["plain,slow-tail"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_is_for_its_shell(perfgate: Command, shell: str) -> None:
    done = perfgate("completion", shell)
    assert (done.code, f"_PERFGATE_COMPLETE={shell}_complete" in done.out) == (0, True)
    if shutil.which(shell):
        assert subprocess.run([shell, "-n"], input=done.out, text=True, check=False).returncode == 0


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_real_bash_completes(folder: Path) -> None:
    program = folder / "bin" / "perfgate"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m perfgate "$@"\n')
    program.chmod(0o755)
    script = (
        'eval "$(perfgate completion bash)"; COMP_WORDS=(perfgate ins); COMP_CWORD=1;'
        ' _perfgate_completion perfgate; echo "${COMPREPLY[@]}"; complete -p perfgate'
    )
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("inspect\ncomplete ")


@pytest.mark.parametrize(
    ("only", "code", "said"),
    [
        (["forwrd"], 3, "--only forwrd matches no rule and no metric: did you mean 'forward'?"),
        (["slow-tial", "forward"], 0, "--only slow-tial matches no rule and no metric: did you mean 'slow-tail'?"),
        (["zzz"], 3, "`perfgate rules` shows their names"),
        (["for*"], 0, ""),
    ],
)
def test_an_only_that_matches_nothing_is_told_the_nearest(
    perfgate: Command, folder: Path, only: list[str], code: int, said: str
) -> None:
    (folder / "rules").mkdir()
    (folder / "rules" / "r.yaml").write_text("version: 1\nrules:\n  - {id: slow-tail, assert: forward under 1 s}\n")
    write_log(folder / "new.log", forward=steady(100))
    done = perfgate("check", "new.log", *(word for glob in only for word in ("--only", glob)))
    assert done.code == code
    assert said in " ".join(done.out.split())
    assert ("matches no rule and no metric" in " ".join(done.out.split())) == bool(said)
