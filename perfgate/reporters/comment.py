"""The report as a comment on a pull request: the Markdown within a comment's size, under a line to find it again by."""

from __future__ import annotations

import re

from perfgate.core import Report
from perfgate.reporters import markdown

#: In bytes of UTF-8, of which there are never fewer than characters; GitHub refuses a comment of more than 65,536.
LIMIT = 60_000
_LONGEST_SUITE = 100


def render(report: Report) -> str:
    """The comment; whoever posts it edits the one that begins with the same `marker`, so that there is one a suite."""
    head = marker(report) + "\n"
    return head + markdown.render(report, limit=LIMIT - len(head))


def marker(report: Report) -> str:
    """The first line of every comment about a suite, which readers do not see."""
    suite = re.sub(r"[^A-Za-z0-9_.-]", "_", report.suite)[:_LONGEST_SUITE]
    return f"<!-- perfgate comment: {suite} -->"
