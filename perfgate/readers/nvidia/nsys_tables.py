"""The tables of `nsys stats`: which report a table is, and which of its columns hold which statistic.

    CUDA Kernel Statistics:                             CUDA Memory Operation Statistics (by size in KiB):    2020, 2021
    Time(%)  Total Time (ns)  Instances   Average   Minimum   Maximum   Name
    ** CUDA GPU Kernel Summary (gpukernsum):                                                                  2022
    ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):                                                           since 2023
    Time (%)  Total Time (ns)  Instances  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name

Source: outputs of 2020 to 2026.3 in public repositories.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from perfgate.core.units import find_unit

#: The reports that are read: what their metrics begin with. `calls` is the API or the OS, as the first name tells.
KINDS = {
    **dict.fromkeys(("cuda_gpu_kern_sum", "gpukernsum"), "kernel"),
    **dict.fromkeys(("cuda_api_sum", "cudaapisum"), "api"),
    **dict.fromkeys(("cuda_gpu_mem_time_sum", "gpumemtimesum"), "memcpy"),
    **dict.fromkeys(("cuda_gpu_mem_size_sum", "gpumemsizesum"), "memcpy.size"),
    **dict.fromkeys(("nvtx_sum", "nvtxsum", "nvtx_pushpop_sum", "nvtxppsum", "nvtx_startend_sum"), "range"),
    **dict.fromkeys(("osrt_sum", "osrtsum"), "os"),
}
#: The titles of 2020 and 2021, as reports of today.
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
#: Columns beside the statistics; a table that has any other is of a report that is not read.
_OTHERS = {*_NAMES, "Time (%)", "Time(%)", "Style", "GridXYZ", "BlockXYZ"}
_COLUMN = re.compile(r"(.*?) ?\(([^()]*)\)")
_SYNONYMS = {"sec": "s", "nsec": "ns", "usec": "us", "msec": "ms", "seconds": "s"}


@dataclass(frozen=True, slots=True)
class Notice:
    """A line that says which report comes next; `source` is the export that it is made of."""

    report: str
    source: str | None = None
    #: The unit of sizes, which the tables of 2020 and 2021 have in their title.
    unit: str | None = None

    @property
    def is_read(self) -> bool:
        """Whether the report is one of those that are read."""
        return self.report in KINDS


@dataclass(frozen=True, slots=True)
class Table:
    """One table: where its name and statistics stand, and how many of the printed unit are one base unit."""

    #: `kernel`, `api`, `memcpy`, `memcpy.size`, `range`, `os`, or `calls` for one of `api` and `os`.
    kind: str
    name: int
    #: The columns of statistics, each with its printed units in one base unit.
    columns: dict[int, tuple[str, float]] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """The base unit of every statistic but the count."""
        return "B" if self.kind == "memcpy.size" else "s"

    def metric(self, name: str) -> str:
        """The metric of a row: `kernel.NAME`, `memcpy.NAME.size`, ..."""
        kind, _, size = self.kind.partition(".")
        if kind == "calls":
            kind = "api" if is_api(name) else "os"
        return f"{kind}.{name}.{size}" if size else f"{kind}.{name}"


def is_api(name: str) -> bool:
    """Whether a function is of CUDA (`cuInit`, `cudaMalloc`), and not of the operating system (`poll`)."""
    return name[:2] == "cu" and (name[2:3].isupper() or name[2:4] == "da")


def notice_of(line: str) -> Notice | None:
    """The notice in a line, if it is one."""
    for pattern in _NOTICES:
        found = pattern.search(line)
        if found:
            parts = found.groupdict()
            report = parts.get("report") or _TITLES[parts["old"]]
            return Notice(report, parts.get("source"), parts.get("unit"))
    return None


def table_of(header: Sequence[str], notice: Notice | None) -> Table | str | None:
    """The table with this header; why it cannot be read; or None if this is no header of a summary."""
    names = [index for index, text in enumerate(header) if text in _NAMES]
    parts = [_parts(text) for text in header]
    found = {statistic: index for index, (statistic, _) in enumerate(parts) if statistic}
    if len(names) != 1 or "total" not in found or len(found) < 2:
        return None
    if notice and not notice.is_read:
        return f"the report {notice.report} is not read"
    for text, (statistic, _) in zip(header, parts, strict=True):
        if not statistic and text not in _OTHERS:
            return f"a table with the column {text[:40]!r} is not read"
    kind = _kind(header, notice)
    if kind is None:
        return "a table of unknown calls is not read"
    base = "B" if kind == "memcpy.size" else "s"
    default = (notice.unit if notice else None) if base == "B" else "ns"
    own = parts[found["total"]][1] or default
    columns = {}
    for statistic, index in found.items():
        unit = find_unit(parts[index][1] or own or "")
        if statistic == "count":
            columns[index] = (statistic, 1.0)
        elif unit is None or unit.base != base:
            return f"the column {header[index][:40]!r} has no known unit; its table is left out"
        else:
            columns[index] = (statistic, unit.factor)
    return Table(kind, names[0], columns)


def _parts(text: str) -> tuple[str | None, str | None]:
    """The statistic of a column and its printed unit; percentages are none."""
    found = _COLUMN.fullmatch(text)
    label, unit = (found[1], found[2]) if found else (text, None)
    return _STATISTICS.get(label), _SYNONYMS.get(unit, unit) if unit else None


def _kind(header: Sequence[str], notice: Notice | None) -> str | None:
    """What a table is by its header, and by the notice where headers are alike."""
    if "Operation" in header:
        return "memcpy" if any(text.startswith("Total Time") for text in header) else "memcpy.size"
    if "Range" in header:
        return "range"
    if notice:
        return KINDS[notice.report]
    if "Instances" in header:
        return "kernel"
    return "calls" if {"Num Calls", "Calls"} & {*header} else None
