"""Score the search for change points on labelled histories, and measure its CPU time.

    python benchmarks/history.py --kit ../shared/score/history [--part labelled|injected|speed]

`score.py` of the kit feeds real histories, labelled by people, and unchanged noise with injected steps, run by run.
The speed is that of generated histories of 1,000 runs with steps, correlated noise and outliers.
"""

from __future__ import annotations

import argparse
import runpy
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from perfgate import find_change_points

Row = tuple[str, str, str]


def detect(values: list[float]) -> list[int]:
    """Return the indices that the kit asks for."""
    return [point.index for point in find_change_points(values)]


def labelled(kit: dict[str, Any]) -> list[Row]:
    """Return the figures against the labels."""
    found = kit["score_labelled"](detect)
    return [
        ("consensus F1", f"{found['consensus_f1']:.3f}", ">= 0.80"),
        ("plain F1", f"{found['f1']:.3f}", ">= 0.85"),
        ("shared recall", f"{found['shared_recall']:.2f}", ""),
        ("point precision", f"{found['point_precision']:.2f}", ""),
        ("cover", f"{found['cover']:.3f}", ""),
        ("CPU per history", f"{1000 * found['cpu_s'] / found['series']:.1f} ms", ""),
    ]


def injected(kit: dict[str, Any]) -> list[Row]:
    """Return the figures of histories that are fed run by run."""
    found = kit["score_injected"](detect)
    goals = {"<1%": ">= 0.90", "1-3%": ">= 0.75"}
    rows = [
        ("false points per 1,000 unchanged runs", f"{found['all']['false_per_1000']:.2f}", "<= 1"),
        ("found without a step in 5 runs", f"{found['sham']['in5']:.2f}", ""),
    ]
    for band, figures in found["by_noise"].items():
        rows.append((f"+5 % in 5 runs, noise {band}", f"{figures['+5%']['in5']:.2f}", goals.get(band, "")))
        rows.append((f"+3 %, +5 %, +10 % in 10 runs, noise {band}", _in_10(figures), ""))
    return rows


def _in_10(figures: dict[str, Any]) -> str:
    return ", ".join(f"{figures[size]['in10']:.2f}" for size in ("+3%", "+5%", "+10%"))


def speed(runs: int = 1000, histories: int = 200) -> list[Row]:
    """Return the CPU time of generated histories."""
    rng = np.random.default_rng(1)
    made = []
    for steps in rng.integers(0, 12, histories):
        noise = rng.standard_normal(runs + 1)
        values = np.exp(0.02 * (noise[1:] + 0.3 * noise[:-1]))
        values[rng.random(runs) < 0.02] *= 1.5
        for at in rng.integers(0, runs, steps):
            values[at:] *= rng.choice([0.93, 1.07])
        made.append(values)
    find_change_points(made[0])  # imports
    begin = time.process_time()
    for values in made:
        find_change_points(values)
    spent = (time.process_time() - begin) / histories
    return [(f"CPU per history of {runs:,} runs", f"{1000 * spent:.1f} ms", "<= 6 ms")]


def main() -> None:
    """Measure the parts that were asked for, and print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kit", type=Path, help="the folder with score.py")
    parser.add_argument("--part", choices=("labelled", "injected", "speed"), action="append")
    options = parser.parse_args()
    parts = options.part or ["labelled", "injected", "speed"]
    rows: list[Row] = []
    if options.kit and {"labelled", "injected"} & set(parts):
        warnings.simplefilter("ignore", ResourceWarning)
        kit = runpy.run_path(str(options.kit / "score.py"))
        rows += labelled(kit) if "labelled" in parts else []
        rows += injected(kit) if "injected" in parts else []
    rows += speed() if "speed" in parts else []
    print("| figure | here | goal |\n|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


if __name__ == "__main__":
    main()
