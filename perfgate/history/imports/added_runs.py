"""Imported runs that are added to a history, some months at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct, field

from perfgate.baselines.places import environment_name
from perfgate.baselines.stores import WritableStore
from perfgate.core.remembered_runs import HistoryRecord
from perfgate.core.wording import plural
from perfgate.history.records import refuse_line_breaks
from perfgate.history.store import known_ids
from perfgate.history.writing import write_months

#: Runs with this many numbers are written together, with the rest of their month.
_NUMBERS_OF_PART = 20_000


def added(store: WritableStore, records: Iterable[HistoryRecord]) -> list[str]:
    """Add runs, in the order of time, that a store does not have; returns the lines to print. Raises Refused."""
    found = _Added(store)
    for part in _parts(records):
        found.add(part)
    return found.said()


def _parts(records: Iterable[HistoryRecord]) -> Iterator[list[HistoryRecord]]:
    """Yield records in parts of whole months, so that not all of them are in memory."""
    part: list[HistoryRecord] = []
    numbers = 0
    for record in records:
        if numbers > _NUMBERS_OF_PART and record.run.time[:7] != part[-1].run.time[:7]:
            yield part
            part, numbers = [], 0
        part.append(record)
        numbers += len(record.values)
    if part:
        yield part


class _Place(Struct):
    """The imported runs of one environment."""

    runs: int = 0
    first: str = ""
    last: str = ""
    metrics: set[str] = field(default_factory=set)

    def add(self, record: HistoryRecord) -> None:
        """Count a run, which is not older than those before."""
        self.runs += 1
        self.first, self.last = self.first or record.run.time, record.run.time
        self.metrics.update(value.name.key.metric for value in record.values)


class _Added(Struct):
    """The runs that were added to a store; runs that it has already are only counted."""

    store: WritableStore
    already: int = 0
    known: dict[str, set[str]] = field(default_factory=dict)
    places: dict[str, _Place] = field(default_factory=dict)

    def add(self, records: Sequence[HistoryRecord]) -> None:
        """Write records, in the order of time. Raises Refused."""
        new = []
        for record in records:
            environment = environment_name(record.identity)
            place = f"{record.suite}/{environment}"
            if place not in self.known:
                self.known[place] = known_ids(self.store, record.suite, environment)
            if record.run.id in self.known[place]:
                self.already += 1
                continue
            refuse_line_breaks(record, f"run of {record.run.time}")
            self.known[place].add(record.run.id)
            self.places.setdefault(place, _Place()).add(record)
            new.append(record)
        write_months(self.store, new)

    def said(self) -> list[str]:
        """Return a line for each environment, and one about the runs that were there."""
        lines = [
            f"imported {plural(one.runs, 'run')} with {plural(len(one.metrics), 'metric')}, {one.first[:10]} to "
            f"{one.last[:10]}: {self.store.location(f'_history/{place}')}"
            for place, one in sorted(self.places.items())
        ]
        there = [f"{plural(self.already, 'run')} in the history already"] if self.already else []
        return [*lines, *there] or ["nothing to import"]
