"""`perfgate bisect`: measure the items of a list until one is probable to have changed a metric."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from perfgate.bisect.measurements import Measurement, Model
from perfgate.bisect.metric import MetricValue, NoMetric, value_in_pair, value_in_run, with_computed
from perfgate.bisect.posterior import Posterior
from perfgate.bisect.ranges import SearchedRange, commit_range, inside_merge, item_range
from perfgate.bisect.search import NotMeasurable, SearchResult, Terms, search
from perfgate.bisect.session import BisectFolder, StoredMeasurement, open_folder
from perfgate.commands.bisect_answer import AnswerParts, answer
from perfgate.commands.bisect_causes import MOST_PAIRS, Neighbours
from perfgate.commands.bisect_history import from_history
from perfgate.commands.bisect_prior import MeasuredStart, PriorQuestion, prior_model
from perfgate.commands.bisect_request import BisectRequest
from perfgate.commands.compare import asked_change, metric_rule
from perfgate.core.bisection import BisectReport
from perfgate.core.trained_model import HFU, MFU
from perfgate.core.wording import plural
from perfgate.judge.pairs import split_pairs
from perfgate.measuring.items import ItemFailed, ItemRunner, clock, item_runner
from perfgate.measuring.keeping import claim
from perfgate.measuring.paired_run import NoTurns
from perfgate.measuring.programs import RunFailed, Stopped, stopped_by_signals
from perfgate.measuring.until_settled import Tell
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.syntax.cursor import SentenceError
from perfgate.rules.syntax.grammar import parse_expression
from perfgate.rules.syntax.sentence import ChangeClause, Selector
from perfgate.workspace import inputs
from perfgate.workspace.env_facts import read_facts
from perfgate.workspace.mapping_source import no_rules
from perfgate.workspace.options import Refused
from perfgate.workspace.rule_source import WORKING_TREE, read_ruleset
from perfgate.workspace.surroundings import git

#: The smallest change that is searched for, if neither the user nor the rule says it.
_TOLERANCE = 0.02


def bisect(request: BisectRequest, tell: Tell) -> BisectReport:
    """Search a list for the item that changed a metric. Raises Refused for usage errors, and after a signal (3)."""
    if request.from_history is not None:
        request = from_history(request, request.from_history, tell)
    ruleset, tolerance = _ruleset(request)
    request = replace(request, program=replace(request.program, mappings=ruleset.mappings))
    items = item_range(request.over) if request.over else commit_range(request.good or "", request.bad or "HEAD")
    if items.commits and git("status", "--porcelain", "--untracked-files=no", what="the working tree cannot be read"):
        tell("note: uncommitted changes are left alone and are not measured: only commits are")
    search_one = _ListSearch(request, ruleset, tolerance, tell, began=clock())
    try:
        with stopped_by_signals():
            found = search_one.run(items, Path(request.keep))
            while (
                request.full and found.outcome == "found" and len(found.blamed) == 1 and found.suspects[0].item.is_merge
            ):
                merge = items.commits[found.blamed[0]]
                inner = inside_merge(merge)
                if inner is None:
                    break
                tell(f"{merge.sha[:12]} is a merge: searching the {len(inner.names) - 1} commits that it brought")
                inside = search_one.run(inner, Path(request.keep) / f"inside-{merge.sha[:12]}")
                if inside.outcome != "found":
                    note = f"the commits of the merge alone do not explain it: {inside.message}"
                    return replace(found, notes=(*found.notes, note))
                items, found = inner, replace(inside, inside=found.suspects[0].item)
            return found
    except Stopped as stopped:
        step = "the same command goes on from there"
        raise Refused(f"{stopped}: what was measured is kept in {request.keep}; {step}", 3) from None


def _ruleset(request: BisectRequest) -> tuple[Ruleset, float]:
    """Return a ruleset with the one rule to measure, and the tolerance. Raises Refused."""
    tolerance = None
    if request.tolerance is not None:
        asks = asked_change(None, request.tolerance).asks
        assert isinstance(asks, ChangeClause)
        tolerance = asks.relative
    if request.metric is not None:
        clause = asked_change(request.statistic, "5%")
        rule = metric_rule(request.metric, request.statistic, clause)
        if (labelled := _labelled(request.metric)) is not None:
            rule = replace(rule, sentence=replace(rule.sentence, subject=labelled))
        return replace(_without_rules(request), rules=(rule,)), _TOLERANCE if tolerance is None else tolerance
    ruleset = read_ruleset(WORKING_TREE, request.options.rules, request.options.suite)
    chosen = [rule for rule in ruleset.rules if rule.name == request.rule]
    if not chosen:
        known = ", ".join(rule.name for rule in ruleset.rules[:20])
        raise Refused(f"--rule {request.rule}: unknown rule; the rules are {known}")
    found = [clause.asks.relative for clause in chosen[0].clauses if isinstance(clause.asks, ChangeClause)]
    own = next((value for value in found if value), _TOLERANCE)
    return replace(ruleset, rules=(chosen[0],)), own if tolerance is None else tolerance


def _without_rules(request: BisectRequest) -> Ruleset:
    """Return the mappings of the rule files, their derived metrics, and the model that `mfu` and `hfu` need.

    A plain metric needs no rule files, so mistakes in them do not matter. Raises Refused.
    """
    without = no_rules("bisect", request.options.rules)
    there = [path for path in request.options.rules if os.path.exists(path)]
    if not there or not WORKING_TREE.has_rules(there):
        return without
    try:
        known = read_ruleset(WORKING_TREE, there, request.options.suite)
    except Refused:
        if (request.metric or "").partition("{")[0] in (MFU, HFU):
            raise
        return without
    return replace(without, metrics=known.metrics, model=known.model)


def _labelled(metric: str) -> Selector | None:
    """Return a metric with labels, `forward{rank="0"}`; None for a plain name."""
    try:
        found = parse_expression(metric) if metric.endswith("}") else None
    except SentenceError:
        return None
    return found if isinstance(found, Selector) else None


@dataclass(slots=True)
class _ListSearch:
    """Searches one list after another with the same program and metric."""

    request: BisectRequest
    ruleset: Ruleset
    tolerance: float
    tell: Tell
    began: float

    def run(self, items: SearchedRange, path: Path) -> BisectReport:
        """Search one list, or go on with it. Raises Refused and Stopped."""
        request = self.request
        keep = path.as_posix()
        try:
            path.mkdir(parents=True, exist_ok=True)
            claim(path, keep, "perfgate bisect")
        except OSError as error:
            raise Refused(f"--keep {keep}: cannot be made: {error.strerror or error}") from None
        folder = open_folder(path, keep, self._question(items))
        if folder.stored:
            self.tell(f"going on with {plural(len(folder.stored), 'measurement')} in {keep}")
        with item_runner(request.program, path, items.names, items.commits) as runner:
            measurer = _ItemMeasurer(self, items, folder, runner, session=folder.session)
            fault = measurer.begin()
            result, stored = None, False
            if fault is None:
                terms = Terms(most_runs=request.most_runs)
                model = measurer.model()
                stored = bool(model.stored)
                result = search(model, terms, measurer, folder.evidence(), measurer.show)
                while measurer.measure_neighbours(result):
                    result = search(model, terms, measurer, folder.evidence(), measurer.show)
                self.tell(f"{plural(len(folder.stored), 'measurement')} kept in {keep}")
            return answer(AnswerParts(items, folder, result, fault, self.tolerance, measurer.facts, keep, stored))

    def _question(self, items: SearchedRange) -> Mapping[str, object]:
        """Return everything that the measurements depend on, but not when the search ends."""
        request, rule = self.request, self.ruleset.rules[0]
        program = request.program
        return {
            "schema": "perfgate.bisect-question/1",
            "items": [items.names[0], len(items.names), items.names[-1]] if items.commits else list(items.names),
            "metric": rule.sentence.text,
            "command": list(program.command),
            "build": list(program.build),
            "results": list(program.results),
            "format": program.format,
            "whole-runs": request.whole_runs,
        }


@dataclass(slots=True)
class _ItemMeasurer:
    """Measures items with the user's program, and keeps each measurement."""

    search: _ListSearch
    items: SearchedRange
    folder: BisectFolder
    runner: ItemRunner
    session: int
    paired: bool = False
    #: The metric as the last run had it.
    facts: MetricValue | None = None
    #: The seconds of all measurements of this start.
    spent: list[float] = field(default_factory=list)

    def begin(self) -> str | None:
        """Measure once if nothing was, to know whether the program takes turns; return why that is not possible."""
        last = len(self.items.names) - 1
        known = next((one for one in self.folder.stored if one.skipped is None), None)
        try:
            if known is not None:
                self.paired = known.paired
                self._read(self.folder.path / known.results)
                return None
            self.paired = not self.search.request.whole_runs
            if self.paired:
                first = f"run 1 of at most {self.search.request.most_runs}: {self._name(last)} beside {self._name(0)}"
                self.search.tell(f"{first}, by turns if the program has steps")
                try:
                    self._measure(last)
                except NoTurns as why:
                    self.search.tell(f"{why}; whole runs instead")
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
        """Return what is known before the search."""
        assert self.facts is not None
        search, options = self.search, self.search.request.options
        first = next(one for one in self.folder.stored if one.skipped is None)
        path = str(self.folder.path / first.results)
        runs = inputs.read_runs([path], options.format, mappings=search.ruleset.mappings)
        runs = with_computed(search.ruleset, runs, read_facts(options.env))
        start = MeasuredStart(runs, self.facts, self.paired)
        asked = PriorQuestion(options, search.ruleset, search.request.rule is not None, self.items)
        return replace(prior_model(asked, start, search.tell), tolerance=search.tolerance)

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
                self.folder.add(
                    StoredMeasurement(number, position, name, self.session, clock(), self.paired, skipped=own)
                )
                self.search.tell(f"{self._name(position)} is skipped: {own}")
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
        left = self.search.request.most_runs - len(self.folder.stored)
        names = f"{self._name(neighbours.bad)} and {self._name(neighbours.good)}, the one before it"
        if left < len(positions) or not self.may_go_on():
            self.search.tell(f"runs or time are used up: {names}, are not measured again to name the cause")
            return False
        made = neighbours.times_measured
        self.search.tell(
            f"{'pair' if self.paired else 'run'} {made + 1} of at most {MOST_PAIRS} of {names}: for the cause"
        )
        try:
            for position in positions:
                self._measure(position, neighbours.good)
        except Stopped:
            raise
        except (RunFailed, NoMetric, NoTurns) as why:
            self.search.tell(f"the cause is not measured further: {self._failure(why, neighbours.bad)}")
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
        self.folder.add(stored)
        self.spent.append(clock() - began)
        return stored

    def _read(self, path: Path) -> MetricValue:
        """Return the metric of a run or a pair. Raises NoMetric."""
        options = self.search.request.options
        format = None if self.paired else options.format
        runs = inputs.read_runs([str(path)], format, options.trace_mode, mappings=self.search.ruleset.mappings)
        runs = with_computed(self.search.ruleset, runs, read_facts(options.env))
        if len(runs) != 1:
            raise NoMetric(f"wrote {len(runs)} runs: one process is one run")
        pairs = split_pairs(runs) if self.paired else None
        self.facts = (
            value_in_run(self.search.ruleset, runs[0]) if pairs is None else value_in_pair(self.search.ruleset, pairs)
        )
        return self.facts

    def cost(self, position: int) -> float:
        """Return the expected seconds of a measurement."""
        return self.runner.cost(position)

    def may_go_on(self) -> bool:
        """Return whether one more measurement would end within the time budget."""
        budget = self.search.request.time_budget
        if budget is None:
            return True
        longest = max(self.spent, default=0.0)
        return clock() - self.search.began + longest <= budget

    def show(self, position: int, found: Posterior | None) -> None:
        """Tell what is measured next, and what is most probable so far."""
        count, most = len(self.folder.stored) + 1, self.search.request.most_runs
        line = f"run {count} of at most {most}: {self._name(position)} ({position} of {len(self.items.names) - 1})"
        if found is not None:
            cell = int(found.cells.argmax())
            low, high = int(found.edges[cell]), int(found.edges[cell + 1])
            change = math.expm1(found.change(cell)[0])
            where = self._name(high) if high - low == 1 else f"one of {high - low} up to {self._name(high)}"
            line += f"; so far {where} with {100 * found.changed[cell]:.0f} %, {100 * change:+.1f} %"
        self.search.tell(line)

    def _name(self, position: int) -> str:
        return self.items.names[position][: 12 if self.items.commits else None]
