"""What a rule speaks about: the metrics that it names, rank by rank, in the new runs and in the baseline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from perfgate.measure import Measurer, NotAvailable
from perfgate.model import Baseline, Key, Run, Series
from perfgate.rules.evaluation import RunView, component_names
from perfgate.rules.ruleset import DerivedMetric
from perfgate.rules.sentence import Expression, Selector, Sentence, glob_matches

#: A rank, or a device of a rank: the labels that tell the members of a metric apart.
Member = tuple[tuple[str, str], ...]
Members = Mapping[Member, Series]


@dataclass(frozen=True, slots=True)
class Evidence:
    """All runs of one check, with derived metrics."""

    new: tuple[RunView, ...]
    base: tuple[RunView, ...]
    anchor: tuple[RunView, ...]
    metrics: Mapping[str, DerivedMetric]
    measurer: Measurer = field(default_factory=Measurer)
    #: Older runs, which are only shown.
    past: tuple[RunView, ...] = ()

    @classmethod
    def of(cls, new: Sequence[Run], baseline: Baseline, metrics: Mapping[str, DerivedMetric]) -> Evidence:
        """Look at runs through the derived metrics of a ruleset."""
        views = {id(run): RunView(run, metrics) for run in (*new, *baseline.runs, *baseline.anchor)}
        new_views, base, anchor = (
            tuple(views[id(run)] for run in runs) for runs in (new, baseline.runs, baseline.anchor)
        )
        past = tuple(RunView(run, metrics) for run in baseline.past)
        return cls(new_views, base, anchor, metrics, past=past)

    def names(self) -> list[str]:
        """Every metric that any new run holds."""
        return sorted({name for view in self.new for name in view.names()})

    def keys(self, metric: str) -> list[Key]:
        """Every series of a metric in the new runs, by name and labels."""
        return [key for view in self.new for key in view.select(Selector(metric, quoted=True))]

    def nearest(self, name: str) -> list[str]:
        """The metrics of the new runs whose names are most like one that is absent."""
        names = self.names()
        bare = name.strip("*?")
        inside = [known for known in names if bare and bare.lower() in known.lower()]
        close = get_close_matches(name, names, n=5, cutoff=0.4)
        return list(dict.fromkeys([*close, *inside]))[:5]


@dataclass(frozen=True, slots=True)
class Subject:
    """One metric (and set of labels, rank and device apart) that a rule judges, in each run of each side."""

    key: Key
    expression: Expression
    new: tuple[Members, ...]
    base: tuple[Members, ...] = ()
    anchor: tuple[Members, ...] = ()
    #: Why a side could not be computed.
    trouble: str | None = None
    components: frozenset[str] = field(default_factory=frozenset)

    def all_series(self) -> list[Series]:
        """Every series of the subject, on every side."""
        return [series for side in (self.new, self.base, self.anchor) for run in side for series in run.values()]

    def members(self, side: Iterable[Members]) -> set[Member]:
        """Every rank (and device) that occurs in a side."""
        return {member for run in side for member in run}

    def concerns(self, key: Key) -> bool:
        """Whether a problem of this series touches the subject."""
        return any(glob_matches(name, key.metric) or name == key.metric for name in self.components) and (
            set(key.without_members().labels) <= set(self.key.labels) or not self.key.labels
        )


def find_subjects(sentence: Sentence, evidence: Evidence) -> list[Subject]:
    """Everything that the subject of a sentence names, in the new runs or the baseline, sorted by name.

    A metric that only the baseline has is a subject, too: it has disappeared.
    """
    expression = sentence.subject
    if isinstance(expression, Selector) and expression.is_glob:
        views = (*evidence.new, *evidence.base)
        names = sorted({name for view in views for name in view.names() if expression.matches_metric(name)})
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
            [view.evaluate(expression) for view in side] for side in (evidence.new, evidence.base, evidence.anchor)
        ]
    except NotAvailable as error:
        empty: tuple[Members, ...] = ({},) * len(evidence.new)
        return [Subject(Key(name), expression, empty, trouble=str(error))]
    keys = sorted({Key(name, labels).without_members() for side in sides[:2] for run in side for labels in run})
    components = frozenset(component_names(expression, evidence.metrics))
    found = []
    for key in keys:
        new, base, anchor = (tuple(members_of(run, key) for run in side) for side in sides)
        found.append(Subject(key, expression, new, base, anchor, components=components))
    return found


def members_of(run: Mapping[Member, Series], key: Key) -> Members:
    """Of the series that an expression has in a run, those of one subject, by rank and device."""
    keyed = ((Key(key.metric, labels), series) for labels, series in sorted(run.items()))
    return {k.member(): series for k, series in keyed if k.without_members() == key}
