"""DeepSpeed's comms logger: a line for each call, where it is verbose, and the table of `log_summary`.

    comm op: all_reduce | time (ms): 9.46 | msg size: 678.86 MB | algbw (Gbps): 1204.52  | busbw (Gbps): 1129.23

    Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms) ...
    all_reduce | [Caller Func: reduce_gradients]
                        678.86 MB           40                  602.29              9.69            ...
    Breakdown with straggler effect
    Comm. Op            Message Size        Count               Total comm lat(ms)  Total straggler(ms) ...

Source: deepspeedai/DeepSpeed `deepspeed/utils/comms_logging.py` (v0.7 to v0.19). Only the first rank
prints. The label `size` is the message's as printed (its MB is 1024**2 bytes, rounded), and `caller` is there where the
logger was told to debug.

| metric | unit | kind | printed as |
|---|---|---|---|
| `collective.OP` | s | samples; of the table total and count | `time (ms)`; `Total Latency(ms)`, `Count` |
| `collective.OP.algbw`, `.busbw` | B/s | samples; of the table one value | `algbw (Gbps)`; `tput_avg (Gbps)` |
| `collective.OP.avg_latency` | s | one value | `Avg Latency(ms)` |
| `collective.OP.comm_latency`, `.straggler` | s | total and count | `Total comm lat(ms)`, `Total straggler(ms)` |
| `collective.OP.avg_comm_latency`, `.avg_straggler` | s | one value | `Avg comm lat(ms)`, `Avg straggler(ms)` |

What is printed as an average leaves out the lowest and the highest tenth of the calls: it is not the total divided by
the count. Calls are counted from the start of the program, so that of several tables the last one holds all. Where
both are printed, the calls are read if there are as many as the table counts, else the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from perfgate.core import Key, Series, read_only
from perfgate.readers.builder import RunBuilder, fault_of, in_base

CALL_WORD, HEADER_WORD = "comm op: ", "Comm. Op  "
#: What every row of a table begins with, and hardly any other line holds.
ROW_WORD = " " * 20

CALL = re.compile(
    r"comm op: (?P<op>\w{1,80})(?: \| \[Caller Func: (?P<caller>[^\]|]{1,200})\])? \| time \(ms\): (?P<time>\S{1,40})"
    r" \| msg size: (?P<size>[\d.]{1,40} ?[KMGTPEZY]?B) \| algbw \(Gbps\): (?P<algbw>\S{1,40}) +\|"
    r" busbw \(Gbps\): (?P<busbw>[^\s\[]{1,40})"
)
_COLLECTIVE = re.compile(r"(?:^|[\]:>])[ >]{0,20}([a-z]\w{1,80})(?: \| \[Caller Func: ([^\]|]{1,200})\])?\s*$")
_ROW = re.compile(r" {20}([\d.]{1,40} ?[KMGTPEZY]?B)  +(\S.*)")

_LONGEST = 1000

#: How many of the printed unit are one s, or one B/s: Gbps is 1e9 bit/s.
_MS, _GBPS = 1e3, 8e-9
#: The columns: what follows the collective's name in the metric, and which statistic it is (empty: the one value).
_COLUMNS = {
    "Total Latency(ms)": ("", "total"),
    "Avg Latency(ms)": (".avg_latency", ""),
    "tput_avg (Gbps)": (".algbw", ""),
    "busbw_avg (Gbps)": (".busbw", ""),
    "Total comm lat(ms)": (".comm_latency", "total"),
    "Total straggler(ms)": (".straggler", "total"),
    "Avg comm lat(ms)": (".avg_comm_latency", ""),
    "Avg straggler(ms)": (".avg_straggler", ""),
}
#: Names fill their columns of 20 letters, so that a single blank may stand between two.
_NAMES = re.compile("Count|" + "|".join(map(re.escape, _COLUMNS)))


def add_call(run: RunBuilder, found: re.Match[str], number: int) -> None:
    """One call, which a verbose logger prints when it is done."""
    time, algbw, busbw = _keys(found["op"], found["size"], found["caller"])
    run.add(run.column(time, "s", _MS), found["time"], number)
    run.add(run.column(algbw, "B/s", _GBPS), found["algbw"], number)
    run.add(run.column(busbw, "B/s", _GBPS), found["busbw"], number)


@lru_cache(maxsize=4096)
def _keys(collective: str, size: str, caller: str | None) -> tuple[Key, Key, Key]:
    """Time, algbw and busbw of the calls of one kind, of which a verbose log holds thousands."""
    name, labels = f"collective.{collective}", _labels(size, caller)
    return Key.of(name, **labels), Key.of(f"{name}.algbw", **labels), Key.of(f"{name}.busbw", **labels)


def settle(run: RunBuilder) -> None:
    """Keep one of the calls and the table, of each collective and size: what holds more calls."""
    for key in [key for key in run.columns if key in run.finished and "count" in run.finished[key].aggregate]:
        table_has_more = run.finished[key].aggregate["count"] > len(run.columns[key].values)
        for suffix in ("", ".algbw", ".busbw"):
            one = Key(key.metric + suffix, key.labels)
            if table_has_more and one in run.finished:
                run.columns.pop(one, None)
            else:
                run.finished.pop(one, None)


def _labels(size: str, caller: str | None) -> dict[str, str]:
    return {"size": size} | ({"caller": caller} if caller else {})


class CommsSummary:
    """The tables of `log_summary` while a log is read; the logger's own lines may stand between their rows."""

    def __init__(self) -> None:
        #: The names of the columns behind the size; empty until there was a header.
        self._columns: Sequence[str] = ()
        self._collective: re.Match[str] | None = None

    @property
    def is_open(self) -> bool:
        """Whether rows may follow."""
        return bool(self._columns)

    def line(self, run: RunBuilder, number: int, line: str) -> None:
        """Any line: a header, the name of a collective, a row below it, or another."""
        if len(line) > _LONGEST:
            return
        if HEADER_WORD in line:
            self._columns, self._collective = _NAMES.findall(line), None
        elif self._columns and ROW_WORD in line:
            found = _ROW.search(line)
            if found:
                self._row(run, number, found[1], found[2].split())
        elif self._columns and CALL_WORD not in line:
            self._collective = _COLLECTIVE.search(line) or self._collective

    def _row(self, run: RunBuilder, number: int, size: str, cells: Sequence[str]) -> None:
        if self._collective is None or len(cells) != len(self._columns):
            run.say_some("error", "a row of the comms logger that cannot be read", number)
            return
        op, caller = self._collective.groups()
        printed = dict(zip(self._columns, cells, strict=True))
        for name, (suffix, statistic) in _COLUMNS.items():
            if name in printed:
                key = Key.of(f"collective.{op}{suffix}", **_labels(size, caller))
                _keep(run, key, statistic, (printed[name], printed.get("Count", "")), number)


def _keep(run: RunBuilder, key: Key, statistic: str, texts: tuple[str, str], number: int) -> None:
    """A cell and its row's count as a series: the one value, or a total with the count."""
    fault = fault_of(texts[0]) or (fault_of(texts[1]) if statistic else None)
    if fault:
        run.refuse(key, fault, number)
        return
    of_bandwidth = key.metric.endswith("bw")
    value = in_base(float(texts[0]), _GBPS if of_bandwidth else _MS)
    if not statistic:
        run.one_value(key, "B/s" if of_bandwidth else "s", value)
        return
    aggregate = {"count": float(texts[1]), statistic: value}
    run.finished[key] = Series(key, "s", "aggregate", read_only(np.empty(0)), aggregate=aggregate)
