"""`perfgate init --add METRIC`: add a rule for a metric to a rule file, which keeps everything else."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from difflib import get_close_matches

from msgspec.structs import replace

from perfgate.analysis.advice import PAIRS, proposed_for
from perfgate.baselines.candidates import read_measured
from perfgate.commands.stored_cases import stored_cases
from perfgate.core import Run
from perfgate.core.advice import Advice, FirstGate, ProposedRule, StepTime
from perfgate.core.results import LOOKS
from perfgate.core.wording import listed
from perfgate.rules.ruleset import Ruleset
from perfgate.rules.write import rule_lines, with_rules
from perfgate.workspace import surroundings
from perfgate.workspace.options import CommandOptions, Refused, typed_fact, typed_path
from perfgate.workspace.output_files import replace_file
from perfgate.workspace.rule_source import WORKING_TREE, read_mappings, read_ruleset, sound_rules
from perfgate.workspace.starter_files import written

#: The largest number of names that are compared with a misspelt one.
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
    advice = Advice(rules, (), StepTime(None), len(runs), is_paired=is_paired, most_runs=most)
    new = written(advice)
    changed = with_rules(path, data, new)
    if changed is None:
        lines = "\n".join(f"  {line}" for rule in new for line in rule_lines(rule))
        raise Refused(f"{path} has no list of rules with one rule a line: add these lines to it yourself:\n{lines}")
    if not is_dry:
        replace_file(path, changed)
    text = "\n".join(line for rule in new for line in rule_lines(rule))
    env = tuple(f"--env {shlex.quote(typed_fact(fact))}" for fact in options.env)
    typed = tuple(shlex.quote(typed_path(run)) for run in options.runs)
    return FirstGate("would-add" if is_dry else "added", advice, path, "", ((path, text),), typed, env, is_paired)


def _rule_file(options: CommandOptions) -> tuple[str, bytes]:
    """Return the name and the bytes of the rule file of the suite. Raises Refused."""
    if not os.path.isdir("rules"):
        raise Refused("the folder rules/ does not exist: write the first rules with `perfgate init RUN...`")
    files = WORKING_TREE.rule_files(("rules",))
    if len(files) > 1:
        files = [
            file
            for file in files
            if options.suite and file[0].endswith((f"/{options.suite}.yaml", f"/{options.suite}.yml"))
        ]
    if len(files) != 1:
        raise Refused("rules/ has several files: choose one with --suite NAME, which names rules/NAME.yaml")
    return files[0]


def _runs(options: CommandOptions, ruleset: Ruleset) -> tuple[Run, ...]:
    """Return the given runs, or the stored ones of the only environment that fits. Raises Refused."""
    if options.runs:
        return read_measured(options, replace(ruleset, mappings=read_mappings(WORKING_TREE, ("rules",))))[0]
    read_ruleset(WORKING_TREE, options.rules, options.suite)
    stored = [case.baseline.runs for case, _ in stored_cases(options, ruleset) if case.baseline.runs]
    if len(stored) != 1:
        what = "no runs are stored" if not stored else "runs of several environments are stored"
        raise Refused(f"{what}: give runs (`perfgate init --add METRIC RUN...`)")
    return stored[0]


def _rule(metric: str, runs: Sequence[Run], ruleset: Ruleset, *, is_paired: bool) -> ProposedRule:
    names = sorted({series.key.metric for run in runs for series in run.series})
    if metric not in names:
        close = get_close_matches(metric, names[:_MOST_COMPARED], n=3, cutoff=0.5)
        hint = f"the nearest names are {listed(close)}" if close else f"they have {listed(names)}"
        raise Refused(f"the runs have no metric {metric}: {hint}")
    better = replace(ruleset, mappings=read_mappings(WORKING_TREE, ("rules",))).better
    found = proposed_for(metric, runs, surroundings.today(), is_paired=is_paired, better=better)
    if isinstance(found, str):
        paired = (
            ""
            if is_paired or "noise" not in found
            else f"; pairs may show it: `perfgate init --paired --add {shlex.quote(metric)} RUN...`"
        )
        raise Refused(f"no rule about {metric} fits: {found}{paired}", 3)
    known = next((rule for rule in ruleset.rules if rule.sentence.subject_text == _subject(found)), None)
    if known is not None:
        raise Refused(f"{metric} has a rule already, at {known.at}: {known.sentence.text}")
    return found


def _subject(rule: ProposedRule) -> str:
    return rule.sentence.partition(" within ")[0]
