"""Names of commits: a name with two meanings decides nothing, and a ref is resolved once."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, write_rules, write_run

Command = Callable[..., Done]
FULL = "refs/remotes/origin/main"


@pytest.fixture
def lax(repository: Repository, folder: Path) -> str:
    """A commit with a rule that nothing breaks, which a pull request brings; main and origin/main do not have it."""
    repository.git("update-ref", FULL, "HEAD")
    repository.git("checkout", "-q", "-b", "change")
    write_rules(folder, "forward under 1 h")
    return repository.commit("judge me kindly")


@pytest.fixture
def slow(folder: Path) -> Path:
    return write_run(folder / "slow.json", 130, seed=9)


@pytest.mark.parametrize(
    ("ref", "kind", "steps"),
    [
        ("origin/main", "tags", ""),
        ("origin/main", "tags", "~0"),
        ("origin/main", "heads", "^{}"),
        ("main", "tags", ""),
        ("main", "remotes", ""),
        ("heads/main", "tags", ""),
    ],
)
def test_a_name_with_two_meanings_chooses_no_rules(
    repository: Repository, perfgate: Command, lax: str, slow: Path, ref: str, kind: str, steps: str
) -> None:
    """Git would warn, and take the tag."""
    repository.git("update-ref", f"refs/{kind}/{ref}", lax)
    done = perfgate("check", slow, "--policy-ref", f"{ref}{steps}")
    assert (done.code, "is ambiguous: write" in done.err) == (3, True), done.said
    assert f"refs/{kind}/{ref}" in done.err
    full = FULL if ref == "origin/main" else "refs/heads/main"
    assert full in done.err
    assert perfgate("check", slow, "--policy-ref", full + steps).code == 1


def test_a_full_name_that_is_absent_is_not_the_tag_of_that_name(
    repository: Repository, perfgate: Command, lax: str, slow: Path
) -> None:
    repository.git("update-ref", "-d", FULL)
    repository.git("update-ref", f"refs/tags/{FULL}", lax)
    done = perfgate("check", slow, "--policy-ref", FULL)
    assert (done.code, f"{FULL} cannot be read" in done.err) == (3, True)


def test_a_branch_of_a_remote_that_is_absent_is_not_the_tag_of_that_name(
    repository: Repository, perfgate: Command, lax: str, slow: Path
) -> None:
    repository.git("remote", "add", "origin", ".")
    repository.git("update-ref", "-d", FULL)
    repository.git("update-ref", "refs/tags/origin/main", lax)
    done = perfgate("check", slow, "--policy-ref", "origin/main")
    assert (done.code, "not a branch of the remote" in done.err, FULL in done.err) == (3, True, True)


def test_a_short_hash_is_not_the_tag_of_that_name(
    repository: Repository, perfgate: Command, lax: str, slow: Path
) -> None:
    short = repository.git("rev-parse", "main")[:10]
    assert perfgate("check", slow, "--policy-ref", short).code == 1
    repository.git("update-ref", f"refs/tags/{short}", lax)
    done = perfgate("check", slow, "--policy-ref", short)
    assert (done.code, "is ambiguous" in done.err) == (3, True)


def test_a_tag_called_like_what_was_fetched_chooses_no_rules(
    repository: Repository, perfgate: Command, lax: str, slow: Path
) -> None:
    repository.git("update-ref", "refs/tags/FETCH_HEAD", lax)
    assert perfgate("check", slow, "--policy-ref", "FETCH_HEAD").code == 3


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("main\nrefs/heads/change", "one line of printable characters"),
        ("main:rules", "without a path or a search"),
        (":/judge me kindly", "without a path or a search"),
        ("main^{tree}", "is a tree, not a commit"),
        ("--upload-pack=touch$IFS./owned", "cannot be read"),
        ("refs/heads/*", "cannot be read"),
    ],
)
@pytest.mark.parametrize("option", ["check", "run"])
def test_a_ref_that_is_no_commit_is_said(
    perfgate: Command, lax: str, slow: Path, option: str, ref: str, words: str
) -> None:
    command = {
        "check": ["check", slow, f"--policy-ref={ref}"],
        "run": ["run", "--paired", f"--base-ref={ref}", "--", sys.executable, "-c", ""],
    }[option]
    done = perfgate(*command)
    assert (done.code, words in done.err) == (3, True), done.said
    assert not Path("owned").exists()


@pytest.mark.parametrize("kind", ["tree", "blob"])
def test_a_hash_or_a_tag_of_a_tree_or_a_file_is_no_policy(
    repository: Repository, perfgate: Command, lax: str, slow: Path, kind: str
) -> None:
    found = repository.git("rev-parse", "main^{tree}" if kind == "tree" else "main:rules/rules.yaml")
    repository.git("tag", "inside", found)
    for ref in (found, "inside"):
        done = perfgate("check", slow, "--policy-ref", ref)
        assert (done.code, f"is a {kind}, not a commit" in done.err) == (3, True), done.said


def test_a_branch_called_like_an_option_is_a_branch(
    repository: Repository, perfgate: Command, lax: str, slow: Path
) -> None:
    repository.git("update-ref", "refs/remotes/origin/--upload-pack=touch-owned", "main")
    assert perfgate("check", slow, "--policy-ref", "refs/remotes/origin/--upload-pack=touch-owned").code == 1


def test_every_report_names_the_ref_and_its_commit(
    repository: Repository, perfgate: Command, lax: str, slow: Path
) -> None:
    sha = repository.git("rev-parse", FULL)
    forms = {"json": "r.json", "markdown": "r.md", "html": "r.html", "junit": "r.xml", "comment": "c.md"}
    words = [f"--{form}={name}" for form, name in forms.items()]
    done = perfgate("check", slow, "--policy-ref", FULL, *words)
    assert json.loads(Path("r.json").read_text())["policy"]["commit"] == sha
    for text in (done.out, *(Path(name).read_text() for name in forms.values())):
        assert FULL in text
        assert sha[:12] in text


def test_code_that_is_measured_does_not_move_the_policy(
    repository: Repository, perfgate: Command, lax: str, folder: Path
) -> None:
    """The program of the pull request points the ref at its own rules while it is measured."""
    sha = repository.git("rev-parse", FULL)
    slow = write_run(folder / "made.json", 130, seed=9)
    program = f"git update-ref {FULL} {lax}; cp {slow.name} $PERFGATE_RESULTS"
    done = perfgate(*("run", "--runs", "1", "--policy-ref", FULL, "--json", "r.json", "--", "sh", "-c", program))
    assert repository.git("rev-parse", FULL) == lax
    assert json.loads(Path("r.json").read_text())["policy"]["commit"] == sha, done.said


def test_a_commit_that_was_resolved_before_is_used(repository: Repository, perfgate: Command, lax: str) -> None:
    sha = repository.git("rev-parse", FULL)
    repository.git("update-ref", FULL, lax)
    done = perfgate("check", "slow.json", "--policy-ref", FULL, "--policy-commit", sha, "--json", "r.json")
    found = json.loads(Path("r.json").read_text())["policy"]
    assert (found["ref"], found["commit"]) == (FULL, sha), done.said
    assert perfgate("check", "slow.json", "--policy-commit", sha).code == 2
    assert perfgate("check", "slow.json", "--policy-ref", FULL, "--policy-commit", sha[:9]).code == 2


def test_pairs_do_not_compare_the_code_with_itself(
    repository: Repository, perfgate: Command, lax: str, folder: Path
) -> None:
    """A tag called like the base branch names the pull request itself."""
    repository.git("update-ref", "refs/tags/origin/main", lax)
    done = perfgate("run", "--paired", "--base-ref", "origin/main", "--", "sh", "-c", "touch ran")
    assert (done.code, "is ambiguous" in done.err) == (3, True)
    assert not (folder / "ran").exists()


def test_a_folder_called_like_a_branch_is_not_compared_instead(
    repository: Repository, perfgate: Command, lax: str, folder: Path
) -> None:
    write_rules(folder, "forward under 1 h", name="origin/main/rules.yaml")
    done = perfgate("rules", "diff", "origin/main")
    assert (done.code, FULL in done.err, "./origin/main" in done.err) == (3, True, True), done.said
    assert "forward" in perfgate("rules", "diff", FULL).out
