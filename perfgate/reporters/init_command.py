"""The text of `init` about a measured command: its metrics, the proof of the gate, and what the gate sees."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from perfgate.core.advice import BLIND, FirstGate, MeasuredCommand, MeasuredMetric, ProposedRule
from perfgate.core.units import format_change, format_value
from perfgate.core.wording import plural
from perfgate.reporters.terminal_page import GAP, Page

#: The least width of the first column, and the most values of a metric that are shown one by one.
_LEAST_ROOM, _MOST_VALUES = 16, 3


def write_measured(page: Page, measured: MeasuredCommand) -> None:
    """Write what was run and read: a row for each metric with its labels."""
    page.paragraph(f"measured {measured.runs} times: {measured.command}")
    page.paragraph(f"read: {measured.found}")
    for note in measured.notes:
        page.paragraph(note)
    page.blank()
    cells = [[one.name, _values(one), plural(one.count, "value")] for one in measured.metrics]
    heads = ["metric", "the runs", ""]
    widths = [max(map(page.cells, column)) for column in zip(heads, *cells, strict=True)]
    widths[0] = max(_LEAST_ROOM, min(widths[0], page.width - sum(widths[1:]) - 2 * GAP))
    for row, style in ((heads, "dim"), *((row, "") for row in cells)):
        page.row([[cell] for cell in row], widths, [style] * 3)
    if measured.others:
        page.paragraph(f"and {plural(measured.others, 'metric')} more", "dim")
    page.blank()


def _values(one: MeasuredMetric) -> str:
    """Return the value of each run, or the range of many."""
    if len(one.values) > _MOST_VALUES:
        return f"{format_value(min(one.values), one.unit)} to {format_value(max(one.values), one.unit)}"
    return ", ".join(format_value(value, one.unit) for value in one.values)


def proved(gate: FirstGate) -> Iterator[str]:
    """Yield how many rules fail on runs that were made worse on purpose, and which do not."""
    judged = [proof for proof in gate.proofs if proof.state != "by-choice"]
    rules = {proof.rule for proof in judged}
    others = {proof.rule: proof for proof in judged if proof.state != "proven"}
    able = len(rules) - len(others)
    if able:
        yield f"proved: unchanged, these runs pass; made worse on purpose, they fail {able} of {len(rules)} rules."
    most = gate.advice.most_runs if gate.advice else 0
    for rule, proof in others.items():
        few = f"the pairs made here are too few; a check makes up to {most}"
        yield f"not proved: {rule}: {few if proof.state == 'blocked' and gate.is_paired else proof.reason}"


def steps_of_command(gate: FirstGate) -> Iterator[str]:
    """Yield what to do with the files of a gate that remembers its command; commands are indented."""
    files = [name.partition(" (")[0] for name, _ in gate.files]
    tops = " ".join(dict.fromkeys(shlex.quote(name.partition("/")[0]) for name in files))
    yield f"fill in the TODO lines of {gate.workflow}, and commit these files with your program to the main branch:"
    yield f"    git add {tops}"
    yield "then `perfgate run` measures and judges your changes."
    if gate.found_by:
        yield f"{gate.workflow}: {gate.found_by}"


def seen(gate: FirstGate, measured: MeasuredCommand) -> str:
    """Return the last line: what the gate sees, and how long a check takes."""
    rule, rules = gate.main_rule, gate.advice.rules if gate.advice else ()
    parts = ["any more work"] if any(one.purpose == "work" and one.noise is None for one in rules) else []
    parts += [f"{format_change(rule.fails_from)} in {_metric(rule)}"] if rule else []
    least = rule.fails_from or 0.0 if rule else 0.0
    finer = [one for one in rules if one.purpose == "cpu" and 0 < (one.fails_from or 0.0) < least]
    parts += [f"{format_change(one.fails_from)} in {_metric(one)}" for one in finer]
    takes = f"{measured.seconds:.2g} s" if measured.seconds < 100 else f"{measured.seconds / 60:.0f} min"
    blind = least > BLIND and not finer
    why = ". This machine is too busy now for a better gate: `perfgate doctor` shows why" if blind else ""
    return f"this gate sees {' and '.join(parts) or 'changes beyond its tolerances'}; a check takes {takes}{why}"


def _metric(rule: ProposedRule) -> str:
    return rule.subject.rpartition(" ")[0] or rule.subject
