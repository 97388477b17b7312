"""CSV with a header, which `perfgate history import` reads again."""

from __future__ import annotations

import csv
import io

from perfgate.core.run_history import COLUMNS, LoadedHistory

NAME = "csv"


def render(found: LoadedHistory) -> bytes:
    """Return a line for each number. Numbers have all their digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in found.series:
        writer.writerows(one.rows())
    return text.getvalue().encode("utf-8", "backslashreplace")
