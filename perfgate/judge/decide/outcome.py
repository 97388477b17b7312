"""Decide: the answer of the runs, then the doubts that outrank it (the table `_RANKS`), then the rule's settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from perfgate.core import BROKEN_PROMISES, OUTCOMES, Outcome
from perfgate.core.results import ChangeResult, Doubt, LimitResult, Result
from perfgate.judge.decide.change import weigh
from perfgate.judge.decide.exact import judge_work
from perfgate.judge.decide.limit import judge_steady_limit
from perfgate.judge.question import (
    ChangeQuestion,
    Exceptions,
    LimitQuestion,
    NotJudged,
    Question,
    RankQuestion,
    WorkQuestion,
)
from perfgate.judge.terms import ChangeTerms
from perfgate.stats.distributions import discoveries, t_tail
from perfgate.stats.margin import Margin

#: With this many new runs a suspicion about one of many metrics is a failure.
RUNS_TO_CONFIRM = 3
#: More metrics of a glob than this are corrected for multiple comparisons; fewer only if the tolerance is below NARROW.
MOST_UNCORRECTED = 10
NARROW = 0.03


#: An outcome; `undecided` is divided into `suspect` (probably worse) and `open`.
_Answer: TypeAlias = Outcome | Literal["open", "suspect"]


class _Rank(Struct, frozen=True):
    """A reason of doubts that outranks the statistics: the answers that it changes, and the outcome that it gives."""

    reason: str
    changes: tuple[_Answer, ...]
    gives: Outcome
    #: With `--strict`.
    gives_strictly: Outcome


_GREEN: tuple[_Answer, ...] = ("pass", "open")  # an open answer may become a pass in `_settled`
_JUDGED: tuple[_Answer, ...] = (*_GREEN, "suspect", "fail")
#: The doubts that decide, the strongest first.
_RANKS = (
    _Rank("measured-less", _JUDGED, "error", "error"),
    _Rank("machine", _JUDGED, "undecided", "undecided"),
    _Rank("warm-up", _GREEN, "undecided", "fail"),
    _Rank("implausible", (*_GREEN, "error"), "undecided", "undecided"),  # a metric that became 0 has no ratio
    _Rank("runs-disagree", _GREEN, "undecided", "undecided"),
)


def decide(questions: Sequence[Question]) -> list[Result]:
    """Return the answers to the questions of one clause, in order: one for each metric or rank.

    An outcome of `error` means that the values cannot be judged.
    """
    weighed = _by_chance(questions, [_weighed(question) for question in questions])
    return [_decided(question, one) for question, one in zip(questions, weighed, strict=True)]


def _decided(question: Question, found: Result) -> Result:
    """Return the answer after the doubts and the settings of the rule that outrank the statistics."""
    if isinstance(question, NotJudged):
        return found
    decided = _excepted(_settled(_ranked(question, _named(found)), question.exceptions), question.exceptions)
    if (decided.outcome, decided.reason) == (found.outcome, found.reason):
        return decided
    return replace(decided, outranked=found.of_numbers)


def _named(found: Result) -> Result:
    """Return the answer, with the reason `pooled` or `allowed` if pooled runs or an allowance gave it."""
    if isinstance(found, ChangeResult) and found.pooled is not None and found.pooled.decides:
        return replace(found, reason="pooled")
    if isinstance(found, ChangeResult) and found.allowance_effect == "eased" and found.outcome == "pass":
        return replace(found, reason="allowed")
    return found


def _weighed(question: Question) -> Result:
    """Return the answer of the statistics, with the doubts about it."""
    if isinstance(question, ChangeQuestion):
        return weigh(question)
    if isinstance(question, LimitQuestion):
        return _with_doubts(judge_steady_limit(question.runs, question.terms), question.doubts)
    if isinstance(question, RankQuestion):
        answers = [judge_steady_limit(question.ratios, terms) for terms in question.terms]
        worst = min(answers, key=lambda answer: OUTCOMES.index(answer.outcome))  # OUTCOMES begins with the worst
        return _with_doubts(worst, question.doubts)
    if isinstance(question, WorkQuestion):
        return judge_work(question)
    return question


def _with_doubts(found: LimitResult, doubts: Sequence[Doubt]) -> LimitResult:
    """Return the answer to a limit with its doubts; a slow start does not make a failure or a suspicion doubtful."""
    if found.outcome == "error":
        return found
    is_green = _answer(found) in _GREEN
    return replace(found, doubts=tuple(one for one in doubts if is_green or one.reason != "warm-up"))


def _by_chance(questions: Sequence[Question], weighed: Sequence[Result]) -> list[Result]:
    """Return the answers, corrected for multiple comparisons (Benjamini and Hochberg 1995) if they are of many metrics.

    A failure that chance may explain among many metrics is suspect, unless three new runs or `--strict` confirm it.
    """
    found = list(weighed)
    changes = [question for question in questions if isinstance(question, ChangeQuestion)]
    if len(changes) < 2:
        return found
    terms = changes[0].terms  # the questions of a clause have one tolerance, confidence and `strict`
    p_values = dict(_p_values(questions, weighed))
    is_narrow = terms.tolerance is not None and terms.tolerance < NARROW
    if len(p_values) < 2 or (len(p_values) <= MOST_UNCORRECTED and not is_narrow):
        return found
    are_found = discoveries([*p_values.values()], 1 - terms.confidence)
    for i, is_found in zip(p_values, are_found, strict=True):
        one = found[i]
        if isinstance(one, ChangeResult) and one.outcome == "fail":
            confirmed = is_found or terms.strict or one.new_runs >= RUNS_TO_CONFIRM
            outcome: Outcome = "fail" if confirmed else "undecided"
            found[i] = replace(one, outcome=outcome, suspect=not confirmed, family=len(p_values))
    return found


def _p_values(questions: Sequence[Question], weighed: Sequence[Result]) -> Iterator[tuple[int, float]]:
    """Yield the index and the p-value of each change that is one of many, except of those that were not measured."""
    for i, (question, found) in enumerate(zip(questions, weighed, strict=True)):
        if isinstance(question, ChangeQuestion) and isinstance(found, ChangeResult) and question.is_one_of_many:
            p = p_beyond(found, question.terms)
            if p is not None and found.outcome != "error" and not _decides("measured-less", found):
                yield i, p


def p_beyond(result: ChangeResult, terms: ChangeTerms) -> float | None:
    """Return the p-value of a change this bad if the true change equals the tolerance; None without an interval.

    It is at most 1 - confidence exactly if the interval is beyond the tolerance.
    """
    d, error, df = result.log_change, result.standard_error, result.degrees_of_freedom
    if result.reason == "thin-tail" or d is None or not error or df is None or result.tolerance is None:
        return None
    margin = Margin.of_ratio(result.tolerance, terms.worse)
    above, below = t_tail(df, (d - margin.up) / error), t_tail(df, (margin.down - d) / error)
    return {"up": above, "down": below, "either": min(above, below)}[terms.worse]


def _decides(reason: str, found: Result) -> bool:
    return any(doubt.decides and doubt.reason == reason for doubt in found.doubts)


def _ranked(question: Question, found: Result) -> Result:
    """Return the answer, or the one of the strongest doubt that changes it. A broken limit stays broken."""
    if found.outcome == "fail" and not isinstance(question, ChangeQuestion):
        return found
    strict = isinstance(question, LimitQuestion | ChangeQuestion) and question.terms.strict
    for rank in _RANKS:
        if _answer(found) in rank.changes and _decides(rank.reason, found):
            outcome = rank.gives_strictly if strict else rank.gives
            return replace(found, outcome=outcome, reason=rank.reason, suspect=outcome == "undecided")
    return found


def _answer(found: Result) -> _Answer:
    """Return the outcome, with open answers apart from suspicions."""
    if found.outcome == "undecided":
        return "suspect" if found.suspect else "open"
    return found.outcome


def _settled(found: Result, exceptions: Exceptions) -> Result:
    """Return the answer; an open one becomes a pass, or the outcome that the rule's author wants instead."""
    if _answer(found) != "open":
        return found
    policy = exceptions.on_open or ("error" if found.reason == "thin-tail" else "warn")
    if policy == "warn" and found.reason in BROKEN_PROMISES:
        policy = "error"  # a pass promises to exclude `at_worst`
    # The outcome `undecided` exits with 3, as an error does.
    outcomes: dict[str, Outcome] = {"warn": "pass", "error": "undecided", "fail": "fail"}
    return replace(found, outcome=outcomes[policy])


def _excepted(found: Result, exceptions: Exceptions) -> Result:
    """Return the answer under the settings about improvements, expected failures and quarantine; errors stay errors."""
    if found.outcome == "error":
        return found
    if exceptions.improvement_fails and isinstance(found, ChangeResult) and found.improved:
        found = replace(found, outcome="fail", reason="improved")
    if exceptions.failure_expected:
        return replace(found, outcome="skipped", reason="expected-failure", otherwise=found.outcome)
    return replace(found, quarantine=exceptions.quarantine)
