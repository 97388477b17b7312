"""Histories of other tools: a row in IMPORTERS for each format.

If a reader of perfgate reads the format, the row is enough: the reader gives the time and place of a run
(`core.TimeAndPlace`). Any other format has a module here with two functions. `claims` returns True for a file of the
format, by its name and its first characters. `read` returns the runs of a file, and its problems; it does not raise for
bad data.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from perfgate.history.imports import csv
from perfgate.history.imports.benchmark_services import claims_bencher, claims_data_js, read_bencher, read_data_js
from perfgate.history.imports.imported_runs import Imported, ImportFile, of_results

#: The first characters of a file, which show its format.
HEAD = 1 << 16


class Importer(Struct, frozen=True):
    """A format of history."""

    name: str
    title: str
    claims: Callable[[str, str], bool]
    read: Callable[[ImportFile], Imported]
    #: True if each version of a file in git is a run.
    of_versions: bool = False
    #: True if a file has the runs of many commits: `history add`, which adds one run, refuses it.
    is_history: bool = False
    #: The names of files of the tool that have no results.
    others: tuple[str, ...] = ()


def _of_reader(
    name: str, title: str, claims: Callable[[str, str], bool], of_versions: bool = False, others: tuple[str, ...] = ()
) -> Importer:
    """Return the importer of the files that the reader of the same name reads."""
    return Importer(name, title, claims, lambda file: of_results(file, name), of_versions, others=others)


#: All formats; the first one that claims a file reads it.
IMPORTERS = (
    Importer(
        "github-action-benchmark",
        "data.js of github-action-benchmark, or its JSON",
        claims_data_js,
        read_data_js,
        is_history=True,
    ),
    # The results folder of asv: `RESULTS/MACHINE/COMMIT-ENVIRONMENT.json`, one file for each run.
    _of_reader(
        "asv",
        "the results folder of asv, or files of it",
        lambda name, head: '"commit_hash"' in head and '"params"' in head,
        others=("benchmarks.json", "machine.json"),
    ),
    # The storage of pytest-benchmark: `.benchmarks/MACHINE/0001_COMMIT_DATE.json`, one file for each run.
    _of_reader(
        "pytest-benchmark",
        "the storage of pytest-benchmark (.benchmarks), or files of it",
        lambda name, head: '"machine_info"' in head,
    ),
    # Golden values have no time and no commit: those of the commit that wrote a version of the file are used. Outside
    # of git, or for one version alone, the user gives them with `--time` and `--head`.
    _of_reader(
        "megatron",
        "golden values of Megatron-LM, every version in git",
        lambda name, head: '"step_interval"' in head or name.rsplit("/", 1)[-1].startswith("golden_values"),
        of_versions=True,
    ),
    Importer("bencher", "JSON of bencher perf, or a report in the Bencher Metric Format", claims_bencher, read_bencher),
    Importer(csv.NAME, csv.TITLE, csv.claims, csv.read, is_history=True),
)


def importer_of(name: str, head: str) -> Importer | None:
    """Return the format that claims a file with this name and these first characters."""
    return next((one for one in IMPORTERS if one.claims(name, head)), None)
