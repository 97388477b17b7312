"""`perfgate rules show`: what each rule sees, proves and needs, with stored runs or with given ones.

With --calibrate, it measures the noise between unchanged runs or pairs of an environment, and stores it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from perfgate.analysis.distortions import added_work
from perfgate.analysis.plan import plans
from perfgate.analysis.selftest import exit_code, self_test
from perfgate.analysis.stored_runs import calibrate
from perfgate.analysis.unruled import time_seen
from perfgate.baselines.candidates import read_candidates
from perfgate.baselines.files import NO_PAIRS, PRIOR, PriorFile, StoredPrior, StoredSource
from perfgate.baselines.levels import History, StoredRun
from perfgate.baselines.places import identity_of, prior_path
from perfgate.baselines.repository import StoredBaselines, environments, find_environment, read_stored_runs
from perfgate.baselines.stores import WritableStore, locked, open_store, write_file
from perfgate.commands.ledger import records_of
from perfgate.commands.preparing import history_of, with_pairs
from perfgate.commands.remembered import with_remembered
from perfgate.core import Baseline, Fact, Problem, Run, fact_text
from perfgate.core.summaries import RulesTable
from perfgate.core.wording import plural, utf8_text
from perfgate.judge.evidence import Case
from perfgate.judge.report import worst_exit_code
from perfgate.judge.subjects import JudgedRuns, naming
from perfgate.judge.utilization import with_utilization
from perfgate.reporters.stored_baselines import prior_line
from perfgate.rules.ruleset import Ruleset
from perfgate.stats.history import FEWEST_RUNS
from perfgate.version import __version__
from perfgate.words.history_words import rule_record
from perfgate.workspace import inputs, surroundings
from perfgate.workspace.env_facts import merge_facts, read_facts
from perfgate.workspace.options import CommandOptions, Refused, acceptance
from perfgate.workspace.rule_source import WORKING_TREE, policy_source, read_ruleset


def rules_tables(options: CommandOptions) -> tuple[list[RulesTable], list[Problem], int]:
    """Return a table for the given runs, or for each environment with stored runs; problems; and the exit code.

    If no runs are stored, the table is about the runs that `perfgate run` kept. Raises Refused for mistakes in the
    rules, and if there are no runs at all.
    """
    if options.runs:
        case, against, warnings = tested_case(options)
        table = _table(case, against)
        return [table], list(warnings), exit_code(table.proofs)
    ruleset = read_ruleset(WORKING_TREE, options.rules, options.suite)
    tables, problems = [], []
    for case, wrong in stored_cases(options, ruleset):
        problems += wrong
        if newest := newest_run(case.baseline.runs):
            tables.append(_table(replace(case, new=newest), f"baseline {case.baseline.place}"))
    if not tables and not problems:
        from perfgate.measuring.kept_runs import kept_runs

        try:
            kept = kept_runs()[0]
        except Refused:
            place = open_store(options.baselines).shown
            hint = "approve a first run, give RUN, or correct --suite, --baselines and --env"
            raise Refused(f"suite {ruleset.suite} has no stored runs in {place}: {hint}", 3) from None
        return rules_tables(replace(options, runs=kept))
    code = worst_exit_code([exit_code(table.proofs) for table in tables])
    records, wrong = records_of(options.baselines, ruleset)
    records_in_words = {rule: rule_record(one) for rule, one in records.items()}
    tables, problems = [replace(table, records=records_in_words) for table in tables], [*problems, *wrong]
    return tables, list(dict.fromkeys(problems)), code


def _table(case: Case, against: str) -> RulesTable:
    """Return what the rules of a case see and need with its base runs, and the proofs with its new runs."""
    planned = () if case.baseline.pairing else plans(case)
    seen = time_seen(case.new, naming(case.ruleset))
    return RulesTable(against, planned, self_test(case), seen, tuple(added_work(case)))


def tested_case(options: CommandOptions) -> tuple[Case, str, tuple[Problem, ...]]:
    """Return the rules and the given runs as a case, words for the base that they are compared with, and warnings.

    Without a baseline, they are compared with themselves. Raises Refused for mistakes in rules and unreadable runs.
    """
    ruleset = read_ruleset(policy_source(options.policy_ref, options.policy_commit), options.rules, options.suite)
    how = (options.format, options.trace_mode)
    conditions, mappings = ruleset.conditions, ruleset.mappings
    runs = inputs.read_runs(options.runs, *how, conditions=conditions, with_calls=False, mappings=mappings)
    given = read_facts(options.env)
    facts, clashes = merge_facts(runs, given, ruleset.identity)
    if ruleset.model is not None:
        runs = with_utilization(runs, ruleset.model, facts)
    found = [problem for run in runs for problem in run.problems] + clashes
    wrong = [problem for problem in found if problem.severity == "error"]
    if wrong:
        raise Refused("these runs cannot be tested with:\n" + "\n".join(map(str, wrong)), 3)
    loaded = StoredBaselines(open_store(options.baselines), ruleset).load(facts, acceptance(options))
    if loaded.problems:
        raise Refused("the stored baseline cannot be used:\n" + "\n".join(map(str, loaded.problems)), 3)
    runs, baseline, unpaired = with_pairs(runs, loaded.baseline)
    if any(problem.severity == "error" for problem in unpaired):
        raise Refused("these pairs cannot be tested with:\n" + "\n".join(map(str, unpaired)), 3)
    against = baseline.place if baseline.pairing else f"baseline {baseline.place}"
    if not baseline.runs:
        baseline, against = Baseline(runs=runs, anchor=runs), f"these runs themselves, because {baseline.missing}"
    warnings = tuple(problem for problem in clashes if problem.severity == "warning")
    claimed = frozenset(facts) - given.keys()
    case = Case(ruleset, runs, baseline, surroundings.today(), facts, claimed, limits=surroundings.limits())
    return case, against or "", warnings


def newest_run(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return the newest of the base runs, which are in order; empty without runs.

    If its level adopted only some metrics, it gets each other metric from the newest base run that has it.
    """
    if not runs:
        return ()
    newest = runs[-1]
    for run in reversed(runs[:-1]) if newest.partial else ():
        known = {series.key.metric for series in newest.series}
        newest = replace(newest, series=(*newest.series, *(one for one in run.series if one.key.metric not in known)))
    return (replace(newest, partial=False),)


def stored_cases(options: CommandOptions, ruleset: Ruleset) -> Iterator[tuple[Case, list[Problem]]]:
    """Yield a case without new runs for every environment whose facts fit those of `--env`, and its problems.

    Problems of other environments come last, with a case without runs.
    """
    store, given = open_store(options.baselines), read_facts(options.env)
    stored = StoredBaselines(store, ruleset)
    names, problems = environments(store, ruleset.suite)
    for environment in names:
        runs, wrong, _ = read_stored_runs(store, ruleset.suite, environment)
        facts = _facts_of(runs, ruleset, given)
        if facts is None:
            problems += wrong
            continue
        loaded = stored.load(facts, acceptance(options))
        case = Case(ruleset, (), loaded.baseline, surroundings.today(), {**facts, **given})
        wrong += loaded.problems
        place = case.baseline.place
        read_history = None if place is None else history_of(WORKING_TREE, options.baselines, place)
        if read_history is not None:
            judged = JudgedRuns.of((), case.baseline, ruleset.metrics, ruleset.conditions)
            case, damaged = with_remembered(case, judged, read_history)
            wrong += damaged
        yield case, wrong
    if problems:
        yield Case(ruleset, (), Baseline(), surroundings.today()), problems


def _facts_of(runs: Sequence[StoredRun], ruleset: Ruleset, given: Mapping[str, Fact]) -> dict[str, Fact] | None:
    """Return the facts of the run that was stored last; None without runs, or if its identity is not the given one."""
    if not runs:
        return None
    head = max(runs, key=lambda run: run.age).head
    facts = {name: fact for name, fact in {**head.context, **head.identity}.items() if fact is not None}
    for name, fact in identity_of(facts, ruleset.identity).items():
        if name in given and (fact is None or fact_text(fact) != fact_text(given[name])):
            return None
    return facts


class _Measured(Struct, frozen=True):
    """Unchanged runs or pairs of one environment, whose noise is measured."""

    case: Case
    #: The name of the environment, and its facts.
    environment: str
    identity: Mapping[str, Fact | None]
    #: The files that the runs were read from.
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
    """Measure the noise of every environment, or of that of `--env`, from its stored runs. Raises Refused."""
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
    """Return the stored runs of an environment, ready to be measured. Raises Refused (3) for too few."""
    held = [(level, run) for level, runs in History.of(found).levels.items() for run in runs]
    if len(held) < FEWEST_RUNS:
        raise Refused(f"{plural(len(held), 'run')} stored, but {FEWEST_RUNS} are needed", 3)
    runs = tuple(run.run for _, run in held)
    sources = {source.sha256: source for _, run in held for source in run.head.sources}
    case = Case(ruleset, runs, Baseline(), surroundings.today())
    identity = held[-1][1].head.identity
    return _Measured(case, environment, identity, list(sources.values()), [level for level, _ in held])


def _calibrate(measured: _Measured, store: WritableStore) -> list[str]:
    """Measure the noise, and write it to the store; return the lines to print. Raises Refused (3)."""
    priors, complaints = calibrate(measured.case, measured.levels)
    said = [f"not calibrated: {complaint}" for complaint in complaints]
    if not priors:
        why = said or ["no rule compares with stored runs: write one, such as `forward within 5% of baseline`"]
        raise Refused("\n".join(["nothing was calibrated or stored", *why]), 3)
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
    with locked(store):
        write_file(store, path, PRIOR.encode(stored), replace=True)
    wrote = f"wrote {store.location(path)}, which check uses from now on" + (" for such pairs" if pairing else "")
    return [*map(prior_line, priors), *said, wrote]
