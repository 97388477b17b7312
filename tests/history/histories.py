"""Histories that the tests make: records of runs with known numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import numpy as np
from msgspec.structs import replace

from perfgate.baselines.places import FileOrError, check_path, one_by_one
from perfgate.baselines.stores import WritableStore, open_store
from perfgate.core import Better, Fact, Key, Location, Problem
from perfgate.core.remembered_runs import HistoryRecord, HistoryRun, HistoryValue, SeriesName
from perfgate.history.records import id_of_values
from perfgate.history.store import HistoryColumn, StoredHistory, add

IDENTITY: Mapping[str, Fact | None] = {"gpu": "H200", "gpu_count": 8, "world_size": 8}
BEGIN = datetime(2026, 1, 1)


def sha(number: int) -> str:
    """The commit of a number."""
    return hashlib.sha1(str(number).encode()).hexdigest()


def at(hours: float) -> str:
    """A time after the beginning."""
    return f"{BEGIN + timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}"


def value(metric: str, number: float, *, unit: str = "s", better: Better = "lower") -> HistoryValue:
    """One number with an error of 0.2 %."""
    return HistoryValue(
        SeriesName(Key(metric), "median"), unit, better, "samples", number, 0.002 * abs(number), 200, 150.0
    )


def record(number: int, metrics: Mapping[str, float], *, hours: float | None = None, **about: object) -> HistoryRecord:
    """The run of commit `number`, an hour after the one before it."""
    values = tuple(value(name, one) for name, one in metrics.items())
    time = at(number if hours is None else hours)
    run = HistoryRun(id_of_values(values, sha(number), time), time, sha(number), "main")
    return HistoryRecord("gpt", IDENTITY, replace(run, **about), values)  # type: ignore[arg-type]


def steps(*levels: tuple[int, float], noise: float = 0.01, seed: int = 1) -> list[float]:
    """Numbers around levels, each given as its length and its value."""
    rng = np.random.default_rng(seed)
    return [float(level * np.exp(noise * rng.standard_normal())) for count, level in levels for _ in range(count)]


def store_at(folder: Path) -> WritableStore:
    """The store in a folder of the test."""
    return open_store(str(folder / "baselines"))


def filled(folder: Path, numbers: Sequence[float], metric: str = "forward") -> WritableStore:
    """A store with a run for each number."""
    store = store_at(folder)
    with patch("os.fsync"):
        for i, number in enumerate(numbers):
            assert add(store, record(i, {metric: number}))
    return store


def run_at(hours: float, host: str = "", **about: object) -> HistoryRun:
    """A run of main without a commit."""
    run = HistoryRun(f"{hours:03}", at(hours), ref="main", context={"host": host} if host else {})
    return replace(run, **about)


def column(
    numbers: Iterable[float], places: Iterable[int] | None = None, error: float = 0.0, **about: object
) -> HistoryColumn:
    """The series of `forward median` in seconds, with the same relative error for each number; 0 is unknown."""
    values = np.array([*numbers], dtype=np.float64)
    nothing = np.full(len(values), np.nan)
    rows = np.arange(len(values)) if places is None else np.array([*places], dtype=np.int64)
    name = SeriesName(Key("forward"), "median")
    found = HistoryColumn(
        name, "s", "lower", "samples", rows, values, error * values if error else nothing, nothing, nothing
    )
    return replace(found, **about)


def in_memory(runs: Sequence[HistoryRun], *columns: HistoryColumn) -> StoredHistory:
    """A history as it is read from a store."""
    return StoredHistory("gpt", "h200", {}, tuple(runs), columns, ("forward",))


class MemoryStore(dict[str, bytes]):
    """A store in memory, with the files by their paths."""

    shown = "memory"

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        super().__init__(files or {})
        #: Paths that are listed, and the errors that reading or writing them raises.
        self.broken: dict[str, OSError] = {}

    def paths(self, folder: str = "") -> tuple[list[str], list[Problem]]:
        list(check_path(folder or "all"))
        return sorted(path for path in {*self, *self.broken} if path.startswith(f"{folder}/" if folder else "")), []

    def read(self, path: str) -> bytes:
        if path in self.broken or path not in self:
            raise self.broken.get(path, FileNotFoundError())
        return self[path]

    def read_many(self, paths: Iterable[str]) -> Iterator[FileOrError]:
        return one_by_one(self.read, paths)

    def location(self, path: str) -> Location:
        return Location(f"{self.shown}/{path}")

    def write(self, path: str, data: bytes, *, replace: bool = False) -> None:
        list(check_path(path))
        if path in self.broken:
            raise self.broken[path]
        if path in self and not replace:
            raise FileExistsError
        self[path] = data

    def remove(self, path: str) -> None:
        if path not in self:
            raise FileNotFoundError
        del self[path]

    def lock(self) -> AbstractContextManager[None]:
        return nullcontext()
