"""The folder of a search: its question, and a file for each measurement, so that it can go on when interrupted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import asdict

from perfgate.bisect.measurements import Measurement
from perfgate.bisect.search import Measurements
from perfgate.core import Run
from perfgate.workspace.options import Refused, shown_path
from perfgate.workspace.output_files import replace_file

_QUESTION, _MEASUREMENTS = "question.json", "measurements"
_SECONDS_AN_HOUR = 3600.0
#: The number at the beginning of the name of a run's file or folder.
_NUMBER = re.compile(r"\d{3,}", re.ASCII)
#: Larger counts and variances, later times in seconds since 1970, and larger values are impossible; so are larger
#: logarithms of a number that a file can have.
_MOST, _LATEST, _LARGEST, _LARGEST_LOG = 1_000_000, 1e11, 1e308, 750.0


class StoredMeasurement(Struct, frozen=True):
    """One measurement as it is kept, or the reason why an item cannot be measured (`skipped`).

    `at` is the time of its end in seconds since 1970. `value` is in base units, or a ratio for pairs. `session` and
    `within`: see `Measurement`.
    """

    number: int
    position: int
    item: str
    session: int
    at: float
    paired: bool
    #: The file or folder that the program wrote, relative to the folder of the search.
    results: str = ""
    value: float | None = None
    log_value: float = 0.0
    within: float = 0.0
    skipped: str | None = None
    #: For a pair: the position beside this one. The search uses only pairs with position 0; the others show the cause.
    beside: int = 0
    #: The number of starts of the command since the measurement before: 2 for a pair, 0 for a failed build.
    started: int = 1


class BisectFolder(Struct):
    """The folder, with everything that was measured before this start."""

    path: Path
    stored: list[StoredMeasurement]
    #: The runs that were read with their traces, by their file or folder.
    runs: dict[Path, list[Run]] = field(default_factory=dict)

    @property
    def session(self) -> int:
        """The number of this start: one more than that of the last measurement."""
        return 1 + max((one.session for one in self.stored), default=-1)

    def next_number(self) -> int:
        """Return the number of the next run. A run that was interrupted keeps its number and its files."""
        used = [int(number[0]) for path in (self.path / "runs").glob("*") if (number := _NUMBER.match(path.name))]
        return 1 + max([*used, *(one.number for one in self.stored)], default=0)

    def add(self, found: StoredMeasurement) -> None:
        """Write a measurement. Raises OSError."""
        folder = self.path / _MEASUREMENTS
        folder.mkdir(exist_ok=True)
        replace_file(str(folder / f"{found.number:03d}.json"), (json.dumps(asdict(found), indent=1) + "\n").encode())
        self.stored.append(found)

    def measurement(self, found: StoredMeasurement) -> Measurement:
        """Return a stored measurement as the search uses it."""
        hours = (found.at - self.stored[0].at) / _SECONDS_AN_HOUR if self.stored else 0.0
        return Measurement(found.position, found.log_value, hours, found.session, found.within)

    @property
    def searched(self) -> list[StoredMeasurement]:
        """The measurements of the search, without those that only look for the cause."""
        return [one for one in self.stored if not one.beside]

    @property
    def started(self) -> int:
        """The number of starts of the command, with failed runs and the runs for the cause."""
        return sum(one.started for one in self.stored)

    def evidence(self) -> Measurements:
        """Return everything that the search measured."""
        measured = [self.measurement(one) for one in self.searched if one.skipped is None]
        return Measurements(measured, {one.position: one.skipped for one in self.stored if one.skipped is not None})


def open_folder(path: Path, keep: str, question: Mapping[str, object], positions: int) -> BisectFolder:
    """Open the folder of a search, or make it. Raises Refused if it has another question or a damaged file.

    `keep`: the folder as the user named it, for messages. `question`: everything that the measurements depend on, as
    plain JSON. `positions`: the number of items of the search.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        file = path / _QUESTION
        if not file.exists():
            if others := sorted(one.name for one in path.iterdir() if one.name != ".gitignore"):
                why = f"is not empty: it has {others[0]}, which `perfgate bisect` did not write"
                raise Refused(f"--keep {keep}: {why}; name another folder")
            replace_file(str(path / ".gitignore"), b"*\n")  # it is in the user's repository
            replace_file(str(file), (json.dumps(question, indent=1) + "\n").encode())
        files = sorted((path / _MEASUREMENTS).glob("*.json"))
        known = _read(file)
        if known != dict(question) and not files:  # nothing was measured: nothing can be mixed up
            replace_file(str(file), (json.dumps(question, indent=1) + "\n").encode())
        elif known != dict(question):
            differing = [name for name in question if known.get(name) != question[name]]
            why = f"has a search that asks something else ({', '.join(differing) or 'other options'})"
            other = next(name for at in count(2) if not Path(name := f"{keep}-{at}").exists())
            raise Refused(f"--keep {keep}: {why}: use another folder (--keep {other}), or remove {keep}")
        return BisectFolder(path, [_stored(one, positions) for one in files])
    except OSError as error:
        raise Refused(f"--keep {keep}: cannot be used: {error.strerror or error}") from None


def _read(file: Path) -> dict[str, object]:
    """Return the fields of a JSON file. Raises Refused if it is damaged."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refused(f"{shown_path(str(file))}: is damaged ({error}): remove it, and measure again") from None
    if not isinstance(found, dict):
        raise Refused(f"{shown_path(str(file))}: is damaged: remove it, and measure again")
    return found


def _stored(file: Path, positions: int) -> StoredMeasurement:
    """Return the measurement in a file. Raises Refused if it is damaged, or has impossible values."""
    found = _read(file)
    with suppress(TypeError, OverflowError):
        one = StoredMeasurement(**found)  # type: ignore[arg-type]
        counts = (one.number, one.position, one.session, one.beside, one.started)
        sizes = (one.within / _MOST, one.at / _LATEST, 0.0 if one.value is None else one.value / _LARGEST)
        are_counts = all(type(count) is int and 0 <= count < _MOST for count in counts)
        are_sizes = abs(one.log_value) < _LARGEST_LOG and all(0 <= size < 1 for size in sizes)
        # no name of an item or a file has the character 0
        is_in_list = are_counts and max(one.position, one.beside) < positions
        if is_in_list and are_sizes and "\0" not in one.item + one.results + (one.skipped or ""):
            return one
    raise Refused(f"{shown_path(str(file))}: is damaged: remove it, and measure again")
