"""The commits of a branch in order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from msgspec import Struct, field

#: The fewest letters of an abbreviated commit.
_FEWEST_LETTERS = 7


class CommitNote(Struct, frozen=True):
    """A commit of the branch: who made it, when, and its tags."""

    sha: str
    time: str
    author: str
    subject: str
    tags: tuple[str, ...] = ()


class CommitLine(Struct, frozen=True):
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
