"""`perfgate init -- COMMAND`: run the command, read its results, and write a gate for it that remembers the command."""

from __future__ import annotations

import ast
import hashlib
import math
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import takewhile
from pathlib import Path, PurePath

from msgspec import Struct
from msgspec.structs import replace

from perfgate.analysis.plan import POOR
from perfgate.analysis.proposals import measured_metrics
from perfgate.cli.printing import is_watched, shown, tell
from perfgate.commands import init_gate
from perfgate.commands.init_gate import RULES, SUITE, Files, FirstRuns, InitChoices
from perfgate.commands.run_results import WHOLE_COMMAND, RunResults, files_at, find_results, narrowed
from perfgate.core import Location, Report, Run
from perfgate.core.advice import FirstGate, MeasuredCommand
from perfgate.core.file_mappings import RunCommand
from perfgate.core.units import format_change
from perfgate.core.wording import MAPPING_FILE, shell_text
from perfgate.judge.pairs import Pairs, split_pairs
from perfgate.measuring.kept_runs import KEEP, NewRun, result_of
from perfgate.measuring.paired_run import PairRequest, run_pairs
from perfgate.measuring.programs import RunFailed, Stopped, stopped_by_signals
from perfgate.measuring.until_settled import MeasuringOptions, RepeatedRuns, repeated_runs
from perfgate.workspace.inputs import read_runs
from perfgate.workspace.options import CommandOptions, Refused, shown_path, typed_path
from perfgate.workspace.output_files import replace_file
from perfgate.workspace.rule_source import WORKING_TREE, RuleFiles, parse_mappings, read_mapping_files
from perfgate.workspace.starter_files import remembered

#: The number of runs, or of pairs, that are made.
RUNS = 3
#: Stored runs are preferred, because a check of pairs takes longer. But the smallest change that they see may be at
#: most this many times that of pairs.
_AS_GOOD = 1.25
_MAPPINGS = f"{RULES}/{MAPPING_FILE}"
#: An assignment before the program: `OMP_NUM_THREADS=1 python train.py`.
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


def init_from_command(options: CommandOptions, choices: InitChoices, words: tuple[str, ...]) -> FirstGate:
    """Run a command, and write a gate for it. Raises Refused, and writes no file of the gate, if that fails.

    `words`: the command, perhaps after assignments of environment variables.
    """
    existing = init_gate.refuse_existing(choices)
    env = [found for found in takewhile(bool, map(_ASSIGNED.fullmatch, words)) if found]
    words = with_benchmark_json(words[len(env) :])
    command = RunCommand(Location(_MAPPINGS), words, choices.results, env=tuple((one[1], one[2]) for one in env))
    if not words:
        raise Refused("give the command to run after the variables of its environment")
    with _kept(choices) as keep, stopped_by_signals():
        measuring = MeasuringOptions(
            choices.results, RUNS, stop="never", timeout=choices.timeout, keep=keep, environment=dict(command.env),
            watch=shown if is_watched() else None,
        )  # fmt: skip
        try:
            return _measured(options, choices, command, measuring, existing)
        except Stopped as stopped:
            raise Refused(f"{stopped}: nothing was written", stopped.exit_code) from None
        except RunFailed as error:
            raise Refused(f"nothing was written, because a run failed: {error}; its output is in {keep}/", 3) from None


@contextmanager
def _kept(choices: InitChoices) -> Iterator[str]:
    """Yield the folder of the runs; that of a dry run is temporary."""
    if not choices.dry_run:
        yield KEEP
        return
    with tempfile.TemporaryDirectory(prefix="perfgate-init-", ignore_cleanup_errors=True) as folder:
        yield f"{folder}/runs"


def _measured(
    options: CommandOptions, choices: InitChoices, command: RunCommand, measuring: MeasuringOptions, existing: str
) -> FirstGate:
    """Run the command, read its results, choose stored runs or pairs, and write the gate. Raises Refused, RunFailed."""
    known = read_mapping_files((RULES,))
    if known.command is not None and not choices.dry_run:
        raise Refused(f"{known.command.at} remembers a command already: remove that section, or use `perfgate run`")
    if wrong := parse_mappings([(_MAPPINGS, remembered(command).encode())]).problems:
        raise Refused(f"{_MAPPINGS} cannot remember this command: {wrong[0].message}; give a script instead")
    found: list[RunResults] = []

    def find(run: NewRun) -> tuple[str, ...]:
        found.append(find_results(run, choices.results, options.format, known.mappings))
        return found[0].globs

    runs = repeated_runs(measuring, command.words, find, tell)
    if found[0].said != WHOLE_COMMAND:
        _refuse_copies(runs)
    command = replace(command, results=narrowed(found[0].globs, runs.paths))
    mapping = found[0].mapping.lines if found[0].mapping else ()
    if mapping and known.mappings:
        raise Refused(
            f"{_MAPPINGS} has mappings, and none fits {found[0].said}: add these lines:\n" + "\n".join(mapping)
        )
    files = WORKING_TREE.mapping_files((RULES,)) if os.path.isdir(RULES) else []
    read = replace(options, runs=tuple(map(str, runs.paths)), env=(*runs.facts, *options.env))
    first = init_gate.read_first_runs(read, options.suite or SUITE, _with_section(files, remembered(command, mapping)))
    metrics, others = measured_metrics(first.runs)
    notes, seconds = tuple(missing_work(command.words, first.runs)), statistics.median(runs.seconds)
    text = shell_text(command.words)
    measured = MeasuredCommand(text, found[0].said, len(runs.paths), seconds, metrics, others, notes)
    gate = replace(init_gate.empty_gate(options, choices), measured=measured)
    gate, made = _chosen(first, gate, choices, partial(_pairs, command, measuring, first))
    return _written(gate, made, choices, existing, remembered(replace(command, paired=gate.is_paired), mapping))


def _with_section(files: RuleFiles, text: str) -> RuleFiles:
    """Return the files with mappings, in which rules/perfgate.yaml ends with `text`, the section about the command."""
    own = next((data for name, data in files if name == _MAPPINGS), b"")
    joined = own.rstrip() + (b"\n\n" if own.strip() else b"") + text.encode()
    return [*(file for file in files if file[0] != _MAPPINGS), (_MAPPINGS, joined)]


def _refuse_copies(runs: RepeatedRuns) -> None:
    """Raise Refused (3) if the results of all runs have the same bytes."""
    contents = {tuple(hashlib.sha256(file.read_bytes()).digest() for file in files_at(path)) for path in runs.paths}
    if len(contents) == 1:
        name = shown_path(str(runs.paths[0]))
        raise Refused(
            f"nothing was written, because the command wrote the same bytes {len(runs.paths)} times ({name}): measured"
            " times differ. Is this file a copy or a cache? Name the measured files with --results GLOB",
            3,
        )


def _chosen(
    first: FirstRuns, gate: FirstGate, choices: InitChoices, make_pairs: Callable[[], FirstPairs]
) -> tuple[FirstGate, Files]:
    """Return a gate with its files: of pairs if the user chose them, or if they see more than poor stored runs."""
    stored = None if choices.paired else init_gate.gate_from_runs(first, gate, without_step=choices.without_step)
    if stored is not None and (choices.without_step or not _is_poor(stored[0])):
        return stored
    pairs = make_pairs()
    assert gate.measured is not None
    measured = replace(gate.measured, seconds=RUNS * pairs.seconds)  # of a check that makes RUNS pairs
    of_pairs = replace(gate, measured=measured, is_paired=True)
    of_pairs, pair_files = init_gate.gate_from_runs(replace(first, pairs=pairs.pairs), of_pairs)
    if stored is None:
        return of_pairs, pair_files
    of_runs, run_files = stored
    trouble = of_runs.advice.step.trouble if of_runs.advice else None
    if pairs.alone:  # these runs can be stored, too, and more runs show the noise better
        more = init_gate.read_first_runs(replace(first.options, runs=pairs.alone), first.suite, first.mapping_files)
        of_runs, run_files = init_gate.gate_from_runs(replace(first, runs=(*first.runs, *more.runs)), gate)
    both = f"stored runs see {_sees(of_runs)}, and pairs {_sees(of_pairs)}"
    if of_runs.state != "too-noisy" and _least(of_runs) <= _AS_GOOD * _least(of_pairs):
        return _noting(of_runs, f"{both}: the gate stores {len(first.runs) + len(pairs.alone)} runs"), run_files
    note = f"{trouble or both}: the gate makes pairs, in which base and new code take turns"
    return _noting(of_pairs, note), pair_files


def _is_poor(gate: FirstGate) -> bool:
    """Return whether stored runs see only large changes of time, if that is known; exact work needs no times."""
    counts_work = gate.advice is not None and any(rule.purpose == "work" for rule in gate.advice.rules)
    return gate.state == "too-noisy" or (POOR < _least(gate) < math.inf and not counts_work)


def _least(gate: FirstGate) -> float:
    """Return the smallest relative change that the gate sees; infinite if it is unknown, or if no rule is about one."""
    rule = gate.finest_rule
    return math.inf if rule is None or rule.fails_from is None else rule.fails_from


def _sees(gate: FirstGate) -> str:
    return f"{format_change(_least(gate))} in {gate.finest_rule.subject}" if gate.finest_rule else "no time"


def _noting(gate: FirstGate, note: str) -> FirstGate:
    assert gate.measured is not None
    return replace(gate, measured=replace(gate.measured, notes=(note, *gate.measured.notes)))


class FirstPairs(Struct, frozen=True):
    """Pairs of a command with itself, the mean seconds of a pair, and the files of the runs of whole-run pairs."""

    pairs: Pairs
    seconds: float
    alone: tuple[str, ...]


def _pairs(command: RunCommand, measuring: MeasuringOptions, first: FirstRuns) -> FirstPairs:
    """Make pairs of a command with itself. Raises RunFailed.

    Both sides run in the working folder. If the command writes files there, they do not run at the same time.
    """
    made: list[Path] = []

    def keep(paths: Sequence[Path], noted: object) -> Report:
        """Take the place of the judge: note the files of all pairs so far, and judge nothing."""
        made[:] = paths
        return Report()

    mappings = parse_mappings(first.mapping_files).mappings
    request = PairRequest(
        command.words, command.words, format=first.options.format, mappings=mappings, by_turns=not command.results
    )
    began = time.monotonic()
    report = run_pairs(replace(measuring, results=command.results), request, keep, tell)
    pairs = split_pairs(read_runs(tuple(typed_path(str(path)) for path in made))) if made else None
    if pairs is None or len(made) < RUNS:
        raise RunFailed(report.problems[-1].message if report.problems else "no pair was made")
    logs = sorted(Path(measuring.keep).glob("pair-*-whole/*.log"))
    alone = tuple(typed_path(str(result_of(log.with_suffix("")) or log)) for log in logs)
    return FirstPairs(pairs, (time.monotonic() - began) / len(made), alone)


def _written(gate: FirstGate, made: Files, choices: InitChoices, existing: str, text: str) -> FirstGate:
    """Write the files, with `text` as rules/perfgate.yaml, or at the end of that file if the user has one."""
    if not os.path.exists(_MAPPINGS):
        rules, *others = made.items()  # the rule file comes first, and the section about the command next
        return init_gate.written(gate, dict([rules, (_MAPPINGS, text.encode()), *others]), choices, existing)
    gate = init_gate.written(gate, made, choices, existing)
    if not choices.dry_run:
        replace_file(_MAPPINGS, dict(_with_section(WORKING_TREE.mapping_files((RULES,)), text))[_MAPPINGS])
    return replace(gate, files=(*gate.files, (f"{_MAPPINGS} (added the section run)", None)))


#: The names of pytest, and the option of pytest-benchmark for its results.
_PYTEST, _OPTION = ("pytest", "py.test"), "--benchmark-json"
#: The longest time that pytest may take to print its help, in s.
_PATIENCE_S = 60.0
#: The largest program that is searched for a recorder, in bytes.
_LONGEST_SOURCE = 1 << 20
#: The classes that record steps, and the packages of programs whose work can be counted.
_RECORDING, _FRAMEWORKS = ("Recorder", "RecorderCallback"), {"torch", "lightning", "pytorch_lightning", "transformers"}


def with_benchmark_json(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of pytest with the option that writes the times of pytest-benchmark; other words as they are."""
    end = next((place for place, word in enumerate(words, 1) if PurePath(word).name in _PYTEST), 0)
    if not end or any(word.startswith(_OPTION) for word in words):
        return words
    with suppress(OSError, subprocess.SubprocessError):
        asked = subprocess.run([*words[:end], "--help"], capture_output=True, timeout=_PATIENCE_S, check=False)
        if _OPTION.encode() in asked.stdout:
            return (*words[:end], f"{_OPTION}={{results}}/benchmark.json", *words[end:])
    return words


def missing_work(words: Sequence[str], runs: Sequence[Run]) -> Iterator[str]:
    """Yield a hint for each source file that records steps without their exact work; none if a run has any work."""
    if any(series.key.metric.startswith("work.") for run in runs for series in run.series):
        return
    for word in words:
        with suppress(OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: of endless code
            if word.endswith(".py") and (line := _line_without_work(ast.parse(_source(Path(word))))):
                yield (
                    f"{word}:{line} records steps without their work: with `work=True` there, the gate also counts what"
                    " each step asks of the device, which is exact: one run decides"
                )


def _source(path: Path) -> bytes:
    """Return the text of a program; empty for a pipe, which may not end, and for a file that nobody wrote."""
    return path.read_bytes() if path.is_file() and path.stat().st_size <= _LONGEST_SOURCE else b""


def _line_without_work(tree: ast.Module) -> int | None:
    """Return the line of a recorder or callback without the option `work`; None if there is none, or no framework."""
    imported: set[str] = set()
    recorders: list[ast.Call] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in _RECORDING:
            recorders.append(node)
    if _FRAMEWORKS.isdisjoint(imported):
        return None
    return next((call.lineno for call in recorders if all(word.arg != "work" for word in call.keywords)), None)
