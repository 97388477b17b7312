"""The answer as text, Markdown, JSON and a page, of a made report with a hostile subject."""

from __future__ import annotations

import json

from msgspec.structs import replace

from perfgate.core.causes import BisectReport, Cause, CauseReport, ItemEstimate, ItemSuspect, SearchedItem
from perfgate.reporters import bisect_text
from perfgate.reporters.html.page import render_bisect

HOSTILE = "Add <script>alert(1)</script> | a cell\x1b[31m ##[error] @team"
SHAS = [f"{number:040x}" for number in range(4)]
GOOD, BAD = ItemEstimate(0, SHAS[0], 2, 0.1, 0.098, 0.102), ItemEstimate(2, SHAS[2], 3, 0.11, 0.108, 0.112)
SKIPPED = ItemEstimate(1, SHAS[1], 0, None, None, None, "does not build")
REPORT = BisectReport(
    outcome="found",
    message=f"{SHAS[2][:12]} changed step_time by +10.0% (+8.0% to +12.0%), with 97.0 % probability: {HOSTILE}",
    next_step=f"look at what it changed: git show {SHAS[2][:12]}",
    metric="step_time",
    statistic="median",
    unit="s",
    larger_is_worse=True,
    noun="commit",
    first=SearchedItem(SHAS[0]),
    last=SearchedItem(SHAS[3]),
    positions=4,
    tolerance=0.02,
    confidence=0.95,
    change=0.1,
    low=0.08,
    high=0.12,
    runs=5,
    paired=False,
    noise=0.02,
    drift_per_hour=0.0,
    another=0.01,
    suspects=(ItemSuspect(2, SearchedItem(SHAS[2], "ada", "2026-01-01", HOSTILE, " 1 file changed"), 0.97, BAD),),
    blamed=(2,),
    measured=(GOOD, SKIPPED, BAD),
)


def test_the_terminal_names_the_commit_and_shows_what_was_measured() -> None:
    said = bisect_text.terminal(REPORT, width=100, ascii_only=True)
    assert "97.0 %  000000000000  Add <script>" in said
    assert "0  000000000000      100 ms (98 ms to 102 ms)            2 runs" in said
    assert "1  000000000000   skipped: does not build" in said
    assert "5 runs of 2 of 4 commits, noise of one run 2 %" in said
    assert "\x1b" not in said
    assert "##[error]" not in said


def test_markdown_is_a_table_that_no_subject_breaks() -> None:
    said = bisect_text.markdown(REPORT)
    row = next(line for line in said.splitlines() if line.startswith("| 97.0 %"))
    assert row.replace("\\|", "").count("|") == 6
    assert "`<script>alert(1)</script>`" in row  # as code, which GitHub shows as it is
    assert "`@team`" in row  # nobody is notified
    assert "- **next:** look at what it changed" in said


def test_json_has_base_units_and_every_field() -> None:
    found = json.loads(bisect_text.json(REPORT))
    assert found["schema"] == "perfgate.bisect/1"
    assert [found[name] for name in ("change", "low", "high", "runs", "exit_code")] == [0.1, 0.08, 0.12, 5, 0]
    assert found["commits"][0]["estimate"] == 0.11
    assert found["measured"][1]["skipped"] == "does not build"
    assert replace(REPORT, outcome="undecided").exit_code == 3


def test_the_page_names_the_causes() -> None:
    place = ("mix", "aten::linear <b>")
    cause = Cause("slower", place, "time", 0.002, 0.001, 0.003, 0.4)
    page = render_bisect(replace(REPORT, causes=CauseReport((cause,), 0.05, 0.055, 0.003, 0.001, 8, 8)))
    assert "What changed: whole step 50 → 55 ms, +5 ms (+10.0%); 8 base runs, 8 new runs</h2>" in page
    assert "<td>slower</td><td>mix / aten::linear &lt;b&gt;</td><td>+2 ms [+1, +3] per step, 40% of the change" in page
    assert "What changed" not in render_bisect(REPORT)


def test_the_page_runs_nothing_and_has_both_plots() -> None:
    page = render_bisect(REPORT)
    assert page.count("<svg") == 2
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert page == render_bisect(REPORT)
    assert "<svg" not in render_bisect(replace(REPORT, measured=(), suspects=()))
