"""The results that `inspect`, `baseline`, `rules` and `doctor` show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from perfgate.core.baseline import CalibratedPrior, KnownNoise
from perfgate.core.coverage import Coverage
from perfgate.core.details import AddedWork
from perfgate.core.runs import Fact, Key, Kind, Location, Problem, SourceFile


class SeriesSummary(Struct, frozen=True):
    """One series as `inspect` shows it: statistics over all its values, warm-up included, in base units."""

    key: Key
    unit: str
    kind: Kind
    n: int | None
    statistics: Mapping[str, float]
    #: Counts of values in equal bins from the smallest value to p99; the last bin has the values beyond, too.
    histogram: tuple[int, ...] = ()
    printed_as: str | None = None
    values: tuple[float, ...] | None = None
    #: For times and rates the number of warm-up values, and for times their sum in s.
    warmup_steps: int | None = None
    warmup_time: float | None = None


class RankSpread(Struct, frozen=True):
    """A metric of many ranks as one row: its usual statistic on the median, the slowest and the fastest rank.

    `key` is without rank and device, and `slowest_rank` and `fastest_rank` are `rank 7` or `device 1 rank 7`. The
    values are in base units. The slowest rank has the lowest rate, or the highest value of anything else.
    """

    key: Key
    unit: str
    ranks: int
    statistic: str
    median: float
    slowest: float
    slowest_rank: str
    fastest: float
    fastest_rank: str


class Portion(Struct, frozen=True):
    """A part of a time, in seconds; `share` is of the whole, `count` how often it occurred."""

    name: str
    seconds: float
    share: float
    count: int | None = None


class Straggler(Struct, frozen=True):
    """The slowest rank of one step: the seconds of its own work, and the seconds that all others waited, added up."""

    step: int
    rank: str
    own: float
    waited: float | None


class TraceView(Struct, frozen=True):
    """The part of a trace that `inspect` shows in addition to its series."""

    #: How a step is divided into parts: `corrected`, or as `tensorboard` did (torch_tb_profiler); None without steps.
    mode: str | None
    #: `parts` are means over this number of steps and ranks; the last part is the whole step.
    steps: int
    ranks: int
    parts: tuple[Portion, ...]
    #: By family (`kernel`, `op`, `range`): the names that took the most time, and the number of all names.
    top: Mapping[str, tuple[tuple[Portion, ...], int]]
    #: The steps in which the other ranks waited longest, or, without waits, those with the longest work of a rank.
    stragglers: tuple[Straggler, ...]


class RunSummary(Struct, frozen=True):
    """One run as `inspect` shows it."""

    source: str
    part: int | None
    format: str
    recognised_by: str | None
    environment: Mapping[str, Fact]
    series: tuple[SeriesSummary, ...]
    problems: tuple[Problem, ...]
    trace: TraceView | None = None
    #: The metrics that have too many ranks for a row each.
    spreads: tuple[RankSpread, ...] = ()
    #: How many numbers of the file, or of the files of a folder, were read.
    coverage: Coverage | None = None


class LevelSummary(Struct, frozen=True):
    """A level of the stored baselines: the times of its first and last run, and the approval that began it."""

    place: str
    runs: int
    first: str
    last: str
    by: str
    reason: str
    pr: int | None
    anchor: bool
    #: The metrics that the level adopts; empty means all.
    adopts: tuple[str, ...] = ()
    #: True if new runs are compared with it.
    current: bool = False
    #: The changes of its metrics since the level that it replaced, and since the anchor, as shares (0.04 is +4 %).
    since_parent: Mapping[Key, float] = field(default_factory=dict)
    since_anchor: Mapping[Key, float] = field(default_factory=dict)


class StoredRunSummary(Struct, frozen=True):
    """A stored run, its level as if it had this run alone, and the files it was read from."""

    run: RunSummary
    level: LevelSummary
    files: tuple[SourceFile, ...]
    #: The number of metrics that did not fit into the file.
    left_out: int = 0


class PriorSummary(Struct, frozen=True):
    """The calibrated noise of an environment: where it is stored, and when it was measured."""

    place: str
    time: str
    priors: tuple[CalibratedPrior, ...]


class Plan(Struct, frozen=True):
    """The change that one clause of a rule can detect with the stored runs.

    For a change: the noise of one run as relative standard deviations (between runs and within a run), the smallest
    change that `new_runs` detect (`detectable`), and the number of runs with which an unchanged program passes. For a
    percentile limit: the number of independent values needed to pass, and the number in the newest stored run.
    """

    rule: str
    metric: str
    labels: Mapping[str, str]
    statistic: str | None
    asks: str
    at: Location
    #: The level whose runs were used, `SUITE/ENVIRONMENT/LEVEL`.
    baseline: str | None
    power: float
    confidence: float
    tolerance: float | None = None
    base_runs: int | None = None
    new_runs: int | None = None
    noise_between: float | None = None
    noise_within: float | None = None
    calibrated: bool = False
    detectable: float | None = None
    #: The smallest change that fails (exit 1) in 8 of 10 cases, with the most runs that a gate makes.
    fails_from: float | None = None
    #: The change that exit code 0 excludes; `runs_needed` new runs exclude it for an unchanged program.
    at_worst: float | None = None
    runs_needed: int | None = None
    values_needed: int | None = None
    values_held: float | None = None
    advice: str = ""
    #: The reason why there is no plan; None if there is one.
    trouble: str | None = None
    #: The noise between runs that was known before; None if only the stored runs show it.
    noise: KnownNoise | None = None


class Proof(Struct, frozen=True):
    """The proof of one clause of a rule: the change of the user's own runs that makes it fail.

    `proven`: it fails at `fails_at`. `by-choice`: the rule says that it does not block. `unable`: no change makes it
    fail. `blocked`: it does not pass even without a change. `misses` is True if it reports a missing metric.
    """

    rule: str
    metric: str
    labels: Mapping[str, str]
    statistic: str | None
    asks: str
    at: Location
    state: Literal["proven", "by-choice", "unable", "blocked"]
    #: The exit code of `check` with the unchanged runs.
    exit_code: int
    reason: str
    unit: str | None = None
    shown_unit: str | None = None
    #: The smallest tested change that failed, relative to the base; for a limit, the value.
    fails_at: float | None = None
    kind: Literal["limit", "change"] = "limit"
    misses: bool = True


class RulesTable(Struct, frozen=True):
    """For runs compared with `against`: the change that each rule detects (not for pairs), and the proofs of rules."""

    against: str
    plans: tuple[Plan, ...]
    proofs: tuple[Proof, ...]
    #: The share of the time of all time metrics of the runs that a rule names; None without times.
    time_seen: float | None = None
    #: The rules that fail if a call is added to each step; empty for runs without exact work.
    added: tuple[AddedWork, ...] = ()
    #: By rule: a sentence that says how often it was wrong on main.
    records: Mapping[str, str] = {}


#: A way to measure a change against five base runs: one new run, pinned or by its CPU time, three runs, or six pairs.
Way = Literal["separate", "pinned", "cpu-time", "three-runs", "pairs"]


class Floor(Struct, frozen=True):
    """The noise floor of a way: the relative standard deviation of its results for unchanged code, from `runs` runs."""

    way: Way
    noise: float
    runs: int


class MeasuredLoad(Struct, frozen=True):
    """The noise floors of one program, or of one metric of the user's command."""

    name: str
    floors: tuple[Floor, ...]
    is_users: bool = False

    def floor(self, way: Way) -> Floor | None:
        """Return the floor of a way, if it was measured."""
        return next((floor for floor in self.floors if floor.way == way), None)


class Disturbance(Struct, frozen=True):
    """A condition of the machine that may make runs differ: `source` is its name, such as `governor`.

    `does_disturb` is True if it does so, and `is_unknown` if the condition cannot be seen here. `command` is a cure
    that a shell can run.
    """

    source: str
    text: str
    does_disturb: bool = False
    is_unknown: bool = False
    command: str | None = None


class RuleNeed(Struct, frozen=True):
    """The noise floor that a rule needs, and the floor of the machine; `place` is the rule's file and line."""

    rule: str
    place: str
    needs: float
    #: None if the command has no such metric.
    floor: Floor | None
    #: The load or the metric with this floor.
    measured_on: str
    #: The way with the smallest floor, if it is low enough for the rule.
    better: Floor | None = None

    @property
    def is_met(self) -> bool:
        """True if the machine is quiet enough, or nothing was measured."""
        return self.floor is None or self.floor.noise <= self.needs


class Examination(Struct, frozen=True):
    """Everything that `perfgate doctor` found."""

    cpus: int
    #: How long the examination took.
    seconds: float
    loads: tuple[MeasuredLoad, ...]
    disturbances: tuple[Disturbance, ...]
    needs: tuple[RuleNeed, ...]
    #: The processor of pinned runs.
    pinned_to: int | None = None
    #: The user's command as a shell word list; empty without one.
    command: str = ""
    notes: tuple[str, ...] = ()
    #: True in a repository with commits: pairs can compare with one.
    has_commits: bool = False

    @property
    def exit_code(self) -> int:
        """3 if a rule asks for more than the machine can see, or if no rule could be compared; or else 0."""
        return 0 if all(need.is_met for need in self.needs) and self.is_compared else 3

    @property
    def is_compared(self) -> bool:
        """True without rules, or if one of them was compared with a floor."""
        return not self.needs or any(need.floor is not None for need in self.needs)
