"""Exact work, the counts of calls that unchanged code repeats in each step: the question, and the places of changes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import Key, Run, Series
from perfgate.core.call_trees import ALLOCATIONS, GRAPH_LAUNCHES, SYNCS, CallNode, CallTree
from perfgate.core.details import WorkDifference, WorkPlace
from perfgate.judge.ask import exceptions_of
from perfgate.judge.derived import RunView
from perfgate.judge.evidence import CannotJudge, Case, Evidence
from perfgate.judge.measure import Member, Members
from perfgate.judge.presence import refuse_unread
from perfgate.judge.question import WorkCount, WorkQuestion
from perfgate.judge.subjects import JudgedRuns, Subject
from perfgate.rules.ruleset import Rule
from perfgate.rules.syntax.sentence import Clause, Selector, WorkClause, glob_matches
from perfgate.stats.distributions import FloatArray
from perfgate.words.steps import complete_base, make_baseline, sources_of

#: The counts of the host's own calls, which a clause about the work of the device leaves out.
_OF_HOST = ("work.ops", "work.launches")
#: Counts that are absent, not 0, if no step has such a call; each with counts that prove that calls were recorded.
_ABSENT_AT_ZERO = {
    "work.copies": ("work.kernels",),
    "work.copied_bytes": ("work.kernels",),
    "work.collectives": ("work.kernels", "work.ops"),
    "work.collective_bytes": ("work.kernels", "work.ops"),
}


def work_evidence(rule: Rule, clause: Clause, subjects: Sequence[Subject], case: Case, runs: JudgedRuns) -> Evidence:
    """Return the evidence of a clause about work: the whole runs of both sides, as one metric named as in the rule."""
    name = rule.sentence.subject_text.removeprefix("device").strip()
    first = subjects[0]
    whole = Subject(Key(name), first.expression, (), new_views=first.new_views, base_views=runs.base)
    return Evidence.of(rule, clause, whole, case, runs)


def ask_work(evidence: Evidence, subjects: Sequence[Subject]) -> WorkQuestion:
    """Return the question about all counts of a clause. Raises CannotJudge if one side was not counted."""
    asks = evidence.clause.asks
    assert isinstance(asks, WorkClause)
    for view in evidence.subject.new_views:
        refuse_unread(evidence, view)
    left_out = _OF_HOST if asks.device else ()
    wanted = [one for one in subjects if one.key.metric not in left_out]
    chosen = [one for one in wanted if all(series.unit != "s" for series in one.all_series())]  # counts, not times
    counts = tuple(count for subject in chosen for count in _counts(evidence, subject))
    if not counts:
        _refuse_uncounted(evidence)
    sides = len(evidence.subject.base_views), len(evidence.subject.new_views)
    allowances = {metric: _allowed(evidence, metric) for metric in {count.key.metric for count in counts}}
    return WorkQuestion(counts, asks.is_same, *sides, exceptions_of(evidence), allowances)


def _counts(evidence: Evidence, subject: Subject) -> Iterator[WorkCount]:
    """Yield the count of each rank and device that both sides have. Raises CannotJudge if a new run lacks it."""
    for member in sorted(subject.members((*subject.new, *subject.base))):
        base = _sides(subject, subject.base, subject.base_views, member)
        new = _sides(subject, subject.new, subject.new_views, member)
        if base and len(new) < len(subject.new):
            key = Key(subject.key.metric, (*subject.key.labels, *member))
            # A run may have the count, but not one whole number for each step.
            what = f"whole count of {key} for each step" if all(member in one for one in subject.new) else f"{key}"
            message = f"a new run has no {what}, which the baseline has"
            raise CannotJudge("metric-absent", message, "record the trace as the stored runs were recorded")
        if base and new:
            yield WorkCount(subject.key, member, base, new)


def _sides(
    subject: Subject, side: Iterable[Members], views: Sequence[RunView], member: Member
) -> tuple[FloatArray, ...]:
    """Return the count in each step of one rank, for the runs of a side that have it or would have seen it."""
    found = []
    for members, view in zip(side, views, strict=True):
        series = members.get(member)
        if series is not None and (values := _values(series)) is not None:
            found.append(values)
        elif series is None and _would_be_seen(subject.key.metric, member, view):
            found.append(np.zeros(1))  # no step made such a call
    return tuple(found)


def _values(series: Series) -> FloatArray | None:
    """Return the count in each step, or the one count of all steps of a summary.

    None if the steps of a summary differ, or a count is not a whole number from 0 on.
    """
    least, most = series.aggregate.get("min"), series.aggregate.get("max")
    if series.kind in ("samples", "value"):
        counts = np.asarray(series.values, dtype=np.float64)
    else:
        counts = np.array([least] if least is not None and least == most else [], dtype=np.float64)
    return counts if len(counts) and ((counts >= 0) & (counts == np.floor(counts))).all() else None


def _would_be_seen(metric: str, member: Member, view: RunView) -> bool:
    """Return whether a run recorded the calls of a rank or device, so that an absent count of them is 0."""
    wanted = dict(member)
    return any(
        all(key.label(name) in (None, value) for name, value in wanted.items())
        for shown_by in _ABSENT_AT_ZERO.get(metric, ())
        for key in view.keys(shown_by)
    )


def _allowed(evidence: Evidence, metric: str) -> float:
    """Return the share by which the allowances of the measured commit let a count grow; `work` means all counts."""
    case = evidence.case
    found = [one for one in case.baseline.allowances if one.metric == "work" or glob_matches(one.metric, metric)]
    return max((one.up_to for one in found if case.today <= one.expires), default=0.0)


def _refuse_uncounted(evidence: Evidence) -> None:
    """Raise CannotJudge for a side without counts of work."""
    case = evidence.case
    if not case.baseline.runs:
        step = case.baseline.next_step if case.baseline.next_step.text else make_baseline(case.accept)
        raise CannotJudge("no-baseline", case.baseline.missing or "there is no baseline to compare work with", step)
    if any(name.startswith("work.") for view in evidence.subject.new_views for name in view.names):
        message = f"the baseline {case.baseline.place} has no counts of work"
        raise CannotJudge("no-baseline", message, complete_base(case.accept, sources_of(case.baseline.runs)))
    raise CannotJudge("metric-absent", *(evidence.runs.why_absent("work.*") or ("no step was counted", "")))


#: The counts that show whether a faster program does less, the one that follows the shapes best first.
_WITNESSES = ("work.flops", "work.blocks", "work.kernels", "work.ops")
#: A decrease by a smaller share is not mentioned.
_LESS = 0.01


def less_work(evidence: Evidence) -> tuple[str, float] | None:
    """Return the first of `_WITNESSES` that both sides have, and the share by which it shrank; None if at most 1 %."""
    for metric in _WITNESSES:
        base, new = (
            [float(np.mean(values)) for view in side for values in _witnessed(view, metric)]
            for side in (evidence.subject.base_views, evidence.subject.new_views)
        )
        if base and new and sum(base) > 0:
            share = 1 - (sum(new) / len(new)) / (sum(base) / len(base))
            return (metric, share) if share > _LESS else None
    return None


def _witnessed(view: RunView, metric: str) -> Iterator[FloatArray]:
    for series in view.select(Selector(metric)).values() if view.may_have(metric) else ():
        values = _values(series)
        if values is not None:
            yield values


_IsCall = Callable[[CallNode], object]
_is_memset = re.compile(r"(?i)memset").match


def _is_kernel(node: CallNode) -> bool:
    return node.kind == "kernel"


#: The words that the autograd engine puts before the name of a function.
_EVALUATES = "autograd::engine::evaluate_function: "
#: A test for the nodes that are counted, by count; all other counts follow from the kernels.
_COUNTED: Mapping[str, _IsCall] = {
    "work.syncs": lambda node: node.kind == "runtime" and SYNCS.fullmatch(node.name),
    "work.allocations": lambda node: node.kind == "runtime" and ALLOCATIONS.fullmatch(node.name),
    "work.graph_launches": lambda node: node.kind == "runtime" and GRAPH_LAUNCHES.fullmatch(node.name),
    "work.memsets": lambda node: _is_memset(node.name),
    "work.copies": lambda node: node.kind == "copy",
    "work.copied_bytes": lambda node: node.kind == "copy",
    "work.collectives": lambda node: node.kind in ("collective", "communication"),
    "work.collective_bytes": lambda node: node.kind in ("collective", "communication"),
    "work.ops": lambda node: node.kind == "operator",
    "work.flops": lambda node: node.kind == "operator",
}


class _Path(Struct, frozen=True):
    """The names from the step to a call, the first operator among them, and the nearest line of the program."""

    names: tuple[str, ...]
    call: str
    source: str


def with_places(
    differences: Sequence[WorkDifference], base: Iterable[Run], new: Iterable[Run]
) -> tuple[WorkDifference, ...]:
    """Return the differences with the place at which each grew most; without one if the calls are equal or unknown."""
    sides = [[tree for run in side for tree in run.call_trees] for side in (base, new)]
    return tuple(replace(one, place=_place(one, *sides)) for one in differences) if all(sides) else tuple(differences)


def _place(difference: WorkDifference, base: Sequence[CallTree], new: Sequence[CallTree]) -> WorkPlace | None:
    """Return the part of the step, and in it the call, where a count grew most; None if it grew nowhere."""
    rank = difference.member.get("rank", "")
    sides = [[tree for tree in side if tree.rank in ("", rank) or not rank] for side in (base, new)]
    before, after = (_calls(difference, side) for side in sides)
    grown = {path: count - before.get(path, 0.0) for path, count in after.items()}
    grown = {path: count for path, count in grown.items() if count > 1e-6}  # less is a rounding error
    if not grown:
        return None
    part = _largest(grown, _part)
    inside = {path: count for path, count in grown.items() if _part(path) == part}
    call = _largest(inside, lambda path: path.call)
    source = next((path.source for path in inside if path.call == call and path.source), "")
    return WorkPlace(part, call, source)


def _part(path: _Path) -> str:
    """Return the part of the step that contains a call; empty for a call that the step makes itself."""
    return path.names[0] if len(path.names) > 1 and path.names[0] != path.call else ""


def _largest(counts: Mapping[_Path, float], key: Callable[[_Path], str]) -> str:
    """Return the key whose paths have the largest sum of counts."""
    sums: dict[str, float] = defaultdict(float)
    for path, count in counts.items():
        sums[key(path)] += count
    return max(sums, key=lambda name: sums[name])


def _calls(difference: WorkDifference, trees: Sequence[CallTree]) -> dict[_Path, float]:
    """Return how often a step makes the counted calls, by path: the mean of the trees."""
    is_counted = _COUNTED.get(difference.metric, _is_kernel)
    kind = difference.labels.get("kind", "")
    found: dict[_Path, float] = defaultdict(float)
    for tree in trees:
        for index, node in enumerate(tree.nodes):
            if index and is_counted(node) and kind in node.name:
                found[_path(tree, index)] += float(tree.counts[index].mean()) / len(trees)
    return found


def _path(tree: CallTree, index: int) -> _Path:
    """Return the path of a node, found by going up from it to the step."""
    names, call, source = [], "", ""
    while index > 0:
        node = tree.nodes[index]
        names.append(node.name)
        source = source or node.source
        call = node.name if node.kind == "operator" else call
        index = node.parent
    return _Path(tuple(reversed(names)), (call or names[0]).removeprefix(_EVALUATES), source)
