"""The table of `perfgate rules`: what each rule sees, proves and needs, with stored runs or with given ones."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from perfgate.analysis.plan import plans
from perfgate.analysis.selftest import exit_code, self_test
from perfgate.analysis.unruled import time_seen
from perfgate.analysis.work_rules import added_work
from perfgate.baselines.places import identity_of
from perfgate.baselines.repository import StoredBaselines, environments, read_stored_runs
from perfgate.baselines.stores import open_store
from perfgate.commands.ledger import records_of
from perfgate.commands.preparing import history_of, with_pairs
from perfgate.commands.remembered import with_remembered
from perfgate.core import Baseline, Problem, fact_text
from perfgate.core.summaries import RulesTable
from perfgate.judge.evidence import Case
from perfgate.judge.report import worst_exit_code
from perfgate.judge.subjects import JudgedRuns, naming
from perfgate.judge.utilization import with_utilization
from perfgate.rules.ruleset import Ruleset
from perfgate.words.history_words import rule_record
from perfgate.workspace import inputs, surroundings
from perfgate.workspace.env_facts import merge_facts, read_facts
from perfgate.workspace.options import CommandOptions, Refused, acceptance
from perfgate.workspace.rule_source import WORKING_TREE, policy_source, read_ruleset


def rules_tables(options: CommandOptions) -> tuple[list[RulesTable], list[Problem], int]:
    """Return a table for the given runs, or for each environment of the stored ones; problems; the exit code.

    Without stored runs, the tables are about the runs that `perfgate run` kept. Raises Refused for mistakes in the
    rules, and without any runs.
    """
    if options.runs:
        case, against, warnings = tested_case(options)
        table = _table(case, against)
        return [table], list(warnings), exit_code(table.proofs)
    ruleset = read_ruleset(WORKING_TREE, options.rules, options.suite)
    tables, problems = [], []
    for case, wrong in stored_cases(options, ruleset):
        problems += wrong
        if newest := case.baseline.runs[-1:]:
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
    said = {rule: rule_record(one) for rule, one in records.items()}
    tables, problems = [replace(table, records=said) for table in tables], [*problems, *wrong]
    return tables, list(dict.fromkeys(problems)), code


def _table(case: Case, against: str) -> RulesTable:
    """Return what the rules see and need with the base runs of a case, and the proofs with its new ones."""
    planned = () if case.baseline.pairing else plans(case)
    seen = time_seen(case.new, naming(case.ruleset))
    return RulesTable(against, planned, self_test(case), seen, tuple(added_work(case)))


def tested_case(options: CommandOptions) -> tuple[Case, str, tuple[Problem, ...]]:
    """Return rules and runs, with words for what the runs are compared with, and warnings.

    Without a baseline they are compared with themselves. Raises Refused for mistakes in the rules and for unreadable
    runs.
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
    runs, baseline, unpaired = with_pairs(runs, loaded.baseline, None)
    if any(problem.severity == "error" for problem in unpaired):
        raise Refused("these pairs cannot be tested with:\n" + "\n".join(map(str, unpaired)), 3)
    against = baseline.place if baseline.pairing else f"baseline {baseline.place}"
    if not baseline.runs:
        baseline, against = Baseline(runs=runs, anchor=runs), f"these runs themselves, because {baseline.missing}"
    warnings = tuple(problem for problem in clashes if problem.severity == "warning")
    claimed = frozenset(facts) - given.keys()
    case = Case(ruleset, runs, baseline, surroundings.today(), facts, claimed, limits=surroundings.limits())
    return case, against or "", warnings


def stored_cases(options: CommandOptions, ruleset: Ruleset) -> Iterator[tuple[Case, list[Problem]]]:
    """Yield the stored runs of every environment that fits the given facts, without new runs, and their problems."""
    store, given = open_store(options.baselines), read_facts(options.env)
    stored = StoredBaselines(store, ruleset)
    names, problems = environments(store, ruleset.suite)
    for environment in names:
        runs, wrong, _ = read_stored_runs(store, ruleset.suite, environment)
        newest = max(runs, key=lambda run: run.age).head if runs else None
        known = {**newest.context, **newest.identity} if newest else {}
        facts = {name: value for name, value in known.items() if value is not None}
        identity = identity_of(facts, ruleset.identity)
        asked = ((given[name], value) for name, value in identity.items() if name in given)
        fits = all(value is not None and fact_text(value) == fact_text(fact) for fact, value in asked)
        if not runs or not fits:
            problems += wrong
            continue
        loaded = stored.load(facts, acceptance(options))
        case = Case(ruleset, (), loaded.baseline, surroundings.today(), {**facts, **given})
        judged = JudgedRuns.of((), case.baseline, ruleset.metrics, ruleset.conditions)
        unused: list[Problem] = []
        place = case.baseline.place
        if place is not None and (read_history := history_of(WORKING_TREE, options.baselines, place)):
            case, unused = with_remembered(case, judged, read_history)
        yield case, [*wrong, *loaded.problems, *unused]
    if problems:
        yield Case(ruleset, (), Baseline(), surroundings.today()), problems
