"""A section of Lightning's AdvancedProfiler: what Python's `pstats` prints of one action.

          23 function calls (20 primitive calls) in 0.618 seconds
       Ordered by: cumulative time
       ncalls  tottime  percall  cumtime  percall filename:lineno(function)
      29485/2    0.005    0.000    0.618    0.309 {built-in method builtins.next}

The action's total is the time in the first line. A function, `ACTION.FUNCTION`, has its cumulative time as the total
and its primitive calls as the count. `percall` is not read: it is the one by the other, rounded to 3 decimals. Unit: s.
Functions may be few of many (`List reduced from 76 to 10`), and their paths are stripped, so that names may meet.
"""

from __future__ import annotations

import re

from perfgate.core import Key
from perfgate.readers.aggregates import AggregateRun, Amount, Labels

_TOTAL = re.compile(r"\d+ function calls (?:\(\d+ primitive calls\) )?in (\S+) (?:CPU )?seconds", re.ASCII)
_CALLS = re.compile(r"\d+(?:/\d+)?", re.ASCII)
_HEADER = "ncalls  tottime"
_COLUMNS = 6


class FunctionStats:
    """One section while its lines are read."""

    def __init__(self, run: AggregateRun, labels: Labels, action: str) -> None:
        self._run = run
        self._labels = labels
        self._action = action
        self._in_rows = False
        self._rows = 0

    def line(self, number: int, line: str, ended: bool) -> None:
        """The next line; one without a line end may be cut in a number, and is no row."""
        if self._in_rows:
            self._function(number, line.strip(), ended)
        elif _HEADER in line:
            self._in_rows = True
        elif "function calls" in line:
            found = _TOTAL.search(line)
            if found and ended:
                self._keep(self._action, {"total": Amount(found[1])}, number)
            else:
                self._run.say("warning", "the time of the action is cut off, and left out", number)

    def close(self) -> None:
        """Nothing tells whether rows are missing at the end."""

    def _function(self, number: int, text: str, ended: bool) -> None:
        if not text:
            self._in_rows = not self._rows
        elif not ended:
            self._run.say("warning", "the last row is cut off, and left out", number)
        else:
            cells = text.lstrip("> ").split(None, _COLUMNS - 1)
            if not _CALLS.fullmatch(cells[0] if cells else ""):
                return  # what another writer printed in between
            if len(cells) < _COLUMNS:
                self._run.say("error", "a row of functions cannot be read", number)
                return
            self._rows += 1
            calls = Amount(cells[0].rpartition("/")[2])
            self._keep(f"{self._action}.{cells[5]}", {"total": Amount(cells[3]), "count": calls}, number)

    def _keep(self, printed: str, amounts: dict[str, Amount], number: int) -> None:
        metric = self._run.name(printed, self._labels, number)
        self._run.aggregate(Key.of(metric, **self._labels), "s", amounts, number)
