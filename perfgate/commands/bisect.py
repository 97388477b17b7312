"""`perfgate bisect`: measure the items of a list until one is probable to have changed a metric."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import click
from msgspec.structs import replace

from perfgate.bisect.ranges import SearchedRange, commit_range, inside_merge, item_range
from perfgate.bisect.search import SearchResult, Terms, search
from perfgate.bisect.session import open_folder
from perfgate.cli import shared
from perfgate.cli.printing import USAGE, screen, tell, write_document
from perfgate.commands import bisect_request
from perfgate.commands.bisect_answer import AnswerParts, answer
from perfgate.commands.bisect_measurer import BisectTask, ItemMeasurer
from perfgate.commands.bisect_request import BisectRequest
from perfgate.commands.ledger import record_search
from perfgate.core.causes import BisectReport
from perfgate.core.wording import plural
from perfgate.measuring.items import item_runner
from perfgate.measuring.kept_runs import claim
from perfgate.measuring.programs import Stopped, stopped_by_signals
from perfgate.measuring.until_settled import Tell
from perfgate.reporters import bisect_text
from perfgate.workspace.options import CommandOptions, Refused
from perfgate.workspace.output_files import output_faults, refuse_committed, write_reports
from perfgate.workspace.surroundings import git


class OverCommand(click.Command):
    """A command in which `--over A B C` means `--over A --over B --over C`, up to the next option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat `--over` before each of its items; the words after `--` are the user's command."""
        end = args.index("--") if "--" in args else len(args)
        rewritten: list[str] = []
        is_over = False
        for word in args[:end]:
            if word.startswith("-"):
                is_over = word.partition("=")[0] == "--over"
            elif is_over:
                rewritten.append("--over")
            if word != "--over":
                rewritten.append(word)
        return super().parse_args(ctx, [*rewritten, *args[end:]])


@click.command("bisect", cls=OverCommand, context_settings={"allow_interspersed_args": False})
@shared.command_options(
    click.argument("command", nargs=-1, metavar="-- COMMAND..."),
    click.option("--good", metavar="REF", help="A commit with the old level."),
    click.option("--bad", metavar="REF", help="A later commit with the new level. [default: HEAD]"),
    click.option(
        "--from-history", metavar="METRIC", help="Search the commits of the newest change of this metric that is worse."
    ),
    click.option(
        "--change", metavar="N", help="With --from-history: the Nth change of `perfgate history METRIC`, or its commit."
    ),
    click.option("--event", metavar="ID", help="Search the commits of an event of `perfgate history events`."),
    click.option("--environment", metavar="NAME", help="With --from-history or --event: its folder."),
    click.option("--over", multiple=True, metavar="ITEM...", help="Search this list instead of commits, good to bad."),
    click.option("--full", is_flag=True, help="If a merge is found, search the commits that it brought, too."),
    click.option("--rule", metavar="ID", help="Measure what this rule judges; its tolerance is the default."),
    click.option("--metric", metavar="NAME", help="Measure this metric."),
    click.option("--statistic", metavar="NAME", help="With --metric: median, mean, p95, ... [default: median]"),
    click.option(
        "--tolerance", metavar="T", help="Search for a change larger than this. [default: that of --rule, or 2%]"
    ),
    shared.words_option("--build", help="Build each commit or item once, in its folder."),
    click.option("--results", multiple=True, metavar="GLOB", help="Files that the command writes (repeatable)."),
    shared.number_option("--max-runs", "most_runs", type=click.IntRange(2, 1000), default=50, help="[default: 50]"),
    shared.time_option("--time-budget", help="Start no run that would end later than this."),
    shared.time_option("--timeout", default="10m", help="End a run that takes longer. [default: 10m]"),
    click.option(
        "--keep",
        default="perfgate-bisect",
        metavar="DIR",
        help="Keep the measurements here, to go on after an interruption. [default: perfgate-bisect]",
    ),
    click.option("--whole-runs", is_flag=True, help="Do not interleave the steps with those of the first commit."),
    shared.time_option(
        "--hook-timeout", default="60s", help="Wait this long for the first step of a Recorder. [default: 60s]"
    ),
    name="asked",
    build=BisectRequest,
)
@shared.command_options(
    shared.rules_option,
    shared.baselines_option,
    shared.suite_option,
    shared.env_option,
    shared.format_option,
    shared.trace_mode_option,
)
@shared.output_option("--json", help="Write the answer as JSON; - is stdout.")
@shared.output_option("--markdown", help="Write the answer for an issue; - is stdout.")
@shared.output_option("--html", help="Write the answer as a page with plots; - is stdout.")
def command(
    asked: BisectRequest, options: CommandOptions, json: str | None, markdown: str | None, html: str | None
) -> int:
    """Find the commit that changed a metric: measure few commits, several times, until one is 95 % probable.

    COMMAND runs in a worktree of each commit, as with `perfgate run`: it writes to $PERFGATE_RESULTS or {results}, or
    prints its results. The name of the commit or item is $PERFGATE_ITEM or {item}. Without COMMAND, it is the one that
    rules/perfgate.yaml remembers (`run:`). Without range and metric, the commits after the stored baseline are searched
    for a change of the first rule.
    The exit code is 0 if a commit is found, and 3 if the change is not reproduced or undecided.

    \b
    Example: perfgate bisect --good v1.4 --bad main --metric step_time -- python bench.py

    \b
    A change that `perfgate history` shows:
      perfgate bisect --from-history step_time -- python bench.py

    \b
    Package versions instead of commits:
      perfgate bisect --over torch==2.11.0 torch==2.12.0 torch==2.13.0 \\
        --build 'sh make-env.sh {item}' --metric step_time -- sh in-env.sh {item} bench.py
    """
    outputs = {name: path for name, path in (("json", json), ("markdown", markdown), ("html", html)) if path}
    asked = bisect_request.with_remembered_command(replace(asked, options=options))
    asked = bisect_request.with_usual_range(asked, tell)
    asked.check()
    for fault in output_faults(outputs, (*options.rules, options.baselines, asked.keep)).values():
        raise Refused(fault)
    return _publish(bisect(asked, tell), outputs)


def _publish(report: BisectReport, outputs: dict[str, str]) -> int:
    """Write and print the answer; return the exit code: 2 if a file cannot be written."""

    def rendered(name: str) -> str:
        if name == "json":
            return bisect_text.json(report)
        if name == "markdown":
            return bisect_text.markdown(report)
        from perfgate.reporters.html.page import render_bisect

        return render_bisect(report)

    failures = write_reports(outputs, rendered)
    printed = [name for name, path in outputs.items() if path == "-"]
    for name in printed:
        write_document(rendered(name))
    if not printed:
        seen = screen()
        text = bisect_text.terminal(report, width=seen.width, colour=seen.colour, ascii_only=seen.ascii_only)
        click.echo(text, nl=not text.endswith("\n"), color=True)
    for failure in failures:
        tell(f"error: {failure}")
    return USAGE if failures else report.exit_code


def bisect(request: BisectRequest, tell: Tell) -> BisectReport:
    """Search a list for the item that changed a metric. Raises Refused for usage errors, and after a signal."""
    if request.from_history is not None:
        request = bisect_request.from_history(request, request.from_history, tell)
    elif request.event is not None:
        request = bisect_request.from_event(request, request.event, tell)
    ruleset, tolerance = bisect_request.ruleset_of(request)
    items = item_range(request.over) if request.over else commit_range(request.good or "", request.bad or "HEAD")
    if items.commits and git("status", "--porcelain", "--untracked-files=no", what="the working tree cannot be read"):
        tell("note: uncommitted changes are left alone and are not measured: only commits are")
    task = BisectTask(request, ruleset, tolerance, tell, began=time.time())
    try:
        with stopped_by_signals():
            report = _search_list(task, items, Path(request.keep))
            if items.commits:
                # A metric without a rule belongs to no suite, unless the user names one.
                suite = request.options.suite if request.metric is not None else ruleset.suite
                record_search(report, items.names, suite, request.options, tell)
            return _search_inside(task, items, report) if request.full else report
    except Stopped as stopped:
        step = f"what was measured is kept in {request.keep}; the same command goes on from there"
        raise Refused(f"{stopped}: {step}", stopped.exit_code) from None


def _search_inside(task: BisectTask, items: SearchedRange, report: BisectReport) -> BisectReport:
    """Search the commits of the merge that a report found, and so on; return the last report that found a commit."""
    if report.outcome != "found" or len(report.blamed) != 1 or not report.suspects[0].item.is_merge:
        return report
    merge = items.commits[report.blamed[0]]
    inner = inside_merge(merge)  # the first item is the commit at which the branch began
    if inner is None:
        return report
    task.tell(f"{merge.sha[:12]} is a merge: searching the {len(inner.names) - 1} commits that it brought")
    deeper = _search_list(task, inner, Path(task.request.keep) / f"inside-{merge.sha[:12]}")
    if deeper.outcome != "found":
        note = f"the commits of the merge alone do not explain it: {deeper.message}"
        return replace(report, notes=(*report.notes, note))
    return _search_inside(task, inner, replace(deeper, inside=report.suspects[0].item))


def _search_list(task: BisectTask, items: SearchedRange, path: Path) -> BisectReport:
    """Search one list; measurements that are kept in `path` already count. Raises Refused and Stopped."""
    keep = path.as_posix()
    try:
        refuse_committed(keep)
        path.mkdir(parents=True, exist_ok=True)
        claim(path, keep, "perfgate bisect")
    except OSError as error:
        raise Refused(f"--keep {keep}: cannot be made: {error.strerror or error}") from None
    folder = open_folder(path, keep, _question(task, items), len(items.names))
    if folder.stored:
        task.tell(f"going on with {plural(len(folder.stored), 'measurement')} in {keep}")
    with item_runner(task.request.program(task.ruleset), path, items.names, items.commits) as runner:
        measurer = ItemMeasurer(task, items, folder, runner, session=folder.session)
        fault, stored = measurer.begin(), False
        if fault is not None:
            result = SearchResult.unknown(fault, runs=0)
        else:
            terms, model = Terms(most_runs=task.request.most_runs), measurer.model()
            stored = bool(model.stored)
            result = search(model, terms, measurer, folder.evidence(), measurer.show)
            # The commit that was found and its parent are measured again for their traces, which may move the answer.
            while measurer.measure_neighbours(result):
                result = search(model, terms, measurer, folder.evidence(), measurer.show)
            task.tell(f"{plural(len(folder.stored), 'measurement')} kept in {keep}")
        lost = runner.started - measurer.kept_starts
        return answer(AnswerParts(items, folder, result, task.tolerance, measurer.facts, keep, stored, lost))


def _question(task: BisectTask, items: SearchedRange) -> Mapping[str, object]:
    """Return what the measurements depend on: kept ones only count for the same question."""
    request, rule = task.request, task.ruleset.rules[0]
    return {
        "schema": "perfgate.bisect-question/1",
        # The ends of a range of commits determine those between them.
        "items": [items.names[0], len(items.names), items.names[-1]] if items.commits else list(items.names),
        "metric": rule.sentence.text,
        "command": list(request.command),
        "build": list(request.build or ()),
        "results": list(request.results),
        "format": request.options.format,
        "whole-runs": request.whole_runs,
    }
