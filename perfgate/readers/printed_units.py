"""Units as tools write them: beside a number (`ms/iter`, `ops/sec`), and at the end of a name (`memory(GiB)`)."""

from __future__ import annotations

import re

from perfgate.core.units import UNITS

#: A base unit, and how many of the printed units are one base unit.
Known = tuple[str, float]

_PER_PIECE = re.compile(r"/(?:iter|iteration|op|call|step|run|round|loop)s?$")
_WORDS = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("msec", "msecs", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("usec", "usecs", "microsecond", "microseconds"), "us"),
    **dict.fromkeys(("nsec", "nsecs", "nanosecond", "nanoseconds"), "ns"),
    **dict.fromkeys(("minute", "minutes"), "min"),
    **dict.fromkeys(("byte", "bytes"), "B"),
    **dict.fromkeys(("percent", "percentage"), "%"),
    **dict.fromkeys(("watt", "watts"), "W"),
    **dict.fromkeys(("joule", "joules"), "J"),
    **dict.fromkeys(("hertz",), "Hz"),
}
_RATE = re.compile(r"[a-z_ ]{0,40}(?:/| per |_per_)s(?:ec(?:ond)?s?)?|fps", re.IGNORECASE)
_FLOPS = re.compile(r"([KMGTP]?)FLOPS?(?:/s(?:ec)?)?", re.IGNORECASE)
#: A unit at the end of a name: in brackets, which torch's SummaryWriter writes as `_`, or behind ` in `.
_BEHIND = re.compile(r".*(?:[(\[]([^()\[\]]{1,20})[)\]]|_([A-Za-z]{1,6})_| in (\w{1,12}))")
_ENDINGS = (
    (re.compile(r".*tflops?_per_sec(?:ond)?|.*\btflops(?:_per_gpu)?", re.IGNORECASE), ("FLOP/s", 1e-12)),
    (re.compile(r".*gflops?_per_sec(?:ond)?", re.IGNORECASE), ("FLOP/s", 1e-9)),
    (re.compile(r".*_per_sec(?:ond)?(?:_per_(?:gpu|device))?|.*/s(?:ec)?", re.IGNORECASE), ("1/s", 1.0)),
    (re.compile(r".*_(?:ms|msec|milliseconds)", re.IGNORECASE), ("s", 1e3)),
    (re.compile(r".*_(?:us|usec|microseconds)", re.IGNORECASE), ("s", 1e6)),
    (re.compile(r".*_(?:ns|nsec|nanoseconds)", re.IGNORECASE), ("s", 1e9)),
    (re.compile(r"(?:.*[_/])?seconds|.*_secs?|.*_runtime", re.IGNORECASE), ("s", 1.0)),
    (re.compile(r".*_(?:gib)", re.IGNORECASE), ("B", 2.0**-30)),
    (re.compile(r".*_(?:mib)", re.IGNORECASE), ("B", 2.0**-20)),
    (re.compile(r".*_bytes", re.IGNORECASE), ("B", 1.0)),
    (re.compile(r".*_(?:percent|percentage|pct)", re.IGNORECASE), ("1", 100.0)),
)


def unit_of_text(text: str) -> Known | None:
    """Return the unit that a text names; None if it names none that rules have."""
    text = _PER_PIECE.sub("", text.strip())
    unit = UNITS.get(text) or UNITS.get(_WORDS.get(text.lower(), ""))
    if unit is not None:
        return unit.base, 1 / unit.factor if unit.factor > 1 else float(round(1 / unit.factor))
    if found := _FLOPS.fullmatch(text):
        return "FLOP/s", 1 / UNITS[f"{found[1].upper()}FLOP/s"].factor
    return ("1/s", 1.0) if _RATE.fullmatch(text) else None


def unit_of_name(name: str) -> Known:
    """Return the unit that the end of a name tells; `1` if it tells none."""
    found = _BEHIND.fullmatch(name)
    if found and (unit := unit_of_text(found[1] or found[2] or found[3])):
        return unit
    return next((unit for pattern, unit in _ENDINGS if pattern.fullmatch(name)), ("1", 1.0))
