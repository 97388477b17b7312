"""The causes of a change as lines of text, and as objects of JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import msgspec

from perfgate.core.causes import Cause, CauseKind, CauseMetric, CauseReport, PlaceTime, RankTime
from perfgate.core.units import format_change, format_value
from perfgate.core.wording import clip, plural

#: The most causes on a screen, and the longest name of a call and of a place in characters.
_MOST_SHOWN = 10
_LONGEST_NAME = 80
_LONGEST_PLACE = 160
#: The most names of calls that came, and of those that went.
_NAMES_SHOWN = 3
_WORDS = {
    "sync": "new synchronisation",
    "exposed": "exposed communication",
    "stall": "input stall",
    "memory": "more memory at the peak",
    "machine": "the device is faster or slower as a whole",
}


def lines(found: CauseReport) -> list[str]:
    """The causes as lines: the change of the step, then each cause with its cost, then what they leave."""
    change = found.new_step - found.base_step
    runs = f"{plural(found.base_runs, 'base run')}, {plural(found.new_runs, 'new run')}"
    sides = f"{_amount(found.base_step)} → {_amount(found.new_step)}"
    relative = f" ({format_change(change / found.base_step)})" if found.base_step else ""
    shown = [f"Step: {sides}, {_signed(change)}{relative}; {runs}"]
    if not found.causes:
        shown.append(f"No cause found. Noise can change the step by {_amount(found.noise)}.")
    for cause in found.causes[:_MOST_SHOWN]:
        shown += [f"  {line}" for line in _cause(cause)]
    if len(found.causes) > _MOST_SHOWN:
        shown.append(f"  {plural(len(found.causes) - _MOST_SHOWN, 'smaller cause')} more")
    if found.causes:
        shown.append(f"  rest: {_signed(found.rest)}, from changes that noise explains or that are too small to list")
    return [*shown, *(f"  {note}" for note in found.notes)]


def _cause(cause: Cause) -> list[str]:
    share = f", {cause.share:.0%} of the change" if cause.share is not None and cause.metric == "time" else ""
    size = f"{_signed(cause.change_per_step, cause)} [{_signed(cause.low, cause)}, {_signed(cause.high, cause)}]{share}"
    ranks = f" on rank {', '.join(cause.ranks)} (the others wait)" if cause.ranks else ""
    where = clip(" / ".join(cause.where) or "the step itself", _LONGEST_PLACE)
    found = [f"{_WORDS.get(cause.kind, cause.kind)}{ranks}: {where}: {size}"]
    if cause.source:
        found.append(f"  at {cause.source}")
    calls = [(word, names) for word, names in (("gone", cause.gone), ("new", cause.come)) if names]
    return found + [f"  {word}: {_calls(names)}" for word, names in calls]


def _calls(calls: Sequence[tuple[str, float]]) -> str:
    names = ", ".join(f"{clip(name, _LONGEST_NAME)} x{count:g}" for name, count in calls[:_NAMES_SHOWN])
    return names + (f" and {len(calls) - _NAMES_SHOWN} more" if len(calls) > _NAMES_SHOWN else "")


def _amount(value: float, unit: str = "s") -> str:
    return format_value(value, unit)


def _signed(value: float, cause: Cause | None = None) -> str:
    unit = "B" if cause is not None and cause.metric == "memory" else "s"
    return f"{'-' if value < 0 else '+'}{_amount(abs(value), unit)}"


class CauseDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One cause in JSON. `where` is the path as text; `verdicts` has the names of those that it explains."""

    kind: CauseKind
    where: str
    metric: CauseMetric
    change_per_step: float
    low: float
    high: float
    share: float | None
    ranks: tuple[str, ...]
    verdicts: tuple[str, ...]
    source: str
    path: tuple[str, ...]
    places: tuple[tuple[str, ...], ...]
    gone: tuple[tuple[str, float], ...]
    come: tuple[tuple[str, float], ...]


class CauseSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Return the sum of the causes beside the change of the step, in s."""

    base_step: float
    new_step: float
    rest: float
    noise: float
    base_runs: int
    new_runs: int
    notes: tuple[str, ...]
    tree: tuple[PlaceTime, ...] = ()
    ranks: tuple[RankTime, ...] = ()


def documents(found: CauseReport) -> dict[str, Any]:
    """The members of a JSON report: `causes`, and how they sum to the change of the step."""
    summary = {name: getattr(found, name) for name in CauseSummary.__struct_fields__}
    summary = {name: value for name, value in summary.items() if value or name not in ("tree", "ranks")}
    return {"causes": [_document(cause) for cause in found.causes], "cause_summary": summary}


def _document(cause: Cause) -> dict[str, Any]:
    own = {"where": "/".join(cause.where), "path": cause.where}
    return {name: own[name] if name in own else getattr(cause, name) for name in CauseDocument.__struct_fields__}


def from_documents(causes: Sequence[CauseDocument], summary: CauseSummary | None) -> CauseReport | None:
    """The inverse of `documents`; None if the report has no causes."""
    if summary is None:
        return None
    names = [field.name for field in fields(Cause) if field.name != "where"]
    found = [Cause(where=one.path, **{name: getattr(one, name) for name in names}) for one in causes]
    return CauseReport(tuple(found), **{name: getattr(summary, name) for name in CauseSummary.__struct_fields__})
