"""`perfgate inspect --suggest`: propose mappings for files that perfgate does not know."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec.structs import replace

from perfgate.core.file_mappings import MappingSuggestion
from perfgate.mappings.proposal.suggest import suggest
from perfgate.workspace import surroundings
from perfgate.workspace.input_files import nearest_file, opened
from perfgate.workspace.inputs import read_runs
from perfgate.workspace.mapping_source import read_mappings
from perfgate.workspace.options import CommandOptions, Refused, shown_path
from perfgate.workspace.rule_source import WORKING_TREE

_NOTHING = (
    "no mapping can be proposed: there are no named numbers in records, or in lines that are alike; write the mapping"
    " by hand (`perfgate schema mappings` describes it), or write the numbers as perfgate.results/1"
)


def suggestions(options: CommandOptions) -> tuple[list[MappingSuggestion], int]:
    """Return a mapping for each file, and the exit code: 3 if one does not read its file without errors.

    Raises Refused for a file that perfgate reads already, and for one without numbers.
    """
    limits = surroundings.limits()
    found: list[MappingSuggestion] = []
    for path in options.runs:
        _refuse_other_than_file(path)
        mappings = read_mappings(WORKING_TREE, options.rules, may_be_empty=True)
        known = read_runs((path,), as_given=True, with_calls=False, mappings=mappings)[0]
        if known.format != "unknown":
            raise Refused(f"{path} needs no mapping: perfgate reads it as {known.format} ({known.recognised_by})")
        file, first = opened(path)
        with file:
            data = first + file.read(limits.document_bytes + 1)
        if len(data) > limits.document_bytes:
            raise Refused(f"{path}: {limits.beyond('document_bytes', 'this file is larger')}", 3)
        suggestion = suggest(path, data, limits)
        if suggestion is None or not suggestion.metrics:
            raise Refused(f"{path}: {_NOTHING}", 3)
        found.append(_with_own_name(suggestion, found))
    wrong = any(problem.severity == "error" for one in found for problem in one.problems)
    return found, 3 if wrong else 0


def _with_own_name(one: MappingSuggestion, others: Sequence[MappingSuggestion]) -> MappingSuggestion:
    """Return a proposal with a name that no other one has; two equal proposals keep theirs, because one is written."""
    taken = {other.name for other in others}
    if one.name not in taken or any(other.lines == one.lines for other in others):
        return one
    suffix = os.path.splitext(one.file)[1].lstrip(".") or "file"
    names = (f"{one.name}-{suffix}{number}" for number in ("", *map(str, range(2, len(others) + 3))))
    name = next(name for name in names if name not in taken)
    return replace(one, name=name, lines=(one.lines[0], f"    name: {name}", *one.lines[1:]))


def _refuse_other_than_file(path: str) -> None:
    """Raise Refused for a path that is not a file of this machine."""
    if path == "-" or os.path.isdir(path):
        raise Refused(f"{path}: --suggest needs a file, because a mapping is for a name of files")
    if "://" in path:
        raise Refused(f"{shown_path(path)}: --suggest needs a file of this machine: copy it here first")
    if not os.path.exists(path):
        raise Refused(f"{path}: cannot be read: file not found{nearest_file(path)}")
