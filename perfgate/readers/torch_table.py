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
device is called `device`; `torch_columns` has the columns of every version. Rows below the caller's row limit are
absent, which does not mean 0. The sums under a table are `table.self_cpu_time` and `table.self_device_time`: they have
the rows below the limit, too.

The rule, not the header, shows where columns are: headers may be wider than their columns. A cell that is wider pushes
the rest of its row to the right, as `str.format` does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from perfgate.readers.kit import Format, InputFile, Key, Run, RunBuilder, number
from perfgate.readers.torch_columns import CELL, Amount, Kind, OpColumn, add_amounts, column_of

NAME = "torch-table"
METRICS = (
    "`OP.cpu_time`, `OP.self_device_time`, `OP.cpu_memory`, `OP.flops`, `OP.calls`, ... (`cuda` and `xpu` may be "
    "written for `device`); the sums `table.self_cpu_time` and `table.self_device_time`"
)
CHECKED = "torch 2.13: tables that it printed, with its numbers; public tables of torch 1.1 to 2.x"
FORMAT = Format(NAME, __name__, markers={"Self CPU": r"\bName {2,}(?:Overload Name {2,})?Self CPU"})
#: A sum under a table.
_SUM = re.compile(r"\bSelf (\w{1,40}) time total: (\S{1,40})\s*$")
Labels = Mapping[str, str]
Span = tuple[int, int]
_BASE: dict[Kind, str] = {"time": "s", "memory": "B", "flops": "FLOP"}
#: No table has fewer columns, and more would take long.
_FEWEST, _MOST = 5, 64


def _rule_spans(line: str) -> list[Span]:
    """Return where the columns are if a line is the rule of a table: runs of dashes with two blanks between them."""
    text = line.rstrip()
    spans = [found.span() for found in re.finditer("-{3,}", text)] if text.endswith("---") else []
    breaks = [at for at, (one, other) in enumerate(pairwise(spans), 1) if text[one[1] : other[0]] != "  "]
    spans = spans[breaks[-1] :] if breaks else spans  # a logger printed the text before the last break
    return spans if _FEWEST <= len(spans) <= _MOST else []


def _cut(line: str, spans: Sequence[Span]) -> list[str]:
    """Return the cells of a row; a cell that is wider than its column moves the cells behind it."""
    cells, shift = [], 0
    for start, end in spans[:-1]:
        begin, stop = start + shift, end + shift
        if line[stop : stop + 2].strip():
            gap = line.find("  ", stop)
            stop = len(line) if gap < 0 else gap
            shift = stop - end
        cells.append(line[begin:stop].strip())
    return [*cells, line[spans[-1][0] + shift :].strip()]


class _Header(Struct, frozen=True):
    """The columns of one table: where each is in a line, the name in the header, and its meaning."""

    spans: Sequence[Span]
    names: Sequence[str]
    columns: Sequence[OpColumn]
    #: The devices of the columns; 1.10 to 2.0 may print two, and only the first is read.
    devices: Sequence[str]

    def cells(self, line: str) -> list[str]:
        """Return the cells of a row; if it does not line up with the rule, the texts between double blanks."""
        cells = self._in_order(_cut(line, self.spans))
        if self._fitting(cells) == len(self.columns):
            return cells
        parts = re.split(r"\s{2,}", line[self.spans[0][0] :].strip())
        return max(cells, self._in_order(parts), key=self._fitting) if len(parts) == len(self.columns) else cells

    def _fitting(self, cells: Sequence[str]) -> int:
        """Return the number of cells that fit their columns."""
        return sum(column.fits(cell) for column, cell in zip(self.columns, cells, strict=True))

    def _in_order(self, cells: list[str]) -> list[str]:
        """Return the cells in the order of the header; some versions print FLOPs before the source location in rows."""
        if "Source Location" not in self.names or self.columns[-1].kind != "flops":
            return cells
        source = self.names.index("Source Location")
        if not self.columns[-1].fits(cells[source]):
            return cells
        return [*cells[:source], cells[-1], *cells[source + 1 : -1], cells[source]]


class OpTable:
    """The tables of one file or section, one after another, while its lines are read."""

    def __init__(self, run: RunBuilder, labels: Labels) -> None:
        self._run, self._labels = run, labels
        #: The columns in the rule above a header.
        self._spans: Sequence[Span] = ()
        self._header: _Header | None = None
        #: True between the rule under the header and the rule at the end.
        self._in_rows = False
        self._last_row = self._tables = 0
        #: True from the first header on.
        self.has_begun = False

    def line(self, number: int, line: str, ended: bool) -> None:
        """Read the next line; a line without a line end may be cut inside a number, so it is not a row."""
        line = line.removeprefix("\ufeff")  # of a file that was appended to another
        if line.rstrip().endswith("---") and (spans := _rule_spans(line)):
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
            if self._tables and "Self " in line and ended:
                self._sum(line)

    def _sum(self, line: str) -> None:
        """Add the sum in a line below a table, if it has one."""
        found = _SUM.search(line)
        amount = OpColumn("time").amount(found[2]) if found else None
        if found and amount and not amount.fault():
            table = "table" if self._tables == 1 else f"table#{self._tables}"
            device = "cpu" if found[1] == "CPU" else "device"
            self._run.one_value(Key.of(f"{table}.self_{device}_time", **self._labels), "s", amount.value)

    def close(self) -> None:
        """End the table: without its last rule it may have lost rows."""
        if self._in_rows:
            self._run.say("warning", "the table has no rule at its end: rows may be missing", self._last_row)
        self._forget()

    def _forget(self) -> None:
        self._spans, self._header, self._in_rows = (), None, False

    def _rule(self, number: int, spans: Sequence[Span]) -> None:
        """Read the rule above a header, at the end of the rows, or under a header."""
        if self._header is None or len(spans) != len(self._header.spans):
            self.close()
            self._spans = spans
        elif self._in_rows:
            self._forget()
        else:
            self._in_rows, self._last_row = True, number

    def _begin(self, number: int, line: str) -> None:
        """Begin a table, if the line under a rule is its header."""
        spans = self._spans
        self._forget()
        names = re.split(r"\s{2,}", line[spans[0][0] :].strip())
        columns = [column_of(name) for name in names]
        if names[0] != "Name" or all(column.metric != "self_cpu_time" for column in columns):
            return
        if len(names) != len(spans):
            message = f"the table is not read: it has {len(names)} headers over {len(spans)} columns"
            self._run.say("error", message, number)
            return
        devices = list(dict.fromkeys(column.device for column in columns if column.device))
        if len(devices) > 1:
            message = f"only {devices[0]} is read, because the table has {' and '.join(devices)}"
            self._run.say("warning", message, number)
        self._header = _Header(spans, names, columns, devices)
        self._tables, self.has_begun = self._tables + 1, True
        self._run.table("operators", number)

    def _row(self, at: int, line: str, header: _Header) -> None:
        """Read one row; lines of a stack (only the last cell is filled) and of other writers are passed over."""
        if "  " not in line.strip():
            return
        cells = header.cells(line)
        numbers = [(column, cell) for column, cell in zip(header.columns, cells, strict=True) if column.kind != "text"]
        fitting = sum(column.fits(cell) for column, cell in numbers)
        if not cells[0] or 2 * fitting < len(numbers):
            if _has_two_numbers(line):
                self._run.say("error", "a row of the table cannot be read", at)
            return
        self._last_row = at
        self._run.table_row()
        overload = cells[1] if header.names[1] == "Overload Name" else ""
        printed = f"{cells[0]}.{overload}" if overload else cells[0]  # `aten::add.Tensor`
        name = self._run.unique(Key.of(printed, **self._labels), at).metric
        found: dict[OpColumn, Amount] = {}
        for column, cell in numbers:
            if amount := column.amount(cell):
                found[column] = amount
            elif not column.fits(cell):
                why = f"{cell!r} is not in a unit of {column.kind}; left out"
                self._run.refuse(self._key(name, column), why, at)
        # Percentages and the second device are not read on purpose: do not report them as unread.
        self._run.file.coverage.mark(None, at, *(number(amount.text) for amount in found.values()))
        devices = ("", *header.devices[:1])  # the CPU and the first device
        self._keep(name, printed, {column: one for column, one in found.items() if column.device in devices}, at)

    def _key(self, name: str, column: OpColumn) -> Key:
        return Key.of(f"{name}.{column.metric or column.kind}", **self._labels)

    def _keep(self, name: str, printed: str, amounts: dict[OpColumn, Amount], number: int) -> None:
        """Add the numbers of a row: for each metric the printed statistics, with the number of calls."""
        series: dict[Key, tuple[OpColumn, dict[str, Amount]]] = {}
        count: dict[str, Amount] = {}
        for column, amount in amounts.items():
            key = self._key(name, column)
            if column.kind == "calls":
                if fault := amount.fault():
                    self._run.refuse(key, fault, number)
                else:
                    self._run.one_value(key, "1", amount.value)
                count = {} if fault else {"count": amount}
            elif column.kind != "percent":
                series.setdefault(key, (column, {}))[1][column.statistic] = amount
        for key, (column, statistics) in series.items():
            own_name = column.metric.replace("device", column.device.lower())  # `self_cuda_time`
            printed_as = f"{printed}.{own_name}" if column.device else None
            add_amounts(self._run, key, _BASE[column.kind], {**statistics, **count}, number, printed_as)


def _has_two_numbers(line: str) -> bool:
    """Return whether a line has two times or percentages, as the rows of a table have."""
    parts = [part for part in re.split(r"\s{2,}", line.strip()) if part.endswith(("s", "%"))]
    return sum(CELL.fullmatch(part) is not None for part in parts) > 1


def read(file: InputFile) -> tuple[Run, ...]:
    """Return the one run of a file, with every row of its tables."""
    run = RunBuilder(file, NAME)
    table = OpTable(run, {})
    for at, line, _, ended in file.lines():
        table.line(at, line, ended)
    table.close()
    return (run.run(),)
