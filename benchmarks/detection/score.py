"""Every detector on the same cases: how often each alarms, and how often it says that it cannot tell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

import gate
import models
import numpy as np
import peers
from gate import ask
from msgspec.structs import replace

from perfgate.analysis.stored_runs import drifts
from perfgate.core import Baseline
from perfgate.judge.subjects import JudgedRuns
from perfgate.stats.history import calibrate_prior

#: How much slower the new runs are; 0 is the same code.
SLOWER = (0.0, 0.05, 0.10)
BASE_RUNS, NEW_RUNS, STEPS = 5, 3, 100
#: A history of so many runs, and how much slower each is than the one before.
HISTORY, CREEP = 60, 0.002
#: Runs of the same code from which noise is calibrated.
CALIBRATION = 10
#: The runs of an anchor.
ANCHOR = 5

#: {slowdown: {source: {outcome: how often}}} of one detector; the outcomes are `pass`, `fail` and `open`.
Rates: TypeAlias = dict[str, dict[str, dict[str, int]]]
#: What each detector says of base runs and new runs.
Detectors: TypeAlias = Callable[[peers.Runs, peers.Runs], dict[str, str]]

FIVE, TWO = "time within 5% of baseline", "time within 2% of baseline"


def perfgate(base: peers.Runs, new: peers.Runs) -> dict[str, str]:
    """Return what `perfgate check` says of one, two and three new runs, and of as many as it asks for."""
    looks = [[gate.WORDS[one.exit_code] for one in ask((FIVE, TWO), base, new[:n])] for n in (1, 2, 3)]
    five, two = zip(*looks, strict=True)
    strict = ask(FIVE, base, new[:1], strict=True)[0]
    return {
        "perfgate 5%, one new run": five[0],
        "perfgate 5%, two new runs": five[1],
        "perfgate 5%, three new runs": five[2],
        "perfgate 5%, up to three new runs": _settled(five),
        "perfgate 5%, one new run, strict": gate.WORDS[strict.exit_code],
        "perfgate 2%, one new run": two[0],
        "perfgate 2%, up to three new runs": _settled(two),
    }


def _settled(looks: Sequence[str]) -> str:
    """Return the first answer that is not open, as `perfgate run` stops at it."""
    return next((one for one in looks if one != "open"), "open")


def others(base: peers.Runs, new: peers.Runs) -> dict[str, str]:
    """Return what the rules of other tools say of one new run; those that take several are asked with three, too."""
    said = {}
    for name, rule in peers.PEERS.items():
        said[name] = "fail" if rule(base, new[:1]) else "pass"
        if name in peers.OF_SEVERAL_RUNS:
            said[f"{name}, three new runs"] = "fail" if rule(base, new) else "pass"
    return said


def score(seed: int, repetitions: int, source: str, detectors: Detectors) -> dict[str, Rates]:
    """The rates of detectors on generated cases of one source."""
    found: dict[str, Rates] = {}
    for number in range(repetitions):
        for slower in SLOWER:
            base, new = models.case(source, seed, number, base=BASE_RUNS, new=NEW_RUNS, slower=slower, steps=STEPS)
            count(found, slower, source, detectors(base, new))
    return found


def count(found: dict[str, Rates], slower: float, source: str, said: dict[str, str]) -> None:
    """Add what was said of one case."""
    for detector, outcome in said.items():
        cells = found.setdefault(detector, {}).setdefault(f"{slower:g}", {}).setdefault(source, {})
        cells[outcome] = cells.get(outcome, 0) + 1


def levels(seed: int, repetitions: int, source: str) -> dict[str, dict[str, float]]:
    """Return how often a shown interval excludes the truth on its bad side: by base runs and prior, nominally 5 %.

    The code is the same, and an interval of any of the three looks counts, because the looks share the error rate.
    """
    found: dict[str, Counter[str]] = {}
    cells = [(runs, prior) for runs in (1, 3, 5) for prior in ("default", "calibrated")]
    for number in range(repetitions):
        runs, new = models.case(source, seed, number, base=CALIBRATION + 5, new=NEW_RUNS, slower=0, steps=STEPS)
        learned = calibrate_prior(runs[:CALIBRATION])
        for base_runs, prior in cells:
            known = gate.calibrated(learned.s0, learned.d0) if prior == "calibrated" else None
            missed = misses(runs[-base_runs:], new, known)
            found.setdefault(f"{base_runs} base runs, {prior} prior", Counter())[source] += missed
    return {cell: {source: missed[source] / repetitions} for cell, missed in found.items()}


def misses(base: peers.Runs, new: peers.Runs, known: Baseline | None) -> bool:
    """Return whether the interval of one of the looks at unchanged code is above no change."""
    for look in range(1, len(new) + 1):
        change = ask(FIVE, base, new[:look], known)[0].change
        if change is not None and change.low is not None and change.low > 0:
            return True
    return False


def creep(seed: int, repetitions: int, source: str) -> dict[str, dict[str, list[int | None]]]:
    """The first run, counted after the anchor's five, at which a history exceeds its budget of 2 %, or warns."""
    found: dict[str, dict[str, list[int | None]]] = {}
    for number in range(repetitions):
        for each in (0.0, CREEP):
            rng = np.random.default_rng([seed, number, len(source), sum(map(ord, source))])
            drawn = models.MODELS[source](rng, HISTORY, STEPS)
            runs = [run * math.exp(each * i) for i, run in enumerate(drawn)]
            for name, first in _firsts(runs).items():
                cells = found.setdefault(f"{name}, {'creep' if each else 'same code'}", {})
                cells.setdefault(source, []).append(first)
    return found


def _firsts(runs: peers.Runs) -> dict[str, int | None]:
    """The first new run that is over the budget, and the first with a warning.

    The stored runs are those that a level keeps: the five of the anchor, and the newest ten.
    """
    found: dict[str, int | None] = {"budget 2%": None, "history warning": None}
    history = [gate.run_of(run, f"{gate.PLACE}/{i}.json") for i, run in enumerate(runs)]
    rule, known = "time within 2% of anchor", Baseline(anchor=tuple(history[:ANCHOR]))
    for at in range(ANCHOR, HISTORY):
        sides = runs[max(at - 10, 0) : at], runs[at : at + 1]
        if found["budget 2%"] is None and ask(rule, *sides, known)[0].exit_code == 1:
            found["budget 2%"] = at - ANCHOR + 1
        case = gate.case_of(rule, *sides, known)
        kept = replace(case.baseline, runs=tuple(history[max(at - 10, 0) : at]))  # with the names of the anchor's runs
        if found["history warning"] is None and drifts(case, JudgedRuns.of(case.new, kept, {})):
            found["history warning"] = at - ANCHOR + 1
    return found


def wilson(hits: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a rate: Wilson (1927)."""
    share = hits / n
    centre, half = share + z * z / 2 / n, z * math.sqrt(share * (1 - share) / n + z * z / 4 / n / n)
    return max(0.0, (centre - half) / (1 + z * z / n)), min(1.0, (centre + half) / (1 + z * z / n))
