"""The runs of main that `perfgate history` remembers, as they are stored, and the changes of their facts.

`run_history` has these runs in the order of their commits, with the changes of each metric.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import date

from msgspec import Struct, field

from perfgate.core.runs import Fact, Key, Kind, fact_text, same_fact
from perfgate.core.verdicts import Better
from perfgate.core.wording import series_name

#: The fewest letters of an abbreviated commit.
_FEWEST_LETTERS = 7


class CommitNote(Struct, frozen=True):
    """A commit of the branch: who made it, when, and its tags."""

    sha: str
    time: str
    author: str
    subject: str
    tags: tuple[str, ...] = ()


class CommitLine(Struct, frozen=True):
    """The first parents of a branch, oldest first; `of` makes it."""

    ref: str
    commits: tuple[CommitNote, ...]
    #: The position of each commit by its hash, and the hashes in the order of their letters.
    _places: dict[str, int] = field(default_factory=dict)
    _sorted: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, ref: str, commits: Sequence[CommitNote]) -> CommitLine:
        """Return the line of these commits, oldest first."""
        places = {commit.sha: place for place, commit in enumerate(commits)}
        return cls(ref, tuple(commits), places, sorted(places))

    def place(self, commit: str | None) -> int | None:
        """Return the position of a commit, which may be abbreviated; None if it is not on the line, or ambiguous."""
        if commit is None:
            return None
        if commit in self._places or len(commit) < _FEWEST_LETTERS:
            return self._places.get(commit)
        at = bisect_left(self._sorted, commit)
        near = [sha for sha in self._sorted[at : at + 2] if sha.startswith(commit)]  # two: it is ambiguous
        return self._places[near[0]] if len(near) == 1 else None

    def between(self, good: str | None, bad: str | None) -> tuple[CommitNote, ...]:
        """Return the commits after `good` up to `bad`; empty if one of them is not on the line."""
        first, last = self.place(good), self.place(bad)
        return () if first is None or last is None else self.commits[first + 1 : last + 1]


class SeriesName(Struct, frozen=True, order=True):
    """The identity of a series of the history: a metric without rank and device, a statistic, and a choice of the rank.

    `rank` says which rank represents a run, such as `worst`; `across` takes all ranks together.
    """

    key: Key
    statistic: str
    rank: str = "worst"

    def __str__(self) -> str:
        chosen = f" on the {self.rank} rank" if self.rank in ("slowest", "fastest", "median") else ""
        across = " across ranks" if self.rank == "across" else chosen
        return series_name(self.key.metric, self.key.labels, self.statistic) + across


class HistoryValue(Struct, frozen=True):
    """One number of a run, in base units.

    `error` is its standard error within the run, in the same unit; None if it is unknown. `n` is the number of values
    behind it after warm-up, and `n_effective` their effective sample size; None for a number that a tool printed.
    """

    name: SeriesName
    unit: str
    better: Better
    kind: Kind
    value: float
    error: float | None = None
    n: int | None = None
    n_effective: float | None = None


class HistoryRun(Struct, frozen=True):
    """A remembered run without its numbers: its commit, its time and its machine.

    `time` is UTC, `YYYY-MM-DDTHH:MM:SSZ`. `id` is a hash of the measurements: a run that is added twice has one id.
    """

    id: str
    time: str
    commit: str | None = None
    #: The branch that was measured, such as `main`.
    ref: str | None = None
    #: The tags of the commit, which mark releases.
    tags: tuple[str, ...] = ()
    #: The facts that do not identify the environment: versions, driver, host.
    context: Mapping[str, Fact] = field(default_factory=dict)
    #: The tool that it was imported from; None for a run that perfgate read.
    imported_from: str | None = None

    @property
    def label(self) -> str:
        """The commit, as messages name it, or the time of a run without one."""
        return self.commit[:10] if self.commit else self.time


class HistoryRecord(Struct, frozen=True):
    """A remembered run of one suite and environment with its numbers."""

    suite: str
    #: The facts that identify the environment.
    identity: Mapping[str, Fact | None]
    run: HistoryRun
    values: tuple[HistoryValue, ...]


#: A fact that changes in more than this share of the runs, and more than _FEW times, does not explain a change of a
#: metric: the host in a pool of hosts, or a clock.
_OFTEN = 0.05
_FEW = 3


class ChangedFact(Struct, frozen=True):
    """A fact whose value differs between a run and the run before; `at` is the position of the later run."""

    at: int
    name: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.name} from {self.before} to {self.after}"


class ChangedFacts(Struct, frozen=True):
    """The changes of facts between runs."""

    #: The changes of facts that seldom change, which may explain a change of a metric: by name, then in order.
    steady: tuple[ChangedFact, ...]
    #: The names of facts that change often, with the number of their changes.
    often: tuple[tuple[str, int], ...]


def changed_facts(runs: Sequence[HistoryRun]) -> ChangedFacts:
    """Return the changes of facts between runs in order. For a run without a fact, its last known value counts."""
    found: dict[str, list[ChangedFact]] = {}
    known: dict[str, str] = {}
    last: Mapping[str, Fact] = {}
    for at, run in enumerate(runs):
        to_compare = {} if run.context == last else run.context  # quicker: most runs repeat all facts
        last = run.context
        for name, fact in to_compare.items():
            text = fact_text(fact)
            before = known.get(name)
            known[name] = text
            if before is not None and not same_fact(before, text):
                found.setdefault(name, []).append(ChangedFact(at, name, before, text))
    most = max(_FEW, _OFTEN * len(runs))
    steady = tuple(one for name in sorted(found) if len(found[name]) <= most for one in found[name])
    return ChangedFacts(steady, tuple((name, len(found[name])) for name in sorted(found) if len(found[name]) > most))


class FalseAlarms(Struct, frozen=True):
    """The false alarms of a rule about one metric, counted by judging the remembered runs by the rule.

    `low` and `high` are the one-sided 95 % bounds of their rate (Clopper and Pearson 1934).
    """

    rule: str
    #: The metric with its labels and statistic.
    series: str
    #: `SUITE/ENVIRONMENT` of the runs, and their branch (`""` if they do not name it).
    place: str
    branch: str
    alarms: int
    runs: int
    low: float
    high: float
    #: The last day of the proposed quarantine; None if the alarms are too few for one.
    quarantine_until: date | None = None

    @property
    def reason(self) -> str:
        """The reason of the proposed quarantine."""
        return f"{self.alarms} of {self.runs} unchanged runs of {self.branch or 'the history'} were red"
