"""The files of a team's own tools as a history: each version of a mapped file in git is a run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from perfgate.core.file_mappings import FileMapping
from perfgate.history.imports import Importer
from perfgate.history.imports.imported_runs import Imported, ImportFile, of_runs
from perfgate.mappings.choose import fitting, read_with_mappings
from perfgate.readers import Source

NAME = "mapping"


def mapped_importer(
    name: str, text: str, mappings: Sequence[FileMapping], format: str | None, *, is_named: bool
) -> Importer | None:
    """Return what imports a file through the mapping that fits it, or has the name `format`; None without one.

    With `is_named` only mappings with globs are asked, and else only those that know a file by its content.
    """
    asked = [mapping for mapping in mappings if mapping.name == format]
    if not mappings or (format is not None and not asked):
        return None
    if not asked and not fitting(Source(name, [text.encode()]), mappings, is_named=is_named):
        return None
    read = partial(_read, mappings=mappings, format=format)
    return Importer(NAME, "files that a mapping reads", lambda name, head: True, read, of_versions=True)


def _read(file: ImportFile, *, mappings: Sequence[FileMapping], format: str | None) -> Imported:
    source = Source(file.name, [file.text.encode()], file.limits, conditions=file.ruleset.conditions)
    runs = read_with_mappings(source, mappings, format)
    return of_runs(file, runs, [problem for run in runs for problem in run.problems])
