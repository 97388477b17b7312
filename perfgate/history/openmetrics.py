"""OpenMetrics text 1.0.0, for Prometheus and Grafana.

    perfgate_seconds{suite="gpt",environment="h200",metric="forward",statistic="median",rank="worst"} 0.1 1767225600

Source: https://prometheus.io/docs/specs/om/open_metrics_spec. Every number has the time of its run, so the text is for
`promtool tsdb create-blocks-from openmetrics`. A text without times, for the textfile collector or a push gateway, has
the newest number of each series alone. The newest lasting change of each series is `perfgate_change_ratio`, with the
time when it began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from perfgate.core.run_history import HistorySeries, LoadedHistory

NAME = "openmetrics"
#: The name of a family for each base unit, and the unit that its name must end with.
_FAMILIES = {
    "s": ("perfgate_seconds", "seconds"),
    "B": ("perfgate_bytes", "bytes"),
    "1/s": ("perfgate_per_second", "per_second"),
    "B/s": ("perfgate_bytes_per_second", "bytes_per_second"),
    "FLOP": ("perfgate_flop", "flop"),
    "FLOP/s": ("perfgate_flop_per_second", "flop_per_second"),
    "J": ("perfgate_joules", "joules"),
    "W": ("perfgate_watts", "watts"),
    "1/J": ("perfgate_per_joule", "per_joule"),
    "°C": ("perfgate_celsius", "celsius"),
    "$": ("perfgate_dollars", "dollars"),
    "count": ("perfgate_count", ""),
    "1": ("perfgate_value", ""),
}


def render(found: LoadedHistory, *, newest_alone: bool = False) -> bytes:
    """Return the text: every number with its time, or the newest number of each series without a time."""
    lines: list[str] = []
    by_family: dict[tuple[str, str], list[HistorySeries]] = {}
    for one in found.series:
        by_family.setdefault(_FAMILIES.get(one.unit, _FAMILIES["1"]), []).append(one)
    for (family, unit), own in sorted(by_family.items()):
        lines += _head(family, "A number of a run of main.", unit)
        lines += (line for one in own for line in _samples(family, one, newest_alone))
    changed = [one for one in found.series if one.changes]
    if changed:
        lines += _head("perfgate_change_ratio", "The newest lasting change: 0.05 is +5 %.", "ratio")
        lines += (_sample("perfgate_change_ratio", one, one.changes[-1].point.change) for one in changed)
        lines += _head("perfgate_change_seconds", "When the newest lasting change began, since 1970.", "seconds")
        times = ((one, _seconds(one.changes[-1].likely.time)) for one in changed)
        lines += (_sample("perfgate_change_seconds", one, time) for one, time in times)
    return "".join(f"{line}\n" for line in [*lines, "# EOF"]).encode("utf-8", "backslashreplace")


def _head(family: str, what: str, unit: str) -> Iterable[str]:
    yield f"# TYPE {family} gauge"
    if unit:
        yield f"# UNIT {family} {unit}"
    yield f"# HELP {family} {what}"


def _samples(family: str, one: HistorySeries, newest_alone: bool) -> Iterator[str]:
    """Yield the numbers of a series. Their times must rise, so of two in one second the last one counts."""
    by_time = {run.time: float(value) for run, value in zip(one.runs, one.values, strict=True)}
    if newest_alone:
        yield from [_sample(family, one, float(one.values[-1]))] if one.runs else []
        return
    for time in sorted(by_time):
        yield f"{_sample(family, one, by_time[time])} {_seconds(time)}"


def _sample(family: str, one: HistorySeries, value: float) -> str:
    about = {
        "suite": one.suite,
        "environment": one.environment,
        "metric": one.name.key.metric,
        "statistic": one.name.statistic,
        "rank": one.name.rank,
        **{f"label_{_plain(name)}": value for name, value in one.name.key.labels},
    }
    return f"{family}{{{','.join(f'{name}={_quoted(text)}' for name, text in about.items())}}} {value!r}"


def _plain(name: str) -> str:
    """Return a label's name with the letters that OpenMetrics allows."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter == "_") else "_" for letter in name)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _seconds(time: str) -> int:
    return int(datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp())
