"""Damage that every reader must stand: a file that was cut anywhere, read in any pieces, or changed at random."""

import json
import random
from functools import reduce
from operator import getitem

import numpy as np
from reading import runs_of

from perfgate.core import Run

#: The most beginnings of a file that are read.
_PREFIXES = 300


def contents(runs: list[Run]) -> object:
    """Everything that a reader says of a file."""
    return [(run.part, series_of(run), [str(problem) for problem in run.problems]) for run in runs]


def series_of(run: Run) -> dict[str, tuple[str, str, list[float]]]:
    return {str(series.key): (series.unit, series.kind, series.values.tolist()) for series in run.series}


def check_pieces(text: str, format: str) -> None:
    """The size of the blocks that a file is handed over in does not matter."""
    whole = contents(runs_of(text, format))
    for size in (1, 2, 3, 7, 16, 61):
        assert contents(runs_of(text, format, chunk=size)) == whole


def check_prefixes(text: str, format: str) -> None:
    """The beginning of a file is read as in the whole file, or it is not read at all."""
    whole = [series_of(run) for run in runs_of(text, format)]
    for length in range(1, len(text), max(3, len(text) // _PREFIXES)):
        runs = runs_of(text[:length], format)
        assert len(runs) <= len(whole)
        for run, full in zip(runs, whole, strict=False):
            for name, (unit, _, values) in series_of(run).items():
                assert unit == full[name][0]
                assert values == full[name][2][: len(values)], text[:length]
            assert run.series or any(problem.severity == "error" for problem in run.problems)


def check_changes(text: str, format: str, times: int = 100) -> None:
    """Bytes changed, dropped and put in at random: nothing raises, and no time is below zero or not finite."""
    source = random.Random(1)
    pieces = [
        b"\0",
        b"\n",
        b"\r",
        b"|",
        b"{",
        b"}",
        b"[",
        b'"',
        b"'",
        b":",
        b"-",
        b"nan",
        b"1e999",
        b"\xff",
        b" ",
        b"9" * 400,
    ]
    for _ in range(times):
        data = bytearray(text.encode())
        for _ in range(source.randint(1, 4)):
            at = source.randrange(len(data))
            data[at : at + source.randint(0, 3)] = source.choice(pieces)
        for run in runs_of(bytes(data), format):
            assert run.series or any(problem.severity == "error" for problem in run.problems)
            for series in run.series:
                assert np.isfinite(series.values).all()
                assert series.unit != "s" or (series.values >= 0).all()
                assert series.steps is None or len(series.steps) == len(series.values)


def _paths(value, path=()):
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _paths(value[key], (*path, key))


def check_types(text: str, format: str) -> None:
    """Each value of a JSON document replaced by one of another type: nothing raises."""
    for path in [*_paths(json.loads(text))][1:]:
        for odd in ([1], {"a": 1}, None, "x", 10**400, 5, True):
            document = json.loads(text)
            reduce(getitem, path[:-1], document)[path[-1]] = odd
            for run in runs_of(json.dumps(document), format):
                assert run.series or any(problem.severity == "error" for problem in run.problems)


def check_damage(text: str, format: str) -> None:
    """All of it."""
    check_pieces(text, format)
    check_prefixes(text, format)
    check_changes(text, format)
