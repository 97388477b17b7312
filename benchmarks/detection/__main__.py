"""Score perfgate and the rules of other tools on the same cases, and write the tables of `docs/detection.md`.

    python benchmarks/detection                        everything, 300 cases a source: some minutes
    python benchmarks/detection --repetitions 20       a quick look
    python benchmarks/detection --measure              measure the real workloads anew first

The figures go to `results.json` beside this file, the tables from them to the page. The seed is fixed, so that the same
version gives the same figures; only `--measure` depends on the machine.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import models
import page
import promise
import real
import score
import workloads

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "detection.md"
PARTS = ("promise", "generated", "levels", "creep", "real")
RUNS, RESULTS = HERE / "real.json", HERE / "results.json"


def main() -> None:
    """Score, write, and print where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=PARTS, help="this part alone; the other figures stay")
    parser.add_argument("--measure", action="store_true", help="measure the real workloads anew")
    options = parser.parse_args()
    if options.measure:
        workloads.write(RUNS)
    seed, repetitions = options.seed, options.repetitions
    parts: dict[str, Callable[[], object]] = {
        "promise": lambda: promise.score(seed, 2000),
        "generated": lambda: score.score(seed, repetitions, models.MODELS),
        "levels": lambda: score.levels(seed, repetitions, models.MODELS),
        "creep": lambda: score.creep(seed, max(repetitions // 6, 1), models.MODELS),
        "real": lambda: real.score_real(RUNS, seed),
    }
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if options.only else {}
    results |= {"seed": seed, "repetitions": repetitions}
    results |= {name: made() for name, made in parts.items() if options.only in (None, name)}
    RESULTS.write_text(json.dumps(results, separators=(",", ":")) + "\n", encoding="utf-8")
    PAGE.write_text(page.fill(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    print(f"wrote {RESULTS.name} and the tables of {PAGE.name}")


if __name__ == "__main__":
    main()
