"""Explain a rule in words: what it measures, when it passes or fails, and how many values it needs."""

from __future__ import annotations

import math

from perfgate.core.units import format_confidence
from perfgate.core.wording import STATISTICS, percent_of
from perfgate.rules.model_section import in_words
from perfgate.rules.ruleset import AtWorst, Rule, Ruleset, is_narrower
from perfgate.rules.syntax.grammar import COUNTS
from perfgate.rules.syntax.sentence import (
    ChangeClause,
    LargestLoad,
    LimitClause,
    Selector,
    WorkClause,
    is_per_run,
    selectors,
)

#: Every choice of a rank, in words.
RANKS = {
    "each": "each rank separately, with one verdict per rank",
    "worst": "the worst rank of each run",
    "slowest": "the slowest rank of each run",
    "fastest": "the fastest rank of each run",
    "median": "the median rank of each run",
    "across": "all ranks together, pooled",
}
_NEWEST = "the newest runs of the current level"
_SIDES = {"worse": "worse", "both": "better or worse", "upper": "higher", "lower": "lower"}


def explain(rule: Rule, ruleset: Ruleset) -> str:
    """Return one rule as a short paragraph, one fact per line."""
    lines = [
        *([rule.sentence.text] if rule.id else []),
        _subject(rule, ruleset),
        *(_clause(rule, clause.asks) for clause in rule.clauses),
        *_promises(rule),
        *_settings(rule),
    ]
    return "\n".join([f"{rule.name}  ({rule.at})", *(f"  {line}" for line in lines)])


def _subject(rule: Rule, ruleset: Ruleset) -> str:
    """Return the line that says what the rule measures."""
    sentence, subject, asks = rule.sentence, rule.sentence.subject, rule.sentence.clauses[0].asks
    if isinstance(subject, LargestLoad):
        return _largest_load(subject)
    if is_per_run(subject):
        return f"computes {sentence.subject_text} once for each run, after its warm-up"
    if isinstance(asks, WorkClause):
        of = "the device" if asks.device else "host and device"
        what = f"the counts {subject.pattern}" if isinstance(subject, Selector) else "work"
        return f"counts what each step asks of {of}: {what}, for each rank and device"
    names = [selector.pattern for selector in selectors(subject)]
    derived = [f"{name} = {ruleset.metrics[name].text}" for name in names if name in ruleset.metrics]
    if ruleset.model is not None and not {"mfu", "hfu"}.isdisjoint(names):
        derived += in_words(ruleset.model, names)
    where = f", where {'; '.join(derived)}, step by step" if derived else ""
    each = " for every metric that matches" if isinstance(subject, Selector) and subject.is_glob else ""
    ranks = RANKS[sentence.rank or "worst"]
    return f"measures {_statistic(rule)} of {sentence.subject_text}{each}{where}; with several ranks: {ranks}"


def _statistic(rule: Rule) -> str:
    statistic = rule.sentence.statistic
    if statistic is not None:
        return STATISTICS.get(statistic) or f"the {statistic[1:]}th percentile"
    if _is_limit_of_count(rule):
        return "the worst step"
    return "the median (the mean of an aggregate; a single value as it is)"


def _largest_load(load: LargestLoad) -> str:
    words = [(one.of.pattern, one.statistic, one.limit.comparator, str(one.limit.bound)) for one in load.limits]
    limits = " and ".join(" ".join(word for word in each if word) for each in words)
    what = f"the largest {load.of.pattern}" if load.is_condition else f"{load.of.pattern} at the largest load"
    return f"finds {what} of each run that keeps {limits}, and so does every smaller measured load; 0 if none does"


def _limit(rule: Rule, limit: LimitClause) -> str:
    """Return when a limit passes, and how many independent values a percentile needs to pass."""
    confidence = rule.settings.confidence
    interval = f"the whole confidence interval ({format_confidence(confidence)} on each side)"
    text = f"passes if {interval} is {limit.comparator} {limit.bound}, fails if none of it is"
    statistic = rule.sentence.statistic or "median"
    q = 0.5 if statistic == "median" else (percent_of(statistic) or 0.0) / 100  # 0 for the mean and the like
    inside = q if limit.upper else 1 - q
    if _is_limit_of_count(rule) and rule.sentence.statistic is None:
        return f"passes if every step is {limit.comparator} {limit.bound}; counts have no noise: one run decides"
    if is_per_run(rule.sentence.subject) or not 0 < inside < 1:
        return text
    # With the percentile just at the bound, n values are all on its good side with probability inside ** n.
    needed = math.ceil(math.log(1 - confidence) / math.log(inside))
    return f"{text}; to pass, a run needs at least {needed} independent values"


def _is_limit_of_count(rule: Rule) -> bool:
    subject, asks = rule.sentence.subject, rule.sentence.clauses[0].asks
    return isinstance(subject, Selector) and subject.pattern in COUNTS and isinstance(asks, LimitClause)


def _clause(rule: Rule, asks: LimitClause | ChangeClause | WorkClause) -> str:
    """Return the line that says when a clause passes or fails."""
    if isinstance(asks, WorkClause):
        what = "any count of it differs" if asks.is_same else "any count of it grew"
        return f"compares each step with {_NEWEST}, exactly: fails if {what}; one run is enough"
    if isinstance(asks, LimitClause):
        return _limit(rule, asks)
    parts = [f"{100 * asks.relative:g}%"] if asks.relative is not None else []
    parts += [str(asks.absolute)] if asks.absolute is not None else []
    tolerance = f"{' and also '.join(parts)} {_SIDES[asks.side]}"
    if asks.reference.endswith("rank"):
        return f"compares with the {asks.reference} of the same run: it may be at most {tolerance}"
    runs = _NEWEST if asks.reference == "baseline" else "the runs of the anchor"
    return f"compares with {runs}: fails if it is clearly more than {tolerance}, passes if it is clearly not"


def _promises(rule: Rule) -> list[str]:
    """Return the promises of exit code 0: for each comparison with the baseline, and for limits with `at_worst`.

    A warning has none: its exit code is 0 in any case. The clause of a budget is not in the sentence, and promises
    nothing.
    """
    if rule.settings.severity != "error":
        return []
    at_worst, lines = rule.settings.at_worst, []
    for asks in (clause.asks for clause in rule.sentence.clauses):
        if isinstance(asks, ChangeClause) and asks.reference == "baseline":
            size = at_worst.text if at_worst else _twice(asks)
            level = format_confidence(rule.settings.confidence)
            promise = f"a change of {size} or more is excluded at {level} confidence"
            lines.append(f"exit 0 promises: {promise}; if not, exit 3")
        elif isinstance(asks, LimitClause) and at_worst is not None and (value := _beyond(at_worst, asks)):
            lines.append(f"exit 0 promises: {value} or worse is excluded; if not, exit 3")
    return lines


def _beyond(at_worst: AtWorst, asks: LimitClause) -> str | None:
    """Return the promised value beyond a limit; None if `at_worst` comes from `defaults` and does not fit this limit.

    Then it is a size of changes, or a value within the limit.
    """
    if at_worst.beyond(asks) is None or is_narrower(at_worst, asks):
        return None
    fits = at_worst.absolute is not None and at_worst.absolute.base == asks.bound.base
    return str(at_worst.absolute) if fits else f"{100 * (at_worst.relative or 0.0):g}%"


def _twice(asks: ChangeClause) -> str:
    """Return twice the tolerance, which is the default of `at_worst`."""
    parts = [f"{200 * asks.relative:g}%"] if asks.relative is not None else []
    if asks.absolute is not None:
        symbol = f" {asks.absolute.unit.symbol}" if asks.absolute.unit else ""
        parts.append(f"{2 * asks.absolute.number:g}{symbol}")
    return " and also ".join(parts)


def _settings(rule: Rule) -> list[str]:
    settings = rule.settings
    lines = [f"judged only if {' and '.join(map(str, rule.when))}"] if rule.when else []
    if rule.expect_fail:
        lines.append(f"skipped until {rule.expect_fail.until}: {rule.expect_fail.reason}")
    if rule.quarantine:
        lines.append(f"does not block until {rule.quarantine.until} (quarantine): {rule.quarantine.reason}")
    blocks = settings.severity == "error"
    effect = "blocks (exit 1)" if blocks else "is a warning (exit 0)"
    answers = {"warn": ("passes", 0), "fail": ("fails", 1), "error": ("is undecided", 3)}
    unsure, code = answers[settings.on_inconclusive or "warn"]
    lines.append(f"a failure {effect}; what noise leaves open {unsure} (exit {code if blocks else 0})")
    lines += [f"why: {rule.why}"] if rule.why else []
    return [*lines, *([f"owner: {settings.owner}"] if settings.owner else [])]
