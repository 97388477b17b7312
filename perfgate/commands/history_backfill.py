"""`perfgate history backfill`: measure commits until it is clear (settled) in which of them a metric changed."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from perfgate.cli import shared
from perfgate.cli.printing import NOT_JUDGED, screen, tell, write_document
from perfgate.commands.history import show
from perfgate.core.run_history import BackfillPlan, HistoryChange, HistorySeries
from perfgate.core.wording import listed, plural
from perfgate.history.backfill import backfill_plan
from perfgate.history.writing import Measured, remember
from perfgate.measuring.kept_runs import ProgramSide, new_folder, new_run
from perfgate.measuring.programs import RunFailed, Stopped, finish, stopped_by_signals
from perfgate.measuring.until_settled import MeasuringOptions, Tell
from perfgate.measuring.worktrees import checked_out
from perfgate.reporters.history_table import backfill_json, backfill_text
from perfgate.workspace.options import CommandOptions, HistoryPlace, Refused


@click.command("backfill")
@click.argument("metric")
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]")
@click.option("--change", metavar="COMMIT", help="The commit of the change to settle. [default: the newest change]")
@click.option("--results", multiple=True, metavar="GLOB", help="Files that the command writes (repeatable).")
@shared.words_option("--build", help="Build before each run, in the worktree of its commit.")
@shared.number_option(
    "--runs", "most_runs", type=click.IntRange(1, 100), default=10, help="At most N runs. [default: 10]"
)
@shared.time_option("--timeout", default="10m", help="End a run that takes longer. [default: 10m]")
@click.option("--keep", default="perfgate-runs", metavar="DIR", help="Keep the runs here. [default: perfgate-runs]")
@click.option("--json", "as_json", is_flag=True, help="Print JSON (perfgate.history-backfill/1).")
@click.option("--environment", metavar="NAME", help="The history of this environment, by its folder.")
@click.option("--ref", metavar="REF", help="The branch that orders the runs. [default: that of the runs, or HEAD]")
@shared.command_options(
    shared.rules_option, shared.baselines_option, shared.suite_option, shared.env_option, shared.format_option
)
def command(
    options: CommandOptions, metric: str, command: tuple[str, ...], change: str | None, results: tuple[str, ...],
    build: tuple[str, ...] | None, most_runs: int, timeout: float, keep: str, as_json: bool, environment: str | None,
    ref: str | None,
) -> int:  # fmt: skip
    """Show which commits to measure, so that a change has one commit; with a command, measure them.

    The most telling commit is first. Each is checked out in a worktree of its own, and its run is remembered. The
    command writes its results as under `perfgate run`. Measuring ends when the change has its commit.

    \b
    Example: perfgate history backfill load_time
    """
    place = HistoryPlace(options.baselines, options.suite, environment, ref, options.rules)
    request = BackfillRequest(metric, place, change, command, build or ())
    if command:
        found = backfill(request, options, MeasuringOptions(results, most_runs, timeout=timeout, keep=keep), tell)
    else:
        found = plan(request)
    if as_json:
        write_document(backfill_json(found))
    else:
        seen = screen()
        click.echo(backfill_text(found, width=seen.width, ascii_only=seen.ascii_only), nl=False)
    return 0 if found.is_settled or not command else NOT_JUDGED


class BackfillRequest(Struct, frozen=True):
    """The change to settle, and how commits are measured."""

    metric: str
    place: HistoryPlace
    #: The commit of the change, if it is not the newest one.
    change: str | None = None
    command: tuple[str, ...] = ()
    build: tuple[str, ...] = ()


def plan(request: BackfillRequest, earlier: HistoryChange | None = None) -> BackfillPlan:
    """Return the commits to measure, to find which one changed a metric. Raises Refused if no change is open.

    `earlier`: the change as it was with fewer runs, whose range has become smaller.
    """
    history = show(request.place, request.metric)
    if not history.series:
        raise Refused(str(history.problems[0]), 3)
    names = sorted({str(series.name) for series in history.series})
    places = sorted({f"{series.suite}/{series.environment}" for series in history.series})
    if len(names) > 1:
        raise Refused(f"{request.metric} names several series ({listed(names)}): name one")
    if len(places) > 1:
        raise Refused(f"there are several histories ({listed(places)}): choose with --suite and --environment")
    # The newest series: each unit has its own.
    series = max(history.series, key=lambda one: [run.time for run in one.runs[-1:]])
    change = _chosen(series, request.change, earlier)
    if change.is_one_commit:
        raise Refused(f"{series.name} changed between two runs of commit {change.last_good.label}: no commit did it", 3)
    if history.line is None:
        raise Refused("backfill needs the commits: run it in a clone of the repository", 3)
    found = backfill_plan(series, change, history.line)
    if found is None:
        both = f"the change is between {change.last_good.label} and {change.first_bad.label}"
        raise Refused(f"{both}, and {history.line.ref} does not have both here: fetch its history", 3)
    return found


def _chosen(series: HistorySeries, commit: str | None, earlier: HistoryChange | None) -> HistoryChange:
    """Return the change within the range of an earlier one, or in a commit, or the newest one. Raises Refused (3)."""
    for change in series.changes:
        if earlier is not None and earlier.last_good.time <= change.likely.time <= earlier.first_bad.time:
            return change
    if not series.changes:
        raise Refused(f"{series.name} has no lasting change: there is nothing to settle", 3)
    if commit is None:
        return series.changes[-1]
    for change in series.changes:
        if any((run.commit or "").startswith(commit) for run in (change.likely, change.first_bad)):
            return change
    known = listed([change.likely.label for change in series.changes], 9)
    raise Refused(f"{series.name} has no change in {commit}; its changes are in {known}", 3)


def backfill(
    request: BackfillRequest, options: CommandOptions, measuring: MeasuringOptions, tell: Tell
) -> BackfillPlan:
    """Measure commits and remember their runs, until the change has one commit or the runs are used up.

    After each run, `plan` chooses the next commit. A commit that cannot be measured is reported and skipped. Raises
    Refused if no commit can be measured; an error in the middle says how many runs were added before.
    """
    found = plan(request)
    folder = new_folder(measuring.keep)
    broken: set[str] = set()  # the commits that cannot be measured
    added = 0
    try:
        with stopped_by_signals():
            for number in range(1, measuring.most_runs + 1):
                commits = [one.commit for one in found.wanted if one.commit.sha not in broken]
                if not commits or found.is_settled:
                    break
                sha = commits[0].sha
                tell(f"run {number}: {sha[:10]} ({commits[0].author}: {commits[0].subject})")
                fault = _add_run(request, options, measuring, folder, number, sha, tell)
                if fault is None:
                    added += 1
                else:
                    broken.add(sha)
                    tell(f"{sha[:10]} could not be measured: {fault}")
                found = plan(request, found.change)
    except Refused as error:
        raise Refused(f"{error}; {plural(added, 'run')} added to the history", error.exit_code) from None
    except Stopped as stopped:
        step = f"{plural(added, 'run')} added to the history; the same command measures the others"
        raise Refused(f"{stopped}: {step}", stopped.exit_code) from None
    if broken and not added:
        raise Refused(f"none of the commits could be measured; see {measuring.keep}", 3)
    return found


def _add_run(
    request: BackfillRequest, options: CommandOptions, measuring: MeasuringOptions, folder: Path, number: int, sha: str,
    tell: Tell,
) -> str | None:  # fmt: skip
    """Measure one commit in a worktree, and remember its run; return why that failed, or None. Raises Stopped."""
    try:
        with checked_out(sha, request.command) as side:
            if request.build:
                build = ProgramSide(request.build, side.folder, side.environment)
                with new_run(folder / f"build-{number:03d}", build, number=0) as made:
                    finish(made.start(), measuring.timeout)
            with new_run(folder / f"run-{number:03d}", side, number, measuring.results) as run:
                finish(run.start(), measuring.timeout)
                path = str(run.collect())
        for line in remember(replace(options, runs=(path,), head=sha), Measured(ref=request.place.ref)):
            tell(line)
    except Stopped:
        raise
    except (RunFailed, Refused) as error:
        return str(error)
    return None
