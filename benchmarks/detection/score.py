"""Every detector on the same cases: how often each alarms, and how often it says that it cannot tell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import models
import numpy as np
import peers

from perfgate.analysis.drift import LEAST_PROBABILITY
from perfgate.core.results import ChangeResult
from perfgate.judge.decide_change!! import judge_measured_change
from perfgate.judge.question import ChangeTerms
from perfgate.stats.change_points import find_change_points
from perfgate.stats.history import prior_from
from perfgate.stats.statistics import RunMeasure, measure_run

#: How much slower the new runs are; 0 is the same code.
SLOWER = (0.0, 0.05, 0.10)
BASE_RUNS, NEW_RUNS, STEPS = 5, 3, 100
#: A history of so many runs, and how much slower each is than the one before.
HISTORY, CREEP = 60, 0.002
#: Runs of the same code from which noise is calibrated.
CALIBRATION = 10

Measures: TypeAlias = Sequence[RunMeasure]
#: {slowdown: {source: {outcome: how often}}} of one detector.
Rates: TypeAlias = dict[str, dict[str, dict[str, int]]]


def judged(base: Measures, new: Measures, **terms: Any) -> ChangeResult:
    """Return the decision of perfgate, from the function behind every verdict."""
    return judge_measured_change(base, new, ChangeTerms(**{"tolerance": 0.05, **terms}))


def _with_one_re_run(base: Measures, new: Measures) -> str:
    """The protocol of a re-run: what one new run does not pass is judged again with two more."""
    first = judged(base, new[:1]).outcome
    return first if first == "pass" else judged(base, new).outcome


#: perfgate as it may be used, on measured runs; those with three new runs are marked so.
PERFGATE: dict[str, Callable[[Measures, Measures], str]] = {
    "perfgate 5%": lambda base, new: judged(base, new[:1]).outcome,
    "perfgate 5%, strict": lambda base, new: judged(base, new[:1], strict=True).outcome,
    "perfgate 2%": lambda base, new: judged(base, new[:1], tolerance=0.02).outcome,
    "perfgate 5%, re-run if not passed": _with_one_re_run,
    "perfgate 5%, three new runs": lambda base, new: judged(base, new).outcome,
}


def outcomes(base: peers.Runs, new: peers.Runs, known: dict[int, RunMeasure]) -> dict[str, str]:
    """Return the outcome of every detector for one case; `known` keeps the measures of base runs between slowdowns."""
    for i, run in enumerate(base):
        if i not in known:
            known[i] = measure_run(run)
    before = [known[i] for i in range(len(base))]
    after = [measure_run(run) for run in new]
    said = {name: detector(before, after) for name, detector in PERFGATE.items()}
    for name, rule in peers.PEERS.items():
        said[name] = "fail" if rule(base, new[:1]) else "pass"
        if name in peers.OF_SEVERAL_RUNS:
            said[f"{name}, three new runs"] = "fail" if rule(base, new) else "pass"
    return said


def score(seed: int, repetitions: int, sources: Iterable[str]) -> dict[str, Rates]:
    """The rates of every detector on generated cases."""
    found: dict[str, Rates] = {}
    for source in sources:
        for number in range(repetitions):
            known: dict[int, RunMeasure] = {}
            for slower in SLOWER:
                base, new = models.case(source, seed, number, base=BASE_RUNS, new=NEW_RUNS, slower=slower, steps=STEPS)
                count(found, slower, source, outcomes(base, new, known))
    return found


def count(found: dict[str, Rates], slower: float, source: str, said: dict[str, str]) -> None:
    """Add what was said of one case."""
    for detector, outcome in said.items():
        cells = found.setdefault(detector, {}).setdefault(f"{slower:g}", {}).setdefault(source, {})
        cells[outcome] = cells.get(outcome, 0) + 1


def levels(seed: int, repetitions: int, sources: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the rates at which the same code fails at tolerance 0, nominally 5 %: by base runs and prior."""
    found: dict[str, Counter[str]] = {}
    cells = [(runs, prior) for runs in (1, 3, 5) for prior in ("default", "calibrated")]
    for source in sources:
        for number in range(repetitions):
            runs, new = models.case(source, seed, number, base=CALIBRATION + 5, new=1, slower=0, steps=STEPS)
            measures = [measure_run(run) for run in runs]
            after = [measure_run(run) for run in new]
            learned = prior_from(measures[:CALIBRATION])
            for base_runs, prior in cells:
                known = {"prior": (learned.s0, learned.d0)} if prior == "calibrated" else {}
                result = judged(measures[-base_runs:], after, tolerance=0.0, **known)
                failed = found.setdefault(f"{base_runs} base runs, {prior} prior", Counter())
                failed[source] += result.outcome == "fail"
    return {cell: {source: n / repetitions for source, n in failed.items()} for cell, failed in found.items()}


def creep(seed: int, repetitions: int, sources: Iterable[str]) -> dict[str, dict[str, list[int | None]]]:
    """The first run, counted after the anchor's five, at which a history exceeds its budget of 2 %, or warns."""
    found: dict[str, dict[str, list[int | None]]] = {}
    for source in sources:
        for number in range(repetitions):
            for each in (0.0, CREEP):
                rng = np.random.default_rng([seed, number, len(source), sum(map(ord, source))])
                runs = models.MODELS[source](rng, HISTORY, STEPS)
                measures = [measure_run(run * math.exp(each * i)) for i, run in enumerate(runs)]
                for name, alarm in (("budget 2%", _over_budget), ("history warning", _warns)):
                    first = next((n - 5 for n in range(6, HISTORY + 1) if alarm(measures[:n])), None)
                    found.setdefault(f"{name}, {'creep' if each else 'same code'}", {}).setdefault(source, []).append(
                        first
                    )
    return found


def _over_budget(history: Measures) -> bool:
    """The last five runs against the anchor, as `within 2% of anchor` holds them."""
    result = judged(history[:5], history[-5:], tolerance=0.02, confidence=0.99)
    return result.outcome == "fail" and not result.suspect  # a suspicion never convicts against an anchor


def _warns(history: Measures) -> bool:
    """Return whether `check` warns about the kept runs of a level: the anchor's five, the newest ten, the new one."""
    kept = [*history[:5], *history[5:][-11:]]
    values = [run.value or math.nan for run in kept]
    errors = [(run.value or 0.0) * math.sqrt(run.within_variance or 0.0) for run in kept]
    points = [p for p in find_change_points(values, errors=errors) if p.probability > LEAST_PROBABILITY]
    return bool(points and points[-1].worse)


def wilson(hits: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a rate: Wilson (1927)."""
    share = hits / n
    centre, half = share + z * z / 2 / n, z * math.sqrt(share * (1 - share) / n + z * z / 4 / n / n)
    return max(0.0, (centre - half) / (1 + z * z / n)), min(1.0, (centre + half) / (1 + z * z / n))
