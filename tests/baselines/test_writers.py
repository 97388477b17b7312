"""Writers that die, disks that are full, folders that cannot be written: nothing is lost, nothing half-written."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Done, Repository, write_run

Command = Callable[..., Done]
PERFGATE = [sys.executable, "-m", "perfgate"]


def contents(folder: Path) -> dict[str, bytes]:
    """Every baseline that a reader would see."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("baselines/**/*.json"))}


def test_a_writer_that_is_killed_leaves_whole_files(repository: Repository, perfgate: Command, folder: Path) -> None:
    before = contents(folder)
    moments = random.Random(1)
    started = time.monotonic()
    subprocess.run([*PERFGATE, "baseline", "list"], cwd=folder, capture_output=True, check=True)
    whole = time.monotonic() - started
    for i in range(4):
        run = write_run(folder / f"killed{i}.json", seed=50 + i)
        with subprocess.Popen(
            [*PERFGATE, "baseline", "add", run, "--rotate"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            time.sleep(moments.uniform(0.5, 1.5) * whole)
            process.send_signal(random.Random(i).choice([signal.SIGKILL, signal.SIGTERM]))
        assert perfgate("baseline", "verify").code == 0
        assert before.items() <= contents(folder).items()
    assert perfgate("baseline", "add", write_run(folder / "after.json", seed=99), "--rotate").code == 0


def test_a_disk_that_fills_loses_nothing(repository: Repository, perfgate: Command, folder: Path) -> None:
    before = contents(folder)
    run = write_run(folder / "large.json", seed=60)

    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    done = subprocess.run(
        [*PERFGATE, "baseline", "add", str(run)],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # Python would cut off the files of changed modules, too
        capture_output=True,
        text=True,
        preexec_fn=full,
        check=False,
    )
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert contents(folder) == before
    assert not [name for _, _, names in os.walk(folder / "baselines") for name in names if name.endswith(".tmp")]


def test_a_folder_that_cannot_be_written_is_said(repository: Repository, perfgate: Command, folder: Path) -> None:
    """Root may write everywhere but to what is mounted read-only, in a namespace of its own."""
    before = contents(folder)
    words = [*PERFGATE, "baseline", "add", str(write_run(folder / "run.json", seed=61))]
    if os.geteuid() == 0:
        mounted = "mount --bind baselines baselines && mount -o remount,ro,bind baselines"
        if subprocess.run(
            ["unshare", "-m", "sh", "-c", mounted], cwd=folder, capture_output=True, check=False
        ).returncode:
            pytest.skip("nothing can be mounted here")
        words = ["unshare", "-m", "sh", "-c", f'{mounted} && exec "$@"', "sh", *words]
    else:
        for path in (folder / "baselines", *(folder / "baselines").rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, "cannot be written" in done.stderr) == (2, True), done.stderr
    assert contents(folder) == before


def test_a_store_in_the_place_of_a_file_is_said(repository: Repository, perfgate: Command, folder: Path) -> None:
    (folder / "occupied").write_text("no folder")
    done = perfgate("baseline", "approve", "first0.json", "--reason", "x", "--baselines", "occupied")
    assert (done.code, "occupied cannot be written" in done.err) == (2, True)


def test_writers_at_once_all_get_through(repository: Repository, perfgate: Command, folder: Path) -> None:
    before = contents(folder)
    runs = [write_run(folder / f"at-once{i}.json", seed=70 + i) for i in range(4)]
    processes = [
        subprocess.Popen([*PERFGATE, "baseline", "add", str(run)], cwd=folder, stdout=subprocess.DEVNULL)
        for run in runs
    ]
    assert [process.wait(120) for process in processes] == [0] * len(runs)
    assert len(contents(folder)) == len(before) + len(runs)
    assert perfgate("baseline", "verify").code == 0
