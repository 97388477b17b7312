"""The table that torch's `key_averages().table()` prints, alone or in a report of Lightning's PyTorchProfiler.

    ---------  ------------  ------------  ------------  ------------  ------------  ------------
         Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls
    ---------  ------------  ------------  ------------  ------------  ------------  ------------
     aten::mm        53.46%      48.972ms        70.85%      64.896ms      21.632ms             3
    ---------  ------------  ------------  ------------  ------------  ------------  ------------

`op_columns` knows the columns of every version. Whatever device they are of, it is called `device`. Rows below the
caller's row limit are absent, which is not 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core import Key
from perfgate.readers.aggregates import AggregateRun, Amount, Labels
from perfgate.readers.torch_text.op_columns import Column, Kind, Layout, Span, rule_spans

_BASE: dict[Kind, str] = {"time": "s", "memory": "B", "flops": "FLOP"}


class OpTable:
    """The tables of one document or section, one after another, while its lines are read."""

    def __init__(self, run: AggregateRun, labels: Labels) -> None:
        self._run = run
        self._labels = labels
        #: The rule above a header.
        self._spans: Sequence[Span] = ()
        self._layout: Layout | None = None
        #: Between the rule under the header and the one at the end.
        self._in_rows = False
        self._last_row = 0

    def line(self, number: int, line: str, ended: bool) -> None:
        """The next line; one without a line end may be cut in a number, and is no row."""
        line = line.removeprefix("\ufeff")
        if line.rstrip().endswith("---") and (spans := rule_spans(line)):
            self._rule(number, spans)
        elif not line.strip():
            return
        elif self._layout and self._in_rows:
            if ended:
                self._row(number, line, self._layout)
            else:
                self._run.say("warning", "the last row is cut off, and left out", number)
                self._forget()
        elif self._spans and not self._layout:
            self._header(number, line)
        else:
            self._forget()

    def close(self) -> None:
        """The end of the lines: a table without its last rule may have lost rows."""
        if self._in_rows:
            self._run.say("warning", "the table has no rule at its end: rows may be missing", self._last_row)
        self._forget()

    def _forget(self) -> None:
        self._spans, self._layout, self._in_rows = (), None, False

    def _rule(self, number: int, spans: Sequence[Span]) -> None:
        """The rule above the header, under it, or at the end."""
        if self._layout is None or len(spans) != len(self._layout.spans):
            self.close()
            self._spans = spans
        elif self._in_rows:
            self._forget()
        else:
            self._in_rows = True
            self._last_row = number

    def _header(self, number: int, line: str) -> None:
        layout = Layout.of(line, self._spans)
        self._forget()
        if layout is None:
            return
        if len(layout.names) != len(layout.spans):
            message = f"the table has {len(layout.names)} headers over {len(layout.spans)} columns, and is not read"
            self._run.say("error", message, number)
            return
        if len(layout.devices) > 1:
            message = f"of the devices {', '.join(layout.devices)} only {layout.devices[0]} is read"
            self._run.say("warning", message, number)
        self._layout = layout

    def _row(self, number: int, line: str, layout: Layout) -> None:
        """One row; lines of a stack, in which only the last cell is filled, and lines of others are passed over."""
        if "  " not in line.strip():
            return
        cells = layout.cells(line)
        numbers = [(column, cell) for column, cell in zip(layout.columns, cells, strict=True) if column.kind != "text"]
        fitting = sum(column.fits(cell) for column, cell in numbers)
        if not cells[0] or 2 * fitting < len(numbers):
            if layout.is_like_row(line):
                self._run.say("error", "a row of the table cannot be read", number)
            return
        self._last_row = number
        printed = layout.name(cells)
        name = self._run.name(printed, self._labels, number)
        found: dict[Column, Amount] = {}
        for column, cell in numbers:
            amount = column.amount(cell)
            if amount:
                found[column] = amount
            elif not column.fits(cell):
                self._run.refuse(self._key(name, column), f"{cell!r} is no {column.kind}; left out", number)
        first = layout.devices[:1]
        read = {column: amount for column, amount in found.items() if not column.device or [column.device] == first}
        self._keep(name, printed, read, number)

    def _key(self, name: str, column: Column) -> Key:
        return Key.of(f"{name}.{column.metric or column.kind}", **self._labels)

    def _keep(self, name: str, printed: str, amounts: dict[Column, Amount], number: int) -> None:
        """The numbers of a row: of each metric those statistics that are printed, with the number of calls."""
        series: dict[Key, tuple[Column, dict[str, Amount]]] = {}
        count: dict[str, Amount] = {}
        for column, amount in amounts.items():
            if column.kind == "calls":
                self._run.single(self._key(name, column), "1", amount, number)
                count = {} if amount.fault() else {"count": amount}
            elif column.kind != "percent":
                series.setdefault(self._key(name, column), (column, {}))[1][column.statistic] = amount
        for key, (column, statistics) in series.items():
            printed_as = f"{printed}.{column.printed_metric}" if column.device else None
            self._run.aggregate(key, _BASE[column.kind], {**statistics, **count}, number, printed_as)
