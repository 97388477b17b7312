"""Check that the tables of nccl-tests are whole: interrupted rows, and the announced sizes.

    # nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20
         1048576        262144     float     sum      -1node1:77:91 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7f
       78.12   13.42   12.61      0    77.90   13.46   12.65      0

Source: NVIDIA/nccl-tests `src/common.cu`, `run` and `TimeTest`: a row is printed in two parts, and NCCL prints between
them if NCCL_DEBUG is INFO. `maxBytes` is reduced on a device with little memory, which is printed, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from perfgate.readers.values import number

#: The metric of each column.
METRIC_OF_COLUMN = {"time": "time", "cputime": "cpu_time", "algbw": "algbw", "busbw": "busbw"}

_SIZES = re.compile(r"minBytes (\d{1,18}) maxBytes (\d{1,18}) step: (\d{1,18})\((factor|bytes)\)")
_REDUCED = re.compile(r"Reducing maxBytes to (\d{1,18})")
_INTERRUPTED = re.compile(r"(?:[A-Za-z][\w.-]*:\d+(?::\d+)? )?(?:\[[^\]\s]{1,40}\] )?NCCL (?:INFO|WARN|TRACE)\b")
_REST = re.compile(r"[\s\d.eE+-]+(?:N/A[\s\d.eE+-]*)*")


class Announced(Struct, frozen=True):
    """The sizes that a program is going to measure, and the line that says so."""

    least: int
    most: int
    step: int
    is_factor: bool
    line: int

    @property
    def count(self) -> int:
        """The number of rows of a whole table."""
        if not self.is_factor:
            return (self.most - self.least) // max(self.step, 1) + 1 if self.most >= self.least else 0
        count, size = 0, self.least
        while 0 < size <= self.most and count < 1000:
            count, size = count + 1, size * max(self.step, 2)
        return count


def announced(line: str, at: int, before: Announced | None) -> Announced | None:
    """Return what a line says of the sizes; None if it says nothing."""
    if found := _SIZES.search(line):
        return Announced(int(found[1]), int(found[2]), int(found[3]), found[4] == "factor", at)
    if before is not None and (found := _REDUCED.search(line)):
        return Announced(before.least, int(found[1]), before.step, before.is_factor, before.line)
    return None


def interrupted(text: str) -> str | None:
    """Return the beginning of a row that a message of NCCL interrupts; None for another line."""
    found = _INTERRUPTED.search(text)
    return text[: found.start()] if found else None


def is_rest(text: str) -> bool:
    """Return whether a line has only the numbers of a row."""
    return bool(_REST.fullmatch(text)) and bool(text.strip())


def has_numbers(header: Sequence[str], cells: Sequence[str]) -> bool:
    """Return whether the cells of measured columns are numbers, so that no other text is between them."""
    pairs = zip(header, cells, strict=False)
    return all(number(cell) is not None for name, cell in pairs if name in METRIC_OF_COLUMN)


def blank_columns(header: Sequence[str], cells: Sequence[str]) -> list[str]:
    """The columns redop and root that are blank in a row; empty if other cells are missing."""
    optional = [name for name in ("redop", "root") if name in header]
    missing = len(header) - len(cells)
    if not 0 < missing <= len(optional) or len(cells) < 5:
        return []
    if missing == len(optional):
        return optional if number(cells[3]) is not None else []
    if number(cells[3]) is not None:  # the root
        return ["redop"]
    return ["root"] if "." in cells[4] else []
