"""Expressions of the rule language on the series of one run: selection, derived metrics, arithmetic.

Everything works step by step and rank by rank: the two sides of an operator are joined by equal labels and equal step
numbers, never by position alone if the steps of both are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Key, Run, Series, read_only
from perfgate.core.runs import Kind, Steps, Values
from perfgate.core.wording import show_labels, synonyms
from perfgate.judge import measure
from perfgate.judge.largest_load import largest_load
from perfgate.rules.ruleset import DerivedMetric
from perfgate.rules.syntax.sentence import Arithmetic, Expression, LargestLoad, Number, Selector, StatisticOf, selectors

STEPS, TIME = "warmup.steps", "warmup.time"
#: The metrics that every run with samples has; the label `of` names the metric that warms up.
WARMUP_METRICS = (STEPS, TIME)


class WarmUpCost(Struct, frozen=True):
    """The warm-up of one run: its steps, and their time in seconds; None if the metric is not a time."""

    steps: int
    seconds: float | None


def warmup_cost(series: Series, method: measure.Method | None = None) -> WarmUpCost | None:
    """Return the warm-up of a series by a rule, by default `auto`.

    None without samples, and for bytes and units without a direction.
    """
    better = measure.BETTER_BY_UNIT.get(series.unit)
    if series.kind != "samples" or series.unit == "B" or better is None:
        return None
    dropped = (method or measure.Method("median", better=better)).steady(series).dropped
    times = 1.0 if series.thinned_from is None else series.thinned_from / max(1, len(series.values))
    seconds = float(series.values[:dropped].sum()) * times if series.unit == "s" else None
    return WarmUpCost(round(dropped * times), seconds)


def warmup_series(metric: str, series: Iterable[Series]) -> Iterator[Series]:
    """Yield the warm-up of every series that has one as a metric: its steps, or its time in seconds."""
    for one in series:
        cost = warmup_cost(one)
        value = None if cost is None else cost.steps if metric == STEPS else cost.seconds
        if value is not None:
            key = Key.of(metric, **{**dict(one.key.labels), "of": one.key.metric})
            yield Series(key, "1" if metric == STEPS else "s", "value", read_only(np.array([float(value)])))


SeriesByLabels = dict[tuple[tuple[str, str], ...], Series]
#: The unit of a product (a rate times a time) and of a ratio (bytes per time), by the units of both sides.
_PRODUCTS = {("1/s", "s"): "1", ("B/s", "s"): "B", ("FLOP/s", "s"): "FLOP", ("W", "s"): "J", ("1/J", "J"): "1"}
_RATIOS = {
    ("1", "s"): "1/s",
    ("B", "s"): "B/s",
    ("FLOP", "s"): "FLOP/s",
    ("1", "1/s"): "s",
    ("J", "s"): "W",
    ("1", "J"): "1/J",
}


class RunView:
    """One run with the derived metrics of a ruleset, which are computed on demand."""

    def __init__(self, run: Run, metrics: Mapping[str, DerivedMetric], *, by_means: bool = False) -> None:
        self.run = run
        self.metrics = metrics
        #: True if arithmetic uses the mean of each run, because the other side has nothing else.
        self.by_means = by_means
        self._by_metric: dict[str, SeriesByLabels] = {}
        for series in run.series:
            self._by_metric.setdefault(series.key.metric, {})[series.key.labels] = series
        self._derived: dict[str, SeriesByLabels] = {}
        has_parts: dict[str, bool] = {}
        derived = (name for name in metrics if name not in self._by_metric and self._has_parts(name, has_parts))
        outlined = () if run.outlines is None else run.outlines.metrics
        #: Every metric that the run has or that can be derived from it, but not WARMUP_METRICS.
        self.names = frozenset((*self._by_metric, *derived, *outlined))

    def select(self, selector: Selector) -> dict[Key, Series]:
        """Return the series that a selector names; empty if there is none. Raises NotAvailable."""
        names = [selector.pattern]
        if selector.is_glob:
            names = sorted(name for name in self.names if selector.matches_metric(name))
        found = ((Key(name, labels), series) for name in names for labels, series in self._of(name).items())
        return {key: series for key, series in found if selector.accepts_labels(key)}

    def keys(self, metric: str) -> list[Key]:
        """Return the name and labels of every printed series of a metric."""
        return [Key(metric, labels) for labels in self._by_metric.get(metric, ())]

    def has_summary(self, names: Iterable[str]) -> bool:
        """Return whether the run has only a summary of one of these metrics."""
        found = (series for name in names for series in self._by_metric.get(name, {}).values())
        return any(series.summary is not None for series in found)

    def may_have(self, name: str) -> bool:
        """Return whether the run can have this metric, by this name or another of its names."""
        return name in WARMUP_METRICS or not self.names.isdisjoint((name, *synonyms(name)))

    def evaluate(self, expression: Expression) -> SeriesByLabels:
        """Return the series of an expression by their labels: one for each rank, device, configuration, ...

        Empty if a part is absent. Raises NotAvailable if parts cannot be joined.
        """
        if isinstance(expression, Selector):
            return {key.labels: series for key, series in self.select(expression).items()}
        if isinstance(expression, StatisticOf):
            statistic, inner = expression.statistic, self.evaluate(expression.of)
            return {labels: _statistic_series(series, statistic) for labels, series in inner.items()}
        if isinstance(expression, LargestLoad):
            return largest_load(expression, self.evaluate)
        if isinstance(expression, Number):
            return {(): _constant(expression.value)}
        chain = []  # a + b + c leans to the left: evaluated from its first operand, without recursion
        while isinstance(expression, Arithmetic):
            chain.append(expression)
            expression = expression.left
        left = self.evaluate(expression)
        for arithmetic in reversed(chain):
            right = self.evaluate(arithmetic.right)
            if self.by_means:
                left, right = _means(left), _means(right)
            left = _arithmetic(arithmetic, left, right)
        return left

    def _of(self, name: str) -> SeriesByLabels:
        """Return the series of a metric by labels: printed, else derived, else under another of its names."""
        if name in self._by_metric:
            return self._by_metric[name]
        if name in WARMUP_METRICS and name not in self.metrics:
            if name not in self._derived:
                self._derived[name] = {one.key.labels: one for one in warmup_series(name, self.run.series)}
            return self._derived[name]
        if name not in self.metrics:
            return next((self._by_metric[other] for other in synonyms(name) if other in self._by_metric), {})
        if name not in self._derived:
            found = self.evaluate(self.metrics[name].expression)
            self._derived[name] = {
                labels: replace(series, key=Key(name, labels), printed_as=None, groups=())
                for labels, series in found.items()
            }
        return self._derived[name]

    def _has_parts(self, name: str, known: dict[str, bool]) -> bool:
        """Return whether the run has all parts of a derived metric; `known` keeps the answers."""
        if name not in known:
            parts = (selector.pattern for selector in selectors(self.metrics[name].expression))
            known[name] = all(
                not self._by_metric.keys().isdisjoint((part, *synonyms(part)))
                or (part in self.metrics and self._has_parts(part, known))
                or part in WARMUP_METRICS
                for part in parts
            )
        return known[name]


def read_by(selector: Selector) -> tuple[Selector, ...]:
    """Return the metrics that a selector of warm-up reads: those of its label `of`, or all; () for other selectors."""
    if not selector.pattern.startswith("warmup."):
        return ()
    named = tuple(Selector(test.pattern) for test in selector.labels if test.name == "of" and not test.negated)
    return named or (Selector("*"),)


def component_names(expression: Expression, metrics: Mapping[str, DerivedMetric]) -> set[str]:
    """Return the metrics, or globs, that an expression reads, directly or through derived metrics."""
    names: set[str] = set()
    waiting = [expression]
    while waiting:
        read = selectors(waiting.pop())
        warming = [one for one in read if one.pattern.startswith("warmup.")]
        patterns = [one.pattern for one in (*read, *(other for one in warming for other in read_by(one)))]
        found = {name for pattern in patterns for name in (pattern, *synonyms(pattern))} - names
        names |= found
        waiting += [metrics[name].expression for name in found if name in metrics]
    return names


def _statistic_series(series: Series, statistic: str) -> Series:
    """Return a statistic of a run as a series of one value; NaN if it does not exist: then no rule passes."""
    number = measure.number_of_run(series, statistic)
    unit = measure.statistic_unit(series, statistic)
    return Series(series.key, unit, "value", read_only(np.array([number])), joined=series.joined)


def _means(found: SeriesByLabels) -> SeriesByLabels:
    """Return the series with the mean in place of samples, because a summary has nothing else to join with."""
    samples = {labels for labels, series in found.items() if series.kind == "samples"}
    return {labels: _statistic_series(one, "mean") if labels in samples else one for labels, one in found.items()}


def _constant(value: float) -> Series:
    return Series(Key("constant"), "1", "value", read_only(np.array([value])))


def _arithmetic(expression: Arithmetic, left: SeriesByLabels, right: SeriesByLabels) -> SeriesByLabels:
    """Return two sides of an operator, joined by labels. Raises NotAvailable for a rank that only one side has.

    Other series that only one side has, such as another configuration, are left out.
    """
    if not selectors(expression.left):  # a constant: 2, or `8 * 1024`
        left = dict.fromkeys(right, left[()])
    if not selectors(expression.right):
        right = dict.fromkeys(left, right[()])
    joined = left.keys() & right.keys()
    if left and right and not joined:
        raise measure.NotAvailable("the parts of an expression have no labels (such as ranks) in common")
    shared = {Key("", labels).without_members() for labels in joined}
    for labels in sorted(left.keys() ^ right.keys()):
        if Key("", labels).without_members() in shared:
            raise measure.NotAvailable(f"the series with {show_labels(labels)} lacks a part of an expression")
    return {labels: _combine(expression.operator, left[labels], right[labels]) for labels in left if labels in right}


def _combine(operator: str, left: Series, right: Series) -> Series:
    """Return two series as one. Raises NotAvailable if the result has no known unit."""
    # A factor or divisor in "1", a plain number, keeps the unit of the other side.
    a, b = left.unit, right.unit
    unit: str | None = None
    if operator in "+-":
        unit = a if a == b else None
    elif operator == "*":
        unit = _PRODUCTS.get((a, b)) or _PRODUCTS.get((b, a)) or (b if a == "1" else a if b == "1" else None)
    elif b in (a, "1") or (a, b) in _RATIOS:
        unit = "1" if a == b else _RATIOS.get((a, b), a)
    if unit is None:
        raise measure.NotAvailable(f"{left.key.metric} in {a} {operator} {right.key.metric} in {b} has no known unit")
    x, y, steps, share = _joined(left, right)
    with np.errstate(all="ignore"):  # a division by zero gives infinity, which no rule passes
        values = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[operator](x, y)
    kind: Kind = "samples" if "samples" in (left.kind, right.kind) else "value"
    found = (one.stalled for one in (left, right) if one.stalled is not None and len(one.values) == len(values))
    joined, stalled = min(share, left.joined, right.joined), next(found, None)
    made = Series(left.key, unit, kind, read_only(values), steps, joined=joined, stalled=stalled)
    sides = [one for one in (left, right) if one.kind == "samples"]
    if all(one.thinned_from is None for one in sides):
        return made
    return replace(made, thinned_from=min(one.thinned_from or len(one.values) for one in sides))


def _joined(left: Series, right: Series) -> tuple[Values, Values, Steps | None, float]:
    """Return the values of two series side by side, by step if both have steps, else one to one. Raises NotAvailable.

    With them come the steps, and the share of all steps that both have: 1 if it is unknown, as for thinned series.
    """
    a, b = (np.array([_mean(side)]) if side.kind in ("aggregate", "summary") else side.values for side in (left, right))
    if left.kind != "samples" or right.kind != "samples":  # a single number is combined with every value of the other
        return a, b, left.steps if left.kind == "samples" else right.steps, 1.0
    if left.steps is None or right.steps is None:
        if len(a) != len(b):
            lengths = f"{left.key} has {len(a)} values and {right.key} {len(b)}"
            raise measure.NotAvailable(f"{lengths}, without step numbers: they cannot be joined step by step")
        return a, b, right.steps if left.steps is None else left.steps, 1.0
    if len(a) and np.array_equal(left.steps, right.steps) and bool((left.steps[1:] > left.steps[:-1]).all()):
        return a, b, left.steps, 1.0
    most = max(len(a), len(b))
    unique = _unique_steps(left.steps, most), _unique_steps(right.steps, most)
    common, in_a, in_b = np.intersect1d(*unique, return_indices=True)
    if not len(common):
        return a[in_a], b[in_b], None, 1.0
    is_thinned = left.thinned_from is not None or right.thinned_from is not None
    share = 1.0 if is_thinned else len(common) / (len(a) + len(b) - len(common))
    return a[in_a], b[in_b], left.steps[in_a], share


def _mean(series: Series) -> float:
    """Return the number that represents an aggregate, or stored samples with only a summary."""
    return measure.single_number(series, "mean" if series.summary is not None else measure.default_statistic(series))


def _unique_steps(steps: Steps, most: int) -> Steps:
    """Return unique step numbers: the i-th value of a step (gradient accumulation) joins the i-th of the other side.

    `most`: a step of either side has at most this many values.
    """
    order = np.argsort(steps, kind="stable")
    ordered = steps[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank_in_step = np.arange(len(steps)) - np.repeat(starts, np.diff(np.r_[starts, len(steps)]))
    unique = np.empty(len(steps), dtype=np.int64)
    unique[order] = ordered * most + rank_in_step
    return unique
