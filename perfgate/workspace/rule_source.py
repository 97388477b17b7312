"""The source of rules, mappings and baselines: the working tree, or a commit, which nobody can edit.

Mappings are in `perfgate.yaml` beside the rules. They say how the files of a team's own tools are read.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Problem
from perfgate.core.file_mappings import FileMapping, MappingFiles
from perfgate.core.wording import MAPPING_FILE
from perfgate.rules.load import load_rules
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.syntax.sentence import Selector
from perfgate.workspace import surroundings
from perfgate.workspace.commit_files import FULL_HASH, Commit
from perfgate.workspace.options import Refused, shown_path

RuleFiles = list[tuple[str, bytes]]
#: The field that only a rule file has.
_RULES = re.compile(rb"^[\"']?rules[\"']?[ \t]*:", re.MULTILINE)


class HeldFiles(Struct, frozen=True):
    """The files of baselines as they were at one time."""

    #: Each file by its path, or the error that reading it raised.
    files: Mapping[str, bytes | OSError | ValueError]
    #: The problems of folders.
    problems: tuple[Problem, ...]
    #: The root of the baselines, as messages name it.
    shown: str


class PolicySource(Struct, frozen=True):
    """The source of rules and baselines: a commit, or the working tree if there is none.

    A pull request that edits its rules is judged by the rules of its base.
    """

    #: The ref that the user named, or None for the working tree.
    ref: str | None = None
    commit: Commit | None = None
    #: The baselines that were read before a program was measured, which could change them.
    baselines: HeldFiles | None = None

    @property
    def sha(self) -> str | None:
        """The hash of the commit, or None for the working tree."""
        return None if self.commit is None else self.commit.sha

    def rule_files(self, paths: Sequence[str]) -> RuleFiles:
        """Return every rule file below the paths, as (name, bytes). Raises Refused, also if a path has none."""
        return [file for file in self.files(paths) if not is_mapping_file(file)]

    def has_rules(self, paths: Sequence[str]) -> bool:
        """Return whether there is a rule file below the paths. Raises Refused."""
        return not all(map(is_mapping_file, self.files(paths, needs_rules=False)))

    def mapping_files(self, paths: Sequence[str]) -> RuleFiles:
        """Return the files with mappings in the folders of the paths. Raises Refused."""
        return [file for file in self.files(paths, needs_rules=False) if is_mapping_file(file)]

    def files(self, paths: Sequence[str], *, needs_rules: bool = True) -> RuleFiles:
        """Return rule files and mapping files. Raises Refused; with `needs_rules` also if a path has no rules."""
        files: RuleFiles = []
        for path in paths:
            if self.commit is None:
                files += _on_disk(path, needs_rules=needs_rules)
            else:
                files += _in_commit(self.commit, path, needs_rules=needs_rules)
        return files


WORKING_TREE = PolicySource()


def policy_source(ref: str | None, sha: str | None = None) -> PolicySource:
    """Return the commit of a ref, or the working tree if there is no ref. Raises Refused.

    `sha`: the commit, if the ref was resolved before.
    """
    if ref is None:
        if sha is not None:
            raise Refused("--policy-commit needs --policy-ref, which names the commit in the report")
        return WORKING_TREE
    if sha is not None and not FULL_HASH.fullmatch(sha):
        raise Refused(f"--policy-commit {sha}: give the whole hash, 40 hexadecimal digits (git rev-parse)")
    return PolicySource(ref, Commit.of(ref, sha))


def read_rules(
    source: PolicySource, paths: Sequence[str], suite: str | None
) -> tuple[Ruleset | None, list[Problem], str]:
    """Load rule files and folders of them; return the ruleset (None if it has errors), all problems, and their hash."""
    files = source.files(paths)
    digest = hashlib.sha256()
    for name, data in files:
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    ruleset, problems = _loaded(files, suite)
    return ruleset, problems, digest.hexdigest()


def read_ruleset(source: PolicySource, paths: Sequence[str], suite: str | None) -> Ruleset:
    """Load rule files and folders of them. Raises Refused for any error in them; warnings are left out."""
    return sound_rules(source.files(paths), suite)


def sound_rules(files: RuleFiles, suite: str | None) -> Ruleset:
    """Load rules. Raises Refused for any error in them; warnings are left out."""
    ruleset, problems = _loaded(files, suite)
    if ruleset is None:
        raise Refused("\n".join(map(str, problems)))
    return ruleset


def label_names(mappings: Sequence[FileMapping]) -> tuple[str, ...]:
    """Return the names of the labels of all mappings. These labels are conditions: only equal ones are compared."""
    return tuple(dict.fromkeys(name for mapping in mappings for name in mapping.label_names))


def _loaded(files: RuleFiles, suite: str | None) -> tuple[Ruleset | None, list[Problem]]:
    """Return the rules with their mappings, and all problems; no rules if one is an error."""
    rules = [file for file in files if not is_mapping_file(file)]
    ruleset, problems = load_rules(rules, suite, surroundings.limits())
    if len(rules) == len(files):
        return ruleset, problems
    found = parse_mappings([file for file in files if file not in rules])
    if ruleset is None or found.problems:
        return None, [*found.problems, *problems]
    conditions = tuple(dict.fromkeys([*ruleset.conditions, *label_names(found.mappings)]))
    mapped = replace(ruleset, mappings=found.mappings, command=found.command, conditions=conditions)
    # A rule without a direction gets the one that a mapping gives its metric.
    better, directed = mapped.better, []
    for rule in ruleset.rules:
        subject = rule.sentence.subject
        metric = subject.pattern if isinstance(subject, Selector) and not subject.is_glob else ""
        directed.append(replace(rule, better=rule.better or better.get(metric)))
    return replace(mapped, rules=tuple(directed)), problems


def parse_mappings(files: RuleFiles) -> MappingFiles:
    """Return the mappings and the command of files, and every mistake in them."""
    if not files:
        return MappingFiles()
    from perfgate.mappings.document import load_mapping_files

    # Two paths may give the same file: `dict` keeps one.
    return load_mapping_files(dict(files).items(), surroundings.limits())


def is_mapping_file(file: tuple[str, bytes]) -> bool:
    """Return whether a file is `perfgate.yaml` and has no rules: the rules of a suite `perfgate` have the same name."""
    return file[0].rpartition("/")[2] == MAPPING_FILE and not _RULES.search(file[1])


def _on_disk(path: str, *, needs_rules: bool) -> RuleFiles:
    """Return what `PolicySource.files` returns for one path of the working tree. Raises Refused."""
    found, beside = [Path(path)], Path(path).parent / MAPPING_FILE  # `with_name` refuses `.` and `/`
    if os.path.isdir(path):
        found = _below(Path(path))
    elif beside != Path(path) and beside.is_file():
        found.append(beside)
    files: RuleFiles = []
    for file in found:
        name = shown_path(str(file))
        try:
            if file.exists() and not file.is_file():
                raise Refused(f"{name} is not a regular file")
            with file.open("rb") as opened:
                longest = surroundings.limits().rule_bytes
                files.append((name, opened.read(longest + 1)))  # one byte more is reported as too long
        except FileNotFoundError:
            step = "`perfgate init` writes the first ones; --rules names another folder"
            raise Refused(f"there are no rules at {path}; {step}") from None
        except OSError as error:
            why = error.strerror or error
            raise Refused(f"{path}: cannot read the rules: {why}; name their folder with --rules") from None
    if not os.path.isdir(path):  # a rule file beside a named one was not named by the user
        files = [*files[:1], *filter(is_mapping_file, files[1:])]
    if needs_rules and all(map(is_mapping_file, files)):
        raise Refused(f"{path} has no rule file (*.yaml)")
    return files


def _in_commit(commit: Commit, path: str, *, needs_rules: bool) -> Iterator[tuple[str, bytes]]:
    """Yield what `PolicySource.files` returns for one path in a commit. Raises Refused."""
    below, shown = commit.below(path, surroundings.limits()), shown_path(path)

    def joined(name: str) -> str:  # `below` names a file `.` if it is the path itself
        return shown if name == "." else f"{shown}/{name}"

    for name, why in below.refused.items():
        raise Refused(f"{commit.ref}: {joined(name)}: {why}", 3)
    rules = sorted(name for name in below.files if name == "." or name.endswith((".yaml", ".yml")))
    files = [(joined(name), below.files[name]) for name in rules]
    if needs_rules and all(map(is_mapping_file, files)):
        step = "the first rules of a repository are judged without --policy-ref"
        raise Refused(f"{commit.ref} has no rule file at {shown}: {step}", 3)
    yield from files
    if rules == ["."] and not is_mapping_file(files[0]):  # one rule file: the mappings beside it count, too
        beside = os.path.join(os.path.dirname(path), MAPPING_FILE)
        near = commit.below(beside, surroundings.limits()).files.values()
        yield from (file for data in near if is_mapping_file(file := (shown_path(beside), data)))


def _below(folder: Path) -> list[Path]:
    """Return the YAML files below a folder. Raises Refused for a link out of it."""
    surroundings.refuse_link_out(str(folder), "--rules")
    real, paths = Path(os.path.realpath(folder)), surroundings.not_too_many(folder.rglob("*"), shown_path(str(folder)))
    found = sorted(path for path in paths if path.suffix in (".yaml", ".yml") or path.is_symlink())
    for path in found:
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(real):
            raise Refused(f"{shown_path(str(path))} is a link that leads out of {folder}: put the file itself there")
    return [path for path in found if path.suffix in (".yaml", ".yml")]


def read_mapping_files(paths: Sequence[str], *, may_be_empty: bool = False) -> MappingFiles:
    """Load the mappings and the command of rule folders, which need not exist. Raises Refused for any mistake in them.

    `may_be_empty`: an empty file is no mistake, because a shell makes one for `> perfgate.yaml`.
    """
    files = WORKING_TREE.mapping_files([path for path in paths if os.path.exists(path)])
    found = parse_mappings([file for file in files if file[1].strip() or not may_be_empty])
    if found.problems:
        raise Refused("\n".join(map(str, found.problems)))
    return found


def no_rules(suite: str, paths: Sequence[str]) -> Ruleset:
    """Return a ruleset without rules, with the mappings and the command of rule folders. Raises Refused."""
    found = read_mapping_files(paths)
    return Ruleset(
        suite, (), {}, conditions=label_names(found.mappings), mappings=found.mappings, command=found.command
    )
