"""What each rule was shown to catch, for people and as JSON (`perfgate.selftest/1`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from perfgate.core import Proof
from perfgate.core.units import format_change, format_value
from perfgate.core.wording import plural, series_name
from perfgate.reporters.plain_json import encode
from perfgate.reporters.terminal_page import GAP, Page

_SIGNS = {"proven": "✓ can fail", "by-choice": "- by choice", "unable": "✗ unable", "blocked": "! blocked"}
_SIGNS_IN_ASCII = {"proven": "can fail", "by-choice": "by choice", "unable": "UNABLE", "blocked": "BLOCKED"}
_COLOURS = {"proven": "green", "by-choice": "dim", "unable": "bold red", "blocked": "bold red"}
_HEADS = ("", "rule", "fails at")


def render_json(proofs: Sequence[Proof], against: str, exit_code: int) -> str:
    """Every proof in base units."""
    rows = [_as_json(proof) for proof in proofs]
    return encode({"schema": "perfgate.selftest/1", "against": against, "exit_code": exit_code, "proofs": rows})


def _as_json(proof: Proof) -> dict[str, object]:
    row = {field.name: getattr(proof, field.name) for field in fields(proof) if field.name not in ("at", "labels")}
    place = {"file": proof.at.file, "line": proof.at.line, "column": proof.at.column}
    return {**row, "labels": dict(proof.labels), "at": place}


def render_text(
    proofs: Sequence[Proof], against: str, exit_code: int, *, width: int, colour: bool = False, ascii_only: bool = False
) -> str:
    """A table, one row for each rule and metric; under what cannot fail the reason."""
    page = Page(width, colour=colour, ascii_only=ascii_only)
    signs = _SIGNS_IN_ASCII if ascii_only else _SIGNS
    page.paragraph(f"tested against {against}", "dim")
    page.blank()
    cells = [
        [
            signs[proof.state],
            f"{series_name(proof.metric, proof.labels, proof.statistic)} {proof.asks}".rstrip(),
            _fails_at(proof),
        ]
        for proof in proofs
    ]
    widths = [max(page.cells(row[column]) for row in [_HEADS, *cells]) for column in range(3)]
    widths[1] = max(20, min(widths[1], width - widths[0] - widths[2] - 2 * GAP))
    page.row([[head] for head in _HEADS], widths, ["dim"] * 3)
    for proof, row in zip(proofs, cells, strict=True):
        page.row([[cell] for cell in row], widths, [_COLOURS[proof.state], "", ""])
        if proof.reason:
            page.paragraph(f"{proof.reason} ({proof.at})", "dim", indent=4)
    page.blank()
    page.paragraph(_summary(proofs, exit_code), "bold")
    return page.finished()


def _fails_at(proof: Proof) -> str:
    if proof.fails_at is None:
        return ""
    if proof.kind == "change":
        return format_change(proof.fails_at)
    return format_value(proof.fails_at, proof.unit or "", proof.shown_unit)


def _summary(proofs: Sequence[Proof], exit_code: int) -> str:
    found = [proof.state for proof in proofs]
    words = {"unable": "unable to fail", "blocked": "blocked unchanged", "proven": "can fail", "by-choice": "by choice"}
    counts = [f"{found.count(state)} {said}" for state, said in words.items() if state in found]
    absences = sum(not proof.misses for proof in proofs)
    counts += [f"{plural(absences, 'absence')} unnoticed"] if absences else []
    return f"{'FAIL' if exit_code else 'PASS'}  {', '.join(counts)} (exit {exit_code})"
