"""Numbers of one JSON document -> one run: what readers of JSON results do in the same way.

Whatever cannot be true is refused by its path; where it stands in the text is looked up once, at the end.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace

from perfgate.core import Key, Run
from perfgate.documents.json import JsonDocument, Path
from perfgate.readers.builder import RunBuilder, in_base, number
from perfgate.readers.complaints import Complaints
from perfgate.readers.text import Document

#: Units of which a negative number can be true: changes of memory, and losses, rewards and the like.
_SIGNED = ("1", "B")


def checked(value: object, unit: str) -> tuple[float, str | None]:
    """A JSON value as a number, and why it cannot be a measurement in this unit; numbers in quotes are numbers, too."""
    parsed = number(value) if isinstance(value, str) else value
    if isinstance(parsed, bool) or not isinstance(parsed, int | float):
        return 0.0, f"{str(value)[:40]!r} is no number; left out"
    if not abs(parsed) <= sys.float_info.max:
        return 0.0, f"{str(value)[:40]} is no finite number; left out"
    if parsed < 0 and unit not in _SIGNED:
        return 0.0, f"{value} is no measurement, which is not negative; left out"
    return float(parsed), None


class JsonRun(RunBuilder):
    """One run while it is read from a JSON document, or from a part of one."""

    def __init__(self, document: Document, format_name: str, loaded: JsonDocument, line: int = 1) -> None:
        super().__init__(document, format_name)
        self.loaded = loaded
        self._complaints = Complaints(loaded, line)

    def value(self, key: Key, unit: str, value: object, path: Path, per: float = 1.0) -> None:
        """The one number of a series; `per` printed units are one base unit."""
        parsed, fault = checked(value, unit)
        if fault:
            self.refuse_at(key, fault, path)
        else:
            self.one_value(key, unit, in_base(parsed, per))

    def sample(
        self, key: Key, unit: str, value: object, path: Path, *, per: float = 1.0, step: int | None = None
    ) -> None:
        """The next number of a series; all of them have a step, or none."""
        parsed, fault = checked(value, unit)
        if fault:
            self.refuse_at(key, fault, path)
            return
        column = self.column(key, unit, per)
        column.values.append(parsed)
        if step is not None:
            column.steps.append(step)

    def refuse_at(self, key: Key, why: str, path: Path) -> None:
        """Why the value at this path is left out of its series."""
        self._complaints.refuse(self, key, why, path)

    def run(self, part: int | None = None) -> Run:
        """The finished run, with what is wrong with its document."""
        for fault in self.loaded.faults:
            if not self._is_number(fault.path):
                self.add_problem(replace(fault.problem, at=self._complaints.moved(fault.problem.at)))
        self._complaints.settle()
        return super().run(part)

    def _is_number(self, path: Path) -> bool:
        """Whether a fault is NaN or infinity: refused if it is a measurement, and of no interest if it is none."""
        data = self.loaded.data
        for key in path:
            if isinstance(data, dict):
                data = data.get(key)
            else:
                data = data[key] if isinstance(data, list) and isinstance(key, int) and key < len(data) else None
        return isinstance(data, float) and not math.isfinite(data)
