"""The parts of a metric that explain its change, for changes that failed or are suspect.

The parts of a metric are the terms of its sum, the inner timers that DeepSpeed, open_clip and Megatron-LM print, the
metrics below its name (`step.kernel` of `step.time`) and the kernels of `step.kernel`. A metric without such parts is
explained by its ranks. A part that only one side has is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Key, Series, Share
from perfgate.core.results import ChangeResult
from perfgate.core.wording import synonyms
from perfgate.judge.evidence import Evidence
from perfgate.judge.measure import Member, NotAvailable, is_exact, pooled
from perfgate.judge.question import ChangeQuestion, MeasuredSide
from perfgate.judge.terms import EXACT_S0
from perfgate.rules.ruleset import DerivedMetric
from perfgate.rules.syntax.sentence import Arithmetic, Expression, Selector, glob_matches
from perfgate.stats.moderated import has_logarithm, moderated_t
from perfgate.stats.statistics import MIDDLES, RunMeasure

MOST_PARTS = 5
#: A part with a smaller share is not named.
_LEAST_SHARE = 0.01
#: Units whose quantities add up.
_ADDITIVE = ("s", "B", "FLOP")
#: The inner timers of a timer, by the names of their metrics.
_FAMILIES = {
    "forward_backward": ("forward", "backward"),
    "backward": ("backward_inner", "backward_allreduce"),
    "backward_microstep": ("backward_inner_microstep", "backward_allreduce_microstep"),
    "step": ("optimizer_allgather", "optimizer_gradients", "optimizer_step"),
    "train_batch": ("batch_input", "forward", "backward", "step"),
    "batch_time": ("data_time", "forward", "backward", "step"),
    "iteration_time": ("forward-backward", "optimizer"),
    "forward-backward": ("forward-compute", "backward-compute"),
}
#: Metrics whose parts have another prefix than their own name.
_INSIDE = {"step.kernel": "kernel.", "step.communication": "collective."}


def explained_by(evidence: Evidence, question: ChangeQuestion, result: ChangeResult) -> tuple[Share, ...]:
    """Return the parts that explain a change for the worse, largest first, at most MOST_PARTS.

    Only parts with a change beyond noise, at the rule's confidence, are named. The parts of the largest part follow.
    """
    if evidence.unit not in _ADDITIVE:
        return ()
    whole = (result.new_value or 0.0) - (result.base_value or 0.0)
    if not whole or not math.isfinite(whole):
        return ()
    search = _Search(evidence, whole, question.base, question.new)
    metrics = evidence.runs.metrics
    direct = search.shares(_part_names(evidence.subject.expression, metrics, search.shared))
    if not direct:
        return search.ranks()
    largest = Selector(direct[0].metric, quoted=True)
    deeper = search.shares(_part_names(largest, metrics, search.shared))
    return (*direct, *(replace(share, within=largest.pattern) for share in deeper))[:MOST_PARTS]


def parts_not_stored(evidence: Evidence, question: ChangeQuestion) -> list[str]:
    """Return the parts of a failed metric that the new runs have, if the baseline has none of them."""
    if evidence.unit not in _ADDITIVE:
        return []
    stored, known = ({name for view in side.views for name in view.names} for side in (question.base, question.new))
    parts = _part_names(evidence.subject.expression, evidence.runs.metrics, sorted(known))
    return [] if stored.intersection(parts) else [part for part in parts if part in known]


class _Search(Struct, frozen=True):
    """The search for the parts of a failed change: the evidence, the difference `whole` to explain, and both sides."""

    evidence: Evidence
    whole: float
    base: MeasuredSide
    new: MeasuredSide

    @property
    def shared(self) -> list[str]:
        """The metrics that a run of each side has, sorted."""
        base, new = ({name for view in side.views for name in view.names} for side in (self.base, self.new))
        return sorted(base & new)

    def shares(self, names: Iterable[str]) -> list[Share]:
        """Return the parts with these names whose change is beyond noise, largest first."""
        found = (self.share(name) for name in dict.fromkeys(names))
        return _largest([share for share in found if share])

    def share(self, name: str) -> Share | None:
        """Return one part, measured like the metric; None if a run lacks it or it cannot be compared."""
        try:
            base, new = (list(self.measures(name, side)) for side in (self.base, self.new))
        except NotAvailable:
            return None
        return self.compared(name, {}, base, new, self.whole)

    def measures(self, name: str, side: MeasuredSide) -> Iterator[RunMeasure]:
        """Yield the part in each run of a side, per value of the metric. Raises NotAvailable."""
        for view, member, series in zip(side.views, side.members, side.series, strict=True):
            keyed = view.evaluate(Selector(name, quoted=True))
            yield self.measure(self.fitting(keyed, member), series)

    def fitting(self, keyed: Mapping[Member, Series], member: Member) -> Series:
        """Return the series of a part on the rank that represents the run. Raises NotAvailable.

        `keyed`: the series of the part by all their labels. `member`: the labels of the rank; () without ranks.
        """
        labels = self.evidence.subject.key.labels
        keys = [Key("", key) for key in keyed]
        found = {key.member(): keyed[key.labels] for key in keys if key.without_members().labels == labels}
        if self.evidence.rank == "across" and found:
            return pooled(list(found.values()))
        if len(found) == 1 and () in found:
            return found[()]
        if member not in found:
            raise NotAvailable("the part has no series of this rank")
        return found[member]

    def measure(self, part: Series, whole: Series) -> RunMeasure:
        """Return a part in one run: its statistic if those of parts add up, else its sum for each value of `whole`.

        Raises NotAvailable.
        """
        if part.unit != whole.unit:
            raise NotAvailable("the part has another unit")
        method, times = self.evidence.method, _count(part) / _count(whole)
        # These statistics of the parts nearly add up to that of the whole.
        if method.statistic == "total" or (times == 1 and method.statistic in MIDDLES):
            return method.measure(part)
        found = replace(method, statistic="mean").measure(part)
        return found if found.value is None else replace(found, value=found.value * times)

    def ranks(self) -> tuple[Share, ...]:
        """Return the ranks that explain the change; empty if all ranks changed alike."""
        runs = (*self.evidence.new, *self.evidence.base)
        members = sorted(set.intersection(*(set(run) for run in runs)))
        if len(members) < 2:
            return ()
        measure = self.evidence.method.measure
        try:
            base, new = (
                {member: [measure(run[member]) for run in side] for member in members}
                for side in (self.evidence.base, self.evidence.new)
            )
        except NotAvailable:  # a rank with less data than the one that represents the run
            return ()
        whole = sum(
            fmean(r.value or 0.0 for r in new[member]) - fmean(r.value or 0.0 for r in base[member])
            for member in members
        )
        name = self.evidence.subject.key.metric
        found = [self.compared(name, dict(member), base[member], new[member], whole) for member in members]
        moved = [share for share in found if share]
        # Each rank has more than half of an equal share.
        alike = len(moved) == len(members) and min(share.share for share in moved) > 0.5 / len(members)
        return () if alike else tuple(_largest(moved))

    def compared(
        self, name: str, member: Mapping[str, str], base: list[RunMeasure], new: list[RunMeasure], whole: float
    ) -> Share | None:
        """Return the share of a part from its runs; None if its change is within noise or has no logarithm."""
        if not whole or not all(map(has_logarithm, (*base, *new))):
            return None
        s0, d0 = self.evidence.prior()
        exact = is_exact(self.evidence.unit, self.evidence.method.statistic, (*base, *new))
        change = moderated_t(base, new, (EXACT_S0 if exact else s0, d0))
        bounds = change.bounds(self.evidence.rule.settings.confidence)
        if max(bounds) > 700 or bounds[0] <= 0 <= bounds[1]:  # exp(710) is beyond a float
            return None
        low, high = sorted(change.base_value * math.expm1(bound) / whole for bound in bounds)
        share = (change.new_value - change.base_value) / whole
        if not all(map(math.isfinite, (share, low, high))):
            return None
        return Share(name, member, change.base_value, change.new_value, share, low, high)


def _largest(shares: Sequence[Share]) -> list[Share]:
    """Return the shares that are named, the largest first."""
    named = [share for share in shares if abs(share.share) >= _LEAST_SHARE]
    return sorted(named, key=lambda share: (-abs(share.share), share.metric))[:MOST_PARTS]


def _count(series: Series) -> float:
    """Return the number of values of a series; 1 if unknown."""
    if series.kind == "samples":
        return series.thinned_from or len(series.values) or 1
    return series.aggregate.get("count") or 1.0


def _part_names(expression: Expression, metrics: Mapping[str, DerivedMetric], known: Sequence[str]) -> list[str]:
    """Return the names of the parts of a metric: the terms of a sum, or the outermost `known` metrics inside of it."""
    if isinstance(expression, Selector) and expression.pattern in metrics:
        expression = metrics[expression.pattern].expression
    if not isinstance(expression, Selector):
        return _terms(expression)
    name = next(iter(synonyms(expression.pattern)), expression.pattern)  # the standard name
    family = [part for part in _FAMILIES.get(name, ()) if part in known]
    prefix = _INSIDE.get(name, name.removesuffix(".time") + ".")
    below = [part for part in known if part.startswith(prefix) and part != name]
    return family or [part for part in below if not any(part.startswith(f"{other}.") for other in below)]


def part_globs(name: str) -> set[str]:
    """Return globs of the metrics of a trace that may be parts of a metric or a glob, and of the parts of these.

    Readers keep the values of these, too, when they leave out what no rule needs.
    """
    below = name.removesuffix(".time") + "."
    inside = {f"{prefix}*" for whole, prefix in _INSIDE.items() if whole.startswith(below) or glob_matches(name, whole)}
    return {f"{below}*", *inside}


def _terms(expression: Expression) -> list[str]:
    """Return the metrics of a plain sum, `forward + backward + step`; empty for any other expression."""
    terms: list[str] = []
    while isinstance(expression, Arithmetic) and expression.operator == "+" and isinstance(expression.right, Selector):
        terms.append(expression.right.pattern)
        expression = expression.left
    return [*terms, expression.pattern] if terms and isinstance(expression, Selector) else []
