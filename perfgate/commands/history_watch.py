"""`perfgate history watch`: an issue of GitHub for each change of main for the worse, and messages for a webhook."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import Any
from urllib.parse import urlsplit

import click
from msgspec.structs import replace

from perfgate.cli.printing import NOT_JUDGED, complain, say, tell
from perfgate.cli.shared import baselines_option, command_options, rules_option
from perfgate.commands.history_events import told_events
from perfgate.commands.ledger import record_false_alarms
from perfgate.core.remembered_runs import CommitLine
from perfgate.core.wording import one_line, plural
from perfgate.history.tickets import Ticket, TicketStep, Told, answer_of, steps, ticket_of
from perfgate.reporters import history_events as reporter
from perfgate.words import event_words
from perfgate.workspace.github import Comment, GitHubIssues, Issue, ask, is_private
from perfgate.workspace.input_files import Unusable, opened_input
from perfgate.workspace.options import CommandOptions, HistoryPlace, Refused

_LABEL = {"name": "perfgate", "color": "d93f0b", "description": "A change on main that perfgate found"}
#: Only a change that began in this many newest runs gets a ticket, so that a first look at a history opens few.
_RECENT = 50
#: The most events whose commits a job searches.
_MOST_SEARCHED = 2
#: The longest answer of a search, in bytes.
_LONGEST_ANSWER = 64 << 20
#: The pauses in s before each look at GitHub's list of issues, which may lack a new issue for some seconds.
_LOOKS = (0, 2, 4, 8)


@click.command("watch")
@click.option("--dry-run/--no-dry-run", default=None, help="Only print what it would do. [default: on, but for CI]")
@click.option(
    "--webhook",
    envvar="PERFGATE_WEBHOOK",
    metavar="URL",
    help="Post events with news here. [default: PERFGATE_WEBHOOK]",
)
@click.option("--slack", is_flag=True, help="Post messages for Slack to the webhook instead of JSON.")
@click.option("--answers", default="", metavar="FOLDER", help="Comment on tickets: `bisect --json FOLDER/EVENT.json`.")
@click.option("--ref", metavar="REF", help="The branch that orders the runs. [default: that of the runs, or HEAD]")
@command_options(rules_option, baselines_option)
def command(
    options: CommandOptions, dry_run: bool | None, webhook: str | None, slack: bool, answers: str, ref: str | None
) -> int:  # fmt: skip
    """Open, update and close a ticket for each change of main for the worse: an issue of GitHub.

    It needs GITHUB_REPOSITORY and GITHUB_TOKEN, which may write issues. A ticket that a person closes stays closed.
    A job gets the output `search`: two events that got a ticket and whose commit is one of several.

    \b
    Example: perfgate history watch
    """
    if webhook and not is_private(webhook):
        raise click.UsageError("the address of the webhook does not begin with https://")
    is_dry = not os.environ.get("CI") if dry_run is None else dry_run
    desk = None if is_dry and not os.environ.get("GITHUB_TOKEN") else TicketDesk()  # reads the tickets
    writer = None if is_dry else desk  # changes them
    events, history = told_events(HistoryPlace(options.baselines, ref=ref, rules=options.rules))
    tickets = desk.tickets() if desk else []
    recent = {run.id for one in history.environments for run in one.runs[-_RECENT:]}
    # An event may only be missing because a file is damaged: then its ticket stays open.
    whole = () if history.problems else {one.suite for one in history.environments}
    todo = [*steps(events, tickets, recent=recent, suites=whole)]
    lost = 0
    for step in todo:
        url = _taken(step, writer, history.line)
        if not _posted(webhook, step, url, is_slack=slack):
            lost += 1
    if writer is not None:
        _write_search(todo)
    is_answered = _answered(answers, tickets, writer)
    if not todo and not is_answered:
        say([f"nothing to do for {plural(len(events), 'change')} of the history"])
    if writer is not None:
        record_false_alarms(options.baselines, events, tickets, history.line, tell)
    return max(complain(history.problems), NOT_JUDGED if lost else 0)


def _taken(step: TicketStep, desk: TicketDesk | None, line: CommitLine | None) -> str | None:
    """Take a step and print it; return the address of the ticket. Without a desk, only print the step."""
    news = event_words.news(step.action, step.event)
    if not news and step.event:
        news = event_words.headline(step.event)
    if desk is None:
        ticket = f"#{step.ticket.number}" if step.ticket else "a ticket"
        say([f"would {step.action} {ticket}: {one_line(news)}"])
        return None
    url = desk.do(step, line)
    say([f"{step.action.removesuffix('e')}ed {url}: {one_line(news)}"])
    return url


def _write_search(todo: Sequence[TicketStep]) -> None:
    """Write the output `search` of a job: the new events whose commit is not known."""
    path = os.environ.get("GITHUB_OUTPUT")
    if path:
        opened = [step.event for step in todo if step.action == "open" and step.event]
        sought = [event.id for event in opened if event_words.search(event)]
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"search={' '.join(sought[:_MOST_SEARCHED])}\n")


def _answered(folder: str, tickets: Sequence[Ticket], desk: TicketDesk | None) -> bool:
    """Comment on open tickets with the answers in a folder; return whether there were any. `desk`: None only prints.

    `folder`: empty for none. Raises UsageError if it does not exist, and Refused for an unreadable answer.
    """
    if not folder:
        return False
    if not Path(folder).is_dir():
        raise click.UsageError(f"--answers {folder}: no such folder")
    paths = {path.stem: path for path in Path(folder).glob("*.json")}
    answered = [ticket for ticket in tickets if ticket.is_open and ticket.told.event in paths]
    for ticket in answered:
        path = paths[ticket.told.event]
        answer = answer_of(_content(path))
        if answer is None:
            step = f"write it again with `perfgate bisect --event {path.stem} --json {path}`"
            raise Refused(f"{path} cannot be read: {step}", 3)
        if desk is not None:
            desk.comment(ticket.number, reporter.answer(answer.message, answer.next_step))
        say([f"{'answered' if desk else 'would answer'} {ticket.url}: {one_line(answer.message)}"])
    return bool(answered)


def _content(path: Path) -> bytes:
    """Return the bytes of a file; nothing if it cannot be opened or read."""
    try:
        with opened_input(str(path))[0] as file:
            return file.read(_LONGEST_ANSWER)
    except (OSError, Unusable):
        return b""


def _posted(webhook: str | None, step: TicketStep, url: str | None, *, is_slack: bool) -> bool:
    """Post the news of an event to the webhook; return False, after a message, if that failed.

    Nothing is posted without a webhook, in a dry run (which has no `url`, the address of the ticket), for an update, or
    for a ticket without an event.
    """
    if not webhook or url is None or step.event is None or step.action == "update":
        return True
    document = reporter.slack(step.event, step.action, url) if is_slack else reporter.event_object(step.event)
    answer = ask("POST", webhook, {"X-Perfgate-Action": step.action, "X-Perfgate-Ticket": url}, document)
    if 200 <= answer.status < 300:
        return True
    tell(f"error: the webhook at {urlsplit(webhook).hostname} did not take the message about {url}: {answer}")
    return False


class TicketDesk:
    """The tickets of a repository: the issues that the token's own user or app wrote. Others can be forged."""

    def __init__(self) -> None:
        """Ask GitHub for the user of the token. Raises Refused."""
        self._issues = GitHubIssues()
        self._me = self._issues.viewer()

    def tickets(self) -> list[Ticket]:
        """Return the tickets, the oldest first. Raises Refused."""
        listed = self._issues.listed(
            "issues", Issue, labels=_LABEL["name"], state="all", sort="created", direction="asc"
        )
        own = [one for one in listed if one.pull_request is None and one.user and one.user.id == self._me]
        by_number = {one.number: one for one in own}  # one that moved to the next page meanwhile is listed twice
        page = f"{self._issues.page}/issues"
        made = (
            ticket_of(number, one.state == "open", f"{page}/{number}", one.body or "", one.state_reason)
            for number, one in by_number.items()
        )
        return [ticket for ticket in made if ticket is not None]

    def do(self, step: TicketStep, line: CommitLine | None) -> str:
        """Open, update, close or reopen a ticket; return its address. `line`: the commits. Raises Refused."""
        event, ticket, news = step.event, step.ticket, event_words.news(step.action, step.event)
        fields: dict[str, Any] = {}
        if event is not None:
            fields |= reporter.issue(event, self._issues.page, line)
            fields["body"] = Told.of(event).marker + fields["body"]
        if ticket is None:
            assert event is not None
            return self._opened(event.id, fields)
        if event is None:  # the ticket is a duplicate, or the history no longer has the event
            about = f"Duplicate of #{step.first}" if step.first else news
            without_step = ticket.text.partition(reporter.NEXT)[0]
            fields["body"] = f"{replace(ticket.told, state='gone').marker}{about}\n\n{without_step}"
        if step.action != "update":
            reason = "not_planned" if step.first else "completed"
            fields |= {"state": "closed", "state_reason": reason} if step.action == "close" else {"state": "open"}
        self._issues.send("PATCH", f"issues/{ticket.number}", fields)
        if news and step.first is None:
            self.comment(ticket.number, reporter.comment(news))
        return ticket.url

    def comment(self, number: int, text: str) -> None:
        """Comment on a ticket, unless the last own comment is the same. Raises Refused.

        Of two jobs that comment at once, the second one then sees the comment of the first, and deletes its own.
        """
        path = f"issues/{number}/comments"
        if self._is_last(path, text, before=None):
            return
        made = self._issues.send("POST", path, {"body": text}, Comment)
        if made is not None and self._is_last(path, text, before=made.id):
            self._issues.send("DELETE", f"issues/comments/{made.id}", None)
        elif made is None and not self._is_last(path, text, before=None):  # GitHub did not answer, and has no comment
            self._issues.send("POST", path, {"body": text}, Comment)

    def _is_last(self, path: str, text: str, *, before: int | None) -> bool:
        """Return whether the last own comment has this text. `before`: only comments with smaller ids count."""
        own = [one for one in self._issues.listed(path, Comment) if one.user and one.user.id == self._me]
        bodies = [one.body or "" for one in own if before is None or one.id < before]
        return bool(bodies) and bodies[-1].split() == text.split()

    def _opened(self, event: str, fields: dict[str, Any]) -> str:
        """Open a ticket, and return its address. If two jobs open one at once, only the older stays. Raises Refused."""
        with suppress(Refused):  # the label exists already
            self._issues.send("POST", "labels", _LABEL)
        number = None  # also if it is not known whether GitHub opened the issue
        for pause in _LOOKS:
            if number is None:
                made = self._issues.send("POST", "issues", {**fields, "labels": [_LABEL["name"]]}, Issue)
                number = None if made is None else made.number
            sleep(pause)
            same = [ticket for ticket in self.tickets() if ticket.told.event == event]
            if same and number in (None, *(ticket.number for ticket in same)):
                for other in (ticket for ticket in same[1:] if ticket.is_open):
                    self.do(TicketStep("close", event=None, ticket=other, first=same[0].number), None)
                return same[0].url
        raise Refused(f"issue {number or ''} was opened, and GitHub does not list it with the label perfgate", 3)
