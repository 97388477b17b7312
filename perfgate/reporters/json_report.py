"""The report as JSON (`perfgate.report/1`) in base units, with 12 digits; see `report.schema.json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perfgate.core import NO_STEP, Report, Verdict
from perfgate.core.causes import Cause, CauseKind, CauseMetric, CauseReport, PlaceTime, RankTime
from perfgate.core.verdicts import verdict_ids
from perfgate.reporters.plain_json import encode, in_order, picked, present, problem, without_empty
from perfgate.words import answer


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
    factor: float | None = None
    types: tuple[str, str] | None = None


class CauseSummary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The change of the step in s, and the `rest` of it that the causes do not explain."""

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
    """Return two members of a JSON report: `causes`, and `cause_summary` with the change of the step."""
    causes = [
        {name: getattr(cause, name, None) for name in CauseDocument.__struct_fields__}  # a Cause has no `path`
        | {"where": "/".join(cause.where), "path": cause.where}
        for cause in found.causes
    ]
    summary = picked(found, *CauseSummary.__struct_fields__)
    return {"causes": causes, "cause_summary": without_empty(summary, "tree", "ranks")}


def from_documents(causes: Sequence[CauseDocument], summary: CauseSummary | None) -> CauseReport | None:
    """Return the causes that `documents` wrote; None if the report has none."""
    if summary is None:
        return None
    names = [name for name in Cause.__struct_fields__ if name != "where"]
    found = [Cause(where=cause.path, **picked(cause, *names)) for cause in causes]
    return CauseReport(tuple(found), **picked(summary, *CauseSummary.__struct_fields__))


SCHEMA = "perfgate.report/1"
#: The first fields of a verdict; the others follow in the order of the class.
_FIRST = (
    *("rule", "metric", "labels", "statistic", "outcome", "severity", "kind", "unit", "against", "new", "bound"),
    *("base", "change", "tolerance", "minimum_detectable_change", "confidence", "suspect", "message", "next_step"),
    *("at", "next"),  # `next` is the next step in parts, `next_step` its text
)
#: Fields that are absent if there is nothing to say, as in older reports.
_OPTIONAL = ("at_worst", "not_excluded", "noise", "owner", "quarantine", "pooled", "attribution", "calculation")
_VERDICT_FIELDS = (*_FIRST, *(name for name in Verdict.__struct_fields__ if name not in _FIRST))


def render(report: Report) -> str:
    """Return the report as indented JSON with a final newline. The verdicts are in the order of the rules."""
    policy = picked(report.policy, *report.policy.__struct_fields__)
    details = picked(report.details, *report.details.__struct_fields__)
    causes = report.causes.causes if report.causes else ()
    explained = {name for cause in causes for name in cause.verdicts}
    verdicts = list(map(_verdict, report.verdicts))
    for name, verdict in zip(verdict_ids(report.verdicts), verdicts, strict=True):
        if name in explained:
            verdict["id"] = name
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "outcome": report.outcome,
        "exit_code": report.exit_code,
        "counts": report.counts,
        "verdicts": verdicts,
        "problems": [{**problem(found), "excerpt": found.excerpt} for found in report.problems],
        "inputs": report.inputs,
        "environment": in_order(report.environment),
        "policy": without_empty(policy, "commit"),  # the working tree and older reports have none
        **picked(report, "suite", "baseline"),
        "approve_command": report.accept.command,
        "evidence": without_empty(details, "sweeps", "machine"),  # absent in older reports, too
    }
    if report.accept != NO_STEP and report.accept.action != "other":  # `other`: of an older report, without parts
        document["accept"] = report.accept
    document |= present(report, "geometric_means")
    if report.causes is not None:
        document |= documents(report.causes)
    document |= present(report, "identical", "coverage", "unknown_facts", "fact_changes", "unruled")
    if report.unruled:
        document["unruled_count"] = report.unruled_count
    return encode(document)


def _verdict(verdict: Verdict) -> dict[str, Any]:
    values = {name: getattr(verdict, name, None) for name in _VERDICT_FIELDS}  # a Verdict has no `next`
    values = {name: value for name, value in values.items() if value is not None or name not in _OPTIONAL}
    values |= {"next_step": answer.next_step(verdict.next_step), "next": verdict.next_step}
    if verdict.next_step == NO_STEP or verdict.next_step.action == "other":
        del values["next"]
    values |= {"labels": in_order(verdict.labels), "member": in_order(verdict.member)}
    return without_empty(values, "doubtful", "work")  # absent in older reports, too
