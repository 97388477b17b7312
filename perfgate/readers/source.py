"""What a reader is given: the name that the user gave, the bytes, in chunks, read once, and how much to read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from perfgate.core import Location, Problem, Severity
from perfgate.core.resource_limits import DEFAULT, Limits

#: How the time of a step in a trace is divided: as it is, or as torch_tb_profiler does.
TraceMode = Literal["corrected", "tensorboard"]


@dataclass(frozen=True, slots=True)
class Source:
    """A named stream of bytes; `chunks` can be walked once."""

    name: str
    chunks: Iterable[bytes]
    limits: Limits = DEFAULT
    trace_mode: TraceMode = "corrected"

    def problem(self, severity: Severity, message: str, line: int | None = None) -> Problem:
        """A problem at a line of this source."""
        return Problem(severity, message, Location(self.name, line))


#: `trace_rank3.json`, `rank_3.log`, `rank-3.log`
_RANK = re.compile(r"rank[-_]?(\d+)", re.IGNORECASE)


def rank_in_name(name: str) -> str | None:
    """The rank that the name of a file tells, without leading zeros; folders do not count."""
    found = _RANK.search(name.replace("\\", "/").rpartition("/")[2])
    return str(int(found[1])) if found else None
