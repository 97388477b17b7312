"""`perfgate rules --calibrate`: measure the noise between unchanged runs or pairs of an environment, and store it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from perfgate.analysis.stored_runs import calibrate
from perfgate.baselines.candidates import read_candidates
from perfgate.baselines.files import NO_PAIRS, PRIOR, PriorFile, StoredPrior, StoredSource
from perfgate.baselines.levels import History, StoredRun
from perfgate.baselines.places import identity_of, prior_path
from perfgate.baselines.repository import environments, find_environment, read_stored_runs
from perfgate.baselines.stores import WritableStore, locked, open_store, write_file
from perfgate.commands.preparing import with_pairs
from perfgate.core import Baseline, CalibratedPrior, Fact
from perfgate.core.wording import plural, utf8_text
from perfgate.judge.evidence import Case
from perfgate.reporters.stored_baselines import prior_line
from perfgate.rules.ruleset import Ruleset
from perfgate.stats.history import FEWEST_RUNS
from perfgate.version import __version__
from perfgate.workspace import surroundings
from perfgate.workspace.env_facts import read_facts
from perfgate.workspace.options import CommandOptions, Refused
from perfgate.workspace.rule_source import WORKING_TREE, read_ruleset


class _Measured(Struct, frozen=True):
    """Unchanged runs or pairs of one environment."""

    case: Case
    environment: str
    identity: Mapping[str, Fact | None]
    sources: Sequence[StoredSource]
    #: The level of each run; empty for runs from the command line, which are all of the same code.
    levels: Sequence[str] = ()


def calibrate_runs(options: CommandOptions) -> list[str]:
    """Measure the noise between unchanged runs or pairs, and store it; return the lines to print. Raises Refused.

    Without runs, the stored ones are used: each level by itself, for every environment with enough runs.
    """
    if not options.runs:
        return _calibrate_stored(options)
    candidates = read_candidates(options, pairs=True)
    new, baseline, wrong = with_pairs(candidates.runs, Baseline())
    what = "pair" if baseline.pairing else "run"
    if wrong:
        raise Refused("\n".join(map(str, wrong)), 3)
    if len(new) < FEWEST_RUNS:
        there = f"there {'is' if len(new) == 1 else 'are'} {len(new)}"
        raise Refused(f"--calibrate needs {FEWEST_RUNS} or more {what}s of the same code, but {there}")
    files = dict.fromkeys(file for run in candidates.runs for file in run.files)
    measured = _Measured(
        Case(candidates.ruleset, new, baseline, surroundings.today(), candidates.facts),
        candidates.environment,
        identity_of(candidates.facts, candidates.ruleset.identity),
        [StoredSource(utf8_text(file.path), file.format, file.sha256) for file in files],
    )
    return [*map(str, candidates.noticed), *_calibrate(measured, candidates.store)]


def _calibrate_stored(options: CommandOptions) -> list[str]:
    """Measure the noise of every environment, or of the one of `--env`, on its stored runs. Raises Refused."""
    ruleset = read_ruleset(WORKING_TREE, options.rules, options.suite)
    store = open_store(options.baselines)
    names, problems = environments(store, ruleset.suite)
    if options.env:
        identity = identity_of(read_facts(options.env), ruleset.identity)
        names = [name for name in names if name == find_environment(store, ruleset.suite, identity)[0]]
    stored: dict[str, list[StoredRun]] = {}
    for name in names:
        stored[name], damaged, _ = read_stored_runs(store, ruleset.suite, name)
        problems += damaged
    if problems:  # nothing is written: a damaged run may be the one that shows the noise
        raise Refused("\n".join(["the stored baselines are damaged:", *map(str, problems)]), 3)
    lines, refusals = [], []
    for name, found in stored.items():
        try:
            lines += _calibrate(_stored(found, ruleset, name), store)
        except Refused as error:
            refusals.append(f"{ruleset.suite}/{name}: {error}")
    if not lines:
        step = "give five or more runs of the same code, or store more with `perfgate baseline add`"
        why = refusals or [f"there are no stored runs of suite {ruleset.suite} here"]
        raise Refused("\n".join([*why, step]), 3)
    return [*lines, *refusals]


def _stored(found: Sequence[StoredRun], ruleset: Ruleset, environment: str) -> _Measured:
    held = [(level, run) for level, runs in History.of(found).levels.items() for run in runs]
    if len(held) < FEWEST_RUNS:
        raise Refused(f"{plural(len(held), 'run')} stored, but {FEWEST_RUNS} are needed", 3)
    runs = tuple(run.run for _, run in held)
    sources = {source.sha256: source for _, run in held for source in run.head.sources}
    case = Case(ruleset, runs, Baseline(), surroundings.today())
    identity = held[-1][1].head.identity
    return _Measured(case, environment, identity, list(sources.values()), [level for level, _ in held])


def _calibrate(measured: _Measured, store: WritableStore) -> list[str]:
    priors, complaints = calibrate(measured.case, measured.levels)
    said = [f"not calibrated: {complaint}" for complaint in complaints]
    if not priors:
        why = said or ["no rule compares with stored runs: write one, such as `forward within 5% of baseline`"]
        raise Refused("\n".join(["nothing was calibrated or stored", *why]), 3)
    with locked(store):
        return [*map(prior_line, priors), *said, _write(measured, priors, store)]


def _write(measured: _Measured, priors: Sequence[CalibratedPrior], store: WritableStore) -> str:
    suite, pairing = measured.case.ruleset.suite, measured.case.baseline.pairing
    stored = PriorFile(
        schema=PRIOR.schema,
        tool=f"perfgate {__version__}",
        suite=suite,
        time=f"{surroundings.now():%Y-%m-%dT%H:%M:%SZ}",
        identity=dict(measured.identity),
        sources=list(measured.sources),
        priors=[StoredPrior.of(prior) for prior in priors],
        pairing=pairing or NO_PAIRS,
    )
    path = prior_path(suite, measured.environment, pairing)
    write_file(store, path, PRIOR.encode(stored), replace=True)
    return f"wrote {store.location(path)}, which check uses from now on" + (" for such pairs" if pairing else "")
