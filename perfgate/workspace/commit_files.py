"""Commits of the repository: the one that a ref means, and its files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from perfgate.core.resource_limits import Limits
from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import git

_FOLDER = "040000"
_KINDS = {"120000": "is a link, and links are not followed", "160000": "is a submodule, which is not read"}


class CommitFiles(Struct, frozen=True):
    """The files of a commit below a path, by their path relative to it, and why others are refused."""

    files: dict[str, bytes]
    refused: dict[str, str]


class Commit(Struct, frozen=True):
    """A commit of the repository that the working directory belongs to."""

    ref: str
    sha: str
    top: Path

    @classmethod
    def of(cls, ref: str, sha: str | None = None) -> Commit:
        """Return the commit of a ref, or the commit `sha` if the ref was resolved before.

        Raises Refused (3) if the ref cannot be read, has several meanings, or is not a commit.
        """
        top = git("rev-parse", "--show-toplevel", what=f"{ref} cannot be read").decode().strip()
        return cls(ref, _resolved(sha or ref), Path(top))

    def below(
        self, path: str, limits: Limits, without: str | None = None, choose: Callable[[list[str]], list[str]] = sorted
    ) -> CommitFiles:
        """Read every file at or below a path of the working directory; a file itself has the path `.`.

        Parameters
        ----------
        without: a folder below the path that is not read.
        choose: returns those of the files that are read.

        Raises Refused (3) for a path outside of the repository, and if git fails.
        """
        top = self._top(path)
        listed = git("ls-tree", "-r", "-l", "-z", "--full-tree", self.sha, "--", top, what=f"{self.ref} cannot be read")
        wanted: dict[str, str] = {}
        refused: dict[str, str] = {}
        for entry in filter(None, listed.split(b"\0")):
            facts, _, raw = entry.partition(b"\t")
            mode, _, blob, size = facts.decode().split()
            name = os.path.relpath(os.fsdecode(raw), top)
            if without is not None and name.split("/")[0] == without:
                continue
            if mode in _KINDS:
                refused[name] = _KINDS[mode]
            elif int(size) > limits.baseline_bytes:
                refused[name] = limits.beyond("baseline_bytes", "is larger")
            else:
                wanted[name] = blob
        wanted = {name: wanted[name] for name in choose(list(wanted))}
        contents = self._contents(list(wanted.values()))
        return CommitFiles(dict(zip(wanted, contents, strict=True)), refused)

    def not_folders(self, path: str, folder: str) -> dict[str, str]:
        """Return the parts of a folder below a path that are no folders, and why: git lists nothing below them.

        Raises Refused (3).
        """
        parts = folder.split("/")
        places = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        tops = {self._top(f"{path}/{place}"): place for place in places}
        listed = git("ls-tree", "-z", "--full-tree", self.sha, "--", *tops, what=f"{self.ref} cannot be read")
        entries = [entry.partition("\t") for entry in os.fsdecode(listed).split("\0")]
        kinds = {tops[name]: facts.split()[0] for facts, _, name in entries if name in tops}
        return {place: _KINDS.get(mode, "is not a folder") for place, mode in kinds.items() if mode != _FOLDER}

    def _top(self, path: str) -> str:
        """Return a path of the working directory as git names it. Raises Refused (3) outside of the repository."""
        # Links of the working tree do not matter for the commit.
        absolute = os.path.normpath(os.path.join(os.path.realpath(os.curdir), path))
        top = Path(os.path.relpath(absolute, self.top)).as_posix()
        if top.startswith(".."):
            raise Refused(f"{path} is outside of the repository, so it is not in {self.ref}", 3)
        return top

    def _contents(self, blobs: list[str]) -> list[bytes]:
        asked = "".join(f"{blob}\n" for blob in blobs).encode()
        answer = git("cat-file", "--batch", what=f"{self.ref} cannot be read", stdin=asked) if blobs else b""
        found = []
        place = 0
        for blob in blobs:
            end = answer.find(b"\n", place)
            words = answer[place:end].split()
            if len(words) != 3 or words[1] != b"blob":
                raise Refused(f"{self.ref} cannot be read: the object {blob} is missing (is the clone partial?)", 3)
            place = end + 1 + int(words[2])
            found.append(answer[end + 1 : place])
            place += 1
        return found


#: The suffix of a ref such as `main~2`, `v1^{}` or `main@{1}`.
_STEPS = re.compile(r"[~^]|@\{")
#: A whole hash of a commit, SHA-1 or SHA-256.
FULL_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
#: Names that git looks for next to its refs, such as FETCH_HEAD.
_SPECIAL = re.compile(r"(?:[A-Z]+_)?HEAD")


def _resolved(ref: str) -> str:
    """Return the hash of the one commit that a ref means. Raises Refused (3).

    Git itself only warns if a tag and a branch have the same name, and takes the tag; anybody who may push a tag could
    then choose the rules.
    """
    if not ref.isprintable():
        raise Refused(f"the ref {ref!r} cannot be read: a ref is one line of printable characters", 3)
    if ":" in ref:
        raise Refused(f"{ref} cannot be read: name a commit, a branch or a tag, without a path or a search", 3)
    name = _STEPS.split(ref, maxsplit=1)[0]
    exact = f"{_one_meaning(name)}{ref[len(name) :]}"
    what = f"{ref} cannot be read"
    try:
        return _rev_parse(f"{exact}^{{commit}}", what)
    except Refused:
        kind = git("cat-file", "-t", _rev_parse(f"{exact}^{{}}", what), what=what).decode().strip()
        raise Refused(f"{ref} is a {kind}, not a commit: name a commit, a branch or a tag", 3) from None


def _one_meaning(name: str) -> str:
    """Return a full name for the name of a ref; other names are returned unchanged. Raises Refused (3)."""
    if name in ("", "@", "HEAD") or FULL_HASH.fullmatch(name):
        return name
    if name.startswith("refs/"):  # without this, git would also try refs/tags/refs/...
        git("show-ref", "--verify", "--quiet", "--", name, what=f"{name} cannot be read")
        return name
    meanings = full_names(name)
    if not meanings:
        return name
    if _SPECIAL.fullmatch(name):
        meanings = [name, *meanings]
    elif re.fullmatch("[0-9a-f]{4,63}", name):
        meanings += git("rev-parse", f"--disambiguate={name}", what=f"{name} cannot be read").decode().split()
    if len(meanings) > 1:
        raise Refused(f"{name} is ambiguous: write {' or '.join(meanings)}", 3)
    remote, slash, _ = name.partition("/")
    if slash and not meanings[0].startswith("refs/remotes/") and name != meanings[0].removeprefix("refs/"):
        remotes = git("remote", what=f"{name} cannot be read").decode().split()
        if remote in remotes:
            step = f"fetch refs/remotes/{name}, or write the full name"
            raise Refused(f"{name} is not a branch of the remote here but {meanings[0]}: {step}", 3)
    return meanings[0]


def full_names(name: str) -> list[str]:
    """Return the full names of all refs that a short name can mean. Raises Refused (3) outside of a repository."""
    tried = [f"refs/{name}", f"refs/tags/{name}", f"refs/heads/{name}", f"refs/remotes/{name}"]
    tried.append(f"refs/remotes/{name}/HEAD")
    found = git("for-each-ref", "--format=%(refname)", "--", *tried, what=f"{name} cannot be read").decode().split("\n")
    return [full for full in tried if full in found]


def _rev_parse(name: str, what: str) -> str:
    return git("rev-parse", "--verify", "--quiet", "--end-of-options", name, what=what).decode().strip()
