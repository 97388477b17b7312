"""The proofs of `perfgate selftest` that rules can fail, as a table and as JSON (`perfgate.selftest/1`)."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core.summaries import Proof
from perfgate.core.units import format_change, format_number, format_value
from perfgate.core.wording import plural, series_name
from perfgate.reporters.plain_json import encode, members_of
from perfgate.reporters.terminal_page import GAP, Page

#: For each state of a proof, in the order of the summary: its sign, its words, and its colour.
_STATES = {
    "unable": ("✗ ", "cannot fail", "bold red"),
    "blocked": ("! ", "not passing unchanged", "bold red"),
    "proven": ("✓ ", "can fail", "green"),
    "by-choice": ("- ", "not blocking", "dim"),
}
#: A rule blocks with any exit code but 0: with a doubt or a suspicion it does so before it fails.
_HEADS = ("", "rule", "blocks at", "fails at")
#: The least width of the column of the rules.
_LEAST_ROOM = 16


def render_json(proofs: Sequence[Proof], against: str, exit_code: int, time_seen: float | None = None) -> str:
    """Return the proofs as JSON, in base units; `time_seen` is the share of the measured time that a rule names."""
    rows = [members_of(proof, "labels", "at") for proof in proofs]
    return encode(
        {
            "schema": "perfgate.selftest/1",
            "against": against,
            "exit_code": exit_code,
            "time_seen": time_seen,
            "proofs": rows,
        }
    )


def render_text(
    proofs: Sequence[Proof],
    against: str,
    exit_code: int,
    time_seen: float | None = None,
    *,
    width: int,
    colour: bool = False,
    ascii_only: bool = False,
) -> str:
    """Return a table with one row per rule and metric, and the reason below each rule that has one."""
    page = Page(width, colour=colour, ascii_only=ascii_only)
    page.paragraph(f"tested against {against}", "dim")
    page.blank()
    cells = [_cells(proof, ascii_only) for proof in proofs]
    widths = [max(page.cells(row[column]) for row in [_HEADS, *cells]) for column in range(len(_HEADS))]
    widths[1] = max(_LEAST_ROOM, min(widths[1], width - widths[0] - sum(widths[2:]) - GAP * (len(_HEADS) - 1)))
    page.row([[head] for head in _HEADS], widths, ["dim"] * len(_HEADS))
    for proof, row in zip(proofs, cells, strict=True):
        page.row([[cell] for cell in row], widths, [_STATES[proof.state][2], "", "", ""])
        if proof.reason:
            page.paragraph(f"{proof.reason} ({proof.at})", "dim", indent=4)
    page.blank()
    if time_seen is not None:
        page.paragraph(f"the rules name {format_number(100 * time_seen, 2)}% of the time that these runs measured")
    page.paragraph(_summary(proofs, exit_code), "bold")
    return page.finished()


def _cells(proof: Proof, ascii_only: bool) -> tuple[str, str, str, str]:
    sign, words, colour = _STATES[proof.state]
    state = (words.upper() if "red" in colour else words) if ascii_only else sign + words
    rule = f"{series_name(proof.metric, proof.labels, proof.statistic)} {proof.asks}".rstrip()
    return state, rule, _size(proof, proof.blocks_at), _size(proof, proof.fails_at)


def _size(proof: Proof, size: float | None) -> str:
    """Return a change, or the value of a limit, in words."""
    if size is None:
        return ""
    return format_change(size) if proof.kind == "change" else format_value(size, proof.unit or "", proof.shown_unit)


def _summary(proofs: Sequence[Proof], exit_code: int) -> str:
    found = [proof.state for proof in proofs]
    counts = [f"{found.count(state)} {words}" for state, (_, words, _) in _STATES.items() if state in found]
    absences = sum(not proof.misses for proof in proofs)
    counts += [f"{plural(absences, 'missing metric')} not noticed"] if absences else []
    return f"{'FAIL' if exit_code else 'PASS'}  {', '.join(counts)} (exit {exit_code})"
