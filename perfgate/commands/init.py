"""`perfgate init`: write a gate from runs. Files are written at the end, all or none, and never overwritten."""

from __future__ import annotations

import math
import os
import shlex
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from perfgate.analysis.proposals import MOST, MOST_OF_A_UNIT, TOLERANCES, Proposal, Proposals, propose
from perfgate.baselines.approvals import Approval, open_level
from perfgate.baselines.candidates import Candidates, read_measured
from perfgate.baselines.levels import RUNS_KEPT
from perfgate.baselines.repository import LoadedBaseline
from perfgate.baselines.stores import open_store
from perfgate.core import Plan, Problem
from perfgate.core.units import format_change
from perfgate.core.wording import plural
from perfgate.judge.case import Case
from perfgate.judge.promise_bounds import RUNS_FOR_A_PROMISE
from perfgate.judge.verdicts import judge
from perfgate.rules.ruleset import DEFAULT_IDENTITY
from perfgate.rules.write import WrittenRule, render
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
    runs = 0
    if options.runs:
        files, noticed, runs = _from_runs(options, suite)
    else:
        files = {_rules_name(suite): starter(suite).encode(), WORKFLOW: WORKFLOW_TEXT.encode()}
        sound_rules([(_rules_name(suite), files[_rules_name(suite)])], suite)
    _write(files)
    lines = [f"wrote {name}" for name in files]
    return [*map(str, noticed), *lines, "", *(_next_with_runs(options, runs) if options.runs else _NEXT_WITHOUT_RUNS)]


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


def _from_runs(options: CommandOptions, suite: str) -> tuple[Files, tuple[Problem, ...], int]:
    """Return all files in the order in which a person would read them, warnings, and the number of stored runs.

    Raises Refused.
    """
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
    return {_rules_name(suite): text.encode(), **kept, WORKFLOW: WORKFLOW_TEXT.encode()}, noticed, len(runs)


def _refuse_blocked(found: Candidates) -> None:
    """Refuse runs that fail the new rules: people switch off a gate that begins red. Raises Refused.

    Too few runs to show the noise are not a failure: further runs of the new gate will show it.
    """
    case = Case(found.ruleset, found.runs, found.loaded.baseline, surroundings.today(), found.facts)
    blocked = [verdict for verdict in judge(case) if verdict.exit_code and verdict.reason != "noise-unknown"]
    if blocked:
        words = "\n".join(f"  {verdict.rule}: {verdict.message}" for verdict in blocked)
        raise Refused(f"nothing was written, because these runs do not pass the new rules:\n{words}", 3)


def _write(files: Files) -> None:
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


def _next_with_runs(options: CommandOptions, runs: int) -> list[str]:
    """Return what to do next; with fewer than three runs, first how to store more."""
    facts = "".join(f" --env {shlex.quote(typed_fact(fact))}" for fact in options.env)
    shown = " ".join(map(typed_path, options.runs)) + facts
    steps = [
        f"read {_rules_name(options.suite or SUITE)}, then try the gate:",
        f"    perfgate check {shown}",
        f"    perfgate selftest {shown}",
        _COMMIT,
    ]
    missing = RUNS_FOR_A_PROMISE - runs
    if missing <= 0:
        return steps
    few = (
        f"{plural(runs, 'run')} of the program {'does' if runs == 1 else 'do'} not show how much runs differ: a check"
        f" needs {RUNS_FOR_A_PROMISE} runs of both sides together, or it ends in exit 3."
    )
    more = " ".join(["RUN"] * missing)
    return [
        few,
        f"measure the same code again, and store {plural(missing, 'more run')}:",
        f"    perfgate baseline add {more}{facts}",
        *steps,
    ]


_HEAD = (
    "Each rule is one sentence. `perfgate check RUN...` judges them, and its exit code is the result. `perfgate rules"
    " check` validates this file, `perfgate rules explain` explains it in words, and `perfgate selftest RUN...` proves"
    " that each rule can fail. For completion in an editor, run `perfgate schema rules > rules.schema.json` and begin"
    " this file with `# yaml-language-server: $schema=../rules.schema.json`.",
    "",
    "`version` is the version of the rule language. Each suite has its own baselines.",
)
_EXAMPLE = (
    "This is an example: use one of your metrics instead (`perfgate inspect RUN` lists them). A change is compared with"
    " the runs in baselines/, which `perfgate baseline approve RUN... --reason ...` stores.",
)
_MORE = (
    "step.time p95 under 400 ms",
    "samples_per_second mean at least 95% of baseline",
    "memory.peak_allocated within 1% of baseline and within 10% of anchor",
)
#: The number of metrics without a rule that a comment names.
_NAMED = 5


def starter(suite: str) -> str:
    """Return a rule file with examples, for a user without runs."""
    return render(suite, [WrittenRule("step.time within 5% of baseline", _EXAMPLE, _MORE)], _HEAD)


def rule_file(suite: str, found: Proposals, runs: int) -> str:
    """Return a rule file with the proposed rules and their reasons."""
    chosen = (
        f"These are the main metrics of {plural(runs, 'run')}, at most {MOST}, and at most {MOST_OF_A_UNIT} with the"
        " same unit. The order is: samples before sums, whole steps before single kernels and calls, times before rates"
        " and bytes, large values first.",
        "",
        "A tolerance is the smallest round value with which one new run of an unchanged program most likely passes. It"
        f" is at least {TOLERANCES[0]}%: many rules then need no correction. When more runs are stored, you can use"
        " smaller tolerances: see `perfgate plan`. Limits are only proposals in comments: decide yourself which values"
        " must never be exceeded.",
        "",
        "Exit code 0 promises that a change of `at_worst` or more is excluded. Without this setting it is twice the"
        " tolerance. To promise another size, write a rule as `{assert: ..., at_worst: 8%}`.",
    )
    rules = [WrittenRule(rule.sentence, _reasons(rule), [rule.limit] if rule.limit else []) for rule in found.rules]
    return render(suite, rules, (*_HEAD, "", *chosen, *_without(found)))


def _reasons(rule: Proposal) -> list[str]:
    planned = [plan for plan in rule.plans if plan.noise_between is not None]
    if not planned:
        return [
            "All runs have exactly the same value: it is compared without noise, and any larger change is detected."
        ]
    noisiest = max(planned, key=_noise)
    runs, statistic = noisiest.base_runs or 0, noisiest.statistic or "the value"
    promise = f"Exit 0 promises that a change of {2 * rule.tolerance}% or more is excluded."
    if runs < RUNS_FOR_A_PROMISE and not noisiest.calibrated:
        return [
            f"{statistic}, {plural(runs, 'run')}: one run probably differs from the next by"
            f" {100 * _noise(noisiest):.2g}%, which is a guess until {RUNS_FOR_A_PROMISE} runs are stored (then see"
            f" `perfgate plan`). {promise}"
        ]
    prior = "calibrated" if noisiest.calibrated else "estimated with the default prior of 1%"
    found = noisiest.detectable
    seen = "" if found is None else f"; a change of {format_change(found)} is suspect or fails with"
    seen += f" {100 * noisiest.power:g}% power" if seen else ""
    return [
        f"{statistic}, {plural(runs, 'run')}: one run differs from the next by {100 * _noise(noisiest):.2g}% ({prior})."
        f" An unchanged program most likely passes with {rule.tolerance}%{seen}. {promise}"
    ]


def _noise(plan: Plan) -> float:
    """Return the relative standard deviation of one run: noise between runs and inside the run."""
    return math.hypot(plan.noise_between or 0.0, plan.noise_within or 0.0)


def _without(found: Proposals) -> list[str]:
    lines = []
    for why, metrics in found.left_out.items():
        more = f" and {len(metrics) - _NAMED} more" if len(metrics) > _NAMED else ""
        lines.append(f"Without a rule ({why}): {', '.join(metrics[:_NAMED])}{more}.")
    return ["", *lines] if lines else []


#: The workflow of docs/github-actions.md, with comments.
WORKFLOW_TEXT = """\
# Judges every pull request. The job fails if a rule fails (exit 1) or if no decision was possible (exit 3).
name: perf

on:
  pull_request:
    # `edited` judges again when the pull request goes to another branch.
    types: [opened, synchronize, reopened, edited]
  # A merge queue measures again the code that will be merged.
  merge_group:

# No permission to write: a pull request runs its own code in this job.
permissions: {}

# A newer push cancels the run of an older one. Other pull requests are not affected.
concurrency:
  group: perf-${{ github.ref }}
  cancel-in-progress: true

jobs:
  gate:
    # The kind of machine that the baseline was measured on. On another kind, the job says so and fails.
    # Require approval before pull requests of strangers run on your machines (Settings, Actions, General).
    runs-on: [self-hosted, gpu]
    # The default is six hours. Do not let a program that hangs block the GPU that long.
    timeout-minutes: 60
    permissions:
      contents: read
    steps:
      - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0
        with:
          # The whole history, because perfgate reads the rules and baselines of the base from it.
          fetch-depth: 0
          persist-credentials: false
      # TODO: the repository of perfgate that you use, and the commit of a release. Upgrade in a separate pull request.
      - uses: OWNER/perfgate@COMMIT
        with:
          # TODO: your command, with the Python that you train with, and the file that it writes. The rules and
          # baselines come from the base, so a pull request cannot loosen them.
          run: python train.py > train.log
          results: train.log
"""
