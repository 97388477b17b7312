"""`perfgate run` with real processes: runs until settled, pairs by turns, and what may go wrong with them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, write_log, write_rules
from programs import HOOKED, hooked, plain, processes_that_stay

from perfgate.cli.printing import line
from perfgate.measuring.lockstep import side_of_turn

Command = Callable[..., Done]

PAIRED = ("run", "--paired", "--runs", "2", "--hook-timeout", "20s", "--timeout", "20s")


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that the tests start find this perfgate."""
    root = str(Path(__file__).resolve().parent.parent.parent)
    monkeypatch.setenv("PYTHONPATH", root)


def said(done: Done) -> str:
    return " ".join(done.said.split())


# --- runs until settled -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "code", "runs"), [(110, 0, 1), (90, 1, 1)])
def test_runs_go_on_until_every_verdict_is_settled(
    perfgate: Command, folder: Path, limit: int, code: int, runs: int
) -> None:
    """A pass settles a limit, and so does a failure: another run of the same program breaks it, too."""
    write_rules(folder, f"forward under {limit} ms")
    done = perfgate("run", "--runs", "5", "--", *plain(folder, 100.0))
    assert done.code == code
    assert f"run {runs} of at most 5: all decided" in done.err
    made = [f"run-{run:03}{end}" for run in range(1, runs + 1) for end in ("", ".log", ".log.machine")]
    kept = sorted(path.name for path in Path("perfgate-runs").iterdir())
    assert kept == [".gitignore", "machine-after.json", "machine-before.json", "report.json", *made]


def test_git_leaves_the_runs_out(perfgate: Command, repository: Repository, folder: Path) -> None:
    before = repository.git("status", "--porcelain")
    perfgate("run", "--runs", "1", "--", *plain(folder, 100.0, name="first0.json"))
    assert (folder / "perfgate-runs" / "run-001.log").exists()
    assert repository.git("status", "--porcelain") == before


def test_every_run_is_made_and_the_last_look_is_the_only_one(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 90 ms")
    done = perfgate("run", "--every", "--runs", "2", "--json", "r.json", "--", *plain(folder, 100.0))
    assert done.code == 1
    assert "run 1 of at most 2: all decided" in done.err
    assert json.loads((folder / "r.json").read_text())["verdicts"][0]["confidence"] == 0.95


def test_an_open_verdict_gets_all_runs_and_says_what_it_would_take(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 0.2% of baseline")
    base = [write_log(folder / f"base{i}.log", forward=[100.0 + 0.01 * i] * 50 + [100.1] * 50) for i in range(2)]
    assert perfgate("baseline", "approve", *base, "--reason", "first").code == 0
    done = perfgate("run", "--runs", "2", "--", *plain(folder, 100.3))
    assert done.err.count("of at most 2: ") == 1, "a log shows only what is new"
    assert "run 1 of at most 2: open: forward median" in done.err
    assert "of baseline" in done.out


def test_neither_side_gains_from_its_place_or_from_idle_threads(
    perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The length of the environment moves the data of a process, and threads that wait actively take a CPU."""
    monkeypatch.setenv("KMP_BLOCKTIME", "7")
    write_rules(folder, "t under 1 s")
    script = """if True:
        import json, os
        names = ("PERFGATE_LAYOUT", "OPENBLAS_THREAD_TIMEOUT", "KMP_BLOCKTIME")
        print("environment", *(os.environ[name] for name in names), file=open("seen.txt", "a"))
        document = {"schema": "perfgate.results/1", "series": [{"metric": "t", "unit": "s", "value": 0.1}]}
        open(os.environ["PERFGATE_RESULTS"] + "/r.json", "w").write(json.dumps(document))
    """
    words = shlex.join([sys.executable, "-c", script])
    perfgate("run", "--paired", "--every", "--runs", "2", "--base", words, "--new", words)
    seen = [line.split() for line in (folder / "seen.txt").read_text().splitlines()]
    assert len(seen) >= 4
    assert len({line[1] for line in seen}) >= 2  # they are drawn, so that two may be equal
    assert {tuple(line[2:]) for line in seen} == {("18", "7")}


def test_a_run_is_told_its_number_and_where_to_write(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "t under 0.5 s")
    document = '{"schema": "perfgate.results/1", "series": [{"metric": "t", "unit": "s", "value": {run}}]}'
    script = (
        "import os, sys; assert os.environ['PERFGATE_RUN'] == sys.argv[3]; open(sys.argv[1], 'w').write(sys.argv[2])"
    )
    done = perfgate("run", "--runs", "1", "--", sys.executable, "-c", script, "{results}/r.json", document, "{run}")
    assert done.code == 1, done.said
    assert json.loads(Path("perfgate-runs/run-001/r.json").read_text())["series"][0]["value"] == 1


def test_what_matches_the_globs_is_copied_and_older_files_are_not(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 s")
    (folder / "out").mkdir()
    write_log(folder / "out/old.log", forward=[1.0] * 9)
    program = [*plain(folder), ">", "out/new-{run}.log"]
    done = perfgate("run", "--runs", "1", "--results", "out/*.log", "--", "sh", "-c", " ".join(program))
    assert done.code == 0, done.said
    kept = sorted(path.name for path in Path("perfgate-runs/run-001/out").iterdir())
    assert kept == ["new-1.log", "new-1.log.machine"]


def test_a_file_of_yesterday_that_is_only_touched_is_no_measurement(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 s")
    write_log(folder / "old.log", forward=[1.0] * 9)
    done = perfgate("run", "--runs", "1", "--results", "*.log", "--", "touch", "old.log")
    why = "old.log has the same content as before the first run, so it does not count: remove it first"
    assert (done.code, why in done.said) == (3, True), done.said


def test_a_touched_file_beside_a_new_one_is_a_warning(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 s")
    write_log(folder / "old.log", forward=[5.0] * 9)
    program = [*plain(folder), ">", "new.log;", "touch", "old.log"]
    done = perfgate("run", "--runs", "2", "--every", "--results", "*.log", "--", "sh", "-c", " ".join(program))
    assert (done.code, done.err.count("warning: old.log has the same content")) == (0, 2), done.said
    assert not list(Path("perfgate-runs").rglob("old.log"))


def test_results_may_lie_outside_the_folder_of_the_command(
    perfgate: Command, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write_rules(folder, "forward under 1 s")
    outside = tmp_path_factory.mktemp("elsewhere")
    program = [*plain(folder), ">", f"{outside}/new.log"]
    done = perfgate("run", "--runs", "1", "--results", f"{outside}/*.log", "--", "sh", "-c", " ".join(program))
    assert done.code == 0, done.said
    [kept] = Path("perfgate-runs/run-001").rglob("new.log")
    assert kept.read_bytes() == (outside / "new.log").read_bytes()


def test_the_time_budget_begins_no_run_that_would_end_later(perfgate: Command, folder: Path) -> None:
    (folder / "rules").mkdir()
    rule = "{assert: forward p99 under 102 ms, on_inconclusive: error}"
    (folder / "rules" / "rules.yaml").write_text(f"version: 1\nrules:\n  - {rule}\n")
    done = perfgate("run", "--runs", "9", "--time-budget", "0.1s", "--", *plain(folder))
    assert "run 2 would exceed the time budget" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run",), "give the command to run after --"),
        (("run", "--base-ref", "main", "--", "true"), "--base-ref needs --paired"),
        (("run", "--paired", "--base-ref", "HEAD", "--base", "true", "--", "true"), "--paired has one base"),
        (("run", "--paired", "--new", "true", "--", "true"), "one new side"),
        (("run", "--paired", "--base", "true"), "give the command to run after --"),
        (("run", "--time-budget", "soon", "--", "true"), "write 90s, 10m or 1h"),
        (("run", "--paired", "--base", "'", "--", "true"), "closing quotation"),
        (("run", "--paired", "--base-ref", "no-such-ref", "--", "true"), "no-such-ref cannot be read"),
    ],
)
def test_usage(perfgate: Command, repository: Repository, words: tuple[str, ...], message: str) -> None:
    done = perfgate(*words)
    assert done.code == (3 if "no-such-ref" in words else 2)
    assert message in done.err


def test_a_second_run_in_the_same_folder_keeps_the_earlier_runs_aside(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 s")
    for _ in range(3):
        assert perfgate("run", "--", *plain(folder)).code == 0
    names = [
        "machine-after.json",
        "machine-before.json",
        "report.json",
        "run-001",
        "run-001.log",
        "run-001.log.machine",
    ]
    for place in ("earlier-001", "earlier-002"):
        assert sorted(path.name for path in Path("perfgate-runs", place).iterdir()) == names
    assert sorted(path.name for path in Path("perfgate-runs").iterdir()) == [
        *(".gitignore", "earlier-001", "earlier-002"),
        *names,
    ]


def test_files_of_others_are_not_moved(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward under 1 s")
    Path("perfgate-runs").mkdir()
    Path("perfgate-runs/notes.txt").write_text("mine")
    done = perfgate("run", "--", *plain(folder))
    assert done.code == 2
    assert "--keep perfgate-runs: is not empty: it has notes.txt, which `perfgate run` did not write" in done.err


def test_a_terminal_sees_which_run_is_made_and_how_long_the_rest_takes(
    perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rules(folder, "forward under 1 s")
    words = ("run", "--every", "--runs", "2", "--time-budget", "2h", "--", *plain(folder))
    assert "so far" not in perfgate(*words).said
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.delenv("CI", raising=False)
    done = perfgate(*words)
    assert "\rrun 1 of at most 2: 0 s so far, at most 2.0 h left\x1b[K" in done.err
    assert "\rrun 2 of at most 2: 0 s so far, at most " in done.err
    assert "\r\x1b[Krun 1 of at most 2: all decided" in done.err
    assert "so far" not in done.out


@pytest.mark.parametrize(
    ("spent", "left", "words"),
    [
        (0.4, None, "run 1 of 5: 0 s so far"),
        (12.0, 40.0, "run 1 of 5: 12 s so far, at most 28 s left"),
        (50.0, 40.0, "run 1 of 5: 50 s so far, at most 0 s left"),
        (125.0, 9000.0, "run 1 of 5: 2 min so far, at most 2.5 h left"),
    ],
)
def test_the_line_of_progress_is_plain_words(spent: float, left: float | None, words: str) -> None:
    assert line("run 1 of 5", spent, left) == words


def test_rules_in_error_are_said_before_anything_runs(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward undr 1 s")
    done = perfgate("run", "--", "touch", "ran")
    assert (done.code, "could not be written" in done.said) == (2, False)
    assert not Path("ran").exists()


# --- by turns ---------------------------------------------------------------------------------------------------------


def test_the_order_is_base_new_new_base() -> None:
    assert [side_of_turn(turn, True) for turn in range(6)] == ["new", "base", "base", "new", "new", "base"]
    assert [side_of_turn(turn, False) for turn in range(6)] == ["base", "new", "new", "base", "base", "new"]


def test_steps_are_taken_by_turns(perfgate: Command, in_short: Command, folder: Path) -> None:
    write_rules(folder, "step.time within 60% of baseline")
    words = shlex.join(hooked(folder))
    done = in_short(*PAIRED, "--runs", "1", "--base", words, "--new", words)
    assert "1 pair, steps by turns in two processes" in said(perfgate("check", "perfgate-runs/pair-001.json", "-v"))
    assert "perfgate-runs" not in done.out or done.code in (0, 1)
    # What a side notes after a boundary it notes in its turn; the free first and the last steps may meet.
    turns = [turn for turn in Path("turns.txt").read_text().split() if 2 <= int(turn[1:]) <= 26]
    blocks = [{turn[1:] for turn in turns[i : i + 2]} for i in range(0, len(turns), 2)]
    assert all(len(block) == 1 for block in blocks), turns


def test_a_slower_new_side_fails_and_the_base_is_a_clean_checkout(perfgate: Command, repository: Repository) -> None:
    folder = repository.folder
    write_rules(folder, "step.time within 5% of baseline")
    hooked(folder)
    repository.git("add", "train.py")
    repository.commit("the base")
    hooked(folder, factor="2")
    done = perfgate(*PAIRED, "--base-ref", "main", "--policy-ref", "main", "--", sys.executable, "train.py")
    assert done.code == 1, done.said
    assert "in the paired base" in said(done)
    assert repository.git("worktree", "list").count("\n") == 0


def test_a_program_without_steps_alternates_whole_runs(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "forward within 10% of baseline")
    base, new = plain(folder, 100.0), plain(folder, 100.1)
    done = perfgate(*PAIRED, "--base", shlex.join(base), "--", *new)
    assert done.code == 0, done.said
    assert "whole runs of both sides alternate instead" in done.err
    assert "whole runs by turns" in done.out


def test_sides_that_do_not_fit_into_memory_at_once_alternate_whole_runs(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step.time within 60% of baseline")
    full = "os.environ.get('PERFGATE_SIDE') and sys.exit('torch.OutOfMemoryError: CUDA out of memory. Tried to ...')"
    words = hooked(folder, trouble=full)
    done = perfgate(*PAIRED, "--base", shlex.join(words), "--", *words, "trouble")
    assert "the sides do not fit into memory at once (the new side ended with exit code 1: torch.OutOf" in said(done)
    assert "whole runs of both sides alternate instead" in said(done)
    assert "whole runs by turns" in done.out
    assert (done.code, Path("perfgate-runs/pair-001/new.FAILED.txt").exists()) == (0, True), done.said


def test_a_side_that_never_fits_into_memory_is_no_verdict(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step.time within 60% of baseline")
    words = hooked(folder, trouble="raise MemoryError('no room')")
    done = perfgate(*PAIRED, "--base", shlex.join(words), "--", *words, "trouble")
    assert (done.code, "the new side: the command ended with exit code 1: MemoryError: no room" in said(done)) == (
        3,
        True,
    )


def test_fewer_steps_on_one_side_are_said_and_cut(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step.time within 60% of baseline")
    words = hooked(folder)
    done = perfgate(*PAIRED, "--runs", "1", "--base", shlex.join(["env", "STEPS=20", *words]), "--", *words)
    assert "the new side took 30 steps of step.time, the other side 20: using as many steps as both have" in done.err
    series = json.loads(Path("perfgate-runs/pair-001.json").read_text())["series"]
    assert [len(one["values"]) for one in series] == [20, 20]


def test_a_tool_that_measures_for_a_time_may_have_fewer_values_in_pairs(perfgate: Command, folder: Path) -> None:
    """The rounds of pytest-benchmark depend on the load: fewer of them are no job that died."""
    write_rules(folder, "test_a median within 20% of baseline")
    (folder / "bench.py").write_text(
        "import json, os, random\n"
        "rounds, name = (900, 200)[os.environ['SIDE'] == 'new'], os.environ['PERFGATE_RESULTS'] + '/b.json'\n"
        "data = [random.gauss(0.01, 0.0001) for _ in range(rounds)]\n"
        "one = {'name': 'test_a', 'fullname': 'test_a', 'group': None, 'params': None,"
        " 'stats': {'rounds': rounds, 'data': data, 'iterations': 1}}\n"
        "json.dump({'machine_info': {}, 'commit_info': {}, 'version': '4.0.0', 'benchmarks': [one]}, open(name, 'w'))\n"
    )
    words = [sys.executable, "bench.py"]
    base, new = (shlex.join(["env", f"SIDE={side}", *words]) for side in ("base", "new"))
    done = perfgate("run", "--paired", "--runs", "4", "--base", base, "--new", new)
    assert done.code == 0, done.said
    assert "using as many steps" not in done.err


@pytest.mark.parametrize("side", ["base", "new"])
@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        ("raise ValueError('no such layer')", "side ended with exit code 1: ValueError: no such layer"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "side was killed by SIGKILL"),
        ("time.sleep(600)", "side hangs: nothing for 2 s after step 10"),
    ],
    ids=["crash", "kill", "hang"],
)
def test_a_side_that_fails_ends_both(perfgate: Command, folder: Path, side: str, trouble: str, reason: str) -> None:
    write_rules(folder, "step.time within 60% of baseline")
    good = hooked(folder, trouble)
    words = {"base": good, "new": good, side: [*good, "trouble"]}
    timeout = ("--timeout", "2s") if "sleep" in trouble else ()
    done = perfgate(*PAIRED, *timeout, "--base", shlex.join(words["base"]), "--", *words["new"])
    assert done.code == 3
    assert f"pair 1: the {side} {reason}" in said(done)
    assert (Path("perfgate-runs/pair-001") / side / "results.json").exists()
    assert reason in (Path("perfgate-runs/pair-001") / f"{side}.FAILED.txt").read_text()
    assert not processes_that_stay(str(folder))


def test_forks_that_stay_are_ended(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "step.time within 60% of baseline")
    sleeper = (
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', os.getcwd()], start_new_session=True)"
    )
    words = [*hooked(folder, sleeper), "trouble"]
    perfgate(*PAIRED, "--runs", "1", "--base", shlex.join(words), "--", *words)
    assert Path("perfgate-runs/pair-001.json").exists()
    assert not processes_that_stay(str(folder))


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((sys.executable, "-c", ""), "the command printed no number that perfgate reads, and wrote no results"),
        (("no-such-program",), "no-such-program cannot be started"),
    ],
    ids=["prints nothing", "cannot start"],
)
def test_nothing_measured_is_no_pass(perfgate: Command, folder: Path, words: tuple[str, ...], reason: str) -> None:
    write_rules(folder, "t within 5% of baseline")
    done = perfgate(*PAIRED, "--base", shlex.join(words), "--", *words)
    assert done.code == 3
    assert reason in said(done)


def test_a_base_that_does_not_build(perfgate: Command, repository: Repository) -> None:
    repository.commit("nothing to build")
    (repository.folder / "built").touch()
    done = perfgate(*PAIRED, "--base-ref", "main", "--build", "cat built", "--", "true")
    assert done.code == 3
    assert "the base side does not build" in said(done)
    assert repository.git("worktree", "list").count("\n") == 0


@pytest.mark.parametrize(
    ("build", "is_for_a_shell"),
    [
        ("test ! -f perfgate.toml || false", True),
        ("! test -f .", True),
        ("cat absent > log", True),
        ("false; true", True),
        ("sh -c 'false; false'", False),
        ("find absent -exec true ;", False),
    ],
)
def test_a_build_that_is_a_line_for_a_shell(perfgate: Command, folder: Path, build: str, is_for_a_shell: bool) -> None:
    write_rules(folder, "t within 5% of baseline")
    done = perfgate(*PAIRED, "--base", "true", "--build", build, "--", "true")
    assert (done.code, "the base side does not build" in said(done)) == (3, True)
    assert ("--build runs no shell: write sh -c '...'" in said(done)) == is_for_a_shell


def test_a_build_that_is_interrupted_is_not_a_side_that_does_not_build(folder: Path) -> None:
    write_rules(folder, "t within 5% of baseline")
    build = ("--build", "sh -c 'touch half-way; sleep 60'")
    command = [sys.executable, "-m", "perfgate", *PAIRED, "--base", "true", *build, "--", "true"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
    deadline = time.monotonic() + 30
    while not (folder / "half-way").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, "stopped by SIGTERM" in out) == (143, True), out
    assert "does not build" not in out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_both_sides_and_keeps_what_was_measured(folder: Path, number: signal.Signals) -> None:
    write_rules(folder, "step.time within 0.1% and 1 ns of baseline")
    (folder / "slow.py").write_text(
        HOOKED.format(trouble="open('half-way', 'w'); time.sleep(600)", factor="1", turns=str(folder / "turns.txt"))
    )
    words = [sys.executable, str(folder / "slow.py"), "trouble"]
    command = [sys.executable, "-m", "perfgate", *PAIRED, "--base", shlex.join(words), "--", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder)
    deadline = time.monotonic() + 30
    while not (folder / "half-way").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 128 + number, out
    assert f"stopped by {number.name}" in out
    assert (folder / "perfgate-runs/pair-001/base/results.json").exists()
    assert not processes_that_stay(str(folder / "slow.py"))


# --- in one process ---------------------------------------------------------------------------------------------------


def test_a_pair_in_one_process_is_judged_like_any(perfgate: Command, folder: Path) -> None:
    from perfgate import pair

    calls: list[str] = []
    found = pair(
        lambda: calls.append("base"),
        lambda: (calls.append("new"), time.sleep(0.001)),
        steps=12,
        results=folder / "pair.json",
    )
    assert calls[:8] == ["base", "new", "new", "base"] * 2
    assert (len(found.base), len(found.new)) == (12, 12)
    done = perfgate("compare", "--paired", "pair.json", "--tolerance", "10%")
    assert done.code == 3, done.said
    assert "steps by turns in one process" in said(done)


def test_a_pair_wants_some_steps_and_passes_errors_on() -> None:
    from perfgate import pair

    with pytest.raises(ValueError, match="8 or more"):
        pair(int, int, steps=3)
    with pytest.raises(ZeroDivisionError):
        pair(int, lambda: 1 / 0)


def test_the_fixture_records_a_pair(perfgate: Command, folder: Path) -> None:
    (folder / "test_it.py").write_text(
        "import time\ndef test_sum(perfgate_pair):\n    perfgate_pair(lambda: None, lambda: time.sleep(0.001))\n"
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "perfgate.integrations.pytest_plugin", "test_it.py"]
    for more in ([], ["--perfgate-json", "r.json"]):
        # The plugin is named, for nobody knows whether an installation has registered it.
        alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        assert subprocess.run([*words, *more], cwd=folder, check=False, env=alone).returncode == 0
    write_rules(folder, '"test_it.py::test_sum" within 5% of baseline')
    done = perfgate("check", "r.json")
    assert (done.code, "UNDECIDED" in done.out) == (3, True), done.said  # one pair is no proof
    assert "steps by turns in one process" in done.out


def test_a_command_that_prints_nothing_is_measured_each_time(perfgate: Command, folder: Path) -> None:
    """The output of every run is the same, and what was measured is not."""
    write_rules(folder, "command.time under 1 h")
    assert perfgate("run", "--runs", "1", "--", "true").code == 0
    assert perfgate("baseline", "approve", "--reason", "first").code == 0
    again = perfgate("run", "--runs", "2", "--every", "--", "true")
    assert again.code == 0, again.said
    assert perfgate("baseline", "add").code == 0
    assert perfgate("baseline", "add").code == 1
