"""Lines of DeepSpeed that need the lines around them: memory, the comms logger, the FLOPS profiler.

**Memory**, from `see_memory_usage`: the memory of the first rank's device at one place in the program.

    [2021-06-10 20:47:51,720] [INFO] [utils.py:627:see_memory_usage] After Building Model               to v0.18.2
    [2021-06-10 20:47:51,721] [INFO] [utils.py:628:see_memory_usage] MA 1.73 GB         Max_MA 1.73 GB         CA ...
    After Building Model                                                                                since v0.18.3
    MA 1.73 GB         Max_MA 1.73 GB         CA 1.75 GB         Max_CA 2 GB

Source: deepspeedai/DeepSpeed `deepspeed/runtime/utils.py`. The metrics are `memory.allocated`,
`memory.peak_allocated`, `memory.reserved` and `memory.peak_reserved` (B). The label `at` is the caller's message, so
lines of two places are never one series. Every line resets the peak. GB is 1024**3 bytes, rounded to 2 digits, and
`Max_CA` to 0 digits. The memory of the host, on the next line, is that of all its programs, and is not read.

**The comms logger**: a line for each call, if it is verbose, and the table of `log_summary`.

    comm op: all_reduce | time (ms): 9.46 | msg size: 678.86 MB | algbw (Gbps): 1204.52  | busbw (Gbps): 1129.23

    Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms) ...
    all_reduce | [Caller Func: reduce_gradients]
                        678.86 MB           40                  602.29              9.69            ...
    Breakdown with straggler effect
    Comm. Op            Message Size        Count               Total comm lat(ms)  Total straggler(ms) ...

Source: deepspeedai/DeepSpeed `deepspeed/utils/comms_logging.py` (v0.7 to v0.19). Only the first rank prints. The label
`size` is that of the message as printed (MB is 1024**2 bytes, rounded); `caller` is there if the logger debugs.

A call has samples of `collective.OP` (s), `.algbw` and `.busbw` (B/s). A row of the table has one value, or a total
with its count, of each metric in `_COLUMNS`.

Printed averages leave out the lowest and the highest tenth of the calls, so they are not the total divided by the
count. Calls are counted from the start of the program, so the last table includes all before it. If there are calls
and a table, the calls are read if they are at least as many as the table counts, else the table.

**The FLOPS profiler**: what one step cost, and the throughput of the device.

    -------------------------- DeepSpeed Flops Profiler --------------------------
    Profile Summary at step 3:
    world size:                                                             2
    fwd flops per GPU:                                                      134.14 K
    fwd latency:                                                            347.38 us
    fwd FLOPS per GPU = fwd flops per GPU / fwd latency:                    386.16 MFLOPS

Source: deepspeedai/DeepSpeed `deepspeed/profiling/flops_profiler/profiler.py` (v0.3 to v0.19). Only the part of a label
before `=` counts, because the rest changes with the version. Numbers have 2 decimals. The profiles of modules below
the summary are not read: they are nested, and their latencies may be wrong (`1.8 Gs`). The metrics are
`flops_profiler.` and a name of `_FLOPS`. A summary at step n belongs to step n - 1; a metric of only one summary is
one value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from perfgate.core import Key
from perfgate.readers.builder import RunBuilder
from perfgate.readers.deepspeed.timers import WORD as TIMER_WORD
from perfgate.readers.values import fault_of, in_base

#: Every line near one of these words is read.
MEMORY_WORD, TABLE_WORD, FLOPS_WORD = "Max_MA ", "Comm. Op  ", "- DeepSpeed Flops Profiler -"
#: The word of a verbose call, which needs no other line.
CALL_WORD = "comm op: "
CALL = re.compile(
    r"comm op: (?P<op>\w{1,80})(?: \| \[Caller Func: (?P<caller>[^\]|]{1,200})\])? \| time \(ms\): (?P<time>\S{1,40})"
    r" \| msg size: (?P<size>[\d.]{1,40} ?[KMGTPEZY]?B) \| algbw \(Gbps\): (?P<algbw>\S{1,40}) +\|"
    r" busbw \(Gbps\): (?P<busbw>[^\s\[]{1,40})"
)

#: A logger prints this before the message and before the numbers.
MESSAGE_WORD = ":see_memory_usage]"
_MEMORY = re.compile(r"\bMA (\S{1,20}) GB +Max_MA (\S{1,20}) GB +CA (\S{1,20}) GB +Max_CA (\S{1,20}) GB\b")
_MEMORY_METRICS = ("memory.allocated", "memory.peak_allocated", "memory.reserved", "memory.peak_reserved")
_LONGEST_MESSAGE = 120
_DIGIT = re.compile(r"\d")

#: Every row of a table begins with these blanks, and hardly any other line contains them.
_ROW_WORD = " " * 20
_COLLECTIVE = re.compile(r"(?:^|[\]:>])[ >]{0,20}([a-z]\w{1,80})(?: \| \[Caller Func: ([^\]|]{1,200})\])?\s*$")
_ROW = re.compile(r" {20}([\d.]{1,40} ?[KMGTPEZY]?B)  +(\S.*)")
_LONGEST_ROW = 1000  # letters
#: How many printed units are one s, or one B/s: Gbps is 1e9 bit/s.
_MS, _GBPS = 1e3, 8e-9
#: By column: the end of the metric, after `collective.OP`, and the statistic that the cell is ("": a single value).
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
#: Finds the names in a header. A name may fill its column of 20 letters, so the blanks between names do not tell.
_NAMES = re.compile("Count|" + "|".join(map(re.escape, _COLUMNS)))

_FLOPS_END = "- Aggregated Profile per GPU -"
_FLOPS_STEP = re.compile(r"Profile Summary at step (\d{1,18}):")
#: A label, maybe with a formula behind `=`, then a colon, a number, a prefix and a unit.
_FLOPS_ROW = re.compile(r"(\w[\w+/ ]{2,40}?)(?: = [^:]{1,100})?:\s+([-+.\w]+)(?: ?([TGBMKkmu]?)(FLOPS|MACs|s)?)?\s*$")
_LONGEST_FLOPS = 400
_PREFIXES = {"": 0, "u": -6, "m": -3, "k": 3, "K": 3, "M": 6, "G": 9, "B": 9, "T": 12}
#: By the printed label: the metric, its unit, and the unit that is printed (None: none).
_FLOPS = {
    "fwd latency": ("forward_latency", "s", "s"),
    "bwd latency": ("backward_latency", "s", "s"),
    "step latency": ("step_latency", "s", "s"),
    "iter latency": ("iteration_latency", "s", "s"),
    "fwd flops per GPU": ("forward_flops", "FLOP", None),
    "fwd MACs per GPU": ("forward_macs", "1", "MACs"),
    "params per GPU": ("parameters", "1", None),
    "fwd FLOPS per GPU": ("forward_throughput", "FLOP/s", "FLOPS"),
    "bwd FLOPS per GPU": ("backward_throughput", "FLOP/s", "FLOPS"),
    "fwd+bwd FLOPS per GPU": ("forward_backward_throughput", "FLOP/s", "FLOPS"),
    "FLOPS per GPU": ("throughput", "FLOP/s", "FLOPS"),
    "samples/second": ("samples_per_second", "1/s", None),
}


class MemoryUsage:
    """The lines of `see_memory_usage` while a log is read."""

    def __init__(self) -> None:
        #: The message that a logger printed for the next numbers, and the previous line.
        self._logged = self._previous = ""
        #: The number of the previous line; a gap shows a record of timers between, which was read with others.
        self._number = 0

    def line(self, run: RunBuilder, number: int, line: str) -> None:
        """Read any line: the numbers, the message before them, or another line."""
        found = _MEMORY.search(line) if MEMORY_WORD in line else None
        if found:
            has_message = number - self._number <= 1 and TIMER_WORD not in self._previous
            place = self._logged or (self._message(line[: found.start()]) if has_message else "")
            labels = {"at": place} if place else {}
            for metric, text in zip(_MEMORY_METRICS, found.groups(), strict=True):
                run.add(run.column(Key.of(metric, **labels), "B", 2.0**-30), text, number)
            self._logged = ""
        elif MESSAGE_WORD in line and "CPU Virtual Memory:" not in line:
            self._logged = line.partition(MESSAGE_WORD)[2].strip()[:_LONGEST_MESSAGE]
        self._previous, self._number = line, number

    def _message(self, lead: str) -> str:
        """Return the message in the line before. `lead` is the text before the numbers in this line.

        A launcher may put the same text before every line, and only its digits (of a time) differ.
        """
        previous = self._previous
        if MESSAGE_WORD in lead:
            return ""  # the message was lost, and the line before belongs to another
        if lead and _DIGIT.sub("0", previous[: len(lead)]) == _DIGIT.sub("0", lead):
            previous = previous[len(lead) :]
        return previous.strip() if len(previous) <= _LONGEST_MESSAGE else ""


def add_call(run: RunBuilder, found: re.Match[str], number: int) -> None:
    """Add one call, which a verbose comms logger prints when the call has ended."""
    call = found["op"], found["size"], found["caller"]
    run.add(run.column(_key("", *call), "s", _MS), found["time"], number)
    run.add(run.column(_key(".algbw", *call), "B/s", _GBPS), found["algbw"], number)
    run.add(run.column(_key(".busbw", *call), "B/s", _GBPS), found["busbw"], number)


@lru_cache(maxsize=4096)
def _key(suffix: str, collective: str, size: str, caller: str | None) -> Key:
    """Return the key of a collective; cached, because a verbose log has thousands of calls of one kind."""
    return Key.of(f"collective.{collective}{suffix}", size=size, **({"caller": caller} if caller else {}))


class CommsSummary:
    """The tables of `log_summary` while a log is read; lines of the logger may be between their rows."""

    def __init__(self) -> None:
        #: The names of the columns behind the size; empty before the first header.
        self._columns: Sequence[str] = ()
        self._collective: re.Match[str] | None = None

    @property
    def is_open(self) -> bool:
        """Return whether rows may follow."""
        return bool(self._columns)

    def line(self, run: RunBuilder, number: int, line: str) -> None:
        """Read any line: a header, the name of a collective, a row below it, or another line."""
        if len(line) > _LONGEST_ROW:
            return
        if TABLE_WORD in line:
            self._columns, self._collective = _NAMES.findall(line), None
            run.table("collectives", number)
        elif self._columns and _ROW_WORD in line:
            if found := _ROW.search(line):
                self._row(run, number, found[1], found[2].split())
        elif self._columns and CALL_WORD not in line:
            self._collective = _COLLECTIVE.search(line) or self._collective

    def _row(self, run: RunBuilder, number: int, size: str, cells: Sequence[str]) -> None:
        """Add each cell as a series: one value, or a total with the count of its row."""
        if self._collective is None or len(cells) != len(self._columns):
            run.say("error", "a row of the comms logger cannot be read", number)
            return
        run.table_row()
        run.file.coverage.lines.tell(number)  # all its cells are read below
        op, caller = self._collective.groups()
        printed = dict(zip(self._columns, cells, strict=True))
        count = printed.get("Count", "")
        for name, (suffix, statistic) in _COLUMNS.items():
            if name not in printed:
                continue
            key = _key(suffix, op, size, caller)
            fault = fault_of(printed[name]) or (fault_of(count) if statistic else None)
            unit, per = ("B/s", _GBPS) if suffix.endswith("bw") else ("s", _MS)
            if fault:
                run.refuse(key, fault, number)
            elif statistic:
                run.aggregate(key, unit, {"count": float(count), statistic: in_base(float(printed[name]), per)})
            else:
                run.one_value(key, unit, in_base(float(printed[name]), per))


class FlopsSummary:
    """The summaries of the FLOPS profiler while a log is read."""

    def __init__(self) -> None:
        self.is_open = False
        self._step = 0

    def line(self, run: RunBuilder, number: int, line: str) -> None:
        """Read any line: the title, a row of the summary, its end, or another line."""
        if FLOPS_WORD in line:
            self.is_open = True
            run.table("the FLOPS profiler", number)
        elif _FLOPS_END in line:
            self.is_open = False
        elif len(line) > _LONGEST_FLOPS:
            return
        elif self.is_open and (found := _FLOPS_STEP.search(line)):
            self._step = max(int(found[1]) - 1, 0)
        elif self.is_open and TIMER_WORD not in line and (found := _FLOPS_ROW.search(line)):
            self._row(run, number, found)

    def _row(self, run: RunBuilder, number: int, found: re.Match[str]) -> None:
        label, text, prefix, printed_unit = found[1].replace("gpu", "GPU"), found[2], found[3] or "", found[4]
        if label == "world size" and text.isdecimal():
            run.fact("world_size", int(text[:9]), number)  # at most 9 digits, as in `lines.FACTS`
        run.table_row()
        if label not in _FLOPS:
            return
        name, unit, expected = _FLOPS[label]
        key = Key(f"flops_profiler.{name}")
        fault = fault_of(text)
        if printed_unit != expected and not (expected == "MACs" and printed_unit is None):  # `3.1 G` in old versions
            fault = f"{found[0].strip()!r} is not in {expected or 'numbers'}; left out"
        if fault:
            run.refuse(key, fault, number)
            return
        power = _PREFIXES[prefix]
        column = run.column(key, unit, 1.0, found[1])
        # the power is appended to the digits, so the number is exact
        run.file.coverage.mark(None, number, float(text))
        column.values.append(float(text) * 10.0**power if "e" in text.lower() else float(f"{text}e{power}"))
        column.steps.append(self._step)


def summarise(run: RunBuilder) -> None:
    """Keep the calls or the table of each collective, whichever has more calls; make single FLOPS numbers values."""
    in_both = [key for key in run.columns if key in run.finished and "count" in run.finished[key].aggregate]
    for key in in_both:
        table_has_more = run.finished[key].aggregate["count"] > len(run.columns[key].values)
        for suffix in ("", ".algbw", ".busbw"):
            one = Key(key.metric + suffix, key.labels)
            if table_has_more and one in run.finished:
                run.columns.pop(one, None)
            else:  # changes nothing if the table does not have this metric
                run.finished.pop(one, None)
    run.single_values(re.compile(r"flops_profiler\."))
