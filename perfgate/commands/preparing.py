"""Read what runs are judged by (rules, baselines, history, facts), once for many judgements; and read new runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from perfgate.baselines.places import HISTORY
from perfgate.baselines.policy_stores import held, store_of
from perfgate.baselines.repository import StoredBaselines
from perfgate.baselines.stores import Store
from perfgate.core import Baseline, Fact, Key, Location, MissingBaseline, NextStep, Policy, Problem, Report, Run
from perfgate.core.coverage import Coverage, UnreadPolicy, joined_coverage
from perfgate.core.wording import MACHINE_FILE, plural
from perfgate.judge.doubts.machine import MACHINE_DOUBTS
from perfgate.judge.evidence import Case
from perfgate.judge.pairs import is_paired, split_pairs
from perfgate.judge.report import with_outcome
from perfgate.rules.load import readable_suite
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.syntax.sentence import ChangeClause, WorkClause
from perfgate.words.beside import unread_names
from perfgate.words.notes import PAIRED_BASE, PAIRINGS
from perfgate.workspace import inputs, surroundings
from perfgate.workspace.env_facts import read_facts
from perfgate.workspace.input_files import RunsOfPath
from perfgate.workspace.inputs import Shorten
from perfgate.workspace.options import CommandOptions, Refused
from perfgate.workspace.rule_source import PolicySource, policy_source, read_rules

if TYPE_CHECKING:
    from perfgate.commands.remembered import ReadHistory
    from perfgate.commands.rule_changes import OwnPolicy

#: The next step if the base in pairs does not count.
_NEW_ALONE = NextStep("fix-input", "give runs of the new code only")


class CheckRequest(Struct, frozen=True):
    """A request to judge runs by rules."""

    options: CommandOptions
    missing_baseline: MissingBaseline = "error"
    only: tuple[str, ...] = ()
    strict: bool = False
    #: The numbers of new runs after which they are judged; None for one look at limits, and up to three at changes.
    looks: tuple[int, ...] | None = None
    #: True if this command itself made the pairs.
    own_pairs: bool = False
    #: True if a report shows the runs behind the verdicts.
    with_details: bool = False
    #: True if causes are wanted even if everything passes.
    causes: bool = False


class Prepared(Struct, frozen=True):
    """The rules, baselines and facts by which runs are judged.

    A field that is a function reads at its first call, and keeps its result, because not every check needs it.
    """

    request: CheckRequest
    source: PolicySource
    ruleset: Ruleset
    #: The problems of the rules, which are warnings.
    problems: tuple[Problem, ...]
    rules_sha256: str
    baselines: StoredBaselines
    #: Returns the measured commit; git is only asked if something depends on it.
    head: Callable[[], str | None]
    #: Returns the facts of `--env`.
    facts: Callable[[], Mapping[str, Fact]]
    #: Returns the reader of the history of SUITE/ENVIRONMENT/LEVEL; None without a history.
    history: Callable[[str], ReadHistory | None]
    #: Returns the rules and baselines of the working tree; only called if a ref gives the rules.
    own_policy: Callable[[], OwnPolicy]


def prepare(request: CheckRequest, *, hold: bool = False) -> Prepared | Report:
    """Read the rules, and open the baselines; if the rules have mistakes, return a report. Raises Refused.

    `hold`: read the baselines, the measured commit and the working tree's own policy now. The program can change them.
    """
    options = request.options
    source = policy_source(options.policy_ref, options.policy_commit)
    head = cache(lambda: options.head or surroundings.head_commit())
    if source.ref is not None:
        head()  # now, because the branch may move meanwhile
    ruleset, problems, rules_sha256 = read_rules(source, options.rules, options.suite)
    if ruleset is None:
        nothing = hashlib.sha256().hexdigest()  # no baselines were read
        policy = Policy(source.ref, rules_sha256, baselines_sha256=nothing, commit=source.sha)
        suite = options.suite or readable_suite(source.files(options.rules))
        return with_outcome(Report(problems=tuple(problems), policy=policy, suite=suite), at_least=2)
    if hold:
        source = held(source, options.baselines, ruleset.suite)
    store = store_of(source, options.baselines)
    prepared = Prepared(
        request,
        source,
        ruleset,
        tuple(problems),
        rules_sha256,
        StoredBaselines(store, ruleset),
        head,
        facts=cache(partial(read_facts, options.env)),
        history=cache(partial(history_of, source, options.baselines)),
        own_policy=cache(partial(_own_policy, source, store, options)),
    )
    if hold:
        head()
        if source.ref is not None:
            prepared.own_policy()
    return prepared


def _own_policy(source: PolicySource, store: Store, options: CommandOptions) -> OwnPolicy:
    from perfgate.commands.rule_changes import own_policy

    return own_policy(source.ref or "", store, options)


def history_of(source: PolicySource, baselines: str, place: str) -> ReadHistory | None:
    """Return the reader of the history of SUITE/ENVIRONMENT/LEVEL; None without a history."""
    place = place.rpartition("/")[0]  # without the level
    store = store_of(source, baselines, place)
    if not any(store.paths(f"{HISTORY}/{place}")):
        return None
    from perfgate.commands.remembered import reader_of

    return reader_of(store, place)


def read_new(prepared: Prepared, paths: Sequence[str], earlier: list[RunsOfPath] | None = None) -> tuple[Run, ...]:
    """Read the new runs. `earlier`: the runs of the first paths, from an earlier look; those of the others are added.

    Traces are read with their calls if a cause is wanted, or if a rule compares them with stored runs. Of several
    files, values that no rule needs are left out, but not of own pairs, which are small.
    """
    options, ruleset = prepared.request.options, prepared.ruleset
    asked = [clause.asks for rule in ruleset.rules for clause in rule.clauses]
    return inputs.read_runs(
        paths,
        options.format,
        options.trace_mode,
        conditions=ruleset.conditions,
        with_calls=prepared.request.causes
        or any(isinstance(asks, WorkClause) or (isinstance(asks, ChangeClause) and asks.is_stored) for asks in asked),
        mappings=ruleset.mappings,
        shortening=None if prepared.request.own_pairs else partial(_shortening, prepared),
        earlier=earlier,
    )


def _shortening(prepared: Prepared) -> Shorten | None:
    """Return a function that leaves out the values that no rule of the ref or of the working tree needs, or None."""
    from perfgate.analysis.needed_values import needed_by

    own = prepared.own_policy().baselines if prepared.source.ref is not None else None
    # The sizes of other metrics are needed only if there are stored runs to compare them with.
    is_stored = bool(prepared.baselines.store.paths(prepared.ruleset.suite)[0])
    needed = needed_by((prepared.ruleset, own.ruleset) if own else (prepared.ruleset,), with_sizes=is_stored)
    return needed.shortened if needed else None


def refusal_of_pairs(ruleset: Ruleset, policy_ref: str | None) -> str | None:
    """Return why the base in a file of pairs does not count; None if it counts.

    A pull request that is judged by the rules of another commit may only bring a base if these rules accept it.
    """
    if ruleset.pairs == "refuse":
        return "pairs bring a base of their own, and the rules say `pairs: refuse`"
    if ruleset.pairs is None and policy_ref is not None:
        return (
            f"pairs bring a base of their own, but --policy-ref takes the base from {policy_ref}, whose rules do not "
            "say `pairs: accept`"
        )
    return None


def with_pairs(
    runs: Sequence[Run], stored: Baseline, refusal: str | None = None
) -> tuple[tuple[Run, ...], Baseline, list[Problem]]:
    """Return the new side of all pairs, the baseline with their base side as its runs, and the problems of pairs.

    Without pairs, `runs` and `stored` are returned unchanged. The anchor and the allowances are always those of
    `stored`. With a `refusal`, the base side does not count: only limits and changes from the anchor are judged, and an
    error says why. Raises Refused for a mix of pairs and runs without pairs.
    """
    pairs = split_pairs(runs)
    if pairs is None:
        return tuple(runs), stored, []
    alone = [run.name for run in runs if not is_paired(run)]
    if alone:
        raise Refused(f"{alone[0]} has no pair, and other runs have: give pairs or runs, not both")
    problems = list(pairs.problems)
    if refusal is not None:
        problems.append(Problem("error", f"{refusal}; {_NEW_ALONE}", Location(runs[0].source)))
        missing = "the base in the pairs does not count here"
        return pairs.new, replace(stored, place=None, runs=(), missing=missing, next_step=_NEW_ALONE), problems
    place = f"{PAIRED_BASE} ({plural(len(pairs.base), 'pair')}, {PAIRINGS[pairs.pairing]})"
    found = replace(stored, place=place, runs=pairs.base, pairing=pairs.pairing, unknown_facts=(), missing=None)
    return pairs.new, found, problems


def coverage_of(runs: Sequence[Run], policy: UnreadPolicy = "warn") -> tuple[Coverage | None, list[Problem]]:
    """Return how many numbers of all files were read, and with the policy `error` an error for each file with others.

    The policy `ignore` gives neither.
    """
    if policy == "ignore":
        return None, []
    # Files of one name count one by one if their content differs, as after several runs of a command.
    hashes = {id(run): "".join(file.sha256 for file in run.files) for run in runs}
    parts = (replace(part, file=f"{part.file} {hashes[id(run)]}") for run in runs for part in run.coverage)
    files = {part.file: part for run in runs for part in run.coverage if part.unread and policy == "error"}
    step = "no rule can guard them: read them with a mapping (`perfgate inspect --suggest`), or write `unread: warn`"
    return joined_coverage(parts), [
        Problem("error", f"numbers are not read ({unread_names(part)}), so {step}", Location(name))
        for name, part in files.items()
    ]


def reading_problems(runs: Sequence[Run], is_named: Callable[[Key], bool]) -> list[Problem]:
    """Return the problems of reading, one for each file, severity, and series or message.

    `is_named`: for other series, errors become warnings.

    A warning that several runs of one file have is reported once for the file.
    """
    of_whole_file = {(file.path, "warning") for run in runs if run.part is not None for file in run.files}
    # By file, severity and series; without a series also by the message and, unless it is of a whole file, the place.
    groups: dict[tuple[str, str, Key | None, str, str], list[Problem]] = {}
    for problem in dict.fromkeys(problem for run in runs for problem in run.problems):
        message, place = problem.message, str(problem.at)
        if problem.key:
            message = place = ""
        elif (problem.at.file, problem.severity) in of_whole_file:
            place = ""
        groups.setdefault((problem.at.file, problem.severity, problem.key, message, place), []).append(problem)
    found = []
    for first, *more in groups.values():
        others = f"of {first.key}" if first.key else "in this file"
        message = f"{first.message} (and {len(more)} more {others})" if more else first.message
        is_judged = first.key is None or is_named(first.key)
        found.append(replace(first, message=message, severity=first.severity if is_judged else "warning"))
    return found


def with_unread_machine(case: Case, runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """Return the new runs. If one lacks the machine's metrics that the base has, the problems of their file are errors.

    A rule about a change needs them, because a lower clock or lost time that nobody sees might hide a regression.
    """
    asks = (clause.asks for rule in case.ruleset.rules for clause in rule.clauses)
    is_needed = case.baseline.pairing is None and any(isinstance(one, ChangeClause) for one in asks)
    base = (series for run in case.baseline.runs for series in run.series)
    if not is_needed or not any(series.key.metric.startswith(MACHINE_DOUBTS) for series in base):
        return runs
    return tuple(map(_with_errors_of_machine, runs))


def _with_errors_of_machine(run: Run) -> Run:
    if any(series.key.metric.startswith(MACHINE_DOUBTS) for series in run.series):
        return run
    step = "the base has the metrics of the machine: measure again"
    problems = (
        replace(one, severity="error", message=f"{one.message}; {step}") if one.at.file.endswith(MACHINE_FILE) else one
        for one in run.problems
    )
    return replace(run, problems=tuple(problems))
