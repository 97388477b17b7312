"""The detectors on real runs: cases drawn again and again from what `workloads.py` measured."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import score

RUNS = Path(__file__).resolve().parent / "real.json"
CLOCKS = ("cpu", "wall")


def score_real(seed: int, draws: int, workload: str, clock: str, detectors: score.Detectors) -> dict[str, score.Rates]:
    """The rates of detectors on a workload by one of its clocks; cases share runs, so they are not independent.

    Five unchanged runs are the base; three others of the same or of a slower kind are new.
    """
    rows = [row for row in json.loads(RUNS.read_text(encoding="utf-8"))["runs"] if row["workload"] == workload]
    runs = {slower: [np.array(r[clock], float) for r in rows if r["slower"] == slower] for slower in score.SLOWER}
    rng, found = np.random.default_rng(seed), dict[str, score.Rates]()
    for _ in range(draws):
        chosen = rng.permutation(len(runs[0.0]))
        base = [runs[0.0][i] for i in chosen[: score.BASE_RUNS]]
        for slower in score.SLOWER:
            rest = [runs[0.0][i] for i in chosen[score.BASE_RUNS :]] if slower == 0 else runs[slower]
            new = [rest[i] for i in rng.permutation(len(rest))[: score.NEW_RUNS]]
            score.count(found, slower, f"{workload} ({clock})", detectors(base, new))
    return found
