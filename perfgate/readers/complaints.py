"""What is wrong at places of a JSON document, said when all of it is read.

A position costs a walk through the text, so all of them are worked out in one. Of one series the first 20 faults have
a place, and the others are counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from perfgate.core import Key, Location, Problem, Severity
from perfgate.documents.json import JsonDocument, Path
from perfgate.readers.builder import MAX_FAULTS, RunBuilder


class Complaints:
    """Complaints about one document, which begins on `line` of its file, until `settle` hands them to their runs.

    A document in a log may begin in the middle of a line, so that its columns say nothing: without `columns`.
    """

    def __init__(self, loaded: JsonDocument, line: int = 1, *, columns: bool = True) -> None:
        self._loaded = loaded
        self._line = line
        self._columns = columns
        self._said: list[tuple[RunBuilder, Severity, str, Path, Key | None]] = []
        self._counts: Counter[tuple[int, Key]] = Counter()

    def say(self, run: RunBuilder, severity: Severity, message: str, path: Path) -> None:
        """A problem of the whole run."""
        self._said.append((run, severity, message, path, None))
        if len(self._said) > run.document.limits.problems:
            self.settle()

    def refuse(self, run: RunBuilder, key: Key, why: str, path: Path) -> None:
        """Why a value of this series is left out."""
        self._counts[id(run), key] += 1
        if self._counts[id(run), key] > MAX_FAULTS:
            run.refuse_more(key)
            return
        self._said.append((run, "error", why, path, key))
        if len(self._said) > run.document.limits.problems:
            self.settle()

    def settle(self) -> None:
        """Every complaint so far goes to its run, with its place. Raises OverLimit where there are too many."""
        said, self._said = self._said, []
        places = self._loaded.locate_all(path for _, _, _, path, _ in said)
        for run, severity, message, path, key in said:
            at = self.moved(places[path])
            if key is None:
                run.add_problem(Problem(severity, message, at))
            else:
                run.refuse(key, message, at.line, at.column)

    def moved(self, at: Location) -> Location:
        """A place of the document as one of its file."""
        return replace(at, line=(at.line or 1) + self._line - 1, column=at.column if self._columns else None)
