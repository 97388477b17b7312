"""The story of a ticket, through commands and a GitHub on this machine."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Done, Repository, steady, write_results, write_rules
from github_server import EVE, Fault, GitHub

Command = Callable[..., Done]
TEAM = "@example/kernels"


@pytest.fixture
def github(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    """A GitHub that the environment names as a job has it; nobody waits."""
    found = GitHub()
    names = {"API_URL": found.url, "REPOSITORY": "o/r", "TOKEN": "s3cret", "SERVER_URL": "https://github.example"}
    for name, value in names.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    monkeypatch.setenv("CI", "true")
    for module in ("commands.history_watch", "workspace.web_requests"):
        monkeypatch.setattr(f"perfgate.{module}.sleep", lambda seconds: None)
    yield found
    found.close()


class Team(Repository):
    """A repository whose main is measured at every commit, an hour apart."""

    def __init__(self, folder: Path, perfgate: Command) -> None:
        super().__init__(folder)
        self.perfgate, self.hour = perfgate, 0
        self.unmeasured: list[str] = []
        (folder / "baselines").mkdir()
        write_rules(folder, "forward within 5% of baseline", head=f"defaults:\n  owner: '{TEAM}'\n")
        self.commit("rules")

    def merges(self, count: int, forward: float, subject: str = "Change") -> None:
        """Merge and measure so many commits; the first has the subject."""
        for number in range(count):
            self.measure(self.commit(subject if number == 0 else f"Change {self.hour}"), forward)

    def measure(self, commit: str, forward: float) -> None:
        """Measure a commit an hour after the measurement before, with 0.3 % of noise."""
        self.hour += 1
        values = steady(forward * (1 + 0.002 * (self.hour * 7919 % 5 - 2)), seed=self.hour)
        write_results(self.folder / "run.json", {"metric": "forward", "unit": "ms", "values": values})
        day, hour = divmod(self.hour, 24)
        time = f"2026-01-{1 + day:02}T{hour:02}:00:00Z"
        done = self.perfgate("history", "add", "run.json", "--head", commit, "--time", time, "--ref", "main")
        assert done.code == 0, done.said


@pytest.fixture
def team(folder: Path, perfgate: Command, monkeypatch: pytest.MonkeyPatch) -> Team:
    """A team whose forward became 8 % slower in one of three merges that were not measured."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    found = Team(folder, perfgate)
    found.merges(14, 100)
    found.unmeasured = [found.commit(subject) for subject in ("Fix a test", "Use a slower kernel", "Fix a link")]
    found.merges(8, 108)
    return found


@pytest.fixture
def watch(perfgate: Command, github: GitHub) -> Callable[..., list[str]]:
    """The command; it returns the requests that it wrote with, and prints no secret."""

    def run(*words: str, code: int = 0) -> list[str]:
        github.asked.clear()
        done = perfgate("history", "watch", *words)
        assert done.code == code, done.said
        assert "s3cret" not in done.said
        run.said = done.said  # type: ignore[attr-defined]
        return [one.replace("/repos/o/r", "") for one in github.asked if not one.startswith("GET") and "graphql" not in one]

    return run


OPENED = ["POST /labels", "POST /issues"]


def test_the_story_of_a_ticket(team: Team, watch: Any, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFGATE_WEBHOOK", f"{github.url}/hook")
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


def test_an_approval_closes_the_ticket(team: Team, watch: Any, github: GitHub, perfgate: Command) -> None:
    watch()
    write_results(team.folder / "run.json", {"metric": "forward", "unit": "ms", "values": steady(108, seed=99)})
    reason = "accepted, @all see https://evil.example"
    done = perfgate("baseline", "approve", "run.json", "--head", team.git("rev-parse", "HEAD~7"), "--reason", "first")
    done = perfgate("baseline", "approve", "run.json", "--head", team.git("rev-parse", "HEAD~7"), "--reason", reason)
    print(done.said)
    assert watch() == ["PATCH /issues/1", "POST /issues/1/comments"]
    print(github.comments)
    assert 0
