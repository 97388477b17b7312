"""The causes of a change as objects of JSON, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perfgate.core.causes import Cause, CauseKind, CauseMetric, CauseReport, PlaceTime, RankTime


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
    names = [name for name in Cause.__struct_fields__ if name != "where"]
    found = [Cause(where=one.path, **{name: getattr(one, name) for name in names}) for one in causes]
    return CauseReport(tuple(found), **{name: getattr(summary, name) for name in CauseSummary.__struct_fields__})
