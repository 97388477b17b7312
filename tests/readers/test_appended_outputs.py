"""A second output below the first one, with other numbers, is another run, or is refused: nothing is replaced."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from reading import runs_of

from perfgate.core import Run

sys.path.append(str(Path(__file__).resolve().parents[1] / "fuzz"))
from seeds import FORMATS

SEEDS = [(name, seed) for name, seeds in FORMATS.items() for seed in seeds]


def with_other_numbers(text: str) -> str:
    return re.sub(r"(?<=\.)\d", lambda digit: str((int(digit[0]) + 3) % 10), text)


def numbers(runs: tuple[Run, ...]) -> Iterator[tuple[str, float]]:
    """The numbers of each metric, whatever its labels: a second output may add one that tells them apart."""
    for series in (series for run in runs for series in run.series):
        yield from ((series.key.metric, value) for value in series.values.tolist())
        yield from ((series.key.metric, value) for name, value in series.aggregate.items() if name == "mean")


@pytest.mark.parametrize(("name", "seed"), SEEDS, ids=[f"{name}-{at}" for at, (name, _) in enumerate(SEEDS)])
def test_the_first_output_is_kept_or_the_file_is_refused(name: str, seed: str | bytes) -> None:
    text = seed if isinstance(seed, str) else seed.decode("latin-1")
    later = with_other_numbers(text)
    both = f"{text}\n{later}"
    runs = runs_of(both if isinstance(seed, str) else both.encode("latin-1"), name)
    if not any(run.problems for run in runs):
        first = runs_of(seed, name)
        assert set(numbers(first)) <= set(numbers(runs))
