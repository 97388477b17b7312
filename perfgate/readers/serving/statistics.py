"""Statistics as tools name them: `avg`, `std_dev`, `p999`, `MINIMUM`, ..., as perfgate names them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from perfgate.documents.json import Path
from perfgate.readers.benchmarks.benchmark_json import Target

_NAMES = {
    **dict.fromkeys(("avg", "average", "mean"), "mean"),
    **dict.fromkeys(("std", "std_dev", "stddev"), "stddev"),
    **dict.fromkeys(("min", "minimum"), "min"),
    **dict.fromkeys(("max", "maximum"), "max"),
    **dict.fromkeys(("median", "p50", "p50.00"), "median"),
    **dict.fromkeys(("total_sum", "total"), "total"),
    "count": "count",
    "p001": "p0.1",
    "p01": "p1",
    "p05": "p5",
    "p999": "p99.9",
}
_PERCENTILE = re.compile(r"p(\d{1,2})(\.\d{1,3})?")


def statistic_of(name: str) -> str | None:
    """Return the statistic of a printed name; None if it is none."""
    name = name.strip().lower()
    found = _PERCENTILE.fullmatch(name)
    return _NAMES.get(name) or (f"p{int(found[1])}{(found[2] or '').rstrip('0').rstrip('.')}" if found else None)


def add_statistics(to: Target, printed: Mapping[str, object], place: Path) -> None:
    """Add a JSON object of statistics as one aggregate; other fields of the object are passed over."""
    found: dict[str, tuple[object, Path]] = {}
    for name, value in printed.items():
        if (statistic := statistic_of(name)) and not isinstance(value, dict | list):
            found.setdefault(statistic, (value, (*place, name)))
    to.aggregate(found)
