"""Commits checked out beside the user's working tree, which is never touched, as worktrees of git."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

from perfgate.measuring.kept_runs import ProgramSide
from perfgate.workspace.commit_files import Commit
from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import git

#: The names of the main branch. The first that exists counts.
_MAIN = (
    *(f"refs/remotes/origin/{name}" for name in ("HEAD", "main", "master")),
    *(f"refs/heads/{name}" for name in ("main", "master")),
)
#: The longest time to check out a commit, in seconds.
_CHECKOUT_TIMEOUT_S = 600
#: Variables that a git hook sets for its own folder: in a worktree, git would change the user's index and HEAD.
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")


def usual_base(policy: str | None = None) -> tuple[str, str]:
    """Return the hash of the commit that a working tree is compared with, and words for it.

    The commit is the merge base of HEAD with `policy` (the commit of the rules), or else with the main branch. Without
    an older merge base, it is HEAD. The words say if both sides are the same code. Raises Refused (3) without git.
    """
    head = git("rev-parse", "--verify", "HEAD^{commit}", what="HEAD is not a commit").decode().strip()
    for ref in (policy,) if policy else _MAIN:
        with suppress(Refused):
            # `what` is for the message, which nobody sees
            found = git("merge-base", head, f"{ref}^{{commit}}", what="").decode().split()[0]
            name = ref.removeprefix("refs/").removeprefix("remotes/").removeprefix("heads/")
            if found != head:
                return found, f"{found[:12]}, the merge base with {name[:40]}"
            break
    is_equal = not git("status", "--porcelain", "--untracked-files=no", what="the working tree is unknown").strip()
    return head, f"{head[:12]}, HEAD" + (", and no tracked file differs from it" if is_equal else "")


@contextmanager
def checked_out(ref: str, words: tuple[str, ...]) -> Iterator[ProgramSide]:
    """Check out a ref for a command, and remove the worktree in the end. Raises Refused (3) if that fails."""
    commit = Commit.of(ref)
    with TemporaryDirectory(prefix="perfgate-base-", ignore_cleanup_errors=True) as place:
        top = Path(place).resolve() / "base"
        add_worktree(commit, top)
        try:
            yield side_in(commit, top, words)
        finally:
            remove_worktree(commit, top)


def add_worktree(commit: Commit, top: Path) -> bool:
    """Check out a commit in a new folder and return True, or False if the folder has it already. Raises Refused (3)."""
    for name in _OF_HOOKS:
        os.environ.pop(name, None)
    if top.exists():
        with suppress(Refused):
            found = git("rev-parse", "--show-toplevel", "HEAD", what="", cwd=top).decode().split("\n")
            if found[:2] == [str(top.resolve()), commit.sha]:
                return False
        remove_worktree(commit, top)
    _in_repository(commit)("worktree", "add", "--detach", "--force", "--quiet", str(top), commit.sha)
    return True


def remove_worktree(commit: Commit, top: Path) -> None:
    """Remove a worktree, even a locked one, with all files that the program left. Raises Refused (3) if git fails."""
    with suppress(Refused):  # git does not know it if `git worktree add` was interrupted
        _in_repository(commit)("worktree", "remove", "--force", "--force", str(top))
    rmtree(top, ignore_errors=True)
    _in_repository(commit)("worktree", "prune")


def side_in(commit: Commit, top: Path, words: tuple[str, ...]) -> ProgramSide:
    """Return the program in a worktree. It starts in the same folder of the repository as this command.

    In PYTHONPATH, the worktree's folders replace those of the repository, so that the program imports its own modules.
    GIT_CEILING_DIRECTORIES is for a program that removes `.git`: without it, its git would find the user's clone, and
    change it. Raises Refused (3) if the commit lacks the folder.
    """
    own = commit.top.resolve()
    inside = Path.cwd().resolve().relative_to(own)
    if not (top / inside).is_dir():
        message = f"{commit.ref} has no folder {inside.as_posix()}: run the command from one that both have"
        raise Refused(message, 3)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    for number, path in enumerate(paths):
        if path and (real := Path(path).resolve()).is_relative_to(own):
            paths[number] = str(top / real.relative_to(own))
    ceilings = filter(None, (os.environ.get("GIT_CEILING_DIRECTORIES"), str(top.resolve().parent)))
    environment = {"GIT_CEILING_DIRECTORIES": os.pathsep.join(ceilings)}
    if any(paths):
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return ProgramSide(words, top / inside, environment)


def _in_repository(commit: Commit) -> partial[bytes]:
    return partial(git, what=f"{commit.ref} cannot be checked out", cwd=commit.top, timeout_s=_CHECKOUT_TIMEOUT_S)
