"""Files of a git commit, read from its objects and not from the working tree."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from perfgate.core.resource_limits import Limits
from perfgate.workspace.options import Refused
from perfgate.workspace.surroundings import git

_KINDS = {"120000": "is a link, and links are not followed", "160000": "is a submodule, which is not read"}


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """The files of a commit below a path, by their path relative to it, and why others are refused."""

    files: dict[str, bytes]
    refused: dict[str, str]


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit of the repository that the working directory belongs to."""

    ref: str
    sha: str
    top: Path

    @classmethod
    def of(cls, ref: str) -> Commit:
        """Return the commit of a ref. Raises Refused (3) if it cannot be read."""
        what = f"{ref} cannot be read"
        top = git("rev-parse", "--show-toplevel", what=what).decode().strip()
        sha = git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", what=what)
        return cls(ref, sha.decode().strip(), Path(top))

    def below(self, path: str, limits: Limits) -> CommitFiles:
        """Read every file at or below a path of the working directory; a file itself has the path `.`.

        Raises Refused (3) for a path outside of the repository, and if git fails.
        """
        # Links of the working tree do not matter for the commit.
        absolute = os.path.normpath(os.path.join(os.path.realpath(os.curdir), path))
        top = Path(os.path.relpath(absolute, self.top)).as_posix()
        if top.startswith(".."):
            raise Refused(f"{path} is outside of the repository, so it is not in {self.ref}", 3)
        listed = git("ls-tree", "-r", "-l", "-z", "--full-tree", self.sha, "--", top, what=f"{self.ref} cannot be read")
        wanted: dict[str, str] = {}
        refused: dict[str, str] = {}
        for entry in filter(None, listed.split(b"\0")):
            facts, _, raw = entry.partition(b"\t")
            mode, _, blob, size = facts.decode().split()
            name = os.path.relpath(os.fsdecode(raw), top)
            if mode in _KINDS:
                refused[name] = _KINDS[mode]
            elif int(size) > limits.baseline_bytes:
                refused[name] = limits.beyond("baseline_bytes", "is larger")
            else:
                wanted[name] = blob
        contents = self._contents(list(wanted.values()))
        return CommitFiles(dict(zip(wanted, contents, strict=True)), refused)

    def _contents(self, blobs: list[str]) -> list[bytes]:
        asked = "".join(f"{blob}\n" for blob in blobs).encode()
        answer = git("cat-file", "--batch", what=f"{self.ref} cannot be read", stdin=asked) if blobs else b""
        found = []
        for blob in blobs:
            head, _, answer = answer.partition(b"\n")
            words = head.split()
            if len(words) != 3 or words[1] != b"blob":
                raise Refused(f"{self.ref} cannot be read: the object {blob} is missing (is the clone partial?)", 3)
            size = int(words[2])
            found.append(answer[:size])
            answer = answer[size + 1 :]
        return found
