"""The events of a Chrome trace of torch.profiler, read plainly: one JSON document, repaired where writers break it.

Every time is a whole number of nanoseconds, parsed as Decimal, so that nothing is rounded. Nothing is shared with
`perfgate.readers`, whose measure this is.
"""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

#: What is timed on the host, and may be a step, an annotation or a collective.
OPS = {"cpu_op", "operator"}
CPU = {*OPS, "python"}
HOST = {*CPU, "user_annotation"}
#: What runs on a device, and its role.
DEVICE = {"kernel": "kernel", "gpu_memcpy": "memcpy", "memcpy": "memcpy", "gpu_memset": "memset", "memset": "memset"}

_STEP = re.compile(r"ProfilerStep#(\d+)")


@dataclass(frozen=True)
class Event:
    """One event of phase X or i that can be used; times in ns, `cat` in lower case."""

    ph: str
    cat: str
    name: str
    start: int
    end: int
    args: dict[str, Any]
    #: The number of the step that this event is the host span of.
    step: int | None

    @property
    def is_launch(self) -> bool:
        """Return whether this is a call of the runtime or the driver of a device."""
        return self.ph == "X" and (self.cat == "runtime" or self.cat.endswith(("_runtime", "_driver")))

    @property
    def is_device(self) -> bool:
        """Return whether a device did this: a kernel or a copy."""
        return self.ph == "X" and self.cat in DEVICE

    @property
    def correlation(self) -> int | None:
        """The number that joins a launch to its device events; absent and -1 join nothing."""
        found = self.args.get("correlation")
        return found if isinstance(found, int) and found != -1 else None

    @property
    def external_id(self) -> int | None:
        """The number that joins a kernel to the operator that asked for it; absent and -1 join nothing."""
        found = self.args.get("External id", self.args.get("external id"))
        return found if isinstance(found, int) and found != -1 else None

    @property
    def device(self) -> str:
        """The device that ran this."""
        return str(self.args.get("device", ""))

    def number(self, name: str) -> Decimal | None:
        """A finite number among the arguments."""
        found = self.args.get(name)
        usable = isinstance(found, (int, Decimal)) and Decimal(found).is_finite()
        return Decimal(found) if usable else None


def load(data: bytes) -> Any:
    """The JSON document of a trace, repaired where real writers break it (torch issues 33961, 98432, 146900)."""
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    text = data.decode("utf-8-sig", "replace")
    for _ in range(10_000):
        try:
            return json.loads(text, strict=False, parse_float=Decimal, parse_constant=lambda _: None)
        except json.JSONDecodeError as error:
            text = _mend(text, error)
    raise ValueError("this is no trace")


def _mend(text: str, error: json.JSONDecodeError) -> str:
    """The text with one more fault removed: the one that the parser stopped at."""
    at, rest = error.pos, text[error.pos :]
    bare = re.match(r"-?(N/A|inf(inity)?|nan)\b", rest, re.IGNORECASE)
    if not rest.strip() or error.msg.startswith("Unterminated string"):
        return _cut_back(text)
    if "escape" in error.msg:
        slash = text.rfind("\\", 0, at + 1)
        return text[:slash] + "\\" + text[slash:]
    if error.msg.startswith(("Expecting value", "Expecting property", "Illegal trailing")):
        if bare:
            return text[:at] + "null" + rest[bare.end() :]
        if re.match(r"\s*,?\s*[\]}]", rest):  # a comma before the end of a list or an object
            comma = text.rindex(",", 0, at + 1)
            return text[:comma] + text[comma + 1 :]
        if re.match(r'\w+":', rest):
            return text[:at] + '"' + rest
    if "delimiter" in error.msg:  # a quote within a name ended it: the last one before here
        quote = text.rindex('"', 0, at)
        return text[:quote] + "\\" + text[quote:]
    raise error


def _cut_back(text: str) -> str:
    """A document that was cut off, closed after its last whole event."""
    closing = "]" if text.lstrip().startswith("[") else "]}"
    at = len(text)
    while (at := text.rfind("}", 0, at)) > 0:
        closed = text[: at + 1] + closing
        try:
            json.loads(closed, strict=False)
        except json.JSONDecodeError:
            continue
        return closed
    raise ValueError("no event is whole")


def events_of(document: Any) -> list[Event]:
    """The events that can be measured: a time that is no number, or a negative duration, measures nothing."""
    found = document.get("traceEvents", []) if isinstance(document, dict) else document
    events = []
    for raw in found:
        if not isinstance(raw, dict) or raw.get("ph") not in ("X", "i"):
            continue
        start, duration = _ns(raw.get("ts")), _ns(raw.get("dur") if raw["ph"] == "X" else 0)
        if start is None or duration is None or duration < 0:
            continue
        ph, cat, name, args = raw["ph"], str(raw.get("cat", "")).lower(), str(raw.get("name", "")), raw.get("args")
        match = _STEP.fullmatch(name) if ph == "X" and cat in {*OPS, "user_annotation"} else None
        usable = args if isinstance(args, dict) else {}
        events.append(Event(ph, cat, name, start, start + duration, usable, int(match[1]) if match else None))
    return sorted(events, key=lambda event: event.start)


def _ns(microseconds: Any) -> int | None:
    if isinstance(microseconds, bool) or not isinstance(microseconds, (int, Decimal)):
        return None
    return round(microseconds * 1000)
