"""The line about the numbers that were read, and those that were not."""

from __future__ import annotations

from perfgate.core.coverage import Coverage
from perfgate.core.wording import clip, one_line, plural

#: Up to this many names are listed, of at most so many characters.
_NAMES, _LONGEST = 6, 60


def coverage_line(coverage: Coverage) -> str:
    """Return how many numbers were read, and the names of the others: `numbers read: 8 of 11; not read: loss x3`."""
    if not coverage.unread:
        return f"numbers read: all {coverage.read:,}"
    about = "about " if coverage.is_estimate else ""
    return f"numbers read: {coverage.read:,} of {about}{coverage.total:,}; not read: {unread_names(coverage)}"


def unread_names(coverage: Coverage) -> str:
    """Return the names of the numbers that were not read, each with its count."""
    shown = [
        one_line(f"{clip(one.name, _LONGEST)}" + (f" x{one.count}" if one.count > 1 else ""))
        for one in coverage.unread[:_NAMES]
    ]
    more = len(coverage.unread) - len(shown)
    return ", ".join(shown) + (f" and {plural(more, 'more name')}" if more else "")
