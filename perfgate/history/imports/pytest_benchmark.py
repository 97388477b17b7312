"""The storage of pytest-benchmark: `.benchmarks/MACHINE/0001_COMMIT_DATE.json`, one file a run.

The reader of perfgate reads each file. `datetime`, in UTC, is the time of the run. The folder of the machine, such as
`Linux-CPython-3.12-64bit`, is part of the environment.
"""

from __future__ import annotations

import re

from perfgate.core import Fact
from perfgate.documents.json import load_json
from perfgate.history.imports.imported_runs import Faults, Imported, ImportFile, of_results, time_at

NAME = "pytest-benchmark"
TITLE = "the storage of pytest-benchmark (.benchmarks), or files of it"
#: SYSTEM-IMPLEMENTATION-VERSION-BITS.
_MACHINE = re.compile(r"[^/\-]+-[^/\-]+-[\d.]+[^/\-]*-\d+bit")


def claims(name: str, head: str) -> bool:
    """Return whether a file is a result of pytest-benchmark."""
    return '"machine_info"' in head


def read(file: ImportFile) -> Imported:
    """Return the one run of a file."""
    document = load_json(file.text, file.name, file.limits, finite=False)
    data = document.data if isinstance(document.data, dict) else {}
    faults = Faults(file.name)
    time = time_at(document, ("datetime",), data.get("datetime"), faults) if document.data is not None else None
    if faults.problems and file.time is None:
        return Imported((), faults.problems)
    folders = file.name.split("/")[:-1]
    place: dict[str, Fact] = {"machine": folders[-1]} if folders and _MACHINE.fullmatch(folders[-1]) else {}
    return of_results(file, "pytest-benchmark", time, None, place)
