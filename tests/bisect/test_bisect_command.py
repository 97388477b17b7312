"""`perfgate bisect` on real repositories with real processes: what it answers, and what it leaves alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from conftest import Done, Repository, write_rules

Command = Callable[..., Done]

#: A program whose step takes so many seconds, with 1 % of noise that differs from run to run.
PROGRAM = """
import json, os, random
value = {seconds} * random.Random(os.environ["PERFGATE_RUN"] + "x").gauss(1, 0.01)
series = [{{"metric": "step_time", "unit": "s", "value": value}}]
with open(os.environ["PERFGATE_RESULTS"] + "/r.json", "w") as file:
    json.dump({{"schema": "perfgate.results/1", "series": series}}, file)
"""
RUN = ("--metric", "step_time", "--whole-runs", "--", sys.executable, "bench.py")


def commit(repository: Repository, seconds: float, subject: str) -> str:
    (repository.folder / "bench.py").write_text(PROGRAM.format(seconds=seconds) + f"# {subject}\n")
    repository.git("add", "bench.py")
    repository.git("commit", "-q", "-m", subject)
    return repository.git("rev-parse", "HEAD")


def history(folder: Path, seconds: Sequence[float]) -> tuple[Repository, list[str]]:
    repository = Repository(folder)
    return repository, [commit(repository, one, f"Change {number}") for number, one in enumerate(seconds)]


def said(done: Done) -> str:
    return " ".join(done.said.split())


def test_it_finds_the_commit_and_touches_nothing(perfgate: Command, folder: Path) -> None:
    repository, commits = history(folder, [0.1] * 5 + [0.11] * 4)
    (folder / "bench.py").write_text("this does not run")
    before = repository.git("for-each-ref"), repository.git("status", "--porcelain")
    words = ("bisect", "--good", commits[0], *RUN)
    done = perfgate(*words[:3], "--json", "o.json", "--html", "o.html", "--markdown", "o.md", *words[3:])
    assert done.code == 0, done.said
    assert f"✗ {commits[5][:12]} changed step_time by +" in done.out
    assert "probability: Change 5" in said(done)
    assert "uncommitted changes are left alone and are not measured" in done.err
    found = json.loads((folder / "o.json").read_text())
    assert (found["schema"], found["outcome"], found["exit_code"]) == ("perfgate.bisect/1", "found", 0)
    best = found["commits"][0]
    assert (best["commit"], best["author"], best["subject"]) == (commits[5], "ada", "Change 5")
    assert best["probability"] >= 0.95
    assert found["low"] < 0.1 < found["high"]
    assert found["runs"] <= 15
    assert "1 file changed" in best["diffstat"]
    assert "<svg" in (folder / "o.html").read_text()
    assert f"`{commits[5][:12]}`" in (folder / "o.md").read_text()
    for name in ("o.json", "o.html", "o.md"):
        (folder / name).unlink()
    assert (repository.git("for-each-ref"), repository.git("status", "--porcelain")) == before
    assert repository.git("worktree", "list").count("\n") == 0
    again = perfgate(*words)
    assert again.code == 0
    assert f"going on with {found['runs']} measurements" in again.err
    assert len(list((folder / "perfgate-bisect/measurements").iterdir())) == found["runs"]


def test_commits_that_do_not_build_share_the_blame(perfgate: Command, folder: Path) -> None:
    _, commits = history(folder, [0.1] * 3 + [0.12] * 3)
    build = f'{sys.executable} -c \'import sys; sys.exit("Change 3" in open("bench.py").read())\''
    done = perfgate("bisect", "--good", commits[0], "--build", build, *RUN)
    assert done.code == 0, done.said
    assert f"{commits[3][:12]} or {commits[4][:12]} changed step_time" in said(done)
    assert "was skipped: does not build: the command ended with exit code 1" in said(done)


def test_runs_are_counted_as_the_command_counts_them(perfgate: Command, folder: Path) -> None:
    """The trial by turns starts this program twice; one commit fails, and its neighbour shares the blame."""
    repository, commits = history(folder, [0.1] * 3)
    (folder / "bench.py").write_text("raise SystemExit(1)")
    repository.git("commit", "-q", "-am", "Broken")
    after = commit(repository, 0.2, "Change 4")
    commit(repository, 0.2, "Change 5")
    counted = f"open({str(folder.parent / 'started')!r}, 'a').write('x'); exec(open('bench.py').read())"
    words = ("--json", "o.json", *RUN[: RUN.index("--")], "--", sys.executable, "-c", counted)
    done = perfgate("bisect", "--good", commits[0], *(word for word in words if word != "--whole-runs"))
    assert done.code == 0, done.said
    found = json.loads((folder / "o.json").read_text())
    assert found["runs"] == len((folder.parent / "started").read_text())
    blamed = [one for one in found["commits"] if one["blamed"]]
    assert [one["subject"] for one in sorted(blamed, key=lambda one: one["position"])] == ["Broken", "Change 4"]
    assert f"or {after[:12]} changed step_time" in said(done)


def test_a_change_that_is_not_there_is_not_reproduced(perfgate: Command, folder: Path) -> None:
    _, commits = history(folder, [0.1] * 3)
    done = perfgate("bisect", "--good", commits[0], "--tolerance", "5%", *RUN)
    assert done.code == 3
    assert "? not reproduced: " in done.out
    assert "tolerance 5.0%" in said(done)


def test_runs_that_are_used_up_can_be_continued(perfgate: Command, folder: Path) -> None:
    _, commits = history(folder, [0.1] * 5 + [0.105] * 6)
    start = ("bisect", "--good", commits[0])
    done = perfgate(*start, "--max-runs", "3", *RUN)
    assert done.code == 3
    assert "undecided after 3 runs" in done.out
    assert "repeat the same command with --max-runs" in said(done)
    kept = (folder / "perfgate-bisect/measurements/002.json").read_text()
    assert perfgate(*start, *RUN).code == 0
    assert (folder / "perfgate-bisect/measurements/002.json").read_text() == kept
    other = perfgate("bisect", "--good", commits[1], *RUN)
    assert (other.code, "has a search that asks something else (items)" in other.err) == (2, True)
    assert "use another folder (--keep perfgate-bisect-2), or remove perfgate-bisect\n" in other.err


def test_a_corrected_command_needs_no_other_folder(perfgate: Command, folder: Path) -> None:
    _, commits = history(folder, [0.1] * 5)
    start = ("bisect", "--good", commits[0], "--max-runs", "2")
    done = perfgate(*start, "--json", "o.json", *RUN[:-1], "absent.py")
    assert (done.code, "correct the command" in said(done)) == (3, True)
    assert json.loads((folder / "o.json").read_text())["runs"] == 1
    assert "something else" not in perfgate(*start, *RUN).said


@pytest.mark.parametrize(
    ("trouble", "build", "why"),
    [
        ("raise SystemExit(2)", "true", "ended with exit code 2"),
        ("", "grep -q sound bench.py", "does not build: the command ended with exit code 1"),
    ],
    ids=["program", "build"],
)
def test_a_first_commit_that_fails_beside_the_last_is_named(
    perfgate: Command, folder: Path, trouble: str, build: str, why: str
) -> None:
    repository = Repository(folder)
    for text in (trouble, "import time  # sound\ntime.sleep(60)"):
        (folder / "bench.py").write_text(f"{text}\n")
        repository.git("add", "bench.py")
        repository.git("commit", "-q", "-m", "Change")
    good = repository.git("rev-parse", "HEAD~1")
    words = ("--metric", "step.time", "--build", build, "--", sys.executable, "bench.py")
    done = perfgate("bisect", "--good", good, *words)
    assert (done.code, f"an end cannot be measured: {good[:12]}: {why}" in said(done)) == (3, True), done.said


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.slow)]
)
def test_an_interrupted_search_goes_on(perfgate: Command, folder: Path, number: signal.Signals, code: int) -> None:
    repository, commits = history(folder, [0.1] * 4 + [0.13] * 4)
    words = ["bisect", "--good", commits[0], *RUN]
    root = Path(__file__).resolve().parent.parent.parent
    command = [sys.executable, "-m", "perfgate", *words]
    with subprocess.Popen(
        command, env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin"}, stderr=subprocess.PIPE
    ) as run:
        while not (folder / "perfgate-bisect/measurements/002.json").exists() and run.poll() is None:
            time.sleep(0.01)
        run.send_signal(number)
        _, errors = run.communicate()
    assert run.returncode == code, errors
    if code == 143:
        assert b"what was measured is kept in perfgate-bisect; the same command goes on from there" in errors
        assert repository.git("worktree", "list").count("\n") == 0
    done = perfgate(*words)
    assert done.code == 0, done.said
    assert f"{commits[4][:12]} changed step_time" in done.out
    assert "the search was interrupted 1 time" in said(done)
    assert repository.git("worktree", "list").count("\n") == 0


def test_a_build_that_is_interrupted_is_not_a_commit_that_does_not_build(perfgate: Command, folder: Path) -> None:
    repository, commits = history(folder, [0.1, 0.1, 0.13])
    started, go = folder / "started", folder / "go"
    build = f"sh -c 'touch {started}; test -e {go} || grep -q \"Change 0\" bench.py || sleep 60'"
    words = ["bisect", "--good", commits[0], "--build", build, *RUN]
    environment = {"PYTHONPATH": str(Path(__file__).resolve().parent.parent.parent), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "perfgate", *words]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, start_new_session=True) as run:
        while not (folder / "perfgate-bisect/measurements/001.json").exists() and run.poll() is None:
            time.sleep(0.01)
        started.unlink()  # of the first build
        while not started.exists() and run.poll() is None:
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate()
    assert (run.returncode, b"stopped by SIGINT: what was measured is kept" in errors) == (130, True), errors
    go.touch()
    done = perfgate(*words)
    assert done.code == 0, done.said
    assert f"{commits[2][:12]} changed step_time" in done.out
    assert "skipped" not in done.said
    assert repository.git("worktree", "list").count("\n") == 0


def test_a_merge_is_searched_inside(perfgate: Command, folder: Path) -> None:
    repository, commits = history(folder, [0.1, 0.1])
    repository.git("checkout", "-q", "-b", "side")
    sides = [commit(repository, seconds, f"Side {number}") for number, seconds in enumerate([0.1, 0.13, 0.13])]
    repository.git("checkout", "-q", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "Merge the side", "side")
    merge = repository.git("rev-parse", "HEAD")
    done = perfgate("bisect", "--good", commits[0], *RUN)
    assert f"{merge[:12]} changed step_time" in done.out
    done = perfgate("bisect", "--good", commits[0], "--full", *RUN)
    assert f"{sides[1][:12]} changed step_time" in done.out
    assert f"it came with the merge {merge[:12]}: Merge the side" in said(done)


def test_a_list_of_anything(perfgate: Command, folder: Path) -> None:
    seconds = "{'1.0': 0.1, '1.1': 0.1, '1.2': 0.15, '2.0': 0.15}"
    text = PROGRAM.format(seconds=f"{seconds}[os.environ['PERFGATE_ITEM']]")
    (folder / "bench.py").write_text(
        f"import sys\nassert sys.argv[1] == os.environ['PERFGATE_ITEM']\n{text}".replace("import sys", "import os, sys")
    )
    words = ("--metric", "step_time", "--whole-runs", "--build", "touch built-{item}", "--", sys.executable, "bench.py")
    done = perfgate("bisect", "--over", "1.0", "1.1", "1.2", "2.0", *words, "{item}")
    assert done.code == 0, done.said
    assert "✗ 1.2 changed step_time by +" in done.out
    assert (folder / "built-1.2").exists()


def test_a_rule_gives_metric_and_tolerance(perfgate: Command, folder: Path) -> None:
    _, commits = history(folder, [0.1, 0.1, 0.2])
    write_rules(folder, "step_time within 5% of baseline")
    words = ("--whole-runs", "--", sys.executable, "bench.py")
    done = perfgate("bisect", "--good", commits[0], "--rule", "step_time within 5% of baseline", *words)
    assert done.code == 0, done.said
    done = perfgate("bisect", "--good", commits[0], "--rule", "other", *words)
    assert (done.code, "unknown rule; the rules are step_time within" in done.err) == (2, True)


def test_steps_are_taken_by_turns(perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parent.parent.parent))
    repository = Repository(folder)
    for number, pause in enumerate([0.002, 0.002, 0.004, 0.004]):
        text = "import os, time, perfgate\nwith perfgate.Recorder(os.environ['PERFGATE_RESULTS'] + '/r.json') as rec:\n"
        text += f"    for _ in range(24):\n        with rec.step_span():\n            time.sleep({pause})\n# {number}\n"
        (folder / "bench.py").write_text(text)
        repository.git("add", "bench.py")
        repository.git("commit", "-q", "-m", f"Change {number}")
    words = ("--metric", "step.time", "--json", "o.json", "--", sys.executable, "bench.py")
    done = perfgate("bisect", "--good", "HEAD~3", *words)
    assert done.code == 0, done.said
    found = json.loads((folder / "o.json").read_text())
    assert found["paired"] is True
    assert found["commits"][0]["subject"] == "Change 2"
    assert found["change"] > 0.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--good", "HEAD", "--metric", "x"), "give the command to run after --"),
        (("--metric", "x", "--", "true"), "give --good REF (and --bad REF), or --from-history METRIC, or a list"),
        (("--good", "HEAD", "--", "true"), "give the metric to measure: --rule ID, or --metric NAME"),
        (("--over", "a", "--metric", "x", "--", "true"), "--over needs at least two items"),
        (("--over", "a", "b", "a", "--metric", "x", "--", "true"), "--over has a twice"),
        (("--over=a", "b", "a", "--metric", "x", "--", "true"), "--over has a twice"),
        (("--over", "a", "b", "--bad", "a", "--metric", "x", "--", "true"), "give --good REF (and --bad REF), or"),
        (("--over", "a", "b", "--metric", "x", "--tolerance", "5", "--", "true"), "a tolerance is a percentage"),
        (("--over", "a", "b", "--metric", "x", "--statistic", "q", "--", "true"), "no such statistic"),
    ],
)
def test_usage_errors(perfgate: Command, folder: Path, words: Sequence[str], message: str) -> None:
    done = perfgate("bisect", *words)
    assert (done.code, message in done.err) == (2, True), done.said


def test_refs_that_are_no_range(perfgate: Command, folder: Path) -> None:
    history(folder, [0.1, 0.1])
    done = perfgate("bisect", "--good", "HEAD", "--bad", "HEAD~1", *RUN)
    assert (done.code, "is not an ancestor of --bad HEAD~1: exchange them" in done.err) == (2, True)
    done = perfgate("bisect", "--good", "HEAD", *RUN)
    assert (done.code, "are the same commit" in done.err) == (2, True)
