"""The texts that `perfgate init` writes: a rule file and a workflow, each line of which says why it is there."""

from __future__ import annotations

import math

from perfgate.analysis.proposals import MOST, MOST_OF_A_UNIT, TOLERANCES, Proposal, Proposals
from perfgate.core import Plan
from perfgate.core.units import format_change
from perfgate.rules.write import WrittenRule, render

_HEAD = (
    "Rules: one sentence each, judged by `perfgate check RUN...`, whose exit code is the answer. `perfgate rules check`"
    " validates this file, `perfgate rules explain` says in words what it asks for, and `perfgate selftest RUN...`"
    " proves that each rule can fail. For completion in an editor, write `perfgate schema rules > rules.schema.json`"
    " and begin this file with `# yaml-language-server: $schema=../rules.schema.json`.",
    "",
    "version is that of the rule language; baselines are kept for each suite.",
)
_EXAMPLE = (
    "An example: put the name of one of your metrics here (`perfgate inspect RUN` lists them). A change is judged"
    " against the runs below baselines/, which `perfgate baseline approve RUN... --reason ...` stores.",
)
_MORE = (
    "step.time p95 under 400 ms",
    "samples_per_second mean at least 95% of baseline",
    "memory.peak_allocated within 1% of baseline and within 10% of anchor",
)
#: So many metrics are named where some have no rule.
_NAMED = 5


def starter(suite: str) -> str:
    """A rule file for somebody who has no run yet."""
    return render(suite, [WrittenRule("step.time within 5% of baseline", _EXAMPLE, _MORE)], _HEAD)


def rule_file(suite: str, found: Proposals, runs: int) -> str:
    """The proposed rules, each below the numbers that it rests on."""
    chosen = (
        f"The metrics are the main ones of {_counted(runs)}: samples before sums, whole steps before single kernels and"
        " calls, times before rates and bytes, the largest first;"
        f" {MOST} at most, {MOST_OF_A_UNIT} of one unit. A tolerance is the smallest round one with which one new run"
        f" of an unchanged program most likely passes, and {TOLERANCES[0]}% at least, from where on many rules need no"
        " correction. Tighten it when more runs are stored: see `perfgate plan`. A limit is only proposed: what must"
        " never be exceeded is for you to say.",
    )
    rules = [WrittenRule(rule.sentence, _reasons(rule), [rule.limit] if rule.limit else []) for rule in found.rules]
    return render(suite, rules, (*_HEAD, "", *chosen, *_without(found)))


def _reasons(rule: Proposal) -> list[str]:
    """What the data say of a tolerance; of several sets of labels, the noisiest."""
    planned = [plan for plan in rule.plans if plan.noise_between is not None]
    if not planned:
        return ["The runs agree to the last digit, and are compared without noise: any larger change is seen at once."]
    noisiest = max(planned, key=_noise)
    prior = "calibrated" if noisiest.calibrated else "assumed to be near 1% until more runs are stored"
    found = noisiest.detectable
    seen = "" if found is None else f"; a change of {format_change(found)} fails with {100 * noisiest.power:g}% power"
    return [
        f"{noisiest.statistic or 'the value'}, {_counted(noisiest.base_runs or 0)}: one run differs from the next by"
        f" {100 * _noise(noisiest):.2g}% ({prior}), so that {rule.tolerance}% lets an unchanged program pass{seen}.",
    ]


def _noise(plan: Plan) -> float:
    """The relative standard deviation of one run, from run to run and inside it."""
    return math.hypot(plan.noise_between or 0.0, plan.noise_within or 0.0)


def _without(found: Proposals) -> list[str]:
    """Which metrics have no rule, and why, so that nobody takes silence for coverage."""
    lines = []
    for why, metrics in found.left_out.items():
        more = f" and {len(metrics) - _NAMED} more" if len(metrics) > _NAMED else ""
        lines.append(f"Without a rule ({why}): {', '.join(metrics[:_NAMED])}{more}.")
    return ["", *lines] if lines else []


def _counted(runs: int) -> str:
    return f"{runs} run" if runs == 1 else f"{runs} runs"


#: The workflow of docs/github-actions.md, with the reasons for its lines.
WORKFLOW_TEXT = """\
# Judges every pull request. The job fails when a rule does (1), and when nobody could judge (3): that is no pass.
name: perf

on:
  pull_request:
  # A merge queue asks again, for what will really be merged.
  merge_group:

# Nothing here needs to write: a pull request runs its own code in this job.
permissions: {}

# A newer push replaces an older one that still waits; two pull requests do not stop each other.
concurrency:
  group: perf-${{ github.ref }}
  cancel-in-progress: true

jobs:
  gate:
    # The kind of machine that the baseline was measured on; on another one, the job says so and fails.
    # Let strangers' pull requests run on your own machines only after approval (Settings, Actions, General).
    runs-on: [self-hosted, gpu]
    # A program that hangs must not hold the GPU for six hours, which is the default.
    timeout-minutes: 60
    permissions:
      contents: read
    steps:
      - uses: actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0
        with:
          # The whole history: the rules and baselines of the base are read from it.
          fetch-depth: 0
          persist-credentials: false
      # TODO: where perfgate lives for you, and the commit of a release: an upgrade is a pull request of its own.
      - uses: OWNER/perfgate@COMMIT
        with:
          # TODO: your own measurement, in the Python that trains, and what it writes. It is judged by the rules and
          # baselines of the base, so that a pull request cannot loosen them.
          run: python train.py > train.log
          results: train.log
"""
