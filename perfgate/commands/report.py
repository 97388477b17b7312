"""`perfgate report`: stored reports in, one report out; the worst of them wins."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfgate.core import Fact, Location, Policy, Problem, Report, fact_text
from perfgate.core.details import ReportDetails, VerdictDetails
from perfgate.core.wording import plural
from perfgate.judge.report import stored_exit_code, with_outcome, with_problems, worst_exit_code
from perfgate.reporters import RENDERERS
from perfgate.reporters.stored_report import MAX_BYTES
from perfgate.reporters.stored_report import read as read_stored
from perfgate.workspace.errors import Refused
from perfgate.workspace.inputs import refuse_twice
from perfgate.workspace.options import shown_path


@dataclass(frozen=True, slots=True)
class _Stored:
    """A report and the file that it was read from."""

    name: str
    report: Report


def merged(paths: Sequence[str], expect: int | None = None) -> Report:
    """The report in a file, or those of several as one; the exit code is the worst of all, by the usual order.

    A file that holds no report, and any other number of reports than `expect`, is a problem and exit 3. Raises
    Refused for a report that is given twice.
    """
    refuse_twice(paths)
    stored: list[_Stored] = []
    problems: list[Problem] = []
    for path in paths:
        name = shown_path(path)
        report, found = _read(path, name)
        problems += found
        if report is not None:
            stored.append(_Stored(name, _recomputed(report, name)))
    _refuse_copies(stored)
    if expect is not None and len(stored) != expect:
        counts = f"{expect} expected, and {plural(len(stored), 'report')} can be read"
        message = f"{counts}: find out what became of the others"
        problems.append(Problem("error", message, Location("report")))
    one = _merged(stored)
    return with_problems(one, problems) if problems else one


def _read(path: str, name: str) -> tuple[Report | None, list[Problem]]:
    try:
        if path != "-" and not stat.S_ISREG(os.stat(path).st_mode):
            return None, [Problem("error", "is no file: give reports in JSON", Location(name))]
        with sys.stdin.buffer if path == "-" else open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        return None, [Problem("error", f"cannot be read: {error.strerror or error}", Location(name))]
    return read_stored(data, name)


def _recomputed(report: Report, name: str) -> Report:
    """The report with the outcome that its verdicts and problems give, whatever it states; a worse one it may state."""
    verdicts = tuple(replace(verdict, exit_code=stored_exit_code(verdict)) for verdict in report.verdicts)
    found = with_outcome(replace(report, verdicts=verdicts), at_least=report.exit_code)
    if found == report:
        return report
    stated, given = (f"{one.outcome} with exit {one.exit_code}" for one in (report, found))
    what = f"states {stated}, where its verdicts give {given}"
    if stated == given:
        what = "states an exit code of a verdict that its outcome does not give"
    return with_problems(found, [Problem("error", f"was altered: it {what}", Location(name))])


def _refuse_copies(stored: Sequence[_Stored]) -> None:
    """A report counts once; two that judged nothing may well say the same. Raises Refused."""
    seen: dict[str, str] = {}
    for one in stored:
        content = RENDERERS["json"](one.report)
        if one.report.inputs and content in seen:
            raise Refused(f"{one.name} is the same report as {seen[content]}: one report may count once only")
        seen.setdefault(content, one.name)


def _merged(stored: Sequence[_Stored]) -> Report:
    """Several reports as one, whose verdicts and problems name the report that they come from."""
    if len(stored) == 1:
        return stored[0].report
    reports = [one.report for one in stored]
    verdicts = tuple(
        replace(verdict, source=one.name if verdict.source is None else f"{one.name}: {verdict.source}")
        for one in stored
        for verdict in one.report.verdicts
    )
    found = Report(
        verdicts=verdicts,
        problems=tuple(_named(problem, one.name) for one in stored for problem in one.report.problems),
        inputs=tuple(dict.fromkeys(file for report in reports for file in report.inputs)),
        environment=_environment(reports),
        policy=_policy([report.policy for report in reports]),
        suite=", ".join(dict.fromkeys(report.suite for report in reports)) or "default",
        baseline=_same([report.baseline for report in reports]),
        approve_command=_same([report.approve_command for report in reports]),
        evidence=_evidence(reports),
    )
    return with_outcome(found, at_least=worst_exit_code(report.exit_code for report in reports))


def _evidence(reports: Sequence[Report]) -> ReportDetails:
    """The runs behind all verdicts, which are counted through; what belongs to one environment alone is left out."""
    shown: list[VerdictDetails] = []
    before = 0
    for report in reports:
        shown += [replace(found, verdict=found.verdict + before) for found in report.evidence.verdicts]
        before += len(report.verdicts)
    return ReportDetails(tuple(shown), sum(report.evidence.left_out for report in reports))


def _named(problem: Problem, name: str) -> Problem:
    return replace(problem, message=f"{problem.message} (in {name})")


def _environment(reports: Sequence[Report]) -> dict[str, Fact]:
    """Every fact; where the reports differ, each of its values."""
    values: dict[str, list[Fact]] = {}
    for report in reports:
        for name, value in report.environment.items():
            values.setdefault(name, []).append(value)
    texts = {name: list(dict.fromkeys(map(fact_text, found))) for name, found in values.items()}
    return {name: values[name][0] if len(texts[name]) == 1 else ", ".join(texts[name]) for name in sorted(values)}


def _policy(policies: Sequence[Policy]) -> Policy:
    """What the reports were decided by: their own hashes where all agree, else the hash of those."""
    rules, baselines = ([getattr(policy, name) for policy in policies] for name in ("rules_sha256", "baselines_sha256"))
    return Policy(_same([policy.ref for policy in policies]), _hash(rules), _hash(baselines))


def _hash(hashes: Sequence[str]) -> str:
    return _same(hashes) or hashlib.sha256("\0".join(hashes).encode("utf-8", "backslashreplace")).hexdigest()


def _same(values: Sequence[str | None]) -> str | None:
    """What all agree on, or None."""
    return values[0] if len(set(values)) == 1 else None
