"""The texts that `init` writes to the folder of rules: rules with reasons, and the remembered command."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from perfgate.core.advice import Advice, ProposedRule
from perfgate.core.file_mappings import RunCommand
from perfgate.core.units import format_change
from perfgate.core.wording import listed, plural, shell_text
from perfgate.rules.write import WrittenRule, comments, render, scalar, visible

#: From this number of runs on, base and new together, their noise is measured; with fewer it is guessed.
_RUNS_THAT_SHOW_NOISE = 3


def _head(judges: str) -> tuple[str, ...]:
    return (
        f"Each rule is one sentence. `perfgate {judges}` judges them, and its exit code is the result. `perfgate rules"
        f" check` validates this file, `perfgate rules explain` explains it in words, and `perfgate rules` proves that"
        " each rule can fail. For completion in an editor, run `perfgate schema rules > rules.schema.json`"
        " and begin this file with `# yaml-language-server: $schema=../rules.schema.json`.",
        "",
        "`version` is the version of the rule language. Each suite has its own baselines.",
    )


_HEAD = _head("check RUN...")
_HEAD_OF_PAIRS = _head("run --paired")
_CHOSEN = (
    "A tolerance is the smallest round value with which one new run of an unchanged program most likely passes. When"
    " more runs are stored, you can use smaller ones: see `perfgate rules`. Limits in comments are only proposals:"
    " decide yourself which values must never be exceeded.",
    "",
    "Exit code 0 promises that a change of `at_worst` or more is excluded. Without this setting it is twice the"
    " tolerance. To promise another size, write a rule as `{assert: ..., at_worst: 8%}`.",
)
_CHOSEN_FOR_PAIRS = (
    "`perfgate run --paired` measures these rules: the base and the new code take turns on one machine, so that the"
    " noise of the machine cancels. `baseline` is then the base of each pair, and no baseline is stored.",
    "",
    "Exit code 0 promises that a change of `at_worst` or more is excluded. Without this setting it is twice the"
    " tolerance.",
)
_EXAMPLE = (
    "This is an example: use one of your metrics instead (`perfgate inspect RUN` lists them). A change is compared with"
    " the runs in baselines/, which `perfgate baseline approve RUN... --reason ...` stores.",
)
_EXAMPLE_OF_PAIRS = (
    "This is an example: use one of your metrics instead (`perfgate inspect RUN` lists them). A change is compared with"
    " the base of each pair.",
)
_MORE = (
    "step.time p95 under 400 ms",
    "samples_per_second mean at least 95% of baseline",
    "memory.peak_allocated within 1% of baseline and within 10% of anchor",
)
#: For each purpose of a proposed rule, the beginning of its reason.
_PURPOSES = {
    "usual": "",
    "cost": "The cost: a mean includes the stalls, which a median ignores. ",
    "sum": "The time of all calls in a step: both more calls and slower calls count. ",
    "work": "What a step asks of the device does not depend on how fast the machine is. ",
    "input": "The part of a step that waits for input, from the medians of a run. ",
    "cpu": "The CPU time of the whole command is steadier on a busy machine. It does not see when the program waits. ",
    "budget": "A budget: no run may be slower, whatever the baseline is, so approved changes cannot add up for ever. ",
}


def starter(suite: str, *, is_paired: bool = False) -> str:
    """Return a rule file with examples, for a user without runs."""
    if is_paired:
        rule = WrittenRule("step.time within 10% of baseline", _EXAMPLE_OF_PAIRS)
        return render(suite, [rule], (*_HEAD_OF_PAIRS, "", *_CHOSEN_FOR_PAIRS))
    return render(suite, [WrittenRule("step.time within 5% of baseline", _EXAMPLE, proposed=_MORE)], _HEAD)


def rule_file(suite: str, advice: Advice) -> str:
    """Return a rule file with the proposed rules and their reasons."""
    head, chosen = (_HEAD_OF_PAIRS, _CHOSEN_FOR_PAIRS) if advice.is_paired else (_HEAD, _CHOSEN)
    without = [f"Without a rule ({one.reason}): {listed(one.metrics)}." for one in advice.left_out]
    return render(suite, written(advice), (*head, "", *chosen, *([""] if without else []), *without))


def written(advice: Advice) -> list[WrittenRule]:
    """Return the proposed rules, each with its reasons as a comment."""
    return [
        WrittenRule(
            rule.sentence,
            _reasons(rule, advice),
            proposed=(rule.limit,) if rule.limit else (),
            settings=_settings(rule),
        )
        for rule in advice.rules
    ]


def _settings(rule: ProposedRule) -> list[str]:
    """Return the fields of a rule beside its sentence, as `NAME: VALUE`."""
    promise = [f"at_worst: {rule.at_worst}%"] if rule.at_worst is not None else []
    return [*(["severity: warning"] if rule.warns else []), *promise]


def _reasons(rule: ProposedRule, advice: Advice) -> list[str]:
    """Return the comments of a rule: its purpose, and the change that it sees."""
    said = [_PURPOSES[rule.purpose].rstrip()] if _PURPOSES[rule.purpose] else []
    # `steadier`: why this metric is judged in place of a wall time.
    said += [one.reason for one in advice.steadier if rule.subject.startswith(f"{one.metric} ")]
    if rule.purpose == "budget":
        return [f"{said[0]} It is {format_change(rule.fails_from)} beyond the slowest of {plural(advice.runs, 'run')}."]
    if rule.purpose == "input":
        return said
    if rule.purpose == "work" and rule.noise is None:
        warns = " It only warns: the step does not wait for the host." if rule.warns else ""
        return [f"{said[0]} Counts are exact, so one run decides.{warns}"]
    if rule.noise is None:
        said.append(f"It is compared without noise: every change of more than {rule.tolerance}% fails.")
    elif advice.is_paired:
        said.append(
            f"If pairs differ by {100 * rule.noise:.2g}%, {format_change(rule.fails_from)} fails in 8 of 10 cases with"
            f" up to {advice.most_runs} pairs."
        )
    else:
        said.append(_noise(rule, advice))
    if rule.noise is not None and rule.tolerance is not None:
        promised = rule.at_worst or 2 * rule.tolerance
        said.append(f"Exit 0 promises that a change of {promised}% or more is excluded.")
    return [" ".join(said)]


def _noise(rule: ProposedRule, advice: Advice) -> str:
    runs, noise = plural(advice.runs, "run"), f"{100 * (rule.noise or 0.0):.2g}%"
    fails = f" {format_change(rule.fails_from)} fails in 8 of 10 cases, in up to {advice.most_runs} new runs."
    if advice.runs < _RUNS_THAT_SHOW_NOISE and not rule.is_calibrated:
        return (
            f"{runs}: one run probably differs from the next by {noise}, which is a guess until"
            f" {_RUNS_THAT_SHOW_NOISE} runs are stored (then see `perfgate rules`)."
        )
    return f"{runs}: one run differs from the next by {noise}{' (calibrated)' if rule.is_calibrated else ''}.{fails}"


_REMEMBERED = (
    "The command that measures: `perfgate run`, `run --paired`, `bisect` and `doctor` run it. `{results}` is the folder"
    " for its files. A pull request is measured by the command of its base.",
)


def remembered(command: RunCommand, mapping: Sequence[str] = ()) -> str:
    """Return `perfgate.yaml` with the command of the section `run`, and with the lines of a proposed mapping."""
    lines = [*comments(_REMEMBERED), "run:", f"  command: {_words(command.words)}"]
    if command.results:
        lines.append(f"  results: {_quoted(command.results)}")
    if command.paired:
        lines.append("  paired: true  # stored runs differ too much on this machine")
    if command.env:
        lines += ["  env:", *(f"    {name}: {_quoted(value)}" for name, value in command.env)]
    if mapping:
        says = "How the numbers of the command are read, as proposed: check the units. docs/how-to/home-made-files.md."
        lines += ["", *comments((says,)), "mappings:", *mapping]
    return "\n".join(lines) + "\n"


def _words(words: Sequence[str]) -> str:
    """Return a command as a line of text, or as a list of words if a shell would need quotes."""
    text = shell_text(words)
    return scalar(text) if shlex.split(text) == text.split() else _quoted(words)


def _quoted(value: object) -> str:
    return visible(json.dumps(value, ensure_ascii=False))
