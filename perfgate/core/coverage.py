"""The number of values that were read from files, and the names of those that were not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

#: Numbers that were not read are an error of a report, a warning, or not mentioned.
UnreadPolicy = Literal["error", "warn", "ignore"]


class Unread(Struct, frozen=True):
    """Numbers that the reader did not read: the path in the document, the column, or words of the line, and a count."""

    name: str
    count: int


class Coverage(Struct, frozen=True, omit_defaults=True):
    """The numbers of a file: `read` is how many are in its runs, `unread` has the others, the most frequent first.

    Dates, ids, settings, steps and the like are not measurements, and are not counted.
    """

    read: int
    unread: tuple[Unread, ...] = ()
    #: True if the file is so large that only parts were examined: the number of unread ones is an estimate.
    is_estimate: bool = False
    #: The name of the file; empty for several.
    file: str = ""


def joined_coverage(parts: Iterable[Coverage]) -> Coverage | None:
    """Return the coverage of several files together, each file name counted once; None without any."""
    files = {part.file or part: part for part in parts}.values()
    counts: Counter[str] = Counter()
    for part in files:
        counts.update({one.name: one.count for one in part.unread})
    unread = tuple(Unread(name, count) for name, count in counts.most_common())
    is_estimate = any(part.is_estimate for part in files)
    return Coverage(sum(part.read for part in files), unread, is_estimate) if files else None
