"""Objects of a git repository, known by the hash of their content.

Git does not check the hash of what it reads. A program that overwrites one file in `.git/objects` changes what a commit
seems to contain, and so do alternates, grafts and replaced objects. Here, an object has the name of its content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from msgspec import Struct

from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import git


class GitObject(Struct, frozen=True):
    """An object of a repository: `commit`, `tree`, `blob` or `tag`, and its content."""

    kind: str
    data: bytes


class TreeEntry(Struct, frozen=True):
    """An entry of a tree: its mode, such as `100644`, its name, and the hash of its object."""

    mode: str
    name: bytes
    object: str


class GitObjects(Struct, frozen=True):
    """Objects by the hash of their content. `ref` is the one that is read, for messages."""

    ref: str
    found: dict[str, GitObject]

    @classmethod
    def read(cls, ref: str, names: Iterable[str], algorithm: str) -> GitObjects:
        """Read the objects that git has for these names.

        Parameters
        ----------
        algorithm: the hash of the repository, `sha1` or `sha256`.
        """
        asked = list(names)
        stdin = "".join(f"{name}\n" for name in asked).encode()
        answer = git("cat-file", "--batch", what=f"{ref} cannot be read", stdin=stdin) if asked else b""
        found, place = {}, 0
        while place < len(answer):
            end = answer.find(b"\n", place)
            words = answer[place:end].split()
            place = end + 1
            if len(words) == 3 and words[2].isdigit():  # otherwise it is missing
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

    def entries(self, tree: str) -> Iterator[TreeEntry]:
        """Yield the entries of a tree. Raises Refused (3)."""
        data, width, place = self.get(tree).data, len(tree) // 2, 0
        while place < len(data):
            mode, _, name = data[place : (end := data.index(b"\0", place))].partition(b" ")
            place = end + 1 + width
            yield TreeEntry(mode.decode(), name, data[end + 1 : place].hex())
