"""`perfgate init -- COMMAND`: from a command to a gate that remembers it, over nothing that is there."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Done, Repository

from perfgate.commands.init_from_command import missing_work, with_benchmark_json
from perfgate.commands.run_results import glob_of_path
from perfgate.core import Location
from perfgate.core.file_mappings import RunCommand
from perfgate.core.resource_limits import DEFAULT
from perfgate.mappings.document import load_mapping_files
from perfgate.workspace.ci_files import SYSTEMS, ci_file
from perfgate.workspace.starter_files import remembered

Command = Callable[..., Done]

#: A program whose times vary a little from run to run. The clock is not asked, so that a busy machine changes nothing.
TIMES = """
import json, os, random, sys
FACTOR = 1.0
near = FACTOR * random.gauss(1, 0.002)
times = [0.1 * near * random.gauss(1, 0.003) for _ in range(40)]
"""
#: The ways in which programs give their times away, and how `init` says that it read them.
WAYS = {
    "folder": (
        "rows = [{'metric': 'forward', 'unit': 's', 'values': times}]\n"
        "json.dump({'schema': 'perfgate.results/1', 'series': rows}, open(sys.argv[1] + '/t.json', 'w'))",
        "perfgate, in {results}",
        "forward",
    ),
    "working folder": (
        "rows = [{'metric': 'forward', 'unit': 's', 'values': times}]\n"
        "json.dump({'schema': 'perfgate.results/1', 'series': rows}, open(f'out-{os.getpid()}.json', 'w'))",
        "perfgate, in out-*.json",
        "forward",
    ),
    "printed": (
        "for i, t in enumerate(times): print(f'step {i} took {1000 * t:.4f} ms')",
        "the output, by a proposed mapping",
        "took",
    ),
    "requests": (
        'for i, t in enumerate(times): print(f\'INFO "{("GET", "PUT")[i % 2]} /users" 200 {1000 * t:.4f}ms\')',
        "the output, by a proposed mapping",
        "time",
    ),
    "table": (
        "with open('times.csv', 'w') as f:\n"
        "    f.write('size,run,latency_ms\\n' + ''.join(f'8,{i},{1000 * t}\\n' for i, t in enumerate(times)))",
        "times.csv, by a proposed mapping",
        "latency_ms",
    ),
    "one line": ("print(f'elapsed: {times[0] * 30:.5f} s')", "the output, by a proposed mapping", "elapsed"),
}


@pytest.fixture
def repository(folder: Path) -> Repository:
    """An empty repository."""
    return Repository(folder)


def program(folder: Path, way: str, factor: float = 1.0) -> list[str]:
    text = TIMES.replace("FACTOR = 1.0", f"FACTOR = {factor}") + WAYS[way][0] + "\n"
    (folder / "train.py").write_text(text)
    return [sys.executable, "train.py", "{results}"]


def some(names: Iterable[str], *quick: str) -> list[Any]:
    """Parameters, all of them slow but those that are always tried: each runs a program ten times."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.parametrize("way", some(WAYS, "folder", "requests"))
def test_from_a_command_to_a_gate(perfgate: Command, repository: Repository, way: str) -> None:
    folder = repository.folder
    done = perfgate("init", "--", *program(folder, way))
    assert done.code == 0, done.said
    shown = " ".join(done.out.split())
    assert f"read: {WAYS[way][1]}" in shown
    assert "run 3 of 3: " in done.err
    assert f" in {WAYS[way][2]}; a check takes " in shown.rpartition("this gate sees +")[2]
    assert "rules/perfgate.yaml: " in perfgate("rules", "check").out
    for words in (["run"], ["check"]):
        again = perfgate(*words)
        assert again.code == 0, again.said
    program(folder, way, factor=1.5)
    assert perfgate("run", "--runs", "3").code == 1
    assert perfgate("check").code == 1
    assert (folder / "perfgate-runs" / ".gitignore").is_file()
    assert not any(path.suffix == ".FAILED.txt" for path in (folder / "perfgate-runs").iterdir())


def test_requests_are_told_apart_by_their_words(perfgate: Command, repository: Repository) -> None:
    out = perfgate("init", "--", *program(repository.folder, "requests")).out
    assert 'time{method="GET"} median' in out
    assert 'time{method="PUT"} median' in out


def test_runs_that_differ_too_much_make_a_gate_of_pairs(perfgate: Command, repository: Repository) -> None:
    folder = repository.folder
    words = program(folder, "printed")
    text = (folder / "train.py").read_text()
    (folder / "train.py").write_text(text.replace("random.gauss(1, 0.002)", "float(os.environ['PERFGATE_RUN'])"))
    repository.git("add", "train.py")
    repository.git("commit", "-q", "-m", "the program")
    done = perfgate("init", "--", *words)
    assert "the gate makes pairs, in which base and new code take turns" in " ".join(done.out.split())
    assert not (folder / "baselines").exists()
    job = yaml.safe_load((folder / ".github" / "workflows" / "perf.yml").read_text())["jobs"]["gate"]
    assert job["steps"][-1]["with"] == {"paired": True, "pairs": 10}
    made = perfgate("run", "--runs", "2")  # rules/perfgate.yaml says `paired: true`
    assert "the base is " in made.err
    assert made.code in (0, 1, 3)
    assert (folder / "perfgate-runs" / "pair-002.json").is_file()


def test_a_command_without_numbers_is_gated_by_its_own_cost(perfgate: Command, repository: Repository) -> None:
    """As with a script that builds: it prints no time, and later nothing at all."""
    folder, work = repository.folder, "s = 0\nfor i in range({}): s += i * i\n"
    (folder / "build.py").write_text(work.format(500_000) + "print('built')\n")
    repository.git("add", "build.py")
    repository.git("commit", "-qm", "a program")
    done = perfgate("init", "--paired", "--", sys.executable, "build.py")
    assert done.code == 0, done.said
    assert "no results, so the whole command is measured" in done.out
    assert "- command." in (folder / "rules" / "training.yaml").read_text()
    assert "machine." not in done.out
    (folder / "build.py").write_text(work.format(4_000_000))
    slower = perfgate("run", "--runs", "4")
    assert slower.code == 1, slower.said


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("raise SystemExit('no data')", "ended with exit code 1: no data"),
        ("pass", "it wrote no file; it printed nothing"),
        ("print('all is well')", "the last are:\n  all is well"),
        ("open('model.bin', 'wb').write(bytes(99))", "it wrote model.bin; it printed nothing"),
        ("print('step 1 took 12 ms'); print('step 2 took 13 ms')", "the same bytes 3 times"),
        ("import sys; open(sys.argv[1] + '/notes.txt', 'w').write('hello')", "notes.txt"),
    ],
)
def test_a_command_without_results_writes_nothing(perfgate: Command, folder: Path, script: str, said: str) -> None:
    (folder / "train.py").write_text(script + "\n")
    done = perfgate("init", "--", sys.executable, "train.py", "{results}")
    assert done.code == 3, done.said
    assert said in done.err
    assert not (folder / "rules").exists()
    assert not (folder / ".github").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--"], "give the command to run after --"),
        (["one.json", "--", "true"], "not both"),
        (["--results", "*.json", "one.json"], "--results needs a command"),
        (["--", "A=1"], "after the variables"),
        (["--", "no-such-program"], "no-such-program cannot be started"),
    ],
)
def test_usage(perfgate: Command, folder: Path, words: list[str], said: str) -> None:
    done = perfgate("init", *words)
    assert done.code in (2, 3)
    assert said in done.err


def test_a_command_that_no_file_can_remember_is_not_measured(perfgate: Command, folder: Path) -> None:
    done = perfgate("init", "--", "sh", "-c", f"touch {folder}/ran", "x" * 1001)
    assert (done.code, done.err.count("\n")) == (2, 1), done.said
    assert (
        "cannot remember this command: an item of command must have at most 1000 characters; give a script instead"
        in done.err
    )
    assert not (folder / "ran").exists()


def test_nothing_is_run_over_an_existing_gate(perfgate: Command, folder: Path) -> None:
    (folder / "rules").mkdir()
    (folder / "rules" / "mine.yaml").write_text("version: 1\nrules: [forward under 1 s]\n")
    done = perfgate("init", "--", *program(folder, "printed"))
    assert (done.code, "mine.yaml" in done.err) == (2, True)
    assert not (folder / "perfgate-runs").exists()


def test_a_dry_run_measures_and_writes_nothing(perfgate: Command, folder: Path) -> None:
    done = perfgate("init", "--dry-run", "--", *program(folder, "printed"))
    assert done.code == 0, done.said
    assert "would write rules/perfgate.yaml" in done.out
    assert sorted(path.name for path in folder.iterdir()) == ["train.py"]


def test_variables_before_the_command_are_remembered(perfgate: Command, repository: Repository) -> None:
    words = program(repository.folder, "printed")
    script = repository.folder / "train.py"
    script.write_text("import os\nassert os.environ['THREADS'] == '2'\n" + script.read_text())
    assert perfgate("init", "--", "THREADS=2", *words).code == 0
    section = yaml.safe_load((repository.folder / "rules" / "perfgate.yaml").read_text())["run"]
    assert section == {"command": f"{sys.executable} train.py {{results}}", "env": {"THREADS": "2"}}
    assert perfgate("run").code == 0


def test_a_file_with_mappings_gets_the_section_at_its_end(perfgate: Command, repository: Repository) -> None:
    mine = "# mine\nmappings:\n  - {files: '*.log', lines: 'took {took} ms', metrics: {took: ms}}\n"
    (repository.folder / "rules").mkdir()
    path = repository.folder / "rules" / "perfgate.yaml"
    path.write_text(mine)
    done = perfgate("init", "--", *program(repository.folder, "printed"))
    assert done.code == 0, done.said
    assert path.read_text().startswith(mine)
    assert list(yaml.safe_load(path.read_text())) == ["mappings", "run"]
    assert perfgate("run").code == 0


@pytest.mark.parametrize("system", some(SYSTEMS, "github"))
def test_the_job_of_each_system(perfgate: Command, repository: Repository, system: str) -> None:
    place = ci_file(system).place
    done = perfgate("init", "--ci", system, "--", *program(repository.folder, "printed"))
    assert f"wrote {place}" in done.out
    text = (repository.folder / place).read_text()
    assert "train.py" not in text  # the command is in rules/perfgate.yaml
    if system in ("github", "gitlab", "buildkite"):
        assert yaml.safe_load(text)
    if system == "slurm":
        assert subprocess.run(["bash", "-n", place], check=False).returncode == 0


def test_pytest_writes_the_times_of_its_benchmarks(folder: Path) -> None:
    fake = folder / "pytest"
    fake.write_text("#!/bin/sh\necho '  --benchmark-json=PATH'\n")
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    option = "--benchmark-json={results}/benchmark.json"
    assert with_benchmark_json((str(fake), "tests")) == (str(fake), option, "tests")
    assert with_benchmark_json((str(fake), "--benchmark-json=x.json")) == (str(fake), "--benchmark-json=x.json")
    assert with_benchmark_json(("python", "train.py")) == ("python", "train.py")


@pytest.mark.parametrize(
    ("text", "is_hinted"),
    [
        ("import torch, perfgate\nwith perfgate.Recorder('x') as r: pass\n", True),
        ("import torch, perfgate\nwith perfgate.Recorder('x', work=True) as r: pass\n", False),
        ("import perfgate\nwith perfgate.Recorder('x') as r: pass\n", False),
        ("from transformers import Trainer\nTrainer(callbacks=[RecorderCallback('x')])\n", True),
        ("not python (\n", False),
    ],
)
def test_one_word_makes_a_gate_exact(folder: Path, text: str, is_hinted: bool) -> None:
    (folder / "train.py").write_text(text)
    hints = list(missing_work(("python", "train.py"), ()))
    assert [hint.startswith("train.py:2 records") for hint in hints] == [True] * is_hinted


USUAL = "import torch, perfgate\nwith perfgate.Recorder('x') as r: pass\n"


@pytest.mark.parametrize("text", ["1+" * 100_000 + "1", "(" * 9999 + ")" * 9999, "-" * 50_000 + "1", "a" + "()" * 9999])
def test_a_program_of_endless_code_has_no_hint(folder: Path, text: str) -> None:
    (folder / "train.py").write_text(f"{USUAL}x = {text}\n")
    list(missing_work(("python", "train.py"), ()))  # one version of Python reads more of it than another


def test_a_program_that_is_a_pipe_or_far_too_large_is_not_read(folder: Path) -> None:
    os.mkfifo(folder / "pipe.py")
    (folder / "huge.py").write_text(USUAL)
    os.truncate(folder / "huge.py", 1 << 40)  # without data: it needs no space
    (folder / "train.py").symlink_to("/dev/zero")
    assert not list(missing_work(("pipe.py", "huge.py", "train.py", "no\0.py", "a" * 5000 + ".py"), ()))


def test_a_program_deep_in_folders_is_read(folder: Path) -> None:
    deep = Path(*["d" * 100] * 20)
    (folder / deep).mkdir(parents=True)
    (folder / deep / "train.py").write_text(USUAL)
    [hint] = missing_work(("python", f"{deep}/train.py"), ())
    assert hint.startswith(f"{deep}/train.py:2 records")


@pytest.mark.parametrize(
    ("path", "glob"),
    [
        ("out.json", "out.json"),
        ("out-20260101-120000.json", "out-*.json"),
        ("log/host_12.1700000.pt.trace.json", "log/host_*.pt.trace.json"),
        ("outputs/2026-01-01/12-00-01/a[1].json", "outputs/*/*/a?*?.json"),
    ],
)
def test_the_glob_of_later_runs(path: str, glob: str) -> None:
    assert glob_of_path(Path(path)) == glob


@pytest.mark.parametrize(
    "word", ["", "a b", "'\"", "${{ x }}", "a\nb: c", "\x7f", "\x85", "\u2028", "\ufeff", "\U0001f600"]
)
def test_a_word_of_the_command_is_read_as_it_was_written(word: str) -> None:
    command = RunCommand(Location("x"), ("python", word), (word,) if word else (), env=(("A", word),))
    [found] = [load_mapping_files([("perfgate.yaml", remembered(command).encode())], DEFAULT).command]
    assert found is not None
    assert (found.words, found.results, found.env) == (command.words, command.results, command.env)
