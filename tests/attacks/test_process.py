"""The surroundings of the process: little memory, a date that is none, pipes without another end, endless folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, steady, write_log, write_rules, write_run

Command = Callable[..., Done]
ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")


@pytest.fixture
def passing(folder: Path) -> Path:
    write_rules(folder, "forward p95 under 120 ms")
    write_log(folder / "new.log", forward=steady(100))
    return folder


def shell(script: str, **more: str) -> subprocess.CompletedProcess[str]:
    program = f'perfgate() {{ "{sys.executable}" -m perfgate "$@"; }}\n{script}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **more}
    words = ["bash", "-c", program]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=120)


@posix
@pytest.mark.parametrize("kilobytes", [20_000, 40_000, 80_000, 130_000, 200_000])
def test_little_memory_is_said_and_is_no_regression(passing: Path, kilobytes: int) -> None:
    """OpenBLAS would end the process with 1, or wait for ever."""
    done = shell(f"ulimit -v {kilobytes}; perfgate check new.log")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1), done.stderr
    assert "memory" in done.stderr
    assert "ulimit -v" in done.stderr


@posix
def test_enough_memory_is_enough_on_any_number_of_cores(passing: Path) -> None:
    done = shell("ulimit -v 300000; perfgate check new.log")
    assert done.returncode == 0, done.stderr


def test_an_input_that_needs_more_memory_than_there_is_cannot_be_judged(
    perfgate: Command, passing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(request: object) -> None:
        raise MemoryError

    monkeypatch.setattr("perfgate.commands.check.check", full)
    done = perfgate("check", "new.log", "--json", "r.json")
    assert (done.code, "not enough memory" in done.err) == (3, True)
    assert json.loads((passing / "r.json").read_text())["exit_code"] == 3


@pytest.mark.parametrize(("epoch", "code"), [("", 0), (" ", 0), ("0", 0), ("soon", 2), ("1e9", 2), ("9" * 30, 2)])
@pytest.mark.parametrize("command", ["check new.log", "compare new.log --new other.log"])
def test_a_date_that_is_none_is_said(passing: Path, command: str, epoch: str, code: int) -> None:
    write_log(passing / "other.log", forward=steady(100, seed=2))
    done = shell(f"perfgate {command} --junit j.xml", SOURCE_DATE_EPOCH=epoch)
    is_said = "SOURCE_DATE_EPOCH is" in done.stderr
    assert (is_said, done.returncode in ((2,) if code else (0, 3))) == (code == 2, True), done.stderr


@posix
@pytest.mark.parametrize(
    ("words", "code"),
    [("check pipe", 3), ("check new.log --env pipe", 2), ("inspect pipe", 3), ("check new.log --json pipe", 2)],
)
def test_a_pipe_without_another_end_does_not_hang(
    passing: Path, perfgate: Command, monkeypatch: pytest.MonkeyPatch, words: str, code: int
) -> None:
    for module in ("input_files", "output_files"):
        monkeypatch.setattr(f"perfgate.workspace.{module}.PATIENCE_S", 0.2)
    os.mkfifo("pipe")
    done = perfgate(*words.split())
    assert (done.code, "this pipe" in " ".join(done.said.split())) == (code, True), done.said


@posix
def test_a_pipe_whose_writer_is_late_is_read(passing: Path) -> None:
    hasty = (
        "import perfgate.workspace.input_files as files; from perfgate.__main__ import main; files.PATIENCE_S = 0.3;"
        "main()"
    )
    os.mkfifo("pipe")
    assert shell("(sleep 0.6; cat new.log > pipe) & perfgate check pipe").returncode == 0
    assert shell(f"{sys.executable} -c '{hasty}' check <(sleep 0.8; cat new.log)").returncode == 0
    assert shell("perfgate env > env.json; perfgate check new.log --env <(cat env.json)").returncode == 0


@posix
@pytest.mark.parametrize("target", ["/", "../elsewhere"])
@pytest.mark.parametrize("name", ["baselines", "rules"])
def test_a_link_out_of_the_repository_is_not_walked(
    repository: Repository, perfgate: Command, folder: Path, name: str, target: str
) -> None:
    """Neither with the working tree's own files, nor to say how they differ from the base."""
    (folder.parent / "elsewhere").mkdir(exist_ok=True)
    (folder / name).rename(folder / "moved")
    (folder / name).symlink_to(target)
    run = write_run(folder / "new.json", seed=9)
    for words in (["check", run], ["baseline", "list"], ["baseline", "verify"]):
        if words[0] == "check" or name == "baselines":
            done = perfgate(*words)
            assert (done.code, "is a link that leads out" in done.err) == (2, True), done.said
    done = perfgate("check", run, "--policy-ref", "refs/heads/main")
    assert "is a link that leads out" in " ".join(done.said.split())
    assert done.code == (2 if name == "baselines" else 0)


@posix
def test_a_link_within_the_repository_is_followed(repository: Repository, perfgate: Command, folder: Path) -> None:
    (folder / "baselines").rename(folder / "moved")
    (folder / "baselines").symlink_to("moved")
    assert perfgate("check", write_run(folder / "new.json", seed=9)).code == 0


def test_a_folder_without_end_is_left(
    repository: Repository, perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfgate.workspace.surroundings.MOST_PATHS", 5)
    (folder / "many").mkdir()
    for number in range(6):
        write_run(folder / "many" / f"{number}.json", seed=number)
    done = perfgate("check", "many", "--baselines", "none")
    assert (done.code, "many contains more than 5 files" in done.err) == (3, True), done.said
    monkeypatch.setattr("perfgate.workspace.surroundings.MOST_PATHS", 3)
    done = perfgate("check", write_run(folder / "new.json", seed=9), "--rules", "rules/rules.yaml")
    assert (done.code, "contains more than 3 files" in " ".join(done.said.split())) == (3, True), done.said


@posix
@pytest.mark.parametrize("name", ["z.json", "new.json.machine", "rules.yaml"])
def test_a_link_to_itself_is_said(perfgate: Command, folder: Path, name: str) -> None:
    write_rules(folder, "forward under 1 s")
    (folder / "results").mkdir()
    write_run(folder / "results/new.json", forward=100)
    link = folder / ("rules/more.yaml" if name == "rules.yaml" else f"results/{name}")
    link.symlink_to(link.name)
    done = perfgate("check", "results")
    says = "symbolic links" in done.said or "is not a regular file" in done.said
    assert (done.code, says) == ({"z.json": 3, "rules.yaml": 2}.get(name, 0), True), done.said
