"""What DeepSpeed's `see_memory_usage` prints: the memory of the first rank's device at one place in the program.

    [2021-06-10 20:47:51,720] [INFO] [utils.py:627:see_memory_usage] After Building Model               to v0.18.2
    [2021-06-10 20:47:51,721] [INFO] [utils.py:628:see_memory_usage] MA 1.73 GB         Max_MA 1.73 GB         CA ...
    After Building Model                                                                                since v0.18.3
    MA 1.73 GB         Max_MA 1.73 GB         CA 1.75 GB         Max_CA 2 GB

Source: deepspeedai/DeepSpeed `deepspeed/runtime/utils.py`. The metrics are `memory.allocated`,
`memory.peak_allocated`, `memory.reserved` and `memory.peak_reserved` (B), and the label `at` is the caller's message:
lines of two places are never one series. A peak is that since the line before, for every line resets it. GB is 1024**3
bytes, rounded to 2 digits, and `Max_CA` to whole ones. The memory of the host, on the next line, is of all its
programs, and is not read.
"""

from __future__ import annotations

import re

from perfgate.core import Key
from perfgate.readers.builder import RunBuilder

WORD = "Max_MA "
#: What stands before the message and the numbers, where a logger prints them.
MESSAGE_WORD = ":see_memory_usage]"

RECORD = re.compile(r"\bMA (\S{1,20}) GB +Max_MA (\S{1,20}) GB +CA (\S{1,20}) GB +Max_CA (\S{1,20}) GB\b")

_METRICS = ("memory.allocated", "memory.peak_allocated", "memory.reserved", "memory.peak_reserved")
_LONGEST = 120
_DIGIT = re.compile(r"\d")


class MemoryUsage:
    """The message of the next record, while a log is read."""

    def __init__(self) -> None:
        self._logged = ""
        self._previous = ""

    def line(self, run: RunBuilder, number: int, line: str) -> None:
        """Any line: one with the numbers, the message before it, or another."""
        found = RECORD.search(line) if WORD in line else None
        if found:
            place = self._logged or _message(self._previous, line[: found.start()])
            labels = {"at": place} if place else {}
            for metric, text in zip(_METRICS, found.groups(), strict=True):
                run.add(run.column(Key.of(metric, **labels), "B", 2.0**-30), text, number)
            self._logged = ""
        elif MESSAGE_WORD in line and "CPU Virtual Memory:" not in line:
            self._logged = line.partition(MESSAGE_WORD)[2].strip()[:_LONGEST]
        self._previous = line


def _message(previous: str, lead: str) -> str:
    """The line before, without what a launcher puts before every line, in which only digits (of a time) differ."""
    if MESSAGE_WORD in lead:
        return ""  # the message was lost, and the line before is another's
    if lead and _DIGIT.sub("0", previous[: len(lead)]) == _DIGIT.sub("0", lead):
        previous = previous[len(lead) :]
    return previous.strip() if len(previous) <= _LONGEST else ""
