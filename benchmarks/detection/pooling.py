"""Measure what pooled doubts add after merges: false alarms of unchanged code, and when a lasting change is found.

A history is 60 merges with one new run each, judged against ten base runs whose noise is known. A merge that is neither
red nor green is judged once more, with the runs of earlier merges. From merge 20 on the program is slower.
"""

from __future__ import annotations

from collections.abc import Sequence

import gate
import numpy as np
from msgspec.structs import replace

from perfgate.core import RememberedRuns
from perfgate.stats.change_points import find_change_points

MERGES, BASE_RUNS, BEGINS, FREEDOM = 60, 10, 20, 16.0
#: The statistic is named, because known noise is that of one statistic.
RULE = "time median within 3% of baseline"
#: Noise between runs, a lasting change, and a creep for each merge, all relative; both begin at merge 20.
CASES = ((0.01, 0.0, 0.0), (0.03, 0.0, 0.0), (0.01, 0.04, 0.0), (0.02, 0.04, 0.0), (0.03, 0.04, 0.0), (0.03, 0.06, 0.0),
         (0.02, 0.0, 0.001))  # fmt: skip


def score(seed: int, histories: int, case: tuple[float, float, float]) -> dict[str, dict[str, list[int | None]]]:
    """Return the merge of the first red verdict of each history, without pooling and with it; None without any."""
    noise, change, creep = case
    rng = np.random.default_rng([seed, round(1000 * noise), round(1000 * change), round(10000 * creep)])
    found: dict[str, list[int | None]] = {"alone": [], "pooled": []}
    for _ in range(histories):
        base = list(np.exp(rng.normal(0, noise, BASE_RUNS)))
        levels = [(1 + change * (at >= BEGINS)) * (1 + creep) ** max(at - BEGINS, 0) for at in range(MERGES)]
        new = list(levels * np.exp(rng.normal(0, noise, MERGES)))
        found["alone"].append(first_red(base, new, noise, pools=False))
        found["pooled"].append(first_red(base, new, noise, pools=True))
    return {name_of(case): found}


def first_red(base: Sequence[float], new: Sequence[float], noise: float, *, pools: bool) -> int | None:
    """Return the first merge with exit 1; the judge knows the earlier merges if it `pools`."""
    known = gate.calibrated(noise, FREEDOM)
    for merge in range(len(new)):
        earlier = (remembered(new[:merge]),) if pools and merge else ()
        if gate.ask(RULE, base, new[merge : merge + 1], replace(known, remembered=earlier))[0].exit_code == 1:
            return merge
    return None


def remembered(values: Sequence[float]) -> RememberedRuns:
    """Return the runs since the last change point, as `perfgate.history.noise` finds them."""
    points = find_change_points(values)
    kept = tuple(map(float, values[points[-1].index if points else 0 :]))
    name = gate.METRIC, gate.STATISTIC, gate.RANK
    return RememberedRuns(*name, "main", kept, (0.0,) * len(kept), ("",) * len(kept), is_measured=True)


def name_of(case: tuple[float, float, float]) -> str:
    """Return the name of a case in the stored figures."""
    return " ".join(f"{share:g}" for share in case)


def shown(firsts: Sequence[int | None], is_changed: bool) -> list[str]:
    """Return the share of false alarms, and of a change the share that is found and the median of merges until then."""
    false = [one for one in firsts if one is not None and (not is_changed or one < BEGINS)]
    late = [one - BEGINS + 1 for one in firsts if one is not None and one >= BEGINS]
    found = [f"{100 * len(late) / len(firsts):.0f} %", f"{np.median(late):.0f}" if late else ""]
    return [f"{100 * len(false) / len(firsts):.1f} %", *(found if is_changed else ["", ""])]
