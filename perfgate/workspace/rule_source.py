"""Where rules and baselines come from: the working tree, or a commit, which nobody can edit."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfgate.core import Problem
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace import surroundings
from perfgate.workspace.git import Commit
from perfgate.workspace.options import Refused, shown_path

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
    """Return the rule files below a folder. Raises Refused for a link that leads out of it."""
    real = folder.resolve()
    found = sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml") or path.is_symlink())
    for path in found:
        if path.is_symlink() and not path.resolve().is_relative_to(real):
            raise Refused(f"{shown_path(str(path))} is a link that leads out of {folder}: put the file itself there")
    return [path for path in found if path.suffix in (".yaml", ".yml")]
