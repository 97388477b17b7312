"""Records of timers as DeepSpeed and Megatron-LM print them: `time (ms) | NAME: 1.23 | NAME: 4.56`.

Records with the same names are the rows of one table. Every record can be read here, field by field: with glued text,
parentheses, nan or garbled numbers. In long logs, `usual_lines` reads the many lines without any of these.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator

import numpy as np
from msgspec import Struct, field

from perfgate.core import Key
from perfgate.core.wording import canonical_timer
from perfgate.readers.builder import RunBuilder
from perfgate.readers.digit_runs import Floats, Ints
from perfgate.readers.values import Column, fault_of

WORD = "time (ms)"
#: The begin of a record; the comms logger's `time (ms): 9.46` is not a record.
RECORD = re.compile(r"time \(ms\)(?=[ \t]*(?:\||$))")

#: A record with one of these is the last of its step.
ENDS_STEP = frozenset({"forward", "backward", "step"})

_MAX_CACHED = 1000

#: The rank in the text before a record, and how much of that text is read.
RANK_LENGTH = 24
RANK = re.compile(r"(?:\[Rank (-?\d+)\]|(?<![A-Za-z_])rank=(-?\d+))\s*$")

#: A record with nothing odd in it, and its fields.
_PLAIN = re.compile(r"(?: \| [^\s|:()\[\]][^|:()\[\]]*: [0-9]{1,12}\.[0-9]+)+")
_PLAIN_FIELD = re.compile(r" \| ([^|:]+): ([0-9.]+)")
_FIELD = re.compile(r"\s*\|([^|:()\[\]]*):\s*([^\s|\[(]*)")
_INNER = re.compile(r"\s*\(([^()]*)\)")
_NEXT = re.compile(r"\s*(?:\||$)")
_MORE = re.compile(r"\|[^|:()\[\]]+:\s*[-+]?[0-9]")
#: Behind a value: `rank=` and a number, which another record begins with if two writers collided.
_GLUED_RANK = re.compile(r"rank=-?\d+\s*$")


class Table:
    """All records of one rank with the same timers."""

    def __init__(self, names: tuple[str, ...], columns: list[Column]) -> None:
        self.names = frozenset(names)
        self.columns = columns
        self.ends_step = any(column.key.metric in ENDS_STEP for column in columns)
        #: Row by row, in ms; the rows may be in any order. `Rank.rows` puts them in order.
        self.values = array("d")
        #: For each row, its step and its number among all the records of the run.
        self.steps = array("q")
        self.records = array("q")

    def extend(self, values: Floats, steps: Ints, records: Ints) -> None:
        """Add rows: their values, (rows, columns), their steps and the numbers of their records."""
        self.values.frombytes(values.tobytes())
        self.steps.frombytes(steps.tobytes())
        self.records.frombytes(records.tobytes())

    def clear(self) -> None:
        """Drop all rows."""
        self.values, self.steps, self.records = array("d"), array("q"), array("q")


class Rank(Struct):
    """One rank, and the step that it is in."""

    label: str | None
    tables: dict[tuple[str, ...], Table] = field(default_factory=dict)
    step: int = 0
    #: True if the last record was the last of its step.
    ended: bool = False
    #: The names in the step so far: one that occurs again begins a step. None after the first record that ended a step:
    #: from then on these records count the steps, and the steps that were counted by names are all step 0.
    names: set[str] | None = field(default_factory=set)
    #: The number of the first record that ended a step: all before it, for example micro steps, belong to step 0.
    first_end: int | None = None

    def count(self, table: Table, record: int) -> int:
        """Count the next record of the rank, which belongs to this table and has this number; return its step."""
        if self.ended:
            self.step += 1
        elif self.names is not None:
            if not self.names.isdisjoint(table.names):
                self.step += 1
                self.names.clear()
            self.names.update(table.names)
        self.ended = table.ends_step
        if self.ended and self.names is not None:
            self.names, self.step, self.first_end = None, 0, record
        return self.step

    def count_many(self, ends: Ints) -> Ints:
        """Count the next records, with 1 for one that ends its step; return their steps. `names` must be None."""
        steps = np.cumsum(ends) - ends + (self.step + self.ended)
        self.step, self.ended = int(steps[-1]), bool(ends[-1])
        return steps

    def rows(self, table: Table) -> tuple[Floats, Ints, Ints]:
        """Return the records of a table of this rank in order: values, (columns, rows), steps, and record numbers."""
        values = np.frombuffer(table.values).reshape(-1, len(table.columns))
        steps, records = np.frombuffer(table.steps, np.int64), np.frombuffer(table.records, np.int64)
        order = np.argsort(records, kind="stable")
        values, steps, records = values[order].T, steps[order], records[order]
        if self.first_end is not None:
            steps[records < self.first_end] = 0
        return values, steps, records


class Timers:
    """The timer records of one run."""

    def __init__(self, run: RunBuilder) -> None:
        self._run = run
        self._ranks: dict[str | None, Rank] = {}
        #: The rank by the text before a record: a cache.
        self._rank_after: dict[str, Rank] = {}
        #: How many records had a timer whose value was read.
        self.records = 0

    @property
    def ranks(self) -> int:
        """Return the number of ranks that printed records with their rank."""
        return len(self._ranks.keys() - {None})

    @property
    def ended_steps(self) -> int | None:
        """Return the number of ended steps, or None unless exactly one rank prints records."""
        ranks = [rank for rank in self._ranks.values() if rank.tables]
        if len(ranks) != 1:
            return None
        return 0 if ranks[0].names is not None else ranks[0].step + ranks[0].ended

    def hand_over(self, other: Timers, first: int) -> None:
        """Move the steps of the only rank from `first` on to a run that begins there and has read nothing yet."""
        (rank,) = (rank for rank in self._ranks.values() if rank.tables)
        heir = other._ranks.setdefault(rank.label, Rank(rank.label))
        heir.step, heir.ended, heir.names = rank.step - first, rank.ended, None
        for names, table in rank.tables.items():
            values, steps, records = rank.rows(table)
            moved = steps >= first
            if moved.any():
                # record numbers below 0 come before all records that the new run will read
                own = other.table(heir, names)
                own.extend(values.T[moved], steps[moved] - first, records[moved] - self.records)
                table.clear()
                table.extend(values.T[~moved], steps[~moved], records[~moved])
        rank.step, rank.ended = first - 1, True

    def read(self, number: int, line: str) -> None:
        """Read all the records of any line."""
        start = line.find(WORD)
        while start >= 0:
            rank = self.rank(line[max(start - RANK_LENGTH, 0) : start])
            begin = start + len(WORD)
            start = line.find(WORD, begin)
            self._record(rank, line, begin, start if start >= 0 else len(line), number)

    def rank(self, before: str) -> Rank:
        """Return the rank of a record from the text before it; a text without a number has the rank None, not 0."""
        if known := self._rank_after.get(before):
            return known
        found = RANK.search(before)
        label = (found[1] or found[2]) if found else None
        rank = self._ranks.setdefault(label, Rank(label))
        if found and len(self._rank_after) < _MAX_CACHED:
            self._rank_after[before] = rank
        return rank

    def table(self, rank: Rank, names: tuple[str, ...]) -> Table:
        """Return the table of these names. Raises OverLimit if it has too many series."""
        if names not in rank.tables:
            rank.tables[names] = Table(names, [self._column(rank, name) for name in names])
        return rank.tables[names]

    def _column(self, rank: Rank, name: str) -> Column:
        labels = {} if rank.label is None else {"rank": rank.label}
        return self._run.column(Key.of(canonical_timer(name), **labels), "s", 1000, name)

    def _record(self, rank: Rank, line: str, begin: int, end: int, number: int) -> None:
        fields = record_fields(self._run, line, begin, end, number)
        if not fields:
            return
        step = rank.count(self.table(rank, tuple(name for name, _, _ in fields)), self.records)
        names: list[str] = []
        values: list[float] = []
        for name, text, place in fields:
            fault = fault_of(text) if place < 0 else None  # a plain record has no faults
            if fault:
                self._run.refuse(self._column(rank, name).key, fault, number)
            else:
                names.append(name)
                values.append(float(text))
        if names:
            table = self.table(rank, tuple(names))  # if some were refused, the others are a row of another table
            table.values.extend(values)
            self._run.file.coverage.mark(None, number, *values)
            table.steps.append(step)
            table.records.append(self.records)
            self.records += 1

    def finish(self) -> None:
        """Hand the values to the run, each series in the order of the log."""
        found: dict[Key, list[tuple[Floats, Ints, Ints]]] = {}
        for rank in self._ranks.values():
            while rank.tables:  # each is dropped before the next is put in order, to save memory
                _, table = rank.tables.popitem()
                values, steps, records = rank.rows(table)
                for at, column in enumerate(table.columns):
                    found.setdefault(column.key, []).append((values[at], steps, records))
        for key, parts in found.items():
            values, steps, records = parts[0]
            if len(parts) > 1:
                values, steps, records = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
                order = np.argsort(records, kind="stable")
                values, steps = values[order], steps[order]
            self._run.columns[key].fill(values, steps)


def record_fields(run: RunBuilder, line: str, begin: int, end: int, number: int) -> list[tuple[str, str, int]]:
    """Return the name, value and place of each field of a record, `line[begin:end]`; the line has this number.

    If anything in the record is odd, all places are -1, and a name that cannot be read is an error.
    """
    if _PLAIN.fullmatch(line, begin, end):
        return [(found[1].strip(), found[2], found.start(2)) for found in _PLAIN_FIELD.finditer(line, begin, end)]
    record = line[begin:end]
    if not record.lstrip().startswith("|"):
        return []  # the comms logger's `time (ms): 9.46`, or a record without timers
    fields = list(_odd_fields(record))
    for name, text in fields:
        if not name:
            run.say("error", "the name of a timer cannot be read", number, f": {text[:80]!r}")
    return [(name, text, -1) for name, text in fields if name]


def _odd_fields(record: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the printed value of each field; the name is "" if it cannot be read.

    A record ends at the first text that is not a field, unless more fields follow it. The names in parentheses (MoE,
    `print_forward_breakdown`) are fields, and the sum before them is not: it is also printed on its own.
    """
    at = 0
    while True:
        if (found := _FIELD.match(record, at)) is None:
            if (more := _MORE.search(record, at + 1)) is None:
                return
            yield "", record[at : more.start()].strip(" |")
            at = more.start()
            continue
        name, value = found[1].strip(), found[2]
        at = found.end()
        if inner := _INNER.match(record, at):
            at = inner.end()
            for part in inner[1].split(","):
                inner_name, _, text = part.partition(":")
                yield inner_name.strip(), text.strip()
            continue
        if not _NEXT.match(record, at) and _MORE.search(record, at):
            at = record.index("|", at)
            value = record[found.start(2) : at]  # with the odd text, so that it is refused
        yield name, _GLUED_RANK.sub("", value).strip()
