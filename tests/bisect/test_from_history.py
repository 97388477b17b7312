"""`perfgate bisect --from-history`: a change of the history gives metric, range, noise and the levels of the ends."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from conftest import Done, Repository, write_rules

Command = Callable[..., Done]

PROGRAM = """
import json, os, random
value = {seconds} * random.Random(os.environ["PERFGATE_RUN"] + "y").gauss(1, 0.01)
with open(os.environ["PERFGATE_RESULTS"] + "/r.json", "w") as file:
    series = [{{"metric": "step_time", "unit": "s", "value": value}}]
    json.dump({{"schema": "perfgate.results/1", "series": series}}, file)
"""
RUN = ("--whole-runs", "--", sys.executable, "bench.py")


def story(folder: Path, seconds: Sequence[float], measured: Iterable[int]) -> list[str]:
    """A repository with a commit for each number, and the measured ones in its history."""
    repository, stream, rows = Repository(folder), [], ["time,commit,metric,value,unit"]
    for number, one in enumerate(seconds):
        text, subject = PROGRAM.format(seconds=one) + f"# {number}\n", f"Change {number}"
        who = f"committer ada <ada@example.org> {1767225600 + number} +0000"
        stream += ["commit refs/heads/main", who, f"data {len(subject)}\n{subject}", "M 100644 inline bench.py"]
        stream += [f"data {len(text)}\n{text}"]
    subprocess.run(["git", "fast-import", "--quiet"], cwd=folder, input="\n".join(stream), text=True, check=True)
    repository.git("reset", "-q", "--hard")
    commits = repository.git("rev-list", "--reverse", "HEAD").split()
    for number in measured:
        value = seconds[number] * random.Random(number).gauss(1, 0.01)
        time = f"2026-01-{1 + number // 24:02d}T{number % 24:02d}:00:00Z"
        rows.append(f"{time},{commits[number]},step_time,{value},s")
    (folder / "history.csv").write_text("\n".join(rows) + "\n")
    return commits


def test_the_newest_worse_change_gives_the_range_and_the_noise(perfgate: Command, folder: Path) -> None:
    commits = story(folder, [0.1] * 26 + [0.1] * 5 + [0.11] * 13, measured=[*range(26), *range(34, 44)])
    assert perfgate("history", "import", "history.csv").code == 0
    shown = perfgate("history", "step_time")
    assert "find the commit: perfgate bisect --from-history step_time -- COMMAND" in shown.out
    done = perfgate("bisect", "--from-history", "step_time", "--json", "o.json", *RUN)
    assert done.code == 0, done.said
    assert f"searching 9 commits after {commits[25][:12]}, up to {commits[34][:12]}" in done.err
    assert f"26 stored runs of the level of {commits[25][:12]} count, as long as new ones agree" in done.err
    assert f"10 stored runs of the level of {commits[34][:12]} count, as long as new ones agree" in done.err
    found = json.loads((folder / "o.json").read_text())
    assert found["commits"][0]["commit"] == commits[31]
    assert [found["good"], found["bad"]] == [commits[25], commits[34]]
    assert found["runs"] <= 6
    assert any("36 stored runs count as measurements of the ends" in note for note in found["notes"])


def test_what_the_history_cannot_give_is_said(perfgate: Command, folder: Path) -> None:
    commits = story(folder, [0.1] * 14 + [0.12] * 12, measured=range(26))
    assert perfgate("bisect", "--from-history", "step_time", *RUN).code == 3
    assert perfgate("history", "import", "history.csv").code == 0
    done = perfgate("bisect", "--from-history", "step_time", *RUN)
    assert done.code == 0
    assert f"the history names the commit already: {commits[14][:10]} (ada: Change 14)" in done.err
    assert "find the commit" not in perfgate("history", "step_time").out
    done = perfgate("bisect", "--from-history", "step_time", "--change", "2", *RUN)
    assert f"step_time mean has no such change; its changes are 1 ({commits[14][:10]})" in done.err
    done = perfgate("bisect", "--from-history", "steptime", *RUN)
    assert (done.code, "did you mean step_time" in done.err) == (3, True)
    done = perfgate("bisect", "--from-history", "step_time", "--good", commits[8], "--max-runs", "2", *RUN)
    assert f"searching 6 commits after {commits[8][:12]}, up to {commits[14][:12]}" in done.err


def test_outside_of_a_repository_it_asks_for_a_clone(
    perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(folder.parent))
    rows = [f"2026-01-{1 + n:02},{n:02}c0ffee{n:02},forward,{(1.0, 1.2)[n > 9] + n % 3 / 1000}" for n in range(20)]
    (folder / "old.csv").write_text("\n".join(["time,commit,metric,value", *rows]))
    assert perfgate("history", "import", "old.csv").code == 0
    done = perfgate("bisect", "--from-history", "forward", "--change", "1", *RUN)
    assert (done.code, "no git repository here; run the command in a clone of it" in done.err) == (3, True), done.said


def test_a_branch_that_git_does_not_know_is_an_error(perfgate: Command, folder: Path) -> None:
    story(folder, [0.1] * 12, measured=range(12))
    assert perfgate("history", "import", "history.csv").code == 0
    done = perfgate("history", "show", "--ref", "mian")
    assert (done.code, "--ref mian: unknown branch or commit in this clone" in done.err) == (3, True), done.said
    assert perfgate("history", "show", "--ref", "HEAD").code == 0


def test_a_metric_without_a_change_has_nothing_to_search(perfgate: Command, folder: Path) -> None:
    story(folder, [0.1] * 12, measured=range(12))
    assert perfgate("history", "import", "history.csv").code == 0
    done = perfgate("bisect", "--from-history", "step_time", *RUN)
    assert (done.code, "step_time mean has no lasting change in its 12 runs" in done.err) == (3, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--from-history", "a", "--metric", "a"), "--from-history gives metric and range: leave out --metric"),
        (("--change", "1", "--good", "HEAD", "--metric", "a"), "--change and --environment need --from-history METRIC"),
    ],
)
def test_usage(perfgate: Command, folder: Path, words: Sequence[str], message: str) -> None:
    done = perfgate("bisect", *words, "--", "true")
    assert (done.code, message in " ".join(done.err.split())) == (2, True), done.err


def test_runs_of_a_baseline_count_if_they_are_of_the_good_commit(perfgate: Command, folder: Path) -> None:
    commits = story(folder, [0.1, 0.1, 0.12], measured=())
    write_rules(folder, "step_time within 5% of baseline")
    for number in range(6):
        series = [{"metric": "step_time", "unit": "s", "value": 0.1 * random.Random(number).gauss(1, 0.01)}]
        (folder / f"b{number}.json").write_text(json.dumps({"schema": "perfgate.results/1", "series": series}))
    runs = [f"b{number}.json" for number in range(6)]
    assert perfgate("baseline", "approve", *runs, "--head", commits[0], "--reason", "first").code == 0
    rule = ("--rule", "step_time within 5% of baseline")
    done = perfgate("bisect", "--good", commits[0], *rule, *RUN)
    assert done.code == 0, done.said
    assert f"6 stored runs of the level of {commits[0][:12]} count, as long as new ones agree" in done.err
    other = perfgate(
        "bisect", "--good", commits[0], "--keep", "other", "--max-runs", "2", "--env", "gpu=H200", *rule, *RUN
    )
    assert "stored runs" not in other.err
