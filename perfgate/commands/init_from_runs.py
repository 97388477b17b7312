"""The gate of `init` from runs: rules that fit them, the runs as a first level, and the proof that the rules work."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

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
from perfgate.core.advice import Advice, FirstGate
from perfgate.core.results import RUNS_FOR_A_PROMISE
from perfgate.core.units import SPEEDS
from perfgate.core.wording import COMMAND, MACHINE_STATE
from perfgate.judge.case import Case
from perfgate.judge.pairs import Pairs
from perfgate.judge.verdicts import judge
from perfgate.rules.ruleset import DEFAULT_IDENTITY
from perfgate.workspace import surroundings
from perfgate.workspace.options import CommandOptions, Refused, typed_fact, typed_path
from perfgate.workspace.rule_source import RuleFiles, label_names, no_rules, parse_mappings, sound_rules
from perfgate.workspace.starter_files import rule_file, starter

BASELINES = "baselines"
#: Files to write, by name.
Files = dict[str, bytes]


class FirstRuns(Struct, frozen=True):
    """The runs of a gate as they were read, with the facts of their machine and warnings."""

    options: CommandOptions
    suite: str
    runs: tuple[Run, ...]
    facts: Mapping[str, Fact]
    noticed: tuple[str, ...]
    #: The files with the mappings that read the runs, and the directions that they say.
    mapping_files: RuleFiles
    better: Mapping[str, Better]
    #: The same command against itself, for a gate that makes pairs.
    pairs: Pairs | None = None


def read_first_runs(options: CommandOptions, suite: str, mapping_files: RuleFiles) -> FirstRuns:
    """Read the runs of a gate. Raises Refused for runs that cannot become a baseline."""
    found = parse_mappings(mapping_files)
    mapped = replace(no_rules(suite, ()), mappings=found.mappings, conditions=label_names(found.mappings))
    runs, facts, noticed = read_measured(options, mapped)
    return FirstRuns(options, suite, runs[-RUNS_KEPT:], facts, tuple(map(str, noticed)), mapping_files, mapped.better)


def gate_from_runs(first: FirstRuns, gate: FirstGate, *, without_step: bool = False) -> tuple[FirstGate, Files]:
    """Return the gate with its advice, and the rules and baselines in the order in which a person would read them.

    Without pairs, nothing is stored if the noise hides the time of a step, unless the user chose `without_step`.
    Raises Refused for runs that fit no rule, or do not pass the new rules.
    """
    options, runs, is_paired = first.options, first.runs, gate.is_paired
    judged = runs if gate.measured is None else _of_program(runs)
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
    if advice.step.is_noisy and not is_paired and not without_step:
        return replace(gate, state="too-noisy"), {gate.rules: starter(first.suite).encode()}
    _refuse_without_rules(advice)
    files = {gate.rules: rule_file(first.suite, advice).encode()}
    case = _paired_case(first, files) if is_paired else _stored_case(first, files)
    return replace(gate, proofs=() if gate.measured is None or case is None else self_test(case)), files


def _of_program(runs: Sequence[Run]) -> list[Run]:
    """Return the runs without the machine, and without the cost of the command if they have times of their own."""
    own = [_without(run, (COMMAND, *MACHINE_STATE)) for run in runs]
    has_times = all(any(one.unit in SPEEDS for one in run.series) for run in own)
    return own if has_times else [_without(run, MACHINE_STATE) for run in runs]


def _without(run: Run, prefixes: tuple[str, ...]) -> Run:
    return replace(run, series=tuple(one for one in run.series if not one.key.metric.startswith(prefixes)))


def _refuse_without_rules(advice: Advice) -> None:
    if advice.rules:
        return
    why = "\n".join(f"  {one.reason}: {', '.join(one.metrics[:5])}" for one in advice.left_out)
    step = "see `perfgate inspect RUN...`, or write the first rule by hand (`perfgate init` without runs)"
    if any(one.reason == TOO_NOISY for one in advice.left_out):
        step = f"pairs cancel noise: `perfgate init --paired RUN...`; or {step}"
    raise Refused(f"these runs have no shared metric that fits a first rule:\n{why}\n{step}", 3)


def _paired_case(first: FirstRuns, files: Files) -> Case | None:
    """Return the case of the pairs, if there are some."""
    ruleset, pairs = sound_rules([*files.items(), *first.mapping_files], first.suite), first.pairs
    if pairs is None:
        return None
    base = Baseline(place="pairs", runs=pairs.base, pairing=pairs.pairing)
    return Case(ruleset, pairs.new, base, surroundings.today(), first.facts)


def _stored_case(first: FirstRuns, files: Files) -> Case:
    """Add the runs as the files of a first level; return the case of the runs against it. Raises Refused."""
    rules = tuple(files)
    ruleset = sound_rules([*files.items(), *first.mapping_files], first.suite)
    given = replace(first.options, rules=rules, suite=first.suite)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        candidates = Candidates(given, ruleset, first.runs, dict(first.facts), store, store, LoadedBaseline(), None)
        open_level(candidates, Approval("the first runs, stored by perfgate init"))
        found = candidates.reloaded()
        case = Case(ruleset, found.runs, found.loaded.baseline, surroundings.today(), found.facts)
        _refuse_blocked(case)
        stored = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        files |= {f"{BASELINES}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in stored}
    return case


def _refuse_blocked(case: Case) -> None:
    """Refuse runs that fail the new rules: people switch off a gate that begins red. Raises Refused.

    Too few runs to show the noise are not a failure: further runs of the new gate will show it.
    """
    blocked = [verdict for verdict in judge(case) if verdict.exit_code and verdict.reason != "noise-unknown"]
    if blocked:
        words = "\n".join(f"  {verdict.rule}: {verdict.message}" for verdict in blocked)
        raise Refused(f"nothing was written, because these runs do not pass the new rules:\n{words}", 3)
