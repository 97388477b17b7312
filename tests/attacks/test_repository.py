"""The repository in the hands of the measured program: its settings, its objects, and the working tree."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, write_rules, write_run

from perfgate.history.load import commit_line

Command = Callable[..., Done]
RULES = "rules/rules.yaml"
REWRITE = Path(__file__).with_name("rewrite_object.py")
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")


@posix
def test_git_runs_no_program_of_the_settings_of_the_repository(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    hook = folder / ".git/hooks/post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {folder}/hook\n")
    hook.chmod(0o755)
    repository.git("config", "core.fsmonitor", f"touch {folder}/monitor; false")
    done = perfgate("run", "--paired", "--base-ref", "HEAD", "--runs", "1", "--", "sh", "-c", "touch ran; exit 1")
    assert (done.code, (folder / "ran").exists()) == (3, True), done.said
    assert [name for name in ("hook", "monitor") if (folder / name).exists()] == []


@posix
def test_a_program_that_removes_its_worktrees_git_does_not_move_the_users_head(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    """Git looks for a repository in the folders above, and the folder of a search is in the user's clone."""
    good = repository.git("rev-parse", "HEAD")
    bad = repository.commit("slower")
    program = f"test -f .git && touch {folder}/ran; rm -f .git; git checkout -q --detach {good}; exit 1"
    for build in ((), ("--build", f"sh -c '{program}'")):
        words = ("bisect", "--good", good, "--bad", bad, "--metric", "forward", "--whole-runs", *build)
        done = perfgate(*words, "--", "sh", "-c", program)
        assert (done.code, (folder / "ran").exists()) == (3, True), done.said
        assert repository.git("symbolic-ref", "HEAD") == "refs/heads/main"
        assert repository.git("rev-parse", "HEAD") == bad
        (folder / "ran").unlink()


@posix
@pytest.mark.parametrize("name", ["GIT_INDEX_FILE", "GIT_DIR"])
def test_a_hook_that_measures_keeps_what_the_user_staged(
    repository: Repository, perfgate: Command, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hook of git names the user's index and folder, which a worktree must not take for its own."""
    (folder / "staged").write_text("new")
    repository.git("add", "staged")
    before = repository.git("status", "--porcelain")
    monkeypatch.setenv(name, str(folder / (".git/index" if name == "GIT_INDEX_FILE" else ".git")))
    program = f'test "$PWD" = {folder} || git read-tree --empty; touch {folder}/ran; exit 1'
    done = perfgate("run", "--paired", "--base-ref", "HEAD", "--runs", "1", "--", "sh", "-c", program)
    assert (done.code, (folder / "ran").exists()) == (3, True), done.said
    (folder / "ran").unlink()
    monkeypatch.delenv(name, raising=False)
    assert repository.git("status", "--porcelain") == before


@pytest.fixture
def rewriting(repository: Repository, folder: Path) -> str:
    """The words of a slow program that puts one object into the place of another; their names are to follow."""
    repository.git("checkout", "-q", "-b", "lax")
    write_rules(folder, "forward under 1 h", "backward under 1 h")
    repository.commit("judge me kindly")
    repository.git("tag", "-a", "-m", "annotated", "kind")
    for number in ("", 1, 2, 3):
        write_run(folder / f"slow{number}.json", 130, seed=9 + (number or 0))
    return f"cp slow$PERFGATE_RUN.json new.json && {sys.executable} {REWRITE}"


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
def test_a_program_that_overwrites_an_object_does_not_change_the_rules(
    repository: Repository, perfgate: Command, folder: Path, rewriting: str, packed: bool
) -> None:
    """Each look judges by the rules that were read before it ran."""
    if packed:
        repository.git("gc", "-q", "--prune=now")
    words = ("--reruns", "2", "--results", "new.json", "--policy-ref", "main")
    done = perfgate("run", *words, "--", "sh", "-c", f"{rewriting} main:{RULES} lax:{RULES}")
    assert "under 1 h" in repository.git("cat-file", "-p", f"main:{RULES}")
    assert (done.code, "measuring again, 2 of 2" in done.err) == (1, True), done.said


@pytest.mark.parametrize("part", [f":{RULES}", ":rules", "^{tree}", "", "kind"])
def test_a_later_check_of_the_true_commit_does_not_believe_the_objects(
    repository: Repository, perfgate: Command, folder: Path, rewriting: str, part: str
) -> None:
    """Nor does it follow a tag that takes the place of the commit."""
    sha = repository.git("rev-parse", "main")
    names = f"main{part} lax{part}" if part != "kind" else "main kind"
    subprocess.run(["sh", "-c", f"{rewriting} {names}"], check=True, timeout=60)
    for ref in ("refs/heads/main", sha):
        done = perfgate("check", "new.json", "--policy-ref", ref, "--policy-commit", sha)
        assert (done.code, f"{ref} cannot be read" in done.err) == (3, True), done.said


def test_a_tag_given_by_its_hash_is_its_commit(repository: Repository, perfgate: Command, folder: Path) -> None:
    sha = repository.git("rev-parse", "main")
    repository.git("tag", "-a", "-m", "first", "one")
    repository.git("tag", "-a", "-m", "second", "two", "one")
    run = write_run(folder / "new.json", seed=9)
    done = perfgate("check", run, "--policy-ref", repository.git("rev-parse", "two"), "--json", "r.json")
    assert (done.code, json.loads(Path("r.json").read_text())["policy"]["commit"]) == (0, sha), done.said


def test_a_repository_with_the_longer_hash_is_verified(perfgate: Command, folder: Path) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main", "--object-format=sha256"], check=True, timeout=60)
    subprocess.run(["git", "config", "user.email", "ada@example.org"], check=True, timeout=60)
    subprocess.run(["git", "config", "user.name", "ada"], check=True, timeout=60)
    write_rules(folder, "forward under 120 ms")
    subprocess.run("git add rules && git commit -qm rules", shell=True, check=True, timeout=60)
    run, slow = write_run(folder / "new.json"), write_run(folder / "slow.json", 130)
    assert perfgate("check", run, "--policy-ref", "main").code == 0
    assert perfgate("check", slow, "--policy-ref", "main").code == 1
    subprocess.run("git checkout -qb lax", shell=True, check=True, timeout=60)
    write_rules(folder, "forward under 1 h")
    subprocess.run("git commit -qam lax", shell=True, check=True, timeout=60)
    subprocess.run([sys.executable, REWRITE, f"main:{RULES}", f"lax:{RULES}"], check=True, timeout=60)
    assert perfgate("check", slow, "--policy-ref", "main").code == 3


# --- the working tree ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "cp lax.yaml rules/rules.yaml",
        "rm -r rules && mkdir rules && cp lax.yaml rules/other.yaml",
        "rm -r rules baselines",
        "rm -r baselines/_history",
        "cp lax.yaml rules/more.yaml",
        "for f in baselines/default/*/prior.json baselines/default/*/20*/*.json; do echo '{}' > $f; done",
    ],
)
def test_a_program_that_rewrites_the_working_tree_is_judged_by_what_it_was(
    repository: Repository, perfgate: Command, folder: Path, change: str
) -> None:
    """In every look, and with the same hashes in the report as without it."""
    for number in (1, 2):
        write_run(folder / f"slow{number}.json", 130, seed=8 + number)
    write_rules(folder, "forward under 1 h", "backward under 1 h", name="lax.yaml")
    assert perfgate("history", "add", "first0.json").code == 0
    expected = perfgate("check", "slow1.json", "slow2.json", "--json", "expected.json")
    command = ("--runs", "2", "--every", "--json", "found.json", "--", "sh", "-c")
    found = perfgate("run", *command, f"cp slow$PERFGATE_RUN.json $PERFGATE_RESULTS; {change}")
    assert (found.code, expected.code) == (1, 1), found.said
    policies = [json.loads(Path(name).read_text())["policy"] for name in ("expected.json", "found.json")]
    assert policies[0] == policies[1]


def test_a_program_that_moves_head_does_not_take_the_allowance_of_another_commit(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    allowed = repository.commit("slower, and allowed")
    words = ("--metric", "forward", "--up-to", "40%", "--reason", "meant", "--expires", "2026-02-01")
    assert perfgate("baseline", "allow", "--head", allowed, *words).code == 0
    repository.commit("allow it")
    write_run(folder / "slow.json", 130, seed=9)
    program = f"cp slow.json $PERFGATE_RESULTS; git update-ref refs/heads/main {allowed}"
    sha = repository.git("rev-parse", "HEAD")
    done = perfgate("run", "--runs", "1", "--policy-ref", sha, "--", "sh", "-c", program)
    assert repository.git("rev-parse", "HEAD") == allowed
    assert done.code == 1, done.said


def test_the_hash_of_the_baselines_covers_allowances_and_history(
    repository: Repository, perfgate: Command, folder: Path
) -> None:
    def digest() -> str:
        found = json.loads(perfgate("check", "first0.json", "--json", "-").out)
        return str(found["policy"]["baselines_sha256"])

    digests = [digest()]
    words = ("--metric", "forward", "--up-to", "40%", "--reason", "meant", "--expires", "2026-02-01")
    assert perfgate("baseline", "allow", "--head", "1" * 40, *words).code == 0
    digests.append(digest())
    assert perfgate("history", "add", "first1.json").code == 0
    digests.append(digest())
    assert len({*digests}) == 3


def test_a_commit_forges_no_other_commit(
    repository: Repository, perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its subject and its author have the letters that separate fields, and its date is in no calendar."""
    repository.git("config", "user.name", "a\x1f\x1eb")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "@99999999999999 +0000")
    before = "\x1f".join(("\x1e" + "f" * 40, "2026-01-01T00:00:00Z", "eve", "x", "tag: v9"))
    for number in range(3):
        repository.git("commit", "-q", "--allow-empty", "-m", f"c{number}{before}")
        assert perfgate("history", "add", write_run(folder / f"{number}.json", seed=number)).code == 0
    done = perfgate("history", "show", "--json")
    assert done.code == 0, done.said
    line = commit_line(["HEAD"])
    assert line is not None
    assert line.place("f" * 40) is None
    assert line.commits[-1].subject == f"c2{before}"
    assert line.commits[-1].tags == ()
    assert commit_line(["a\0b", "HEAD"]) == line
