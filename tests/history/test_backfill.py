"""Which commits settle a change, and measuring them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import Done
from histories import at, record, sha, steps, store_at
from histories import value as number_of

from perfgate.core.remembered_runs import CommitLine, CommitNote, HistoryRecord
from perfgate.core.run_history import BackfillPlan
from perfgate.history.backfill import backfill_plan
from perfgate.history.load import load
from perfgate.history.series import series_of
from perfgate.history.store import add, places, read

Command = Callable[..., Done]


def planned(folder: Path, measured: dict[int, float]) -> BackfillPlan:
    """The plan for the one change of a history with runs of some commits."""
    store = store_at(folder)
    for number, value in measured.items():
        add(store, record(number, {"forward": value}))
    line = CommitLine.of("main", [CommitNote(sha(i), at(i), "ada", f"commit {i}") for i in range(max(measured) + 1)])
    ((suite, environment),) = places(store)[0]
    ((series,), _) = series_of(read(store, suite, environment), line, ())
    (change,) = series.changes
    plan = backfill_plan(series, change, line)
    assert plan is not None
    return plan


def runs(*ranges: range, seed: int = 1) -> dict[int, float]:
    """Runs at two levels: those of the first range, and the others."""
    values = steps((len(ranges[0]), 0.1), (len(ranges[1]), 0.12), noise=0.003, seed=seed)
    return dict(zip([i for one in ranges for i in one], values, strict=True))


def test_a_gap_is_cut_in_the_middle(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    plan = planned(folder, runs(range(12), range(19, 30)))
    assert [one.commit.sha for one in plan.suspects] == [sha(i) for i in range(12, 20)]
    assert [one.here for one in plan.suspects] == pytest.approx([1 / 8] * 8, abs=0.01)
    first, second, third = plan.wanted[:3]
    assert first.commit.sha == sha(15)
    assert {second.commit.sha, third.commit.sha} == {sha(13), sha(17)}
    assert (first.bits, second.bits) == (pytest.approx(1, abs=0.01), pytest.approx(0.5, abs=0.01))
    assert not plan.is_settled


def test_neighbours_settle_a_change(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    plan = planned(folder, runs(range(12), range(12, 24)))
    assert plan.is_settled
    assert plan.most_likely.commit.sha == sha(12)


def repository(folder: Path, commits: int, change: int) -> list[str]:
    """Commits that each contain what the program measures; the one at `change` is 10 % slower."""
    rng, stream = np.random.default_rng(1), []
    for i in range(commits):
        centre = (110 if i >= change else 100) * np.exp(0.002 * rng.standard_normal())
        values = (centre + rng.standard_normal(40)).tolist()
        series = [{"metric": "forward", "unit": "ms", "values": values}]
        text = json.dumps({"schema": "perfgate.results/1", "series": series}) if i != change - 1 else "broken"
        stream.append(
            f"commit refs/heads/main\ncommitter ada <ada@example.org> {1767225600 + 3600 * i} +0000\n"
            f"data 1\n{i % 10}\nM 100644 inline results.json\ndata {len(text)}\n{text}\n"
        )
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=folder, check=True)
    subprocess.run(["git", "fast-import", "--quiet"], cwd=folder, input="".join(stream).encode(), check=True)
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=folder, check=True)
    listed = subprocess.run(["git", "rev-list", "--reverse", "main"], cwd=folder, capture_output=True, check=True)
    return listed.stdout.decode().split()


def test_backfill_measures_until_the_change_has_its_commit(
    folder: Path, perfgate: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    commits = repository(folder, 34, change=15)
    for i in (*range(12), *range(20, 34)):
        show = subprocess.run(["git", "show", f"{commits[i]}:results.json"], capture_output=True, check=True)
        Path("results.json").write_bytes(show.stdout)
        assert perfgate("history", "add", "results.json", "--head", commits[i]).code == 0

    shown = json.loads(perfgate("history", "backfill", "--json", "forward").out)
    assert len(shown["suspects"]) == 9
    assert commits[15] in {one["commit"] for one in shown["suspects"]}
    assert not shown["settled"]
    text = perfgate("history", "backfill", "forward").out
    assert "forward median changed by +10." in text
    assert "measure them with: perfgate history backfill forward -- COMMAND" in text

    done = perfgate("history", "backfill", "forward", "--", "sh", "-c", "kill -INT $PPID; sleep 60")
    step = "0 runs added to the history; the same command measures the others"
    assert (done.code, done.err.splitlines()[-1]) == (130, f"error: stopped by SIGINT: {step}")

    program = 'cp results.json "$PERFGATE_RESULTS/results.json"'
    # While the range becomes smaller, the change that was named stays the same. Each run has a build of its own.
    build = ("--build", f"sh -c 'echo built >> {folder}/built'")
    done = perfgate("history", "backfill", "forward", "--change", commits[20][:10], *build, "--", "sh", "-c", program)
    assert (folder / "built").read_text().count("built") == done.err.count("\nrun ") + done.err.startswith("run ")
    assert done.code in (0, 3), done.said
    assert "has no change in" not in done.said
    assert f"{commits[14][:10]} could not be measured" in done.err
    after = json.loads(perfgate("history", "backfill", "--json", "forward").out)
    left = [one["commit"] for one in after["suspects"] if one["probability"] > 0.05]
    assert left == [commits[14], commits[15]]  # one of them is broken, so they share the change
    assert not load(store_at(folder)).problems
    worktrees = subprocess.run(["git", "worktree", "list"], capture_output=True, text=True, check=True)
    assert len(worktrees.stdout.splitlines()) == 1

    # A program that deletes the history: only its own run is left.
    good = f"git show {commits[15]}:results.json > $PERFGATE_RESULTS/results.json"
    lost = f"rm -r '{folder}/baselines'; {good}"
    done = perfgate("history", "backfill", "forward", "--", "sh", "-c", lost)
    fault = "forward median has no lasting change: there is nothing to settle; 1 run added to the history"
    assert (done.code, done.err.splitlines()[-1]) == (3, f"error: {fault}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuch"], "the history has no metric 'nosuch': it has forward, steady"),
        (["forwrd"], "the history has no metric 'forwrd': did you mean forward?"),
        (["steady"], "steady median has no lasting change: there is nothing to settle"),
        (["forward", "--change", "abc"], "forward median has no change in abc; its changes are in"),
        (["*"], "* names several series (forward median, steady median): name one"),
    ],
)
def test_nothing_to_settle_says_why(
    folder: Path, perfgate: Command, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    store = store_at(folder)
    for i, value in enumerate(steps((12, 0.1), (12, 0.12), noise=0.002)):
        add(store, record(i, {"forward": value, "steady": 0.1}))
    done = perfgate("history", "backfill", *words)
    assert said in done.err
    assert done.code in (2, 3)


def test_a_metric_that_changed_its_unit_is_the_newest_one(folder: Path, perfgate: Command) -> None:
    store = store_at(folder)
    for number in range(12):
        one = record(number, {})
        values = (number_of("forward", 1.0, unit="B" if number > 6 else "s"),)
        add(store, HistoryRecord(one.suite, one.identity, one.run, values))
    done = perfgate("history", "backfill", "forward")
    assert (done.code, "forward median has no lasting change" in done.err) == (3, True), done.said


def test_a_history_that_cannot_be_read_has_no_plan(folder: Path, perfgate: Command) -> None:
    add(store_at(folder), record(1, {"forward": 1.0}))
    (path,) = Path("baselines").rglob("*.json")
    path.write_text("{")
    done = perfgate("history", "backfill", "forward")
    assert (done.code, path.name in done.err) == (3, True), done.said
