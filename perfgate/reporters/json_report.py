"""The report as JSON (`perfgate.report/1`) in base units, with 12 digits; see `report.schema.json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perfgate.core import NO_STEP, Policy, Report, Verdict
from perfgate.core.causes import Cause, CauseKind, CauseMetric, CauseReport, PlaceTime, RankTime
from perfgate.core.details import ReportDetails
from perfgate.core.verdicts import verdict_ids
from perfgate.reporters.plain_json import encode, in_order, problem
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


SCHEMA = "perfgate.report/1"
#: The first fields of a verdict; the others follow in the order of the class.
_FIRST = (
    *("rule", "metric", "labels", "statistic", "outcome", "severity", "kind", "unit", "against", "new", "bound"),
    *("base", "change", "tolerance", "minimum_detectable_change", "confidence", "suspect", "message", "next_step"),
    *("at", "next"),
)
#: Fields that are absent if there is nothing to say, as in older reports.
_OPTIONAL = ("at_worst", "not_excluded", "noise", "owner", "quarantine", "pooled", "attribution", "calculation")
#: Details that are absent if there are none, as in older reports.
_RARE = ("sweeps", "machine")
_VERDICT_FIELDS = (*_FIRST, *(name for name in Verdict.__struct_fields__ if name not in _FIRST))


def render(report: Report) -> str:
    """Return the report as indented JSON with a final newline. The verdicts are in the order of the rules."""
    explained = {name for cause in report.causes.causes for name in cause.verdicts} if report.causes else set()
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "outcome": report.outcome,
        "exit_code": report.exit_code,
        "counts": report.counts,
        "verdicts": [
            _verdict(verdict) | ({"id": name} if name in explained else {})
            for verdict, name in zip(report.verdicts, verdict_ids(report.verdicts), strict=True)
        ],
        "problems": [{**problem(found), "excerpt": found.excerpt} for found in report.problems],
        "inputs": report.inputs,
        "environment": in_order(report.environment),
        "policy": _policy(report.policy),
        "suite": report.suite,
        "baseline": report.baseline,
        "approve_command": report.accept.command,
        "evidence": _evidence(report.details),
    }
    if report.accept != NO_STEP and report.accept.action != "other":
        document["accept"] = report.accept
    if report.geometric_means:
        document["geometric_means"] = report.geometric_means
    if report.causes is not None:
        document |= documents(report.causes)
    if report.identical:
        document["identical"] = True
    if report.coverage is not None:
        document["coverage"] = report.coverage
    if report.unknown_facts:
        document["unknown_facts"] = report.unknown_facts
    if report.fact_changes:
        document["fact_changes"] = report.fact_changes
    if report.unruled:
        document |= {"unruled": report.unruled, "unruled_count": report.unruled_count}
    return encode(document)


def _evidence(details: ReportDetails) -> dict[str, Any]:
    """Return the details; only a report about a load sweep has curves, and few have metrics of the machine."""
    names = (name for name in details.__struct_fields__ if name not in _RARE or getattr(details, name))
    return {name: getattr(details, name) for name in names}


def _policy(policy: Policy) -> dict[str, Any]:
    """Return the policy; the working tree and older reports have no commit."""
    names = (name for name in policy.__struct_fields__ if name != "commit" or policy.commit is not None)
    return {name: getattr(policy, name) for name in names}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    values = {name: getattr(verdict, name, None) for name in _VERDICT_FIELDS}
    values = {name: value for name, value in values.items() if value is not None or name not in _OPTIONAL}
    values |= {"next_step": answer.next_step(verdict.next_step), "next": verdict.next_step}
    if verdict.next_step == NO_STEP or verdict.next_step.action == "other":  # of older reports, which have no parts
        del values["next"]
    for name in ("doubtful", "work"):  # absent in older reports
        if not getattr(verdict, name):
            del values[name]
    return {**values, "labels": in_order(verdict.labels), "member": in_order(verdict.member)}
