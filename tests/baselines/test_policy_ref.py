"""Rules and baselines from a commit: what cannot be read, and what may not be followed."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, write_rules, write_run

Command = Callable[..., Done]


@pytest.mark.parametrize("ref", ["origin/nowhere", "0" * 40, "--upload-pack=x", "", "HEAD:rules"])
def test_a_ref_that_cannot_be_read_is_said(repository: Repository, perfgate: Command, ref: str) -> None:
    done = perfgate("check", "first0.json", f"--policy-ref={ref}")
    assert done.code == 3
    assert "cannot be read" in done.err


def test_outside_of_a_repository_nothing_can_be_read(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 s")
    assert perfgate("check", write_run(folder / "run.json"), "--policy-ref", "HEAD").code == 3


def test_the_commit_decides_whatever_the_working_tree_holds(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    run = write_run(folder / "same.json", seed=7)
    expected = perfgate("check", run, "--policy-ref", "main").out
    (folder / "rules/rules.yaml").write_text("no rules at all: [")
    for path in (folder / "baselines").rglob("*.json"):
        path.write_text("damaged")
    done = perfgate("check", run, "--policy-ref", "main")
    assert done.code == 0
    assert expected.splitlines()[-1] == done.out.splitlines()[-1]
    assert "the working tree's own rules cannot be used" in " ".join(done.out.split())


def test_rules_are_read_from_the_top_wherever_the_command_is_typed(
    repository: Repository, perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "inside").mkdir()
    monkeypatch.chdir(folder / "inside")
    write_run(folder / "new.json", seed=77)
    done = perfgate(
        "check", "../new.json", "--policy-ref", "main", "--rules", "../rules", "--baselines", "../baselines"
    )
    assert done.code == 0


def test_paths_out_of_the_repository_are_refused(
    repository: Repository, perfgate: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done = perfgate("check", "first1.json", "--policy-ref", "main", "--rules", elsewhere)
    assert (done.code, "is outside of the repository" in done.err) == (3, True)


def test_a_name_that_begins_with_two_dots_is_no_path_upwards(repository: Repository, perfgate: Command) -> None:
    done = perfgate("check", "first1.json", "--policy-ref", "main", "--rules", "..rules")
    assert "is outside of the repository" not in done.err
    assert "..rules" in done.err


@pytest.mark.parametrize("linked", ["rules/rules.yaml", "baselines/default"])
def test_links_in_the_commit_are_refused(repository: Repository, perfgate: Command, folder: Path, linked: str) -> None:
    path = folder / linked
    path.rename(folder / "moved")
    path.symlink_to(folder / "moved")
    repository.commit("linked")
    done = perfgate("check", "first1.json", "--policy-ref", "HEAD")
    assert done.code == 3
    assert "links are not followed" in " ".join(done.said.split())


def test_a_link_in_the_place_of_another_environment_is_said(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    (folder / "baselines" / "default" / "another").symlink_to(folder)
    here = perfgate("check", "first1.json")
    repository.commit("linked")
    done = perfgate("check", "first1.json", "--policy-ref", "HEAD")
    assert done.code == here.code == 3
    assert all("default/another" in one.said for one in (here, done))


def test_a_link_in_the_working_tree_does_not_lead_the_commit_astray(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    write_rules(folder, "forward under 1 s", name="mild/rules.yaml")
    repository.git("add", "mild")
    repository.commit("mild rules that nobody uses")
    (folder / "rules").rename(folder / "old-rules")
    (folder / "rules").symlink_to(folder / "mild")
    slow = write_run(folder / "slow.json", 150)
    assert perfgate("check", slow, "--policy-ref", "HEAD").code == 1


def test_a_commit_without_rules_is_said(repository: Repository, perfgate: Command) -> None:
    repository.git("checkout", "-q", "--orphan", "empty")
    repository.git("rm", "-rqf", "rules", "baselines")
    repository.git("commit", "-q", "--allow-empty", "-m", "nothing")
    repository.git("checkout", "-q", "main")
    done = perfgate("check", "first1.json", "--policy-ref", "empty")
    assert (done.code, "has no rule file" in done.err) == (3, True)


def test_proposed_files_are_what_an_approval_would_write(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    run = write_run(folder / "faster.json", 80)
    before = sorted((folder / "baselines").rglob("*.json"))
    done = perfgate("check", run, "--propose", "proposal", "--policy-ref", "main")
    assert "wrote proposal/default/" in done.err
    assert sorted((folder / "baselines").rglob("*.json")) == before
    for path in (folder / "proposal").rglob("*.json"):
        target = folder / "baselines" / path.relative_to(folder / "proposal")
        target.parent.mkdir(parents=True)
        target.write_bytes(path.read_bytes())
    assert perfgate("baseline", "verify").code == 0
    again = perfgate("check", write_run(folder / "again.json", 80, seed=9))
    assert (again.code, "+0." in again.out or "-0." in again.out) == (0, True)


def test_a_file_that_no_store_holds_harms_no_decision(repository: Repository, perfgate: Command, folder: Path) -> None:
    (folder / "baselines" / "how to read this.md").write_text("a note")
    repository.commit("a note")
    run = write_run(folder / "run.json", seed=7)
    assert perfgate("check", run, "--policy-ref", "main").code == 0
    (level,) = (folder / "baselines").glob("*/*/20*")
    (level / "a copy.json").write_text("{}")
    assert perfgate("check", run, "--policy-ref", "main").code == 0
    done = perfgate("check", run)
    assert (done.code, "a copy.json" in " ".join(done.out.split())) == (3, True)


def test_what_the_base_judges_is_allowed_there_by_the_command_that_is_printed(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    repository.git("checkout", "-q", "-b", "change")
    head = repository.commit("slower, for a reason")
    slow = write_run(folder / "slow.json", 97, 218, seed=9)
    done = perfgate("check", slow, "--policy-ref", "main", "--verbose")
    assert (done.code, "If the changes are intended, allow them on main:" in done.out) == (1, True)
    assert "someone who may write to main can allow it there: perfgate baseline allow" in " ".join(done.out.split())
    assert "baseline approve" not in done.out
    said = done.out.partition("If the changes are intended, allow them on main:")[2].replace("\\\n", " ").split("&&")
    repository.git("checkout", "-q", "main")
    for command in said:
        name, *words = [word if word != "..." else "meant" for word in shlex.split(command.partition("\n\n")[0])]
        assert (name, words[:4]) == ("perfgate", ["baseline", "allow", "--head", head])
        assert perfgate(*words).code == 0
    repository.commit("allow it")
    repository.git("checkout", "-q", "change")
    allowed = perfgate("check", slow, "--policy-ref", "main", "--verbose")
    assert allowed.code == 0, allowed.out


def test_an_allowed_pass_is_no_failure_by_the_rules_of_the_working_tree(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    """The base grants the allowance after the branch began, so that the branch lacks its file."""
    repository.git("checkout", "-q", "-b", "change")
    head = repository.commit("slower, for a reason")
    slow = write_run(folder / "slow.json", 100, 218, seed=9)
    repository.git("checkout", "-q", "main")
    words = ("--head", head, "--metric", "backward", "--up-to", "20%", "--reason", "meant", "--expires", "2026-02-01")
    assert perfgate("baseline", "allow", *words).code == 0
    repository.commit("allow it")
    repository.git("checkout", "-q", "change")
    done = perfgate("check", slow, "--policy-ref", "main")
    assert done.code == 0, done.out
    said = " ".join(done.out.split())
    assert "_allowances/" in said
    assert "with the policy of the working tree the outcome would be: pass" in said
