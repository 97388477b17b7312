"""The order of commits: the first parents of a branch, as git knows them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone

from perfgate.core.branch import CommitLine, CommitNote
from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import git

#: More commits than this are not looked at.
_MOST_COMMITS = 100_000


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
