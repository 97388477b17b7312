"""The units that a mapping gives, and those at the end of a name or behind a number."""

from __future__ import annotations

import re
from functools import cache

from perfgate.core.units import NUMBER
from perfgate.readers.values import Known, unit_of_name, unit_of_text

#: Words of `unit:` that are not units: the unit is in the name, it is in each value, there is none.
FROM_NAME, IN_VALUE, NO_UNIT = "from-name", "in-value", "none"
_IN_BRACKETS = re.compile(r".*[(\[]([^()\[\]]{1,20})[)\]]\s*")
#: The name of a statistic behind the unit: latency_ms_p99.
_STATISTIC = re.compile(
    r"[_. -](?:mean|avg|average|median|min|max|std|stddev|sum|total|p\d{1,2}(?:[._]\d+)?)$", re.IGNORECASE
)
_QUANTITY = re.compile(rf"\s*({NUMBER.pattern})\s*(?![\d.])(\S.*?)\s*")
#: Ends of names and their units; the first that fits counts. `gbps` is missing because it may be bits, and `min`
#: because it may be a minimum.
_ENDINGS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"(?:.*[_. /-])?(?:{pattern})", re.IGNORECASE), unit)
    for pattern, unit in (
        (r"ms|msecs?|millis|milliseconds?", "ms"),
        (r"us|usecs?|µs|micros|microseconds?", "us"),
        (r"ns|nsecs?|nanos|nanoseconds?", "ns"),
        (r"minutes?", "min"),
        (r"hours?", "h"),
        (r"(?:tok|tokens?|toks)(?:_per_|_?/|_p|_)s(?:ec(?:ond)?)?|tps", "tokens/s"),
        (r"(?:its?|iters|steps|samples|examples|images|imgs?|frames|reqs?|requests)_s(?:ec)?", "/s"),
        (r"tflops?(?:_per_s(?:ec(?:ond)?)?|/s)?", "TFLOP/s"),
        (r"gflops?(?:_per_s(?:ec(?:ond)?)?|/s)?", "GFLOP/s"),
        (r"gb(?:_per_|_?/)s(?:ec)?", "GB/s"),
        (r"mb(?:_per_|_?/)s(?:ec)?", "MB/s"),
        (r"gib(?:_per_|_?/)s(?:ec)?", "GiB/s"),
        (r"(?:\w{1,30}_per_|\w{0,30}/)s(?:ec(?:ond)?)?|fps|qps|rps|ips|hz", "/s"),
        (r"bytes?", "B"),
        (r"kb", "KB"),
        (r"mb", "MB"),
        (r"gb", "GB"),
        (r"mib", "MiB"),
        (r"gib", "GiB"),
        (r"percent|percentage|pct", "%"),
        (r"watts?|power_w", "W"),
        (r"joules?", "J"),
        (r"s|secs?|seconds?|runtime", "s"),
    )
)


@cache
def unit_of(text: str) -> Known | None:
    """Return the base unit of a written unit, and how many of it are one base unit: s and 1000 for `ms`; or None."""
    return ("1", 1.0) if text in (NO_UNIT, "1") else unit_of_text(text)


def written_unit(name: str) -> str | None:
    """Return the unit at the end of a name, as a mapping writes it; None without a unit."""
    if (found := _IN_BRACKETS.fullmatch(name)) and unit_of_text(found[1].strip()):
        return found[1].strip()
    name = re.sub(r"(?<=\w) (?=\w)", "_", _STATISTIC.sub("", name.strip()))  # `tokens per s` is like `tokens_per_s`
    return next((unit for pattern, unit in _ENDINGS if pattern.fullmatch(name)), None)


@cache
def unit_in_name(name: str) -> Known:
    """Return the unit in a name that mappings know, or else that readers know, or else that of a plain number."""
    written = written_unit(name)
    found = unit_of(written) if written else None
    return found or unit_of_name(name)


def split_value(text: str) -> tuple[str, Known] | None:
    """Return the number and the unit of a value such as `12.3 ms`; None if it is not such a value."""
    found = _QUANTITY.fullmatch(text)
    unit = unit_of_text(found[2]) if found else None
    return (found[1], unit) if found and unit else None
