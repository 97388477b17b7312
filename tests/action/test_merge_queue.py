"""A merge group is judged like the pull request that it merges: by what is allowed to that head, and to no other."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, write_run
from emulator import ROOT, clean_environment, installed_by, make_python, run_action

Command = Callable[..., Done]
Git = Callable[..., str]
FACTS = ("--metric", "forward", "--up-to", "22%", "--reason", "sharper loss", "--expires", "2026-12-31")


def write(repository: Repository, name: str) -> str:
    """Commit a file of a name, and return the commit."""
    (repository.folder / name).write_text(name)
    repository.git("add", name)
    repository.git("commit", "-q", "-m", name)
    return repository.git("rev-parse", "HEAD")


def change(repository: Repository) -> str:
    """The head of a pull request, on the branch `change`; HEAD is its base."""
    repository.git("checkout", "-q", "-b", "change")
    head = write(repository, "change.txt")
    repository.git("checkout", "-q", "main")
    return head


# --- what a queue makes of it ------------------------------------------------------------------------------------


def merged(git: Git) -> None:
    git("merge", "-q", "--no-ff", "--no-edit", "change")


def squashed(git: Git) -> None:
    git("merge", "-q", "--squash", "change")
    git("commit", "-q", "-m", "squashed")


def rebased(git: Git) -> None:
    git("cherry-pick", "-x", "change")


def merged_with_another_tree(git: Git) -> None:
    """The measured commit is not the merge of the commits that it names, as nobody but an attacker would make it."""
    merged(git)
    Path("smuggled.txt").write_text("more")
    git("add", "smuggled.txt")
    git("commit", "-q", "--amend", "--no-edit")


def merged_behind_another(git: Git) -> None:
    """The slowdown of two pull requests together is more than what was allowed to one."""
    git("commit", "-q", "--allow-empty", "-m", "another")
    merged(git)


def pushed_later(git: Git) -> None:
    git("checkout", "-q", "change")
    git("commit", "-q", "--allow-empty", "-m", "pushed later")
    git("checkout", "-q", "main")
    merged(git)


@pytest.mark.parametrize(
    ("queue", "counts"),
    [
        (merged, True),
        (squashed, False),
        (rebased, False),
        (merged_with_another_tree, False),
        (merged_behind_another, False),
        (pushed_later, False),
    ],
)
def test_only_the_merge_of_a_head_counts_as_that_head(
    folder: Path, monkeypatch: pytest.MonkeyPatch, queue: Callable[[Git], None], counts: bool
) -> None:
    repository = Repository(folder)
    base, head = write(repository, "base.txt"), change(repository)
    queue(repository.git)
    measured = repository.git("rev-parse", "HEAD")
    monkeypatch.syspath_prepend(ROOT / "action")
    for name, value in {"INPUT_HEAD": measured, "INPUT_GROUP_BASE": base}.items():
        monkeypatch.setenv(name, value)
    found = importlib.import_module("commits").measured_head
    assert (found() == head) == counts
    monkeypatch.setenv("INPUT_HEAD", "a" * 40)  # what a workflow names itself
    assert found() == "a" * 40
    monkeypatch.setenv("INPUT_GROUP_BASE", "")  # no merge group
    assert found() == "a" * 40


def test_what_a_head_was_allowed_holds_in_its_merge_group(
    repository: Repository, perfgate: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert perfgate("baseline", "allow", "--head", change(repository), *FACTS).code == 0
    base = repository.commit("allow it")
    merged(repository.git)
    write_run(repository.folder / "new.json", forward=115)
    sha = repository.git("rev-parse", "HEAD")
    group = {"base_sha": base, "head_sha": sha, "base_ref": "refs/heads/main"}
    event = {"merge_group": group, "repository": {"default_branch": "main"}}
    github = {"base_ref": "", "sha": sha, "event": event}
    environment = clean_environment(repository.folder / ".runner", SOURCE_DATE_EPOCH="1767225600")
    done = installed_by(make_python(tmp_path_factory.mktemp("installed")))
    result = run_action(ROOT, {"results": "new.json"}, repository.folder, environment, github, done)
    assert result.outputs["exit-code"] == "0", result.log
    assert "allowed by ada: sharper loss" in result.log
    assert "allowed by" in result.steps["gate"].summary
