"""Score perfgate and the rules of other tools on the same cases, and write the tables of `docs/detection.md`.

    python benchmarks/detection                        everything: some 20 minutes on two processors
    python benchmarks/detection --only generated       one part; the other figures stay
    python benchmarks/detection --draws 20             a quick look
    python benchmarks/detection --kit FOLDER           the part with real histories, too (see benchmarks/history.py)
    python benchmarks/detection --measure              measure the real workloads anew first

The figures go to `results.json` beside this file, the tables from them to the page. The seed is fixed, so that the same
version gives the same figures; only `--measure` depends on the machine. Every part records the function that it asked.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from functools import reduce
from multiprocessing import Pool
from pathlib import Path
from typing import Any, TypeAlias

import edges
import gate
import ideas
import models
import page
import paired
import pooling
import promise
import quiet
import real
import score
import workloads

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "detection.md"
RESULTS = HERE / "results.json"

#: A function that scores one piece of a part from a seed, a number of draws, and the words of the piece.
Piece: TypeAlias = tuple[Callable[..., dict[str, Any]], tuple[Any, ...]]

_CELLS = [(base_runs, noise) for base_runs in promise.BASE_RUNS for noise in promise.NOISE]
_CLOCKS = [(name, clock) for name in sorted(workloads.WORKLOADS) for clock in real.CLOCKS]
_SOURCES = ("familiar", "held out", *sorted(workloads.WORKLOADS))
#: The pieces of each part of perfgate, and its draws.
PARTS: dict[str, tuple[int, Sequence[Piece]]] = {
    "generated": (300, [(score.score, (source, score.perfgate)) for source in models.MODELS]),
    "promise": (1000, [(promise.cells, cell) for cell in _CELLS]),
    "quiet": (1000, [(quiet.score, (*row[:2], change)) for row in quiet.ROWS for change in row[2]]),
    "edges": (300, [(edges.score, words) for words in edges.CASES]),
    "other noise": (1000, [(quiet.score_kind, (kind, spread)) for kind in quiet.KINDS for spread in quiet.SPREADS]),
    "wander": (300, [(quiet.score_wander, (kept,)) for kept in quiet.KEPT]),
    "real": (100, [(real.score_real, (*words, score.perfgate)) for words in _CLOCKS]),
    "history": (300, [(promise.cells, (*cell, 1.0)) for cell in _CELLS]),
    "levels": (60, [(score.levels, (source,)) for source in models.MODELS]),
    "paired": (500, [(paired.score, (at, spread)) for at, way in enumerate(paired.WAYS) for spread in way[3]]),
    "ideas": (100, [(ideas.score, (source,)) for source in _SOURCES]),
    "creep": (10, [(score.creep, (source,)) for source in models.MODELS]),
    "pooling": (150, [(pooling.score, (case,)) for case in pooling.CASES]),
    "quieter": (300, [(promise.cells, (*cell, 2.0)) for cell in _CELLS if cell[0] > 1]),
}
#: The same of other tools, which change only if `peers.py` does.
PEERS: dict[str, tuple[int, Sequence[Piece]]] = {
    "generated peers": (300, [(score.score, (source, score.others)) for source in models.MODELS]),
    "promise peers": (2000, [(promise.peer_cells, (noise,)) for noise in promise.NOISE]),
    "real peers": (200, [(real.score_real, (*words, score.others)) for words in _CLOCKS]),
}


def measured(pieces: Sequence[Piece], seed: int, draws: int, through: str) -> dict[str, Any]:
    """Score all pieces of a part, by all processors."""
    with Pool() as pool:
        answers = [pool.apply_async(function, (seed, draws, *words)) for function, words in pieces]
        found = reduce(_merged, (answer.get() for answer in answers))
    return {"through": through, "draws": draws, "found": found}


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    both = {key: _merged(one[key], other[key]) for key in one.keys() & other.keys()}
    return {key: both.get(key, one.get(key, other.get(key))) for key in {**one, **other}}


def main() -> None:
    """Score, write, and print where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, help="the draws of each piece, instead of the part's own number")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", choices=[*PARTS, "kit", *PEERS], action="append", help="this part alone; the others stay"
    )
    parser.add_argument("--kit", type=Path, help="the folder with score.py and real histories")
    parser.add_argument("--measure", action="store_true", help="measure the real workloads anew")
    options = parser.parse_args()
    if options.measure:
        workloads.write(real.RUNS)
    parts = PARTS | PEERS
    if options.kit:
        parts["kit"] = (6, [(promise.kit_cells, (options.kit, change)) for change in promise.CHANGES])
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    for name, (draws, pieces) in parts.items():
        if options.only and name not in options.only:
            continue
        began = time.monotonic()
        results[name] = measured(
            pieces, options.seed, options.draws or draws, "peers" if name in PEERS else gate.THROUGH
        )
        RESULTS.write_text(json.dumps(results, separators=(",", ":")) + "\n", encoding="utf-8")
        print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    PAGE.write_text(page.fill(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    print(f"wrote {RESULTS.name} and the tables of {PAGE.name}")


if __name__ == "__main__":
    main()
