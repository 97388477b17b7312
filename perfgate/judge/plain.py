"""The judge for plain numbers: `judge_change` and `judge_limit` decide as `perfgate check` would from numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from perfgate.core import Better, Comparator, Key, Run, Series
from perfgate.core.results import LOOKS, ChangeResult, LimitResult
from perfgate.judge.decide.outcome import decide
from perfgate.judge.derived import RunView
from perfgate.judge.doubts.amounts import amount_doubts, disagreement, gains
from perfgate.judge.doubts.starts import FEWEST_PAIRS, breaks_with_start, mean_doubts, start_doubts
from perfgate.judge.measure import Members, Method
from perfgate.judge.pairs import PRIORS, Pairing, paired_ratios
from perfgate.judge.question import ChangeQuestion, LimitQuestion, MeasuredSide
from perfgate.judge.terms import ChangeTerms, LimitTerms
from perfgate.stats.history import DEFAULT
from perfgate.stats.statistics import describe, parse_statistic, warmup_for
from perfgate.stats.steady import RunValues, WarmUpRule, steady_run


def judge_change(
    base: Sequence[RunValues],
    new: Sequence[RunValues],
    *,
    statistic: str = "median",
    tolerance: float | None = None,
    tolerance_absolute: float | None = None,
    at_worst: float | None = None,
    at_worst_absolute: float | None = None,
    better: Better = "lower",
    two_sided: bool = False,
    pairing: Pairing | None = None,
    looks: int = LOOKS,
    confidence: float = 0.95,
    power: float = 0.8,
    warmup: WarmUpRule = "auto",
    prior: tuple[float, float] | None = None,
    strict: bool = False,
    exact: bool = False,
    min_samples: int = 1,
) -> ChangeResult:
    """Decide whether new runs are worse than base runs by more than a tolerance, as `perfgate check` does.

    Parameters
    ----------
    base, new
        The runs: sequences of times (rates if higher is better) in order of time, in one unit, or single numbers.
    statistic
        The statistic of each run: `median`, `mean`, `p95`, ...
    tolerance, tolerance_absolute
        The tolerated change, relative (.05 is 5 %) and in the unit of the values; a failure exceeds both.
    at_worst, at_worst_absolute
        The change that must be excluded before the answer may be green: relative, and in the unit of the values. None
        is twice the tolerance of that kind.
    better
        The better direction, or `neither` to judge both.
    two_sided
        True to judge both directions.
    pairing
        None for separate runs. Of pairs, `base[i]` and `new[i]` were measured together: steps by turns in
        `one-process` or in two (`in-turn`), or `whole-runs` by turns. Their tolerance is at least 1 %.
    looks
        How many new runs, or pairs, there may be in all. The look is the number of new runs.
    confidence
        The confidence of the one-sided interval, between .5 and 1.
    power
        The power of the minimum detectable change, between 0 and 1.
    warmup
        `auto`, or the number of values to drop at the start of each run.
    prior
        The known noise (s0, d0) between runs, or between pairs; see `calibrate_prior`. None if it is unknown.
    strict
        True to fail a suspicion.
    exact
        True to compare values without noise if all runs of each side are equal.
    min_samples
        The fewest values after warm-up.

    Returns
    -------
    The outcome with the change and its interval. `pass` excludes a change of `at_worst`. After `undecided`, run the
    new code once more, up to `looks` runs. Bad data gives the outcome `error`, never an exception.

    Raises
    ------
    ValueError
        For a bad option, and for pairs whose sides have different lengths.
    """
    if pairing is not None and pairing not in PRIORS:
        raise ValueError(f"pairing is one of {', '.join(PRIORS)}, not {pairing!r}")
    if pairing is not None and len(base) != len(new):
        raise ValueError(f"pairs have two sides: there are {len(base)} base runs and {len(new)} new ones")
    terms = ChangeTerms(
        statistic=statistic,
        tolerance=tolerance,
        tolerance_absolute=tolerance_absolute,
        at_worst=at_worst,
        at_worst_absolute=at_worst_absolute,
        better=better,
        two_sided=two_sided,
        confidence=confidence,
        power=power,
        warmup=warmup,
        prior=prior or ((DEFAULT.s0, DEFAULT.d0) if pairing is None else PRIORS[pairing]),
        noise_known=prior is not None,
        looks=tuple(range(1, looks + 1)),
        strict=strict,
        exact=exact,
        min_samples=min_samples,
    )
    method = Method(statistic, warmup, better)
    stored, found = _measured(base, method), _measured(new, method)
    question = ChangeQuestion(terms, stored, found)
    if base and new:
        question = _with_doubts(question, method, pairing, calibrated=prior is not None)
    return cast(ChangeResult, decide([question])[0])


def _with_doubts(
    question: ChangeQuestion, method: Method, pairing: Pairing | None, *, calibrated: bool
) -> ChangeQuestion:
    """Return the question with the ratios of pairs, and with the doubts that plain numbers show."""
    base, new, terms = question.base, question.new, question.terms
    ratios = None if pairing is None else tuple(paired_ratios(base, new, terms.statistic, pairing))
    is_told = ratios is None or len(ratios) >= FEWEST_PAIRS
    doubts = [*start_doubts(_members(new), _members(base), method, hides=True)] if is_told else []
    doubts += (*amount_doubts(base, new, method), *gains(base, new, method.better))
    doubts += mean_doubts(base, new, terms)
    doubts += disagreement(base, new, ratios, terms, calibrated=calibrated)
    return ChangeQuestion(terms, base, new, ratios=ratios, doubts=tuple(doubts))


def judge_limit(
    new: Sequence[RunValues],
    *,
    statistic: str = "median",
    bound: float,
    comparator: Comparator = "under",
    confidence: float = 0.95,
    warmup: WarmUpRule = "auto",
    prior: tuple[float, float] = (0.01, 2.0),
    min_samples: int = 1,
    strict: bool = False,
    at_worst: float | None = None,
) -> LimitResult:
    """Compare a statistic of runs with a bound, as `perfgate check` does for values without noise between runs.

    `check` also knows or assumes noise between runs: there, one run just beyond the bound is undecided, and here it
    fails. `check` compares counts and sizes without noise if they are equal.

    Parameters
    ----------
    new
        The runs: sequences of numbers in order of time, in one unit, or single numbers.
    statistic
        The statistic of each run: `median`, `mean`, `p95`, ...
    bound
        The bound, in the unit of the values.
    comparator
        `under` or `at most` for an upper bound, `over` or `at least` for a lower one.
    confidence
        The confidence of the one-sided interval, between .5 and 1. The interval of one run does not include the noise
        between runs.
    warmup
        `auto`, or the number of values to drop at the start of each run. `auto` drops nothing for `max`, `total` and
        `count`, which are facts about the whole run.
    prior
        (s0, d0) of the noise; only d0, the prior degrees of freedom, is used.
    min_samples
        The fewest values after warm-up.
    strict
        True to fail a suspicion: an estimate on the bad side, with an interval that includes the bound.
    at_worst
        A value beyond the bound, in the unit of the values. If the interval reaches it, the outcome is `undecided`
        with the reason `cannot-exclude`.

    Returns
    -------
    The outcome with the estimate and its interval. Bad data gives the outcome `error`, never an exception.

    Raises
    ------
    ValueError
        For a bad option.
    """
    terms = LimitTerms(
        statistic=statistic,
        bound=bound,
        comparator=comparator,
        confidence=confidence,
        warmup=warmup,
        prior=prior,
        min_samples=min_samples,
        strict=strict,
        at_worst=at_worst,
    )
    method = Method(statistic, warmup, terms.better)
    side = _measured(new, method)
    doubts = start_doubts(_members(side), (), method, hides=breaks_with_start(side, terms)) if new else ()
    dropped = warmup_for(statistic, warmup)
    runs = tuple(steady_run(run, dropped, terms.better) for run in new)
    return cast(LimitResult, decide([LimitQuestion(terms, runs, side, tuple(doubts))])[0])


def _measured(runs: Sequence[RunValues], method: Method) -> MeasuredSide:
    """Return the runs of one side, measured as those of a rule are."""
    unit = "1/s" if method.better == "higher" else "s"  # only times and rates have a warm-up that can grow
    series = tuple(_series(run, unit) for run in runs)
    views = tuple(RunView(Run("", "", (one,)), {}) for one in series)
    statistic, warmup = parse_statistic(method.statistic), warmup_for(method.statistic, method.warmup)
    # A single number is its statistic, whatever that is.
    measures = tuple(describe(steady_run(run, warmup, method.better), statistic) for run in runs)
    return MeasuredSide(views, ((),) * len(series), series, measures)


def _series(values: RunValues, unit: str) -> Series:
    run = steady_run(values, 0)
    return Series(Key("values"), unit, "value" if run.single else "samples", run.values)


def _members(side: MeasuredSide) -> list[Members]:
    return [{(): series} for series in side.series if series.kind == "samples"]
