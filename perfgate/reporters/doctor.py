"""The examination of a machine as text and as JSON (`perfgate.doctor/1`)."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core.runner import QualificationReport
from perfgate.core.summaries import Disturbance, Examination, Floor, MeasuredLoad, RuleNeed, Way
from perfgate.core.units import format_number
from perfgate.core.wording import aligned, one_line, plural
from perfgate.reporters.plain_json import encode, picked
from perfgate.reporters.terminal_page import Page
from perfgate.words.beside import compared_with, figure, runner_change

#: The ways to measure: the head of the column, and the name in sentences.
_WAYS: dict[Way, tuple[str, str]] = {
    "separate": ("separate", "separate runs"),
    "pinned": ("pinned", "one fixed processor"),
    "cpu-time": ("CPU time", "CPU time"),
    "three-runs": ("3 runs", "three new runs"),
    "pairs": ("6 pairs", "pairs"),
}
#: A way helps if its floor is at most this share of that of separate runs.
_HELPS = 0.75
_INDENT = 2


def render_json(found: Examination) -> str:
    """Return everything that was found; noise is relative."""
    loads = [picked(load, "name", "is_users", "floors") for load in found.loads]
    needs = [
        {"rule": need.rule, "at": need.place, **picked(need, "needs", "measured_on", "floor", "is_met", "better")}
        for need in found.needs
    ]
    head = {"schema": "perfgate.doctor/1", **picked(found, "exit_code", "cpus", "pinned_to")}
    rest = {"command": found.command or None, "loads": loads, "disturbances": found.disturbances, "rules": needs}
    return encode({**head, **rest, "notes": found.notes})


def render_text(found: Examination, *, width: int = 100, ascii_only: bool = False) -> str:
    """Return the floors, the disturbances, the steadier ways, and the floors that the rules need."""
    page = Page(width, ascii_only=ascii_only)
    _floors(page, found)
    _disturbances(page, found.disturbances)
    _cures(page, found)
    if found.needs:
        page.blank()
        page.paragraph("noise floors that the rules need")
    for need in sorted(found.needs, key=lambda one: one.is_met):
        page.paragraph(_need(need), indent=_INDENT)
        if not need.is_met and need.better is not None:
            _commands(page, need.better.way, found)
    page.blank()
    page.paragraph(_summary(found), "bold")
    return page.finished()


def _percent(noise: float, digits: int = 2) -> str:
    return f"{format_number(100 * noise, digits)}%"


def _floors(page: Page, found: Examination) -> None:
    """Write the table of noise floors: a row for each load, a column for each way."""
    ways = [way for way in _WAYS if any(load.floor(way) for load in found.loads)]
    rows = [["noise floor", *(_WAYS[way][0] for way in ways)]]
    for load in found.loads:
        floors = [load.floor(way) for way in ways]
        rows.append([load.name, *("-" if floor is None else _percent(floor.noise) for floor in floors)])
    widths = page.widths(rows, wraps=-1, least=20, width=page.line)
    for row in rows:
        page.row(row, widths)
    page.blank()
    pinned = f" pinned: on processor {found.pinned_to} only." if "pinned" in ways else ""
    page.paragraph(
        "noise floor: how much an unchanged program seems to change, as a standard deviation, if one new run is"
        f" compared with five base runs.{pinned} 3 runs: three new runs. 6 pairs: two processes take steps in turn.",
        "dim",
    )
    for note in found.notes:
        page.paragraph(f"note: {note}")


def _disturbances(page: Page, found: Sequence[Disturbance]) -> None:
    """Write what disturbs this machine, then its other conditions, and what it does not show."""
    disturbing = [one for one in found if one.does_disturb]
    page.blank()
    page.paragraph("disturbances of this machine" if disturbing else "no disturbance of this machine was found")
    calm = [one for one in found if not one.does_disturb and not one.is_unknown]
    for at, one in enumerate([*disturbing, *calm]):
        if at == len(disturbing):
            page.blank()
            page.paragraph("other conditions")
        page.paragraph(f"{one.source}: {one.text}", indent=_INDENT)
        if one.command:
            page.verbatim(one.command, indent=3 * _INDENT)
    if unknown := [one.source for one in found if one.is_unknown]:
        page.blank()
        page.paragraph(f"not shown on this machine: {', '.join(dict.fromkeys(unknown))}")


def _cures(page: Page, found: Examination) -> None:
    """Write the ways that help the program of interest, the best first, each with its command."""
    page.blank()
    load = _of_interest(found)
    before = load.floor("separate") if load is not None else None
    if load is None or before is None:
        return
    helping = [one for one in load.floors if one.way != "separate" and one.noise <= _HELPS * before.noise]
    if not helping:
        page.paragraph(f"no other way to measure {load.name} is much steadier than separate runs")
        return
    page.paragraph(f"steadier ways to measure {load.name} ({_percent(before.noise)} with separate runs)")
    for floor in sorted(helping, key=lambda one: one.noise):
        page.paragraph(f"{_WAYS[floor.way][1]}: {_percent(floor.noise)}{_how(floor, load)}", indent=_INDENT)
        _commands(page, floor.way, found)


def _of_interest(found: Examination) -> MeasuredLoad | None:
    """Return the load to give advice about: one that rules name, else one of the user, `the whole command` last."""
    named = [need.measured_on for need in found.needs]
    known = [load for load in found.loads if load.floor("separate")]
    ranked = sorted(known, key=lambda load: (load.name not in named, not load.is_users, load.name.startswith("the ")))
    return next(iter(ranked), None)


def _how(floor: Floor, load: MeasuredLoad) -> str:
    """Return how a rule can use the CPU time of a load; empty for other ways, which have commands."""
    if floor.way != "cpu-time":
        return ""
    is_metric = " " not in load.name  # others are `the whole command`, `a loop of Python` and the like
    stem = load.name.removesuffix(".time") if is_metric else "step"
    if load.is_users and not is_metric:
        return ", if the program does not wait: write a rule on command.cpu_time, which `perfgate run` measures"
    return f", if the program does not wait: `perfgate.Recorder(..., counters=True)` and a rule on {stem}.cpu_time"


def _commands(page: Page, way: Way, found: Examination) -> None:
    """Write the commands of a way. Pairs compare with a commit, so one is made first if there is none."""
    if way == "pairs" and not found.has_commits:
        page.paragraph("pairs compare with a commit, so make one before you change the code:", indent=2 * _INDENT)
        page.verbatim('git init && git add . && git commit -m "before the change"', indent=3 * _INDENT)
    options = {
        "pinned": f"--cpus {found.pinned_to}",
        "three-runs": "--runs 3 --every",
        "pairs": "--paired --base-ref HEAD",
    }
    if way in options:
        page.verbatim(f"perfgate run {options[way]} -- {found.command or 'COMMAND'}", indent=3 * _INDENT)


def _need(need: RuleNeed) -> str:
    """Return whether the noise floor of this machine is low enough for a rule, or which way makes it so."""
    name = f"`{need.rule}` ({need.place})"
    if need.floor is None:
        return f"? {name}: your command has no metric {need.measured_on}, so its noise was not measured."
    needs, has = _percent(need.needs), _percent(need.floor.noise)
    if needs == has:  # the third digit tells them apart
        needs, has = _percent(need.needs, 3), _percent(need.floor.noise, 3)
    text = f"{name} needs a noise floor of {needs}; {need.measured_on} has {has} on this machine."
    if need.is_met:
        return f"✓ {text}"
    if need.better is None:
        return f"✗ {text} No way that was measured is steady enough: use a quieter machine, or a wider tolerance."
    return f"✗ {text} With {_WAYS[need.better.way][1]} it is {_percent(need.better.noise)}."


def _summary(found: Examination) -> str:
    missed = len([need for need in found.needs if not need.is_met])
    if missed:
        return f"TOO NOISY for {plural(missed, 'rule')} (exit 3)"
    if not found.is_compared:
        return "NOT COMPARED: your command has no metric of the rules (exit 3)"
    if found.needs:
        return "QUIET ENOUGH for the rules (exit 0)"
    return "no rule about a change was found, so none was compared with the noise floor (exit 0)"


def qualification_json(found: QualificationReport) -> str:
    """Return the qualification as its file has it, what it was compared with, and the changes; in base units."""
    known = [picked(one, "host", "time") for one in found.known]
    head = {"schema": "perfgate.doctor-qualification/1", "exit_code": found.exit_code, "kept": found.place}
    rest = picked(found, "changes", "disturbed", "notes")
    return encode({**head, "qualification": found.now, "compared_with": known, **rest})


def qualification_text(found: QualificationReport, *, ascii_only: bool = False) -> str:
    """Return the figures, and whether the machine is what it was."""
    now = found.now
    # With a third column, the figures are not the last one, and are aligned to the right.
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
