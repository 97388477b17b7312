"""Commits of the repository: the one that a ref means, and its files.

Git does not check the hash of what it reads. A program that overwrites one file in `.git/objects` changes what a commit
seems to contain, and so do alternates, grafts and replaced objects. So this module hashes every object itself.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from perfgate.core.resource_limits import Limits
from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import git

#: The mode of a folder in a tree of git, and the modes that are refused, with the reason.
_TREE = "40000"
_KINDS = {"120000": "is a link, and links are not followed", "160000": "is a submodule, which is not read"}


class CommitFiles(Struct, frozen=True):
    """The files of a commit below a path. All names are relative to this path."""

    files: dict[str, bytes]
    #: The names of refused files, with the reasons.
    refused: dict[str, str]
    #: The links and files that are in the place of a folder above the path, such as `..`, with the reasons.
    not_folders: dict[str, str]


class Commit(Struct, frozen=True):
    """A commit of the repository that the working directory belongs to. Make it with `of`.

    Its files are those that the hash `sha` names, even if somebody changed the repository after the hash was known.
    `ref` is the name that the user gave, and `top` the folder of the working tree.
    """

    ref: str
    sha: str
    top: Path

    @classmethod
    def of(cls, ref: str, sha: str | None = None) -> Commit:
        """Return the commit of a ref, or the commit `sha` if the ref was resolved before.

        Raises Refused (3) if the ref cannot be read, has several meanings, or is not a commit.
        """
        top = git("rev-parse", "--show-toplevel", what=f"{ref} cannot be read").decode().strip()
        name = sha or ref
        return cls(ref, _peeled(ref, name) if FULL_HASH.fullmatch(name) else _resolved(name), Path(top))

    def below(
        self, path: str, limits: Limits, without: str | None = None, choose: Callable[[list[str]], list[str]] = sorted
    ) -> CommitFiles:
        """Read files at or below a path of the working directory.

        `choose` gets the names of all files, relative to the path, and returns those to read; if the path is a file,
        its name is `.`. `without`: a folder below the path that is left out. Raises Refused (3) for a path outside of
        the repository, for an object that was changed, and if git fails.
        """
        wanted: dict[str, str] = {}
        refused: dict[str, str] = {}
        not_folders: dict[str, str] = {}
        for name, mode, blob in self._listed(self._top(path)):
            first = name.split("/")[0]
            if first == "..":
                not_folders[name] = _KINDS.get(mode, "is not a folder")
            elif mode in _KINDS and first != without:
                refused[name] = _KINDS[mode]
            elif first != without:
                wanted[name] = blob
        chosen = choose(list(wanted))
        blobs = self._objects(wanted[name] for name in chosen)
        files = {name: blobs.get(wanted[name]).data for name in chosen}
        large = {name for name, data in files.items() if len(data) > limits.baseline_bytes}
        refused |= dict.fromkeys(large, limits.beyond("baseline_bytes", "is larger"))
        return CommitFiles({name: data for name, data in files.items() if name not in large}, refused, not_folders)

    def _top(self, path: str) -> str:
        """Return a path of the working directory as git names it. Raises Refused (3) outside of the repository."""
        # Links of the working tree do not matter for the commit.
        absolute = os.path.normpath(os.path.join(os.path.realpath(os.curdir), path))
        try:
            top = Path(os.path.relpath(absolute, self.top)).as_posix()
        except ValueError:  # another drive of Windows
            top = ".."
        if top == ".." or top.startswith("../"):
            raise Refused(f"{path} is outside of the repository, so it is not in {self.ref}", 3)
        return top

    def _listed(self, top: str) -> Iterator[tuple[str, str, str]]:
        """Yield the path, the mode and the hash of each file at or below `top`, or in the place of a folder above it.

        `top` is a path in the repository, and the paths are relative to it.
        """
        words = ("ls-tree", "-r", "-d", "-z", "--full-tree", self.sha, "--", top)
        listed = git(*words, what=f"{self.ref} cannot be read").split(b"\0")
        # This list only serves to read all trees in one call. The files are those that the content of the trees names.
        trees = (line.split()[2].decode() for line in listed if line)  # a line is `MODE tree HASH\tNAME`
        objects = self._objects([self.sha, f"{self.sha}^{{tree}}", *trees])
        prefix = "" if top == "." else f"{top}/"

        def walk(tree: str, above: str = "") -> Iterator[tuple[str, str, str]]:
            for mode, name, inside in objects.entries(tree):
                path = f"{above}{os.fsdecode(name)}"
                # at or below the wanted path, or at a folder above it
                is_below, is_above = f"{path}/".startswith(prefix), prefix.startswith(f"{path}/")
                if mode == _TREE and (is_below or is_above):
                    yield from walk(inside, f"{path}/")
                elif is_below:
                    yield path[len(prefix) :] or ".", mode, inside
                elif is_above:
                    yield os.path.relpath(path, top), mode, inside

        return walk(_named_in(objects.get(self.sha).data))

    def _objects(self, names: Iterable[str]) -> GitObjects:
        return GitObjects.read(self.ref, names, self.sha)


def _named_in(data: bytes) -> str:
    """Return the hash in the first line of a commit (`tree HASH`) or a tag (`object HASH`)."""
    return data.partition(b"\n")[0].partition(b" ")[2].decode()


def _peeled(ref: str, name: str) -> str:
    """Return the hash of the commit that a whole hash, of a commit or of a tag, means. Raises Refused (3)."""
    while (found := GitObjects.read(ref, [name], name).get(name)).kind == "tag":
        name = _named_in(found.data)
    if found.kind != "commit":
        raise Refused(f"{ref} is a {found.kind}, not a commit: name a commit, a branch or a tag", 3)
    return name


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
    """Return the full name of a ref, such as refs/heads/main, or another name unchanged. Raises Refused (3)."""
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
    elif re.fullmatch("[0-9a-f]{4,63}", name):  # it may be an abbreviated hash, too
        meanings += git("rev-parse", f"--disambiguate={name}", what=f"{name} cannot be read").decode().split()
    if len(meanings) > 1:
        raise Refused(f"{name} is ambiguous: write {' or '.join(meanings)}", 3)
    # If the branch `main` of the remote `origin` is not here, a local branch or tag `origin/main` must not replace it.
    # A name such as `heads/main` says itself that it is local.
    remote, slash, _ = name.partition("/")
    if slash and not meanings[0].startswith("refs/remotes/") and name != meanings[0].removeprefix("refs/"):
        remotes = git("remote", what=f"{name} cannot be read").decode().split()
        if remote in remotes:
            step = f"fetch refs/remotes/{name}, or write the full name"
            raise Refused(f"{name} is not a branch of the remote here but {meanings[0]}: {step}", 3)
    return meanings[0]


def full_names(name: str) -> list[str]:
    """Return the full names of all refs that a short name can mean, in git's order of preference.

    Raises Refused (3) outside of a repository.
    """
    tried = [f"refs/{name}", f"refs/tags/{name}", f"refs/heads/{name}", f"refs/remotes/{name}"]
    tried.append(f"refs/remotes/{name}/HEAD")
    found = git("for-each-ref", "--format=%(refname)", "--", *tried, what=f"{name} cannot be read").decode().split("\n")
    return [full for full in tried if full in found]  # git also finds the refs below these names


def _rev_parse(name: str, what: str) -> str:
    return git("rev-parse", "--verify", "--quiet", "--end-of-options", name, what=what).decode().strip()


class GitObject(Struct, frozen=True):
    """An object of a repository: `commit`, `tree`, `blob` or `tag`, and its content."""

    kind: str
    data: bytes


class GitObjects(Struct, frozen=True):
    """Objects of a repository, by the hash of their content. `ref`: the name of the commit, for messages."""

    ref: str
    found: dict[str, GitObject]

    @classmethod
    def read(cls, ref: str, names: Iterable[str], like: str) -> GitObjects:
        """Read the objects that git has for these names. `like` is a hash of the repository: SHA-1 or SHA-256."""
        asked, algorithm = list(names), "sha1" if len(like) == 40 else "sha256"
        stdin = "".join(f"{name}\n" for name in asked).encode()
        answer = git("cat-file", "--batch", what=f"{ref} cannot be read", stdin=stdin) if asked else b""
        # The answer has `HASH KIND SIZE\nCONTENT\n` for each object, and `NAME missing\n` for one that is not there.
        found, place = {}, 0
        while place < len(answer):
            end = answer.find(b"\n", place)
            words = answer[place:end].split()
            place = end + 1
            if len(words) == 3 and words[2].isdigit():
                kind, size = words[1], int(words[2])
                data = answer[place : place + size]
                place += size + 1
                header = b"%b %d\0" % (kind, size)
                name = hashlib.new(algorithm, header + data, usedforsecurity=False).hexdigest()
                found[name] = GitObject(kind.decode(), data)
        return cls(ref, found)

    def get(self, name: str) -> GitObject:
        """Return the object whose content has this hash. Raises Refused (3)."""
        if name not in self.found:
            step = "fetch it again (actions/checkout: fetch-depth: 0)"
            raise Refused(f"{self.ref} cannot be read: the object {name} is missing or was changed: {step}", 3)
        return self.found[name]

    def entries(self, tree: str) -> Iterator[tuple[str, bytes, str]]:
        """Yield mode (such as `100644`), name and object's hash of each entry of a tree. Raises Refused (3)."""
        data, width, place = self.get(tree).data, len(tree) // 2, 0
        while place < len(data):  # an entry is `MODE NAME\0` and the bytes of the hash
            end = data.index(b"\0", place)
            mode, _, name = data[place:end].partition(b" ")
            place = end + 1 + width
            yield mode.decode(), name, data[end + 1 : place].hex()
