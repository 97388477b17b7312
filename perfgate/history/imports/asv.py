"""The results folder of asv: `RESULTS/MACHINE/COMMIT-ENVIRONMENT.json`, one file a run.

The reader of perfgate reads each file. `date`, the time of the commit in milliseconds, is the time of the run. The
machine and the environment of asv are part of the environment, because asv never compares across them.
"""

from __future__ import annotations

from perfgate.core import Fact
from perfgate.documents.json import load_json
from perfgate.history.imports.imported_runs import Faults, Imported, ImportFile, of_results, time_at

NAME = "asv"
TITLE = "the results folder of asv, or files of it"
#: The other files of the folder.
OTHERS = ("benchmarks.json", "machine.json")


def claims(name: str, head: str) -> bool:
    """Return whether a file is a result of asv."""
    return '"commit_hash"' in head and '"params"' in head


def read(file: ImportFile) -> Imported:
    """Return the one run of a file."""
    document = load_json(file.text, file.name, file.limits, finite=False)
    data = document.data if isinstance(document.data, dict) else {}
    faults = Faults(file.name)
    time = time_at(document, ("date",), data.get("date"), faults) if document.data is not None else None
    params = data.get("params")
    machine = params.get("machine") if isinstance(params, dict) else None
    names = {"machine": machine, "asv_environment": data.get("env_name")}
    place: dict[str, Fact] = {name: value for name, value in names.items() if isinstance(value, str) and value}
    if faults.problems and file.time is None:
        return Imported((), faults.problems)
    return of_results(file, "asv", time, None, place)
