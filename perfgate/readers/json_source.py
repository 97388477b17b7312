"""A JSON document in a file that a reader reads: which of its values were read, and the lines of its problems."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from perfgate.core import Key, Location, Problem, Severity
from perfgate.documents.json import JsonDocument, Path

#: Where a problem goes: the run that it is in.
Report = Callable[[Severity, str, Location, Key | None], None]


class JsonSource:
    """A JSON document in a file, and the problems at its paths until their lines are known.

    To find the line of a path costs a walk through the text, so all lines are found in one walk, when a run is
    finished. A document in a log may begin in the middle of a line, so its columns are wrong: then `columns` is False.
    """

    def __init__(self, loaded: JsonDocument, line: int = 1, *, columns: bool = True) -> None:
        self.loaded = loaded
        self.read: set[Path] = set()
        self._line, self._columns = line, columns
        self._waiting: list[tuple[Report, Severity, str, Path, Key | None]] = []

    @property
    def lines(self) -> range:
        """The lines of the file that the document is on."""
        return range(self._line, self._line + self.loaded.text.count("\n") + 1)

    def report(self, report: Report, severity: Severity, message: str, path: Path, key: Key | None) -> int:
        """Keep a problem until its line is known; return how many wait."""
        self._waiting.append((report, severity, message, path, key))
        return len(self._waiting)

    def report_waiting(self) -> None:
        """Report every problem so far to its run, with its line. Raises OverLimit if there are too many."""
        waiting, self._waiting = self._waiting, []
        places = self.loaded.locate_all(path for _, _, _, path, _ in waiting)
        for report, severity, message, path, key in waiting:
            report(severity, message, self.moved(places[path]), key)

    def moved(self, at: Location) -> Location:
        """Return a place in the document as a place in its file."""
        return replace(at, line=(at.line or 1) + self._line - 1, column=at.column if self._columns else None)

    def problems(self, *, numbers: bool) -> Iterator[Problem]:
        """Yield the faults of the document, at their lines; without `numbers`, not those that are not finite."""
        for fault in self.loaded.faults:
            if numbers or not _is_not_finite(self.loaded.data, fault.path):
                yield replace(fault.problem, at=self.moved(fault.problem.at))


def _is_not_finite(data: Any, path: Path) -> bool:
    """Return whether a path leads to NaN or an infinite number."""
    for key in path:
        if isinstance(data, dict):
            data = data.get(key)
        else:
            data = data[key] if isinstance(data, list) and isinstance(key, int) and key < len(data) else None
    return isinstance(data, float) and not math.isfinite(data)
