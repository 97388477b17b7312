"""`perfgate init`: write a gate (rules, baselines and a CI job) from runs or from a command; all of it or nothing."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Literal

import click
from msgspec.structs import replace

from perfgate.analysis.advice import proposed_for
from perfgate.analysis.plan import PAIRS
from perfgate.baselines.candidates import read_measured
from perfgate.cli import shared
from perfgate.cli.printing import screen
from perfgate.commands import init_gate
from perfgate.commands.init_gate import RULES, SUITE, InitChoices
from perfgate.commands.rules_table import stored_cases
from perfgate.core import Run
from perfgate.core.advice import Advice, FirstGate, ProposedRule, StepTime
from perfgate.core.results import LOOKS
from perfgate.core.wording import listed
from perfgate.reporters.init import render
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.write import rule_lines, with_rules
from perfgate.workspace import surroundings
from perfgate.workspace.ci_files import SYSTEMS
from perfgate.workspace.options import CommandOptions, Refused, typed_fact, typed_path
from perfgate.workspace.output_files import replace_file
from perfgate.workspace.rule_source import WORKING_TREE, read_mapping_files, read_ruleset, sound_rules
from perfgate.workspace.starter_files import starter
from perfgate.workspace.starter_files import written as written_rules


class CommandAfterDashes(click.Command):
    """A command that puts the words after `--`, which are the user's own command, into `ctx.obj`."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the words of the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what is before `--`."""
        end = args.index("--") if "--" in args else len(args)
        ctx.obj = tuple(args[end + 1 :])
        if end == len(args) - 1:
            raise click.UsageError("give the command to run after --", ctx)
        return super().parse_args(ctx, args[:end])


@click.command("init", cls=CommandAfterDashes)
@shared.command_options(
    *shared.OPTIONAL_RUNS,
    click.option("--suite", metavar="NAME", help="The name of the new suite. [default: training]"),
    shared.env_option,
    shared.format_option,
    shared.trace_mode_option,
)
@shared.command_options(
    click.option(
        "--paired", is_flag=True, help="Write a gate that measures base and new in pairs, for a noisy machine."
    ),
    click.option(
        "--command",
        "measure",
        metavar="TEXT",
        help="With --paired: the command that measures, for the workflow. {results} is the folder for its files.",
    ),
    click.option("--without-step", is_flag=True, help="Write a gate although no rule sees the time of a step."),
    click.option(
        "--add", "added", multiple=True, metavar="METRIC", help="Add a rule for METRIC to rules/ (repeatable)."
    ),
    click.option("--results", multiple=True, metavar="GLOB", help="Files that COMMAND writes. [default: found]"),
    shared.time_option("--timeout", default="10m", help="End a run that takes longer. [default: 10m]"),
    click.option(
        "--ci", type=click.Choice(SYSTEMS), default="github", help="The system to write a job for. [default: github]"
    ),
    click.option("--dry-run", is_flag=True, help="Print everything, and write nothing."),
    name="choices",
    build=InitChoices,
)
@click.pass_obj
def command(words: tuple[str, ...], options: CommandOptions, choices: InitChoices, added: tuple[str, ...]) -> int:
    """Propose rules for first runs, and write them with baselines and a workflow. No file is ever overwritten.

    With `-- COMMAND...`, the command makes the runs: three, and pairs if they differ too much. Its files or printed
    lines are read, a mapping is written if perfgate does not know their format, and rules/perfgate.yaml remembers the
    command for `perfgate run`, `bisect` and `doctor`.

    A table shows the smallest change that each rule will see, and which metrics have no rule and why. If the noise of
    given runs hides the time of a step, nothing is written: choose `--paired`.

    `--add` adds a rule to the rule file of the suite, which keeps its comments. The tolerance is chosen from the given
    runs, or else from the stored ones.

    \b
    Example: perfgate init main-1.log main-2.log main-3.log

    \b
    From a command:
      perfgate init -- python train.py
    """
    if words and (options.runs or added or choices.measure):
        raise click.UsageError("give runs, --add or --command, or a command after --, not both")
    if choices.results and not words:
        raise click.UsageError("--results needs a command after --")
    if added:
        gate = add_rule(options, added, is_paired=choices.paired, is_dry=choices.dry_run)
    elif words:
        from perfgate.commands.init_from_command import init_from_command

        options = replace(options, suite=options.suite or init_gate.usual_suite(words))
        gate = init_from_command(options, choices, words)
    else:
        gate = init(options, choices)
    seen = screen()
    click.echo(render(gate, width=seen.width, ascii_only=seen.ascii_only), nl=False)
    return gate.exit_code


def init(options: CommandOptions, choices: InitChoices) -> FirstGate:
    """Write rules, the runs as the first level, and a workflow; return what was done and what comes next.

    With `choices.paired`, no run is stored, and the workflow makes pairs. Without it, nothing is written if the noise
    hides the time of a step, unless the user chose `without_step`.

    Raises Refused, and writes nothing, if a file exists already or the runs cannot become a baseline.
    """
    if choices.measure is not None and ("\n" in choices.measure or not choices.paired):
        raise Refused("--command needs --paired, and is one line")
    existing = init_gate.refuse_existing(choices)
    gate = init_gate.empty_gate(options, choices)
    suite = options.suite or SUITE
    files = {gate.rules: starter(suite, is_paired=choices.paired).encode()}
    if options.runs:
        mappings = WORKING_TREE.mapping_files((RULES,)) if os.path.isdir(RULES) else []
        first = init_gate.read_first_runs(options, suite, mappings)
        gate, files = init_gate.gate_from_runs(first, gate, without_step=choices.without_step)
    sound_rules([(gate.rules, files[gate.rules])], suite)  # raises Refused, such as for a name of the suite
    return gate if gate.state == "too-noisy" else init_gate.written(gate, files, choices, existing)


#: A misspelt metric is compared with at most this many names.
_MOST_COMPARED = 5_000


def add_rule(options: CommandOptions, metrics: Sequence[str], *, is_paired: bool, is_dry: bool) -> FirstGate:
    """Add a rule for each metric to the rule file of the suite; return what was added and what comes next.

    The tolerance is chosen from the given runs, or else from the stored ones. Raises Refused, and writes nothing, if a
    metric is unknown, has a rule already, or fits no rule.
    """
    path, data = _rule_file(options)
    ruleset = sound_rules([(path, data)], options.suite)
    runs = _runs(options, ruleset)
    rules = tuple(_rule(metric, runs, ruleset, is_paired=is_paired) for metric in dict.fromkeys(metrics))
    most = PAIRS if is_paired else LOOKS
    advice = Advice(rules, left_out=(), step=StepTime(None), runs=len(runs), is_paired=is_paired, most_runs=most)
    new = written_rules(advice)
    changed = with_rules(path, data, new)
    if changed is None:
        lines = "\n".join(f"  {line}" for rule in new for line in rule_lines(rule))
        raise Refused(f"{path} has no list of rules with one rule a line: add these lines to it yourself:\n{lines}")
    if not is_dry:
        replace_file(path, changed)
    text = "\n".join(line for rule in new for line in rule_lines(rule))
    env = tuple(f"--env {shlex.quote(typed_fact(fact))}" for fact in options.env)
    typed = tuple(shlex.quote(typed_path(run)) for run in options.runs)
    state: Literal["would-add", "added"] = "would-add" if is_dry else "added"
    return FirstGate(state, advice, path, workflow="", files=((path, text),), runs=typed, env=env, is_paired=is_paired)


def _rule_file(options: CommandOptions) -> tuple[str, bytes]:
    """Return the name and the bytes of the rule file of the suite. Raises Refused."""
    if not os.path.isdir("rules"):
        raise Refused("the folder rules/ does not exist: write the first rules with `perfgate init RUN...`")
    files = WORKING_TREE.rule_files(("rules",))
    if len(files) > 1:
        names = (f"/{options.suite}.yaml", f"/{options.suite}.yml")
        files = [file for file in files if options.suite and file[0].endswith(names)]
    if len(files) != 1:
        raise Refused("rules/ has several files: choose one with --suite NAME, which names rules/NAME.yaml")
    return files[0]


def _runs(options: CommandOptions, ruleset: Ruleset) -> tuple[Run, ...]:
    """Return the given runs, or the stored ones of the only environment that fits. Raises Refused."""
    if options.runs:
        return read_measured(options, replace(ruleset, mappings=read_mapping_files(("rules",)).mappings))[0]
    read_ruleset(WORKING_TREE, options.rules, options.suite)  # raises Refused for mistakes in the rules
    stored = [case.baseline.runs for case, _ in stored_cases(options, ruleset) if case.baseline.runs]
    if len(stored) != 1:
        what = "no runs are stored" if not stored else "runs of several environments are stored"
        raise Refused(f"{what}: give runs (`perfgate init --add METRIC RUN...`)")
    return stored[0]


def _rule(metric: str, runs: Sequence[Run], ruleset: Ruleset, *, is_paired: bool) -> ProposedRule:
    """Return the rule that fits a metric of the runs. Raises Refused if there is none, or if `ruleset` has one."""
    names = sorted({series.key.metric for run in runs for series in run.series})
    if metric not in names:
        close = get_close_matches(metric, names[:_MOST_COMPARED], n=3, cutoff=0.5)
        hint = f"the nearest names are {listed(close)}" if close else f"they have {listed(names)}"
        raise Refused(f"the runs have no metric {metric}: {hint}")
    better = replace(ruleset, mappings=read_mapping_files(("rules",)).mappings).better
    found = proposed_for(metric, runs, surroundings.today(), is_paired=is_paired, better=better)
    if isinstance(found, str):  # the reason why no rule fits
        step = f"; pairs may show it: `perfgate init --paired --add {shlex.quote(metric)} RUN...`"
        raise Refused(f"no rule about {metric} fits: {found}{'' if is_paired or 'noise' not in found else step}", 3)
    subject = found.sentence.partition(" within ")[0]
    known = next((rule for rule in ruleset.rules if rule.sentence.subject_text == subject), None)
    if known is not None:
        raise Refused(f"{metric} has a rule already, at {known.at}: {known.sentence.text}")
    return found
