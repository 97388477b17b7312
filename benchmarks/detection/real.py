"""The detectors on real runs: cases drawn again and again from what `workloads.py` measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import score

from perfgate.stats.statistics import RunMeasure

#: Of each workload and clock so many cases are drawn. They share runs, so they are no independent repetitions.
DRAWS = 200


def score_real(path: Path, seed: int) -> dict[str, score.Rates]:
    """The rates of every detector; a source is a workload by one of its clocks."""
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["runs"]
    found: dict[str, score.Rates] = {}
    for workload in sorted({row["workload"] for row in rows}):
        for clock in ("cpu", "wall"):
            runs = {
                slower: [np.array(r[clock], float) for r in rows if (r["workload"], r["slower"]) == (workload, slower)]
                for slower in score.SLOWER
            }
            _draw(found, f"{workload} ({clock})", runs, np.random.default_rng(seed))
    return found


def _draw(
    found: dict[str, score.Rates], source: str, runs: dict[float, list[np.ndarray]], rng: np.random.Generator
) -> None:
    """Five unchanged runs are the base, three others of the same or of a slower kind are new."""
    unchanged = runs[0.0]
    for _ in range(DRAWS):
        chosen = rng.permutation(len(unchanged))
        base = [unchanged[i] for i in chosen[: score.BASE_RUNS]]
        known: dict[int, RunMeasure] = {}
        for slower in score.SLOWER:
            rest = [unchanged[i] for i in chosen[score.BASE_RUNS :]] if slower == 0 else runs[slower]
            new = [rest[i] for i in rng.permutation(len(rest))[: score.NEW_RUNS]]
            score.count(found, slower, source, score.outcomes(base, new, known))
