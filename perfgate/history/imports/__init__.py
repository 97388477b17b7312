"""Histories of other tools. Each format is a module with these names, and a row in IMPORTERS.

| name | meaning |
|---|---|
| `NAME`, `TITLE` | for `--format`, and in words |
| `claims(name, head)` | whether a file with this name and these first characters has the format |
| `read(file)` | its runs, and what is wrong with it; nothing is raised for bad data |
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from perfgate.history.imports import asv, bencher, csv, github_action_benchmark, megatron, pytest_benchmark
from perfgate.history.imports.imported_runs import Imported, ImportFile

#: The first characters of a file that tell its format.
HEAD = 1 << 16


class Importer(Struct, frozen=True):
    """A format of history."""

    name: str
    title: str
    claims: Callable[[str, str], bool]
    read: Callable[[ImportFile], Imported]
    #: True if each version of a file in git is a run.
    of_versions: bool = False
    #: True if no reader of perfgate reads it, because a file has the runs of many commits.
    is_history: bool = False
    #: The names of files that belong to the tool and have no results.
    others: tuple[str, ...] = ()


#: Every format; the first that claims a file reads it.
IMPORTERS = (
    Importer(
        github_action_benchmark.NAME,
        github_action_benchmark.TITLE,
        github_action_benchmark.claims,
        github_action_benchmark.read,
        is_history=True,
    ),
    Importer(asv.NAME, asv.TITLE, asv.claims, asv.read, others=asv.OTHERS),
    Importer(pytest_benchmark.NAME, pytest_benchmark.TITLE, pytest_benchmark.claims, pytest_benchmark.read),
    Importer(megatron.NAME, megatron.TITLE, megatron.claims, megatron.read, of_versions=True),
    Importer(bencher.NAME, bencher.TITLE, bencher.claims, bencher.read),
    Importer(csv.NAME, csv.TITLE, csv.claims, csv.read, is_history=True),
)


def importer_of(name: str, head: str) -> Importer | None:
    """Return the format that claims a file with this name and these first characters."""
    return next((one for one in IMPORTERS if one.claims(name, head)), None)
