"""`perfgate history`: the measurements of every run of main, and their changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from difflib import get_close_matches
from importlib import import_module
from itertools import product
from pathlib import Path

import click

from perfgate.baselines.stores import open_store
from perfgate.cli.entry import SuggestingGroup
from perfgate.cli.printing import complain, say, screen, write_document
from perfgate.cli.shared import JUDGING, RUNS, baselines_option, command_options, rules_option
from perfgate.core import Problem
from perfgate.core.remembered_runs import FalseAlarms
from perfgate.core.run_history import LoadedHistory
from perfgate.core.wording import listed
from perfgate.history.load import commit_line, load
from perfgate.history.store import HistoryColumn, StoredHistory, branch_of, places, read
from perfgate.reporters.history_table import false_alarms_text, render_json, render_text
from perfgate.rules.ruleset import Rule
from perfgate.workspace import surroundings
from perfgate.workspace.options import CommandOptions, HistoryPlace, Refused
from perfgate.workspace.rule_source import WORKING_TREE, sound_rules

#: The commands in other files, with the names of the files, which are only imported if the command runs.
_PARTS = {
    **dict.fromkeys(("events", "export", "report"), "history_events"),
    **{name: f"history_{name}" for name in ("backfill", "import", "watch")},
}
#: The most runs that a replay of rules uses, the newest ones; and the days of a proposed quarantine.
_RUNS, _DAYS = 500, 30


class _History(SuggestingGroup):
    """The group `history`. If its first word is not a command, the word is a metric for `show`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*self.commands, *_PARTS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, or `show`; None for a name like an option, and while a shell completes."""
        if cmd_name in _PARTS:
            file = import_module(f"perfgate.commands.{_PARTS[cmd_name]}")
            return next(one for one in vars(file).values() if isinstance(one, click.Command) and one.name == cmd_name)
        other = None if cmd_name.startswith("-") or ctx.resilient_parsing else self.commands["show"]
        return self.commands.get(cmd_name, other)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first word; `show` if the word is not a command."""
        is_known = not args or args[0].startswith("-") or args[0] in self.list_commands(ctx)
        if not is_known and not ctx.resilient_parsing:
            return "show", self.commands["show"], args
        return super().resolve_command(ctx, args)


PLACE = (
    rules_option,
    baselines_option,
    click.option("--suite", metavar="NAME", help="The history of this suite alone."),
    click.option("--environment", metavar="NAME", help="The history of this environment alone, by its folder."),
    click.option("--ref", metavar="REF", help="The branch that orders the runs. [default: that of the runs, or HEAD]"),
)


@click.group("history", cls=_History)
def command() -> None:
    """Remember every run of main: since when a metric is slower, in which commits, and who approved it.

    `perfgate history METRIC` is short for `perfgate history show METRIC`.
    """


@command.command()
@click.option("--time", metavar="TIME", help="When it was measured: 2026-11-22T14:15:00Z. [default: now]")
@click.option("--ref", metavar="BRANCH", help="The branch that was measured. [default: that of the job or of git]")
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="A release of the commit (repeatable). [default: git's]"
)
@command_options(*RUNS, *JUDGING)
def add(options: CommandOptions, time: str | None, ref: str | None, tags: tuple[str, ...]) -> int:
    """Remember runs of main: a number with its error for each metric, and no samples.

    \b
    Example: perfgate history add train.log
    """
    from perfgate.history.writing import Measured, remember

    return say(remember(options, Measured(utc(time), ref, tags)))


def utc(time: str | None) -> str | None:
    """Return a time of the command line in UTC, or None if there is none. Raises BadParameter."""
    from perfgate.history.imports.imported_runs import utc_time

    try:
        return None if time is None else utc_time(time)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--time") from None


@command.command("show")
@click.argument("metric", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON (perfgate.history-series/1), with every number.")
@command_options(*PLACE, name="place", build=HistoryPlace)
def history_show(metric: str | None, as_json: bool, place: HistoryPlace) -> int:
    """Show a metric since its first run: a line, its changes with their commits, who approved them.

    METRIC is a name or a glob; without it, every metric has one line, the newest changes first.

    \b
    Example: perfgate history show forward
    """
    found = show(place, metric)
    if as_json:
        write_document(render_json(found))
    else:
        seen = screen()
        text = render_text(
            found, in_full=metric is not None, width=seen.width, colour=seen.colour, ascii_only=seen.ascii_only
        )
        click.echo(text, nl=False, color=True)
    return complain(found.problems)


@command.command("compact")
@click.option("--all", "is_all", is_flag=True, help="Also the month that is not over.")
@baselines_option
def history_compact(is_all: bool, baselines: str) -> int:
    """Write the runs of each month that is over as one file, so that a long history is small and quick to read.

    It loses nothing, whatever happens meanwhile; two compactions at once do no harm.

    \b
    Example: perfgate history compact
    """
    from perfgate.history.writing import compact

    store = open_store(baselines)
    known, damaged = places(store)
    if not known and not damaged:
        raise Refused(f"no history found in {store.shown}: name its folder with --baselines", 3)
    lines, problems = compact(store, None if is_all else f"{surroundings.today():%Y-%m}")
    say(lines or ["nothing to compact: every month that is over is one file"])
    return complain(problems)


@command.command("quarantine")
@command_options(*PLACE, name="place", build=HistoryPlace)
def history_quarantine(place: HistoryPlace) -> int:
    """Replay the rules over the remembered runs, and propose a quarantine for rules with many false alarms.

    A run is judged against the runs before it in its level, where nothing changed: if it is red, the alarm is false.
    More than 1 in 50 runs, at 95 % confidence, is many. The line to paste into the rule ends after 30 days.

    \b
    Example: perfgate history quarantine
    """
    found, problems = quarantine(place)
    if found:
        seen = screen()
        click.echo(false_alarms_text(found, width=seen.width, ascii_only=seen.ascii_only), nl=False)
    return complain(problems)


def show(place: HistoryPlace, metric: str | None = None) -> LoadedHistory:
    """Return the history of a metric, or of all. Raises Refused (3) without such a history, metric or ref."""
    store = open_store(place.baselines)
    suite, environment, ref = place.suite, place.environment, place.ref
    with_renames = [file for file in rule_files(place.rules) if b"renames" in file[1]]  # mistakes in others are no harm
    renames = {old: new for file in with_renames for old, new in sound_rules([file], None).renames.items()}
    history = load(store, metric=metric, suite=suite, environment=environment, ref=ref, renames=renames)
    if not history.environments and not history.problems:
        what = "" if suite is None and environment is None else " of this suite and environment"
        raise Refused(
            f"there is no history{what} in {store.shown}: add runs with `perfgate history add RUN...`, or those of "
            "another tool with `perfgate history import FILE`, or name another folder with --baselines",
            3,
        )
    if ref is not None and history.line is None and commit_line(["HEAD"]) is not None:
        raise Refused(f"--ref {ref}: unknown branch or commit in this clone; fetch it, or correct the name", 3)
    if metric is not None and not history.series and history.environments:
        raise Refused(_no_metric(history, metric), 3)
    return history


def _no_metric(history: LoadedHistory, metric: str) -> str:
    """Return the message about a metric that a history lacks, perhaps because a file is damaged."""
    known = sorted({name for one in history.environments for name in one.metrics})
    near = get_close_matches(metric, known, n=3, cutoff=0.5)
    commands = get_close_matches(metric, [*command.commands, *_PARTS], n=1, cutoff=0.7)  # or a misspelt command
    near += [f"`perfgate history {name}`" for name in commands]
    hint = f"did you mean {listed(near)}?" if near else f"it has {listed(known) or 'no metrics'}"
    missing = f"the history has no metric {metric!r}: {hint}"
    if not history.problems:
        return missing
    damaged = len({problem.at.file for problem in history.problems})
    files = "this file" if damaged == 1 else f"the {damaged} files that cannot be used"
    return f"{history.problems[0]}; without {files}, {missing}"


def rule_files(rules: Sequence[str]) -> list[tuple[str, bytes]]:
    """Return the rule files. A history needs no rules, so the usual folder may have none. Raises Refused."""
    if rules == ("rules",) and not (Path("rules").exists() and WORKING_TREE.has_rules(rules)):
        return []
    return list(WORKING_TREE.rule_files(rules))


def quarantine(place: HistoryPlace) -> tuple[list[FalseAlarms], list[Problem]]:
    """Return the false alarms of each rule and metric, the largest lower bound first, and the problems of files.

    Raises Refused for mistakes in the rules, and (3) if no rule can be replayed.
    """
    from perfgate.rules.load import readable_rulesets

    files = WORKING_TREE.rule_files(place.rules)
    suites = {ruleset.suite for ruleset in readable_rulesets(files)}
    store = open_store(place.baselines)
    found: list[FalseAlarms] = []
    known, problems = places(store, place.suite)
    for suite, environment in known:
        if suite in suites and place.environment in (None, environment):
            history = read(store, suite, environment)
            problems += history.problems
            found += _replayed(history, sound_rules(files, suite).rules, place.ref)
    if found or problems:
        return sorted(found, key=lambda one: (-one.low, -one.alarms, one.place, one.rule, one.series)), problems
    names, remembered = ", ".join(sorted(suites)), {suite for suite, _ in known}
    if remembered and not remembered & suites:
        raise Refused(
            f"the rules are of the suite {names}, and the history in {store.shown} is of "
            f"{', '.join(sorted(remembered))}: correct `suite` in the rules, or import the runs again with --suite",
            3,
        )
    raise Refused(
        f"no rule of {names} can be replayed with the history in {store.shown}: it needs six remembered runs of a "
        "metric that a rule names (`perfgate history add RUN...`)",
        3,
    )


def _replayed(history: StoredHistory, rules: Sequence[Rule], ref: str | None) -> Iterator[FalseAlarms]:
    """Yield the false alarms of each rule about each of its series, in the newest runs of the branch."""
    from perfgate.history.false_alarms import MOST_FALSE, false_alarms
    from perfgate.stats.distributions import share_bounds

    branch = branch_of(history.runs, ref)
    if branch is None:  # no run is of `ref`
        return
    is_of_branch = [run.ref == (branch or None) for run in history.runs]  # "" if no run names its branch
    until = surroundings.today() + timedelta(days=_DAYS)
    for rule, column in product(rules, history.series):
        if not _judges(rule, column):
            continue
        rows = [row for row, run in enumerate(column.at.tolist()) if is_of_branch[run]]  # `at`: the run of each number
        alarms, runs = false_alarms(rule, column, rows[-_RUNS:])
        if runs:
            low, high = share_bounds(alarms, runs)
            names = (rule.name, str(column.name), f"{history.suite}/{history.environment}", branch)
            yield FalseAlarms(*names, alarms, runs, low, high, until if low > MOST_FALSE else None)


def _judges(rule: Rule, column: HistoryColumn) -> bool:
    """Return whether a series has the metric, statistic and rank of a rule; of each rank, the worst counts."""
    from perfgate.judge.subjects import is_named

    sentence, name = rule.sentence, column.name
    statistic = sentence.statistic or ("median" if column.kind in ("samples", "summary") else "mean")
    rank = "worst" if sentence.rank in (None, "each") else str(sentence.rank)
    is_same = (name.statistic, name.rank) == (statistic, rank)
    return is_same and is_named(sentence.subject, sentence.subject_text, name.key)
