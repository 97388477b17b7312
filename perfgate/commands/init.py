"""`perfgate init`: write a gate from runs. Files are written at the end, all or none, and never overwritten."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from perfgate.analysis.advice import advise
from perfgate.analysis.tolerances import TOO_NOISY
from perfgate.baselines.approvals import Approval, open_level
from perfgate.baselines.candidates import Candidates, read_measured, unknown_gpu
from perfgate.baselines.levels import RUNS_KEPT
from perfgate.baselines.repository import LoadedBaseline
from perfgate.baselines.stores import open_store
from perfgate.cli.printing import screen
from perfgate.cli.shared import command_options, env_option, format_option, optional_runs_argument, trace_mode_option
from perfgate.core import Fact, Run
from perfgate.core.advice import Advice, FirstGate
from perfgate.core.results import RUNS_FOR_A_PROMISE
from perfgate.core.wording import MAPPING_FILE
from perfgate.judge.case import Case
from perfgate.judge.verdicts import judge
from perfgate.reporters.init import render
from perfgate.rules.ruleset import DEFAULT_IDENTITY
from perfgate.workspace import surroundings
from perfgate.workspace.options import CommandOptions, Refused, typed_fact, typed_path
from perfgate.workspace.output_files import create_files
from perfgate.workspace.rule_source import WORKING_TREE, is_mapping_file, no_rules, sound_rules
from perfgate.workspace.starter_files import rule_file, starter, workflow

SUITE = "training"
RULES, BASELINES, WORKFLOW = "rules", "baselines", ".github/workflows/perf.yml"

Files = dict[str, bytes]


class InitChoices(Struct, frozen=True):
    """The options of `init`, beside the runs."""

    paired: bool = False
    without_step: bool = False
    dry_run: bool = False
    #: The command of pairs, for the workflow.
    measure: str | None = None


@click.command("init")
@command_options(
    optional_runs_argument,
    click.option("--suite", metavar="NAME", help="The name of the new suite. [default: training]"),
    env_option,
    format_option,
    trace_mode_option,
)
@command_options(
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
    click.option("--dry-run", is_flag=True, help="Print everything, and write nothing."),
    name="choices",
    build=InitChoices,
)
def command(options: CommandOptions, choices: InitChoices, added: tuple[str, ...]) -> int:
    """Propose rules for first runs, and write them with baselines and a workflow. No file is ever overwritten.

    A table shows the smallest change that each rule will see, and which metrics have no rule and why. If the noise
    hides the time of a step, nothing is written: choose `--paired`.

    `--add` adds a rule to the rule file of the suite, which keeps its comments. The tolerance is chosen from the given
    runs, or else from the stored ones.

    \b
    Example: perfgate init main-1.log main-2.log main-3.log
    """
    if added:
        from perfgate.commands.init_add_rule import add_rule

        gate = add_rule(options, added, is_paired=choices.paired, is_dry=choices.dry_run)
    else:
        gate = init(options, choices)
    seen = screen()
    click.echo(render(gate, width=seen.width, ascii_only=seen.ascii_only), nl=False)
    return gate.exit_code


def init(options: CommandOptions, choices: InitChoices) -> FirstGate:
    """Write rules, the runs as the first level, and a workflow; return what was done and what comes next.

    With `paired`, no run is stored, and the workflow makes pairs. Without it, nothing is written if the noise hides the
    time of a step, unless the user chose `without_step`.

    Raises Refused, and writes nothing, if one of them exists or the runs cannot become a baseline.
    """
    if choices.measure is not None and ("\n" in choices.measure or not choices.paired):
        raise Refused("--command needs --paired, and is one line")
    existing = _existing()
    if existing and not choices.dry_run:
        raise Refused(f"nothing was written, because {existing}")
    suite = options.suite or SUITE
    rules = f"{RULES}/{suite}.yaml"
    gate = FirstGate("written", None, rules, WORKFLOW, (), is_paired=choices.paired, command=choices.measure)
    files = {rules: starter(suite, is_paired=choices.paired).encode()}
    if options.runs:
        gate, files = _from_runs(options, choices, gate, suite)
    sound_rules([(rules, files[rules])], suite)
    files[WORKFLOW] = workflow(is_paired=choices.paired, command=choices.measure).encode()
    if gate.state == "too-noisy":
        return gate
    if choices.dry_run:
        texts = ((name, data.decode() if not name.startswith(BASELINES) else None) for name, data in files.items())
        noticed = (*gate.noticed, f"warning: without --dry-run nothing would be written, because {existing}")
        return replace(gate, state="dry-run", files=tuple(texts), noticed=noticed if existing else gate.noticed)
    create_files(files)
    return replace(gate, files=tuple((name, None) for name in files))


def _from_runs(options: CommandOptions, choices: InitChoices, gate: FirstGate, suite: str) -> tuple[FirstGate, Files]:
    """Return the gate with the advice, and the rules and baselines in the order in which a person would read them.

    Raises Refused.
    """
    mapped = no_rules(suite, (RULES,))
    runs, facts, noticed = read_measured(options, mapped)
    runs = runs[-RUNS_KEPT:]
    advice = advise(runs, surroundings.today(), is_paired=choices.paired, better=mapped.better)
    env = tuple(f"--env {shlex.quote(typed_fact(fact))}" for fact in options.env)
    gate = replace(
        gate,
        advice=advice,
        runs=tuple(shlex.quote(typed_path(path)) for path in options.runs),
        env=env,
        missing_runs=RUNS_FOR_A_PROMISE - len(runs),
        # Pairs have no baseline, so no GPU can be missing from it.
        noticed=(*map(str, noticed), *([] if choices.paired else unknown_gpu(runs, facts, DEFAULT_IDENTITY))),
    )
    files = {gate.rules: rule_file(suite, advice).encode()}
    if advice.step.is_noisy and not choices.paired and not choices.without_step:
        return replace(gate, state="too-noisy"), {gate.rules: starter(suite).encode()}
    _refuse_without_rules(advice)
    if not choices.paired:
        files |= _stored(options, suite, (gate.rules, files[gate.rules]), runs, facts)
    return gate, files


def _refuse_without_rules(advice: Advice) -> None:
    if advice.rules:
        return
    why = "\n".join(f"  {one.reason}: {', '.join(one.metrics[:5])}" for one in advice.left_out)
    step = "see `perfgate inspect RUN...`, or write the first rule by hand (`perfgate init` without runs)"
    if any(one.reason == TOO_NOISY for one in advice.left_out):
        step = f"pairs cancel noise: `perfgate init --paired RUN...`; or {step}"
    raise Refused(f"these runs have no shared metric that fits a first rule:\n{why}\n{step}", 3)


def _stored(
    options: CommandOptions, suite: str, rules: tuple[str, bytes], runs: Sequence[Run], facts: dict[str, Fact]
) -> Files:
    """Return the runs as the files of a first level. Raises Refused."""
    mappings = WORKING_TREE.mapping_files((RULES,)) if os.path.isdir(RULES) else []
    ruleset = sound_rules([rules, *mappings], suite)
    given = replace(options, rules=(rules[0],), suite=suite)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        candidates = Candidates(given, ruleset, tuple(runs), facts, store, store, LoadedBaseline(), None)
        open_level(candidates, Approval("the first runs, stored by perfgate init"))
        _refuse_blocked(candidates.reloaded())
        stored = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        return {f"{BASELINES}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in stored}


def _existing() -> str:
    """Return which files exist that would be overwritten or mixed with new ones, and what to do; empty for none."""
    there = [f"{folder}/ has {_names(folder)}" for folder in (RULES, BASELINES) if _names(folder)]
    there += [f"{WORKFLOW} exists"] if os.path.lexists(WORKFLOW) else []
    step = (
        "move them away; `perfgate init --add METRIC RUN...` adds a rule to them, and `--dry-run` prints what init"
        " would write without them"
    )
    return f"these exist: {'; '.join(there)}: {step}" if there else ""


def _names(place: str) -> str:
    """Return the names in a folder as words, without the mappings; empty if the folder does not exist."""
    try:
        names = sorted(name for name in os.listdir(place) if not _has_mappings(Path(place) / name))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"a folder that cannot be read ({error.strerror or error})"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _has_mappings(path: Path) -> bool:
    return path.name == MAPPING_FILE and path.is_file() and is_mapping_file((path.name, path.read_bytes()))


def _refuse_blocked(found: Candidates) -> None:
    """Refuse runs that fail the new rules: people switch off a gate that begins red. Raises Refused.

    Too few runs to show the noise are not a failure: further runs of the new gate will show it.
    """
    case = Case(found.ruleset, found.runs, found.loaded.baseline, surroundings.today(), found.facts)
    blocked = [verdict for verdict in judge(case) if verdict.exit_code and verdict.reason != "noise-unknown"]
    if blocked:
        words = "\n".join(f"  {verdict.rule}: {verdict.message}" for verdict in blocked)
        raise Refused(f"nothing was written, because these runs do not pass the new rules:\n{words}", 3)
