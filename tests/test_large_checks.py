"""Commands on a run with very many values give what they give on a small one: the same numbers, verdicts and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Done, steady, write_results, write_rules

from perfgate.large_values import array, numpy_functions
from perfgate.readers import recorded as results
from perfgate.readers.recorded import large_results
from perfgate.stats import large_runs

Command = Callable[..., Done]

RULES = (
    "a p95 under 50 s",
    "a p99.9 under 1.03 s",
    "a median at least 1 ms",
    "a mean under 1.001 s",
    "a max under 4 s",
    "a within 5% of baseline",
    "a p95 at most 3% above baseline",
    "a total within 1% of baseline",
    "b mean at least 95% of baseline",
    "b p5 over 80 /s",
    "a / c median under 2",
    "c stddev under 40 ms",
    "d count at least 10",
    "d median within 2% of baseline",
)


def write_run(name: str, seed: int, slower: float = 1.0) -> None:
    n, steps = 5000, [*range(0, 50_000, 10)]
    start = 1 + 3 * np.exp(-np.arange(n) / 30)
    a, b, c = (np.array(steady(centre, n, seed=seed + i)) for i, centre in enumerate((1.0, 100.0, 0.7)))
    a[3777] = 3.5
    write_results(
        Path(name),
        {"metric": "a", "unit": "s", "values": (a * start * slower).tolist(), "steps": steps},
        {"metric": "b", "unit": "/s", "values": (b / start / slower).tolist(), "steps": steps},
        {"metric": "c", "unit": "ms", "values": np.round(1000 * c * slower).tolist(), "steps": steps},
        {"metric": "d", "unit": "s", "values": steady(1.0, 300, seed=seed)},
        environment={"gpu": "NVIDIA H200", "world_size": 8},
    )


def in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read every document in bounded memory, in small pieces."""
    monkeypatch.setattr(results, "WHOLE_BYTES", 1000)
    monkeypatch.setattr(numpy_functions, "CHUNK", 1000)
    monkeypatch.setattr(large_runs, "_TRANSFORM", 1 << 10)
    for room in (array, large_results):
        monkeypatch.setattr(room, "BLOCK", 256)


def rounded(document: Any) -> Any:
    """A document with eleven digits of each number: autocorrelations are added in another order."""
    if isinstance(document, dict):
        return {name: rounded(value) for name, value in document.items()}
    if isinstance(document, list):
        return [rounded(value) for value in document]
    return float(f"{document:.11g}") if isinstance(document, float) else document


def everything(perfgate: Command) -> list[object]:
    """Return the output and files of the commands about a run that becomes the baseline, and about a slower one."""
    found: list[object] = []
    for run in ("base.json", "slow.json"):
        found.append(json.loads(perfgate("inspect", run, "--json").out))
        done = perfgate("check", run, "--json", f"{run}.report", "--missing-baseline", "skip")
        found += [done.code, rounded(json.loads(Path(f"{run}.report").read_text())), done.out]
        if run == "base.json":
            found.append(perfgate("baseline", "approve", run, "--reason", "x").code)
            (stored,) = Path("baselines").rglob("*.json")
            content = json.loads(stored.read_text())
            del content["content_sha256"]
            found.append(rounded(content))
    return found


@pytest.mark.slow
def test_a_large_run_has_the_same_reports(perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    write_rules(folder, *RULES)
    for seed, name in enumerate(("base.json", "slow.json")):
        write_run(name, 10 * seed + 1, 1.08 if name == "slow.json" else 1.0)
    small = everything(perfgate)
    for path in [*Path("baselines").rglob("*.json")]:
        path.unlink()
    in_pieces(monkeypatch)
    for one, other in zip(everything(perfgate), small, strict=True):
        assert one == other


def test_a_full_disk_is_named(perfgate: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "WHOLE_BYTES", 1000)
    monkeypatch.setattr("tempfile.tempdir", "/dev/full")
    write_results(Path("big.json"), {"metric": "a", "unit": "s", "values": [0.1] * 300})
    done = perfgate("inspect", "big.json")
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        "error: /dev/full has no room for the temporary files of very many values (Not a directory): free some, or let"
        " TMPDIR name a folder with more\n"
    )
