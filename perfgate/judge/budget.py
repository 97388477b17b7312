"""A report stays small: the values behind its best verdicts are left out when there are too many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfgate.core import OUTCOMES, Verdict
from perfgate.core.details import RunDetails, VerdictDetails

#: In values and runs of a report: about 16 bytes of JSON a value with its step, 400 a run without its values.
MOST_VALUES = 220_000
_RUN_COSTS = 20


def within_budget(
    verdicts: Sequence[Verdict], found: Sequence[VerdictDetails], most: int = MOST_VALUES
) -> tuple[tuple[VerdictDetails, ...], int]:
    """The evidence in `most` values, and of how many verdicts something was left out.

    The worst verdicts keep theirs. What does not fit loses its values first, then its runs.
    """
    kept = dict.fromkeys(evidence.verdict for evidence in found)
    small: dict[int, VerdictDetails] = {}
    worst_first = sorted(found, key=lambda evidence: OUTCOMES.index(verdicts[evidence.verdict].outcome))
    left_out = 0
    for evidence in worst_first:
        fitting = next((e for e in (evidence, _without_values(evidence)) if _cost(e) <= most), None)
        left_out += fitting is not evidence
        if fitting is not None:
            small[evidence.verdict] = fitting
            most -= _cost(fitting)
    return tuple(small[verdict] for verdict in kept if verdict in small), left_out


def _cost(evidence: VerdictDetails) -> int:
    return sum(_RUN_COSTS + len(run.values) for run in evidence.runs)


def _without_values(evidence: VerdictDetails) -> VerdictDetails:
    return replace(evidence, runs=tuple(map(_estimate_only, evidence.runs)))


def _estimate_only(run: RunDetails) -> RunDetails:
    return replace(run, values=(), steps=(), warmup=0, stalls=())
