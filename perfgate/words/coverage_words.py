"""The words about the numbers of a file that no reader read."""

from __future__ import annotations

from perfgate.core import Report
from perfgate.core.coverage import Coverage
from perfgate.core.wording import one_line, plural, shortened

#: The most names of unread numbers that are listed, and the longest name, in characters.
_UNREAD_SHOWN, _LONGEST_UNREAD = 6, 60


def coverage_line(coverage: Coverage) -> str:
    """Return how many numbers were read, and the names of the others: `numbers read: 8 of 11; not read: loss x3`."""
    if not coverage.unread:
        return f"numbers read: all {coverage.read:,}"
    about = "about " if coverage.is_estimate else ""
    total = coverage.read + sum(one.count for one in coverage.unread)
    return f"numbers read: {coverage.read:,} of {about}{total:,}; not read: {unread_names(coverage)}"


def unread_names(coverage: Coverage) -> str:
    """Return the names of the numbers that were not read, each with its count."""
    shown = [
        one_line(f"{shortened(one.name, _LONGEST_UNREAD)}" + (f" x{one.count}" if one.count > 1 else ""))
        for one in coverage.unread[:_UNREAD_SHOWN]
    ]
    more = len(coverage.unread) - len(shown)
    return ", ".join(shown) + (f" and {plural(more, 'more name')}" if more else "")


def coverage(report: Report) -> list[str]:
    """Return the line about the numbers that were read; empty if the report does not know."""
    return [] if report.coverage is None else [coverage_line(report.coverage)]


def unread(report: Report) -> list[str]:
    """Return the line about the numbers that were read, if some were not."""
    return coverage(report) if report.coverage is not None and report.coverage.unread else []
