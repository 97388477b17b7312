"""The metrics that a rule names (its subjects), rank by rank, in the new runs and in the baseline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct, field

from perfgate.core import Baseline, Key, Problem, Run, Series
from perfgate.core.conditions import CONDITIONS, by_load, nearest_conditions, other_conditions
from perfgate.core.wording import is_machine_metric, listed, synonyms
from perfgate.judge.derived import WARMUP_METRICS, RunView, component_names, read_by
from perfgate.judge.measure import MeasureCache, Member, Members, NotAvailable, OnlySummary
from perfgate.judge.stalls import with_stalls
from perfgate.rules.ruleset import DerivedMetric, Ruleset
from perfgate.rules.syntax.sentence import Expression, Selector, Sentence, selectors

#: The ranks of a metric in a run that does not have it.
_NOBODY: Members = MappingProxyType({})
#: The most absent metrics for which the nearest names are searched, and the most names that are compared.
_MOST_HINTS, _MOST_COMPARED = 50, 5_000
#: The advice if no step was counted: by the format of a file that may have steps, and for other formats.
_COUNTABLE = {
    "nsys": "mark each step with an NVTX range such as `step 12`, and give the SQLite export",
    "xplane": "annotate the steps with jax.profiler.StepTraceAnnotation; only the work of GPUs is counted",
}
_RECORD = "record a trace, or measure with `perfgate.Recorder(work=True)`"


class JudgedRuns(Struct, frozen=True):
    """All runs of one check, with derived metrics."""

    new: tuple[RunView, ...]
    base: tuple[RunView, ...]
    anchor: tuple[RunView, ...]
    metrics: Mapping[str, DerivedMetric]
    cache: MeasureCache = field(default_factory=MeasureCache)
    #: The metrics of any new run, and the metrics of any run of either side; both sorted.
    names: Sequence[str] = ()
    all_names: Sequence[str] = ()
    #: The values of new runs that reading left out, by metric.
    left_out: Mapping[str, Sequence[Problem]] = field(default_factory=dict)
    #: Older runs, which are only drawn.
    past: tuple[RunView, ...] = ()
    #: The labels that are conditions.
    conditions: Collection[str] = CONDITIONS
    #: True if the new runs have metrics of the machine.
    has_machine: bool = False
    _near: dict[str, list[str]] = field(default_factory=dict)
    _by_means: dict[int, RunView] = field(default_factory=dict)
    #: The subjects of each expression that a rule named; several rules often name one metric.
    subjects: dict[tuple[Expression, str], list[Subject]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        new: Sequence[Run],
        baseline: Baseline,
        metrics: Mapping[str, DerivedMetric],
        conditions: Collection[str] = (),
    ) -> JudgedRuns:
        """Return the runs with the derived metrics and the further conditions of a ruleset."""
        if any("torch-trace" in run.format for run in (*new, *baseline.runs)):
            new, baseline = with_stalls(new, baseline)
        views = {id(run): RunView(run, metrics) for run in (*new, *baseline.runs, *baseline.anchor)}
        new_views, base, anchor = (
            tuple(views[id(run)] for run in runs) for runs in (new, baseline.runs, baseline.anchor)
        )
        names = {name for view in new_views for name in view.names}
        left_out: dict[str, list[Problem]] = {}
        for run in new:
            for problem in run.problems:
                if problem.severity == "error" and problem.key is not None:
                    left_out.setdefault(problem.key.metric, []).append(problem)
        return cls(
            new_views,
            base,
            anchor,
            metrics,
            names=sorted(names),
            all_names=sorted(names | {name for view in base for name in view.names}),
            left_out=left_out,
            past=tuple(RunView(run, metrics) for run in baseline.past),
            conditions=CONDITIONS.union(conditions),
            has_machine=any(map(is_machine_metric, names)),
        )

    def by_means(self, view: RunView) -> RunView:
        """Return a run that joins its metrics by their means, which is all that a summary can give."""
        if id(view) not in self._by_means:
            self._by_means[id(view)] = RunView(view.run, self.metrics, by_means=True)
        return self._by_means[id(view)]

    def why_absent(self, metric: str) -> tuple[str, str] | None:
        """Return why no run has a metric, and what to do; None if unknown. The reason for `hfu` is that for `mfu`."""
        if metric.startswith("work.") and not any(name.startswith("work.") for name in self.names):
            formats = sorted({view.run.format for view in self.new})
            step = next((_COUNTABLE[one] for one in formats if one in _COUNTABLE), _RECORD)
            return f"the new runs have no counts of work ({listed(formats)})", step
        if all(view.run.format == "command" for view in self.new):
            step = f"write or print the metric, or see `perfgate inspect --suggest {self.new[0].run.source}`"
            return "the command printed no number that perfgate reads, and wrote no results", step
        found = self.left_out.get(metric) or (self.left_out.get("mfu") if metric == "hfu" else None)
        if not found:
            return None
        message, _, step = found[0].message.partition("; ")  # "why; what to do", or "why; left out"
        return message, "fix that first" if not step or step.startswith("left out") else step

    def keys(self, metric: str) -> list[Key]:
        """Return the name and labels of every series of a metric in the new runs."""
        return [key for view in self.new for key in view.select(Selector(metric, quoted=True))]

    def nearest(self, name: str) -> list[str]:
        """Return the metrics of the new runs whose names are most similar to an absent one."""
        if name not in self._near:
            if len(self._near) == _MOST_HINTS:  # each search compares every name
                return []
            bare = name.strip("*?").lower()
            inside = [known for known in self.names if bare and bare in known.lower()]
            close = get_close_matches(name, self.names[:_MOST_COMPARED], n=5, cutoff=0.4)
            self._near[name] = list(dict.fromkeys([*close, *inside]))[:5]
        return self._near[name]


class Subject(Struct, frozen=True):
    """One metric with its labels (without rank and device) in each run of each side."""

    key: Key
    expression: Expression
    new: tuple[Members, ...]
    base: tuple[Members, ...] = ()
    anchor: tuple[Members, ...] = ()
    #: The whole runs of `new`, and the whole stored runs of `base` and `anchor`.
    new_views: tuple[RunView, ...] = ()
    base_views: tuple[RunView, ...] = ()
    anchor_views: tuple[RunView, ...] = ()
    #: The reason why a side could not be computed.
    trouble: str | None = None
    #: The files with the samples that it needs, if the stored run has only a summary.
    lacking: tuple[str, ...] | None = None
    #: The metrics, or globs, that the expression reads.
    components: frozenset[str] = field(default_factory=frozenset)
    #: If the baseline has the metric only under other conditions: its key with the most similar ones.
    stored_as: Key | None = None

    def all_series(self) -> list[Series]:
        """Return the series of the subject on all sides."""
        return [series for side in (self.new, self.base, self.anchor) for run in side for series in run.values()]

    def members(self, side: Iterable[Members]) -> set[Member]:
        """Return the ranks (and devices) of a side."""
        return {member for run in side for member in run}

    def concerned_by(self, left_out: Mapping[str, Sequence[Problem]]) -> list[Problem]:
        """Return the problems of the metrics that the subject reads, except those of series with other labels."""
        own, warming = set(self.key.labels), self.key.label("of") if self.components & {*WARMUP_METRICS} else None
        return [
            problem
            for name, problems in left_out.items()
            if name in self.components or name == warming
            for problem in problems
            if problem.key is not None and (not own or set(problem.key.without_members().labels) <= own)
        ]


def find_subjects(sentence: Sentence, runs: JudgedRuns) -> list[Subject]:
    """Return the metrics that a sentence names, in the new runs or the baseline, sorted by name and labels.

    A metric that only the baseline has is included: it has disappeared.
    """
    subject, text = sentence.subject, sentence.subject_text
    if (subject, text) in runs.subjects:
        return runs.subjects[subject, text]
    if isinstance(subject, Selector) and subject.is_glob:
        # Globs such as `*` do not mean the warm-up metrics, which are derived from every run.
        derived = WARMUP_METRICS if subject.pattern.startswith("warmup.") else ()
        names = filter(subject.matches_metric, (*runs.all_names, *derived))
        named = [(name, Selector(name, quoted=True, labels=subject.labels)) for name in names]
        found = [one for name, selector in named for one in _subjects_of(name, selector, runs)]
    else:
        found = _subjects_of(name_of(subject, text), subject, runs)
    runs.subjects[subject, text] = found
    return found


def _subjects_of(name: str, expression: Expression, runs: JudgedRuns) -> list[Subject]:
    """Return a subject for each set of labels of an expression; one with the reason if it cannot be computed."""
    components = frozenset(component_names(expression, runs.metrics))
    by_means = any(view.has_summary(components) for view in (*runs.base, *runs.anchor))
    try:
        new, base, anchor = (
            [(members_by_key(name, runs.by_means(view) if by_means else view, expression), view) for view in side]
            for side in (runs.new, runs.base, runs.anchor)
        )
    except NotAvailable as error:
        lacking = error.sources if isinstance(error, OnlySummary) else None
        nobody = (_NOBODY,) * len(runs.new)
        return [Subject(Key(name), expression, nobody, new_views=runs.new, trouble=str(error), lacking=lacking)]
    measured, known = ({key for members, _ in side for key in members} for side in (new, base))
    stored_as: Mapping[Key, Key] = {}
    if known and not measured <= known:  # a new key is not stored: it may be stored under other conditions
        stored_as, replaced = other_conditions(measured, known, runs.conditions)
        known -= replaced  # the baseline's series under other conditions; the error names them
    keys = measured | known
    found = []
    for key in sorted(keys, key=by_load) if len(keys) > 1 else keys:
        new_runs, new_views = _side(key, new)
        base_runs, base_views = _side(key, base, runs.conditions)
        anchor_runs, anchor_views = _side(key, anchor, runs.conditions)
        members, views = (new_runs, base_runs, anchor_runs), (new_views, base_views, anchor_views)
        found.append(Subject(key, expression, *members, *views, components=components, stored_as=stored_as.get(key)))
    return found


_Side: TypeAlias = list[tuple[Mapping[Key, Members], RunView]]


def _side(key: Key, side: _Side, conditions: Collection[str] = ()) -> tuple[tuple[Members, ...], tuple[RunView, ...]]:
    """Return the ranks of a metric in each run of a side, and the whole runs.

    Runs are left out that do not have the metric because they are stored partially, or have it under other conditions.
    """
    found = [
        (members.get(key, _NOBODY), view)
        for members, view in side
        if key in members or not (view.run.partial or (conditions and _is_elsewhere(key, members, view, conditions)))
    ]
    if not found:  # the metric is absent in all runs
        found = [(_NOBODY, view) for _, view in side]
    return tuple(members for members, _ in found), tuple(view for _, view in found)


def _is_elsewhere(key: Key, members: Iterable[Key], view: RunView, conditions: Collection[str]) -> bool:
    """Return whether a run has the metric under other conditions, whatever labels the rule names."""
    return nearest_conditions(key, (*members, *view.keys(key.metric)), conditions) is not None


def name_of(expression: Expression, text: str = "") -> str:
    """Return the metric name that a verdict shows: the name, or the text of an expression."""
    return expression.pattern if isinstance(expression, Selector) else text


def is_named(expression: Expression, text: str, key: Key) -> bool:
    """Return whether the subject of a rule is a metric with these labels."""
    return (isinstance(expression, Selector) and expression.matches(key)) or key.metric == name_of(expression, text)


def members_by_key(name: str, view: RunView, expression: Expression) -> Mapping[Key, Members]:
    """Return the series of an expression in one run, by labels and then by rank and device. Raises NotAvailable."""
    if isinstance(expression, Selector) and expression.quoted and not view.may_have(expression.pattern):
        return {}
    groups: dict[Key, dict[Member, Series]] = {}
    for labels, series in sorted(view.evaluate(expression).items()):
        key = Key(name, labels)
        groups.setdefault(key.without_members(), {})[key.member()] = series
    return groups


def naming(ruleset: Ruleset) -> Callable[[Key], bool]:
    """Return a test for series: whether any rule reads it, directly or through a derived metric."""
    by_name: dict[str, list[Selector]] = {}
    globs: list[Selector] = []
    seen: set[Selector] = set()
    waiting = [one for rule in ruleset.rules for one in selectors(rule.sentence.subject)]
    while waiting:
        selector = waiting.pop()
        if selector in seen:
            continue
        seen.add(selector)
        names: Iterable[str] = (selector.pattern, *synonyms(selector.pattern))
        if selector.is_glob:
            globs.append(selector)
            names = filter(selector.matches_metric, ruleset.metrics)
        else:
            for name in names:
                by_name.setdefault(name, []).append(selector)
        derived = (ruleset.metrics[name].expression for name in names if name in ruleset.metrics)
        waiting += [*read_by(selector), *(part for expression in derived for part in selectors(expression))]

    @cache
    def is_read(key: Key) -> bool:
        named = by_name.get(key.metric, ())
        return any(one.accepts_labels(key) for one in named) or any(one.matches(key) for one in globs)

    return is_read
