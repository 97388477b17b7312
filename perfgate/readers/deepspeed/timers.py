"""Records of timers as DeepSpeed and Megatron-LM print them: `time (ms) | NAME: 1.23 | NAME: 4.56`.

A training log repeats a few records thousands of times. So records with the same names are the rows of one table, and
to read a value costs little more than its `float`. A record with anything else in it (glued text, parentheses, nan,
garbled numbers) is read field by field.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from perfgate.core import Key
from perfgate.core.wording import canonical_timer
from perfgate.readers.builder import Column, RunBuilder
from perfgate.readers.values import fault_of

WORD = "time (ms)"
#: The begin of a record; the comms logger's `time (ms): 9.46` is not a record.
RECORD = re.compile(r"time \(ms\)(?=[ \t]*(?:\||$))")

#: A record with one of these is the last of its step.
ENDS_STEP = frozenset({"forward", "backward", "step"})

_MAX_CACHED = 1000

_RANK = re.compile(r"(?:\[Rank (-?\d+)\]|(?<![A-Za-z_])rank=(-?\d+))\s*$")

_FIELD = re.compile(r"\s*\|([^|:()\[\]]*):\s*([^\s|\[(]*)")
_INNER = re.compile(r"\s*\(([^()]*)\)")
_NEXT = re.compile(r"\s*(?:\||$)")
_MORE = re.compile(r"\|[^|:()\[\]]+:\s*[-+]?[0-9]")
_GLUED_RANK = re.compile(r"rank=-?\d+\s*$")


@dataclass(frozen=True, slots=True)
class _Seen:
    """A step counter at its last line."""

    #: How far it was ahead of the number of steps that had ended.
    ahead: int
    ended: int
    #: True if it was always as far ahead.
    steady: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """The step counters of one run beside its steps: they show which steps belong to a restart.

    A counter shows how many steps a run has made, and timers how many have ended on the only rank that prints them. A
    restart that shows only in a counter is noticed after its first steps. If the difference of the two numbers was
    constant in the run before, a restart at step 0 whose counter is n has made n steps less that difference: the last
    ones before the line. A restart from a checkpoint has a higher counter, and is told apart at the line.
    """

    _seen: dict[str, _Seen] = field(default_factory=dict)

    def note(self, counter: str, value: int, ended: int) -> None:
        """Keep a counter's value and the number of steps that have ended."""
        before = self._seen.get(counter)
        ahead = value - ended
        self._seen[counter] = _Seen(ahead, ended, before is None or (before.steady and before.ahead == ahead))

    def steps_of_restart(self, counter: str, value: int, ended: int) -> int | None:
        """Return how many of the ended steps belong to a restart whose counter is `value`; None if unknown."""
        seen = self._seen.get(counter)
        if seen is None or not seen.steady or seen.ahead not in (0, 1):  # this run itself did not begin at 0
            return None
        steps = value - seen.ahead
        return steps if 0 <= steps <= ended - seen.ended else None


class _Table:
    """All records of one rank with the same timers, in that order."""

    def __init__(self, names: tuple[str, ...], columns: list[Column]) -> None:
        self.names = frozenset(names)
        self.columns = columns
        self.ends_step = any(column.key.metric in ENDS_STEP for column in columns)
        #: What a record looks like after the word; None before the third record.
        self.pattern: re.Pattern[str] | None = None
        #: Row by row, in ms.
        self.values = array("d")
        #: For each row, its step and its place among all the records of the run.
        self.steps = array("q")
        self.places = array("q")


@dataclass(slots=True)
class _Rank:
    label: str | None
    tables: dict[tuple[str, ...], _Table] = field(default_factory=dict)
    step: int = 0
    #: True if the last record was the last of its step.
    ended: bool = False
    #: The names in the step so far; None after a record has ended a step, because then such records count steps.
    names: set[str] | None = field(default_factory=set)

    def count(self, table: _Table) -> int:
        """Return the step of the next record, which belongs to this table."""
        if self.ended:
            self.step += 1
        elif self.names is not None:
            if not self.names.isdisjoint(table.names):
                self.step += 1
                self.names.clear()
            self.names.update(table.names)
        self.ended = table.ends_step
        if self.ended and self.names is not None:
            # the first record that ends a step: all records before it, for example micro steps, belong to that step
            self.names, self.step = None, 0
            for known in self.tables.values():
                known.steps = array("q", bytes(known.steps.itemsize * len(known.steps)))
        return self.step


class Timers:
    """The timer records of one run."""

    def __init__(self, run: RunBuilder) -> None:
        self._run = run
        self._ranks: dict[str | None, _Rank] = {}
        self._rank_after: dict[str, _Rank] = {}
        #: By the text of a record up to its first name: the pattern of the whole record.
        self._usual: dict[str, tuple[re.Pattern[str], _Rank, _Table]] = {}
        #: How many records had a timer.
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
        """Move the steps from `first` on, of the only rank, to a run that begins there and has read nothing yet."""
        (rank,) = (rank for rank in self._ranks.values() if rank.tables)
        heir = other._ranks.setdefault(rank.label, _Rank(rank.label))
        heir.step, heir.ended, heir.names = rank.step - first, rank.ended, None
        for names, table in rank.tables.items():
            at = bisect_left(table.steps, first)
            if at == len(table.steps):
                continue
            taken = other._table(heir, names)
            taken.values.extend(table.values[at * len(table.columns) :])
            taken.steps.extend(step - first for step in table.steps[at:])
            taken.places.extend(place - self.records for place in table.places[at:])  # before all that follows
            del table.values[at * len(table.columns) :], table.steps[at:], table.places[at:]
        rank.step, rank.ended = first - 1, True

    def read_usual(self, line: str) -> bool:
        """Read a line that is one record like those before it, and nothing else; return False if it is not."""
        start = line.find(WORD)
        # The text up to the first name (rank, word and name) shows which record to expect.
        known = self._usual.get(line[start - 24 if start > 24 else 0 : line.find(":", start)])
        if known is None:
            return False
        pattern, rank, table = known
        if (usual := pattern.fullmatch(line, start + len(WORD))) is None:
            return False
        table.values.extend(map(float, usual.groups()))
        table.steps.append(rank.count(table))
        table.places.append(self.records)
        self.records += 1
        return True

    def read(self, number: int, line: str) -> None:
        """Read all the records of any line."""
        start = line.find(WORD)
        while start >= 0:
            prefix = start - 24 if start > 24 else 0
            rank = self._rank(line[prefix:start])
            begin = start + len(WORD)
            following = line.find(WORD, begin)
            table = self._careful(rank, line[begin:] if following < 0 else line[begin:following], number)
            if table is not None and table.pattern is not None and following < 0 and len(self._usual) < _MAX_CACHED:
                self._usual[line[prefix : line.find(":", start)]] = (table.pattern, rank, table)
            start = following

    def _rank(self, before: str) -> _Rank:
        """Return the rank of a record from the text before it; without a number it is unknown, not 0."""
        if known := self._rank_after.get(before):
            return known
        found = _RANK.search(before)
        label = (found[1] or found[2]) if found else None
        rank = self._ranks.setdefault(label, _Rank(label))
        if found and len(self._rank_after) < _MAX_CACHED:
            self._rank_after[before] = rank
        return rank

    def _table(self, rank: _Rank, names: tuple[str, ...]) -> _Table:
        """Return the table of these names; from its third row on, its records are usual."""
        if names not in rank.tables:
            rank.tables[names] = _Table(names, [self._column(rank, name) for name in names])
        table = rank.tables[names]
        if len(table.steps) == 2:
            pattern = "".join(rf" \| {re.escape(name)}: ([0-9]{{1,12}}\.[0-9]+)" for name in names)
            table.pattern = re.compile(pattern)
        return table

    def _column(self, rank: _Rank, name: str) -> Column:
        labels = {} if rank.label is None else {"rank": rank.label}
        return self._run.column(Key.of(canonical_timer(name), **labels), "s", 1000, name)

    def _careful(self, rank: _Rank, record: str, number: int) -> _Table | None:
        """Read any record and return its table; values that cannot be true become problems."""
        if not record.lstrip().startswith("|"):
            return None  # the comms logger's `time (ms): 9.46`, or a record without timers
        fields = []
        for name, text in fields_of(record):
            if name:
                fields.append((name, text, fault_of(text)))
            else:
                self._run.say("error", "the name of a timer cannot be read", number, f": {text[:80]!r}")
        if not fields:
            return None
        whole = self._table(rank, tuple(name for name, _, _ in fields))
        step = rank.count(whole)
        for name, _, fault in fields:
            if fault:
                self._run.refuse(self._column(rank, name).key, fault, number)
        good = [(name, text) for name, text, fault in fields if not fault]
        if good:
            table = self._table(rank, tuple(name for name, _ in good))
            table.values.extend(float(text) for _, text in good)
            table.steps.append(step)
            table.places.append(self.records)
            self.records += 1
        return whole

    def finish(self) -> None:
        """Hand the values to the run, each series in the order of the log."""
        found: dict[Key, list[tuple[_Table, int]]] = {}
        for rank in self._ranks.values():
            for table in rank.tables.values():
                for at, column in enumerate(table.columns):
                    found.setdefault(column.key, []).append((table, at))
        for key, parts in found.items():
            places = np.concatenate([np.frombuffer(table.places, np.int64) for table, _ in parts])
            order = np.argsort(places, kind="stable")
            values = np.concatenate([np.frombuffer(table.values)[at :: len(table.columns)] for table, at in parts])
            steps = np.concatenate([np.frombuffer(table.steps, np.int64) for table, _ in parts])
            self._run.columns[key].values.frombytes(values[order].tobytes())
            self._run.columns[key].steps.frombytes(steps[order].tobytes())
        self._usual.clear()
        for rank in self._ranks.values():
            rank.tables.clear()


def fields_of(record: str) -> Iterator[tuple[str, str]]:
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
            value = record[found.start(2) : at]
        yield name, _GLUED_RANK.sub("", value).strip()
