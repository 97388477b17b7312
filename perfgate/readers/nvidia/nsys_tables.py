"""The tables of `nsys stats`: the report of each table, the statistic of each column, and the cells of each row.

    CUDA Kernel Statistics:                             CUDA Memory Operation Statistics (by size in KiB):    2020, 2021
    Time(%)  Total Time (ns)  Instances   Average   Minimum   Maximum   Name
    ** CUDA GPU Kernel Summary (gpukernsum):                                                                  2022
    ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):                                                           since 2023
    Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name

PyTorch writes an NVTX range for each call of an operator (`torch.autograd.profiler.emit_nvtx`):

    aten::linear, seq = 1204, op_id = 88231
    aten::addmm, op_id = 88232, sizes = [[768], [64, 768], [768, 768]], input_op_ids = (88231,0)

Source: pytorch/pytorch `torch/csrc/profiler/stubs/base.cpp` and `torch/csrc/profiler/util.cpp` (`getNvtxStr`). The
numbers count calls, so every call would be a metric of its own, and the sizes of the inputs may differ in each call:
the metric is the operator.

Rows are CSV (RFC 4180), as in the output of ncu, or columns below a ruler.
Source: outputs of 2020 to 2026.3 in public repositories.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median, stdev
from typing import NamedTuple

from msgspec import Struct

from perfgate.readers.values import cells_of, unit_of_text

#: The reports that are read, and the kind of their tables (`Table.kind`).
KINDS = {
    **dict.fromkeys(("cuda_gpu_kern_sum", "gpukernsum"), "kernel"),
    **dict.fromkeys(("cuda_api_sum", "cudaapisum"), "api"),
    **dict.fromkeys(("cuda_gpu_mem_time_sum", "gpumemtimesum"), "memcpy"),
    **dict.fromkeys(("cuda_gpu_mem_size_sum", "gpumemsizesum"), "memcpy.size"),
    **dict.fromkeys(("nvtx_sum", "nvtxsum", "nvtx_pushpop_sum", "nvtxppsum", "nvtx_startend_sum"), "range"),
    **dict.fromkeys(("osrt_sum", "osrtsum"), "os"),
}
#: The titles of 2020 and 2021, and today's names of these reports. After `(by size` the title has the unit.
_TITLES = {
    "CUDA Kernel Statistics": "cuda_gpu_kern_sum",
    "CUDA API Statistics": "cuda_api_sum",
    "CUDA Memory Operation Statistics (by time)": "cuda_gpu_mem_time_sum",
    "CUDA Memory Operation Statistics (by size": "cuda_gpu_mem_size_sum",
    "Operating System Runtime API Statistics": "osrt_sum",
    "NVTX Push-Pop Range Statistics": "nvtx_sum",
}
_NOTICES = (
    re.compile(r"\*\* [^()]{1,99}(?:\(by \w+\) )?\((?P<report>\w+)\):"),
    re.compile(r"Processing \[(?P<source>[^\]]{1,999})\] with \[[^\]]{0,999}?(?P<report>\w+)\.py"),
    re.compile(r"Executing '(?P<report>\w+)' stats report"),
    re.compile(r"(?P<old>" + "|".join(map(re.escape, _TITLES)) + r")(?: in (?P<unit>[KMG]?i?B)\))?"),
)
_STATISTICS = {
    **dict.fromkeys(("Total Time", "Total"), "total"),
    **dict.fromkeys(("Instances", "Num Calls", "Calls", "Count", "Operations"), "count"),
    **dict.fromkeys(("Avg", "Average"), "mean"),
    **dict.fromkeys(("Med", "Median"), "median"),
    **dict.fromkeys(("Min", "Minimum"), "min"),
    **dict.fromkeys(("Max", "Maximum"), "max"),
    "StdDev": "stddev",
}
_NAMES = ("Name", "Operation", "Range")
#: Other known columns. A table with any further column is of a report that is not read.
_OTHERS = {*_NAMES, "Time (%)", "Time(%)", "Style", "GridXYZ", "BlockXYZ"}
_COLUMN = re.compile(r"(.*?) ?\(([^()]*)\)")
#: The numbers and sizes of a call in the name of a range.
_CALL = re.compile(r",? (?:stashed seq|seq|op_id) = -?\d+(?=,|$)|, (?:sizes|input_op_ids) = .*")
#: The range of a step; the group is its number.
STEP = re.compile(
    r"(?:ProfilerStep#|(?:(?:train(?:ing)?|global)[ _]?)?(?:steps?|iter(?:ation)?s?)[ _#:=]*)(\d{1,15})", re.I
)
#: A range that is an operator of PyTorch.
OPERATOR = re.compile(r"(?:\w+::)+\w+|\w+Backward\d*")
_RULER = re.compile(r"-{2,}(?:[ |+]+-{2,}){2,}[ |+]*")
#: The way to split a row into cells: by a delimiter, or at columns; the last column may be open.
Split = str | tuple[tuple[int, int | None], ...]


class Notice(Struct, frozen=True):
    """A line that announces the next report."""

    report: str
    #: The export that the report is made from.
    source: str | None = None
    #: The unit of sizes, which the tables of 2020 and 2021 have in their title.
    unit: str | None = None


class Table(Struct, frozen=True):
    """The columns of one table: the index of the name, and of each statistic."""

    #: `kernel`, `api`, `memcpy`, `memcpy.size`, `range`, `os`, or `calls` for either `api` or `os`.
    kind: str
    name: int
    #: The base unit of every statistic but the count.
    unit: str
    #: By index: the statistic of a column, and how many printed units are one base unit.
    columns: dict[int, tuple[str, float]]
    #: The number of all its columns, and the announced report.
    width: int
    report: str | None

    def metric(self, name: str) -> str:
        """Return the metric of a row: `kernel.NAME`, `memcpy.NAME.size`, ..."""
        kind, _, size = self.kind.partition(".")
        if kind == "calls":
            # CUDA functions are `cuInit` or `cudaMalloc`; those of the operating system are like `poll`.
            kind = "api" if name[:2] == "cu" and (name[2:3].isupper() or name[2:4] == "da") else "os"
        return f"{kind}.{name}.{size}" if size else f"{kind}.{name}"


def notice_of(line: str) -> Notice | None:
    """Return the notice in a line, if it is one."""
    for pattern in _NOTICES:
        if found := pattern.search(line):
            parts = found.groupdict()
            return Notice(parts.get("report") or _TITLES[parts["old"]], parts.get("source"), parts.get("unit"))
    return None


class _Column(NamedTuple):
    """A column: its place, its text, its statistic (None for any other column), and its printed unit."""

    place: int
    text: str
    statistic: str | None
    unit: str | None


def table_of(header: Sequence[str], notice: Notice | None) -> Table | str | None:
    """Return the table with this header, a message if it cannot be read, or None if it is not a header of a summary."""
    names = [index for index, text in enumerate(header) if text in _NAMES]
    every = [_column(place, text) for place, text in enumerate(header)]
    columns = {column.statistic: column for column in every if column.statistic}
    if len(names) != 1 or "total" not in columns or len(columns) < 2:
        return None
    if notice and notice.report not in KINDS:
        return f"the report {notice.report} is not read"
    if unknown := [column.text for column in every if not column.statistic and column.text not in _OTHERS]:
        return f"a table with the column {unknown[0][:40]!r} is not read"
    if (kind := _kind(header, notice)) is None:
        return "a table of unknown calls is not read"
    base, default = "s", "ns"
    if kind == "memcpy.size":
        base, default = "B", (notice and notice.unit) or ""
    usual = columns["total"].unit or default  # of a column without a unit
    statistics = {}
    for statistic, column in columns.items():
        unit, per = unit_of_text(column.unit or usual) or ("", 1.0)
        if statistic == "count":
            per = 1.0
        elif unit != base:
            return f"the column {column.text[:40]!r} has no known unit; its table is left out"
        statistics[column.place] = (statistic, per)
    return Table(kind, names[0], base, statistics, len(header), notice.report if notice else None)


def _column(place: int, text: str) -> _Column:
    """Return a column; a percentage is not a statistic."""
    found = _COLUMN.fullmatch(text)
    label, unit = (found[1], found[2]) if found else (text, None)
    return _Column(place, text, _STATISTICS.get(label), unit)


def _kind(header: Sequence[str], notice: Notice | None) -> str | None:
    """Return the kind of a table (see `Table.kind`) from its header, or from the notice if several have this header."""
    if "Operation" in header:
        return "memcpy" if any(text.startswith("Total Time") for text in header) else "memcpy.size"
    if "Range" in header:
        return "range"
    if notice:
        return KINDS[notice.report]
    if "Instances" in header:
        return "kernel"
    return "calls" if {"Num Calls", "Calls"} & {*header} else None


def cells_before_cut(line: str) -> list[str]:
    """Return the cells of a line before its last one, whose quotes end on a later line; none for another line."""
    return (cells_of(line + '"') or [])[:-1]


def header_of(previous: str, line: str) -> tuple[list[str], Split] | None:
    """Return the names of the columns, and the way to split the rows below; None if no header ends with this line.

    A header is a line of names with a delimiter, or the `previous` line above a ruler `----  ----`.
    """
    start = line.find("--")
    if start >= 0 and (ruler := _RULER.fullmatch(line, start)):
        spans = [match.span() for match in re.finditer("-+", line[: ruler.end()]) if match.start() >= start]
        closed = line.rstrip()[-1] in "|+"
        split = (*spans[:-1], (spans[-1][0], spans[-1][1] if closed else None))
        return split_row(previous, split) or [], split
    if "Total" not in line:
        return None
    delimiter = "\t" if "\t" in line else ","
    cells = cells_of(line, delimiter) or []
    return (cells, delimiter) if len(cells) > 2 else None


def split_row(line: str, split: Split) -> list[str] | None:
    """Return the cells of a row; None if it has text between columns, as other lines have."""
    if isinstance(split, str):
        return cells_of(line, split)
    if any(line[one[1] : other[0]].strip(" |+") for one, other in pairwise(split)):
        return None
    return [line[start:end].strip() for start, end in split]


def name_of_calls(name: str) -> str:
    """Return the name of a range without the numbers and sizes of its call."""
    return _CALL.sub("", name) if " = " in name else name


def merged(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the statistics of all calls from those of rows. A row without a count is one call.

    The median and the deviation of all calls are only known if each row is one call, with its time.
    """
    if len(rows) == 1:
        return dict(rows[0])
    counts = [row.get("count", 1.0) for row in rows]
    means = [row.get("mean", math.nan) for row in rows]
    totals = [row.get("total", mean * count) for row, mean, count in zip(rows, means, counts, strict=True)]
    count, total = math.fsum(counts), math.fsum(totals)
    found = {"count": count, "total": total, "mean": total / count if count else math.nan}
    for statistic, choose in (("min", min), ("max", max)):
        ends = [row.get(statistic, mean) for row, mean in zip(rows, means, strict=True)]
        found[statistic] = math.nan if any(map(math.isnan, ends)) else choose(ends)
    if all(count == 1 for count in counts) and math.isfinite(total):
        found |= {"median": median(totals), "stddev": stdev(totals)}
    return {name: value for name, value in found.items() if math.isfinite(value)}
