"""A run whose ranks are in a bucket, read by the workers of a real Dask cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Done, steady, write_log, write_rules

from perfgate.workspace.cluster import scheduler_of

#: As many as a large job has with PERFGATE_TEST_RANKS=1024.
RANKS = int(os.environ.get("PERFGATE_TEST_RANKS", "40"))
#: Servers and clients of these libraries leave sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
SLOW = pytest.mark.slow

Command = Callable[..., Done]


def dask(*words: str) -> subprocess.Popen[bytes]:
    program = "import sys; from dask.__main__ import main; sys.argv[0] = 'dask'; main()"
    return subprocess.Popen(
        [sys.executable, "-c", program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


class Cluster:
    """A scheduler and two workers of one thread, which know the bucket."""

    def __init__(self, folder: Path) -> None:
        file = folder / "scheduler.json"
        self.scheduler = dask("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                              "--scheduler-file", str(file))  # fmt: skip
        while not file.exists() or not (text := file.read_text()):
            time.sleep(0.05)
        self.address = text.split('"tcp://')[1].split('"')[0]
        words = ("worker", f"tcp://{self.address}", "--nthreads", "1", "--no-nanny", "--no-dashboard")
        self.workers = [dask(*words) for _ in range(2)]

    @property
    def option(self) -> tuple[str, str]:
        return "--executor", f"dask://{self.address}"

    def wait(self) -> None:
        from distributed import Client

        with Client(f"tcp://{self.address}", set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def cluster(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    paths = (str(Path(__file__).parent), str(Path(__file__).parents[1]))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    started = Cluster(tmp_path)
    started.wait()
    yield started
    started.end()


@pytest.fixture
def ranks(bucket: str, folder: Path) -> str:
    """The URL of a run with a file for each rank, one of them damaged, and one rank slower than the others."""
    import fsspec

    write_rules(
        folder, "forward median under 200 ms", "forward median on the slowest rank at most 1.2x the median rank"
    )
    for rank in range(RANKS):
        path = write_log(folder / f"run/rank{rank:04}.log", forward=steady(100 + 30 * (rank == 7), seed=rank))
        path.write_text(path.read_text().replace("[Rank 0]", f"[Rank {rank}]"))
    (folder / "run/rank9999.log").write_text("[Rank 9999] time (ms) | forward: nan\n")
    files, top = fsspec.core.url_to_fs(bucket)
    files.put(str(folder / "run"), f"{top}/run", recursive=True)
    return f"{bucket}/run"


@SLOW
def test_a_cluster_gives_the_same_report(ranks: str, cluster: Cluster, perfgate: Command) -> None:
    for words in (["check", ranks, "--json", "-"], ["check", ranks], ["inspect", ranks, "--json"]):
        here, there = perfgate(*words, "--workers", "1"), perfgate(*words, *cluster.option)
        assert there == here
        assert here.code in (1, 3)
    assert " rank 7  " in perfgate("inspect", ranks, *cluster.option).out


@SLOW
def test_a_lost_worker_is_replaced(ranks: str, cluster: Cluster, perfgate: Command) -> None:
    cluster.workers[0].kill()
    assert perfgate("inspect", ranks, "--json", *cluster.option) == perfgate("inspect", ranks, "--json")


@SLOW
def test_a_cluster_without_workers_is_refused(cluster: Cluster, perfgate: Command, ranks: str) -> None:
    for worker in cluster.workers:
        worker.terminate()
        worker.wait()
    done = perfgate("inspect", ranks, *cluster.option)
    assert done.code == 3
    assert f"the cluster at {cluster.address} has no workers: start some with `dask worker" in done.err


@pytest.mark.parametrize("address", ["tcp://host:1", "dask://host", "dask://:1", "dask://host:x"])
def test_an_address_without_a_port_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="write dask://HOST:PORT"):
        scheduler_of(address)
