"""The stored baselines: what `check` compares with, or the reason why there is nothing."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from perfgate.app import inputs
from perfgate.app.priors import other_environment, read_prior
from perfgate.baselines.files import decode, run_of
from perfgate.baselines.identity import differences, environment_name, identity_of
from perfgate.baselines.levels import History, StoredRun, contradictions
from perfgate.baselines.stores import DirectoryStore
from perfgate.model import Baseline, Fact, Key, Problem
from perfgate.rules.evaluation import component_names
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.sentence import Selector, selectors


@dataclass(frozen=True, slots=True)
class Options:
    """What every command that meets baselines is told."""

    runs: tuple[str, ...] = ()
    rules: tuple[str, ...] = ("rules",)
    baselines: str = "baselines"
    suite: str | None = None
    env: tuple[str, ...] = ()
    format: str | None = None
    head: str | None = None


@dataclass(frozen=True, slots=True)
class Loaded:
    """What is stored for one environment of a suite."""

    baseline: Baseline
    history: History
    problems: list[Problem] = field(default_factory=list)
    #: Whether a stored file cannot be read, so that nobody knows the whole history.
    damaged: bool = False
    sha256: str = hashlib.sha256().hexdigest()


def open_store(path: str) -> DirectoryStore:
    """The store in a directory, which need not exist yet."""
    return DirectoryStore(Path(path), inputs.shown_path(path))


def approve_command(options: Options) -> str:
    """The command that would approve these runs, as the user would type it, without absolute paths."""
    words = ["perfgate", "baseline", "approve", *map(inputs.typed_path, options.runs), "--reason", "..."]
    rules = map(inputs.typed_path, options.rules if options.rules != ("rules",) else ())
    words += [word for rule in rules for word in ("--rules", rule)]
    words += ["--baselines", inputs.typed_path(options.baselines)] if options.baselines != "baselines" else []
    words += ["--suite", options.suite] if options.suite else []
    words += [word for fact in options.env for word in ("--env", fact)]
    return " ".join(shlex.quote(word) if word != "..." else '"..."' for word in words)


def load_baseline(store: DirectoryStore, ruleset: Ruleset, facts: dict[str, Fact], approve: str) -> Loaded:
    """The runs that new ones of this environment are compared with, or the reason why there are none."""
    identity = identity_of(facts, ruleset.identity)
    environment, nearest = find_environment(store, ruleset.suite, identity)
    stored, problems, sha256 = read_stored(store, ruleset.suite, environment)
    problems += [
        Problem("error", f"is of another environment: {'; '.join(other)}", store.location(run.path))
        for run in stored
        if (other := differences(run.file.identity, identity))
    ]
    prior, wrong, prior_sha256 = read_prior(store, ruleset.suite, environment)
    problems += wrong
    problems += other_environment(store, prior, environment, identity) if prior else []
    sha256 = hashlib.sha256((sha256 + prior_sha256).encode()).hexdigest() if prior_sha256 else sha256
    history = History.of(stored)
    heads, damaged = history.heads(), bool(problems)
    if problems or len(heads) > 1:
        problems += [_forked(store, ruleset.suite, environment, heads)] if len(heads) > 1 else []
        baseline = Baseline(
            missing="the stored baseline cannot be used: see the problems",
            next_step="settle the problems first",
        )
    elif not heads:
        missing = nearest or f"there is no baseline for suite {ruleset.suite} in {store.shown}"
        baseline = Baseline(missing=missing, next_step=f"make one: {approve}")
    else:
        baseline = _baseline(history, heads[0], f"{ruleset.suite}/{environment}", identity)
        baseline = replace(baseline, priors=prior.calibrated if prior else ())
    return Loaded(baseline, history, problems, damaged, sha256)


def read_stored(store: DirectoryStore, suite: str, environment: str) -> tuple[list[StoredRun], list[Problem], str]:
    """Every stored run of an environment, what is wrong with the others, and the hash of all that was read."""
    data, problems = store.read(suite, environment)
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


def _baseline(history: History, head: str, place: str, identity: dict[str, Fact | None]) -> Baseline:
    unknown = tuple(name for name, value in identity.items() if value is None)
    runs, anchor = (
        tuple(run_of(run.file, run.path) for run in found) for found in (history.newest(head), history.anchor(head))
    )
    return Baseline(f"{place}/{head}", runs, anchor, unknown_facts=unknown)


def _forked(store: DirectoryStore, suite: str, environment: str, heads: Sequence[str]) -> Problem:
    message = f"two approvals stand side by side, {' and '.join(heads)}: approve a run to settle it"
    return Problem("error", message, store.location(f"{suite}/{environment}"))


def find_environment(store: DirectoryStore, suite: str, identity: dict[str, Fact | None]) -> tuple[str, str | None]:
    """The folder of an environment, whatever it is called, and where there is none, what the nearest differs in."""
    name = environment_name(identity)
    known = store.environments(suite)
    if name in known:
        return name, None
    nearest: tuple[list[str], str] | None = None
    for other in known:
        stored, _, _ = read_stored(store, suite, other)
        if not stored:
            continue
        differing = differences(stored[-1].file.identity, identity)
        if not differing:
            return other, None
        if nearest is None or len(differing) < len(nearest[0]):
            nearest = (differing, other)
    if nearest is None:
        return name, None
    return name, f"there is no baseline for this environment: {'; '.join(nearest[0])} (nearest: {nearest[1]})"


def is_named(ruleset: Ruleset, key: Key) -> bool:
    """Whether any rule reads this series, itself or through a derived metric."""
    for rule in ruleset.rules:
        for selector in selectors(rule.sentence.subject):
            if selector.matches(key):
                return True
            names = component_names(selector, ruleset.metrics) - {selector.pattern}
            derived = {name for name in ruleset.metrics if selector.matches_metric(name)}
            for name in derived:
                names |= component_names(ruleset.metrics[name].expression, ruleset.metrics)
            if any(Selector(name, quoted=True).matches_metric(key.metric) for name in names):
                return True
    return False
