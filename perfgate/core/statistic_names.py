"""The names of the statistics: what a rule may ask for, and what `perfgate.stats` computes."""

from __future__ import annotations

import re

#: Every statistic except the percentiles `p0` to `p100`, with its meaning.
STATISTICS = {
    "median": "the median",
    "mean": "the mean",
    "min": "the smallest value",
    "max": "the largest value",
    "total": "the sum of all values",
    "count": "the number of values",
    "stddev": "the standard deviation",
    "cv": "the standard deviation as a share of the mean",
    "trimmed_mean": "the mean without the lowest and highest fifth",
}
_PERCENTILE = re.compile(r"p(\d{1,3}(?:\.\d+)?)", re.ASCII)


def percent_of(name: str) -> float | None:
    """Return the percentage in the name of a percentile (99.9 for `p99.9`), or None for every other word."""
    found = _PERCENTILE.fullmatch(name)
    percent = float(found[1]) if found else 101.0
    return percent if percent <= 100 else None


def is_statistic(word: str) -> bool:
    """Return whether a word names a statistic: `median`, `p95`, `p99.9`, ..."""
    return word in STATISTICS or percent_of(word) is not None
