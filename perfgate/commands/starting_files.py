"""The rule file and the workflow that `perfgate init` writes, with comments that give the reasons."""

from __future__ import annotations

import math

from perfgate.analysis.proposals import MOST, MOST_OF_A_UNIT, TOLERANCES, Proposal, Proposals
from perfgate.core import Plan
from perfgate.core.units import format_change
from perfgate.core.wording import plural
from perfgate.rules.write import WrittenRule, render

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
    )
    rules = [WrittenRule(rule.sentence, _reasons(rule), [rule.limit] if rule.limit else []) for rule in found.rules]
    return render(suite, rules, (*_HEAD, "", *chosen, *_without(found)))


def _reasons(rule: Proposal) -> list[str]:
    """Return the reason for a tolerance, for the noisiest set of labels."""
    planned = [plan for plan in rule.plans if plan.noise_between is not None]
    if not planned:
        return [
            "All runs have exactly the same value: it is compared without noise, and any larger change is detected."
        ]
    noisiest = max(planned, key=_noise)
    prior = "calibrated" if noisiest.calibrated else "estimated with the default prior of 1%"
    found = noisiest.detectable
    seen = "" if found is None else f"; a change of {format_change(found)} fails with {100 * noisiest.power:g}% power"
    return [
        f"{noisiest.statistic or 'the value'}, {plural(noisiest.base_runs or 0, 'run')}: one run differs from the next"
        f" by {100 * _noise(noisiest):.2g}% ({prior})."
        f" An unchanged program most likely passes with {rule.tolerance}%{seen}."
    ]


def _noise(plan: Plan) -> float:
    """Return the relative standard deviation of one run: noise between runs and inside the run."""
    return math.hypot(plan.noise_between or 0.0, plan.noise_within or 0.0)


def _without(found: Proposals) -> list[str]:
    """Return comments that name the metrics without a rule, and the reason."""
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
