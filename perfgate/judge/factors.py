"""Code or environment? The effects of both on the metric of a verdict, and one word for them. They decide nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from perfgate.core import Report, Verdict
from perfgate.core.calculations import MIXED, Attribution, Changed, FactorEffect, Mixed
from perfgate.core.verdicts import verdict_ids
from perfgate.stats.two_factors import LogEffect, TwoFactors, two_factors

#: The probability, for each effect, that one of the intervals after each repetition is wrong.
ERROR_RATE = 0.01
#: An effect counts if it is clear, and at least this share of the tolerance.
_LEAST_SHARE = 0.5


def with_attributions(report: Report, mixed: Mapping[Mixed, Report], most: int) -> Report:
    """Return the report with the effects of code and environment beside each comparison with the base.

    `report`: the judged pairs of old and new. `mixed`: the judged pairs of the same bases with `new-code` (in the old
    environment) and with `new-environment` (with the old code); one may be missing. `most`: the planned number of
    repetitions.
    """
    known = {cell: dict(zip(verdict_ids(one.verdicts), one.verdicts, strict=True)) for cell, one in mixed.items()}
    found = []
    for name, verdict in zip(verdict_ids(report.verdicts), report.verdicts, strict=True):
        sides = {"base": _values(verdict, "base"), "new": _values(verdict, "new")}
        sides |= {cell: _values(verdicts[name], "new") for cell, verdicts in known.items() if name in verdicts}
        found.append(replace(verdict, attribution=attribution(verdict, sides, most)))
    return replace(report, verdicts=tuple(found))


def _values(verdict: Verdict, side: str) -> list[float | None]:
    return [run.estimate for run in verdict.runs if run.side == side]


def attribution(verdict: Verdict, values: Mapping[str, Sequence[float | None]], most: int) -> Attribution | None:
    """Return the effects of both factors; None without a judged change, or for too few values.

    `values`: those of the metric, by cell (`stats.two_factors`) and repetition. `most`: as in `with_attributions`.
    """
    logs = {cell: [math.log(one) for one in row if one is not None and one > 0] for cell, row in values.items()}
    # One length: each repetition has, in each cell, a value with a logarithm.
    lengths = {*map(len, values.values()), *map(len, logs.values())}
    effects = two_factors(logs, most, ERROR_RATE) if len(lengths) == 1 else None
    if effects is None or verdict.change is None or verdict.tolerance is None:
        return None
    tolerance = math.log1p(verdict.tolerance)
    code, environment, interaction = effects.code, effects.environment, effects.interaction
    large = [one for one in (code, environment) if _is_large(one, tolerance)]
    return Attribution(
        _word(effects, large, verdict),
        _relative(code),
        _relative(environment),
        _relative(interaction) if interaction and _is_large(interaction, tolerance) else None,
        repetitions=len(logs["base"]),
        confidence=1 - ERROR_RATE,
        settled=all(one in large or max(-one.low, one.high) < tolerance for one in (code, environment)),
        missing=next((cell for cell in MIXED if cell not in logs), None),
    )


def _is_large(effect: LogEffect, tolerance: float) -> bool:
    return effect.is_clear and abs(effect.estimate) >= _LEAST_SHARE * tolerance


def _word(effects: TwoFactors, large: Sequence[LogEffect], verdict: Verdict) -> Changed:
    """Return which factors have a large effect; `unclear` if none has, although the metric is worse."""
    if large:
        return "both" if len(large) == 2 else "code" if effects.code in large else "environment"
    return "unclear" if verdict.outcome == "fail" or verdict.suspect else "neither"


def _relative(effect: LogEffect) -> FactorEffect:
    return FactorEffect(*(math.expm1(one) for one in (effect.estimate, effect.low, effect.high)))
