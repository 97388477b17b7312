"""Ways to make a run worse on purpose, which a rule must detect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Key, Run, Series, Verdict, read_only
from perfgate.core.details import AddedWork
from perfgate.core.results import LOOKS
from perfgate.core.runs import Values
from perfgate.core.wording import synonyms
from perfgate.judge.derived import component_names, read_by
from perfgate.judge.evidence import Case
from perfgate.judge.verdicts import judge
from perfgate.rules.ruleset import DerivedMetric, Rule, Ruleset
from perfgate.rules.syntax.sentence import Selector, selectors

#: The amounts by which each way makes runs worse; the first is just beyond the limit of `_beyond_the_edge`.
AMOUNTS = (1.001, 1.02, 1.05, 1.08, 1.12, 1.2, 1.3, 1.5, 1.75, 2.0, 3.0, 5.0, 10.0, 100.0, 1000.0)
#: A way that can make a rule fail does so at one of these amounts. The largest alone is not enough: a way that removes
#: values leaves too few then.
TELLING = (AMOUNTS[-1], 2.0, 3.0)
#: Statistics that do not change if every value is scaled.
_UNSCALED = ("count", "cv", "calls")
#: The tail is the values above this quantile.
_TAIL = 0.9
Labels = tuple[tuple[str, str], ...]


class Way(Struct, frozen=True):
    """One way to make runs worse."""

    #: Returns the worse series for an amount above 1.
    distorted: Callable[[Series, float], Series]
    #: The metrics, the rank (and device) and the clause that the way is for; each None for all.
    names: Sequence[str] | None = None
    member: Labels | None = None
    clause: str | None = None

    def applied(self, run: Run, amount: float) -> Run:
        """Return the run, made worse by this amount."""
        series = list(run.series)
        for at, one in enumerate(series):
            is_named = self.names is None or one.key.metric in self.names
            if is_named and self.member in (None, one.key.member()):
                series[at] = self.distorted(one, amount)
        return replace(run, series=tuple(series))


def ways(rule: Rule, ruleset: Ruleset, runs: Sequence[Run], verdicts: Sequence[Verdict]) -> Iterator[Way]:
    """Yield the ways to make the series of a rule worse, the simplest first."""
    for clause in dict.fromkeys(verdict.asks for verdict in verdicts):
        yield _beyond_the_edge(clause, [verdict for verdict in verdicts if verdict.asks == clause])
    reads = reading(rule, ruleset)
    names = sorted({series.key.metric for run in runs for series in run.series if reads(series.key)})
    plain = isinstance(rule.sentence.subject, Selector) and not _derived(rule, ruleset)
    # of a formula, each metric alone: some formulas, such as a ratio, stay the same if all change
    for some in [names] if plain else [[name] for name in names]:
        yield from _of_metrics(some, rule, runs)


def _of_metrics(names: Sequence[str], rule: Rule, runs: Sequence[Run]) -> Iterator[Way]:
    """Yield the ways to make these metrics of a rule worse together."""
    yield from (Way(_times, names), Way(_divided, names))
    yield _changed(names, lambda values, by: np.where(values > np.quantile(values, _TAIL), values * by, values))
    yield from (_lifted(names, clause.quantity.value) for clause in rule.clauses if clause.quantity is not None)
    members = sorted({one.key.member() for run in runs for one in run.series if one.key.metric in names})
    for member in (members[0], members[-1]) if len(members) > 1 else ():  # a single rank, for rules about ranks
        yield from (Way(_times, names, member), Way(_divided, names, member))
    # `read_by` gives metrics only for the selectors of a rule about warm-up: then the first quarter is worse
    if any(map(read_by, selectors(rule.sentence.subject))):
        yield _changed(
            names, lambda values, by: np.where(np.arange(len(values)) < len(values) // 4, values * by, values)
        )
    # more values, and fewer: for rules about their number
    yield _changed(names, lambda values, amount: np.tile(values, 1 + int(amount)))
    yield _changed(names, lambda values, amount: values[: max(1, int(len(values) / amount))])


def reading(rule: Rule, ruleset: Ruleset) -> Callable[[Key], bool]:
    """Return a test for series: True if the rule reads it, directly or through derived metrics."""
    own = [one for selector in selectors(rule.sentence.subject) for one in (selector, *read_by(selector))]
    names = {name for metric in _derived(rule, ruleset) for name in component_names(metric.expression, ruleset.metrics)}
    return lambda key: key.metric in names or any(selector.matches(key) for selector in own)


def _derived(rule: Rule, ruleset: Ruleset) -> list[DerivedMetric]:
    own = selectors(rule.sentence.subject)
    return [metric for name, metric in ruleset.metrics.items() if any(one.matches_metric(name) for one in own)]


def _beyond_the_edge(clause: str, verdicts: Sequence[Verdict]) -> Way:
    """Return a way that moves every metric just beyond its own limit or tolerance (the edge) in a clause."""
    edges: dict[tuple[str, Labels], float] = {}
    down: set[str] = set()  # the metrics that are worse if they are lower
    for verdict in verdicts:
        edge = _edge(verdict)
        if edge is not None:
            for name in (verdict.metric, *synonyms(verdict.metric)):  # a run may have it by an older name
                edges[name, tuple(sorted(verdict.labels.items()))] = edge
                down |= {name} if verdict.better == "higher" else set()

    def distorted(series: Series, amount: float) -> Series:
        key = series.key.without_members()
        edge = edges.get((key.metric, key.labels), edges.get((key.metric, ())))  # or that of a verdict without labels
        if edge is None:
            return series
        return _times(series, edge / amount if key.metric in down else edge * amount)

    return Way(distorted, clause=clause)


def _edge(verdict: Verdict) -> float | None:
    """Return the factor that moves a metric to its limit or to the end of its tolerance; None if there is none."""
    new = verdict.new.estimate if verdict.new else None
    edge = verdict.bound
    if verdict.kind == "change" and verdict.tolerance is not None:
        base = verdict.base.estimate if verdict.base else None
        change = -verdict.tolerance if verdict.better == "higher" else verdict.tolerance
        edge = None if base is None else base * (1 + change)
    return edge / new if edge is not None and new and edge / new > 0 else None


def _lifted(names: Sequence[str], bound: float) -> Way:
    """Return a way that adds a multiple of a bound or tolerance, or of 1, to values: no factor changes those of 0."""
    return _changed(names, lambda values, amount: values + (abs(bound) * amount or int(amount)))


def _changed(names: Sequence[str], change: Callable[[Values, float], Values]) -> Way:
    """Return a way that changes the values of these metrics by a function of the values and the amount.

    Printed statistics and summaries stay as they are.
    """

    def distorted(series: Series, amount: float) -> Series:
        if not len(series.values):
            return series
        # If the number of values changes, their steps are unknown, and so are `groups`, the process group of each.
        values = change(series.values, amount)
        steps = series.steps if len(values) == len(series.values) else None
        return replace(series, values=read_only(values), steps=steps, groups=())

    return Way(distorted, names)


def _divided(series: Series, by: float) -> Series:
    return _times(series, 1 / by)


def _times(series: Series, factor: float) -> Series:
    """Return the series with all its numbers multiplied, except counts and relative ones."""
    printed = {name: value if name in _UNSCALED else value * factor for name, value in series.aggregate.items()}
    kept = series.summary
    if kept is not None:  # the first number of a row is the statistic; the others are its noise
        named = zip(kept.names, kept.rows, strict=True)
        rows = [row if name in _UNSCALED or row[0] is None else (row[0] * factor, *row[1:]) for name, row in named]
        kept = replace(kept, rows=rows)
    return replace(series, values=read_only(series.values * factor), aggregate=printed, summary=kept)


#: The work that is added to each step, and the counts that grow by one. Only copies from the device to the host grow.
_ADDED = {
    "a kernel and its launch": ("work.kernels", "work.launches"),
    "a synchronisation": ("work.syncs",),
    "a copy to the host": ("work.copies",),
    "an allocation": ("work.allocations",),
}
_KIND_OF_COPY = ("kind", "DtoH")
_MORE_TIME = 1.02


def added_work(case: Case) -> Iterator[AddedWork]:
    """Yield each kind of work that can be added to the new runs, with the rules that fail then; none without counts.

    Rules that only warn are left out.
    """
    for what, names in _ADDED.items():
        yield from _added(case, what, {name: lambda values: values + 1 for name in names})
    yield from _added(case, "2% of device time", {"work.device_time": lambda values: values * _MORE_TIME})


def _added(case: Case, what: str, more: Mapping[str, Callable[[Values], Values]]) -> Iterator[AddedWork]:
    def grows(series: Series) -> bool:
        is_other_copy = series.key.metric == "work.copies" and _KIND_OF_COPY not in series.key.labels
        return series.key.metric in more and not is_other_copy

    def worse(series: Series) -> Series:
        if not grows(series):
            return series
        return replace(series, values=read_only(more[series.key.metric](series.values)), groups=())

    if not any(grows(series) for run in case.new for series in run.series):
        return
    new = tuple(replace(run, series=tuple(map(worse, run.series))) for run in case.new)
    # a change of time fails only after it was measured again: repeat the runs, so that there are at least LOOKS
    verdicts = judge(replace(case, new=new * -(-LOOKS // len(new))))
    yield AddedWork(what, tuple(dict.fromkeys(one.rule for one in verdicts if one.exit_code == 1)))
