"""The order of commits: the first parents of a branch, as git knows them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import git

#: More commits than this are not looked at.
_MOST_COMMITS = 100_000
_FEWEST_LETTERS = 7


@dataclass(frozen=True, slots=True)
class CommitNote:
    """A commit of the branch: who made it, when, and its tags."""

    sha: str
    time: str
    author: str
    subject: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitLine:
    """The first parents of a branch, oldest first."""

    ref: str
    commits: tuple[CommitNote, ...]
    _places: dict[str, int] = field(default_factory=dict)
    _sorted: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, ref: str, commits: Sequence[CommitNote]) -> CommitLine:
        """Return the line of these commits, oldest first."""
        places = {commit.sha: place for place, commit in enumerate(commits)}
        return cls(ref, tuple(commits), places, sorted(places))

    def place(self, commit: str | None) -> int | None:
        """Return the position of a commit, which may be abbreviated; None if it is not on the line."""
        if commit is None:
            return None
        if commit in self._places or len(commit) < _FEWEST_LETTERS:
            return self._places.get(commit)
        at = bisect_left(self._sorted, commit)
        near = [sha for sha in self._sorted[at : at + 2] if sha.startswith(commit)]
        return self._places[near[0]] if len(near) == 1 else None

    def between(self, good: str | None, bad: str | None) -> tuple[CommitNote, ...]:
        """Return the commits after `good` up to `bad`; empty if one of them is not on the line."""
        first, last = self.place(good), self.place(bad)
        return () if first is None or last is None else self.commits[first + 1 : last + 1]


def commit_line(refs: Iterable[str]) -> CommitLine | None:
    """Return the first parents of the first of these refs that git knows; None without a repository."""
    form = "--format=%H%x1f%cI%x1f%an%x1f%s%x1f%D%x1e"
    for ref in refs:
        words = ("log", "--first-parent", f"--max-count={_MOST_COMMITS}", form, "--end-of-options", ref, "--")
        try:
            text = git(*words, what=f"{ref} cannot be read").decode("utf-8", "backslashreplace")
        except Refused:
            continue
        rows = [row.strip("\n").split("\x1f") for row in text.split("\x1e") if row.strip()]
        return CommitLine.of(
            ref, [CommitNote(row[0], _utc(row[1]), row[2], row[3], _tags(row[4])) for row in reversed(rows)]
        )
    return None


def _utc(time: str) -> str:
    """Return a time of git as runs have it: UTC, in whole seconds."""
    return f"{datetime.fromisoformat(time.replace('Z', '+00:00')).astimezone(timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def _tags(decoration: str) -> tuple[str, ...]:
    names = (name.strip() for name in decoration.split(","))
    return tuple(name.removeprefix("tag: ") for name in names if name.startswith("tag: "))
