"""`perfgate compare` and `perfgate baseline diff`: compare two sets of runs without rules, metric by metric."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from functools import partial

import click
from msgspec.structs import replace

from perfgate.baselines.listing import sides
from perfgate.cli import shared
from perfgate.cli.printing import progress, publish
from perfgate.commands.preparing import coverage_of, with_pairs
from perfgate.commands.report_details import causes_of, collected
from perfgate.core import Baseline, Location, Policy, Problem, Report, Run
from perfgate.core.conditions import CONDITIONS, condition_differences, other_conditions
from perfgate.core.next_steps import Acceptance
from perfgate.core.runs import SourceFile
from perfgate.core.units import Quantity
from perfgate.core.wording import MACHINE_STATE, is_statistic, listed
from perfgate.judge.evidence import Case
from perfgate.judge.report import fact_changes, geometric_means, with_outcome
from perfgate.judge.verdicts import judge_with_details
from perfgate.readers.text import TraceMode
from perfgate.rules.ruleset import DEFAULT_IDENTITY, Rule, Ruleset
from perfgate.rules.syntax.cursor import Cursor, SentenceError
from perfgate.rules.syntax.grammar import parse_sentence
from perfgate.rules.syntax.sentence import ChangeClause, Clause, Selector, Sentence
from perfgate.workspace import inputs, surroundings
from perfgate.workspace.env_facts import merge_facts
from perfgate.workspace.options import CommandOptions, Refused
from perfgate.workspace.rule_source import no_rules

#: The place of the rules of a comparison, which are in no file, as messages name it.
_HERE = Location("compare")
_NO_RULES = Ruleset("compare", (), {})
#: The policy of a report without files: the hash of nothing.
_NOTHING = hashlib.sha256().hexdigest()
_NO_POLICY = Policy(None, _NOTHING, _NOTHING)


class NewSideCommand(click.Command):
    """A command in which every path after `--new` is new: `--new A B` means `--new A --new B`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat `--new` before each path of the new side."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option) and one.is_flag]
        flags = {word for option in options for word in (*option.opts, *option.secondary_opts)}
        rewritten: list[str] = []
        is_new, waiting = False, list(args)
        while waiting:
            word = waiting.pop(0)
            if word == "--new":
                is_new = True
            elif word.startswith("-") and word != "-":
                is_new = is_new or word.startswith("--new=")
                rewritten.append(word)
                if waiting and _is_before_value(word, flags):
                    rewritten.append(waiting.pop(0))  # its value
            elif is_new:
                rewritten += ["--new", word]
            else:
                rewritten.append(word)
        return super().parse_args(ctx, rewritten)


def _is_before_value(word: str, flags: Collection[str]) -> bool:
    """Return whether the value of an option is the next word. `-qv` is two flags, and `-f1` has its value."""
    if word.startswith("--"):
        return "=" not in word and word not in flags
    letters = [f"-{letter}" for letter in word[1:]]
    return all(letter in flags for letter in letters[:-1]) and letters[-1] not in flags


@click.command("compare", cls=NewSideCommand)
@shared.workers_option
@shared.executor_option
@click.argument("base", nargs=-1, required=True, metavar="BASE... [NEW]", shell_complete=shared.files)
@click.option(
    "--new", multiple=True, metavar="RUN...", shell_complete=shared.files, help="The new runs: every path after it."
)
@click.option("--paired", is_flag=True, help="Every path has pairs, from `run --paired`; without --new.")
@click.option("--statistic", metavar="NAME", help="median, mean, p95, ... [default: median; of aggregates mean]")
@click.option("--tolerance", default="5%", metavar="T", help="How much worse is accepted. [default: 5%]")
@shared.command_options(shared.rules_option, shared.format_option, shared.trace_mode_option)
@shared.report_options
def command(
    base: tuple[str, ...],
    new: tuple[str, ...],
    paired: bool,
    statistic: str | None,
    tolerance: str,
    options: CommandOptions,
    publication: shared.Publication,
) -> int:
    """Compare two sets of runs without rules. The exit codes are those of check.

    `perfgate compare BASE NEW` compares one run with another. For traces of torch.profiler, the report names the causes
    of the change.

    \b
    Example: perfgate compare main-1.log main-2.log --new change.log
    """
    if len(base) == 2 and not new and not paired:
        base, new = base[:1], base[1:]
    with publication.replaced_if_refused((*base, *new)):  # old reports must not stay if this ends with an error
        if paired == bool(new):
            raise click.UsageError("give the new runs after --new, or pairs with --paired and without --new")
        with progress():
            report = compare(base, new, statistic, tolerance, options.format, options.trace_mode, options.rules)
        return publish(report, publication)


def compare(
    base: Sequence[str],
    new: Sequence[str],
    statistic: str | None,
    tolerance: str,
    format: str | None = None,
    trace_mode: TraceMode = "corrected",
    rules: Sequence[str] = ("rules",),
) -> Report:
    """Judge new runs against base runs, or the sides of pairs, metric by metric. Raises Refused for usage errors.

    `base` names files of pairs if `new` is empty. The default `statistic` is the median of samples, and the mean of
    aggregates. `tolerance`: how much worse is accepted, such as `5%`. `rules`: the folders that may have mappings.
    """
    asks = asked_change(statistic, tolerance)
    inputs.refuse_twice([*base, *new])
    without = no_rules("compare", rules)
    read = partial(inputs.read_runs, format=format, trace_mode=trace_mode, mappings=without.mappings)
    base_runs = read(base)
    if not new:
        new_side, baseline, unpaired = with_pairs(base_runs, Baseline())
        if baseline.pairing is None:
            raise Refused("--paired: these runs have no pairs; make them with `perfgate run --paired`")
        return _compared(baseline, new_side, asks, statistic, unpaired, without)
    new_runs = read(new)
    base_files, new_files = _files(base_runs), _files(new_runs)
    if sorted(file.sha256 for file in base_files) != sorted(file.sha256 for file in new_files):
        return _compared(Baseline(runs=base_runs), new_runs, asks, statistic, ruleset=without)
    problems = tuple(problem for run in base_runs for problem in run.problems)
    same = Report(problems=problems, inputs=base_files, policy=_NO_POLICY, suite="compare", identical=True)
    return with_outcome(same)


def _files(runs: Sequence[Run]) -> tuple[SourceFile, ...]:
    """Return the files of runs, each once."""
    return tuple(dict.fromkeys(file for run in runs for file in run.files))


def compare_stored(path: str, old: str | None, new: str | None) -> Report:
    """Compare two places of a store, with the default tolerance. Raises Refused.

    `path`: the store. `old`, `new`: SUITE/ENVIRONMENT[/LEVEL[/RUN]]. By default, `new` is the newest level, and `old`
    the level that it replaced.
    """
    (old_place, before), (new_place, after) = sides(path, old, new)
    found = _compared(Baseline(runs=before), after, asked_change(None, "5%"), None)
    return replace(found, baseline=f"{old_place} → {new_place}")


def _compared(
    baseline: Baseline,
    new_runs: tuple[Run, ...],
    asks: Clause,
    statistic: str | None,
    unpaired: Sequence[Problem] = (),
    ruleset: Ruleset = _NO_RULES,
) -> Report:
    """Return the report about the metrics that all runs have: a rule with `asks` for each, and one for exact work.

    `unpaired`: the problems of pairs. `ruleset`: without rules, but with mappings and conditions.
    """
    base_runs = baseline.runs
    unlike, refused = _unlike(base_runs, new_runs, CONDITIONS.union(ruleset.conditions))
    common = sorted(_shared((*base_runs, *new_runs)) - unlike)
    rules = tuple(metric_rule(name, statistic, asks) for name in common if not _is_work(name))
    if any(map(_is_work, common)):
        rules = (Rule(parse_sentence("no more work than baseline"), _HERE), *rules)
    facts, problems = merge_facts(new_runs, {}, DEFAULT_IDENTITY)
    ruleset, limits = replace(ruleset, rules=rules), surroundings.limits()
    accept = Acceptance(has_store=False)
    claimed = frozenset(facts)
    case = Case(ruleset, new_runs, baseline, surroundings.today(), facts, claimed, accept=accept, limits=limits)
    verdicts, found = judge_with_details(case)
    problems += [problem for run in (*base_runs, *new_runs) for problem in run.problems]
    causes = causes_of(base_runs, new_runs, verdicts)
    has_traces = causes is not None and any(run.call_trees for run in new_runs)
    problems += [*unpaired, *refused, *_not_compared(base_runs, new_runs, has_causes=has_traces)]
    details = collected(verdicts, found, base_runs, new_runs, metrics=common)
    return with_outcome(
        Report(
            verdicts=verdicts,
            problems=tuple(problems),
            inputs=_files((*base_runs, *new_runs)),
            environment=facts,
            policy=_NO_POLICY,
            suite="compare",
            baseline=baseline.place,
            details=details,
            geometric_means=() if has_traces else geometric_means(verdicts),
            fact_changes=fact_changes(case),
            causes=causes,
            coverage=coverage_of((*base_runs, *new_runs))[0],
        )
    )


def asked_change(statistic: str | None, tolerance: str) -> Clause:
    """Return the clause `within TOLERANCE of baseline`. Raises Refused for a bad statistic or tolerance."""
    if statistic is not None and not is_statistic(statistic):
        raise Refused(f"--statistic {statistic}: no such statistic; use median, mean, p95, ...")
    quantity = tolerance_of(tolerance)
    return Clause(ChangeClause("baseline", "worse", relative=quantity.value), f"within {quantity} of baseline")


def tolerance_of(text: str) -> Quantity:
    """Return the percentage that `--tolerance` gives. Raises Refused."""
    try:
        quantity = Cursor(text).quantity()
    except SentenceError as error:
        raise Refused(f"--tolerance {text}: {error}") from None
    if quantity.unit is None or quantity.unit.symbol != "%" or quantity.number < 0:
        raise Refused(f"--tolerance {text}: a tolerance is a percentage, such as 5%")
    return quantity


def metric_rule(metric: str, statistic: str | None, asks: Clause) -> Rule:
    """Return a rule of a comparison, about one metric."""
    words = " ".join(word for word in (f'"{metric}"', statistic, asks.text) if word)
    return Rule(Sentence(words, Selector(metric, quoted=True), metric, statistic, rank=None, clauses=(asks,)), _HERE)


def _is_work(metric: str) -> bool:
    """Return whether a metric is a count of exact work; a time is none. One rule compares all counts."""
    return metric.startswith("work.") and metric != "work.device_time"


def _shared(runs: Sequence[Run]) -> set[str]:
    """Return the metrics that every run has, without those that are 0 in some runs only: their change has no ratio."""
    # Metrics that are 0 in a run: `ever` in one of them, `always` in all.
    found, ever, always = _metrics(runs), set[str](), set[str]()
    for number, run in enumerate(runs):
        found &= _metrics([run])
        samples = [one for one in run.series if one.kind == "samples"]
        zero = {one.key.metric for one in samples} - {one.key.metric for one in samples if one.values.any()}
        ever |= zero
        always = zero if number == 0 else always & zero
    return found - (ever - always)


def _metrics(runs: Sequence[Run]) -> set[str]:
    """Return the metrics of runs. Those of the machine explain others, and count only if there are no others."""
    names = {series.key.metric for run in runs for series in run.series}
    return {name for name in names if not name.startswith(MACHINE_STATE)} or names


def _unlike(base: Sequence[Run], new: Sequence[Run], names: Collection[str]) -> tuple[set[str], list[Problem]]:
    """Return the metrics that the two sides have only under different conditions, and one error about all of them.

    `names`: the labels that are conditions.
    """
    base_keys, new_keys = ({one.key for run in side for one in run.series} for side in (base, new))
    found, _ = other_conditions(new_keys, base_keys, names)
    if not found:
        return set(), []
    differing: dict[str, None] = {}
    for key, other in sorted(found.items()):
        for name, (of_new, of_base) in condition_differences(key, other, names).items():
            differing[f"{name} is {of_base} in the base and {of_new} in the new runs"] = None
    message = f"the two sides were measured under different conditions: {listed([*differing])}"
    step = "measure both under the same conditions"
    return {key.metric for key in found}, [Problem("error", f"{message}; {step}", _HERE)]


def _not_compared(base: Sequence[Run], new: Sequence[Run], *, has_causes: bool) -> list[Problem]:
    """Return a warning for metrics that are not compared, unless causes name them; an error if none is compared."""
    before, after = _metrics(base), _metrics(new)
    if not before or not after:
        return []  # the files of that side say why
    common = _shared((*base, *new))
    messages = {
        "only the base side has": before - after,
        "only the new side has": after - before,
        "not compared, because some runs have no value or only 0:": (before & after) - common,
    }
    said = [
        Problem("warning", f"{message} {listed(sorted(names))}", _HERE)
        for message, names in messages.items()
        if names and not has_causes
    ]
    return said if common else [*said, Problem("error", "the two sides have no metric in common", _HERE)]
