"""Tables of torch's `key_averages().table()`: in a script's output, a log, a note, or a report of Lightning.

    ---------  ------------  ------------  ------------  ------------  ------------  ------------
         Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls
    ---------  ------------  ------------  ------------  ------------  ------------  ------------
     aten::mm        53.46%      48.972ms        70.85%      64.896ms      21.632ms             3
    ---------  ------------  ------------  ------------  ------------  ------------  ------------
    Self CPU time total: 91.603ms
    Self CUDA time total: 271.242ms

    OP.self_cpu_time  OP.cpu_time  OP.self_device_time  OP.device_time  OP.cpu_memory  OP.self_cpu_memory
    OP.device_memory  OP.self_device_memory  OP.flops  OP.calls

These are the metrics of every printed row; a name that comes again, in this table or in a later one, is `OP#2`. Every
device is called `device`; `op_columns` has the columns of every version. Rows below the caller's row limit are absent,
which does not mean 0. The sums under a table are `table.self_cpu_time` and `table.self_device_time`: they have the rows
below the limit, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder
from perfgate.readers.torch_text.op_columns import Amount, Kind, OpColumn, OpHeader, Span, add_amounts, rule_spans

NAME = "torch-table"
METRICS = (
    "`OP.cpu_time`, `OP.self_device_time`, `OP.cpu_memory`, `OP.flops`, `OP.calls`, ... (`cuda` and `xpu` may be "
    "written for `device`); the sums `table.self_cpu_time` and `table.self_device_time`"
)
CHECKED = "torch 2.13: tables that it printed, with its numbers; public tables of torch 1.1 to 2.x"
FORMAT = Format(NAME, __name__, markers={"Self CPU": r"\bName {2,}(?:Overload Name {2,})?Self CPU"})
#: A sum under a table.
_SUM = re.compile(r"\bSelf (\w{1,40}) time total: (\S{1,40})\s*$")
_TIME = OpColumn("time")
Labels = Mapping[str, str]
_BASE: dict[Kind, str] = {"time": "s", "memory": "B", "flops": "FLOP"}


class OpTable:
    """The tables of one file or section, one after another, while its lines are read."""

    def __init__(self, run: RunBuilder, labels: Labels) -> None:
        self._run, self._labels = run, labels
        #: The columns in the rule above a header.
        self._spans: Sequence[Span] = ()
        self._header: OpHeader | None = None
        #: True between the rule under the header and the rule at the end.
        self._in_rows = False
        self._last_row = 0
        self._tables = 0
        #: True from the first header on.
        self.has_begun = False

    def line(self, number: int, line: str, ended: bool) -> None:
        """Read the next line; a line without a line end may be cut inside a number, so it is not a row."""
        line = line.removeprefix("\ufeff")
        if line.rstrip().endswith("---") and (spans := rule_spans(line)):
            self._rule(number, spans)
        elif not line.strip():
            return
        elif self._header and self._in_rows:
            if ended:
                self._row(number, line, self._header)
            else:
                self._run.say("warning", "the last row is cut off; left out", number)
                self._forget()
        elif self._spans and not self._header:
            self._begin(number, line)
        else:
            self._forget()
            if self.has_begun and "Self " in line and ended and (found := _SUM.search(line)):
                self._add_sum(found[1], found[2])

    def _add_sum(self, device: str, cell: str) -> None:
        """Keep a sum under a table; tables of one file have different names."""
        table = "table" if self._tables == 1 else f"table#{self._tables}"
        key = Key.of(f"{table}.self_{'cpu' if device == 'CPU' else 'device'}_time", **self._labels)
        if (amount := _TIME.amount(cell)) and not amount.fault():
            self._run.one_value(key, "s", amount.value)

    def close(self) -> None:
        """End the table: without its last rule it may have lost rows."""
        if self._in_rows:
            self._run.say("warning", "the table has no rule at its end: rows may be missing", self._last_row)
        self._forget()

    def _forget(self) -> None:
        self._spans, self._header, self._in_rows = (), None, False

    def _rule(self, number: int, spans: Sequence[Span]) -> None:
        """Read the rule above the header, under it, or at the end."""
        if self._header is None or len(spans) != len(self._header.spans):
            self.close()
            self._spans = spans
        elif self._in_rows:
            self._forget()
        else:
            self._in_rows, self._last_row = True, number

    def _begin(self, number: int, line: str) -> None:
        header = OpHeader.of(line, self._spans)
        self._forget()
        if header is None:
            return
        if len(header.names) != len(header.spans):
            message = f"the table is not read: it has {len(header.names)} headers over {len(header.spans)} columns"
            self._run.say("error", message, number)
            return
        if len(header.devices) > 1:
            message = f"only {header.devices[0]} is read, because the table has {' and '.join(header.devices)}"
            self._run.say("warning", message, number)
        self._header, self.has_begun = header, True
        self._tables += 1
        self._run.table("operators", number)

    def _row(self, number: int, line: str, header: OpHeader) -> None:
        """Read one row; lines of a stack (only the last cell is filled) and of other writers are passed over."""
        if "  " not in line.strip():
            return
        cells = header.cells(line)
        numbers = [(column, cell) for column, cell in zip(header.columns, cells, strict=True) if column.kind != "text"]
        fitting = sum(column.fits(cell) for column, cell in numbers)
        if not cells[0] or 2 * fitting < len(numbers):
            if header.is_like_row(line):
                self._run.say("error", "a row of the table cannot be read", number)
            return
        self._last_row = number
        self._run.table_row()
        overload = cells[1] if header.names[1] == "Overload Name" else ""
        printed = f"{cells[0]}.{overload}" if overload else cells[0]  # `aten::add.Tensor`
        name = self._run.unique(Key.of(printed, **self._labels), number).metric
        found: dict[OpColumn, Amount] = {}
        for column, cell in numbers:
            if amount := column.amount(cell):
                found[column] = amount
            elif not column.fits(cell):
                why = f"{cell!r} is not in a unit of {column.kind}; left out"
                self._run.refuse(self._key(name, column), why, number)
        self._run.file.coverage.mark(None, number, *(amount.printed for amount in found.values()))
        first = header.devices[:1]
        read = {column: amount for column, amount in found.items() if not column.device or [column.device] == first}
        self._keep(name, printed, read, number)

    def _key(self, name: str, column: OpColumn) -> Key:
        return Key.of(f"{name}.{column.metric or column.kind}", **self._labels)

    def _keep(self, name: str, printed: str, amounts: dict[OpColumn, Amount], number: int) -> None:
        """Add the numbers of a row: for each metric the printed statistics, with the number of calls."""
        series: dict[Key, tuple[OpColumn, dict[str, Amount]]] = {}
        count: dict[str, Amount] = {}
        for column, amount in amounts.items():
            if column.kind == "calls":
                key, fault = self._key(name, column), amount.fault()
                if fault:
                    self._run.refuse(key, fault, number)
                else:
                    self._run.one_value(key, "1", amount.value)
                count = {} if fault else {"count": amount}
            elif column.kind != "percent":
                series.setdefault(self._key(name, column), (column, {}))[1][column.statistic] = amount
        for key, (column, statistics) in series.items():
            own_name = column.metric.replace("device", column.device.lower())  # `self_cuda_time`
            printed_as = f"{printed}.{own_name}" if column.device else None
            add_amounts(self._run, key, _BASE[column.kind], {**statistics, **count}, number, printed_as)


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file, with every row of its tables."""
    run = RunBuilder(file, NAME)
    table = OpTable(run, {})
    for number, line, _, ended in file.lines():
        table.line(number, line, ended)
    table.close()
    return (run.run(),)
