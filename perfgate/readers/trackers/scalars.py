"""Shared by the readers of trackers: numbers that a program logged under names, with steps."""

from __future__ import annotations

from perfgate.core import Key
from perfgate.readers.builder import RunBuilder
from perfgate.readers.values import checked, unit_of_name


class Scalars:
    """Logged numbers of one run.

    The unit is what the end of the name tells: `time(ms)`, `tokens_per_second`, `memory/max_active(GiB)`; otherwise 1.
    """

    def __init__(self, run: RunBuilder) -> None:
        self.run = run
        self._last: dict[str, int] = {}

    def add(self, name: str, value: object, step: int, where: str | int) -> None:
        """Add a number, or a problem.

        Parameters:
            name: the name that it was logged under.
            value: the number.
            step: the step that it was logged with.
            where: the record or the line that contains it.
        """
        place = where if isinstance(where, int) else None
        detail = f" ({where})" if isinstance(where, str) else ""
        unit, per = unit_of_name(name)
        key = Key(name)
        parsed, fault = checked(value, unit)
        if step < self._last.get(name, step):
            fault = f"the step goes back from {self._last[name]} to {step}: a file with several runs is not read"
        if fault:
            self.run.refuse(key, f"{fault}{detail}", place)
            return
        self._last[name] = step
        column = self.run.column(key, unit, per)
        column.values.append(parsed)
        column.steps.append(max(step, 0))
