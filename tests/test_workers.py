"""Files that several processes read: the same bytes for any number of them, and clear words if one is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import steady, write_log, write_rules

from perfgate.core import Run
from perfgate.workspace.options import Refused
from perfgate.workspace.parallel import WORKERS, read_each

PERFGATE = [sys.executable, "-m", "perfgate"]


@pytest.fixture
def ranks(folder: Path) -> Path:
    """A run of five ranks in a folder, one of which has a damaged line, and a link that leads out of it."""
    for rank in range(5):
        path = write_log(folder / f"run/rank{rank}.log", forward=steady(100 + rank, seed=rank))
        path.write_text(path.read_text().replace("[Rank 0]", f"[Rank {rank}]"))
    with (folder / "run/rank3.log").open("a") as file:
        file.write("[Rank 3] time (ms) | forward: nan\n")
    (folder / "run/rank9.log").symlink_to("/etc/hostname")
    return folder


def test_any_number_of_processes_gives_the_same_bytes(ranks: Path) -> None:
    write_rules(ranks, "forward median under 200 ms")
    answers = {
        (done.returncode, done.stdout, done.stderr)
        for workers in ("1", "2", "5")
        for done in [
            subprocess.run([*PERFGATE, "inspect", "run", "run/rank0.log", "--json", "--values", "--workers", workers],
                           capture_output=True, check=False)
        ]
    }  # fmt: skip
    ((code, out, err),) = answers
    assert (code, err) == (3, b"")
    assert out.count(b'"values"') == 6
    assert b"leads out of the folder" in out


def test_a_check_ends_its_processes_without_a_word(ranks: Path) -> None:
    write_rules(ranks, "forward median under 200 ms")
    words = ["check", "run/rank0.log", "run/rank1.log", "--workers", "2", "--json", "report.json"]
    done = subprocess.run([*PERFGATE, *words], capture_output=True, text=True, check=False)
    assert (done.stderr, "forward median" in done.stdout) == ("", True)


def test_a_pipe_is_read_by_the_command_itself(ranks: Path) -> None:
    with (ranks / "run/rank0.log").open("rb") as stdin:
        words = [*PERFGATE, "inspect", "-", "run/rank1.log", "--workers", "2"]
        done = subprocess.run(words, stdin=stdin, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("forward{")) == (0, 2)


def _ends_itself(path: str, name: str) -> tuple[Run, ...]:
    os.kill(os.getpid(), signal.SIGKILL)
    return ()


def test_a_lost_process_is_said(ranks: Path) -> None:
    files = [(str(ranks / f"run/rank{rank}.log"), "x") for rank in range(2)]
    token = WORKERS.set(2)
    try:
        with pytest.raises(Refused, match=r"a process that reads files was lost, .* such as --workers 1") as found:
            list(read_each(files, _ends_itself, _ends_itself))
    finally:
        WORKERS.reset(token)
    assert found.value.exit_code == 3


def _waits(path: str, name: str) -> tuple[Run, ...]:
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)
    return ()


def test_an_interrupt_ends_every_process(folder: Path) -> None:
    program = (
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it\n"
        "from perfgate.workspace.parallel import WORKERS, read_each\nimport test_workers\nWORKERS.set(2)\n"
        "list(read_each([('a', 'a'), ('b', 'b')], test_workers._waits, test_workers._waits))"
    )
    for name in ("a", "b"):
        (folder / name).write_text("")
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    command = subprocess.Popen(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": paths}, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 30
    while not all((folder / name).read_text() for name in ("a", "b")) and time.monotonic() < until:
        time.sleep(0.02)
    workers = [int((folder / name).read_text()) for name in ("a", "b")]
    command.send_signal(signal.SIGINT)
    assert command.wait(10) != 0
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
