"""A second of fuzzing, always the same; `run.py` beside this file goes on for as long as one likes."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from harnesses import HARNESSES
from run import finding, inputs
from seeds import FORMATS
from seeds_profiles import PROFILES

from perfgate.readers import Source, read


@pytest.mark.parametrize("name", HARNESSES)
def test_nothing_is_found(name: str, folder: Path) -> None:
    for data in islice(inputs(name, seed=0), 5 if name == "command" else 20):
        assert finding(HARNESSES[name], data) is None, data


@pytest.mark.parametrize("name", [*FORMATS, *PROFILES])
def test_seeds_are_read(name: str) -> None:
    for seed in HARNESSES[name].seeds:
        runs = read(Source("f", [seed]))
        assert {run.format for run in runs} == {name}
        assert all(run.series for run in runs)
