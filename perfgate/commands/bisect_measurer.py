"""Measure one item of a bisected list with the user's program, alone or by turns with another item.

`ItemMeasurer.model` has the prior knowledge of a search, from the baseline and the history: the noise, and stored runs
of the ends (the first and the last item).
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.baselines.places import differences, identity_of
from perfgate.baselines.repository import StoredBaselines
from perfgate.baselines.stores import Store, open_store
from perfgate.bisect import ranges
from perfgate.bisect.measurements import Measurement, Model, StoredEnds, ends_of_history, stored_ends
from perfgate.bisect.posterior import Posterior
from perfgate.bisect.ranges import MetricValue, NoMetric, SearchedRange
from perfgate.bisect.search import NotMeasurable, SearchResult
from perfgate.bisect.session import BisectFolder, StoredMeasurement
from perfgate.commands.bisect_causes import MOST_PAIRS, Neighbours
from perfgate.commands.bisect_request import BisectRequest
from perfgate.core import Baseline, Fact, Run
from perfgate.core.remembered_runs import CommitLine
from perfgate.core.wording import plural
from perfgate.history.load import commit_line, load
from perfgate.judge.pairs import PRIORS, split_pairs
from perfgate.measuring.items import ItemFailed, ItemRunner
from perfgate.measuring.paired_run import NoTurns
from perfgate.measuring.programs import RunFailed, Stopped
from perfgate.measuring.until_settled import Tell
from perfgate.rules.ruleset import Ruleset
from perfgate.stats.history import DEFAULT
from perfgate.workspace import inputs
from perfgate.workspace.env_facts import merge_facts, read_facts
from perfgate.workspace.options import acceptance


class BisectTask(Struct, frozen=True):
    """The request, the one rule to measure, the smallest relative change to find, and the start (s since 1970)."""

    request: BisectRequest
    ruleset: Ruleset
    tolerance: float
    tell: Tell
    began: float


class ItemMeasurer(Struct):
    """Measures items, which are named by their position, with the user's program, and keeps each measurement.

    First call `begin`. `search` calls `measure`, `cost` and `may_go_on`.
    """

    task: BisectTask
    items: SearchedRange
    folder: BisectFolder
    runner: ItemRunner
    #: How often the search was interrupted before.
    session: int
    #: True if items are measured by turns with the first one.
    paired: bool = False
    #: The last run or pair that was read, and the metric in it.
    runs: tuple[Run, ...] = ()
    facts: MetricValue | None = None
    #: The seconds of each measurement since this command began.
    spent: list[float] = field(default_factory=list)
    #: The number of starts of the command whose measurements are kept.
    kept_starts: int = 0

    def begin(self) -> str | None:
        """Measure once, unless that was done, to see if the program takes turns; return why it failed, or None."""
        last, most = len(self.items.names) - 1, self.task.request.most_runs
        known = next((one for one in self.folder.stored if one.skipped is None), None)
        try:
            if known is not None:
                self.paired = known.paired
                self._read(self.folder.path / known.results)
                return None
            self.paired = not self.task.request.whole_runs
            if self.paired:
                first = f"run 1 of at most {most}: {self._name(last)} beside {self._name(0)}"
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
        """Return the prior knowledge of a search: the noise of stored runs or the default, and the levels of the ends.

        Stored runs have the same metric, statistic and environment. Those of the baseline only count if the request
        has a rule. Levels are not used for pairs, whose values are ratios.
        """
        assert self.facts is not None
        options, ruleset, items, runs = self.task.request.options, self.task.ruleset, self.items, self.runs
        # The noise: a standard deviation of logarithms, with its degrees of freedom.
        known = PRIORS["in-turn"] if self.paired else (DEFAULT.s0, DEFAULT.d0)
        s0, d0 = known
        model = Model(len(items.names), s0=s0, d0=d0, paired=self.paired, tolerance=self.task.tolerance)
        if not Path(options.baselines).is_dir():
            return model
        facts, _ = merge_facts(list(runs), read_facts(options.env), ruleset.identity)
        store, baseline = open_store(options.baselines), Baseline()
        if self.task.request.rule is not None:
            baseline = StoredBaselines(store, ruleset).load(facts, acceptance(options)).baseline
        pairs = split_pairs(runs) if self.paired else None
        run = pairs.new[0] if pairs else runs[0]
        s0, d0 = ranges.prior_of(ruleset, run, baseline, "in-turn" if self.paired else None)
        if self.paired:
            return replace(model, s0=s0, d0=d0)
        ends = _of_history(store, options.suite, items, self.facts, facts)
        ends = ends if ends.levels else _of_baseline(ruleset, items, baseline)
        if (s0, d0) == known and ends.noise is not None:  # the baseline has no calibrated noise
            s0, d0 = ends.noise
        for level in ends.levels:
            count, name = plural(level.runs, "stored run"), items.names[level.position][:12]
            self.task.tell(f"{count} of the level of {name} count, as long as new ones agree with them")
        return replace(model, s0=s0, d0=d0, stored=ends.levels)

    def measure(self, position: int) -> Measurement:
        """Measure an item and keep the result. Raises NotMeasurable and Stopped."""
        try:
            return self.folder.measurement(self._measure(position))
        except Stopped:
            raise
        except (RunFailed, NoMetric, NoTurns) as why:
            reason = self._failure(why, position)
            is_end = position in (0, len(self.items.names) - 1)
            if not is_end:  # the next start of the command tries an end again, so that is not kept
                number = self.folder.next_number()
                name = self.items.names[position]
                own = reason.removeprefix(f"{self._name(position)}: ")
                kept = StoredMeasurement(number, position, name, self.session, time.time(), self.paired, skipped=own)
                self._keep(kept)
                self.task.tell(f"{self._name(position)} is skipped: {own}")
                raise NotMeasurable(own) from None
            raise NotMeasurable(f"an end cannot be measured: {reason}") from None

    def measure_neighbours(self, result: SearchResult) -> bool:
        """Measure the item that was found and the one before it once more, if that may name the cause.

        Return False if nothing is missing, if runs or time are used up, or if a measurement failed. Raises Stopped.
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
        """Return the reason after the name of the item that failed, which may be the other one of a pair."""
        return f"{self._name(why.item if isinstance(why, ItemFailed) else position)}: {why}"

    def _measure(self, position: int, beside: int = 0) -> StoredMeasurement:
        """Measure an item, in pairs beside another one, and keep it. Raises RunFailed, NoMetric and NoTurns."""
        number, began, runner = self.folder.next_number(), time.time(), self.runner
        path = runner.run_pair(beside, position, number) if self.paired else runner.run(position, number)
        found = self._read(path)
        results = path.resolve().relative_to(self.folder.path.resolve()).as_posix()
        stored = StoredMeasurement(
            number, position, self.items.names[position], self.session, time.time(), self.paired, results=results,
            value=found.value, log_value=found.log_value, within=found.within, beside=beside if self.paired else 0,
        )  # fmt: skip
        self._keep(stored)
        self.spent.append(time.time() - began)
        return stored

    def _keep(self, measured: StoredMeasurement) -> None:
        """Write a measurement, with the number of starts of the command since the measurement before."""
        self.folder.add(replace(measured, started=self.runner.started - self.kept_starts))
        self.kept_starts = self.runner.started

    def _read(self, path: Path) -> MetricValue:
        """Return the metric of a run or a pair. Raises NoMetric."""
        options = self.task.request.options
        format = None if self.paired else options.format  # perfgate itself wrote the pair, from files of that format
        runs = inputs.read_runs([str(path)], format, options.trace_mode, mappings=self.task.ruleset.mappings)
        self.runs = runs = ranges.with_computed(self.task.ruleset, runs, read_facts(options.env))
        if len(runs) != 1:
            raise NoMetric(f"wrote {len(runs)} runs: one process is one run")
        pairs, ruleset = split_pairs(runs) if self.paired else None, self.task.ruleset
        self.facts = ranges.value_in_run(ruleset, runs[0]) if pairs is None else ranges.value_in_pair(ruleset, pairs)
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
        return time.time() - self.task.began + longest <= budget

    def show(self, position: int, found: Posterior | None) -> None:
        """Print the next item to measure, and the most probable answer so far."""
        count, most = len(self.folder.stored) + 1, self.task.request.most_runs
        line = f"run {count} of at most {most}: {self._name(position)} ({position} of {len(self.items.names) - 1})"
        if found is not None:
            cell = int(found.cells.argmax())  # the most probable place: the items after `low`, up to `high`
            low, high = int(found.edges[cell]), int(found.edges[cell + 1])
            change = math.expm1(found.change(cell)[0])
            where = self._name(high) if high - low == 1 else f"one of {high - low} up to {self._name(high)}"
            line += f"; so far {where} with {100 * found.changed[cell]:.0f} %, {100 * change:+.1f} %"
        self.task.tell(line)

    def _name(self, position: int) -> str:
        return self.items.names[position][: 12 if self.items.commits else None]


def _of_history(
    store: Store, suite: str | None, items: SearchedRange, metric: MetricValue, facts: dict[str, Fact]
) -> StoredEnds:
    """Return the levels of the ends from the history of the metric's worst rank; empty without one such series."""
    if not items.commits:
        return StoredEnds()
    found = load(store, metric=metric.metric.partition("{")[0], suite=suite)
    series = [
        one
        for place in found.environments
        if not differences(place.identity, identity_of(facts, list(place.identity)))
        for one in place.series
        if (str(one.name.key), one.name.rank, one.unit) == (metric.metric, "worst", metric.unit)
        and metric.statistic in (None, one.name.statistic)
    ]
    good, bad = items.names[0], items.names[-1]
    if len(series) != 1 or found.line is None:
        return StoredEnds()
    return ends_of_history(series[0], found.line, good, bad, len(items.names) - 1)


def _of_baseline(ruleset: Ruleset, items: SearchedRange, baseline: Baseline) -> StoredEnds:
    """Return the stored runs as the level of the first item, if their commits are all at or before it; or empty."""
    line: CommitLine | None = commit_line([items.names[0]]) if items.commits else None
    if line is None or not baseline.runs or any(line.place(run.commit) is None for run in baseline.runs):
        return StoredEnds()
    try:
        return stored_ends({0: [ranges.value_in_run(ruleset, run).value for run in baseline.runs]})
    except NoMetric:
        return StoredEnds()
