"""Many metrics under one clause: with so many looks, chance alone would make some of them fail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfgate.judge.change import RUNS_TO_CONVICT, ChangeResult
from perfgate.judge.finding import Finding
from perfgate.judge.margin import Margin
from perfgate.judge.terms import ChangeTerms
from perfgate.rules.syntax.sentence import Clause, LimitClause
from perfgate.stats.distributions import discoveries, t_tail

#: A glob over more metrics than this is corrected for their number, and so is one with a narrower tolerance than this.
MOST_UNCORRECTED = 10
NARROW = 0.03


def p_beyond(result: ChangeResult, terms: ChangeTerms) -> float | None:
    """The probability of a change that looks this bad when it is as large as the tolerance; None where there is none.

    It is at most 1 - confidence exactly where the interval lies beyond the tolerance.
    """
    d, error, df = result.log_change, result.standard_error, result.degrees_of_freedom
    if result.reason != "interval" or d is None or not error or df is None or result.tolerance is None:
        return None
    margin = Margin.of_ratio(result.tolerance, terms.worse)
    above, below = t_tail(df, (d - margin.up) / error), t_tail(df, (margin.down - d) / error)
    return {"up": above, "down": below, "either": min(above, below)}[terms.worse]


def corrected(findings: Sequence[Finding], clause: Clause, confidence: float, strict: bool) -> list[Finding]:
    """The findings of a glob; a failure that so many looks may have made by chance becomes a suspicion.

    Benjamini and Hochberg over all metrics that were compared by an interval. What convicts a suspicion, three new runs
    or `strict`, convicts here, too.
    """
    looks = [finding.p_beyond for finding in findings if finding.p_beyond is not None]
    if isinstance(clause.asks, LimitClause) or not _is_family(looks, clause.asks.relative):
        return list(findings)
    believed = iter(discoveries(looks, 1 - confidence))
    note = f"one of {len(looks)} metrics of a glob, held to Benjamini-Hochberg at {100 * (1 - confidence):g}%"
    return [
        finding if finding.p_beyond is None else _after(finding, next(believed), strict, note) for finding in findings
    ]


def _is_family(looks: Sequence[float], tolerance: float | None) -> bool:
    return len(looks) > MOST_UNCORRECTED or (len(looks) > 1 and tolerance is not None and tolerance < NARROW)


def _after(finding: Finding, believed: bool, strict: bool, note: str) -> Finding:
    """One finding of a family after the correction."""
    if finding.outcome != "fail":
        return finding
    finding = replace(finding, notes=(*finding.notes, note))
    new = finding.fields.get("new")
    if believed or strict or (new is not None and new.runs >= RUNS_TO_CONVICT):
        return finding
    step = "run the new side twice more and give all runs together: three runs settle it"
    return replace(finding, outcome="suspect", next_step=step, fields={**finding.fields, "suspect": True})
