"""A run of many ranks, judged here and on a Dask cluster from a bucket: `python benchmarks/cluster_ranks.py`.

The cluster is a scheduler and workers of one thread, and the bucket a server of S3 (moto), all on this machine. The two
reports must be the same but for the place of the files. Printed are the CPU seconds and the peak memory of each
process, and the share of the command that judges. With `--compared`, the rules compare the run with a baseline of as
many ranks, so that causes need the calls of every rank. Needs Linux, distributed, s3fs and moto.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import scale
import traces
from bucket_requests import bucket
from msgspec import Struct

ROOT = Path(__file__).resolve().parent.parent
#: As many different traces are written; the others have the events of one of them, and a rank of their own.
DIFFERENT = 32
#: Layers with calls of their own: some 640 places of calls, as real programs have.
LAYERS = 64
RULES = """version: 1
rules:
  - step.time median under 10 s
  - comm.wait median under 10 s
  - gpu.utilization at least 1%
  - step.communication p95 under 1 s
  - step.time median on the slowest rank at most 1.5x the median rank
"""
COMPARED = """version: 1
rules:
  - step.time median within 1% of baseline
  - comm.wait median within 1% of baseline
  - gpu.utilization within 1% of baseline
"""
_DASK = "import sys; from dask.__main__ import main; sys.argv[0] = 'dask'; main()"


class Used(Struct, frozen=True):
    """The CPU seconds of a process since its start, and its peak resident memory in MiB."""

    seconds: float
    peak: float


def used_by(pid: int) -> Used:
    """Return the CPU time that a running process has used so far, and its peak memory."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    peak = Path(f"/proc/{pid}/status").read_text().partition("VmHWM:")[2].split()[0]
    return Used(sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), int(peak) / 1024)


def write_ranks(folder: Path, count: int, megabytes: float, first_seed: int = 0) -> None:
    """Write a compressed trace for each rank."""
    folder.mkdir()
    for seed in range(min(count, DIFFERENT)):
        traces.write_trace(folder.parent / "one.json", megabytes, first_seed + seed, LAYERS)
        text = (folder.parent / "one.json").read_text()
        for rank in range(seed, count, DIFFERENT):
            own = text.replace('"rank": 0', f'"rank": {rank}', 1)
            (folder / f"rank{rank:04}.json.gz").write_bytes(gzip.compress(own.encode(), 1))


@contextmanager
def cluster(folder: Path, count: int, environment: Mapping[str, str]) -> Iterator[tuple[str, dict[str, int]]]:
    """Return the address of a scheduler with this many workers, and the number of each process."""

    def dask(*words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, "-c", _DASK, *words], env=environment, stderr=subprocess.DEVNULL)

    file = folder / "scheduler.json"
    where = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
    processes = {"scheduler": dask("scheduler", *where)}
    try:
        while not file.exists() or not (text := file.read_text()):
            if processes["scheduler"].poll() is not None:
                sys.exit("the scheduler of Dask ended: pip install 'perfgate[cluster]'")
            time.sleep(0.1)
        address = text.split('"tcp://')[1].split('"')[0]
        words = ("worker", f"tcp://{address}", "--nthreads", "1", "--no-dashboard", "--no-nanny")
        processes |= {f"worker {number}": dask(*words) for number in range(1, count + 1)}
        from distributed import Client

        with Client(f"tcp://{address}", set_as_default=False) as client:
            client.wait_for_workers(count, timeout=60)
        yield address, {name: process.pid for name, process in processes.items()}
    finally:
        for process in reversed(processes.values()):
            process.kill()  # asked to end, a worker may wait for its scheduler for minutes
            process.wait()


def judged(run: str, words: list[str], folder: Path, environment: Mapping[str, str], others: Mapping[str, int]) -> str:
    """Judge a run, print what each process used, and return the report in JSON."""
    report = folder / "report.json"
    before, begun = {name: used_by(pid) for name, pid in others.items()}, time.monotonic()
    command = [sys.executable, "-m", "perfgate", "check", run, "--rules", "rules.yaml", "--json", report.name, *words]
    report.unlink(missing_ok=True)
    # Started by a small process: the system counts the memory of the one that starts a program as that of the program.
    counted = [*scale.python(scale.CPU), *command]
    done = subprocess.run(counted, cwd=folder, env=environment, capture_output=True, check=False)
    wall = time.monotonic() - begun
    if not report.exists():
        sys.exit(f"{' '.join(command)} failed: {done.stderr.decode()}")
    own = Used(*map(float, done.stderr.split()[-2:]))
    after = {name: used_by(pid) for name, pid in others.items()}
    seconds = {name: after[name].seconds - before[name].seconds for name in others}
    share = 100 * own.seconds / (own.seconds + sum(seconds.values()))
    print(f"check {words[0]}: {wall:.1f} s at load {os.getloadavg()[0]:.1f}")
    of = f"{share:.1f} % of the CPU time" if others else "with the processes that read"
    print(f"  {'command':12} {own.seconds:6.2f} s {own.peak:5.0f} MiB  {of}")
    for name in others:
        print(f"  {name:12} {seconds[name]:6.2f} s {after[name].peak:5.0f} MiB")
    return report.read_text()


def approve(folder: Path, options: argparse.Namespace, environment: Mapping[str, str]) -> None:
    """Store a run with other times, of as many ranks, as the baseline."""
    write_ranks(folder / "base", options.ranks, options.megabytes, DIFFERENT)
    words = ["baseline", "approve", "base", "--rules", "rules.yaml", "--reason", "first"]
    command = [sys.executable, "-m", "perfgate", *words, "--workers", str(options.workers)]
    subprocess.run(command, cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Judge the run in both ways and compare the reports."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--megabytes", type=float, default=4.8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--compared", action="store_true", help="compare with a baseline of as many ranks")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, bucket(Path(name)) as place:
        folder = Path(name)
        write_ranks(folder / "run", options.ranks, options.megabytes)
        (folder / "rules.yaml").write_text(COMPARED if options.compared else RULES)
        url = place.put(folder / "run", "run")
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, **place.environment, "PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": ""}
        if options.compared:
            approve(folder, options, environment)
        here = judged("run", ["--workers", str(options.workers)], folder, environment, {})
        with cluster(folder, options.workers, environment) as (address, processes):
            there = judged(url, ["--executor", f"dask://{address}"], folder, environment, processes)
    same = there.replace(url, "run") == here
    print("the reports are the same" if same else "THE REPORTS DIFFER")
    sys.exit(not same)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
