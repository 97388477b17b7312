"""The text of `init`: what was measured, the proposed rules, the files. It begins and ends with what no rule sees."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from perfgate.core.advice import BLIND, Advice, FirstGate, MeasuredCommand, MeasuredMetric, ProposedRule
from perfgate.core.units import format_change, format_value
from perfgate.core.wording import listed, plural
from perfgate.reporters.terminal_page import Page

_HEADS = ("rule", "tolerance", "sees", "noise", "")
#: The last cell of a rule, by its purpose; empty for another one.
_PURPOSES = {"cost": "cost", "sum": "all calls of a step", "budget": "budget", "work": "exact"}
#: If stored runs only see larger changes of a step than this, pairs are recommended: they see smaller ones.
_POOR = 0.25
#: The most values of a metric that are shown one by one.
_MOST_VALUES = 3
_COMMAND = "COMMAND"
#: By the state of a gate: what was done with its files; `wrote` otherwise.
_DONE = {"dry-run": "would write", "added": "added to", "would-add": "would add to"}
#: Pairs with this tolerance in percent, or a larger one, were made on a noisy machine.
_NOISY = 10


def render(gate: FirstGate, *, width: int = 100, ascii_only: bool = False) -> str:
    """Return the text that `init` prints."""
    page = Page(width, ascii_only=ascii_only)
    for line in gate.noticed:
        page.paragraph(line)
        page.blank()
    if gate.measured is not None:
        _measured(page, gate.measured)
    if gate.advice is not None:
        _advice(page, gate.advice)
    page.blank()
    if gate.state == "too-noisy":
        _choice(page, gate)
        return page.finished()
    for name, text in gate.files:
        page.verbatim(f"{_DONE.get(gate.state, 'wrote')} {name}")
        for line in (text or "").splitlines():
            page.verbatim(line, indent=4)
    page.blank()
    if gate.state in ("added", "would-add"):
        _added(page, gate)
    else:
        _written(page, gate)
    return page.finished()


def _written(page: Page, gate: FirstGate) -> None:
    """Write what the gate sees and does not see, and what to do next."""
    for line in _proved(gate):
        page.paragraph(line)
    for line in _steps_of_command(gate) if gate.measured else _steps(gate):
        if line.startswith("    "):
            page.verbatim(line)
        else:
            page.paragraph(line)
    if gate.found_by:  # else the CI system finds the job by itself
        page.paragraph(f"{gate.workflow}: {gate.found_by}")
    _uncovered(page, gate)
    if gate.measured is not None:
        page.blank()
        page.paragraph(_seen(gate, gate.measured), "bold")


def _measured(page: Page, measured: MeasuredCommand) -> None:
    """Write what was run and read: a row for each metric with its labels."""
    page.paragraph(f"measured {measured.runs} times: {measured.command}")
    page.paragraph(f"read: {measured.found}")
    for note in measured.notes:
        page.paragraph(note)
    page.blank()
    rows = [[one.name, _values(one), plural(one.count, "value")] for one in measured.metrics]
    page.table(["metric", "the runs", ""], rows)
    if measured.others:
        page.paragraph(f"and {plural(measured.others, 'metric')} more", "dim")
    page.blank()


def _values(one: MeasuredMetric) -> str:
    """Return the value of each run, or the range of many."""
    if len(one.values) > _MOST_VALUES:
        return f"{format_value(min(one.values), one.unit)} to {format_value(max(one.values), one.unit)}"
    return ", ".join(format_value(value, one.unit) for value in one.values)


def _advice(page: Page, advice: Advice) -> None:
    """Write the proposed rules as a table, what would be steadier, and which metrics have no rule."""
    if _gap(advice):
        page.paragraph(_gap(advice), "bold red")
        page.blank()
    if advice.rules:
        page.table(_HEADS, [_cells(rule) for rule in advice.rules])
        page.blank()
    for steadier in advice.steadier:
        page.paragraph(steadier.reason)
    for one in advice.left_out:
        page.paragraph(f"without a rule ({one.reason}): {listed(one.metrics)}")
    page.blank()
    if advice.rules:
        page.paragraph(_legend(advice), "dim")


def _cells(rule: ProposedRule) -> list[str]:
    """Return the row of a rule: its subject, its tolerance, the smallest change that fails, the noise, its purpose.

    Limits have no noise: a `budget`, and `input`, which limits the share of a step that waits for its input.
    """
    fails = "unknown" if rule.fails_from is None else format_change(rule.fails_from)
    if rule.fails_from == 0:
        fails = f"any beyond {rule.tolerance}%" if rule.tolerance else "any"
    noise = "none" if rule.noise is None else f"{100 * rule.noise:.2g}%"
    if rule.purpose == "input":
        fails = ""
    if rule.purpose in ("budget", "input"):
        noise = ""
    return [rule.subject, rule.asks, fails, noise, "warns" if rule.warns else _PURPOSES.get(rule.purpose, "")]


def _legend(advice: Advice) -> str:
    """Return the meaning of the columns `sees` and `noise`."""
    sees, assumed = "sees: the smallest change that fails (exit 1) in at least 8 of 10 cases", ""
    if not advice.is_paired:
        runs = f"The gate makes one run, and up to {advice.most_runs - 1} more while it is in doubt"
        return f"{sees}. {runs}. noise: how much one run differs from the next, as a standard deviation."
    if not all(rule.is_calibrated for rule in advice.rules if rule.purpose == "usual"):  # 3%: `SPREAD_OF_PAIRS`
        assumed = "; the 3% for pairs is an assumption, and the report of the first pairs shows the real value"
    noise = f"how much one pair differs from the next, as a standard deviation{assumed}"
    return f"{sees}, with up to {advice.most_runs} pairs. noise: {noise}."


def _gap(advice: Advice) -> str:
    """Return what no rule sees, as one sentence; empty if a rule sees the time of a step."""
    step = advice.step
    if step.trouble is None:  # a rule sees it, or (`init --add`) nobody looked for it
        return ""
    if step.metric is None:
        return f"No rule sees a slowdown: {step.trouble}."
    return f"No rule compares the time of a step ({step.metric}): {step.trouble}."


def _choice(page: Page, gate: FirstGate) -> None:
    """Write that nothing was written, and the commands between which the user chooses."""
    runs = " ".join([*gate.runs, *gate.env])
    page.paragraph(
        "nothing was written. On this machine, use pairs: the base and the new code take turns, so that the noise that"
        " both share cancels. This command writes a gate that makes pairs:"
    )
    page.verbatim(f"perfgate init --paired {runs}", indent=4)
    if gate.advice is not None and gate.advice.rules:
        page.paragraph("This one writes the rules above, which do not see the time of a step:")
        page.verbatim(f"perfgate init --without-step {runs}", indent=4)


def _added(page: Page, gate: FirstGate) -> None:
    """Write how to store the samples that the lines added to a rule file need."""
    if gate.runs and not gate.is_paired:
        page.paragraph("If these runs are stored, complete them with the samples of the new metric:")
        page.verbatim(f"perfgate baseline add {' '.join([*gate.runs, *gate.env])}", indent=4)


def _steps(gate: FirstGate) -> Iterator[str]:
    """Yield the next steps; commands are indented."""
    env = " ".join(gate.env)
    if gate.is_paired:
        yield from _steps_of_pairs(gate)
    elif not gate.runs:
        yield f"name your metrics in {gate.rules}, then store a first run and check the next one:"
        yield '    perfgate baseline approve RUN --reason "first baseline"'
        yield "    perfgate check RUN"
    else:
        if gate.missing_runs > 0 and gate.advice is not None:
            runs = gate.advice.runs
            yield (
                f"{plural(runs, 'run')} of the program {'does' if runs == 1 else 'do'} not show how much runs differ: a"
                f" check needs {runs + gate.missing_runs} runs of both sides together, or it ends in exit 3."
            )
            yield f"measure the same code again, and store {plural(gate.missing_runs, 'more run')}:"
            yield f"    perfgate baseline add {' '.join(['RUN'] * gate.missing_runs)} {env}".rstrip()
        yield f"read {gate.rules}, then try the gate on a new run:"
        yield f"    perfgate check RUN {env}".rstrip()
        yield "    perfgate rules"
        yield from _poor(gate)
    yield f"fill in the TODO lines of {gate.workflow}, and commit all files to the main branch"


def _poor(gate: FirstGate) -> Iterator[str]:
    """Yield that stored runs see only large changes of a step, and how to see smaller ones."""
    step = gate.advice.step.metric if gate.advice else None
    rules = gate.advice.rules if gate.advice else ()
    about_step = [rule for rule in rules if rule.purpose == "usual" and rule.subject.startswith(f"{step} ")]
    seen = [rule.fails_from or 0.0 for rule in about_step]
    # With missing runs, `_steps` asks for these first.
    if gate.missing_runs <= 0 and any(change > _POOR for change in seen):
        yield (
            f"A slowdown of {step} below {format_change(max(seen))} may stay green or end in exit 3. On a noisy"
            " machine, pairs see smaller ones. This shows what they would see:"
        )
        yield f"    perfgate init --paired --dry-run {' '.join([*gate.runs, *gate.env])}"


def _steps_of_pairs(gate: FirstGate) -> Iterator[str]:
    """Yield the next steps of a gate that makes pairs."""
    yield (
        f"read {gate.rules}, and commit your program. Then try the gate: change the program, and compare it with the"
        " last commit (HEAD):"
    )
    yield f"    perfgate run --paired --base-ref HEAD -- {gate.command or _COMMAND}"
    yield "    perfgate rules"
    if gate.command is None:
        name = shlex.quote(gate.runs[0].rstrip("/").rpartition("/")[2]) if gate.runs else ""
        where = f", for example `python train.py {{results}}/{name}`" if gate.runs else ""
        yield f"{_COMMAND} is your command: it writes its file to the folder {{results}}{where}, or prints its results."
    yield (
        "Steps of a perfgate.Recorder (`step_span()` or `step()`) take turns one by one. For other programs, whole runs"
        " take turns, which cancels less noise."
    )
    if gate.advice is not None and any((rule.tolerance or 0) >= _NOISY for rule in gate.advice.rules):
        yield (
            "If the program uses several threads of the CPU, give it one (OMP_NUM_THREADS=1): on a busy machine,"
            " threads that wait for each other hide a change."
        )


def _uncovered(page: Page, gate: FirstGate) -> None:
    """Write at the end what the gate does not see, so that the text does not end as if everything were covered."""
    if gate.is_paired:
        page.blank()
        page.paragraph(
            "not covered: what both sides of a pair share, such as a new driver or another machine, and many small"
            " slowdowns one after the other. Stored runs on a quiet machine see these."
        )
    gap = _gap(gate.advice) if gate.advice is not None else ""
    if gap:
        page.blank()
        page.paragraph(
            f"not covered: {gap[0].lower()}{gap[1:]} This gate stays green if steps become slower.", "bold red"
        )


def _proved(gate: FirstGate) -> Iterator[str]:
    """Yield how many rules fail on runs that were made worse on purpose, and which do not."""
    judged = [proof for proof in gate.proofs if proof.state != "by-choice"]
    rules = {proof.rule for proof in judged}
    unproven = {proof.rule: proof for proof in judged if proof.state != "proven"}
    able = len(rules) - len(unproven)
    if able:
        yield f"proved: unchanged, these runs pass; made worse on purpose, they fail {able} of {len(rules)} rules."
    most = gate.advice.most_runs if gate.advice else 0
    for rule, proof in unproven.items():
        few = f"the pairs made here are too few; a check makes up to {most}"
        yield f"not proved: {rule}: {few if proof.state == 'blocked' and gate.is_paired else proof.reason}"


def _steps_of_command(gate: FirstGate) -> Iterator[str]:
    """Yield what to do with the files of a gate that remembers its command; commands are indented."""
    files = [name.partition(" (")[0] for name, _ in gate.files]  # such as `rules/perfgate.yaml (added the section run)`
    tops = " ".join(dict.fromkeys(shlex.quote(name.partition("/")[0]) for name in files))
    yield f"fill in the TODO lines of {gate.workflow}, and commit these files with your program to the main branch:"
    yield f"    git add {tops}"
    yield "then `perfgate run` measures and judges your changes."


def _seen(gate: FirstGate, measured: MeasuredCommand) -> str:
    """Return the last line: what the gate sees, and how long a check takes."""
    rule, rules = gate.main_rule, gate.advice.rules if gate.advice else ()
    # Work without noise is exact; the device time of a step has this purpose, too.
    parts = ["any more work"] if any(one.purpose == "work" and one.noise is None for one in rules) else []
    parts += [f"{format_change(rule.fails_from)} in {_metric(rule)}"] if rule else []
    # Rules about CPU time are named if they see smaller changes than the main rule.
    least = rule.fails_from or 0.0 if rule else 0.0
    finer = [one for one in rules if one.purpose == "cpu" and 0 < (one.fails_from or 0.0) < least]
    parts += [f"{format_change(one.fails_from)} in {_metric(one)}" for one in finer]
    takes = f"{measured.seconds:.2g} s" if measured.seconds < 100 else f"{measured.seconds / 60:.0f} min"
    blind = least > BLIND and not finer  # a gate that sees only changes of more than half
    why = ". This machine is too busy now for a better gate: `perfgate doctor` shows why" if blind else ""
    return f"this gate sees {' and '.join(parts) or 'changes beyond its tolerances'}; a check takes {takes}{why}"


def _metric(rule: ProposedRule) -> str:
    """Return the metric of a rule, without the statistic at the end of the subject: `step.time median`."""
    return rule.subject.rpartition(" ")[0] or rule.subject
