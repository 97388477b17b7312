"""The gate of `init`: rules that fit the runs, the runs as a first level, the proof that the rules work, and the files.

Either all files are written or none, and no file is overwritten.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from perfgate.analysis.advice import advise
from perfgate.analysis.selftest import self_test
from perfgate.analysis.tolerances import TOO_NOISY
from perfgate.baselines.approvals import Approval, open_level
from perfgate.baselines.candidates import Candidates, read_measured, unknown_gpu
from perfgate.baselines.levels import RUNS_KEPT
from perfgate.baselines.repository import LoadedBaseline
from perfgate.baselines.stores import open_store
from perfgate.core import Baseline, Better, Fact, Run
from perfgate.core.advice import FirstGate
from perfgate.core.results import RUNS_FOR_A_PROMISE
from perfgate.core.units import SPEEDS
from perfgate.core.wording import COMMAND, MACHINE_STATE, MAPPING_FILE
from perfgate.judge.evidence import Case
from perfgate.judge.pairs import Pairs
from perfgate.judge.verdicts import judge
from perfgate.rules.ruleset import DEFAULT_IDENTITY, Ruleset
from perfgate.workspace import surroundings
from perfgate.workspace.ci_files import ci_file, main_workflows
from perfgate.workspace.options import CommandOptions, Refused, typed_fact, typed_path
from perfgate.workspace.output_files import create_files
from perfgate.workspace.rule_source import (
    RuleFiles,
    is_mapping_file,
    label_names,
    no_rules,
    parse_mappings,
    sound_rules,
)
from perfgate.workspace.starter_files import rule_file, starter

SUITE, RULES, BASELINES = "training", "rules", "baselines"
#: Files to write, by name.
Files = dict[str, bytes]


class InitChoices(Struct, frozen=True):
    """The options of `init` that are not about reading the runs. Times are in seconds."""

    paired: bool = False
    without_step: bool = False
    dry_run: bool = False
    #: The command of pairs, for the workflow.
    measure: str | None = None
    results: tuple[str, ...] = ()
    timeout: float = 600.0
    ci: Literal["github", "gitlab", "buildkite", "jenkins", "slurm"] = "github"


class FirstRuns(Struct, frozen=True):
    """The runs of a gate as they were read, with the facts of their machine and warnings (`noticed`)."""

    options: CommandOptions
    suite: str
    runs: tuple[Run, ...]
    facts: Mapping[str, Fact]
    noticed: tuple[str, ...]
    #: The files with the mappings that read the runs.
    mapping_files: RuleFiles
    #: The metrics of these mappings, with the direction that is better.
    better: Mapping[str, Better]
    #: Pairs of the command with itself, for a gate that makes pairs.
    pairs: Pairs | None = None


def read_first_runs(options: CommandOptions, suite: str, mapping_files: RuleFiles) -> FirstRuns:
    """Read the runs of a gate, and keep the last ones. Raises Refused for runs that cannot become a baseline."""
    found = parse_mappings(mapping_files)
    mapped = replace(no_rules(suite, ()), mappings=found.mappings, conditions=label_names(found.mappings))
    runs, facts, noticed = read_measured(options, mapped)
    return FirstRuns(options, suite, runs[-RUNS_KEPT:], facts, tuple(map(str, noticed)), mapping_files, mapped.better)


def gate_from_runs(first: FirstRuns, gate: FirstGate, *, without_step: bool = False) -> tuple[FirstGate, Files]:
    """Return the gate with its advice, and the files of its rules and baselines, in the order for a reader.

    Without pairs, nothing is stored if the noise hides the time of a step, unless the user chose `without_step`.
    Raises Refused for runs that fit no rule, or do not pass the new rules.
    """
    options, runs, is_paired = first.options, first.runs, gate.is_paired
    judged = runs if gate.measured is None else _of_program(runs)  # `init` itself added the other metrics
    advice = advise(judged, surroundings.today(), is_paired=is_paired, better=first.better, pairs=first.pairs)
    gate = replace(
        gate,
        advice=advice,
        runs=tuple(shlex.quote(typed_path(path)) for path in options.runs),
        env=tuple(f"--env {shlex.quote(typed_fact(fact))}" for fact in options.env),
        missing_runs=RUNS_FOR_A_PROMISE - len(runs),
        # Pairs have no baseline, so no GPU can be missing from it.
        noticed=(*first.noticed, *([] if is_paired else unknown_gpu(runs, first.facts, DEFAULT_IDENTITY))),
    )
    if advice.step.is_noisy and not is_paired and not without_step:  # for the check of the suite's name
        return replace(gate, state="too-noisy"), {gate.rules: starter(first.suite).encode()}
    if not advice.rules:
        why = "\n".join(f"  {one.reason}: {', '.join(one.metrics[:5])}" for one in advice.left_out)
        step = "see `perfgate inspect RUN...`, or write the first rule by hand (`perfgate init` without runs)"
        if any(one.reason == TOO_NOISY for one in advice.left_out):
            step = f"pairs cancel noise: `perfgate init --paired RUN...`; or {step}"
        raise Refused(f"these runs have no shared metric that fits a first rule:\n{why}\n{step}", 3)
    files = {gate.rules: rule_file(first.suite, advice).encode()}
    ruleset = sound_rules([*files.items(), *first.mapping_files], first.suite)
    case = _paired_case(first, ruleset) if is_paired else _stored_case(first, ruleset, files)
    return replace(gate, proofs=() if gate.measured is None or case is None else self_test(case)), files


def _of_program(runs: Sequence[Run]) -> list[Run]:
    """Return the runs without the machine's metrics; if they have other times, also without the command's costs."""

    def without(*prefixes: str) -> list[Run]:
        kept = (tuple(one for one in run.series if not one.key.metric.startswith(prefixes)) for run in runs)
        return [replace(run, series=series) for run, series in zip(runs, kept, strict=True)]

    own = without(COMMAND, *MACHINE_STATE)
    has_times = all(any(one.unit in SPEEDS for one in run.series) for run in own)
    return own if has_times else without(*MACHINE_STATE)


def _paired_case(first: FirstRuns, ruleset: Ruleset) -> Case | None:
    """Return the pairs as a case for the judge, if there are any."""
    pairs = first.pairs
    if pairs is None:
        return None
    base = Baseline(place="pairs", runs=pairs.base, pairing=pairs.pairing)
    return Case(ruleset, pairs.new, base, surroundings.today(), first.facts)


def _stored_case(first: FirstRuns, ruleset: Ruleset, files: Files) -> Case:
    """Add the runs to `files` as a first level; return the case of the runs against this level.

    Raises Refused for runs that do not pass the new rules, because people switch off a gate that begins red. Too few
    runs to show the noise are not refused: further runs of the new gate will show it.
    """
    given = replace(first.options, rules=tuple(files), suite=first.suite)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        facts = dict(first.facts)
        candidates = Candidates(
            given, ruleset, first.runs, facts, store, known=store, loaded=LoadedBaseline(), head=None
        )
        open_level(candidates, Approval("the first runs, stored by perfgate init"))
        found = candidates.reloaded()
        case = Case(ruleset, found.runs, found.loaded.baseline, surroundings.today(), found.facts)
        blocked = [verdict for verdict in judge(case) if verdict.exit_code and verdict.reason != "noise-unknown"]
        if blocked:
            words = "\n".join(f"  {verdict.rule}: {verdict.message}" for verdict in blocked)
            raise Refused(f"nothing was written, because these runs do not pass the new rules:\n{words}", 3)
        stored = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        files |= {f"{BASELINES}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in stored}
    return case


def usual_suite(words: Sequence[str]) -> str:
    """Return the name of the suite of a command, if the user does not name it."""
    return "benchmarks" if any(Path(word).name in ("pytest", "py.test") for word in words) else SUITE


def empty_gate(options: CommandOptions, choices: InitChoices) -> FirstGate:
    """Return the gate before anything is measured or read."""
    rules, place = f"{RULES}/{options.suite or SUITE}.yaml", ci_file(choices.ci).place
    paired, measure = choices.paired, choices.measure
    return FirstGate("written", None, rules, workflow=place, files=(), is_paired=paired, command=measure)


def written(gate: FirstGate, files: Files, choices: InitChoices, existing: str = "") -> FirstGate:
    """Write the files and the job of the CI system; return the gate with their names. Raises Refused.

    A dry run writes nothing, and returns the texts, too.
    """
    job = ci_file(choices.ci, is_paired=gate.is_paired, command=gate.command, is_remembered=gate.measured is not None)
    files[job.place], gate = job.text.encode(), replace(gate, found_by=job.step)
    if choices.ci == "github" and not gate.is_paired:  # pairs have no history
        of_main = main_workflows(is_remembered=gate.measured is not None)
        files |= {one.place: one.text.encode() for one in of_main}
        gate = replace(gate, workflow=f"{Path(job.place).parent.as_posix()}/perf*.yml")
    if choices.dry_run:
        texts = ((name, data.decode() if not name.startswith(BASELINES) else None) for name, data in files.items())
        noticed = (*gate.noticed, f"warning: without --dry-run nothing would be written, because {existing}")
        return replace(gate, state="dry-run", files=tuple(texts), noticed=noticed if existing else gate.noticed)
    create_files(files)
    return replace(gate, files=tuple((name, None) for name in files))


def refuse_existing(choices: InitChoices) -> str:
    """Return words about files that would be overwritten or mixed with new ones, and what to do; empty if none exist.

    Raises Refused with these words, unless it is a dry run.
    """
    place = ci_file(choices.ci).place
    there = [f"{folder}/ has {names}" for folder in (RULES, BASELINES) if (names := _names(folder))]
    if os.path.lexists(place):
        there.append(f"{place} exists")
    step = (
        "move them away; `perfgate init --add METRIC RUN...` adds a rule to them, and `--dry-run` prints what init"
        " would write without them"
    )
    existing = f"these exist: {'; '.join(there)}: {step}" if there else ""
    if existing and not choices.dry_run:
        raise Refused(f"nothing was written, because {existing}")
    return existing


def _names(place: str) -> str:
    """Return the names in a folder as words, without the mappings; empty if the folder does not exist."""
    try:
        names = sorted(
            path.name
            for path in Path(place).iterdir()
            if path.name != MAPPING_FILE or not path.is_file() or not is_mapping_file((path.name, path.read_bytes()))
        )
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"a folder that cannot be read ({error.strerror or error})"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
