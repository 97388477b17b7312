"""`perfgate baseline`: approve, add, list and compare stored runs (`perfgate.baselines`), and record allowances."""

from __future__ import annotations

import hashlib
from datetime import date

import click
from msgspec import Struct

from perfgate.baselines.files import ALLOWANCE, FULL_SHA, AllowanceFile
from perfgate.baselines.places import ALLOWANCES
from perfgate.baselines.stores import locked, open_store, write_file
from perfgate.cli import shared
from perfgate.cli.entry import SuggestingGroup
from perfgate.cli.printing import complain, say, screen, tell
from perfgate.core.wording import plural, utf8_text
from perfgate.measuring.kept_runs import with_kept_runs
from perfgate.rules.syntax.cursor import Cursor, SentenceError
from perfgate.version import __version__
from perfgate.workspace import surroundings
from perfgate.workspace.options import CommandOptions, Refused
from perfgate.workspace.rule_source import WORKING_TREE, read_ruleset

place_argument = click.argument("place", required=False, metavar="[SUITE[/ENVIRONMENT[/LEVEL[/RUN]]]]")


class AllowanceRequest(Struct, frozen=True):
    """The allowance to record, as the command line gives it."""

    head: str
    metric: str
    up_to: str
    reason: str
    expires: str
    by: str | None = None
    pr: int | None = None


@click.group("baseline", cls=SuggestingGroup)
def command() -> None:
    """Approve, add, list and compare stored baselines: who decided what is normal, and when."""


@command.command()
@click.option("--reason", required=True, metavar="TEXT", help="Why this is the new normal.")
@shared.who_option
@click.option("--pr", type=int, metavar="N", help="The pull request of the approval.")
@click.option("--adopt", multiple=True, metavar="METRIC", help="Approve only this metric (repeatable; globs).")
@click.option("--reset-anchor", is_flag=True, help="Move the anchor, too: budgets count from here on.")
@shared.all_option
@shared.command_options(*shared.OPTIONAL_RUNS, *shared.JUDGING)
def approve(
    options: CommandOptions, reason: str, by: str | None, pr: int | None, adopt: tuple[str, ...], reset_anchor: bool,
    keep_all: bool,
) -> int:  # fmt: skip
    """Open a new level with these runs: the first baseline, or an approved change.

    Without RUN, they are the newest runs that `perfgate run` kept.

    \b
    Example: perfgate baseline approve train.log --reason "first baseline"
    """
    from perfgate.baselines import approvals

    options = with_kept_runs(options, "approving", tell)
    return say(approvals.approve(options, approvals.Approval(reason, by, pr, adopt, reset_anchor, keep_all)))


@command.command()
@shared.who_option
@click.option("--rotate", is_flag=True, help="Replace the oldest runs of a full level.")
@click.option("--merged", metavar="SHA", help="The head of the merged pull request: its allowances count.")
@shared.all_option
@shared.command_options(*shared.OPTIONAL_RUNS, *shared.JUDGING)
def add(options: CommandOptions, by: str | None, rotate: bool, merged: str | None, keep_all: bool) -> int:
    """Add unchanged runs to the current level. Runs that fail their own rules are refused.

    Without RUN, they are the newest runs that `perfgate run` kept. A run that is stored already gets what it lacks:
    samples of metrics that rules name now, summaries of others, and the call tree of a trace.

    \b
    Example: perfgate baseline add train.log
    """
    from perfgate.baselines import approvals

    options = with_kept_runs(options, "adding", tell)
    return say(approvals.add(options, by, rotate=rotate, keep_all=keep_all, merged=merged))


@command.command("allow")
@shared.command_options(
    click.option("--head", required=True, metavar="SHA", help="The full hash of the commit that may be worse."),
    click.option("--metric", required=True, metavar="METRIC", help="The metric that may be worse, or a glob."),
    click.option("--up-to", required=True, metavar="T", help="How much worse, such as 22%."),
    click.option("--reason", required=True, metavar="TEXT", help="Why that is accepted."),
    click.option("--expires", required=True, metavar="DATE", help="The last day of the allowance, YYYY-MM-DD."),
    shared.who_option,
    click.option("--pr", type=int, metavar="N", help="The pull request of the allowance."),
    name="asked",
    build=AllowanceRequest,
)
@shared.rules_option
@shared.suite_option
@shared.baselines_option
def baseline_allow(asked: AllowanceRequest, rules: tuple[str, ...], suite: str | None, baselines: str) -> int:
    """Record that a commit may regress a metric by up to X %. Its check passes, and its merge opens a new level.

    \b
    Example: perfgate baseline allow --head $(git rev-parse feature) --metric forward --up-to 22% \\
      --reason "rotary embeddings" --expires 2026-12-31
    """
    return say(allow(asked, rules, suite, baselines))


@command.command("list")
@shared.baselines_option
def list_(baselines: str) -> int:
    """List every level with its runs, who approved it and why, and what it changed.

    \b
    Example: perfgate baseline list
    """
    from perfgate.baselines.listing import levels, priors
    from perfgate.reporters.stored_baselines import render_levels, render_priors

    found, problems = levels(baselines)
    noise, damaged = priors(baselines)
    say([render_levels(found), *render_priors(noise)])
    return complain([*problems, *damaged])


@command.command()
@place_argument
@shared.baselines_option
def show(place: str | None, baselines: str) -> int:
    """Show stored runs with their environment, their approval and their metrics.

    \b
    Example: perfgate baseline show gpt-small
    """
    from perfgate.baselines.listing import priors, runs
    from perfgate.reporters.stored_baselines import render_priors, render_runs

    found, problems = runs(baselines, place)
    noise, damaged = priors(baselines, place)
    say([render_runs(found, ascii_only=screen().ascii_only), *render_priors(noise, in_full=True)])
    return complain([*problems, *damaged])


@command.command()
@click.argument("old", required=False)
@click.argument("new", required=False)
@click.option("-v", "--verbose", is_flag=True, help="Print the numbers behind every metric.")
@shared.baselines_option
def diff(old: str | None, new: str | None, verbose: bool, baselines: str) -> int:
    """Compare two places of the store, metric by metric, with intervals. Nothing is judged: the exit code is 0.

    OLD and NEW are SUITE/ENVIRONMENT[/LEVEL[/RUN]]. The default is the newest level and the one that it replaced.

    \b
    Example: perfgate baseline diff
    """
    from perfgate.commands.compare import compare_stored
    from perfgate.reporters.terminal import render

    report = compare_stored(baselines, old, new)
    seen = screen()
    return say([render(report, width=seen.width, colour=seen.colour, ascii_only=seen.ascii_only, verbose=verbose)])


@command.command()
@shared.baselines_option
def verify(baselines: str) -> int:
    """Check everything that is stored, with the history: hashes, schemas, duplicates, misplaced files.

    \b
    Example: perfgate baseline verify
    """
    from perfgate.baselines import listing
    from perfgate.history import store as history

    lines, problems = listing.verify(baselines)
    count, damaged = history.verify(open_store(baselines))
    if count or damaged:
        lines.append(f"{plural(count, 'run')} in the history")
    say(lines)
    return complain(list(dict.fromkeys([*problems, *damaged])))


@command.command()
@click.option("--dry-run", is_flag=True, help="Only list what would be removed.")
@shared.baselines_option
def prune(dry_run: bool, baselines: str) -> int:
    """Remove runs that no new run is compared with. Anchors, and one run of every level, stay.

    \b
    Example: perfgate baseline prune --dry-run
    """
    from perfgate.baselines import listing

    return say(listing.prune(baselines, dry_run=dry_run))


def allow(request: AllowanceRequest, rules: tuple[str, ...], suite: str | None, baselines: str) -> list[str]:
    """Record an allowance; returns the lines to print. Raises Refused.

    `rules`: the rule files, which name the suite if `suite` is None. `baselines`: the directory or URL to write to.
    """
    if not request.reason.strip():
        raise Refused('an allowance needs a reason: --reason "..."')
    if not FULL_SHA.fullmatch(request.head):
        raise Refused(f"--head {request.head}: give the whole commit, 40 hexadecimal digits (git rev-parse)")
    suite = suite or read_ruleset(WORKING_TREE, rules, None).suite
    try:
        quantity = Cursor(request.up_to).quantity()
    except SentenceError as error:
        raise Refused(f"--up-to {request.up_to}: {error}") from None
    if quantity.unit is None or quantity.unit.symbol != "%" or not quantity.value > 0:
        raise Refused(f"--up-to {request.up_to}: give a percentage, such as 22%")
    try:
        expires = date.fromisoformat(request.expires)
    except ValueError:
        raise Refused(f"--expires {request.expires}: give a date, YYYY-MM-DD") from None
    if expires < surroundings.today():
        raise Refused(f"--expires {request.expires}: that day is over")
    content = AllowanceFile(
        schema=ALLOWANCE.schema,
        tool=f"perfgate {__version__}",
        suite=suite,
        head=request.head,
        metric=utf8_text(request.metric),
        up_to=quantity.value,
        reason=utf8_text(request.reason),
        by=utf8_text(request.by or surroundings.who()),
        pr=request.pr,
        time=f"{surroundings.now():%Y-%m-%dT%H:%M:%SZ}",
        expires=expires.isoformat(),
    )
    store, data = open_store(baselines), ALLOWANCE.encode(content)
    path = f"{content.suite}/{ALLOWANCES}/{request.head[:12]}-{hashlib.sha256(data).hexdigest()[:8]}.json"
    with locked(store):
        write_file(store, path, data)
    return [
        f"wrote {store.location(path)}",
        f"until {content.expires}, {request.head[:12]} may be up to {request.up_to} worse in {request.metric}, "
        "once this file is on the base that `check --policy-ref` reads",
    ]
