"""Files of a git commit: read from its objects, whatever the working tree holds."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from perfgate.workspace import surroundings
from perfgate.workspace.errors import Refused

#: Nothing may be replaced behind our back, no path is a pattern, and nobody is there to be asked for a password.
_ENVIRONMENT = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_LITERAL_PATHSPECS": "1", "GIT_TERMINAL_PROMPT": "0"}
_TIMEOUT_S = 120
_KINDS = {"120000": "is a link, and links are not followed", "160000": "is a submodule, which is not read"}


@dataclass(frozen=True, slots=True)
class Files:
    """What a commit holds below a path: files by their path relative to it, and what is refused, with the reason."""

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
        """The commit that a ref names. Raises Refused (3) where it cannot be read."""
        top = _git("rev-parse", "--show-toplevel", ref=ref).decode().strip()
        sha = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", ref=ref)
        return cls(ref, sha.decode().strip(), Path(top))

    def below(self, path: str) -> Files:
        """Every file at or below a path of the working directory; a file itself has the path `.`.

        Raises Refused (3) for a path outside of the repository, and where git fails.
        """
        place = self._inside(path)
        listed = _git("ls-tree", "-r", "-l", "-z", "--full-tree", self.sha, "--", place, ref=self.ref)
        limits = surroundings.limits()
        wanted: dict[str, str] = {}
        refused: dict[str, str] = {}
        for entry in filter(None, listed.split(b"\0")):
            facts, _, raw = entry.partition(b"\t")
            mode, _, blob, size = facts.decode().split()
            name = os.path.relpath(os.fsdecode(raw), place)
            if mode in _KINDS:
                refused[name] = _KINDS[mode]
            elif int(size) > limits.baseline_bytes:
                refused[name] = limits.beyond("baseline_bytes", "is larger")
            else:
                wanted[name] = blob
        contents = self._contents(list(wanted.values()))
        return Files(dict(zip(wanted, contents, strict=True)), refused)

    def _inside(self, path: str) -> str:
        """A path relative to the top. Links of the working tree do not count: the commit decides what is where."""
        absolute = os.path.normpath(os.path.join(os.path.realpath(os.curdir), path))
        relative = os.path.relpath(absolute, self.top)
        if relative.startswith(".."):
            raise Refused(f"{path} lies outside of the repository, so {self.ref} does not hold it", 3)
        return Path(relative).as_posix()

    def _contents(self, blobs: list[str]) -> list[bytes]:
        asked = "".join(f"{blob}\n" for blob in blobs).encode()
        answer = _git("cat-file", "--batch", ref=self.ref, asked=asked) if blobs else b""
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


def _git(*arguments: str, ref: str, asked: bytes | None = None) -> bytes:
    """What git answers. Raises Refused (3)."""
    try:
        done = subprocess.run(
            ["git", *arguments],
            input=asked,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
            env={**os.environ, **_ENVIRONMENT},
        )
    except FileNotFoundError:
        raise Refused(f"{ref} cannot be read: git is not installed", 3) from None
    except (OSError, subprocess.SubprocessError) as error:
        raise Refused(f"{ref} cannot be read: {error}", 3) from None
    if done.returncode == 0:
        return done.stdout
    said = " ".join(done.stderr.decode("utf-8", "backslashreplace").split())
    why = said or "there is no such commit in this clone; fetch it (actions/checkout: fetch-depth: 0)"
    raise Refused(f"{ref} cannot be read: {why}", 3)
