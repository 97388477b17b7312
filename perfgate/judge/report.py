"""A whole report: its exit code and outcome, its geometric means, and the facts of the environment that differ.

Only `with_outcome` gives a report its outcome and its exit code. All commands that make a report call it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from perfgate.core import (
    QUARANTINED,
    Fact,
    MeanChange,
    Outcome,
    Problem,
    Quarantine,
    Report,
    Severity,
    Verdict,
    fact_text,
)
from perfgate.core.details import FactChange
from perfgate.core.runs import THROTTLE, same_fact
from perfgate.judge.evidence import Case

#: Reasons that are mistakes in a rule, not in the data: exit code 2.
USAGE_REASONS = ("no-unit", "improving-side")
#: Reasons for a skipped verdict that count as judged, because the user asked for the skip.
_SKIPPED_ON_REQUEST = ("no-baseline", "metric-absent")
#: If several codes apply: internal error, usage, failure, could not judge, nothing blocks.
_WORST_FIRST = (4, 2, 1, 3, 0)


def verdict_exit_code(outcome: Outcome, reason: str, severity: Severity, quarantine: Quarantine | None = None) -> int:
    """Return the exit code that one verdict alone would give."""
    if quarantine is not None and not quarantine.ended and outcome in QUARANTINED:
        return 0
    if outcome == "error":
        return 2 if reason in USAGE_REASONS else 3
    if outcome in ("pass", "skipped") or severity == "warning":
        return 0
    return 1 if outcome == "fail" else 3


def stored_exit_code(verdict: Verdict) -> int:
    """Return the exit code that a verdict from a stored report should have, whatever the file states."""
    return verdict_exit_code(verdict.outcome, verdict.reason, verdict.severity, verdict.quarantine)


def worst_exit_code(codes: Iterable[int]) -> int:
    """Return the exit code of several; the order is 4, 2, 1, 3, 0."""
    return min(codes, key=_WORST_FIRST.index, default=0)


def with_outcome(report: Report, at_least: int = 0) -> Report:
    """Return the report with the outcome and the exit code that its verdicts and problems give.

    Every error-level problem is exit code 3. So is a report without a judged verdict: all were skipped by `when`,
    `--only` or `expect_fail`. Only `compare` of identical files needs no judged verdict. Exit code 3 is `undecided` if
    only undecided verdicts are its reason, and else `error`; 0 is `skipped` if every verdict is. `at_least` is an exit
    code that is known already.
    """
    codes = [at_least, *(verdict.exit_code for verdict in report.verdicts)]
    if any(problem.severity == "error" for problem in report.problems):
        codes.append(3)
    skipped = (one.outcome == "skipped" and one.reason not in _SKIPPED_ON_REQUEST for one in report.verdicts)
    if not report.identical and all(skipped):
        codes.append(3)
    code = worst_exit_code(codes)
    is_whole = not any(problem.severity == "error" for problem in report.problems)
    deciding = {verdict.outcome for verdict in report.verdicts if code in (0, verdict.exit_code)}
    outcome: Outcome = {0: "pass", 1: "fail"}.get(code, "error")  # type: ignore[assignment]
    if code == 0 and deciding == {"skipped"}:
        outcome = "skipped"
    elif code == 3 and deciding == {"undecided"} and is_whole:
        outcome = "undecided"
    return replace(report, exit_code=code, outcome=outcome)


def with_problems(report: Report, problems: Sequence[Problem]) -> Report:
    """Return the report with further problems; its exit code can only get worse."""
    return with_outcome(replace(report, problems=(*report.problems, *problems)), at_least=report.exit_code)


def geometric_means(verdicts: Sequence[Verdict]) -> tuple[MeanChange, ...]:
    """Return the geometric mean of new/base for each unit with at least two verdicts, sorted by unit.

    Unlike other means it does not depend on which side is the base (Fleming and Wallace, "How not to lie with
    statistics", 1986). Metrics of one unit have the same better direction, except shares and ratios (unit `1`).
    """
    logs: dict[str, list[float]] = {}
    for verdict in verdicts:
        change = verdict.change.estimate if verdict.change else None
        if change is not None and change > -1:
            logs.setdefault(verdict.unit or "1", []).append(math.log1p(change))
    several = sorted((unit, found) for unit, found in logs.items() if len(found) > 1)
    return tuple(MeanChange(unit, len(found), math.expm1(sum(found) / len(found))) for unit, found in several)


#: Readings of a moment. They differ between any two runs, so a difference counts from this share on.
_READINGS, _LEAST_SHARE = ("gpu_temperature_c", "sm_clock_mhz", "memory_clock_mhz"), 0.1


def fact_changes(case: Case) -> tuple[FactChange, ...]:
    """Return the facts with a new value, one that no base run has; sorted by name.

    A fact that one side lacks is left out.

    Facts of `--env` and of the machine of the command belong to the new runs, and to both sides of pairs. Throttling is
    left out, because verdicts have a note about it.
    """
    is_paired = case.baseline.pairing is not None
    given = {name: fact for name, fact in case.facts.items() if name not in case.claimed and not is_paired}
    base = _values(run.environment for run in case.baseline.runs)
    new = _values({**run.environment, **given} for run in case.new)
    return tuple(
        FactChange(name, tuple(base[name]), tuple(new[name]), claimed=name not in given)
        for name in sorted({*base} & {*new} - {THROTTLE})
        if any(not any(_alike(name, one, other) for other in base[name].values()) for one in new[name].values())
    )


def _values(environments: Iterable[Mapping[str, Fact]]) -> dict[str, dict[str, Fact]]:
    """Return the different values of each fact, by their texts."""
    found: dict[str, dict[str, Fact]] = {}
    for environment in environments:
        for name, fact in environment.items():
            found.setdefault(name, {})[fact_text(fact)] = fact
    return found


def _alike(name: str, one: Fact, other: Fact) -> bool:
    """Return whether two values of a fact count as equal."""
    if name not in _READINGS:
        return same_fact(one, other)
    if isinstance(one, str) or isinstance(other, str):  # of several GPUs
        return True
    return abs(one - other) < _LEAST_SHARE * max(abs(one), abs(other), 1e-9)
