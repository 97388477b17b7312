"""`data.js` of github-action-benchmark, or its JSON (`external-data-json-path`).

    window.BENCHMARK_DATA = {"entries": {"SUITE": [{"commit": {"id": ...}, "date": 1573312140323, "tool": "cargo",
      "benches": [{"name": "bench_fib_10", "value": 254, "range": "+/- 35", "unit": "ns/iter"}]}]}}

Source: benchmark-action/github-action-benchmark `src/extract.ts` and `src/write.ts`. `date` is when it was measured, in
milliseconds. If there are several suites, each is a label of its metrics. `range` has another meaning for each tool, so
it is not read as an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from perfgate.core import Better, Location, Problem
from perfgate.core.remembered_runs import HistoryValue
from perfgate.documents.json import JsonDocument, Path, load_json
from perfgate.history.imports.imported_runs import (
    Faults,
    Imported,
    ImportedRun,
    ImportFile,
    finite,
    numbered,
    objects,
    time_at,
)

NAME = "github-action-benchmark"
TITLE = "data.js of github-action-benchmark, or its JSON"
_PREFIX = "window.BENCHMARK_DATA ="
_BETTER: dict[str, Better] = {"customBiggerIsBetter": "higher", "customSmallerIsBetter": "lower"}


def claims(name: str, head: str) -> bool:
    """Return whether a file is data.js, or JSON with its fields."""
    return head.lstrip().startswith(_PREFIX) or ('"entries"' in head and '"benches"' in head)


def read(file: ImportFile) -> Imported:
    """Return the runs of a file."""
    start = file.text.find(_PREFIX)
    # Blanks, so that lines and columns stay.
    text = file.text if start < 0 else " " * (start + len(_PREFIX)) + file.text[start + len(_PREFIX) :]
    text = text.rstrip().removesuffix(";")
    document = load_json(text, file.name, file.limits, finite=False)
    faults = Faults(file.name)
    entries = document.data.get("entries") if isinstance(document.data, dict) else None
    if not isinstance(entries, dict):
        why = () if document.problems else (Problem("error", "has no object 'entries'", Location(file.name)),)
        return Imported((), (*document.problems, *why))
    runs = []
    for suite, rows in entries.items():
        labels = {"suite": suite} if len(entries) > 1 else {}
        for path, row in objects(document, rows, ("entries", suite), faults):
            time = time_at(document, (*path, "date"), row.get("date"), faults)
            if time is not None:
                commit = row.get("commit")
                sha = commit.get("id") if isinstance(commit, dict) else None
                values = tuple(_values(document, path, row, labels, faults))
                if values:
                    runs.append(ImportedRun(time, sha if isinstance(sha, str) else None, values))
    return Imported(tuple(runs), (*document.problems, *faults.problems))


def _values(
    document: JsonDocument, path: Path, row: Mapping[str, Any], labels: dict[str, str], faults: Faults
) -> Iterator[HistoryValue]:
    better = _BETTER.get(str(row.get("tool")))
    seen: set[str] = set()
    for place, bench in objects(document, row.get("benches"), (*path, "benches"), faults):
        name, number, unit = bench.get("name"), finite(bench.get("value")), bench.get("unit")
        if not isinstance(name, str) or not name or number is None:
            faults.say("a benchmark needs a name and a finite value; left out", document.locate(place))
        elif name in seen:
            faults.say(f"{name} is in this run twice; the first one counts", document.locate(place))
        else:
            seen.add(name)
            text, at = unit if isinstance(unit, str) else "", partial(document.locate, (*place, "unit"))
            yield numbered(name, *faults.in_base_unit(number, text, at), better, labels)
