"""The stored runs of every environment, as cases without new runs."""

from __future__ import annotations

from collections.abc import Iterator

from perfgate.baselines.places import identity_of
from perfgate.baselines.repository import StoredBaselines, environments, read_stored_runs
from perfgate.baselines.stores import Store, open_store
from perfgate.commands.preparing import history_of
from perfgate.commands.remembered import with_remembered
from perfgate.core import Baseline, Fact, Problem, fact_text
from perfgate.judge.case import Case
from perfgate.judge.subjects import JudgedRuns
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace import surroundings
from perfgate.workspace.env_facts import read_facts
from perfgate.workspace.options import CommandOptions, acceptance
from perfgate.workspace.rule_source import WORKING_TREE


def stored_cases(options: CommandOptions, ruleset: Ruleset) -> Iterator[tuple[Case, list[Problem]]]:
    """Yield the stored runs of every environment that fits the given facts, without new runs, and their problems."""
    store, given = open_store(options.baselines), read_facts(options.env)
    stored = StoredBaselines(store, ruleset)
    names, problems = environments(store, ruleset.suite)
    for environment in names:
        facts, wrong = _facts(store, ruleset, environment)
        identity = identity_of(facts or {}, ruleset.identity)
        asked = ((given[name], known) for name, known in identity.items() if name in given)
        fits = all(known is not None and fact_text(known) == fact_text(fact) for fact, known in asked)
        if facts is None or not fits:
            problems += wrong
            continue
        loaded = stored.load(facts, acceptance(options))
        case = Case(ruleset, (), loaded.baseline, surroundings.today(), {**facts, **given})
        runs = JudgedRuns.of((), case.baseline, ruleset.metrics, ruleset.conditions)
        unused: list[Problem] = []
        place = case.baseline.place
        if place is not None and (read_history := history_of(WORKING_TREE, options.baselines, place)):
            case, unused = with_remembered(case, runs, read_history)
        yield case, [*wrong, *loaded.problems, *unused]
    if problems:
        yield Case(ruleset, (), Baseline(), surroundings.today()), problems


def _facts(store: Store, ruleset: Ruleset, environment: str) -> tuple[dict[str, Fact] | None, list[Problem]]:
    """Return the facts of the newest stored run of an environment; None without a run."""
    stored, problems, _ = read_stored_runs(store, ruleset.suite, environment)
    if not stored:
        return None, problems
    newest = max(stored, key=lambda run: run.age).head
    facts = {**newest.context, **newest.identity}
    return {name: value for name, value in facts.items() if value is not None}, problems
