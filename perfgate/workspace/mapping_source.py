"""The mappings of rule folders, for commands that need no rules."""

from __future__ import annotations

import os
from collections.abc import Sequence

from perfgate.core import Problem
from perfgate.core.file_mappings import FileMapping
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace.options import Refused
from perfgate.workspace.rule_source import WORKING_TREE, PolicySource, label_names, parse_mappings


def read_mappings(source: PolicySource, paths: Sequence[str], *, may_be_empty: bool = False) -> tuple[FileMapping, ...]:
    """Load the mappings of rule folders, which need not exist. Raises Refused for any mistake in them.

    `may_be_empty` allows an empty file: a shell makes one before a command writes to it.
    """
    there = [path for path in paths if source.commit is not None or os.path.exists(path)]
    files = source.mapping_files(there)
    mappings, problems = parse_mappings([file for file in files if file[1].strip() or not may_be_empty])
    if problems:
        raise Refused("\n".join(map(str, problems)))
    return mappings


def check_mappings(paths: Sequence[str]) -> tuple[dict[str, int], list[Problem]]:
    """Validate the mappings of rule folders; return their number in each good file, and all problems."""
    found = {file[0]: parse_mappings([file]) for file in WORKING_TREE.mapping_files(paths)}
    good = {name: len(mappings) for name, (mappings, wrong) in found.items() if not wrong}
    return good, [problem for _, wrong in found.values() for problem in wrong]


def no_rules(suite: str, paths: Sequence[str]) -> Ruleset:
    """Return a ruleset without rules, with the mappings of rule folders. Raises Refused for a mistake in them."""
    mappings = read_mappings(WORKING_TREE, paths)
    return Ruleset(suite, (), {}, conditions=label_names(mappings), mappings=mappings)
