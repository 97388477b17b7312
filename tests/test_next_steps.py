"""The next step: one sentence and one command for every situation, the same in every rendering, and it works."""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import Done, Repository, calibrate, same_code, write_rules, write_run
from msgspec.structs import replace

from perfgate.commands.check import check
from perfgate.commands.preparing import CheckRequest
from perfgate.core import Report
from perfgate.reporters import RENDERERS, github, terminal
from perfgate.words import answer
from perfgate.workspace.options import CommandOptions

Command = Callable[..., Done]
#: Every rendering for a person or a tool; the comment from untrusted reports has no sentence of a report on purpose.
RENDERINGS: dict[str, Callable[[Report], str]] = {
    **{name: render for name, render in RENDERERS.items() if name != "untrusted-comment"},
    "annotations": github.render,
    "terminal": terminal.render,
}


@dataclass(frozen=True)
class Situation:
    """New runs of `forward` and `backward` in milliseconds, the rule, and the step that is expected."""

    rule: str
    forward: float
    backward: float
    action: str
    text: str
    ref: str | None = None
    command: str = ""
    #: The GPU of the new run; the stored runs are of an H200.
    gpu: str = "H200"


HEAD = "5e" * 20
CHANGE = "forward within 5% of baseline"
CAUSE = "if the change is intended, "
WHO = "someone who may write to main"
SITUATIONS = {
    "fail at home": Situation(CHANGE, 120, 200, "approve", f"{CAUSE}approve it", command="perfgate baseline approve "),
    "fail on a ref": Situation(
        CHANGE, 120, 200, "allow", f"{CAUSE}{WHO} can allow it there", "main", "perfgate baseline allow --head "
    ),
    "suspect": Situation(CHANGE, 105.6, 200, "run-again", "run the new code twice more"),
    "suspect on a ref": Situation(CHANGE, 105.6, 200, "run-again", "run the new code twice more", "main"),
    "improved": Situation(
        CHANGE, 80, 200, "approve", "approve it to keep the gain", command="perfgate baseline approve "
    ),
    "improved on a ref": Situation(
        CHANGE, 80, 200, "approve", f"{WHO} can approve a run of it after the merge, to keep the gain", "main"
    ),
    "no baseline": Situation(CHANGE, 100, 200, "make-baseline", "make one", None, "perfgate baseline approve ", "B200"),
    "no baseline on a ref": Situation(
        CHANGE, 100, 200, "make-baseline", f"{WHO} can make one there, from runs of main", "main", "", "B200"
    ),
    "limit": Situation(
        "forward under 90 ms", 100, 200, "find-cause", "reduce it to under 90 ms, or change the rule at "
    ),
    "limit on a ref": Situation("forward under 90 ms", 100, 200, "find-cause", "reduce it to under 90 ms, or ", "main"),
    "absent": Situation("forwards under 90 ms", 100, 200, "fix-input", "correct the name"),
}


def squeezed(text: str) -> str:
    """A rendering without its markup: escapes, code marks, line breaks and blanks."""
    return re.sub(r"[\s`\\]|%0A", "", html.unescape(text).replace("%25", "%"))


@pytest.mark.parametrize("name", SITUATIONS)
def test_every_rendering_has_the_same_step_and_command(repository: Repository, folder: Path, name: str) -> None:
    case = SITUATIONS[name]
    write_rules(folder, case.rule)
    repository.commit("the rule")
    run = write_run(folder / "new.json", case.forward, case.backward, seed=9, gpu=case.gpu)
    report = check(CheckRequest(CommandOptions(runs=(str(run),), policy_ref=case.ref)))
    (verdict,) = report.verdicts
    step = verdict.next_step
    assert (step.action, step.text[: len(case.text)]) == (case.action, case.text)
    assert (step.command or "").startswith(case.command)
    assert (step.command is None) == (not case.command)
    assert (step.who, step.where) == (("you", "here") if WHO not in step.text else (WHO, "on main"))
    for form, render in RENDERINGS.items():
        shown = squeezed(render(report))
        assert squeezed(answer.next_step(step)) in shown, form
        if case.ref:
            assert "baselineapprove" not in shown, form


@pytest.mark.parametrize("name", [name for name, case in SITUATIONS.items() if case.command])
def test_the_command_that_is_printed_works(repository: Repository, perfgate: Command, folder: Path, name: str) -> None:
    case = SITUATIONS[name]
    write_rules(folder, case.rule)
    repository.commit("the rule")
    run = write_run(folder / "new.json", case.forward, case.backward, seed=9, gpu=case.gpu)
    options = CommandOptions(runs=(str(run),), policy_ref=case.ref, head=HEAD)
    report = check(CheckRequest(options))
    assert report.accept.command == report.verdicts[0].next_step.command
    program, *words = shlex.split(str(report.accept.command))
    assert (program, perfgate(*words).code) == ("perfgate", 0)
    if case.gpu != "H200":  # a first run alone promises nothing
        assert perfgate("baseline", "add", *same_code(run, 3)[1:]).code == 0
    repository.commit("accepted")
    again = write_run(folder / "again.json", case.forward, case.backward, seed=11, gpu=case.gpu)
    assert check(CheckRequest(replace(options, runs=(str(again),)))).exit_code == 0


def test_two_rules_of_a_metric_have_one_command_that_is_enough_for_both(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    write_rules(
        folder, "forward within 5% of baseline", "forward p90 within 1% of baseline", "backward within 5% of baseline"
    )
    calibrate(perfgate, folder, forward=100, backward=200)
    repository.commit("rules")
    options = CommandOptions(
        runs=(str(write_run(folder / "new.json", 130, 260, seed=9)),), head=HEAD, policy_ref="main"
    )
    report = check(CheckRequest(options))
    one, two, other = (str(verdict.next_step.command) for verdict in report.verdicts)
    assert (one, report.accept.command) == (two, f"{one} && {other}")
    for command in str(report.accept.command).split(" && "):
        assert perfgate(*shlex.split(command)[1:]).code == 0
    repository.commit("allowed")
    assert check(CheckRequest(options)).exit_code == 0


def test_a_bucket_keeps_its_slashes(folder: Path, perfgate: Command) -> None:
    write_rules(folder, CHANGE)
    run = write_run(folder / "new.json")
    done = perfgate("check", run, "--baselines", "memory://bucket/baselines")
    assert "--baselines memory://bucket/baselines" in " ".join(done.out.split())


def test_two_approvals_are_settled_on_the_ref(repository: Repository, perfgate: Command, folder: Path) -> None:
    """No rendering advises an approval that would not count."""
    level = next((folder / "baselines").glob("*/*/*"))
    for seed, branch in ((11, "one"), (12, "two")):
        repository.git("checkout", "-q", "-b", branch, "main")
        run = write_run(folder / f"{branch}.json", 110, seed=seed)
        assert perfgate("baseline", "approve", run, "--reason", branch).code == 0
        repository.commit(branch)
    repository.git("merge", "-q", "-m", "both", "one")
    assert level.is_dir()
    new = write_run(folder / "new.json", seed=13)
    done = perfgate("check", new, "--policy-ref", "two")
    assert done.code == 3
    said = " ".join(done.out.split())
    assert ("approve new runs on two, to replace both" in said, "baseline approve" in said) == (True, False)
