"""Shared by all importers: runs of another tool, their numbers in base units, and the faults of a file."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec import Struct, field

from perfgate.core import Better, Fact, Key, Location, Problem, Run
from perfgate.core.remembered_runs import HistoryValue, SeriesName
from perfgate.core.resource_limits import DEFAULT, Limits
from perfgate.core.wording import plural
from perfgate.documents.json import JsonDocument, Path, load_json
from perfgate.history.records import values_of
from perfgate.judge.evidence import direction
from perfgate.readers import Source, read
from perfgate.readers.values import unit_of_text
from perfgate.rules.ruleset import Ruleset

#: The most mistakes of a file that are shown; a file with more is probably of another format.
MOST_FAULTS = 20


class AboutRun(NamedTuple):
    """The time of a run of another tool, its commit, its branch and its host."""

    time: str
    commit: str | None
    ref: str | None = None
    host: str | None = None


class ImportedRun(Struct, frozen=True):
    """One run of another tool."""

    time: str
    commit: str | None
    values: tuple[HistoryValue, ...]
    ref: str | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)
    #: The facts that identify its machine in the files of the tool; they are part of the environment's identity.
    place: Mapping[str, Fact] = field(default_factory=dict)
    #: The id of a run that perfgate exported.
    id: str | None = None


class Imported(Struct, frozen=True):
    """The runs of a file, and its problems. An error means that some runs or numbers are missing."""

    runs: Iterable[ImportedRun]
    problems: tuple[Problem, ...] = ()
    #: The number of runs of each branch, if it is known before `runs` are made; None to count them.
    refs: Counter[str | None] | None = None


class ImportFile(Struct, frozen=True):
    """A file to import: its name, as the user gave it, its lines, and the rules of the suite that it is for."""

    name: str
    #: Yields the lines. Raises OSError and UnicodeDecodeError.
    lines: Callable[[], Iterator[str]]
    ruleset: Ruleset
    #: The time and the commit, if the user or git gives them.
    time: str | None = None
    commit: str | None = None
    limits: Limits = DEFAULT

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.lines())


class Faults:
    """The mistakes of one file while it is read; beyond MOST_FAULTS they are only counted."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._problems: list[Problem] = []
        self._more = 0
        self._units: set[str] = set()

    def say(self, message: str, at: Location) -> None:
        """Record a mistake: its run or number is left out."""
        if len(self._problems) < MOST_FAULTS:
            self._problems.append(Problem("error", message, at))
        else:
            self._more += 1

    def unknown_unit(self, unit: str, at: Location) -> None:
        """Record a unit that is not known, the first time that it occurs; its numbers stay as they are."""
        if unit not in self._units and len(self._units) < MOST_FAULTS:
            self._units.add(unit)
            message = f"{unit!r} is not a unit that perfgate knows: its numbers are kept without a unit"
            self._problems.append(Problem("warning", message, at))

    def in_base_unit(self, number: float | None, unit: str, at: Callable[[], Location]) -> tuple[float, str] | None:
        """Return a number in its base unit, and that unit; None without a finite number there.

        A number with an unknown unit stays, with a warning.
        """
        if number is None:
            return None
        known = in_base_unit(number, unit)
        if known is None:
            self.unknown_unit(unit, at())
            return number, "1"
        return known if math.isfinite(known[0]) else None

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Everything that was recorded."""
        more = [Problem("error", f"{self._more} more mistakes like these", Location(self.name))] if self._more else []
        return (*self._problems, *more)


def in_base_unit(number: float, unit: str) -> tuple[float, str] | None:
    """Return a number in its base unit, and that unit; None for a unit that is not known."""
    text = unit.strip()
    if "(" in text and text.endswith(")"):  # Bencher: nanoseconds (ns)
        text = text[text.rindex("(") + 1 : -1].strip()
    if text in ("", "1"):
        return number, "1"
    if (known := unit_of_text(text)) is None:
        return None
    base, per_base = known  # of ms: s, and 1000
    return number / per_base, base


def numbered(
    metric: str, number: float, unit: str, better: Better | None, labels: Mapping[str, str] | None = None
) -> HistoryValue:
    """Return one number of a run; `unit` is its base unit. `better`: None to derive it from the name and the unit."""
    key = Key(metric, tuple(sorted((labels or {}).items())))
    return HistoryValue(SeriesName(key, "mean"), unit, direction(metric, unit, better) or "neither", "value", number)


def finite(value: object) -> float | None:
    """Return a finite number as a float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def utc_of(value: object) -> str:
    """Return a time of a JSON document as `utc_time` does. Raises ValueError, with the reason."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValueError("the time is missing")
    return utc_time(value)


def time_at(document: JsonDocument, path: Path, value: object, faults: Faults) -> str | None:
    """Return a time of a JSON document; None, and a recorded mistake, if it is not a time."""
    try:
        return utc_of(value)
    except ValueError as error:
        faults.say(str(error), document.locate(path))
        return None


def objects(
    document: JsonDocument, value: object, path: Path, faults: Faults
) -> Iterable[tuple[Path, Mapping[str, Any]]]:
    """Yield the objects of a list with their paths; anything else is a mistake."""
    if not isinstance(value, list):
        faults.say("a list of objects is missing", document.locate(path))
        return
    for index, item in enumerate(value):
        if isinstance(item, dict):
            yield (*path, index), item
        else:
            faults.say("is not an object", document.locate((*path, index)))


def of_results(file: ImportFile, format: str) -> Imported:
    """Return the runs of a result file, read by a reader of perfgate, with the time and the place that it contains.

    A number that is missing because a benchmark failed is only counted: a history has gaps.
    """
    runs = read(Source(file.name, [file.text.encode()], file.limits), format)
    time, measured = None, runs[0].measured
    if measured is not None and file.time is None:  # else the time that the user gave is used
        try:
            time = utc_of(measured.time)
        except ValueError as error:
            at = load_json(file.text, file.name, file.limits).locate((measured.field,))
            return Imported((), (Problem("error", str(error), at),))
    # A problem with a key is about one result, another about the whole file.
    found = [problem for run in runs for problem in run.problems]
    problems = [problem for problem in found if problem.key is None]
    gaps = sum(problem.key is not None and problem.severity == "error" for problem in found)
    if gaps:
        if not any(run.series for run in runs):
            problems = []  # without any result, one warning says it
        what = "1 result is missing, because its benchmark" if gaps == 1 else f"{gaps} results are missing: benchmarks"
        problems.append(Problem("warning", f"{what} failed", Location(file.name)))
    return of_runs(file, runs, problems, time)


def of_runs(file: ImportFile, runs: Sequence[Run], problems: Sequence[Problem], time: str | None = None) -> Imported:
    """Return runs that were read from a file, and its problems, as runs of this time."""
    when = file.time or time
    if when is None:
        why = "has no time of its own: give it with --time"
        return Imported((), (*problems, Problem("error", why, Location(file.name))))
    found, absent = [], 0
    for run in runs:
        values, left_out = values_of(run, file.ruleset.rules, file.ruleset.metrics, file.ruleset.better)
        absent += left_out
        if values:
            place = run.measured.place if run.measured else {}
            found.append(ImportedRun(when, file.commit or run.commit, values, facts=run.environment, place=place))
    if not found and not any(problem.severity == "error" for problem in problems):
        problems = [*problems, Problem("warning", "has no numbers; left out", Location(file.name))]
    if absent:
        message = f"left out, because there is no room: {plural(absent, 'number')}; name a metric in a rule to keep it"
        problems = [*problems, Problem("warning", message, Location(file.name))]
    return Imported(tuple(found), tuple(problems))


def values_by_run(rows: Sequence[tuple[AboutRun, HistoryValue]]) -> tuple[ImportedRun, ...]:
    """Return the runs that these numbers are of, in the order of time. A second number of a series is another run."""
    runs: dict[AboutRun, list[dict[SeriesName, HistoryValue]]] = {}
    for about, value in rows:
        known = runs.setdefault(about, [])
        own = next((one for one in known if value.name not in one), None)
        if own is None:
            known.append(own := {})
        own[value.name] = value
    found = [
        ImportedRun(
            about.time, about.commit, tuple(own.values()), about.ref, {"host": about.host} if about.host else {}
        )
        for about, known in runs.items()
        for own in known
    ]
    return tuple(sorted(found, key=lambda run: run.time))


_NUMBER = re.compile(r"(?!\d{8}$)-?\d+(?:\.\d+)?")
#: A date of ISO 8601 without hyphens; as seconds it would be before 1974.
_DATE = re.compile(r"^(\d{4})(\d\d)(\d\d)$")
#: A larger number is a time in milliseconds: as seconds it would be after the year 5000.
_MOST_SECONDS = 1e11


@lru_cache(maxsize=1024)
def utc_time(text: str | float) -> str:
    """Return a time as `YYYY-MM-DDTHH:MM:SSZ`; one without an offset is UTC.

    Raises ValueError, with the reason, for anything else and for years before 1970.
    """
    if isinstance(text, str) and not _NUMBER.fullmatch(text.strip()):
        try:
            plain = _DATE.sub(r"\1-\2-\3", text.strip())
            found = datetime.fromisoformat(plain.replace("Z", "+00:00").replace("z", "+00:00"))
            found = found.replace(tzinfo=found.tzinfo or timezone.utc).astimezone(timezone.utc)
        except (ValueError, OverflowError):
            raise ValueError(f"{text!r} is not a time: write 2026-11-22T14:15:00Z, or seconds since 1970") from None
    else:
        number = float(text)
        try:
            found = datetime.fromtimestamp(number / 1000 if number > _MOST_SECONDS else number, timezone.utc)
        except (ValueError, OverflowError, OSError):
            raise ValueError(f"{text!r} is not a time: the number of seconds is too large") from None
    if found.year < 1970:
        raise ValueError(f"{text!r} is not a time of a run: it is before 1970")
    return f"{found:%Y-%m-%dT%H:%M:%SZ}"
