"""A commit checked out into a temporary folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from perfgate.workspace.git import Commit
from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import git

_TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Worktree:
    """A checked-out commit: its top, and the folder in it that corresponds to the working directory."""

    top: Path
    folder: Path
    commit: Commit

    @property
    def environment(self) -> dict[str, str]:
        """Return PYTHONPATH with the repository's own folders moved here, so that base imports its own modules."""
        paths = os.environ.get("PYTHONPATH")
        if not paths:
            return {}
        return {"PYTHONPATH": os.pathsep.join(self._moved(path) for path in paths.split(os.pathsep))}

    def _moved(self, path: str) -> str:
        real, own = Path(path).resolve(), self.commit.top.resolve()
        return str(self.top / real.relative_to(own)) if path and real.is_relative_to(own) else path


@contextmanager
def checked_out(ref: str) -> Iterator[Worktree]:
    """Check out a ref into a clean worktree, and remove it in the end. Raises Refused (3) if that fails."""
    commit = Commit.of(ref)
    with tempfile.TemporaryDirectory(prefix="perfgate-base-", ignore_cleanup_errors=True) as place:
        top = Path(place).resolve() / "base"
        _git(commit, "worktree", "add", "--detach", "--quiet", str(top), commit.sha)
        try:
            inside = Path.cwd().resolve().relative_to(commit.top.resolve())
            if not (top / inside).is_dir():
                raise Refused(f"{ref} has no folder {inside.as_posix()}: run the command from one that both have", 3)
            yield Worktree(top, top / inside, commit)
        finally:
            _git(commit, "worktree", "remove", "--force", str(top))


def _git(commit: Commit, *words: str) -> None:
    git(*words, what=f"{commit.ref} cannot be checked out", cwd=commit.top, timeout_s=_TIMEOUT_S)
