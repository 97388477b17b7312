"""The stored baselines: what `check` compares with, or the reason why there is nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from perfgate.analysis.calibrate import RUNS_NEEDED
from perfgate.baselines import allowances, layout
from perfgate.baselines.files import decode, run_of
from perfgate.baselines.identity import differences, environment_name, identity_of
from perfgate.baselines.levels import Compared, History, StoredRun, contradictions
from perfgate.baselines.prior_store import other_environment, read_priors
from perfgate.baselines.stores import Store
from perfgate.core import Allowance, Baseline, Fact, Key, Problem, Run
from perfgate.core.aliases import synonyms
from perfgate.judge.derived import component_names
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.syntax.sentence import Selector, selectors


@dataclass(frozen=True, slots=True)
class Loaded:
    """What is stored for one environment of a suite."""

    baseline: Baseline
    history: History
    problems: list[Problem] = field(default_factory=list)
    #: Whether a stored file cannot be read, so that nobody knows the whole history.
    damaged: bool = False
    sha256: str = hashlib.sha256().hexdigest()


def load_baseline(
    store: Store, ruleset: Ruleset, facts: dict[str, Fact], approve: str, head: str | None = None
) -> Loaded:
    """The runs that new ones of this environment are compared with, or the reason why there are none.

    `head` is the commit that was measured: what it was allowed to be worse in is loaded, too.
    """
    identity = identity_of(facts, ruleset.identity)
    environment, nearest, problems = find_environment(store, ruleset.suite, identity)
    stored, wrong, sha256 = read_stored(store, ruleset.suite, environment)
    problems += wrong
    problems += [
        Problem("error", f"is of another environment: {'; '.join(other)}", store.location(run.path))
        for run in stored
        if (other := differences(run.file.identity, identity))
    ]
    problems += [
        Problem("error", f"is a trace read with --trace-mode {mode}: use it here, too", store.location(run.path))
        for run in stored
        if (mode := run.file.context.get("trace_mode")) and facts.get("trace_mode", mode) != mode
    ]
    priors, wrong, priors_sha256 = read_priors(store, ruleset.suite, environment)
    problems += wrong + other_environment(store, priors, identity)
    sha256 = hashlib.sha256((sha256 + priors_sha256).encode()).hexdigest() if priors_sha256 else sha256
    allowed, unread = _allowances(store, ruleset.suite, head)
    problems += unread
    history = History.of(stored)
    heads, damaged = history.heads(), bool(problems)
    if problems or len(heads) > 1:
        problems += [_forked(store, ruleset.suite, environment, heads, approve)] if len(heads) > 1 else []
        baseline = Baseline(
            missing="the stored baseline cannot be used: see the problems",
            next_step="settle the problems first",
        )
    elif not heads:
        missing = nearest or f"there is no baseline for suite {ruleset.suite} in {store.shown}"
        baseline = Baseline(missing=missing, next_step=f"make one: {approve}")
    else:
        baseline = _baseline(history, heads[0], f"{ruleset.suite}/{environment}", identity)
        baseline = replace(baseline, allowances=allowed, calibratable=_calibratable(history))
    if not problems:
        baseline = replace(baseline, priors=tuple(row for file in priors.values() for row in file.calibrated))
    return Loaded(baseline, history, problems, damaged, sha256)


def read_stored(store: Store, suite: str, environment: str) -> tuple[list[StoredRun], list[Problem], str]:
    """Every stored run of an environment, what is wrong with the others, and the hash of all that was read."""
    data, problems = layout.run_files(store, suite, environment)
    digest = hashlib.sha256()
    stored: list[StoredRun] = []
    for path, content in data:
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
        file, found = decode(str(store.location(path)), content)
        problems += found
        if file is not None:
            stored.append(StoredRun(path, file))
    problems += [Problem("error", message, store.location(path)) for path, message in contradictions(stored, suite)]
    return stored, problems, digest.hexdigest()


def _allowances(store: Store, suite: str, head: str | None) -> tuple[tuple[Allowance, ...], list[Problem]]:
    """What was allowed to a commit, and every allowance of the suite that cannot be read."""
    data, problems = layout.allowance_files(store, suite)
    found: list[Allowance] = []
    for path, content in data:
        file, wrong = allowances.decode(str(store.location(path)), content, suite)
        problems += wrong
        if file is not None and file.head == head:
            found.append(file.allowance())
    return tuple(found), problems


def _baseline(history: History, head: str, place: str, identity: dict[str, Fact | None]) -> Baseline:
    unknown = tuple(name for name, value in identity.items() if value is None)
    runs, anchor = compared_runs(history.compared(head)), compared_runs(history.anchor(head))
    return Baseline(f"{place}/{head}", runs, anchor, unknown_facts=unknown)


def _calibratable(history: History) -> bool:
    """Whether `calibrate` can learn the noise between runs from those that are stored, each level by itself."""
    return sum(len(runs) - 1 for runs in history.levels.values()) >= RUNS_NEEDED - 1


def compared_runs(found: Iterable[Compared]) -> tuple[Run, ...]:
    """Stored runs as the judge sees them."""
    return tuple(map(_compared, found))


def _compared(found: Compared) -> Run:
    """A stored run as the judge sees it, with the metrics that it is still compared in."""
    run = run_of(found.run.file, found.run.path)
    if found.metrics is None:
        return run
    series = tuple(one for one in run.series if one.key.metric in found.metrics)
    return replace(run, series=series, partial=True)


def _forked(store: Store, suite: str, environment: str, heads: Sequence[str], approve: str) -> Problem:
    """Two branches each approved; whoever merges them says which runs are the new normal."""
    message = f"two approvals stand side by side, {' and '.join(heads)}: settle it with new runs: {approve}"
    return Problem("error", message, store.location(f"{suite}/{environment}"))


def find_environment(
    store: Store, suite: str, identity: dict[str, Fact | None]
) -> tuple[str, str | None, list[Problem]]:
    """The folder of an environment, whatever it is called; where there is none, what the nearest differs in."""
    name = environment_name(identity)
    known, problems = layout.environments(store, suite)
    if name in known:
        return name, None, problems
    nearest: tuple[list[str], str] | None = None
    for other in known:
        stored, _, _ = read_stored(store, suite, other)
        if not stored:
            continue
        differing = differences(stored[-1].file.identity, identity)
        if not differing:
            return other, None, problems
        if nearest is None or len(differing) < len(nearest[0]):
            nearest = (differing, other)
    if nearest is None:
        return name, None, problems
    why = f"there is no baseline for this environment: {'; '.join(nearest[0])} (nearest: {nearest[1]})"
    return name, why, problems


def naming(ruleset: Ruleset) -> Callable[[Key], bool]:
    """Whether any rule reads a series, itself or through a derived metric: a test for as many series as there are."""
    exact: set[str] = set()
    by_name: dict[str, list[Selector]] = {}
    globs: list[Selector] = []
    for selector in dict.fromkeys(s for rule in ruleset.rules for s in selectors(rule.sentence.subject)):
        if selector.is_glob:
            globs.append(selector)
        else:
            for name in (selector.pattern, *synonyms(selector.pattern)):
                by_name.setdefault(name, []).append(selector)
        names = component_names(selector, ruleset.metrics) - {selector.pattern}
        for name in ruleset.metrics:
            if selector.matches_metric(name):
                names |= component_names(ruleset.metrics[name].expression, ruleset.metrics)
        exact |= names | {other for name in names for other in synonyms(name)}

    @cache
    def is_named(key: Key) -> bool:
        return (
            key.metric in exact
            or any(selector.accepts_labels(key) for selector in by_name.get(key.metric, ()))
            or any(selector.matches(key) for selector in globs)
        )

    return is_named
