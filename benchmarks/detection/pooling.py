"""Measure what pooled doubt adds after merges: false alarms of unchanged code, and when a lasting change is found.

A history is 60 merges with one new run each, judged against ten base runs whose noise the history knows. A merge that
is neither red nor a pass is judged once more with the runs of earlier merges, as `perfgate.judge.pooled` does it.

    python benchmarks/detection/pooling.py --histories 200        some minutes
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from perfgate.judge.decide_change!! import measure_runs
from perfgate.judge.question import ChangeTerms
from perfgate.judge.decide_promise!! import PromiseTerms, judge_measured_promise
from perfgate.judge.decide.change import POOLED_RUNS
from perfgate.stats.change_points import find_change_points
from perfgate.stats.statistics import RunMeasure

MERGES, BASE_RUNS, BEGINS, FREEDOM = 60, 10, 20, 16.0
TOLERANCE = 0.03
#: Noise between runs, a lasting change, and a creep for each merge, all relative; both begin at merge 20.
CASES = ((0.01, 0.0, 0.0), (0.03, 0.0, 0.0), (0.01, 0.04, 0.0), (0.02, 0.04, 0.0), (0.03, 0.04, 0.0), (0.03, 0.06, 0.0),
         (0.02, 0.0, 0.001))  # fmt: skip


def history(rng: np.random.Generator, noise: float, change: float, creep: float) -> tuple[int | None, int | None]:
    """Return the merge of the first red verdict without pooling, and with it; None without any."""
    terms = ChangeTerms(tolerance=TOLERANCE, prior=(noise, FREEDOM))
    base = measure_runs(list(np.exp(rng.normal(0, noise, BASE_RUNS))), terms)
    remembered: list[float] = []
    for merge in range(MERGES):
        after = max(merge - BEGINS, 0)
        level = (1 + change * (merge >= BEGINS)) * (1 + creep) ** after
        new = level * float(np.exp(rng.normal(0, noise)))
        found = judge_measured_promise(base, measure_runs([new], terms), terms, PromiseTerms(noise_known=True))
        if found.outcome == "fail":
            return merge, merge
        if found.outcome != "pass" and _pooled(base, remembered, new, terms):
            return _alone(rng, base, terms, (noise, change, creep), merge), merge
        remembered.append(new)
    return None, None


def _pooled(base: Sequence[RunMeasure], remembered: list[float], new: float, terms: ChangeTerms) -> bool:
    points = find_change_points(remembered)
    since = remembered[points[-1].index if points else 0 :]
    block = since[len(since) - len(since) % POOLED_RUNS :]
    promise = PromiseTerms(looks=tuple(range(1, POOLED_RUNS + 1)), noise_known=True)
    runs = measure_runs([*block, new], terms)
    return bool(block) and judge_measured_promise(base, runs, terms, promise).outcome == "fail"


def _alone(
    rng: np.random.Generator,
    base: Sequence[RunMeasure],
    terms: ChangeTerms,
    case: tuple[float, float, float],
    first: int,
) -> int | None:
    """Return the merge that would have been red without pooling, after a merge that pooling found."""
    noise, change, creep = case
    for merge in range(first + 1, MERGES):
        level = (1 + change * (merge >= BEGINS)) * (1 + creep) ** max(merge - BEGINS, 0)
        new = measure_runs([level * float(np.exp(rng.normal(0, noise)))], terms)
        if judge_measured_promise(base, new, terms, PromiseTerms(noise_known=True)).outcome == "fail":
            return merge
    return None


def shown(found: Sequence[int | None], is_changed: bool) -> str:
    """Return the share of false alarms, of found changes, and the median number of merges until then."""
    false = [one for one in found if one is not None and (not is_changed or one < BEGINS)]
    late = [one - BEGINS + 1 for one in found if one is not None and one >= BEGINS]
    text = f"false {100 * len(false) / len(found):.1f} %"
    if is_changed:
        text += f", found {100 * len(late) / len(found):.0f} %, after {np.median(late) if late else 0:.0f} merges"
    return text


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--histories", type=int, default=200)
    count = parser.parse_args().histories
    for noise, change, creep in CASES:
        rng = np.random.default_rng([1, round(1000 * noise), round(1000 * change), round(10000 * creep)])
        found = [history(rng, noise, change, creep) for _ in range(count)]
        alone, pooled = zip(*found, strict=True)
        is_changed = bool(change or creep)
        what = f"noise {100 * noise:g} %, change {100 * change:g} %, creep {100 * creep:g} %"
        print(f"{what}: alone: {shown(alone, is_changed)}; pooled: {shown(pooled, is_changed)}", flush=True)


if __name__ == "__main__":
    main()
