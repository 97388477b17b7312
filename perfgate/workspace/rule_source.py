"""Where rules and baselines come from: the working tree, or a commit, which nobody can edit."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfgate.core import Problem
from perfgate.core.resource_limits import Limits
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace import surroundings
from perfgate.workspace.options import Refused, shown_path
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


RuleFiles = list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class PolicySource:
    """Where rules and baselines are read: in a commit, or in the working tree if there is none.

    A pull request that edits its rules is judged by the rules of its base.
    """

    #: The ref that the user named, or None for the working tree.
    ref: str | None = None
    commit: Commit | None = None

    def rule_files(self, paths: Sequence[str]) -> RuleFiles:
        """Return every rule file below the paths, as (name, bytes). Raises Refused, also for a folder without any."""
        if self.commit is not None:
            return [file for path in paths for file in _in_commit(self.commit, path)]
        longest, files = surroundings.limits().rule_bytes, []
        for path in paths:
            found = _below(Path(path)) if os.path.isdir(path) else [Path(path)]
            if not found:
                raise Refused(f"{path} has no rule file (*.yaml)")
            for file in found:
                name = shown_path(str(file))
                try:
                    if file.exists() and not file.is_file():
                        raise Refused(f"{name} is not a regular file")
                    with file.open("rb") as opened:
                        files.append((name, opened.read(longest + 1)))
                except OSError as error:
                    why = error.strerror or error
                    raise Refused(f"{path}: cannot read the rules: {why}; name their folder with --rules") from None
        return files


WORKING_TREE = PolicySource()


def policy_source(ref: str | None) -> PolicySource:
    """Return the commit of a ref, or the working tree if there is no ref. Raises Refused (3)."""
    return WORKING_TREE if ref is None else PolicySource(ref, Commit.of(ref))


def read_rules(
    source: PolicySource, paths: Sequence[str], suite: str | None
) -> tuple[Ruleset | None, list[Problem], str]:
    """Load rule files and folders of them; returns the ruleset, all problems, and the hash of the files."""
    files = source.rule_files(paths)
    digest = hashlib.sha256()
    for name, data in files:
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    ruleset, problems = load_rules(files, suite, surroundings.limits())
    return ruleset, problems, digest.hexdigest()


def read_ruleset(source: PolicySource, paths: Sequence[str], suite: str | None) -> Ruleset:
    """Load rule files and folders of them. Raises Refused for any mistake in them."""
    return sound_rules(source.rule_files(paths), suite)


def sound_rules(files: RuleFiles, suite: str | None) -> Ruleset:
    """Load rules. Raises Refused for any mistake in them."""
    ruleset, problems = load_rules(files, suite, surroundings.limits())
    if ruleset is None:
        raise Refused("\n".join(map(str, problems)))
    return ruleset


def _in_commit(commit: Commit, path: str) -> Iterator[tuple[str, bytes]]:
    held, shown = commit.below(path, surroundings.limits()), shown_path(path)

    def joined(name: str) -> str:
        return shown if name == "." else f"{shown}/{name}"

    for name, why in held.refused.items():
        raise Refused(f"{commit.ref}: {joined(name)}: {why}", 3)
    rules = sorted(name for name in held.files if name == "." or name.endswith((".yaml", ".yml")))
    if not rules:
        step = "the first rules of a repository are judged without --policy-ref"
        raise Refused(f"{commit.ref} has no rule file at {shown}: {step}", 3)
    yield from ((joined(name), held.files[name]) for name in rules)


def _below(folder: Path) -> list[Path]:
    real = folder.resolve()
    found = sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml") or path.is_symlink())
    for path in found:
        if path.is_symlink() and not path.resolve().is_relative_to(real):
            raise Refused(f"{shown_path(str(path))} is a link that leads out of {folder}: put the file itself there")
    return [path for path in found if path.suffix in (".yaml", ".yml")]
