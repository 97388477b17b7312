"""Read many lines at once that differ only in digits from a line that a reader has read: lines of one kind.

A reader reads the first line of each kind by itself, and says what it did with the numbers in the line:

    file.alike.number(column, text, at)             a number that was added to a series
    file.alike.step(text, at, 1, runs.follow, "")   the step of this line, and of lines without a step below it
    file.alike.plain()                              that is all: the next lines of this kind are read alike

`at` is where the text begins in the line, and 1 the first step that a log prints. The reader promises that it does the
same with every line of a kind, apart from these numbers and from digits that change the meaning, such as a rank
(`same`). What it does with a line depends on the lines before it only through `context` and the step.

Usual lines are read at once. A line is not usual if few lines of known kinds follow each other, if anything was wrong
with it, or if its step does not follow the one before. The reader gets such a line by itself, in its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct, field

from perfgate.readers.digit_runs import DigitRuns, Floats, Ints, PrintedNumber, runs_within
from perfgate.readers.line_blocks import Line, select
from perfgate.readers.values import Column

_FEW = 16  # fewer lines together are read one by one
_FIRST = 8192  # the lines at the beginning of a file that are examined, whether they are usual or not
#: The bytes of the longest line of a kind; the most kinds after one context, and the most plans of one kind.
_LONGEST_LINE, _MOST_KINDS = 4000, 4096
#: Steps from here on are not exact as float64.
_FIRST_INEXACT = 2.0**53
#: Put in the place of a line's kind if the line must not be read with others; no kind has a line end.
_KEPT = b"\n"
#: A function with arguments of its own, and behind them the printed steps of many lines in order. It returns a function
#: that notes these steps, or None if the lines must be read one by one.
Follow = Callable[..., "Callable[[], None] | None"]


class _Plan(Struct, eq=False):
    """How the lines of one kind are read: as a reader read the first of them."""

    #: The series, and the places of their numbers.
    adds: list[tuple[Column, PrintedNumber]]
    #: If lines print a step: its place, and what a log prints for its first step (None if series have no steps).
    step: tuple[PrintedNumber, int | None] | None
    follow: tuple[Any, ...]  # the `Follow` of the step, with its own arguments
    #: The functions to call with each line, and the places of the numbers that they get.
    calls: list[tuple[Callable[..., object], list[PrintedNumber]]]
    after: Hashable  # the context after such a line
    #: The indices of these lines in the block, of those that are being read.
    lines: list[int] = field(default_factory=list)


class _Kind(Struct, eq=False):
    """Lines of one kind: which runs of digits change the meaning, and the plan for each of their values."""

    same: tuple[int, ...]
    plans: dict[tuple[bytes, ...], _Plan] = field(default_factory=dict)


class _Noted(Struct):
    """The notes of a reader about one line; a number is given by its text and the place where the text begins."""

    is_plain: bool = False
    adds: list[tuple[Column, str, int]] = field(default_factory=list)
    step: tuple[str, int, int | None] | None = None
    follow: tuple[Any, ...] = ()
    same: list[tuple[int, int]] = field(default_factory=list)
    calls: list[tuple[Callable[..., object], tuple[tuple[str, int], ...]]] = field(default_factory=list)

    def plan(self, line: bytes, after: Hashable) -> _Plan | None:
        """Return what is done with such lines; None if one of the numbers is not in the line as it was read."""

        def number(text: str, at: int) -> PrintedNumber:
            found = PrintedNumber.at(line, at) if at >= 0 else None
            if found is None or found[1] != text or (text[0] == "-" and not float(text)):
                raise ValueError  # also for -0: it is valid, but other numbers with this sign may not be
            return found[0]

        try:
            adds = [(column, number(text, at)) for column, text, at in self.adds]
            calls = [(function, [number(*one) for one in numbers]) for function, numbers in self.calls]
            step = (number(*self.step[:2]), self.step[2]) if self.step else None
        except ValueError:
            return None
        return _Plan(adds, step, self.follow, calls, after)


class LogFile(Protocol):
    """The file that is read: see `InputFile`. `is_odd`: the line that is being read has more than its numbers."""

    alike: AlikeLines | None
    is_odd: bool


class AlikeLines:
    """The kinds of lines of one file so far."""

    def __init__(self, file: LogFile) -> None:
        self._file = file
        file.alike = self
        #: A value on which the meaning of the next line depends, besides the line itself.
        self.context: Hashable = None
        #: The step of the next lines without a step; None if series have no steps.
        self.current: int | None = None
        self._kinds: dict[Hashable, dict[bytes, _Kind]] = {}  # by context, and by the line with a 0 for each run
        self._noted = _Noted()
        #: The number of lines that were examined, and how many of them were read at once.
        self._seen = self._taken = 0

    # --- what a reader says -----------------------------------------------------------------------------------------

    def plain(self) -> None:
        """Note that the reader did nothing with this line but what it said."""
        self._noted.is_plain = True

    def number(self, column: Column, text: str, at: int) -> None:
        """Note that a number of the line was added to a series, with a step if series have steps."""
        self._noted.adds.append((column, text, at))

    def place_of(self, column: Column) -> tuple[str, int]:
        """Return the number of the line that was added to a series, and its place; -1 if none was."""
        return next(((text, at) for one, text, at in self._noted.adds if one is column), ("", -1))

    def step(self, text: str, at: int, first: int | None, follow: Follow, *arguments: str | None) -> None:
        """Note the printed step of this line.

        `first`: what the log prints for its first step; None if series have no steps. `follow`: notes later steps.
        """
        self._file.is_odd |= self._noted.step is not None  # two records in one line
        self._noted.step, self._noted.follow = (text, at, first), (follow, *arguments)

    def same(self, begin: int, end: int) -> None:
        """Note that the digits in this part of the line change its meaning."""
        self._noted.same.append((begin, end))

    def call(self, function: Callable[..., object], *numbers: tuple[str, int]) -> None:
        """Note that a function was called with the number of the line, its text, and these numbers of it."""
        self._noted.calls.append((function, numbers))

    def forget(self) -> None:
        """Forget what is done with lines: a new run has other series."""
        self._kinds = {}

    # --- lines ------------------------------------------------------------------------------------------------------

    def is_worth(self, text: bytes) -> bool:
        """Return whether a block is searched for usual lines: not if less than an eighth of the lines were usual."""
        self._noted = _Noted()  # forget what was said of lines that are not walked
        # The reader gets lines without NUL and escape sequences, so places in its text would not be those here.
        return self._taken * 8 >= self._seen - _FIRST and b"\0" not in text and b"\x1b" not in text

    def walk(self, text: bytes, number: int, words: Sequence[str], kept: Sequence[int]) -> Iterator[Line]:
        """Yield the lines of a block that are not usual, and read the usual ones in their turn.

        Parameters:
            text: whole lines, without the last line end.
            number: the number of the first line.
            words: only lines with one of them are yielded.
            kept: the numbers of lines that the reader must get by themselves.
        """
        runs, at = DigitRuns(text), 0
        count = len(runs.kinds)
        for line in (*kept, number + count - 1):  # the next block may need the text of the last line: `MemoryUsage`
            runs.kinds[line - number] = _KEPT
        self._seen += count
        while at < count:
            end, plans, after = self._stretch(runs, at)
            if end - at >= _FEW and self._read(runs, number, plans):
                self._taken += end - at
                self.context, at = after, end
            for plan in plans:
                plan.lines.clear()
            # the lines that were not read at once, and the first one without a plan
            for index in range(at, min(end + 1, count)):
                context = self.context
                yield from self._single(runs.line(index), number + index, words)
                if index == end:
                    self._learn(runs, index, context)
            at = end + 1

    def _single(self, line: bytes, number: int, words: Sequence[str]) -> Iterator[Line]:
        """Yield a line that is not read at once. The reader needs nothing from a line without one of its words."""
        self._noted = _Noted()
        if lines := select(line, (number,), words):
            self._file.is_odd = False
            yield from lines
        else:
            self._noted.is_plain = True

    def _stretch(self, runs: DigitRuns, at: int) -> tuple[int, list[_Plan], Hashable]:
        """Give the usual lines from `at` on to their plans; return their end, the plans, and the context after them."""
        kinds, context, found = runs.kinds, self.context, list[_Plan]()
        known = self._kinds.setdefault(context, {})
        same, digits = tuple[int, ...](), runs.digits(())
        for index in range(at, len(kinds)):
            kind = known.get(kinds[index])
            if kind and kind.same != same:
                same, digits = kind.same, runs.digits(kind.same)
            plan = kind.plans.get(digits[index]) if kind else None
            if plan is None:
                return index, found, context
            if not plan.lines:
                found.append(plan)
            plan.lines.append(index)
            if plan.after is not context:
                context = plan.after
                known = self._kinds.setdefault(context, {})
        return len(kinds), found, context

    def _learn(self, runs: DigitRuns, index: int, context: Hashable) -> None:
        """Keep what was done with a line after this context, if such lines can be read at once."""
        known, noted, line = self._kinds.setdefault(context, {}), self._noted, runs.line(index)
        # A \r before the end divides a line. In a line with other letters, places in its text are not those in bytes.
        is_simple = len(line) <= _LONGEST_LINE and b"\r" not in line[:-1] and line.isascii()
        if not is_simple or not noted.is_plain or self._file.is_odd or runs.kinds[index] == _KEPT:
            return
        plan = noted.plan(line, self.context)
        if plan is None or (len(known) == _MOST_KINDS and runs.kinds[index] not in known):
            return
        same = tuple(sorted({run for begin, end in noted.same for run in runs_within(line, begin, end)}))
        kind = known.setdefault(runs.kinds[index], _Kind(same))
        if kind.same == same and len(kind.plans) < _MOST_KINDS:
            kind.plans[runs.digits(same)[index]] = plan

    def _read(self, runs: DigitRuns, number: int, plans: list[_Plan]) -> bool:
        """Read usual lines; return False, and read nothing, if their steps do not follow each other."""
        lines_of = [np.array(plan.lines) for plan in plans]
        # For each `Follow`: lines, and their steps as printed. For the series: lines, and their steps from 0.
        follows: dict[tuple[Any, ...], list[tuple[Ints, Floats]]] = {}
        steps: list[tuple[Ints, Ints]] = []
        for plan, lines in zip(plans, lines_of, strict=True):
            if plan.step:
                place, first = plan.step
                printed = runs.numbers(lines, place)
                follows.setdefault(plan.follow, []).append((lines, printed))
                if first is None:
                    continue
                if printed.max() >= _FIRST_INEXACT:
                    return False
                steps.append((lines, np.maximum(printed.astype(np.int64) - first, 0)))  # as readers do
        notes = [follow(*arguments, _in_order(found)[1]) for (follow, *arguments), found in follows.items()]
        if not all(notes):
            return False
        for note in notes:
            note()
        self._add(runs, plans, lines_of, _in_order(steps) if steps else None)
        _call(runs, number, plans, lines_of)
        return True

    def _add(self, runs: DigitRuns, plans: list[_Plan], lines_of: list[Ints], steps: tuple[Ints, Ints] | None) -> None:
        """Add the numbers of usual lines to their series, each in the order of the lines."""
        # By the id of a column: the column, its numbers by lines, and the indices of the plans that add to it.
        found: dict[int, tuple[Column, list[tuple[Ints, Floats]], list[int]]] = {}
        for index, (plan, lines) in enumerate(zip(plans, lines_of, strict=True)):
            for column, number in plan.adds:
                _, parts, own = found.setdefault(id(column), (column, [], []))
                parts.append((lines, runs.numbers(lines, number)))
                own.append(index)
        shared: dict[tuple[int, ...], Ints | range] = {}  # columns of the same plans have the same steps
        for column, parts, own in found.values():
            lines, values = _in_order(parts)
            if self.current is not None and tuple(own) not in shared:
                shared[tuple(own)] = self._steps_of(lines, steps)
            column.extend(values, shared.get(tuple(own)))
        if steps:
            self.current = int(steps[1][-1])

    def _steps_of(self, lines: Ints, steps: tuple[Ints, Ints] | None) -> Ints | range:
        """Return the step of each line, its own or the last one before it; as a range, which is small, if possible."""
        if steps is None:
            return np.full(len(lines), self.current)
        before = np.searchsorted(steps[0], lines, side="right")
        found: Ints = np.concatenate([[self.current], steps[1]])[before]
        each = int(found[1] - found[0]) if len(found) > 1 else 0
        is_range = each > 0 and bool((np.diff(found) == each).all())
        return range(int(found[0]), int(found[-1]) + 1, each) if is_range else found


def _call(runs: DigitRuns, first: int, plans: Sequence[_Plan], lines_of: Sequence[Ints]) -> None:
    """Call the functions of the plans, in the order of the lines, with the numbers that each gets."""
    calls: list[tuple[int, Callable[..., object], list[float]]] = []
    for plan, lines in zip(plans, lines_of, strict=True):
        for function, numbers in plan.calls:
            rows = zip(plan.lines, *(runs.numbers(lines, number).tolist() for number in numbers), strict=True)
            calls += [(line, function, row) for line, *row in rows]
    for line, function, row in sorted(calls, key=lambda call: call[0]):
        function(first + line, runs.line(line).decode(), *row)


def _in_order(parts: Sequence[tuple[Ints, Any]]) -> tuple[Ints, Any]:
    """Return the lines of several parts in order, with the numbers of each."""
    if len(parts) == 1:
        return parts[0]
    lines, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(lines, kind="stable")
    return lines[order], values[order]
