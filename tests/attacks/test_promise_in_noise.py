"""Noise between runs, which makes one run look better or worse than it is: what exit codes 0 and 1 are worth."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from conftest import Done, write_results, write_rules

Command = Callable[..., Done]


def write_values(path: Path, values: Sequence[float]) -> Path:
    """A run of metrics m0, m1, ..., each of which is one number: only the noise between runs counts."""
    series = [{"metric": f"m{i}", "unit": "ms", "value": float(value)} for i, value in enumerate(values)]
    return write_results(path, *series)


def test_noise_hides_no_large_slowdown(perfgate: Command, folder: Path) -> None:
    """A hundred programs that are 10 % slower, at 5 % noise: measured up to three times, as the action does."""
    programs, rng = 100, np.random.default_rng(5)
    noisy = 100 * np.exp(0.05 * rng.standard_normal((6, programs)))
    base = [write_values(folder / f"base{i}.json", values) for i, values in enumerate(noisy[:3])]
    new = [write_values(folder / f"new{i}.json", 1.1 * values) for i, values in enumerate(noisy[3:])]
    write_rules(folder, *(f"m{i} within 5% of baseline" for i in range(programs)))
    assert perfgate("baseline", "approve", *base, "--reason", "noisy").code == 0
    green, red = set[str](), set[str]()
    for count in (1, 2, 3):
        for verdict in json.loads(perfgate("check", *new[:count], "--json", "-").out)["verdicts"]:
            if verdict["metric"] not in green | red:
                green |= {verdict["metric"]} if verdict["exit_code"] == 0 else set()
                red |= {verdict["metric"]} if verdict["exit_code"] == 1 else set()
    assert len(green) <= 10
    assert red


def test_noise_fails_no_unchanged_program_from_one_run(perfgate: Command, folder: Path) -> None:
    """Seven runs of the base's own program, at 5 % noise: an interval with a guessed noise failed three of them."""
    rng = np.random.default_rng(88)
    values = 100 * np.exp(0.05 * rng.standard_normal(10))
    base = [write_values(folder / f"base{i}.json", [value]) for i, value in enumerate(values[:3])]
    write_rules(folder, "m0 within 5% of baseline")
    assert perfgate("baseline", "approve", *base, "--reason", "noisy").code == 0
    codes = [perfgate("check", write_values(folder / "new.json", [value])).code for value in values[3:]]
    assert 1 not in codes


def test_one_base_run_promises_nothing(perfgate: Command, folder: Path) -> None:
    write_rules(folder, "m0 within 5% of baseline")
    base, new = write_values(folder / "base.json", [100]), write_values(folder / "new.json", [100.2])
    assert perfgate("baseline", "approve", base, "--reason", "first").code == 0
    done = perfgate("check", new)
    said = " ".join(done.out.split())
    assert done.code == 3
    assert "2 runs of both sides do not show the noise between runs, so nothing is excluded" in said
    assert "give 1 more new run, or add base runs: 3 runs of both sides are needed" in said
    more = [write_values(folder / f"more{i}.json", [value]) for i, value in enumerate((99.9, 100.1))]
    assert perfgate("check", new, *more).code == 0
