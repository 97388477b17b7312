"""Sixty merges of a team: a regression, its approval, a driver upgrade, and a metric that creeps."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from conftest import Done, write_results, write_rules
from lxml import html

Command = Callable[..., Done]
MERGES = 60
REGRESSION, APPROVED, UPGRADE, CREEP = 20, 22, 40, 30
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)


def level(metric: str, merge: int) -> float:
    """The true time of a metric in ms after a merge."""
    if metric == "forward":
        return 110.0 if merge >= REGRESSION else 100.0
    if metric == "backward":
        return 188.0 if merge >= UPGRADE else 200.0
    return 50.0 * 1.006 ** max(merge - CREEP, 0)


def measured(folder: Path, merge: int) -> Path:
    """The results of the run of a merge."""
    rng = np.random.default_rng(merge)
    series = [
        {
            "metric": metric,
            "unit": "ms",
            "values": (level(metric, merge) * np.exp(0.003 * rng.standard_normal()) + rng.standard_normal(60)).tolist(),
        }
        for metric in ("forward", "backward", "optimizer")
    ]
    driver = "580.65" if merge >= UPGRADE else "570.86"
    return write_results(folder / f"run{merge}.json", *series, environment={"gpu": "H200", "driver": driver})


def merges(folder: Path) -> list[str]:
    """A repository with these merges, each an hour after the one before; the hashes of its commits."""
    stream = []
    for merge in range(MERGES):
        when = f"{BEGIN + timedelta(hours=merge):%s} +0000"
        subject = {REGRESSION: "Use rotary embeddings", UPGRADE: "Update the image"}.get(merge, f"Change {merge}")
        who = "bob <bob@example.org>" if merge == REGRESSION else "ada <ada@example.org>"
        stream.append(f"commit refs/heads/main\ncommitter {who} {when}\ndata {len(subject)}\n{subject}\n")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    subprocess.run(["git", "fast-import", "--quiet"], cwd=folder, input="".join(stream).encode(), check=True)
    listed = subprocess.run(["git", "rev-list", "--reverse", "main"], cwd=folder, capture_output=True, check=True)
    return listed.stdout.decode().split()


@pytest.fixture
def team(folder: Path, perfgate: Command, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The repository after sixty merges, each remembered, and the approval of the regression."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    commits = merges(folder)
    write_rules(folder, "forward within 5% of baseline", "backward within 5% of baseline")
    for merge, commit in enumerate(commits):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", f"{BEGIN + timedelta(hours=merge, minutes=10):%s}")
        run = measured(folder, merge)
        decision = {0: ("first baseline",), APPROVED: ("rotary embeddings", "--pr", "7", "--by", "carol")}.get(merge)
        if decision:
            done = perfgate("baseline", "approve", run, "--head", commit, "--reason", *decision)
            assert done.code == 0, done.said
        done = perfgate("history", "add", run, "--head", commit)
        assert done.code == 0, done.said
    return commits


def see_the_page(team: list[str], perfgate: Command, folder: Path) -> None:
    """A reader opens the page of trends in the morning."""
    subprocess.run(["git", "tag", "v2.0", team[33]], cwd=folder, check=True)
    done = perfgate("history", "report", "--html", "trends.html", "--commit-url", "https://example.org/c/")
    assert done.code == 0
    assert done.out.endswith("KiB): 3 changes (1 metric) for the worse, and nobody approved it\n")
    page = html.fromstring((folder / "trends.html").read_bytes())

    def read(place: str) -> list[str]:
        return [" ".join(" ".join(found.itertext()).split()) for found in page.xpath(place)]

    assert read("//h1") == ["▲ 3 changes (1 metric) for the worse, and nobody approved it"]
    assert [named.split(" +")[0] for named in read("//header//li")] == ["optimizer median"] * 3
    assert read("//article//h3") == ["optimizer median", "backward median", "forward median"]
    optimizer, backward, forward = read("//article//*[@class='changes']")
    assert optimizer.startswith("It creeps: the last 3 are worse and not approved, +16.3% in all since 2026-01-02.")
    assert f"in commit {team[REGRESSION][:10]} (bob: Use rotary embeddings)" in forward
    assert "✓ +10.0%" in forward
    assert "approved by carol on 2026-01-01: rotary embeddings (pull request 7)" in forward
    assert f"https://example.org/c/{team[REGRESSION]}" in page.xpath("//article//a/@href")
    assert "better" in backward
    assert "the machine changed in the same run: driver from 570.86 to 580.65" in backward
    for mark in ("tag", "machine"):
        assert len(page.xpath(f"//article//*[local-name()='text'][@class='{mark}']")) == 3
    assert read("//article//*[local-name()='text'][@class='tag']") == ["v2.0"] * 3
    [place] = read("//tbody/tr")
    assert "driver from 570.86 to 580.65 (2026-01-02) v2.0 (2026-01-02)" in place


def test_the_story_of_sixty_merges(team: list[str], perfgate: Command, folder: Path) -> None:
    everything = perfgate("history", "show")
    assert everything.code == 0
    assert [line.split()[0] for line in everything.out.splitlines() if " median " in line] == [
        *("optimizer", "backward", "forward")
    ]

    forward = perfgate("history", "forward").out
    assert "\n  +10." in forward
    assert f"in commit {team[REGRESSION][:10]} (bob: Use rotary embeddings)" in forward
    assert "approved by carol on 2026-01-01: rotary embeddings (pull request 7)" in forward
    assert "machine changed" not in forward

    backward = perfgate("history", "backward").out
    assert "\n  -6." in backward or "\n  -5.9" in backward
    assert "the machine changed in the same run: driver from 570.86 to 580.65" in backward
    assert "approved" not in backward

    creep = " ".join(perfgate("history", "optimizer").out.split())
    assert "It creeps: the last 3 are worse and not approved, +16.3% in all since 2026-01-02" in creep
    assert "approved by" not in creep

    see_the_page(team, perfgate, folder)

    misspelt = perfgate("history", "exprt")
    assert (misspelt.code, "did you mean `perfgate history export`?" in misspelt.err) == (3, True)

    before = perfgate("history", "show", "--json").out
    assert perfgate("history", "compact", "--all").code == 0
    assert perfgate("history", "show", "--json").out == before
    assert len(list((folder / "baselines/_history").rglob("*.json"))) == 1
    verified = perfgate("baseline", "verify")
    assert (verified.code, f"{MERGES} runs in the history" in verified.out) == (0, True)
