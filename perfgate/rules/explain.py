"""A rule in words: what it measures, what it is held against, and what it would need."""

from __future__ import annotations

import math

from perfgate.core.statistic_names import STATISTICS, percent_of
from perfgate.rules.ruleset import Rule, Ruleset
from perfgate.rules.syntax.sentence import ChangeClause, Clause, LimitClause, Selector, is_per_run, selectors

#: Every choice of a rank, in words.
RANKS = {
    "each": "every rank by itself, with a verdict for each",
    "worst": "the rank that is worst in each run",
    "slowest": "the slowest rank of each run",
    "fastest": "the fastest rank of each run",
    "median": "the median rank of each run",
    "across": "all ranks together, pooled",
}


def explain(rule: Rule, ruleset: Ruleset) -> str:
    """One rule as a short paragraph, one fact a line."""
    lines = [f"{rule.name}  ({rule.at})", f"  {rule.sentence.text}"]
    lines += [
        f"  {line}"
        for line in (
            _subject(rule, ruleset),
            *(_clause(rule, clause) for clause in rule.sentence.clauses),
            *_settings(rule),
        )
    ]
    return "\n".join(lines)


def _subject(rule: Rule, ruleset: Ruleset) -> str:
    sentence = rule.sentence
    if is_per_run(sentence.subject):
        return f"computes {sentence.subject_text} once for each run, after its warm-up"
    statistic = sentence.statistic
    words = STATISTICS.get(statistic or "") or (f"the {statistic[1:]}th percentile" if statistic else None)
    words = words or "the median (of an aggregate the mean, of a single value the value)"
    derived = [
        f"{s.pattern} = {ruleset.metrics[s.pattern].text}"
        for s in selectors(sentence.subject)
        if s.pattern in ruleset.metrics
    ]
    where = f", where {'; '.join(derived)}, step by step" if derived else ""
    each = (
        " for every metric that matches" if isinstance(sentence.subject, Selector) and sentence.subject.is_glob else ""
    )
    ranks = RANKS[sentence.rank or "worst"]
    return f"measures {words} of {sentence.subject_text}{each}{where}; with several ranks, {ranks}"


def _clause(rule: Rule, clause: Clause) -> str:
    return _limit(rule, clause.asks) if isinstance(clause.asks, LimitClause) else _change(clause.asks)


def _limit(rule: Rule, limit: LimitClause) -> str:
    confidence = f"{100 * rule.settings.confidence:g}%"
    text = f"passes when it is {limit.comparator} {limit.bound} at {confidence} confidence, "
    return text + "fails when it is not at the same" + _values_needed(rule, limit)


def _values_needed(rule: Rule, limit: LimitClause) -> str:
    """Effective values that a percentile limit needs before it can pass: ln .05 / ln q at 95 % confidence."""
    if is_per_run(rule.sentence.subject):
        return ""
    statistic = rule.sentence.statistic or "median"
    q = 0.5 if statistic == "median" else (percent_of(statistic) or 0.0) / 100
    inside = q if limit.upper else 1 - q
    if not 0 < inside < 1:
        return ""
    needed = math.ceil(math.log(1 - rule.settings.confidence) / math.log(inside))
    return f"; to pass, a run needs at least {needed} independent values"


def _change(change: ChangeClause) -> str:
    parts = [f"{100 * change.relative:g}%"] if change.relative is not None else []
    parts += [str(change.absolute)] if change.absolute is not None else []
    beyond = " and also ".join(parts)
    side = {
        "worse": "worse",
        "both": "better or worse",
        "upper": "higher",
        "lower": "lower",
    }[change.side]
    if change.reference.endswith("rank"):
        return f"compares with the {change.reference} of the same run: it may be at most {beyond} {side}"
    runs = (
        "the newest runs of the current level" if change.reference == "baseline" else "the runs that the anchor keeps"
    )
    return f"compares with {runs}: it fails when it is surely more than {beyond} {side}, passes when it surely is not"


def _settings(rule: Rule) -> list[str]:
    settings = rule.settings
    lines = [f"judged only when {' and '.join(map(str, rule.when))}"] if rule.when else []
    if rule.expect_fail:
        lines.append(f"skipped until {rule.expect_fail.until}: {rule.expect_fail.reason}")
    effect = "blocks (exit 1)" if settings.severity == "error" else "is only said"
    unsure = {"warn": "is said, and exits 0", "fail": "counts as a failure (exit 1)", "error": "exits 3"}
    lines.append(f"a failure {effect}; not being able to tell {unsure[settings.on_inconclusive or 'warn']}")
    return [*lines, *([f"why: {rule.why}"] if rule.why else [])]
