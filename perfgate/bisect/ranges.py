"""The ordered things that are searched: the commits between two refs, or a list that the user gives."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from perfgate.core.bisection import SearchedItem
from perfgate.workspace.commit_files import Commit
from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import git


class SearchedRange(Struct, frozen=True):
    """Ordered items: the first one is good, the last one bad. `commits` is empty for a list that the user gave."""

    names: tuple[str, ...]
    commits: tuple[Commit, ...] = ()

    def item(self, position: int) -> SearchedItem:
        """Return what is known of an item; of a commit its author, its date, its subject and its diffstat."""
        if not self.commits:
            return SearchedItem(self.names[position])
        shape = "--format=%an%x00%as%x00%s%x00%P%x00"
        arguments = ("log", "-1", "--shortstat", "--first-parent", "-m", shape, self.commits[position].sha)
        text = git(*arguments, what="the commit cannot be read").decode("utf-8", "replace")
        author, date, subject, parents, rest = text.split("\0", 4)
        merged = len(parents.split()) > 1
        return SearchedItem(self.names[position], author, date, subject, rest.strip(), is_merge=merged)


def commit_range(good: str, bad: str) -> SearchedRange:
    """Return the first parents of `bad` after `good`, oldest first, and `good` before them. Raises Refused."""
    first, last = Commit.of(good), Commit.of(bad)
    if first.sha == last.sha:
        raise Refused(f"--good {good} and --bad {bad} are the same commit: there is nothing between them")
    base = git("merge-base", first.sha, last.sha, what=f"{good} and {bad} have no common commit").decode().strip()
    if base != first.sha:
        way = "exchange them" if base == last.sha else f"use their common commit, --good {base[:12]}"
        raise Refused(f"--good {good} is not an ancestor of --bad {bad}: {way}")
    return _range(first, last.sha)


def inside_merge(merge: Commit) -> SearchedRange | None:
    """Return the commits that a merge brought, after the commit at which their branch began; None if there are none."""
    parents = git("rev-parse", f"{merge.sha}^1", f"{merge.sha}^2", what="the merge cannot be read").decode().split()
    base = git("merge-base", *parents, what="the merge cannot be read").decode().strip()
    return None if base == parents[1] else _range(Commit(base[:12], base, merge.top), parents[1])


def _range(first: Commit, last: str) -> SearchedRange:
    listed = git("rev-list", "--first-parent", "--reverse", f"{first.sha}..{last}", what="the range cannot be read")
    shas = [first.sha, *listed.decode().split()]
    return SearchedRange(tuple(shas), tuple(Commit(sha[:12], sha, first.top) for sha in shas))


def item_range(items: Sequence[str]) -> SearchedRange:
    """Return the items of `--over`, in order. Raises Refused for fewer than two, and for one that is there twice."""
    if len(items) < 2:
        raise Refused("--over needs at least two items, the first one good and the last one bad")
    if twice := [item for number, item in enumerate(items) if item in items[:number]]:
        raise Refused(f"--over has {twice[0]} twice")
    return SearchedRange(tuple(items))
