"""The part of a report about numbers that the readers did not read."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from perfgate.core import Location, Problem, Run
from perfgate.core.coverage import Coverage, UnreadPolicy, joined_coverage
from perfgate.words.coverage_words import unread_names


def coverage_of(runs: Sequence[Run], policy: UnreadPolicy = "warn") -> Coverage | None:
    """Return what was read of the files of all runs; None if the policy is to ignore it."""
    if policy == "ignore":
        return None
    # A command may write the same file again, with other content.
    bytes_of = {id(run): "".join(file.sha256 for file in run.files) for run in runs}
    parts = (replace(part, file=f"{part.file} {bytes_of[id(run)]}") for run in runs for part in run.coverage)
    return joined_coverage(parts)


def unread_problems(runs: Sequence[Run], policy: UnreadPolicy) -> list[Problem]:
    """Return an error for each file with numbers that were not read, if the policy is that they are errors."""
    files = {part.file: part for run in runs for part in run.coverage if part.unread}
    step = "no rule can guard them: read them with a mapping (`perfgate inspect --suggest`), or write `unread: warn`"
    return [
        Problem("error", f"numbers are not read ({unread_names(part)}), so {step}", Location(name))
        for name, part in files.items()
        if policy == "error"
    ]
