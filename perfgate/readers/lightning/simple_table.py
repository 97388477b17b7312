r"""The table of Lightning's SimpleProfiler: a row for each action, with its mean, its total and since 1.2 its calls.

    Action              \t|  Mean duration (s)\t|  Total time (s)                                             to 1.1
    Action  \t|  Mean duration (s)\t|Num calls      \t|  Total time (s) \t|  Percentage %   \t|            1.2 to 1.5
    |  Action  \t|  Mean duration (s)\t|  Num calls      \t|  Total time (s) \t|  Percentage %   \t|       since 1.6

Actions may hold bars, so that rows are split from the right. The numbers have 5 significant digits, and are nested: a
batch is inside an epoch, and a sum of rows means nothing. Percentages are not read, nor is the row of the total, which
is a wall time since the profiler was made. Unit: s.
"""

from __future__ import annotations

import re

from perfgate.core import Key
from perfgate.readers.aggregates import AggregateRun, Amount, Labels
from perfgate.readers.builder import number as number_of

HEADER = "Mean duration (s)"

_STATISTICS = {HEADER: "mean", "Num calls": "count", "Total time (s)": "total"}
#: Docs and people print calls with thousands commas.
_COMMAS = re.compile(r"\d{1,3}(?:,\d{3})+", re.ASCII)
_DIGIT = re.compile(r"\d")
_SHORTEST_RULE = "-" * 20


class SimpleTable:
    """One table while its lines are read."""

    def __init__(self, run: AggregateRun, labels: Labels, header: str) -> None:
        self._run = run
        self._labels = labels
        before, _, after = header.partition(HEADER)
        bars = (HEADER + after.rstrip()).split("|")
        #: 1.2 and later end each row with a bar, and 1.6 and later begin it with one.
        self._closed = bars[-1] == ""
        self._opened = before.count("|") > 1
        self._statistics = [_STATISTICS.get(bar.strip()) for bar in bars if bar]
        #: What a logger prints before the table, up to the first action.
        self._lead = before[: max(before.rfind("Action"), 0)]
        self._last_row: int | None = None
        self._ended = False

    def line(self, number: int, line: str, ended: bool) -> None:
        """The next line; one without a line end may be cut in a number, and is no row."""
        text = line.rstrip()
        if self._ended or not text:
            self._ended = self._ended or self._last_row is not None
        elif text.endswith(_SHORTEST_RULE):
            self._ended = self._last_row is not None
        elif not ended:
            self._run.say("warning", "the last row is cut off, and left out", number)
            self._ended = True
        else:
            self._row(number, text)

    def close(self) -> None:
        """The end of the lines: since 1.6 a table without its last rule may have lost rows."""
        if self._opened and self._last_row is not None and not self._ended:
            self._run.say("warning", "the table has no rule at its end: rows may be missing", self._last_row)
        self._ended = True

    def _row(self, number: int, text: str) -> None:
        """One row; what another writer printed in between is passed over."""
        name, *cells = (text.removesuffix("|") if self._closed else text).rsplit("|", len(self._statistics))
        numbers = {
            statistic: _plain(cell.strip(), statistic)
            for statistic, cell in zip(self._statistics, cells, strict=False)
            if statistic
        }
        action = self._action(name)
        if action == "Total" and numbers.get("mean") == "-":
            return
        if len(cells) < len(self._statistics) or all(number_of(cell) is None for cell in numbers.values()):
            if "\t|" in text or (self._opened and text.lstrip(" >").startswith("|")):
                self._run.say("error", "a row of the table cannot be read", number)
            return
        self._last_row = number
        metric = self._run.name(action, self._labels, number)
        amounts = {statistic: Amount(cell) for statistic, cell in numbers.items()}
        self._run.aggregate(Key.of(metric, **self._labels), "s", amounts, number)

    def _action(self, cell: str) -> str:
        """The action, without what stands before it in the header, where only digits (of a time) may differ."""
        lead = cell[: len(self._lead)]
        if _DIGIT.sub("0", lead) == _DIGIT.sub("0", self._lead):
            return cell[len(lead) :].strip()
        bare = cell.strip(" \t>")
        return (bare.removeprefix("|") if self._opened else bare).strip()


def _plain(cell: str, statistic: str) -> str:
    return cell.replace(",", "") if statistic == "count" and _COMMAS.fullmatch(cell) else cell
