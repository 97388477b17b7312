"""Measure one item of a bisected list with the user's program, alone or by turns with another item."""

from __future__ import annotations

import math
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.bisect.measurements import Measurement, Model
from perfgate.bisect.posterior import Posterior
from perfgate.bisect.ranges import MetricValue, NoMetric, SearchedRange, value_in_pair, value_in_run, with_computed
from perfgate.bisect.search import NotMeasurable, SearchResult
from perfgate.bisect.session import BisectFolder, StoredMeasurement
from perfgate.commands.bisect_causes import MOST_PAIRS, Neighbours
from perfgate.commands.bisect_prior import MeasuredStart, PriorQuestion, prior_model
from perfgate.commands.bisect_request import BisectRequest
from perfgate.judge.pairs import split_pairs
from perfgate.measuring.items import ItemFailed, ItemRunner, clock
from perfgate.measuring.paired_run import NoTurns
from perfgate.measuring.programs import RunFailed, Stopped
from perfgate.measuring.until_settled import Tell
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace import inputs
from perfgate.workspace.env_facts import read_facts


class BisectTask(Struct, frozen=True):
    """The program, the one rule to measure, and the smallest change to find. `began` is in s of `clock`."""

    request: BisectRequest
    ruleset: Ruleset
    tolerance: float
    tell: Tell
    began: float


class ItemMeasurer(Struct):
    """Measures items with the user's program, and keeps each measurement."""

    task: BisectTask
    items: SearchedRange
    folder: BisectFolder
    runner: ItemRunner
    session: int
    paired: bool = False
    #: The metric in the last run.
    facts: MetricValue | None = None
    #: The seconds of all measurements of this start.
    spent: list[float] = field(default_factory=list)
    #: The starts of the command that are in the folder.
    kept_starts: int = 0

    def begin(self) -> str | None:
        """Measure once, if nothing was measured yet, to see if the program takes turns; return why it cannot."""
        last = len(self.items.names) - 1
        known = next((one for one in self.folder.stored if one.skipped is None), None)
        try:
            if known is not None:
                self.paired = known.paired
                self._read(self.folder.path / known.results)
                return None
            self.paired = not self.task.request.whole_runs
            if self.paired:
                first = f"run 1 of at most {self.task.request.most_runs}: {self._name(last)} beside {self._name(0)}"
                self.task.tell(f"{first}, by turns if the program has steps")
                try:
                    self._measure(last)
                except NoTurns as why:
                    self.task.tell(f"{why}; whole runs instead")
                    self.paired = False
            if not self.paired:
                self.show(0, None)
                self._measure(0)
        except (RunFailed, NoMetric) as why:
            if isinstance(why, Stopped):
                raise
            return f"an end cannot be measured: {self._failure(why, last if self.paired else 0)}"
        return None

    def model(self) -> Model:
        """Return the prior knowledge of the search."""
        assert self.facts is not None
        task, options = self.task, self.task.request.options
        first = next(one for one in self.folder.stored if one.skipped is None)
        path = str(self.folder.path / first.results)
        runs = inputs.read_runs([path], options.format, mappings=task.ruleset.mappings)
        runs = with_computed(task.ruleset, runs, read_facts(options.env))
        start = MeasuredStart(runs, self.facts, self.paired)
        asked = PriorQuestion(options, task.ruleset, task.request.rule is not None, self.items)
        return replace(prior_model(asked, start, task.tell), tolerance=task.tolerance)

    def measure(self, position: int) -> Measurement:
        """Measure an item and keep the result. Raises NotMeasurable and Stopped."""
        try:
            return self.folder.measurement(self._measure(position))
        except Stopped:
            raise
        except (RunFailed, NoMetric, NoTurns) as why:
            reason = self._failure(why, position)
            is_end = position in (0, len(self.items.names) - 1)
            if not is_end:  # an end is tried again by the next start
                number = self.folder.next_number()
                name = self.items.names[position]
                own = reason.removeprefix(f"{self._name(position)}: ")
                kept = StoredMeasurement(number, position, name, self.session, clock(), self.paired, skipped=own)
                self._keep(kept)
                self.task.tell(f"{self._name(position)} is skipped: {own}")
                raise NotMeasurable(own) from None
            raise NotMeasurable(f"an end cannot be measured: {reason}") from None

    def measure_neighbours(self, result: SearchResult) -> bool:
        """Measure the item that was found and the one before it once more, if that may name the cause.

        Return False if nothing was measured: nothing is missing, or runs or time are used up. Raises Stopped.
        """
        neighbours = Neighbours.of(self.folder, result)
        if neighbours is None or self.facts is None or not neighbours.needs_more(self.facts):
            return False
        positions = [neighbours.bad] if self.paired else neighbours.less_measured
        left = self.task.request.most_runs - len(self.folder.stored)
        names = f"{self._name(neighbours.bad)} and {self._name(neighbours.good)}, the one before it"
        if left < len(positions) or not self.may_go_on():
            self.task.tell(f"runs or time are used up: {names}, are not measured again to name the cause")
            return False
        made = neighbours.times_measured
        self.task.tell(
            f"{'pair' if self.paired else 'run'} {made + 1} of at most {MOST_PAIRS} of {names}: for the cause"
        )
        try:
            for position in positions:
                self._measure(position, neighbours.good)
        except Stopped:
            raise
        except (RunFailed, NoMetric, NoTurns) as why:
            self.task.tell(f"the cause is not measured further: {self._failure(why, neighbours.bad)}")
            return False
        return True

    def _failure(self, why: Exception, position: int) -> str:
        """Return the name of the item that failed, which may be the other one of a pair, and the reason."""
        return f"{self._name(why.item if isinstance(why, ItemFailed) else position)}: {why}"

    def _measure(self, position: int, beside: int = 0) -> StoredMeasurement:
        number, began = self.folder.next_number(), clock()
        runner = self.runner
        path = runner.run_pair(beside, position, number) if self.paired else runner.run(position, number)
        found = self._read(path)
        stored = StoredMeasurement(
            number,
            position,
            self.items.names[position],
            self.session,
            clock(),
            self.paired,
            path.resolve().relative_to(self.folder.path.resolve()).as_posix(),
            found.value,
            found.log_value,
            found.within,
            beside=beside if self.paired else 0,
        )
        self._keep(stored)
        self.spent.append(clock() - began)
        return stored

    def _keep(self, measured: StoredMeasurement) -> None:
        """Write a measurement with the starts of the command since the one before."""
        self.folder.add(replace(measured, started=self.runner.started - self.kept_starts))
        self.kept_starts = self.runner.started

    def _read(self, path: Path) -> MetricValue:
        """Return the metric of a run or a pair. Raises NoMetric."""
        options = self.task.request.options
        format = None if self.paired else options.format
        runs = inputs.read_runs([str(path)], format, options.trace_mode, mappings=self.task.ruleset.mappings)
        runs = with_computed(self.task.ruleset, runs, read_facts(options.env))
        if len(runs) != 1:
            raise NoMetric(f"wrote {len(runs)} runs: one process is one run")
        pairs = split_pairs(runs) if self.paired else None
        self.facts = (
            value_in_run(self.task.ruleset, runs[0]) if pairs is None else value_in_pair(self.task.ruleset, pairs)
        )
        return self.facts

    def cost(self, position: int) -> float:
        """Return the expected seconds of a measurement."""
        return self.runner.cost(position)

    def may_go_on(self) -> bool:
        """Return whether one more measurement would end within the time budget."""
        budget = self.task.request.time_budget
        if budget is None:
            return True
        longest = max(self.spent, default=0.0)
        return clock() - self.task.began + longest <= budget

    def show(self, position: int, found: Posterior | None) -> None:
        """Print the next item to measure, and the most probable answer so far."""
        count, most = len(self.folder.stored) + 1, self.task.request.most_runs
        line = f"run {count} of at most {most}: {self._name(position)} ({position} of {len(self.items.names) - 1})"
        if found is not None:
            cell = int(found.cells.argmax())
            low, high = int(found.edges[cell]), int(found.edges[cell + 1])
            change = math.expm1(found.change(cell)[0])
            where = self._name(high) if high - low == 1 else f"one of {high - low} up to {self._name(high)}"
            line += f"; so far {where} with {100 * found.changed[cell]:.0f} %, {100 * change:+.1f} %"
        self.task.tell(line)

    def _name(self, position: int) -> str:
        return self.items.names[position][: 12 if self.items.commits else None]
