"""From the numbers of a stored verdict to its outcome, in lines that a person can check with a calculator."""

from __future__ import annotations

import math
from collections.abc import Iterator

from perfgate.core import Estimate, Verdict
from perfgate.core.calculations import Asks, Comparison
from perfgate.core.units import format_change, format_number
from perfgate.core.wording import listed, plural, series_name
from perfgate.words.numbers import unit_for, value_text, what
from perfgate.words.work import is_work

#: The question of each comparison; {} is its edge, in percent.
_QUESTIONS: dict[Asks, str] = {
    "excluded": "is a change of {} excluded?",
    "within": "is it within {}?",
    "a-change": "is there a change?",
    "beyond": "is it beyond {}?",
    "beyond-at-worst": "last look: is the estimate beyond {}?",
    "kept": "is it on the good side of the bound?",
    "broken": "is it on the bad side of the bound?",
}
#: The most runs of a side in a line, and the most counts of work that differ.
_MOST_RUNS, _MOST_COUNTS = 12, 12


def calculation(verdict: Verdict) -> Iterator[str]:
    """Yield the values of the runs, the estimate, each bound beside its edge, and what the table of outcomes says."""
    yield f"{what(verdict)} {verdict.asks}: {verdict.outcome.upper()} (exit {verdict.exit_code})"
    # Otherwise the outcome does not come from numbers, and the message has its reason.
    is_judged = verdict.outcome not in ("error", "skipped") or verdict.calculation is not None
    if is_work(verdict):
        yield from _work(verdict)
    elif not is_judged or verdict.new is None or verdict.new.estimate is None:
        yield f"not judged: {verdict.message}"
        return
    elif verdict.kind == "limit":
        yield from _limit(verdict, verdict.new, verdict.new.estimate)
    else:
        yield from _change(verdict)
    yield _table(verdict)


def _change(verdict: Verdict) -> Iterator[str]:
    """Yield the change as the logarithm of a ratio, the noise, and each bound beside its edge."""
    base, new = (side.estimate if side else None for side in (verdict.base, verdict.new))
    yield from _runs(verdict, "base")
    yield from _runs(verdict, "new")
    found = verdict.calculation
    if found is None or not found.comparisons:
        yield _without_comparisons(verdict, base, new)
        return
    d = found.comparisons[0].estimate
    of = "mean of ln(new / base) of the pairs"
    # The change of pairs is not the ratio of the two values.
    if base and new and abs(math.log(new / base) - d) <= 1e-6:
        factor = unit_for(max(base, new), verdict).factor
        of = f"ln({new / factor:.7g} / {base / factor:.7g})"
    logs = [math.log(run.estimate) for run in verdict.runs if base and run.side == "base" and run.estimate]
    # If far base runs were clipped, the base value is not the geometric mean of the runs.
    is_clipped = base and logs and abs(math.fsum(logs) / len(logs) - math.log(base)) > 1e-6
    clipped = "; far base runs are moved nearer to the median" if is_clipped else ""
    yield f"change: {of} = {d:.6g}, which is {format_change(math.expm1(d))}{clipped}"
    if verdict.noise is not None:
        runs = plural(verdict.noise.runs, "run")
        yield f"noise between runs: {100 * verdict.noise.deviation:.3g}%, from {runs} ({verdict.noise.source})"
    for comparison in found.comparisons:
        edge = math.expm1(comparison.edge)
        size = f"{edge:+.6g}"  # its sign, then its digits
        shown = f"ln(1 {size[0]} {size[1:]}) = {comparison.edge:.6g}" if edge else "0"
        yield from _compared(comparison, f"{format_number(100 * abs(edge), 4)}%", shown)


def _without_comparisons(verdict: Verdict, base: float | None, new: float | None) -> str:
    """Return both values and what is allowed, for values without noise or without a ratio."""
    ratio = verdict.change.estimate if verdict.change else None
    reason = verdict.calculation.reason if verdict.calculation else verdict.reason
    # A value of 0 or less has no logarithm; only a tolerance in units (`within 5 ms`) judges it.
    if ratio is None and reason in ("interval", "cannot-exclude"):
        return f"a ratio does not exist, so the differences are compared; allowed: {verdict.asks}"
    change, allowed = "no ratio", f"; allowed: {verdict.asks}"
    if ratio is not None:
        change = format_change(ratio)
        allowed = "" if verdict.tolerance is None else f"; allowed: {format_number(100 * verdict.tolerance, 6)}%"
    return f"without noise: {value_text(base, verdict)} → {value_text(new, verdict)}, {change}{allowed}"


def _runs(verdict: Verdict, side: str) -> Iterator[str]:
    """Yield the values of the runs of a side, and their mean, if they are known."""
    values = [run.estimate for run in verdict.runs if run.side == side and run.estimate is not None]
    estimates = {name: found.estimate for name, found in (("base", verdict.base), ("new", verdict.new)) if found}
    known = [estimate for estimate in estimates.values() if estimate is not None]
    mean = estimates.get(side)
    if not values or mean is None:
        return
    unit = unit_for(max(known, key=abs), verdict)  # the same for both sides
    shown = listed([f"{value / unit.factor:.7g}" for value in values], _MOST_RUNS)
    if len(values) == 1:
        yield f"{side}: {shown} {unit.symbol}"
        return
    has_ratio = all(run.estimate is None or run.estimate > 0 for run in verdict.runs)
    kind = "geometric mean" if verdict.kind == "change" and has_ratio else "mean"
    yield f"{side}: {shown}; {kind} {mean / unit.factor:.7g} {unit.symbol}"


def _compared(comparison: Comparison, edge: str, shown: str) -> Iterator[str]:
    """Yield the t quantile of a bound, and the bound beside its edge: `edge` in the question, `shown` in the result."""
    estimate, t, error = comparison.estimate, comparison.quantile, comparison.standard_error
    question, freedom = _QUESTIONS[comparison.asks].format(edge), f"{comparison.degrees_of_freedom:.6g}"
    level = f"{1 - comparison.error_rate:.7g}"
    yield f"{question} standard error {error:.6g}, {freedom} degrees of freedom: t({level}) = {t:.6g}"
    sign = -1 if comparison.is_above else 1  # the lower bound is compared if it has to be above its edge
    bound, lucky = estimate + sign * t * error, ""
    # A gain whose bound is a loss may be luck: it excludes no more than an estimate of 0 does (`Bounds.not_excluded`).
    if comparison.asks == "excluded" and sign * estimate < 0 <= sign * bound:
        estimate, bound, lucky = 0.0, sign * t * error, " (a gain within the noise counts as 0)"
    sum_of_both = f"{estimate:.6g}{lucky} {'-' if comparison.is_above else '+'} {t:.6g} x {error:.6g} = {bound:.6g}"
    relation = "above" if bound > comparison.edge else "below"
    yield f"    {sum_of_both}, {relation} {shown}: {'yes' if comparison.holds else 'no'}"


def _limit(verdict: Verdict, new: Estimate, estimate: float) -> Iterator[str]:
    """Yield the share of values beyond the bound with its Clopper-Pearson interval, or the bounds of the estimate."""
    yield from _runs(verdict, "new")
    bound = f"{verdict.comparator} {value_text(verdict.bound, verdict)}"
    share, allowed, found = verdict.share, verdict.allowed_share, verdict.calculation
    if share is not None and share.estimate is not None and allowed is not None and share.n_effective is not None:
        n, k = share.n_effective, share.estimate * share.n_effective
        yield f"share of values that are not {bound}: {share.estimate:.6g}, of {new.n} values; allowed: {allowed:.6g}"
        yield f"    that is k = {k:.6g} of n = {n:.6g} independent values (effective sample size)"
        rate = 1 - verdict.confidence
        low = f"beta({rate:.6g}; k, n - k + 1): {share.low or 0.0:.6g}" if k else "without such values: 0"
        yield f"    lowest share, {low}; above {allowed:.6g} it fails"
        yield f"    highest share, beta({1 - rate:.6g}; k + 1, n - k): {share.high:.6g}; up to {allowed:.6g} it passes"
    elif found is not None and found.comparisons:
        yield f"estimate: {estimate:.7g} in the base unit ({verdict.unit})"
        for comparison in found.comparisons:
            yield from _compared(comparison, "", f"{comparison.edge:.7g}")
    else:
        yield f"without noise: {value_text(estimate, verdict)}; allowed: {bound}"


def _work(verdict: Verdict) -> Iterator[str]:
    """Yield the first counts that differ, and how they are compared; equal counts have no line."""
    for count in verdict.work[:_MOST_COUNTS]:
        name = series_name(count.metric, count.labels, None, count.member)
        what = "more" if count.new > count.base else "less"
        yield f"{name} in a step: {count.base:.12g} → {count.new:.12g}, {what}{', varies' if count.varies else ''}"
    if not verdict.work:
        yield f"no count differs: {verdict.message}"
    if not all(count.varies for count in verdict.work):
        yield f"counts are compared exactly: one more{' or fewer' if verdict.asks.startswith('same ') else ''} fails"
    if any(count.varies for count in verdict.work):
        yield "counts that vary between runs are compared by the mean"


def _table(verdict: Verdict) -> str:
    """Return which row of the table of outcomes decided."""
    found, outcome = verdict.calculation, verdict.outcome.upper()
    if found is None or (found.outcome, found.reason) == (verdict.outcome, verdict.reason):
        return f"nothing outranks the numbers: {outcome}" + (f" ({_suspicion(verdict)})" if verdict.suspect else "")
    # The setting gives an open answer another outcome and keeps its reason; it does not change a suspicion.
    if found.outcome == "undecided" and found.reason == verdict.reason and not found.suspect:
        return f"the numbers leave it open, and `on_inconclusive` of the rule decides: {outcome}"
    return f"the numbers alone: {found.outcome}; `{verdict.reason}` outranks them: {outcome}"


def _suspicion(verdict: Verdict) -> str:
    """Return why an open answer is probably worse."""
    found = verdict.calculation
    if is_work(verdict):
        return "these counts vary between runs"
    # If the runs show the change, it is open only because one run may be unlucky.
    if verdict.reason == "one-run" or (found is not None and all(comparison.holds for comparison in found.comparisons)):
        return "one run is not proof"
    if verdict.kind == "limit":
        return "the estimate is on the bad side of the bound"
    return "probably worse: p < 0.05, and the estimate is beyond"
