"""`perfgate report`: read stored reports and return one report; the worst outcome wins."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeAlias, TypeVar

import click
from msgspec.structs import replace

from perfgate.cli.printing import publish
from perfgate.cli.shared import Publication, files, output_option, report_options
from perfgate.commands.report_details import merged_facts
from perfgate.core import NO_STEP, Location, Policy, Problem, Report
from perfgate.core.causes import CauseReport
from perfgate.core.coverage import joined_coverage
from perfgate.core.details import ReportDetails
from perfgate.core.wording import plural
from perfgate.judge.report import stored_exit_code, with_outcome, with_problems, worst_exit_code
from perfgate.reporters import RENDERERS
from perfgate.reporters.stored_report import MAX_BYTES
from perfgate.reporters.stored_report import read as read_stored
from perfgate.workspace.inputs import refuse_twice
from perfgate.workspace.options import Refused, shown_path

_Value = TypeVar("_Value")
#: The file that a report was read from, and the report.
_NamedReport: TypeAlias = tuple[str, Report]


@click.command("report")
@click.argument("reports", nargs=-1, required=True, metavar="REPORT.json...", shell_complete=files)
@click.option(
    "--expect", type=click.IntRange(min=1), metavar="N", help="The number of reports; any other number is exit 3."
)
@output_option(
    "--untrusted-comment", help="Write a comment from unreviewed reports: without their sentences and commands."
)
@report_options
def command(
    reports: tuple[str, ...], expect: int | None, untrusted_comment: str | None, publication: Publication
) -> int:
    """Show stored reports in any form. Of several, the worst outcome wins.

    \b
    Example: perfgate report h100.json a100.json --expect 2 --markdown summary.md
    """
    if untrusted_comment is not None:
        outputs = {**publication.outputs, "untrusted-comment": untrusted_comment}
        publication = replace(publication, outputs=outputs)
    with publication.replaced_if_refused(reports):  # no output may replace a report that is read
        return publish(merged(reports, expect), publication)


def merged(paths: Sequence[str], expect: int | None = None) -> Report:
    """Return the report of a file, or the reports of several files as one with the worst exit code.

    A file without a report, or a number of reports other than `expect`, gives exit 3, unless a report gives 1, 2 or 4.
    Raises Refused for a report that is given twice.
    """
    refuse_twice(paths)
    stored: list[_NamedReport] = []
    problems: list[Problem] = []
    seen: dict[str, str] = {}
    for path in paths:
        name = shown_path(path)
        report, found = _read(path, name)
        problems += found
        if report is not None:
            stored.append((name, _recomputed(report, name)))
    for name, report in stored:
        content = RENDERERS["json"](report)
        if report.inputs and content in seen:  # reports that judged nothing may be equal
            raise Refused(f"{name} is the same report as {seen[content]}: each report counts only once")
        seen.setdefault(content, name)
    if expect is not None and len(stored) != expect:
        step = "look for the others" if len(stored) < expect else "leave out the others, or correct --expect"
        message = f"{expect} expected, but {plural(len(stored), 'report')} can be read: {step}"
        problems.append(Problem("error", message, Location("report")))
    one = _merged(stored)
    return with_problems(one, problems) if problems else one


def _read(path: str, name: str) -> tuple[Report | None, list[Problem]]:
    try:
        if path != "-" and not stat.S_ISREG(os.stat(path).st_mode):
            return None, [Problem("error", "is not a file: give reports in JSON", Location(name))]
        with sys.stdin.buffer if path == "-" else open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        return None, [Problem("error", f"cannot be read: {error.strerror or error}", Location(name))]
    return read_stored(data, name)


def _recomputed(report: Report, name: str) -> Report:
    """Return the report with the outcome that its verdicts and problems give, unless it states a worse one."""
    verdicts = tuple(replace(verdict, exit_code=stored_exit_code(verdict)) for verdict in report.verdicts)
    found = with_outcome(replace(report, verdicts=verdicts), at_least=report.exit_code)
    if found == report:
        return report
    stated, given = (f"{one.outcome} with exit {one.exit_code}" for one in (report, found))
    what = f"states {stated}, but its verdicts give {given}"
    if stated == given:
        what = "states an exit code for a verdict that does not fit its outcome"
    return with_problems(found, [Problem("error", f"was altered: it {what}", Location(name))])


def _merged(stored: Sequence[_NamedReport]) -> Report:
    """Return several reports as one, in which the sources of verdicts name the files."""
    if len(stored) == 1:
        return stored[0][1]
    reports = [report for _, report in stored]
    before = list(accumulate((len(report.verdicts) for report in reports), initial=0))
    # The details of each verdict, with its new number. Other details are about one environment, and left out.
    shown = [
        replace(one, verdict=one.verdict + first)
        for report, first in zip(reports, before, strict=False)
        for one in report.details.verdicts
    ]
    verdicts = [
        replace(verdict, source=name if verdict.source is None else f"{name}: {verdict.source}")
        for name, report in stored
        for verdict in report.verdicts
    ]
    problems = [
        replace(one, message=f"{one.message} (in {name})") for name, report in stored for one in report.problems
    ]
    found = Report(
        verdicts=tuple(verdicts),
        problems=tuple(problems),
        inputs=tuple(dict.fromkeys(file for report in reports for file in report.inputs)),
        environment=merged_facts(report.environment for report in reports),
        policy=_policy([report.policy for report in reports]),
        suite=", ".join(dict.fromkeys(report.suite for report in reports if report.suite)),
        baseline=_same([report.baseline for report in reports]),
        accept=_same([report.accept for report in reports]) or NO_STEP,
        details=ReportDetails(tuple(shown), sum(report.details.left_out for report in reports)),
        unruled=tuple(one for report in reports for one in report.unruled),
        unruled_count=sum(report.unruled_count for report in reports),
        unknown_facts=tuple(dict.fromkeys(name for report in reports for name in report.unknown_facts)),
        fact_changes=tuple(dict.fromkeys(one for report in reports for one in report.fact_changes)),
        causes=_causes(stored),
        coverage=joined_coverage(replace(one.coverage, file=name) for name, one in stored if one.coverage is not None),
    )
    return with_outcome(found, at_least=worst_exit_code(report.exit_code for report in reports))


def _causes(stored: Sequence[_NamedReport]) -> CauseReport | None:
    """Return the causes if only one report has any: those of several programs cannot be summed."""
    having = [(name, report.causes) for name, report in stored if report.causes is not None]
    if len(having) != 1:
        return None
    ((name, found),) = having
    # A cause names its verdicts by their ids, which have the name of the report in front, as in `merged`.
    causes = (replace(one, verdicts=tuple(f"{name}: {verdict}" for verdict in one.verdicts)) for one in found.causes)
    return replace(found, causes=tuple(causes))


def _policy(policies: Sequence[Policy]) -> Policy:
    """Return the policy of the reports, with their common hashes, or the hash of all hashes if these differ."""

    def joined(hashes: list[str]) -> str:
        return _same(hashes) or hashlib.sha256("\0".join(hashes).encode("utf-8", "backslashreplace")).hexdigest()

    rules, baselines = joined([p.rules_sha256 for p in policies]), joined([p.baselines_sha256 for p in policies])
    ref, commit = _same([policy.ref for policy in policies]), _same([policy.commit for policy in policies])
    return Policy(ref, rules, baselines, commit=commit)


def _same(values: Sequence[_Value | None]) -> _Value | None:
    """Return the value that all reports have; None if they differ."""
    return values[0] if len(set(values)) == 1 else None
