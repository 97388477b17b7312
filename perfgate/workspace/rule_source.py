"""Where the policy comes from, the rules and the baselines: the working tree, or a commit that nobody can edit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from perfgate.baselines.stores import Store, WritableStore
from perfgate.baselines.stores.directory import DirectoryStore
from perfgate.baselines.stores.snapshot import SnapshotStore
from perfgate.core import Problem
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace import inputs, surroundings
from perfgate.workspace.errors import Refused
from perfgate.workspace.git import Commit

RuleFiles = list[tuple[str, bytes]]


class PolicySource(Protocol):
    """Where rules and baselines are read from."""

    @property
    def ref(self) -> str | None:
        """The ref that the user named, or None for the working tree."""
        ...

    def rule_files(self, paths: Sequence[str]) -> RuleFiles:
        """Every rule file below the paths, as (name, bytes). Raises Refused."""
        ...

    def store(self, path: str) -> Store:
        """The baselines at a path. Raises Refused."""
        ...


@dataclass(frozen=True, slots=True)
class WorkingTree:
    """What is on disk now."""

    ref: None = None

    def rule_files(self, paths: Sequence[str]) -> RuleFiles:
        """Every rule file below the paths, as (name, bytes). Raises Refused."""
        return list(inputs.rule_files(paths))

    def store(self, path: str) -> Store:
        """The baselines in a directory or a bucket."""
        return open_store(path)


@dataclass(frozen=True, slots=True)
class AtCommit:
    """What a commit holds. A pull request that edits its rules is judged by those of its base."""

    commit: Commit

    @property
    def ref(self) -> str:
        """The ref that the user named."""
        return self.commit.ref

    def rule_files(self, paths: Sequence[str]) -> RuleFiles:
        """Every rule file below the paths in the commit, as (name, bytes). Raises Refused."""
        found: RuleFiles = []
        for path in paths:
            held, shown = self.commit.below(path), inputs.shown_path(path)
            for name, why in held.refused.items():
                raise Refused(f"{self.ref}: {_joined(shown, name)}: {why}", 3)
            rules = {name: data for name, data in held.files.items() if name == "." or name.endswith((".yaml", ".yml"))}
            if not rules:
                step = "the first rules of a repository are judged without --policy-ref"
                raise Refused(f"{self.ref} holds no rule file at {shown}: {step}", 3)
            found += [(_joined(shown, name), data) for name, data in sorted(rules.items())]
        return found

    def store(self, path: str) -> Store:
        """The baselines that the commit holds; a bucket is the same for every commit."""
        if _is_bucket(path):
            return open_store(path)
        held, shown = self.commit.below(path), inputs.shown_path(path)
        return SnapshotStore(held.files, f"{shown} at {self.ref}", held.refused)


def policy_source(ref: str | None) -> PolicySource:
    """The commit of a ref, or the working tree where there is none. Raises Refused (3)."""
    return WorkingTree() if ref is None else AtCommit(Commit.of(ref))


def open_store(path: str) -> WritableStore:
    """The store in a directory, which need not exist yet, or in a bucket (`s3://...`). Raises Refused."""
    if _is_bucket(path):
        from perfgate.baselines.stores.bucket import BucketStore

        try:
            return BucketStore(path, surroundings.limits())
        except (ImportError, ValueError, OSError) as error:
            raise Refused(f"{path} cannot be used: {error}") from None
    return DirectoryStore(Path(path), inputs.shown_path(path), surroundings.limits())


@contextmanager
def locked(store: WritableStore) -> Iterator[None]:
    """One writer at a time. Raises Refused where the store cannot be written to."""
    try:
        with store.lock():
            yield
    except OSError as error:
        raise Refused(f"{store.shown} cannot be written: {error.strerror or error}") from None


def read_rules(
    source: PolicySource, paths: Sequence[str], suite: str | None
) -> tuple[Ruleset | None, list[Problem], str]:
    """Load rule files and folders of them: the ruleset, all problems, and the hash of what was read."""
    files = source.rule_files(paths)
    digest = hashlib.sha256()
    for name, data in files:
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    ruleset, problems = load_rules(files, suite, surroundings.limits())
    return ruleset, problems, digest.hexdigest()


def _is_bucket(path: str) -> bool:
    return "://" in path


def _joined(shown: str, name: str) -> str:
    return shown if name == "." else f"{shown}/{name}"
