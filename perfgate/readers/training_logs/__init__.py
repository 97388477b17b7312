"""Shared by the readers of training logs: runs, ranks and steps.

A line may begin with what a launcher puts there: `[rank3]:` or `[default3]:` (torchrun), `3: ` (srun --label),
`[1,3]<stdout>:` (mpirun --tag-output). That rank becomes the label `rank`. Several processes may also print the same
step without a rank. These are not further samples of that step, and their order is chance. So a step has one value: the
mean of the values in its lines, or the largest of them for memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from perfgate.readers.alike_lines import AlikeLines
from perfgate.readers.digit_runs import Floats
from perfgate.readers.kit import Field, InputFile, Key, RunBuilder, Runs, checked
from perfgate.readers.values import Column

_RANK = re.compile(r"\s*(?:\[(?:rank|default)(\d{1,6})\]:|\[\d{1,6},(\d{1,6})\]<std(?:out|err)>:|(\d{1,6}): )")
_AGAIN = (
    "a step is printed again, perhaps by another process without its rank: it has the mean of its lines, and of memory"
    " the largest"
)
#: A field of a line: its name, its text, and where the text begins in the line.
PrintedField = tuple[str, str, int]


def rank_of(text: str) -> str | None:
    """Return the rank that a launcher put before a line; None without one."""
    found = _RANK.match(text)
    return next((str(int(one)) for one in found.groups() if one), None) if found else None


def fields_in(pattern: re.Pattern[str], text: str, span: tuple[int, int]) -> list[PrintedField]:
    """Return the fields in a part of a line; the groups of the pattern are name and text."""
    return [(found[1], found[2], found.start(2)) for found in pattern.finditer(text, *span)]


class StepLog:
    """The runs of a log whose records have steps. A reader calls `begin` for each record, then `add` or `add_known`.

    These methods tell `alike` what they do with a line, so that the lines like it are read many at once.
    """

    def __init__(self, file: InputFile, name: str) -> None:
        self.file = file
        self.alike = AlikeLines(file)
        self.alike.current = 0  # not None, because all series have steps; each line has its own
        self.runs = Runs(lambda: RunBuilder(file, name))
        #: For each kind of record and each rank: the step that came last, and the one before it.
        self._last: dict[tuple[str, str | None], tuple[int, int]] = {}
        self._run = self.runs.run  # the run of the last record
        self._printed_again = False
        #: For each series with values of a step that was printed again: how many values its last two steps have.
        self._joined: dict[Key, dict[int, int]] = {}
        #: True if the record that is being read is another line of its step.
        self._is_again = False
        #: The labels, the step and the line of the record that is being read.
        self._labels: dict[str, str] = {}
        self._step = 0
        self._line = 0

    @property
    def run(self) -> RunBuilder:
        """The run that is being read."""
        return self.runs.run

    def lines(self, *words: str) -> Iterator[tuple[int, str]]:
        """Yield the lines with one of these words; a last line that is cut off is reported if it has the first word."""
        for number, line, _, ended in self.file.lines(words):
            if ended:
                yield number, line
            elif words[0] in line:
                self.run.say("warning", "the last record is cut off; left out", number)

    def begin(self, kind: str, line: int, text: str, step: str, at: int, first: int) -> bool:
        """Begin a record, and return whether it is the first of its step.

        Parameters:
            kind: the kind of record; each kind has its own steps.
            line, text: the line and its text.
            step, at: the step as printed, and where it begins in the line; -1 if it is not there.
            first: the printed number of the first step, 0 or 1.
        """
        rank, printed = rank_of(text), int(step)
        self._labels = {"rank": rank} if rank is not None else {}
        self._step, self._line = max(printed - first, 0), line
        last, before = self._last.get((kind, rank), (-1, -1))
        if printed == last or (printed == before and self._printed_again):  # a process may be one step behind
            if not self._printed_again:
                self.run.say("warning", _AGAIN, line)
            self._printed_again = True
            self._is_again = True
            return False
        self.runs.count(f"{kind} {rank}", printed, line)
        if self._run is not self.run:  # a new run, because the step is smaller
            self._run, self._last, self._printed_again, last = self.run, {}, False, -1
            self._joined = {}
        self._last[kind, rank] = (printed, last)
        self._is_again = False
        if prefix := _RANK.match(text):
            self.alike.same(*prefix.span())
        self.alike.step(step, at, first, self._follow, kind, rank)
        self.alike.plain()
        return True

    def _follow(self, kind: str, rank: str | None, values: Floats) -> Callable[[], None] | None:
        """Return a function that notes the next printed steps; None if one is printed again or begins a run."""
        steps = np.append(self._last.get((kind, rank), (-1, -1))[0], values)
        if (np.diff(steps) <= 0).any():
            return None
        note = self.runs.follow(f"{kind} {rank}", values)
        if note is None:
            return None
        last, before = int(steps[-1]), int(steps[-2])

        def take() -> None:
            note()
            self._last[kind, rank] = (last, before)

        return take

    def add(
        self, metric: str, unit: str, text: str, at: int = -1, *, per: float = 1.0, printed_as: str | None = None
    ) -> None:
        """Add one number of the record, or a problem.

        Parameters:
            metric, unit, text: its name, its base unit, and the number as printed.
            at: where the text begins in the line; -1 if it is not there.
            per: how many printed units are one base unit.
            printed_as: the printed name.
        """
        key = Key.of(metric, **self._labels)
        known = self.run.columns.get(key)
        if self._is_again and known and self._step <= max(known.last_steps(), default=-1):
            self._join(known, text)
        elif column := self.run.sample(key, unit, text, self._line, per=per, step=self._step, printed_as=printed_as):
            self.alike.number(column, text, at)

    def _join(self, column: Column, text: str) -> None:
        """Join the value of another line of a step with those before: their mean or, of memory, the largest."""
        value, fault = checked(text, column.unit)
        if fault:
            self.run.refuse(column.key, fault, self._line)
            return
        self.run.file.coverage.mark(None, self._line, value)
        steps = column.last_steps()
        if self._step in steps:  # the last step or the one before
            at = steps.index(self._step) - len(steps)
            before, counts = column.values[at], self._joined.get(column.key, {})
            counts = self._joined[column.key] = {step: counts.get(step, 1) for step in steps}
            counts[self._step] += 1
            mean = before + (value - before) / counts[self._step]
            column.values[at] = max(before, value) if column.unit == "B" else mean

    def add_known(self, fields: Iterable[PrintedField], known: Mapping[str, Field], prefix: str = "") -> None:
        """Add the fields of a record that have a known name, the first of each name.

        Parameters:
            fields: the fields of the line.
            known: what each printed name is.
            prefix: what the metrics begin with: `eval.`.
        """
        left = dict(known)
        for name, text, at in fields:
            if field := left.pop(name, None):
                self.add(prefix + field.metric, field.unit, text, at, per=field.per, printed_as=name)
