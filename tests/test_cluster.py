"""A run whose ranks are in a bucket, read by the workers of a real Dask cluster."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Done, steady, write_log, write_rules
from test_needed_values import write_trace

from perfgate.core import Run
from perfgate.workspace import cluster as workspace_cluster
from perfgate.workspace import inputs, joined_ranks
from perfgate.workspace.cluster import are_runs, packed, results_of, scheduler_of
from perfgate.workspace.options import Refused

#: As many as a large job has with PERFGATE_TEST_RANKS=1024.
RANKS = int(os.environ.get("PERFGATE_TEST_RANKS", "20"))
#: Enough for a tree of two levels, if a worker joins four at a time.
TRACES, TOGETHER = 64, 4
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
    """A scheduler and two workers of one thread, which know the bucket; with a nanny, a lost worker starts again."""

    def __init__(self, folder: Path, *, nanny: bool = False) -> None:
        file = folder / "scheduler.json"
        protocol = "tls" if "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in os.environ else "tcp"
        self.scheduler = dask("scheduler", "--protocol", protocol, "--host", "127.0.0.1", "--port", "0",
                              "--no-dashboard", "--scheduler-file", str(file))  # fmt: skip
        while not file.exists() or not (text := file.read_text()):
            time.sleep(0.05)
        self.url = text.split('"address": "')[1].split('"')[0]
        self.address = self.url.partition("://")[2]
        words = ("worker", self.url, "--nthreads", "1", "--no-dashboard")
        words += () if nanny else ("--no-nanny",)
        self.workers = [dask(*words) for _ in range(2)]

    @property
    def option(self) -> tuple[str, str]:
        return "--executor", f"dask://{self.address}"

    def wait(self) -> None:
        from distributed import Client

        with Client(self.url, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=60)

    def end(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def started(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Cluster]]:
    """Start a cluster; its workers run some Python when they start."""
    pytest.importorskip("distributed")
    found: list[Cluster] = []

    def start(program: str = "", *, nanny: bool = False) -> Cluster:
        (tmp_path / "site").mkdir()
        (tmp_path / "site/sitecustomize.py").write_text(program)
        paths = (str(tmp_path / "site"), str(Path(__file__).parent), str(Path(__file__).parents[1]))
        with monkeypatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join(paths))
            found.append(Cluster(tmp_path, nanny=nanny))
        found[0].wait()
        return found[0]

    yield start
    for one in found:
        one.end()


@pytest.fixture
def cluster(started: Callable[..., Cluster]) -> Cluster:
    return started()


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
    assert f"the cluster at {cluster.url} has no workers: start some with `dask worker" in done.err


@SLOW
@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("import perfgate; perfgate.__version__ = '0.0.1'", "has perfgate 0.0.1 and Python "),
        ("import platform; platform.python_version_tuple = lambda: ('2', '7', '1')", " and Python 2.7"),
    ],
)
def test_workers_of_another_version_are_refused(
    started: Callable[..., Cluster], perfgate: Command, ranks: str, program: str, says: str
) -> None:
    cluster = started(program)
    done = perfgate("inspect", ranks, *cluster.option)
    assert done.code == 3
    assert f"2 workers of {cluster.url} must have perfgate " in done.err
    assert says in done.err


def after_a_result(monkeypatch: pytest.MonkeyPatch, event: Callable[[], object]) -> None:
    """Let something happen after the first result of a worker."""
    real, happened = workspace_cluster.Cluster.result, []

    def result(self: workspace_cluster.Cluster, *words: Any) -> Any:
        found = real(self, *words)
        if not happened:
            happened.append(event())
        return found

    monkeypatch.setattr(workspace_cluster.Cluster, "result", result)


@SLOW
def test_a_lost_connection_is_said(
    cluster: Cluster, perfgate: Command, ranks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_a_result(monkeypatch, cluster.scheduler.kill)
    done = perfgate("inspect", ranks, *cluster.option)
    assert done.code == 3
    assert f"error: the connection to the cluster at {cluster.url} was lost: start the command again (" in done.err
    assert "Traceback" not in done.err


@SLOW
def test_a_cluster_that_loses_all_workers_is_said(
    cluster: Cluster, perfgate: Command, ranks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_cluster, "WITHOUT_WORKERS_S", 1.0)
    monkeypatch.setattr(workspace_cluster, "_LOOK_S", 0.5)
    after_a_result(monkeypatch, lambda: [worker.kill() for worker in cluster.workers])
    done = perfgate("inspect", ranks, *cluster.option)
    assert done.code == 3
    assert f"all workers of the cluster at {cluster.url} were lost: start some, and start again" in done.err


@SLOW
def test_a_lost_file_is_one_problem(
    cluster: Cluster, perfgate: Command, ranks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, gone = inputs.parts_of, (f"{ranks}/rank0500.log", f"{ranks}/rank0500.log")
    monkeypatch.setattr(inputs, "parts_of", lambda path, name: [*(real(path, name) or ()), gone])
    here, there = perfgate("check", ranks, "--workers", "1"), perfgate("check", ranks, *cluster.option)
    assert there == here
    assert " ".join(there.out.split()).count("cannot be read: file not found") == 1
    assert "forward median" in there.out


@SLOW
def test_a_file_that_ends_every_worker_is_one_problem(
    started: Callable[..., Cluster], perfgate: Command, ranks: str
) -> None:
    program = (
        "import os, perfgate.workspace.inputs as inputs\nreal = inputs.opened_input\n"
        "inputs.opened_input = lambda path: os._exit(1) if 'rank0003' in path else real(path)\n"
    )
    done = perfgate("inspect", ranks, *started(program, nanny=True).option)
    assert done.code == 3
    assert " ".join(done.out.split()).count("cannot be read: every worker that read it was lost") == 1
    assert " rank 7  " in done.out


@SLOW
def test_traces_of_ranks_are_joined_on_the_workers(
    folder: Path, bucket: str, cluster: Cluster, perfgate: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fsspec

    for name, scale in (("base0", 1.0), ("base1", 1.0), ("base2", 1.0), ("new", 1.5)):
        for rank in range(TRACES):
            write_trace(
                folder / name / f"r{rank:04}.json",
                rank,
                scale * (1 + 0.3 * (rank == 7)),
                seed=len(name) + ord(name[-1]),
            )
    write_rules(folder, "step.time within 2% of baseline", "comm.wait median under 1 ms")
    assert perfgate("baseline", "approve", "base0", "base1", "base2", "--reason", "first", "--env", "gpu=x").code == 0
    files, top = fsspec.core.url_to_fs(bucket)
    files.put(str(folder / "new"), f"{top}/new", recursive=True)
    run, joined = f"{bucket}/new", []
    real = joined_ranks.joined_ranks
    kept = lambda *words: (joined.append(one) or one for one in real(*words))  # noqa: E731
    monkeypatch.setattr(joined_ranks, "joined_ranks", kept)
    monkeypatch.setattr(joined_ranks, "TOGETHER", TOGETHER)
    for words in (["check", run, "--json", "-", "--env", "gpu=x"], ["inspect", run, "--json"]):
        here, there = perfgate(*words, "--workers", "1"), perfgate(*words, *cluster.option)
        assert there == here
    assert [bool(runs[0].series) for runs in joined] == 2 * [True, *(TRACES - 1) * [False]]


class Future:
    """The answer of a worker: what it sends, or raises."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def result(self, timeout: float) -> object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


RUN = Run("a", "perfgate", ())


@pytest.fixture
def dask_alone(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Dask's names without Dask: a client that hears nothing, and the exceptions of lost workers."""
    errors = {"KilledWorker": type("KilledWorker", (Exception,), {}), "TimeoutError": type("NotYet", (Exception,), {})}
    found = SimpleNamespace(Client=lambda *words, **named: time.sleep(5), **errors)
    monkeypatch.setitem(sys.modules, "distributed", found)
    return found


@pytest.mark.parametrize(
    "answer",
    [b"", b"x", None, "x", zlib.compress(b""), zlib.compress(b"x"), MemoryError("x"), RuntimeError("a\n::error::b")]
    + [packed(one) for one in (None, [], 1, [RUN], [(RUN,)], [(RUN,)] * 3, [(), ()], [(RUN,), (None,)], ((RUN,),) * 2)],
    ids=repr,
)
def test_a_wrong_answer_of_a_worker_is_said(dask_alone: object, answer: object) -> None:
    """Also one with fewer files: a rank that is left out would not be judged."""
    cluster = workspace_cluster.Cluster(None, "tcp://a:1")  # type: ignore[arg-type]
    with pytest.raises(Refused, match=r"^a worker of the cluster at tcp://a:1 failed: [^\n]*$") as refused:
        cluster.result(Future(answer), results_of(2, are_runs))
    assert refused.value.exit_code == 3
    assert cluster.result(Future(packed([(RUN,)] * 2)), results_of(2, are_runs)) == [(RUN,)] * 2


def test_a_server_that_says_nothing_is_no_scheduler(dask_alone: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_cluster, "_PATIENCE_S", 0.05)
    with pytest.raises(Refused, match="no Dask scheduler answers at tcp://a:1: a server is there and says nothing"):
        workspace_cluster.connected("tcp://a:1")


@pytest.mark.parametrize("error", [struct.error("x"), KeyError("x"), AssertionError("x"), OSError("x")])
def test_another_server_is_no_scheduler(dask_alone: SimpleNamespace, error: Exception) -> None:
    def client(*words: object, **named: object) -> None:
        raise error

    dask_alone.Client = client
    with pytest.raises(Refused, match="no Dask scheduler answers at tcp://a:1: "):
        workspace_cluster.connected("tcp://a:1")


@pytest.mark.parametrize("address", ["host:1", "ucx://host:1", "dask://host", "dask://:1", "tls://host:x"])
def test_an_address_without_a_port_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="write dask://HOST:PORT or tls://HOST:PORT"):
        scheduler_of(address)


def test_dask_and_tls_addresses() -> None:
    named = {one: scheduler_of(one) for one in ("dask://a:1", "tcp://a:1", "tls://[::1]:8786")}
    assert named == {"dask://a:1": "tcp://a:1", "tcp://a:1": "tcp://a:1", "tls://[::1]:8786": "tls://[::1]:8786"}


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Dask with a certificate, which is its own authority, here and in the processes that start."""
    config = pytest.importorskip("dask").config
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    words = (
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        "/CN=us",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    )
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", *words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    settings = {"ca-file": str(certificate)}
    settings |= {f"{role}.cert": str(certificate) for role in ("client", "scheduler", "worker")}
    settings |= {f"{role}.key": str(key) for role in ("client", "scheduler", "worker")}
    for name, value in settings.items():
        monkeypatch.setenv(f"DASK_DISTRIBUTED__COMM__TLS__{name.upper().replace('.', '__').replace('-', '_')}", value)
    with config.set({f"distributed.comm.tls.{name}": value for name, value in settings.items()}):
        yield


@SLOW
def test_only_a_certificate_opens_a_scheduler_with_tls(
    tls: None, cluster: Cluster, perfgate: Command, ranks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dask

    assert cluster.url.startswith("tls://")
    there = perfgate("inspect", ranks, "--json", "--executor", cluster.url)
    assert there == perfgate("inspect", ranks, "--json")
    monkeypatch.setattr(workspace_cluster, "_PATIENCE_S", 3)
    without = {f"distributed.comm.tls.{name}": None for name in ("ca-file", "client.cert", "client.key")}
    for url, settings in (
        (cluster.url.replace("tls://", "dask://"), {}),
        (cluster.url, without),
        (cluster.url.replace("tls://", "dask://"), {"distributed.comm.require-encryption": True}),
    ):
        with dask.config.set(settings):
            done = perfgate("inspect", ranks, "--json", "--executor", url)
        assert (done.code, "no Dask scheduler answers at" in done.err) == (3, True), done.said
