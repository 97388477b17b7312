"""`perfgate doctor`: measure how noisy this machine is, find what disturbs it, and compare it with the rules."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import click

from perfgate.analysis.proposals import ranked, shared_metrics
from perfgate.baselines.runners import keep, known_runners, qualification, runner_changes
from perfgate.baselines.stores import open_store
from perfgate.cli import shared
from perfgate.cli.printing import USAGE, complain, screen, tell, write_document
from perfgate.core.runner import QualificationReport
from perfgate.core.runs import TENANTS
from perfgate.core.summaries import Examination, MeasuredLoad, RuleNeed
from perfgate.core.wording import one_line, shell_text
from perfgate.doctor.command import CommandPlan, CommandRuns, measure_command, needs_of_command, needs_of_loads
from perfgate.doctor.disturbances import disturbances, examine_cards, quietest_cpu, snapshot, used_processors
from perfgate.doctor.loads import measure_loads
from perfgate.doctor.qualification import Round, card_probes, host_probe, measure
from perfgate.machine.gpus import load_nvml
from perfgate.measuring.programs import RunFailed, Stopped, allowed_cpus, stopped_by_signals
from perfgate.reporters.doctor import qualification_json, qualification_text, render_json, render_text
from perfgate.rules.ruleset import Ruleset
from perfgate.workspace.options import CommandOptions, Refused
from perfgate.workspace.output_files import output_faults, write_reports
from perfgate.workspace.rule_source import WORKING_TREE, read_mapping_files, read_ruleset
from perfgate.workspace.surroundings import head_commit, machine_facts, now

#: The seconds for which `--qualify` measures.
_SECONDS = 30.0
#: If other programs use more than this share of the processors, they disturb the measurement.
_BUSY = 0.1
#: The seconds without measurements, to see the load of other programs, and those of the known loads.
_IDLE_S, _LOADS_S = 1.0, 10.0
#: The most metrics of a command that are shown.
_MOST_METRICS = 3
#: The folder with /proc and /sys.
_ROOT = Path("/")
Tell = Callable[[str], None]


def qualify(baselines: str, tell: Tell, *, renew: bool) -> QualificationReport:
    """Measure this machine, compare it with earlier figures, and keep the new ones if they agree. Raises Refused.

    `baselines`: the store that keeps them. `renew`: keep them also if they differ, because the machine was changed.
    Nothing is kept if other programs disturb.
    """
    store, before, notes = open_store(baselines), machine_facts()[0], list[str]()
    nvml = load_nvml() if "gpu" in before else None
    tell(f"measuring this machine for {_SECONDS:g} s")
    idle = snapshot(_ROOT, time.monotonic())
    time.sleep(_IDLE_S)
    used, cpus = used_processors(idle, snapshot(_ROOT, time.monotonic())) or 0.0, os.cpu_count() or 1
    disturbed = ""
    if before.get(TENANTS):
        disturbed = "other programs use a GPU"
    elif used > _BUSY * cpus:
        disturbed = f"other programs use {used:.1f} of {cpus} processors"
    try:
        with ExitStack() as stack:
            probes: list[Round] = [stack.enter_context(host_probe(allowed_cpus() or ()))]
            if nvml is not None:
                nvml.nvmlInit()
                stack.callback(nvml.nvmlShutdown)
            cards, why = card_probes(nvml)
            probes += cards
            if why:
                notes.append(why)
            figures = measure(probes, _SECONDS)
            facts = machine_facts()[0]  # now: only a card that just worked shows the speed of its link
    except (OSError, RuntimeError) as error:  # also of CUDA
        raise Refused(f"the machine could not be measured: {str(error).splitlines()[0]}", 3) from None
    if TENANTS in before:
        facts[TENANTS] = before[TENANTS]  # without this process
    found = qualification(facts, figures, f"{now():%Y-%m-%dT%H:%M:%SZ}", renew)
    known, problems = known_runners(store, facts)
    changes = runner_changes(known, found)
    is_kept = not disturbed and (renew or not changes)
    place = str(store.location(keep(store, found))) if is_kept else None
    return QualificationReport(found, known, changes, place, disturbed, tuple(notes), tuple(problems))


@click.command("doctor", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]")
@shared.command_options(shared.rules_option, shared.suite_option, shared.baselines_option)
@click.option(
    "--qualify", "qualifies", is_flag=True, help="Measure what this machine is, and compare it with what it was."
)
@click.option("--renew", is_flag=True, help="With --qualify: the machine was changed on purpose.")
@click.option("--machine-only", is_flag=True, help="Measure no command, not even the remembered one.")
@click.option("--results", multiple=True, metavar="GLOB", help="Files that the command writes (repeatable).")
@shared.time_option("--time", "seconds", default="2m", help="Measure the command for this long. [default: 2m]")
@shared.output_option("--json", help="Write JSON (perfgate.doctor/1); - is stdout.")
def command(
    command: tuple[str, ...],
    options: CommandOptions,
    qualifies: bool,
    renew: bool,
    machine_only: bool,
    results: tuple[str, ...],
    seconds: float,
    json: str | None,
) -> int:
    """Measure how noisy this machine is, find what disturbs it, and what helps.

    Two known loads are measured for ten seconds, and COMMAND as with `perfgate run`. Without COMMAND, it is the one
    that rules/perfgate.yaml remembers, if there is one. The exit code is 0 if the machine is quiet enough for the
    rules, and 3 if a rule asks for more than the machine can see.

    With --qualify, it measures for 30 seconds what the machine itself is (bandwidths, a matrix product, clocks), keeps
    that beside the baselines, and ends with 3 if it is not what it was.

    \b
    Example: perfgate doctor -- python train.py
    """
    outputs = {"json": json} if json else {}
    for fault in output_faults(outputs, options.rules).values():
        raise Refused(fault)
    if (renew and not qualifies) or (qualifies and command):
        raise Refused("--renew needs --qualify" if not qualifies else "--qualify takes no COMMAND")
    if qualifies:
        told = qualify(options.baselines, tell, renew=renew)
        complain(told.problems)
        text = qualification_text(told, ascii_only=screen().ascii_only)
        return _publish(qualification_json(told), text, outputs, told.exit_code)
    if machine_only and command:
        raise Refused("--machine-only takes no COMMAND")
    plan = None if machine_only else remembered_plan(command, results, seconds, options)
    found, seen = doctor(options, plan, tell), screen()
    text = render_text(found, width=seen.width, ascii_only=seen.ascii_only)
    return _publish(render_json(found), text, outputs, found.exit_code)


def _publish(document: str, text: str, outputs: Mapping[str, str], code: int) -> int:
    """Write or print the answer; return the exit code: 2 if a file cannot be written."""
    if outputs.get("json") == "-":
        write_document(document)
        return code
    failures = write_reports(outputs, lambda name: document)
    click.echo(text, nl=False)
    for failure in failures:
        tell(f"error: {failure}")
    return USAGE if failures else code


def remembered_plan(
    words: tuple[str, ...], results: tuple[str, ...], time: float, options: CommandOptions
) -> CommandPlan | None:
    """Return how the given or the remembered command is measured; None without either. Raises Refused."""
    known = read_mapping_files(options.rules)
    kept = None if words else known.command
    if kept is not None:
        tell(f"measuring the command of {kept.at}")
        return CommandPlan(
            kept.words, results or kept.results, time, environment=dict(kept.env), mappings=known.mappings
        )
    return CommandPlan(words, results, time, mappings=known.mappings) if words else None


def doctor(options: CommandOptions, plan: CommandPlan | None, tell: Tell) -> Examination:
    """Examine the machine. Raises Refused for mistakes in the rules, and for a command that fails."""
    began = time.monotonic()
    has_rules = options.rules != ("rules",) or Path("rules").exists()  # the usual folder need not exist
    ruleset = read_ruleset(WORKING_TREE, options.rules, options.suite) if has_rules else None
    if plan is not None and shutil.which(plan.words[0]) is None:
        raise Refused(f"{one_line(plan.words[0])} cannot be started: no such program was found", 3)
    allowed = allowed_cpus() or frozenset()
    tell("watching what others do")
    first = snapshot(_ROOT, time.monotonic())
    time.sleep(_IDLE_S)
    second = snapshot(_ROOT, time.monotonic())
    cpu = quietest_cpu(first, second, allowed) if len(allowed) > 1 else None
    cards, runs = examine_cards(), None
    try:
        with stopped_by_signals(), tempfile.TemporaryDirectory(prefix="perfgate-doctor-") as folder:
            if plan is not None:  # first, because it may fail at once
                tell(f"measuring your command for {plan.seconds:g} s")
                runs = measure_command(plan, Path(folder), cpu)
            tell(f"measuring two known loads for {_LOADS_S:g} s")
            loads = measure_loads(_LOADS_S, cpu)
    except Stopped as stopped:
        raise Refused(str(stopped), stopped.exit_code) from None
    except (RunFailed, OSError) as error:
        raise Refused(f"the examination ended early: {error}", 3) from None
    cpus = sum(number >= 0 for number in first.busy) or os.cpu_count() or 1  # -1 is the sum of all
    found = disturbances(_ROOT, (first, second), snapshot(_ROOT, time.monotonic()), cpus, cpu)
    needs = _needs(ruleset, loads, runs)
    return Examination(
        cpus,
        time.monotonic() - began,
        (*loads, *_of_command(runs, needs)),
        (*found, *cards),
        needs,
        cpu,
        shell_text(plan.words) if plan else "",
        tuple(runs.notes) if runs else (),
        has_commits=head_commit() is not None,
    )


def _needs(ruleset: Ruleset | None, loads: list[MeasuredLoad], runs: CommandRuns | None) -> tuple[RuleNeed, ...]:
    """Return what each rule asks of the machine, beside the noise of the command, or else of the known loads."""
    if ruleset is None:
        return ()
    if runs is None or not runs.separate:
        return tuple(needs_of_loads(ruleset, loads))
    return tuple(needs_of_command(ruleset, runs))


def _of_command(runs: CommandRuns | None, needs: tuple[RuleNeed, ...]) -> list[MeasuredLoad]:
    """Return the noise of the command's time, and of the metrics that rules name, or else of its main metrics."""
    if runs is None:
        return []
    names = list(dict.fromkeys(need.measured_on for need in needs if need.floor is not None))
    names = names or ranked(shared_metrics(runs.separate, {}), {})
    return [runs.whole(), *(load for name in names[:_MOST_METRICS] if (load := runs.load(name)).floors)]
