"""What a change between pairs needs beside its numbers: the prior, the least tolerance, and what reports say of it."""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.core.units import format_number
from perfgate.core.wording import listed, plural
from perfgate.judge.change import ChangeResult
from perfgate.judge.finding import Undecidable
from perfgate.judge.pairs import LEAST_TOLERANCE, PRIORS, WORDS, base_goes_first, order_bias, pair_ratios
from perfgate.judge.question import Question, Side
from perfgate.rules.syntax.sentence import ChangeClause
from perfgate.stats.statistics import RunMeasure


def is_paired(question: Question, asks: ChangeClause) -> bool:
    """Whether the reference is the other side of pairs, not stored runs."""
    return asks.reference == "baseline" and question.case.baseline.pairing is not None


def paired_prior(question: Question) -> tuple[float, float]:
    """What is believed of pairs before they are seen: calibrated, or what their making promises."""
    pairing = question.case.baseline.pairing or "whole-runs"
    found = question.calibrated_for(pairing)
    return (found.s0, found.d0) if found else PRIORS[pairing]


def paired_ratios(
    question: Question, base: Side, new: Side, base_runs: Sequence[RunMeasure], new_runs: Sequence[RunMeasure]
) -> list[RunMeasure]:
    """New / base of each pair, of which both sides were measured as runs, too."""
    by_turns = question.case.baseline.pairing != "whole-runs"
    base_values, new_values = ([series.values for series in side.series] for side in (base, new))
    return pair_ratios(base_runs, new_runs, base_values if by_turns else (), new_values, question.reading.statistic)


def check_tolerance(question: Question, result: ChangeResult) -> None:
    """Refuse a tolerance that the order alone may use up; equal bytes have no order. Raises Undecidable."""
    if result.reason in ("exact", "equal") or (result.tolerance or 0.0) >= LEAST_TOLERANCE:
        return
    message = (
        f"{question.subject.key}: a tolerance of {format_number(100 * (result.tolerance or 0.0))}% is too small for "
        "pairs: order and layout alone move unchanged code by up to 0.6%"
    )
    raise Undecidable("tolerance-too-small", message, "write `within 1% of baseline` or more")


def paired_notes(question: Question, result: ChangeResult, base: Side, new: Side) -> list[str]:
    """How the pairs were made, what their order did, and what limits them."""
    pairing = question.case.baseline.pairing or "whole-runs"
    notes = ["an improvement beyond the tolerance"] if result.improved else []
    known = question.calibrated_for(pairing)
    measured = f"; the noise between them was measured on {plural(known.runs, 'pair')}" if known else ""
    made = f"{plural(result.new_runs, 'pair')}, {WORDS[pairing]}"
    notes.append(f"judged against the paired base: {made}{measured}")
    firsts = [base_goes_first(number_of(view.run.source)) for view in base.views]
    bias = order_bias(base.series, new.series, firsts) if pairing != "whole-runs" else None
    if bias is not None:
        large = abs(bias) > (result.tolerance or 0.0)
        warning = ": more than the tolerance, so look at what a step leaves to the next" if large else ", which cancels"
        notes.append(f"the order moved single steps by {format_number(100 * abs(bias), 2)}%{warning}")
    if result.new_runs == 1 and pairing != "one-process":
        notes.append("one pair: what its processes drew at their start does not cancel")
    if question.case.baseline.unknown_facts:
        notes.append(f"{listed(question.case.baseline.unknown_facts)}: unknown on both sides")
    return notes + question.mode_notes(new.series)


def number_of(source: str) -> str:
    """The number of the pair in the name that `split_pairs` gave one of its sides."""
    return source.rpartition(", pair ")[2].partition(",")[0]
