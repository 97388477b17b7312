"""`perfgate check`: read rules, runs and the baseline, judge, and return one report."""

from __future__ import annotations

import click

from perfgate.cli.completion import files
from perfgate.cli.printing import progress, publish, tell
from perfgate.cli.shared import JUDGING, POLICY, Publication, command_options, report_options, runs_argument
from perfgate.commands.judging import judged
from perfgate.commands.preparing import CheckRequest, prepare, read_new
from perfgate.core import MissingBaseline, Report
from perfgate.workspace.options import CommandOptions
from perfgate.workspace.rule_source import with_commit


@click.command("check")
@command_options(runs_argument, *JUDGING, *POLICY)
@click.option(
    "--looks",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Plan at most N new runs, and judge after each. [default: 3]",
)
@click.option("--propose", metavar="DIR", shell_complete=files, help="Write the files that an approval would add.")
@report_options
def command(
    options: CommandOptions,
    missing_baseline: MissingBaseline,
    only: tuple[str, ...],
    strict: bool,
    looks: int | None,
    propose: str | None,
    publication: Publication,
) -> int:
    """Judge new runs by the rules and the stored baseline. The exit code is the answer.

    \b
    Example: perfgate check train.log --junit perfgate.xml
    """
    plan = None if looks is None else tuple(range(1, looks + 1))
    with publication.replaced_if_refused((*options.runs, *options.rules, options.baselines, *options.env)):
        if propose is not None:  # both halves of the command use the same commit
            options = with_commit(options)
        request = CheckRequest(options, missing_baseline, only, strict, plan, with_details=publication.with_details)
        with progress():
            report = check(request)
        code = publish(report, publication)
    if propose is not None:
        from perfgate.baselines.approvals import propose as write

        for line in write(options, propose, report.inputs):
            tell(line)
    return code


def check(request: CheckRequest) -> Report:
    """Judge new runs by the rules. Mistakes in rules give a report, too. Raises Refused for usage errors."""
    prepared = prepare(request)
    if isinstance(prepared, Report):
        return prepared
    return judged(prepared, read_new(prepared, request.options.runs))
