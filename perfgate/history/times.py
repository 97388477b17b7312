"""Times as other tools write them: ISO 8601, or seconds or milliseconds since 1970."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
#: Larger numbers are milliseconds: as seconds they would be after the year 5000.
_MOST_SECONDS = 1e11


def utc_time(text: str | float) -> str:
    """Return a time as `YYYY-MM-DDTHH:MM:SSZ`; one without an offset is UTC.

    Raises ValueError, with the reason, for anything else and for years before 1970.
    """
    if isinstance(text, str) and not _NUMBER.fullmatch(text.strip()):
        try:
            found = datetime.fromisoformat(text.strip().replace("Z", "+00:00").replace("z", "+00:00"))
        except ValueError:
            raise ValueError(f"{text!r} is not a time: write 2026-11-22T14:15:00Z, or seconds since 1970") from None
        found = found.replace(tzinfo=found.tzinfo or timezone.utc).astimezone(timezone.utc)
    else:
        number = float(text)
        try:
            found = datetime.fromtimestamp(number / 1000 if number > _MOST_SECONDS else number, timezone.utc)
        except (ValueError, OverflowError, OSError):
            raise ValueError(f"{text!r} is not a time: the number of seconds is too large") from None
    if found.year < 1970:
        raise ValueError(f"{text!r} is not a time of a run: it is before 1970")
    return f"{found:%Y-%m-%dT%H:%M:%SZ}"
