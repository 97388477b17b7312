"""The qualification of a machine as text and as JSON (`perfgate.doctor-qualification/1`)."""

from __future__ import annotations

from perfgate.core.runner import QualificationReport
from perfgate.core.wording import aligned, one_line, plural
from perfgate.reporters.plain_json import encode
from perfgate.words.runner import compared_with, figure, runner_change


def qualification_json(found: QualificationReport) -> str:
    """Return the qualification as its file has it, what it was compared with, and the changes; in base units."""
    known = [{"host": one.host, "time": one.time} for one in found.known]
    head = {"schema": "perfgate.doctor-qualification/1", "exit_code": found.exit_code, "kept": found.place}
    rest = {
        "compared_with": known,
        "changes": list(found.changes),
        "disturbed": found.disturbed,
        "notes": list(found.notes),
    }
    return encode({**head, "qualification": found.now, **rest})


def qualification_text(found: QualificationReport, *, ascii_only: bool = False) -> str:
    """Return the figures, and whether the machine is what it was."""
    now = found.now
    lines = aligned([(f"  {name}", figure(name, one), "") for name, one in now.figures.items()])
    lines += [*(f"note: {note}" for note in found.notes), ""]
    if found.changes:
        lines.append(f"{now.host} is not what {compared_with(now.host, found.known)}:")
        lines += [f"  {runner_change(change)}" for change in found.changes]
    elif found.known:
        count = plural(len(found.known), "qualification")
        lines.append(f"{now.host} is what {compared_with(now.host, found.known)} ({count})")
    else:
        lines.append(f"{now.host} has no earlier qualification")
    step = "find the reason; after a change on purpose, `perfgate doctor --qualify --renew`"
    if found.disturbed:
        step = f"{found.disturbed}: end them, then measure again"
    lines.append(f"kept in {found.place}" if found.place else f"not kept: {step}")
    return "\n".join(one_line(line, ascii_only=ascii_only) for line in lines) + "\n"
