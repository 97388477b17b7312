"""What a rule speaks about: the metrics that it names, rank by rank, in the new runs and in the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType

from perfgate.core import Baseline, Key, Problem, Run, Series
from perfgate.judge.derived import RunView, component_names
from perfgate.judge.measure import Measurer, NotAvailable
from perfgate.rules.ruleset import DerivedMetric
from perfgate.rules.syntax.sentence import Expression, Selector, Sentence

#: A rank, or a device of a rank: the labels that tell the members of a metric apart.
Member = tuple[tuple[str, str], ...]
Members = Mapping[Member, Series]

#: The members of a metric in a run that does not hold it.
_NOBODY: Members = MappingProxyType({})
#: For so many absent metrics the nearest names are looked for, among so many.
_MOST_HINTS, _MOST_COMPARED = 50, 5_000


@dataclass(frozen=True, slots=True)
class Evidence:
    """All runs of one check, with derived metrics."""

    new: tuple[RunView, ...]
    base: tuple[RunView, ...]
    anchor: tuple[RunView, ...]
    metrics: Mapping[str, DerivedMetric]
    measurer: Measurer = field(default_factory=Measurer)
    #: Every metric that any new run holds, sorted, and every one of the new runs or the baseline.
    names: Sequence[str] = ()
    all_names: Sequence[str] = ()
    #: Of each run, what reading left out of which series.
    left_out: Mapping[str, Sequence[Problem]] = field(default_factory=dict)
    #: Older runs, which are only shown.
    past: tuple[RunView, ...] = ()
    _near: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, new: Sequence[Run], baseline: Baseline, metrics: Mapping[str, DerivedMetric]) -> Evidence:
        """Look at runs through the derived metrics of a ruleset."""
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
        )

    def keys(self, metric: str) -> list[Key]:
        """Every series of a metric in the new runs, by name and labels."""
        return [key for view in self.new for key in view.select(Selector(metric, quoted=True))]

    def nearest(self, name: str) -> list[str]:
        """The metrics of the new runs whose names are most like one that is absent."""
        if name not in self._near:
            if len(self._near) == _MOST_HINTS:  # each takes a look at every name
                return []
            bare = name.strip("*?").lower()
            inside = [known for known in self.names if bare and bare in known.lower()]
            close = get_close_matches(name, self.names[:_MOST_COMPARED], n=5, cutoff=0.4)
            self._near[name] = list(dict.fromkeys([*close, *inside]))[:5]
        return self._near[name]


@dataclass(frozen=True, slots=True)
class Subject:
    """One metric (and set of labels, rank and device apart) that a rule judges, in each run of each side."""

    key: Key
    expression: Expression
    new: tuple[Members, ...]
    base: tuple[Members, ...] = ()
    anchor: tuple[Members, ...] = ()
    #: The stored runs of `base` and `anchor`, each of them whole.
    base_views: tuple[RunView, ...] = ()
    anchor_views: tuple[RunView, ...] = ()
    #: Why a side could not be computed.
    trouble: str | None = None
    components: frozenset[str] = field(default_factory=frozenset)

    def all_series(self) -> list[Series]:
        """Every series of the subject, on every side."""
        return [series for side in (self.new, self.base, self.anchor) for run in side for series in run.values()]

    def members(self, side: Iterable[Members]) -> set[Member]:
        """Every rank (and device) that occurs in a side."""
        return {member for run in side for member in run}

    def concerned_by(self, left_out: Mapping[str, Sequence[Problem]]) -> list[Problem]:
        """The problems, by the metric that they concern, that touch the subject."""
        found = [problem for name in self.components for problem in left_out.get(name, ())]
        return [problem for problem in found if problem.key is not None and self._has_labels_of(problem.key)]

    def _has_labels_of(self, key: Key) -> bool:
        return set(key.without_members().labels) <= set(self.key.labels) or not self.key.labels


def find_subjects(sentence: Sentence, evidence: Evidence) -> list[Subject]:
    """Everything that the subject of a sentence names, in the new runs or the baseline, sorted by name.

    A metric that only the baseline has is a subject, too: it has disappeared.
    """
    expression = sentence.subject
    if isinstance(expression, Selector) and expression.is_glob:
        names = [name for name in evidence.all_names if expression.matches_metric(name)]
        singles = [Selector(name, quoted=True, labels=expression.labels) for name in names]
        return [subject for single in singles for subject in _subjects(single, name_of(single), evidence)]
    return _subjects(expression, name_of(expression, sentence.subject_text), evidence)


def name_of(expression: Expression, text: str = "") -> str:
    """What a verdict calls its metric: the name, or the words of an expression."""
    return expression.pattern if isinstance(expression, Selector) else text


def _subjects(expression: Expression, name: str, evidence: Evidence) -> list[Subject]:
    """The subjects of one expression: one for each set of labels, rank and device apart."""
    try:
        sides = [
            [members_by_key(name, view, expression) for view in side]
            for side in (evidence.new, evidence.base, evidence.anchor)
        ]
    except NotAvailable as error:
        return [Subject(Key(name), expression, (_NOBODY,) * len(evidence.new), trouble=str(error))]
    keys = sorted({key for side in sides[:2] for run in side for key in run})
    components = frozenset(component_names(expression, evidence.metrics))
    found = []
    for key in keys:
        new, base, anchor = ([run.get(key, _NOBODY) for run in side] for side in sides)
        base_runs, base_views = _that_speak(base, evidence.base)
        anchor_runs, anchor_views = _that_speak(anchor, evidence.anchor)
        runs = (tuple(new), base_runs, anchor_runs)
        found.append(Subject(key, expression, *runs, base_views, anchor_views, components=components))
    return found


def _that_speak(runs: Sequence[Members], views: Sequence[RunView]) -> tuple[tuple[Members, ...], tuple[RunView, ...]]:
    """The runs of a side without those that are not compared in this metric, and each of them whole."""
    speaking = [(held, view) for held, view in zip(runs, views, strict=True) if held or not view.run.partial]
    return tuple(held for held, _ in speaking), tuple(view for _, view in speaking)


def members_by_key(name: str, view: RunView, expression: Expression) -> Mapping[Key, Members]:
    """The series of an expression in one run: by their labels, and by rank and device. Raises NotAvailable."""
    if isinstance(expression, Selector) and expression.quoted and not view.may_hold(expression.pattern):
        return {}
    groups: dict[Key, dict[Member, Series]] = {}
    for labels, series in sorted(view.evaluate(expression).items()):
        key = Key(name, labels)
        groups.setdefault(key.without_members(), {})[key.member()] = series
    return groups
