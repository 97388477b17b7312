"""The story of a ticket, through commands and a GitHub on this machine."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import replace
from itertools import count
from pathlib import Path
from shutil import copytree
from time import sleep
from typing import Any

import pytest
from conftest import Done, Repository, steady, write_results, write_rules
from github_server import BOT, EVE, Fault, GitHub
from msgspec.structs import replace as replace_field

from perfgate.baselines.ledger import LEDGER_FILE, LedgerFile
from perfgate.baselines.stores import open_store, write_file
from perfgate.cli.entry import run
from perfgate.commands.history_events import told_events
from perfgate.commands.history_watch import TicketDesk
from perfgate.core import Key
from perfgate.core.history_events import LedgerEntry, RuleAnswer
from perfgate.core.remembered_runs import SeriesName
from perfgate.history.tickets import TicketStep
from perfgate.reporters import history_events as reporter
from perfgate.workspace import github as github_module
from perfgate.workspace.github import Answer
from perfgate.workspace.options import HistoryPlace

Command = Callable[..., Done]
TEAM = "@example/kernels"
#: Writes the results of a commit.
PROGRAM = """
import json, random
forward = float(open("rules/forward.txt").read())
values = [forward * random.gauss(1, 0.002) for _ in range(60)]
series = [{"metric": "forward", "unit": "ms", "values": values}]
json.dump({"schema": "perfgate.results/1", "series": series}, open("results.json", "w"))
"""


@pytest.fixture
def github(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    """A GitHub that the environment names as a job has it; nobody waits."""
    found = GitHub()
    names = {"API_URL": found.url, "REPOSITORY": "o/r", "TOKEN": "s3cret", "SERVER_URL": "https://github.example"}
    for name, value in names.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    monkeypatch.setenv("CI", "true")
    for module in ("commands.history_watch", "workspace.github"):
        monkeypatch.setattr(f"perfgate.{module}.sleep", lambda seconds: None)
    yield found
    found.close()


class Team(Repository):
    """A repository whose main is measured at every commit, an hour apart."""

    hour = 0
    unmeasured: tuple[str, ...] = ()

    def merge(self, subject: str, forward: float) -> str:
        """Merge a commit whose forward takes so many milliseconds."""
        (self.folder / "rules" / "forward.txt").write_text(f"{forward}\n")
        return self.commit(subject)

    def merges(self, count: int, forward: float, subject: str = "Change") -> None:
        """Merge and measure so many commits; the first has the subject."""
        for number in range(count):
            self.measure(self.merge(subject if number == 0 else f"Change {self.hour}", forward), forward)

    def measure(self, commit: str, forward: float) -> None:
        """Measure a commit an hour after the measurement before, with 0.3 % of noise."""
        self.hour += 1
        values = steady(forward * (1 + 0.002 * (self.hour * 7919 % 5 - 2)), seed=self.hour)
        write_results(self.folder / "run.json", {"metric": "forward", "unit": "ms", "values": values})
        day, hour = divmod(self.hour, 24)
        words = ("--head", commit, "--time", f"2026-01-{1 + day:02}T{hour:02}:00:00Z", "--ref", "main")
        assert run(["history", "add", "run.json", *words]) == 0


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Team:
    """A team whose forward became 8 % slower in one of three merges that were not measured."""
    with pytest.MonkeyPatch.context() as patch:
        place = tmp_path_factory.mktemp("team")
        patch.chdir(place)
        patch.setattr("os.fsync", lambda descriptor: None)
        found = Team(place)
        (place / "baselines").mkdir()
        write_rules(place, "forward within 5% of baseline", head=f"defaults:\n  owner: '{TEAM}'\n")
        found.merges(14, 100)
        merged = (("Fix a test", 100.0), ("Use a slower kernel", 108.0), ("Fix a link", 108.0))
        found.unmeasured = tuple(found.merge(subject, forward) for subject, forward in merged)
        found.merges(8, 108)
    return found


@pytest.fixture
def team(measured: Team, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    """A copy of the team's repository for the test."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    copytree(measured.folder, folder, dirs_exist_ok=True)
    found = copy(measured)
    found.folder = folder
    return found


@pytest.fixture
def watch(perfgate: Command, github: GitHub) -> Callable[..., list[str]]:
    """The command; it returns the requests that it wrote with, and prints no secret."""

    def watched(*words: str, code: int = 0) -> list[str]:
        github.asked.clear()
        done = perfgate("history", "watch", *words)
        assert done.code == code, done.said
        assert "s3cret" not in done.said
        watched.said = done.said  # type: ignore[attr-defined]
        return [
            one.replace("/repos/o/r", "") for one in github.asked if not one.startswith("GET") and "graphql" not in one
        ]

    return watched


ENVIRONMENT = "unknown-9b218440"
OPENED = ["POST /labels", "POST /issues"]


def test_the_story_of_a_ticket(
    team: Team, watch: Any, github: GitHub, perfgate: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFGATE_WEBHOOK", f"{github.url}/hook")
    monkeypatch.setenv("GITHUB_OUTPUT", str(team.folder / "outputs"))
    good, bad = team.git("rev-parse", "HEAD~11"), team.git("rev-parse", "HEAD~7")
    before, culprit, _ = team.unmeasured

    assert watch() == [*OPENED, "POST /hook"]
    [ticket] = github.issues
    assert ticket["title"] == f"forward median +8.0% since {bad[:10]} (4 commits)"
    assert [label["name"] for label in ticket["labels"]] == ["perfgate"]
    row = r"\| forward median \| default/unknown-9b218440 \| \+8\.0% \(\+7\.\d% to \+8\.\d%\) worse \|"
    assert re.search(row, ticket["body"])
    assert f"in one of 4 commits after {good[:10]}, up to {bad[:10]}" in ticket["body"]
    assert f"https://github.example/o/r/compare/{good}...{bad}" in ticket["body"]
    event = github.posted[0][1]["id"]
    assert f"**Next:** find the commit\n\n```\nperfgate bisect --event {event} -- COMMAND\n```" in ticket["body"]
    assert f"\ncc {TEAM}\n" in ticket["body"]

    assert (team.folder / "outputs").read_text() == f"search={event}\n"
    words = ("--json", f"answers/{event}.json", "--results", "results.json", "--", sys.executable, "-c", PROGRAM)
    (team.folder / "answers").mkdir()
    assert perfgate("bisect", "--event", event, *words).code == 0
    assert watch("--answers", "answers") == ["POST /issues/1/comments"]
    answered = github.said.popitem()[1]["body"]
    found = rf"{culprit[:12]} changed forward by \+8\.\d% .*, with (more than )?9\d\.\d % probability: Use a slower k"
    assert re.match(found, answered.replace("&#8203;", "").replace("\\", "")), answered
    assert "**Next:** look at what it changed: git show" in answered

    assert watch() == []  # nothing new
    assert "nothing to do for 1 change" in watch.said
    team.merges(1, 108)
    assert watch() == []  # nothing that matters

    team.measure(before, 100)
    team.measure(culprit, 108)
    assert watch() == ["PATCH /issues/1"]
    assert ticket["title"] == f"forward median +8.0% since {culprit[:10]}"
    assert f"in commit {culprit[:10]} (ada: Use a slower kernel)" in ticket["body"]
    assert "**Next:** revert the commit, or approve the new level" in ticket["body"]

    team.merges(10, 100, 'Revert "Use a slower kernel"')
    assert watch() == ["PATCH /issues/1", "POST /issues/1/comments", "POST /hook"]
    assert (ticket["state"], ticket["state_reason"]) == ("closed", "completed")
    [(number, comment)] = github.comments
    assert (number, comment[:12]) == (1, "reverted in ")
    assert "**Next:**" not in ticket["body"]
    assert watch() == []

    (opened, first), (closed, last) = github.posted
    assert (opened["X-Perfgate-Action"], closed["X-Perfgate-Action"]) == ("open", "close")
    assert opened["X-Perfgate-Ticket"] == ticket["html_url"]
    assert (first["id"], first["state"], last["state"]) == (last["id"], "open", "reverted")
    assert "Authorization" not in opened


def test_a_change_that_is_soon_reverted_closes_with_its_revert(team: Team, watch: Any, github: GitHub) -> None:
    """Also if the ticket was closed before that was clear."""
    watch()
    for number in (4, 6):
        team.merges(number, 100, 'Revert "Use a slower kernel"')
        watch()
    assert github.comments[-1][1].startswith("reverted in ")
    assert github.issue(1)["state"] == "closed"
    assert " reverted " in github.issue(1)["body"].splitlines()[0]
    assert watch() == []


def test_an_approval_closes_the_ticket(team: Team, watch: Any, github: GitHub, perfgate: Command) -> None:
    watch()
    write_results(team.folder / "run.json", {"metric": "forward", "unit": "ms", "values": steady(108, seed=99)})
    for reason in ("first", "accepted, @all \x1b[31m"):
        done = perfgate(
            "baseline", "approve", "run.json", "--head", team.git("rev-parse", "HEAD~7"), "--reason", reason
        )
        assert done.code == 0, done.said
    assert watch() == ["PATCH /issues/1", "POST /issues/1/comments"]
    assert github.comments == [
        (1, "approved by ada on 2026-01-01: accepted, \\@&#8203;all \\\\&#8203;u001b\\[&#8203;31m")
    ]
    assert "accepted, @all \\u001b[31m" in watch.said  # a terminal obeys no name


# --- people and attackers ----------------------------------------------------------------------------------------


def test_a_closing_by_a_person_is_respected(team: Team, watch: Any, github: GitHub) -> None:
    watch()
    github.issue(1)["state"] = "closed"
    team.measure(team.unmeasured[1], 108)  # the range becomes smaller
    assert watch() == []
    team.merges(8, 120)  # another change, another ticket
    assert watch() == OPENED
    team.merges(12, 108)
    assert watch() == ["PATCH /issues/2", "POST /issues/2/comments"]
    team.merges(12, 100)
    assert watch() == []
    assert github.open_ones == []


def test_a_change_proves_a_green_wrong_until_a_person_calls_it_a_false_alarm(
    team: Team, watch: Any, github: GitHub, perfgate: Command
) -> None:
    rule = "forward within 5% of baseline"
    first_bad, newest = team.git("rev-parse", "HEAD~7"), team.git("rev-parse", "HEAD")
    greens = [
        LedgerEntry("check", [commit], [], ENVIRONMENT, "", [RuleAnswer(rule, "green", ["forward"])], time, time)
        for commit, time in ((first_bad, "2026-01-01T14:30:00Z"), (newest, "2026-01-01T22:30:00Z"))
    ]
    ledger = LedgerFile("perfgate.ledger/1", "perfgate", "default", greens)
    write_file(open_store("baselines"), "_history/_ledger/default/2026-01/checks.json", LEDGER_FILE.encode(ledger))

    watch()
    wrong = f"{rule}: wrong in 2 of 2 checks (2 green), at most 100%"
    assert f"rule {wrong}" in perfgate("history", "events").out.replace("\n  ", " ")
    assert f"- rule {wrong}" in github.issue(1)["body"]
    assert "On main: wrong in 2 of 2 checks (2 green), at most 100%." in perfgate("rules", "explain").out
    github.issue(1).update(state="closed", state_reason="not_planned")
    assert watch() == []
    assert "On main: wrong in 1 of 2 checks (1 green), at most 97%." in perfgate("rules", "explain").out


def test_an_answer_is_for_an_open_ticket_and_is_plain_text(
    team: Team, watch: Any, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch()
    event = re.search(r"event: (\w+)", github.issue(1)["body"])
    assert event
    file = team.folder / f"{event[1]}.json"
    file.write_text('{"message": "[pay](https://evil.example) @all", "next_step": "<img>"}')
    assert watch("--answers", ".", "--dry-run") == []
    assert "would answer https://github.example/o/r/issues/1: [pay]" in watch.said
    assert watch("--answers", ".") == ["POST /issues/1/comments"]
    assert not re.search(r"\]\(|@all|<img", github.comments[0][1])
    assert watch("--answers", ".") == []  # the job was started again
    github.comment(1, "What is this?", EVE)
    assert watch("--answers", ".") == []
    monkeypatch.setattr("perfgate.workspace.input_files.PATIENCE_S", 0.1)
    for script in ("echo '{\"message\": 1}' > $0", "ln -sf /dev/zero $0", "rm $0; mkfifo $0", "rm $0; mkdir $0"):
        subprocess.run(["sh", "-c", script, file], check=True)
        watch("--answers", ".", code=3)
        assert (
            f"{event[1]}.json cannot be read: write it again with `perfgate bisect --event {event[1]} --" in watch.said
        )
    github.issue(1)["state"] = "closed"
    assert watch("--answers", ".") == []


def test_a_person_opens_a_closed_ticket_again(team: Team, watch: Any, github: GitHub) -> None:
    watch()
    team.merges(12, 100)
    watch()
    github.issue(1)["state"] = "open"
    assert watch() == []
    assert github.open_ones == [1]


@pytest.mark.parametrize("forger", [EVE, None], ids=["eve", "a deleted user"])
def test_a_forged_marker_is_ignored(team: Team, watch: Any, github: GitHub, forger: Any) -> None:
    """Anyone may open an issue with the hidden line of a ticket: it neither hides a change nor gets closed."""
    watch()
    forged = github.issues.pop()["body"]
    github.open(forged, forger)
    assert watch() == OPENED
    assert github.open_ones == [1, 2]
    team.merges(12, 100)
    watch()
    assert github.open_ones == [1]


@pytest.mark.parametrize("change", [{"pull_request": {}}, {"labels": []}, {"body": None}, {"body": "x"}])
def test_other_issues_of_the_same_user_are_no_tickets(team: Team, watch: Any, github: GitHub, change: Any) -> None:
    watch()
    github.issue(1).update(change)
    assert watch() == OPENED


def test_a_ticket_that_the_history_does_not_explain_is_closed(team: Team, watch: Any, github: GitHub) -> None:
    watch()
    old = github.issue(1)["body"]
    github.issue(1)["body"] = re.sub(r"event: \w+", "event: 0123abcd", old)
    github.open(re.sub(r"(event: )\w+(.*),? ?\w{8} -->", r"\g<1>0123abce\2 ffffffff -->", old))  # another store's
    assert watch() == [*OPENED, "PATCH /issues/1", "POST /issues/1/comments"]
    [(number, comment)] = github.comments
    assert (number, comment[:46]) == (1, "the history shows no lasting change any more: ")
    assert "**Next:**" not in github.issue(1)["body"]
    assert github.open_ones == [2, 3]
    assert watch() == []


def test_a_damaged_history_closes_nothing(team: Team, watch: Any, github: GitHub) -> None:
    watch()
    github.issue(1)["body"] = re.sub(r"event: \w+", "event: 0123abcd", github.issue(1)["body"])
    next((team.folder / "baselines" / "_history").rglob("2026*.json")).write_text("{}")
    assert watch(code=3) == OPENED


# --- two jobs, and a GitHub with faults --------------------------------------------------------------------------


def test_two_jobs_at_once_keep_one_ticket(team: Team, perfgate: Command, watch: Any, github: GitHub) -> None:
    """Both have looked before one of them opens."""
    events, found = told_events(HistoryPlace())
    both = threading.Barrier(2, timeout=30)
    github.before_opening = both.wait
    urls: list[str] = []
    jobs = [
        threading.Thread(target=lambda: urls.append(TicketDesk().do(TicketStep("open", events[0]), found.line)))
        for _ in range(2)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert urls == [github.issue(1)["html_url"]] * 2
    assert github.open_ones == [1]
    assert github.issue(2)["state_reason"] == "not_planned"
    assert "\nDuplicate of #1\n" in github.issue(2)["body"]
    assert watch() == []


def test_two_jobs_at_once_comment_once(github: GitHub) -> None:
    """Both have looked before one of them comments, and somebody said the same before."""
    number = github.open("")
    github.comment(number, "the answer", EVE)
    github.before_commenting = threading.Barrier(2, timeout=30).wait
    jobs = [threading.Thread(target=TicketDesk().comment, args=(number, "the answer")) for _ in range(2)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    assert [one["user"] for one in github.said.values()] == [EVE, BOT]


@pytest.mark.parametrize("is_done", [True, False])
def test_a_comment_that_may_have_been_written_is_looked_for(github: GitHub, is_done: bool) -> None:
    number = github.open("")
    github.faults = [Fault("POST", ".*comments", 502, is_done=is_done)]
    TicketDesk().comment(number, "the answer")
    assert github.comments == [(number, "the answer")]


def test_a_duplicate_of_a_job_that_died_is_closed(team: Team, watch: Any, github: GitHub) -> None:
    watch()
    github.open(github.issue(1)["body"])
    assert watch() == ["PATCH /issues/2"]
    assert github.open_ones == [1]


@pytest.mark.parametrize("is_done", [True, False])
def test_an_issue_that_may_have_been_opened_is_looked_for(
    team: Team, watch: Any, github: GitHub, is_done: bool
) -> None:
    github.faults = [Fault("POST", "/repos/o/r/issues", 502, is_done=is_done)]
    watch()
    assert github.open_ones == [1]


def test_an_issue_that_is_listed_late_is_waited_for(team: Team, watch: Any, github: GitHub) -> None:
    github.unlisted = {1}
    github.before_opening = lambda: None
    watch(code=3)
    assert "issue 1 was opened, and GitHub does not list it with the label perfgate" in watch.said
    assert len(github.issues) == 1


def test_a_ticket_is_found_on_the_last_page(team: Team, watch: Any, github: GitHub) -> None:
    for number in range(7):
        github.open(f"another issue {number}")
    watch()
    github.page_size = 2
    assert watch() == []
    assert github.asked.count("GET /repos/o/r/issues") == 4


LIMITS = [
    Fault("GET", ".*", 403, {"Retry-After": "7"}, "You have exceeded a secondary rate limit"),
    Fault("GET", ".*", 403, {}, "You have exceeded a secondary rate limit. Wait."),
    Fault("GET", ".*", 429, {"Retry-After": "7"}),
    Fault("GET", ".*", 403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1000007"}),
    Fault("GET", ".*", 502),
    Fault("GET", ".*", 503, times=3),
]
WAITS = [[7], [60], [7], [8], [1], [1, 2, 4]]


@pytest.mark.parametrize(("fault", "waits"), [*zip(LIMITS, WAITS, strict=True)])
def test_limits_and_faults_are_waited_for(
    team: Team, watch: Any, github: GitHub, monkeypatch: pytest.MonkeyPatch, fault: Fault, waits: list[float]
) -> None:
    waited: list[float] = []
    monkeypatch.setattr("perfgate.workspace.github.sleep", waited.append)
    monkeypatch.setattr("perfgate.workspace.github.time", lambda: 1_000_000.0)
    github.faults = [replace(fault)]
    assert watch() == OPENED
    assert waited == waits


FAULTS = [
    (Fault("GET", ".*", 500, times=99), "status 500; start the job again later"),
    (Fault("GET", ".*", 429, {"Retry-After": "301"}), "too many requests; start the job again later"),
    (Fault("GET", ".*", 403, {"Retry-After": "299"}, times=99), "too many requests; start the job again later"),
    (
        Fault("POST", ".*issues", 403, message="Resource not accessible by integration"),
        "Resource not accessible by integ",
    ),
    (Fault("POST", ".*issues", 403), "does the job have the permission `issues: write`?"),
    (Fault("GET", ".*", 404), "does the job have the permission `issues: write`?"),
    (Fault("GET", ".*", 410, message="Issues are disabled"), "status 410, Issues are disabled"),
    (Fault("POST", "/graphql", 401, message="Bad credentials"), "status 401, Bad credentials"),
    (Fault("POST", "/graphql", 401, message="unknown: Bearer s3cret"), "status 401, unknown: Bearer ***"),
    (Fault("POST", ".*issues", 422, message="Validation Failed"), "Validation Failed"),
    (Fault("GET", ".*", 301, {"Location": "https://evil.example/"}), "the repository was renamed"),
]


@pytest.mark.parametrize(("fault", "said"), FAULTS)
def test_what_github_refuses_is_said(team: Team, watch: Any, github: GitHub, fault: Fault, said: str) -> None:
    github.faults = [replace(fault)]
    watch(code=3)
    assert said in watch.said
    assert len(watch.said.splitlines()) == 1


def test_the_token_stays_with_the_api(team: Team, watch: Any, github: GitHub) -> None:
    """Neither a redirect nor the address of a next page takes it to another host."""
    other = GitHub()
    for fault in (
        Fault("GET", ".*", 302, {"Location": f"{other.url}/repos/o/r/issues"}),
        Fault("POST", "/graphql", 307, {"Location": f"{other.url}/graphql"}),
    ):
        github.faults = [fault]
        watch(code=3)
    for page in (f"{other.url}/repos/o/r/issues", "file:///etc/passwd", "http://[", f"{github.url}@{other.url}/"):
        github.next_page = page
        watch(code=3)
        assert "to another host, which must not get the token" in watch.said
    assert other.asked == []
    assert github.tokens == {"Bearer s3cret"}
    other.close()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("GITHUB_TOKEN", "", "GITHUB_TOKEN"),
        ("GITHUB_TOKEN", "s3cret\nX: y", "GITHUB_TOKEN"),
        ("GITHUB_REPOSITORY", "../../evil", "GITHUB_REPOSITORY"),
        ("GITHUB_API_URL", "http://api.example", "does not begin with https://"),
        ("PERFGATE_WEBHOOK", "http://hooks.example/s3cret", "does not begin with https://"),
        ("PERFGATE_WEBHOOK", "ftp://s3cret", "does not begin with https://"),
    ],
)
def test_what_the_environment_gets_wrong(
    team: Team, watch: Any, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    assert watch(code=2) == []
    assert said in watch.said


def test_a_label_that_github_does_not_set_is_said(team: Team, watch: Any, github: GitHub) -> None:
    github.drops_labels = True
    watch(code=3)
    assert "does not list it with the label perfgate" in watch.said


# --- the webhook, and dry runs -----------------------------------------------------------------------------------


def test_slack_gets_its_form(team: Team, watch: Any, github: GitHub) -> None:
    watch("--slack", "--webhook", f"{github.url}/hook")
    [(_, message)] = github.posted
    assert set(message) == {"text"}
    assert message["text"].startswith("*forward median +8.0% since ")
    assert f"(<{github.issue(1)['html_url']}|open>)" in message["text"]


def test_a_webhook_that_fails_loses_no_ticket_and_is_said_without_its_address(
    team: Team, watch: Any, github: GitHub
) -> None:
    github.faults = [Fault("POST", "/hook/s3cret", 404)]
    watch("--webhook", f"{github.url}/hook/s3cret", code=3)
    assert (
        "the webhook at 127.0.0.1 did not take the message about https://github.example/o/r/issues/1: status 404"
        in (watch.said)
    )
    watch("--webhook", "https://s3cret@127.0.0.1:1/s3cret", code=0)  # no news


def test_outside_of_ci_nothing_is_written(
    team: Team, watch: Any, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI")
    assert watch() == []
    assert (
        watch.said
        == f"would open a ticket: forward median +8.0% since {team.git('rev-parse', 'HEAD~7')[:10]} (4 commits)\n"
    )
    assert watch("--no-dry-run") == OPENED
    assert watch("--dry-run") == []
    monkeypatch.delenv("GITHUB_TOKEN")
    assert watch() == []
    assert github.asked == []
    assert watch.said.startswith("would open a ticket: ")


def test_old_changes_get_no_ticket(team: Team, watch: Any, github: GitHub) -> None:
    team.merges(50, 108)
    assert watch() == []


ANSWERS = [
    b"",
    b"[]",
    b"{}",
    b"null",
    b"[1]",
    b'[{"user": 1}]',
    b'{"data": {"viewer": {"databaseId": "x"}}}',
    b"[" * 3000,
]


@pytest.mark.parametrize("data", ANSWERS, ids=lambda data: data[:20].decode())
@pytest.mark.parametrize("what", ["graphql", "GET", "POST"])
def test_an_answer_of_another_form_is_said(
    team: Team, watch: Any, github: GitHub, monkeypatch: pytest.MonkeyPatch, what: str, data: bytes
) -> None:
    once = github_module._within_deadline

    def answered(method: str, url: str, *rest: Any) -> Answer:
        is_hostile = what in url or (what == method and "graphql" not in url and "labels?" not in url)
        return Answer(200, data) if is_hostile else once(method, url, *rest)

    monkeypatch.setattr(github_module, "_within_deadline", answered)
    watch(code=3)
    assert "GitHub" in watch.said


def test_an_answer_byte_by_byte_ends(team: Team, watch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each packet is in time, and the answer never ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            with suppress(OSError), server.accept()[0] as connection:
                for _ in range(200):
                    connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
                    sleep(0.05)

        threading.Thread(target=drip, daemon=True).start()
        monkeypatch.setattr(github_module, "_DEADLINE", 0.2)
        monkeypatch.setenv("GITHUB_API_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        watch(code=3)
    assert "no whole answer in time; start the job again later" in watch.said


def test_pages_that_are_limited_one_by_one_end(
    team: Team, watch: Any, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = count(0, 299)
    monkeypatch.setattr(github_module, "monotonic", lambda: next(clock))
    github.next_page = f"{github.url}/repos/o/r/issues?labels=perfgate&state=all&per_page=1"
    watch(code=3)
    assert "GitHub needs more than 30 minutes; start the job again later" in watch.said
    assert len(github.asked) < 10


def test_a_ticket_that_is_listed_twice_is_no_duplicate_of_itself(
    team: Team, watch: Any, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An issue moves to the next page when an older one gets the label meanwhile."""
    watch()
    once = github.list
    monkeypatch.setattr(github, "list", lambda query: (once(query)[0] * 2, None))
    assert watch() == []
    assert github.open_ones == [1]


def test_the_address_of_a_ticket_is_not_text_of_the_server(team: Team, watch: Any, github: GitHub) -> None:
    watch()
    github.issue(1)["html_url"] = "https://evil.example\n::error::x <!channel>"
    team.merges(12, 100)
    watch("--slack", "--webhook", f"{github.url}/hook")
    assert watch.said.startswith("closed https://github.example/o/r/issues/1: ")
    assert "(<https://github.example/o/r/issues/1|close>)" in github.posted[0][1]["text"]


def test_a_link_of_many_brackets_ends() -> None:
    assert github_module._NEXT.search("<" * 60_000) is None


def test_a_line_that_somebody_changed_is_no_ticket(team: Team, watch: Any, github: GitHub) -> None:
    watch()
    github.issue(1)["body"] = re.sub(r" open \S+ ", " open 1e999 ", github.issue(1)["body"])
    assert watch()[:2] == OPENED
    assert github.open_ones == [1, 2]


def test_a_long_name_does_not_exceed_the_title_of_an_issue(team: Team) -> None:
    [event] = told_events(HistoryPlace("baselines"))[0]
    changes = tuple(replace_field(one, name=SeriesName(Key("x" * 1000), "median")) for one in event.changes)
    assert len(reporter.issue(replace_field(event, changes=changes), "https://github.example/o/r")["title"]) <= 256
