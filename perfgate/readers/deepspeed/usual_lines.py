"""Nearly all lines of a long log, read many at once: their steps, and their values into the tables of `timers`.

`line_shapes` finds these lines, which are called usual. They are counted in their turn among the other lines of the
log, because lines of both kinds begin steps. Their values are read later, when there are many.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Location
from perfgate.core.resource_limits import OverLimit
from perfgate.readers.deepspeed.line_shapes import Form, LineShapes
from perfgate.readers.deepspeed.timers import Rank, Table, Timers
from perfgate.readers.digit_runs import Ints, Words

#: The number of lines whose values are read together.
_PENDING_LINES = 8192
#: From this number of lines on, numpy counts steps faster than a loop.
_MANY_LINES = 50


class UsualBlock(Struct):
    """A block of a log: text and numbers of its lines that are not usual, and its usual lines."""

    rest: bytes
    numbers: Sequence[int]
    _lines: UsualLines
    #: The number of each usual line in the file, and its form.
    _usual: Ints
    _forms: Ints
    #: How many usual lines are counted.
    _done: int = 0

    def read_until(self, number: int) -> None:
        """Count the usual lines before this line of the file."""
        end = bisect_left(self._usual, number, self._done)
        if end > self._done:
            lines = slice(self._done, end)
            self._lines.count(self._forms[lines], self._usual[lines])
            self._done = end


class UsualLines:
    """The usual lines of a log, and those of them whose values are still to be read."""

    def __init__(self, timers: Callable[[], Timers], odd_texts: Sequence[str]) -> None:
        """`timers` returns the timers of the run that is being read; a line with one of `odd_texts` is not usual."""
        self._timers = timers
        self._shapes = LineShapes(odd_texts)
        self._run = _FormsOfRun(timers(), self._shapes.forms)
        #: The usual lines of the last blocks: the form of each, and its words (eight bytes as an integer).
        self._forms: list[Ints] = []
        self._words: list[Words] = []
        #: The steps of those that are counted.
        self._steps: array[int] = array("q")
        #: For each call of `count`: its number of lines, and the number of the first among all the records of the run.
        self._together: list[tuple[int, int]] = []

    def block(self, text: bytes, number: int) -> UsualBlock:
        """Find the usual lines of a block: whole lines without the last line end; the first line has this number."""
        usual, forms, words, others, rest = self._shapes.find(text)
        # arrays of words can be joined if they have equal numbers of columns
        if self._words and (len(self._steps) >= _PENDING_LINES or self._words[0].shape[1] != words.shape[1]):
            self.read_values()
        if len(usual):
            self._forms.append(forms)
            self._words.append(words)
        return UsualBlock(rest, (others + number).tolist(), self, usual + number, forms)

    def count(self, forms: Ints, numbers: Ints) -> None:
        """Count the next usual lines, which have these forms and these numbers in the file."""
        if (timers := self._timers()) is not self._run.timers:
            self.read_values()
            self._run = _FormsOfRun(timers, self._shapes.forms)
        self._steps.extend(self._run.count(forms, numbers))
        self._together.append((len(forms), timers.records))
        timers.records += len(forms)

    def read_values(self) -> None:
        """Add the lines that were counted to their tables."""
        if not self._steps:
            return
        count, forms, words = len(self._steps), np.concatenate(self._forms), np.concatenate(self._words)
        lengths, firsts = np.array(self._together).T
        # the lines of one call of `count` have records that follow each other
        records = np.arange(count) + np.repeat(firsts - (np.cumsum(lengths) - lengths), lengths)
        steps = np.array(self._steps)
        order = np.argsort(forms[:count], kind="stable")
        for own in np.split(order, np.flatnonzero(np.diff(forms[order])) + 1):  # the lines of each form
            form = int(forms[own[0]])
            values = self._shapes.forms[form].decimals.read(words[own])
            self._run.table(form).extend(values, steps[own], records[own])
        # lines that are not counted yet stay
        self._forms, self._words = ([forms[count:]], [words[count:]]) if count < len(forms) else ([], [])
        self._steps, self._together = array("q"), []


class _FormsOfRun:
    """The forms of usual lines in one run: their ranks and tables, and the steps of their lines."""

    def __init__(self, timers: Timers, forms: Sequence[Form]) -> None:
        self.timers = timers
        self._forms = forms
        self._found: dict[int, tuple[Rank, Table]] = {}
        self._ranks: list[Rank] = []
        #: By form: its rank, as a place in the list, and 1 if its records end a step.
        self._rank_of = self._ends = np.zeros(0, np.int64)

    def table(self, form: int) -> Table:
        return self._found[form][1]

    def count(self, forms: Ints, numbers: Ints) -> array[int]:
        """Return the steps of the next lines, from their forms and their numbers in the file."""
        listed: list[int] = forms.tolist()
        if not self._found.keys() >= {*listed}:
            for form, number in zip(listed, numbers.tolist(), strict=True):
                if form not in self._found:
                    self._add(form, number)
        if len(listed) < _MANY_LINES or any(rank.names is not None for rank in self._ranks):  # names may begin steps
            found = enumerate(map(self._found.__getitem__, listed), self.timers.records)
            return array("q", [rank.count(table, record) for record, (rank, table) in found])
        steps, ranks = np.zeros(len(forms), np.int64), self._rank_of[forms]
        for at, rank in enumerate(self._ranks):
            own = np.flatnonzero(ranks == at)
            if len(own):
                steps[own] = rank.count_many(self._ends[forms[own]])
        return array("q", steps.tobytes())

    def _add(self, form: int, number: int) -> None:
        """Find the rank and the table of a form, which is on this line. Raises OverLimit, at the line."""
        rank = self.timers.rank(self._forms[form].before)
        try:
            table = self.timers.table(rank, self._forms[form].names)
        except OverLimit as over:
            at = Location(over.problem.at.file, number)
            raise OverLimit(replace(over.problem, at=at), over.before) from None
        self._found[form] = rank, table
        if all(rank is not one for one in self._ranks):
            self._ranks.append(rank)
        more = max(form + 1 - len(self._ends), 0)
        self._rank_of, self._ends = np.pad(self._rank_of, (0, more)), np.pad(self._ends, (0, more))
        self._rank_of[form] = next(at for at, one in enumerate(self._ranks) if one is rank)
        self._ends[form] = table.ends_step
