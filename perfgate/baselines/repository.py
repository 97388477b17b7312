"""Read the stored baselines: the runs that `check` compares with, or the reason why there are none."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from perfgate.baselines.files import ALLOWANCE, PRIOR, STORED_RUN, AllowanceFile, PriorFile, RunHead, RunOutline
from perfgate.baselines.levels import History, RunBytes, StoredRun, contradictions
from perfgate.baselines.places import (
    ALLOWANCES,
    Identity,
    differences,
    environment_name,
    identity_of,
    kind_of,
    pairing_of,
)
from perfgate.baselines.policy_stores import ListedStore
from perfgate.baselines.stores import Store, each_file, each_signed
from perfgate.core import Acceptance, Baseline, Fact, NextStep, Problem
from perfgate.core.wording import listed
from perfgate.documents.structs import END_BYTES
from perfgate.rules.ruleset import Ruleset
from perfgate.stats.history import FEWEST_RUNS
from perfgate.words.steps import make_baseline

_Part = TypeVar("_Part")
#: This many bytes of stored runs stay in memory, because their numbers may be needed; others are read again.
_KEPT_BYTES = 8 << 20
#: The baseline of an environment whose files have problems.
_UNUSABLE = Baseline(
    missing="the stored baseline cannot be used: see the problems",
    next_step=NextStep("fix-input", "solve the problems first"),
)


class LoadedBaseline(Struct, frozen=True):
    """The stored baseline of one environment of a suite, and its problems."""

    baseline: Baseline = field(default_factory=Baseline)
    history: History = field(default_factory=lambda: History({}))
    problems: list[Problem] = field(default_factory=list)
    #: True if a stored file cannot be read or used, so that the history may be incomplete.
    damaged: bool = False
    #: The hash of all files that were read.
    sha256: str = hashlib.sha256().hexdigest()


class _Environment(Struct, frozen=True):
    """The stored files of one environment of a suite."""

    store: ListedStore
    #: `SUITE/ENVIRONMENT`.
    place: str
    #: A sentence about the most similar environment, if this one has no files.
    nearest: str | None
    runs: list[StoredRun]
    history: History
    #: The priors and the allowances, by path.
    priors: dict[str, PriorFile]
    allowed: dict[str, AllowanceFile]
    #: The problems of the runs, and those of the priors and allowances.
    problems: list[Problem]
    other_problems: list[Problem]
    sha256: str


class StoredBaselines(Struct, frozen=True):
    """The stored baselines of a suite. Each environment is read once, however often it is asked for."""

    store: Store
    ruleset: Ruleset
    _read: dict[str, _Environment] = field(default_factory=dict)

    def load(
        self, facts: dict[str, Fact], accept: Acceptance, head: Callable[[], str | None] = lambda: None
    ) -> LoadedBaseline:
        """Return the runs that new ones of an environment are compared with, or the reason why there are none.

        `facts`: the facts of the environment. `accept`: how the new runs can be accepted, for messages. `head`: returns
        the measured commit, whose allowances are loaded, too; called only if there are any.
        """
        identity = identity_of(facts, self.ruleset.identity)
        found = self._environment(identity)
        misplaced = _misplaced(found.store, found.runs, found.priors, identity, facts)
        history, problems = found.history, [*found.problems, *misplaced, *found.other_problems]
        heads, damaged = history.heads(), bool(problems)  # two heads are no damage: an approval replaces both
        if len(heads) > 1:
            step = f"approve new runs to replace both: {accept.approve}"
            step = step if accept.ref is None else f"approve new runs on {accept.ref}, to replace both"
            message = f"two approvals do not follow each other, {' and '.join(heads)}: {step}"
            problems.append(Problem("error", message, found.store.location(found.place)))
        if problems:
            return LoadedBaseline(_UNUSABLE, history, problems, damaged, found.sha256)
        if heads:
            # `rules --calibrate` compares the runs of a level with each other: n runs have n - 1 degrees of freedom
            freedom = sum(len(one) - 1 for one in history.levels.values())
            baseline = Baseline(
                place=f"{found.place}/{heads[0]}",
                runs=tuple(run.run() for run in history.compared(heads[0])),
                anchor=tuple(run.run() for run in history.anchor(heads[0])),
                calibratable=freedom >= FEWEST_RUNS - 1,
                unknown_facts=tuple(name for name, value in identity.items() if value is None),
                allowances=tuple(file.allowance() for file in found.allowed.values() if file.head == head()),
            )
        else:
            baseline = Baseline(missing=found.nearest) if found.nearest else _no_suite(self.store, self.ruleset, accept)
        baseline = replace(baseline, priors=tuple(row for file in found.priors.values() for row in file.calibrated))
        return LoadedBaseline(baseline, history, problems, damaged, found.sha256)

    def _environment(self, identity: Identity) -> _Environment:
        """Return the files of the environment with this identity; they are read the first time only."""
        name, suite = environment_name(identity), self.ruleset.suite
        if name not in self._read:
            store = ListedStore.of(self.store, suite)
            environment, nearest, problems = find_environment(store, suite, identity)
            stored, wrong, sha256 = read_stored_runs(store, suite, environment)
            priors, wrong_priors, priors_sha256 = read_priors(store, suite, environment)
            allowed, wrong_allowances = read_allowances(store, suite)
            sha256 = joined_sha256(sha256, priors_sha256 + "".join(file.content_sha256 for file in allowed.values()))
            self._read[name] = _Environment(
                *(store, f"{suite}/{environment}", nearest, stored, History.of(stored), priors, allowed),
                problems=problems + wrong,
                other_problems=wrong_priors + wrong_allowances,
                sha256=sha256,
            )
        return self._read[name]


def joined_sha256(sha256: str, more: str) -> str:
    """Return the hash of `sha256` and `more`, which are hashes; `sha256` itself if `more` is empty."""
    return hashlib.sha256((sha256 + more).encode()).hexdigest() if more else sha256


def _no_suite(store: Store, ruleset: Ruleset, accept: Acceptance) -> Baseline:
    """Return the baseline of a suite without stored runs. Its message names a suite of a similar name that has some."""
    missing = f"suite {ruleset.suite} has no baseline in {store.shown}"
    suites = {path.partition("/")[0] for path in store.paths()[0] if kind_of(path) == "run"} - {ruleset.suite}
    near = get_close_matches(ruleset.suite, sorted(suites), n=1)
    if not near:
        return Baseline(missing=missing)
    step = make_baseline(accept)
    step = replace(step, text=f"correct `suite` in {listed(ruleset.files)}, or {step.text}")
    return Baseline(missing=f"{missing} (did you mean {near[0]!r}?)", next_step=step)


def _misplaced(
    store: Store, stored: Sequence[StoredRun], priors: dict[str, PriorFile], identity: Identity, facts: dict[str, Fact]
) -> list[Problem]:
    """Return a problem for each file of another environment, and for each trace that was read in another mode."""
    # thousands of runs have the same identity, so each identity is compared once
    differing_facts = cache(lambda encoded: differences(msgspec.json.decode(encoded), identity))
    identities = [(run.path, run.head.identity) for run in stored]
    identities += [(path, prior.identity) for path, prior in priors.items()]
    found = [
        Problem("error", f"is of another environment: {'; '.join(differing)}", store.location(path))
        for path, own in identities
        if (differing := differing_facts(msgspec.json.encode(own)))
    ]
    return found + [
        Problem("error", f"is a trace read with --trace-mode {mode}: use it here, too", store.location(run.path))
        for run in stored
        if (mode := run.head.context.get("trace_mode")) and facts.get("trace_mode", mode) != mode
    ]


def read_stored_runs(store: Store, suite: str, environment: str) -> tuple[list[StoredRun], list[Problem], str]:
    """Read every stored run of an environment; returns the runs, the problems of others, and a hash of all bytes.

    Only the names and the head of a run are decoded; its numbers are decoded when they are used.
    """
    paths, problems = store.paths(f"{suite}/{environment}")
    digest = hashlib.sha256()
    stored: list[StoredRun] = []
    kept_bytes = 0
    parts: dict[tuple[type, bytes], Any] = {}
    for path, data in each_file(store, paths, "run", problems):
        digest.update(f"{path}\0{len(data)}\0".encode() + data)
        outline = STORED_RUN.outline(data, RunOutline)
        if outline is None:  # another layout or damaged: `decode` reads it, or says what is wrong
            file, wrong = STORED_RUN.decode(str(store.location(path)), data)
            problems += wrong
            if file is not None:
                stored.append(StoredRun.of(path, file))
            continue
        kept_bytes += len(data)
        source = RunBytes(store, path, data[-END_BYTES:], data if kept_bytes <= _KEPT_BYTES else None)
        stored.append(_stored_run(outline, source, parts))
    problems += [Problem("error", message, store.location(path)) for path, message in contradictions(stored, suite)]
    return stored, problems, digest.hexdigest()


def _stored_run(outline: RunOutline, source: RunBytes, parts: dict[tuple[type, bytes], Any]) -> StoredRun:
    """Return a stored run by its outline, which shares equal parts with earlier runs."""
    head = msgspec.convert(outline, RunHead, from_attributes=True)
    level, identity, context = (_shared(part, parts) for part in (head.level, head.identity, head.context))
    head = replace(head, level=level, identity=identity, context=context)
    return StoredRun(source.path, head, _shared(frozenset(outline.metrics()), parts), source.file, source.samples)


def _shared(part: _Part, parts: dict[tuple[type, bytes], Any]) -> _Part:
    """Return an equal part of an earlier run, or else this one. It saves memory: thousands of runs have one level."""
    found: _Part = parts.setdefault((type(part), msgspec.json.encode(part)), part)
    return found


def read_priors(store: Store, suite: str, environment: str) -> tuple[dict[str, PriorFile], list[Problem], str]:
    """Read every prior of an environment; returns them by path, the problems of others, and the hashes of all files."""
    problems: list[Problem] = []  # without those of the folder, which `read_stored_runs` returns
    files = list(each_file(store, store.paths(f"{suite}/{environment}")[0], "prior", problems))
    found: dict[str, PriorFile] = {}
    for path, data in files:
        at = store.location(path)
        prior, wrong = PRIOR.decode(str(at), data)
        problems += wrong
        if prior is None or wrong:
            continue
        if prior.suite != suite:
            problems.append(Problem("error", f"was moved: it belongs to the suite {prior.suite}", at))
        elif (prior.pairing or None) != pairing_of(path):
            between = f"pairs ({prior.pairing})" if prior.pairing else "single runs"
            problems.append(Problem("error", f"was moved: it is the noise between {between}", at))
        else:
            found[path] = prior
    return found, problems, "".join(hashlib.sha256(data).hexdigest() for _, data in files)


def read_allowances(store: Store, suite: str) -> tuple[dict[str, AllowanceFile], list[Problem]]:
    """Read every allowance of a suite; returns them by path, and the problems of others."""
    paths, problems = store.paths(f"{suite}/{ALLOWANCES}")
    found: dict[str, AllowanceFile] = {}
    for path, file in each_signed(store, paths, "allowance", ALLOWANCE, problems):
        if file.suite == suite:
            found[path] = file
        else:
            problems.append(Problem("error", f"was moved: it belongs to suite {file.suite}", store.location(path)))
    return found, problems


def environments(store: Store, suite: str) -> tuple[list[str], list[Problem]]:
    """Return the environments of a suite with a stored run or prior, and a problem for each link in their place."""
    paths, problems = store.paths(suite)
    # only problems of `SUITE` itself and of the entries of its folder: the reader of an environment reports deeper ones
    depth = len(str(store.location(suite)).split("/")) + 1
    refused = [problem for problem in problems if len(problem.at.file.split("/")) <= depth]
    return sorted({path.split("/")[1] for path in paths if kind_of(path) in ("run", "prior")}), refused


def find_environment(store: Store, suite: str, identity: Identity) -> tuple[str, str | None, list[Problem]]:
    """Find the folder of an environment by its name, or by the identity of the runs in it.

    The hash in the name is of unknown facts, too, so one more of these gives another name, but no difference.
    Returns the name of the folder; a sentence about the most similar environment if none is found; and the problems of
    `environments`.
    """
    name = environment_name(identity)
    known, problems = environments(store, suite)
    if name in known:
        return name, None, problems
    nearest: tuple[list[str], str] | None = None  # the facts that differ, and the folder
    for other in known:
        stored, _, _ = read_stored_runs(store, suite, other)
        if not stored:
            continue
        differing = differences(stored[-1].head.identity, identity)
        if not differing:
            return other, None, problems
        if nearest is None or len(differing) < len(nearest[0]):
            nearest = (differing, other)
    if nearest is None:
        return name, None, problems
    why = f"there is no baseline for this environment: {'; '.join(nearest[0])} (nearest: {nearest[1]})"
    return name, why, problems
