"""`perfgate selftest`: prove with the user's rules and runs that worse input fails."""

from __future__ import annotations

import click
from msgspec import Struct

from perfgate.analysis.added_work import added_work
from perfgate.analysis.selftest import exit_code, self_test
from perfgate.analysis.unruled import time_seen
from perfgate.baselines.repository import StoredBaselines
from perfgate.baselines.stores import open_store
from perfgate.cli.printing import complain, screen, write_document
from perfgate.cli.shared import JUDGING, command_options, runs_argument
from perfgate.commands.preparing import with_pairs
from perfgate.core import Baseline, Problem
from perfgate.core.details import AddedWork
from perfgate.core.summaries import Proof
from perfgate.judge.case import Case
from perfgate.judge.subjects import naming
from perfgate.judge.utilization import with_utilization
from perfgate.reporters.rule_power import selftest_json, selftest_text
from perfgate.workspace import inputs, surroundings
from perfgate.workspace.env_facts import merge_facts, read_facts
from perfgate.workspace.options import CommandOptions, Refused, acceptance
from perfgate.workspace.rule_source import policy_source, read_ruleset


@click.command("selftest")
@command_options(runs_argument, *JUDGING)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (perfgate.selftest/1).")
def command(options: CommandOptions, as_json: bool) -> int:
    """Prove on your own rules and runs that unchanged input passes and worse input fails. Nothing is written.

    \b
    Example: perfgate selftest main-1.log main-2.log
    """
    done = selftest(options)
    shown = (done.proofs, done.against, done.exit_code, done.time_seen, done.added)
    if as_json:
        write_document(selftest_json(*shown))
    else:
        seen = screen()
        text = selftest_text(*shown, width=seen.width, colour=seen.colour, ascii_only=seen.ascii_only)
        click.echo(text, nl=False, color=True)
    complain(done.problems)
    return done.exit_code


class SelfTest(Struct, frozen=True):
    """The proof of each rule, what the runs were compared with, and the exit code."""

    proofs: tuple[Proof, ...]
    #: The level; or words that say that the runs were compared with themselves.
    against: str
    problems: tuple[Problem, ...]
    exit_code: int
    #: The share of the time of all time metrics of the runs that a rule names; None without times.
    time_seen: float | None = None
    #: Which rules fail if each step does more work; empty for runs without exact work.
    added: tuple[AddedWork, ...] = ()


def selftest(options: CommandOptions) -> SelfTest:
    """Test every rule, for pairs with their own base; nothing is written. Raises Refused as `tested_case`."""
    case, against, problems = tested_case(options)
    proofs, seen = self_test(case), time_seen(case.new, naming(case.ruleset))
    return SelfTest(proofs, against, problems, exit_code(proofs), seen, tuple(added_work(case)))


def tested_case(options: CommandOptions) -> tuple[Case, str, tuple[Problem, ...]]:
    """Return rules and runs, with words for what the runs are compared with, and warnings.

    Without a baseline they are compared with themselves. Raises Refused for mistakes in the rules and for unreadable
    runs.
    """
    ruleset = read_ruleset(policy_source(options.policy_ref, options.policy_commit), options.rules, options.suite)
    runs = inputs.read_runs(
        options.runs,
        options.format,
        options.trace_mode,
        conditions=ruleset.conditions,
        with_calls=False,
        mappings=ruleset.mappings,
    )
    facts, clashes = merge_facts(runs, read_facts(options.env), ruleset.identity)
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
    claimed = frozenset(facts) - read_facts(options.env).keys()
    case = Case(ruleset, runs, baseline, surroundings.today(), facts, claimed, limits=surroundings.limits())
    return case, against or "", warnings
