"""The noise of the user's command, and the noise floors that the rules need.

A noise floor is the change that an unchanged program seems to have; see `loads`. With a command, a rule is compared
with the floor of its metric. Without one, it is compared with that of the quietest known load, because no program on
this machine can be expected to have less.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from msgspec import Struct, field

from perfgate.analysis.plan import plans
from perfgate.analysis.tolerances import value_of
from perfgate.core import Baseline, Run
from perfgate.core.file_mappings import FileMapping
from perfgate.core.summaries import MeasuredLoad, RuleNeed
from perfgate.core.wording import COMMAND
from perfgate.doctor.loads import FEWEST, floors_of, needed_floor
from perfgate.judge.evidence import Case
from perfgate.judge.measure import default_statistic
from perfgate.measuring.command_cost import command_cost
from perfgate.measuring.kept_runs import ProgramSide, new_run
from perfgate.measuring.lockstep import SIDES, listening
from perfgate.measuring.paired_run import NoTurns, steps_by_turns
from perfgate.measuring.programs import RunFailed, finish
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.sentence import ChangeClause
from perfgate.workspace.inputs import read_runs
from perfgate.workspace.surroundings import today

#: The number of every run, except in pairs: a program may choose its input by it, and all runs need the same.
_NUMBER = 1
#: The most rounds: more runs hardly improve the estimate of the noise.
_MOST_ROUNDS = 12
#: The runs of a full round: a separate one, a pinned one, and the two of a pair.
_RUNS_A_ROUND = 4


class CommandPlan(Struct, frozen=True):
    """The command, the files that it writes, and how long to measure, in seconds."""

    words: tuple[str, ...]
    results: tuple[str, ...] = ()
    seconds: float = 120.0
    timeout: float = 600.0
    hook_timeout: float = 20.0
    #: Further environment variables.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: The mappings of files of the team's own tools.
    mappings: Sequence[FileMapping] = ()

    def side(self, cpu: int | None = None) -> ProgramSide:
        """Return the program, on one processor or on all."""
        return ProgramSide(self.words, environment=self.environment, cpus=None if cpu is None else frozenset({cpu}))

    def read(self, path: Path) -> list[Run]:
        """Return the first run at a path, in a list."""
        return list(read_runs([str(path)], mappings=self.mappings)[:1])


class CommandRuns(Struct):
    """The runs of a command in each way; all of them are the same program."""

    #: Single runs; single runs on one processor; and the two sides of pairs, which take steps by turns.
    separate: list[Run] = field(default_factory=list)
    pinned: list[Run] = field(default_factory=list)
    base: list[Run] = field(default_factory=list)
    new: list[Run] = field(default_factory=list)
    #: The costs of the separate commands by metric: time and CPU time in s, and counts of the CPU if it shows them.
    costs: dict[str, list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def load(self, metric: str, labels: Mapping[str, str] | None = None, statistic: str | None = None) -> MeasuredLoad:
        """Return the floors of a metric. Labels and statistic are those of a rule; None for all, and for the usual."""
        stem = metric.removesuffix(".time")  # a Recorder with counters writes `step.cpu_time` beside `step.time`
        separate, pinned, base, new = (
            _values(runs, metric, labels, statistic) for runs in (self.separate, self.pinned, self.base, self.new)
        )
        cpu_times = _values(self.separate, f"{stem}.cpu_time", labels, statistic)
        return MeasuredLoad(metric, floors_of(separate, pinned, cpu_times, (base, new)), is_users=True)

    def whole(self) -> MeasuredLoad:
        """Return the floors of the time of the whole command."""
        times, cpu_times = (self.costs.get(f"{COMMAND}{name}", []) for name in ("time", "cpu_time"))
        floors = floors_of(times, pinned=(), cpu_times=cpu_times, pairs=((), ()))
        return MeasuredLoad("the whole command", floors, is_users=True)


def measure_command(plan: CommandPlan, folder: Path, cpu: int | None) -> CommandRuns:
    """Run a command repeatedly, in each way by turns, for about the planned time. Raises RunFailed.

    `cpu`: the processor for pinned runs; None makes none.
    """
    found, began = CommandRuns(), time.monotonic()
    _separate(plan, folder, found, 0)
    rounds = _rounds(plan, time.monotonic() - began, found)
    takes_turns = has_time = not found.notes  # `_rounds` notes that there is too little time
    with listening() as listener:
        for number in range(rounds):
            if number:
                _separate(plan, folder, found, number)
            if has_time and cpu is not None:
                found.pinned += _one(plan, folder / f"pinned-{number}", plan.side(cpu))
            if not takes_turns:
                continue
            sides, times = {name: plan.side() for name in SIDES}, (plan.hook_timeout, plan.timeout)
            try:
                made = steps_by_turns(listener, folder / f"pair-{number}", sides, number, plan.results, times)
            except NoTurns as why:
                found.notes.append(f"no pairs were measured: {why}")
                takes_turns = False
            else:
                found.base += plan.read(made["base"])
                found.new += plan.read(made["new"])
    return found


def _rounds(plan: CommandPlan, took: float, found: CommandRuns) -> int:
    """Return the number of rounds that fit into the time, at most 12; `took` is the time of the first run in s.

    If too few full rounds fit, rounds have separate runs only, and a note says so. Raises RunFailed if too few of these
    fit.
    """
    if FEWEST * took > plan.seconds:
        needed = f"{math.ceil(FEWEST * took)}s"
        raise RunFailed(f"one run takes {took:.0f} s: `--time {needed}` measures its noise with {FEWEST} runs")
    fitting = int(plan.seconds / max(_RUNS_A_ROUND * took, 1e-3))
    if fitting >= FEWEST:
        return min(fitting, _MOST_ROUNDS)
    needed = f"{math.ceil(FEWEST * _RUNS_A_ROUND * took)}s"
    found.notes.append(f"pinned runs and pairs of your command were not measured: they need `--time {needed}`")
    return min(int(plan.seconds / took), _MOST_ROUNDS)


def _separate(plan: CommandPlan, folder: Path, found: CommandRuns, number: int) -> None:
    """Make one separate run, and keep its costs."""

    def note(metric: str, value: float, unit: str) -> None:
        found.costs.setdefault(metric, []).append(value)

    found.separate += _one(plan, folder / f"run-{number}", plan.side(), note)


def _one(
    plan: CommandPlan,
    path: Path,
    side: ProgramSide,
    note: Callable[[str, float, str], None] = lambda metric, value, unit: None,
) -> list[Run]:
    """Run the command once; return its run, or nothing if it writes and prints nothing."""
    with new_run(path, side, _NUMBER, plan.results) as run:
        with command_cost(note):
            finish(run.start(), plan.timeout)
        try:
            return plan.read(run.collect())
        except RunFailed:  # it wrote and printed nothing
            return []


def _values(runs: Sequence[Run], metric: str, labels: Mapping[str, str] | None, statistic: str | None) -> list[float]:
    """Return the statistic of each run, the mean over its series (of ranks); empty if a run lacks it."""
    found = []
    for run in runs:
        wanted = (labels or {}).items()
        own = [one for one in run.series if one.key.metric == metric and wanted <= dict(one.key.labels).items()]
        values = [value_of(one, statistic or default_statistic(one)) for one in own]
        if not (known := [value for value in values if value is not None]):
            return []
        found.append(fmean(known))
    return found


#: Words in the names of metrics without noise from the machine (bytes, counts, work), for rules without measured runs.
_QUIET = ("memory", "bytes", "count", "instructions", "flops", "loss", "accuracy")


def _change_rules(ruleset: Ruleset) -> list[tuple[Rule, ChangeClause]]:
    """Return each clause that compares with stored runs by a relative tolerance, with its rule."""
    return [
        (rule, clause.asks)
        for rule in ruleset.rules
        for clause in rule.clauses
        if isinstance(clause.asks, ChangeClause) and clause.asks.is_stored and clause.asks.relative
    ]


def needs_of_loads(ruleset: Ruleset, loads: Sequence[MeasuredLoad]) -> Iterator[RuleNeed]:
    """Yield the floor that each rule about a change needs, and that of the quietest known load."""
    known = [(floor.noise, load) for load in loads if (floor := load.floor("separate")) is not None]
    if not known:
        return
    load = min(known, key=lambda one: one[0])[1]
    for rule, clause in _change_rules(ruleset):
        if not any(word in rule.sentence.subject_text.lower() for word in _QUIET):
            given = rule.settings.at_worst.relative if rule.settings.at_worst is not None else None
            at_worst = 2 * (clause.relative or 0.0) if given is None else given  # the default: twice the tolerance
            yield _need(str(rule.at), rule, at_worst, load)


def needs_of_command(ruleset: Ruleset, runs: CommandRuns) -> Iterator[RuleNeed]:
    """Yield the floor that each rule about a change needs, and that of its metric in the runs of the command."""
    rules = {rule.name: rule for rule in ruleset.rules}
    asked = {rule.name for rule, _ in _change_rules(ruleset)}
    for plan in plans(Case(ruleset, new=(), baseline=Baseline(runs=tuple(runs.separate)), today=today())):
        # Bytes and counts have no noise, so the trouble of their plans says that they are compared without it.
        if plan.rule not in asked or (plan.trouble is not None and "without noise" in plan.trouble):
            continue
        load = runs.load(plan.metric, plan.labels, plan.statistic)
        # Without `at_worst`, the clause is about a limit or the anchor, or has no plan: only an absent metric is named.
        if plan.at_worst is not None:
            yield _need(str(plan.at), rules[plan.rule], plan.at_worst, load)
        elif not load.floors:  # the runs lack the metric; `needs` is not shown then
            yield RuleNeed(plan.rule, str(plan.at), needs=0.0, floor=None, measured_on=plan.metric)


def _need(place: str, rule: Rule, at_worst: float, load: MeasuredLoad) -> RuleNeed:
    """Return the floor that a rule needs, that of a load, and a way to run with a small enough one, if there is any."""
    needs = needed_floor(at_worst, rule.settings.confidence, rule.settings.power)
    floor = load.floor("separate")
    quiet = [other for other in load.floors if other.way != "separate" and other.noise <= needs]
    better = min(quiet, key=lambda other: other.noise, default=None)
    return RuleNeed(rule.name, place, needs, floor, load.name, better)
