"""The plan for 10,000 ranks of 1 GB and a million stored runs, measured at a hundredth of the size: `scale.py --plan`.

100 ranks of 10 MB are a hundredth of the ranks, and each trace is a hundredth of 1 GB: a ten-thousandth of the bytes.
10,000 stored runs are a hundredth of a million. What is computed follows from the rates on `docs/how-to/large-runs.md`.
Requests are counted by an S3 server on this machine; the runs in its bucket are a tenth of that, because it is slow.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import traces
from bucket_requests import bucket, dollars

RANKS, MEGABYTES, STORED = 100, 10, 10_000
#: The stored runs in the bucket.
IN_BUCKET = STORED // 10
#: The bytes of a request for a part of a trace, and the names in the answer to a listing.
_BYTES_OF_REQUEST, _NAMES_OF_LISTING = 8 << 20, 1000
#: The rates on the page: seconds of one processor for a GB of trace, and for a million stored runs.
_SECONDS_OF_GB, _SECONDS_OF_MILLION = 10.0, 240.0
#: The bytes on the page that a worker hands back for a rank, and the bytes of a stored run.
_BYTES_OF_RANK, _BYTES_OF_STORED = 12_000, 12_000
_HANDED_BACK = """
import pickle, sys, zlib
from perfgate.analysis.needed_values import needed_by
from perfgate.rules.load import load_rules
from perfgate.workspace.inputs import read_runs
from perfgate.workspace.parallel import allow_read_only_mappings
allow_read_only_mappings()
ruleset, _ = load_rules([("rules.yaml", open("rules.yaml", "rb").read())], None)
runs = needed_by([ruleset], with_sizes=False).shortened(read_runs([sys.argv[1]], with_calls=False))
print(len(zlib.compress(pickle.dumps(runs), 1)))
"""


@dataclass(frozen=True, slots=True)
class Planned:
    """A quantity of the plan at a hundredth of the size, as it was computed and measured."""

    what: str
    unit: str
    computed: float
    measured: float


def write_ranks(folder: Path) -> None:
    """Write a trace for each rank, and three limits."""
    (folder / "run").mkdir()
    traces.write_trace(folder / "one.json", MEGABYTES)
    text = (folder / "one.json").read_text().replace('"world_size": 8', f'"world_size": {RANKS}', 1)
    for rank in range(RANKS):
        (folder / f"run/rank{rank:04}.json").write_text(text.replace('"rank": 0', f'"rank": {rank}', 1))
    rules = ("step.time median under 10 s", "comm.wait median under 10 s", "gpu.utilization at least 1%")
    (folder / "rules.yaml").write_text("version: 1\nrules:\n" + "".join(f"  - {rule}\n" for rule in rules))


def planned(
    cost: Callable[[list[str], Path], tuple[float, float]],
    perfgate: list[str],
    stored_runs: Callable[[Path, int], None],
    environment: dict[str, str],
) -> Iterator[Planned]:
    """Yield each quantity, measured in fresh processes in temporary folders."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_ranks(folder)
        seconds, memory = cost([*perfgate, "check", "run", "--rules", "rules.yaml", "--workers", "1"], folder)
        size = sum(path.stat().st_size for path in (folder / "run").iterdir())
        yield Planned(f"{RANKS} ranks of {MEGABYTES} MB: CPU", "s", size / 1e9 * _SECONDS_OF_GB, seconds)
        words = [sys.executable, "-c", _HANDED_BACK, "run/rank0000.json"]
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True)
        yield Planned("a rank that a worker hands back", "kB", _BYTES_OF_RANK / 1e3, int(done.stdout) / 1e3)
        yield Planned(f"{RANKS} ranks: memory of the command", "MiB", 172, memory)
        yield from _requests_of_ranks(perfgate, environment, folder)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stored_runs(folder, STORED)
        size = sum(os.path.getsize(path) for path in (folder / "baselines").rglob("*.json"))
        yield Planned(f"{STORED:,} stored runs: size", "MB", STORED * _BYTES_OF_STORED / 1e6, size / 1e6)
        words = [*perfgate, "check", "new.log", "--rules", "rules.yaml", "--env", "world_size=1"]
        seconds, memory = cost(words, folder)
        yield Planned(f"{STORED:,} stored runs: CPU", "s", STORED / 1e6 * _SECONDS_OF_MILLION, seconds)
        yield Planned(f"{STORED:,} stored runs: memory", "MiB", 77, memory)
    yield from _requests_of_stored_runs(perfgate, environment, stored_runs)


def _requests_of_ranks(perfgate: list[str], environment: dict[str, str], folder: Path) -> Iterator[Planned]:
    """Count the requests for the traces of all ranks in a bucket."""
    sizes = [path.stat().st_size for path in (folder / "run").iterdir()]
    with bucket(folder) as store:
        words = [*perfgate, "check", store.put(folder / "run", "run"), "--rules", "rules.yaml", "--workers", "2"]
        subprocess.run(words, cwd=folder, env=environment | store.environment, capture_output=True, check=True)
        reads, listings = store.requests()
    parts = sum(1 + math.ceil(size / _BYTES_OF_REQUEST) for size in sizes)  # the first asks for the size
    yield from _in_dollars(f"{RANKS} ranks in a bucket", parts, math.ceil(RANKS / _NAMES_OF_LISTING), reads, listings)


def _requests_of_stored_runs(
    perfgate: list[str], environment: dict[str, str], stored_runs: Callable[[Path, int], None]
) -> Iterator[Planned]:
    """Count the requests of a check with stored runs in a bucket."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stored_runs(folder, IN_BUCKET)
        with bucket(folder) as store:
            url = store.put(folder / "baselines", "baselines")
            words = [*perfgate, "check", "new.log", "--rules", "rules.yaml", "--env", "world_size=1"]
            words += ["--baselines", url]
            subprocess.run(words, cwd=folder, env=environment | store.environment, capture_output=True, check=True)
            reads, listings = store.requests()
    expected = math.ceil(IN_BUCKET / _NAMES_OF_LISTING)
    yield from _in_dollars(f"{IN_BUCKET:,} stored runs in a bucket", IN_BUCKET, expected, reads, listings)


def _in_dollars(what: str, parts: int, pages: int, reads: int, listings: int) -> Iterator[Planned]:
    yield Planned(f"{what}: reads", "", parts, reads)
    yield Planned(f"{what}: listings", "", pages, listings)
    yield Planned(f"{what}: price", "ct", 100 * dollars(parts, pages), 100 * dollars(reads, listings))


def show(found: Iterator[Planned], file: Path | None) -> None:
    """Print what was computed beside what was measured, and write the ratios as `perfgate.results/1`."""
    print(f"{'at a hundredth of the size':44} {'computed':>12} {'measured':>12}")
    series = []
    for one in found:
        print(f"{one.what:44} {one.computed:8.4g} {one.unit:3} {one.measured:8.4g} {one.unit:3}", flush=True)
        name = one.what.replace(" ", "_")
        series.append({"metric": name, "unit": "x", "values": [one.measured / one.computed]})
    if file:
        file.write_text(json.dumps({"schema": "perfgate.results/1", "series": series}))
