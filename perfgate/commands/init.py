"""`perfgate init`: write a gate from runs. Files are written at the end, all or none, and never overwritten."""

from __future__ import annotations

import os
import shlex
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from perfgate.analysis.proposals import propose
from perfgate.baselines.approvals import Approval, open_level
from perfgate.baselines.candidates import Candidates, read_measured
from perfgate.baselines.levels import RUNS_KEPT
from perfgate.baselines.repository import LoadedBaseline
from perfgate.baselines.stores import open_store
from perfgate.commands.starting_files import WORKFLOW_TEXT, rule_file, starter
from perfgate.core import Problem
from perfgate.judge.case import Case
from perfgate.judge.verdicts import judge
from perfgate.rules.ruleset import DEFAULT_IDENTITY
from perfgate.workspace import surroundings
from perfgate.workspace.options import CommandOptions, Refused, typed_fact, typed_path
from perfgate.workspace.output_files import create_file
from perfgate.workspace.rule_source import sound_rules

SUITE = "training"
RULES, BASELINES, WORKFLOW = "rules", "baselines", ".github/workflows/perf.yml"

_COMMIT = f"fill in the TODO lines of {WORKFLOW}, and commit all files to the main branch"

_NEXT_WITHOUT_RUNS = (
    f"name your metrics in {RULES}/, then store a first run and check the next one:",
    '    perfgate baseline approve RUN --reason "first baseline"',
    "    perfgate check RUN",
    _COMMIT,
)

Files = dict[str, bytes]


def init(options: CommandOptions) -> list[str]:
    """Write rules, the runs as the first level, and a workflow; return the lines to print.

    Raises Refused, and writes nothing, if one of them exists or the runs cannot become a baseline.
    """
    suite = options.suite or SUITE
    _refuse_existing()
    noticed: tuple[Problem, ...] = ()
    if options.runs:
        files, noticed = _from_runs(options, suite)
    else:
        files = {_rules_name(suite): starter(suite).encode(), WORKFLOW: WORKFLOW_TEXT.encode()}
        sound_rules([(_rules_name(suite), files[_rules_name(suite)])], suite)
    _write(files)
    lines = [f"wrote {name}" for name in files]
    return [*map(str, noticed), *lines, "", *(_next_with_runs(options) if options.runs else _NEXT_WITHOUT_RUNS)]


def _refuse_existing() -> None:
    """Refuse to overwrite files, or to mix them with existing ones. Raises Refused."""
    there = [f"{folder}/ has {_names(folder)}" for folder in (RULES, BASELINES) if _names(folder)]
    there += [f"{WORKFLOW} exists"] if os.path.lexists(WORKFLOW) else []
    if there:
        step = "move them away, or write the missing files by hand (`perfgate init` in an empty folder shows how)"
        raise Refused(f"nothing was written, because these exist: {'; '.join(there)}: {step}")


def _names(place: str) -> str:
    """Return the names in a folder, in words; empty if there is no such folder."""
    try:
        names = sorted(os.listdir(place))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"a folder that cannot be read ({error.strerror or error})"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _rules_name(suite: str) -> str:
    return f"{RULES}/{suite}.yaml"


def _from_runs(options: CommandOptions, suite: str) -> tuple[Files, tuple[Problem, ...]]:
    """Return all files, in the order in which a person would read them, and warnings. Raises Refused."""
    runs, facts, noticed = read_measured(options, DEFAULT_IDENTITY)
    runs = runs[-RUNS_KEPT:]
    found = propose(runs, surroundings.today())
    if not found.rules:
        why = "\n".join(f"  {why}: {', '.join(metrics[:5])}" for why, metrics in found.left_out.items())
        step = "see `perfgate inspect RUN...`, or write the first rule by hand (`perfgate init` without runs)"
        raise Refused(f"these runs have no shared metric that fits a first rule:\n{why}\n{step}", 3)
    text = rule_file(suite, found, len(runs))
    ruleset = sound_rules([(_rules_name(suite), text.encode())], suite)
    given = replace(options, rules=(_rules_name(suite),), suite=suite)
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(folder)
        candidates = Candidates(given, ruleset, runs, facts, store, store, LoadedBaseline(), None)
        open_level(candidates, Approval("the first runs, stored by perfgate init"))
        _refuse_blocked(candidates.reloaded())
        stored = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        kept = {f"{BASELINES}/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in stored}
    return {_rules_name(suite): text.encode(), **kept, WORKFLOW: WORKFLOW_TEXT.encode()}, noticed


def _refuse_blocked(found: Candidates) -> None:
    """Refuse runs that fail the new rules: people switch off a gate that begins red. Raises Refused."""
    case = Case(found.ruleset, found.runs, found.loaded.baseline, surroundings.today(), found.facts)
    blocked = [verdict for verdict in judge(case) if verdict.exit_code]
    if blocked:
        words = "\n".join(f"  {verdict.rule}: {verdict.message}" for verdict in blocked)
        raise Refused(f"nothing was written, because these runs do not pass the new rules:\n{words}", 3)


def _write(files: Files) -> None:
    """Write all files, or none. Raises Refused."""
    made: list[Path] = []
    try:
        for name, data in files.items():
            for parent in reversed(Path(name).parents):
                if not parent.exists():
                    parent.mkdir()
                    made.append(parent)
            create_file(name, data)
            made.append(Path(name))
    except BaseException as error:
        for path in reversed(made):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        if not isinstance(error, OSError):
            raise
        place = error.filename2 or error.filename
        raise Refused(f"nothing was written, because {place} cannot be written: {error.strerror or error}") from None


def _next_with_runs(options: CommandOptions) -> list[str]:
    facts = "".join(f" --env {shlex.quote(typed_fact(fact))}" for fact in options.env)
    shown = " ".join(map(typed_path, options.runs)) + facts
    return [
        f"read {_rules_name(options.suite or SUITE)}, then try the gate:",
        f"    perfgate check {shown}",
        f"    perfgate selftest {shown}",
        _COMMIT,
    ]
